"""Stable sorts by integer key: a radix sort of the keys' places, lowest digit first.  On C few keys, fewer than counts
of digits, are inserted one by one instead, as rows of a small array are (the best of eight experts for each word).

A pass counts the keys of each digit, makes the counts the places where each digit's elements begin, and moves the
elements there in order.  On several threads each counts and moves a part, and has counts of its own; of the elements
of a digit those of an earlier part go first (Zagha and Blelloch, "Radix sort for vector multiprocessors", 1991).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import BOOL, I32, I64
from futad.imp import ir
from futad.imp.dispatch import Destination, handles
from futad.imp.ir import ONE, ZERO, Expr, Ref, add, compare, mul, num, sub
from futad.imp.parallel import heavy
from futad.imp.thread_pool import ThreadPool
from futad.imp.views import Mem, Sequence_, Value, View, dense_view

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

WORK = 8  # scalar operations an element


def scalar(op: str, *args: Expr) -> Expr:
    """An operation on i64."""
    return ir.Scalar(op, args, I64, I64)


def digits(lo: Lowerer, bound: Expr, size: int) -> Expr:
    """How many digits of `size` bits tell the numbers below `bound` apart."""
    zeros = ir.Scalar("to_i64", (ir.Scalar("clz", (scalar("max", sub(bound, ONE), ZERO),), I64, I32),), I32, I64)
    return lo.let(ir.Bin("/", sub(num(63 + size), zeros), num(size)), "digits")


@handles(core.ArgSort)
def argsort(lo: Lowerer, stm: core.Stm, e: core.ArgSort, destinations: list[Destination]) -> Sequence[Value]:
    keys = lo.view(e.keys)
    (n,) = keys.shape
    pool = None
    work = mul(n, num(WORK))
    if lo.shares and heavy(lo, n, work):
        pool = ThreadPool(lo, n, work, num(1 << lo.target.digit_bits))
    many: Expr = pool.count if pool is not None else ONE
    out, room, counts = [lo.alloc(I64, (size,)) for size in (n, n, mul(num(1 << lo.target.digit_bits), many))]
    bound = lo.let(lo.expr(e.bound), "bound")
    if pool is not None:
        emit_sort(lo, keys, bound, (out, room, counts), pool)
        return [out]
    few = compare("<=", mul(n, n), mul(num(2), cells_of(lo, bound)))
    with lo.block() as inserted:
        emit_insertions(lo, keys, out)
    with lo.block() as by_digit:
        emit_sort(lo, keys, bound, (out, room, counts))
    lo.emit(ir.If(few, inserted, by_digit))
    return [out]


def cells_of(lo: Lowerer, bound: Expr) -> Expr:
    """How many counts a pass has."""
    return lo.let(scalar("max", scalar("min", bound, num(1 << lo.target.digit_bits)), ONE), "cells")


def emit_insertions(lo: Lowerer, keys: View, out: View) -> None:
    """The places of few keys in order, by straight insertion (Knuth, The Art of Computer Programming, volume 3, section
    5.2.1)."""
    (n,) = keys.shape
    with lo.loop(n, "i") as (i, _):
        key = lo.let(keys.load((i,)), "key")
        at, goes = lo.name("at"), lo.name("goes")
        lo.emit(ir.Decl(at, I64, i, mutable=True))
        lo.emit(ir.Decl(goes, BOOL, compare("<", ZERO, i), mutable=True))
        here = Ref(at, I64)
        with lo.block() as body:
            before = lo.let(out.load((sub(here, ONE),)), "before")
            with lo.block() as moved:
                lo.store(out, (here,), before)
                lo.emit(ir.Assign(at, sub(here, ONE)))
                lo.emit(ir.Assign(goes, compare("<", ZERO, here)))
            with lo.block() as found:
                lo.emit(ir.Assign(goes, ir.Num(False, BOOL)))
            lo.emit(ir.If(compare("<", key, keys.load((before,))), moved, found))
        lo.emit(ir.While(Ref(goes, BOOL), body))
        lo.store(out, (here,), i)


def emit_sort(
    lo: Lowerer, keys: View, bound: Expr, memory: tuple[View, View, View], pool: ThreadPool | None = None
) -> None:
    """The places of the keys in order to the first piece of `memory`; the second is of that size, the third has room
    for the counts of each thread."""
    out, room, counts = memory
    (n,) = keys.shape
    bound = lo.let(bound, "bound")
    passes = digits(lo, bound, lo.target.digit_bits)
    cells = cells_of(lo, bound)
    source, target = [pointer(lo, v) for v in (room, out)]
    # The last pass ends in `out`.
    with lo.block() as even:
        lo.emit(ir.Swap(source.pointer, target.pointer, I64))
    lo.emit(ir.If(compare("==", ir.Bin("%", passes, num(2)), ZERO), even, []))
    lo.copy(dense_view(source, (n,)), dense_view(Sequence_(I64, ZERO, ONE), (n,)))
    many: Expr = pool.count if pool is not None else ONE

    def parts(body: Callable[[Expr, Expr, Expr], None]) -> None:
        if pool is None:
            body(ZERO, ZERO, n)
            return
        names = pool.names()
        lo.in_parallel = True
        with lo.block() as text:
            body(*names)
        lo.in_parallel = False
        lo.emit(pool.run(text, names, dynamic=False))

    with lo.loop(passes, "digit") as (k, _):
        shift = lo.let(mul(k, num(lo.target.digit_bits)), "shift")

        def digit(key: Expr) -> Expr:
            return lo.let(scalar("and", scalar("shr", key, shift), num((1 << lo.target.digit_bits) - 1)), "digit")

        def ordered() -> list[View]:
            # Constants of the scope: the C compiler keeps them in registers.
            return [dense_view(pointer(lo, dense_view(m, (n,)), False), (n,)) for m in (source, target)]

        def count(thread: Expr, start: Expr, end: Expr) -> None:
            mine = lo.let(mul(thread, cells), "mine")
            with lo.loop(cells, "d") as (d, _):
                lo.store(counts, (add(mine, d),), ZERO)
            # All elements together have the same digits in any order; a part of them has not.
            here = ordered()[0] if pool is not None else None
            with lo.loop(n, "i", start, end) as (i, _):
                at = i if here is None else lo.let(here.load((i,)), "at")
                place = lo.let(add(mine, digit(keys.load((at,)))), "place")
                lo.store(counts, (place,), add(counts.load((place,)), ONE))

        def move(thread: Expr, start: Expr, end: Expr) -> None:
            mine = lo.let(mul(thread, cells), "mine")
            here, there = ordered()
            with lo.loop(n, "i", start, end) as (i, _):
                at = lo.let(here.load((i,)), "at")
                place = lo.let(add(mine, digit(keys.load((at,)))), "place")
                to = lo.let(counts.load((place,)), "to")
                lo.store(counts, (place,), add(to, ONE))
                lo.store(there, (to,), at)

        parts(count)
        begin = lo.name("begin")
        lo.emit(ir.Decl(begin, I64, ZERO, mutable=True))
        with lo.loop(cells, "d") as (d, _), lo.loop(many, "t") as (t, _):
            place = lo.let(add(mul(t, cells), d), "place")
            here = lo.let(counts.load((place,)), "count")
            lo.store(counts, (place,), Ref(begin, I64))
            lo.emit(ir.Assign(begin, add(Ref(begin, I64), here)))
        parts(move)
        lo.emit(ir.Swap(source.pointer, target.pointer, I64))


def pointer(lo: Lowerer, v: View, mutable: bool = True) -> Mem:
    """A pointer to where an array lies."""
    assert isinstance(v.base, Mem)
    name = lo.name("p")
    lo.emit(ir.Pointer(name, v.elem, v.base.pointer, v.offset, mutable))
    return Mem(name, v.elem, v.base.roots, v.base.origin)
