"""Which of a function's values are replicated, sharded or partial along a size; and its statements, by where they run.

The function is core IR after derivatives are expanded, so value and gradient are one program and reverse mode needs no
rule here.  A map over another size that has more than one phase inside becomes several maps (Note [Nests]).
The rules of the constructs are in `rules.py`; when splitting is legal is in `classes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.operator import may_fail
from futad.core.types import BOOL, I64, AccType, Atom, Const, Prim, Type, Var, array_of, elem_of, one, shape_of, zero
from futad.distributed.classes import (
    ADDED_IN_PARTS,
    COMBINED_BEFORE,
    OWN_ROWS,
    SAME,
    SIZE_KEPT,
    Accumulator,
    Class,
    How,
    Partial,
    Replicated,
    Sharded,
    adding,
)
from futad.distributed.places import Places, name_of, place_of
from futad.errors import Span, UnsupportedError
from futad.legality import Condition

_SIZES = ("width", "count", "size")
_SHAPES = ("shape", "sizes")
_NEUTRAL = {"add": zero, "or": zero, "mul": one, "and": one}  # of operations by which partial values are combined


class Item(NamedTuple):
    """A statement and where it runs: in each shard, in phase `level`; or once, in the step before that phase."""

    stm: ir.Stm
    level: int
    shard: bool


Place = ir.Stm | Span | None  # of which a message speaks; None: the function
Rule = Callable[["Splitter", ir.Stm], list[Item]]
RULES: dict[type[ir.Exp], Rule] = {}  # of statements that have sharded values or accumulators


def sizes_in(e: ir.Exp) -> list[Atom]:
    """The operands of an expression that are sizes of what it runs over or makes."""
    out = [getattr(e, f) for f in _SIZES if f in e.kinds]
    out += [a for f in _SHAPES if f in e.kinds for a in getattr(e, f)]
    return out + [i.count for i in getattr(e, "index", ()) if isinstance(i, Range)]


def is_cheap(e: ir.Exp) -> bool:
    """Whether it is computed again wherever it is used, in place of being passed on."""
    if isinstance(e, ir.Op):
        return not may_fail(e)
    return isinstance(e, ir.Iota | ir.Rearrange | ir.Alias) or (
        isinstance(e, ir.Replicate) and isinstance(e.value.type, Prim)
    )


class Splitter:
    """One analysis: classes of variables, as far as it has come.

    `n`: the size; `first`: in the first shard, and only there, true; `offset`: of the shard's first element.
    `combined`: partial values that something needs whole.
    """

    def __init__(self, n: Var, size: str, fun: ir.Fun) -> None:
        self.n, self.size = n, size
        self.places = Places(fun)
        self.first, self.offset = Var("first", BOOL), Var("offset", I64)
        self.classes: dict[Var, Class] = {}
        self.combined: dict[Var, None] = {}
        self.settled: set[Var] = set()  # partial values of phases before that of the statement at hand
        self.depth = 0  # scopes around that run in one phase as a whole
        self.filled: dict[Var, Atom] = {}  # what arrays are filled with
        for p in fun.body.params:
            dim = self.dim_of(p.type, None)
            self.classes[p] = Replicated(0) if dim is None else Sharded(0, dim)
        self.classes[n] = Replicated(0)

    # -- classes

    def of(self, a: Atom) -> Class:
        if isinstance(a, Const):
            return Replicated(0)
        found = self.classes[a]
        return Replicated(found.level + 1) if a in self.settled else found

    def known(self, *atoms: Atom) -> int:
        """The phase from which on values are there as a whole, or as a shard's part."""
        level = 0
        for a in atoms:
            c = self.of(a)
            if isinstance(a, Var) and (isinstance(c, Partial) or a in self.settled):
                self.combined[a] = None
            level = max(level, c.level + isinstance(c, Partial))
        return level

    def dim_of(self, t: Type, place: Place) -> int | None:
        """The dimension of a type that is split; None if none is."""
        dims = [i for i, s in enumerate(shape_of(t)) if s is self.n]
        self.demand(OWN_ROWS, len(dims) < 2, f"an array has two dimensions of size {self.size}", place)
        return dims[0] if dims else None

    def spans(self, s: ir.Stm) -> bool:
        """Whether anything in a statement has the size that is split."""
        return any(
            self.n in sizes_in(t.exp)
            or any(self.n in shape_of(v.type) for v in (*t.pat, *[p for lam in t.exp.lambdas() for p in lam.params]))
            for t in ir.statements([s])
        )

    def demand(self, condition: Condition, holds: object, what: str, place: Place) -> None:
        """Raises UnsupportedError, with the place, unless a condition of splitting holds."""
        if not condition(holds):
            at = self.places.of(place) if isinstance(place, ir.Stm) else place or self.places.fun.span
            message = f"the program does not split along {self.size}: {what}"
            raise UnsupportedError(message, at, hint=f"it has to hold: {condition.name}; or else {condition.why}")

    def refuse(self, s: ir.Stm, what: str) -> None:
        self.demand(OWN_ROWS, False, what, s)

    # -- statements

    def scope(self, stms: Sequence[ir.Stm]) -> list[Item]:
        return [item for s in stms for item in self.statement(s)]

    def statement(self, s: ir.Stm) -> list[Item]:
        """What becomes of a statement; its variables have classes then."""
        free = [v for v in ir.stm_free(s) if v is not self.n]
        kinds = {type(self.of(v)) for v in free}
        if not kinds & {Sharded, Accumulator} and not self.spans(s):
            if Partial in kinds and (kept := self.partly(s)) is not None:
                return kept
            level = self.known(*free)
            self.set(s.pat, Replicated(level))
            if isinstance(s.exp, ir.Replicate):
                self.filled[s.pat[0]] = s.exp.value
            return [Item(s, level, False)]
        rule = next((RULES[t] for t in type(s.exp).__mro__ if t in RULES), None)
        if rule is None:
            self.refuse(s, f"{type(s.exp).__name__} of values of which each shard has a part")
            return self.sharded(s, self.known(*free), [Sharded(0, 0)] * len(s.pat))
        if isinstance(s.exp, ir.Map) and not s.exp.accs:
            return rule(self, s)
        # Of partial values that were made in phases before it only the whole is of use.
        before = self.settled
        while True:
            items = rule(self, s)
            level = max([i.level for i in items], default=0)
            late = [v for v in free if isinstance(c := self.of(v), Partial) and c.level < level]
            self.settled = self.settled | set(late)
            if not late:
                self.settled = before
                return items

    def set(self, pat: Iterable[Var], c: Class) -> None:
        for v in pat:
            self.classes[v] = c

    def sharded(self, s: ir.Stm, level: int, classes: Sequence[Class], before: Sequence[ir.Stm] = ()) -> list[Item]:
        """The statement in each shard, in a phase; `before`: what it needs that was made for it."""
        for v, c in zip(s.pat, classes, strict=True):
            self.classes[v] = c._replace(level=level)
        for t in before:
            self.set(t.pat, Sharded(level, -1))
        return [*[Item(t, level, True) for t in before], Item(s, level, True)]

    def partly(self, s: ir.Stm) -> list[Item] | None:
        """The statement on partial values, if what it makes is partial too; None if it needs the whole ones."""
        e = s.exp
        if isinstance(e, ir.Map):
            return self.nest(s)
        args = [self.of(v) for v in e.operands()]
        c = next((a for a in args if isinstance(a, Partial)), None)
        if not isinstance(c, Partial) or not c.how.op:
            return None
        if isinstance(e, ir.Alias | ir.Copy | ir.Rearrange):
            return self.sharded(s, c.level, [c])
        rest = [a for a in e.operands() if not isinstance(self.of(a), Partial)]
        if self.depth and isinstance(e, ir.Op) and e.op == c.how.op == "add" and rest:
            return self.mixed(s, e)
        linear = isinstance(e, ir.Op) and (e.op == c.how.op or (e.op in ("sub", "neg") and c.how.op == "add"))
        return self.sharded(s, c.level, [c]) if linear and all(a == c for a in args) else None

    def mixed(self, s: ir.Stm, e: ir.Op) -> list[Item]:
        """A sum of partial and replicated values, where no phase can end."""
        b = Builder()
        level = max([self.of(a).level for a in e.args])
        args = tuple([self.as_partial(b, a, adding(e.args[0].type), s) for a in e.args])
        made = ir.Stm(s.pat, ir.Op(e.op, args, e.place), s.attrs)
        return self.sharded(made, level, [Partial(level, adding(e.args[0].type))], b.stms)

    # -- scopes

    def row(self, a: Atom) -> Class:
        """The class of an array's elements (dimension 0)."""
        c = self.of(a)
        if isinstance(c, Sharded):
            return Sharded(c.level, c.dim - 1)
        return Replicated(self.known(a)) if isinstance(c, Partial) and not c.how.op else c

    def pointwise(self, s: ir.Stm, lam: ir.Lambda) -> int:
        """The phase of a scope that is run for each element of the data, and needs nothing of others."""
        for v in lam.free():
            if v is not self.n and isinstance(self.of(v), Sharded):
                user = next((t for t in ir.statements(lam.stms) if v in t.exp.operands()), s)
                what = f"'{v.name}' is read at other rows than the one at hand"
                index = [t for t in ir.statements(lam.stms) if set(t.pat) & set(user.exp.operands())]
                places = [p for t in (user, *index, s) if (p := place_of(t)) is not None]
                self.demand(OWN_ROWS, False, what, next(iter(places), None) or s)
        for t in lam.stms:
            what = "all rows are looked at for each row"
            self.demand(OWN_ROWS, not self.spans(t), what, place_of(t) or s)
        return self.known(*[v for v in lam.free() if v is not self.n])

    def body(self, s: ir.Stm, lam: ir.Lambda) -> tuple[ir.Lambda, int]:
        """A scope all of which runs in one phase, in each shard; and the phase.  Its parameters have classes."""
        before = set(self.combined)
        self.depth += 1
        try:
            items = self.scope(lam.stms)
        finally:
            self.depth -= 1
        level = max([0, *[i.level for i in items], *[self.of(a).level for a in lam.result if a is not self.n]])
        own = {v for i in items for v in i.stm.pat} | set(lam.params)
        for v in self.combined:
            what = f"'{v.name}' must be combined within a loop, a branch or an accumulation"
            self.demand(COMBINED_BEFORE, v in before or v not in own, what, v.at or s)
        return ir.Lambda(lam.params, tuple([i.stm for i in items]), lam.result), level

    def result(self, a: Atom, outer: int = 0) -> Class:
        """The class that a result of a `body` has outside, below `outer` more dimensions."""
        c = self.of(a)
        if isinstance(c, Replicated):
            return Partial(c.level, SAME)
        return Sharded(c.level, c.dim + outer) if isinstance(c, Sharded) else c

    # -- values of which only one shard has its part

    def masked(self, b: Builder, a: Atom, neutral: Atom) -> Atom:
        """A replicated value as a partial one: the value in the first shard, the neutral element in others."""
        self.known(a)
        if a is neutral or (isinstance(a, Var) and self.filled.get(a) is neutral):
            return a
        if isinstance(a.type, Prim):
            made = b.op("select", self.first, a, neutral)
            self.classes[made] = Partial(0, SAME)
            return made
        shape = shape_of(a.type)[: len(shape_of(a.type)) - len(shape_of(neutral.type))]
        there = b.body(lambda c: [c.let(ir.Copy(a))])
        (made,) = b.emit(ir.If(self.first, there, b.body(lambda c: [c.let(ir.Replicate(shape, neutral))])), "masked",
                         types=[a.type])  # fmt: skip
        self.classes[made] = Partial(0, SAME)
        return made

    def as_partial(self, b: Builder, a: Atom, how: How, s: ir.Stm) -> Atom:
        """A value as a partial one that is combined by `how`."""
        c = self.of(a)
        if isinstance(c, Partial):
            self.demand(ADDED_IN_PARTS, c.how == how, f"'{name_of(a)}' is combined in two ways", s)
            return a
        fits = isinstance(c, Replicated) and how.op in _NEUTRAL
        self.demand(ADDED_IN_PARTS, fits, "what is combined is not a sum of the shards' parts", s)
        return self.masked(b, a, _NEUTRAL.get(how.op, zero)(elem_of(a.type)))

    # Note [Nests]
    # A map over another size may have several phases inside: columns' means, say, are sums over the data, divided.  It
    # becomes a map for each of the units of its body, a unit being the statements of one step or one phase; what one
    # unit needs of another becomes an array.  The statements of a unit stay in order, and units follow each other as
    # steps and phases do.
    def nest(self, s: ir.Stm) -> list[Item]:
        """A map over a size that is not split."""
        e = s.exp
        assert isinstance(e, ir.Map)
        if e.accs:
            return self.threaded(s)
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            self.classes[p] = self.row(a)
        return _Nest(self, s, e, self.scope(e.lam.stms)).items()

    def threaded(self, s: ir.Stm) -> list[Item]:
        """A map over another size that adds to accumulators."""
        e = s.exp
        assert isinstance(e, ir.Map)
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            self.classes[p] = self.of(a) if isinstance(p.type, AccType) else self.row(a)
        lam, level = self.body(s, e.lam)
        level = max(level, *[self.of(a).level for a in e.arrays])
        classes = [self.result(a, 1) for a in lam.result]
        return self.sharded(ir.Stm(s.pat, ir.Map(e.width, e.arrays, lam), s.attrs), level, classes)


Unit = tuple[int, bool]


class _Nest:
    """The maps that a map becomes; see Note [Nests]."""

    def __init__(self, splitter: Splitter, s: ir.Stm, e: ir.Map, inner: list[Item]) -> None:
        self.sp, self.s, self.e, self.inner = splitter, s, e, inner
        self.defs = {v: i for i, item in enumerate(inner) for v in item.stm.pat}
        self.home: list[Unit] = [self._unit(a) for a in e.lam.result]
        self.units = sorted({*[(i.level, i.shard) for i in inner], *self.home})

    def _unit(self, a: Atom) -> Unit:
        if isinstance(a, Var) and a in self.defs:
            item = self.inner[self.defs[a]]
            return item.level, item.shard
        c = self.sp.of(a)
        return c.level, not isinstance(c, Replicated)

    def _members(self, unit: Unit) -> list[int]:
        """The numbers of a unit's statements, and of cheap ones of others that it needs."""
        found = {i for i, item in enumerate(self.inner) if (item.level, item.shard) == unit}
        todo = list(found)
        while todo:
            for v in ir.stm_free(self.inner[todo.pop()].stm):
                i = self.defs.get(v)
                if i is not None and i not in found and not self.inner[i].shard and is_cheap(self.inner[i].stm.exp):
                    found.add(i)
                    todo.append(i)
        return sorted(found)

    def items(self) -> list[Item]:
        sp, e = self.sp, self.e
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            if p in sp.combined:
                sp.known(a)
        plain = [i.stm for i in self.inner]
        if len(self.units) == 1 and not self.units[0][1] and plain == list(e.lam.stms):
            level = max(self.units[0][0], sp.known(*[v for v in ir.stm_free(self.s) if v is not sp.n]))
            sp.set(self.s.pat, Replicated(level))
            return [Item(self.s, level, False)]
        members = {u: self._members(u) for u in self.units}
        made = {u: {v for i in members[u] for v in self.inner[i].stm.pat} for u in self.units}
        needs = {u: self._needs(u, members[u], made[u]) for u in self.units}
        lifted: dict[Var, Var] = {}
        out: list[Item] = []
        for u in self.units:
            passed = [v for w in self.units if w != u for v in needs[w] if v in self.defs and self._unit(v) == u]
            results = [(a, v) for a, v, h in zip(e.lam.result, self.s.pat, self.home, strict=True) if h == u]
            passed = self._whole_groups(list(dict.fromkeys(passed)), [a for a, _ in results])
            effects = any(self.inner[i].stm.exp.effect for i in members[u])
            if not passed and not results and not effects:
                continue
            for v in passed:
                lifted[v] = self._lift(v)
            for v in passed:
                self._regroup(lifted[v], lifted)
            arrays = [(a, p) for a, p in zip(e.arrays, e.lam.params, strict=True) if p in needs[u]]
            arrays += [(lifted[v], v) for v in needs[u] if v in lifted and v not in made[u]]
            stms = tuple([self.inner[i].stm for i in members[u]])
            lam = ir.Lambda(tuple([p for _, p in arrays]), stms, (*[a for a, _ in results], *passed))
            pat = (*[v for _, v in results], *[lifted[v] for v in passed])
            exp = ir.Map(e.width, tuple([a for a, _ in arrays]), ir.rename(lam))
            level, shard = u
            for v, c in [(v, sp.of(a)) for a, v in results]:
                sp.classes[v] = self._outer(c, level, shard)
                self._regroup(v, lifted)
            out.append(Item(ir.Stm(pat, exp, self.s.attrs), level, shard))
        return out

    def _needs(self, u: Unit, members: list[int], made: set[Var]) -> dict[Var, None]:
        """What a unit needs of the map's parameters and of other units."""
        used = [v for i in members for v in ir.stm_free(self.inner[i].stm)]
        used += [a for a, h in zip(self.e.lam.result, self.home, strict=True) if h == u and isinstance(a, Var)]
        inside = {*self.defs, *self.e.lam.params}
        return dict.fromkeys([v for v in used if v in inside and v not in made])

    def _whole_groups(self, passed: list[Var], results: Sequence[Atom]) -> list[Var]:
        """With a value that an operator of several combines, the others."""
        out = dict.fromkeys(passed)
        for v in (*passed, *results):
            c = self.sp.of(v)
            if isinstance(c, Partial) and c.how.fold is not None:
                out |= dict.fromkeys([g for g in c.how.group if isinstance(g, Var)])
        return list(out)

    def _regroup(self, v: Var, lifted: dict[Var, Var]) -> None:
        c = self.sp.classes[v]
        if isinstance(c, Partial) and c.how.fold is not None:
            group = tuple([lifted[g] for g in c.how.group if isinstance(g, Var)])
            self.sp.classes[v] = Partial(c.level, replace(c.how, group=group))

    def _lift(self, v: Var) -> Var:
        fixed = not any(a in self.defs for a in shape_of(v.type) if isinstance(a, Var))
        what = f"the size of '{v.name}' is computed inside of a map"
        self.sp.demand(SIZE_KEPT, fixed, what, v.at or self.s)
        up = Var(v.name, array_of(v.type, self.e.width), v.at)
        level, shard = self._unit(v)
        self.sp.classes[up] = self._outer(self.sp.classes[v], level, shard)
        if v in self.sp.combined:
            self.sp.combined[up] = None
        return up

    def _outer(self, c: Class, level: int, shard: bool) -> Class:
        if isinstance(c, Sharded):
            return Sharded(level, c.dim + 1)
        if isinstance(c, Partial):
            return Partial(level, replace(c.how, depth=c.how.depth + 1) if c.how.fold is not None else c.how)
        return Partial(level, SAME) if shard else Replicated(level)


__all__ = ["RULES", "Item", "Splitter", "is_cheap", "sizes_in"]
