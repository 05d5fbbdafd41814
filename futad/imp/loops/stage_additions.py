"""Additions at several places of one array, through buffers.

    for i: { t = f(i); a[i + 1] += t; a[i - 1] -= t; if c(i): a[k[i]] += t }
  becomes, for blocks of iterations,
    { for i: { t = f(i); u[i] = t; v[i] = -t; w[i] = c(i) }; for i: a[i + 1] += u[i]; for i: a[i - 1] += v[i]
      for i: if w[i]: a[k[i]] += u[i] }

so that what is added is computed in vector lanes, and each of the loops that add is one of places side by side, or does
nothing but add.  The return sweep of a stencil adds so, to the adjoints of all neighbours, and that of a table that is
looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from futad.core.types import I64
from futad.fires import by_number, refused
from futad.imp import ir
from futad.imp.ir import Expr, Ref, Stmt, add, num
from futad.imp.loops.facts import EACH, HEAVY, LoopFacts, cost
from futad.imp.loops.guarded_reads import is_addition
from futad.imp.loops.vectorise import annotate
from futad.imp.walk import has_load, loads_in, needed, refs, statements
from futad.legality import Legality

LEGAL = Legality(
    "staged-additions",
    "what iterations add to neighbouring places of an array is put into buffers, and added from there",
    worth="the gradient of Bratu's problem 0.35 to 0.23 ms: `benchmarks/without.py 'no staged-additions' bratu`",
)
UNWRITTEN = LEGAL.condition(
    "read again unwritten", "the place, or condition, that is computed again reads what the loop has written since"
)

BLOCK = 128  # iterations
MOST = 16  # buffers
AGAIN = 6  # cost of a place, or a condition, that is computed again where it is added


def staged_additions(loop: ir.For, named: Callable[[str], str], asked: int = 0) -> list[Stmt] | None:
    """The loop by blocks, whose first loop runs in vector lanes; None if no array has several additions, or some at
    places that do not lie side by side.  `named` makes names of variables; `asked`: iterations of a block.

    Legal, as iterations of a map only add to an accumulator, whose elements nobody sees before; each loop of a block is
    looked at by `annotate`.  The order of additions to one element changes: for targets that may reassociate.  What the
    loop folds into scalars is folded where values are computed.
    """
    adding: dict[str, list[ir.Store]] = {}
    under: dict[ir.Store, ir.If] = {}
    for s in loop.body:
        match s:
            case ir.Decl(mutable=False) | ir.Assign() | ir.Accumulate() | ir.Store(op=None):
                pass
            case ir.Store(pointer):
                adding.setdefault(pointer, []).append(s)
            case ir.If(then=[ir.Store(pointer) as added]) if is_addition(s):
                under[added] = s
                adding.setdefault(pointer, []).append(added)
            case _:
                return refused("its body is no straight line")
    facts = LoopFacts(loop.var, loop.body)
    apart = {p: all(facts.beside(s.index) for s in stores) for p, stores in adding.items()}
    adding = {p: stores for p, stores in adding.items() if not apart[p] or len({s.index for s in stores}) > 1}
    count = sum(map(len, adding.values()))
    if not adding or loop.step != 1:
        return refused("it does not add to several places of an array")
    if count > MOST:
        return refused(f"it adds at {count} places, {MOST} at most have buffers")
    block = asked or BLOCK
    by_number(block)
    name = named("u")
    stages = _Stages(loop, name, block)
    for pointer, stores in adding.items():
        assert len({s.op for s in stores}) == 1, "an accumulator has one operation"
        assert not any(_sees(s, pointer) for s in loop.body), "nobody sees an accumulator before all have added"
        for s in stores:
            if not stages.addition(s, under.get(s)):
                return refused("it adds at places that hang on what it folds, or what is read in a branch")
    start, end = stages.start, stages.end
    compute = _part(loop, stages.rest(), start, end)
    adds = [_part(loop, body, start, end) for body in stages.adds]
    if not annotate(compute, True):
        return None
    lanes = [annotate(part, True) for part in adds]
    if not all(lanes) and not asked and cost(compute.body) < max(HEAVY, EACH * len(stages.buffers)):
        return refused("it adds at places that do not lie side by side, and computes little")
    last = ir.Scalar("min", (add(start, num(block)), loop.bound), I64, I64)
    inside = [*stages.buffers, ir.Decl(end.name, I64, last), compute, *adds]
    return [ir.For(start.name, loop.bound, inside, loop.start, step=block)]


@dataclass(slots=True)
class _Stages:
    """The buffers of a loop, the bodies of the loops that add from there, and what puts values into buffers in the
    place of each addition (`puts`).  `written`: pointers to arrays of which the loop overwrites elements, as the result
    of a map may lie over its input."""

    loop: ir.For
    name: str
    block: int
    buffers: list[Stmt] = field(default_factory=list)
    puts: dict[Stmt, list[ir.Store]] = field(default_factory=dict)
    adds: list[list[Stmt]] = field(default_factory=list)
    written: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.written = {s.pointer for s in self.loop.body if isinstance(s, ir.Store) and s.op is None}

    @property
    def start(self) -> Ref:
        return Ref(f"{self.name}_block", I64)

    @property
    def end(self) -> Ref:
        return Ref(f"{self.name}_end", I64)

    def addition(self, s: ir.Store, under: ir.If | None) -> bool:
        """Stage an addition, made where the condition of the branch `under` holds; False where that is not possible."""
        if under is not None and (has_load(s.value) or has_load(s.index)):
            return False  # there may be nothing to read where the condition does not hold
        puts = self.puts[s if under is None else under] = []
        value = self.buffered(s.value, puts)
        condition = None if under is None else self.again(under.cond, s.value.type, puts)
        place: Stmt = replace(s, index=self.again(s.index, I64, puts), value=value)
        if condition is not None:
            place = ir.If(condition, [place], [])
        places = [*needed(self.loop.body, [place]), place]
        self.adds.append(places)
        folded = {v for t in self.loop.body for v in t.assigns()}
        return not any(folded & refs(t) for t in statements(places))

    def again(self, e: Expr, t: ir.Prim, puts: list[ir.Store]) -> Expr:
        """The expression in a loop that adds: computed again if that is cheap, otherwise from a buffer, bools as
        numbers of type `t`."""
        made = [*needed(self.loop.body, [e]), ir.Assign("", e)]
        if cost(made) <= AGAIN and UNWRITTEN(not any(x.pointer in self.written for s in made for x in loads_in(s))):
            return e
        if not e.type.is_bool:
            return self.buffered(e, puts)
        one = ir.Scalar("select", (e, ir.Num(1, t), ir.Num(0, t)), t, t)
        return ir.Scalar("lt", (ir.Num(0, t), self.buffered(one, puts)), t, e.type)

    def buffered(self, e: Expr, puts: list[ir.Store]) -> Expr:
        """The expression in a loop that adds, from a buffer."""
        buffer = f"{self.name}_added_{len(self.buffers)}"
        here = ir.sub(Ref(self.loop.var, I64), self.start)
        self.buffers.append(ir.Stack(buffer, e.type, self.block))
        puts.append(ir.Store(buffer, here, e))
        return ir.Load(buffer, here, e.type)

    def rest(self) -> list[Stmt]:
        """What the loop does beside these additions, and puts into buffers in place of them."""
        return [t for s in self.loop.body for t in self.puts.get(s, [s])]


def _part(loop: ir.For, body: list[Stmt], start: Expr, end: Expr) -> ir.For:
    return ir.For(loop.var, end, body, start, map=True)


def _sees(s: Stmt, pointer: str) -> bool:
    """Whether a statement reads the array or overwrites an element."""
    overwrites = isinstance(s, ir.Store) and s.op is None and s.pointer == pointer
    return overwrites or any(x.pointer == pointer for x in loads_in(s))


__all__ = ["staged_additions"]
