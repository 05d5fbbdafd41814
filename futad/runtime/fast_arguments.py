"""Arguments that already are what an entry's core function takes, bound in one pass.

Most calls pass arrays of NumPy or CuPy of the right type and plain numbers, and small programs are called often (by an
optimiser, say): a function written for the entry looks at each argument once, in a tenth of the time that
`Signature.flatten` needs to convert, compare and explain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.core.entry import EntryType
from futad.core.types import BOOL, F64, I64, MOST_SIZE
from futad.runtime.exchange import dense_cupy

if TYPE_CHECKING:
    from futad.runtime.values import Dim, Leaf, Signature

_IN_ORDER = 0x101  # NumPy's flags of arrays that are C-contiguous and aligned


@dataclass(frozen=True, slots=True)
class _Array:
    """An array parameter.  `dims`: each dimension's size, or the place of its size among the core arguments."""

    dtype: np.dtype[Any]
    dims: tuple[Dim, ...]
    unique: bool
    path: str


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
    """How to bind the arguments of an entry; made once.

    `bind(args)`: the core arguments; None if an argument needs conversion, or is wrong: `Signature.flatten` knows.
    """

    def __init__(
        self, params: Sequence[_Array | _Scalar], num_sizes: int, known: Mapping[int, Any] | None = None
    ) -> None:
        self.params, self.num_sizes = params, num_sizes
        text, values = _text(params, num_sizes, known or {})
        exec(text, values)
        self.bind: Callable[[Sequence[Any]], list[Any] | None] = values["bind"]

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return Plan, (self.params, self.num_sizes)


def _text(params: Sequence[_Array | _Scalar], num_sizes: int, known: Mapping[int, Any]) -> tuple[str, dict[str, Any]]:
    """The function that binds, and what its text mentions.  `known`: arguments that all calls have, exact ones, whose
    shapes no call looks at."""
    values: dict[str, Any] = {"ndarray": np.ndarray, "dense_cupy": dense_cupy}
    values |= {f"known{i}": value for i, value in known.items()}
    never = "def bind(args): return None", values
    free = [i for i in range(len(params)) if i not in known]
    lines = ["def bind(args):", f"  if len(args) != {len(free)}: return None"]
    if free:
        lines.append(f"  {''.join([f'a{i}, ' for i in free])}= args")
    found: dict[int, str] = {}
    for i, value in known.items():
        p = params[i]
        told: list[tuple[Dim, int]] = list(zip(p.dims, value.shape, strict=True)) if isinstance(p, _Array) else []
        if isinstance(p, _Scalar) and p.place is not None:
            told = [(("arg", p.place), int(value))]
        for dim, length in told:
            same = found.setdefault(dim[1], str(length)) if not isinstance(dim, int) else str(dim)
            if same != str(length) or not 0 <= length <= MOST_SIZE:
                return never
        lines.append(f"  a{i} = known{i}{'.copy()' if isinstance(p, _Array) and p.unique else ''}")
    for i in free:
        p = params[i]
        if isinstance(p, _Scalar):
            values |= {f"made{i}": p.made, f"exact{i}": p.exact}
            ranged = f" or not {p.low} <= a{i} <= {p.high}" if p.exact is int else ""
            lines.append(f"  if type(a{i}) is not made{i}:")
            lines.append(f"    if type(a{i}) is not exact{i}{ranged}: return None")
            lines.append(f"    a{i} = made{i}(a{i})")
            if p.place is not None:
                lines.append(f"  if a{i} < 0: return None")
                lines.append(f"  n{i} = int(a{i})")
                if found.setdefault(p.place, f"n{i}") != f"n{i}":
                    lines.append(f"  if n{i} != {found[p.place]}: return None")
    for i in free:
        p = params[i]
        if isinstance(p, _Array):
            values[f"dtype{i}"] = p.dtype
            lines.append(f"  if type(a{i}) is ndarray:")
            lines.append(f"    if a{i}.dtype is not dtype{i} or a{i}.ndim != {len(p.dims)}: return None")
            lines.append(f"    if a{i}.flags.num & {_IN_ORDER} != {_IN_ORDER}: return None")
            if p.unique:
                lines.append(f"    a{i} = a{i}.copy()")
            lines.append("  else:")
            lines.append(f"    a{i} = dense_cupy(a{i}, dtype{i}, {len(p.dims)}, {p.path!r}, {p.unique})")
            lines.append(f"    if a{i} is None: return None")
            lines.append(f"  {''.join([f's{i}_{d}, ' for d in range(len(p.dims))])}= a{i}.shape")
            if len(p.dims) > 1:  # memory bounds the others
                lines.append(f"  if not a{i}.size and max(a{i}.shape) > {MOST_SIZE}: return None")
            for d, dim in enumerate(p.dims):
                size = str(dim) if isinstance(dim, int) else found.setdefault(dim[1], f"s{i}_{d}")
                if size != f"s{i}_{d}":
                    lines.append(f"  if s{i}_{d} != {size}: return None")
    if any(k not in found for k in range(num_sizes)):
        return never
    core = [found[k] for k in range(num_sizes)] + [f"a{i}" for i in range(len(params))]
    return "\n".join([*lines, f"  return [{', '.join(core)}]"]), values


def plan(s: Signature, known: Mapping[int, Any] | None = None) -> Plan | None:
    """The plan of an entry, of which arguments may be known; None if it has parameters that are no plain arrays and
    numbers."""
    types = [t for _, t in s.entry.params]
    if len(types) != len(s.params) or not all(_is_plain(t) for t in types):
        return None
    used = {d[1] for leaf in s.params for d in leaf.dims if not isinstance(d, int)}
    params: list[_Array | _Scalar] = []
    for i, leaf in enumerate(s.params):
        if leaf.dims:
            unique = i < len(s.entry.unique) and s.entry.unique[i]
            params.append(_Array(leaf.elem.dtype, leaf.dims, unique, leaf.path))
        else:
            place = len(s.size_names) + i
            params.append(_scalar(leaf, place if leaf.elem is I64 and place in used else None))
    return Plan(params, len(s.size_names), known)


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
