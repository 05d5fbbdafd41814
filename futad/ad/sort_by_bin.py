"""Elements sorted by the bin of a histogram, and operators on segments: each bin is a segment of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from futad.ad.emit import in_range, reexecution
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import BOOL, I64, ONE, Atom, Var, shape_of

Body = Callable[[Builder], Sequence[Atom]]


def choice(b: Builder, cond: Atom, then: Body, orelse: Body, like: ir.Atoms) -> tuple[Var, ...]:
    """The atoms of one of two bodies, of the types of `like`."""
    return b.emit(ir.If(cond, b.body(then), b.body(orelse)), "c", types=[a.type for a in like])


@dataclass(slots=True)
class Sorted:
    """The n elements in the order of their bins: `order[j]` is the element that stands at j, `bins[j]` its bin
    (row-major), `count` for one out of range; those stand last."""

    order: Var
    bins: Var
    count: Atom


def sort_by_bin(b: Builder, cells: ir.Atoms, idxs: ir.Atoms) -> Sorted:
    """The elements of a reduce_by_index of bins of shape `cells`, by bin."""
    count = b.size_mul(cells)

    def key(c: Builder, *at: Var) -> list[Atom]:
        ok = in_range(c, at, cells)
        assert ok is not None
        flat: Atom = c.convert(I64, at[0])
        for m, a in zip(cells[1:], at[1:], strict=True):
            flat = c.op("add", c.op("mul", flat, m), c.convert(I64, a))
        return [c.op("select", ok, flat, count)]

    (keys,) = b.map_(key, *idxs, hint="keys")
    order = b.let(ir.ArgSort(keys, b.op("add", count, ONE)), "order")
    (bins,) = b.map_(lambda c, i: [c.at(keys, i)], order, hint="bins")
    return Sorted(order, bins, count)


def segmented(lam: ir.Lambda) -> ir.Lambda:
    """The operator on pairs of a flag (a segment starts here) and an element."""
    k = len(lam.result)
    op = reexecution(lam)
    left, right = Var("start", BOOL), Var("start", BOOL)
    c = Builder()
    start = c.op("or", left, right)
    fresh, joined = ir.Lambda((), (), op.params[k:]), ir.Lambda((), op.stms, op.result)
    out = c.emit(ir.If(right, fresh, joined), "x", types=[p.type for p in op.params[k:]])
    return ir.Lambda((left, *op.params[:k], right, *op.params[k:]), tuple(c.stms), (start, *out))


def flat_bins(b: Builder, a: Atom, count: Atom, rank: int) -> Atom:
    """The bins along one dimension."""
    return a if rank == 1 else b.let(ir.Reshape(a, (count, *shape_of(a.type)[rank:])), "flat")
