"""The kernel of contractions, kernels/contract.h, against sums written out: every way that axes move through arrays."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from futad.runtime.cc import build_library
from tests.support.slow import slow_but

SOURCE = """
#include "prelude.h"
%s
#include "gemm.h"
#include "contract.h"
#define WRAP(S, T) \\
  void contract_##S(int axes, const int64_t *sizes, int outs, const T *a, const int64_t *sa, const T *b, \\
                    const int64_t *sb, T *c, const int64_t *sc) { \\
    futad_contract_##S(axes, sizes, outs, a, sa, b, sb, c, sc, true); \\
  }
WRAP(f64, double)
WRAP(f32, float)
"""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "pool"])
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return build_library(SOURCE % ('#include "thread_pool.h"' if request.param else ""), threads=request.param)


def spread(sizes: list[int], steps: list[int]) -> tuple[int, int]:
    """How many elements an array has through which axes move so, and which one they start at."""
    if 0 in sizes:
        return 0, 0
    ends = [step * (n - 1) for step, n in zip(steps, sizes, strict=True)]
    start = -sum(min(0, e) for e in ends)
    return start + sum(max(0, e) for e in ends) + 1, start


def strides(shape: list[int]) -> list[int]:
    return [int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape))]


def check(
    library: ctypes.CDLL, dtype: type, sizes: list[int], outs: int, sa: list[int], sb: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sc = strides(sizes[:outs])
    a, b = (rng.integers(-4, 5, spread(sizes, s)[0]).astype(dtype) for s in (sa, sb))
    (_, first), (_, second) = spread(sizes, sa), spread(sizes, sb)
    count = int(np.prod(sizes[:outs], dtype=int))
    out = np.full(count + 2, 77, dtype)  # one more on each side
    i64s = lambda xs: (ctypes.c_int64 * max(1, len(xs)))(*xs)  # noqa: E731
    at = lambda v, k: ctypes.c_void_p(v.ctypes.data + k * v.itemsize)  # noqa: E731
    function = library.contract_f64 if dtype is np.float64 else library.contract_f32
    function(len(sizes), i64s(sizes), outs, at(a, first), i64s(sa), at(b, second), i64s(sb), at(out, 1), i64s(sc))
    index = np.indices(sizes, sparse=True)
    moved = [sum(x * step for x, step in zip(index, steps, strict=True)) for steps in (sa, sb)]
    places = [first + moved[0], second + moved[1]]
    expected = np.zeros(sizes[:outs])
    if 0 not in sizes:
        product = a[np.broadcast_to(places[0], sizes)].astype(float) * b[np.broadcast_to(places[1], sizes)]
        expected = product.sum(axis=tuple(range(outs, len(sizes))))
    np.testing.assert_array_equal(out[1:-1].reshape(sizes[:outs]), expected)
    assert out[0] == out[-1] == 77


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lanes", slow_but([1, 8, 33], [1, 2, 7, 8, 9, 15, 16, 17, 33, 48, 63, 64, 97, 400]))
def test_lanes(library: ctypes.CDLL, dtype: type, lanes: int) -> None:
    """Windows, their adjoint by the filter, and that by the image: every number of lanes and of rows."""
    for rows, (p, q) in itertools.product((1, 2, 4, 5, 8, 9, 35), ((1, 1), (3, 2))):
        high = 3
        wide = lanes + q - 1
        image, filters, result = [0, wide, 1, wide, 1], [p * q, 0, 0, q, 1], [high * lanes, lanes, 1]
        check(library, dtype, [rows, high, lanes, p, q], 3, filters, image, lanes * rows)
        check(library, dtype, [rows, high, lanes, p, q], 3, image, filters, lanes * rows)
        by_filter, by_image = [rows, p, q, high, lanes], [high, lanes, rows, p, q]
        check(library, dtype, by_filter, 3, [result[0], 0, 0, *result[1:]], [0, wide, 1, wide, 1], rows)
        check(library, dtype, by_image, 2, [lanes, 1, high * lanes, -lanes, -1], [0, 0, p * q, q, 1], rows)


@pytest.mark.parametrize("sizes", [[0, 5, 3], [5, 0, 3], [5, 40, 0], [1, 1, 1], [3, 40, 5000]])
def test_empty_and_long(library: ctypes.CDLL, sizes: list[int]) -> None:
    check(library, np.float64, sizes, 2, [sizes[2], 0, 1], [0, 1, 1], 3)
    check(library, np.float32, sizes, 1, [sizes[1], 1, 0], [0, 1, 1], 4)


@pytest.mark.parametrize("seed", range(40))
def test_any_axes(library: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(1, 7))
    outs = int(rng.integers(1, axes + 1))
    sizes = [int(n) for n in rng.choice([1, 2, 3, 5, 9, 18], axes)]
    sa, sb = ([int(x) for x in rng.choice([0, 0, 1, 1, 2, -1, -3, 7], axes)] for _ in range(2))
    check(library, rng.choice([np.float64, np.float32]), sizes, outs, sa, sb, seed)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lanes", [3, 8, 16, 23, 200, 400])
def test_one_filter(library: ctypes.CDLL, dtype: type, lanes: int) -> None:
    """Rows of an image that read the same places, forwards and backwards, of several images at other distances."""
    for high, (p, q) in itertools.product((1, 3, 4, 5, 11), ((2, 1), (3, 3), (5, 2))):
        wide, tall = lanes + q - 1, high + p - 1
        for sign in (1, -1):
            check(library, dtype, [high, lanes, p, q], 2, [0, 0, q, 1], [wide, 1, sign * wide, sign], high)
            several = [0, 0, 0, q, 1], [tall * wide, wide, 1, sign * wide, sign]
            check(library, dtype, [3, high, lanes, p, q], 3, *several, high)
            check(library, dtype, [3, high, lanes, p, q], 3, [7, *several[0][1:]], several[1], high)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lanes", [2, 5, 7])
def test_packed(library: ctypes.CDLL, dtype: type, lanes: int) -> None:
    """Small images of many channels: columns of several axes, apart in the result or side by side, and of several
    images; more terms than are packed at a time, more rows than share them, sums that lie side by side in both."""
    p = q = 3
    for rows, high, channels in itertools.product((2, 9, 70), (1, 4, 11), (1, 3, 31)):
        wide, tall = lanes + q - 1, high + p - 1
        sums = [channels, p, q]
        by, of = [p * q, q, 1], [tall * wide, wide, 1]
        check(library, dtype, [rows, high, lanes, *sums], 3, [channels * p * q, 0, 0, *by], [0, wide, 1, *of], rows)
        check(library, dtype, [high, rows, lanes, *sums], 3, [wide, 0, 1, *of], [0, channels * p * q, 0, *by], rows)
        if channels < 31:
            image = channels * tall * wide
            for filters in (0, 5):
                several = [filters, channels * p * q, 0, 0, *by], [image, 0, wide, 1, *of]
                check(library, dtype, [3, rows, high, lanes, *sums], 4, *several, rows)
