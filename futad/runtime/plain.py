"""Arguments that already are what an entry's core function takes, bound in one pass.

Most calls pass NumPy arrays of the right type and plain numbers, and small programs are called often (by an
optimiser, say): looking at each argument once, by a plan made beforehand, takes a quarter of the time that
`Signature.flatten` needs to convert, compare and explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.core.entry import EntryType
from futad.core.types import BOOL, F64, I64

if TYPE_CHECKING:
    from futad.runtime.values import Leaf, Signature

_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class _Array:
    """An array parameter.  `sizes`: for each dimension the place of its size among the core arguments."""

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    unique: bool


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A number: `made` by the element type from what is of type `exact` and in the range `low` to `high`.  `place`:
    where it is among the core arguments if some array has it as a size, else None."""

    made: type
    exact: type | None
    low: int
    high: int
    place: int | None


class Plan:
    """How to bind the arguments of an entry; made once."""

    def __init__(self, params: Sequence[_Array | _Scalar], num_sizes: int) -> None:
        self.params = params
        self.num_sizes = num_sizes
        self.unknown = [_UNKNOWN] * (num_sizes + len(params))

    def bind(self, args: Sequence[Any]) -> list[Any] | None:
        """The core arguments; None if an argument needs conversion, or is wrong: `Signature.flatten` knows."""
        if len(args) != len(self.params):
            return None
        sizes = self.unknown.copy()
        leaves: list[Any] = []
        for value, p in zip(args, self.params, strict=True):
            kind = type(value)
            if isinstance(p, _Array):
                if kind is not np.ndarray or value.dtype is not p.dtype or value.ndim != len(p.sizes):
                    return None
                flags = value.flags
                if not (flags.c_contiguous and flags.aligned):
                    return None
                leaves.append(value.copy() if p.unique else value)
                continue
            if kind is not p.made:
                if kind is not p.exact or not (kind is not int or p.low <= value <= p.high):
                    return None
                value = p.made(value)
            if p.place is not None:
                if value < 0:
                    return None
                sizes[p.place] = int(value)
            leaves.append(value)
        for value, p in zip(leaves, self.params, strict=True):
            if isinstance(p, _Array):
                for actual, place in zip(value.shape, p.sizes, strict=True):
                    if sizes[place] != actual:
                        if sizes[place] != _UNKNOWN:
                            return None
                        sizes[place] = actual
        found = sizes[: self.num_sizes]
        return None if _UNKNOWN in found else found + leaves


def plan(s: Signature) -> Plan | None:
    """The plan of an entry; None if it has parameters that are no plain arrays and numbers."""
    types = [t for _, t in s.entry.params]
    if len(types) != len(s.params) or not all(_is_plain(t) for t in types):
        return None
    used = {d[1] for leaf in s.params for d in leaf.dims if not isinstance(d, int)}
    params: list[_Array | _Scalar] = []
    for i, leaf in enumerate(s.params):
        if leaf.dims:
            if any(isinstance(d, int) for d in leaf.dims):
                return None
            unique = i < len(s.entry.unique) and s.entry.unique[i]
            params.append(_Array(leaf.elem.dtype, tuple([d[1] for d in leaf.dims if not isinstance(d, int)]), unique))
        else:
            place = len(s.size_names) + i
            params.append(_scalar(leaf, place if leaf.elem is I64 and place in used else None))
    return Plan(params, len(s.size_names))


def _is_plain(t: EntryType) -> bool:
    """Whether a value of the type is one component."""
    return t.kind == "scalar" or (t.kind == "array" and not (isinstance(t.elem, EntryType) and not _is_plain(t.elem)))


def _scalar(leaf: Leaf, place: int | None) -> _Scalar:
    elem = leaf.elem
    if elem.is_integral:
        about = np.iinfo(elem.dtype)
        return _Scalar(elem.dtype.type, int, int(about.min), int(about.max), place)
    # Of floats only f64 holds Python's exactly.
    exact = bool if elem is BOOL else float if elem is F64 else None
    return _Scalar(elem.dtype.type, exact, 0, 0, None)
