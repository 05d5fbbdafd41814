"""Before reverse mode, for code that runs on one thread or few: reductions and scans without a cheap rule as loops.

The rule for any operator, whose steps are all independent, scans from both sides and differentiates the operator twice
an element; the tree for scans over arrays does yet more.  A loop keeps what each iteration started from and
differentiates the operator once.
"""

from __future__ import annotations

from futad.ad.activity import propagate
from futad.ad.operators import canonical, ruled, split_operator
from futad.core import ir
from futad.core.operator import row_operator
from futad.core.types import Var
from futad.optimise.sequential import as_loop


def folds_as_loops(lam: ir.Lambda) -> ir.Lambda:
    """The function to be differentiated in all parameters, with loops for what it folds by operators of its own."""
    active = set(lam.params)
    propagate(lam.stms, active)
    return _scope(lam, active)


def _scope(lam: ir.Lambda, active: set[Var]) -> ir.Lambda:
    out: list[ir.Stm] = []
    for s in lam.stms:
        if s.exp.lambdas():
            s = ir.Stm(s.pat, s.exp.rebuild(lambda a: a, lambda f: _scope(f, active)), s.attrs)
        out += _parts(s, s.exp, active) if isinstance(s.exp, ir.Reduce | ir.Scan) else [s]
    return ir.Lambda(lam.params, tuple(out), lam.result)


def _parts(s: ir.Stm, e: ir.Reduce | ir.Scan, active: set[Var]) -> list[ir.Stm]:
    """The statement, or one for each independent part of its operator if one of them is to be a loop."""
    out: list[ir.Stm] = []
    loops = False
    for part, op in split_operator(canonical(e.lam)):
        arrays, neutral = tuple([e.arrays[i] for i in part]), tuple([e.neutral[i] for i in part])
        exp: ir.Exp = (
            ir.Reduce(e.width, arrays, ir.rename(op), neutral, e.comm)
            if isinstance(e, ir.Reduce)
            else ir.Scan(e.width, arrays, ir.rename(op), neutral)
        )
        one = ir.Stm(tuple([s.pat[i] for i in part]), exp, s.attrs)
        # A neutral element takes no adjoint; what a loop starts from would.
        if active.isdisjoint(one.pat) or not active.isdisjoint(neutral) or _has_rule(op, exp):
            out.append(one)
        else:
            out += as_loop(one)
            loops = True
    return out if loops else [s]


def _has_rule(op: ir.Lambda, e: ir.Exp) -> bool:
    """Whether the fold by this operator, or that of each column by its operator, has a rule of its own."""
    while (row := row_operator(op)) is not None:
        op = row.lam
    name = ruled(op)
    if isinstance(e, ir.Scan):
        return name == "add"
    return name is not None
