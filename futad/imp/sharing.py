"""When arrays may share memory, one after the other or at once: the conditions that lowering asks wherever it
overwrites an array, gives memory back, or moves results to where they are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.alias import overwritable
from futad.core.types import Var
from futad.imp.ir import Bin, Expr, Num, Ref, Scalar
from futad.imp.regions import Regions
from futad.imp.views import Hint, Root, SlotDestination, Value, View
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.imp.dispatch import Destination
    from futad.imp.lower import Lowerer

IN_PLACE = Legality("in place", "what consumes an array, or makes one like it, writes over its memory", fires=False)
OURS = IN_PLACE.condition("memory ours", "the caller's array, a constant or rows that others share would change")
ONCE = IN_PLACE.condition("each place once", "elements that are one place in memory would get each other's values")
UNREAD = IN_PLACE.condition("not read by the statement", "the statement would read what it has written")
DISJOINT = IN_PLACE.condition("no other result there", "a result would be overwritten by one that goes where it lies")
DEAD = IN_PLACE.condition("not read later", "a later statement, iteration or scope would read what was written since")

SLOTS = Legality("slots", "memory is used for another array when nobody needs what is in it", fires=False)
FREE = SLOTS.condition("no live variable", "a later statement would read another array's elements")
HELD = SLOTS.condition("not held", "a loop's first value, or an array that is being put together, would be overwritten")
UNUSED = SLOTS.condition("not used since", "the memory has another array when code that names it before runs")


def consumed_vars(program: core.Program) -> set[Var]:
    """The variables that may lie in memory which is overwritten.  A loop variable of these must own a buffer; any other
    can read its initial value where it lies."""
    return overwritable(program, _unwritten, lambda e: e.plus if type(e) is core.MatMul else ())


def _unwritten(e: core.Exp) -> core.Atoms:
    """The operand whose memory the result shares as long as nobody writes to either; a product takes its sum there."""
    match e:
        case core.Copy(a) | core.Replicate(_, a):
            return (a,)
        case core.MatMul():
            return e.plus
    return ()


def unread(lo: Lowerer, destination: Destination, read: Sequence[View]) -> Destination:
    """The place where a copy is wanted; none if it holds what the copy reads, or what is needed later: an array that
    was made or updated there before, or a part of one."""
    wanted = destination.view if isinstance(destination, Hint) else destination
    slot = {wanted.root} if isinstance(wanted, SlotDestination) else set()
    there = wanted.roots if isinstance(wanted, View) else slot
    free = UNREAD(not any(there & v.roots for v in read)) and DEAD(not lo.roots_live(there))
    return wanted if free else None


def saved(lo: Lowerer, values: Sequence[Value], written: Sequence[View | Root | None]) -> list[Value]:
    """The values, those in memory of their own that lie where another of them goes (`written`, by value): they all go
    at once.  An array that was updated since may lie where its next value is wanted."""
    out = list(values)
    for i, v in enumerate(values):
        others = [w for j, w in enumerate(written) if w is not None and j != i]
        if isinstance(v, View) and v.roots and not DISJOINT(not any(_overlap(lo, v, w) for w in others)):
            out[i] = lo.materialise(v)
    return out


def _overlap(lo: Lowerer, v: View, place: View | Root) -> bool:
    """Whether an array may lie in a place."""
    if isinstance(place, Root):
        return place in v.roots
    return bool(place.roots & v.roots) and not Regions(lo).disjoint(v, place, place.strides)


SIZE = 64  # about what sizes are that are known only when the program runs


def fitting(lo: Lowerer, free: list[int], count: Expr | None, fresh: bool) -> int:
    """A slot for so many elements, taken from those that are free: the last one that was for as many; else the smallest
    that was for more, or the largest, as a slot grows.  A new one if none is free, or if the slot is `fresh`: in use
    from where code was emitted before, after which others had had those that are free now."""
    if not UNUSED(not fresh):
        free = []
    if count is None and free:
        return free.pop()
    wanted = 0 if count is None else _about(lo, count)
    slot = lo.slots
    if free:
        larger = [s for s in free if lo.extents.get(s, 0) >= wanted]
        best = min(map(lo.extents.__getitem__, larger)) if larger else max(lo.extents.get(s, 0) for s in free)
        slot = [s for s in free if lo.extents.get(s, 0) == best][-1]
        free.remove(slot)
    else:
        lo.slots += 1
    lo.extents[slot] = max(wanted, lo.extents.get(slot, 0))
    return slot


def _about(lo: Lowerer, e: Expr) -> int:
    """About how large a size is.  Sizes of different names differ; conditions, as they ask for small sizes, are taken
    not to hold."""
    match e:
        case Num(value):
            return int(value)
        case Ref(name):
            return _about(lo, lo.lets[name]) if name in lo.lets else lo.guesses.setdefault(name, SIZE + len(lo.guesses))
        case Bin("+" | "-" | "*" | "/" as op, a, b):
            x, y = _about(lo, a), _about(lo, b)
            return x + y if op == "+" else x - y if op == "-" else x * y if op == "*" else x // max(1, y)
        case Scalar("min" | "max" as op, (a, b)):
            return (min if op == "min" else max)(_about(lo, a), _about(lo, b))
        case Scalar("select", (_, _, b)):
            return _about(lo, b)
    return SIZE
