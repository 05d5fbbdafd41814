"""The lowering of folds over pairs of rows (`all_pairs.py`) to tiles of a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.operator import commutes
from futad.core.types import I64, ArrayType, Prim, Var
from futad.flatten import kernel as kir
from futad.flatten import products
from futad.flatten.all_pairs import AllPairs, all_pairs_of
from futad.flatten.grids import scope
from futad.flatten.operators import Fold, operator
from futad.flatten.product_tiles import SMALL_TILE, Shape, cover, versions
from futad.flatten.products import Operation, Strided, Taken
from futad.imp import ir
from futad.imp.dispatch import Destination
from futad.imp.elements import bind_elements
from futad.imp.ir import ONE, ZERO, Expr, Ref, compare
from futad.imp.units import unit_of
from futad.imp.views import Mem, Value, View

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer


def lower_all_pairs(lo: DeviceLowerer, stm: core.Stm, destinations: Sequence[Destination]) -> list[Value]:
    """The nest at host level, as tiles."""
    found = all_pairs_of(stm)
    assert found is not None
    elem = found.fold.lam.result[0].type
    assert isinstance(elem, Prim) and isinstance(stm.exp, core.Map)
    a, b = [v if isinstance(v.base, Mem) else lo.materialise(v) for v in (lo.view(found.left), lo.view(found.right))]
    permuted = View(b.base, b.offset, (b.strides[1], b.strides[0]), (b.shape[1], b.shape[0]))
    m, n, k = [lo.expr(w) for w in (stm.exp.width, found.inner.width, found.fold.width)]
    op = Operation((m, n, k), ONE, Strided(a), Strided(permuted), elem, stm.pat[0].name, 2, None, narrow=True)
    op.nest = lo.asked_of(stm)

    def step() -> kir.Function:
        refs = [Ref(lo.name(w), elem) for w in ("sum", "x", "y")]
        with lo.inside("thread"), lo.block() as body:
            for p, r in zip(found.term.params, refs[1:], strict=True):
                lo.bind(p, r)
            x = lo.scope(found.term, repeats=True)[0]
            assert isinstance(x, Expr)
            total = ir.Scalar(found.op, (refs[0], x), elem, elem)
        return kir.Function(refs, body, [total])

    op.step, op.start = step, unit_of(found.op, elem)
    outs = [lo.host_view(v, w) for v, w in zip(stm.pat, destinations, strict=True)]
    if isinstance(found.inner, core.Fused):
        return _folded(lo, op, stm.exp, found, outs)
    # A tile's results are stored while others read their rows: nothing is placed where rows are read (placement.py).
    lo.materialise_all(core.stm_free(stm))
    if len(found.inner.lam.stms) == 1 and found.inner.lam.result == found.inner.lam.stms[0].pat:
        return products.into(lo, op, outs[0])
    _mapped(lo, op, stm.exp, found, outs)
    return list(outs)


def _each(lo: DeviceLowerer, outer: core.Map, found: AllPairs, point: Sequence[Expr], x: Expr) -> list[Expr]:
    """In a thread: what the nest makes of a pair, of whose fold it has the result."""
    inner = found.inner
    bind_elements(lo, outer.lam, outer.lam.params, [lo.value(a) for a in outer.arrays], point[1])
    products.statements(lo, outer.lam.stms[:-1])
    bind_elements(lo, inner.lam, inner.lam.params, [lo.value(a) for a in inner.arrays], point[2])
    for s in inner.lam.stms:
        if s.exp is found.fold:
            lo.bind(s.pat[0], x)
        else:
            products.statements(lo, [s])
    return [lo.expr(a) for a in inner.lam.result]


def _mapped(lo: DeviceLowerer, op: Operation, outer: core.Map, found: AllPairs, outs: Sequence[View]) -> None:
    """Such a nest whose pairs' folds are mapped to scalars."""

    def consume(point: Sequence[Expr], x: Expr) -> list[Expr]:
        for out, value in zip(outs, _each(lo, outer, found, point, x), strict=True):
            lo.store(out, op.index(point), value)
        return []

    products.tiled(lo, op, None, False, Taken(consume))


def _folded(lo: DeviceLowerer, op: Operation, outer: core.Map, found: AllPairs, outs: list[View]) -> list[Value]:
    """Such a nest whose pairs are folded to scalars: each tile folds its columns, another kernel the tiles if they are
    several side by side."""
    inner = found.inner
    assert isinstance(inner, core.Fused)
    folds = [
        Fold(f.lam, f.neutral, False, f.comm or commutes(f.lam)) for f in inner.reduces
    ]
    types = [t for f in folds for t in f.types]
    tiles = Ref(lo.name("tiles"), I64)
    rows = op.sizes[0]
    lo.emit(ir.Decl(tiles.name, I64, cover(op.sizes[1], SMALL_TILE[1]), mutable=True))
    parts: list[View] = []
    for t in types:
        memory = lo.alloc(t, (tiles, rows), None, "part")
        assert isinstance(memory.base, Mem)
        start = lo.name("part")
        lo.emit(ir.Pointer(start, t, memory.base.pointer, memory.offset, mutable=True))
        parts.append(View(Mem(start, t, memory.roots), ZERO, (ONE, rows), (rows, tiles)))

    def row_folds() -> kir.RowFolds:
        values = [Ref(lo.name("x"), t) for t in types]
        b, i, tile = [Ref(lo.name(w), I64) for w in ("b", "i", "tile")]
        with lo.inside("thread"), lo.block() as body:
            for part, x in zip(parts, values, strict=True):
                lo.store(part, (i, tile), x)
        neutral = [lo.expr(a) for f in folds for a in f.neutral]
        put = kir.Function([b, i, tile, *values], body, [])
        return kir.RowFolds(operator(lo, folds), neutral, all(f.commutes for f in folds), put)

    def version(shape: Shape) -> None:
        lo.out.append(ir.Assign(tiles.name, cover(op.sizes[1], shape[1])))
        if direct:
            lo.out.append(ir.If(compare("==", tiles, ONE), to_outs, []))
        taken = Taken(lambda point, x: _each(lo, outer, found, point, x), row_folds)
        products.launch(lo, op, shape, None, False, taken)

    # A single tile's folds are the results.
    direct = all(out.dense for out in outs)
    to_outs: list[ir.Stmt] = [
        ir.SetPointer(part.memory.pointer, out.memory.pointer, out.offset)
        for part, out in zip(parts, outs, strict=True)
    ]
    versions(lo, op, version)
    with lo.block() as second:
        _over_tiles(lo, outer.width, folds, parts, tiles, outs)
    lo.out += [ir.If(compare("!=", tiles, ONE), second, [])] if direct else second
    return list(outs)


def _over_tiles(
    lo: DeviceLowerer, width: core.Atom, folds: Sequence[Fold], parts: Sequence[View], tiles: Ref, outs: Sequence[View]
) -> None:
    """What the tiles have made of each row, folded."""
    size = Var("tiles", I64)
    lo.env[size] = tiles
    lo.forced.add(size)
    arrays = [Var("parts", ArrayType(p.elem, (width, size))) for p in parts]
    for v, p in zip(arrays, parts, strict=True):
        lo.bind(v, p)
    rows = tuple([Var("part", ArrayType(p.elem, (size,))) for p in parts])
    elements = tuple([Var("x", p.elem) for p in parts])
    made = tuple([Var("total", p.elem) for p in parts])
    each = tuple([core.Fold(f.lam, f.neutral, f.commutes) for f in folds])
    fold = core.Fused(size, rows, core.Lambda(elements, (), elements), (), each)
    lam = core.rename(core.Lambda(rows, (core.Stm(made, fold),), made))
    pat = tuple([Var("total", ArrayType(p.elem, (width,))) for p in parts])
    nest = core.Stm(pat, core.Map(width, tuple(arrays), lam))
    for value, out in zip(lo.scope(scope(core.Lambda((), (nest,), pat), lo.program), list(outs)), outs, strict=True):
        assert isinstance(value, View)
        lo.copy(out, value)


__all__ = ["lower_all_pairs"]
