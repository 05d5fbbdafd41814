"""Reduce and scan templates on the emulated device, with operators that do and do not commute."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_sources import BLOCK as BLOCK_SOURCE
from kernel_sources import LAST, REDUCE, SCAN

from futad.runtime.emulated import EmulatedModule

BLOCK = 128
# (segments, elements of each): around a warp, around a block, several blocks.
SHAPES = [
    (0, 5), (1, 0), (3, 0), (1, 1), (5, 1), (2, 31), (2, 32), (3, 33), (200, 3), (3, 127), (2, 128), (3, 129),
    (1, 1000), (4, 777), (1, 5000),
]  # fmt: skip


@pytest.fixture(scope="module")
def reduce_module() -> EmulatedModule:
    return EmulatedModule(REDUCE)


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


def linear_reduce(a: np.ndarray, b: np.ndarray, segments: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    if n == 0:
        return np.ones(segments, "int64"), np.zeros(segments, "int64")
    ra, rb = linear_scan(a, b, segments, n)
    return ra[:, -1], rb[:, -1]


def sizes(*values: int) -> list[np.int64]:
    return [np.int64(v) for v in values]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("how", ["thread", "warp", "block"])
def test_segmented_reduce(reduce_module: EmulatedModule, how: str, shape: tuple[int, int]) -> None:
    segments, n = shape
    a, b = linear_inputs(segments, n)
    ra, rb = np.full((2, segments), 99)
    for grid in (1, 3):
        reduce_module.launch(f"linear_{how}", grid, BLOCK, 0, [a, b, ra, rb, *sizes(segments, n)])
        expected = linear_reduce(a, b, segments, n)
        np.testing.assert_array_equal(ra, expected[0])
        np.testing.assert_array_equal(rb, expected[1])
    x = a / 4  # exact sums
    r = np.full(segments, 99.0)
    reduce_module.launch(f"add_{how}", 2, BLOCK, 0, [x, r, *sizes(segments, n)])
    np.testing.assert_array_equal(r, x.reshape(segments, n).sum(axis=1))


@pytest.mark.parametrize("seed", [None, 11])
@pytest.mark.parametrize("parts", [1, 2, 7, 150])
def test_grid_reduce(reduce_module: EmulatedModule, parts: int, seed: int | None) -> None:
    counters = np.zeros(16, "uint32")
    for segments, n in [s for s in SHAPES if 0 < s[0] < (10 if parts < 100 else 2)]:
        a, b = linear_inputs(segments, n)
        ra, rb = np.full((2, segments), 99)
        partials = np.full(segments * parts * 4, 77, "uint32")
        more = [*sizes(segments, n, parts), partials, counters]
        reduce_module.launch("linear_grid", segments * parts, BLOCK, 0, [a, b, ra, rb, *more], seed=seed)
        expected = linear_reduce(a, b, segments, n)
        np.testing.assert_array_equal(ra, expected[0])
        np.testing.assert_array_equal(rb, expected[1])
        x, r = a / 4, np.full(segments, 99.0)
        reduce_module.launch("add_grid", segments * parts, BLOCK, 0, [x, r, *more], seed=seed)
        np.testing.assert_array_equal(r, x.reshape(segments, n).sum(axis=1))
        assert not counters.any()


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[0]], ids=str)
@pytest.mark.parametrize("how", ["thread", "block"])
def test_segmented_scan(scan_module: EmulatedModule, how: str, shape: tuple[int, int]) -> None:
    segments, n = shape
    a, b = linear_inputs(segments, n)
    ra, rb = np.full((2, segments * n), 99)
    scan_module.launch(f"linear_{how}", 2, BLOCK, 0, [a, b, ra, rb, *sizes(segments, n)])
    expected = linear_scan(a, b, segments, n)
    np.testing.assert_array_equal(ra, expected[0].reshape(-1))
    np.testing.assert_array_equal(rb, expected[1].reshape(-1))


@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4])
def test_single_pass_scan(scan_module: EmulatedModule, seed: int | None) -> None:
    """One state for launches of all shapes; as many blocks as tiles, fewer, and more; in place."""
    state = np.zeros(3 + 100 * 11, "uint32")
    launches = 0
    for segments, n in [s for s in SHAPES if s[0]]:
        a, b = linear_inputs(segments, n)
        tiles = -(-segments * n // (BLOCK * 3))
        for grid in {max(1, tiles), 1, tiles + 2}:
            ra, rb = a.copy(), b.copy()
            args = [ra, rb, ra, rb, *sizes(segments, n), state]
            scan_module.launch("linear_grid", grid, BLOCK, 0, args, seed=seed)
            launches += tiles > 1  # a single tile needs no state
            expected = linear_scan(a, b, segments, n)
            np.testing.assert_array_equal(ra, expected[0].reshape(-1))
            np.testing.assert_array_equal(rb, expected[1].reshape(-1))
            assert state[0] == state[1] == 0 and state[2] == launches


def test_flat_scan(scan_module: EmulatedModule) -> None:
    """Without segments; long enough to look back over more than one window of 32 tiles."""
    n = BLOCK * 5 * 100 + 17
    x, r = np.arange(n, dtype="float64") % 13, np.zeros(n)
    state = np.zeros(3 + 101 * 5, "uint32")
    for seed in (None, 5, 6):
        scan_module.launch("add_flat", 101, BLOCK, 0, [x, r, *sizes(1, n), state], seed=seed)
        np.testing.assert_array_equal(r, np.cumsum(x))


def test_blocks() -> None:
    """Scan and reduce of one block: the scan, what comes before each thread, and the total in every thread."""
    a, b = linear_inputs(5, BLOCK)
    ra, rb, rest = np.zeros((5, BLOCK), "int64"), np.zeros((5, BLOCK), "int64"), np.zeros((5, BLOCK, 3), "int64")
    EmulatedModule(BLOCK_SOURCE).launch("linear_blocks", 1, BLOCK, 0, [a, b, ra, rb, *sizes(5, BLOCK), rest])
    ea, eb = linear_scan(a, b, 5, BLOCK)
    np.testing.assert_array_equal(ra, ea)
    np.testing.assert_array_equal(rb, eb)
    np.testing.assert_array_equal(rest[:, 1:, 0], eb[:, :-1])
    assert not rest[:, 0, 0].any()
    np.testing.assert_array_equal(rest[:, :, 1], np.repeat(eb[:, -1:], BLOCK, axis=1))
    np.testing.assert_array_equal(rest[:, :, 2], rest[:, :, 1])


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
