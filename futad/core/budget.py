"""What reverse mode may keep of loops between its two sweeps.

A budget is an attribute of the statement that it is for, ("checkpoint", (name, value), ...): of a derivative, for all
of its loops, or of a loop.  So it is printed, parsed and part of a program's key like everything else of a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

ATTRIBUTE = "checkpoint"


@dataclass(frozen=True, slots=True)
class Budget:
    """At most one of `memory`, `checkpoints` and `reruns` is given.

    `memory`: bytes that a loop keeps.  `checkpoints`: states that it keeps beside the first one; "log": as many as
    times that an iteration is run again.  `reruns`: how often an iteration may be run.  `method`: where a stretch
    between two states is split: where the fewest reruns follow, or in the middle.  `reversible`: whether iterations may
    be undone; with round-off up to a tolerance (True: 1e-8, 1e-3 for f32), or exactly by the bits that are lost; None
    leaves it to the compiler.  `nest`: whether loops inside one another, or one after the other, are split as one.
    """

    memory: int | None = None
    checkpoints: int | Literal["log"] | None = None
    reruns: int | None = None
    method: Literal["binomial", "bisection"] = "binomial"
    reversible: bool | float | Literal["exact"] | None = None
    nest: bool = True

    @property
    def limits(self) -> bool:
        """Whether it says how much may be kept."""
        return not (self.memory is None and self.checkpoints is None and self.reruns is None)

    def attribute(self) -> tuple[Any, ...]:
        """As an attribute of a statement, of values that text has."""
        given = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return (ATTRIBUTE, *given)

    @staticmethod
    def of(attrs: Sequence[Any]) -> Budget | None:
        """The budget among a statement's attributes."""
        found = next((a for a in attrs if isinstance(a, tuple) and a[0] == ATTRIBUTE), None)
        return None if found is None else Budget(**dict(found[1:]))
