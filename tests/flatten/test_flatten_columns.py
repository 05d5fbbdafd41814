"""Reductions of columns: in parts of all of them where they are large, and the same as the interpreter's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
entry sums [n][d] (xs: [n][d]f64): [d]f64 = map f64.sum (transpose xs)
entry largest [n][d] (xs: [n][d]f64): [d]f64 = reduce (map2 f64.max) (replicate d f64.lowest) xs
entry several [n][d] (xs: [n][d]f64): ([d]f64, [d]f64) =
  unzip (map (\\c -> let both (a, b) (c, d) = (a + c, f64.max b d)
                     let (s, m) = reduce_comm both (0, -1) (map (\\x -> (x * x, x)) c)
                     in (s / 2, m + s)) (transpose xs))
-- An operator for which order matters: maps x -> a x + b, one after another.
entry composed [n][d] (xs: [n][d]f64): ([d]f64, [d]f64) =
  unzip (map (\\c -> reduce (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (map (\\x -> (0.99, x)) c)) (transpose xs))
entry nested [n][d] (xs: [n][d]f64): [3][d]f64 =
  let xss = tabulate_3d 3 n d (\\i j k -> xs[j, k] + f64.i64 i)
  in map (\\xs -> map f64.sum (transpose xs)) xss
entry biased [n][d] (xs: [n][d]f64): [d]f64 =
  vjp (\\b -> f64.sum (map (\\x -> f64.sum (map2 (\\x b -> f64.sin (x + b)) x b)) xs)) (map (const 0.5) (iota d)) 1
"""
DEVICE = OnDevice(SOURCE, "columns.fut", check=True)
ENTRIES = ("sums", "largest", "several", "composed", "nested", "biased")


def in_parts(name: str, n: int, d: int) -> bool:
    return any("[parts" in r.what for r in DEVICE.count(name, {"n": n, "d": d}).rows.values())


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_they_equal_the_interpreter(name: str) -> None:
    r = np.random.default_rng(4)
    for n, d in ((0, 3), (3, 0), (1, 1), (40, 7), (500, 33), (3000, 5), (20, 600)):
        args = [np.int64(n), np.int64(d), r.standard_normal((n, d))]
        for x, y in zip(DEVICE.run(name, args), DEVICE.interpreted(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", [e for e in ENTRIES if e != "biased"])
def test_large_ones_are_in_parts_and_small_ones_are_not(name: str) -> None:
    assert in_parts(name, 1_000_000, 64) and not in_parts(name, 100, 64)
