"""Random values of Futhark's types, as `futad dataset` and `random input` make them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.core.types import PRIMS, Prim
from futad.errors import UsageError

if TYPE_CHECKING:
    from futad.runtime.values import Signature

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


def random_leaves(signature: Signature, seed: int, sizes: dict[str, int]) -> list[Any]:
    """Random flat arguments that fit together: an argument that is a size gets a small value."""
    rng = np.random.default_rng(seed)
    first = len(signature.size_names)
    known = [sizes[n] for n in signature.size_names]
    named = {d[1] for leaf in signature.params for d in leaf.dims if not isinstance(d, int)}
    values = {first + i: 3 + i for i in range(len(signature.params)) if first + i in named}
    bound = min([*known, *values.values()], default=3)
    leaves: list[Any] = []
    for i, leaf in enumerate(signature.params):
        t = leaf.elem
        if first + i in values:
            leaves.append(t.dtype.type(values[first + i]))
            continue
        shape = [d if isinstance(d, int) else values[d[1]] if d[1] in values else known[d[1]] for d in leaf.dims]
        made: Any
        if t.is_float:
            made = rng.standard_normal(shape)
        elif t.is_bool:
            made = rng.random(shape) < 0.5
        else:
            made = rng.integers(0, max(1, bound), shape)
        array = np.asarray(made).astype(t.dtype)
        leaves.append(array if array.ndim else array[()])
    return leaves


def sizes_given(signature: Signature, given: Sequence[str]) -> dict[str, int]:
    """Sizes of random input, as texts NAME=N say; those not named are small and different.  Raises UsageError."""
    out = {name: 3 + i for i, name in enumerate(dict.fromkeys(signature.size_names))}
    for text in given:
        name, equals, number = text.partition("=")
        if name not in out or not equals or not number.isdigit():
            names = ", ".join(out) or "none"
            raise UsageError(f"--size {text}: write NAME=N with NAME one of the size parameters ({names})")
        out[name] = int(number)
    return out
