"""The kernel that copies a result out of a program's memory, unless the call has failed.

Where results stay on the device nobody waits to hear of failures, so what a failed call hands over must not look like
results: floats are NaN, integers -1 (unsigned ones the largest there are), bools true.
"""

from __future__ import annotations

NAME = "futad_hand_over"
THREADS = 256

SOURCE = f"""#include "device.cuh"
FUTAD_KERNEL __launch_bounds__({THREADS}) {NAME}(const int64_t *error, uint8_t *to, const uint8_t *from, int64_t bytes,
                                                int32_t fill) {{
  const bool failed = error[0] != 0;
  const int64_t first = (int64_t)blockIdx.x * {THREADS} + threadIdx.x, step = (int64_t)gridDim.x * {THREADS};
  const int64_t words = ((size_t)to | (size_t)from) % 8 ? 0 : bytes / 8;
  const uint64_t filled = 0x0101010101010101ULL * (uint8_t)fill;
  for (int64_t i = first; i < words; i += step) ((uint64_t *)to)[i] = failed ? filled : ((const uint64_t *)from)[i];
  for (int64_t i = 8 * words + first; i < bytes; i += step) to[i] = failed ? (uint8_t)fill : from[i];
}}
"""
