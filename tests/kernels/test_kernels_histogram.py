"""Histogram templates on the CPU simulator: every type, every way to make an update atomic."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from futad.core.types import prim
from futad.runtime.emulated import EmulatedModule
from tests.support.kernel_sources import HIST_CELLS, HIST_OPERATORS, HIST_SHARED, HISTOGRAM, LOCKS, SUBHIST_ROWS

CASES = [(name, t) for name, record in HIST_OPERATORS.items() for t in record[3]]
NUMPY = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "mul": np.multiply,
}  # fmt: skip


@pytest.fixture(scope="module")
def module() -> EmulatedModule:
    return EmulatedModule(HISTOGRAM)


def case(name: str, t: str, n: int, bins: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Bins (some outside), values whose combination is exact in any order, initial contents, the result."""
    rng = np.random.default_rng(n + bins)
    dtype = prim(t).dtype
    at = rng.integers(-2, bins + 2, n)
    # Factors 1 and 2: products of floats are powers of two, those of integers wrap.
    values = rng.integers(1, 3 if name == "mul" else 9, n).astype(dtype)
    dest = rng.integers(1, 9, bins).astype(dtype)
    expected = dest.copy()
    with np.errstate(over="ignore"):
        for b, v in zip(at, values, strict=True):
            if 0 <= b < bins:
                expected[b] = NUMPY[name](expected[b], v)
    return at, values, dest, expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize(("name", "t"), CASES, ids=str)
def test_global(module: EmulatedModule, name: str, t: str, seed: int | None) -> None:
    for n, bins in [(0, 3), (1, 1), (700, 1), (700, 50)]:
        at, values, dest, expected = case(name, t, n, bins)
        module.launch(
            f"global_{name}_{t}", 3, 96, 0, [np.int64(n), np.int64(bins), at, values, dest], seed=seed
        )
        np.testing.assert_array_equal(dest, expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize(("name", "t"), [c for c in CASES if c[0] in HIST_SHARED], ids=str)
def test_sub_histograms_by_passes(module: EmulatedModule, name: str, t: str, seed: int | None) -> None:
    """One pass and several, the last of them full and not; fewer updates than threads, none at all."""
    for n, bins, blocks in ((500, 9, 2), (500, 4, 3), (3, 1, 1), (0, 5, 2), (1000, 15, 1)):
        at, values, dest, expected = case(name, t, n, bins)
        grid = blocks * -(-bins // HIST_CELLS)
        args = [np.int64(n), np.int64(bins), at, values, dest]
        module.launch(f"blocks_{name}_{t}", grid, 64, 0, args, seed=seed)
        np.testing.assert_array_equal(dest, expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 5])
def test_rows_by_way_of_shared_memory(seed: int | None) -> None:
    """Tiles of one row and of many, more rows than blocks and fewer, sums in one pass and in two, no rows at all."""
    module = EmulatedModule(SUBHIST_ROWS)
    for n, columns, places in ((500, 7, 5), (90, 99, 1), (3, 50, 1), (300, 1, 4), (40, 20, 4), (0, 3, 2)):
        x = np.random.default_rng(n).integers(0, 9, (n, columns)).astype("float64")
        sums, counts = np.ones((places, columns)), np.ones(places)
        expected, counted = sums.copy(), counts.copy()
        for row in x:
            expected[int(row.sum()) % places] += 2 * row[::-1]
            counted[int(row.sum()) % places] += 1
        grid = 3 * -(-places * (columns + 1) // 64)
        args = [*map(np.int64, (n, columns, places)), x, sums, counts]
        module.launch("rows_f64", grid, 256, 0, args, seed=seed)
        np.testing.assert_array_equal(sums, expected)
        np.testing.assert_array_equal(counts, counted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 3])
def test_locks(seed: int | None) -> None:
    """Pairs of 16 bytes in two arrays: the largest value of each bin and where it is first."""
    module, locks = EmulatedModule(LOCKS), np.zeros(16, "uint32")
    for n, bins in [(0, 2), (500, 1), (500, 37)]:
        rng = np.random.default_rng(n)
        at, values = rng.integers(-1, bins + 1, n), rng.integers(0, 50, n).astype("float64")
        best, where = np.full(bins, -1.0), np.full(bins, np.iinfo("int64").max)
        args: list[Any] = [np.int64(n), np.int64(bins), at, values, best, where, locks]
        module.launch("locked_best", 3, 64, 0, args, seed=seed)
        for b in range(bins):
            mine = np.flatnonzero(at == b)
            first = reduce(lambda i, j: j if values[j] > values[i] else i, mine) if len(mine) else None
            assert best[b] == (-1.0 if first is None else values[first])
            assert where[b] == (np.iinfo("int64").max if first is None else first)
        assert not locks.any()
