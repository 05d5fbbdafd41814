"""Rules of primitives that move elements: broadcasts, transpositions, reshapes, slices, joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import ONE, ZERO, Atom, Const, Var, i64, shape_of
from futad.jax.jaxprs.lifted import (
    Shape,
    Value,
    everywhere,
    fixed,
    iota,
    is_one,
    permuted,
    real,
    reversed_,
    sliced,
    sorted_axes,
    transposed,
)
from futad.jax.jaxprs.table import Site, rule


def broadcast(s: Site, x: Value, shape: Shape, dims: tuple[int, ...]) -> Value:
    """Axis i of x is axis dims[i] of the result, or of size 1."""
    ones = {d: ZERO for d in x.axes if is_one(x.shape[d]) and not is_one(shape[dims[d]])}
    kept = [d for d in x.axes if d not in ones]
    return Value(fixed(s.b, x, ones).atom, tuple([dims[d] for d in kept]), shape)


@rule("broadcast_in_dim", reads="broadcast_dimensions", result="shape", hints="sharding")
def _broadcast_in_dim(s: Site, x: Value, *dynamic: Value) -> Value:
    shape, dims = s.shape(), tuple(map(int, s.params["broadcast_dimensions"]))
    extra = x.rank - len(dims)  # of a random key
    return broadcast(s, x, shape, (*dims, *[len(shape) - extra + k for k in range(extra)]))


@rule("transpose", reads="permutation")
def _transpose(s: Site, x: Value) -> Value:
    perm = tuple(map(int, s.params["permutation"]))
    return transposed(s.b, x, (*perm, *range(len(perm), x.rank)))


def reshaped(b: Builder, x: Value, shape: Shape) -> Value:
    """The same elements in row-major order.  Axes of size 1 come and go, what repeats goes on repeating where its
    axes stay as they are."""
    old = [d for d in range(x.rank) if not is_one(x.shape[d])]
    new = [d for d in range(len(shape)) if not is_one(shape[d])]
    lost = {d: ZERO for d in x.axes if is_one(x.shape[d])}
    plain = fixed(b, x, {d: ZERO for d in range(x.rank) if is_one(x.shape[d])}) if lost or len(old) != x.rank else x
    assert plain.rank == len(old)
    if not plain.axes:
        return everywhere(plain.atom, shape)
    # Axes before and after the part that changes.
    before = 0
    while before < min(len(old), len(new)) and x.shape[old[before]] is shape[new[before]]:
        before += 1
    after = 0
    most = min(len(old), len(new)) - before
    while after < most and x.shape[old[-1 - after]] is shape[new[-1 - after]]:
        after += 1
    middle = range(before, len(old) - after)
    if not middle and before + after == len(new):
        return Value(plain.atom, tuple([new[d] for d in plain.axes]), shape)
    kept = [d for d in range(len(old)) if d in plain.axes or d in middle]
    full = real(b, plain, middle)
    first = [d for d in kept if d < before]
    last = [d for d in kept if d >= len(old) - after]
    inside = new[before : len(new) - after]
    target = [new[d] for d in first] + inside + [new[d - len(old) + len(new)] for d in last]
    if not target:
        return everywhere(b.at(full.atom, *[ZERO] * len(kept)), shape)
    return Value(b.let(ir.Reshape(full.atom, tuple([shape[d] for d in target]))), tuple(target), shape)


@rule("reshape", reads="dimensions", result="new_sizes", hints="sharding")
def _reshape(s: Site, x: Value, *dynamic: Value) -> Value:
    dims = s.params["dimensions"]
    return reshaped(s.b, x if dims is None else transposed(s.b, x, dims), s.shape())


@rule("squeeze", "expand_dims", result="dimensions")
def _squeeze(s: Site, x: Value) -> Value:
    return reshaped(s.b, x, s.shape())


@rule("rev", reads="dimensions")
def _rev(s: Site, x: Value) -> Value:
    return reversed_(s.b, x, s.params["dimensions"])


@rule("slice", reads="start_indices strides", result="limit_indices")
def _slice(s: Site, x: Value) -> Value:
    starts, shape = s.sizes(s.params["start_indices"]), s.shape()
    strides = s.params["strides"] or (1,) * len(starts)
    ranges = {}
    for d, (start, step) in enumerate(zip(starts, strides, strict=True)):
        if not (start is ZERO and shape[d] is x.shape[d]):
            ranges[d] = Range(start, shape[d], s.importer.size(step))
    return sliced(s.b, x, ranges)


@rule("split", reads="axis sizes")
def _split(s: Site, x: Value) -> list[Value]:
    axis = s.params["axis"]
    parts = []
    at: Atom = ZERO
    for size in s.sizes(s.params["sizes"]):
        parts.append(sliced(s.b, x, {axis: Range(at, size, ONE)}))
        at = plus(s.b, at, size)
    return parts


def plus(b: Builder, x: Atom, y: Atom) -> Atom:
    if isinstance(x, Const) and isinstance(y, Const):
        return i64(x.value + y.value)
    return y if x is ZERO else b.op("add", x, y, hint="size")


@rule("iota", reads="dimension", result="shape dtype", hints="sharding")
def _iota(s: Site) -> Value:
    shape, d = s.shape(), s.params["dimension"]
    return Value(iota(s.b, shape[d], s.elem()), (d,), shape)


def concatenated(s: Site, parts: list[Value], axis: int, size: Atom) -> Value:
    """Parts joined along an axis.  Axes along which all repeat stay so."""
    axes = sorted({d for v in parts for d in v.axes} | {axis})
    order = [axis, *[d for d in axes if d != axis]]
    atoms = []
    for v in parts:
        full = real(s.b, v, axes)
        atoms.append(permuted(s.b, full.atom, [full.axes.index(d) for d in order]))
    joined = atoms[0] if len(atoms) == 1 else s.b.let(ir.Concat(tuple(atoms), size))
    shape = tuple([size if d == axis else n for d, n in enumerate(parts[0].shape)])
    return Value(permuted(s.b, joined, [order.index(d) for d in axes]), tuple(axes), shape)


@rule("concatenate", reads="dimension")
def _concatenate(s: Site, *parts: Value) -> Value:
    axis, shape = s.params["dimension"], s.shape()
    if all(is_one(v.shape[axis]) for v in parts):
        return stacked(s, [fixed(s.b, v, {axis: ZERO}) for v in parts], axis, shape)
    full = [v for v in parts if v.shape[axis] is not ZERO]
    return concatenated(s, full or list(parts[:1]), axis, shape[axis])


def stacked(s: Site, rows: list[Value], axis: int, shape: Shape) -> Value:
    """Values of one shape as a new axis.  Axes along which all repeat stay so."""
    axes = sorted({d for v in rows for d in v.axes})
    full = [real(s.b, v, axes) for v in rows]
    made = s.b.let(ir.ArrayLit(tuple([v.atom for v in full]), full[0].atom.type))
    own = [axis, *[d + (d >= axis) for d in axes]]
    order = sorted(range(len(own)), key=lambda i: own[i])
    return Value(permuted(s.b, made, order), tuple(sorted(own)), shape)


@rule("stack", reads="axis")
def _stack(s: Site, *rows: Value) -> Value:
    return stacked(s, list(rows), s.params["axis"], s.shape())


@rule("unstack", reads="axis")
def _unstack(s: Site, x: Value) -> list[Value]:
    axis = s.params["axis"]
    return [fixed(s.b, x, {axis: i64(i)}) for i in range(len(s.eqn.outvars))]


@rule("tile", reads="reps")
def _tile(s: Site, x: Value) -> Value:
    reps = s.params["reps"]
    shape = s.shape()
    for d, (k, size) in enumerate(zip(reps, shape, strict=True)):
        if d not in x.axes:
            x = Value(x.atom, x.axes, tuple([size if e == d else n for e, n in enumerate(x.shape)]))
        elif k != 1:
            repeated = (*x.shape[:d], s.importer.size(k), *x.shape[d:])
            again = Value(x.atom, tuple([e + (e >= d) for e in x.axes]), repeated)
            x = reshaped(s.b, again, tuple([size if e == d else n for e, n in enumerate(x.shape)]))
    return x


@rule("pad", reads="padding_config")
def _pad(s: Site, x: Value, filling: Value) -> Value:
    return padded(s, x, filling.atom, s.params["padding_config"])


def padded(s: Site, x: Value, filling: Atom, config: Sequence[tuple[Any, Any, int]]) -> Value:
    """Element i of an axis comes to low + i (interior + 1); what is left holds the filling.  Negative ends cut."""
    b = s.b
    for d, (low_, high_, interior) in enumerate(config):
        low, high, step = s.importer.size(low_), s.importer.size(high_), int(interior) + 1
        if low is ZERO and high is ZERO and step == 1:
            continue
        x = real(b, x, [d])
        ends = [e for e in (low, high) if isinstance(e, Const) and e.value >= 0]
        if step == 1 and len(ends) == 2:
            parts = [everywhere(filling, (*x.shape[:d], e, *x.shape[d + 1 :])) for e in ends]
            parts = [v for v in (parts[0], x, parts[1]) if v.shape[d] is not ZERO]
            x = concatenated(s, parts, d, plus(b, plus(b, x.shape[d], low), high))
            continue
        n = x.shape[d]
        inner = n if step == 1 else spread(b, n, step)
        size = nonnegative(b, plus(b, plus(b, inner, low), high))
        order = [d, *[e for e in x.axes if e != d]]
        rows = permuted(b, x.atom, [x.axes.index(e) for e in order])
        blank = b.let(ir.Replicate((size, *[x.shape[e] for e in order[1:]]), filling))
        made = _spaced(b, blank, rows, low, step, len(ends) == 2)
        shape = tuple([size if e == d else m for e, m in enumerate(x.shape)])
        x = sorted_axes(b, made, order, shape)
    return x


def _spaced(b: Builder, blank: Var, rows: Atom, low: Atom, step: int, fits: bool) -> Var:
    """`blank` with row i of `rows` at low + i step; rows that have no place there are left out, unless all are known to
    have one."""
    (n, *_), (size, *_) = shape_of(rows.type), shape_of(blank.type)
    if not fits and isinstance(low, Const) and isinstance(n, Const) and isinstance(size, Const):
        first = max(0, -(low.value // step))
        count = max(0, min(n.value, (size.value - 1 - low.value) // step + 1) - first)
        rows, n = b.at(rows, Range(i64(first), i64(count), ONE)), i64(count)
        low, fits = i64(low.value + first * step if count else 0), True
    if fits:
        return b.let(ir.Update(blank, (Range(low, n, i64(step)),), rows, None))
    at = b.zip_with(lambda c, i: c.op("add", c.op("mul", i, i64(step)), low), b.let(ir.Iota(n, ZERO, ONE)))
    return b.let(ir.Scatter(n, (blank,), (at,), (rows,)))


def spread(b: Builder, n: Atom, step: int) -> Atom:
    """The extent of n elements `step` apart."""
    if isinstance(n, Const):
        return i64(max(0, (n.value - 1) * step + 1))
    last = b.op("add", b.op("mul", b.op("sub", n, ONE), i64(step)), ONE)
    return b.op("max", ZERO, last, hint="size")


def nonnegative(b: Builder, n: Atom) -> Atom:
    return i64(max(0, n.value)) if isinstance(n, Const) else b.op("max", ZERO, n, hint="size")


@rule("empty", "empty2", result="shape dtype", hints="out_sharding")
def _empty(s: Site) -> Value:
    return everywhere(s.const(0), s.shape())


@rule("dim_as_value", reads="dim")
def _dim_as_value(s: Site) -> Value:
    return Value(s.b.convert(s.elem(), s.importer.size(s.params["dim"])), (), ())

