"""Sums of what is zero but at few places: a gradient by n forward passes takes O(n).

In forward mode the gradient of a sum is n sums, each of whose summands are zero but where the tangent is one.  These
rules find such sums by what vanishes (`rewrite/zeros.py`), and compute what is left element by element
(`rewrite/elements.py`).  After Shaikhha et al. (Efficient Differentiable Programming in a Functional Array-Processing
Language, ICFP 2019), whose rules are of `build`, `get` and `ifold`, for one form of one-hot vectors each.

For all rules: the terms left out are zeros.  Of products of derivatives they are zeros although a factor is infinite
or NaN, which no derivative means; any other product counts only if its factor is known to be finite.  A place out of
range has no term, of an empty sum nothing is left; both by a comparison that stays unless it is proved.  If a term can
fail, nothing is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.operator import SUM, VECTOR_SUM, operator_of
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Prim, Var, prim_of, shape_of, zero
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.elements import Elements
from futad.rewrite.strategy import Result, rule
from futad.rewrite.terms import FAILS_NOT, Terms, at_place, attempt, compares, seeded, sum_code

LEGAL = Legality("one-hot", "sums of zeros but at few places are these places' terms")
NOT_CARRIED = LEGAL.condition("terms not carried", "a term depends on the iterations before")
ADDED_ONLY = LEGAL.condition("added to only", "an iteration reads the sum so far")
IDENTITY = LEGAL.condition("elsewhere unchanged", "an iteration that is left out changes the variables")

# A sum of +0 and zeros is +0, the one term that is left may be -0; of the terms only what they need is computed.
KEPT_NOT = ("derived", "zeros", "failures")


@rule(ir.Reduce, changes=KEPT_NOT)
def hot_sum(stm: Stm, ctx: Context) -> Result:
    """`sum (map (\\j -> if j == k then f j else 0) (iota n))` -> `if 0 <= k && k < n then f k else 0`.

    Several places k + c, of a banded residual or of a direction with several ones, have a term each; two that may be
    the same place are compared.  The sum of n - 1 zeros and x is x, whatever x is (for -0 it is 0).
    """
    e: Any = stm.exp
    if len(e.arrays) != 1 or not seeded(ctx, e.arrays[0]):
        return None
    operator = operator_of(e.lam)
    if operator == VECTOR_SUM:
        return _columns(stm, e, ctx)
    if operator != SUM or not is_const(e.neutral[0], 0):
        return None
    terms = Terms(ctx, e.width, lambda made, j: [made.at(e.arrays[0], (j,))])
    return _summed(stm.pat[0], terms, e.neutral[0], ctx)


def _summed(v: Var, terms: Terms, start: Atom, ctx: Context) -> Result:
    sample = attempt(terms)
    if sample is None:
        return None
    places = sample.places(sample.supports()[0])
    if places is None:
        return None
    LEGAL.fired()
    out = Elements(ctx)
    total = sum_code(out, terms, 0, places) if places else zero(prim_of(v))
    if not is_const(start, 0):
        total = out.op("add", start, total)
    return [*out.stms, Stm((v,), ir.Alias(total))]


def _columns(stm: Stm, e: ir.Reduce, ctx: Context) -> Result:
    """A sum of rows whose columns are hot -> a map over columns."""
    fill = ctx.exp(e.neutral[0])
    if type(fill) is not ir.Replicate or not is_const(fill.value, 0):
        return None
    q = Var("q", I64)
    (d,) = shape_of(stm.pat[0].type)
    terms = Terms(ctx, e.width, lambda made, j: [made.at(e.arrays[0], (j, q))])
    total = Var("total", prim_of(fill.value))
    code = _summed(total, terms, fill.value, ctx)
    if code is None:
        return None
    return _mapped(stm.pat[0], d, q, code, total, None)


@rule(ir.For, changes=KEPT_NOT)
def hot_loop(stm: Stm, ctx: Context) -> Result:
    """`loop s = a for j < n do s + (if j == k then f j else 0)` -> `a + (if 0 <= k && k < n then f k else 0)`.

    The variable is read by nothing but that sum, and what is added depends on no variable of the loop: the iterations
    add the same whatever their order.  The loop's other variables stay.
    """
    e: Any = stm.exp
    if not compares(ctx, e.body):
        return None
    _, *params = e.body.params
    made = {s.pat[0]: s for s in e.body.stms if len(s.pat) == 1}
    for k, (p, r) in enumerate(zip(params, e.body.result, strict=True)):
        if not ADDED_ONLY(_only_added(e.body, p, r, k)):
            continue
        added = added_to(made.get(r), p)
        if added is not None:
            terms = iterations(ctx, e, params, added)
            code = None if terms is None else _summed(stm.pat[k], terms, e.inits[k], ctx)
        else:
            code = _row_loop(stm, e, k, made.get(r), ctx)
        if code is not None:
            return [*_without(stm, e, k), *code]
    return None


def _row_loop(stm: Stm, e: ir.For, k: int, s: Stm | None, ctx: Context) -> Result:
    """The same of a variable that is a row of sums, one for each direction -> a map over these."""
    i, *params = e.body.params
    p = params[k]
    rows = s.exp if s is not None else None
    if type(rows) is not ir.Map or rows.arrays.count(p) != 1 or not isinstance(p.type, ArrayType) or p.type.rank != 1:
        return None
    lam = rows.lam
    old = lam.params[rows.arrays.index(p)]
    added = added_to(next((x for x in lam.stms if x.pat == lam.result), None), old)
    if added is None or len(lam.result) != 1 or sum(old in ir.stm_free(x) for x in lam.stms) != 1:
        return None
    others = [(a, x) for a, x in zip(rows.arrays, lam.params, strict=True) if x is not old]
    wanted = [a for a, _ in others] + list(lam.free())
    outer = iterations(ctx, e, params, *wanted)
    if outer is None:
        return None
    q = Var("q", I64)

    def code(made: Elements, j: Atom) -> Sequence[Atom]:
        found = dict(zip(wanted, outer.code(made, j), strict=True))
        given = {x: made.at(found[a], (q,)) for a, x in others}
        given.update({v: a for v, a in found.items() if isinstance(v, Var)})
        return made.scope(lam, given, [added])

    total = Var("total", p.type.elem)
    found = _summed(total, Terms(ctx, e.bound, code), zero(p.type.elem), ctx)
    return None if found is None else _mapped(stm.pat[k], p.type.shape[0], q, found, total, e.inits[k])


def _mapped(v: Var, d: Atom, q: Var, code: Sequence[Stm], total: Var, start: Atom | None) -> list[Stm]:
    """A map of d sums, added to an array of them."""
    iota = Var("iota", ArrayType(I64, (d,)))
    before = [Stm((iota,), ir.Iota(d, ZERO, ONE))]
    if start is None:
        return [*before, Stm((v,), ir.Map(d, (iota,), Lambda((q,), tuple(code), (total,))))]
    x, y = Var("x", total.type), Var("y", total.type)
    stms = (*code, Stm((y,), ir.Op("add", (x, total))))
    return [*before, Stm((v,), ir.Map(d, (iota, start), Lambda((q, x), stms, (y,))))]


def added_to(s: Stm | None, p: Var) -> Atom | None:
    """What the statement adds to a scalar variable."""
    e = s.exp if s is not None else None
    if type(e) is not ir.Op or e.op != "add" or p not in e.args or not isinstance(p.type, Prim):
        return None
    return e.args[1] if e.args[0] is p else e.args[0]


def _only_added(body: Lambda, p: Var, r: Atom, k: int) -> bool:
    readers = [s for s in body.stms if p in ir.stm_free(s)]
    later = [s for s in body.stms if r in ir.stm_free(s)]
    others = [x for n, x in enumerate(body.result) if n != k]
    return len(readers) == 1 and not later and p not in others and r not in others


def iterations(ctx: Context, e: ir.For, params: Sequence[Var], *values: Atom) -> Terms | None:
    """Values of iterations that depend on no variable of the loop."""
    needed = {v for v in values if isinstance(v, Var)}
    for s in reversed(e.body.stms):
        if needed.intersection(s.pat):
            needed.update(ir.stm_free(s))
    if not NOT_CARRIED(needed.isdisjoint(params)):
        return None
    return Terms(ctx, e.bound, lambda made, j: made.scope(e.body, {e.body.params[0]: j}, values))


def _without(stm: Stm, e: ir.For, k: int) -> list[Stm]:
    """The loop without variable k."""
    keep = [n for n in range(len(e.inits)) if n != k]
    if not keep:
        return []
    i, *params = e.body.params
    body = Lambda((i, *[params[n] for n in keep]), e.body.stms, tuple([e.body.result[n] for n in keep]))
    gone = e.body.result[k]
    body = Lambda(body.params, tuple([s for s in body.stms if s.pat != (gone,)]), body.result)
    return [Stm(tuple([stm.pat[n] for n in keep]), ir.For(e.bound, tuple([e.inits[n] for n in keep]), body), stm.attrs)]


@rule(ir.For, changes=KEPT_NOT)
def hot_iteration(stm: Stm, ctx: Context) -> Result:
    """`loop s = a for j < n do if j == k then f j s else s` -> `if 0 <= k && k < n then f k a else a`.

    Every variable is left as it is but for one iteration.
    """
    e: Any = stm.exp
    i, *params = e.body.params
    if not params or any(not isinstance(p.type, Prim) for p in params):
        return None
    made = {v: (s.exp, k) for s in e.body.stms for k, v in enumerate(s.pat)}
    tests: set[Atom] = set()
    for p, r in zip(params, e.body.result, strict=True):
        match made.get(r):
            case ir.Op("select", (test, _, other)), _:
                pass
            case ir.If(test, _, orelse), k:
                other = orelse.result[k]
            case _:
                return None
        if not IDENTITY(other is p):
            return None
        tests.add(test)
    if len(tests) != 1 or not compares(ctx, e.body):
        return None
    (test,) = tests
    found = iterations(ctx, e, params, test)
    sample = None if found is None else attempt(found)
    places = None if sample is None else sample.places(sample.supports()[0])
    if places is None or len(places) != 1:
        return None
    given = dict(zip(params, e.inits, strict=True))
    terms = Terms(ctx, e.bound, lambda m, j: m.scope(e.body, {i: j, **given}, e.body.result))
    whole = attempt(terms)
    if whole is None or not FAILS_NOT(not whole.made.may_fail()):
        return None
    LEGAL.fired()
    out = Elements(ctx)
    values = [at_place(out, terms, k, places[0], (), a) for k, a in enumerate(e.inits)]
    return [*out.stms, *[Stm((v,), ir.Alias(x)) for v, x in zip(stm.pat, values, strict=True)]]


HOT_SUMS = (hot_sum, hot_loop, hot_iteration)

__all__ = ["HOT_SUMS", "KEPT_NOT", "added_to", "iterations"]
