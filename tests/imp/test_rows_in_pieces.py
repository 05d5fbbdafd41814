"""Arrays of rows that are turned: maps read the rows where they lie, and reverse mode turns the adjoint back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import futad
from futad import checks
from futad.backend.c import CBackend
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import MULTICORE, C

TARGETS = [C, replace(MULTICORE, threads=2)]

# A step on a grid whose opposite sides are neighbours, and a loss of where it ends.
GRID = """
def step [n][m] (u: [n][m]f64): [n][m]f64 =
  let beside = map2 (map2 (\\a b -> a + 0.5 * b)) (rotate 1 u) (rotate (-1) u)
  let inside = map2 (map2 (+)) (map (rotate 1) u) (map (rotate (-2)) u)
  in map3 (map3 (\\x a b -> 0.5 * x + 0.125 * (a - b) + 0.01 * x * a)) u beside inside
def loss [n][m] (k: i64) (u: [n][m]f64): f64 =
  f64.sum (map f64.sum (map (map (\\x -> x * x)) (loop u for _i < k do step u)))
entry steps [n][m] (u: [n][m]f64) (k: i64): [n][m]f64 = loop u for _i < k do step u
entry value [n][m] (u: [n][m]f64) (k: i64): f64 = loss k u
entry back [n][m] (u: [n][m]f64) (k: i64): [n][m]f64 = vjp (loss k) u 1
"""
# Rows that are not all in one place, or not alike there, and an array that is overwritten before it is read.
OTHERS = """
entry two [n][m] (u: [n][m]f64) (v: [n][m]f64): [][m]f64 = map (map (* 3)) (u[1:] ++ v[:1])
entry three [n][m] (u: [n][m]f64) (_v: [n][m]f64): [][m]f64 = map (map (* 3)) (u[2:] ++ u[:1] ++ u)
entry columns [n] (u: [n][n]f64) (_v: [n][n]f64): [][n]f64 = map (map (+ 1)) (u[1:] ++ transpose u)
entry overwritten [n][m] (u: [n][m]f64) (v: [n][m]f64): [n][m]f64 =
  let w = map2 (map2 (+)) u v
  let t = rotate 1 w
  let w = w with [0] = v[0]
  in map2 (map2 (\\a b -> a - 2 * b)) t w
entry returned [n][m] (u: [n][m]f64) (v: [n][m]f64): ([n][m]f64, [n][m]f64) =
  let w = map2 (map2 (+)) u v
  let t = rotate (-1) w
  in (map (map (* 2)) t, t)
"""
SHAPES = ((1, 1), (2, 3), (5, 4), (3, 17), (40, 40))


def expected(u: np.ndarray, k: int) -> np.ndarray:
    for _ in range(k):
        beside = np.roll(u, -1, 0) + 0.5 * np.roll(u, 1, 0)
        inside = np.roll(u, -1, 1) + np.roll(u, 2, 1)
        u = 0.5 * u + 0.125 * (beside - inside) + 0.01 * u * beside
    return u


@pytest.mark.parametrize("target", TARGETS, ids=["c", "multicore"])
def test_nothing_is_copied(target) -> None:
    """What is turned is read where it lies."""
    with counting() as counts:
        source = CBackend(compile_program(compile_text(GRID), target=target)).source
    assert counts["rows-in-pieces"] and counts["turned-back"]
    assert "double *const rot_" not in source


@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_grids(backend: str) -> None:
    made = futad.compile(GRID, backend=backend)
    for shape in SHAPES:
        u = np.random.default_rng(shape[0]).normal(size=shape)
        for k in (0, 1, 4):
            np.testing.assert_allclose(made.steps(u, k), expected(u, k), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_gradients_are_differences(backend: str) -> None:
    made = futad.compile(GRID, backend=backend)
    for shape in SHAPES:
        u, direction = np.random.default_rng(shape[1]).normal(size=(2, *shape))
        got = (np.asarray(made.back(u, 3)) * direction).sum()
        ahead, behind = ((expected(u + h * direction, 3) ** 2).sum() for h in (1e-5, -1e-5))
        np.testing.assert_allclose(got, (ahead - behind) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_rows_elsewhere(backend: str) -> None:
    made = futad.compile(OTHERS, backend=backend)
    u, v = np.random.default_rng(1).normal(size=(2, 5, 5))
    w = u + v
    np.testing.assert_array_equal(made.two(u, v), 3 * np.concatenate([u[1:], v[:1]]))
    np.testing.assert_array_equal(made.three(u, v), 3 * np.concatenate([u[2:], u[:1], u]))
    np.testing.assert_array_equal(made.columns(u, v), 1 + np.concatenate([u[1:], u.T]))
    np.testing.assert_allclose(made.overwritten(u, v), np.roll(w, -1, 0) - 2 * np.concatenate([v[:1], w[1:]]))
    for got, right in zip(made.returned(u, v), (2 * np.roll(w, 1, 0), np.roll(w, 1, 0)), strict=True):
        np.testing.assert_allclose(got, right)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=["c", "multicore"])
@pytest.mark.parametrize("text", [GRID, OTHERS], ids=["grid", "others"])
def test_in_checked_memory(text: str, target) -> None:
    """Nobody overwrites rows that are still to be read."""
    carries = frozenset({checks.MEMORY})
    made = CBackend(compile_program(compile_text(text), target=target), target, carries=carries)
    plain = CBackend(compile_program(compile_text(text), target=target), target)
    u, v = np.random.default_rng(2).normal(size=(2, 6, 6))
    for name, args in (
        [("steps", [6, 6, u, 3]), ("back", [6, 6, u, 3])]
        if text is GRID
        else [("two", [6, 6, u, v]), ("columns", [6, u, v]), ("overwritten", [6, 6, u, v]), ("returned", [6, 6, u, v])]
    ):
        for got, right in zip(made.run(name, args), plain.run(name, args), strict=True):
            np.testing.assert_array_equal(got, right)
