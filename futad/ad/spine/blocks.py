"""A function's statements as blocks with jumps between them, cut where loops of its spine begin and end.

Blocks have parameters, and jumps arguments: a loop's variables, the results of loops and branches.  A variable that is
bound in one block and used in others keeps its name.  Every variable is bound once still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from futad.ad.spine.grain import stretch
from futad.ad.spine.region import Spine
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.types import BOOL, I64, ONE, TRUE, ZERO, Atom, Const, Prim, Var, i64


@dataclass(slots=True, eq=False)
class Block:
    """Statements, and where to go after them.  `end` is None for the last one of a function."""

    params: tuple[Var, ...]
    b: Builder = field(default_factory=Builder)
    end: Edge | None = None

    @property
    def stms(self) -> list[ir.Stm]:
        return self.b.stms


@dataclass(slots=True, eq=False)
class Goto:
    """A jump, with the values of the block's parameters."""

    target: Block
    args: ir.Atoms


@dataclass(slots=True, eq=False)
class Test:
    """One way or the other."""

    cond: Atom
    then: Edge
    orelse: Edge


Edge = Goto | Test


def gotos(edge: Edge | None) -> Iterator[Goto]:
    """The jumps of a way."""
    if isinstance(edge, Test):
        yield from gotos(edge.then)
        yield from gotos(edge.orelse)
    elif edge is not None:
        yield edge


def conditions(edge: Edge | None) -> Iterator[Atom]:
    """What is tested on a way."""
    if isinstance(edge, Test):
        yield edge.cond
        yield from conditions(edge.then)
        yield from conditions(edge.orelse)


def blocks_of(lam: ir.Lambda, spine: Spine) -> tuple[Block, Block]:
    """The function's first block and its last one."""
    first = Block(())
    return first, _scope(lam.stms, first, spine)


def _scope(stms: Sequence[ir.Stm], now: Block, spine: Spine) -> Block:
    """Add the statements from the block `now` on; the block in which they end."""
    for s in stms:
        if s in spine.loops:
            now = _loop(s, now, spine)
        elif s in spine.branches:
            now = _branch(s, now, spine)
        else:
            now.stms.append(s)
    return now


def _branch(s: ir.Stm, now: Block, spine: Spine) -> Block:
    e = s.exp
    assert isinstance(e, ir.If)
    after = Block(s.pat)
    sides: list[Block] = []
    for lam in (e.then, e.orelse):
        sides.append(Block(()))
        _scope(lam.stms, sides[-1], spine).end = Goto(after, lam.result)
    now.end = Test(e.cond, Goto(sides[0], ()), Goto(sides[1], ()))
    return after


def _loop(s: ir.Stm, now: Block, spine: Spine) -> Block:
    """A loop is tested before its first iteration, and after each."""
    e = s.exp
    assert isinstance(e, ir.For | ir.While)
    own = e.variables
    again = Block(e.body.params)
    after = Block(s.pat)
    steps = 1 if spine.inside(s) else stretch(e)
    if isinstance(e, ir.For):
        i = again.params[0]
        assert isinstance(i.type, Prim)
        zero = Const(i.type, 0)
        now.end = _tested(now.b.op("lt", zero, e.bound), again, (zero, *e.inits), after, e.inits)
        if steps > 1:
            by, result = _iterations(again.b, e, i, steps)
            last = again
        else:
            last, by, result = _scope(e.body.stms, again, spine), Const(i.type, 1), e.body.result
        following = last.b.op("add", i, by, hint="i")
        last.end = _tested(last.b.op("lt", following, e.bound), again, (following, *result), after, result)
        return after
    now.end = _tested(e.inits[0], again, e.inits, after, e.inits)
    if steps > 1:
        last, result = again, _while_iterations(again.b, e, steps)
    else:
        last, result = _scope(e.body.stms, again, spine), e.body.result
    assert len(own) == len(result)
    last.end = _tested(result[0], again, result, after, result)
    return after


def _tested(cond: Atom, then: Block, given: ir.Atoms, orelse: Block, left: ir.Atoms) -> Edge:
    if isinstance(cond, Const):
        return Goto(then, given) if cond.value else Goto(orelse, left)
    return Test(cond, Goto(then, given), Goto(orelse, left))


# --- several cheap iterations at a time -----------------------------------------------------------------------------

KEPT = Budget().attribute()  # of the loop inside: it has few iterations, which are kept


def _iterations(b: Builder, e: ir.For, i: Var, steps: int) -> tuple[Atom, ir.Atoms]:
    """Emit iterations i, i + 1, ... of the loop, at most so many; their number, and what the variables are then."""
    assert isinstance(i.type, Prim)
    most = min(steps, (1 << (i.type.bits - 1)) - 1)
    count = b.op("min", b.op("sub", e.bound, i, hint="left"), Const(i.type, most), hint="count")
    start = e.variables
    k = Var("k", i.type)
    inner = Builder()
    body = ir.Renamer()
    own = tuple([body.bind(p) for p in start])
    body.mapping[i] = inner.op("add", i, k, hint="i")
    inner.extend(body.stms(e.body.stms))
    result = tuple([body.atom(a) for a in e.body.result])
    pat = ir.Renamer()
    b.add(
        ir.Stm(
            tuple([pat.bind(p) for p in start]),
            ir.For(count, start, ir.Lambda((k, *own), tuple(inner.stms), result)),
            (KEPT,),
        )
    )
    return count, tuple([pat.atom(p) for p in start])


def _while_iterations(b: Builder, e: ir.While, steps: int) -> ir.Atoms:
    """Emit iterations of the loop, at most so many, the first one without a test; what the variables are then."""
    start = e.variables
    going, k = Var("going", BOOL), Var("k", I64)
    inner = Builder()
    body = ir.Renamer()
    own = tuple([body.bind(p) for p in start])
    inner.extend(body.stms(e.body.stms))
    result = tuple([body.atom(a) for a in e.body.result])
    following = inner.op("add", k, ONE, hint="k")
    further = inner.op("and", result[0], inner.op("lt", following, i64(steps)), hint="going")
    pat = ir.Renamer()
    names = [pat.bind(p) for p in (going, *start, k)]
    lam = ir.Lambda((going, *own, k), tuple(inner.stms), (further, *result, following))
    b.add(ir.Stm(tuple(names), ir.While((TRUE, *start, ZERO), lam), (KEPT,)))
    return tuple(names[1:-1])
