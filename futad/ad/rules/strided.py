"""Contractions at strides, as parts that read every few places.

    sum over p of w[p] * x[2 * i + p]  =  sum over p of w[2 * p] * x[2 * (i + p)]
                                        + sum over p of w[2 * p + 1] * x[2 * (i + p) + 1]

The sum is split along an axis that moves by one where another one moves by a few.  Each part reads places of its own,
and moves by one among these: so the adjoint of x gathers (`contraction.py`), part by part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import ONE, ZERO, Atom, Const, Var, array_of, elem_of, i64, shape_of
from futad.legality import Legality

LEGAL = Legality(
    "strided-adjoints",
    "the adjoint of what a contraction reads at a stride gathers, for every few places by itself",
    worth="the gradient of a layer at stride 2 0.59 to 0.24 ms: `benchmarks/without.py strided-adjoints"
    " tests/programs/convolution_layers.fut:strided_gradient --values '[16][8][3][3]f64' '[4][8][29][29]f64'`",
)
PARTS_APART = LEGAL.condition("parts apart", "two parts of a sum read the same places, and have the adjoint of one")
SPLIT_SUMMED = LEGAL.condition("split where summed", "seeds are read as if a part had all iterations")

MOST = 4  # parts, of which each is code


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a contraction: with `x`, every few places of an array, in place of the array, and where these are."""

    e: ir.Contraction
    x: ir.Factor
    y: ir.Factor
    index: tuple[Range, ...]


def split(e: ir.Contraction, x: ir.Factor) -> tuple[int, int, int] | None:
    """A dimension of `x` in which an axis of the result moves by a few, an axis beside it along which the sum is split,
    and into how many parts; None if there is none."""
    for d, steps in enumerate(x.steps):
        axes = x.axes(d)
        for k in axes:
            step = steps[k]
            n = abs(step.value) if isinstance(step, Const) else 0
            if k >= e.outs or not 1 < n <= MOST or x.of(k) != [d]:
                continue
            for j in axes:
                if steps[j] not in (ONE, i64(-1)) or x.of(j) != [d] or not SPLIT_SUMMED(j >= e.outs):
                    continue
                others = [steps[i] for i in axes if i != j]
                known = [int(s.value) for s in others if isinstance(s, Const)]
                if len(known) == len(others) and PARTS_APART(all(m % n == 0 for m in known)):
                    return d, j, n
    return None


def parts(b: Builder, e: ir.Contraction, x: ir.Factor, y: ir.Factor, d: int, axis: int, n: int) -> Iterator[Part]:
    """The parts of a contraction, in which `axis` is split into n."""
    by = 1 if x.steps[d][axis] is ONE else -1
    shape = shape_of(x.array.type)
    for k in range(n):
        sizes = list(e.sizes)
        sizes[axis] = _over(b, _plus(b, sizes[axis], n - 1 - k), n)
        # start + by * (n * p + k) = first + n * (begin / n + by * p)
        begin = _plus(b, x.start[d], by * k)
        first = i64(begin.value % n) if isinstance(begin, Const) else b.op("mod", begin, i64(n))
        count = _over(b, b.op("sub", _plus(b, shape[d], n - 1), first), n)
        index = [Range(ZERO, m, ONE) for m in shape]
        index[d] = Range(first, count, i64(n))
        array = Var("part", array_of(elem_of(x.array.type), *[r.count for r in index]))
        starts, steps = [*x.start], [*x.steps]
        starts[d] = _over(b, begin, n)
        steps[d] = tuple([s if i == axis else _over(b, s, n) for i, s in enumerate(x.steps[d])])
        own = replace(x, array=array, start=tuple(starts), steps=tuple(steps))
        yield Part(replace(e, sizes=tuple(sizes)), own, _of_part(b, y, axis, n, k), tuple(index))


def _of_part(b: Builder, f: ir.Factor, axis: int, n: int, k: int) -> ir.Factor:
    """A factor where an axis goes in steps of n from k on."""
    starts, steps = [*f.start], [*f.steps]
    for d in f.of(axis):
        step = f.steps[d][axis]
        by: Atom
        if isinstance(step, Const):
            starts[d], by = _plus(b, starts[d], step.value * k), i64(step.value * n)
        else:
            starts[d], by = b.op("add", starts[d], b.op("mul", step, i64(k))), b.op("mul", step, i64(n))
        steps[d] = tuple([by if i == axis else s for i, s in enumerate(steps[d])])
    return replace(f, start=tuple(starts), steps=tuple(steps))


def _plus(b: Builder, a: Atom, n: int) -> Atom:
    if isinstance(a, Const):
        return i64(a.value + n)
    return b.op("add", a, i64(n)) if n else a


def _over(b: Builder, a: Atom, n: int) -> Atom:
    return i64(a.value // n) if isinstance(a, Const) else b.op("div", a, i64(n))


__all__ = ["Part", "parts", "split"]
