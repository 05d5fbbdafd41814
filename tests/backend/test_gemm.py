"""The packed matrix product of kernels/gemm.h against NumPy: every layout, edge tile and accumulation mode."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from futad.runtime.cc import build_library

SOURCE = """
#include "prelude.h"
#include "gemm.h"
#define WRAP(S, T) \\
  int gemm_##S(int64_t m, int64_t n, int64_t k, const T *a, int64_t ra, int64_t ca, const T *b, int64_t rb, \\
               int64_t cb, const T *packed, T *c, int64_t rc, int64_t cc, int add) { \\
    return futad_gemm_##S(m, n, k, a, ra, ca, b, rb, cb, packed, c, rc, cc, add); \\
  } \\
  void pack_##S(int64_t k, int64_t n, const T *b, int64_t rb, int64_t cb, T *packed, int64_t start, int64_t end) { \\
    futad_gemm_pack_##S(k, n, b, rb, cb, packed, start, end); \\
  }
WRAP(f64, double)
WRAP(f32, float)
"""


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return build_library(SOURCE)


def matrix(x: np.ndarray) -> list[object]:
    return [ctypes.c_void_p(x.ctypes.data), *[ctypes.c_int64(s // x.itemsize) for s in x.strides]]


def product(
    library: ctypes.CDLL, a: np.ndarray, b: np.ndarray, c: np.ndarray, add: int, packed: np.ndarray | None = None
) -> None:
    sizes = [ctypes.c_int64(s) for s in (a.shape[0], b.shape[1], a.shape[1])]
    function = library.gemm_f64 if a.dtype == np.float64 else library.gemm_f32
    given = ctypes.c_void_p(None if packed is None else packed.ctypes.data)
    assert function(*sizes, *matrix(a), *matrix(b), given, *matrix(c), add) == 0


def pack(library: ctypes.CDLL, b: np.ndarray, parts: list[int]) -> np.ndarray:
    """The matrix packed, the columns between each two of `parts` at a time; one number more behind it."""
    k, n = b.shape
    out = np.full(k * (n + 16) + 1, 7, b.dtype)
    function = library.pack_f64 if b.dtype == np.float64 else library.pack_f32
    for start, end in zip(parts, parts[1:], strict=False):
        sizes, part = map(ctypes.c_int64, (k, n)), map(ctypes.c_int64, (start, end))
        function(*sizes, *matrix(b), ctypes.c_void_p(out.ctypes.data), *part)
    assert out[-1] == 7
    return out


# One element, empty sides, edges of the register tile, of each cache block, and beyond; few columns, few rows, few of
# both; a last panel of a column or so; few rows, whose panels are
# narrow, beside wide ones.
SIZES = [(1, 1, 1), (0, 3, 2), (3, 2, 0), (7, 5, 3), (8, 24, 9), (64, 64, 300), (97, 50, 257), (5, 800, 3),
         (100, 10, 10), (12, 17, 300), (9, 33, 11), (2, 200, 7), (33, 1, 40), (10, 769, 5), (4, 4, 4),
         (20, 30, 321), (9, 100, 513), (9, 60, 641), (131, 200, 30), (20, 200, 600), (70, 800, 300)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", SIZES)
def test_equals_numpy(library: ctypes.CDLL, size: tuple[int, int, int], dtype: type) -> None:
    m, n, k = size
    rng = np.random.default_rng(m * 1000 + n * 10 + k)
    for layout in range(8):
        ta, tb, tc = layout & 1, layout & 2, layout & 4
        a = rng.standard_normal((k, m) if ta else (m, k)).astype(dtype)
        b = rng.standard_normal((n, k) if tb else (k, n)).astype(dtype)
        c = rng.standard_normal((n, m) if tc else (m, n)).astype(dtype)
        a, b, c = (x.T if t else x for x, t in ((a, ta), (b, tb), (c, tc)))
        for add in (0, 1):
            exact = a.astype(np.float64) @ b.astype(np.float64) + add * c.astype(np.float64)
            # |error| <= (k + 1) u sum |a||b|, the bound for any order of summation.
            bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + np.abs(c)
            for packed in (None, pack(library, b, [0, n]), pack(library, b, [n // 3, n // 2, n, 0, n // 3])):
                got = c.copy(order="K")
                product(library, a, b, got, add, packed)
                assert np.all(np.abs(got - exact) <= (k + 2) * np.finfo(dtype).eps * bound)


@pytest.mark.slow
def test_zero_stride_operand_is_a_broadcast(library: ctypes.CDLL) -> None:
    row = np.arange(5.0)
    a = np.broadcast_to(row, (9, 5))
    b = np.random.default_rng(1).standard_normal((5, 4))
    c = np.empty((9, 4))
    product(library, a, b, c, 0)
    assert np.allclose(c, np.tile(row @ b, (9, 1)), rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [(3, 2, 3), (20, 9, 6), (50, 70, 40), (5, 130, 20)])
def test_zeros_do_not_hide_nan_and_infinity(library: ctypes.CDLL, size: tuple[int, int, int], dtype: type) -> None:
    m, n, k = size
    for place, what in (((0, 0), np.nan), ((m - 1, k - 1), np.inf)):
        a, b = np.ones((m, k), dtype), np.zeros((k, n), dtype)
        a[place] = what
        for c in (np.zeros((m, n), dtype), np.zeros((n, m), dtype).T):
            product(library, a, b, c, 1)
            assert np.isnan(c[place[0]]).all()
            assert (np.delete(c, place[0], 0) == 0).all()


def test_nothing_beside_the_result_is_written(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(3)
    for m, n, k in ((9, 10, 30), (3, 5, 40), (13, 27, 20), (40, 110, 3)):
        for turned in (False, True):
            frame = np.full((n + 2, m + 2) if turned else (m + 2, n + 2), 7.0)
            c = (frame.T if turned else frame)[1:-1, 1:-1]
            a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
            product(library, a, b, c, 0)
            assert np.allclose(c, a @ b, rtol=1e-12, atol=1e-12)
            c[:] = 7
            assert (frame == 7).all()
