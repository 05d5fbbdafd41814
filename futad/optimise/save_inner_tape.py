"""What a loop inside a return sweep saves, running again what the forward sweep ran, the forward sweep saves itself.

The return sweep of a loop executes each iteration again, the loops inside with what they save for their own return
sweep:

    loop x for t < n do hs[t] = x; (loop x for i < m do f x)
    loop .. for t' < n do let t = n-1-t'; x = hs[t]; loop (x, es) for i < m do es[i] = e x; f x; ... es ...
      -->
    loop (x, es) for t < n do hs[t] = x; (loop (x, es) for i < m do es[t,i] = e x; f x)
    loop .. for t' < n do let t = n-1-t'; ... es[t] ...

That the two inner loops compute the same is found by value numbers.  Each value saved costs a store and a load from far
memory, and so it is done where what is run again is dearer; and where iterations of the outer loop save arrays of the
same sizes anyway: memory grows by a constant factor, at most `MOST`.  It is for few threads: devices have less memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from futad.core import ir
from futad.core.alias import Aliases, aliases, consumed_roots
from futad.core.ir import Lambda, Program, Stm
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import I64, ArrayType, Atom, Const, Var, array_of, elem_of, shape_of
from futad.legality import Legality
from futad.optimise.save_scalars import iterations_back

LEGAL = Legality(
    "save-inner-tape",
    "the forward sweep saves what a loop of the return sweep would compute again",
    worth="D-LSTM on c: the derivative takes 1.9 times the objective's time in place of 2.7",
)
BEFORE = LEGAL.condition("nothing between needed", "a statement moves before one that binds what it uses")
SAME_ITERATIONS = LEGAL.condition("as many iterations", "the return sweep wants iterations that there were none")
AT_ITERATION = LEGAL.condition(
    "saved at the iteration", "the history's row is not the value of the iteration of that number"
)
FAILS_NOT = LEGAL.condition("fails not", "a check of the forward sweep's loop would be gone")
SAME = LEGAL.condition("same results", "the forward sweep would go on with other values")
SAVING = LEGAL.condition("other variables save", "what the loop of the return sweep computes besides would be lost")
EACH_ROW = LEGAL.condition("each row saved", "rows that the loop does not save are not what they were before it")
SAVES_ALONE = LEGAL.condition("saves alone", "another use of what is saved would read other memory")
KNOWN = LEGAL.condition("known in the forward sweep", "the loop uses what only the return sweep has")
THERE = LEGAL.condition("not overwritten", "the loop would read what was overwritten since")
READ_ONLY = LEGAL.condition("read only", "what is saved would be overwritten")

MOST = 8  # times as much memory as was saved before
DEAR = 8  # cost of scalar operations for each value saved


def save_inner_tape(program: Program) -> Program:
    """Let forward sweeps save what loops in return sweeps would compute again."""
    return ir.map_bodies(program, _body)


def _body(lam: Lambda) -> Lambda:
    while (new := _scope(lam, {}, aliases(lam))) is not lam:
        lam = new
    return lam


def _scope(lam: Lambda, defs: dict[Var, ir.Exp], alias: Aliases) -> Lambda:
    defs = defs | {s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}
    stms = [ir.map_scopes(s, lambda inner: _scope(inner, defs, alias)) for s in lam.stms]
    if not all(a is b for a, b in zip(stms, lam.stms, strict=True)):
        # What is new in them is not in the aliases: the next round looks at this scope.
        return Lambda(lam.params, tuple(stms), lam.result)
    for i, j in combinations([k for k, s in enumerate(stms) if type(s.exp) is ir.For], 2):
        new = _Pair(stms[i], stms[j], defs, alias).rewritten()
        later = {v for s in stms[i:j] for v in s.pat}
        if new is not None and BEFORE(not later & _needed(new[:-1])):
            LEGAL.fired()
            stms[j] = new[-1]
            stms[i : i + 1] = new[:-1]
            return Lambda(lam.params, tuple(stms), lam.result)
    return lam


def _needed(stms: list[Stm]) -> set[Var]:
    """What statements use of the scope before them."""
    return set(Lambda((), tuple(stms), ()).free())


# --- value numbers ------------------------------------------------------------------------------------------


class _Numbers:
    """Numbers that are equal for equal values, of one or several scopes that share the `table`."""

    def __init__(self, table: dict[tuple[Any, ...], int], iterations: Iterable[Atom]) -> None:
        self.table = table
        self.of: dict[Atom, int] = dict.fromkeys(iterations, self.number("iteration"))
        self.saved: dict[Atom, int] = {}  # histories, and the value that is in them at this iteration

    def number(self, *key: object) -> int:
        return self.table.setdefault(key, len(self.table))

    def atom(self, a: Atom | Range) -> int:
        if isinstance(a, Range):
            return self.number("range", self.atom(a.start), self.atom(a.count), self.atom(a.stride))
        return self.of[a] if a in self.of else self.number("atom", a)

    def inner(self) -> _Numbers:
        """Numbers for a scope inside."""
        new = _Numbers(self.table, ())
        new.of, new.saved = dict(self.of), self.saved
        return new

    def note(self, s: Stm) -> None:
        """Number what a statement binds; what is not understood equals nothing else."""
        e = s.exp
        match e:
            case ir.Op(op, args):
                self.of.setdefault(s.pat[0], self.number("op", op, *map(self.atom, args)))
            case ir.Alias(a) | ir.Copy(a):
                self.of[s.pat[0]] = self.atom(a)
            case ir.At(a, index):
                places = [self.atom(i) for i in index]
                array = self.atom(a)
                if a in self.saved and places[0] == self.number("iteration"):
                    array = self.saved[a]
                    places.pop(0)
                self.of[s.pat[0]] = self.number("at", array, *places) if places else array
            case ir.Update(a, index, value):
                self.of[s.pat[0]] = self.number("update", self.atom(a), self.atom(value), *map(self.atom, index))
            case ir.ArrayLit(elems):
                self.of[s.pat[0]] = self.number("literal", *map(self.atom, elems))
            case ir.Replicate(shape, value):
                self.of[s.pat[0]] = self.number("replicate", self.atom(value), *map(self.atom, shape))
            case ir.Reshape(a, shape):
                self.of[s.pat[0]] = self.number("reshape", self.atom(a), *map(self.atom, shape))
            case ir.Map():
                self.map(s.pat, e)

    def map(self, pat: tuple[Var, ...], e: ir.Map) -> None:
        """Number the results of a map of scalar operations: as functions of its inputs' elements, so that it does not
        matter what was fused."""
        if not all(type(s.exp) is ir.Op for s in e.lam.stms):
            return
        inside = self.inner()
        made = list(self.table)
        for p, a in zip(e.lam.params, e.arrays, strict=True):
            array = self.atom(a)
            kind, *parts = made[array] if array < len(made) else ("atom",)
            inside.of[p] = parts[1] if kind == "map" else self.number("element", array)
        for s in e.lam.stms:
            inside.note(s)
        for v, r in zip(pat, e.lam.result, strict=True):
            self.of[v] = self.number("map", self.atom(e.width), inside.atom(r))


# --- pairs of sweeps ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Match:
    """A loop of the forward sweep's iterations, by its place, and the return sweep's that runs it again: for each
    variable of the first that of the second, and the variables of the second that save."""

    forward: int
    back: int
    same: list[int]
    saving: list[int] = field(default_factory=list)


class _Pair:
    """A forward and a return sweep of one loop, if they are."""

    def __init__(self, first: Stm, second: Stm, defs: dict[Var, ir.Exp], alias: Aliases) -> None:
        assert type(first.exp) is ir.For and type(second.exp) is ir.For
        self.first, self.second, self.alias = first, second, alias
        self.f, self.r = first.exp, second.exp
        self.iterations = iterations_back(self.r, defs)
        self.scratch = {s.pat[0] for s in self.r.body.stms if type(s.exp) is ir.Scratch}
        self.own = {*self.r.body.params, *[v for s in self.r.body.stms for v in s.pat]}
        table: dict[tuple[Any, ...], int] = {}
        self.forward = _Numbers(table, self.f.body.params[:1])
        self.back = _Numbers(table, self.iterations)
        self.rows: list[ArrayType] = []  # of what is saved already, in each iteration

    def rewritten(self) -> list[Stm] | None:
        """The two loops with what goes before them; None if there is nothing to save."""
        f, r = self.f, self.r
        if f.body.params[0].type is not I64 or not self.iterations or not SAME_ITERATIONS(f.bound is r.bound):
            return None
        if not all(any(type(s.exp) is ir.For for s in e.body.stms) for e in (f, r)):
            return None
        if not set(self.first.pat) & ir.stm_free(self.second).keys():
            return None
        for s in f.body.stms:
            self.forward.note(s)
        for v, p, result in zip(self.first.pat, f.body.params[1:], f.body.result, strict=True):
            for s in f.body.stms:
                e = s.exp
                if type(e) is ir.Update and s.pat[0] is result and e.array is p and len(e.index) == 1:
                    if isinstance(e.value.type, ArrayType) and AT_ITERATION(e.index == (f.body.params[0],)):
                        self.back.saved[v] = self.forward.atom(e.value)
                        self.rows.append(e.value.type)
                        self.size = shape_of(v.type)[0]
        if not self.rows:
            return None
        for k, s in enumerate(r.body.stms):
            self.back.note(s)
            if type(s.exp) is ir.For and (found := self.match(k)) is not None and self.pays(found):
                return self.saving(found)
        return None

    def match(self, back: int) -> _Match | None:
        """The forward sweep's loop that a loop of the return sweep runs again."""
        second = self.r.body.stms[back].exp
        assert type(second) is ir.For
        for k, s in enumerate(self.f.body.stms):
            first = s.exp
            if type(first) is not ir.For or first.bound is not second.bound or not FAILS_NOT(not _checks(first.body)):
                continue
            found = self.same(_Match(k, back, []), first, second)
            if found is not None:
                return found
        return None

    def same(self, m: _Match, first: ir.For, second: ir.For) -> _Match | None:
        """Whether a loop computes what another does; the variables that the second has besides must be for saving."""
        one, two = self.forward.inner(), self.back.inner()
        counter = one.number("counter")
        one.of[first.body.params[0]] = two.of[second.body.params[0]] = counter
        params, others = first.body.params[1:], second.body.params[1:]
        left = list(range(len(others)))
        for j, a in enumerate(first.inits):
            value = one.atom(a)
            at = next((q for q in left if two.atom(second.inits[q]) == value), None)
            if at is None:
                return None
            left.remove(at)
            m.same.append(at)
            one.of[params[j]] = two.of[others[at]] = one.number("carried", j)
        for s in first.body.stms:
            one.note(s)
        for s in second.body.stms:
            two.note(s)
        results = [two.atom(second.body.result[q]) for q in m.same]
        if not SAME([one.atom(a) for a in first.body.result] == results):
            return None
        m.saving = left
        return m if SAVING(all(self.saves(second, q) is not None for q in left)) else None

    def saves(self, loop: ir.For, q: int) -> Stm | None:
        """The statement that saves a row of the variable in each iteration, if it does that alone."""
        p, counter = loop.body.params[q + 1], loop.body.params[0]
        users = [s for s in loop.body.stms if p in ir.stm_free(s)]
        if len(users) != 1 or p in loop.body.result:
            return None
        (s,) = users
        e = s.exp
        if type(e) is not ir.Update or e.array is not p or e.index != (counter,) or e.check is not None:
            return None
        reexecuted = sum(s.pat[0] in ir.stm_free(x) for x in loop.body.stms)
        # What the forward sweep saves in starts as scratch.
        if not EACH_ROW(loop.inits[q] in self.scratch or shape_of(p.type)[0] is loop.bound):
            return None
        return s if loop.body.result[q] is s.pat[0] and SAVES_ALONE(not reexecuted) else None

    def kept(self, m: _Match) -> list[int]:
        """The results of the loop that the return sweep's other statements use."""
        s = self.r.body.stms[m.back]
        used = {v for k, x in enumerate(self.r.body.stms) if k != m.back for v in ir.stm_free(x)}
        used.update(a for a in self.r.body.result if type(a) is Var)
        return [q for q, v in enumerate(s.pat) if v in used]

    def pays(self, m: _Match) -> bool:
        """Whether running the loop again is dearer than what it computes is to save, and that is not too much."""
        s = self.r.body.stms[m.back]
        e = s.exp
        assert type(e) is ir.For
        saved = 0
        room = max(_constant(t) for t in self.rows)
        for q in self.kept(m):
            t = s.pat[q].type
            if not isinstance(t, ArrayType) or not any(_sizes(t) <= _sizes(row) for row in self.rows):
                return False
            saved += _constant(t)
        return 0 < saved <= MOST * room and _cost(e.body) >= DEAR * saved

    # -- doing it

    def saving(self, m: _Match) -> list[Stm] | None:
        """The statements before the loops, and the loops."""
        f, r = self.f, self.r
        old, reexecuted = f.body.stms[m.forward], r.body.stms[m.back]
        first, second = old.exp, reexecuted.exp
        assert type(first) is ir.For and type(second) is ir.For
        names = self.names(m)
        known = {v: names[n] for v, n in self.back.of.items() if n in names and v in self.own}
        body = self.without_histories(second.body, names)
        free = {v for v in body.free() if v in self.own}
        if not KNOWN(free <= known.keys()):
            return None
        # An array that is overwritten is still there if the forward sweep's own loop reads it.
        read = old.exp.lambdas()[0].free()
        arrays = {known[v] for v in free if v in known} | {v for v in body.free() if v not in second.body.free()}
        if not THERE(not any(self.alias.mutable(a) and a not in read for a in arrays)):
            return None
        kept = self.kept(m)
        before: list[Stm] = []
        carried: dict[int, list[Var]] = {}  # of the forward sweep: start, in an iteration, after it, at its end
        for q in kept:
            t = array_of(reexecuted.pat[q].type, self.size)
            carried[q] = [Var("saved", t) for _ in range(4)]
            before.append(Stm((carried[q][0],), ir.Scratch(elem_of(t), shape_of(t))))
        # The loop of the forward sweep is that of the return sweep, saving straight to where it is kept.
        copy = ir.rename(body, dict[Var, Atom](known))
        filled = [q for q in kept if q in m.saving]
        params = [copy.params[q + 1] for q in m.same] + [Var("saved", carried[q][0].type) for q in filled]
        stms = list(copy.stms)
        results = [copy.result[q] for q in m.same]
        for q, p in zip(filled, params[len(m.same) :], strict=True):
            at = next(k for k, s in enumerate(stms) if s.pat and s.pat[0] is copy.result[q])
            e = stms[at].exp
            assert type(e) is ir.Update
            new = Var("saved", p.type)
            stms[at] = Stm((new,), ir.Update(p, (f.body.params[0], *e.index), e.value, None))
            results.append(new)
        gone = {copy.params[q + 1] for q in m.saving if q not in filled}
        stms = [s for s in stms if not gone & ir.stm_free(s).keys()]
        body = Lambda((copy.params[0], *params), tuple(stms), tuple(results))
        inits = (*first.inits, *[carried[q][1] for q in filled])
        loop = Stm((*old.pat, *[carried[q][2] for q in filled]), ir.For(first.bound, inits, body), old.attrs)
        updates = [
            Stm((carried[q][2],), ir.Update(carried[q][1], (f.body.params[0],), old.pat[m.same.index(q)]))
            for q in kept if q not in filled
        ]  # fmt: skip
        iteration = Lambda(
            (*f.body.params, *[carried[q][1] for q in kept]),
            (*f.body.stms[: m.forward], loop, *updates, *f.body.stms[m.forward + 1 :]),
            (*f.body.result, *[carried[q][2] for q in kept]),
        )
        forward = ir.For(f.bound, (*f.inits, *[carried[q][0] for q in kept]), iteration)
        reads: list[Stm] = []
        index = next(s.pat[0] for s in r.body.stms if s.pat and s.pat[0] in self.iterations)
        for q in kept:
            v = reexecuted.pat[q]
            row = Var("saved", v.type)
            reads.append(Stm((row,), ir.At(carried[q][3], (index,), None)))
            reads.append(Stm((v,), ir.Alias(row) if READ_ONLY(not self.consumed(m, v)) else ir.Copy(row)))
        stms = [*r.body.stms[: m.back], *reads, *r.body.stms[m.back + 1 :]]
        back = ir.For(r.bound, r.inits, Lambda(r.body.params, tuple(stms), r.body.result))
        done = Stm((*self.first.pat, *[carried[q][3] for q in kept]), forward, self.first.attrs)
        return [*before, done, Stm(self.second.pat, back, self.second.attrs)]

    def names(self, m: _Match) -> dict[int, Var]:
        """The variables of the forward sweep's iteration, by value numbers, as far as they are there before the
        loop."""
        names: dict[int, Var] = {self.forward.atom(p): p for p in self.f.body.params}
        for s in self.f.body.stms[: m.forward]:
            for v in s.pat:
                if v in self.forward.of:
                    names.setdefault(self.forward.of[v], v)
        return names

    def without_histories(self, lam: Lambda, names: dict[int, Var]) -> Lambda:
        """The scope with reads of what the forward sweep saved in this iteration, which it has saved only when its loop
        is done, as reads of the values it saves."""

        def read(s: Stm) -> Stm:
            e = s.exp
            if type(e) is not ir.At or e.array not in self.back.saved or e.index[0] not in self.iterations:
                return ir.map_scopes(s, scope)
            value = names.get(self.back.saved[e.array])
            if value is None:
                return s
            rest = e.index[1:]
            return Stm(s.pat, ir.At(value, rest, e.check) if rest else ir.Alias(value), s.attrs)

        def scope(inner: Lambda) -> Lambda:
            return Lambda(inner.params, tuple([read(s) for s in inner.stms]), inner.result)

        return scope(lam)

    def consumed(self, m: _Match, v: Var) -> bool:
        """Whether the return sweep overwrites the array."""
        root = self.alias.root(v)
        others = [s.exp for k, s in enumerate(self.r.body.stms) if k != m.back]
        return v in self.r.body.result or any(root in consumed_roots(e, self.alias) for e in others)


def _checks(lam: Lambda) -> bool:
    """Whether anything in the scope may fail or is seen from outside."""
    for s in lam.stms:
        e = s.exp
        if e.effect or getattr(e, "check", None) is not None:
            return True
        if any(_checks(inner) for inner in e.lambdas()):
            return True
    return False


def _sizes(t: ArrayType) -> Counter[Atom]:
    """The sizes of an array that are no constants."""
    return Counter(a for a in t.shape if type(a) is Var)


def _constant(t: ArrayType) -> int:
    """The product of those that are."""
    return math.prod(a.value for a in t.shape if type(a) is Const)


def _cost(lam: Lambda) -> int:
    """The scalar operations of a scope's maps, for an element each."""
    own = sum(OPS[s.exp.op].cost for s in lam.stms if type(s.exp) is ir.Op)
    return own + sum(_cost(inner) for s in lam.stms if type(s.exp) is ir.Map for inner in s.exp.lambdas())


__all__ = ["save_inner_tape"]
