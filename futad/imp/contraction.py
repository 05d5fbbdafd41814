"""Contractions in C: one call of `kernels/contract.h`, by the strides with which each axis moves through the arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import Prim, elem_of
from futad.imp.arrays import overwritten
from futad.imp.dispatch import Destination, handles
from futad.imp.ir import ZERO, Expr, add, mul
from futad.imp.node import Modified, Read, Stmt
from futad.imp.views import Mem, Value

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer


@dataclass(slots=True, eq=False)
class Contract(Stmt):
    """Over axes of these sizes, the first `outs` of which are the third array's dimensions: the sums over the others of
    products of elements of `a` and `b`.  Each is a pointer, an offset and a stride for each axis (`c`: for those of its
    own).  `ranges`: a size, a start, and steps along all axes; a term is there where the start plus these is from 0 to
    below the size.  `whole`: where an array lies of which some places may not be there, with its sizes and strides.
    `parallel`: by several threads if that pays."""

    elem: Prim
    sizes: tuple[Expr, ...]
    outs: int
    a: tuple[Read, Expr, tuple[Expr, ...]]
    b: tuple[Read, Expr, tuple[Expr, ...]]
    c: tuple[Modified, Expr, tuple[Expr, ...]]
    ranges: tuple[tuple[Expr, Expr, tuple[Expr, ...]], ...] = ()
    whole: tuple[tuple[Expr, tuple[Expr, ...], tuple[Expr, ...]] | None, ...] = (None, None)
    parallel: bool = False
    by: int = 0


@handles(core.Contraction)
def _contraction(
    lo: Lowerer, stm: core.Stm, e: core.Contraction, destinations: list[Destination]
) -> Sequence[Value]:
    views = [lo.view(f.array) for f in e.factors]
    sizes = tuple([lo.let(lo.expr(n), "n") for n in e.sizes])
    destination = destinations[0] or overwritten(lo, stm.pat[0], (e.a, e.b))
    dst = lo.alloc(elem_of(e.a.type), sizes[: e.outs], destination, stm.pat[0].name)
    views = [v if isinstance(v.base, Mem) else lo.materialise(v) for v in views]
    operands: list[tuple[str, Expr, tuple[Expr, ...]]] = []
    ranges: list[tuple[Expr, Expr, tuple[Expr, ...]]] = []
    whole: list[tuple[Expr, tuple[Expr, ...], tuple[Expr, ...]] | None] = []
    for f, v in zip(e.factors, views, strict=True):
        lo.reads(v)
        offset = v.place([lo.expr(s) for s in f.start])
        strides: list[Expr] = []
        for k in range(len(sizes)):
            stride: Expr = ZERO
            for d in f.of(k):
                stride = add(stride, mul(v.strides[d], lo.expr(f.steps[d][k])))
            strides.append(stride)
        operands.append((v.memory.pointer, offset, tuple(strides)))
        whole.append((v.offset, tuple(v.shape), tuple(v.strides)) if f.open else None)
        for d in sorted(set(range(v.rank)) - set(f.along(e.sizes).values())) if f.open else ():
            ranges.append((v.shape[d], lo.expr(f.start[d]), tuple([lo.expr(n) for n in f.steps[d]])))
    a, b = operands
    c = (dst.memory.pointer, dst.offset, tuple(dst.strides))
    lo.emit(Contract(elem_of(e.a.type), sizes, e.outs, a, b, c, tuple(ranges), tuple(whole), lo.shares))
    return [dst]


__all__ = ["Contract"]
