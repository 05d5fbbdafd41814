"""Random values of Futhark's types, as `futad dataset` and `random input` make them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from futad.core.types import PRIMS, Prim
from futad.errors import UsageError

_TYPE = re.compile(rf"((?:\[\s*[0-9]+\s*\])*)\s*({'|'.join(PRIMS)})")
Bounds = Mapping[str, tuple[float, float]]


def parse_type(text: str) -> tuple[Prim, tuple[int, ...]]:
    """`[10][2]f32` as element type and sizes.  Raises UsageError."""
    m = _TYPE.fullmatch(text.strip())
    if m is None:
        raise UsageError(f"'{text}' is not a type to generate; write for example i32 or [10][2]f64")
    dims = tuple([int(d) for d in re.findall(r"[0-9]+", m.group(1))])
    return PRIMS[m.group(2)], dims


def parse_bounds(prim: Prim, text: str) -> tuple[float, float]:
    """`min:max`, both inclusive.  Raises UsageError."""
    low, colon, high = text.partition(":")
    number = float if prim.is_float else int
    try:
        bounds = (number(low), number(high))
    except ValueError:
        raise UsageError(f"bounds for {prim} are written min:max, not '{text}'") from None
    if not colon or bounds[0] > bounds[1]:
        raise UsageError(f"bounds for {prim} are written min:max with min <= max, not '{text}'")
    if prim.is_integral:
        info = np.iinfo(prim.dtype)
        if bounds[0] < info.min or bounds[1] > info.max:
            raise UsageError(f"the bounds {text} do not fit {prim}")
    return bounds


def random_value(
    rng: np.random.Generator, prim: Prim, dims: Sequence[int], bounds: tuple[float, float] | None = None
) -> Any:
    """A scalar or array: integers over their whole type, floats over [0, 1), or within `bounds`.

    Raises UsageError if it is too large for memory.
    """
    shape = tuple(dims)
    try:
        if prim.is_bool:
            made: Any = rng.integers(0, 2, shape, dtype=bool)
        elif prim.is_integral:
            info = np.iinfo(prim.dtype)
            low, high = bounds or (info.min, info.max)
            made = rng.integers(int(low), int(high), shape, dtype=prim.dtype, endpoint=True)
        else:
            made = rng.random(shape)
            if bounds is not None:
                low, high = bounds
                made *= high - low
                made += low
            made = made.astype(prim.dtype, copy=False)
    except (MemoryError, ValueError, OverflowError):
        text = "".join(f"[{d}]" for d in shape) + prim.name
        raise UsageError(f"{text} does not fit in memory") from None
    return np.asarray(made) if shape else prim.dtype.type(made)
