"""Maps around short loops that make checks: these come first, and fail as ever."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.errors import BoundsError
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

LABELS = """
def loss [n][c] (z: [n][c]F) (y: [n]i64): F =
  let one row l =
    let m = F.maximum row
    in m + F.log (F.sum (map (\\v -> F.exp (v - m)) row)) - row[l]
  in F.sum (map2 one z y)
entry value [n][c] (z: [n][c]F) (y: [n]i64): F = loss z y
entry back [n][c] (z: [n][c]F) (y: [n]i64): [n][c]F = vjp (\\z -> loss z y) z 1
"""
LINEAR = """
def loss [n][d][c] (w: [c][d]f64) (b: [c]f64) (x: [n][d]f64) (y: [n]i64): f64 =
  let one row l =
    let z = map2 (\\v bi -> f64.sum (map2 (*) v row) + bi) w b
    let m = f64.maximum z
    in m + f64.log (f64.sum (map (\\v -> f64.exp (v - m)) z)) - z[l]
  in f64.sum (map2 one x y)
entry value [n][d][c] (w: [c][d]f64) (b: [c]f64) (x: [n][d]f64) (y: [n]i64): f64 = loss w b x y
entry back [n][d][c] (w: [c][d]f64) (b: [c]f64) (x: [n][d]f64) (y: [n]i64): ([c][d]f64, [c]f64) =
  vjp (\\(w, b) -> loss w b x y) (w, b) 1
"""
INSIDE = """
entry value [n][c] (z: [n][c]f64) (x: [4]f64): [n]f64 =
  map (\\row -> let s = f64.sum (map f64.exp row) in f64.log s + x[i64.f64 s]) z
"""


def fires(text: str) -> int:
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=C))
    return counts["short-inner-loops"]


@pytest.mark.slow
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_labels(t: str) -> None:
    text = LABELS.replace("F", t)
    assert fires(text)
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore"))
    rng, dtype = np.random.default_rng(1), np.dtype(f"float{t[1:]}")
    for n, c in ((0, 3), (1, 1), (15, 3), (16, 1), (37, 5), (64, 8), (37, 9), (20, 16), (20, 17)):
        z, y = (3 * rng.normal(size=(n, c))).astype(dtype), rng.integers(0, c, n)
        for made in others:
            for entry in ("value", "back"):
                a, b = (getattr(p, entry)(z, y) for p in (expected, made))
                np.testing.assert_allclose(b, a, rtol=3e-5 if t == "f32" else 1e-12, atol=1e-6 if t == "f32" else 1e-13)
        for bad in ([0], [n - 1], [n // 2, n - 1]) if n else ():
            wrong = y.copy()
            wrong[bad] = [c + k for k in range(len(bad))]
            messages = []
            for made in (expected, *others):
                with pytest.raises(BoundsError) as e:
                    made.value(z, wrong)
                messages.append(str(e.value))
            assert len(set(messages)) == 1  # that of the first iteration that fails


@pytest.mark.slow
def test_rows_of_a_product() -> None:
    """The gradient of b is folded into by each iteration."""
    assert fires(LINEAR) == 2
    expected, *others = (futad.compile(LINEAR, backend=b) for b in ("interp", "c", "multicore"))
    rng = np.random.default_rng(2)
    for n, d, c in ((0, 2, 3), (5, 3, 2), (16, 1, 1), (40, 3, 8), (150, 7, 9), (20_000, 4, 7)):
        args = rng.normal(size=(c, d)), rng.normal(size=c), rng.normal(size=(n, d)), rng.integers(0, c, n)
        for made in others:
            np.testing.assert_allclose(made.value(*args), expected.value(*args), rtol=1e-12)
            for a, b in zip(expected.back(*args), made.back(*args), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-11)


def test_what_loops_inside_compute_is_checked_after_them() -> None:
    assert not fires(INSIDE)
    expected, made = (futad.compile(INSIDE, backend=b) for b in ("interp", "c"))
    z, x = np.log(np.linspace(0.1, 0.9, 40)).repeat(3).reshape(40, 3), np.arange(4.0)
    np.testing.assert_allclose(made.value(z, x), expected.value(z, x), rtol=1e-12)
    for p in (expected, made):
        with pytest.raises(BoundsError, match=r"Index \[4\] out"):
            p.value(z + 0.6, x)


@pytest.mark.parametrize(("sizes", "short"), [("[n][n]", 0), ("[n][m]", 1)])
def test_loops_as_long_as_the_map_are_not_short(sizes: str, short: int) -> None:
    names = "[n]" if sizes == "[n][n]" else sizes
    row = "let s = f64.sum r in f64.log (f64.sum (map (\\v -> f64.exp (v - s)) r))"
    assert fires(f"entry main {names} (x: {sizes}f64): [n]f64 = map (\\r -> {row}) x") == short
