"""Dual numbers of arrays: a value with a tangent, or with a backpropagator; and what can be done with them.

A `Dual` is a value at a *level*, that of one derivative being taken: `below` is the value as it is one derivative
further out (NumPy's, or a dual of a lower level), `slope` a tangent of the same shape, or the `Node` of its
backpropagator.  Each function below peels off the highest level among its arguments, does the same on what is below,
and says how the result depends on the arguments there.  The functions that derivatives are made of are these functions
again, so derivatives nest.  Of scalar operations the partial derivatives are those of the table (`core/scalarops.py`).

Source: Smeding and Vákár, "Parallel dual-numbers reverse AD", 2024, with an array for a scalar: one backpropagator is
that of all elements of an array.

Note [Zero].  A backpropagator is linear: what it makes of zero is zero, also where a partial derivative is infinite.
So a product with a factor that is zero is zero (`times`).  It is the same as with a backpropagator for each scalar,
where one that nobody needs is not called.  The iterations of a map that a branch leaves out need no other care: nothing
reaches them.

Note [Memory].  NumPy's arrays below are overwritten in place where the interpreter may overwrite them.  What a
backpropagator remembers of them it copies (`keep`); that costs no more than computing what it belongs to.  Tangents
share memory as their values do, or less, and are overwritten with them.  The adjoint of an array that was overwritten
goes on to the array before, with zeros where it was overwritten, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.core.builder import Ex
from futad.core.scalarops import OPS, ScalarOp
from futad.core.types import I32, PRIMS, Const, Prim

if TYPE_CHECKING:
    from futad.dual.resolve import Level, Node

Value = Any  # NumPy's scalar or array, or a Dual
Shape = tuple[int, ...]
Part = tuple["Dual", Callable[[Value], Value], Callable[["Node", Value], None]]

_PRIM = {p.dtype: p for p in PRIMS.values()}


class Dual:
    """A value with a derivative, see above; `raw` is NumPy's at the bottom."""

    __slots__ = ("level", "below", "slope", "raw")

    def __init__(self, level: Level, below: Value, slope: Any) -> None:
        self.level, self.below, self.slope = level, below, slope
        self.raw: Any = below.raw if isinstance(below, Dual) else below

    shape = property(lambda self: self.raw.shape)
    ndim = property(lambda self: self.raw.ndim)
    size = property(lambda self: self.raw.size)
    dtype = property(lambda self: self.raw.dtype)
    flags = property(lambda self: self.raw.flags)

    def __getitem__(self, index: Any) -> Dual:
        return get(self, index if isinstance(index, tuple) else (index,))

    def reshape(self, shape: Shape) -> Dual:
        return reshape(self, shape)

    def transpose(self, perm: Sequence[int]) -> Dual:
        return transpose(self, perm)

    def copy(self) -> Dual:
        return keep(self)

    def view(self) -> Dual:
        """The same in the same memory, which can be made read-only by itself."""
        return Dual(self.level, self.below.view(), self.slope if self.level.reverse else self.slope.view())

    def __array_function__(self, f: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _FUNCTIONS[f](*args, **kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        return _UFUNCS[ufunc, method](*args, **kwargs)

    def __add__(self, o: Value) -> Value:
        return plus(self, o)

    def __mul__(self, o: Value) -> Value:
        return times(self, o)

    __radd__, __rmul__ = __add__, __mul__


def top(values: Iterable[Value]) -> Level | None:
    """The highest level among the values; None if all are NumPy's."""
    found: Level | None = None
    for v in values:
        if isinstance(v, Dual) and (found is None or v.level.number > found.number):
            found = v.level
    return found


def at_level(level: Level, v: Value) -> bool:
    return isinstance(v, Dual) and v.level is level


def under(level: Level, v: Value) -> Value:
    """The value without its derivative at that level, which is at least its own."""
    return v.below if at_level(level, v) else v


def plain(v: Value) -> Value:
    """The value without any derivative."""
    return v.raw if isinstance(v, Dual) else v


def keep(v: Value) -> Value:
    """The value in memory of its own."""
    if not isinstance(v, Dual):
        return v.copy()
    return Dual(v.level, keep(v.below), v.slope if v.level.reverse else keep(v.slope))


def writable(v: Value) -> Value:
    """A copy that can be overwritten, a scalar's as well."""
    if not isinstance(v, Dual):
        return np.array(v)
    return Dual(v.level, writable(v.below), v.slope if v.level.reverse else writable(v.slope))


def _dual(level: Level, out: Value, parts: Sequence[Part]) -> Value:
    """A result with its dependence on arguments at a level: for each the map of tangents, and what sends an adjoint on
    to the argument's node."""
    if not parts:
        return out
    if level.reverse:
        senders = [(a.slope, send) for a, _, send in parts]

        def pull(node: Node) -> None:
            for to, send in senders:
                send(to, node.adjoint)

        return Dual(level, out, level.record(out.shape, out.dtype, [to for to, _ in senders], pull))
    total: Value = None
    for a, of, _ in parts:
        tangent = of(a.slope)
        total = tangent if total is None else plus(total, tangent)
    return Dual(level, out, total)


def _linear(level: Level, out: Value, a: Value, of: Callable[[Value], Value], back: Callable[[Value], Value]) -> Value:
    """As `_dual`, of one argument; `back` is the transpose of the map `of`."""
    return _dual(level, out, [(a, of, lambda node, y: node.add(back(y)))] if at_level(level, a) else [])


# --- scalar operations -----------------------------------------------------------------------------------------


class Known(Ex):
    """A handle of the table's partial derivatives whose operations are evaluated at once."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def type(self) -> Prim:
        return _PRIM[self.value.dtype]

    def lift(self, x: Any) -> Known:
        return x if isinstance(x, Known) else Known(self.type.dtype.type(Const(self.type, x).value))

    def i32(self, k: int) -> Known:
        return Known(I32.dtype.type(k))

    def op(self, name: str, *args: Any) -> Known:
        return Known(operate(OPS[name], [self.value, *[self.lift(a).value for a in args]]))

    def _bin(self, name: str, x: Any, y: Any) -> Known:
        return self.lift(x).op(name, self.lift(y))

    def select(self, x: Any, y: Any) -> Known:
        return Known(operate(OPS["select"], [self.value, x.value, x.lift(y).value]))

    def to(self, other: Any) -> Known:
        return self if self.type is other.type else self.op(f"to_{other.type.name}")


def operate(record: ScalarOp, args: Sequence[Value]) -> Value:
    """A scalar operation, element by element."""
    level = top(args)
    if level is None:
        out = record.eval(*args)
        return out[()] if out.ndim == 0 else out
    below = [under(level, a) for a in args]
    out = operate(record, below)
    if record.partials is None:
        return _converted(level, record, args[0], out)
    parts: list[Part] = []
    known, result = [Known(b) for b in below], Known(out)
    for i, a in enumerate(args):
        if not at_level(level, a):
            continue
        p = record.partial(i, known, result)
        if isinstance(p, Known):
            same = any(p.value is x for x in (*below, out))
            parts.append(_elementwise(a, out.shape, _factor(keep(p.value) if same else p.value)))
        elif p == 1:
            parts.append(_elementwise(a, out.shape, lambda t: t))
        elif p != 0:
            parts.append(_elementwise(a, out.shape, _factor(result.lift(p).value)))
    return _dual(level, out, parts)


def _factor(p: Value) -> Callable[[Value], Value]:
    return lambda t: times(p, t)


def _elementwise(a: Dual, shape: Shape, scaled: Callable[[Value], Value]) -> Part:
    """How a result of that shape depends on `a`, broadcast, by a map of each element, which is its own transpose."""
    return (
        a,
        lambda t: keep(broadcast(scaled(t), shape)),
        lambda node, y: node.add(sum_to(scaled(y), a.shape)),
    )


def _converted(level: Level, record: ScalarOp, a: Value, out: Value) -> Value:
    """A conversion carries derivatives as it carries values: between floats, between integers and bools, of bits; from
    floats to integers rounded; else there are none, nor of comparisons and counts of bits."""
    name, source, target = record.name, a.dtype, out.dtype
    if name.startswith("bits_"):
        back = OPS[f"from_{name}"]
    elif name.startswith("from_bits_"):
        back = OPS[name.removeprefix("from_")]
    elif name.startswith("to_") and (source == target or (source.kind == "f") == (target.kind == "f")
                                     or (source.kind == "f" and target.kind in "iu")):  # fmt: skip
        back = OPS[f"to_{_PRIM[source].name}"]
    else:
        return out
    return _linear(level, out, a, lambda t: operate(record, [t]), lambda y: operate(back, [y]))


def times(a: Value, b: Value) -> Value:
    """The product, `and` of bools; see Note [Zero].  One of them is remembered: it is not overwritten."""
    level = top((a, b))
    if level is None:
        out = a * b
        if out.dtype.kind == "f" and np.isnan(out).any():
            out = np.where((a == 0) | (b == 0), out.dtype.type(0), out)
            out = out[()] if out.ndim == 0 else out
        return out
    x, y = under(level, a), under(level, b)
    out = times(x, y)
    parts = []
    if at_level(level, a):
        parts.append(_elementwise(a, out.shape, _factor(keep(y))))
    if at_level(level, b):
        parts.append(_elementwise(b, out.shape, _factor(keep(x))))
    return _dual(level, out, parts)


def plus(a: Value, b: Value) -> Value:
    """The sum, `or` of bools."""
    level = top((a, b))
    if level is None:
        return np.add(a, b)
    out = plus(under(level, a), under(level, b))
    return _dual(level, out, [_elementwise(x, out.shape, lambda t: t) for x in (a, b) if at_level(level, x)])


# --- movement of data ------------------------------------------------------------------------------------------


def _frozen(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index with arrays of its own."""
    return tuple([i.copy() if isinstance(i, np.ndarray) else i for i in index])


def get(v: Value, index: tuple[Any, ...]) -> Value:
    """`v[index]`: a view if the index has no arrays."""
    if not isinstance(v, Dual):
        return v[index]
    level, out = v.level, get(v.below, index)
    if not level.reverse:
        return Dual(level, out, get(v.slope, index))
    if all(i is None or i is Ellipsis or isinstance(i, slice) and i == slice(None) for i in index):
        return Dual(level, out, v.slope)  # the same elements in the same order
    at, shape = _frozen(index), v.shape
    return _dual(level, out, [(v, lambda t: t, lambda node, y: node.add_at(shape, at, y))])


def reshape(v: Value, shape: Shape) -> Value:
    if not isinstance(v, Dual):
        return np.reshape(v, shape)
    return Dual(v.level, reshape(v.below, shape), v.slope if v.level.reverse else reshape(v.slope, shape))


def transpose(v: Value, perm: Sequence[int]) -> Value:
    if not isinstance(v, Dual):
        return np.transpose(v, perm)
    back = [int(i) for i in np.argsort(perm)]
    out = transpose(v.below, perm)
    return _linear(v.level, out, v, lambda t: transpose(t, perm), lambda y: transpose(y, back))


def broadcast(v: Value, shape: Shape) -> Value:
    """In the same memory, which is not to be overwritten there."""
    if not isinstance(v, Dual):
        return np.broadcast_to(v, shape)
    if v.shape == tuple(shape):
        if not shape:  # a scalar is not overwritten
            return v
        out = v.view()
        out.flags.writeable = False
        return out
    out, own = broadcast(v.below, shape), v.shape
    return _linear(v.level, out, v, lambda t: broadcast(t, shape), lambda y: sum_to(y, own))


def sum_to(v: Value, shape: Shape) -> Value:
    """The transpose of broadcasting from that shape."""
    if v.shape == shape:
        return v
    if not isinstance(v, Dual):
        lead = v.ndim - len(shape)
        axes = (*range(lead), *[lead + i for i, n in enumerate(shape) if n == 1 and v.shape[lead + i] != 1])
        return np.reshape(np.add.reduce(v, axis=axes, dtype=v.dtype), shape)
    out, own = sum_to(v.below, shape), v.shape
    return _linear(v.level, out, v, lambda t: sum_to(t, shape), lambda y: broadcast(y, own))


def total(v: Value, axis: int | tuple[int, ...], dtype: Any = None) -> Value:
    """The sum along axes, in memory of its own."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    kept = tuple([1 if d in axes else n for d, n in enumerate(v.shape)])
    out = keep(v) if kept == v.shape else sum_to(v, kept)
    return reshape(out, tuple([n for d, n in enumerate(v.shape) if d not in axes]))


def running(v: Value, axis: int, dtype: Any = None) -> Value:
    """Running sums along an axis."""
    if not isinstance(v, Dual):
        return np.add.accumulate(v, axis=axis, dtype=v.dtype)
    back = (slice(None),) * axis + (slice(None, None, -1),)
    out = running(v.below, axis)
    return _linear(
        v.level, out, v, lambda t: running(t, axis), lambda y: get(running(get(y, back), axis), back)
    )


def where(mask: Any, a: Value, b: Value) -> Value:
    """`a` where the mask holds, else `b`."""
    level = top((a, b))
    if level is None:
        return np.where(mask, a, b)
    mask = mask.copy()
    out = where(mask, under(level, a), under(level, b))
    none = out.dtype.type(0)
    parts = []
    if at_level(level, a):
        parts.append(_elementwise(a, out.shape, lambda t: where(mask, t, none)))
    if at_level(level, b):
        parts.append(_elementwise(b, out.shape, lambda t: where(mask, none, t)))
    return _dual(level, out, parts)


def joined(values: Sequence[Value], axis: int, how: Callable[..., Any]) -> Value:
    """`np.stack` or `np.concatenate` along an axis."""
    level = top(values)
    if level is None:
        return how(values, axis=axis)
    out = joined([under(level, v) for v in values], axis, how)
    if not level.reverse:
        tangents = [v.slope if at_level(level, v) else np.zeros(v.shape, v.dtype) for v in values]
        return Dual(level, out, joined(tangents, axis, how))
    parts: list[Part] = []
    first = 0
    for v in values:
        n = 1 if how is np.stack else v.shape[axis]
        place = first if how is np.stack else slice(first, first + n)
        first += n
        if at_level(level, v):
            parts.append((v, lambda t: t, _sends((slice(None),) * axis + (place,))))
    return _dual(level, out, parts)


def _sends(at: tuple[Any, ...]) -> Callable[[Node, Value], None]:
    return lambda node, y: node.add(get(y, at))


def product(a: Value, b: Value) -> Value:
    """The matrix products of two stacks of matrices."""
    level = top((a, b))
    if level is None:
        return np.matmul(a, b)
    x, y = under(level, a), under(level, b)
    out = product(x, y)
    flip = (*range(out.ndim - 2), out.ndim - 1, out.ndim - 2)
    parts: list[Part] = []
    if at_level(level, a):
        right = keep(y)
        parts.append((a, lambda t: product(t, right), lambda node, z: node.add(product(z, transpose(right, flip)))))
    if at_level(level, b):
        left = keep(x)
        parts.append((b, lambda t: product(left, t), lambda node, z: node.add(product(transpose(left, flip), z))))
    return _dual(level, out, parts)


# --- arrays that are overwritten -------------------------------------------------------------------------------


def put(array: Value, index: tuple[Any, ...], value: Value) -> Value:
    """`array` with the value at the index, in its own memory.  At places that are there twice the last one stays."""
    return _overwritten(array, index, value, False)


def add_at(array: Value, index: tuple[Any, ...], value: Value) -> Value:
    """`array` with the value added at the index, in its own memory."""
    return _overwritten(array, index, value, True)


def _overwritten(array: Value, index: tuple[Any, ...], value: Value, add: bool) -> Value:
    level = top((array, value))
    if level is None:
        if not add:
            array[index] = value
        elif any(isinstance(i, np.ndarray) and i.ndim for i in index):
            np.add.at(array, index, value)
        else:
            array[index] += value
        return array
    out = _overwritten(under(level, array), index, under(level, value), add)
    if not level.reverse:
        base = array.slope if at_level(level, array) else np.zeros(array.shape, array.dtype)
        tangent = value.slope if at_level(level, value) else None
        if tangent is not None or not add:
            base = _overwritten(base, index, value.dtype.type(0) if tangent is None else tangent, add)
        return Dual(level, out, base)
    at, shape = _frozen(index), array.shape
    stays = None if add else _lasting(at, shape)
    before = array.slope if at_level(level, array) else None
    put_in, own = (value.slope, value.shape) if at_level(level, value) else (None, ())

    def pull(node: Node) -> None:
        whole = reshape(node.owned_adjoint(), shape)
        if put_in is not None:
            part = keep(get(whole, at))
            part = part if stays is None else where(_widened(stays, part), part, part.dtype.type(0))
            put_in.add(sum_to(part, own))
        if before is not None:
            before.add(whole if add else put(whole, at, whole.dtype.type(0)), owned=True)

    return Dual(level, out, level.record(shape, out.dtype, [n for n in (before, put_in) if n is not None], pull))


def _lasting(index: tuple[Any, ...], shape: Shape) -> Any:
    """Which of the positions of an index are not there again later; None if none is there twice."""
    if not index or not any(isinstance(i, np.ndarray) and i.ndim for i in index):
        return None
    places = np.broadcast_arrays(*index)
    flat = np.ravel_multi_index([p.ravel() for p in places], shape[: len(index)], mode="wrap")
    last = np.unique(flat[::-1], return_index=True)[1]
    if len(last) == len(flat):
        return None
    stays = np.zeros(len(flat), bool)
    stays[len(flat) - 1 - last] = True
    return stays.reshape(places[0].shape)


def _widened(mask: Any, like: Value) -> Any:
    return mask.reshape(mask.shape + (1,) * (like.ndim - mask.ndim))


_FUNCTIONS: dict[Any, Callable[..., Value]] = {
    np.where: where,
    np.broadcast_to: broadcast,
    np.stack: lambda values, axis: joined(values, axis, np.stack),
    np.concatenate: lambda values, axis: joined(values, axis, np.concatenate),
}
_UFUNCS: dict[tuple[np.ufunc, str], Callable[..., Value]] = {
    (np.add, "__call__"): plus,
    (np.multiply, "__call__"): times,
    (np.matmul, "__call__"): product,
    (np.add, "reduce"): total,
    (np.add, "accumulate"): running,
}
