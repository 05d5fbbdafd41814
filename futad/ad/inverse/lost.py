"""Why an iteration cannot be undone: the variable that is lost, and the statement that loses it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from futad.ad.inverse.returned import place_of
from futad.ad.inverse.solver import Solver, believed, rounds
from futad.core import ir
from futad.core.text import exp_text
from futad.core.types import Atom, Var
from futad.errors import Span, UnsupportedError

TEMPORARY = "t"  # what `Builder.op` names a result that has no name


def lost(s: Solver, own: Sequence[Var], which: Sequence[int], result: ir.Atoms, loop: Span | None) -> UnsupportedError:
    """The error for a loop, at the place `loop`, whose variables `which` `s` has not found, though it was told the
    results of the body, `result`."""
    k = next((q for q in which if own[q] not in s.known), which[0])
    x = own[k]
    stm = _losing(s, x, result[k])
    place = None if stm is None else place_of((stm,))
    message = f"the loop cannot be run backwards: {_reason(s, x, stm)}"
    return UnsupportedError(message, place or loop, hint="without #[reversible] its values are kept")


def reason(s: Solver, x: Var, result: Atom) -> str:
    """Why `s` has not found `x`, though it was told all results; `result` is what becomes of `x`."""
    stm = _losing(s, x, result)
    if stm is not None and not s.rounding and (not stm.exp.lambdas() or believed(stm)) and rounds(stm):
        return f"'{x.name}' comes back with round-off, which only reversible= allows"
    return _reason(s, x, stm)


def _losing(s: Solver, x: Var, result: Atom) -> ir.Stm | None:
    """A statement whose results are known, but not what of `x` goes into it: the one that makes `result`, or another;
    None if nothing follows of `x`."""
    from_x = {x}
    found: list[ir.Stm] = []
    for stm in s.stms:
        if stm.pat and not from_x.isdisjoint(ir.stm_free(stm)):
            if result in stm.pat or all(v in s.known for v in stm.pat):
                found.append(stm)
            from_x.update(v for v in stm.pat if v not in s.known)
    return next((stm for stm in found if result in stm.pat), found[0] if found else None)


def _reason(s: Solver, x: Var, stm: ir.Stm | None) -> str:
    if stm is None:
        return f"nothing of '{x.name}' is left after an iteration"
    e = stm.exp
    name = "with_inverse" if isinstance(e, ir.WithInverse) else type(e).__name__.lower()
    shown = f"{name}(...)" if e.lambdas() else _words(s, e)
    named = "" if stm.pat[0].name == TEMPORARY else f"'{stm.pat[0].name}' = "
    return f"'{x.name}' does not follow from {named}{shown}"


def _words(s: Solver, e: ir.Exp, deep: int = 3) -> str:
    """The expression with variables as the source has them, and what operations without a name there are of."""
    text = exp_text(e)
    for a in e.operands():
        inner = s.defined(a, ir.Op) if isinstance(a, Var) and a.name == TEMPORARY and deep else None
        if inner is not None:
            text = _words(s, inner, deep - 1).join(re.split(rf"\b{re.escape(str(a))}\b", text))
    return re.sub(r"_\d+\b", "", text)
