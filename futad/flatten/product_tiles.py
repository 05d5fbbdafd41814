"""The shapes of the tiles of matrix products, of which the host picks one by sizes (`products.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from futad.core.types import I64
from futad.flatten.device_choices import left
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Expr, Ref, num

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer
    from futad.flatten.products import Operation
    from futad.rewrite.choices import Nest

Shape = tuple[int, int, int, int, int]
SMALL_TILE: Shape = (32, 32, 16, 2, 2)
NARROW_TILE: Shape = (256, 8, 4, 4, 2)
LARGE_TILES: dict[str, Shape] = {"f32": (64, 128, 8, 8, 4), "f64": (64, 64, 8, 4, 4)}
FEWEST_PARTS = 4  # of a small product's sums that are worth another launch
NARROW, LARGE, PARTS, SMALL = "narrow-tiles", "large-tiles", "sums-in-parts", "small-tiles"


def cover(x: Expr, tile: int) -> Expr:
    return ir.Bin("/", ir.add(x, num(tile - 1)), num(tile))


def tiles(op: Operation, shape: Shape, least: Expr = ZERO) -> Expr:
    """The number of tiles; `least`: of those side by side."""
    across = cover(op.sizes[1], shape[1])
    if least != ZERO:
        across = ir.Scalar("max", (across, least), I64, I64)
    return ir.mul(cover(op.sizes[0], shape[0]), across)


def versions(
    lo: DeviceLowerer, op: Operation, version: Callable[[Shape], None],
    in_parts: Callable[[Shape, Expr], None] | None = None, plain: bool = False,
) -> None:  # fmt: skip
    """All tile shapes; the host picks the large one if there are tiles enough for the device, or else if sums are long
    enough to be cut into so many parts that there are (`in_parts`).  What is `plain` the BLAS may get, which cuts it up
    itself; in parts there are those that are too small for it."""
    large = LARGE_TILES[op.elem.name]

    def body(shape: Shape) -> list[ir.Stmt]:
        with lo.block() as made:
            version(shape)
        return made

    count = ir.mul(op.batches, tiles(op, large))
    few = ir.compare("<", count, Ref("ENOUGH_TILES", I64))
    if op.nest is not None and _chosen(lo, op, op.nest, body, in_parts, plain):
        return
    less = body(SMALL_TILE)
    if in_parts is not None:
        several, parted = _parted(lo, op, in_parts, plain)
        less = [ir.If(several, parted, less)]
    choice: ir.Stmt = ir.If(few, less, body(large))
    if op.narrow:
        choice = ir.If(_is_narrow(op), body(NARROW_TILE), [choice])
    lo.out.append(choice)


def _chosen(
    lo: DeviceLowerer, op: Operation, nest: Nest, body: Callable[[Shape], list[ir.Stmt]],
    in_parts: Callable[[Shape, Expr], None] | None, plain: bool,
) -> bool:  # fmt: skip
    """The tile shapes that a schedule leaves; False if it leaves all, so that the host picks as ever."""
    large = LARGE_TILES[op.elem.name]
    there = [NARROW] * op.narrow + [LARGE] + [PARTS] * (in_parts is not None) + [SMALL]
    kept = left(nest, there)
    for name, why in ((NARROW, "it is no fold of pairs of rows"), (PARTS, "the BLAS may get it, or nothing is added")):
        if name not in there:
            nest.was_not(name, why)
    for name in kept:
        nest.was(name)
    if len(kept) == len(there):
        return False
    if not kept:
        nest.failed |= {c: "one shape of tiles is needed" for c in nest.asked if c.no and c.name in there}
        return False
    sure = any(c.name in there for c in nest.forced)
    count = ir.mul(op.batches, tiles(op, large))
    few = ir.compare("<", count, Ref("ENOUGH_TILES", I64))
    made: list[tuple[Expr, list[ir.Stmt]]] = []
    if NARROW in kept:
        made.append((_has_few_columns(op) if sure else _is_narrow(op), body(NARROW_TILE)))
    if PARTS in kept:
        assert in_parts is not None
        several, parted = _parted(lo, op, in_parts, plain)
        made.append((several if sure else ir.compare("&&", few, several), parted))
    if LARGE in kept:
        made.append((ir.compare("<=", Ref("ENOUGH_TILES", I64), count), body(large)))
    if SMALL in kept or kept[-1] in (NARROW, PARTS):
        made.append((ONE, body(SMALL_TILE)))
    out = made[-1][1]  # for any sizes
    for cond, stms in reversed(made[:-1]):
        out = [ir.If(cond, stms, out)]
    lo.out += out
    return True


def _parted(
    lo: DeviceLowerer, op: Operation, in_parts: Callable[[Shape, Expr], None], plain: bool
) -> tuple[Expr, list[ir.Stmt]]:
    """A product whose sums are cut into parts, and whether that pays."""
    shape = SMALL_TILE if plain else LARGE_TILES[op.elem.name]
    splits = Ref(lo.name("splits"), I64)
    lo.out.append(ir.Decl(splits.name, I64, _splits(op, shape, ir.mul(op.batches, tiles(op, shape)))))
    with lo.block() as parted:
        in_parts(shape, splits)
    if not plain:
        return ir.compare("<", ONE, splits), parted
    small = ir.compare("<", ir.product([op.batches, *op.sizes]), Ref("BLAS", I64))
    return ir.compare("&&", ir.compare("<=", num(FEWEST_PARTS), splits), small), parted


def _has_few_columns(op: Operation) -> Expr:
    """Whether a tile has all columns: folds of tiles have memory for as many tiles as small ones would be."""
    return ir.compare("<=", op.sizes[1], num(NARROW_TILE[1]))


def _is_narrow(op: Operation) -> Expr:
    """Whether there are few columns, and rows for many tiles."""
    many = ir.compare("<=", Ref("ENOUGH_TILES", I64), tiles(op, NARROW_TILE))
    return ir.compare("&&", _has_few_columns(op), many)


def _splits(op: Operation, shape: Shape, count: Expr) -> Expr:
    """Into how many parts sums are cut where there are so few tiles: two blocks a multiprocessor, if none has fewer
    than eight steps."""
    count = ir.Scalar("max", (count, ONE), I64, I64)
    wanted = ir.Bin("/", ir.add(ir.mul(num(2), Ref("ENOUGH_TILES", I64)), ir.sub(count, ONE)), count)
    return ir.Scalar("min", (wanted, ir.Bin("/", op.sizes[2], num(8 * shape[2]))), I64, I64)


__all__ = ["SMALL_TILE", "Shape", "cover", "tiles", "versions"]
