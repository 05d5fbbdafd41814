"""Maps whose body loops over scalars and then computes much in a straight line: that part in vector lanes.

    for i: { y = 0; for j: y = g(i, j, y); out[i] = f(y) }
  becomes, for some i at a time,
    { for i: { y = 0; for j: y = g(i, j, y); ys[i] = y }; for i in lanes: out[i] = f(ys[i]) }

The first loop also makes the checks of the second part, so that the first one to fail is the one that was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from futad.core.types import I64, Prim
from futad.imp import ir
from futad.imp.ir import Expr, Ref, add, num, sub
from futad.imp.vectorise import annotate, count_refs, expressions, loads, split_checks
from futad.legality import Legality

LEGAL = Legality("in-halves", "the first parts of some iterations run before their second parts")
READ_BEFORE = LEGAL.condition("read not written", "a first part reads what an earlier iteration's second part writes")
UNSEEN = LEGAL.condition("reductions unseen", "a first part reads what the second parts before it have reduced")
OWN_SCALARS = LEGAL.condition("scalars of its own", "a second part reads what later first parts have changed")

TOGETHER = 64  # iterations
MOST = 8  # scalars that go from one part to the other


def in_halves(loop: ir.For, reassociate: bool, name: Callable[[str], str]) -> ir.For | None:
    """The loop some iterations at a time, each part by itself; None unless the second is worth vector lanes."""
    inner = [k for k, s in enumerate(loop.body) if isinstance(s, ir.For)]
    if not inner or loop.step != 1:
        return None
    before, after = loop.body[: inner[-1] + 1], loop.body[inner[-1] + 1 :]
    declared: dict[str, Prim] = {}
    read: set[str] = set()
    if not _scalars(before, declared, read):
        return None
    if not READ_BEFORE(not read & {s.pointer for s in after if isinstance(s, ir.Store)}):
        return None
    *checks, second = split_checks(replace(loop, body=after, map=True))
    annotate(second, reassociate)
    if not second.independent or not second.lanes:
        return None
    used: dict[str, int] = {}
    for s in second.body:
        for e in expressions(s):
            count_refs(e, used)
    shared = [(n, t, name(n)) for n, t in declared.items() if n in used]
    # What the map itself reduces is seen by nothing else.
    if len(shared) > MOST or not UNSEEN(not any(p.name in declared for p in second.partials)):
        return None
    here, end = name("first"), name("end")
    place = sub(Ref(loop.var, I64), Ref(here, I64))
    stored: list[ir.Stmt] = [ir.Store(array, place, Ref(n, t)) for n, t, array in shared]
    loaded: list[ir.Stmt] = [ir.Decl(n, t, ir.Load(array, place, t)) for n, t, array in shared]
    body: list[ir.Stmt] = [ir.Stack(array, t, TOGETHER) for _, t, array in shared]
    stop: Expr = ir.Scalar("min", (add(Ref(here, I64), num(TOGETHER)), loop.bound), I64, I64)
    body.append(ir.Decl(end, I64, stop))
    first = [*before, *(s for c in checks for s in c.body), *stored]
    body.append(replace(loop, body=first, start=Ref(here, I64), bound=Ref(end, I64)))
    body.append(replace(second, body=[*loaded, *second.body], start=Ref(here, I64), bound=Ref(end, I64)))
    return ir.For(here, loop.bound, body, loop.start, step=TOGETHER)


def _scalars(body: list[ir.Stmt], declared: dict[str, Prim], read: set[str]) -> bool:
    """Whether the statements change nothing but scalars of their own, which are added to `declared`, as is what they
    read to `read`."""
    for s in body:
        for e in expressions(s):
            loads(e, read)
        match s:
            case ir.Decl(n, t):
                declared[n] = t
            case ir.Assign(n) | ir.Accumulate(n):
                if not OWN_SCALARS(n in declared):
                    return False
            case ir.Check():
                pass
            case ir.For(bound=bound, body=inside, start=start):
                loads(bound, read)
                loads(start, read)
                if not _scalars(inside, dict(declared), read):
                    return False
            case ir.If(cond, then, orelse):
                loads(cond, read)
                if not (_scalars(then, dict(declared), read) and _scalars(orelse, dict(declared), read)):
                    return False
            case _:
                return False
    return True


__all__ = ["in_halves"]
