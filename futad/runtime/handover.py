"""The kernel that copies results out of a program's memory, unless the call has failed.

Where results stay on the device nobody waits to hear of failures, so what a failed call hands over must not look like
results: floats are NaN, integers -1 (unsigned ones the largest there are), bools true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

NAME = "futad_hand_over"
THREADS = 256
MOST = 8  # pieces of a launch


class Piece(NamedTuple):
    """A result: `nbytes` of memory from `source` to `to`, or if `known` the low bytes of the number `source` itself;
    `ones`: each byte of a failed call's is 1, not 255."""

    to: int
    source: int
    nbytes: int
    ones: bool
    known: bool = False


def piece(to: int, source: int, value: Any, dtype: np.dtype[Any], nbytes: int) -> Piece:
    """A result of that type, in memory at `source`, or a scalar `value` that the host has."""
    ones = dtype == np.bool_
    if value is None:
        return Piece(to, source, nbytes, ones)
    return Piece(to, int.from_bytes(dtype.type(value).tobytes(), "little"), nbytes, ones, known=True)


FIELDS: tuple[np.dtype[Any] | None, ...] = (
    None, np.dtype(np.uint32), np.dtype(np.uint32), *[None, np.dtype(np.uint64), np.dtype(np.int64)] * MOST
)  # fmt: skip


def arguments(error: int, pieces: Sequence[Piece]) -> list[int]:
    """The kernel's: where the record of failures is (0: nothing can have failed), which pieces are filled with ones and
    which are known, one bit each, and of each piece the rest."""
    ones = sum([p.ones << i for i, p in enumerate(pieces)])
    known = sum([p.known << i for i, p in enumerate(pieces)])
    rest = [x for p in pieces for x in (p.to, p.source, p.nbytes)]
    return [error, ones, known, *rest, *[0] * (3 * (MOST - len(pieces)))]


_PARAMS = ", ".join([f"uint8_t *to{i}, uint64_t from{i}, int64_t bytes{i}" for i in range(MOST)])
_CASES = "\n".join([f"    case {i}: to = to{i}; from = from{i}; bytes = bytes{i}; break;" for i in range(MOST)])

SOURCE = f"""#include "device.cuh"
FUTAD_KERNEL __launch_bounds__({THREADS}) {NAME}(const int64_t *error, uint32_t ones, uint32_t known, {_PARAMS}) {{
  const bool failed = error != 0 && error[0] != 0;
  uint8_t *to = to0;
  uint64_t from = from0;
  int64_t bytes = bytes0;
  switch (blockIdx.z) {{
{_CASES}
  }}
  const uint64_t filled = (ones >> blockIdx.z) & 1 ? 0x0101010101010101ULL : ~0ULL;
  const int64_t first = (int64_t)blockIdx.x * {THREADS} + threadIdx.x, step = (int64_t)gridDim.x * {THREADS};
  if ((known >> blockIdx.z) & 1) {{
    if (first < bytes) to[first] = (uint8_t)((failed ? filled : from) >> (8 * first));
  }} else {{
    const uint8_t *source = (const uint8_t *)from;
    const int64_t words = ((size_t)to | (size_t)source) % 8 ? 0 : bytes / 8;
    for (int64_t i = first; i < words; i += step) ((uint64_t *)to)[i] = failed ? filled : ((const uint64_t *)source)[i];
    for (int64_t i = 8 * words + first; i < bytes; i += step) to[i] = failed ? (uint8_t)filled : source[i];
  }}
}}
"""
