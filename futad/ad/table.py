"""The table of differentiation rules: one record per construct, filled by scalar, array, soac, loop, acc."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir
from futad.errors import InternalError

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope


@dataclass(slots=True)
class Rule:
    """How a construct is differentiated.

    `jvp(t, stm)` emits the statement and its tangents'.  `vjp(s, stm, emitted)` emits return-sweep code
    that adds to the adjoints of the operands; `emitted` is the statement as it stands in the scope's
    forward sweep (without accumulators), which a rule may replace by one that saves more.
    """

    jvp: Callable[[Tangents, ir.Stm], None]
    vjp: Callable[[Scope, ir.Stm, ir.Stm], None]


RULES: dict[type, Rule] = {}


def rule_of(exp: ir.Exp) -> Rule:
    """The rule of a node's class.

    Raises InternalError for `Jvp`, `Vjp` and `WithInverse`, which earlier steps have removed.
    """
    found = RULES.get(type(exp))
    if found is None:
        raise InternalError(f"no derivative rule for {type(exp).__name__}")
    return found
