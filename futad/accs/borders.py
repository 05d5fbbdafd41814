"""What the iterations at the ends of maps add, whose places are cut off there, apart from what all others add.

    for i < n + 2: acc[clamp 0 (n - 1) (i - 1)] += t[i]
      = all t[i + 1] at i, and: acc[0] += t[0], acc[n - 1] += t[n + 1]

Of several maps, the outer ones go over the iterations whose place is their own, those inside over all.  So every
iteration at some end is in one of these nests: that of the outermost map whose end it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import ONE, ZERO, AccType, Atom, Var, elem_of, i64, row_type, shape_of


@dataclass(frozen=True, slots=True)
class Axis:
    """A map of so many iterations i, which add at `i + far` along an axis of a size; those that would add before it
    add at its beginning if `low`, those after it at its end if `high`."""

    width: Atom
    size: Atom
    far: int
    low: bool
    high: bool

    def ends(self, b: Builder) -> tuple[Atom, Atom]:
        """The first iteration that adds within the axis, and the first one after these."""
        first: Atom = b.op("min", i64(-self.far), self.width) if self.far < 0 else ZERO
        last = b.op("min", b.op("sub", self.size, i64(self.far)), self.width)
        return first, b.op("max", first, last)

    def place(self, b: Builder, i: Atom) -> Atom:
        """Where an iteration adds."""
        at: Atom = b.op("add", i, i64(self.far)) if self.far else i
        at = b.op("min", at, b.op("sub", self.size, ONE)) if self.high else at
        return b.op("max", at, ZERO) if self.low else at


@dataclass(slots=True)
class Borders:
    """The iterations at the ends of maps, each of which moves along one axis of an array: `order` has the map of each
    axis."""

    axes: Sequence[Axis]
    order: Sequence[int]

    def added(self, b: Builder, array: Atom, values: Atom) -> Atom:
        """The array with what these iterations add, an element of `values` each."""
        ends = [axis.ends(b) for axis in self.axes]
        t = AccType(elem_of(array.type), shape_of(array.type))

        def scope(inner: Builder, acc: Var) -> list[Atom]:
            out: Atom = acc
            for k, axis in enumerate(self.axes):
                first, last = ends[k]
                if axis.low:
                    part = [*ends[:k], (ZERO, first)]
                    out = self.nest(inner, out, values, part, ZERO, [])
                if axis.high:
                    part = [*ends[:k], (last, axis.width)]
                    out = self.nest(inner, out, values, part, inner.op("sub", axis.size, ONE), [])
            return [out]

        return b.let(ir.WithAcc((array,), "add", b.lambda_([("acc", t)], scope)), "sum")

    def nest(
        self, b: Builder, acc: Atom, values: Atom, parts: Sequence[tuple[Atom, Atom]], end: Atom, at: list[Atom]
    ) -> Atom:
        """The maps inside of those that add `at`: the first of all go over these parts of their iterations, the last
        one of which adds at an end."""
        k = len(at)
        if k == len(self.axes):
            return b.let(ir.UpdateAcc(acc, tuple([at[level] for level in self.order]), values), "acc")
        axis = self.axes[k]
        start: Atom = ZERO
        count: Atom = axis.width
        if k < len(parts):
            start, stop = parts[k]
            count = stop if start is ZERO else b.op("sub", stop, start)
            values = b.at(values, Range(start, count, ONE))

        def body(inner: Builder, part: Var, i: Var, row: Var) -> list[Atom]:
            if k == len(parts) - 1:
                place = end
            else:
                place = inner.op("add", i, i64(axis.far)) if k < len(parts) else axis.place(inner, i)
            return [self.nest(inner, part, row, parts, end, [*at, place])]

        iterations = b.let(ir.Iota(count, start, ONE), "is")
        params = [("acc", acc.type), ("i", ZERO.type), ("x", row_type(values.type))]
        return b.emit(ir.Map(count, (acc, iterations, values), b.lambda_(params, body)), "acc")[0]
