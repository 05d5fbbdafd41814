"""The least and the largest number that integers of a program can be, as far as constants tell.

Indices in programs of JAX are often arrays that the function closes over (the camera that an observation was made by,
the columns of a minor).  JAX adds the size to negative ones and promises nothing of the others; where their numbers are
known to be inside, a read needs no comparison.  Bounds are facts about a value (`Value.bounds`): of constants by
looking, of what is computed from them by the rules here, None where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Bounds = tuple[int, int] | None
_SAME = ("broadcast_in_dim", "reshape", "squeeze", "slice", "transpose", "rev", "expand_dims", "copy", "dynamic_slice",
         "convert_element_type", "stop_gradient")  # fmt: skip


def of_array(a: np.ndarray[Any, Any]) -> Bounds:
    """Those of a constant."""
    return (int(a.min()), int(a.max())) if a.dtype.kind in "iub" and a.size else None


def of_equation(eqn: Any, given: Sequence[Bounds]) -> Bounds:
    """Those of an equation's result, by those of its operands."""
    if len(eqn.outvars) != 1:
        return None
    aval = eqn.outvars[0].aval
    dtype = getattr(aval, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iub":  # keys of random numbers are none
        return None
    name = eqn.primitive.name
    found = _by_rule(name, eqn.params, given)
    if name == "iota" and isinstance(n := aval.shape[eqn.params["dimension"]], int) and n:
        found = 0, n - 1
    return found if found is not None and _fits(found, dtype) else None


def _fits(bounds: tuple[int, int], dtype: np.dtype[Any]) -> bool:
    """Whether nothing has wrapped around."""
    least, largest = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    return least <= bounds[0] and bounds[1] <= largest


def _by_rule(name: str, params: Any, given: Sequence[Bounds]) -> Bounds:
    if name == "select_n" and given[0] is not None:
        which = [g for k, g in enumerate(given[1:]) if given[0][0] <= k <= given[0][1]]
        return _union(which)
    if not given or given[0] is None:
        return None
    if name in _SAME:
        return given[0]
    if name == "concatenate":
        return _union(given)
    if name not in _COMPUTED or len(given) != 2 or given[1] is None:
        return None
    return _COMPUTED[name](*given[0], *given[1])


def _union(several: Sequence[Bounds]) -> Bounds:
    known = [g for g in several if g is not None]
    if not known or len(known) != len(several):
        return None
    return min([lo for lo, _ in known]), max([hi for _, hi in known])


def _product(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    every = [a * c, a * d, b * c, b * d]
    return min(every), max(every)


def _certain(is_so: bool, is_not: bool) -> Bounds:
    return (1, 1) if is_so else (0, 0) if is_not else (0, 1)


_COMPUTED: dict[str, Callable[[int, int, int, int], Bounds]] = {
    "add": lambda a, b, c, d: (a + c, b + d),
    "sub": lambda a, b, c, d: (a - d, b - c),
    "mul": _product,
    "min": lambda a, b, c, d: (min(a, c), min(b, d)),
    "max": lambda a, b, c, d: (max(a, c), max(b, d)),
    "lt": lambda a, b, c, d: _certain(b < c, a >= d),
    "ge": lambda a, b, c, d: _certain(a >= d, b < c),
}


def inside(bounds: Bounds, size: int | None, window: int | None) -> bool:
    """Whether windows that start at such places are inside of a dimension; None: a size that is not known."""
    if bounds is None or size is None or window is None:
        return False
    return bounds[0] >= 0 and bounds[1] <= size - window


__all__ = ["Bounds", "inside", "of_array", "of_equation"]
