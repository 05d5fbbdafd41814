"""Loops in maps: a block a point, a thread a point, or the loop on the host around a wider map; and what is put
together from pieces, on the host and in maps."""

from __future__ import annotations

import numpy as np
import pytest

from futad.errors import AssertionFailed
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
entry relax [n][m] (t: i64) (xs: [n][m]f64): [n][m]f64 =
  map (\\x -> loop y = x for i < t do map2 (\\a b -> 0.5 * (a + f64.sin b)) y (rotate 1 y)) xs

-- What the loop starts from is computed, also from the point's number; scalars are carried beside arrays.
entry sums [n][m] (t: i64) (xs: [n][m]f64): [n]f64 =
  map2 (\\x j -> let w = map (\\a -> a * a + 1) x
                in (loop (y, s) = (map (+ f64.i64 j) x, 0) for i < t do
                      let z = map2 (\\a b -> f64.cos (0.1 * a * b + 0.01 * s)) y w in (z, s + f64.sum z + f64.i64 i)).1)
       xs (iota n)

-- Iterations that differ from point to point stay where they are.
entry ragged [n][m] (t: i64) (xs: [n][m]f64): [n][m]f64 =
  map2 (\\x j -> loop y = x for i < (t + j) % 3 do map (\\a -> a * 0.5 + f64.i64 i) y) xs (iota n)

-- A part of each row, of a length of its own, is read in all iterations.
entry parts [n][m] (t: i64) (xs: [n][m]f64): [n][m]f64 =
  map2 (\\x j -> let p = x[0:(7 * j + 5) % (m + 1)]
                in loop y = x for i < t do
                     let s = f64.sum (map (\\a -> f64.sin (a + y[0] + f64.i64 i)) p)
                     in map (\\v -> f64.sin v + s) y) xs (iota n)

entry matrices [n][m] (t: i64) (xs: [n][m]f64): [n][m][m]f64 =
  map (\\x -> loop a = replicate m x for i < t do
               map (\\r -> map (\\c -> f64.sum (map2 (*) r c) / f64.i64 m) (transpose a)) a) xs

entry together [n][m] (t: i64) (xs: [n][m]f64): ([n][]f64, []f64) =
  let both = map (\\x -> let y = map f64.sin x let z = map (\\a -> a * f64.sum y) x in y ++ z ++ [f64.i64 t]) xs
  in (both, map f64.sum xs ++ map (\\x -> f64.maximum x * 2) xs ++ map f64.i64 (iota 3))
"""
ENTRIES = ("relax", "sums", "ragged", "parts", "matrices", "together")
DEVICE = OnDevice(SOURCE, "interchange.fut", check=True)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_equal_to_the_interpreter(name: str) -> None:
    own = DEVICE.emulated.device.limits.thresholds
    for n, m, t in ((3, 40, 4), (1, 9, 1), (5, 1, 3), (2, 12, 0), (2, 5, -1), (0, 4, 2)):
        args = [*map(np.int64, (n, m, t)), np.random.default_rng(n + m).standard_normal((n, m))]
        expected = DEVICE.interpreted(name, args)
        for threads, inner, long in ((1 << 20, 0, 0), (1 << 20, 0, 1 << 20), (-1, 1 << 20, 1 << 20)):
            DEVICE.emulated.choose(own._replace(enough_threads=threads, block_inner=inner, long_inner=long))
            for x, y in zip(DEVICE.run(name, args), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@needs_cxx
def test_assertions_before_a_loop_stay() -> None:
    """Also where nothing that the loop needs is computed beside them."""
    device = OnDevice("""
entry main [n][m] (t: i64) (xs: [n][m]f64): [n][m]f64 =
  map2 (\\x j -> let x = assert (j < 2) x
                in loop y = x for i < t do map2 (\\a b -> 0.5 * (a + f64.sin b)) y (rotate 1 y)) xs (iota n)""")
    own = device.emulated.device.limits.thresholds
    for long in (0, 1 << 20):
        device.emulated.choose(own._replace(enough_threads=1 << 20, block_inner=0, long_inner=long))
        args = [np.int64(2), np.int64(4), np.int64(3), np.ones((2, 4))]
        np.testing.assert_allclose(device.run("main", args)[0], device.interpreted("main", args)[0], rtol=1e-12)
        args = [np.int64(3), np.int64(4), np.int64(3), np.ones((3, 4))]
        for run in (device.run, device.interpreted):
            with pytest.raises(AssertionFailed):
                run("main", args)


@pytest.mark.parametrize("name", ["relax", "sums", "matrices"])
def test_few_points_with_wide_iterations_take_launches_in_each_iteration(name: str) -> None:
    def launches(n: int, m: int, t: int) -> int:
        return DEVICE.count(name, {"n": n, "m": m, "t": t}).launches

    assert launches(3, 100_000, 30) >= launches(3, 100_000, 10) + 20
    assert launches(100_000, 100, 30) <= 3 * launches(100_000, 100, 10)
    assert launches(2000, 100, 30) == launches(2000, 100, 10) or name == "matrices"


def test_pieces_are_made_where_they_are_put_together() -> None:
    a = DEVICE.count("together", {"n": 10_000, "m": 64, "t": 1})
    assert "copy" not in a.rows
