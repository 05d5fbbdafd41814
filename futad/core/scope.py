"""Facts of a scope's statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from futad.core import ir
from futad.core.types import Atom, Var


def uses_in(stms: Sequence[ir.Stm], result: Sequence[Atom] = ()) -> Counter[Atom]:
    """How many of the statements use each variable, and how many of the results are it."""
    used: list[Atom] = []
    for s in stms:
        used += ir.stm_free(s)
    used += [a for a in result if type(a) is Var]
    return Counter(used)


__all__ = ["uses_in"]
