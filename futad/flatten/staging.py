"""Rows that threads make one each, written by all threads of a warp together.

A thread that writes a row of its own, element by element, is far from its neighbours with each of its writes.  Where
the result's layout cannot be another (`layouts.py`), being that of an entry's result, say, a warp's threads compute
their rows first, and then write all of them through shared memory, some columns at a time, so that neighbouring threads
write neighbouring elements (`kir.RowsOut`).

That is done in kernels of which each thread makes whole rows of constant length, by writes that no condition is around
but the checks of the point.
"""

from __future__ import annotations

from collections.abc import Callable

from futad.flatten import kernel as kir
from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref
from futad.imp.loops.facts import LoopFacts
from futad.imp.walk import loads_in, statements
from futad.legality import Legality

LEAST, MOST = 3, 64  # elements of a row, and of all rows of a thread: they are kept until all are computed
SMALLEST = 4  # bytes of an element


ROWS_OUT = Legality("rows-by-warps", "rows that threads make one each are written by warps together")
WHOLE = ROWS_OUT.condition("whole rows", "elements that a thread leaves as they are would be overwritten")
ALONE = ROWS_OUT.condition("not used before", "a thread reads, or writes anew, what is written only after all of them")


def staged(body: list[ir.Stmt], name: Callable[[str], str]) -> bool:
    """Rewrite the kernel if there are such writes; whether there are."""
    strides = [s for s in body if isinstance(s, kir.Stride)]
    if len(strides) != 1 or strides[0].start != "futad_thread" or len(strides[0].body) != 1:
        return False
    (stride,) = strides
    inside = stride.body[0]
    if not isinstance(inside, kir.Guarded):
        return False
    facts = LoopFacts(stride.var, inside.body, [n for s in statements(body) for n in s.defines()])
    writes = {id(s): _stores(s) for s in inside.body}
    groups: dict[tuple[str, int, Expr], dict[int, ir.Store]] = {}
    mine: set[int] = set()  # statements that write arrays in ways that are known
    for s in inside.body:
        for w in writes[id(s)]:
            at = facts.place(w.index)
            if at is not None:
                mine.add(id(s))
            if at is not None and at.scale > 1:
                groups.setdefault((w.pointer, at.scale, at.invariant), {})[at.constant] = w
    others = _elsewhere(inside.body, mine)
    first: list[ir.Stmt] = []
    kept: dict[int, str] = {}
    for (pointer, row, rest), stores in sorted(groups.items(), key=lambda g: len(g[1])):
        low = min(stores)
        if not LEAST <= row or len(first) + row > MOST:
            continue
        if not WHOLE(sorted(stores) == list(range(low, low + row)) and low % row == 0):
            continue
        if not ALONE(pointer not in others and sum(g[0] == pointer for g in groups) == 1):
            continue
        ROWS_OUT.fired()
        values: list[Ref] = []
        for k in range(low, low + row):
            t = stores[k].value.type
            x = Ref(name("x"), t)
            values.append(x)
            first.append(ir.Decl(x.name, t, Num(False if t.is_bool else 0.0 if t.is_float else 0, t), mutable=True))
            kept[id(stores[k])] = x.name
        stride.after.append(kir.RowsOut(pointer, ir.add(rest, ir.num(low)), values))
    out: list[ir.Stmt] = []
    for s in inside.body:
        taken = [ir.Assign(kept[id(w)], w.value) for w in writes[id(s)] if id(w) in kept]
        out += taken or [s]
    inside.body[:] = out
    stride.body[:0] = first
    return bool(kept)


def _stores(s: ir.Stmt) -> list[ir.Store]:
    """The writes of single elements that a statement is: one, or a copy of a few."""
    if isinstance(s, ir.Store) and s.op is None:
        return [s] if s.value.type.bytes >= SMALLEST else []
    if not isinstance(s, ir.Copy) or not isinstance(s.count, Num) or s.count.value > MOST or s.elem.bytes < SMALLEST:
        return []
    return [
        ir.Store(s.target, ir.add(s.offset, k), ir.Load(s.source, ir.add(s.source_offset, k), s.elem))
        for k in map(ir.num, range(s.count.value))
    ]


def _elsewhere(body: list[ir.Stmt], mine: set[int]) -> set[str]:
    """The arrays that are used by anything but these statements' own writes."""
    out: set[str] = set()
    for s in statements(body):
        out.update(x.pointer for x in loads_in(s))
        if isinstance(s, ir.Copy):
            out.add(s.source)
        if id(s) not in mine and not s.bodies():
            out.update(s.names())
    return out


__all__ = ["staged"]
