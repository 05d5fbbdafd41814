"""Where arrays live: roots (pieces of memory), and affine views of them.

A `View` is a base with an offset and one stride a dimension, so transposes, slices, reversals and broadcasts
cost nothing.  Besides memory a base can be an arithmetic sequence or a single repeated value, which are not
stored at all until something needs them in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from futad.core.types import I64, Prim, Var
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Expr, add, compare, mul, product, sub
from futad.imp.node import Modified, Node


@dataclass(slots=True, eq=False)
class Root:
    """One piece of memory.  `slot` is its growable slot, None for the stack and for the caller's arrays.

    `vars` are the core variables that may live in it; it is free when all are dead.
    """

    slot: int | None
    writable: bool
    elem: Prim
    stack: bool = False
    vars: list[Var] = field(default_factory=list)
    pinned: int = 0


Roots = Annotated[frozenset[Root], "static"]


@dataclass(slots=True, eq=False)
class Mem(Node):
    """A pointer variable to memory that is one of `roots`; in checked execution, whose value it is."""

    pointer: Modified
    elem: Prim
    roots: Roots
    origin: ir.Origin | None = None


@dataclass(slots=True, eq=False)
class Sequence_:
    """start, start + step, ...: what `Iota` makes."""

    elem: Prim
    start: Expr
    step: Expr


@dataclass(slots=True, eq=False)
class Fill:
    """One value everywhere."""

    elem: Prim
    value: Expr


@dataclass(slots=True, eq=False)
class Joined:
    """Arrays one after another, where they lie: `views`, the k-th from position `starts[k]` on.  Those of rows are all
    in one memory, and lie there alike."""

    elem: Prim
    starts: tuple[Expr, ...]
    views: tuple[View, ...]

    def load(self, at: Expr) -> Expr:
        """The element at a position; what the others have at that place is not read."""
        out = self.views[0].load((at,))
        for start, v in zip(self.starts[1:], self.views[1:], strict=True):
            here = v.load((sub(at, start),))
            out = ir.Scalar("select", (compare("<", at, start), out, here), self.elem, self.elem)
        return out

    def row(self, at: Expr) -> View:
        """The row at a position."""
        first = self.views[0]
        place = first.place((at,))
        for start, v in zip(self.starts[1:], self.views[1:], strict=True):
            here = v.place((sub(at, start),))
            place = ir.Scalar("select", (compare("<", at, start), place, here), I64, I64)
        dense = all(v.dense for v in self.views)
        return View(first.base, place, first.strides[1:], first.shape[1:], dense, injective=False)


@dataclass(slots=True, eq=False)
class Pending:
    """Base of what a backend says of arrays that it has not made yet: nobody reads their elements before."""

    elem: Prim


Base = Mem | Sequence_ | Fill | Joined | Pending
NO_ROOTS: frozenset[Root] = frozenset()


@dataclass(slots=True, eq=False)
class View:
    """An array: element (i, j, ...) is the base's element offset + i*strides[0] + j*strides[1] + ...

    `dense`: known to be row-major without gaps.  `injective`: no two elements share a place.
    """

    base: Base
    offset: Expr
    strides: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    dense: bool = False
    injective: bool = True

    @property
    def elem(self) -> Prim:
        return self.base.elem

    @property
    def memory(self) -> Mem:
        """The base of an array that is in memory."""
        assert isinstance(self.base, Mem), self
        return self.base

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def roots(self) -> frozenset[Root]:
        base = self.base
        if isinstance(base, Joined):
            return NO_ROOTS.union(*[v.roots for v in base.views])
        return base.roots if isinstance(base, Mem) else NO_ROOTS

    def count(self) -> Expr:
        """The number of elements."""
        return product(self.shape)

    def place(self, index: Sequence[Expr]) -> Expr:
        """The position in the base of the element at a full or partial index."""
        out = self.offset
        for i, s in zip(index, self.strides, strict=False):
            out = add(out, mul(i, s))
        return out

    def load(self, index: Sequence[Expr]) -> Expr:
        """The element at a full index."""
        base = self.base
        if isinstance(base, Joined) and self.rank > 1:
            return base.row(index[0]).load(index[1:])
        at = self.place(index)
        if isinstance(base, Mem):
            return ir.Load(base.pointer, at, base.elem, base.origin)
        if isinstance(base, Fill):
            return base.value
        if isinstance(base, Joined):
            return base.load(at)
        assert isinstance(base, Sequence_), base
        return sequence_at(base, at)

    def row(self, index: Sequence[Expr]) -> View:
        """The view left after fixing leading dimensions."""
        k = len(index)
        if isinstance(self.base, Joined) and self.rank > 1 and k:
            return self.base.row(index[0]).row(index[1:])
        return View(self.base, self.place(index), self.strides[k:], self.shape[k:], self.dense, self.injective)

    def same_place(self, other: View) -> bool:
        """Whether both views surely cover the same elements in the same order (given equal shapes)."""
        if self is other:
            return True
        a, b = self.base, other.base
        return (
            isinstance(a, Mem)
            and isinstance(b, Mem)
            and a.pointer == b.pointer
            and self.offset == other.offset
            and (self.strides == other.strides or (self.dense and other.dense))
        )


def sequence_at(base: Sequence_, at: Expr) -> Expr:
    """Element `at` of an arithmetic sequence."""
    t = base.elem
    i = at if t is I64 else scalar(f"to_{t.name}", (at,), t)
    one = ir.Num(1, t) if not t.is_float else ir.Num(1.0, t)
    step = i if base.step == one else scalar("mul", (i, base.step), t)
    if isinstance(base.start, ir.Num) and base.start.value == 0:
        return step
    if t is I64 and isinstance(base.step, ir.Num) and abs(base.step.value) < 1 << 31:
        return add(base.start, step)
    return scalar("add", (base.start, step), t)  # a multiple of a large step wraps around, and the sum back


def scalar(op: str, args: tuple[Expr, ...], result: Prim) -> Expr:
    """A scalar operation at the type of its last argument."""
    return ir.Scalar(op, args, args[-1].type, result)


def dense_view(base: Base, shape: Sequence[Expr], offset: Expr = ZERO) -> View:
    """The row-major view of `shape`."""
    strides: list[Expr] = []
    step: Expr = ONE
    for s in reversed(shape):
        strides.append(step)
        step = mul(s, step)
    return View(base, offset, tuple(reversed(strides)), tuple(shape), dense=True)


@dataclass(slots=True, eq=False)
class Acc:
    """An accumulator: the view its updates go to, and their operation.  `fills`: there is nothing yet where they go,
    and each place has one update."""

    view: View
    op: str
    fills: bool = False


@dataclass(slots=True, eq=False)
class SlotDestination:
    """A destination whose size is known only when the value is: a slot variable.

    `grown`: what a loop variable is in this iteration, where the value is that of the next; `spare`: the slot variable
    of the memory which that may be in.
    """

    slot: str
    root: Root
    grown: View | None = None
    spare: str = ""


@dataclass(slots=True, eq=False)
class Hint:
    """A destination that may be used if that saves a copy, and otherwise is not.

    `now`: where a loop variable is in this iteration, if the value is that of the next one: it may stay there.
    """

    view: View
    now: View | None = None


@dataclass(slots=True, eq=False)
class AccumulateInto:
    """A vector to whose elements those of a map's result are added, instead of being stored."""

    view: View


Value = Expr | View | Acc


def as_scalar(v: Value) -> Expr:
    """The expression of a value that is a scalar."""
    assert isinstance(v, Expr), v
    return v


def permuted(v: View, perm: Sequence[int]) -> View:
    """A view whose dimension k is that one's dimension `perm[k]`."""
    strides, shape = tuple([v.strides[p] for p in perm]), tuple([v.shape[p] for p in perm])
    return View(v.base, v.offset, strides, shape, v.dense and list(perm) == sorted(perm), v.injective)


def is_transposed(v: View) -> bool:
    """Whether a view is that of a matrix without gaps, transposed."""
    return (
        v.rank == 2 and isinstance(v.base, Mem) and v.strides[0] == ONE and v.strides[1] == v.shape[0]
        and v.shape[0] != ONE and not v.dense
    )  # fmt: skip
