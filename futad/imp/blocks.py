"""Maps around loops that carry scalars, a block of iterations at a time.

    for i: { t = f(i); y = 0; for j: y = y * t + x[j]; s += g(t, y) }
  becomes, for i in steps of some lanes,
    { for l: { t[l] = f(i + l); y[l] = 0 }; for j: for l: y[l] = y[l] * t[l] + x[j]; for l: s += g(t[l], y[l]) }

so that vector lanes have work although each j waits for the one before.
"""

from __future__ import annotations

from futad.core.scalarops import OPS
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.vectorise import count_refs, expressions, indices, loads

LARGEST = 40  # statements of an inner loop


def block(loop: ir.For, body: list[ir.Stmt]) -> ir.Blocks | None:
    """A map's loop (with this body) in blocks; None unless it has inner loops that carry scalars, which all iterations
    take equally often, reading the same places."""
    inner = [s for s in body if isinstance(s, ir.For)]
    declared = {s.name for s in body if isinstance(s, ir.Decl)}
    if not inner or loop.step != 1:
        return None
    own = declared | {loop.var}
    stored: set[str] = set()
    read: set[str] = set()
    partials: list[str] = []
    for s in body:
        match s:
            case ir.Decl() | ir.For():
                pass
            case ir.Assign(name):
                if name not in declared:
                    return None
            case ir.Accumulate(name):
                if name not in declared:
                    partials.append(name)
            case ir.Store(pointer, op=None):
                stored.add(pointer)
            case _:
                return None
        for e in expressions(s):
            loads(e, read)
    if not all(_is_recurrence(s, own, stored, read) for s in inner) or stored & read:
        return None
    # What the map itself reduces is seen by nothing inside.
    mentioned: dict[str, int] = {}
    for s in (*body, *[x for f in inner for x in f.body]):
        for e in expressions(s):
            count_refs(e, mentioned)
    if any(name in mentioned for name in partials):
        return None
    return ir.Blocks(ir.For(loop.var, loop.bound, body, loop.start, map=True))


def _is_recurrence(loop: ir.For, own: set[str], stored: set[str], read: set[str]) -> bool:
    """Whether the loop's turns are straight-line code, the same for all iterations of the map around it apart from
    scalars, one of which is carried on; notes what it stores to and reads from."""
    used: dict[str, int] = {}
    for e in (loop.start, loop.bound):
        count_refs(e, used)
    if loop.step != 1 or own & used.keys() or len(loop.body) > LARGEST:
        return False
    varying = set(own)
    carried = False
    places: list[Expr] = []
    for s in loop.body:
        match s:
            case ir.Decl(name, mutable=False):
                varying.add(name)
            case ir.Assign(name):
                if name not in own:
                    return False
                carried = True
            case ir.Store(pointer, index, value, "add"):
                if not value.type.is_float:
                    return False
                stored.add(pointer)
                places.append(index)
            case _:
                return False
        for e in expressions(s):
            loads(e, read)
            indices(e, places)
            if _can_fail(e):
                return False
    # Counters and the like: what varies neither with the iteration nor with what is carried.
    for s in loop.body:
        if isinstance(s, ir.Decl) and s.init is not None and not isinstance(s.init, ir.Load):
            used = {}
            count_refs(s.init, used)
            if not varying & used.keys():
                varying.discard(s.name)
    for index in places:
        used = {}
        count_refs(index, used)
        if varying & used.keys():
            return False
    return carried


def _can_fail(e: Expr) -> bool:
    match e:
        case ir.Scalar(op, args):
            return (OPS[op].can_fail and e.type.is_integral) or any(_can_fail(a) for a in args)
        case ir.Bin(_, a, b):
            return _can_fail(a) or _can_fail(b)
    return False
