"""Which loops of a function belong to its spine.

The spine are the loops that reverse mode has to run backwards and that are outside of second-order constructs, with the
branches that such loops are in.  A loop of constant length that has none of them inside takes a bounded part of the
memory, so it belongs to what is around it: inside another loop, or if it is short.  Loops that carry accumulators are
inside the construct that opens these, and belong to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from futad.ad.activity import propagate
from futad.core import ir
from futad.core.types import Const
from futad.legality import Legality

SHORT = 16  # iterations of a loop that is not split
OWN_WAY = ("stripmine", "bound", "true_dep", "unroll", "checkpoint")  # attributes that say what becomes of a loop

LEGAL = Legality(
    "spine",
    "nested and successive loops become one loop over a program counter",
    worth="the gradient of adaptive.fut, 403 by 201 states of 1,000 numbers: the process grows by 1.5 MB in place of "
    "3.1, with less time (17 ms, 19): `benchmarks/memory.py adaptive`, FUTAD_MUTANT=spine",
)
PLAIN = LEGAL.condition("no attributes of its own", "the check of the loop's bound, or what it is to keep, is lost")


class Spine:
    """The spine of a function that is differentiated in all of its parameters."""

    def __init__(self, lam: ir.Lambda) -> None:
        self.active = set(lam.params)
        propagate(lam.stms, self.active)
        self.loops: set[ir.Stm] = set()
        self.branches: set[ir.Stm] = set()
        self.nested = False
        self.length = self._scope(lam.stms, False)

    @property
    def several(self) -> bool:
        """Whether a loop of it is inside another one, or follows one."""
        return self.nested or self.length > 1

    def inside(self, stm: ir.Stm) -> bool:
        """Whether the loop has others of the spine in it."""
        return _any(stm.exp.lambdas(), self.loops)

    def _scope(self, stms: Iterable[ir.Stm], inside: bool) -> int:
        """Find the loops among the statements, `inside` a loop; how many of them run one after the other."""
        found = 0
        for s in stms:
            e = s.exp
            if isinstance(e, ir.If):
                sides = [self._scope(lam.stms, inside) for lam in (e.then, e.orelse)]
                if any(sides):
                    self.branches.add(s)
                    found += max(sides)
            elif isinstance(e, ir.Loop) and self._may(s):
                inner = self._scope(e.body.stms, True)
                constant = isinstance(e, ir.For) and isinstance(e.bound, Const) and (inside or e.bound.value <= SHORT)
                if inner or not constant:
                    self.nested = self.nested or inner > 0
                    self.loops.add(s)
                    found += 1
        return found

    def _may(self, s: ir.Stm) -> bool:
        attrs = {a[0] for a in s.attrs if isinstance(a, tuple) and a}
        return not self.active.isdisjoint(s.pat) and PLAIN(attrs.isdisjoint(OWN_WAY))


def _any(scopes: Sequence[ir.Lambda], loops: set[ir.Stm]) -> bool:
    return any(s in loops for lam in scopes for s in ir.statements(lam.stms))


__all__ = ["LEGAL", "Spine"]
