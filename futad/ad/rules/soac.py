"""Map, reduce and scan.

Source: Schenck et al., SC 2022, sections 4 and 5.  `hist.py` has reduce_by_index and scatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.ad.emit import in_range, reexecution
from futad.ad.kept import mark
from futad.ad.operators import canonical, ruled, split_operator
from futad.ad.rules.branch import merge_branches
from futad.ad.rules.map_adjoint import MapSweep
from futad.ad.rules.records import keep_in_map, map_with_records
from futad.ad.rules.reduce import Fold, reduce_part
from futad.ad.rules.scan import scan_part
from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.types import AccType, ArrayType, Atom, Var
from futad.errors import Span

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope


# --- map --------------------------------------------------------------------------------------------------


def _map_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Map)
    flags = [t.of(a) is not None for a in e.arrays]
    extra, inner = t.nested(e.lam, flags)
    tans = [inner.of(r) for r in e.lam.result]
    # Accumulators come first among the results, so the tangents of accumulators stand between.
    split = sum(isinstance(v.type, AccType) for v in stm.pat)
    pat: list[Var] = []
    result: list[Atom] = []
    for part in (slice(0, split), slice(split, None)):
        pat += stm.pat[part]
        result += e.lam.result[part]
        for v, d in zip(stm.pat[part], tans[part], strict=True):
            if d is not None:
                pat.append(t.fresh(v))
                result.append(d)
    arrays = (*e.arrays, *[d for a in e.arrays if (d := t.of(a)) is not None])
    lam = ir.Lambda((*e.lam.params, *extra), tuple(inner.b.stms), tuple(result))
    t.b.add(ir.Stm(tuple(pat), ir.Map(e.width, arrays, lam), stm.attrs))


def _read_by_element(lam: ir.Lambda, row: Var) -> bool:
    """Whether nothing is done with the array but to read elements of it."""
    for stm in lam.stms:
        e = stm.exp
        if row in e.operands() and not (isinstance(e, ir.At) and e.array is row):
            return False
        if not all(_read_by_element(inner, row) for inner in e.lambdas()):
            return False
    return row not in lam.result


def _pull_point(
    s: Scope, e: ir.Map, pat: tuple[Var, ...], at: Atom, seeds: dict[Var, Atom], check: Span | None = None
) -> None:
    """The return sweep of a map at one element: its body there, in line."""
    lam = reexecution(e.lam)
    first = [ir.Stm((p,), ir.At(a, (at,), check)) for p, a in zip(lam.params, e.arrays, strict=True)]
    for p, a in zip(lam.params, e.arrays, strict=True):
        # What is added to single elements of a row goes to the accumulator, not to a row of zeros first.
        if isinstance(p.type, ArrayType) and s.is_active(a) and s.in_acc(a) and _read_by_element(lam, p):
            s.views[p] = (a, (at,))
    swept = s.forward([*first, *lam.stms])
    for r, v in zip(lam.result, pat, strict=True):
        if v in seeds:
            s.add(r, s.coerce(seeds[v], r.type))
    s.back(swept)


def _map_points(s: Scope, e: ir.Map, pat: tuple[Var, ...]) -> None:
    """See Note [Points] in reverse.py."""
    places: dict[tuple[Atom, bool], dict[Var, Atom]] = {}
    checks: dict[Atom, Span | None] = {}
    for v in pat:
        for p in s.points.pop(v, ()):
            seeds = places.setdefault((p.index, p.guarded), {})
            seeds[v] = s.b.plus(seeds[v], p.value) if v in seeds else p.value
            checks[p.index] = checks.get(p.index) or p.check
    for (at, guarded), seeds in places.items():
        if not guarded:
            _pull_point(s, e, pat, at, seeds, checks[at])
            continue
        inside = in_range(s.b, (at,), (e.width,))
        assert inside is not None
        there, elsewhere = s.child("branch"), s.child("branch")
        _pull_point(there, e, pat, at, seeds)
        merge_branches(s, inside, (there, elsewhere))


def _map_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Map)
    if not any(v in s.adj for v in stm.pat) and not any(isinstance(v.type, AccType) for v in stm.pat):
        _map_points(s, e, stm.pat)
        return
    records = map_with_records(s, stm, emitted)
    lam = ir.rename(e.lam) if records else reexecution(e.lam)
    m = MapSweep(s, e.width)
    m.inner.apart = s.parts_apart(lam)
    for p, a in zip(lam.params, e.arrays, strict=True):
        if isinstance(p.type, AccType):
            m.inner.local.add(p)
            m.inner.stripped.add(p)
            s.ctx.active.add(p)
        else:
            m.primal(p, a)
    swept = m.inner.forward(lam.stms)
    end = mark(m.inner) if records else None
    for r, v in zip(lam.result, stm.pat, strict=True):
        ybar = s.take(v)
        if ybar is None:
            continue
        m.inner.add(r, ybar if isinstance(v.type, AccType) else m.seed(ybar))
        if isinstance(v.type, AccType):
            source = _acc_source(e, stm.pat, v)
            s.add(source, ybar)
    m.inner.back(swept)
    if end is not None:
        keep_in_map(m, lam, end, emitted)
    m.finish()


def _acc_source(e: ir.Map, pat: tuple[Var, ...], v: Var) -> Atom:
    """The accumulator argument that ends as `v`."""
    accs = [a for a in e.arrays if isinstance(a.type, AccType)]
    return accs[pat.index(v)]


# --- reduce and scan -----------------------------------------------------------------------------------------


def _dual(t: Tangents, stm: ir.Stm) -> None:
    """jvp of a reduction or scan: + separately on tangents, otherwise the operator on dual numbers."""
    e = stm.exp
    assert isinstance(e, ir.Reduce | ir.Scan)
    if ruled(e.lam) == "add":
        t.b.add(stm)
        d = t.of(e.arrays[0])
        if d is None:
            return
        b = t.b
        lam = b.plus_lambda(e.neutral[0].type)
        zero = b.zeros(e.neutral[0].type)
        out = t.fresh(stm.pat[0])
        if isinstance(e, ir.Reduce):
            b.add(ir.Stm((out,), ir.Reduce(e.width, (d,), lam, (zero,), e.comm), stm.attrs))
        else:
            b.add(ir.Stm((out,), ir.Scan(e.width, (d,), lam, (zero,)), stm.attrs))
        return
    flags = [v in t.active for v in stm.pat]
    on = [i for i, f in enumerate(flags) if f]
    lam = t.operator(canonical(e.lam), flags)
    arrays = e.arrays + tuple([t.dense(e.arrays[i]) for i in on])
    neutral = e.neutral + tuple([t.b.zeros(e.neutral[i].type) for i in on])
    pat = stm.pat + tuple([t.fresh(stm.pat[i]) for i in on])
    if isinstance(e, ir.Reduce):
        t.b.add(ir.Stm(pat, ir.Reduce(e.width, arrays, lam, neutral, e.comm), stm.attrs))
    else:
        t.b.add(ir.Stm(pat, ir.Scan(e.width, arrays, lam, neutral), stm.attrs))


def _fold_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Reduce | ir.Scan)
    seeds = [s.take(v) for v in stm.pat]
    rule = reduce_part if isinstance(e, ir.Reduce) else scan_part
    for part, lam in split_operator(canonical(e.lam)):
        if any(seeds[i] is not None for i in part):
            f = Fold(
                e.width,
                tuple([e.arrays[i] for i in part]),
                lam,
                tuple([e.neutral[i] for i in part]),
                tuple([stm.pat[i] for i in part]),
                tuple([seeds[i] for i in part]),
            )
            rule(s, f)


RULES[ir.Map] = Rule(_map_jvp, _map_vjp)
RULES[ir.Reduce] = Rule(_dual, _fold_vjp)
RULES[ir.Scan] = Rule(_dual, _fold_vjp)
