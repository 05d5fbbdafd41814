"""Folds of folds by one operator as one fold over all their elements.

    reduce (+) 0 (map (\\row -> reduce (+) 0 (map f row)) rows)
        -->   reduce (+) 0 (map (\\at -> f rows[at / m, at % m]) (iota (n * m)))

All elements are shared out then, in one launch, where a fold for each dimension takes one after the other.  The order
of the elements stays.  What is mapped out beside the folds comes with it; what stands between the folds is done for
each element, as in any nest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.operator import operators_of
from futad.core.types import I64, ONE, ZERO, Atom, Const, Var, array_of, shape_of
from futad.flatten.levels import repeated, unravelled
from futad.legality import Legality
from futad.rewrite.dce import dead_code

LEGAL = Legality(
    "flat-folds",
    "folds of folds are one fold over all their elements",
    worth="the gradient of an imported batch normalisation: 254 steps and 17 launches in place of 1565 and 21; of "
    "conjugate gradients 202 launches fewer (futad dev --cost)",
)
SAME_OPERATOR = LEGAL.condition("same operator", "sums of maxima are no sums, and no maxima")

FEW = 64  # elements that a thread folds by itself


@dataclass(slots=True)
class _Level:
    """A fold that is the last thing that an element of the one around it does; the statements before that one."""

    fold: ir.Fused
    before: list[Stm] = field(default_factory=list)


def _as_fold(s: Stm) -> ir.Fused | None:
    """The reduction, with or without a map, that a statement is."""
    e = s.exp
    if not isinstance(e, ir.Reduce | ir.Fused) or e.scans or (isinstance(e, ir.Fused) and e.accs):
        return None
    return ir.as_fused(e)


def _levels(s: Stm) -> list[_Level]:
    fold = _as_fold(s)
    out: list[_Level] = []
    bound: set[Atom] = set()
    while fold is not None:
        out.append(_Level(fold))
        lam = fold.lam
        bound |= {*lam.params, *[v for x in lam.stms for v in x.pat]}
        below = lam.stms[-1] if lam.stms else None
        inner = _as_fold(below) if below is not None else None
        if below is None or inner is None or inner.width in bound or tuple(below.pat) != tuple(lam.result):
            break
        before = lam.stms[:-1]
        if not repeated(before) or any(not bound.isdisjoint(shape_of(v.type)) for v in below.pat):
            break
        if not SAME_OPERATOR(_alike(fold, inner)):
            break
        out[-1].before = [*before]
        s, fold = below, inner
    return out


def _alike(a: ir.Fused, b: ir.Fused) -> bool:
    """Whether two folds are by the same operators."""
    ops = [operators_of(f.lam) for f in a.reduces], [operators_of(f.lam) for f in b.reduces]
    neutral = [[x.value if isinstance(x, Const) else x for f in e.reduces for x in f.neutral] for e in (a, b)]
    return ops[0] == ops[1] and None not in ops[0] and neutral[0] == neutral[1]


def flat(stm: Stm) -> list[Stm] | None:
    """The statements that a fold of folds becomes; None if it is none, or of few elements."""
    levels = _levels(stm)
    widths = [level.fold.width for level in levels]
    few = 1
    for n in widths:
        few *= int(n.value) if isinstance(n, Const) else FEW + 1
    if len(levels) < 2 or few <= FEW:
        return None
    LEGAL.fired()
    b = Builder()
    total = b.size_mul(widths)
    points, at = b.let(ir.Iota(total, ZERO, ONE), "is"), Var("at", I64)
    c = Builder()
    copy = ir.Renamer()
    for level, i in zip(levels, unravelled(c, at, widths), strict=True):
        e = level.fold
        for p, a in zip(e.lam.params, e.arrays, strict=True):
            copy.mapping[p] = c.at(copy.atom(a), i, hint=p.name)
        c.extend(copy.stms(level.before if level is not levels[-1] else e.lam.stms))
    last = levels[-1].fold
    result = tuple([copy.atom(a) for a in last.lam.result])
    of, rows = last.parts(stm.pat), last.parts(result)
    flats = tuple([Var(v.name, array_of(a.type, total)) for v, a in zip(of.mapped, rows.mapped, strict=True)])
    lam = Lambda((at,), tuple(c.stms), result)
    whole = ir.Fused(total, (points,), lam, (), levels[0].fold.reduces)
    b.add(Stm((*of.folded, *flats), whole, stm.attrs))
    for v, x in zip(of.mapped, flats, strict=True):
        b.add(Stm((v,), ir.Reshape(x, shape_of(v.type))))
    return [*dead_code(Lambda((), tuple(b.stms), stm.pat))[0].stms]


def flat_inside(stm: Stm) -> list[Stm] | None:
    """The map with folds of folds in it, or in maps in it, as one each, after the sizes of these; None if there are
    none."""
    e = stm.exp
    if not isinstance(e, ir.Map):
        return None
    bound = {*e.lam.params, *[v for s in e.lam.stms for v in s.pat]}
    stms: list[Stm] = []
    sizes: list[Stm] = []
    for s in e.lam.stms:
        made = flat_inside(s) or flat(s)
        while made and isinstance(made[0].exp, ir.Op) and bound.isdisjoint(ir.stm_free(made[0])):
            sizes.append(made.pop(0))
        stms += made or [s]
    if len(stms) == len(e.lam.stms) and all(a is b for a, b in zip(stms, e.lam.stms, strict=True)):
        return None
    lam = Lambda(e.lam.params, tuple(stms), e.lam.result)
    return [*sizes, Stm(stm.pat, ir.Map(e.width, e.arrays, lam), stm.attrs)]


__all__ = ["flat", "flat_inside"]
