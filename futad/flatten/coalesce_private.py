"""Arrays that each thread of a kernel has for itself, element by element side by side.

A thread's own array in one piece is far from its neighbour's, and what a warp's threads access together, element i of
each, is far apart.  So element i of all threads is put in one place, those of neighbouring threads side by side: the
array starts at the thread's number and its step is the number of threads, as the hardware lays out local memory.

Pointers come to such arrays by declarations, assignments and exchanges; those that may point to the same memory are one
group, and a group is rewritten only if all of it is arrays of this kind and everything is known that is done with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from futad.core.types import I64
from futad.core.union_find import UnionFind
from futad.flatten import kernel as kir
from futad.imp import ir
from futad.imp.ir import Expr, Ref, Stmt
from futad.imp.walk import rewritten, statements
from futad.legality import Legality

STEP = Ref("futad_threads", I64)
FIRST = Ref("futad_thread", I64)


SIDE_BY_SIDE = Legality("interleaved", "arrays of each thread's own lie element by element side by side")
KNOWN = SIDE_BY_SIDE.condition("uses known", "what else uses the array takes it to be in one piece")
ALL_OWN = SIDE_BY_SIDE.condition("all of them a thread's own", "a pointer may be to an array that lies in one piece")


def interleaved(body: list[Stmt], own: Mapping[str, str], name: Callable[[str], str]) -> set[str]:
    """Rewrite what a kernel does with its threads' own arrays, and return which of those that are declared, `own` with
    the memory they are to be of, are declared in it no more."""
    groups = UnionFind[str]()
    strange: set[str] = set()
    for s in statements(body):
        match s:
            case ir.Pointer(p, base=base) | ir.SetPointer(p, base):
                if base is not None:
                    groups.join(p, base)
            case ir.Swap(left, right) if s.elem is not None:
                groups.join(left, right)
            case ir.Store() | kir.Atomic() | ir.Copy() | ir.Ensure():
                pass
            case _:
                strange.update(s.names())
    made = {s.name for s in statements(body) if isinstance(s, (ir.Pointer, ir.Ensure))}
    others = {s.name for s in statements(body) if isinstance(s, (ir.Ensure, ir.Stack)) and s.name not in own}
    unknown = {groups.find(n) for n in strange}
    foreign = {groups.find(n) for n in {*others, *[n for n in (*groups.up, *groups.up.values()) if n not in made]}}
    good = {g for g in map(groups.find, own) if KNOWN(g not in unknown) and ALL_OWN(g not in foreign)}
    if not good:
        return set()
    SIDE_BY_SIDE.fired()

    def inside(pointer: str) -> bool:
        return groups.find(pointer) in good

    _rewrite(body, own, inside, name)
    return {n for n in own if inside(n)}


def _rewrite(
    body: list[Stmt], own: Mapping[str, str], inside: Callable[[str], bool], name: Callable[[str], str]
) -> None:
    def load(e: Expr) -> Expr:
        return ir.Load(e.pointer, place(e.pointer, e.index), e.type) if isinstance(e, ir.Load) else e

    def place(pointer: str, index: Expr) -> Expr:
        return ir.mul(index, STEP) if inside(pointer) else index

    def stmts(body: list[Stmt]) -> list[Stmt]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, ir.Ensure) and s.name in own and inside(s.name):
                out.append(ir.Pointer(s.name, s.elem, own[s.name], FIRST, s.mutable))
                continue
            s = s.map_exprs(lambda e: rewritten(e, load)).map_bodies(stmts)
            match s:
                case ir.Store(p, i) | kir.Atomic(p, i):
                    s.index = place(p, i)
                case ir.Pointer(base=base) | ir.SetPointer(base=base):
                    if base is not None:
                        s.offset = place(base, s.offset)
                case ir.Copy(to, start, source, source_start, count, elem) if inside(to) or inside(source):
                    i = Ref(name("i"), I64)
                    x = ir.Load(source, place(source, ir.add(source_start, i)), elem)
                    store = ir.Store(to, place(to, ir.add(start, i)), x)
                    out.append(ir.For(i.name, count, [store]))
                    continue
            out.append(s)
        return out

    body[:] = stmts(body)


__all__ = ["interleaved"]
