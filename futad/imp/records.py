"""Lowering of records (`core.Keep`) and of parts of accumulators.

A record's values lie one after the other in memory of its own, each at a multiple of eight bytes: what reads it knows
the types of the values in the same order, and with them where each lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.node import Range
from futad.core.types import I64, REC, AccType, Prim, Type, elem_of
from futad.imp import ir
from futad.imp.dispatch import Destination, handles
from futad.imp.ir import ZERO, Expr, Ref, add, mul, num
from futad.imp.node import Declared, Stmt
from futad.imp.views import Acc, Fill, Mem, Root, Value, View, dense_view

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

WORD = 8  # bytes


@dataclass(slots=True, eq=False)
class Keep(Stmt):
    """Declare a record with that many bytes."""

    name: Declared
    bytes: Expr


@dataclass(slots=True, eq=False)
class Field(Stmt):
    """Declare a pointer to elements that lie so many bytes from a record's beginning, its value of that number; `by`
    is for checked execution, here and below."""

    name: Declared
    elem: Prim
    record: Expr
    offset: Expr
    number: int
    by: int = 0


@dataclass(slots=True, eq=False)
class Release(Stmt):
    """Nobody reads the record any more."""

    record: Expr
    by: int = 0


def _bytes(lo: Lowerer, t: Type, shape: tuple[Expr, ...]) -> Expr:
    """Those that a value takes, a multiple of WORD."""
    if isinstance(t, Prim):
        return num(WORD)
    size = mul(ir.product(shape), num(t.elem.bytes))
    if t.elem.bytes == WORD:
        return lo.let(size, "bytes")
    if isinstance(size, ir.Num):
        return num((size.value + WORD - 1) // WORD * WORD)
    return lo.let(mul(ir.Bin("/", add(size, num(WORD - 1)), num(WORD)), num(WORD)), "bytes")


def _field(lo: Lowerer, t: Type, shape: tuple[Expr, ...], record: Expr, offset: Expr, number: int) -> View:
    name = lo.name("field")
    lo.emit(Field(name, elem_of(t), record, offset, number))
    root = Root(None, False, elem_of(t))
    return dense_view(Mem(name, elem_of(t), frozenset((root,))), shape)


@handles(core.Keep)
def _keep(lo: Lowerer, stm: core.Stm, e: core.Keep, destinations: list[Destination]) -> Sequence[Value]:
    offsets: list[Expr] = [ZERO]
    for a in e.values:
        offsets.append(add(offsets[-1], _bytes(lo, a.type, lo.shape(a.type))))
    name = lo.name(stm.pat[0].name)
    lo.emit(lo.keep(name, offsets[-1], [(elem_of(a.type), ir.product(lo.shape(a.type))) for a in e.values]))
    record = Ref(name, REC)
    for k, (a, at) in enumerate(zip(e.values, offsets, strict=False)):
        field = _field(lo, a.type, lo.shape(a.type), record, at, k)
        v = lo.value(a)
        if isinstance(v, View):
            lo.copy(field, v)
        else:
            assert isinstance(v, Expr)
            lo.store(field, (), v)
    return [record]


@handles(core.Kept)
def _kept(lo: Lowerer, stm: core.Stm, e: core.Kept, destinations: list[Destination]) -> Sequence[Value]:
    record = lo.expr(e.record)
    at: Expr = ZERO
    out: list[Value] = []
    for k, v in enumerate(stm.pat):
        shape = lo.shape(v.type)
        field = _field(lo, v.type, shape, record, at, k)
        at = add(at, _bytes(lo, v.type, shape))
        if isinstance(v.type, Prim):
            name = lo.name(v.name)
            lo.emit(ir.Decl(name, v.type, field.load(())))
            lo.env[v] = Ref(name, v.type)  # later ones may have it as their size
            out.append(lo.env[v])
        else:
            own = lo.alloc(elem_of(v.type), shape, destinations[k] if k < len(destinations) else None, v.name)
            lo.copy(own, field)
            out.append(own)
    lo.emit(Release(record))
    return out


# --- accumulators ------------------------------------------------------------------------------------------


def parameter(lo: Lowerer, name: str, t: AccType, params: list[ir.Param]) -> Acc:
    """An accumulator that a function is given: a pointer, and the strides but for the last one, which is 1."""
    shape = lo.shape(t)
    params.append(ir.Param(name, t.elem, max(1, len(shape)), ir.product(shape)))
    strides: list[Expr] = []
    for _ in shape[:-1]:
        params.append(ir.Param(lo.name("s"), I64))
        strides.append(Ref(params[-1].name, I64))
    base = Mem(name, t.elem, frozenset((Root(None, True, t.elem),)))
    return Acc(View(base, ZERO, (*strides, ir.ONE)[: len(shape)], shape, len(shape) < 2, True), "add")


def argument(lo: Lowerer, acc: Acc, args: list[Expr | str]) -> View | None:
    """Add an accumulator to what a function is called with; an array to be added to it afterwards, if there is one."""
    v, own = acc.view, None
    if not isinstance(v.base, Mem) or (v.strides and v.strides[-1] != ir.ONE) or acc.fills:
        own = lo.alloc(v.elem, v.shape, None, "part")
        lo.copy(own, dense_view(Fill(v.elem, ir.Num(0, v.elem)), v.shape))
    given = own or v
    assert isinstance(given.base, Mem)
    name = lo.name("acc")
    lo.emit(ir.Pointer(name, v.elem, given.base.pointer, given.offset))
    args.append(name)
    args += given.strides[:-1]
    return own


@handles(core.Part)
def _part(lo: Lowerer, stm: core.Stm, e: core.Part, destinations: list[Destination]) -> Sequence[Value]:
    acc = lo.value(e.acc)
    assert isinstance(acc, Acc)
    v = acc.view
    at, strides, shape = v.offset, list(v.strides), list(v.shape)
    for d, i in reversed(list(enumerate(e.index))):
        if isinstance(i, Range):
            at = add(at, mul(lo.expr(i.start), v.strides[d]))
            strides[d], shape[d] = mul(lo.expr(i.stride), v.strides[d]), lo.expr(i.count)
        else:
            at = add(at, mul(lo.expr(i), v.strides[d]))
            del strides[d], shape[d]
    part = View(v.base, lo.let(at, "o"), tuple(strides), tuple(shape), False, v.injective)
    return [Acc(part, acc.op), acc]


@handles(core.Whole)
def _whole(lo: Lowerer, stm: core.Stm, e: core.Whole, destinations: list[Destination]) -> Sequence[Value]:
    return [lo.value(e.rest)]


__all__ = ["Field", "Keep", "Release", "argument", "parameter"]
