"""What the values of a program are while its data are split along a size n, and when splitting is legal.

A shard is a range of the n.  Between two combinations lie the phases, counted from 0; what is computed between phases
is computed once, by whoever calls: step k runs before phase k.

    replicated    the same in all shards; known from step `level` on
    sharded       each shard has its part of dimension `dim`; made in phase `level`
    partial       combining what all shards have, by `how`, gives the value; made in phase `level`, and known to step
                  `level` + 1

That the parts of a fold combine by its own operator follows from this being associative, with its neutral element, as
the language demands of `reduce` and `hist`; so a shard without elements is legal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from futad.core import ir
from futad.core.types import BOOL, Type, elem_of
from futad.legality import Legality

LEGAL = Legality("split", "value and gradient of the whole data are combined from those of shards of it", fires=False)
OWN_ROWS = LEGAL.condition("rows of one shard", "rows are read that another shard has")
NO_ORDER = LEGAL.condition("no order along the size", "a shard's elements are put after those of others")
SIZE_KEPT = LEGAL.condition("size kept", "an array's shape no longer tells which part of it is a shard's")
COMBINED_BEFORE = LEGAL.condition("combined before use", "what is only part of a sum is taken for the sum")
ADDED_IN_PARTS = LEGAL.condition("added in parts", "what each shard adds is not its part of the whole")


@dataclass(frozen=True, slots=True)
class How:
    """How partial values are combined: element by element by the scalar operation `op`; by `fold`, of whose values this
    one is number `index`; or, without either, they are all the same."""

    op: str = ""
    fold: ir.Fold | None = None
    group: tuple[ir.Atom, ...] = ()
    index: int = 0
    depth: int = 0  # the operator is mapped over so many dimensions

    def __str__(self) -> str:
        return self.op or ("the program's operator" if self.fold is not None else "any")


SAME = How()


def adding(t: Type) -> How:
    """Addition of values of that type, which is `or` of bools."""
    return How("or" if elem_of(t) is BOOL else "add")


class Replicated(NamedTuple):
    level: int


class Sharded(NamedTuple):
    level: int
    dim: int


class Partial(NamedTuple):
    level: int
    how: How


class Accumulator(NamedTuple):
    """Of a partial array: what is added to it must be a shard's part of the whole."""

    level: int


Class = Replicated | Sharded | Partial | Accumulator


def class_text(c: Class) -> str:
    """For people."""
    match c:
        case Replicated():
            return "replicated"
        case Sharded(_, dim):
            return f"sharded along dimension {dim}"
        case Partial(_, how):
            return f"partial, combined by {how}"
    return "accumulator"
