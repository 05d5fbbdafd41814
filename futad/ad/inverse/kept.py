"""Values that an iteration has in a branch, made known after it, so that they can be saved."""

from __future__ import annotations

from collections.abc import Sequence

from futad.ad.inverse.solver import bound_in
from futad.core import ir
from futad.core.types import BOOL, FALSE, I64, ONE, ZERO, Const, Prim, Var


def exposed(stms: Sequence[ir.Stm], v: Var, loop: Var | None = None) -> tuple[Sequence[ir.Stm], Var]:
    """The statements, and the variable that is the scalar `v` after them; 0 or false where the branch of `v` was not
    taken.

    Where no branch binds `v` that is `v` itself.  With `loop`, the first variable that a `while` loop binds, `v` is the
    number of its iterations: one more variable of the loop.
    """
    of = loop or v
    for k, s in enumerate(stms):
        e = s.exp
        if isinstance(e, ir.While) and of is loop and of in s.pat:
            counted, out = _counted(s, e)
            return [*stms[:k], counted, *stms[k + 1 :]], out
        if not isinstance(e, ir.If) or of in s.pat or not any(of in bound_in(lam) for lam in e.lambdas()):
            continue
        assert isinstance(v.type, Prim)
        none = FALSE if v.type is BOOL else Const(v.type, 0)
        sides = []
        for lam in (e.then, e.orelse):
            inner, found = exposed(lam.stms, v, loop) if of in bound_in(lam) else (lam.stms, none)
            sides.append(ir.Lambda((), tuple(inner), (*lam.result, found)))
        out = Var(v.name, v.type)
        return [*stms[:k], ir.Stm((*s.pat, out), ir.If(e.cond, *sides), s.attrs), *stms[k + 1 :]], out
    return stms, v


def _counted(s: ir.Stm, e: ir.While) -> tuple[ir.Stm, Var]:
    """The loop with one more variable, the number of its iterations, and what that is after it."""
    before, after, out = Var("count", I64), Var("count", I64), Var("count", I64)
    more = ir.Stm((after,), ir.Op("add", (before, ONE)))
    body = ir.Lambda((*e.body.params, before), (*e.body.stms, more), (*e.body.result, after))
    return ir.Stm((*s.pat, out), ir.While((*e.inits, ZERO), body), s.attrs), out
