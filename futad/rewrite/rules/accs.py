"""Rules on accumulators, which only differentiation makes."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.alias import consumed_roots
from futad.core.ir import Lambda, Stm
from futad.core.operator import scalar_op
from futad.core.types import BOOL, FALSE, ZERO, AccType, Atom, Const, Var, prim_of, row_type
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.dce import effects
from futad.rewrite.ranges import is_index
from futad.rewrite.rules.control import aliases_of
from futad.rewrite.rules.soacs import inside
from futad.rewrite.strategy import Result, rule

LEGAL = Legality(
    "accumulator-rules", "what updates no accumulator leaves its scope; iterations that add zero are none", fires=False
)
IDLE = LEGAL.condition("accumulator idle", "updates are lost")
OUTSIDE = LEGAL.condition("result from outside", "what the scope binds is not known outside")
INDEPENDENT = LEGAL.condition("no accumulator needed", "outside of the scope there is no accumulator")
UNREAD = LEGAL.condition("nothing overwritten that stays", "what stays would read what was overwritten before it")
VANISHES = LEGAL.condition("other iterations add zero", "iterations are left out that add something")
ELSE_ZERO = LEGAL.condition("zero elsewhere", "iterations are left out that add something")
INVARIANT = LEGAL.condition("place invariant", "it is another iteration for each")

@rule(ir.UpdateAcc, changes=("zeros",))
def acc_zero(stm: Stm, ctx: Context) -> Result:
    """`acc[i] += 0` -> `acc`; `acc[..] += replicate n 0` -> `acc`."""
    e: Any = stm.exp
    v: Atom = e.value
    while type(d := ctx.exp(v)) is ir.Replicate:
        v = d.value
    return [Stm(stm.pat, ir.Alias(e.acc))] if is_const(v, 0) or v is FALSE else None


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
    for s in lam.stms:
        place = _hot_place(s, lam, indices, ctx)
        if place is not None and VANISHES(_vanishes(lam.stms, {s.pat[0]})):
            return _single_iteration(stm, e, indices, place, ctx)
    return None


def _hot_place(s: Stm, lam: Lambda, indices: set[Var], ctx: Context) -> Atom | None:
    """The invariant k if the statement is `select (i == k) v 0` for an index i."""
    e = s.exp
    if type(e) is not ir.Op or e.op != "select" or not ELSE_ZERO(is_const(e.args[2], 0) or e.args[2] is FALSE):
        return None
    test = ctx.exp(e.args[0])
    if type(test) is not ir.Op or test.op != "eq":
        return None
    for i, k in (test.args, test.args[::-1]):
        if i in indices and INVARIANT(type(k) is Const or ctx.level.get(k, 0) <= ctx.depth):
            return k
    return None


_LINEAR = frozenset(["neg", "to_f16", "to_f32", "to_f64"])


def _vanishes(stms: tuple[Stm, ...], zeros: set[Atom]) -> bool:
    """Whether everything added to an accumulator is zero where the values `zeros` are.  `zeros` grows."""
    for s in stms:
        e = s.exp
        match e:
            case ir.Op():
                hit = [_zero(a, zeros) for a in e.args]
                if (
                    e.op == "mul" and any(hit)
                    or e.op == "div" and hit[0] and prim_of(s.pat[0]).is_float
                    or e.op in ("add", "sub") and all(hit)
                    or e.op == "select" and all(hit[1:])
                    or e.op in _LINEAR and hit[0]
                ):
                    zeros.add(s.pat[0])
            case ir.Replicate():
                if e.value in zeros:
                    zeros.add(s.pat[0])
            case ir.UpdateAcc():
                if not _zero(e.value, zeros):
                    return False
            case ir.Map():
                within = zeros | {p for a, p in zip(e.arrays, e.lam.params, strict=True) if a in zeros}
                if not _vanishes(e.lam.stms, within):
                    return False
                zeros.update(v for v, r in zip(s.pat, e.lam.result, strict=True) if r in within)
            case ir.Reduce():
                if scalar_op(e.lam) == "add" and e.arrays[0] in zeros and is_const(e.neutral[0], 0):
                    zeros.add(s.pat[0])
            case ir.For():
                if not _vanishing_loop(s, e, zeros):
                    return False
            case ir.If():
                branches = [zeros | set(), zeros | set()]
                if not (_vanishes(e.then.stms, branches[0]) and _vanishes(e.orelse.stms, branches[1])):
                    return False
                both = zip(s.pat, e.then.result, e.orelse.result, strict=True)
                zeros.update(v for v, a, b in both if _zero(a, branches[0]) and _zero(b, branches[1]))
            case _:
                if any(type(v.type) is AccType for v in s.pat) or any(
                    type(a.type) is AccType for a in e.operands()
                ):
                    return False
                if effects((s,)):
                    return False
    return True


def _zero(a: Atom, zeros: set[Atom]) -> bool:
    return a in zeros or is_const(a, 0)


def _vanishing_loop(s: Stm, e: ir.For, zeros: set[Atom]) -> bool:
    """`_vanishes` for a loop: its variables are zero that start so and stay so if they are."""
    params = e.body.params[1:]
    assumed = [k for k, a in enumerate(e.inits) if _zero(a, zeros)]
    while True:
        within = zeros | {params[k] for k in assumed}
        if not _vanishes(e.body.stms, within):
            return False
        still = [k for k in assumed if _zero(e.body.result[k], within)]
        if still == assumed:
            zeros.update(s.pat[k] for k in assumed)
            return True
        assumed = still


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


ACC_ENTER = (acc_zero,)
ACC_LEAVE = (with_acc_unused, with_acc_outside, with_acc_extras, one_hot)

__all__ = ["ACC_ENTER", "ACC_LEAVE"]
