"""Folds over pairs of rows in the tiles of matrix products: both tile shapes, beside sequential threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
def sqdist [d] (x: [d]f64) (y: [d]f64) = f64.sum (map2 (\\a b -> (a - b) * (a - b)) x y)

entry distances [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = map (\\x -> map (sqdist x) ys) xs
-- Two zeros change the sum; the operation is not symmetric, and the right rows come first in it.
entry cosines [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  map (\\x -> map (\\y -> f64.sum (map2 (\\b a -> f64.cos (a + 2 * b)) y x)) ys) xs
entry largest [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  map (\\x -> map (\\y -> f64.maximum (map2 (\\a b -> f64.exp (a - b)) x y)) ys) xs
entry smallest [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  map (\\x -> map (\\y -> f64.minimum (map2 (+) x y)) (transpose (transpose ys))) xs
entry products [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  map (\\x -> map (\\y -> f64.product (map2 (\\a b -> 1 + a * b / 8) x y)) ys) xs
entry columns [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  map (\\x -> map (sqdist x) (transpose ys)) (transpose (xs :> [m][d]f64))
entry nearest [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  vjp2 (\\ys -> f64.sum (map (\\x -> f64.minimum (map (sqdist x) ys)) xs)) ys 1
"""
MAPPED = """
def sqdist [d] (x: [d]f64) (y: [d]f64) = f64.sum (map2 (\\a b -> (a - b) * (a - b)) x y)
def squares [d] (x: [d]f64) (y: [d]f64) = f64.sum (map2 (\\a b -> (a - b) ** 2) x y)
entry gauss [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64): [n][m]f64 =
  map (\\x -> map (\\y -> f64.exp (-0.5 * squares x y)) ys) xs
-- Scalars of the row and the column, more than one result, one of them of no fold.
entry weighted [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  let vs = map (\\i -> f64.cos (f64.i64 i)) (iota m)
  in unzip3 (map unzip3 (map2 (\\x i ->
       let w = f64.sin (f64.i64 i)
       in map2 (\\y v -> let s = sqdist x y in (w * s + v, s < v, w - v)) ys vs) xs (iota n)))
-- The results take the place of the rows, which other tiles read.
entry in_place [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64): [n][n]f64 =
  let ys = ys :> [n][d]f64
  let start = map (\\x -> map (\\y -> x[0] + y[0]) ys) xs
  in loop zs = start for _i < 3 do map (\\x -> map (\\y -> f64.sin (sqdist x y) + 1) zs) zs
entry same_place [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64): [n][n]f64 =
  let ys = ys :> [n][d]f64
  let start = map (\\x -> map (\\y -> x[0] + y[0]) ys) xs
  in loop zs = start for _i < 3 do map (\\x -> map (\\y -> sqdist x y) zs) zs
-- Each is a row of what the next one is made of, or takes the place of an element of what it reads.
entry history [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64): [5][n][n]f64 =
  let row i x y = map (\\j -> x * y + f64.i64 (i + j)) (iota n)
  let zs = map (\\i -> map2 (\\x y -> row i x[0] y[0]) xs (ys :> [n][d]f64)) (iota 5)
  in loop zs for i < 4 do zs with [i + 1] = map (\\x -> map (\\y -> f64.cos (sqdist x y)) zs[i]) zs[i]
entry own_places [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64): [3][n][n]f64 =
  let zs = map (\\i -> map (\\x -> map (\\j -> x[0] + f64.i64 (i + j)) (iota n)) xs) (iota 3)
  in loop zs for i < 3 do
       zs with [i] = map2 (\\x r -> map2 (\\y v -> f64.sin (sqdist x y) + v) (ys :> [n][d]f64) r) xs zs[i]
entry gradient [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  let kernel xs ys = f64.sum (flatten (map (\\x -> map (\\y -> f64.sqrt (1 + sqdist x y)) ys) xs))
  in vjp (\\(xs, ys) -> kernel xs ys) (xs, ys) 1
entry directions [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  jvp (\\xs -> map (\\x -> map (\\y -> f64.exp (-0.5 * squares x y)) ys) xs) xs (map (map f64.cos) xs)
"""
FOLDED = """
def sqdist [d] (x: [d]f64) (y: [d]f64) = f64.sum (map2 (\\a b -> (a - b) * (a - b)) x y)
-- The least of all distances from each point, and of which row it is, of equal ones the first.
entry places [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  unzip (map (\\x -> reduce (\\(a, i) (b, j) -> if a < b || (a == b && i < j) then (a, i) else (b, j))
                           (f64.inf, i64.highest) (zip (map (sqdist x) ys) (iota m))) xs)
-- An operator that does not commute, of whose operands the order shows: compositions of linear functions.
entry composed [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  unzip (map (\\x -> reduce (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0)
                           (map2 (\\y i -> (f64.cos (sqdist x y), f64.i64 i)) ys (iota m))) xs)
-- Several folds, of scalars of the row and the column, and something that is made of them.
entry several [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  let vs = map (\\i -> f64.cos (f64.i64 i)) (iota m)
  in unzip3 (map2 (\\x i -> let w = f64.sin (f64.i64 i)
                        let ds = map2 (\\y v -> w * v + sqdist x y) ys vs
                        let near = i64.sum (map (\\d -> i64.bool (d < 2)) ds)
                        in (f64.sqrt (f64.abs (f64.sum ds)), w + f64.maximum ds, near)) xs (iota n))
entry columnwise [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  transpose (map (\\x -> let a = f64.minimum (map (sqdist x) ys) in [a, f64.sqrt a]) xs)
entry in_f32 [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  let xs = map (map f32.f64) xs let ys = map (map f32.f64) ys
  in map (\\x -> f32.maximum (map (\\y -> f32.maximum (map2 (\\a b -> a - b) x y)) ys)) xs
entry nearest_twice [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) =
  let cost ys = f64.sum (map (\\x -> f64.minimum (map (sqdist x) ys)) xs)
  in jvp2 (\\ys -> vjp cost ys 1) ys (map (map (const 1)) ys)
"""
ENTRIES = ("distances", "cosines", "largest", "smallest", "products", "nearest")
SIZES = [(37, 41, 5), (64, 64, 16), (65, 33, 17), (9, 70, 1), (3, 2, 40), (8, 8, 0), (0, 9, 3), (9, 0, 3)]
DEVICE = OnDevice(SOURCE, "pairs.fut", check=True)
MAPS = OnDevice(MAPPED, "mapped.fut", check=True)
FOLDS = OnDevice(FOLDED, "folded.fut", check=True)


def check(name: str, sizes: tuple[int, ...], xs: Any, ys: Any, device: OnDevice = DEVICE) -> None:
    """By each tile shape, and by a thread a row."""
    args = [*map(np.int64, sizes), xs, ys]
    with np.errstate(all="ignore"):
        expected = device.interpreted(name, args)
    own = device.emulated.device.limits.thresholds
    for enough_tiles, enough_threads in ((0, 1 << 20), (1 << 20, 1 << 20), (0, -1)):
        device.emulated.choose(own._replace(enough_tiles=enough_tiles, enough_threads=enough_threads))
        for x, y in zip(device.run(name, args), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["gauss", "weighted", "gradient", "directions"])
def test_maps_of_pairs_equal_the_interpreter(name: str) -> None:
    for n, m, d in SIZES:
        rng = np.random.default_rng(n + m)
        check(name, (n, d, m), rng.standard_normal((n, d)), rng.standard_normal((m, d)), MAPS)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["in_place", "same_place", "history", "own_places"])
def test_results_in_the_place_of_the_rows(name: str) -> None:
    for n, d in ((37, 5), (64, 1), (70, 2), (1, 3), (0, 2)):
        rng = np.random.default_rng(n)
        xs, ys = rng.standard_normal((2, n, d)) / max(1, n)
        check(name, (n, d, n), xs, ys, MAPS)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_pairs_equal_the_interpreter(name: str) -> None:
    for n, m, d in SIZES:
        rng = np.random.default_rng(n + m)
        check(name, (n, d, m), rng.standard_normal((n, d)), rng.standard_normal((m, d)))


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES[:4])
def test_special_values(name: str) -> None:
    rng = np.random.default_rng(1)
    xs, ys = rng.standard_normal((12, 7)), rng.standard_normal((10, 7))
    xs[3, 2], ys[4, 6], xs[5], ys[9] = np.nan, np.inf, 0, 0
    check(name, (12, 7, 10), xs, ys)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["places", "composed", "several", "columnwise", "in_f32", "nearest_twice"])
def test_pairs_that_are_folded(name: str) -> None:
    """In tiles: several side by side, a single one, one of few columns; no rows, no columns, no elements."""
    for n, m, d in [(37, 71, 5), (65, 129, 3), (70, 6, 9), (300, 3, 2), (1, 1, 1), (5, 8, 0), (0, 9, 3), (9, 0, 3)]:
        rng = np.random.default_rng(n + m)
        xs, ys = rng.integers(-2, 3, (n, d)) / 2, rng.integers(-2, 3, (m, d)) / 2  # with many ties
        check(name, (n, d, m), xs, ys, FOLDS)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["places", "columnwise", "nearest_twice"])
def test_folded_pairs_of_special_values(name: str) -> None:
    rng = np.random.default_rng(1)
    xs, ys = rng.standard_normal((12, 7)), rng.standard_normal((40, 7))
    ys[4, 6], xs[5], ys[9] = np.inf, 0, 0
    check(name, (12, 7, 40), xs, ys, FOLDS)
    ys[:, 2] = -np.inf  # as far as the neutral element
    check(name, (12, 7, 40), xs, ys, FOLDS)
    if name != "places":  # whose neutral element is none beside NaN
        xs[3, 2], ys[4, 6] = np.nan, np.nan
        check(name, (12, 7, 40), xs, ys, FOLDS)


@pytest.mark.slow
@needs_cxx
def test_columns_of_matrices_as_rows() -> None:
    rng = np.random.default_rng(2)
    check("columns", (20, 9, 20), rng.standard_normal((20, 9)), rng.standard_normal((20, 9)))


@pytest.mark.slow
def test_what_is_folded_is_not_written() -> None:
    for name in ("places", "composed", "nearest_twice", "several"):
        a = FOLDS.count(name, {"n": 10_000, "m": 1024, "d": 256})
        assert any(r.what.startswith("product") for r in a.rows.values())
        assert a.total.read + a.total.written <= 8 * 10_000 * 1024, name  # the pairs' values alone


@pytest.mark.slow
def test_rows_are_read_once_for_a_tile() -> None:
    for device, name in ((DEVICE, "distances"), (DEVICE, "smallest"), (DEVICE, "nearest"), (MAPS, "gauss")):
        a = device.count(name, {"n": 10_000, "m": 1024, "d": 256})
        assert any(r.what.startswith("product") for r in a.rows.values())
        assert a.total.traffic <= 3 * 8 * 10_000 * 1024 * (1 + 256 / 64)
        assert a.total.strided + a.total.gathered <= 0.1 * a.total.traffic
