"""Arrays that the iterations of a loop change by updates only, where an iteration keeps a record (`rules/records.py`).

What `update_log.py` saves in arrays of as many elements as there are iterations is here a list of records: each update
keeps what it overwrites, and the record of the update before.  So nothing needs to be known of how many there are, and
a branch that is not taken keeps nothing.  The return sweep goes through the list from its end, and reads each once.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.ad.emit import read_or_zero
from futad.ad.history.update_log import (
    LEGAL,
    Branch,
    Element,
    Finder,
    Iterations,
    Scattered,
    Undoer,
    Write,
    cell,
    counted,
)
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.type_rules import index_type
from futad.core.types import BOOL, I64, ONE, REC, ZERO, Atom, Type, Var, array_of


def _keep(b: Builder, link: Atom, *values: Atom) -> Var:
    return b.let(ir.Keep((link, *values)), "log")


def _kept(b: Builder, link: Atom, *values: Var) -> Var:
    """Read a record into the values; the record before it."""
    before = Var("log", REC)
    b.add(ir.Stm((before, *values), ir.Kept(link)))
    return before


def logging(stms: Sequence[ir.Stm], elements: Sequence[Element], link: Atom) -> tuple[list[ir.Stm], Atom]:
    """The statements with a list of records added that begins with `link`; its end."""
    LEGAL.fired()
    todo = {el.stm.pat[0]: el for el in elements}
    b = Builder()
    for s in stms:
        el = todo.get(s.pat[0]) if s.pat else None
        e = s.exp
        match el:
            case None:
                b.add(s)
            case Write():
                assert isinstance(e, ir.Update)
                old = b.let(ir.At(e.array, e.index, e.check), "old")
                link = _keep(b, link, *el.places, old)
                b.add(s)
            case Scattered():
                assert isinstance(e, ir.Scatter)
                x = e.dests[el.which]
                t = cell(x.type, len(e.idxs))
                old = b.map_(lambda c, *ix, x=x, t=t: [read_or_zero(c, x, ix, t)], *e.idxs, hint="old")[0]
                link = _keep(b, link, *el.places, old)
                b.add(s)
            case Branch():
                assert isinstance(e, ir.If)
                sides = []
                for lam, part in ((e.then, el.then), (e.orelse, el.orelse)):
                    body, end = logging(lam.stms, part, link)
                    sides.append(ir.Lambda((), tuple(body), (*lam.result, end)))
                link = Var("log", REC)
                b.add(ir.Stm((*s.pat, link), ir.If(e.cond, *sides), s.attrs))
                if el.cond:
                    link = _keep(b, link, e.cond)
            case Iterations():
                assert isinstance(e, ir.Loop)
                loop, count = (s, None) if isinstance(e, ir.For) else counted(s)
                e = loop.exp
                assert isinstance(e, ir.Loop)
                mine = Var("log", REC)
                body, end = logging(e.body.stms, el.body, mine)
                inner = ir.Lambda((*e.body.params, mine), tuple(body), (*e.body.result, end))
                after = Var("log", REC)
                b.add(ir.Stm((*loop.pat, after), e.remade((*e.inits, link), inner), s.attrs))
                link = after if count is None else _keep(b, after, count)
    return b.stms, link


def undone(
    b: Builder, finder: Finder, y: Var, elements: Sequence[Element], link: Atom, env: dict[Var, Atom]
) -> tuple[Var, Atom]:
    """Emit the code that takes back the updates of a list of records, given the array `y` after them; the array before
    them, and what the list began with.  `env`: loop indices of the forward code to those of the iteration."""
    for el in reversed(elements):
        e = el.stm.exp
        match el:
            case Write():
                assert isinstance(e, ir.Update)
                places = {a: Var(a.name, a.type) for a in el.places}
                known = {**env, **places}
                sizes = tuple([Range(ZERO, known.get(i.count, i.count), ONE) if isinstance(i, Range) else i
                               for i in e.index])  # fmt: skip
                old = Var("old", index_type(y.type, sizes))
                link = _kept(b, link, *places.values(), old)
                found = Undoer(finder, {}).recompute(b, (), known, {})
                index = tuple([
                    Range(*[found(x) for x in (i.start, i.count, i.stride)]) if isinstance(i, Range) else found(i)
                    for i in e.index
                ])  # fmt: skip
                y = b.let(ir.Update(y, index, old), y.name)
            case Scattered():
                assert isinstance(e, ir.Scatter)
                places = {a: Var(a.name, array_of(I64, e.width)) for a in el.places}
                old = Var("old", array_of(cell(y.type, len(e.idxs)), e.width))
                link = _kept(b, link, *places.values(), old)
                found = Undoer(finder, {}).recompute(b, (), {**env, **places}, {})
                (y,) = b.emit(ir.Scatter(e.width, (y,), tuple([found(a) for a in e.idxs]), (old,)), y.name)
            case Branch():
                assert isinstance(e, ir.If)
                if el.cond:
                    cond: Atom = Var("cond", BOOL)
                    assert isinstance(cond, Var)
                    link = _kept(b, link, cond)
                else:
                    cond = Undoer(finder, {}).recompute(b, (), env, {})(e.cond)
                sides = []
                for part in (el.then, el.orelse):
                    c = Builder()
                    result = undone(c, finder, y, part, link, env)
                    sides.append(ir.Lambda((), tuple(c.stms), result))
                y, link = b.emit(ir.If(cond, *sides), y.name, "log", types=[y.type, REC])
            case Iterations():
                assert isinstance(e, ir.Loop)
                if isinstance(e, ir.For):
                    count: Atom = e.bound
                else:
                    count = Var("iterations", I64)
                    assert isinstance(count, Var)
                    link = _kept(b, link, count)
                y, link = b.emit(_backwards(b, finder, y, el, e, count, link, env), y.name, "log")
    return y, link


def _backwards(
    b: Builder, finder: Finder, y: Var, el: Iterations, e: ir.Loop, count: Atom, link: Atom, env: dict[Var, Atom]
) -> ir.For:
    """An inner loop's iterations, last first."""

    def iteration(c: Builder, j: Var, z: Var, log: Var) -> list[Atom]:
        i = c.op("sub", c.op("sub", count, j), ONE)
        index = {e.body.params[0]: i} if isinstance(e, ir.For) else {}
        return [*undone(c, finder, z, el.body, log, {**env, **index})]

    params: list[tuple[str, Type]] = [("j", I64), (y.name, y.type), ("log", REC)]
    return ir.For(count, (y, link), b.lambda_(params, iteration))


__all__ = ["logging", "undone"]
