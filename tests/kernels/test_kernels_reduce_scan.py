"""Reduce and scan templates on the CPU simulator, with an operator that does not commute."""

from __future__ import annotations

import numpy as np
import pytest

from futad.runtime.emulated import EmulatedModule
from tests.support.kernel_sources import BLOCK as BLOCK_SOURCE
from tests.support.kernel_sources import LAST, SCAN

BLOCK = 128
SIZES = [0, 1, 31, 32, 33, 127, 128, 129, 383, 384, 385, 1000, 5000]  # around a warp, a block, a tile; several tiles


@pytest.fixture(scope="module")
def scan_module() -> EmulatedModule:
    return EmulatedModule(SCAN)


def linear_inputs(segments: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Odd factors, so that no product becomes 0 and everything that was forgotten shows."""
    rng = np.random.default_rng(segments * 10007 + n)
    return rng.integers(-3, 4, segments * n) | 1, rng.integers(-9, 10, segments * n)


def linear_scan(a: np.ndarray, b: np.ndarray, segments: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The inclusive scan of the composition of x -> a x + b, wrapping, by the definition."""
    ra, rb = np.empty_like(a).reshape(segments, n), np.empty_like(b).reshape(segments, n)
    x, y = np.ones(segments, "int64"), np.zeros(segments, "int64")
    with np.errstate(over="ignore"):
        for i in range(n):
            x, y = x * a.reshape(segments, n)[:, i], y * a.reshape(segments, n)[:, i] + b.reshape(segments, n)[:, i]
            ra[:, i], rb[:, i] = x, y
    return ra, rb


def sizes(*values: int) -> list[np.int64]:
    return [np.int64(v) for v in values]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4])
def test_single_pass_scan(scan_module: EmulatedModule, seed: int | None) -> None:
    """One state for launches of all sizes; as many blocks as tiles, fewer, and more; in place."""
    state = np.zeros(3 + 100 * 9, "uint32")
    launches = 0
    for n in SIZES:
        a, b = linear_inputs(1, n)
        tiles = -(-n // (BLOCK * 3))
        for grid in {max(1, tiles), 1, tiles + 2}:
            ra, rb = a.copy(), b.copy()
            scan_module.launch("linear_flat", grid, BLOCK, 0, [ra, rb, ra, rb, *sizes(1, n), state], seed=seed)
            launches += tiles > 1  # a single tile needs no state
            expected = linear_scan(a, b, 1, n)
            np.testing.assert_array_equal(ra, expected[0].reshape(-1))
            np.testing.assert_array_equal(rb, expected[1].reshape(-1))
            assert state[0] == state[1] == 0 and state[2] == launches


@pytest.mark.slow
def test_scan_of_functions(scan_module: EmulatedModule) -> None:
    """Long enough to look back over more than one window of 32 tiles."""
    n = 256 * 5 * 100 + 17
    x, r = np.arange(n, dtype="float64") % 13, np.zeros(n)
    state = np.zeros(3 + 101 * 5, "uint32")
    for seed in (None, 5, 6):
        scan_module.launch("add_by", 101, 256, 0, [x, r, np.int64(n), state], seed=seed)
        np.testing.assert_array_equal(r, np.cumsum(x))


@pytest.mark.slow
def test_blocks() -> None:
    """Scan of one block: the scan, what comes before each thread, and the total in every thread."""
    a, b = linear_inputs(5, BLOCK)
    ra, rb, rest = np.zeros((5, BLOCK), "int64"), np.zeros((5, BLOCK), "int64"), np.zeros((5, BLOCK, 2), "int64")
    EmulatedModule(BLOCK_SOURCE).launch("linear_blocks", 1, BLOCK, 0, [a, b, ra, rb, *sizes(5, BLOCK), rest])
    ea, eb = linear_scan(a, b, 5, BLOCK)
    np.testing.assert_array_equal(ra, ea)
    np.testing.assert_array_equal(rb, eb)
    np.testing.assert_array_equal(rest[:, 1:, 0], eb[:, :-1])
    assert not rest[:, 0, 0].any()
    np.testing.assert_array_equal(rest[:, :, 1], np.repeat(eb[:, -1:], BLOCK, axis=1))


def test_warps() -> None:
    """Each warp by itself."""
    a, b = linear_inputs(5, BLOCK)
    ra, rb, totals = np.zeros((5, BLOCK), "int64"), np.zeros((5, BLOCK), "int64"), np.zeros((5, BLOCK, 2), "int64")
    EmulatedModule(BLOCK_SOURCE).launch("linear_warps", 1, BLOCK, 0, [a, b, ra, rb, *sizes(5, BLOCK), totals])
    ea, eb = linear_scan(a, b, 5 * BLOCK // 32, 32)
    np.testing.assert_array_equal(ra.reshape(ea.shape), ea)
    np.testing.assert_array_equal(rb.reshape(eb.shape), eb)
    np.testing.assert_array_equal(totals.reshape(-1, 32, 2), np.repeat(eb[:, -1:, None], 32, axis=1).repeat(2, axis=2))


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_the_last_block(seed: int | None) -> None:
    """Sees what all have written; launch after launch with one counter."""
    module, counter = EmulatedModule(LAST), np.zeros(1, "uint32")
    for grid, block in ((1, 32), (7, 64), (40, 128)):
        x, r = np.arange(5000), np.zeros(block, "int64")
        module.launch("sum_up", grid, block, 0, [x, *sizes(5000), np.zeros(grid * block, "int64"), r, counter],
                      seed=seed)  # fmt: skip
        assert r.sum() == x.sum() and not counter.any()


def test_blocks_of_any_width() -> None:
    module = EmulatedModule(BLOCK_SOURCE)
    for width in (32, 64, 96, 256):
        a, b = linear_inputs(3, width)
        ra, rb, totals = np.zeros((3, width), "int64"), np.zeros((3, width), "int64"), np.zeros((3, width, 2), "int64")
        module.launch("linear_upto", 1, width, 0, [a, b, ra, rb, *sizes(3, width), totals])
        ea, eb = linear_scan(a, b, 3, width)
        np.testing.assert_array_equal(ra, ea)
        np.testing.assert_array_equal(rb, eb)
        np.testing.assert_array_equal(totals, np.repeat(eb[:, -1:, None], width, axis=1).repeat(2, axis=2))
