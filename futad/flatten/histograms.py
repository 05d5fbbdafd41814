"""Accumulators of few bins become histograms, which devices take by way of shared memory.

    withAcc ys (\\acc -> map (\\x -> if c x then acc[k x] += f x else acc) xs)
        -->   if ys is small beside what is added to it
              then let (ks, vs) = map (\\x -> if c x then (k x, f x) else (-1, 0)) xs in hist (+) ys ks vs
              else the same as before

Updates of few places contend where they are atomic; of many they seldom do, and need no array of contributions.
Rows that are added stay: written and read again they would cost more than what the program reads.
Section 6.1 of "AD for an Array Language with Nested Parallelism" (Schenck, Rønning, Henriksen, Oancea, SC 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.types import I64, AccType, Atom, Prim, Var, elem_of, i64, shape_of
from futad.flatten.kernel import FEW_BINS, MOST_PASSES, SUB_BYTES
from futad.legality import Legality
from futad.rewrite.strategy import with_lambdas

LEGAL = Legality(
    "histograms",
    "an accumulator of few bins becomes a histogram of what a map adds",
    worth="updates of few bins wait for each other; what they wait is not measured, no card was at hand",
)
ONCE = LEGAL.condition("one update an iteration", "of an iteration's updates all but one are lost")


@dataclass(slots=True)
class _Added:
    """What is added to an accumulator once: the index there, and what."""

    index: ir.Atoms
    value: Atom


# What is known of each accumulator in a scope: what was added to it so far, None for nothing.
_State = dict[Atom, _Added | None]


def histograms(lam: Lambda) -> Lambda:
    """A scope that the host runs, and those in it, with such accumulators; the same object if there are none."""
    out: list[Stm] = []
    for stm in lam.stms:
        if isinstance(stm.exp, ir.Control):
            lams = stm.exp.lambdas()
            new = [histograms(inner) for inner in lams]
            if any(a is not b for a, b in zip(lams, new, strict=True)):
                stm = Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs)
        made = _two_ways(stm, stm.exp) if isinstance(stm.exp, ir.WithAcc) else None
        out += [stm] if made is None else made
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def _two_ways(stm: Stm, e: ir.WithAcc) -> list[Stm] | None:
    """A histogram if there are few bins, accumulators otherwise, decided by the sizes; None where it is neither."""
    found = _as_histograms(e)
    if found is None:
        return None
    LEGAL.fired()
    histograms, width = found
    b = Builder()
    few: Atom | None = None
    for a in e.arrays:
        bins = b.size_mul(shape_of(a.type))
        cells = SUB_BYTES // elem_of(a.type).bytes
        small = b.op("le", bins, i64(MOST_PASSES * cells))
        crowded = b.op("lt", b.op("mul", i64(FEW_BINS), bins), width)
        both = b.op("and", small, crowded)
        few = both if few is None else b.op("and", few, both)
    assert few is not None
    results = tuple([Var(v.name, v.type) for v in stm.pat])
    otherwise = Lambda((), (Stm(results, e, stm.attrs),), results)
    b.add(Stm(stm.pat, ir.If(few, ir.rename(histograms), otherwise)))
    return b.stms


def _as_histograms(e: ir.WithAcc) -> tuple[Lambda, Atom] | None:
    """The statement's results by histograms, as a scope, and how many iterations the map has; None unless one map does
    all the updates, at most one of each accumulator an iteration, at a place that it computes."""
    accs, n = e.lam.params, len(e.arrays)
    users = [at for at, s in enumerate(e.lam.stms) if any(v in accs for v in ir.stm_free(s))]
    if len(users) != 1:
        return None
    at = users[0]
    s, m = e.lam.stms[at], e.lam.stms[at].exp
    alike = len({elem_of(a.type) for a in e.arrays}) == 1
    if isinstance(m, ir.Map) and n == len(s.pat) and light_updates(m.lam) and alike:
        return None  # the map's own kernel goes by way of shared memory (`private_histograms.py`)
    if not isinstance(m, ir.Map) or any(list(m.arrays).count(a) != 1 for a in accs):
        return None
    outer = [a for a in m.arrays if isinstance(a.type, AccType)]
    if set(outer) != set(accs) or list(e.lam.result[:n]) != [s.pat[outer.index(a)] for a in accs]:
        return None
    inner = [m.lam.params[m.arrays.index(a)] for a in accs]
    state: _State = dict.fromkeys(inner)
    stms = _without_updates(m.lam.stms, state)
    if stms is None:
        return None
    added = [state[m.lam.result[outer.index(a)]] for a in accs]
    local = {v for x in stms for v in x.pat} | set(m.lam.params)
    if any(x is None or not any(i in local for i in x.index) or not isinstance(x.value.type, Prim) for x in added):
        return None
    b = Builder()
    b.extend(e.lam.stms[:at])
    results = [r for x in added if x is not None for r in (*x.index, x.value)]
    kept = m.lam.result[n:]
    others = [(p, a) for p, a in zip(m.lam.params, m.arrays, strict=True) if p not in inner]
    lam = Lambda(tuple([p for p, _ in others]), tuple(stms), (*results, *kept))
    made = list(b.emit(ir.Map(m.width, tuple([a for _, a in others]), lam), "added"))
    rest = made[len(results) :]
    totals: list[Atom] = []
    for a, x in zip(e.arrays, added, strict=True):
        assert x is not None
        idxs, (vs,), made = made[: len(x.index)], made[len(x.index) :][:1], made[len(x.index) + 1 :]
        op, neutral = b.plus_lambda(x.value.type), b.zeros(x.value.type)
        totals += b.emit(ir.Hist(m.width, (a,), tuple(idxs), (vs,), op, (neutral,)), "total")
    names = dict(zip(s.pat[n:], rest, strict=True))
    copy = ir.Renamer(dict(names))
    b.extend(copy.stms(e.lam.stms[at + 1 :]))
    extras = tuple([copy.atom(r) for r in e.lam.result[n:]])
    return Lambda((), tuple(b.stms), (*totals, *extras)), m.width


def _without_updates(stms: Sequence[Stm], state: _State) -> list[Stm] | None:
    """The statements without their updates, which go to `state`; None if an accumulator is used in another way."""
    out: list[Stm] = []
    for s in stms:
        e = s.exp
        used = [v for v in ir.stm_free(s) if v in state]
        if not used:
            out.append(s)
        elif not ONCE(all(state[v] is None for v in used)):
            return None
        elif isinstance(e, ir.UpdateAcc):
            assert isinstance(e.acc, Var)
            state[s.pat[0]] = _Added(e.index, e.value)
        elif isinstance(e, ir.If):
            made = _branches(s, e, state)
            if made is None:
                return None
            out.append(made)
        else:
            return None
    return out


def _branches(s: Stm, e: ir.If, state: _State) -> Stm | None:
    """A conditional with places and contributions as results in place of accumulators."""
    scopes: list[tuple[list[Stm], _State, Sequence[Atom]]] = []
    for lam in (e.then, e.orelse):
        inner = dict(state)
        stms = _without_updates(lam.stms, inner)
        if stms is None:
            return None
        scopes.append((stms, inner, lam.result))
    builders = [Builder(), Builder()]
    for b, (stms, _, _) in zip(builders, scopes, strict=True):
        b.extend(stms)
    results: list[list[Atom]] = [[], []]
    pat: list[Var] = []
    for k, v in enumerate(s.pat):
        ends = [r[k] for _, _, r in scopes]
        if not isinstance(v.type, AccType):
            pat.append(v)
            for r, a in zip(results, ends, strict=True):
                r.append(a)
            continue
        added = [inner.get(a) for a, (_, inner, _) in zip(ends, scopes, strict=True)]
        some = next((x for x in added if x is not None), None)
        if some is None:
            state[v] = None
            continue
        if any(x is not None and [i.type for i in x.index] != [i.type for i in some.index] for x in added):
            return None
        if any(i.type is not I64 for i in some.index):
            return None
        for b, r, x in zip(builders, results, added, strict=True):
            r += [i64(-1)] * len(some.index) if x is None else x.index
            r.append(b.zeros(some.value.type) if x is None else x.value)
        index = tuple([Var("place", I64) for _ in some.index])
        value = Var("value", some.value.type)
        pat += [*index, value]
        state[v] = _Added(index, value)
    then, orelse = [Lambda((), tuple(b.stms), tuple(r)) for b, r in zip(builders, results, strict=True)]
    return Stm(tuple(pat), ir.If(e.cond, then, orelse), s.attrs)


def light_updates(lam: Lambda) -> int | None:
    """How many scalar updates of accumulators a scope has, those in branches included; None if it has loops or anything
    parallel, or updates by rows."""
    count = 0
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.UpdateAcc):
            if not isinstance(e.value.type, Prim):
                return None
            count += 1
        elif isinstance(e, ir.If):
            for inner in e.lambdas():
                more = light_updates(inner)
                if more is None:
                    return None
                count += more
        elif e.lambdas() or isinstance(e, (ir.Call, ir.MatMul)):
            return None
    return count
