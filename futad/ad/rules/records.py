"""Calls whose return sweeps read records, branches and maps around them (see `ad/kept.py`).  Loops: `record_loops.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.ad.emit import reexecution
from futad.ad.kept import APART, NO_RECORD, PARTS, calls, finished, mark
from futad.ad.registry import Flags, current
from futad.ad.rules.branch import merge_branches
from futad.ad.rules.map_adjoint import MapSweep
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import (
    ONE,
    REC,
    ZERO,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Var,
    array_of,
    shape_of,
    subst_type,
)

if TYPE_CHECKING:
    from futad.ad.reverse import Scope


def call_with_record(
    s: Scope, stm: ir.Stm, emitted: ir.Stm, params: Flags, adjoints: Sequence[Atom | None]
) -> bool:
    """The return sweep of a call, if there is to be a record of it."""
    e = stm.exp
    if not s.ctx.how.keeps or not isinstance(e, ir.Call) or not isinstance(emitted.exp, ir.Call):
        return False
    sweeps = current().sweeps(e.name, params, tuple([y is not None for y in adjoints]))
    if sweeps is None:
        return False
    record = Var("record", REC)
    s.replace(emitted, [ir.Stm((*emitted.pat, record), ir.Call(sweeps.forward.name, e.args), emitted.attrs)])
    given: list[Atom] = [*e.args, *[stm.pat[k] for k in sweeps.sizes], record]
    given += [s.coerce(y, v.type) for v, y in zip(stm.pat, adjoints, strict=True) if y is not None]
    active = [a for a, f in zip(e.args, params, strict=True) if f]
    arrays = [a for a in active if isinstance(a, Var) and isinstance(a.type, ArrayType)]
    places = [Place(s, a) for a in arrays]
    taken: set[Var] = set()
    for p in places:
        if not APART(p.base not in taken):
            p.alone()
        taken.add(p.base)
    opened = [p for p in places if p.acc is None]

    def emit(into: Builder, accs: Sequence[Atom]) -> list[Atom]:
        for p, acc in zip(opened, accs, strict=True):
            p.acc = acc
        args = [*given, *[p.enter(into) for p in places]]
        mapping: dict[Var, Atom] = dict(zip(sweeps.back.body.params, args, strict=True))
        types = [subst_type(v.type, mapping) for v in sweeps.back.ret]
        out = into.emit(ir.Call(sweeps.back.name, tuple(args)), *[v.name for v in sweeps.back.ret], types=types)
        ends = [p.leave(into, acc) for p, acc in zip(places, out, strict=False)]
        first = [end for p, end in zip(places, ends, strict=True) if p in opened]
        return [*first, *[end for p, end in zip(places, ends, strict=True) if p not in opened], *out[len(places) :]]

    if arrays:
        PARTS.fired()
    if opened:
        out = list(s.scatter_add([(p.base, p.start(s)) for p in opened], emit))
    else:
        out = emit(s.b, ())
    ends = zip([*opened, *[p for p in places if p not in opened]], out, strict=False)
    for p, bar in sorted(ends, key=lambda x: x[0].own):  # what is added then goes to what the call has left
        p.finish(s, bar)
    for a, bar in zip([a for a in active if isinstance(a.type, Prim)], out[len(places) :], strict=True):
        s.add(a, bar)
    return True


class Place:
    """Where the adjoint of an array goes that a function is given: to a part of an accumulator, that of `base`."""

    def __init__(self, s: Scope, array: Var) -> None:
        self.array, self.base = array, array
        self.within: list[ir.Index] = []  # from the base
        self.acc: Atom | None = None
        self.rests: list[Atom] = []
        self.own = False
        while True:
            view = s.view_of(self.base)
            if view is None and not s.in_acc(self.base):
                view = s.ctx.slices.get(self.base)
                if view is not None and not s.is_active(view[0]):
                    view = None
            if view is None:
                break
            self.base = view[0]
            if view[1]:
                self.within.insert(0, view[1])
        if s.in_acc(self.base):
            self.acc = s.grab(self.base)

    def alone(self) -> None:
        """Begin with zeros, to be added afterwards."""
        self.base, self.within, self.acc, self.own = self.array, [], None, True

    def start(self, s: Scope) -> Atom:
        now = None if self.own else s.grab(self.base)
        return s.b.zeros(self.base.type, f"{self.base.name}_bar") if now is None else now

    def enter(self, b: Builder) -> Atom:
        """The part that the call is given."""
        acc = self.acc
        assert acc is not None
        for index in self.within:
            acc, rest = b.emit(ir.Part(acc, index), "part", "rest")
            self.rests.append(rest)
        return self.typed(b, acc)

    def typed(self, b: Builder, acc: Atom) -> Atom:
        """Of the array's type, whose sizes may have other names."""
        assert isinstance(acc.type, AccType) and isinstance(self.array.type, ArrayType)
        if acc.type.shape == self.array.type.shape:
            return acc
        index = tuple([Range(ZERO, n, ONE) for n in self.array.type.shape])
        part, rest = b.emit(ir.Part(acc, index), "part", "rest")
        self.rests.append(rest)
        return part

    def leave(self, b: Builder, acc: Atom) -> Atom:
        """What the accumulator has become."""
        for rest in reversed(self.rests):
            acc = b.let(ir.Whole(acc, rest), "acc")
        return acc

    def finish(self, s: Scope, end: Atom) -> None:
        if self.own:
            s.add(self.array, end)
        else:
            s.adj[self.base] = end


def branch_with_records(s: Scope, stm: ir.Stm, emitted: ir.Stm, seeds: Sequence[Atom | None]) -> bool:
    """A branch in which functions are called: the forward sweep keeps what they gave.  False where it does not."""
    e = stm.exp
    assert isinstance(e, ir.If)
    if not s.ctx.how.keeps or emitted.exp is not e or not calls(e) or any(isinstance(v.type, AccType) for v in stm.pat):
        return False
    sides: list[Scope] = []
    bodies: list[ir.Lambda] = []
    cuts = []
    for lam in (e.then, e.orelse):
        inner = s.child("branch")
        called = lam.has(ir.Call)
        own = ir.rename(lam) if called else reexecution(lam)
        swept = inner.forward(own.stms)
        end = mark(inner) if called else None
        for r, y in zip(own.result, seeds, strict=True):
            if y is not None:
                inner.add(r, inner.coerce(y, r.type))
        inner.back(swept)
        sides.append(inner)
        found = None if end is None else finished(inner, end, own.result, ir.Renamer())
        cuts.append(found)
        if found is None:
            bodies.append(ir.Lambda((), lam.stms, (*lam.result, NO_RECORD)))
        else:
            bodies.append(ir.Lambda((), tuple(found.forward), (*found.results, found.record)))
    record = Var("record", REC)
    s.replace(emitted, [ir.Stm((*emitted.pat, record), ir.If(e.cond, *bodies), emitted.attrs)])
    for inner, found in zip(sides, cuts, strict=True):
        if found is not None:
            inner.b.stms[:0] = found.restored(record)
    merge_branches(s, e.cond, sides)
    return True


SMALL = 64  # elements of an array that is kept or added up as a whole


def small(a: Atom) -> bool:
    """Whether that is at most SMALL elements, and known."""
    shape = shape_of(a.type)
    return not isinstance(a.type, AccType) and all(isinstance(n, Const) for n in shape) and (
        math.prod([n.value for n in shape if isinstance(n, Const)]) <= SMALL
    )


def map_with_records(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> bool:
    """Whether the forward sweep of a map is to keep what functions gave that are called in it."""
    e = stm.exp
    accs = any(isinstance(v.type, AccType) for v in stm.pat)
    return s.ctx.how.keeps and emitted.exp is e and calls(e) and not accs and any(x is emitted for x in s.b.stms)


def keep_in_map(m: MapSweep, lam: ir.Lambda, end: Var, emitted: ir.Stm) -> None:
    """The forward sweep of a map whose body has been swept returns a record for each element."""
    e = emitted.exp
    assert isinstance(e, ir.Map)
    names = ir.Renamer()
    params = tuple([names.bind(p) for p in lam.params])
    found = finished(m.inner, end, lam.result, names)
    records = Var("records", array_of(REC, e.width))
    body = ir.Lambda(params, tuple(found.forward), (*found.results, found.record))
    m.s.replace(emitted, [ir.Stm((*emitted.pat, records), ir.Map(e.width, e.arrays, body), emitted.attrs)])
    m.inner.b.stms[:0] = found.restored(m.bind(records, Var("record", REC)))


__all__ = [
    "Place", "branch_with_records", "call_with_record", "keep_in_map", "map_with_records", "small",
]  # fmt: skip
