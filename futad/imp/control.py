"""Lowering of loops and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import AccType, ArrayType, Prim
from futad.imp import ir
from futad.imp.arrays import add_into
from futad.imp.carried import Carried, named_strides
from futad.imp.dispatch import Destination, handles
from futad.imp.ir import Expr, Ref, num
from futad.imp.packed import packed
from futad.imp.records import argument
from futad.imp.thread_pool import UNKNOWN_WIDTH
from futad.imp.views import Acc, Mem, Root, Value, View, dense_view

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

# --- loops --------------------------------------------------------------------------------------------------


@handles(core.For)
def _for(lo: Lowerer, stm: core.Stm, e: core.For, destinations: list[Destination]) -> Sequence[Value]:
    bound = lo.let(lo.expr(e.bound), "bound")
    counter = e.body.params[0]
    carried = Carried(lo, e.body.params[1:], [lo.value(a) for a in e.inits], e.body, destinations)
    t = counter.type
    assert isinstance(t, Prim)
    wide: Expr = bound if bound.type.name == "i64" else ir.Scalar("to_i64", (bound,), bound.type, ir.ZERO.type)
    with packed(lo, [e.body], wide), lo.loop(wide, counter.name) as (i, _loop):
        index: Expr = i if t.name == "i64" else lo.let(ir.Scalar(f"to_{t.name}", (i,), i.type, t), counter.name)
        lo.bind(counter, index)
        values = lo.scope(e.body, carried.destinations(), repeats=True)
        carried.commit(values)
    return carried.finish()


@handles(core.While)
def _while(lo: Lowerer, stm: core.Stm, e: core.While, destinations: list[Destination]) -> Sequence[Value]:
    carried = Carried(lo, e.body.params, [lo.value(a) for a in e.inits], e.body, destinations)
    cond = lo.expr(e.body.params[0])
    with packed(lo, [e.body], num(UNKNOWN_WIDTH)):
        with lo.block() as body:
            values = lo.scope(e.body, carried.destinations(), repeats=True)
            carried.commit(values)
        lo.emit(ir.While(cond, body))
    return carried.finish()


@handles(core.Call)
def _call(lo: Lowerer, stm: core.Stm, e: core.Call, destinations: list[Destination]) -> Sequence[Value]:
    fun = lo.program.funs[e.name]
    if e.name in lo.separate:
        return _invoke(lo, stm, e)
    for p, a in zip(fun.body.params, e.args, strict=True):
        lo.bind(p, lo.value(a))
    return lo.scope(fun.body, destinations)


def _invoke(lo: Lowerer, stm: core.Stm, e: core.Call) -> Sequence[Value]:
    """Call a C function; its arrays arrive dense, in slots of ours."""
    args: list[Expr | str] = []
    accs: list[tuple[Acc, View | None]] = []
    for a in e.args:
        v = lo.value(a)
        if isinstance(v, Acc):
            accs.append((v, argument(lo, v, args)))
        elif isinstance(v, View):
            v = lo.dense(v)
            assert isinstance(v.base, Mem)
            name = lo.name("arg")
            lo.emit(ir.Pointer(name, v.elem, v.base.pointer, v.offset))
            args.append(name)
        else:
            assert isinstance(v, Expr)
            args.append(v)
    results: list[tuple[str, int | None]] = []
    roots: list[Root | None] = []
    for var in stm.pat:
        if isinstance(var.type, AccType):
            continue
        name = lo.name(var.name)
        if isinstance(var.type, ArrayType):
            root = lo.new_root(var.type.elem)
            lo.emit(ir.Pointer(name, var.type.elem, mutable=True))
            results.append((name, root.slot))
            roots.append(root)
        else:
            assert isinstance(var.type, Prim)
            lo.emit(ir.Decl(name, var.type, mutable=True))
            lo.env[var] = Ref(name, var.type)
            results.append((name, None))
            roots.append(None)
    lo.emit(ir.Invoke(e.name, args, results))
    for acc, own in accs:
        if own is not None:
            add_into(lo, acc, acc.view, own)
    # Accumulators are returned in the order of the parameters.
    out: list[Value] = []
    given, made = iter(accs), zip(results, roots, strict=True)
    for var in stm.pat:
        if isinstance(var.type, AccType):
            out.append(next(given)[0])
            continue
        (name, _), owner = next(made)
        if owner is None:
            out.append(lo.env[var])
        else:
            base = Mem(name, owner.elem, frozenset((owner,)))
            out.append(named_strides(lo, dense_view(base, lo.shape(var.type))))
    return out
