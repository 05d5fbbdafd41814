"""Whether a value that is needed again is kept or computed again: the one place that decides.

A value that is kept costs a store and a load (`Target.store`, `Target.load`), one that is computed again its operations
(`core/scalarops.py`).  Besides there must be room for it.

Note [Iterations]
What an iteration of a forward sweep computes is kept for the return sweep, if computing it takes what a store and a
load cost for each number.  Memory may grow by a factor of `MOST` of what there is of the same sizes: what iterations
save of the loop variables anyway, and, for scalars, an array of the loop's size inside another loop, whose iterations
use it again.  (For an outermost loop it would be added to the largest arrays there are: of scalars there it is as much
as caches hold.)  In a map that few threads do, too, each uses its memory again.

    value                                   for              room
    products of saved loop variables        all              as many rows as saved: always
    costly scalars of maps                  all              MOST times the saved rows of that width; outermost: cached
    what loops inside save                  few threads      MOST times the largest saved row
    costly scalars of the iteration         few threads      MOST times the saved variables, inside a loop or map
    folds of rows, and what they make       few threads      MOST times the loop variables of the same sizes
    what neighbours in saved rows make      few threads      that of these rows, which are not saved then

A budget counts what is saved, so loops that have one are not noted (`core/sweeps.py`).

Note [Elements]
Maps hand elements to one another as arrays where that costs less than computing them again.  In a loop's iteration
these lie in a near cache from one map to the next.  Outside of loops there are no more arrays than before, unless they
are known to be small: they may be as large as memory is.  Devices hand on nothing that they do not already, and
compute again what is a cheap function of one other array.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from futad.core import ir
from futad.core.scalarops import OPS
from futad.core.types import Atom, Const
from futad.target import Target

MOST = 8  # times as much memory as there is
GAIN = 2  # least that another choice of elements has to spare, unless it spares an array


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept on a target, of what is `inside` a loop, or `mapped`: inside a map."""

    target: Target
    inside: bool = False
    mapped: bool = False

    def within(self, e: ir.Exp, loop: bool) -> Policy:
        """In the scopes of a statement; `loop`: whether it is one."""
        inside, mapped = self.inside or loop, self.mapped or isinstance(e, ir.Mapping)
        return self if (inside, mapped) == (self.inside, self.mapped) else replace(self, inside=inside, mapped=mapped)

    # -- iterations (Note [Iterations])

    @property
    def dear(self) -> int:
        """What a value has to cost that is kept: a store, and a load."""
        return self.target.load + self.target.store

    def saves(self, cost: int, saved: int, room: int) -> bool:
        """Whether to save so many values, each of which takes operations of this cost to compute again, where there are
        `room` already."""
        return 0 < saved <= MOST * room and cost >= self.dear

    def costly(self, e: ir.Exp) -> bool:
        """Whether it is an operation that a value is rather saved of."""
        return type(e) is ir.Op and not OPS[e.op].can_fail and OPS[e.op].cost >= self.dear

    def caches(self, size: int | None, taken: int) -> bool:
        """Whether so many bytes of scalars of all iterations (None: not known) may be saved beside those taken."""
        return self.inside or size is not None and taken + size <= self.target.cached

    @property
    def more_kinds(self) -> bool:
        """Whether to save folds of rows, and what loops inside an iteration save."""
        return self.target.few

    @property
    def own_scalars(self) -> bool:
        """Whether to save scalars of the iterations themselves."""
        return self.target.few and (self.inside or self.mapped)

    # -- elements (Note [Elements])

    @property
    def adds_arrays(self) -> bool:
        """Whether maps may hand on elements that no array has."""
        return self.target.code == "c"

    def again(self, stms: Iterable[ir.Stm]) -> bool:
        """Whether elements are computed again by these operations."""
        return sum([OPS[s.exp.op].cost for s in stms if type(s.exp) is ir.Op]) < self.dear

    def other(self, old: int, new: int, spares: bool) -> bool:
        """Whether a choice of elements of the cost `new` takes the place of one of `old`; `spares`: an array, too."""
        return new <= old - (1 if spares else GAIN)

    def more_arrays(self, sizes: Iterable[Atom]) -> bool:
        """Whether there may be more arrays of these sizes than before."""
        size = 8
        for n in sizes:
            size *= n.value if isinstance(n, Const) else self.target.small
        return self.inside or size <= self.target.small


__all__ = ["MOST", "Policy"]
