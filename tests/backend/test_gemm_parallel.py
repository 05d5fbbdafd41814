"""The packed matrix product on several threads: equal to NumPy, and no dearer than on one where it is small."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from futad.errors import BackendError
from futad.runtime.cc import build_library

SOURCE = """
#include "prelude.h"
#include "thread_pool.h"
#include "gemm.h"
int several(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c, int add, double *packed) {
  futad_pool_set_threads(3);
  if (packed) futad_gemm_pack_f64(k, n, b, n, 1, packed, 0, n);
  return futad_gemm_parallel_f64(m, n, k, a, k, 1, b, n, 1, packed, c, n, 1, add);
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
/* Seconds of 200 products of 4 x 4 matrices, by the function for several threads or by the other. */
double small(int on_several) {
  static double a[16], b[16], c[16];
  futad_pool_set_threads(2);
  const double start = now();
  for (int i = 0; i < 200; i++) {
    if (on_several)
      futad_gemm_parallel_f64(4, 4, 4, a, 4, 1, b, 4, 1, NULL, c, 4, 1, 1);
    else
      futad_gemm_f64(4, 4, 4, a, 4, 1, b, 4, 1, NULL, c, 4, 1, 1);
  }
  return now() - start;
}
"""


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    try:
        made = build_library(SOURCE, threads=True)
    except BackendError:
        pytest.skip("no C compiler")
    made.small.restype = ctypes.c_double
    return made


@pytest.mark.slow
@pytest.mark.parametrize("add", [0, 1])
@pytest.mark.parametrize("size", [(0, 3, 2), (2, 3, 4), (200, 40, 30), (40, 200, 30), (40, 150, 60), (40, 145, 60),
                                  (1, 3000, 40), (3000, 1, 40)])  # fmt: skip
def test_equals_numpy(library: ctypes.CDLL, size: tuple[int, int, int], add: int) -> None:
    m, n, k = size
    rng = np.random.default_rng(m + n)
    a, b, c = rng.standard_normal((m, k)), rng.standard_normal((k, n)), rng.standard_normal((m, n))
    want, before = a @ b + add * c, c.copy()
    bound = (k + 2) * np.finfo(float).eps * (np.abs(a) @ np.abs(b) + np.abs(c))  # for any order of summation
    for packed in (None, np.zeros(k * (n + 16))):
        c[:] = before
        sizes, arrays = map(ctypes.c_int64, size), [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
        room = ctypes.c_void_p(None if packed is None else packed.ctypes.data)
        assert library.several(*sizes, *arrays, add, room) == 0
        assert np.all(np.abs(c - want) <= bound)


def test_small_product_starts_no_pool(library: ctypes.CDLL) -> None:
    # A pool, even of one thread, costs many times such a product.
    one, several = (min(library.small(kind) for _ in range(100)) for kind in (0, 1))
    assert several < 2 * one
