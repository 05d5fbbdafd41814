"""Maps in lanes around inner loops that take two arrays in turns, and around large ones."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

SOLVE = """
def density [d][k][n] (mu: [k][d]f64) (chol: [k][d][d]f64) (xs: [n][d]f64): f64 =
  let solve (l: [d][d]f64) (b: [d]f64): [d]f64 =
    loop y = replicate d 0 for i < d do y with [i] = (b[i] - f64.sum (map2 (*) l[i] y)) / l[i, i]
  let one x m l = -f64.sum (map (** 2) (solve l (map2 (-) x m)))
  in f64.sum (map (\\x -> f64.log (f64.sum (map f64.exp (map2 (one x) mu chol)))) xs)
entry main [d][k][n] (mu: [k][d]f64) (chol: [k][d][d]f64) (xs: [n][d]f64) =
  vjp2 (\\(mu, chol) -> density mu chol xs) (mu, chol) 1
"""
TURNS = """
entry main [n][d] (t: i64) (xs: [n][d]f64): [n][d]f64 =
  map (\\x -> loop v = x for _i < t do map (\\i -> f64.exp (-v[i]) + 0.1 * v[(i + 1) % d]) (iota d)) xs
"""
ORBITS = """
def orbits [n] (lam: f64) (q: [n][2]f64): f64 =
  let force (x: f64) (y: f64) = (-x - 2 * lam * x * y, -y - lam * (x * x - y * y))
  let orbit (q: [2]f64) =
    let (x, y, _, _) = loop (x, y, px, py) = (q[0], q[1], 0.1, -0.1) for _i < 5 do
      let (fx, fy) = force x y
      let (px, py) = (px + 0.025 * fx, py + 0.025 * fy)
      let (x, y) = (x + 0.05 * px, y + 0.05 * py)
      let (fx, fy) = force x y
      in (x, y, px + 0.025 * fx, py + 0.025 * fy)
    in x * x + y * y
  in f64.sum (map orbit q)
entry main [n] (lam: f64) (q: [n][2]f64) = vjp2 (\\(lam, q) -> orbits lam q) (lam, q) 1
"""


def fires(text: str, name: str) -> int:
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=C))
    return counts[name]


def agree(text: str, *inputs: tuple) -> None:
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore"))
    for args in inputs:
        wanted = expected.main(*args)
        for made in others:
            flat = zip(leaves(made.main(*args)), leaves(wanted), strict=True)
            for a, b in flat:
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def leaves(v: object) -> list:
    return [x for part in v for x in leaves(part)] if isinstance(v, tuple) else [v]


@pytest.mark.slow
def test_triangular_systems() -> None:
    """The return sweep's adjoint of y goes back and forth between two arrays."""
    assert fires(SOLVE, "short-inner-loops")
    rng = np.random.default_rng(1)
    inputs = []
    for n, k, d in ((0, 2, 3), (1, 1, 1), (16, 2, 1), (37, 3, 5), (64, 1, 8), (37, 2, 9), (5, 0, 2), (20, 2, 0)):
        chol = 0.2 * np.tril(rng.normal(size=(k, d, d))) + np.eye(d)
        inputs.append((rng.normal(size=(k, d)), chol, 0.5 * rng.normal(size=(n, d))))
    agree(SOLVE, *inputs)


@pytest.mark.slow
def test_turns() -> None:
    rng = np.random.default_rng(2)
    sizes = ((0, 3, 2), (1, 1, 1), (33, 4, 0), (33, 4, 1), (50, 8, 2), (50, 8, 3), (40, 9, 3))
    agree(TURNS, *[(t, rng.normal(size=(n, d))) for n, d, t in sizes])


@pytest.mark.slow
def test_large_iterations() -> None:
    """The return sweep of an integrator's step is more than a hundred operations."""
    assert fires(ORBITS, "outer-loop-vectorisation")
    rng = np.random.default_rng(3)
    agree(ORBITS, *[(0.8, rng.normal(size=(n, 2))) for n in (0, 1, 3, 32, 45)])
