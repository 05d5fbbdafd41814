"""Histogram templates on the emulated device: every type, every way to make an update atomic."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from kernel_sources import HIST_OPERATORS, HIST_SHARED, HISTOGRAM, HISTOGRAM_BLOCKS, HISTOGRAM_PAIRS

from futad.core.types import prim
from futad.runtime.emulated import EmulatedModule

CASES = [(name, t) for name, record in HIST_OPERATORS.items() for t in record[3]]
NUMPY = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "mul": np.multiply,
}  # fmt: skip


@pytest.fixture(scope="module")
def module() -> EmulatedModule:
    return EmulatedModule(HISTOGRAM)


@pytest.fixture(scope="module")
def pairs() -> EmulatedModule:
    return EmulatedModule(HISTOGRAM_PAIRS)


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


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize(("name", "t"), CASES, ids=str)
def test_global(module: EmulatedModule, name: str, t: str, seed: int | None) -> None:
    for n, bins in [(0, 3), (1, 1), (700, 1), (700, 50)]:
        at, values, dest, expected = case(name, t, n, bins)
        module.launch(
            f"global_{name}_{t}", 3, 96, 0, [np.int64(n), np.int64(bins), at, values, dest], seed=seed
        )
        np.testing.assert_array_equal(dest, expected)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize(("name", "t"), [c for c in CASES if c[0] in HIST_SHARED], ids=str)
def test_shared(module: EmulatedModule, name: str, t: str, seed: int | None) -> None:
    """One pass and several, the last of them not full; one copy and several."""
    for n, bins, per_pass, copies in [(0, 3, 3, 1), (700, 1, 1, 4), (700, 50, 50, 2), (700, 50, 16, 3)]:
        at, values, dest, expected = case(name, t, n, bins)
        grid = (2, -(-bins // per_pass))
        args = [np.int64(n), np.int64(bins), at, values, dest, np.int32(per_pass), np.int32(copies)]
        size = per_pass * copies * values.itemsize
        module.launch(f"shared_{name}_{t}", grid, 128, size, args, seed=seed)
        np.testing.assert_array_equal(dest, expected)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("how", ["global", "shared"])
def test_lock(pairs: EmulatedModule, how: str, seed: int | None) -> None:
    """Pairs of 16 bytes in two arrays: the largest value of each bin and where it is first."""
    locks = np.zeros(1024, "uint32")
    for n, bins in [(0, 2), (500, 1), (500, 37)]:
        rng = np.random.default_rng(n)
        at, values = rng.integers(-1, bins + 1, n), rng.integers(0, 50, n).astype("float64")
        best, where = np.full(bins, -1.0), np.full(bins, np.iinfo("int64").max)
        args: list[Any] = [np.int64(n), np.int64(bins), at, values, best, where, locks]
        size = 0
        if how == "shared":
            args += [np.int32(16), np.int32(2)]
            size = 16 * 2 * (16 + 4)
        pairs.launch(f"{how}_best", (3, -(-bins // 16) if how == "shared" else 1), 64, size, args, seed=seed)
        for b in range(bins):
            mine = np.flatnonzero(at == b)
            first = reduce(lambda i, j: j if values[j] > values[i] else i, mine) if len(mine) else None
            assert best[b] == (-1.0 if first is None else values[first])
            assert where[b] == (np.iinfo("int64").max if first is None else first)
        assert not locks.any()


@pytest.mark.parametrize("seed", [None, 7])
def test_sub_histograms_by_passes(seed: int | None) -> None:
    """Bins by fours; places out of range; fewer updates than threads, none at all."""
    module = EmulatedModule(HISTOGRAM_BLOCKS, seed=seed)
    for n, bins, blocks in ((500, 9, 2), (500, 4, 3), (3, 1, 1), (0, 5, 2), (1000, 15, 1)):
        at = np.random.default_rng(n).integers(-3, bins + 3, n)
        inside = (at >= 0) & (at < bins)
        grid = blocks * -(-bins // 4)
        x, dest = np.arange(n, dtype="float64"), np.arange(bins, dtype="float64")
        want = dest + np.bincount(at[inside], weights=x[inside], minlength=bins)
        module.launch("blocks_add", grid, 64, 0, [np.int64(n), np.int64(bins), at, x, dest])
        np.testing.assert_array_equal(dest, want)
        odd, product = (np.arange(n) * 2 + 1).astype("uint8"), np.full(bins, 3, "uint8")
        expected = product.copy()
        np.multiply.at(expected, at[inside], odd[inside])
        module.launch("blocks_mul", grid, 64, 0, [np.int64(n), np.int64(bins), at, odd, product])
        np.testing.assert_array_equal(product, expected)
