"""How many iterations the `while` loops in a loop's body take, saved for the return sweep, which need not count again.

In the return sweep an iteration is a copy of the loop's body, a branch in it a copy of that copy; what the number is
saved of is the loop in the forward sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from futad.ad.history.save import Saver, Ways
from futad.ad.inverse.iteration import bytes_of
from futad.core import ir
from futad.core.types import I64, Var


@dataclass(slots=True)
class Counts:
    """`origins`: the variables of the forward sweep by those of the copies; `asked`, by the first result of a `while`
    loop in a copy: the variable that is to have its number; `arrays`: by these variables, what has it for each
    iteration."""

    origins: dict[Var, Var] = field(default_factory=dict)
    asked: dict[Var, Var] = field(default_factory=dict)
    arrays: dict[Var, Var] = field(default_factory=dict)

    def of(self, stm: ir.Stm) -> Var | None:
        """The number of iterations of a `while` loop in a copy, if it can be saved."""
        if stm.pat[0] not in self.origins:
            return None
        return self.asked.setdefault(stm.pat[0], Var("iterations", I64))

    def copied(self, names: Mapping[Var, Var]) -> None:
        """A scope of a copy is copied: its variables by those of its own copy."""
        self.origins.update((new, self.origins[old]) for new, old in names.items() if old in self.origins)

    def pay(self, ways: Ways, own: Sequence[Var]) -> bool:
        """Whether those that are asked for take no more memory than what is saved of the loop's variables `own`."""
        return len(self.asked) * I64.bytes <= sum(map(bytes_of, ways.rows(own)))

    def save(self, saver: Saver, names: Mapping[Var, Var] = {}) -> None:
        """Save those that are asked for; `names`: the variables of the saver's loop, if it is a copy."""
        for p, count in self.asked.items():
            origin = self.origins[p]
            self.arrays[count] = saver.counts(names.get(origin, origin))


__all__ = ["Counts"]
