"""Why an iteration cannot be undone: the variable that is lost, and the statement that loses it."""

from __future__ import annotations

from collections.abc import Sequence

from futad.ad.inverse.solver import Solver
from futad.core import ir
from futad.core.text import exp_text
from futad.core.types import Var
from futad.errors import UnsupportedError


def lost(s: Solver, own: Sequence[Var], which: Sequence[int]) -> UnsupportedError:
    """The error for a loop whose variables `which` `s` has not found, though it was told all results."""
    x = next((own[q] for q in which if own[q] not in s.known), own[which[0]])
    from_x = {x}
    for stm in s.stms:
        if stm.pat and not from_x.isdisjoint(ir.stm_free(stm)):
            if all(v in s.known for v in stm.pat):
                return _error(x, stm)
            from_x.update(v for v in stm.pat if v not in s.known)
    return _error(x, None)


def _error(x: Var, stm: ir.Stm | None) -> UnsupportedError:
    if stm is None:
        return UnsupportedError(
            f"the loop cannot be run backwards: nothing of '{x.name}' is left after an iteration",
            hint="without #[reversible] its values are kept",
        )
    e = stm.exp
    place = e.check if isinstance(e, ir.At | ir.Update) else e.place if isinstance(e, ir.Op) else None
    return UnsupportedError(
        f"the loop cannot be run backwards: '{x.name}' does not follow from '{stm.pat[0].name}' = {exp_text(e)}",
        place,
        hint="without #[reversible] its values are kept",
    )
