"""`Fused` constructs taken apart into the map, scans and reductions they stand for."""

from __future__ import annotations

from futad.core import ir
from futad.core.types import Atom


def unfuse(lam: ir.Lambda) -> ir.Lambda:
    """The lambda with every `Fused` inside it taken apart (the same variables; a new tree)."""
    stms: list[ir.Stm] = []
    for s in lam.stms:
        exp = s.exp.rebuild(_same, unfuse) if s.exp.lambdas() else s.exp
        if isinstance(exp, ir.Fused):
            stms += ir.unfused(ir.Stm(s.pat, exp), "in")
        else:
            stms.append(ir.Stm(s.pat, exp, s.attrs))
    return ir.Lambda(lam.params, tuple(stms), lam.result)


def _same(a: Atom) -> Atom:
    return a
