"""Rules of reads and writes at computed places.

XLA has no bounds errors.  Where a window would leave the array, a start is moved to the nearest one at which it does
not (dynamic slices, mode CLIP), the window reads a filling value or is not written (FILL_OR_DROP).  A promise that
places are in bounds (PROMISE_IN_BOUNDS) is not relied on: such reads are clipped and such writes dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import BOOL, I64, ONE, ZERO, Atom, Const, Prim, i64, one, row_type, shape_of, zero
from futad.jax.jaxprs import bounds
from futad.jax.jaxprs.folds import extreme
from futad.jax.jaxprs.lifted import (
    Shape,
    Value,
    dense,
    is_one,
    nest,
    op_at,
    permuted,
    pointwise,
    real,
    sliced,
    sorted_axes,
    transposed,
    whole,
)
from futad.jax.jaxprs.shapes import reshaped
from futad.jax.jaxprs.table import Site, Unsupported, is_one_of, key_shape, rule


def difference(b: Builder, x: Atom, y: Atom) -> Atom:
    if isinstance(x, Const) and isinstance(y, Const):
        return i64(x.value - y.value)
    return x if y is ZERO else b.op("sub", x, y, hint="last")


def number(size: Atom) -> int | None:
    """A size that is known."""
    return int(size.value) if isinstance(size, Const) else None


def clipped(b: Builder, start: Atom, size: Atom, window: Atom) -> Atom:
    """The nearest start at which a window is inside."""
    if size is window:
        return ZERO
    last = difference(b, size, window)
    return b.op("max", ZERO, b.op("min", b.convert(I64, start), last), hint="at")


def fits(b: Builder, start: Atom, size: Atom, window: Atom) -> Atom:
    """Whether a window at `start` (an i64) is inside."""
    return b.op("and", b.op("le", ZERO, start), b.op("le", start, difference(b, size, window)))


# --- one window -------------------------------------------------------------------------------------------


@rule("dynamic_slice", reads="slice_sizes")
def _dynamic_slice(s: Site, x: Value, *starts: Value) -> Value:
    shape = s.shape()
    ranges = {}
    for d, start in enumerate(starts[: x.rank]):
        if x.shape[d] is not shape[d] and d < len(s.params["slice_sizes"]):
            ranges[d] = Range(clipped(s.b, start.atom, x.shape[d], shape[d]), shape[d], ONE)
    return sliced(s.b, x, ranges)


def written(s: Site, x: Value, value: Value, starts: Sequence[Atom]) -> Value:
    """x with a window at places that are inside."""
    index = tuple([Range(at, n, ONE) for at, n in zip(starts, value.shape, strict=True)])
    if all(map(is_one, value.shape)):
        one_ = reshaped(s.b, value, ())
        return whole(s.b.let(ir.Update(owned(s.b, x), tuple(starts), one_.atom)))
    # Leading and inner axes of size 1 are fixed, which makes rows of what is written.
    kept = [d for d, n in enumerate(value.shape) if not is_one(n) or is_one(x.shape[d])]
    rows = dense(s.b, reshaped(s.b, value, tuple([value.shape[d] for d in kept])))
    mixed = tuple([index[d] if d in kept else starts[d] for d in range(x.rank)])
    last = max(d for d in range(x.rank) if d not in kept or starts[d] is not ZERO or value.shape[d] is not x.shape[d]) \
        if any(d not in kept or value.shape[d] is not x.shape[d] for d in range(x.rank)) else -1
    if last < 0:
        return value
    return whole(s.b.let(ir.Update(owned(s.b, x), mixed[: last + 1], rows)))


def owned(b: Builder, x: Value) -> Atom:
    """An array that may be overwritten; where the operand is dead afterwards, the copy is none."""
    return b.let(ir.Copy(dense(b, x))) if not x.axes or len(x.axes) == x.rank else dense(b, x)


@rule("dynamic_update_slice")
def _dynamic_update_slice(s: Site, x: Value, value: Value, *starts: Value) -> Value:
    at = [clipped(s.b, v.atom, n, w) for v, n, w in zip(starts, x.shape, value.shape, strict=True)]
    return written(s, x, value, at)


# --- gather -----------------------------------------------------------------------------------------------


def mode_of(s: Site) -> str:
    return str(s.params["mode"]).rpartition(".")[2]


def index_columns(b: Builder, indices: Value) -> tuple[Shape, list[Value]]:
    """The batch shape of indices, and for each of their components an array of that shape."""
    last = indices.rank - 1
    n = indices.shape[last]
    assert isinstance(n, Const)
    batch = indices.shape[:last]
    if last not in indices.axes:
        return batch, [Value(indices.atom, indices.axes, batch)] * int(n.value)
    columns = []
    for k in range(int(n.value)):
        index = [Range(ZERO, indices.shape[d], ONE) for d in indices.axes[:-1]] + [i64(k)]
        columns.append(Value(b.at(indices.atom, *index), indices.axes[:-1], batch))
    return batch, columns


def filling(s: Site, elem: Prim) -> Const:
    """What reads outside are: NaN, the least signed, the largest unsigned integer, True."""
    value = s.params.get("fill_value")
    if value is not None:
        return Const(elem, value)
    if elem.is_float:
        return Const(elem, math.nan)
    if elem is BOOL:
        return Const(elem, True)
    info = np.iinfo(elem.dtype)
    return Const(elem, int(info.min if elem.kind == "int" else info.max))


@rule("gather", reads="dimension_numbers slice_sizes mode fill_value", hints="unique_indices indices_are_sorted")
def _gather(s: Site, x: Value, indices: Value) -> Value:
    """For each place of the batch a window of x, whose start is at a row of indices."""
    b, dn, mode = s.b, s.params["dimension_numbers"], mode_of(s)
    extra = len(key_shape(s.eqn.invars[0].aval))
    shape = s.shape()
    window = [*s.sizes(s.params["slice_sizes"]), *x.shape[x.rank - extra :]]
    offset = [int(d) for d in dn.offset_dims] + [len(shape) - extra + k for k in range(extra)]
    batch, columns = index_columns(b, indices)
    start_of = {int(d): columns[k] for k, d in enumerate(dn.start_index_map)}
    batching = dict(zip(map(int, dn.operand_batching_dims), map(int, dn.start_indices_batching_dims), strict=True))
    collapsed = {int(d) for d in dn.collapsed_slice_dims}

    # The axes of the batch that indices, or x at its batching dimensions, have themselves.
    own_of_x = sorted([batching[d] for d in batching if d in x.axes])
    order = [d for k in own_of_x for d in batching if batching[d] == k]
    rest = [d for d in x.axes if d not in order]
    source = permuted(b, x.atom, [x.axes.index(d) for d in (*order, *rest)])
    moving = {d: v for d, v in start_of.items() if d in rest or mode == "FILL_OR_DROP"}
    operands: list[tuple[Atom, tuple[int, ...]]] = [(source, tuple(own_of_x))]
    operands += [(v.atom, v.axes) for v in moving.values()]
    axes = sorted({d for _, own in operands for d in own})
    kept = [d for d in rest if d not in collapsed]

    def one_window(c: Builder, rows: Atom, *starts: Atom) -> list[Atom]:
        at, inside = {}, None
        for d, start in zip(moving, starts, strict=True):
            wide = c.convert(I64, start)
            if bounds.inside(indices.bounds, number(x.shape[d]), number(window[d])):
                at[d] = wide
                continue
            if mode == "FILL_OR_DROP":
                ok = fits(c, wide, x.shape[d], window[d])
                inside = ok if inside is None else c.op("and", inside, ok)
            at[d] = clipped(c, wide, x.shape[d], window[d])
        index: list[Any] = []
        for d in rest:
            first = at.get(d, ZERO)
            index.append(first if d in collapsed else Range(first, window[d], ONE))
        while index and is_all(index[-1], x.shape[rest[len(index) - 1]]):
            index.pop()
        made = c.at(rows, *index) if index else rows
        if inside is None:
            return [made]
        fill = filling(s, x.elem)
        v = whole(made)
        return [pointwise(c, lambda e, p: [e.op("select", inside, p, fill)], [v], v.shape)[0].atom]

    made = nest(b, one_window, operands, axes)[0]
    places = [d for d in range(len(shape)) if d not in offset]  # the batch's axes of the result
    windows = [d for d in range(x.rank) if d not in collapsed and d not in batching]
    target = [places[d] for d in axes] + [offset[windows.index(d)] for d in kept]
    if not target:
        return Value(made, (), shape)
    return sorted_axes(b, made, target, shape)


def is_all(i: Any, size: Atom) -> bool:
    """Whether an index is all of a dimension."""
    return isinstance(i, Range) and i.start is ZERO and i.count is size


# --- scatter ----------------------------------------------------------------------------------------------

_COMBINE: dict[str, tuple[str, Callable[[Prim], Const]]] = {
    "scatter-add": ("add", zero), "scatter_add": ("add", zero),
    "scatter-mul": ("mul", one), "scatter_mul": ("mul", one),
    "scatter-min": ("min", lambda t: extreme(t, "min")), "scatter_min": ("min", lambda t: extreme(t, "min")),
    "scatter-max": ("max", lambda t: extreme(t, "max")), "scatter_max": ("max", lambda t: extreme(t, "max")),
}  # fmt: skip


@rule("scatter", reads="dimension_numbers mode update_jaxpr", hints="unique_indices indices_are_sorted",
      only={"update_consts": is_one_of(())})  # fmt: skip
@rule(*_COMBINE, "scatter-sub", reads="dimension_numbers mode", hints="update_jaxpr unique_indices indices_are_sorted",
      only={"update_consts": is_one_of(())})  # fmt: skip
def _scatter(s: Site, x: Value, indices: Value, updates: Value) -> Value:
    """x with windows of updates written, or combined, at the starts that rows of indices are."""
    b, dn, mode = s.b, s.params["dimension_numbers"], mode_of(s)
    if s.name == "scatter" and s.params["update_jaxpr"] is not None:
        raise Unsupported("by a function of the elements (x.at[i].apply(f)): write x.at[i].set(f(x[i]))")
    if s.name == "scatter-sub":
        updates = op_at(b, "neg", updates)
    combine = ("add", zero) if s.name == "scatter-sub" else _COMBINE.get(s.name)
    if combine is not None and x.elem is BOOL:
        combine = {"add": ("or", zero), "mul": ("and", one), "max": ("or", zero), "min": ("and", one)}[combine[0]]
    batch, columns = index_columns(b, indices)
    start_of = {int(d): columns[k] for k, d in enumerate(dn.scatter_dims_to_operand_dims)}
    inserted, batching = {int(d) for d in dn.inserted_window_dims}, [int(d) for d in dn.operand_batching_dims]
    window_axes = [int(d) for d in dn.update_window_dims]
    windows = [d for d in range(x.rank) if d not in inserted and d not in batching]
    axis_of = dict(zip(windows, window_axes, strict=True))  # of updates, by axis of x
    width = {d: updates.shape[axis_of[d]] if d in axis_of else ONE for d in range(x.rank)}

    # Starts inside, and whether a window is written at all.
    starts: dict[int, Value] = {}
    inside: Value | None = None
    for d, column in start_of.items():
        def to_i64(c: Builder, e: Atom) -> list[Atom]:
            return [c.convert(I64, e)]

        start = pointwise(b, to_i64, [column], batch)[0]
        if mode != "CLIP":
            ok = pointwise(b, lambda c, e, d=d: [fits(c, e, x.shape[d], width[d])], [start], batch)[0]
            inside = ok if inside is None else op_at(b, "and", inside, ok)
        starts[d] = pointwise(b, lambda c, e, d=d: [clipped(c, e, x.shape[d], width[d])], [start], batch)[0]

    if all(map(is_one, batch)) and not batching:
        return _one_window(s, x, updates, starts, inside, width, axis_of, combine)

    # Places: the batch's axes, then those of windows that do not span their axis.
    rows = [d for d in windows if d not in start_of and width[d] is x.shape[d]]
    spread = [d for d in windows if d not in rows]
    leading = [d for d in range(x.rank) if d not in rows]
    batch_axes = [d for d in range(updates.rank) if d not in window_axes]
    outer = [*batch_axes, *[axis_of[d] for d in spread]]
    outer_shape = tuple([updates.shape[d] for d in outer])
    total = b.size_mul(outer_shape)
    values = dense(b, transposed(b, updates, [*outer, *[axis_of[d] for d in rows]]))
    row_shape = tuple([x.shape[d] for d in rows])
    values = flat(b, values, total, row_shape, len(outer))

    def spread_out(v: Value) -> Value:
        """A value of the batch at all places."""
        return Value(v.atom, v.axes, outer_shape)

    places = []
    for d in leading:
        at: Value = Value(ZERO, (), outer_shape)
        if d in batching:
            k = int(dn.scatter_indices_batching_dims[batching.index(d)])
            at = Value(b.let(ir.Iota(x.shape[d], ZERO, ONE)), (k,), outer_shape)
        elif d in starts:
            at = spread_out(starts[d])
        if d in spread:
            k = len(batch) + spread.index(d)
            offset = Value(b.let(ir.Iota(width[d], ZERO, ONE)), (k,), outer_shape)
            at = op_at(b, "add", at, offset)
        if inside is not None:
            at = op_at(b, "select", spread_out(inside), at, Value(i64(-1), (), outer_shape))
        places.append(flat(b, dense(b, at), total, (), len(outer)))
    order = [*leading, *rows]
    target = permuted(b, owned(b, x), order)
    if order != list(range(x.rank)):
        target = b.let(ir.Copy(target))
    if combine is None:
        made: Atom = b.let(ir.Scatter(total, (target,), tuple(places), (values,)))
    else:
        op, unit = combine
        made = combined(b, op, unit(x.elem), target, places, values, total, row_shape)
    return whole(permuted(b, made, [order.index(d) for d in range(x.rank)]))


def flat(b: Builder, a: Atom, total: Atom, rest: Shape, outer: int) -> Atom:
    """The first `outer` dimensions as one."""
    return a if outer == 1 else b.let(ir.Reshape(a, (total, *rest)))


def combined(
    b: Builder, op: str, unit: Const, target: Atom, places: Sequence[Atom], values: Atom, total: Atom, row: Shape
) -> Atom:
    t = shape_of(values.type)[1:]

    def both(c: Builder, p: Atom, q: Atom) -> Atom:
        return c.zip_with(both, p, q) if shape_of(p.type) else c.op(op, p, q)

    element = row_type(values.type)
    lam = b.lambda_([("x", element), ("y", element)], lambda c, p, q: [both(c, p, q)])
    neutral: Atom = b.let(ir.Replicate(t, unit)) if t else unit
    return b.let(ir.Hist(total, (target,), tuple(places), (values,), lam, (neutral,)))


def _one_window(
    s: Site,
    x: Value,
    updates: Value,
    starts: dict[int, Value],
    inside: Value | None,
    width: dict[int, Atom],
    axis_of: dict[int, int],
    combine: tuple[str, Callable[[Prim], Const]] | None,
) -> Value:
    """A single window: an update in place."""
    b = s.b
    at = [scalar(b, starts[d]) if d in starts else ZERO for d in range(x.rank)]
    full = transposed(b, updates, [*[d for d in range(updates.rank) if d not in axis_of.values()], *axis_of.values()])
    value = reshaped(b, full, tuple([width[d] for d in range(x.rank)]))
    ranges = {d: Range(at[d], width[d], ONE) for d in range(x.rank)}
    if combine is not None or inside is not None:
        x = real(b, x, range(x.rank))
        old = sliced(b, x, {d: r for d, r in ranges.items() if width[d] is not x.shape[d]})
        if combine is not None:
            value = op_at(b, combine[0], old, value)
        if inside is not None:
            ok = scalar(b, inside)
            value = op_at(b, "select", Value(ok, (), value.shape), value, old)
    return written(s, x, value, at)


def scalar(b: Builder, v: Value) -> Atom:
    """The element of a value all of whose sizes are 1."""
    return b.at(v.atom, *[ZERO] * len(v.axes)) if v.axes else v.atom

