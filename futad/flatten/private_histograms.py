"""Maps that update accumulators, by way of sub-histograms in shared memory.

    map (\\x i -> ... acc[f x, i] += g x) xs is

Updates of few places contend where all go to memory at once.  If the accumulators are small beside the number of
points, each block adds up its own in shared memory, in passes over parts of them if they do not fit.

    map (\\x -> let i = f x in map (\\y j -> acc[i, j] += g y) x js) xs

Where a point's places take work to find, for which a thread reads a row, the block brings rows of many points into
shared memory: from there each thread reads its own, and all together the elements that they add.
Section 6.1 of "AD for an Array Language with Nested Parallelism" (Schenck, Rønning, Henriksen, Oancea, SC 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import I64, AccType, Prim, Var
from futad.fires import Transformation, refused
from futad.flatten import kernel as kir
from futad.flatten.dispatch import SharedAcc
from futad.flatten.fission import CHEAP
from futad.flatten.kernel import FEW_BINS, MOST_PASSES, ROOM_BYTES, SUB_BYTES
from futad.flatten.row_scatter import RowUpdates, light_updates, row_updates
from futad.imp import ir
from futad.imp.arrays import acc_op
from futad.imp.elements import bind_elements
from futad.imp.ir import ONE, ZERO, Expr, Ref, compare, num
from futad.imp.soacs import SoacLoop
from futad.imp.units import unit_of
from futad.imp.views import Acc, Mem, Value, View
from futad.imp.walk import statements
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

SHARED = Legality("sub-histograms", "updates that contend are added up in shared memory first")
ONE_OPERATION = SHARED.condition("one type and operation", "bins of one histogram are combined as those of another")

LEAST_ROWS = 32  # of those that have room in shared memory together


class _Bins:
    """The accumulators among a map's inputs, as places in shared memory."""

    def __init__(self, lo: DeviceLowerer, inputs: Sequence[Value], op: str) -> None:
        self.lo = lo
        self.accs = {k: v for k, v in enumerate(inputs) if isinstance(v, Acc)}
        views = [v.view for v in self.accs.values()]
        self.elem = views[0].elem
        self.op = "or" if self.elem.is_bool and op == "add" else op
        self.neutral = unit_of(self.op, self.elem)
        self.cells = SUB_BYTES // self.elem.bytes
        self.counts = [v.count() for v in views]
        self.total: Expr = ZERO
        for n in self.counts:
            self.total = ir.add(self.total, n)
        self.inputs = list(inputs)
        self.captured: dict[str, int] = {}
        for which, (k, v) in enumerate(self.accs.items()):
            assert isinstance(v.view.base, Mem)
            place = Mem(lo.name("place"), self.elem, v.view.base.roots)
            self.inputs[k] = SharedAcc(View(place, ZERO, v.view.strides, v.view.shape, True), v.op)
            self.captured[place.pointer] = which

    def targets(self) -> tuple[list[Expr], list[str]]:
        """How many bins each has, and where they begin."""
        names = []
        for v in self.accs.values():
            names.append(self.lo.name("bins"))
            assert isinstance(v.view.base, Mem)
            self.lo.out.append(ir.Pointer(names[-1], self.elem, v.view.base.pointer, v.view.offset))
        return [self.lo.let(n, "bins") for n in self.counts], names


def _bins(lo: DeviceLowerer, n: SoacLoop) -> _Bins | None:
    """The accumulators of a map that does nothing but update them, if one sub-histogram can have them all."""
    accs = [v for v in n.inputs if isinstance(v, Acc)]
    if not accs or not all(isinstance(v.type, AccType) for v in n.stm.pat):
        return refused("it makes more than updates") if accs else refused("it updates no accumulators")
    if not all(v.view.dense and isinstance(v.view.base, Mem) for v in accs):
        return refused("its bins do not lie densely")
    if not ONE_OPERATION(len({(acc_op(v), v.view.elem) for v in accs}) == 1):
        return refused("its bins differ in type or operation")
    return _Bins(lo, n.inputs, acc_op(accs[0]))


ROWS_SHARED = Transformation(
    "rows-in-shared-memory",
    "a block has rows, and sums of them, in shared memory",
    worth="rows are read once: k-means of 5 clusters 2.35 to 1.00 times the least bytes",
)


def in_shared_memory(
    lo: DeviceLowerer, n: SoacLoop, leaf: core.Lambda, sizes: Sequence[Expr], total: Expr, what: str,
    point: Callable[[Sequence[Expr]], None], sure: bool,
) -> tuple[Expr, list[ir.Stmt]] | None:  # fmt: skip
    """Under what condition a map's updates go by way of shared memory, and the statements that do so; None if the map
    does more than that.  `point` lowers one of its points; `sure`: whether it pays is not asked."""
    made = _bins(lo, n) if light_updates(leaf) else None
    if made is None:
        return None
    SHARED.fired()
    before = n.inputs
    with lo.block() as body:
        bins, targets = made.targets()
        blocks = Ref(lo.name("chunks"), I64)
        lo.emit(kir.Chunks(blocks.name, total, ONE, made.total))
        i = Ref(lo.name("i"), I64)
        with lo.kernel("block") as kernel:
            with lo.inside("thread"), lo.block() as update:
                n.inputs, lo.captured = made.inputs, made.captured
                point(lo.unflatten(i, sizes))
                n.inputs, lo.captured = before, {}
            each = kir.Function([i], update, [])
            lo.out.append(kir.SubHist(made.op, made.neutral, each, total, bins, targets, made.cells))
        passes = ir.Bin("/", ir.add(made.total, num(made.cells - 1)), num(made.cells))
        lo.launch(kernel, "tile", ir.mul(blocks, passes), f"{what}, added up in shared memory")
    some = compare("<", ZERO, made.total)  # in no pass at all nothing would be computed, nor fail
    if sure:
        return some, body
    few = compare("&&", some, compare("<=", made.total, num(MOST_PASSES * made.cells)))
    many = compare("<", ir.mul(num(FEW_BINS), made.total), total)
    return compare("&&", few, many), body


def rows_in_shared_memory(
    lo: DeviceLowerer, n: SoacLoop, inner: Expr, what: str, sure: bool
) -> tuple[Expr, list[ir.Stmt]] | None:
    """As `in_shared_memory`, for a map that updates by rows, at places that take work of the width `inner` to find."""
    u = row_updates(n.stm)
    made = _bins(lo, n) if u is not None and u.heavy and u.live else None
    staged = _staged(n, u) if made is not None and u is not None else None
    if made is not None and staged is None:
        return refused("what its threads read before they add is no array of rows, or several")
    if u is None or made is None or staged is None:
        return None
    rows = n.inputs[staged]
    assert isinstance(rows, View) and n.lam is not None
    room = ROOM_BYTES // rows.elem.bytes
    width, columns = lo.expr(u.width), rows.shape[1]
    with lo.block() as body:
        bins, targets = made.targets()
        blocks = Ref(lo.name("chunks"), I64)
        lo.emit(kir.Chunks(blocks.name, ir.mul(n.width, width), ONE, made.total))
        with lo.kernel("block") as kernel:
            first = _before(lo, n, u, staged)
            update = _update(lo, n, u, staged, made)
            i, j = Ref(lo.name("i"), I64), Ref(lo.name("j"), I64)
            with lo.inside("thread"), lo.block() as text:
                x = rows.load((i, j))
            load = kir.Function([i, j], text, [x])
            part = kir.StagedRows(load, first, columns, width, room)
            lo.out.append(kir.SubHist(made.op, made.neutral, update, n.width, bins, targets, made.cells, part))
        if any(isinstance(s, (ir.Ensure, ir.SlotRef, ir.Stack)) for s in statements(kernel)):
            return refused("its threads have arrays of their own")
        ROWS_SHARED.fired()
        lo.launch(kernel, "tile", blocks, f"{what}, rows and sums in shared memory")
    needed = [compare("<=", made.total, num(made.cells))]
    room_for = compare("<=", columns, num(room // LEAST_ROWS - 1))
    some = [compare("<", ZERO, columns), compare("<", ZERO, width)]
    pays = [compare("<", inner, Ref("LONG_INNER", I64)), compare("<", Ref("ENOUGH_THREADS", I64), n.width)]
    many = compare("<", ir.mul(num(FEW_BINS), made.total), ir.mul(n.width, width))
    conditions = [*needed, room_for, *some] if sure else [*needed, many, room_for, *some, *pays]
    return reduce(partial(compare, "&&"), conditions), body


def _staged(n: SoacLoop, u: RowUpdates) -> int | None:
    """Which of a map's inputs are the rows that its threads read before the updates: None unless it is one."""
    assert n.lam is not None
    heavy = {v for s in u.before if not isinstance(s.exp, CHEAP) for v in core.stm_free(s)}
    found = [
        k
        for k, (p, v) in enumerate(zip(n.lam.params, n.inputs, strict=True))
        if p in heavy and isinstance(v, View) and v.rank == 2 and isinstance(v.base, Mem) and v.dense
    ]
    return found[0] if len(found) == 1 else None


def _inputs(lo: DeviceLowerer, n: SoacLoop, staged: int, i: Ref, row: Ref, inputs: Sequence[Value]) -> None:
    """Bind a map's parameters at a point of which one row is in shared memory."""
    assert n.lam is not None
    lo.ranges[i.name] = n.width
    others = [k for k in range(len(inputs)) if k != staged]
    bind_elements(lo, n.lam, [n.lam.params[k] for k in others], [inputs[k] for k in others], i)
    rows = n.inputs[staged]
    assert isinstance(rows, View)
    memory = Mem(row.name, rows.elem, frozenset())
    lo.bind(n.lam.params[staged], View(memory, ZERO, (ONE,), (rows.shape[1],), True))


def _before(lo: DeviceLowerer, n: SoacLoop, u: RowUpdates, staged: int) -> kir.Function:
    rows = n.inputs[staged]
    assert isinstance(rows, View)
    i, row = Ref(lo.name("i"), I64), Ref(lo.name("row"), rows.elem)
    with lo.inside("thread"), lo.block() as text:
        _inputs(lo, n, staged, i, row, n.inputs)
        scope = core.rename(core.Lambda((), tuple(u.before), tuple(u.live)))
        values = [x for x in lo.scope(scope, repeats=True) if isinstance(x, Expr)]
    return kir.Function([i, row], text, values)


def _update(lo: DeviceLowerer, n: SoacLoop, u: RowUpdates, staged: int, bins: _Bins) -> kir.Function:
    rows = n.inputs[staged]
    assert isinstance(rows, View) and n.lam is not None
    i, j, row = Ref(lo.name("i"), I64), Ref(lo.name("j"), I64), Ref(lo.name("row"), rows.elem)
    live: list[Ref] = []
    with lo.inside("thread"), lo.block() as text:
        _inputs(lo, n, staged, i, row, bins.inputs)
        for v in u.live:
            assert isinstance(v.type, Prim)
            live.append(Ref(lo.name(v.name), v.type))
            lo.bind(v, live[-1])
        lo.captured = bins.captured
        lo.ranges[j.name] = lo.expr(u.width)
        place = Var("j", I64)
        lo.bind(place, j)
        accs = u.element.params[:-1]
        names: dict[Var, core.Atom] = dict(zip(u.element.params, [*u.accs, place], strict=True))
        assert len(accs) == len(u.accs)
        done = core.rename(core.Lambda((), u.element.stms, ()), names)
        lo.scope(core.Lambda((), (*u.views, *done.stms), ()), repeats=True)
        lo.captured = {}
    return kir.Function([i, j, row, *live], text, [])


__all__ = ["in_shared_memory", "rows_in_shared_memory"]
