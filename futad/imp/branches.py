"""Lowering of branches.

Note [Branches in place]
~~~~~~~~~~~~~~~~~~~~~~~~
An array that an `If` returns is one of these, in this order:

* where both branches leave it: what both updated in place, or returned as it is, or made where it is wanted;
* if it is small: where one branch returns an array from outside, updated or not, the other one's value is written over
  that, when nobody reads it afterwards, nor another result lies there;
* if it is small: where it is wanted, or on the stack; the branches copy it there;
* behind a pointer that each branch sets.

Small arrays have no pointers, so that the C compiler can keep them in registers, and no branch moves what is in its
place already: an accumulator's update under a condition is a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.alias import flows
from futad.core.operator import divisor
from futad.core.scalarops import OPS
from futad.core.types import ArrayType, Atom, Prim, Var
from futad.imp import ir
from futad.imp.carried import named_strides, small_type
from futad.imp.dispatch import Destination, handles
from futad.imp.ir import Expr, Ref
from futad.imp.loops.facts import LANES_COST
from futad.imp.report import unreported
from futad.imp.views import NO_ROOTS, Acc, Hint, Mem, Root, SlotDestination, Value, View, as_scalar, dense_view
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

LEGAL = Legality("branches in place", "a branch's value is written over the array that the other branch returns")
APART = LEGAL.condition("no other result there", "another result would get the elements of this one")
WHOLE = LEGAL.condition("the value lies elsewhere", "a value that is read from there would be overwritten on the way")
DEAD = LEGAL.condition("ours, and not read later", "what reads the array, or is given it, would read the value")

SELECT_COST = 40  # branches of at most this cost, without effects, are computed both
_SCALARS = (core.Op, core.At, core.ArrayLit, core.Alias, core.If)


def _limit(lo: Lowerer) -> int:
    """The largest cost of a branch that is computed whether it is taken or not."""
    sc = lo.scopes[-1]
    straight = sc.repeats and all(isinstance(s.exp, _SCALARS) for s in sc.lam.stms)
    return LANES_COST if lo.target.jams and straight else SELECT_COST


def _cheap(lam: core.Lambda, limit: int) -> bool:
    cost = 0
    for stm in lam.stms:
        e = stm.exp
        if type(e) is not core.Op or divisor(e) is not None:
            return False
        cost += OPS[e.op].cost
    return cost <= limit and all(isinstance(a.type, Prim) for a in lam.result)


def _select(cond: Expr, a: Expr, b: Expr) -> Expr:
    return a if a == b else ir.Scalar("select", (cond, a, b), a.type, a.type)


@handles(core.If)
def _if(lo: Lowerer, stm: core.Stm, e: core.If, destinations: list[Destination]) -> Sequence[Value]:
    cond = lo.expr(e.cond)
    limit = _limit(lo)
    if _cheap(e.then, limit) and _cheap(e.orelse, limit):
        with unreported(lo.scopes[-1]):
            yes, no = lo.scope(e.then), lo.scope(e.orelse)
        return [
            lo.let(_select(cond, as_scalar(a), as_scalar(b)), v.name)
            for v, a, b in zip(stm.pat, yes, no, strict=True)
        ]
    names = [lo.name(v.name) for v in stm.pat]
    for v, name in zip(stm.pat, names, strict=True):
        if isinstance(v.type, Prim):
            lo.emit(ir.Decl(name, v.type, mutable=True))
    results = _Results(lo, stm, e, destinations)
    sides: list[tuple[list[ir.Stmt], list[Value]]] = []
    for lam in (e.then, e.orelse):
        with lo.block() as body:
            values = lo.scope(lam, results.wanted)
        sides.append((body, values))
    places = results.places(sides[0][1], sides[1][1])
    for v, name, place in zip(stm.pat, names, places, strict=True):
        if isinstance(v.type, ArrayType) and place is None:
            lo.emit(ir.Pointer(name, v.type.elem, mutable=True))
    for body, values in sides:
        with _into(lo, body):
            for name, value in zip(names, values, strict=True):
                if isinstance(value, Expr):
                    lo.emit(ir.Assign(name, value))
            for i, (name, value, place) in enumerate(zip(names, values, places, strict=True)):
                if not isinstance(value, View):
                    continue
                if place is not None:
                    lo.copy(place, value)
                    continue
                if not value.dense or not isinstance(value.base, Mem) or any(r.stack for r in value.roots):
                    values[i] = value = lo.materialise(value, heap=True)
                assert isinstance(value.base, Mem)
                lo.emit(ir.SetPointer(name, value.base.pointer, value.offset))
    lo.emit(ir.If(cond, sides[0][0], sides[1][0]))
    out: list[Value] = []
    for var, name, place, a, b in zip(stm.pat, names, places, sides[0][1], sides[1][1], strict=True):
        if isinstance(var.type, Prim):
            ref = Ref(name, var.type)
            lo.env[var] = ref
            out.append(ref)
        elif isinstance(a, Acc):
            out.append(a)
        elif place is not None:
            out.append(place)
        else:
            assert isinstance(a, View) and isinstance(b, View)
            base = Mem(name, a.elem, a.roots | b.roots)
            out.append(named_strides(lo, dense_view(base, lo.shape(var.type))))
    return out


@contextmanager
def _into(lo: Lowerer, body: list[ir.Stmt]) -> Iterator[None]:
    """Go on with a branch."""
    saved, lo.out = lo.out, body
    try:
        yield
    finally:
        lo.out = saved


class _Results:
    """Where the arrays that an `If` returns lie: see Note [Branches in place]."""

    def __init__(self, lo: Lowerer, stm: core.Stm, e: core.If, destinations: Sequence[Destination]) -> None:
        self.lo, self.pat = lo, stm.pat
        self.wanted = list(destinations)  # where the branches should put their results
        self.small = [isinstance(v.type, ArrayType) and small_type(lo, v.type, stm.pat) for v in stm.pat]
        self.outer: list[list[View]] = [[] for _ in stm.pat]  # arrays from outside that a branch may return
        arrays = any(isinstance(v.type, ArrayType) for v in stm.pat)
        sources = [_sources(lam) for lam in (e.then, e.orelse)] if arrays else []
        for i, v in enumerate(stm.pat):
            if not isinstance(v.type, ArrayType) or not self.small[i]:
                continue
            for lam, flow in zip((e.then, e.orelse), sources, strict=True):
                self.outer[i] += [x for a in _outside(lam.result[i], flow) if isinstance(x := lo.env[a], View)]
            if self.wanted[i] is None:
                place = lo.alloc(v.type.elem, lo.shape(v.type), None, v.name)
                self.wanted[i] = Hint(place) if self.outer[i] else place

    def places(self, then: Sequence[Value], orelse: Sequence[Value]) -> list[View | None]:
        """The memory of each array, if it is not behind a pointer; None for other values.

        `then`, `orelse`: what the branches return."""
        pairs = [(a, b) if isinstance(a, View) and isinstance(b, View) else None
                 for a, b in zip(then, orelse, strict=True)]  # fmt: skip
        there = [NO_ROOTS if pair is None else pair[0].roots | pair[1].roots for pair in pairs]
        out: list[View | None] = []
        for i, pair in enumerate(pairs):
            others = NO_ROOTS.union(*[r for j, r in enumerate(there) if j != i])
            place = None if pair is None else self._place(i, *pair, others)
            out.append(place)
            there[i] |= NO_ROOTS if place is None else place.roots
        return out

    def _place(self, i: int, a: View, b: View, others: frozenset[Root]) -> View | None:
        wanted = self.wanted[i]
        if isinstance(wanted, View):
            return wanted
        if a.same_place(b) and a.shape == b.shape:
            return a
        if not self.small[i] or isinstance(wanted, SlotDestination):
            return None
        now = wanted.now if isinstance(wanted, Hint) else None
        # Rather the loop's variable than what may take its place.
        for v in sorted(self.outer[i], key=lambda v: now is None or not v.same_place(now)):
            if v.shape == a.shape and self._replaced(v, a, b, others):
                LEGAL.fired()
                return v
        assert isinstance(wanted, Hint)
        # What the wanted place holds may be needed: a value that was updated there before, or a part of it.
        free = not wanted.view.roots & others and all(
            x.same_place(wanted.view) or not x.roots & wanted.view.roots for x in (a, b)
        )
        if free and not self.lo.roots_live(wanted.view.roots):
            return wanted.view
        return self.lo.alloc(a.elem, a.shape, None, self.pat[i].name)

    def _replaced(self, v: View, a: View, b: View, others: frozenset[Root]) -> bool:
        """Whether one branch returns the array `v`, and the other one may write its value over that."""
        if a.same_place(v):
            value = b
        elif b.same_place(v):
            value = a
        else:
            return False
        if not APART(not v.roots & others) or not WHOLE(not v.roots & value.roots):
            return False
        return DEAD(self.lo.can_overwrite(v))


def _sources(lam: core.Lambda) -> dict[Atom, list[Atom]]:
    """The variables bound in a branch, each with the atoms in whose memory it may lie."""
    out: dict[Atom, list[Atom]] = {}
    for s in core.statements(lam.stms):
        for inner in s.exp.lambdas():
            out.update((p, []) for p in inner.params if p not in out)
        out.update((v, []) for v in s.pat if v not in out)
        for v, a in flows(s):
            out.setdefault(v, []).append(a)
    return out


def _outside(result: Atom, sources: dict[Atom, list[Atom]]) -> list[Var]:
    """The variables from outside of a branch in whose memory its result may lie."""
    out: list[Var] = []
    seen: set[Atom] = set()
    work = [result]
    while work:
        a = work.pop()
        if a in seen:
            continue
        seen.add(a)
        if a in sources:
            work += sources[a]
        elif isinstance(a, Var):
            out.append(a)
    return out
