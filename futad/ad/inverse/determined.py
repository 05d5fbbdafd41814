"""Whether what a solver has found satisfies every statement of a scope, so that nothing is left to be compared.

Each statement is an equation of its operands and its results.  If every one was used once, to compute its results or to
solve for operands that then satisfy it, whatever its results are, all hold.
"""

from __future__ import annotations

from collections.abc import Collection

from futad.ad.inverse.solver import Solver
from futad.ad.tidy.live import live
from futad.core import ir
from futad.core.types import Var


def determined(s: Solver, lam: ir.Lambda) -> bool:
    """Whether `lam`, solved for its parameters by `s` of any results, gives these at what was found."""
    if any(stm.exp.effect for stm in ir.statements(lam.stms)):
        return False
    return _scope(s, set(lam.params), lam.result)


def _scope(s: Solver, unknown: Collection[Var], results: ir.Atoms) -> bool:
    """`unknown`: the variables from outside that were solved for."""
    own = all(isinstance(r, Var) and (r in s.made or r in unknown) for r in results)
    if not own or len(set(results)) < len(results):
        return False
    for stm in live(s.stms, results)[0]:
        original = s.made[stm.pat[0]]
        if original not in s.solved:
            if original not in s.forwards:
                return False
        elif original in s.forwards or not _satisfied(s, original):
            return False
    return True


def _satisfied(s: Solver, stm: ir.Stm) -> bool:
    """Whether a statement holds of what it was solved for, whatever its results are."""
    e, found = stm.exp, s.solved[stm]
    match e:
        case ir.Op():
            return e.op != "select" and not e.op.startswith("to_")
        case ir.Alias() | ir.Copy() | ir.Reshape() | ir.Rearrange() | ir.At():
            return True
        case ir.Concat():
            return found == len(e.arrays)
        case ir.ArrayLit():
            return found == len(e.elems)
        case ir.Update():
            return found == 2  # the value and the rest of the array, or a swap
        case ir.Invert():
            return found == len(e.args)
        case ir.If():
            sides = s.parts[stm]
            new = [{v for v in side.found() if v in s.visible} for side in sides]
            return new[0] == new[1] and len(new[0]) == found and all(
                _scope(side, new[0], lam.result) for side, lam in zip(sides, (e.then, e.orelse), strict=True)
            )
        case ir.Map() | ir.For() if stm in s.parts:
            side, lam = s.parts[stm][-1], e.lam if isinstance(e, ir.Map) else e.body
            every = isinstance(e, ir.Map) or len(side.open) == len(e.inits)
            inside = not any(v in s.visible for v in side.found())
            return every and inside and len(side.open) == found and _scope(side, side.open, lam.result)
    return False
