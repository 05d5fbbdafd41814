"""Matrix products: tiled kernels, one product or a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import I64, Var
from futad.flatten import kernel as kir
from futad.flatten.lower import DeviceLowerer, in_block, on_host, over
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Expr, num
from futad.imp.lower import Want
from futad.imp.soacs import element
from futad.imp.views import Acc, Mem, Value, View

if TYPE_CHECKING:
    from futad.imp.soacs import Nest

MOST_BATCHES = 65535  # of a grid's third dimension

SMALL_TILE = (32, 32, 16, 2, 2)
LARGE_TILES = {"f32": (128, 128, 8, 8, 8), "f64": (64, 64, 16, 4, 4)}


@on_host(core.MatMul)
def _matmul(lo: DeviceLowerer, stm: core.Stm, e: core.MatMul, wants: list[Want]) -> Sequence[Value]:
    a, b = [v if isinstance(v.base, Mem) else lo.materialise(v) for v in (lo.view(e.a), lo.view(e.b))]
    dst: View | None = None
    if e.plus:
        plus = lo.view(e.plus[0])
        if lo.can_overwrite(plus, (e.a, e.b)):
            dst = plus
    if dst is None:
        dst = lo.alloc(a.elem, (a.shape[0], b.shape[1]), wants[0], stm.pat[0].name)
        if e.plus:
            lo.copy(dst, plus)
    name = stm.pat[0].name
    large = LARGE_TILES.get(a.elem.name)
    if large is None:  # f16: products are not worth a tile of their own
        _plain_product(lo, a, b, dst, bool(e.plus), name)
        return [dst]
    m, n = dst.shape
    versions = []
    for shape in (SMALL_TILE, large):
        with lo.block() as version:
            _tiled_product(lo, a, b, dst, shape, bool(e.plus), name)
        versions.append(version)
    few = ir.compare("<", _tiles(m, n, large), ir.Ref("ENOUGH_TILES", I64))
    lo.out.append(ir.If(few, versions[0], versions[1]))
    return [dst]


def _tiles(m: Expr, n: Expr, shape: tuple[int, int, int, int, int]) -> Expr:
    def cover(x: Expr, tile: int) -> Expr:
        return ir.Bin("/", ir.add(x, num(tile - 1)), num(tile))

    return ir.mul(cover(m, shape[0]), cover(n, shape[1]))


def _tiled_product(
    lo: DeviceLowerer, a: View, b: View, c: View, shape: tuple[int, int, int, int, int], accumulate: bool, name: str,
    batches: Expr = ONE, steps: Sequence[Expr] = (ZERO, ZERO, ZERO),
) -> None:
    """`steps`: how far the matrices of one batch are from those of the one before."""
    inner = (0 if a.strides[0] == ONE else 1, 0 if b.strides[0] == ONE else 1)

    def plain(x: Expr) -> Expr:
        # Everything in variables, also constants: then one kernel serves all products of the same kind.
        at = lo.name("g")
        lo.out.append(ir.Decl(at, I64, x))
        return ir.Ref(at, I64)

    def matrix(v: View) -> tuple[str, Expr, Expr, Expr]:
        assert isinstance(v.base, Mem)
        start = lo.name("m")
        lo.out.append(ir.Pointer(start, v.elem, v.base.pointer, v.offset))
        return (start, ZERO, plain(v.strides[0]), plain(v.strides[1]))

    sizes = (plain(c.shape[0]), plain(c.shape[1]), plain(a.shape[1]))
    ma, mb, mc = [matrix(v) for v in (a, b, c)]
    count, (sa, sb, sc) = plain(batches), [plain(x) for x in steps]
    with lo.kernel("block") as body:
        lo.out.append(kir.Tile(a.elem, shape, sizes, ma, mb, mc, inner, accumulate, count, (sa, sb, sc)))
    text = "x".join(map(str, shape[:2]))
    lo.launch(body, "tile", _tiles(c.shape[0], c.shape[1], shape), f"product {name}, tiles of {text}", count)


def _plain_product(lo: DeviceLowerer, a: View, b: View, c: View, accumulate: bool, name: str) -> None:
    with over(lo, c.shape, f"product {name}, an element a thread") as (i, j):
        _element_of_product(lo, a, b, c, c if accumulate else None, i, j)


def _element_of_product(lo: DeviceLowerer, a: View, b: View, c: View, plus: View | None, i: Expr, j: Expr) -> None:
    name = lo.name("sum")
    first = plus.load((i, j)) if plus is not None else ir.Num(0.0, a.elem)
    lo.emit(ir.Decl(name, a.elem, first, mutable=True))
    with lo.loop(a.shape[1], "k") as (k, _):
        product = ir.Scalar("mul", (a.load((i, k)), b.load((k, j))), a.elem, a.elem)
        lo.emit(ir.Accumulate(name, "add", product))
    lo.store(c, (i, j), ir.Ref(name, a.elem))


@in_block(core.MatMul)
def _block_matmul(lo: DeviceLowerer, stm: core.Stm, e: core.MatMul, wants: list[Want]) -> Sequence[Value]:
    a, b = lo.view(e.a), lo.view(e.b)
    dst = lo.alloc(a.elem, (a.shape[0], b.shape[1]), wants[0], stm.pat[0].name)
    plus = lo.view(e.plus[0]) if e.plus else None
    with lo.shared_out(dst.shape) as (i, j):
        _element_of_product(lo, a, b, dst, plus, i, j)
    return [dst]



def batched(lo: DeviceLowerer, n: Nest, inner: Sequence[core.Stm]) -> bool:
    """Lower a map whose body is a matrix product of views as one batched product; False if it is not that."""
    lam = n.lam
    assert lam is not None
    if inner or not lam.stms or any(isinstance(v, Acc) for v in n.inputs):
        return False
    last = lam.stms[-1]
    bound = {*lam.params, *(v for s in lam.stms for v in s.pat)}
    if not isinstance(last.exp, core.MatMul) or lam.result != last.pat or not set(last.exp.plus) <= set(lam.params):
        return False
    if any(isinstance(x, Var) and x in bound for x in getattr(last.pat[0].type, "shape", ())):
        return False
    for s in lam.stms[:-1]:
        e = s.exp
        if not isinstance(e, core.Rearrange) and not (
            isinstance(e, core.At) and e.check is None and not set(e.operands()[1:]) & bound and not _scalar(s)
        ):
            return False
    pairs: list[tuple[View, View]] = []
    for i in (ZERO, ONE):
        for p, v in zip(lam.params, n.inputs, strict=True):
            x: Value = element(lo, v, i, p.name) if isinstance(v, View) and v.rank > 1 else ZERO
            lo.env[p] = x
        for s in lam.stms[:-1]:
            for var, value in zip(s.pat, lo.lower(s, [None] * len(s.pat)), strict=True):
                lo.env[var] = value
        pairs.append((lo.view(last.exp.a), lo.view(last.exp.b)))
    (a, b), (a1, b1) = pairs
    out = n.outs[0]
    assert out is not None
    if not isinstance(a.base, Mem) or not isinstance(b.base, Mem) or a.elem.name not in LARGE_TILES:
        return False
    if last.exp.plus:
        plus = n.inputs[lam.params.index(last.exp.plus[0])]  # type: ignore[arg-type]
        assert isinstance(plus, View)
        lo.copy(out, plus)
    steps = (ir.sub(a1.offset, a.offset), ir.sub(b1.offset, b.offset), out.strides[0])
    m, k = out.shape[1:]
    name = n.stm.pat[0].name
    versions = []
    for shape in (SMALL_TILE, LARGE_TILES[a.elem.name]):
        with lo.block() as version, lo.loop(n.width, "b") as (start, loop):
            # The grid's third dimension is limited: parts of the batch at a time.
            loop.step = MOST_BATCHES
            rest = ir.Scalar("min", (ir.sub(n.width, start), num(MOST_BATCHES)), I64, I64)
            va, vb, vc = [
                View(v.base, ir.add(v.offset, ir.mul(start, s)), v.strides, v.shape)
                for v, s in zip((a, b, out.row((ZERO,))), steps, strict=True)
            ]
            _tiled_product(lo, va, vb, vc, shape, bool(last.exp.plus), name, rest, steps)
        versions.append(version)
    tiles = ir.mul(n.width, _tiles(m, k, LARGE_TILES[a.elem.name]))
    lo.out.append(ir.If(ir.compare("<", tiles, ir.Ref("ENOUGH_TILES", I64)), versions[0], versions[1]))
    return True


def _scalar(s: core.Stm) -> bool:
    return not hasattr(s.pat[0].type, "shape")
