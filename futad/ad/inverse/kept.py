"""Values that an iteration has in a branch, made known after it, so that they can be saved."""

from __future__ import annotations

from collections.abc import Sequence

from futad.ad.inverse.solver import bound_in
from futad.core import ir
from futad.core.types import BOOL, FALSE, Const, Prim, Var


def exposed(stms: Sequence[ir.Stm], v: Var) -> tuple[Sequence[ir.Stm], Var]:
    """The statements, and the variable that is the scalar `v` after them; 0 or false where the branch of `v` was not
    taken.

    Where no branch binds `v` that is `v` itself.
    """
    for k, s in enumerate(stms):
        e = s.exp
        if not isinstance(e, ir.If) or v in s.pat or not any(v in bound_in(lam) for lam in e.lambdas()):
            continue
        assert isinstance(v.type, Prim)
        none = FALSE if v.type is BOOL else Const(v.type, 0)
        sides = []
        for lam in (e.then, e.orelse):
            inner, found = exposed(lam.stms, v) if v in bound_in(lam) else (lam.stms, none)
            sides.append(ir.Lambda((), tuple(inner), (*lam.result, found)))
        out = Var(v.name, v.type)
        return [*stms[:k], ir.Stm((*s.pat, out), ir.If(e.cond, *sides), s.attrs), *stms[k + 1 :]], out
    return stms, v
