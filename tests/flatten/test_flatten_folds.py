"""Scans and reductions on the CPU simulator: one pass over several tiles, blocks interleaved at random, memory used
again by calls of other sizes, tuples and small types, operators that fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.errors import ExecutionError
from futad.runtime.device import EmulatedDevice
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
entry sums [n] (xs: [n]i64) = scan (+) 0 xs

-- Affine maps composed: associative, not commutative.
entry affine [n] (xs: [n]i64) =
  let (as, bs) = unzip (map (\\x -> (2 * x + 1, x - 3)) xs)
  in unzip (scan (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (zip as bs))

entry composed [n] (xs: [n]i64) =
  reduce (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (map (\\x -> (2 * x + 1, x - 3)) xs)

-- A scan, a reduction and a map of the same elements.
entry several [n] (xs: [n]i64) =
  let ys = map (\\x -> x * x - 1) xs
  in (scan i64.max i64.lowest ys, i64.sum ys, ys, reduce_comm i64.min i64.highest xs)

entry small [n] (xs: [n]i64) =
  let ys = map (\\x -> (u8.i64 x, f32.i64 x, x % 3 == 0)) xs
  let (a, b, c) = unzip3 (scan (\\(a, b, c) (d, e, f) -> (a ^ d, f32.max b e, c && f)) (0u8, -f32.inf, true) ys)
  in (a, b, c, reduce (&&) true (map (.2) ys))

-- Fails with a place where a sum is 0.
entry fails [n] (xs: [n]i64) = scan (\\a b -> if b == 7 then a / (b - 7) else a + b) 0 xs
entry fails_in [n] (xs: [n]i64) = scan (+) 0 (map (\\x -> 1000 / (x - 7)) xs)
entry fails_reduced [n] (xs: [n]i64) = i64.sum (map (\\x -> 1000 / (x - 7)) xs)

-- Histograms: every operator, types of all sizes, places out of range, rows, two indices.
entry counts [n] (xs: [n]i64) = hist (+) 0i64 50 xs (map (* 3) xs)
entry many [n] (xs: [n]i64) = hist (+) 0i64 2100 (map (\\x -> x * 17 + 900) xs) xs
entry ordered [n] (xs: [n]i64) =
  (hist i32.min i32.highest 20 xs (map i32.i64 xs),
   hist f64.max (-f64.inf) 20 xs (map (\\x -> f64.i64 (x * 7 % 11)) xs))
entry bits [n] (xs: [n]i64) =
  let ys = map (\\x -> u8.i64 (x * 5)) xs
  in (hist (|) 0u8 9 xs ys, hist (^) 0u8 9 xs ys, hist (&) 255u8 9 xs ys)
entry products [n] (xs: [n]i64) = hist (*) 1i16 30 xs (map (\\x -> i16.i64 (2 * x + 1)) xs)
entry halves [n] (xs: [n]i64) = hist (+) 0f16 12 xs (map (\\x -> f16.i64 (x % 2)) xs)
entry old [n] (xs: [n]i64) = reduce_by_index (map (* 1000) (iota 7)) (+) 0 xs xs
entry tables [n] (xs: [n]i64) =
  reduce_by_index (replicate 6 [0, 0, 0i64]) (map2 (+)) [0, 0, 0] xs (map (\\x -> [x, 1, -x]) xs)
entry pairs [n] (xs: [n]i64) =
  reduce_by_index_2d (replicate 4 (replicate 5 0i64)) (+) 0 (map (\\x -> (x % 4, x % 6)) xs) xs

entry rows [n] (xs: [n]i64) =
  map (\\i -> scan (+) 0 (map (+ i) xs)) (iota 3)
"""
# Elements too large for one pass.
WIDE = 13
SOURCE += f"""
entry wide [n] (xs: [n]i64) =
  map (\\({", ".join(f"x{i}" for i in range(WIDE))}) -> {" + ".join(f"{i + 1} * x{i}" for i in range(WIDE))})
      (scan (\\({", ".join(f"x{i}" for i in range(WIDE))}) ({", ".join(f"y{i}" for i in range(WIDE))}) ->
              ({", ".join(f"x{i} + y{i}" for i in range(WIDE))}))
            ({", ".join(["0"] * WIDE)}) (map (\\v -> ({", ".join(f"v * {i}" for i in range(WIDE))})) xs))
"""
ENTRIES = (
    "wide",
    "sums", "affine", "composed", "several", "small", "rows",
    "counts", "many", "ordered", "bits", "products", "halves", "old", "tables", "pairs",
)  # fmt: skip


pytestmark = needs_cxx
DEVICE = OnDevice(SOURCE)


def values(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-100, 100, n)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_results(seed: int | None) -> None:
    """The same memory serves calls of more and of fewer tiles."""
    running = DEVICE.on(EmulatedDevice(seed=seed))
    for entry in ENTRIES:
        name = DEVICE.symbol(entry)
        for n in (5000, 0, 1, 9001, 33, 1792, 1793, 3585) if seed is None else (4000, 9001, 1793):
            want: list[Any] = DEVICE.interpreted(entry, [n, values(n)])
            got = running.run(name, [n, values(n)])
            for x, y in zip(got, want, strict=True):
                assert np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype, (entry, n)
                np.testing.assert_array_equal(x, y, err_msg=f"{entry} {n}")


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["fails", "fails_in", "fails_reduced"])
def test_failures(entry: str) -> None:
    running = DEVICE.on(EmulatedDevice(seed=4))
    for n in (40, 5000):
        xs = np.full(n, 9)
        first = running.run(DEVICE.symbol(entry), [n, xs])[0]
        xs[n // 2] = 7
        with pytest.raises(ExecutionError, match="division by zero"):
            running.run(DEVICE.symbol(entry), [n, xs])
        # And the next call is as good as the first.
        np.testing.assert_array_equal(running.run(DEVICE.symbol(entry), [n, np.full(n, 9)])[0], first)


@pytest.mark.slow
def test_few_bins_are_counted_in_shared_memory() -> None:
    for n, where in ((10_000, "in shared memory"), (100, "atomic add")):
        rows = DEVICE.count("counts", {"n": n}).rows.values()
        assert [r.what for r in rows if "histogram" in r.what and r.launches][0].endswith(where)


def test_the_wide_scan_is_not_one_pass() -> None:
    assert any("scan_finish" in k.what for k in DEVICE.backend.module.kernels)


def test_a_scan_is_one_pass() -> None:
    for entry, written in (("sums", 1), ("affine", 2)):
        a = DEVICE.count(entry, {"n": 1_000_000})
        assert a.launches == 2  # memory that is cleared, and the scan
        assert a.total.read == 8_000_000 and a.total.written <= 8_000_000 * written * 1.01
    assert DEVICE.count("sums", {"n": 1000}).launches == 1
