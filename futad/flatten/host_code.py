"""Everything but maps, folds and loops at host level and in block mode: scalars, indexing, writes, accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.node import Range
from futad.core.operator import operators_of
from futad.core.scalarops import OPS
from futad.core.types import I64, U32, ArrayType, Prim, elem_of
from futad.flatten import kernel as kir
from futad.flatten.conditions import condition
from futad.flatten.dispatch import SharedAcc, in_block, on_host, over
from futad.flatten.kernel import SUB_BYTES
from futad.flatten.kernel_interface import NotInBlock
from futad.imp import arrays, ir
from futad.imp.dispatch import HANDLERS, Destination
from futad.imp.elements import bind_elements, guarded
from futad.imp.indexing import if_inside
from futad.imp.ir import ONE, ZERO, Expr, Ref, num
from futad.imp.soacs import _targets
from futad.imp.units import unit_of
from futad.imp.views import Acc, Mem, Value, View, as_scalar
from futad.imp.walk import has_load

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

LOCKS = 1 << 14


# --- scalars and indexing --------------------------------------------------------------------------------------


@on_host(core.Op)
def _op(lo: DeviceLowerer, stm: core.Stm, e: core.Op, destinations: list[Destination]) -> Sequence[Value]:
    x = arrays.scalar_op(lo, e)
    if not has_load(x):
        return [lo.let(x, stm.pat[0].name)]
    return [x] if lo.small(x) else lo.in_a_cell([x], stm.pat[0].name)


@on_host(core.At)
def _at(lo: DeviceLowerer, stm: core.Stm, e: core.At, destinations: list[Destination]) -> Sequence[Value]:
    if isinstance(stm.pat[0].type, ArrayType):
        return HANDLERS[core.At](lo, stm, e, destinations)
    v = lo.view(e.array)
    if not isinstance(v.base, Mem):
        return HANDLERS[core.At](lo, stm, e, destinations)
    cell = lo.scalar_slot(v.elem)
    index = [lo.expr(i) for i in e.index if not isinstance(i, Range)]
    if not any(has_load(i) for i in index):
        # What the host can check it checks, so that the failure is at once.
        there = arrays.indexed(lo, v, e.index, e.check)
        offset = lo.let(there.offset, "o")
        lo.emit(ir.Copy(cell.pointer, ZERO, v.base.pointer, offset, ONE, v.elem))
        return [cell]
    with lo.single("element"):
        there = arrays.indexed(lo, v, e.index, e.check)
        lo.emit(ir.Store(cell.pointer, ZERO, there.load(())))
    return [cell]


@on_host(core.Rearrange)
def _rearrange(lo: DeviceLowerer, stm: core.Stm, e: core.Rearrange, destinations: list[Destination]) -> Sequence[Value]:
    """A transposed view, of a deferred array as of any other."""
    return [lo.permuted(lo.deferred_view(e.array), e.perm)]


@on_host(core.Update)
def _update(lo: DeviceLowerer, stm: core.Stm, e: core.Update, destinations: list[Destination]) -> Sequence[Value]:
    fixed = [i for i in e.index if not isinstance(i, Range)]
    if stm.pat[0] in lo.scopes[-1].placed or not any(has_load(lo.expr(i)) for i in fixed):
        return HANDLERS[core.Update](lo, stm, e, destinations)
    src = lo.view(e.array)
    dst = src
    if not lo.can_overwrite(src):
        dst = lo.alloc(src.elem, src.shape, destinations[0], stm.pat[0].name)
        lo.copy(dst, src)
    value = lo.value(e.value)
    if not isinstance(value, View):
        with lo.single("update"):
            lo.store(arrays.indexed(lo, dst, e.index, e.check), (), as_scalar(value))
        return [dst]
    with lo.kernel() as body, lo.space(value.shape) as (index, total):
        target = arrays.indexed(lo, dst, e.index, e.check)
        lo.store(target, index, value.load(index))
    lo.launch(body, "thread", total, f"update of {stm.pat[0].name}")
    return [dst]


@on_host(core.ArrayLit)
def _array_lit(lo: DeviceLowerer, stm: core.Stm, e: core.ArrayLit, destinations: list[Destination]) -> Sequence[Value]:
    if not isinstance(e.type, Prim):
        return HANDLERS[core.ArrayLit](lo, stm, e, destinations)
    dst = lo.alloc(elem_of(e.type), (num(len(e.elems)),), destinations[0], stm.pat[0].name)
    with lo.single("literal"):
        for i, a in enumerate(e.elems):
            lo.store(dst, (num(i),), lo.expr(a))
    return [dst]


# --- writes at computed places ------------------------------------------------------------------------------------


@on_host(core.Scatter)
@in_block(core.Scatter)
def _scatter(lo: DeviceLowerer, stm: core.Stm, e: core.Scatter, destinations: list[Destination]) -> Sequence[Value]:
    targets = _targets(lo, e.dests, [*e.idxs, *e.values], destinations)
    idxs = [lo.view(a) for a in e.idxs]
    for target, a in zip(targets, e.values, strict=True):
        v = lo.view(a)
        with over(lo, v.shape, f"scatter into {stm.pat[0].name}") as point:
            index = [lo.let(x.load(point[:1]), "ix") for x in idxs]
            with lo.block() as write:
                lo.store(target, [*index, *point[1:]], v.load(point))
            if_inside(lo, index, target.shape, write)
    return targets


@in_block(core.Hist)
def _hist_in_block(lo: DeviceLowerer, stm: core.Stm, e: core.Hist, destinations: list[Destination]) -> Sequence[Value]:
    ops = operators_of(e.lam) or ()
    if not ops or not all(OPS[o.op].associative for o in ops):
        raise NotInBlock
    targets = _targets(lo, e.dests, [*e.idxs, *e.values, *e.lam.free()], destinations)
    for target, a, o in zip(targets, e.values, ops, strict=True):
        _atomics(lo, e, target, lo.view(a), o.op, stm.pat[0].name)
    return targets


@on_host(core.Hist)
def _hist(lo: DeviceLowerer, stm: core.Stm, e: core.Hist, destinations: list[Destination]) -> Sequence[Value]:
    grid = stm.grid
    assert grid is not None, "the pass `grids` has not seen it"
    if grid.template == "scope":
        (version,) = grid.versions
        assert version.body is not None
        return lo.on_host(version.body, destinations)
    targets = _targets(lo, e.dests, [*e.idxs, *e.values, *e.lam.free()], destinations)
    name = ", ".join(v.name for v in stm.pat)
    dense = all(t.dense for t in targets)
    first, final = grid.versions[0], grid.versions[-1]
    one = first is final or not dense
    if lo.asked is not None:
        if not one:
            lo.asked.was(first.level)
        elif first is not final:
            lo.asked.was_not(first.level, "its bins do not lie densely")
        lo.asked.was(final.level)
    with lo.block() as last:
        if final.level == "atomic":
            (o,) = operators_of(e.lam) or ()
            _atomics(lo, e, targets[0], lo.view(e.values[0]), o.op, name)
        else:
            _by_locks(lo, e, targets, name)
    if one:
        if grid.why:
            lo.fallback(f"histogram {name}: {grid.why}")
        lo.out += last
        return targets
    sizes = [lo.expr(a) for a in grid.space]
    total, bins = lo.let(ir.product(sizes), "n"), lo.let(targets[0].count(), "bins")
    with lo.block() as better:
        if first.body is None:
            _in_shared_memory(lo, e, targets[0], o.op, sizes, total, bins, name)
        else:
            for p, t in zip(first.body.params, targets, strict=True):
                lo.bind(p, t)
            for t, made in zip(targets, lo.on_host(first.body), strict=True):
                assert isinstance(made, View)
                lo.copy(t, made)
    lo.out.append(ir.If(condition(first.when, {"points": [total], "work": [bins]}), better, last))
    return targets


def _atomics(lo: DeviceLowerer, e: core.Hist, target: View, v: View, op: str, name: str) -> None:
    """Updates of bins, each by an atomic operation."""
    idxs = [lo.view(a) for a in e.idxs]
    width = lo.let(lo.expr(e.width), "n")
    with over(lo, (width, *v.shape[1:]), f"histogram {name}, atomic {op}") as point:
        index = [lo.let(x.load(point[:1]), "ix") for x in idxs]
        with lo.block() as write:
            _add(lo, target, [*index, *point[1:]], v.load(point), op)
        if_inside(lo, index, target.shape, write)


def _by_locks(lo: DeviceLowerer, e: core.Hist, targets: list[View], name: str) -> None:
    """A histogram whose updates take a lock a bin."""
    idxs = [lo.view(a) for a in e.idxs]
    values = [lo.view(a) for a in e.values]
    width = lo.let(lo.expr(e.width), "n")
    k = len(targets)
    locks = lo.new_root(U32)
    assert locks.slot is not None
    lock = lo.name("locks")
    lo.emit(ir.Ensure(lock, U32, locks.slot, num(LOCKS)))
    lo.emit(kir.Zero(lock, U32, num(LOCKS)))
    with lo.kernel() as body, lo.space((width,)) as (point, total):
        index = [lo.let(x.load(point), "ix") for x in idxs]
        flat: Expr = ZERO
        for i, n in zip(index, targets[0].shape, strict=False):
            wide = i if i.type is I64 else ir.Scalar("to_i64", (i,), i.type, I64)
            flat = ir.add(ir.mul(flat, n), wide)
        with lo.block() as write:
            with lo.block() as inside, lo.guarded():
                rows = [t.row(index) for t in targets]
                for p, r in zip(e.lam.params[:k], rows, strict=True):
                    lo.bind(p, guarded(r) if r.rank else lo.let(r.load(()), p.name))
                bind_elements(lo, e.lam, e.lam.params[k:], [guarded(v) for v in values], point[0])
                results = lo.scope(e.lam, [None] * k, repeats=True)
                results = [lo.materialise(x) if isinstance(x, View) and k > 1 else x for x in results]
                for t, r, x in zip(targets, rows, results, strict=True):
                    if isinstance(x, View):
                        lo.copy(r, x)
                    else:
                        lo.store(t, index, as_scalar(x))
            lo.out.append(kir.Locked(lock, ir.Bin("%", flat, num(LOCKS)), inside))
        if_inside(lo, index, targets[0].shape, write)
    lo.launch(body, "thread", total, f"histogram {name}, a lock a bin")


def _in_shared_memory(
    lo: DeviceLowerer, e: core.Hist, target: View, op: str, sizes: Sequence[Expr], total: Expr, bins: Expr, name: str
) -> None:
    """A histogram by way of sub-histograms in shared memory."""
    idxs, v = [lo.view(a) for a in e.idxs], lo.view(e.values[0])
    op = "or" if target.elem.is_bool and op == "add" else op
    cells = SUB_BYTES // target.elem.bytes
    assert isinstance(target.base, Mem)
    start = lo.name("bins")
    lo.out.append(ir.Pointer(start, target.elem, target.base.pointer, target.offset))
    blocks = Ref(lo.name("chunks"), I64)
    lo.emit(kir.Chunks(blocks.name, total, ONE, bins))
    with lo.kernel("block") as kernel:
        i = Ref(lo.name("i"), I64)
        with lo.inside("thread"), lo.block() as update:
            point = lo.unflatten(i, sizes)
            index = [lo.let(x.load(point[:1]), "ix") for x in idxs]
            with lo.block() as write:
                flat: Expr = ZERO
                for k, n in zip([*index, *point[1:]], target.shape, strict=True):
                    wide = k if k.type is I64 else ir.Scalar("to_i64", (k,), k.type, I64)
                    flat = ir.add(ir.mul(flat, n), wide)
                lo.out.append(kir.SharedUpdate(0, flat, v.load(point)))
            if_inside(lo, index, target.shape, write)
        made = kir.Function([i], update, [])
        lo.out.append(kir.SubHist(op, unit_of(op, target.elem), made, total, [bins], [start], cells))
    passes = ir.Bin("/", ir.add(bins, num(cells - 1)), num(cells))
    lo.launch(kernel, "tile", ir.mul(blocks, passes), f"histogram {name}, atomic {op} in shared memory")


def _add(lo: DeviceLowerer, target: View, index: Sequence[Expr], value: Expr, op: str) -> None:
    assert isinstance(target.base, Mem)
    op = "or" if target.elem.is_bool and op == "add" else op
    lo.emit(kir.Atomic(target.base.pointer, target.place(index), value, op))


# --- accumulators -------------------------------------------------------------------------------------------------


@on_host(core.UpdateAcc)
def _update_acc(
    lo: DeviceLowerer, stm: core.Stm, e: core.UpdateAcc, destinations: list[Destination]
) -> Sequence[Value]:
    acc = lo.value(e.acc)
    assert isinstance(acc, Acc)
    value = lo.value(e.value)
    shape: Sequence[Expr] = value.shape if isinstance(value, View) else (ONE,)
    with lo.kernel() as body, lo.space(shape) as (point, total):
        _accumulate(lo, acc, [lo.expr(a) for a in e.index], value, point)
    lo.launch(body, "thread" if isinstance(value, View) else "single", total, f"add to {stm.pat[0].name}")
    return [acc]


def _accumulate(lo: DeviceLowerer, acc: Acc, index: list[Expr], value: Value, point: Sequence[Expr]) -> None:
    op = arrays.acc_op(acc)
    with lo.block() as write:
        if isinstance(value, View):
            _add(lo, acc.view, [*index, *point], value.load(point), op)
        else:
            assert isinstance(value, Expr)
            _add(lo, acc.view, index, value, op)
    if_inside(lo, index, acc.view.shape, write)


@in_block(core.UpdateAcc)
def _block_update_acc(
    lo: DeviceLowerer, stm: core.Stm, e: core.UpdateAcc, destinations: list[Destination]
) -> Sequence[Value]:
    acc = lo.value(e.acc)
    assert isinstance(acc, Acc)
    value = lo.value(e.value)
    index = [lo.expr(a) for a in e.index]
    if isinstance(value, View):
        with lo.shared_out(value.shape) as point:
            _accumulate(lo, acc, index, value, point)
        return [acc]
    with lo.block() as body, lo.inside("thread"), lo.guarded():
        _accumulate(lo, acc, index, value, ())
    lo.out += [kir.Sync(), kir.Single(body), kir.Sync()]
    return [acc]


@in_block(core.WithAcc)
def _block_with_acc(
    lo: DeviceLowerer, stm: core.Stm, e: core.WithAcc, destinations: list[Destination]
) -> Sequence[Value]:
    k = len(e.arrays)
    targets = _targets(lo, e.arrays, list(e.lam.free()), destinations)
    for p, v in zip(e.lam.params, targets, strict=True):
        lo.bind(p, SharedAcc(v, e.op))
    values = lo.scope(e.lam, [None] * k + destinations[k:])
    return [*targets, *values[k:]]
