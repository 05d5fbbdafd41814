"""Results written in rows, through a buffer.

A loop in vector lanes that writes the elements of a row for each iteration scatters every element of a vector to
another row.  So where the result is larger than the caches, a block of iterations writes to a buffer that stays in the
nearest one, and the buffer, which is the same piece of the result, is written out as a whole, past all of them.
"""

from __future__ import annotations

from collections.abc import Set

from futad.core.types import I64, Prim
from futad.fires import by_number, refused
from futad.imp import ir
from futad.imp.ir import Expr, Ref, add, mul, num
from futad.imp.loops.facts import LoopFacts
from futad.imp.walk import loads_in
from futad.legality import Legality

LEGAL = Legality(
    "staged-rows",
    "rows of a result are written to a buffer, which is then written out as a whole",
    worth="bundle adjustment's Jacobian of 287,451 observations 24 to 12 ms: `benchmarks/cpu.py --only ba --threads 1`",
)
ROWS_ONLY = LEGAL.condition("used as rows only", "an element is read or written in memory while it is in the buffer")
WHOLE = LEGAL.condition("whole rows", "elements that no iteration writes are overwritten by what is in the buffer")

LEAST = 8  # elements of a row that goes through a buffer
BUFFER = 12 << 10  # bytes of all buffers of a loop
BLOCKS = (64, 32, 16)  # iterations
LARGE = 12 << 20  # bytes of rows that the caches do not hold


def staged(
    loop: ir.For, name: str, others: Set[tuple[str, Expr]], asked: int = 0
) -> list[ir.Stmt] | None:
    """The loop, by blocks where its rows are large; None if it writes no whole rows.  Names of variables begin with
    `name`; `others`: pointers and places of results that are in no row, maybe beside the rows; `asked`: iterations of a
    block."""
    rows = _rows(loop, others)
    size = sum(scale * t.bits // 8 for _, scale, _, t in rows)
    block = asked or next((b for b in BLOCKS if b * size <= BUFFER), 0)
    if not rows:
        return refused(f"it writes no whole rows of {LEAST} elements or more")
    if block == 0:
        return refused(f"{BLOCKS[-1]} rows of {size} bytes do not fit into a buffer of {BUFFER}")
    by_number(block)
    start, end = Ref(f"{name}_block", I64), Ref(f"{name}_end", I64)
    buffers: list[ir.Stmt] = []
    writes: list[ir.Stmt] = []
    into: dict[ir.Store, ir.Store] = {}
    first = ir.sub(Ref(loop.var, I64), start)
    for k, (stores, scale, rest, t) in enumerate(rows):
        buffer = f"{name}_rows_{k}"
        buffers.append(ir.Stack(buffer, t, block * scale))
        pointer = next(iter(stores)).pointer
        for s, at in stores.items():
            assert s.op is None, "additions in vector lanes are to places side by side"
            into[s] = ir.Store(buffer, add(mul(first, num(scale)), num(at)), s.value)
        count = mul(ir.sub(end, start), num(scale))
        writes.append(ir.Stream(pointer, add(rest, mul(start, num(scale))), buffer, count, t))
    last = ir.Scalar("min", (add(start, num(block)), loop.bound), I64, I64)
    body = [into.get(s, s) if isinstance(s, ir.Store) else s for s in loop.body]
    inner = ir.For(loop.var, end, body, start, loop.independent, loop.partials, map=True, lanes=loop.lanes)
    blocks = ir.For(
        start.name, loop.bound, [*buffers, ir.Decl(end.name, I64, last), inner, *writes], loop.start, step=block
    )
    large = ir.compare("<=", num(LARGE), mul(loop.bound, num(size)))
    return [ir.If(large, [blocks, ir.StreamEnd()], [loop])]


def _rows(loop: ir.For, others: Set[tuple[str, Expr]]) -> list[tuple[dict[ir.Store, int], int, Expr, Prim]]:
    """The stores that together fill one row an iteration, with their places in the row; its length, where the first row
    of all starts, the element type.

    An array is read before its rows are stored, if at all, and nothing but rows and `others` is stored there: until the
    buffer is written out, memory has what was there before.  It may have several rows an iteration, each stored after
    the other, as they are then written out."""
    facts = LoopFacts(loop.var, loop.body)
    groups: dict[str, dict[tuple[int, Expr], dict[ir.Store, int]]] = {}
    broken: set[str] = set()
    for s in loop.body:
        broken |= {x.pointer for x in loads_in(s)} & groups.keys()
        if not isinstance(s, ir.Store) or (s.pointer, s.index) in others:
            continue
        rows_of = groups.setdefault(s.pointer, {})
        place = facts.place(s.index)
        if place is None:
            broken.add(s.pointer)
            continue
        scale, constant, rest = place
        if (scale, rest) in rows_of and (scale, rest) != list(rows_of)[-1]:
            broken.add(s.pointer)
        rows_of.setdefault((scale, rest), {})[s] = constant
    rows: list[tuple[dict[ir.Store, int], int, Expr, Prim]] = []
    for pointer, rows_of in groups.items():
        if any(scale < LEAST for scale, _ in rows_of) or not ROWS_ONLY(pointer not in broken):
            continue
        if not WHOLE(all(_whole(group, scale) for (scale, _), group in rows_of.items())):
            continue
        for (scale, rest), group in rows_of.items():
            low = min(group.values())
            by_place = {s: at - low for s, at in group.items()}
            rows.append((by_place, scale, add(rest, num(low)), next(iter(group)).value.type))
    return rows


def _whole(group: dict[ir.Store, int], scale: int) -> bool:
    """Whether the stores are to all elements of a row of this length, each row beside the next one."""
    low = min(group.values())
    return set(group.values()) == set(range(low, low + scale))
