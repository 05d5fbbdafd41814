"""The emulated device: what CUDA's words do on it, and what it reports."""

from __future__ import annotations

import numpy as np
import pytest

from futad.runtime.emulated import EmulatedModule

BASIC = """
#include "futad_scalar.cuh"
FUTAD_KERNEL __launch_bounds__(256) total(int64_t n, const double *x, double *out) {
  FUTAD_SHARED(double, s, 256);
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? futad_exp_f64(x[i]) : 0;
  __syncthreads();
  for (int k = 128; k; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, s[0]);
}
"""


def total_inputs(n: int) -> tuple[np.ndarray, np.ndarray, list[object]]:
    x = np.linspace(0, 1, n)
    out = np.zeros(1)
    return x, out, [np.int64(n), x, out]


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_block_sum(seed: int | None) -> None:
    x, out, args = total_inputs(5000)
    EmulatedModule(BASIC, seed=seed).launch("total", 20, 256, 0, args)
    assert out[0] == pytest.approx(np.exp(x).sum(), rel=1e-12)
