"""Lowering of scalar operations and array constructs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from futad.accs.injective_updates import fills, positions
from futad.core import ir as core
from futad.core.scalarops import OPS
from futad.core.types import AccType, Atom, Const, Prim, Var, elem_of, prim_of
from futad.errors import DIVISION_BY_ZERO
from futad.imp import ir
from futad.imp.assemble import AS_IT_LIES, appended, assembled, joined, padded
from futad.imp.dispatch import ASSERT, DIVISION, Destination, handles
from futad.imp.indexing import if_inside, indexed
from futad.imp.ir import ZERO, Expr, Num, add
from futad.imp.moves import moved
from futad.imp.placement import in_step
from futad.imp.rows import matrix, put_off
from futad.imp.sharing import DEAD, UNREAD, unread
from futad.imp.views import (
    Acc,
    Fill,
    Joined,
    Mem,
    Root,
    Sequence_,
    Value,
    View,
    dense_view,
    permuted,
)  # fmt: skip

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer


@handles(core.Alias)
def _alias(lo: Lowerer, stm: core.Stm, e: core.Alias, destinations: list[Destination]) -> Sequence[Value]:
    return [lo.value(e.atom)]


@handles(core.Op)
def _op(lo: Lowerer, stm: core.Stm, e: core.Op, destinations: list[Destination]) -> Sequence[Value]:
    return [lo.let(scalar_op(lo, e), stm.pat[0].name)]


def scalar_op(lo: Lowerer, e: core.Op) -> Expr:
    """The expression of an operation; emits the check that a divisor is not zero."""
    args = tuple([lo.expr(a) for a in e.args])
    record = OPS[e.op]
    last = e.args[-1]
    arg = last.type
    assert isinstance(arg, Prim)
    if record.can_fail and arg.is_integral and not (isinstance(last, Const) and last.value != 0):
        check = ir.Scalar("ne", (args[-1], Num(0, arg)), arg, ir.TRUE.type)
        if (args[-1], check) not in lo.checked:
            lo.emit(ir.Check(check, DIVISION, lo.place(e.place, DIVISION_BY_ZERO)))
            if lo.target.builds_in_place:
                lo.checked[args[-1], check] = None
    result = record.result_type(tuple([prim_of(a) for a in e.args]))
    return ir.Scalar(e.op, args, arg, result)


# --- indexing ------------------------------------------------------------------------------------------


@handles(core.At)
def _at(lo: Lowerer, stm: core.Stm, e: core.At, destinations: list[Destination]) -> Sequence[Value]:
    sub_view = indexed(lo, lo.view(e.array), e.index, e.check)
    if not sub_view.shape:
        return [lo.let(sub_view.load(()), stm.pat[0].name)]
    offset = lo.let(sub_view.offset, "o")
    return [View(sub_view.base, offset, sub_view.strides, sub_view.shape, sub_view.dense, sub_view.injective)]


@handles(core.Update)
def _update(lo: Lowerer, stm: core.Stm, e: core.Update, destinations: list[Destination]) -> Sequence[Value]:
    src = lo.view(e.array)
    placed = lo.scopes[-1].placed.get(stm.pat[0])
    if placed is not None:
        dst, target = placed
    elif (whole := padded(lo, e, stm.pat[0], src)) is not None:
        return [whole]
    else:
        if lo.can_overwrite(src):
            dst = src
        else:
            free = unread(lo, destinations[0], [v for v in (src, lo.value(e.value)) if isinstance(v, View)])
            dst = lo.alloc(src.elem, src.shape, free, stm.pat[0].name)
            lo.copy(dst, src)
        target = indexed(lo, dst, e.index, e.check)
    value = lo.value(e.value)
    if isinstance(value, View):
        if value.roots & target.roots and not value.same_place(target):
            if moved(lo, target, value):
                return [dst]
            value = lo.materialise(value)
        lo.copy(target, value)
    else:
        assert isinstance(value, Expr)
        lo.store(target, (), value)
    return [dst]


# --- making arrays -----------------------------------------------------------------------------------------


@handles(core.Iota)
def _iota(lo: Lowerer, stm: core.Stm, e: core.Iota, destinations: list[Destination]) -> Sequence[Value]:
    base = Sequence_(elem_of(e.start.type), lo.expr(e.start), lo.expr(e.step))
    return [dense_view(base, (lo.size(e.count),))]


@handles(core.Replicate)
def _replicate(lo: Lowerer, stm: core.Stm, e: core.Replicate, destinations: list[Destination]) -> Sequence[Value]:
    outer = tuple([lo.size(s) for s in e.shape])
    value = lo.value(e.value)
    if isinstance(value, View):
        strides = (ZERO,) * len(outer) + value.strides
        return [View(value.base, value.offset, strides, outer + value.shape, injective=False)]
    assert isinstance(value, Expr)
    return [dense_view(Fill(value.type, value), outer)]


@handles(core.ArrayLit)
def _array_lit(lo: Lowerer, stm: core.Stm, e: core.ArrayLit, destinations: list[Destination]) -> Sequence[Value]:
    shape = (ir.num(len(e.elems)), *lo.shape(e.type))
    dst = assembled(lo, stm.pat[0]) or lo.alloc(elem_of(e.type), shape, destinations[0], stm.pat[0].name)
    literals, pieces = lo.scopes[-1].literals, lo.scopes[-1].pieces
    for i, a in enumerate(e.elems):
        v = lo.value(a)
        if isinstance(v, View):
            row = dst.row((ir.num(i),))
            if a in pieces and AS_IT_LIES(i == e.elems.index(a) and v.same_place(pieces[a])):
                continue
            if a in literals:
                # The same row again: from its scalars, not from memory just written.
                for j, x in enumerate(literals[a].elems):
                    lo.store(row, (ir.num(j),), lo.expr(x))
            else:
                lo.copy(row, v)
        else:
            assert isinstance(v, Expr)
            lo.store(dst, (ir.num(i),), v)
    return [dst]


@handles(core.Concat)
def _concat(lo: Lowerer, stm: core.Stm, e: core.Concat, destinations: list[Destination]) -> Sequence[Value]:
    views = [lo.view(a) for a in e.arrays]
    shape = (lo.expr(e.size), *views[0].shape[1:])
    starts: list[Expr] = [ZERO]
    for v in views[:-1]:
        starts.append(add(starts[-1], v.shape[0]))
    whole = joined(lo, stm.pat[0], list(zip(starts, views, strict=True)), shape[0])
    if whole is not None:
        return [whole]
    longer = appended(lo, views, shape, destinations[0], stm.pat[0].name)
    dst = longer or assembled(lo, stm.pat[0]) or lo.alloc(views[0].elem, shape, destinations[0], stm.pat[0].name)
    at: Expr = ZERO
    for k, (a, v) in enumerate(zip(e.arrays, views, strict=True)):
        if k == 0 and longer is not None:
            at = v.shape[0]
            continue
        piece = lo.scopes[-1].pieces.get(a)
        # An array that comes twice lies at its first place.
        if piece is None or not AS_IT_LIES(k == e.arrays.index(a) and v.same_place(piece)):
            part = dst.row((at,))
            lo.copy(View(dst.base, part.offset, dst.strides, v.shape, dst.dense), v)
        at = lo.let(add(at, v.shape[0]), "at")
    return [dst]


@handles(core.MatMul)
def _matmul(lo: Lowerer, stm: core.Stm, e: core.MatMul, destinations: list[Destination]) -> Sequence[Value]:
    a, b = lo.view(e.a), lo.view(e.b)
    dst: View | None = None
    if e.plus:
        plus = lo.view(e.plus[0])
        if lo.can_overwrite(plus, (e.a, e.b)):
            dst = plus
    if dst is None:
        destination = destinations[0] or overwritten(lo, stm.pat[0], (e.a, e.b))
        if destination is None and (deferred := put_off(lo, stm, e, a, b)) is not None:
            return [deferred]
        dst = transposed(lo, stm.pat[0], e) if destination is None else None
        dst = dst or lo.alloc(a.elem, (a.shape[0], b.shape[1]), destination, stm.pat[0].name)
        if e.plus:
            lo.copy(dst, plus)
    views = [v if isinstance(v.base, Mem) else lo.materialise(v) for v in (a, b)]
    for v in views:
        lo.reads(v)
    sizes = (a.shape[0], b.shape[1], a.shape[1])
    ma, mb, mc = [matrix(v) for v in (*views, dst)]
    parallel = lo.shares
    packed = lo.packed.get(e.b)
    lo.emit(ir.Gemm(elem_of(e.a.type), sizes, ma, mb, mc, lo.place(None), parallel, bool(e.plus), packed))
    return [dst]


def transposed(lo: Lowerer, var: Var, e: core.MatMul) -> View | None:
    """Memory by columns for a product that is used for nothing but its transpose, which then is no copy; None if it is
    used otherwise, or so that a view does, or its right factor is packed for rows."""
    sc = lo.scopes[-1]
    if not lo.target.builds_in_place or sc.uses.get(var) != 1 or e.b in lo.packed:
        return None
    for s in sc.lam.stms[sc.index + 1 :]:
        if type(s.exp) is core.Rearrange and s.exp.array is var:
            (turned,) = s.pat
            users = [x.exp for x in sc.lam.stms if turned in core.stm_free(x)]
            if turned not in sc.lam.result and all(type(x) is core.MatMul and turned not in x.plus for x in users):
                return None
            destination = sc.destinations.get(s.pat[0])
            there = destination.roots if isinstance(destination, View) else frozenset[Root]()
            read = frozenset[Root]().union(*[lo.view(x).roots for x in (e.a, e.b, *e.plus)])
            fits = UNREAD(not read & there) and DEAD(not lo.roots_live(there))
            whole = destination if isinstance(destination, View) and fits else None
            return permuted(lo.alloc(elem_of(var.type), lo.shape(s.pat[0].type), whole, var.name), s.exp.perm)
    return None


def overwritten(lo: Lowerer, var: Var, operands: Iterable[Atom]) -> View | None:
    """Where an array can be computed that is read by one later map only, element by element, for a result that has a
    place: the map then runs in that place.  `operands`: what it is computed from."""
    sc = lo.scopes[-1]
    if not lo.target.builds_in_place or sc.uses.get(var) != 1:
        return None
    for s in sc.lam.stms[sc.index + 1 :]:
        if type(s.exp) is not core.Map or var not in s.exp.arrays:
            continue
        param = s.exp.lam.params[s.exp.arrays.index(var)]
        for v, r in zip(s.pat, s.exp.lam.result, strict=True):
            destination = sc.destinations.get(v)
            if isinstance(destination, View) and destination.dense and in_step(lo, s.exp.lam, param, r):
                destination = dense_view(destination.base, lo.shape(var.type), destination.offset)
                read = frozenset[Root]().union(*[lo.view(a).roots for a in operands if isinstance(a, Var)])
                fits = UNREAD(not read & destination.roots) and DEAD(not lo.roots_live(destination.roots))
                return destination if fits else None
    return None


@handles(core.Copy)
def _copy(lo: Lowerer, stm: core.Stm, e: core.Copy, destinations: list[Destination]) -> Sequence[Value]:
    src = lo.view(e.array)
    if lo.can_overwrite(src) and (src.dense or "in order" not in stm.attrs):
        return [src]
    unwritten = stm.pat[0] not in lo.consumed
    if unwritten and (src.dense or isinstance(src.base, Joined)) and not _part_of_overwritten(lo, src, stm.pat[0]):
        return [src]  # whoever writes to either copies then
    return [lo.materialise(src, destinations[0])]


def _part_of_overwritten(lo: Lowerer, src: View, copied: Var) -> bool:
    """Whether a later statement of the scope overwrites a larger array of which the source is a part, while the copy is
    still read: without the copy it would have to copy the whole of that."""
    sc = lo.scopes[-1]
    later = sc.lam.stms[sc.index + 1 :]
    seen, needed = {copied}, sc.last.get(copied, -1)
    for stm in later:
        if any(a in seen for a in stm.exp.views()):
            seen.update(stm.pat)
            needed = max(needed, *[sc.last.get(v, -1) for v in stm.pat])
    for at, stm in enumerate(later, sc.index + 1):
        e = stm.exp
        if isinstance(e, core.Loop):
            written = [a for a, p in zip(e.inits, e.variables, strict=True) if p in lo.consumed]
        else:
            written = list(e.consumes()) if at < needed else []
        for a in written:
            v = lo.env.get(a) if isinstance(a, Var) else None
            larger = isinstance(v, View) and (v.rank > src.rank or (v.shape != src.shape and at <= needed))
            if isinstance(v, View) and v.roots & src.roots and larger:
                return True
    return False


@handles(core.Scratch)
def _scratch(lo: Lowerer, stm: core.Stm, e: core.Scratch, destinations: list[Destination]) -> Sequence[Value]:
    return [lo.alloc(e.elem, [lo.size(s) for s in e.shape], destinations[0], stm.pat[0].name)]


@handles(core.Reshape)
def _reshape(lo: Lowerer, stm: core.Stm, e: core.Reshape, destinations: list[Destination]) -> Sequence[Value]:
    v = lo.view(e.array)
    shape = [lo.expr(s) for s in e.shape]
    if isinstance(v.base, Fill):
        return [dense_view(v.base, shape)]
    if not v.dense:
        v = lo.materialise(v)
    flat = dense_view(v.base, shape, v.offset)
    strides = tuple([lo.let(s, "s") for s in flat.strides])
    return [View(v.base, v.offset, strides, flat.shape, True, v.injective)]


@handles(core.Rearrange)
def _rearrange(lo: Lowerer, stm: core.Stm, e: core.Rearrange, destinations: list[Destination]) -> Sequence[Value]:
    v = permuted(lo.view(e.array), e.perm)
    v.dense = v.dense or v.strides == dense_view(v.base, v.shape).strides
    return [v]


@handles(core.Assert)
def _assert(lo: Lowerer, stm: core.Stm, e: core.Assert, destinations: list[Destination]) -> Sequence[Value]:
    values = tuple([lo.expr(a) for a in e.values])
    types = tuple([v.type for v in values])
    lo.emit(ir.Check(lo.expr(e.cond), ASSERT, lo.place(e.place, e.message, types), values))
    return [lo.value(a) for a in e.of]


@handles(core.Trace)
def _trace(lo: Lowerer, stm: core.Stm, e: core.Trace, destinations: list[Destination]) -> Sequence[Value]:
    v = lo.value(e.value)
    if isinstance(v, View):
        v = lo.dense(v)
        assert isinstance(v.base, Mem)
        lo.emit(ir.Trace(e.tag, v.elem, None, v.base.pointer, v.offset, v.shape))
    else:
        assert isinstance(v, Expr)
        lo.emit(ir.Trace(e.tag, v.type, v))
    return []


@handles(core.Measure)
def _measure(lo: Lowerer, stm: core.Stm, e: core.Measure, destinations: list[Destination]) -> Sequence[Value]:
    lo.measure(lo.sites.of(e.facts, e.names), tuple([lo.expr(a) for a in e.values]))
    return []


# --- accumulators ------------------------------------------------------------------------------------------


@handles(core.WithAcc)
def _with_acc(lo: Lowerer, stm: core.Stm, e: core.WithAcc, destinations: list[Destination]) -> Sequence[Value]:
    k = len(e.arrays)
    used = list(e.lam.free())
    targets: list[View] = []
    filled: list[bool] = []
    for i, a in enumerate(e.arrays):
        v = lo.view(a)
        others = [x for j, x in enumerate(e.arrays) if j != i]
        filled.append(_is_filled(lo, e, i, v))
        if filled[i]:
            v = lo.alloc(v.elem, v.shape, destinations[i], stm.pat[i].name)
        elif not lo.can_overwrite(v, used + others):
            v = lo.materialise(v, destinations[i])
        targets.append(v)
    for p, v, whole in zip(e.lam.params, targets, filled, strict=True):
        lo.bind(p, Acc(v, e.op, whole))
    values = lo.scope(e.lam, [None] * k + destinations[k:])
    return [*targets, *values[k:]]


def _is_filled(lo: Lowerer, e: core.WithAcc, i: int, v: View) -> bool:
    """Whether an accumulator of zeros is updated once at each place, so that these are stored, and zeros never."""
    p = e.lam.params[i]
    users = [s for s in e.lam.stms if p in core.stm_free(s)]
    if not lo.target.builds_in_place or not isinstance(v.base, Fill) or e.op != "add" or len(users) != 1:
        return False
    value, (user,) = v.base.value, users
    x = user.exp
    if not isinstance(value, Num) or value.value != 0 or not isinstance(x, core.Mapping):
        return False
    k = x.arrays.index(p) if p in x.arrays else -1
    after = user.pat[sum(isinstance(a.type, AccType) for a in x.arrays[:k])]
    if k < 0 or e.lam.result[i] is not after:
        return False
    defs = ChainMap({s.pat[0]: s.exp for s in e.lam.stms if len(s.pat) == 1}, lo.defs)
    return fills(x.lam, x.lam.params[k], positions(x.lam.params, x.arrays, defs), x.width, defs)


@handles(core.UpdateAcc)
def _update_acc(lo: Lowerer, stm: core.Stm, e: core.UpdateAcc, destinations: list[Destination]) -> Sequence[Value]:
    acc = lo.value(e.acc)
    assert isinstance(acc, Acc)
    index = [lo.expr(a) for a in e.index]
    row = acc.view, tuple([a.value for a in takewhile(lambda a: isinstance(a, Const), e.index) if isinstance(a, Const)])
    with lo.block() as body:
        add_into(lo, acc, acc.view.row(index), lo.value(e.value), row)
    if_inside(lo, index, acc.view.shape, body)
    return [acc]


def add_into(
    lo: Lowerer, acc: Acc, target: View, value: Value, row: tuple[View, tuple[int, ...]] | None = None
) -> None:
    """Add a value to the part `target` of an accumulator, which is in that row of it."""
    assert isinstance(target.base, Mem)
    if not isinstance(value, View):
        assert isinstance(value, Expr)
        op = None if acc.fills else acc_op(acc)
        lo.emit(ir.Store(target.base.pointer, target.place(()), value, op, row=row))
        return
    order = list(range(target.rank))
    index: list[Expr] = [ZERO] * target.rank

    def nest(dims: list[int]) -> None:
        assert isinstance(target.base, Mem) and isinstance(value, View)
        if not dims:
            lo.emit(ir.Store(target.base.pointer, target.place(index), value.load(index), acc_op(acc), row=row))
            return
        with lo.loop(target.shape[dims[0]]) as (i, loop):
            index[dims[0]] = i
            loop.independent = len(dims) == 1
            nest(dims[1:])

    nest(order)


def acc_op(acc: Acc) -> str:
    """The scalar operation of the accumulator's updates: `or` on bools."""
    return "or" if acc.view.elem.is_bool and acc.op == "add" else acc.op


