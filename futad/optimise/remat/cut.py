"""Maps hand elements to one another as arrays, or compute them again, by a minimum cut.

    (as, bs) = map (\\x -> let a = x / s; b = tanh (a * g); c = b + 1 in (a, b, b * c)) xs
    zs = map (\\x a c y -> let b = tanh (a * g) in y * c * (1 - b * b)) xs as cs ys
      -->
    bs = map (\\x -> let a = x / s; b = tanh (a * g) in b) xs
    zs = map (\\x b y -> let c = b + 1 in y * c * (1 - b * b)) xs bs ys

The second map may load values that the first one has computed at the same place, if that stores them, or compute them
again from others.  Reverse mode makes such pairs: its rule for a map executes the body again where derivatives need its
values.  A value costs its load, and a store if nobody else reads the array; or its operation, and then its operands
have to be there.  The cheapest choice for all values at once is a minimum cut (J. C. Picard, "Maximal closure of a
graph and applications to combinatorial problems", Management Science 22, 1976): each value has a node for being there,
on the side of the source if it is needed, and one for being computed.

Nests of maps are compared level by level; a place is the iteration of each.  The arrays of a loop's iteration lie in a
near cache from one map to the next.  Outside of loops there are no more arrays than before, unless they are known to be
small: they may be as large as memory is.

Equal values are found by their numbers: operations of equal numbers, elements of one array at one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TypeAlias

from futad.core import ir
from futad.core.alias import Aliases, aliases
from futad.core.compared import Compared
from futad.core.ir import Lambda, Stm
from futad.core.operator import divisor
from futad.core.scalarops import OPS
from futad.core.types import AccType, Atom, Prim, Type, Var
from futad.legality import Legality
from futad.optimise.remat.mincut import INFINITE, Graph
from futad.optimise.remat.nests import with_inputs, with_result
from futad.optimise.remat.policy import Policy
from futad.optimise.subst import Subst
from futad.optimise.values import Table

LEGAL = Legality("element-cut", "a map computes again what another one stored for it, or reads what that one computes")
UNWRITTEN = LEGAL.condition("not overwritten", "what the map reads was overwritten since the other one read or made it")
SAME_PLACE = LEGAL.condition("same place", "the element read is that of another iteration")
FAILS_NOT = LEGAL.condition("fails not", "a failure is reported at another place, or not at all")
SAME_BITS = LEGAL.condition(
    "equal to what is computed again",
    "an extremum is compared with an element that has other bits than the one it was chosen from: its place is lost",
)

Coords: TypeAlias = tuple[Atom, ...]
"""The widths of a nest's levels, outermost first: the place of an element is an iteration of each."""


def element_cut(lam: Lambda, policy: Policy) -> Lambda:
    """A function's body with what maps hand to one another chosen anew."""
    return _scope(lam, aliases(lam), cache(partial(Compared, lam)), policy)


def _scope(lam: Lambda, alias: Aliases, compared: Callable[[], Compared], policy: Policy) -> Lambda:
    """The scope and those in it."""
    if not lam.has(ir.Mapping, ir.WithAcc):
        return lam
    uses: Counter[Atom] = Counter(lam.result)
    uses.update([v for s in lam.stms for v in ir.stm_free(s)])
    cut = _Cut(alias, compared, policy, uses)
    stms = cut.statements(lam.stms)
    if all(a is b for a, b in zip(stms, lam.stms, strict=True)):
        return lam
    return Lambda(lam.params, tuple(stms), lam.result)


@dataclass(slots=True)
class _Part:
    """A part of an array of which some levels have been indexed: of one from outside, at these `levels`; or of one that
    a nest makes at `coords`, of elements with this `number`."""

    array: Var | None = None
    levels: tuple[int, ...] = ()
    number: int = -1
    coords: Coords = ()
    depth: int = 0  # levels indexed


@dataclass(slots=True)
class _Place:
    """Where a scalar is bound: in the nest that is statement `at` of `stms`, in the map that the path leads to."""

    stms: list[Stm]
    at: int
    path: tuple[int, ...]
    var: Var
    coords: Coords


@dataclass(slots=True)
class _Known:
    """What the statements so far have made: by number, where a scalar is bound, and arrays of its values at all places
    of `coords`; and what elements of arrays are."""

    places: dict[int, _Place] = field(default_factory=dict)
    arrays: dict[int, tuple[Var, Coords]] = field(default_factory=dict)
    parts: dict[Var, _Part] = field(default_factory=dict)

    def copy(self) -> _Known:
        return _Known(dict(self.places), dict(self.arrays), dict(self.parts))


@dataclass(slots=True)
class _Body:
    """A map's lambda in a nest, at the end of a path: the numbers of its scalars and of those in the lambdas around,
    which are there `around` it."""

    stm: Stm
    path: tuple[int, ...]
    lam: Lambda
    coords: Coords
    numbers: dict[Var, int]
    around: dict[int, Atom]


class _Cut:
    """One scope; `uses`: by how many statements of it."""

    def __init__(self, alias: Aliases, compared: Callable[[], Compared], policy: Policy, uses: Counter[Atom]) -> None:
        self.alias, self.compared, self.policy, self.uses = alias, compared, policy, uses
        self.loads, self.stores = policy.target.load, policy.target.store
        self.table = Table()
        self.types: dict[int, Type] = {}

    def statements(self, old: Sequence[Stm], known: _Known | None = None) -> list[Stm]:
        """The statements of a scope, of which nests before have made what is `known`."""
        known = _Known() if known is None else known
        stms: list[Stm] = []
        last = max([k for k, s in enumerate(old) if isinstance(s.exp, ir.Mapping | ir.WithAcc)], default=-1)
        for k, s in enumerate(old):
            e = s.exp
            if isinstance(e, ir.WithAcc):
                # It runs once: nests in it may read what those before make.
                inner = self.statements(e.lam.stms, known.copy())
                if any(a is not b for a, b in zip(inner, e.lam.stms, strict=True)):
                    lam = Lambda(e.lam.params, tuple(inner), e.lam.result)
                    s = Stm(s.pat, ir.WithAcc(e.arrays, e.op, lam), s.attrs)
                stms.append(s)
                continue
            within = self.policy.within(e, isinstance(e, ir.Loop))
            s = ir.map_scopes(s, partial(_scope, alias=self.alias, compared=self.compared, policy=within))
            stms.append(s)
            if isinstance(s.exp, ir.Mapping):
                lambdas = self.lambdas(stms, known, False) if known.places or known.arrays else []
                for j in range(len(lambdas)):
                    shared = any(n in known.places or n in known.arrays for n in lambdas[j].numbers.values())
                    if shared and self.choose(stms, lambdas[j], known):
                        lambdas = self.lambdas(stms, known, False)
                if k < last:  # a later one may use what it makes
                    self.lambdas(stms, known, True)
        return stms

    # -- numbers

    def number(self, t: Type, *key: object) -> int:
        n = self.table.number(*key)
        self.types[n] = t
        return n

    def lambdas(self, stms: list[Stm], known: _Known, note: bool) -> list[_Body]:
        """The lambdas of the nest that is the last statement, outer ones first; `note`: what it makes is known from now
        on."""
        found: list[_Body] = []
        at = len(stms) - 1
        s = stms[at]

        def element(part: _Part, p: Var, level: int) -> _Part | int:
            """What a parameter is, of which the array is this part."""
            if part.array is None:
                return replace(part, depth=part.depth + 1) if part.depth + 1 < len(part.coords) else part.number
            levels = (*part.levels, level)
            if isinstance(p.type, Prim):
                return self.number(p.type, "element", part.array, levels)
            return _Part(part.array, levels)

        def nest(
            m: Stm, path: tuple[int, ...], coords: Coords, parts: dict[Var, _Part], numbers: dict[Var, int]
        ) -> list[int | _Part | None]:
            """What the mapped results of a map are, of which elements and rows have these numbers around it."""
            e = m.exp
            assert isinstance(e, ir.Mapping)
            level, coords = len(coords), (*coords, e.width)
            parts, numbers = dict(parts), dict(numbers)
            around: dict[int, Atom] = {n: v for v, n in numbers.items()}
            for a, p in zip(e.arrays, e.lam.params, strict=True):
                if isinstance(p.type, AccType):
                    continue
                part = parts.get(a) if isinstance(a, Var) else None
                if part is None or part.array is None and not SAME_PLACE(
                    part.depth == level and part.coords[: level + 1] == coords
                ):
                    part = _Part(a) if isinstance(a, Var) and a not in inner else None
                if part is None:
                    if isinstance(p.type, Prim):
                        numbers[p] = self.number(p.type, "own", p)
                    continue
                of = element(part, p, level)
                if isinstance(of, _Part):
                    parts[p] = of
                elif isinstance(p.type, Prim):
                    numbers[p] = of
            inner.update(e.lam.params)
            found.append(_Body(s, path, e.lam, coords, numbers, around))
            for j, t in enumerate(e.lam.stms):
                x = t.exp
                inner.update(t.pat)
                if isinstance(x, ir.Mapping):
                    made = nest(t, (*path, j), coords, parts, numbers)
                    for v, n in zip(t.pat[x.first_mapped :], made, strict=True):
                        if isinstance(n, _Part):
                            parts[v] = n
                for v in t.pat:
                    if isinstance(v.type, Prim):
                        if isinstance(x, ir.Op):
                            args = [numbers[a] if a in numbers else self.atom(a, inner) for a in x.args]
                            numbers[v] = self.number(v.type, "op", x.op, *args)
                        else:
                            numbers[v] = self.number(v.type, "own", v)
                        if note:
                            known.places.setdefault(numbers[v], _Place(stms, at, path, v, coords))
            out: list[int | _Part | None] = []
            for r in e.lam.result[e.first_mapped :]:
                part = parts.get(r) if isinstance(r, Var) else None
                if isinstance(r, Var) and r in numbers:
                    out.append(_Part(None, (), numbers[r], coords, level))
                elif part is not None and part.array is None:
                    out.append(replace(part, depth=level))
                else:
                    out.append(None)
            return out

        inner: set[Var] = set()
        e = s.exp
        assert isinstance(e, ir.Mapping)
        for v, part in zip(s.pat[e.first_mapped :], nest(s, (), (), known.parts, {}), strict=True):
            if note and isinstance(part, _Part):
                known.parts[v] = part
                known.arrays.setdefault(part.number, (v, part.coords))
        return found

    def atom(self, a: Atom, inner: set[Var]) -> int:
        """The number of a scalar that is no element; `inner`: what the nest binds."""
        return self.number(a.type, "own" if isinstance(a, Var) and a in inner else "variable", a)

    # -- the cut

    def choose(self, stms: list[Stm], body: _Body, known: _Known) -> bool:
        """Let the lambda have the cheapest choice of loads and operations; whether that is another one."""
        read = [body.numbers[p] for p in body.lam.params if p in body.numbers]
        handed = [n for n in read if self.is_stored(n, body, known)]
        old = sum([self.loads if n in body.around else self.load(n, body, known, True) for n in read])
        old += sum([OPS[s.exp.op].cost for s in body.lam.stms if isinstance(s.exp, ir.Op)])
        price, loads = self.cheapest(body, known, True)
        if price < INFINITE and not self.policy.more_arrays(body.coords):
            new = [n for n in loads if self.is_stored(n, body, known) or n not in known.arrays and n in known.places]
            if len(new) > len(handed):
                price, loads = self.cheapest(body, known, False)
        if not self.policy.other(old, price, self.spares(read, loads, body, known)):
            return False
        LEGAL.fired()
        self.rewrite(stms, body, known, loads)
        return True

    def spares(self, read: list[int], loads: list[int], body: _Body, known: _Known) -> bool:
        """Whether an array is not read any more, and those that are in its place are there for others: the first one
        may be gone by then, or its memory have another's elements."""
        new = [n for n in loads if n not in read and self.load(n, body, known, True)]
        there = all(n in known.arrays and not self.alone(known.arrays[n][0], body) for n in new)
        return there and any(n not in loads and n not in body.around for n in read)

    def is_stored(self, n: int, body: _Body, known: _Known) -> bool:
        """Whether there is an array of these values for this nest alone."""
        array, coords = known.arrays.get(n, (None, ()))
        return array is not None and coords == body.coords and self.alone(array, body)

    def alone(self, array: Var, body: _Body) -> bool:
        """Whether nothing but this nest reads an array."""
        return self.uses[array] <= (array in ir.stm_free(body.stm))

    def readable(self, array: Var, body: _Body, n: int) -> bool:
        """Whether the nest may read an array; it may do so again if it does already."""
        return any(body.numbers.get(p) == n for p in body.lam.params) or UNWRITTEN(not self.alias.mutable(array))

    def load(self, n: int, body: _Body, known: _Known, new: bool) -> int:
        """The cost of a value that is not computed; `new`: a nest before may store it."""
        if n in body.around:
            return 0
        kind, *key = self.table.keys[n]
        if kind == "variable":
            return 0
        if kind == "element":
            array, levels = key
            if not self.readable(array, body, n):
                return INFINITE
            return self.loads if len(levels) == len(body.coords) else levels[-1] == len(body.coords) - 1
        if n in known.arrays:
            array, coords = known.arrays[n]
            if body.coords[: len(coords)] == coords and self.readable(array, body, n):
                if len(coords) < len(body.coords):
                    return 0
                return self.loads + self.stores if self.alone(array, body) else self.loads
        if new and n in known.places:
            coords = known.places[n].coords
            if coords == body.coords:
                return self.loads + self.stores
            if body.coords[: len(coords)] == coords:
                return 0
        return self.loads if any(body.numbers.get(p) == n for p in body.lam.params) else INFINITE

    def cheapest(self, body: _Body, known: _Known, new: bool) -> tuple[int, list[int]]:
        """What the cheapest choice costs, and what it loads."""
        graph: Graph[tuple[str, int]] = Graph()
        source, sink = ("source", 0), ("sink", 0)
        own = {body.numbers[v] for s in body.lam.stms if isinstance(s.exp, ir.Op) for v in s.pat}
        others = [s for s in body.lam.stms if not isinstance(s.exp, ir.Op)]
        bound = {body.numbers[v] for s in others for v in s.pat if v in body.numbers}
        # What is compared stays as it is, loaded or computed.
        loaded = self.differing(body, body.lam.params)
        computed = self.differing(body, [v for s in body.lam.stms for v in s.pat])
        todo = [body.numbers[a] for a in self.needed(body) if a in body.numbers]
        for n in todo:
            graph.edge(source, ("have", n), INFINITE)
        seen: set[int] = set()
        while todo:
            n = todo.pop()
            if n in seen:
                continue
            seen.add(n)
            kind, *key = self.table.keys[n]
            price = self.load(n, body, known, new)
            if n in bound:
                price = 0
            operation = kind == "op" and (n in own or self.repeatable(n)) and n not in loaded
            if n in computed and n in own:
                price = INFINITE
            if not operation:
                graph.edge(("have", n), sink, price)
                continue
            graph.edge(("have", n), ("compute", n), price)
            graph.edge(("compute", n), sink, OPS[key[0]].cost)
            for k in key[1:]:
                graph.edge(("compute", n), ("have", k), INFINITE)
                todo.append(k)
        price, side = graph.side(source, sink)
        return price, [n for n in seen if ("have", n) in side and ("compute", n) not in side]

    def differing(self, body: _Body, variables: Iterable[Var]) -> set[int]:
        """The numbers of those that are compared and have other bits where they are computed again."""
        scalars = [v for v in variables if v in body.numbers]
        return {body.numbers[v] for v in scalars if not SAME_BITS(not self.compared().differs(v))}

    def repeatable(self, n: int) -> bool:
        """Whether the operation may be done once more, or elsewhere."""
        op = self.table.keys[n][1]
        t = self.types[n]
        return FAILS_NOT(not OPS[op].can_fail or isinstance(t, Prim) and t.is_float)

    def needed(self, body: _Body) -> list[Var]:
        """The scalars that results and statements other than operations use, and operations that may fail."""
        out = [a for a in body.lam.result if isinstance(a, Var)]
        for s in body.lam.stms:
            if not isinstance(s.exp, ir.Op):
                out += ir.stm_free(s)
            elif divisor(s.exp) is not None:
                out += s.pat
        return out

    # -- rewriting

    def rewrite(self, stms: list[Stm], body: _Body, known: _Known, loads: list[int]) -> None:
        """Let the lambda, in the last statement, load these values, and compute the others that it needs."""
        lam = body.lam
        have: dict[int, Atom] = dict(body.around)
        inputs: list[tuple[Var, tuple[int, ...], Var]] = []
        params = {body.numbers[p]: p for p in lam.params if p in body.numbers}
        for n in loads:
            kind, *key = self.table.keys[n]
            if n in have:
                continue
            if kind == "variable":
                have[n] = key[0]
            elif n in params:
                have[n] = params[n]
            elif kind != "own" or n in known.arrays or n in known.places:
                if kind == "element":
                    array, levels = key
                else:
                    array, coords = self.stored(n, body, known)
                    levels = tuple(range(len(coords)))
                self.uses[array] += array not in ir.stm_free(body.stm)
                have[n] = v = Var(array.name, self.types[n])
                inputs.append((array, levels, v))
        made = {body.numbers[s.pat[0]]: s for s in reversed(lam.stms) if isinstance(s.exp, ir.Op)}
        out: list[Stm] = []
        subst = Subst()

        def value(n: int) -> Atom:
            """The value, computed if it is not there."""
            if n not in have:
                _, op, *args = self.table.keys[n]
                atoms = tuple([value(k) for k in args])
                old = made.get(n)
                if old is None:
                    new = Stm((Var("again", self.types[n]),), ir.Op(op, atoms))
                else:  # with its place, which a failure reports
                    known_as = dict(zip(old.exp.operands(), atoms, strict=True))
                    new = Stm(old.pat, old.exp.rebuild(lambda a: known_as.get(a, a), lambda lam: lam), old.attrs)
                out.append(new)
                (have[n],) = new.pat
            return have[n]

        wanted = set(self.needed(body))
        for s in lam.stms:
            if isinstance(s.exp, ir.Op):
                if s.pat[0] in wanted:
                    subst.mapping[s.pat[0]] = value(body.numbers[s.pat[0]])
                continue
            for v in ir.stm_free(s):
                if v in body.numbers:
                    subst.mapping[v] = value(body.numbers[v])
            out.append(subst.stm(s))
            have.update({body.numbers[v]: v for v in s.pat if v in body.numbers})
        results = tuple([value(body.numbers[a]) if a in body.numbers else subst.atom(a) for a in lam.result])
        new = Lambda(lam.params, tuple(out), results)
        stms[-1] = with_inputs(stms[-1], body.path, new, [(a, levels, a, v) for a, levels, v in inputs])

    def stored(self, n: int, body: _Body, known: _Known) -> tuple[Var, Coords]:
        """The array with these values, which a nest before stores for this one if there is none."""
        array, coords = known.arrays.get(n, (None, ()))
        if array is not None and body.coords[: len(coords)] == coords and self.readable(array, body, n):
            return array, coords
        place = known.places[n]
        s = place.stms[place.at]
        place.stms[place.at] = made = with_result(s, place.path, place.var)
        known.arrays[n] = made.pat[-1], place.coords
        return known.arrays[n]


__all__ = ["element_cut"]
