"""Maps of short rows inside other maps run in lanes, too: cells of a lattice, pixels with classes."""

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

CELLS = """
def value [n][m][q] (x: [n][m][q]f64): f64 =
  let step i j =
    let e = map (\\c -> f64.exp (x[(i + 1) % n, j, c] - x[i, (j + m - 1) % m, c])) (iota q)
    let s = f64.sum e
    in map (/ s) e
  let y = tabulate_2d n m step
  let total v = f64.sum (map2 (*) v (map f64.i64 (iota q)))
  in f64.sum (map2 (\\a i -> f64.i64 i * f64.sum (map total a)) y (iota n))
entry main [n][m][q] (x: [n][m][q]f64): f64 = value x
entry back [n][m][q] (x: [n][m][q]f64): [n][m][q]f64 = vjp value x 1
"""
CHECKED = """
entry main [n][m][q] (x: [n][m][q]f64) (at: [n][m]i64): [n][m]f64 =
  map2 (map2 (\\v k -> f64.log (f64.sum (map f64.exp v)) + v[k])) x at
"""

# However many triangles there are, a pixel's lane reads what all pixels read.
PIXELS = """
def value [t] (w: i64) (tri: [t][3][2]f64): f64 =
  let inside x y (p: [3][2]f64) =
    let edge i j = (p[j, 0] - p[i, 0]) * (y - p[i, 1]) - (p[j, 1] - p[i, 1]) * (x - p[i, 0])
    in 1 / (1 + f64.exp (-(f64.min (edge 0 1) (f64.min (edge 1 2) (edge 2 0)))))
  let pixel i j = f64.product (map (\\p -> 1 - inside (f64.i64 i / 8) (f64.i64 j / 8) p) tri)
  in f64.sum (map (\\i -> f64.sum (map (\\j -> (pixel i j - f64.i64 (i % 2)) ** 2) (iota 19))) (iota w))
entry main [t] (w: i64) (tri: [t][3][2]f64): f64 = value w tri
entry back [t] (w: i64) (tri: [t][3][2]f64): [t][3][2]f64 = vjp (value w) tri 1
"""


def test_nested_rows_are_in_lanes() -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(CELLS), target=C))
    assert counts["short-inner-loops"] == 1


@pytest.mark.slow
def test_long_records_that_all_iterations_read() -> None:
    expected, *others = (futad.compile(PIXELS, backend=b) for b in ("interp", "c", "multicore"))
    made = CBackend(compile_program(compile_text(PIXELS), target=C)).source
    assert "double lanes_" in made and "<= 8)" not in made  # whatever their number is
    rng = np.random.default_rng(3)
    for t, w in ((0, 20), (1, 16), (9, 15), (9, 37), (40, 33), (3, 0)):
        tri = rng.normal(size=(t, 3, 2))
        for special in (0.0, 0.5, np.nan):
            if t:
                tri[t // 2, 1] = special
            for other in others:
                for entry in ("main", "back"):
                    a, b = (getattr(p, entry)(w, tri) for p in (expected, other))
                    np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
def test_values_and_gradients() -> None:
    expected, *others = (futad.compile(CELLS, backend=b) for b in ("interp", "c", "multicore"))
    rng = np.random.default_rng(1)
    for shape in ((0, 3, 2), (2, 0, 2), (1, 1, 1), (3, 15, 4), (2, 16, 8), (3, 37, 3), (20, 33, 9), (4, 20, 0)):
        x = rng.normal(size=shape)
        for special in (0.0, np.nan, np.inf):
            if x.size:
                x.flat[x.size // 2] = special
            for made in others:
                for entry in ("main", "back"):
                    a, b = (getattr(p, entry)(x) for p in (expected, made))
                    np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_checks_inside_fail_as_ever() -> None:
    x, at = np.random.default_rng(2).normal(size=(3, 40, 4)), np.zeros((3, 40), int)
    expected = futad.compile(CHECKED, backend="interp").main(x, at)
    for backend in ("c", "multicore"):
        program = futad.compile(CHECKED, backend=backend)
        np.testing.assert_allclose(program.main(x, at), expected, rtol=1e-13)
        for bad in (-1, 4):
            at[2, 39] = bad
            with pytest.raises(BoundsError):
                program.main(x, at)
            at[2, 39] = 0
