"""Reductions and scans as kernels.

Note [Folds]
~~~~~~~~~~~~
A scan over one long dimension is one pass (`scan.cuh`), with the reductions beside it as components of what is
scanned.  A reduction is cut into chunks, one a block, and the block that is done last combines the chunks' results in
order.  A scan of very large elements is cut up likewise: a second kernel of one block scans the chunks' results, and a
third brings each chunk up to date with those before.
Within a block:

- a commutative reduction: each thread combines every blockDim-th element, then all threads their results, by shuffles
  in each warp and by way of shared memory between warps;
- another one, or a scan: tile by tile a prefix combination of the same kind, with the result of the tiles before
  carried in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.grid import Grid
from futad.core.operator import commutes
from futad.core.types import I64, U32, Prim
from futad.flatten import fission, products
from futad.flatten import kernel as kir
from futad.flatten.dispatch import in_block, on_host
from futad.flatten.grids import tuple_bytes
from futad.flatten.kernel_interface import NotInBlock
from futad.flatten.nests import atomic, block_map, folded_rows, host_map
from futad.flatten.operators import Fold, combine, operator
from futad.flatten.pair_tiles import lower_all_pairs
from futad.imp import ir
from futad.imp.dispatch import Destination
from futad.imp.ir import ONE, ZERO, Expr, Ref, compare, mul, num
from futad.imp.soacs import SoacLoop
from futad.imp.views import Acc, Mem, Value, View, as_scalar, dense_view

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer



def folds_of(n: SoacLoop) -> list[Fold]:
    """The nest's folds, of scalars."""
    out = [Fold(f.lam, f.neutral, True, False) for f in n.exp.scans]
    return out + [Fold(f.lam, f.neutral, False, f.comm or commutes(f.lam)) for f in n.exp.reduces]


Element = Callable[[Expr], list[Expr]]


TID = Ref("futad_tid", I64)


def fold_range(
    lo: DeviceLowerer, folds: list[Fold], element: Element, start: Expr, bound: Expr, outs: list[View]
) -> list[list[Expr]]:
    """In block mode: fold elements [start, bound); the results, the same in all threads.  Scans store to `outs`."""
    parts_: list[list[Ref]] = []
    for f in folds:
        row = []
        for a, t in zip(f.neutral, f.types, strict=True):
            name = lo.name("part")
            lo.out.append(ir.Decl(name, t, lo.expr(a), mutable=True))
            row.append(Ref(name, t))
        parts_.append(row)
    lo.out.append(kir.Sync())
    ordered = [(f, p) for f, p in zip(folds, parts_, strict=True) if not f.commutes]
    if not ordered:
        var = Ref(lo.name("i"), I64)
        with lo.inside("thread"), lo.block() as body, lo.guarded():
            values = element(var)
            for f, p in zip(folds, parts_, strict=True):
                k = len(p)
                _assign(lo, p, combine(lo, f, p, values[:k]))
                values = values[k:]
        lo.out.append(kir.Stride(var.name, ir.add(start, TID), bound, "futad_width", body))
    else:
        _tiles(lo, folds, parts_, element, start, bound, outs)
    for f, p in zip(folds, parts_, strict=True):
        if f.commutes:
            lo.out.append(kir.Together(operator(lo, [f]), _neutral(lo, f), p))
    return [list(p) for p in parts_]


def _assign(lo: DeviceLowerer, names: Sequence[Ref], values: Sequence[Expr]) -> None:
    for r, v in zip(names, values, strict=True):
        lo.out.append(ir.Assign(r.name, v))


def _neutral(lo: DeviceLowerer, f: Fold) -> list[Expr]:
    return [lo.expr(a) for a in f.neutral]


def _tiles(
    lo: DeviceLowerer, folds: list[Fold], carried: list[list[Ref]], element: Element, start: Expr, bound: Expr,
    outs: list[View],
) -> None:
    """Tile by tile; see Note [Folds]."""
    tile, i = Ref(lo.name("tile"), I64), Ref(lo.name("i"), I64)
    with lo.block() as loop:
        lo.out.append(ir.Decl(i.name, I64, ir.add(tile, TID)))
        mine: list[list[Ref]] = []
        for f in folds:
            row = []
            for a, t in zip(f.neutral, f.types, strict=True):
                name = lo.name("x")
                lo.out.append(ir.Decl(name, t, lo.expr(a), mutable=True))
                row.append(Ref(name, t))
            mine.append(row)
        with lo.inside("thread"), lo.block() as body, lo.guarded():
            values = element(i)
            for row in mine:
                _assign(lo, row, values[: len(row)])
                values = values[len(row) :]
        lo.out.append(ir.If(compare("<", i, bound), body, []))
        at = 0
        for f, x, carry in zip(folds, mine, carried, strict=True):
            if f.commutes:
                with lo.inside("thread"), lo.block() as body, lo.guarded():
                    _assign(lo, carry, combine(lo, f, carry, x))
                lo.out.append(ir.If(compare("<", i, bound), body, []))
                continue
            lo.out.append(kir.Together(operator(lo, [f]), _neutral(lo, f), x, carry))
            if f.scan:
                with lo.inside("thread"), lo.block() as body:
                    for r in x:
                        lo.store(outs[at], (i,), r)
                        at += 1
                lo.out.append(ir.If(compare("<", i, bound), body, []))
    lo.out.append(kir.Stride(tile.name, start, bound, "futad_width", loop))


def _elements(lo: DeviceLowerer, n: SoacLoop) -> Element:
    def element(i: Expr) -> list[Expr]:
        assert isinstance(i, Ref)
        lo.ranges[i.name] = n.width
        return [as_scalar(v) for v in n.elements(n.inputs, i)]

    return element


def _scan_outs(n: SoacLoop) -> list[View]:
    return [o for part in n.parts(n.outs).scans for o in part if o is not None]


def _results(n: SoacLoop, reds: list[Value]) -> list[Value]:
    final: list[Value] = [v for v in n.inputs if isinstance(v, Acc)]
    return [*final, *_scan_outs(n), *reds, *[o for o in n.parts(n.outs).mapped if o is not None]]


@in_block(core.Map, core.Reduce, core.Scan, core.Fused)
def _in_block(lo: DeviceLowerer, stm: core.Stm, e: core.Screma, destinations: list[Destination]) -> Sequence[Value]:
    if lo.alone is not None and len(stms := fission.split(stm)) > 1:
        return lo.scope(core.Lambda((), tuple(stms), stm.pat), destinations)
    n = SoacLoop(lo, stm, destinations)
    for k in folded_rows(e) if lo.turned else ():
        n.inputs[k] = lo.turned.get(e.arrays[k], n.inputs[k])
    if not n.exp.folds:
        return block_map(lo, n)
    if any(not isinstance(a.type, Prim) for f in n.exp.folds for a in f.neutral):
        raise NotInBlock
    folds = folds_of(n)
    n.inputs = atomic(n.inputs)
    results = fold_range(lo, folds, _elements(lo, n), ZERO, n.width, _scan_outs(n))
    lo.out.append(kir.Sync())
    reds = [x for f, r in zip(folds, results, strict=True) if not f.scan for x in r]
    return _results(n, list(reds))


@on_host(core.Map, core.Reduce, core.Scan, core.Fused)
def _on_host(lo: DeviceLowerer, stm: core.Stm, e: core.Screma, destinations: list[Destination]) -> Sequence[Value]:
    grid = stm.grid
    if grid is not None and grid.template == "product":
        values = products.product(lo, stm, lo.taking(stm), destinations)
        if values is not None:
            return values
        lo.materialise_all(core.stm_free(stm))
        grid = grid.otherwise
    assert grid is not None, "the pass `grids` has not seen it"
    if grid.template == "tiles":
        return lower_all_pairs(lo, stm, destinations)
    if grid.template == "scope":
        (version,) = grid.versions
        assert version.body is not None
        return lo.on_host(version.body, destinations)
    n = SoacLoop(lo, stm, destinations)
    n.inputs = atomic(n.inputs)
    match grid.template:
        case "map":
            return host_map(lo, n, grid)
        case "scan":
            return grid_scan(lo, n, folds_of(n), grid)
        case "scan-in-chunks":
            lo.fallback(f"scan for {', '.join(v.name for v in stm.pat)}: {grid.why}")
    return in_chunks(lo, n, folds_of(n))


def in_chunks(lo: DeviceLowerer, n: SoacLoop, folds: list[Fold]) -> list[Value]:
    """Reductions, and scans in three passes, over one dimension; see Note [Folds]."""
    chunks = Ref(lo.name("chunks"), I64)
    lo.emit(kir.Chunks(chunks.name, n.width, ONE, ONE))
    cells: list[list[View]] = []
    for f in folds:
        row = []
        for t in f.types:
            load = lo.scalar_slot(t)
            ensure = lo.out[-1]
            assert isinstance(ensure, ir.Ensure)
            ensure.count = chunks
            row.append(dense_view(_mem(lo, load), (chunks,)))
        cells.append(row)
    names = ", ".join(v.name for v in n.stm.pat)
    width = n.exp.width
    kind = "scan" if n.exp.scans else "reduce"
    with lo.kernel("block") as body, lo.space((chunks,), "block") as (index, _):
        start = lo.let(ir.Bin("/", mul(n.width, index[0]), chunks), "start")
        end = lo.let(ir.Bin("/", mul(n.width, ir.add(index[0], ONE)), chunks), "end")
        results = fold_range(lo, folds, _elements(lo, n), start, end, _scan_outs(n))
        _publish(lo, cells, index[0], results)
    if not n.exp.scans:
        # The block that is done last goes on.
        with lo.block() as last, lo.inside("block"):
            _second(lo, folds, cells, chunks)
        body.append(ir.If(compare("<", ONE, chunks), [kir.LastBlock(last)], []))
    lo.launch(body, "block", chunks, f"{kind} over [{width!r}] for {names}", num(kir.BLOCK_LIMIT))
    if n.exp.scans:
        with lo.block() as more:
            with lo.kernel("block") as body:
                _second(lo, folds, cells, chunks)
            lo.launch(body, "block", ONE, f"scan_chunks for {names}", num(kir.BLOCK_LIMIT))
            _third(lo, n, [f for f in folds if f.scan], cells, chunks, f"scan_finish for {names}")
        lo.out.append(ir.If(compare("<", ONE, chunks), more, []))
    reds: list[Value] = []
    for f, row in zip(folds, cells, strict=True):
        if not f.scan:
            reds += [v.load((ZERO,)) for v in row]
    return _results(n, reds)


def grid_scan(lo: DeviceLowerer, n: SoacLoop, folds: list[Fold], grid: Grid) -> list[Value]:
    """Scans, and reductions beside them, in one pass: all are components of one scan."""
    types = [t for f in folds for t in f.types]
    size = tuple_bytes(types)
    items = grid.shared // (kir.TILE_THREADS * size)
    tiles = lo.let(ir.Bin("/", ir.add(n.width, num(kir.TILE_THREADS * items - 1)), num(kir.TILE_THREADS * items)), "n")
    cells = [None if f.scan else [lo.scalar_slot(t) for t in f.types] for f in folds]
    if any(cells):
        with lo.single("neutral elements"):
            for f, row in zip(folds, cells, strict=True):
                for cell, a in zip(row or [], f.neutral, strict=False):
                    lo.out.append(ir.Store(cell.pointer, ZERO, lo.expr(a)))
    root = lo.new_root(U32)
    assert root.slot is not None
    state = lo.name("state")
    words = ir.add(num(3), mul(tiles, num(1 + 2 * -(-size // 4))))
    lo.emit(ir.Ensure(state, U32, root.slot, words))
    lo.out.append(ir.If(compare("<", ONE, tiles), [kir.Zero(state, U32, words)], []))
    names = ", ".join(v.name for v in n.stm.pat)
    width = n.exp.width
    with lo.kernel("block") as body:
        i, j = Ref(lo.name("i"), I64), Ref(lo.name("i"), I64)
        with lo.inside("thread"), lo.block() as text:
            values = _elements(lo, n)(i)
        element = kir.Function([i], text, values)
        made = [Ref(lo.name("x"), t) for t in types]
        with lo.inside("thread"), lo.block() as text:
            _put_scanned(lo, n, folds, cells, made, j)
        put = kir.Function([j, *made], text, [])
        op = operator(lo, folds)
        neutral = [lo.expr(a) for f in folds for a in f.neutral]
        lo.out.append(kir.ScanAll(op, neutral, element, put, n.width, state, items))
    lo.launch(body, "tile", tiles, f"scan over [{width!r}] for {names}")
    return _results(n, [x for row in cells if row is not None for x in row])


def _put_scanned(
    lo: DeviceLowerer, n: SoacLoop, folds: list[Fold], cells: Sequence[list[ir.Load] | None], made: Sequence[Ref],
    i: Ref,
) -> None:  # fmt: skip
    """Where element i of a scan goes; of reductions the last."""
    outs = iter(_scan_outs(n))
    last: list[ir.Stmt] = []
    at = 0
    for f, row in zip(folds, cells, strict=True):
        for k in range(len(f.types)):
            if row is None:
                lo.store(next(outs), (i,), made[at])
            else:
                last.append(ir.Store(row[k].pointer, ZERO, made[at]))
            at += 1
    if last:
        lo.out.append(ir.If(compare("==", i, ir.sub(n.width, ONE)), last, []))


def _publish(lo: DeviceLowerer, cells: list[list[View]], at: Expr, results: list[list[Expr]]) -> None:
    with lo.block() as body, lo.inside("thread"):
        for row, values in zip(cells, results, strict=True):
            for v, x in zip(row, values, strict=True):
                lo.store(v, (at,), x)
    lo.out += [kir.Sync(), kir.Single(body)]


def _mem(lo: DeviceLowerer, load: ir.Load) -> Mem:
    return Mem(load.pointer, load.type, frozenset(lo.scalar_roots[load.pointer]))


def _second(lo: DeviceLowerer, folds: list[Fold], cells: list[list[View]], chunks: Expr) -> None:
    """One block combines the chunks' results: reductions into the first cell, scans into prefixes."""
    with lo.guarded():
        flat = [v for row in cells for v in row]
        scans = [v for f, row in zip(folds, cells, strict=True) if f.scan for v in row]
        results = fold_range(lo, folds, lambda i: [lo.let(v.load((i,)), "x") for v in flat], ZERO, chunks, scans)
        reds = [i for i, f in enumerate(folds) if not f.scan]
        _publish(lo, [cells[i] for i in reds], ZERO, [results[i] for i in reds])


def _third(lo: DeviceLowerer, n: SoacLoop, scans: list[Fold], cells: list[list[View]], chunks: Expr, what: str) -> None:
    """Combine each element of a chunk with what comes before the chunk."""
    with lo.kernel("block") as body, lo.space((ir.sub(chunks, ONE),), "block") as (index, _):
        here = ir.add(index[0], ONE)
        start = lo.let(ir.Bin("/", mul(n.width, here), chunks), "start")
        end = lo.let(ir.Bin("/", mul(n.width, ir.add(here, ONE)), chunks), "end")
        outs = _scan_outs(n)
        var = Ref(lo.name("i"), I64)
        with lo.inside("thread"), lo.block() as loop, lo.guarded():
            at = 0
            for f, row in zip(scans, cells, strict=False):
                k = len(row)
                before = [v.load((index[0],)) for v in row]
                mine = [lo.let(o.load((var,)), "x") for o in outs[at : at + k]]
                for o, x in zip(outs[at : at + k], combine(lo, f, before, mine), strict=True):
                    lo.store(o, (var,), x)
                at += k
        lo.out.append(kir.Stride(var.name, ir.add(start, TID), end, "futad_width", loop))
    lo.launch(body, "block", ir.sub(chunks, ONE), what, num(kir.BLOCK_LIMIT))
