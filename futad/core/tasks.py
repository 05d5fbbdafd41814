"""Tasks: two pieces of code that may run at once."""

from __future__ import annotations

from futad.core.construct import Control, Lambda
from futad.core.node import Repeated, node


@node
class Par(Control):
    """The results of `first`, then those of `second` (lambdas without parameters), which may run at the same time.

    Neither overwrites an array from outside: the other one may be reading it.  So they count as scopes that run several
    times, though each runs once.  If both fail it is the failure of the first.  Each adds to accumulators from outside
    that the other one does not, but that may be parts of the same array (`Part`): in which order that is added up to
    which sums is open.
    """

    first: Repeated[Lambda]
    second: Repeated[Lambda]


__all__ = ["Par"]
