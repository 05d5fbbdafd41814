"""Jacobians of maps, a block an iteration.

Note [Local blocks]
~~~~~~~~~~~~~~~~~~~
The result of an entry is often a map, or a nest of maps, of which an iteration reads few elements of the arguments:
rows by the iteration's number, by shifted numbers, by an array of indices.

    map (\\i -> g x[i] x[is[i]] c[i]) (iota n)

Then an iteration's elements of the result depend on these elements alone.  Their derivatives by them are a small dense
block, that of the iteration's body as a function of what it reads, and the columns of the block follow from the
indices.  Two programs are made of the entry: one computes the values of all blocks, in one map, the other one their
columns.  Nothing is probed and nothing coloured, and the seeds are as many as the rows or the columns of a block.

A part of an active argument is read where all it takes is an index that does not depend on numbers that are
differentiated with respect to, and its size is a constant.  Statements that need no active argument are copied; the
others become part of the function whose derivative is taken.  Where an iteration reads something else, an array of a
size that is not constant or the result of another map, there are no local blocks (`Cannot`), and the matrix is found
by colours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import (
    I64,
    ONE,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    elem_of,
    i64,
    one,
    shape_of,
    subst_type,
    zero,
)

MOST_SEEDS = 24  # of a block
MOST_ENTRIES = 512  # elements of an iteration's rows

Index = list[Atom]


class Cannot(Exception):
    """There are no local blocks."""


@dataclass(frozen=True, slots=True)
class _View:
    """A part of an argument: `index(builder, renamer, at)` is the place in the argument of the place `at` in it."""

    leaf: int
    index: Callable[[Builder, ir.Renamer, Index], Index]


@dataclass(slots=True)
class Part:
    """Blocks of one nest: how many elements each row of an iteration's block has, how many iterations there are."""

    widths: list[int]
    iterations: Atom
    size: Atom  # how many elements there are
    entries: Atom | None  # these, as one array; None if there are none


class Blocks:
    """Emits, for `columns`, the numbers of the columns, else the values."""

    def __init__(self, fun: ir.Fun, leaves: Sequence[Var], columns: bool) -> None:
        self.columns = columns
        self.leaves = list(leaves)
        self.r = ir.Renamer()
        self.params = tuple([self.r.bind(p) for p in fun.body.params])
        self.b = Builder()
        self.sources: dict[Var, _View] = {v: _View(k, lambda b, r, at: at) for k, v in enumerate(leaves)}
        self.active: set[Var] = set(leaves)
        self.defs: dict[Var, ir.Stm] = {}
        self.deferred: list[ir.Stm] = []
        self.offsets: list[Atom] = []
        total: Atom = ZERO
        for v in self.leaves:
            self.offsets.append(total)
            size = self.b.size_mul([self.r.atom(s) for s in shape_of(v.type)])
            total = size if total is ZERO else self.b.op("add", total, size)
        self.scan(self.b, fun.body.stms)
        results = [a for a in fun.body.result if elem_of(a.type).is_float]  # sizes that come along are integers
        self.elem = max([elem_of(a.type) for a in results], key=lambda t: t.bits)
        self.parts = [part for a in results for part in self.concatenated(a)]

    def entries(self) -> Atom:
        """The elements of all parts, as one array."""
        held = [p for p in self.parts if p.entries is not None]
        if not held:
            return self.b.let(ir.Replicate((ZERO,), zero(I64 if self.columns else self.elem)), "entries")
        size = held[0].size
        for p in held[1:]:
            size = self.b.op("add", size, p.size, hint="size")
        every = tuple([p.entries for p in held if p.entries is not None])
        return every[0] if len(every) == 1 else self.b.let(ir.Concat(every, size), "entries")

    # --- statements

    def scan(self, b: Builder, stms: Sequence[ir.Stm]) -> None:
        """Copy what does not depend on active arguments, and what is a part of one; keep the others for later."""
        for s in stms:
            for v in s.pat:
                self.defs[v] = s
            if (view := self.viewed(s)) is not None:
                b.add(self.r.stm(s))
                self.sources[s.pat[0]] = view
                self.active.add(s.pat[0])
            elif any(v in self.active for v in ir.stm_free(s)):
                self.deferred.append(s)
                self.active.update(s.pat)
            else:
                b.add(self.r.stm(s))

    def viewed(self, s: ir.Stm) -> _View | None:
        """The part of an active argument that a statement binds, if it does."""
        e = s.exp
        if isinstance(e, ir.Alias):
            return self.source(e.atom)
        if not isinstance(e, ir.At | ir.Rearrange | ir.Reshape) or (view := self.source(e.array)) is None:
            return None
        if any(v in self.active and v is not e.array for v in ir.stm_free(s)):
            return None
        return _View(view.leaf, _indices(e, view))

    def source(self, a: Atom) -> _View | None:
        return self.sources.get(a) if isinstance(a, Var) else None

    # --- results

    def concatenated(self, a: Atom) -> list[Part]:
        """The parts of a component of the result."""
        a = self.resolved(a)
        s = self.defs.get(a) if isinstance(a, Var) else None
        if s is not None and isinstance(s.exp, ir.Concat) and a in self.active:
            return [part for x in s.exp.arrays for part in self.concatenated(x)]
        return [self.part(a)]

    def resolved(self, a: Atom) -> Atom:
        """The atom of the same elements in the same order that is computed."""
        while isinstance(a, Var) and a not in self.sources and (s := self.defs.get(a)) is not None:
            e = s.exp
            if isinstance(e, ir.Alias):
                a = e.atom
            elif isinstance(e, ir.Copy | ir.Reshape):
                a = e.array
            else:
                break
        return a

    def part(self, a: Atom) -> Part:
        outside = self.r, list(self.deferred)
        self.r = ir.Renamer(self.r.mapping)
        self.iterations: list[Atom] = []
        self.indices: list[Var] = []
        self.widths: list[int] = []
        found = self.iteration(self.b, a, self.elem)
        iterations = self.b.size_mul(self.iterations)
        self.r, self.deferred = outside
        if found is None:
            return Part(self.widths, iterations, ZERO, None)
        size = self.b.size_mul([iterations, i64(sum(self.widths))])
        if isinstance(found.type, Prim):
            found = self.b.let(ir.ArrayLit((found,), found.type), "row")
        return Part(self.widths, iterations, size, self.b.let(ir.Reshape(found, (size,)), "entries"))

    def iteration(self, b: Builder, a: Atom, elem: Prim) -> Atom | None:
        """The elements of the rows that `a` is, in this iteration, as an array, or the only one; None without any."""
        a = self.resolved(a)
        if not isinstance(a, Var) or a not in self.active:
            self.iterations += [self.r.atom(s) for s in shape_of(a.type)]
            self.widths = [0]
            return None
        s = self.defs.get(a)
        if a not in self.sources and s is not None and isinstance(s.exp, ir.Map | ir.Fused):
            e = s.exp
            pat, results = e.parts(s.pat), e.parts(e.lam.result)
            if pat.accs or a not in pat.mapped:
                raise Cannot
            return self.nest(b, e, results.mapped[pat.mapped.index(a)], elem)
        rows = self.rows(a)
        found = self.block(b, rows, elem)
        if len(found) <= 1:
            return found[0] if found else None
        return b.let(ir.ArrayLit(tuple(found), found[0].type), "row")

    def nest(self, b: Builder, e: ir.Map | ir.Fused, result: Atom, elem: Prim) -> Atom | None:
        width = self.r.atom(e.width)
        index = Var("iteration", I64)
        self.iterations.append(width)
        arrays: list[Atom] = [b.let(ir.Iota(width, ZERO, ONE), "iterations")]
        params = [index]
        for array, p in zip(e.arrays, e.lam.params, strict=True):
            if (view := self.source(array)) is not None:
                self.sources[p] = _View(view.leaf, _element(view, index))
                self.active.add(p)
            elif array in self.active:
                self.active.add(p)  # what another statement made of active arguments: nothing can be had of it
                continue
            arrays.append(self.r.atom(array))
            params.append(self.r.bind(p))
        inner = Builder()
        self.scan(inner, e.lam.stms)
        found = self.iteration(inner, result, elem)
        if found is None:
            return None
        return b.let(ir.Map(width, tuple(arrays), ir.Lambda(tuple(params), tuple(inner.stms), (found,))), "blocks")

    def rows(self, a: Atom) -> list[tuple[Atom, int]]:
        """The rows of an iteration: an atom, and how many elements it has (of an array of constant shape)."""
        shape = _constant(a.type)
        if shape is None:
            raise Cannot
        a = self.resolved(a)
        s = self.defs.get(a) if isinstance(a, Var) and a not in self.sources else None
        if s is not None and isinstance(s.exp, ir.ArrayLit):
            return [row for x in s.exp.elems for row in self.rows(x)]
        return [(a, prod(shape))]

    # --- blocks

    def block(self, b: Builder, rows: list[tuple[Atom, int]], elem: Prim) -> list[Atom]:
        """The elements of rows, one row after another."""
        if sum(n for _, n in rows) > MOST_SEEDS * MOST_SEEDS:
            raise Cannot
        slices = [self.needed(a) for a, _ in rows]
        reads: dict[Var, None] = {v: None for _, used in slices for v in used}
        order = self.ordered(list(reads))
        places = {v: _places(v.type) for v in order}
        widths = [sum(len(places[v]) for v in used) for _, used in slices]
        self.widths = [w for w, (_, n) in zip(widths, rows, strict=True) for _ in range(n)]
        if sum(self.widths) > MOST_ENTRIES:
            raise Cannot
        if not sum(self.widths):
            return []
        if self.columns:
            number = {v: [self.column(b, v, at) for at in places[v]] for v in order}
            return [
                c
                for (_, used), (_, n) in zip(slices, rows, strict=True)
                for _ in range(n)
                for v in order if v in used
                for c in number[v]
            ]  # fmt: skip
        out: list[Atom] = []
        for (stms, used), (a, n) in zip(slices, rows, strict=True):
            mine = [v for v in order if v in used]
            if mine:
                out += self.derivatives(b, stms, mine, a, n, elem)
        return out

    def ordered(self, reads: list[Var]) -> list[Var]:
        """Parts that are read, by argument, those at one place of it but for constants by these: mostly by columns."""
        groups: dict[tuple[int, tuple[Atom, ...]], int] = {}
        keys = {}
        for v in reads:
            view = self.sources[v]
            at = view.index(Builder(), self.r, [ZERO] * len(shape_of(v.type)))
            group = view.leaf, tuple([a for a in at if isinstance(a, Var)])
            constants = tuple([int(a.value) for a in at if isinstance(a, Const)])
            keys[v] = view.leaf, groups.setdefault(group, len(groups)), constants
        return sorted(reads, key=keys.__getitem__)

    def needed(self, a: Atom) -> tuple[list[ir.Stm], set[Var]]:
        """The statements that compute an atom from parts of active arguments, and these."""
        wanted: dict[Var, None] = {a: None} if isinstance(a, Var) else {}
        stms = []
        for s in reversed(self.deferred):
            if any(v in wanted and v not in self.sources for v in s.pat):
                stms.append(s)
                wanted |= ir.stm_free(s)
        bound = {v for s in stms for v in s.pat}
        used = set()
        for v in wanted:
            if v in self.sources:
                if _constant(v.type) is None:
                    raise Cannot
                used.add(v)
            elif v in self.active and v not in bound:
                raise Cannot
        return stms[::-1], used

    def column(self, b: Builder, v: Var, at: tuple[int, ...]) -> Atom:
        """The number of the column of an element of a part that is read."""
        view = self.sources[v]
        shape = [self.r.atom(s) for s in shape_of(self.leaves[view.leaf].type)]
        number = _flat(b, view.index(b, self.r, [i64(k) for k in at]), shape)
        return b.op("add", self.offsets[view.leaf], number, hint="column")

    def derivatives(
        self, b: Builder, stms: list[ir.Stm], reads: list[Var], a: Atom, count: int, elem: Prim
    ) -> list[Atom]:
        """The derivatives of a scalar, or of the elements of an array, by the elements of what is read, by rows."""
        given = tuple([self.r.atom(v) for v in reads])
        places = [(v, at) for v in reads for at in _places(v.type)]

        def function() -> ir.Lambda:
            r = ir.Renamer(self.r.mapping)
            params = [Var(v.name, subst_type(v.type, self.r.mapping)) for v in reads]
            r.mapping |= dict(zip(reads, params, strict=True))
            inner = Builder()
            inner.extend(r.stms(_plain(stms)))
            result = r.atom(a)
            if isinstance(result.type, ArrayType):
                result = inner.let(ir.Reshape(result, (i64(count),)), "row")
            return ir.Lambda(tuple(params), tuple(inner.stms), (result,))

        whole = isinstance(a.type, ArrayType)
        t: Type = ArrayType(elem_of(a.type), (i64(count),)) if whole else elem_of(a.type)
        if min(count, len(places)) > MOST_SEEDS:
            raise Cannot
        types = [subst_type(v.type, self.r.mapping) for v in reads]
        rows: list[list[Atom]] = []
        if count <= len(places):
            for k in range(count):
                made = b.emit(ir.Vjp(function(), given, (_hot(b, t, (k,)),)), "d", types=[t, *types])[1:]
                adjoint = dict(zip(reads, made, strict=True))
                rows.append([self.element(b, adjoint[v], at, elem) for v, at in places])
        else:
            columns = []
            for v, at in places:
                tangents = tuple([_hot(b, w.type, at if w is v else None) for w in reads])
                tangent = b.emit(ir.Jvp(function(), given, tangents), "d", types=[t, t])[1]
                columns.append([self.element(b, tangent, (k,) if whole else (), elem) for k in range(count)])
            rows = [[column[k] for column in columns] for k in range(count)]
        return [x for row in rows for x in row]

    def element(self, b: Builder, x: Atom, at: tuple[int, ...], elem: Prim) -> Atom:
        if isinstance(x.type, ArrayType):
            x = b.at(x, *[i64(k) for k in at])
        return b.convert(elem, x)


def _constant(t: Type) -> tuple[int, ...] | None:
    """The shape if it is constant, `()` of a scalar; else None."""
    shape = [s.value for s in shape_of(t) if isinstance(s, Const)]
    return tuple(shape) if len(shape) == len(shape_of(t)) else None


def _places(t: Type) -> list[tuple[int, ...]]:
    """The places of the elements of an array of constant shape, in order."""
    return list(product(*[range(n) for n in _constant(t) or ()]))


def _hot(b: Builder, t: Type, at: tuple[int, ...] | None) -> Atom:
    """One at a place, zero elsewhere; None for zero everywhere."""
    elem = elem_of(t)
    if not isinstance(t, ArrayType):
        return zero(elem) if at is None else one(elem)
    if at is None:
        return b.zeros(t)
    flat = b.let(ir.ArrayLit(tuple([one(elem) if p == at else zero(elem) for p in _places(t)]), elem), "hot")
    return flat if t.rank == 1 else b.let(ir.Reshape(flat, t.shape), "hot")


def _plain(stms: Sequence[ir.Stm]) -> list[ir.Stm]:
    """The statements with maps and folds apart, for which there are derivatives."""
    out: list[ir.Stm] = []
    for s in stms:
        s = ir.map_scopes(s, lambda lam: ir.Lambda(lam.params, tuple(_plain(lam.stms)), lam.result))
        out += ir.unfused(s)
    return out


def _flat(b: Builder, index: Sequence[Atom], shape: Sequence[Atom]) -> Atom:
    """The number of a place, by rows."""
    out: Atom = ZERO
    for k, (i, n) in enumerate(zip(index, shape, strict=True)):
        out = b.op("add", b.op("mul", out, n), i) if k else i
    return out


def _element(view: _View, iteration: Var) -> Callable[[Builder, ir.Renamer, Index], Index]:
    return lambda b, r, at: view.index(b, r, [iteration, *at])


def _indices(e: ir.At | ir.Rearrange | ir.Reshape, view: _View) -> Callable[[Builder, ir.Renamer, Index], Index]:
    """From places in what `e` makes of a view to places in the argument."""

    def taken(b: Builder, r: ir.Renamer, at: Index) -> Index:
        assert isinstance(e, ir.At)
        rest = iter(at)
        out: Index = []
        for i in e.index:
            if isinstance(i, Range):
                out.append(b.op("add", r.atom(i.start), b.op("mul", next(rest), r.atom(i.stride))))
            else:
                out.append(r.atom(i))
        return view.index(b, r, [*out, *rest])

    def permuted(b: Builder, r: ir.Renamer, at: Index) -> Index:
        assert isinstance(e, ir.Rearrange)
        return view.index(b, r, [at[e.perm.index(d)] for d in range(len(at))])

    def reshaped(b: Builder, r: ir.Renamer, at: Index) -> Index:
        assert isinstance(e, ir.Reshape)
        number = _flat(b, at, [r.atom(n) for n in e.shape])
        out: Index = []
        for n in reversed(shape_of(e.array.type)[1:]):
            out.insert(0, b.op("rem", number, r.atom(n)))
            number = b.op("quot", number, r.atom(n))
        return view.index(b, r, [number, *out])

    return taken if isinstance(e, ir.At) else permuted if isinstance(e, ir.Rearrange) else reshaped


__all__ = ["Blocks", "Cannot", "Part"]
