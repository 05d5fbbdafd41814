"""Rules on accumulators, which only differentiation makes."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.alias import consumed_roots
from futad.core.ir import Lambda, Stm
from futad.core.types import BOOL, FALSE, ZERO, AccType, ArrayType, Atom, Const, Prim, Var, row_type, shape_of
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.elements import Elements
from futad.rewrite.ranges import is_index
from futad.rewrite.rules.control import aliases_of
from futad.rewrite.rules.soacs import inside
from futad.rewrite.strategy import Result, rule
from futad.rewrite.terms import place_code
from futad.rewrite.zeros import Zeros

LEGAL = Legality(
    "accumulator-rules", "what updates no accumulator leaves its scope; iterations that add zero are none", fires=False
)
IDLE = LEGAL.condition("accumulator idle", "updates are lost")
OUTSIDE = LEGAL.condition("result from outside", "what the scope binds is not known outside")
INDEPENDENT = LEGAL.condition("no accumulator needed", "outside of the scope there is no accumulator")
UNREAD = LEGAL.condition("nothing overwritten that stays", "what stays would read what was overwritten before it")
ELSEWHERE = LEGAL.condition("zeros elsewhere", "what a row has at other places is not added")
ADDED = LEGAL.condition("added to what is there", "a place of a row that is overwritten gets what was there, too")

SHORT = 32  # elements of a row of constant size that is added as a whole, in vector lanes


@rule(ir.UpdateAcc, changes=("zeros",))
def acc_zero(stm: Stm, ctx: Context) -> Result:
    """`acc[i] += 0` -> `acc`; `acc[..] += replicate n 0` -> `acc`."""
    e: Any = stm.exp
    v: Atom = e.value
    while type(d := ctx.exp(v)) is ir.Replicate:
        v = d.value
    return [Stm(stm.pat, ir.Alias(e.acc))] if is_const(v, 0) or v is FALSE else None


@rule(ir.UpdateAcc, changes=("zeros",))
def acc_places(stm: Stm, ctx: Context) -> Result:
    """`acc[i] += (replicate n 0 with [j] = x with [k] += y)` -> `acc[i, j] += x; acc[i, k] += y`.

    The adjoint of an index into a row, where the row's adjoint is added to that of an array outside: O(1), not O(n).
    """
    e: Any = stm.exp
    if type(e.value.type) is not ArrayType:
        return None
    size = 1
    for n in shape_of(e.value.type):
        size *= n.value if type(n) is Const else SHORT + 1
    if size <= SHORT:
        return None
    places: list[tuple[tuple[Atom, ...], Atom]] = []
    row: Atom = e.value
    while type(u := ctx.exp(row)) is ir.Update:
        if u.check is not None or type(u.value.type) is not Prim:
            return None
        index = tuple([i for i in u.index if type(i) is not ir.Range])  # all of them, as the value is a scalar
        term = u.value if _zeros(u.array, ctx) else _term(u, ctx)
        if not ADDED(term is not None):
            return None
        places.append((index, u.value if term is None else term))
        row = u.array
    if not places or not ELSEWHERE(_zeros(row, ctx)):
        return None
    out: list[Stm] = []
    acc = e.acc
    for k, (index, x) in reversed(list(enumerate(places))):
        v = Var("acc", stm.pat[0].type) if k else stm.pat[0]
        out.append(Stm((v,), ir.UpdateAcc(acc, (*e.index, *index), x), stm.attrs))
        acc = v
    return out


def _zeros(a: Atom, ctx: Context) -> bool:
    """Whether an array is made as zeros."""
    d = ctx.exp(a)
    if type(d) is not ir.Replicate:
        return False
    while type(d) is ir.Replicate:
        a = d.value
        d = ctx.exp(a)
    return is_const(a, 0) or a is FALSE


def _term(u: ir.Update, ctx: Context) -> Atom | None:
    """What an update adds to the element that is there; None if it does not."""
    s = ctx.exp(u.value)
    if type(s) is not ir.Op or s.op != "add":
        return None
    for old, term in (s.args, s.args[::-1]):
        at = ctx.exp(old)
        if type(at) is ir.At and at.array is u.array and at.index == u.index:
            return term
    return None


@rule(ir.WithAcc)
def with_acc_unused(stm: Stm, ctx: Context) -> Result:
    """An accumulator that is opened and closed without an update -> its array."""
    e: Any = stm.exp
    k = len(e.arrays)
    idle = [j for j in range(k) if IDLE(e.lam.result[j] is e.lam.params[j])]
    if not idle:
        return None
    keep = [j for j in range(k) if j not in idle]
    out = aliases_of(tuple([stm.pat[j] for j in idle]), tuple([e.arrays[j] for j in idle]))
    if not keep:
        return [*out, *e.lam.stms, *aliases_of(stm.pat[k:], e.lam.result[k:])]
    lam = Lambda(
        tuple([e.lam.params[j] for j in keep]),
        e.lam.stms,
        tuple([e.lam.result[j] for j in keep]) + e.lam.result[k:],
    )
    pat = tuple([stm.pat[j] for j in keep]) + stm.pat[k:]
    return [*out, Stm(pat, ir.WithAcc(tuple([e.arrays[j] for j in keep]), e.op, lam), stm.attrs)]


@rule(ir.WithAcc)
def with_acc_extras(stm: Stm, ctx: Context) -> Result:
    """A result of the scope that is bound outside it leaves it."""
    e: Any = stm.exp
    n = len(e.arrays)
    free = [k for k in range(n, len(stm.pat)) if OUTSIDE(not inside(ctx, e.lam.result[k]))]
    free = [k for k in free if type(stm.pat[k].type) is not AccType]
    if not free:
        return None
    keep = [k for k in range(len(stm.pat)) if k not in free]
    out = aliases_of(tuple([stm.pat[k] for k in free]), tuple([e.lam.result[k] for k in free]))
    lam = Lambda(e.lam.params, e.lam.stms, tuple([e.lam.result[k] for k in keep]))
    return [*out, Stm(tuple([stm.pat[k] for k in keep]), ir.WithAcc(e.arrays, e.op, lam), stm.attrs)]


@rule(ir.WithAcc)
def with_acc_outside(stm: Stm, ctx: Context) -> Result:
    """`withAcc xs (\\acc -> let y = f z in g acc y)` -> `let y = f z in withAcc xs (\\acc -> g acc y)`.

    The scope runs once, so what does not use its accumulators needs not be in it.  Nor does it read what statements
    before it overwrote; but it may overwrite what they read.
    """
    e: Any = stm.exp
    lam = e.lam
    bound: set[Var] = set(lam.params)
    read: set[Var] = set()
    out: list[Stm] = []
    stay: list[Stm] = []
    root, mutable = ctx.aliases.root, ctx.aliases.mutable
    for s in lam.stms:
        free = ir.stm_free(s)
        independent = INDEPENDENT(not any(v in bound for v in free))
        if independent and UNREAD(read.isdisjoint(consumed_roots(s.exp, ctx.aliases))):
            out.append(s)
        else:
            bound.update(s.pat)
            read.update(root(v) for v in free if mutable(v))
            stay.append(s)
    if not out:
        return None
    return [*out, Stm(stm.pat, ir.WithAcc(e.arrays, e.op, Lambda(lam.params, tuple(stay), lam.result)), stm.attrs)]


@rule(ir.Map, changes=("nan", "failures"))
def one_hot(stm: Stm, ctx: Context) -> Result:
    """`map (\\i x -> acc += x * (if i == k then v else 0))` over `iota n` and xs -> the iteration k alone, if 0 <= k <
    n.

    The adjoint of min, max and indexing is zero but in one place.  The iterations dropped add products with that exact
    zero; they could differ from zero only by making NaN of an infinite factor, which no derivative means.
    """
    e: Any = stm.exp
    lam = e.lam
    if not lam.result or any(type(r.type) is not AccType for r in lam.result):
        return None
    indices = {p for a, p in zip(e.arrays, lam.params, strict=True) if is_index(ctx.exp(a))}
    if not indices:
        return None
    if not any(type(s.exp) is ir.Op and s.exp.op == "eq" for s in lam.stms):
        return None
    own = {v for s in lam.stms for v in s.pat}
    zeros = Zeros({*lam.params, *own}, ctx.exp, derived=True)
    zeros.run(lam.stms)
    if not zeros.added or len(zeros.added) != 1:
        return None
    (guard,) = zeros.added
    if guard.var not in indices:
        return None
    out = Elements(ctx)
    place = place_code(out, guard.place)
    return [*out.stms, *_single_iteration(stm, e, indices, place, ctx)]


def _single_iteration(stm: Stm, e: ir.Map, indices: set[Var], k: Atom, ctx: Context) -> list[Stm]:
    low, high, within = Var("low", BOOL), Var("high", BOOL), Var("within", BOOL)
    out = [
        Stm((low,), ir.Op("le", (ZERO, k))),
        Stm((high,), ir.Op("lt", (k, e.width))),
        Stm((within,), ir.Op("and", (low, high))),
    ]
    iteration: list[Stm] = []
    before: list[Atom] = []
    for a, p in zip(e.arrays, e.lam.params, strict=True):
        if type(a.type) is AccType:
            before.append(a)
            iteration.append(Stm((p,), ir.Alias(a)))
        elif p in indices:
            iteration.append(Stm((p,), ir.Alias(k)))
        else:
            iteration.append(Stm((p,), ir.At(a, (k,), None)))
            assert p.type == row_type(a.type)
    then = Lambda((), (*iteration, *e.lam.stms), e.lam.result)
    out.append(Stm(stm.pat, ir.If(within, then, Lambda((), (), tuple(before))), stm.attrs))
    return out


ACC_ENTER = (acc_zero, acc_places)
ACC_LEAVE = (with_acc_unused, with_acc_outside, with_acc_extras, one_hot)

__all__ = ["ACC_ENTER", "ACC_LEAVE"]
