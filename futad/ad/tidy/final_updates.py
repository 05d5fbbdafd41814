"""Statements of a return sweep without the updates of arrays that are known already.

The array of a loop whose variable stays (see `dependence.py`) is read, in the return sweep, from the loop's result.
Re-executing its updates would change nothing: they vanish, and branches and loops that hand the array on lose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from futad.ad.tidy.take_back import substitute
from futad.core import ir
from futad.core.types import Atom, Var

T = TypeVar("T")


def drop_final_updates(stm: ir.Stm, final: dict[Var, Atom]) -> ir.Stm | None:
    """A copy of the statement without the arrays in `final` (None if nothing remains).

    `final` maps the arrays that have vanished to what holds their elements; their successors join it.
    """
    e = stm.exp
    if not final or final.keys().isdisjoint(ir.stm_free(stm)):
        return stm
    match e:
        case ir.Update() if e.array in final:
            final[stm.pat[0]] = final[e.array]
            return None
        case ir.Alias(a) | ir.Copy(a) if a in final:
            # A copy is never read after it or the array has changed.
            final[stm.pat[0]] = final[a]
            return None
        case ir.If():
            sides = [_scope(lam, final) for lam in (e.then, e.orelse)]
            gone = [_gone(a, final) and _gone(c, final) for a, c in zip(e.then.result, e.orelse.result, strict=True)]
            for v, a, g in zip(stm.pat, e.then.result, gone, strict=True):
                if g and isinstance(a, Var):
                    final[v] = final[a]
            then, orelse = (ir.Lambda((), lam.stms, _kept(lam.result, gone)) for lam in sides)
            new: ir.Exp = ir.If(e.cond, then, orelse)
        case ir.Loop():
            own = e.variables
            gone = [_gone(a, final) for a in e.inits]
            for x, v, a, g in zip(own, stm.pat, e.inits, gone, strict=True):
                if g and isinstance(a, Var):
                    final[x] = final[v] = final[a]
            body = _scope(e.body, final)
            assert all(not g or _gone(r, final) for r, g in zip(e.body.result, gone, strict=True))
            lead = body.params[: len(body.params) - len(own)]
            body = ir.Lambda((*lead, *_kept(own, gone)), body.stms, _kept(body.result, gone))
            inits = _kept(e.inits, gone)
            new = e.remade(inits, body)
        case _:
            return substitute(stm, final)
    pat = _kept(stm.pat, gone)
    return substitute(ir.Stm(pat, new, stm.attrs), final) if pat else None


def _gone(a: Atom, final: dict[Var, Atom]) -> bool:
    return isinstance(a, Var) and a in final


def _kept(xs: Sequence[T], gone: Sequence[bool]) -> tuple[T, ...]:
    return tuple([x for x, g in zip(xs, gone, strict=True) if not g])


def _scope(lam: ir.Lambda, final: dict[Var, Atom]) -> ir.Lambda:
    """The scope without updates of the arrays (its result as it was)."""
    stms = [kept for s in lam.stms if (kept := drop_final_updates(s, final)) is not None]
    return ir.Lambda(lam.params, tuple(stms), lam.result)
