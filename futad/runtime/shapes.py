"""Shapes and dtypes of an entry's results, from those of its arguments, without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from futad.core.types import I64
from futad.errors import ShapeError, UsageError
from futad.runtime.structure import count_text, flatten_value
from futad.runtime.values import Leaf, Signature, leaf_text


class Spec(NamedTuple):
    """An array that is not there: its shape, `()` for a number, and its dtype."""

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]


def specs_of(s: Signature, args: Sequence[Any]) -> list[Any]:
    """The components of arguments that are given as values, as objects with a `shape`, or by components as tuples of
    sizes.  Raises as `Signature.flatten`."""
    if len(args) != len(s.entry.params):
        message = f"{s.name} takes {count_text(len(s.entry.params), 'argument')}, not {len(args)}"
        raise UsageError(message, hint=s.text())
    pairs = zip(s.entry.params, args, strict=True)
    return [leaf for (name, t), value in pairs for leaf in flatten_value(t, value, name, s.name)]


Computed = Mapping[int, tuple[frozenset[int], Callable[[Callable[[int], Any]], Any]]]


def result_specs(s: Signature, leaves: Sequence[Any], computed: Callable[[], Computed] = dict) -> list[Spec]:
    """Shape and dtype of each component of the result, from values, shapes, or objects with a shape for each component
    of the arguments.  A size may be anything that compares with `==`, such as a symbol of another system.  `computed`
    tells sizes that results bring along and that follow from parameters: by their place among the core results, the
    places of these parameters, and the size from a function that gives them.

    Raises ShapeError if ranks or sizes disagree, UsageError if a size is not told by these.
    """
    first = len(s.size_names)
    sizes: dict[int, tuple[Any, str]] = {}
    shapes = [_shape(value, leaf) for leaf, value in zip(s.params, leaves, strict=True)]
    for i, (leaf, value) in enumerate(zip(s.params, leaves, strict=True)):
        if not leaf.dims and leaf.elem is I64 and (known := _number(value)) is not None:
            sizes[first + i] = (known, leaf.path)
    for leaf, shape in zip(s.params, shapes, strict=True):
        if len(shape) != len(leaf.dims):
            raise ShapeError(
                f"argument '{leaf.path}' of {s.name}: expected {leaf_text(leaf)}, which has rank {len(leaf.dims)}, "
                f"got rank {len(shape)}"
            )
        for axis, (dim, actual) in enumerate(zip(leaf.dims, shape, strict=True)):
            known = (dim, "") if isinstance(dim, int) else sizes.setdefault(dim[1], (actual, leaf.path))
            if known[0] != actual:
                by = f" by argument '{known[1]}'" if known[1] and known[1] != leaf.path else ""
                raise ShapeError(
                    f"argument '{leaf.path}' of {s.name}: dimension {axis} is {actual}, where {known[0]} is needed{by}"
                )
    found = computed() if any(type(d) is tuple and d[0] == "res" for r in s.results for d in r.dims) else {}
    return [Spec(tuple([_size(s, r, d, sizes, found) for d in r.dims]), r.elem.dtype) for r in s.results]


def _size(s: Signature, result: Leaf, dim: Any, sizes: dict[int, tuple[Any, str]], computed: Computed) -> Any:
    if isinstance(dim, int):
        return dim
    what = "the shape of the result" if result.path == "result" else f"the shape of '{result.path}'"

    def known(i: int) -> Any:
        if i in sizes:
            return sizes[i][0]
        first = len(s.size_names)
        told = f"the value of argument '{s.params[i - first].path}'" if i >= first else f"the size {s.size_names[i]}"
        raise UsageError(f"{what} of {s.name} depends on {told}: give the number", hint=s.text())

    where, i = dim
    if where == "arg":
        return known(i)
    if i not in computed:
        raise UsageError(f"{what} of {s.name} is found by running it", hint=s.text())
    size = computed[i][1](known)
    if isinstance(size, int) and size < 0:
        raise ShapeError(f"{what} of {s.name} would have the size {size}", hint=s.text())
    return size


def _shape(value: Any, leaf: Leaf) -> tuple[Any, ...]:
    if isinstance(value, tuple) and not hasattr(value, "shape"):
        return value
    if hasattr(value, "shape"):
        return tuple(value.shape)
    try:
        return np.shape(value)
    except ValueError:
        raise ShapeError(f"argument '{leaf.path}': the rows of the nested list differ in length") from None


def _number(value: Any) -> Any:
    """The number that is given, None if it is not told."""
    if isinstance(value, np.ndarray):
        return int(value) if value.ndim == 0 and value.dtype.kind in "iu" else None
    if isinstance(value, np.integer):
        return int(value)
    return None if isinstance(value, tuple) or hasattr(value, "shape") else value


__all__ = ["Computed", "Spec", "result_specs", "specs_of"]
