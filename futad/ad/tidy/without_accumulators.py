"""Statements without the accumulators of an enclosing scope.

The return sweep re-executes forward statements for their values.  Accumulators have none, and are linear,
so re-execution leaves them out: updates vanish, maps, branches and loops that thread them lose them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.core import ir
from futad.core.types import Atom, Var


def strip_stm(stm: ir.Stm, dead: set[Var]) -> ir.Stm | None:
    """A copy of the statement without the accumulators in `dead` (None if nothing remains).

    The successors of dead accumulators that it binds join `dead`.
    """
    if not dead or dead.isdisjoint(ir.stm_free(stm)):
        return ir.Stm(stm.pat, stm.exp, stm.attrs)
    exp, results = _strip(stm.exp, dead)
    gone = [_dead(r, dead) for r in results]
    dead.update(v for v, g in zip(stm.pat, gone, strict=True) if g)
    pat = tuple([v for v, g in zip(stm.pat, gone, strict=True) if not g])
    return ir.Stm(pat, exp, stm.attrs) if exp is not None and pat else None


def _dead(a: Atom, dead: set[Var]) -> bool:
    return type(a) is Var and a in dead


def _keep(atoms: ir.Atoms, dead: set[Var]) -> ir.Atoms:
    return tuple([a for a in atoms if not _dead(a, dead)])


def _lambda(lam: ir.Lambda, args: Sequence[Atom | None], dead: set[Var]) -> ir.Lambda:
    dead.update(p for p, a in zip(lam.params, args, strict=True) if a is not None and _dead(a, dead))
    stms = tuple([kept for s in lam.stms if (kept := strip_stm(s, dead)) is not None])
    return ir.Lambda(tuple([p for p in lam.params if p not in dead]), stms, _keep(lam.result, dead))


def _strip(e: Any, dead: set[Var]) -> tuple[ir.Exp | None, ir.Atoms]:
    """The stripped expression (None: nothing left) and atoms that tell which results are dead."""
    match e:
        case ir.UpdateAcc():
            return None, (e.acc,)
        case ir.Alias():
            return None, (e.atom,)
        case ir.Mapping():
            return e.over(_keep(e.arrays, dead), _lambda(e.lam, e.arrays, dead)), e.lam.result
        case ir.If():
            then, orelse = _lambda(e.then, (), dead), _lambda(e.orelse, (), dead)
            return ir.If(e.cond, then, orelse), e.then.result
        case ir.Loop():
            lead = (None,) * (len(e.body.params) - len(e.inits))
            body = _lambda(e.body, (*lead, *e.inits), dead)
            return e.remade(_keep(e.inits, dead), body), e.body.result
        case _:
            assert isinstance(e, ir.WithAcc), type(e)
            lam = _lambda(e.lam, e.arrays, dead)
            k = len(e.arrays)
            return ir.WithAcc(e.arrays, e.op, lam), e.arrays + e.lam.result[k:]
