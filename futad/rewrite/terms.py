"""Terms of a sum as code: of any index, to see where they vanish, and at the places where they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from futad.core import ir
from futad.core.ir import Lambda
from futad.core.types import I64, ONE, TRUE, ZERO, Atom, Const, Var, i64, prim_of, zero
from futad.legality import Legality
from futad.rewrite.context import Context
from futad.rewrite.elements import Elements, Stuck
from futad.rewrite.zeros import Linear, Support, Zeros

LEGAL = Legality("one-hot-places", "of a sum of zeros but at few places these places are computed", fires=False)
FAILS_NOT = LEGAL.condition("terms fail not", "a failure of a term that is left out is not reported")
WITHIN = LEGAL.condition("place in range", "there is a term for a place that the sum does not have")
ONE_PLACE = LEGAL.condition("once each", "two places that are one are added twice")

Term = Callable[[Elements, Atom], Sequence[Atom]]


@dataclass(slots=True)
class Terms:
    """Values for each index of a sum, as code."""

    ctx: Context
    width: Atom
    code: Term  # of some index

    def sample(self) -> Sample:
        """The code of any index, and where its values vanish."""
        j = Var("j", I64)
        made = Elements(self.ctx)
        values = self.code(made, j)
        made.needed(values)
        zeros = Zeros({j}, self.ctx.exp)
        zeros.run(made.stms)
        return Sample(j, made, values, zeros)


@dataclass(slots=True)
class Sample:
    """The code of an index j."""

    j: Var
    made: Elements
    values: Sequence[Atom]
    zeros: Zeros

    def supports(self) -> list[Support]:
        """Where each value may differ from zero."""
        return [self.zeros.of(v) for v in self.values]

    def places(self, support: Support) -> list[Linear] | None:
        """The places where it may; None if these are not known, or the rest must not be left out."""
        if support is None or any(g.var is not self.j for g in support):
            return None
        if not FAILS_NOT(not self.made.may_fail()):
            return None
        return sorted((g.place for g in support), key=lambda p: (p.offset, sorted((v.id, c) for v, c in p.terms)))


def attempt(terms: Terms) -> Sample | None:
    """The sample, if there is one."""
    try:
        return terms.sample()
    except Stuck:
        return None


# -- code of places


def place_code(out: Elements, p: Linear) -> Atom:
    """The place as a number."""
    total: Atom | None = None
    for v, c in sorted(p.terms, key=lambda t: (t[1] < 0, t[0].id)):
        if total is None:
            total = out.op("mul", i64(c), v)
        elif c < 0:
            total = out.op("sub", total, out.op("mul", i64(-c), v))
        else:
            total = out.op("add", total, out.op("mul", i64(c), v))
    offset = i64((p.offset + (1 << 63)) % (1 << 64) - (1 << 63))
    if total is None:
        return offset
    if offset.value < 0 and offset.value != -(1 << 63):
        return out.op("sub", total, i64(-offset.value))
    return out.op("add", total, offset)


def at_place(out: Elements, terms: Terms, k: int, p: Linear, before: Sequence[Linear], otherwise: Atom) -> Atom:
    """Value k at a place, `otherwise` if there is none or it is one of those before."""
    place = place_code(out, p)
    here: Atom = TRUE
    if not WITHIN((isinstance(place, Const) or place in out.ctx.level) and out.ctx.ranges.in_range(place, terms.width)):
        here = out.op("and", out.op("le", ZERO, place), out.op("lt", place, terms.width))
    for q in before:
        if not ONE_PLACE(not p.plus(q, -1).terms):  # else they differ by a constant
            here = out.op("and", here, out.op("ne", place, place_code(out, q)))
    inner = Elements(out.ctx)
    value = terms.code(inner, place)[k]
    inner.needed([value])
    then = Lambda((), tuple(inner.stms), (value,))
    return out.let(ir.If(here, then, Lambda((), (), (otherwise,))), value.type, "hot")


def sum_code(out: Elements, terms: Terms, k: int, places: Sequence[Linear]) -> Atom:
    """The sum of value k at the places."""
    total: Atom | None = None
    for n, p in enumerate(places):
        t = prim_of(terms.code(Elements(out.ctx), ZERO)[k]) if total is None else prim_of(total)
        value = at_place(out, terms, k, p, places[:n], zero(t))
        total = value if total is None else out.op("add", total, value)
    assert total is not None
    return total


# -- which arrays may be hot


def seeded(ctx: Any, a: Atom) -> bool:
    """Whether the code of an array compares indices, or writes to a place of it: a quick look before others."""
    known: dict[Atom, bool] = ctx.seeds
    got = known.get(a)
    if got is None:
        known[a] = False
        found = ctx.maker(a)
        got = known[a] = found is not None and _seeds(ctx, found[0])
    return got


def _seeds(ctx: Any, e: ir.Exp) -> bool:
    if isinstance(e, ir.Map):
        return any(seeded(ctx, a) for a in e.arrays) or compares(ctx, e.lam)
    if isinstance(e, ir.Update):
        return any(type(i) is Var for i in e.index) or seeded(ctx, e.array)
    if isinstance(e, ir.Concat):
        return True
    if isinstance(e, ir.Scatter) and e.width is ONE:
        return True
    if isinstance(e, ir.Copy | ir.Rearrange | ir.Reshape | ir.At):
        return seeded(ctx, e.array)
    return isinstance(e, ir.Replicate) and seeded(ctx, e.value)


def compares(ctx: Any, lam: Lambda) -> bool:
    """Whether a scope compares integers, or reads what may be hot."""
    for s in ir.statements(lam.stms):
        e = s.exp
        if type(e) is ir.Op:
            if e.op in ("eq", "ne") and e.args[0].type is I64:
                return True
        elif type(e) is ir.At and seeded(ctx, e.array):
            return True
        elif type(e) is ir.Map:
            if any(seeded(ctx, a) for a in e.arrays):
                return True
        elif type(e) in (ir.Update, ir.Scatter, ir.Concat) and _seeds(ctx, e):
            return True
    return False


__all__ = [
    "FAILS_NOT", "ONE_PLACE", "Terms", "at_place", "attempt", "compares", "place_code", "seeded", "sum_code",
]  # fmt: skip
