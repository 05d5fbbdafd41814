"""Arrays that each thread has for itself lie element by element side by side, and mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
-- An array of a thread's own, updated in place, in each iteration of a loop.
entry written [n] (m: i64) (xs: [n]f64): [n]f64 =
  map (\\x -> let a = loop a = replicate m x for i < m do a with [i] = a[(i + 1) % m] * 0.5 + f64.i64 i
              in loop s = 0 for y in a do s * 0.9 + y) xs
-- Two that are exchanged.
entry turned [n] (m: i64) (xs: [n]f64): [n]f64 =
  map (\\x -> let a = #[sequential] tabulate m (\\i -> x + f64.i64 i)
              let a = loop a for i < m do #[sequential] map2 (\\y j -> y * 0.5 + a[(j + i) % m]) a (iota m)
              in loop s = 0 for y in a do s * 0.9 + y) xs
-- A copy, one that is kept beside its update, and rows of a matrix.
entry copied [n] (m: i64) (xs: [n]f64): ([n]f64, [n]f64) =
  unzip (map (\\x -> let a = loop a = replicate m x for i < m do a with [i] = x * f64.i64 i
                     let b = loop b = copy a for i < m do b with [m - 1 - i] = a[i] + b[i]
                     in (loop s = 0 for y in a do s * 0.9 + y, loop s = 0 for y in b do s * 0.8 + y)) xs)
entry matrix [n] (m: i64) (xs: [n]f64): [n]f64 =
  map (\\x -> let a = loop a = replicate m (replicate 3 x) for i < m do a with [i] = [x, f64.i64 i, a[i, 0] + x]
              in loop s = 0 for r in a do s * 0.9 + r[0] + r[1] * r[2]) xs
-- What a loop saves for its derivative.
entry slope [n] (m: i64) (xs: [n]f64): [n]f64 =
  map (\\x -> vjp (\\x -> loop x for i < m do f64.sin (x * 0.9 + f64.i64 i)) x 1) xs
-- Rows of an array between kernels, copied into one of a thread's own.
entry rows [n][k] (xss: [n][k]f64): [n][k]f64 =
  map (\\xs -> loop a = copy xs for i < k do a with [i] = a[(i * 7) % k] + xs[k - 1 - i]) xss
"""
DEVICE = OnDevice(SOURCE, "interleave.fut", check=True)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["written", "turned", "copied", "matrix", "slope", "rows"])
def test_they_mean_the_same(name: str) -> None:
    r = np.random.default_rng(3)
    for n, m in ((0, 3), (1, 1), (5, 4), (300, 7), (130, 2), *([(3, 0)] if name not in ("written", "turned") else [])):
        args = [np.int64(n), np.int64(m), r.standard_normal((n, m) if name == "rows" else n)]
        for x, y in zip(DEVICE.run(name, args), DEVICE.interpreted(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["written", "copied", "matrix", "slope"])
def test_a_warp_accesses_neighbours(name: str) -> None:
    a = DEVICE.count(name, {"n": 100_000, "m": 50})
    assert a.total.strided == 0
