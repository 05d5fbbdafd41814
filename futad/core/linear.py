"""What is used once: accumulators, outside of `WithAcc`, and records of calls.

The reverse derivative of a recursive function is two functions (`ad/calls.py`): one returns a record of what the other
needs to know, which adds to the accumulators that it is given.
"""

from __future__ import annotations

from futad.core.construct import Atoms, Exp
from futad.core.node import Range, node
from futad.core.types import Atom

Index = tuple["Atom | Range", ...]


@node
class UpdateAcc(Exp):
    """acc[index...] op= value, the index a prefix of the dimensions, value a scalar or the remaining
    row; an index out of range is ignored.  Consumes `acc`, binds its successor."""

    acc: Atom
    index: Atoms
    value: Atom
    pure = False


@node
class Part(Exp):
    """The part of an accumulator at an index in range (as in `At`), an accumulator of its own, and the rest of it.

    Updates of the part are updates of the accumulator.  Consumes `acc`; `Whole` makes one of both again.
    """

    acc: Atom
    index: Index
    pure = False


@node
class Whole(Exp):
    """The accumulator that `Part` took `part` from, with what has been added to that.  Consumes both."""

    part: Atom
    rest: Atom
    pure = False


@node
class Keep(Exp):
    """A record of the values, none of them an accumulator: for one `Kept`, which may be in another function."""

    values: Atoms
    own = True
    pure = False


@node
class Kept(Exp):
    """The values of a record, which is gone then: each is read once at most.  The pattern has their types."""

    record: Atom
    fresh = True
    pure = False
