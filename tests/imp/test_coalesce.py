"""Nests over all elements of matrices as one loop: values are the interpreter's, whatever the length of rows."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

SOURCE = """
entry sums [n][m] (x: [n][m]f64) : f64 = f64.sum (map (\\row -> f64.sum (map (\\v -> f64.max 0 v ** 2) row)) x)
entry several [k][n][m] (x: [k][n][m]f32) (y: [k][n][m]f32) : [k](f32, f32) =
  map2 (\\a b -> let (s, t) = unzip (map2 (\\r q ->
    (f32.sum (map2 (\\u v -> f32.min u v) r q), f32.maximum (map2 (-) r q))) a b) in (f32.sum s, f32.maximum t)) x y
entry shifted [n][m] (c: f64) (x: [n][m]f64) (y: [n][m]f64) : [n][m]f64 =
  map2 (map2 (\\u v -> if u > c then v - c else u * v)) x y
entry gradient [n][m] (x: [n][m]f64) : [n][m]f64 =
  vjp (\\x -> f64.sum (map (\\row -> f64.sum (map (\\v -> f64.max 0 v ** 2) row)) x)) x 1
entry counts [n][m] (x: [n][m]i64) : i64 = i64.sum (map (\\row -> i64.sum (map (\\v -> i64.bool (v > 0)) row)) x)
entry into [n][m] (x: [n][m]f64) (y: *[n + 1][m]f64) : *[n + 1][m]f64 =
  y with [1:] = (map (map (+ 1)) x :> [n + 1 - 1][m]f64)
"""
SHAPES = [(0, 3), (3, 0), (1, 1), (5, 3), (2, 17), (40, 7), (9, 64)]


def fires(text: str) -> int:
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=C))
    return counts["loop-coalescing"]


@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_values(backend: str) -> None:
    assert fires(SOURCE) >= 5
    made, expected = [futad.compile(SOURCE, backend=b) for b in (backend, "interp")]
    rng = np.random.default_rng(1)

    def some(*shape: int) -> np.ndarray:
        return rng.integers(-5, 6, shape).astype(float)

    for n, m in SHAPES:
        odd = some(n, m)
        odd[n // 2 :, m // 2 :] = np.nan
        three = [some(3, n, m).astype(np.float32) for _ in range(2)]
        calls = [
            ("sums", some(n, m)), ("sums", odd), ("several", *three), ("shifted", 1.0, some(n, m), odd),
            ("gradient", some(n, m)), ("counts", some(n, m).astype(np.int64)), ("into", odd, some(n + 1, m)),
        ]  # fmt: skip
        for name, *args in calls:
            got, want = [getattr(p, name)(*[np.copy(a) for a in args]) for p in (made, expected)]
            for a, b in zip(np.atleast_1d(got), np.atleast_1d(want), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "body",
    [
        "[n] (x: [n][100]f64): f64 = f64.sum (map (\\r -> f64.sum (map f64.abs r)) x)",  # long rows
        "[n][m] (x: [n][m]f64): f64 = f64.sum (map (\\r -> f64.sqrt (f64.sum (map f64.abs r))) x)",
        "[n][m] (x: [n][m]f64) (b: [m]f64): [n][m]f64 = map (map2 (+) b) x",  # a row for all
        "[n][m] (x: [n][m]f32): f32 = f32.sum (map (\\r -> f32.sum (map f32.abs r)) x)",  # less exact
        "[n][m] (x: [n][m]f64): f64 = f64.sum (map (\\r -> f64.sum (map f64.abs r)) (transpose x))",
    ],
)
def test_others_stay(body: str) -> None:
    assert fires(f"entry main {body}") == 0
