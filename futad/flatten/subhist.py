"""Maps that update an accumulator once a point, by way of sub-histograms in shared memory.

    map (\\x i -> ... acc[f x, i] += g x) xs is

Updates of few places contend where all go to memory at once.  If the accumulator is small beside the number of points,
each block adds up its own in shared memory, in passes over parts of the accumulator if it does not fit.
Section 6.1 of "AD for an Array Language with Nested Parallelism" (Schenck, Rønning, Henriksen, Oancea, SC 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from futad.core import ir as core
from futad.core.types import I64, AccType
from futad.flatten import kernel as kir
from futad.flatten.binned import light_updates
from futad.flatten.kernel import FEW_BINS, MOST_PASSES, SUB_BYTES
from futad.flatten.lower import DeviceLowerer, SharedAcc
from futad.imp import ir
from futad.imp.arrays import acc_op
from futad.imp.ir import ONE, ZERO, Expr, Ref, compare, num
from futad.imp.soacs import Nest
from futad.imp.views import Acc, Mem, View


def in_shared_memory(
    lo: DeviceLowerer, n: Nest, leaf: core.Lambda, sizes: Sequence[Expr], total: Expr, what: str,
    point: Callable[[Sequence[Expr]], None],
) -> tuple[Expr, list[ir.Stmt]] | None:  # fmt: skip
    """Under what condition a map's updates go by way of shared memory, and the statements that do so; None if the map
    does more than that.  `point` lowers one of its points."""
    accs = [i for i, v in enumerate(n.inputs) if isinstance(v, Acc)]
    if len(accs) != 1 or not all(isinstance(v.type, AccType) for v in n.stm.pat) or light_updates(leaf) != 1:
        return None
    acc = n.inputs[accs[0]]
    assert isinstance(acc, Acc)
    view, op = acc.view, acc_op(acc)
    if not view.dense or not isinstance(view.base, Mem):
        return None
    from futad.flatten.hosted import unit_of

    op = "or" if view.elem.is_bool and op == "add" else op
    neutral = unit_of(op, view.elem)
    cells = SUB_BYTES // view.elem.bytes
    before = list(n.inputs)
    with lo.block() as body:
        bins = lo.let(view.count(), "bins")
        start = lo.name("bins")
        lo.out.append(ir.Pointer(start, view.elem, view.base.pointer, view.offset))
        blocks = Ref(lo.name("chunks"), I64)
        lo.emit(kir.Chunks(blocks.name, total, ONE))
        i = Ref(lo.name("i"), I64)
        bin_, value = Ref(lo.name("bin"), I64), Ref(lo.name("x"), view.elem)
        with lo.kernel("block") as kernel:
            with lo.inside("thread"), lo.block() as update:
                lo.out.append(ir.Decl(bin_.name, I64, num(-1), mutable=True))
                lo.out.append(ir.Decl(value.name, view.elem, neutral, mutable=True))
                place = Mem(lo.name("place"), view.elem, view.base.roots)
                n.inputs[accs[0]] = SharedAcc(View(place, ZERO, view.strides, view.shape, True), acc.op)
                lo.captured = place.pointer, bin_, value
                point(lo.unflatten(i, sizes))
                lo.captured = None
            made = kir.Function([i], update, [bin_, value])
            lo.out.append(kir.HistAll(op, neutral, made, total, bins, start, cells))
        passes = ir.Bin("/", ir.add(bins, num(cells - 1)), num(cells))
        lo.launch(kernel, "tile", ir.mul(blocks, passes), f"{what}, added up in shared memory")
    n.inputs = before
    few = compare("<=", view.count(), num(MOST_PASSES * cells))
    many = compare("<", ir.mul(num(FEW_BINS), view.count()), total)
    return compare("&&", few, many), body


__all__ = ["in_shared_memory"]
