"""Tasks that may run at once: their statement, and how they are lowered.

Note [Accumulators of tasks].  Two tasks may add to parts of one accumulator (Note [Adjoints in tasks] in
`ad/rules/tasks.py`).  Where the second is done by another thread than the first, and the memory of the parts is not
apart, that thread adds to zeros of its own, which are added to the part when both tasks are done.  Whether it is apart
is found when the task is offered, from where the parts begin and end.  What a task hands on to others lies within its
own parts or in memory of its own, so the parts of all tasks that run at the same time are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import BOOL, I64, AccType, ArrayType, Prim, Var
from futad.imp import ir
from futad.imp.arrays import add_into
from futad.imp.carried import named_strides
from futad.imp.dispatch import Destination, handles
from futad.imp.ir import ONE, ZERO, Expr, Ref, add, mul, num, sub
from futad.imp.node import Assigned, Declared, Node, Pointed, Stmt
from futad.imp.views import Acc, Fill, Mem, Value, View, dense_view

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer


@dataclass(slots=True, eq=False)
class Reach(Node):
    """The memory of an accumulator: a pointer, and the elements that lie before and after it."""

    pointer: Pointed
    before: Expr
    after: Expr


@dataclass(slots=True, eq=False)
class Added(Node):
    """An accumulator of the second task: its pointer and strides, but for the last one, which is 1, become those of
    zeros where it is not apart from what the first one adds to; `others`: these."""

    pointer: Assigned
    elem: Prim
    strides: tuple[Assigned, ...]
    shape: tuple[Expr, ...]
    reach: Reach
    others: tuple[Reach, ...]


@dataclass(slots=True, eq=False)
class Own(Stmt):
    """Declare a pointer to the zeros that the second task has added to; `there`: whether there are any."""

    name: Declared
    there: Declared
    pointer: Pointed
    elem: Prim


@dataclass(slots=True, eq=False)
class Fork(Stmt):
    """Run two bodies, which may run at once.  What is declared outside and set by `second` is read after both are
    done.  `added`: the accumulators of the second one; `sums` adds to them what they had zeros for."""

    first: list[Stmt]
    second: list[Stmt]
    added: tuple[Added, ...]
    sums: list[Stmt]


@handles(core.Par)
def _par(lo: Lowerer, stm: core.Stm, e: core.Par, destinations: list[Destination]) -> Sequence[Value]:
    """The tasks as scopes that repeat: neither writes over an array from outside, which the other one may read.  They
    have no slot in common."""
    added, sums, afterwards = _accumulators(lo, e)
    names: list[str] = []
    for v in stm.pat:
        name = lo.name(v.name)
        names.append(name)
        if isinstance(v.type, ArrayType):
            lo.emit(ir.Pointer(name, v.type.elem, mutable=True))
        elif isinstance(v.type, Prim):
            lo.emit(ir.Decl(name, v.type, mutable=True))
    outside, lo.in_parallel = lo.in_parallel, True
    free = lo.free_slots
    bodies: list[list[ir.Stmt]] = []
    values: list[Value] = []
    for lam in e.lambdas():
        with lo.block() as body:
            for value in lo.scope(lam, repeats=True):
                name = names[len(values)]
                if isinstance(value, View):
                    if not value.dense or not isinstance(value.base, Mem) or any(r.stack for r in value.roots):
                        value = lo.materialise(value, heap=True)
                    assert isinstance(value.base, Mem)
                    lo.emit(ir.SetPointer(name, value.base.pointer, value.offset))
                elif isinstance(value, Expr):
                    lo.emit(ir.Assign(name, value))
                values.append(value)
        bodies.append(body)
        if lo.free_slots is free:
            lo.free_slots = {}
    for elem, slots in lo.free_slots.items():
        free.setdefault(elem, []).extend(slots)
    lo.free_slots, lo.in_parallel = free, outside
    lo.emit(Fork(bodies[0], bodies[1], added, sums))
    for acc, part in afterwards:
        add_into(lo, acc, acc.view, part)
    out: list[Value] = []
    for v, name, value in zip(stm.pat, names, values, strict=True):
        if isinstance(v.type, Prim):
            lo.env[v] = Ref(name, v.type)
            out.append(lo.env[v])
        elif isinstance(value, Acc):
            out.append(value)
        else:
            assert isinstance(value, View)
            base = Mem(name, value.elem, value.roots)
            out.append(named_strides(lo, dense_view(base, lo.shape(v.type))))
    return out


def _accumulators(lo: Lowerer, e: core.Par) -> tuple[tuple[Added, ...], list[Stmt], list[tuple[Acc, View]]]:
    """Give each task the accumulators that it uses; those of the second one, what adds their zeros up, and arrays to be
    added up when both tasks are done."""
    afterwards: list[tuple[Acc, View]] = []
    first, second = ([_given(lo, v, afterwards) for v in _used(lam)] for lam in e.lambdas())
    added = [_added(lo, acc, first) for acc in second]
    with lo.block() as sums:
        for acc, a in zip(second, added, strict=True):
            own, there = lo.name("own"), lo.name("there")
            lo.emit(Own(own, there, a.pointer, a.elem))
            with lo.block() as body:
                add_into(lo, acc, acc.view, dense_view(Mem(own, a.elem, acc.view.roots), a.shape))
            lo.emit(ir.If(Ref(there, BOOL), body, []))
    return tuple(added), sums, afterwards


def _added(lo: Lowerer, acc: Acc, first: Sequence[Acc]) -> Added:
    v = acc.view
    assert isinstance(v.base, Mem)
    strides = tuple([s.name for s in v.strides[:-1] if isinstance(s, Ref)])
    assert len(strides) == max(0, v.rank - 1)
    others = tuple([_reach(lo, x) for x in first if x.view.elem is v.elem])
    return Added(v.base.pointer, v.elem, strides, v.shape, _reach(lo, acc), others)


def _used(lam: core.Lambda) -> list[Var]:
    return [v for v in lam.free() if isinstance(v.type, AccType)]


def _given(lo: Lowerer, v: Var, afterwards: list[tuple[Acc, View]]) -> Acc:
    """The accumulator as a task has it: at a pointer, with its strides in variables.  One that has no memory yet, or
    whose rows do not lie side by side, is an array for that long."""
    outer = lo.value(v)
    assert isinstance(outer, Acc)
    view = outer.view
    if not isinstance(view.base, Mem) or (view.strides and view.strides[-1] != ONE) or outer.fills:
        zeros = lo.alloc(view.elem, view.shape, None, "part")
        lo.copy(zeros, dense_view(Fill(view.elem, ir.Num(0, view.elem)), view.shape))
        afterwards.append((outer, zeros))
        view = zeros
    assert isinstance(view.base, Mem)
    pointer = lo.name("acc")
    lo.emit(ir.Pointer(pointer, view.elem, view.base.pointer, view.offset, mutable=True))
    strides: list[Expr] = []
    for s in view.strides[:-1]:
        name = lo.name("s")
        lo.emit(ir.Decl(name, I64, s, mutable=True))
        strides.append(Ref(name, I64))
    base = Mem(pointer, view.elem, view.base.roots)
    given = View(base, ZERO, (*strides, *view.strides[-1:]), view.shape, view.rank < 2, view.injective)
    lo.env[v] = acc = Acc(given, outer.op)
    return acc


def _reach(lo: Lowerer, acc: Acc) -> Reach:
    assert isinstance(acc.view.base, Mem)
    before: Expr = ZERO
    after: Expr = ONE
    for s, n in zip(acc.view.strides, acc.view.shape, strict=True):
        last = mul(sub(n, ONE), s)
        before = add(before, _op("max", ZERO, mul(num(-1), last)))
        after = add(after, _op("max", ZERO, last))
    return Reach(acc.view.base.pointer, before, after)


def _op(op: str, a: Expr, b: Expr) -> Expr:
    return ir.Scalar(op, (a, b), I64, I64)


__all__ = ["Added", "Fork", "Own", "Reach"]
