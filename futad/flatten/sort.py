"""Sorts as kernels: a radix sort of the whole grid at host level (`radix_sort.cuh`), the sequential one by a block's
first thread inside of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import I64, U32
from futad.flatten import kernel as kir
from futad.flatten.dispatch import in_block, on_host
from futad.imp import ir
from futad.imp.dispatch import MEMORY, Destination
from futad.imp.ir import Expr, add, compare, mul, num, sub
from futad.imp.sort import digits, emit_sort, pointer, scalar
from futad.imp.views import Mem, Value, View

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

DIGIT = kir.RADIX_DIGITS.bit_length() - 1
KEYS = 8  # of a tile, a thread
MOST = 1 << 32  # keys, which are counted in 32 bits, are fewer
COUNTS = 15  # of the tile of a scan of counts, a thread


def _tiles(n: Expr, items: int) -> Expr:
    each = kir.TILE_THREADS * items
    return ir.Bin("/", add(n, num(each - 1)), num(each))


def _memory(v: View) -> Mem:
    assert isinstance(v.base, Mem)
    return v.base


def _nowhere(lo: DeviceLowerer) -> Mem:
    """A null pointer, to be set."""
    name = lo.name("p")
    lo.emit(ir.Pointer(name, I64, mutable=True))
    return Mem(name, I64, frozenset())


@on_host(core.ArgSort)
def _on_host(lo: DeviceLowerer, stm: core.Stm, e: core.ArgSort, destinations: list[Destination]) -> Sequence[Value]:
    """Pass by pass: count, scan, scatter.  The first takes the keys as they lie and the places 0, 1, 2, ...; the last
    leaves only places."""
    keys = lo.dense(lo.view(e.keys))
    (n,) = keys.shape
    if stm.grid is not None and stm.grid.template == "one-thread":
        return [_by_one_thread(lo, stm, e, keys)]
    lo.emit(ir.Check(compare("<", n, num(MOST)), MEMORY, -1, (n,)))
    passes = lo.let(scalar("max", digits(lo, lo.expr(e.bound), DIGIT), ir.ONE), "passes")
    out = lo.host_view(stm.pat[0], None)

    def room(least: int) -> Mem:
        """Memory for a sort of so many passes, or more."""
        more = scalar("min", scalar("max", sub(passes, num(least - 1)), ir.ZERO), ir.ONE)
        return pointer(lo, lo.alloc(I64, (mul(n, more),)))

    # What a pass reads and what it writes: keys, and places; they change places.
    orders = [room(2), pointer(lo, out)]
    spare = [room(3), room(2)]
    with lo.block() as even:
        lo.emit(ir.Swap(orders[0].pointer, orders[1].pointer, I64))
    lo.emit(ir.If(compare("==", ir.Bin("%", passes, num(2)), ir.ZERO), even, []))
    source, places = pointer(lo, keys), _nowhere(lo)
    tiles = lo.let(_tiles(n, KEYS), "tiles")
    counters = lo.let(mul(tiles, num(kir.RADIX_DIGITS)), "n")
    scans = lo.let(_tiles(counters, COUNTS), "scans")
    words = lo.let(add(num(3), mul(scans, num(3))), "n")
    counts, state = [_memory(lo.alloc(U32, (size,))) for size in (counters, words)]
    lo.emit(ir.If(compare("<", ir.ONE, scans), [kir.Zero(state.pointer, U32, words)], []))
    name = stm.pat[0].name
    with lo.loop(passes, "digit") as (k, _):
        shift = lo.let(mul(k, num(DIGIT)), "shift")
        made = _nowhere(lo)
        lo.emit(ir.If(compare("<", add(k, ir.ONE), passes), [ir.SetPointer(made.pointer, spare[1].pointer)], []))
        steps: list[tuple[str, int, Expr, list[Expr | Mem]]] = [
            ("count", KEYS, tiles, [source, n, shift, counts]),
            ("scan", COUNTS, scans, [counts, tiles, state]),
            ("scatter", KEYS, tiles, [source, places, made, orders[1], n, shift, counts]),
        ]
        for step, items, units, args in steps:
            with lo.kernel("block") as body:
                lo.out.append(kir.RadixStep(step, items, args))
            lo.launch(body, "tile", units, f"sort for {name}: {step}")
        lo.emit(ir.SetPointer(source.pointer, made.pointer))
        lo.emit(ir.SetPointer(places.pointer, orders[1].pointer))
        lo.emit(ir.Swap(orders[0].pointer, orders[1].pointer, I64))
        lo.emit(ir.Swap(spare[0].pointer, spare[1].pointer, I64))
    return [out]


def _by_one_thread(lo: DeviceLowerer, stm: core.Stm, e: core.ArgSort, keys: View) -> View:
    (n,) = keys.shape
    out = lo.host_view(stm.pat[0], None)
    room, counts = [lo.alloc(I64, (size,)) for size in (n, num(1 << lo.target.digit_bits))]
    with lo.single("sort"):
        emit_sort(lo, keys, lo.expr(e.bound), (out, room, counts))
    return out


@in_block(core.ArgSort)
def _in_block(lo: DeviceLowerer, stm: core.Stm, e: core.ArgSort, destinations: list[Destination]) -> Sequence[Value]:
    keys = lo.view(e.keys)
    (n,) = keys.shape
    memory = [lo.alloc(I64, (size,)) for size in (n, n, num(1 << lo.target.digit_bits))]
    with lo.block() as body, lo.inside("thread"), lo.guarded():
        emit_sort(lo, keys, lo.expr(e.bound), (memory[0], memory[1], memory[2]))
    lo.out += [kir.Sync(), kir.Single(body), kir.Sync()]
    return [memory[0]]
