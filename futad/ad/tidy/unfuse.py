"""`Fused` constructs taken apart into the map, scans and reductions they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.types import AccType, Atom, Var, array_of


def unfuse(lam: ir.Lambda) -> ir.Lambda:
    """The lambda with every `Fused` inside it taken apart (the same variables; a new tree)."""
    stms: list[ir.Stm] = []
    for s in lam.stms:
        exp = s.exp.rebuild(_same, unfuse) if s.exp.lambdas() else s.exp
        if isinstance(exp, ir.Fused):
            stms += _take_apart(s.pat, exp)
        else:
            stms.append(ir.Stm(s.pat, exp, s.attrs))
    return ir.Lambda(lam.params, tuple(stms), lam.result)


def _same(a: Atom) -> Atom:
    return a


def _take_apart(pat: Sequence[Var], e: ir.Fused) -> list[ir.Stm]:
    accs = sum(isinstance(r.type, AccType) for r in e.lam.result)
    folded = sum(map(len, e.scan_neutrals + e.red_neutrals))
    inputs = tuple([Var("in", array_of(r.type, e.width)) for r in e.lam.result[accs : accs + folded]])
    out = [ir.Stm((*pat[:accs], *inputs, *pat[accs + folded :]), ir.Map(e.width, e.arrays, e.lam))]
    n = 0
    for lam, neutral in zip(e.scan_lams, e.scan_neutrals, strict=True):
        k = len(neutral)
        out.append(ir.Stm(tuple(pat[accs + n : accs + n + k]), ir.Scan(e.width, inputs[n : n + k], lam, neutral)))
        n += k
    for lam, neutral, comm in zip(e.red_lams, e.red_neutrals, e.red_comms, strict=True):
        k = len(neutral)
        exp = ir.Reduce(e.width, inputs[n : n + k], lam, neutral, comm)
        out.append(ir.Stm(tuple(pat[accs + n : accs + n + k]), exp))
        n += k
    return out
