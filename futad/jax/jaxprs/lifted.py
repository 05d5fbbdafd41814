"""Arrays of JAX as atoms of the core IR, with the axes along which they repeat left out.

JAX aligns operands by broadcasting them.  A broadcast that were an array would cost memory, and its adjoint a sum over
all of it; here it is a fact about a value, and the nests of maps that read it have it as a free variable where it
repeats.  So broadcasts cost nothing before any optimisation, and derivatives see the program somebody would write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import (
    ONE,
    ZERO,
    Atom,
    Const,
    Prim,
    Type,
    array_of,
    elem_of,
    i64,
    row_type,
    shape_of,
)

Shape = tuple[Atom, ...]
Scalars = Callable[..., Sequence[Atom]]


@dataclass(frozen=True, slots=True)
class Value:
    """An array of shape `shape`: `atom` has its dimensions `axes`, ascending; along the others its elements repeat.

    `bounds`: what its integers are not below and above, if that is known (`bounds.py`)."""

    atom: Atom
    axes: tuple[int, ...]
    shape: Shape
    bounds: tuple[int, int] | None = None

    @property
    def elem(self) -> Prim:
        return elem_of(self.atom.type)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def type(self) -> Type:
        return array_of(self.elem, *self.shape)


def whole(atom: Atom) -> Value:
    """A scalar or an array as it is."""
    shape = shape_of(atom.type)
    return Value(atom, tuple(range(len(shape))), shape)


def everywhere(atom: Atom, shape: Iterable[Atom]) -> Value:
    """A scalar at every place of a shape."""
    return Value(atom, (), tuple(shape))


def is_one(size: Atom) -> bool:
    return size is ONE


def permuted(b: Builder, atom: Atom, perm: Sequence[int]) -> Atom:
    """Dimension i of the result is dimension perm[i]."""
    return atom if list(perm) == list(range(len(perm))) else b.let(ir.Rearrange(atom, tuple(perm)))


def sorted_axes(b: Builder, atom: Atom, axes: Sequence[int], shape: Shape) -> Value:
    """The value whose dimensions are `axes`, in any order."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    return Value(permuted(b, atom, order), tuple(sorted(axes)), shape)


def dense(b: Builder, v: Value) -> Atom:
    """The value as an atom that has all dimensions."""
    new = [d for d in range(v.rank) if d not in v.axes]
    if not new:
        return v.atom
    made = b.let(ir.Replicate(tuple([v.shape[d] for d in new]), v.atom))
    return sorted_axes(b, made, [*new, *v.axes], v.shape).atom


def real(b: Builder, v: Value, axes: Iterable[int]) -> Value:
    """The same value, which has (at least) these axes itself."""
    new = [d for d in axes if d not in v.axes]
    if not new:
        return v
    made = b.let(ir.Replicate(tuple([v.shape[d] for d in new]), v.atom))
    return sorted_axes(b, made, [*new, *v.axes], v.shape)


def fixed(b: Builder, v: Value, at: Mapping[int, Atom]) -> Value:
    """The value at places of some axes, which it loses."""
    shape = tuple([s for d, s in enumerate(v.shape) if d not in at])
    kept = [d for d in v.axes if d not in at]
    atom = v.atom
    if len(kept) != len(v.axes):
        last = max(i for i, d in enumerate(v.axes) if d in at)
        index = [at[d] if d in at else Range(ZERO, v.shape[d], ONE) for d in v.axes[: last + 1]]
        atom = b.at(atom, *index)
    return Value(atom, tuple([d - sum(k < d for k in at) for d in kept]), shape)


def aligned(b: Builder, v: Value, shape: Shape) -> Value:
    """The operand of something pointwise of that shape: of this rank with its sizes or 1, or a number."""
    if not v.rank:
        return Value(v.atom, (), shape)
    ones = {d: ZERO for d in v.axes if is_one(v.shape[d]) and not is_one(shape[d])}
    if not ones:
        return Value(v.atom, v.axes, shape)
    return Value(fixed(b, v, ones).atom, tuple([d for d in v.axes if d not in ones]), shape)


def nest(b: Builder, f: Scalars, operands: Sequence[tuple[Atom, tuple[int, ...]]], axes: Sequence[int]) -> list[Atom]:
    """`f(builder, *elements)` for all places along `axes`, outermost first.

    An operand is an atom with the axes that its first dimensions are, in the order of `axes`; where it lacks one it is
    the same for all of its places.  At least one operand has each.
    """
    if not axes:
        return list(f(b, *[a for a, _ in operands]))
    here = [i for i, (_, own) in enumerate(operands) if own and own[0] == axes[0]]

    def body(inner: Builder, *rows: Atom) -> list[Atom]:
        there = dict(zip(here, rows, strict=True))
        left = [(there[i], own[1:]) if i in there else (a, own) for i, (a, own) in enumerate(operands)]
        return nest(inner, f, left, axes[1:])

    return list(b.map_(body, *[operands[i][0] for i in here]))


def pointwise(b: Builder, f: Scalars, values: Sequence[Value], shape: Shape) -> list[Value]:
    """`f(builder, *elements)` at every place of a shape, which operands are broadcast to."""
    operands = [aligned(b, v, shape) for v in values]
    axes = tuple(sorted({d for v in operands for d in v.axes}))
    made = nest(b, f, [(v.atom, v.axes) for v in operands], axes)
    return [Value(a, axes, shape) for a in made]


def op_at(b: Builder, name: str, *values: Value) -> Value:
    """A scalar operation at every place of operands of one shape (or numbers)."""
    shape = max([v.shape for v in values], key=len)
    return pointwise(b, lambda c, *xs: [c.op(name, *xs)], values, shape)[0]


def moved_last(b: Builder, v: Value, axes: Sequence[int]) -> tuple[Atom, tuple[int, ...]]:
    """The atom with `axes`, which it must have, as its last dimensions; and the axes before them."""
    before = tuple([d for d in v.axes if d not in axes])
    order = [v.axes.index(d) for d in (*before, *axes)]
    return permuted(b, v.atom, order), before


def along(b: Builder, f: Callable[..., Sequence[Atom]], values: Sequence[Value], axes: Sequence[int]) -> list[Value]:
    """`f(builder, *rows)` of the parts of values along `axes`, at each place of the others: arrays (or numbers) whose
    type is the same at each.  Results have first the other axes, then what f makes."""
    operands = [moved_last(b, real(b, v, axes), axes) for v in values]
    rank = values[0].rank
    rest = [d for d in range(rank) if d not in axes]
    outer = tuple([d for d in rest if any(d in own for _, own in operands)])
    made = nest(b, f, operands, outer)
    shape = tuple([values[0].shape[d] for d in rest])
    lifted = []
    for a in made:
        inner = shape_of(row_type(a.type, len(outer)) if outer else a.type)
        own = [rest.index(d) for d in outer] + [len(rest) + k for k in range(len(inner))]
        lifted.append(Value(a, tuple(own), (*shape, *inner)))
    return lifted


def transposed(b: Builder, v: Value, perm: Sequence[int]) -> Value:
    """Axis i of the result is axis perm[i]."""
    shape = tuple([v.shape[p] for p in perm])
    return sorted_axes(b, v.atom, [list(perm).index(d) for d in v.axes], shape)


def swept_back(b: Builder, v: Value, axes: Sequence[int]) -> Value:
    """The result of `along` with its last axes, as many as `axes`, put where `axes` tells."""
    first = v.rank - len(axes)
    rest = iter(range(first))
    perm = [first + list(axes).index(d) if d in axes else next(rest) for d in range(v.rank)]
    return transposed(b, v, perm)


def sliced(b: Builder, v: Value, ranges: dict[int, Range]) -> Value:
    """Ranges of positions along some axes."""
    shape = tuple([ranges[d].count if d in ranges else s for d, s in enumerate(v.shape)])
    cut = [i for i, d in enumerate(v.axes) if d in ranges]
    if not cut:
        return Value(v.atom, v.axes, shape)
    index = [ranges.get(d, Range(ZERO, v.shape[d], ONE)) for d in v.axes[: cut[-1] + 1]]
    return Value(b.at(v.atom, *index), v.axes, shape)


def reversed_(b: Builder, v: Value, axes: Iterable[int]) -> Value:
    """The positions along some axes in opposite order."""
    ranges = {}
    for d in axes:
        if d in v.axes:
            ranges[d] = Range(minus(b, v.shape[d], 1), v.shape[d], i64(-1))
    return sliced(b, v, ranges)


def minus(b: Builder, size: Atom, k: int) -> Atom:
    return i64(size.value - k) if isinstance(size, Const) else b.op("sub", size, i64(k), hint="size")


def operator(b: Builder, elem: Type, f: Callable[[Builder, Atom, Atom], Atom]) -> ir.Lambda:
    """The operator of a fold of single values."""
    return b.lambda_([("x", elem), ("y", elem)], lambda c, x, y: [f(c, x, y)])


def folded(b: Builder, name: str, neutral: Const, array: Atom) -> Atom:
    """All elements of an array combined by a commutative scalar operation: folds of folds."""
    n = shape_of(array.type)[0]
    if isinstance(row_type(array.type), Prim):
        lam = operator(b, neutral.type, lambda c, x, y: c.op(name, x, y))
        return b.emit(ir.Reduce(n, (array,), lam, (neutral,), True))[0]
    return folded(b, name, neutral, b.zip_with(lambda c, row: folded(c, name, neutral, row), array))


def iota(b: Builder, n: Atom, elem: Prim) -> Atom:
    """0, 1, ... of a type."""
    if elem.is_integral:
        return b.let(ir.Iota(n, Const(elem, 0), Const(elem, 1)))
    return b.zip_with(lambda c, i: c.convert(elem, i), b.let(ir.Iota(n, ZERO, ONE)))
