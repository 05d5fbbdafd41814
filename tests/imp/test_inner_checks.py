"""Maps around loops that look into tables at places that are checked: the checks are made first, the rest in lanes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

ALIGN = """
def f [k][b][n][m] (sub: [k][k]f64) (gap: f64) (xs: [b][n]i64) (ys: [b][m]i64): f64 =
  let align (x: [n]i64) (y: [m]i64) =
    let last = loop prev = replicate (m + 1) 0f64 for i < n do
      loop cur = replicate (m + 1) 0f64 for j < m do
        let p = prev[j] + sub[x[i], y[j]]
        let q = cur[j] - gap
        let t = f64.max p q
        in cur with [j+1] = t + f64.log (f64.exp (p - t) + f64.exp (q - t) + f64.exp (-t))
    in f64.sum last
  in f64.sum (map2 align xs ys)
"""
WALK = """
def f [k][b][n][m] (sub: [k][k]f64) (gap: f64) (xs: [b][n]i64) (ys: [b][m]i64): f64 =
  let walk (x: [n]i64) (y: [m]i64) =
    loop s = 0 for i < n do
      let s = f64.exp (-s * s) + f64.sin (s + sub[x[i], x[n - 1 - i]])
      in loop s = s for j < m do f64.log (2 + f64.cos s) + f64.exp (-gap * s) * sub[x[i], y[j]]
  in f64.sum (map2 walk xs ys)
"""
ENTRIES = """
entry main [k][b][n][m] (sub: [k][k]f64) (gap: f64) (xs: [b][n]i64) (ys: [b][m]i64) = f sub gap xs ys
entry back [k][b][n][m] (sub: [k][k]f64) (gap: f64) (xs: [b][n]i64) (ys: [b][m]i64) =
  vjp (\\(sub, gap) -> f sub gap xs ys) (sub, gap) 1
"""
PROGRAMS = {"align": ALIGN, "walk": WALK}
PAIRS = """
entry main [m][d][n] (xs: [m][d]f64) (ws: [n]f64) (is: [n]i64) (js: [n]i64) : ([m][d]f64, [n]f64) =
  vjp (\\(xs, ws) ->
         f64.sum (map3 (\\i j w -> f64.sum (map2 (\\a b -> f64.exp (-a * a * w) * b) xs[i] xs[j])) is js ws))
    (xs, ws) 1
"""


@functools.cache
def compiled(name: str, backend: str) -> Any:
    return futad.compile(PROGRAMS[name] + ENTRIES, backend=backend)


def arguments(k: int, b: int, n: int, m: int) -> list[Any]:
    rng = np.random.default_rng(b)
    return [rng.normal(size=(k, k)), 0.4, rng.integers(0, k, (b, n)), rng.integers(0, k, (b, m))]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_checks_are_made_first(name: str) -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(PROGRAMS[name] + ENTRIES), target=C))
    assert counts["checks-first"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives(name: str, backend: str) -> None:
    """Lanes add to one place of the table's adjoint at once: of three places there are for so many."""
    made, expected = compiled(name, backend), compiled(name, "interp")
    for k, b, n, m in ((3, 0, 2, 2), (3, 1, 1, 1), (1, 17, 5, 4), (2, 33, 4, 6), (3, 40, 0, 3), (3, 5, 3, 0)):
        args = arguments(k, b, n, m)
        np.testing.assert_allclose(made.main(*args), expected.main(*args), rtol=1e-11)
        for x, y in zip(made.back(*args), expected.back(*args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_place_out_of_range_is_told(name: str) -> None:
    for at, place in ((3, (20, 2)), (2, (33, 3)), (3, (0, 0))):
        args = arguments(3, 40, 4, 5)
        args[at][place] = 7 + at
        args[3][39, 4] = -5
        with pytest.raises(futad.errors.BoundsError, match=rf"Index \[{7 + at}\] out of bounds"):
            compiled(name, "c").main(*args)


@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_lanes_add_to_rows_that_they_share(backend: str) -> None:
    """The forward sweep has checked the places, so that the return sweep adds to them without a check."""
    made, expected = futad.compile(PAIRS, backend=backend), futad.compile(PAIRS, backend="interp")
    rng = np.random.default_rng(3)
    for m, d, n in ((1, 1, 4), (2, 3, 64), (3, 2, 70), (2, 8, 33), (2, 0, 40), (2, 2, 0)):
        args = rng.normal(size=(m, d)), rng.random(n), rng.integers(0, m, n), rng.integers(0, m, n)
        for x, y in zip(made.main(*args), expected.main(*args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
