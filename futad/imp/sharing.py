"""When arrays may share memory, one after the other or at once: the conditions that lowering asks wherever it
overwrites an array, gives memory back, or moves results to where they are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.imp.regions import Regions
from futad.imp.views import Root, Value, View
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

IN_PLACE = Legality("in place", "what consumes an array, or makes one like it, writes over its memory", fires=False)
OURS = IN_PLACE.condition("memory ours", "the caller's array, a constant or rows that others share would change")
ONCE = IN_PLACE.condition("each place once", "elements that are one place in memory would get each other's values")
UNREAD = IN_PLACE.condition("not read by the statement", "the statement would read what it has written")
APART = IN_PLACE.condition("no other result there", "a result would be overwritten by one that goes where it lies")
DEAD = IN_PLACE.condition("not read later", "a later statement, iteration or scope would read what was written since")

SLOTS = Legality("slots", "memory is used for another array when nobody needs what is in it", fires=False)
FREE = SLOTS.condition("no live variable", "a later statement would read another array's elements")
HELD = SLOTS.condition("not held", "a loop's first value, or an array that is being put together, would be overwritten")


def saved(lo: Lowerer, values: Sequence[Value], written: Sequence[View | Root | None]) -> list[Value]:
    """The values, those in memory of their own that lie where another of them goes (`written`, by value): they all go
    at once.  An array that was updated since may lie where its next value is wanted."""
    out = list(values)
    for i, v in enumerate(values):
        others = [w for j, w in enumerate(written) if w is not None and j != i]
        if isinstance(v, View) and v.roots and not APART(not any(_overlap(lo, v, w) for w in others)):
            out[i] = lo.materialise(v)
    return out


def _overlap(lo: Lowerer, v: View, place: View | Root) -> bool:
    """Whether an array may lie in a place."""
    if isinstance(place, Root):
        return place in v.roots
    return bool(place.roots & v.roots) and not Regions(lo).disjoint(v, place, place.strides)
