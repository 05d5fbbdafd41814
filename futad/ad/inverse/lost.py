"""Why an iteration cannot be undone: the variable that is lost, and the statement that loses it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from futad.ad.inverse.solver import Solver, believed, rounds
from futad.core import ir
from futad.core.budget import place_among
from futad.core.text import exp_text
from futad.core.types import Atom, Var
from futad.errors import Span, UnsupportedError

TEMPORARY = "t"  # what `Builder.op` names a result that has no name


def lost(s: Solver, own: Sequence[Var], which: Sequence[int], result: ir.Atoms, loop: Span | None) -> UnsupportedError:
    """The error for a loop, at the place `loop`, whose variables `which` `s` has not found, though it was told the
    results of the body, `result`."""
    text, place = _first(s, own, which, result)
    hint = "without #[reversible] its values are kept"
    return UnsupportedError(f"the loop cannot be run backwards: {text}", place or loop, hint=hint)


def not_inverted(s: Solver, lam: ir.Lambda, which: Sequence[int], place: Span | None) -> UnsupportedError:
    """The error for `invert`, at that `place`, of a function of whose parameters `s` has not found `which`."""
    text, at = _first(s, lam.params, which, lam.result)
    hint = "with_inverse gives a function an inverse of its own"
    return UnsupportedError(f"the function cannot be inverted: {text}", at or place, hint=hint)


def reason(s: Solver, x: Var, result: Atom) -> str:
    """Why `s` has not found `x`, though it was told all results; `result` is what becomes of `x`."""
    s, x, stm = _inmost(s, x, _losing(s, x, result))
    if stm is not None and not s.rounding and (not stm.exp.lambdas() or believed(stm)) and rounds(stm):
        return f"'{x.name}' comes back with round-off, which only reversible= allows"
    return _reason(s, x, stm)


def _first(s: Solver, own: Sequence[Var], which: Sequence[int], result: ir.Atoms) -> tuple[str, Span | None]:
    """Why the first of the variables `which` that `s` has not found is lost, and where."""
    k = next((q for q in which if own[q] not in s.known), which[0])
    of = result[k] if k < len(result) else own[k]
    s, x, stm = _inmost(s, own[k], _losing(s, own[k], of))
    return _reason(s, x, stm), None if stm is None else place_among((stm,))


def _inmost(s: Solver, x: Var, stm: ir.Stm | None) -> tuple[Solver, Var, ir.Stm | None]:
    """The statement inside the one that loses `x` of `s` which loses what becomes of it there, and its scope."""
    if stm is None:
        return s, x, stm
    for side, lam in zip(s.parts.get(stm, ()), stm.exp.lambdas(), strict=False):
        outer = [v for v in lam.free() if v in s.inside and v not in s.known]
        for y in (*lam.params, *outer):
            result = next((r for p, r in zip(lam.params[-len(lam.result) :], lam.result, strict=False) if p is y), x)
            inner = _losing(side, y, result) if y not in side.known else None
            if inner is not None:
                return _inmost(side, y, inner)
    return s, x, stm


def _losing(s: Solver, x: Var, result: Atom) -> ir.Stm | None:
    """A statement whose results are known, but not what of `x` goes into it: the one that makes `result`, or another;
    None if nothing follows of `x`."""
    from_x = {x}
    found: list[ir.Stm] = []
    for stm in s.stms:
        if stm.pat and not from_x.isdisjoint(ir.stm_free(stm)):
            results = stm.pat[1:] if isinstance(stm.exp, ir.While) else stm.pat  # the first says whether it goes on
            if result in stm.pat or all(v in s.known for v in results):
                found.append(stm)
            from_x.update(v for v in stm.pat if v not in s.known)
    return next((stm for stm in found if result in stm.pat), found[0] if found else None)


def _reason(s: Solver, x: Var, stm: ir.Stm | None) -> str:
    if stm is None:
        return f"nothing of '{x.name}' is left"
    e = stm.exp
    name = "with_inverse" if isinstance(e, ir.WithInverse) else type(e).__name__.lower()
    shown = f"{name}(...)" if e.lambdas() else _words(s, e)
    named = "" if stm.pat[0].name == TEMPORARY else f"'{stm.pat[0].name}' = "
    cond = e.cond if isinstance(e, ir.If) else e.args[0] if isinstance(e, ir.Op) and e.op == "select" else None
    unknown = isinstance(cond, Var) and s.value(cond) is None
    if not unknown:
        return f"'{x.name}' does not follow from {named}{shown}"
    made = s.defined(cond, ir.Op) if isinstance(cond, Var) else None
    test = f"'{cond}'" if made is None else _words(s, made)
    return f"'{x.name}' does not follow from {named}{shown}, as nothing tells whether {test}"


def _words(s: Solver, e: ir.Exp, deep: int = 3) -> str:
    """The expression with variables as the source has them, and what operations without a name there are of."""
    text = exp_text(e)
    for a in e.operands():
        inner = s.defined(a, ir.Op) if isinstance(a, Var) and a.name == TEMPORARY and deep else None
        if inner is not None:
            text = _words(s, inner, deep - 1).join(re.split(rf"\b{re.escape(str(a))}\b", text))
    return re.sub(r"_\d+\b", "", text)
