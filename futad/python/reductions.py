"""Sums and their like over dimensions, running sums, places of extrema, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.core.types import PRIMS
from futad.python import elementwise as ew
from futad.python.calls import Call
from futad.python.control import reduce, scan
from futad.python.elementwise import FLOAT_OPERATORS, OPERATORS, as_value, convert, literal
from futad.python.indexing import index
from futad.python.place import fail
from futad.python.shaping import arange, axis_of, expand_dims, mapped, moved, product, ravel, reshape, transpose
from futad.python.values import let, of_size

if TYPE_CHECKING:
    from futad.python.arrays import Array

Axis = int | Sequence[int] | None


def over(f: Callable[[Array], Array], x: Array, axis: Axis, keepdims: bool = False) -> Array:
    """f, which makes a number of a row, along one or several dimensions, by default all.

    Along several it is f of what f makes of the last one.
    """
    rank = len(x.dims)
    given = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = [axis_of(a, rank) for a in given]
    if len(set(axes)) != len(axes):
        fail("an axis is named twice")
    left = [i for i in range(rank) if i not in axes]
    order = [*left, *sorted(axes)]
    made = transpose(x, order) if order != list(range(rank)) else x
    for k in range(len(axes)):
        made = _at(f, made, rank - 1 - k)
    if keepdims:
        for a in sorted(axes):
            made = expand_dims(made, a)
    return made


def _at(f: Callable[[Array], Array], x: Array, level: int) -> Array:
    return f(x) if level == 0 else mapped(lambda row: _at(f, row, level - 1), x)


def total(name: str, x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """`sum`, `product`, `maximum` or `minimum` of numbers; of a number it is the number."""
    v = as_value(x)
    if v.elem == "bool":
        if name in ("maximum", "minimum"):
            return either("or" if name == "maximum" else "and", v, axis, keepdims)
        v = convert(v, "i64")
    elif name in ("sum", "product") and PRIMS[v.elem].is_integral and PRIMS[v.elem].bits < 64:
        v = convert(v, "i64" if PRIMS[v.elem].kind == "int" else "u64")  # as NumPy
    return over(lambda row: let(Call(f"{row.elem}.{name}", row, hint=name), row.elem), v, axis, keepdims)


def either(name: str, x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """`and` or `or` of what is not 0."""
    v = convert(as_value(x), "bool")
    return over(lambda row: let(Call(name, row), "bool"), v, axis, keepdims)


def count(x: Array, axis: Axis, elem: str) -> Array:
    """How many elements go into one result."""
    rank = len(x.dims)
    axes = range(rank) if axis is None else [axis_of(a, rank) for a in ([axis] if isinstance(axis, int) else axis)]
    n = product([x.dims[a] for a in axes])
    return literal(n.known, elem) if n.known is not None else convert(of_size(n), elem)


def floats(x: Any) -> Array:
    """The value as floats: integers become f64."""
    v = as_value(x)
    return v if PRIMS[v.elem].is_float else convert(v, "f64")


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean; of no elements NaN."""
    v = floats(x)
    return total("sum", v, axis, keepdims) / count(v, axis, v.elem)


def var(x: Any, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Array:
    """The variance: the mean square of deviations, divided by n - ddof."""
    v = floats(x)
    off = v - mean(v, axis, keepdims=True)
    return total("sum", off * off, axis, keepdims) / (count(v, axis, v.elem) - ddof)


def std(x: Any, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Array:
    """The standard deviation, the root of `var`."""
    return ew.floating(FLOAT_OPERATORS["sqrt"], var(x, axis, keepdims, ddof))


def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The logarithm of the sum of exponentials, kept in range by the largest term, whose exponential is 1.

    Where all terms are -inf, or one is inf, it is that.
    """
    v = floats(x)
    if len(v.dims) > 1 and axis is None:
        v, axis = ravel(v), 0
    if isinstance(axis, Sequence):
        made = v
        for a in sorted([axis_of(a, len(v.dims)) for a in axis], reverse=True):
            made = logsumexp(made, a)
        for a in sorted([axis_of(a, len(v.dims)) for a in axis]) if keepdims else []:
            made = expand_dims(made, a)
        return made

    def row_of(row: Array) -> Array:
        top = let(Call(f"{row.elem}.maximum", row), row.elem)
        top.name = "top"
        infinite = ew.apply(ew.TESTS["isinf"], row.elem, [top])
        shift = ew.where(infinite, 0.0, top)
        shift.name = "shift"
        terms = ew.floating(FLOAT_OPERATORS["exp"], row - shift)
        return shift + ew.floating(FLOAT_OPERATORS["log"], total("sum", terms))

    return over(row_of, v, axis, keepdims)


def cumulate(name: str, x: Any, axis: int | None = None) -> Array:
    """Running sums, products, maxima or minima; of all elements, or along a dimension."""
    v = as_value(x)
    if v.elem == "bool" or (PRIMS[v.elem].is_integral and name in ("add", "multiply")):
        v = convert(v, "i64") if v.elem in ("bool", "i8", "i16", "i32", "i64") else convert(v, "u64")
    if axis is None:
        v, axis = (ravel(v) if len(v.dims) != 1 else v), 0
    at = axis_of(axis, len(v.dims))
    last = len(v.dims) - 1
    neutral = {"add": literal(0, v.elem), "multiply": literal(1, v.elem)}.get(name)
    neutral = neutral if neutral is not None else extreme(v.elem, highest=name == "minimum")
    op = OPERATORS[name]
    made = _at(lambda row: scan(lambda a, b: ew.same(op, a, b), neutral, row), moved(v, at, last), last)
    return moved(made, last, at)


def extreme(elem: str, highest: bool) -> Array:
    """The largest or smallest number of a type."""
    if PRIMS[elem].is_float:
        return literal(np.inf if highest else -np.inf, elem)
    if elem == "bool":
        return literal(highest, elem)
    info = np.iinfo(PRIMS[elem].dtype)
    return literal(int(info.max if highest else info.min), elem)


def place_of(name: str, x: Any, axis: int | None = None, keepdims: bool = False) -> Array:
    """The place of the largest ("maximum") or smallest element, of several the first; along a dimension, or of all
    elements in order.  Of no elements it is -1."""
    v = as_value(x)
    if v.elem == "bool":
        v = convert(v, "i8")
    if axis is None:
        made = place_of(name, ravel(v), 0)
        return reshape(made, (1,) * len(v.dims)) if keepdims else made
    better = OPERATORS["greater" if name == "maximum" else "less"]
    worst = extreme(v.elem, highest=name == "minimum")

    def best(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
        (a, i), (b, j) = one, other
        first = ew.same(OPERATORS["equal"], a, b) & ((j < i) | (i < 0)) & (j >= 0)
        takes = ew.same(better, b, a) | first
        return ew.where(takes, b, a), ew.where(takes, j, i)

    def row_of(row: Array) -> Array:
        made = reduce(best, (worst, literal(-1, "i64")), (row, arange(of_size(row.dims[0]))), commutative=True)
        return as_value(made[1])

    return over(row_of, v, axis, keepdims)


def _keys(v: Array) -> Array:
    """Whole numbers u64 in the order of the elements; NaN last."""
    p = PRIMS[v.elem]
    if p.is_float:
        wide = convert(v, "f64")
        one = ew.where(ew.apply(ew.TESTS["isnan"], "f64", [wide]), np.nan, ew.where(wide == 0, 0.0, wide))
        bits = let(ew.Apply(ew.Op("to_bits"), "f64", [one], v.dims), "u64", v.dims)
        negative = (bits >> literal(63, "u64")) != literal(0, "u64")
        return ew.where(negative, ew.invert(bits), bits | literal(1 << 63, "u64"))
    if p.kind == "int":
        return convert(convert(v, "i64"), "u64") ^ literal(1 << 63, "u64")
    return convert(v, "u64")


def argsort(x: Any, axis: int = -1) -> Array:
    """The places of the elements in ascending order along a dimension, equal ones in order; NaN last."""
    v = as_value(x)
    at, last = axis_of(axis, len(v.dims)), len(v.dims) - 1

    def row_of(row: Array) -> Array:
        keys = _keys(row)
        return let(Call("intrinsics.argsort", keys, hint="order"), "i64", row.dims)

    return moved(_at(row_of, moved(v, at, last), last), last, at)


def sort(x: Any, axis: int = -1) -> Array:
    """The elements in ascending order along a dimension; NaN last."""
    v = as_value(x)
    at, last = axis_of(axis, len(v.dims)), len(v.dims) - 1
    made = _at(lambda row: index(row, argsort(row)), moved(v, at, last), last)
    return moved(made, last, at)


__all__ = [
    "Axis", "argsort", "cumulate", "either", "logsumexp", "mean", "over", "place_of", "sort", "std", "total", "var",
]  # fmt: skip
