"""Additions at several places of one array, through buffers.

    for i: { t = f(i); a[i + 1] += t; a[i - 1] -= t }
  becomes, for blocks of iterations,
    { for i: { t = f(i); u[i] = t; v[i] = -t }; for i: a[i + 1] += u[i]; for i: a[i - 1] += v[i] }

so that what is added is computed in vector lanes, and each of the loops that add is one of places side by side.  The
return sweep of a stencil adds so, to the adjoints of all neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from futad.core.types import I64
from futad.fires import Transformation, by_number, refused
from futad.imp import ir
from futad.imp.ir import Expr, Ref, add, num
from futad.imp.loops.vectorise import annotate
from futad.imp.walk import loads_in, refs

FIRED = Transformation(
    "staged-additions",
    "what iterations add to neighbouring places of an array is put into buffers, and added from there",
    worth='the gradient of a heat equation 2.4 to 1.7 ms: `benchmarks/without.py "no staged-additions" heat`',
)

BLOCK = 128  # iterations
MOST = 16  # buffers


def staged_additions(loop: ir.For, named: Callable[[str], str], asked: int = 0) -> list[ir.Stmt] | None:
    """The loop by blocks, each loop of which runs in vector lanes; None if no array has several additions.  `named`
    makes names of variables; `asked`: iterations of a block.

    Legal, as iterations of a map only add to an accumulator, whose elements nobody sees before; each loop of a block is
    looked at by `annotate`.  The order of additions to one element changes: for targets that may reassociate.  What the
    loop folds into scalars is folded where values are computed.
    """
    adding: dict[str, list[ir.Store]] = {}
    folded = {v for s in loop.body for v in s.assigns()}
    for s in loop.body:
        match s:
            case ir.Decl(mutable=False) | ir.Assign() | ir.Accumulate():
                pass
            case ir.Store(pointer, op=op):
                if op is not None:
                    adding.setdefault(pointer, []).append(s)
            case _:
                return refused("its body is no straight line")
    adding = {p: stores for p, stores in adding.items() if len({s.index for s in stores}) > 1}
    count = sum(map(len, adding.values()))
    if not adding or loop.step != 1:
        return refused("it does not add to several places of an array")
    if count > MOST:
        return refused(f"it adds at {count} places, {MOST} at most have buffers")
    block = asked or BLOCK
    by_number(block)
    name = named("u")
    start, end = Ref(f"{name}_block", I64), Ref(f"{name}_end", I64)
    here = ir.sub(Ref(loop.var, I64), start)
    buffers: list[ir.Stmt] = []
    adds: list[ir.For] = []
    into: dict[ir.Store, ir.Store] = {}
    for pointer, stores in adding.items():
        assert len({s.op for s in stores}) == 1, "an accumulator has one operation"
        assert not any(_sees(s, pointer) for s in loop.body), "nobody sees an accumulator before all have added"
        for s in stores:
            buffer, t = f"{name}_added_{len(adds)}", s.value.type
            buffers.append(ir.Stack(buffer, t, block))
            into[s] = ir.Store(buffer, here, s.value)
            addition = replace(s, value=ir.Load(buffer, here, t))
            places = [*_needed(loop.body, addition), addition]
            if any(folded & refs(t) for t in places):
                return refused("it adds at places that hang on what it folds")
            adds.append(_part(loop, places, start, end))
    body = [into.get(s, s) if isinstance(s, ir.Store) else s for s in loop.body]
    parts = [_part(loop, body, start, end), *adds]
    if not all(annotate(part, True) for part in parts):
        return None
    last = ir.Scalar("min", (add(start, num(block)), loop.bound), I64, I64)
    inside = [*buffers, ir.Decl(end.name, I64, last), *parts]
    return [ir.For(start.name, loop.bound, inside, loop.start, step=block)]


def _part(loop: ir.For, body: list[ir.Stmt], start: Expr, end: Expr) -> ir.For:
    return ir.For(loop.var, end, body, start, map=True)


def _needed(body: list[ir.Stmt], s: ir.Stmt) -> list[ir.Stmt]:
    """The declarations of a body that a statement needs."""
    names = set(refs(s))
    out: list[ir.Stmt] = []
    for t in reversed(body):
        if isinstance(t, ir.Decl) and t.name in names:
            out.append(t)
            names |= refs(t)
    return out[::-1]


def _sees(s: ir.Stmt, pointer: str) -> bool:
    """Whether a statement reads the array or overwrites an element."""
    overwrites = isinstance(s, ir.Store) and s.op is None and s.pointer == pointer
    return overwrites or any(x.pointer == pointer for x in loads_in(s))


__all__ = ["staged_additions"]
