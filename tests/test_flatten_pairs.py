"""Folds over pairs of rows in the tiles of matrix products: both tile shapes, beside sequential threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_support import OnDevice, needs_cxx

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
ENTRIES = ("distances", "cosines", "largest", "smallest", "products", "nearest")
SIZES = [(37, 41, 5), (64, 64, 16), (65, 33, 17), (9, 70, 1), (3, 2, 40), (8, 8, 0), (0, 9, 3), (9, 0, 3)]
DEVICE = OnDevice(SOURCE, "pairs.fut", check=True)


def check(name: str, sizes: tuple[int, ...], xs: Any, ys: Any) -> None:
    args = [*map(np.int64, sizes), xs, ys]
    with np.errstate(all="ignore"):
        expected = DEVICE.interpreted(name, args)
    own = DEVICE.emulated.device.limits.thresholds
    for enough_tiles, enough_threads in ((0, 1 << 20), (1 << 20, 1 << 20), (0, -1)):
        DEVICE.emulated.choose(own._replace(enough_tiles=enough_tiles, enough_threads=enough_threads))
        for x, y in zip(DEVICE.run(name, args), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_pairs_equal_the_interpreter(name: str) -> None:
    for n, m, d in SIZES:
        rng = np.random.default_rng(n + m)
        check(name, (n, d, m), rng.standard_normal((n, d)), rng.standard_normal((m, d)))


@needs_cxx
@pytest.mark.parametrize("name", ENTRIES[:4])
def test_special_values(name: str) -> None:
    rng = np.random.default_rng(1)
    xs, ys = rng.standard_normal((12, 7)), rng.standard_normal((10, 7))
    xs[3, 2], ys[4, 6], xs[5], ys[9] = np.nan, np.inf, 0, 0
    check(name, (12, 7, 10), xs, ys)


@needs_cxx
def test_columns_of_matrices_as_rows() -> None:
    rng = np.random.default_rng(2)
    check("columns", (20, 9, 20), rng.standard_normal((20, 9)), rng.standard_normal((20, 9)))


def test_rows_are_read_once_for_a_tile() -> None:
    for name in ("distances", "smallest", "nearest"):
        a = DEVICE.count(name, {"n": 10_000, "m": 1024, "d": 256})
        assert any(r.what.startswith("product") for r in a.rows.values())
        assert a.total.traffic <= 3 * 8 * 10_000 * 1024 * (1 + 256 / 64)
        assert a.total.strided + a.total.gathered <= 0.1 * a.total.traffic
