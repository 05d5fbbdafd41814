"""Results written in rows, through a buffer.

A loop in vector lanes that writes the elements of a row for each iteration scatters every element of a vector to
another row.  So a block of iterations writes to a buffer that stays in the nearest cache, and the buffer, which is the
same piece of the result, is written out as a whole, past the caches where the result is larger than they are.
"""

from __future__ import annotations

from futad.core.types import I64, Prim
from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref, add, mul, num
from futad.legality import Legality

LEGAL = Legality("staging", "rows of a result are written to a buffer, which is then written out as a whole")
STORED_ONCE = LEGAL.condition("each element stored once", "what the buffer is to be added to is not in it")
WHOLE = LEGAL.condition("whole rows", "elements that no iteration writes are overwritten by what is in the buffer")

LEAST = 8  # elements of a row that goes through a buffer
BUFFER = 12 << 10  # bytes of all buffers of a loop
BLOCKS = (64, 32, 16)  # iterations

Affine = tuple[int, int, Expr]
"""scale * (the loop's variable) + constant + invariant"""


def staged(loop: ir.For, name: str) -> list[ir.Stmt]:
    """The loop by blocks, if it writes whole rows; names of variables begin with `name`."""
    rows = _rows(loop)
    size = sum(scale * t.bits // 8 for _, scale, _, t in rows)
    block = next((b for b in BLOCKS if b * size <= BUFFER), 0)
    if not rows or block == 0:
        return [loop]
    start, end = Ref(f"{name}_block", I64), Ref(f"{name}_end", I64)
    buffers: list[ir.Stmt] = []
    writes: list[ir.Stmt] = []
    into: dict[ir.Store, ir.Store] = {}
    first = ir.sub(Ref(loop.var, I64), start)
    for k, (stores, scale, rest, t) in enumerate(rows):
        buffer = f"{name}_rows_{k}"
        buffers.append(ir.Stack(buffer, t, block * scale))
        pointer = next(iter(stores.values())).pointer
        for at, s in stores.items():
            into[s] = ir.Store(buffer, add(mul(first, num(scale)), num(at)), s.value)
        count = mul(ir.sub(end, start), num(scale))
        total = mul(loop.bound, num(scale))
        writes.append(ir.Stream(pointer, add(rest, mul(start, num(scale))), buffer, count, total, t))
    last = ir.Scalar("min", (add(start, num(block)), loop.bound), I64, I64)
    body = [into.get(s, s) if isinstance(s, ir.Store) else s for s in loop.body]
    inner = ir.For(loop.var, end, body, start, loop.independent, loop.partials, map=True, lanes=loop.lanes)
    blocks = ir.For(
        start.name, loop.bound, [*buffers, ir.Decl(end.name, I64, last), inner, *writes], loop.start, step=block
    )
    return [blocks, ir.StreamEnd()]


def _rows(loop: ir.For) -> list[tuple[dict[int, ir.Store], int, Expr, Prim]]:
    """The stores that together fill one row an iteration: by place in the row; its length, where the first row of all
    starts, the element type."""
    inits = {s.name: s.init for s in loop.body if isinstance(s, ir.Decl)}
    groups: dict[tuple[str, int, Expr], dict[int, ir.Store]] = {}
    broken: set[tuple[str, int, Expr]] = set()
    for s in loop.body:
        if not isinstance(s, ir.Store):
            continue
        place = affine(s.index, loop.var, inits)
        if place is None:
            continue
        scale, constant, rest = place
        key = (s.pointer, scale, rest)
        group = groups.setdefault(key, {})
        if not STORED_ONCE(constant not in group and s.op is None):
            broken.add(key)
        group[constant] = s
    rows: list[tuple[dict[int, ir.Store], int, Expr, Prim]] = []
    for key, group in groups.items():
        _, scale, rest = key
        low = min(group)
        if key not in broken and scale >= LEAST and WHOLE(set(group) == set(range(low, low + scale))):
            by_place = {at - low: s for at, s in group.items()}
            rows.append((by_place, scale, add(rest, num(low)), group[low].value.type))
    return rows


def affine(e: Expr, var: str, inits: dict[str, Expr | None]) -> Affine | None:
    """The index by how it moves with `var`, None if it does otherwise; `inits`: variables of the loop's body."""
    match e:
        case Num(value):
            return 0, int(value), ir.ZERO
        case Ref(name) if name == var:
            return 1, 0, ir.ZERO
        case Ref(name):
            init = inits.get(name)
            if name not in inits:
                return 0, 0, e
            return affine(init, var, inits) if init is not None else None
        case ir.Bin("+", a, b):
            left, right = affine(a, var, inits), affine(b, var, inits)
            if left is None or right is None:
                return None
            return left[0] + right[0], left[1] + right[1], add(left[2], right[2])
        case ir.Bin("*", a, Num(k)):
            inner = affine(a, var, inits)
            return None if inner is None else (inner[0] * k, inner[1] * k, mul(inner[2], num(int(k))))
    return None
