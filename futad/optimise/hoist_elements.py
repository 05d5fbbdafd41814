"""Dear functions of invariant elements leave the nests around the map that computes them.

    map (\\x -> f64.sum (map2 (\\s w -> w * x * exp s) ss ws)) xs
      -->
    let es = map exp ss
    in map (\\x -> f64.sum (map2 (\\e w -> w * x * e) es ws)) xs

The map inside is not invariant, but what it computes of `ss` alone is.  Outside it is computed once, and lies in an
array as long as one that is read anyway; each iteration loads a number in place of computing it.  So this pays for what
costs much more than a load.  Of matrices it is done by rows: the coefficients of a grid that time steps go over.  What
a branch computes so is taken along (at risk sets of survival times), which costs no more than one iteration that takes
it everywhere; what is left of the branch is a choice, for vector lanes.
(Loop-invariant code motion, of each element by itself; GHC's full laziness of a loop's body, Peyton Jones, Partain and
Santos, "Let-floating: moving bindings to give faster programs", 1996.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.ir import Lambda, Program, Stm
from futad.core.operator import may_fail
from futad.core.scalarops import OPS
from futad.core.types import Atom, Prim, Var, array_of
from futad.legality import Legality

LEGAL = Legality(
    "hoist-elements",
    "what a map inside computes of invariant arrays' elements is computed before the maps and loops around it",
    worth="a mixture's density 0.29 to 0.20 ms: `benchmarks/without.py hoist-elements mixture`",
)
OUTSIDE = LEGAL.condition("arrays from outside", "outside there is no value yet of what it depends on")
FAILS_NOT = LEGAL.condition("fails not", "it would fail where the maps around have no iteration")

CHEAP = 1
DEAR = 12  # scalar operations: less is not worth a load and an array


def hoist_elements(program: Program) -> Program:
    """Rewrite the nests of every function."""
    return ir.map_bodies(program, _scope)


def _scope(lam: Lambda) -> Lambda:
    out: list[Stm] = []
    for s in lam.stms:
        if isinstance(s.exp, ir.Mapping | ir.Loop) and any(inner.has(ir.Mapping) for inner in s.exp.lambdas()):
            nest = _Nest(bound_in(s.exp), isinstance(s.exp, ir.Loop))
            s = ir.map_scopes(s, nest.inside)
            out += nest.before
        out.append(ir.map_scopes(s, _scope))
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def bound_in(e: ir.Exp) -> set[Var]:
    """All variables that the scopes of a construct bind."""
    out: set[Var] = set()
    for lam in e.lambdas():
        out.update(lam.params)
        for s in lam.stms:
            out.update(s.pat)
            out |= bound_in(s.exp)
    return out


@dataclass(slots=True)
class _Nest:
    """A map or loop: what is bound in it, whether it is a loop, one iteration after the other (`again`), and what of it
    is computed `before`."""

    own: set[Var]
    again: bool
    before: list[Stm] = field(default_factory=list)

    def inside(self, lam: Lambda) -> Lambda:
        """A scope of it."""
        stms = []
        for s in lam.stms:
            if isinstance(s.exp, ir.Mapping):
                s = self.rows(s, s.exp)
            elif isinstance(s.exp, ir.Loop | ir.If):
                s = ir.map_scopes(s, self.inside)
            stms.append(self.mapped(s, s.exp) if isinstance(s.exp, ir.Mapping) else s)
        same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
        return lam if same else Lambda(lam.params, tuple(stms), lam.result)

    def rows(self, s: Stm, e: ir.Mapping) -> Stm:
        """The map with rows of new matrices in place of what maps in it compute of rows from outside."""
        given = {p: a for p, a in zip(e.lam.params, e.arrays, strict=True) if OUTSIDE(a not in self.own)}
        if e.width in self.own or not given:
            return ir.map_scopes(s, self.inside)
        inner = _Nest(self.own - given.keys(), self.again)
        s = ir.map_scopes(s, inner.inside)
        for b in inner.before:
            used = tuple([p for p in given if p in ir.stm_free(b)])
            arrays = tuple([Var(v.name, array_of(v.type, e.width), at=v.at) for v in b.pat])
            if not used:
                self.before.append(b)
                continue
            made = ir.rename(Lambda(used, (b,), b.pat))
            self.before.append(Stm(arrays, ir.Map(e.width, tuple([given[p] for p in used]), made)))
            assert isinstance(s.exp, ir.Mapping)
            lam = Lambda((*s.exp.lam.params, *b.pat), s.exp.lam.stms, s.exp.lam.result)
            s = Stm(s.pat, s.exp.over((*s.exp.arrays, *arrays), lam), s.attrs, s.grid)
        return s

    def mapped(self, s: Stm, e: ir.Mapping) -> Stm:
        """The map with elements of new arrays in place of what it computes of elements from outside."""
        if e.width in self.own:
            return s
        given = {
            p: a
            for p, a in zip(e.lam.params, e.arrays, strict=True)
            if isinstance(p.type, Prim) and OUTSIDE(a not in self.own)
        }
        found = self.dear(e.lam, given) if given else []
        if not found:
            return s
        LEGAL.fired()
        made = _made_of(e.lam, found)
        used = tuple([p for p in given if any(p in t.exp.operands() for t in made)])
        arrays = tuple([Var(v.name, array_of(v.type, e.width), at=v.at) for v in found])
        before = ir.rename(Lambda(used, tuple(made), tuple(found)))
        self.before.append(Stm(arrays, ir.Map(e.width, tuple([given[p] for p in used]), before)))
        rest = _without(e.lam, set(found))
        lam = Lambda((*e.lam.params, *found), rest.stms, e.lam.result)
        return Stm(s.pat, e.over((*e.arrays, *arrays), lam), s.attrs, s.grid)

    def dear(self, lam: Lambda, given: dict[Var, Atom]) -> list[Var]:
        """Variables of a map's body that are dear functions of elements from outside, and that what is none uses."""
        costs: dict[Var, int] = dict.fromkeys(given, 0)
        stms = list(_branched(lam))
        for t in stms:
            e = t.exp
            if not isinstance(e, ir.Op):
                continue
            mine = [a for a in e.args if isinstance(a, Var) and a in self.own]
            if mine and all(a in costs for a in mine) and FAILS_NOT(not may_fail(e)):
                costs[t.pat[0]] = _cost(e, self.again) + sum(costs[a] for a in mine)
        wanted: set[Atom] = set(lam.result)
        for t in stms:
            if isinstance(t.exp, ir.If):
                wanted.update(a for branch in t.exp.lambdas() for a in branch.result)
            if not t.pat or t.pat[0] not in costs:
                wanted.update(t.exp.operands() if isinstance(t.exp, ir.If) else ir.stm_free(t))
        found = [v for v, cost in costs.items() if cost >= DEAR and v in wanted]
        return _fewer(found, {t.pat[0]: t.exp for t in stms if t.pat and t.pat[0] in costs}, costs)


def _cost(e: ir.Op, again: bool) -> int:
    """Of one of many, side by side: vectors take as long for roots as for exponentials, and for the quotients of grids
    that time steps go over `again` and again."""
    slow = e.op == "sqrt" or again and e.op == "div" and not may_fail(e)
    return max(OPS[e.op].cost, DEAR if slow else 0)


def _fewer(found: list[Var], made: dict[Var, ir.Exp], costs: dict[Var, int]) -> list[Var]:
    """One array in place of several, and of cheap functions of its elements that iterations can make again."""

    def source(v: Var) -> Var:
        e = made[v]
        of = {a for a in e.operands() if isinstance(a, Var) and a in costs}
        u = of.pop() if len(of) == 1 and isinstance(e, ir.Op) and OPS[e.op].cost <= CHEAP else v
        return u if costs[u] >= DEAR else v

    times = Counter([source(v) for v in found] + found)
    return list(dict.fromkeys(source(v) if times[source(v)] > 1 else v for v in found))


def _branched(lam: Lambda) -> Iterator[Stm]:
    """The statements of a scope, those of the branches in it after their own."""
    for s in lam.stms:
        yield s
        if isinstance(s.exp, ir.If):
            for branch in s.exp.lambdas():
                yield from _branched(branch)


def _without(lam: Lambda, found: set[Var]) -> Lambda:
    """The scope without the statements that bind the variables, in branches too."""
    kept = [s for s in lam.stms if not found & set(s.pat)]
    stms = [ir.map_scopes(s, lambda b: _without(b, found)) if isinstance(s.exp, ir.If) else s for s in kept]
    return Lambda(lam.params, tuple(stms), lam.result)


def _made_of(lam: Lambda, found: Iterable[Var]) -> list[Stm]:
    """The statements that compute the variables."""
    needed: set[Atom] = set(found)
    out: list[Stm] = []
    for t in reversed(list(_branched(lam))):
        if any(v in needed for v in t.pat):
            out.append(t)
            needed.update(ir.stm_free(t))
    return out[::-1]


__all__ = ["hoist_elements"]
