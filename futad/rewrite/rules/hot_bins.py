"""Histograms, rows and elements of what is zero but at few places; see `hot.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Renamer, Stm
from futad.core.operator import SUM, operator_of
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Prim, Var, i64, prim_of, shape_of, zero
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.elements import Elements, Stuck
from futad.rewrite.ranges import is_index
from futad.rewrite.rules.hot import KEPT_NOT, added_to, iterations
from futad.rewrite.rules.soacs import inside
from futad.rewrite.strategy import Result, rule
from futad.rewrite.terms import FAILS_NOT, ONE_PLACE, Terms, at_place, attempt, compares, seeded

LEGAL = Legality("one-hot-bins", "sums that compare an index with the map's own are histograms")
FROM_ZERO = LEGAL.condition("from zero", "what the sum starts from is lost")
OWN_INDEX = LEGAL.condition("bin known before", "the bin depends on the map's index, which it stands for")
NO_READS = LEGAL.condition("reads without iterations", "where the map has no iteration, what is read is not there")
BIN_READS = LEGAL.condition("reads in range of bins", "for a bin out of range, what is read is not there")
INVARIANT = LEGAL.condition("values the same for all", "a value is another one for each iteration of the map")
UNWRITTEN = LEGAL.condition("bins not overwritten", "each iteration overwrites what is to be new in each")
SAME_BINS = LEGAL.condition("bins the same for all", "outside there is no value yet of what they depend on")


@rule(ir.Hist, changes=KEPT_NOT)
def hot_hist(stm: Stm, ctx: Context) -> Result:
    """`reduce_by_index (replicate m 0) (+) 0 is (map (\\j -> if j == k then f j else 0) (iota n))` ->
    `map (\\b -> if b == is[k] then f k else 0) (iota m)`, where 0 <= k < n; else zeros.

    The other updates add zero.  An index out of range is no bin's.
    """
    e: Any = stm.exp
    if len(e.dests) != 1 or operator_of(e.lam) != SUM or not seeded(ctx, e.values[0]):
        return None
    fill = ctx.exp(e.dests[0])
    if type(fill) is not ir.Replicate or not FROM_ZERO(is_const(fill.value, 0)):
        return None
    terms = Terms(ctx, e.width, lambda made, j: [made.at(e.values[0], (j,)), made.at(e.idxs[0], (j,))])
    sample = attempt(terms)
    places = None if sample is None else sample.places(sample.supports()[0])
    if not places:
        return None
    LEGAL.fired()
    out = Elements(ctx)
    t = prim_of(fill.value)
    hits = []
    for n, p in enumerate(places):
        hits.append((at_place(out, terms, 1, p, (), i64(-1)), at_place(out, terms, 0, p, places[:n], zero(t))))
    (m,) = shape_of(stm.pat[0].type)
    iota, b = Var("iota", ArrayType(I64, (m,))), Var("b", I64)
    inner = Elements(ctx)
    total: Atom | None = None
    for bin_, value in hits:
        part = inner.op("select", inner.op("eq", b, bin_), value, zero(t))
        total = part if total is None else inner.op("add", total, part)
    assert total is not None
    ctx.seeds.clear()
    bins = ir.Map(m, (iota,), Lambda((b,), tuple(inner.stms), (total,)))
    return [*out.stms, Stm((iota,), ir.Iota(m, ZERO, ONE)), Stm(stm.pat, bins, stm.attrs)]


@rule(ir.Map, changes=KEPT_NOT)
def hot_gather(stm: Stm, ctx: Context) -> Result:
    """`map (\\k -> sum (map (\\j -> if is[j] == k then f j else 0) (iota n))) (iota m)` ->
    `reduce_by_index (replicate m 0) (+) 0 is (map f (iota n))`.

    Term j goes to the one k that is is[j], or to none if that is out of range.  What f has of k is is[j] there; it
    must have nothing else of the iteration.  Reads that need not be in range where the map has no iteration, or for
    an is[j] out of range, and what may fail, are behind a comparison.
    """
    e: Any = stm.exp
    indices = [p for a, p in zip(e.arrays, e.lam.params, strict=True) if is_index(ctx.exp(a))]
    if not indices:
        return None
    own = {*e.lam.params, *[v for s in e.lam.stms for v in s.pat]}
    for n, s in enumerate(e.lam.stms):
        found = _sum_of(s, ctx)
        if found is None:
            continue
        code = _binned(found, indices, own, e, ctx)
        if code is None:
            continue
        before, binned = code
        x = Var("x", s.pat[0].type)
        LEGAL.fired()
        stms = (*e.lam.stms[:n], Stm(s.pat, ir.Alias(x)), *e.lam.stms[n + 1 :])
        lam = Lambda((*e.lam.params, x), stms, e.lam.result)
        return [*before, Stm(stm.pat, ir.Map(e.width, (*e.arrays, binned), lam), stm.attrs)]
    return None


def _sum_of(s: Stm, ctx: Context) -> Terms | None:
    """The terms of a statement that sums scalars from zero."""
    e = s.exp
    if isinstance(e, ir.Reduce) and len(e.arrays) == 1 and seeded(ctx, e.arrays[0]):
        if operator_of(e.lam) == SUM and FROM_ZERO(is_const(e.neutral[0], 0)):
            array = e.arrays[0]
            return Terms(ctx, e.width, lambda made, j: [made.at(array, (j,))])
    if isinstance(e, ir.For) and len(e.inits) == 1 and FROM_ZERO(is_const(e.inits[0], 0)) and compares(ctx, e.body):
        p, r = e.body.params[1], e.body.result[0]
        added = added_to(next((x for x in e.body.stms if x.pat == (r,)), None), p)
        if added is not None:
            return iterations(ctx, e, [p], added)
    return None


def _binned(terms: Terms, indices: list[Var], own: set[Var], e: ir.Map, ctx: Context) -> tuple[list[Stm], Var] | None:
    """The statements that add up the terms by their guards, and the array of sums; None if these are no bins.

    A term with several guards goes to the bin of each, once where two are the same.
    """
    sample = attempt(terms)
    support = None if sample is None else sample.supports()[0]
    n = terms.width
    if sample is None or not support or inside(ctx, n):
        return None
    guards = sorted(support, key=lambda g: (g.var.id, g.place.offset))
    k = next((i for i in indices if all(g.place.terms == {(i, 1)} for g in guards)), None)
    if k is None or all(g.var is sample.j for g in guards):
        return None
    t = prim_of(sample.values[0])
    code = Elements(ctx)
    code.stms = list(sample.made.stms)
    bins = [code.op("sub", g.var, i64(g.place.offset)) for g in guards]
    of_k = {k}
    for s in code.stms:
        if not of_k.isdisjoint(ir.stm_free(s)):
            of_k.update(s.pat)
    if not OWN_INDEX(not of_k.intersection(b for b in bins if isinstance(b, Var))):
        return None
    late = [s for s in code.stms if of_k.intersection(s.pat)]
    code.stms = [s for s in code.stms if not of_k.intersection(s.pat)]
    if not FAILS_NOT(not _fails_by(late, {k}, ctx)):
        return None
    safe = _reads_own(code.stms + late, sample.j, n) and not sample.made.may_fail()
    some = NO_READS(safe or n is e.width or ctx.ranges.in_range(ZERO, e.width))
    results: list[Atom] = []
    for m, b in enumerate(bins):
        copy = Renamer({k: b})
        at_bin, value = copy.stms(late), copy.atom(sample.values[0])
        if BIN_READS(_reads_own(late, sample.j, n)):
            code.stms += at_bin
        else:
            here = code.op("and", code.op("le", ZERO, b), code.op("lt", b, e.width))
            then, orelse = Lambda((), tuple(at_bin), (value,)), Lambda((), (), (zero(t),))
            value = code.let(ir.If(here, then, orelse), t)
        for other in bins[:m]:
            if not ONE_PLACE(other is b):
                value = code.op("select", code.op("eq", b, other), zero(t), value)
        results += [b, value]
    code.needed(results)
    bound = {v for s in code.stms for v in s.pat} | {sample.j}
    outer = {v for s in code.stms for v in ir.stm_free(s)} | {v for v in results if isinstance(v, Var)}
    if not INVARIANT(not any(inside(ctx, v) or v in own for v in outer - bound)):
        return None
    before = Elements(ctx)
    if not ctx.ranges.nonneg(n):
        n = before.op("max", n, ZERO)  # the loop has no iteration
    if not some:
        n = before.op("select", before.op("lt", ZERO, e.width), n, ZERO)
    iota, sums = Var("iota", ArrayType(I64, (n,))), Var("bins", ArrayType(t, (e.width,)))
    out = [*before.stms, Stm((iota,), ir.Iota(n, ZERO, ONE)), Stm((sums,), ir.Replicate((e.width,), zero(t)))]
    arrays = [Var("of", ArrayType(prim_of(r), (n,))) for r in results]
    lam = Lambda((sample.j,), tuple(code.stms), tuple(results))
    out.append(Stm(tuple(arrays), ir.Map(n, (iota,), lam)))
    for places, values in zip(arrays[::2], arrays[1::2], strict=True):
        x, y, z, after = Var("x", t), Var("y", t), Var("z", t), Var("bins", sums.type)
        plus = Lambda((x, y), (Stm((z,), ir.Op("add", (x, y))),), (z,))
        ctx.aliases.consume((sums,))  # so that no equal array is taken for it
        out.append(Stm((after,), ir.Hist(n, (sums,), (places,), (values,), plus, (zero(t),))))
        sums = after
    return out, sums


def _fails_by(stms: Sequence[Stm], of: set[Var], ctx: Context) -> bool:
    """Whether it depends on these variables whether statements fail."""
    for s in stms:
        if of.isdisjoint(ir.stm_free(s)):
            continue
        inner = [x for lam in s.exp.lambdas() for x in lam.stms]
        alone = Elements(ctx)
        alone.stms = inner or [s]
        if alone.may_fail() and (not isinstance(s.exp, ir.If) or s.exp.cond in of or _fails_by(inner, of, ctx)):
            return True
        of = of.union(s.pat)
    return False


def _reads_own(stms: Sequence[Stm], j: Var, n: Atom) -> bool:
    """Whether all elements that are read and written without a check are element j of arrays of n."""
    places = [s.exp for s in ir.statements(stms) if isinstance(s.exp, ir.At | ir.Update) and s.exp.check is None]
    return all(e.index[0] is j and shape_of(e.array.type)[:1] == (n,) and len(e.index) == 1 for e in places)


# -- rows and elements


def _of_row(array: Atom, i: Atom, made: Elements, j: Atom) -> list[Atom]:
    return [made.at(array, (i, j))]


@rule(ir.Map, changes=KEPT_NOT)
def hot_rows(stm: Stm, ctx: Context) -> Result:
    """`map (\\row -> g row) (map (\\i -> map (\\j -> if i == j then v else 0) (iota m)) (iota n))` ->
    `map (\\i -> g (map (\\j -> if i == j then v else 0) (iota m))) (iota n)`: rows of an identity matrix are made where
    they are used, whose sums are then hot."""
    e: Any = stm.exp
    for k, (a, p) in enumerate(zip(e.arrays, e.lam.params, strict=True)):
        if not isinstance(p.type, ArrayType) or p.type.rank != 1 or ctx.mutable(p) or not seeded(ctx, a):
            continue
        made = ctx.maker(a)
        if made is None or not isinstance(made[0], ir.Map) or p in e.lam.result:
            continue
        i, j = Var("i", I64), Var("j", I64)
        (n,) = shape_of(p.type)
        inner = Elements(ctx)
        try:
            value = inner.at(a, (i, j))
        except Stuck:
            continue
        inner.needed([value])
        sample = attempt(Terms(ctx, n, partial(_of_row, a, i)))
        if sample is None or sample.places(sample.supports()[0]) is None:
            continue
        iota, columns = Var("iota", ArrayType(I64, (e.width,))), Var("iota", ArrayType(I64, (n,)))
        row = [
            Stm((columns,), ir.Iota(n, ZERO, ONE)),
            Stm((p,), ir.Map(n, (columns,), Lambda((j,), tuple(inner.stms), (value,)))),
        ]
        params = (*e.lam.params[:k], i, *e.lam.params[k + 1 :])
        arrays = (*e.arrays[:k], iota, *e.arrays[k + 1 :])
        lam = Lambda(params, (*row, *e.lam.stms), e.lam.result)
        LEGAL.fired()
        ctx.seeds.clear()
        return [Stm((iota,), ir.Iota(e.width, ZERO, ONE)), Stm(stm.pat, ir.Map(e.width, arrays, lam), stm.attrs)]
    return None


@rule(ir.Map, changes=KEPT_NOT)
def bins_outside(stm: Stm, ctx: Context) -> Result:
    """`map (\\x -> let h = reduce_by_index (replicate m 0) f 0 is vs in g h x) xs` ->
    `let h = reduce_by_index (replicate m 0) f 0 is vs in map (\\x -> g h x) xs`, where h is not overwritten: the values
    beside the tangents are the same for all directions."""
    e: Any = stm.exp
    made = {s.pat[0]: s for s in e.lam.stms if type(s.exp) is ir.Replicate}
    for s in e.lam.stms:
        x = s.exp
        if type(x) is not ir.Hist or not UNWRITTEN(not any(map(ctx.overwritten, s.pat))):
            continue
        fills = [made[d] for d in x.dests if d in made]
        needed = {v for f in [s, *fills] for v in ir.stm_free(f)} - {f.pat[0] for f in fills}
        if len(fills) == len(x.dests) and SAME_BINS(not any(inside(ctx, v) for v in needed)):
            out = [*fills, s]
            code = Elements(ctx)
            code.stms = out
            if not FAILS_NOT(not code.may_fail()):
                continue
            rest = tuple([t for t in e.lam.stms if t not in out])
            lam = Lambda(e.lam.params, rest, e.lam.result)
            return [*out, Stm(stm.pat, ir.Map(e.width, e.arrays, lam), stm.attrs)]
    return None


@rule(ir.At, changes=KEPT_NOT)
def at_build(stm: Stm, ctx: Context) -> Result:
    """`(map f xs)[i]` -> `f xs[i]`, where the map is zero but at few places, and the index in range."""
    e: Any = stm.exp
    if e.check is not None or not isinstance(stm.pat[0].type, Prim):
        return None
    if not seeded(ctx, e.array) or ctx.level.get(e.array) != ctx.depth:
        return None
    found = ctx.maker(e.array)
    if found is None or type(found[0]) is not ir.Map:
        return None
    last = e.index[-1]
    terms = Terms(ctx, shape_of(e.array.type)[-1], lambda made, j: [made.at(e.array, (*e.index[:-1], j))])
    sample = attempt(terms)
    if sample is None or sample.places(sample.supports()[0]) is None:
        return None
    LEGAL.fired()
    out = Elements(ctx)
    value = terms.code(out, last)[0]
    out.needed([value])
    return [*out.stms, Stm(stm.pat, ir.Alias(value))]


HOT_ENTER = (at_build,)
HOT_BINS = (hot_hist, hot_gather, hot_rows, bins_outside)

__all__ = ["HOT_BINS", "HOT_ENTER"]
