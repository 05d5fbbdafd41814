"""Scalars of a `while` loop that are the same in all lanes that still run (see `masked_lanes.py`).

    i = 0; while p(x, i): { x = g(x, z[i]); i = i + 1 }
  has, for all lanes, one
    step = 0; while some lane is active: { x = active ? g(x, z[step]) : x; next = step + 1; ...; step = next }

Such a scalar begins the same in all lanes, and each iteration makes it of what all lanes share.  A lane that comes to
rest stays so; hence lanes that are active have all made as many iterations, and have the same value.  For the same
reason what says whether to go on, and is read by nothing else, needs no variable of each lane, and the part of it that
all lanes share, such as whether a counter has come to its end, is asked once for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from futad.imp import ir
from futad.imp.ir import Expr, Ref, Stmt
from futad.imp.walk import has_load, refs, statements, substitute
from futad.legality import Legality

LEGAL = Legality(
    "lockstep",
    "a counter of lanes that are at the same iteration is one scalar",
    worth="with reads that need no branch, a barrier option's value 8.5 to 3.8 ms",
)
ONE_START = LEGAL.condition("one start", "lanes begin with different values, or have left another loop with such")
STILL = LEGAL.condition("still the same", "whether to go on is asked of what has changed since")
ONE_ANSWER = LEGAL.condition("one answer", "what lanes differ in is asked once for all")
SAME_NEXT = LEGAL.condition("the same next", "lanes make different values of it")


@dataclass(frozen=True, slots=True)
class Steps:
    """A loop's body and condition with scalars in place of such variables: what declares them before it, the condition
    in the first iteration and in later ones, what all lanes share of this, and what each iteration ends with."""

    before: list[Stmt]
    body: list[Stmt]
    first: Expr
    later: Expr
    shared: Expr | None
    end: list[Stmt]


def in_step(
    loop: ir.While,
    starts: Mapping[str, tuple[Expr, bool]],
    varying: Set[str],
    every: list[Stmt],
    name: Callable[[str], str],
) -> Steps:
    """`starts`: what variables of lanes begin with, and whether all lanes begin this loop so, unless the variable is
    set elsewhere, too; `varying`: scalars that differ between lanes; `every`: all statements of the lanes.  `name`
    makes names of variables."""
    sets = Counter(n for s in every for n in s.assigns())
    own = {s.name: s.value.type for s in loop.body if isinstance(s, ir.Assign) and s.name in starts}
    alike = {n for n in own if ONE_START(starts[n][1] and sets[n] == 1)}
    while worse := {n for n in alike & _differ(loop.body, varying - alike) if not SAME_NEXT(False)}:
        alike -= worse
    uses = Counter(n for s in every for n in s.uses())
    uses.subtract(n for s in statements([loop]) for n in s.uses())
    now: dict[str, Expr] = {}
    before: list[Stmt] = []
    for n in sorted(alike):
        now[n] = step = Ref(name("step"), own[n])
        before.append(ir.Decl(step.name, step.type, starts[n][0], mutable=True))
    first = dict(now)

    def go(s: Stmt) -> Stmt:
        return s.map_exprs(lambda e: substitute(e, now)).map_bodies(lambda inside: [go(x) for x in inside])

    body: list[Stmt] = []
    for s in loop.body:
        s = go(s)
        if isinstance(s, ir.Assign) and s.name in alike:
            now[s.name] = following = Ref(name("next"), s.value.type)
            body.append(ir.Decl(following.name, following.type, s.value))
            if uses[s.name] > 0:  # after the loop, where lanes have left it at different times
                body.append(ir.Assign(s.name, following))
        else:
            body.append(s)
    if alike:
        LEGAL.fired()
    end: list[Stmt] = [ir.Assign(step.name, now[n]) for n, step in first.items() if isinstance(step, Ref)]
    later = substitute(loop.cond, now)
    if isinstance(later, Ref) and uses[later.name] == 0:
        body, later = _asked_at_once(body, later)
    later, shared = _parted(body, later, _differ(body, varying - alike))
    return Steps(before, body, substitute(loop.cond, first), later, shared, end)


def _asked_at_once(body: list[Stmt], cond: Ref) -> tuple[list[Stmt], Expr]:
    """The body without the variable that says whether to go on, if nothing else reads it, and the condition that it is
    given in each iteration: lanes at rest ask it no more."""
    at = [k for k, s in enumerate(body) if isinstance(s, ir.Assign) and s.name == cond.name]
    if len(at) != 1 or any(cond.name in s.uses() for s in statements(body)):
        return body, cond
    (k,) = at
    s = body[k]
    assert isinstance(s, ir.Assign)
    given = {n for t in statements(body[k + 1 :]) for n in t.assigns()}
    if has_load(s.value) or not STILL(not refs(s.value) & given):
        return body, cond
    return body[:k] + body[k + 1 :], s.value


def _parted(body: list[Stmt], cond: Expr, differ: Set[str]) -> tuple[Expr, Expr | None]:
    """What lanes are asked of a condition, and what all share of it, if they do."""
    inits = {s.name: s.init for s in body if isinstance(s, ir.Decl) and not s.mutable}
    match inits.get(cond.name) if isinstance(cond, Ref) else cond:
        case ir.Scalar("and", (Ref(a), Ref(b)) as sides, t) if t.is_bool and a in inits and b in inits:
            for k, n in enumerate((a, b)):
                if ONE_ANSWER(n not in differ):
                    return sides[1 - k], sides[k]
    return cond, None


def _differ(body: list[Stmt], varying: Set[str]) -> set[str]:
    """The scalars that differ between lanes after the statements, or are given such a value."""
    differ = set(varying)
    given: set[str] = set()
    for s in body:
        match s:
            case ir.Decl(n, _, init, mutable):
                if mutable or init is None or has_load(init) or refs(init) & differ:
                    differ.add(n)
            case ir.Assign(n, value):
                if has_load(value) or refs(value) & differ:
                    given.add(n)
            case _:
                differ |= {n for x in statements([s]) for n in x.defines()}
    return differ | given


__all__ = ["in_step"]
