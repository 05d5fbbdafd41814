"""Views of parts of arrays, and indices that are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.node import Range
from futad.core.types import I64
from futad.errors import OUT_OF_BOUNDS, SLICE_OUT_OF_BOUNDS, Span
from futad.imp import ir
from futad.imp.dispatch import BOUNDS
from futad.imp.ir import ONE, ZERO, Expr, Num, add, compare, mul, sub
from futad.imp.views import View

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer


def indexed(lo: Lowerer, v: View, index: core.Index, check: Span | None) -> View:
    """The view `v[index]`, of rank 0 if every dimension is fixed; checked if `check` says where."""
    offset = v.offset
    strides: list[Expr] = []
    shape: list[Expr] = []
    injective = v.injective
    dense = v.dense
    for d, i in enumerate(index):
        size, stride = v.shape[d], v.strides[d]
        if type(i) is Range:
            start, count, step = lo.expr(i.start), lo.expr(i.count), lo.expr(i.stride)
            if check is not None:
                _check_range(lo, start, count, step, size, check)
            whole = start == ZERO and step == ONE and count == size
            # Rows that follow one another stay dense only while no dimension before has been kept.
            dense = dense and (whole or (step == ONE and not shape))
            injective = injective and isinstance(step, Num) and step.value != 0
            offset = add(offset, mul(start, stride))
            strides.append(lo.let(mul(step, stride), "s"))
            shape.append(count)
        else:
            assert not isinstance(i, Range)
            at = lo.expr(i)
            dense = dense and not shape
            if check is not None and not lo.in_range(at, size):
                ok = ir.Bin("in_bounds", at, size, ir.TRUE.type)
                lo.emit(ir.Check(ok, BOUNDS, lo.place(check, OUT_OF_BOUNDS, (I64, I64)), (at, size)))
                if lo.target.builds_in_place and isinstance(at, ir.Ref | Num):
                    lo.checked[at, size] = None
            offset = add(offset, mul(at, stride))
    k = len(index)
    strides += v.strides[k:]
    shape += v.shape[k:]
    return View(v.base, offset, tuple(strides), tuple(shape), dense, injective)


def _check_range(lo: Lowerer, start: Expr, count: Expr, step: Expr, size: Expr, span: Span) -> None:
    """Every position of the range is within the size; the message names the range, or with a stride the first or last
    position that is not."""
    if start == ZERO and step == ONE and count == size:
        return
    place = lo.place(span, SLICE_OUT_OF_BOUNDS, (I64, I64, I64)) if step == ONE else lo.place(
        span, OUT_OF_BOUNDS, (I64, I64)
    )
    empty = compare("==", count, ZERO)
    start = lo.let(start, "start")
    last = lo.let(add(start, mul(sub(count, ONE), step)), "last")
    for at in (start, last):
        inside = ir.Bin("in_bounds", at, size, ir.TRUE.type)
        shown = (start, add(start, count), size) if step == ONE else (at, size)
        lo.emit(ir.Check(compare("||", empty, inside), BOUNDS, place, shown))


def if_inside(lo: Lowerer, index: Sequence[Expr], shape: Sequence[Expr], body: list[ir.Stmt]) -> None:
    """Emit the body under the condition that the index is within the shape."""
    guard: Expr | None = None
    for i, n in zip(index, shape, strict=False):
        if not lo.in_range(i, n):
            inside = ir.Bin("in_bounds", i, n, ir.TRUE.type)
            guard = inside if guard is None else compare("&&", guard, inside)
    if guard is None:
        lo.out += body
    else:
        lo.emit(ir.If(guard, body, []))
