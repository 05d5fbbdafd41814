"""Loops of few iterations inside a map are written out, so that the map runs in vector lanes.

    for i: { s = 0; for k < 3: { t = x[3 i + k] - p[k]; s += t * t }; y += f(s) }
  becomes
    for i: { t_0 = x[3 i] - p[0]; t_1 = x[3 i + 1] - p[1]; t_2 = ...; y += f(((t_0 * t_0) + t_1 * t_1) + t_2 * t_2) }

Points of a plane or of space have so few coordinates that lanes along them are mostly empty.  What iterations add to
one place of an array, such as the adjoint of the point that all others are seen from, is added in a variable, and to
the array after the loop.  Elements are read and written at places that a small number of elements lies between, which
vectors are put together of by permutations.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from futad.core.types import Prim
from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref, Stmt, num
from futad.imp.loops.facts import Affine, LoopFacts
from futad.imp.loops.if_conversion import if_converted
from futad.imp.loops.vectorise import accumulations, annotate
from futad.imp.units import unit_of
from futad.imp.walk import loads_in, substitute
from futad.legality import Legality

LEGAL = Legality(
    "inner-loops-written-out",
    "loops of few iterations inside a map are written out, and the map runs in vector lanes",
    worth="n bodies' energy 3.8 to 0.9 ms, its gradient 3.7 to 2.1 ms: "
    "`benchmarks/without.py 'no inner-loops-written-out' nbody`",
)
SUMS_UNREAD = LEGAL.condition("sums unread", "an iteration reads what others have added to a place")

FEW = 4  # iterations of a loop that is written out
SHORTEST = 16  # iterations of the map, if their number is known
LARGEST = 96  # statements that are made
WIDEST = 8  # elements between those of neighbouring iterations


def written_inside(
    loop: ir.For, folds: Set[str], named: Callable[[str], str], asked: bool = False
) -> list[Stmt] | None:
    """The map's loop, without loops inside, marked for vector lanes; None if it has other loops inside, is short or
    does more than scalars, or if its places lie far apart.  `folds`: pointers to arrays that it folds into; `named`
    makes names of variables; `asked`: however many statements that are.

    The order of additions to one place changes: for targets that may reassociate.
    """
    if loop.step != 1 or not any(isinstance(s, ir.For) for s in loop.body):
        return refused("there is no loop inside")
    if isinstance(loop.bound, Num) and isinstance(loop.start, Num) and loop.bound.value - loop.start.value < SHORTEST:
        return refused("it is short")
    work = _Straight(LARGEST if not asked else LARGEST * FEW)
    if not work.body(accumulations(if_converted(loop.body, folds)), ""):
        return refused(f"the loops inside have more than {FEW} iterations, or make more than {LARGEST} statements")
    facts = LoopFacts(loop.var, work.out)
    body: list[Stmt] = []
    sums: dict[tuple[str, Expr], ir.Decl] = {}
    for s in work.out:
        if isinstance(s, ir.Store) and s.op is not None and facts.invariant(s.index):
            total = sums.get((s.pointer, s.index))
            if total is None:
                t = s.value.type
                total = sums[s.pointer, s.index] = ir.Decl(named("sum"), t, unit_of(s.op, t), mutable=True)
            s = ir.Accumulate(total.name, s.op, s.value)
        body.append(s)
    summed = {pointer: s.op for s in work.out if isinstance(s, ir.Store) for pointer, _ in sums if pointer == s.pointer}
    others = {s.pointer for s in body if isinstance(s, ir.Store)}
    if others & folds or summed.keys() & others:
        return refused("it folds into an array at places that differ")
    if not SUMS_UNREAD(not any(x.pointer in summed for s in body for x in loads_in(s))):
        return None
    if not _near(body, facts):
        return refused("neighbouring iterations read or write far apart, or all of them to one place")
    made = ir.For(loop.var, loop.bound, body, loop.start, map=True)
    if not annotate(made, True):
        return None
    after = [ir.Store(p, e, Ref(d.name, d.type), summed[p]) for (p, e), d in sums.items()]
    return [*sums.values(), made, *after]


def _near(body: list[Stmt], facts: LoopFacts) -> bool:
    """Whether neighbouring iterations read elements that lie near each other, or the same, write such, and none that
    was written."""
    written: dict[str, list[Affine]] = {}
    for s in body:
        for x in loads_in(s):
            place = facts.place(x.index)
            if place is None or abs(place.scale) > WIDEST:
                return False
            if any(not _apart(place, other) for other in written.get(x.pointer, ())):
                return False
        if isinstance(s, ir.Store):
            place = facts.place(s.index)
            if place is None or not 0 < abs(place.scale) <= WIDEST:
                return False
            written.setdefault(s.pointer, []).append(place)
    return True


def _apart(x: Affine, y: Affine) -> bool:
    """Whether the places of all iterations are others."""
    return (x.scale, x.invariant) == (y.scale, y.invariant) and 0 < abs(x.constant - y.constant) < abs(x.scale)


@dataclass(slots=True)
class _Straight:
    """A straight line of statements in place of a body.  `most` of them; `now`: the values of its variables."""

    most: int
    out: list[Stmt] = field(default_factory=list)
    now: dict[str, Expr] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    """Variables of the body that change."""

    def body(self, body: list[Stmt], suffix: str) -> bool:
        """Add the statements, whose variables get names of their own; False if they are no straight line."""
        return all(self.statement(s, suffix) for s in body) and len(self.out) <= self.most

    def statement(self, s: Stmt, suffix: str) -> bool:
        match s:
            case ir.Decl(name, t, init, mutable):
                if mutable:
                    self.own.add(name)
                if init is not None:
                    self.set(name, t, self.value(init), suffix if not mutable else f"{suffix}_{len(self.out)}w")
            case ir.Assign(name, value):
                if name not in self.own:
                    return False
                self.set(name, value.type, self.value(value), f"_{len(self.out)}w")
            case ir.Accumulate(name, op, value):
                v = self.value(value)
                if name in self.own:
                    t = v.type
                    self.set(name, t, ir.Scalar(op, (self.now[name], v), t, t), f"_{len(self.out)}w")
                else:
                    self.out.append(ir.Accumulate(name, op, v))
            case ir.Store():
                self.out.append(s.map_exprs(self.value))
            case ir.For(var, Num(end), inside, Num(start)) if 0 <= end - start <= FEW * s.step:
                for k in range(start, end, s.step):
                    self.now[var] = num(k)
                    if not self.body(accumulations(inside), f"{suffix}_{k}w"):
                        return False
            case _:
                return False
        return True

    def set(self, name: str, t: Prim, value: Expr, suffix: str) -> None:
        """The variable has this value from here on."""
        if isinstance(value, Ref | Num):
            self.now[name] = value
            return
        made = f"{name}{suffix}"
        self.now[name] = Ref(made, t)
        self.out.append(ir.Decl(made, t, value))

    def value(self, e: Expr) -> Expr:
        return substitute(e, self.now)


__all__ = ["written_inside"]
