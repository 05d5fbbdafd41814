"""Factors of products that are computed, or read by columns, become arrays of their own.

    map (\\a -> map (\\b -> sum (map (\\i -> (p[i, a] - t a i) * x[i, b]) is)) bs) as
  becomes
    let f = map2 (\\a c -> map2 (\\i e -> e - t a i) is c) as (transpose p)
    map (\\u -> map (\\v -> sum (map2 (*) u v)) (transpose x)) f

so that each value of a factor is computed once, and what is left is a matrix product.  An accumulator's updates by such
products go through their levels in the order of the place:

    map (\\a -> map (\\b -> map (\\i -> acc[i, a] += s[a, b] * x[i, b]) is) bs) as
  becomes
    map (\\i -> map (\\a -> map (\\b -> acc[i, a] += s[a, b] * x[i, b]) bs) as) is

`matmul` tries it where it finds no product otherwise, and keeps the nest as it was if there is none then, either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.nest import Nest, nest_of
from futad.core.operator import divisor, scalar_op
from futad.core.types import (
    I64,
    ONE,
    ZERO,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Var,
    array_of,
    elem_of,
    row_type,
    shape_of,
)
from futad.legality import Legality
from futad.optimise.products import PLACE_OUTSIDE, Update
from futad.optimise.subst import Subst

LEGAL = Legality(
    "factors",
    "factors of summed products are computed before the nest around them, each for its levels",
    worth="a step of softmax regression 0.41 to 0.12 ms: `benchmarks/without.py factors"
    " tests/programs/computed_factors.fut:step --values '[20][100]f64' '[400][100]f64' '[400]i64'`",
)
COLUMNS = LEGAL.condition("as many iterations as columns", "other elements than those of the iterations are read")
FAILS_NOT = LEGAL.condition("factor cannot fail", "a division fails of which no iteration would make use")

FEWEST = 1 << 10  # products: fewer, if their number is known, are good as they are


def prepared(s: Stm, iotas: set[Var]) -> list[Stm]:
    """The statements that a map, or a scope with maps in it, becomes; `iotas`: arrays 0, 1, ... outside of it."""
    e = s.exp
    if not isinstance(e, ir.Map):
        return [ir.map_scopes(s, lambda lam: _scope(lam, iotas))]
    by_columns = _Columns(set(iotas), {v for t in ir.statements((s,)) for v in _binds(t)})
    t = by_columns.map(s)
    found = _factored(t)
    if found is not None:
        return [*by_columns.before.stms, *found]
    inside = ir.map_scopes(t, lambda lam: _scope(lam, iotas))
    return [*by_columns.before.stms, inside]


def _scope(lam: Lambda, iotas: set[Var]) -> Lambda:
    iotas = iotas | {s.pat[0] for s in lam.stms if counts(s.exp)}
    out: list[Stm] = []
    for s in lam.stms:
        out += prepared(s, iotas) if s.exp.scoped else [s]
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def _binds(s: Stm) -> list[Var]:
    return [*s.pat, *[p for lam in s.exp.lambdas() for p in lam.params]]


def counts(e: ir.Exp) -> bool:
    """Whether an array is 0, 1, ..., n - 1."""
    return type(e) is ir.Iota and e.start is ZERO and e.step is ONE


# --- elements that are read by columns -----------------------------------------------------------------------


@dataclass(slots=True)
class _Columns:
    """A nest in which elements of arrays from outside, read at the numbers of iterations, become elements that its maps
    run over; `before` has the transposed views that this needs."""

    iotas: set[Var]
    bound: set[Var]
    before: Builder = field(default_factory=Builder)
    views: dict[tuple[Var, tuple[int, ...]], Var] = field(default_factory=dict)
    counters: dict[Atom, int] = field(default_factory=dict)  # the level whose iteration number each is
    origin: dict[Atom, tuple[Var, tuple[int, ...]]] = field(default_factory=dict)
    widths: list[Atom] = field(default_factory=list)
    given: list[dict[Var, Var]] = field(default_factory=list)  # by level: its new parameters, by their arrays

    def map(self, s: Stm) -> Stm:
        """The map with such reads in its body replaced; the same object if there are none."""
        e = s.exp
        assert isinstance(e, ir.Map)
        level = len(self.widths)
        self.widths.append(e.width)
        self.given.append({})
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            if a in self.iotas:
                self.counters[p] = level
            elif isinstance(p.type, Prim | ArrayType) and (o := self.whole(a)) is not None:
                self.origin[p] = (o[0], (*o[1], level))
        sub = Subst()
        out: list[Stm] = []
        for t in e.lam.stms:
            if counts(t.exp):
                self.iotas.add(t.pat[0])
            t = sub.stm(t)
            read = self.column(t.exp) if isinstance(t.exp, ir.At) else None
            if read is not None:
                sub.mapping[t.pat[0]] = read
            else:
                out.append(self.map(t) if isinstance(t.exp, ir.Map) else t)
        self.widths.pop()
        more = self.given.pop()
        same = len(out) == len(e.lam.stms) and all(a is b for a, b in zip(out, e.lam.stms, strict=True))
        if same and not more:
            return s
        result = tuple([sub.atom(a) for a in e.lam.result])
        used = Lambda((), tuple(out), result).free()
        pairs = zip((*e.lam.params, *more.values()), (*e.arrays, *more), strict=True)
        inputs = {p: a for p, a in pairs if p in used or isinstance(p.type, AccType)}
        return Stm(s.pat, ir.Map(e.width, tuple(inputs.values()), Lambda(tuple(inputs), tuple(out), result)), s.attrs)

    def whole(self, a: Atom) -> tuple[Var, tuple[int, ...]] | None:
        """The array from outside that a variable is a part of, and the levels that its first dimensions are read at."""
        if a in self.origin:
            return self.origin[a]
        return (a, ()) if isinstance(a, Var) and a not in self.bound and isinstance(a.type, ArrayType) else None

    def column(self, e: ir.At) -> Var | None:
        """The parameter that a read element becomes."""
        found = self.whole(e.array)
        at = [self.counters.get(i) if isinstance(i, Var) else None for i in e.index]
        if e.check is not None or found is None:
            return None
        array, levels = found[0], (*found[1], *[k for k in at if k is not None])
        if None in at:
            return None
        shape = shape_of(array.type)
        if len(levels) != len(shape) or len(set(levels)) < len(levels) or max(levels) >= len(self.widths):
            return None
        if not COLUMNS(all(n is self.widths[k] for n, k in zip(shape, levels, strict=True))):
            return None
        perm = tuple(sorted(range(len(shape)), key=lambda k: levels[k]))
        now = array
        if perm != tuple(range(len(shape))):
            if (array, perm) not in self.views:
                self.views[array, perm] = self.before.let(ir.Rearrange(array, perm), "tr")
            now = self.views[array, perm]
        for k in sorted(levels):
            if now not in self.given[k]:
                self.given[k][now] = Var(array.name, row_type(now.type))
            now = self.given[k][now]
        return now


# --- factors that are computed -------------------------------------------------------------------------------


def _factored(s: Stm) -> list[Stm] | None:
    """The statements that a nest becomes, with factors of what it sums computed before it; None if it has none."""
    nest = nest_of(s, between=_elements)
    if nest is None or nest.depth < 2 or not nest.in_order:
        return None
    if any(t.exp.consumes() for t in ir.statements((s,))):
        return None
    known = _Levels(s, nest)
    b = Builder()
    body: list[Stm] = []
    given: list[dict[Var, Var]] = [{} for _ in nest.lams]
    for t in nest.body.stms:
        terms = known.terms(t)
        if terms is None:
            body.append(t)
            continue
        m, factors = terms
        rows = tuple([known.row(b, m, f, given) for f in factors])
        body.append(Stm(t.pat, ir.Map(m.width, rows, _product(t)), t.attrs))
    if not b.stms:
        return None
    leaf = Lambda(nest.body.params, tuple(body), nest.body.result)
    return [*b.stms, nest.threaded(s, leaf, given)]


def _scalars(stms: Sequence[Stm]) -> bool:
    return all(isinstance(s.exp, ir.Op | ir.Alias) for s in stms)


def _elements(stms: Sequence[Stm]) -> bool:
    return all(isinstance(s.exp, ir.Op | ir.Alias | ir.Iota | ir.At) for s in stms)


def _product(t: Stm) -> Lambda:
    elem = row_type(t.pat[0].type)
    x, y, z = Var("x", elem), Var("y", elem), Var("p", elem)
    return Lambda((x, y), (Stm((z,), ir.Op("mul", (x, y))),), (z,))


class _Levels:
    """The levels of a nest that scalars depend on; that of the terms of a sum in it is one more."""

    def __init__(self, s: Stm, nest: Nest) -> None:
        self.nest = nest
        self.stms = [s, *nest.inner]
        self.depth = nest.depth
        self.arrays: dict[Var, Atom] = {}  # by a parameter: what its map runs over
        self.level: dict[Var, int] = {}
        self.made: dict[Var, Stm] = {}
        for k, (lam, t) in enumerate(zip(nest.lams, self.stms, strict=True)):
            assert isinstance(t.exp, ir.Map)
            self.enter(lam, t.exp.arrays, k)

    def enter(self, lam: Lambda, arrays: Sequence[Atom], level: int) -> None:
        self.arrays.update(zip(lam.params, arrays, strict=True))
        self.level.update(dict.fromkeys(lam.params, level))
        self.made.update({v: s for s in lam.stms for v in s.pat})

    def of(self, a: Atom) -> set[int]:
        """The levels that a value depends on; all, if it is none of scalars and elements."""
        if not isinstance(a, Var):
            return set()
        if a in self.arrays:
            return {self.level[a]} | self.of(self.arrays[a])
        s = self.made.get(a)
        if s is None:
            return set()
        if not isinstance(s.exp, ir.Op | ir.Alias):
            return set(range(self.depth + 1))
        return {k for v in s.exp.operands() for k in self.of(v)}

    def terms(self, t: Stm) -> tuple[ir.Map, tuple[Var, Var]] | None:
        """The map of products of two factors, each of which depends on levels that the other does not depend on."""
        m = t.exp
        if not isinstance(m, ir.Map) or len(t.pat) != 1 or not _scalars(m.lam.stms) or not self.summed(t.pat[0]):
            return None
        last = m.lam.stms[-1] if m.lam.stms else t
        if m.lam.result != last.pat or not isinstance(last.exp, ir.Op) or last.exp.op != "mul":
            return None
        x, y = last.exp.args
        if not isinstance(x, Var) or not isinstance(y, Var) or not elem_of(x.type).is_float:
            return None
        if m.width in self.nest.bound:
            return None
        sizes = [m.width, *[u.exp.width for u in self.stms if isinstance(u.exp, ir.Map)]]
        numbers = [n.value for n in sizes if isinstance(n, Const)]
        if len(numbers) == len(sizes) and prod(numbers) < FEWEST:
            return None
        self.enter(m.lam, m.arrays, self.depth)
        both = [self.of(x), self.of(y)]
        if not all(self.depth in levels for levels in both):
            return None
        own = [levels - {self.depth} for levels in both]
        shared = own[0] & own[1]
        if shared != set(range(len(shared))) or not all(levels > shared for levels in own):
            return None
        if not all(self.apart(f) for f in (x, y)):
            return None
        return m, (x, y)

    def summed(self, v: Var) -> bool:
        """Whether an array is summed up, and nothing else."""
        using = [t for t in self.nest.body.stms if v in ir.stm_free(t)]
        return (
            len(using) == 1
            and v not in self.nest.body.result
            and isinstance(e := using[0].exp, ir.Reduce)
            and len(e.arrays) == 1
            and scalar_op(e.lam) == "add"
        )

    def slice(self, f: Var) -> list[Stm]:
        """The scalar statements that a value needs, in their order."""
        needed: set[Var] = set()
        work: list[Atom] = [f]
        while work:
            v = work.pop()
            if isinstance(v, Var) and v not in needed:
                needed.add(v)
                work += self.made[v].exp.operands() if v in self.made else []
        return [s for v, s in self.made.items() if v in needed and s.pat[0] is v]

    def apart(self, f: Var) -> bool:
        """Whether a factor may be computed by itself."""
        return FAILS_NOT(not any(isinstance(s.exp, ir.Op) and divisor(s.exp) is not None for s in self.slice(f)))

    def row(self, b: Builder, m: ir.Map, f: Var, given: list[dict[Var, Var]]) -> Var:
        """The vector of a factor's values in an iteration of the nest: of an array computed before it, but where it is
        one that the nest runs over."""
        array = self.arrays.get(f)
        if isinstance(array, Var):
            return array
        levels = sorted(self.of(f))
        now = self.all_values(b, m, f, levels)
        for k in levels[:-1]:
            given[k][now] = Var(f.name, row_type(now.type))
            now = given[k][now]
        return now

    def all_values(self, b: Builder, terms: ir.Map, f: Var, levels: list[int]) -> Var:
        """A factor for all iterations of these levels, the last of which is that of the terms."""
        stms = self.slice(f)
        at = {s: max(self.of(s.pat[0]), default=-1) for s in stms}
        out: list[Stm] = []
        result: Var = f
        for k in reversed(levels):
            inside = [*[s for s in stms if at[s] == k], *out]
            used = Lambda((), tuple(inside), (result,)).free()
            inputs = {p: a for p, a in self.arrays.items() if self.level[p] == k and p in used}
            m = terms if k == self.depth else self.stms[k].exp
            assert isinstance(m, ir.Map)
            made = Var(f.name, array_of(result.type, m.width))
            lam = Lambda(tuple(inputs), tuple(inside), (result,))
            out = [Stm((made,), ir.Map(m.width, tuple(inputs.values()), lam))]
            result = made
        copy = ir.Renamer()
        b.extend(copy.stms([*[s for s in stms if at[s] == -1], *out]))
        renamed = copy.atom(result)
        assert isinstance(renamed, Var)
        return renamed


# --- updates in the order of their places ---------------------------------------------------------------------


def out_of_order(s: Stm, iotas: set[Var]) -> bool:
    """Whether there is an update in the statement whose place is of two levels or more that are not the outermost."""

    def inside(lam: Lambda, levels: dict[Atom, int], depth: int, known: set[Var]) -> bool:
        known = known | {t.pat[0] for t in lam.stms if counts(t.exp)}
        for t in lam.stms:
            e = t.exp
            if isinstance(e, ir.UpdateAcc) and depth > 2:
                place = [levels[i] for i in e.index if i in levels]
                if len(place) > 1 and place != list(range(len(place))):
                    return True
            if isinstance(e, ir.Map):
                more: dict[Atom, int] = {p: depth for a, p in zip(e.arrays, e.lam.params, strict=True) if a in known}
                if inside(e.lam, levels | more, depth + 1, known):
                    return True
            elif e.scoped and any(inside(inner, levels, depth, known) for inner in e.lambdas()):
                return True
        return False

    return inside(Lambda((), (s,), ()), {}, 0, iotas)


def in_order(s: Stm, u: Update, iotas: set[Var]) -> list[Stm] | None:
    """The nest of an update with its levels in the order of the place, those that are summed over last; None if they
    are in this order, or if the place is none of iteration numbers.

    Additions may be made in any order (`core/types.py`, `AccType`), so there is no condition on the order of levels.
    """
    numbers = [(i, u.counter(i, iotas)) for i in u.index]
    place = [k for _, k in numbers if k is not None]
    if not PLACE_OUTSIDE(not any(k is None and i in u.nest.bound for i, k in numbers)):
        return None
    if len(place) < len(numbers) and any(k is not None for _, k in numbers[: len(numbers) - len(place)]):
        return None
    if len(set(place)) < len(place) or any(f.rest for f in u.factors):
        return None
    order = [*place, *[k for k in range(u.nest.depth) if k not in place]]
    if order == sorted(order):
        return None
    b = Builder()
    rows: list[Var] = []
    for f in u.factors:
        dims = sorted(range(len(f.levels)), key=lambda j: order.index(f.levels[j]))
        perm = tuple([f.dims[j] for j in dims])
        rows.append(f.array if perm == tuple(range(len(perm))) else b.let(ir.Rearrange(f.array, perm), "tr"))
    counters = {k: u.reads[i].array for i, k in numbers if k is not None and isinstance(i, Var)}
    b.add(_level(s, u, order, 0, u.acc, rows, counters, {}))
    return b.stms


Numbers = dict[int, Var]  # by level


def _level(
    s: Stm, u: Update, order: list[int], at: int, acc: Var, rows: list[Var], counters: Numbers, now: Numbers
) -> Stm:
    """The levels from `at` on: `rows` are what is left of the factors, `now` the iteration numbers outside."""
    k = order[at]
    inner = Var(acc.name, acc.type)
    inputs = {inner: acc}
    left = list(rows)
    for j, f in enumerate(u.factors):
        if k in f.levels:
            left[j] = Var(rows[j].name, row_type(rows[j].type))
            inputs[left[j]] = rows[j]
    if k in counters:
        now = {**now, k: Var("i", I64)}
        inputs[now[k]] = counters[k]
    if at + 1 < len(order):
        stms = [_level(s, u, order, at + 1, inner, left, counters, now)]
    else:
        x, y = left
        value = Var("p", x.type)
        place = [u.reads[i].levels[0] if isinstance(i, Var) and i in u.reads else None for i in u.index]
        index = tuple([now[k] if k in now else i for i, k in zip(u.index, place, strict=True)])
        done = Var(acc.name, acc.type)
        stms = [Stm((value,), ir.Op("mul", (x, y))), Stm((done,), ir.UpdateAcc(inner, index, value))]
    lam = Lambda(tuple(inputs), tuple(stms), stms[-1].pat)
    pat = (Var(acc.name, acc.type),) if at else s.pat
    return Stm(pat, ir.Map(u.widths[k], tuple(inputs.values()), lam), s.attrs if not at else ())


__all__ = ["in_order", "out_of_order", "prepared"]
