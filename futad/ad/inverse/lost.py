"""Why an iteration cannot be undone: the variable that is lost, and the statement that loses it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from futad.ad.inverse.returned import place_of
from futad.ad.inverse.solver import Solver, believed, rounds
from futad.core import ir
from futad.core.text import exp_text
from futad.core.types import Var
from futad.errors import UnsupportedError


def lost(s: Solver, own: Sequence[Var], which: Sequence[int]) -> UnsupportedError:
    """The error for a loop whose variables `which` `s` has not found, though it was told all results."""
    x = next((own[q] for q in which if own[q] not in s.known), own[which[0]])
    stm = _losing(s, x)
    place = None if stm is None else place_of((stm,))
    return UnsupportedError(
        f"the loop cannot be run backwards: {_reason(x, stm)}", place, hint="without #[reversible] its values are kept"
    )


def reason(s: Solver, x: Var) -> str:
    """Why `s` has not found `x`, though it was told all results."""
    stm = _losing(s, x)
    if stm is not None and not s.rounding and (not stm.exp.lambdas() or believed(stm)) and rounds(stm):
        return f"'{x.name}' comes back with round-off, which only reversible= allows"
    return _reason(x, stm)


def _losing(s: Solver, x: Var) -> ir.Stm | None:
    """The statement whose results are known, but not what of `x` goes into it; None if nothing follows of `x`."""
    from_x = {x}
    for stm in s.stms:
        if stm.pat and not from_x.isdisjoint(ir.stm_free(stm)):
            if all(v in s.known for v in stm.pat):
                return stm
            from_x.update(v for v in stm.pat if v not in s.known)
    return None


def _reason(x: Var, stm: ir.Stm | None) -> str:
    if stm is None:
        return f"nothing of '{x.name}' is left after an iteration"
    e = stm.exp  # variables as the source has them; of a construct its name
    name = "with_inverse" if isinstance(e, ir.WithInverse) else type(e).__name__.lower()
    shown = f"{name}(...)" if e.lambdas() else re.sub(r"_\d+\b", "", exp_text(e))
    return f"'{x.name}' does not follow from '{stm.pat[0].name}' = {shown}"
