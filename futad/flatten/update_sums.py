"""Updates whose places vary with some dimensions of a nest only, as sums over the others.

    map (\\x -> acc[k] += f x) xs                        -->   acc[k] += sum (map f xs)
    map (\\a -> map (\\b i -> acc[g i] += f a b) bs is) as
        -->   map (\\b i -> acc[g i] += sum (map (\\a -> f a b) as)) bs is

Threads that update one place wait for each other; sums they take together.  The dimensions that the place varies with
come first and keep their order; the others are one dimension, so that all elements of a sum are shared out, but for
sums of few elements, which a thread takes by itself.  Each part of an array that an element reads is found by the
nest's index maps (`core/nest.py`).  What stands between the maps is done for each element, as it is in any nest.
(Section 6.1 of "AD for an Array Language with Nested Parallelism", Schenck, Rønning, Henriksen, Oancea, SC 2022, for
places that vary with the innermost dimensions of a nest or with none.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.nest import Nest, Read, Reads, whole
from futad.core.operator import divisor
from futad.core.types import (
    I64,
    ONE,
    ZERO,
    AccType,
    Atom,
    Const,
    Prim,
    Var,
    row_type,
    zero,
)
from futad.flatten.levels import repeated, unravelled
from futad.flatten.slice_elements import by_elements
from futad.legality import Legality
from futad.rewrite.dce import dead_code

LEGAL = Legality(
    "update-sums",
    "updates of places that vary with some dimensions of a nest are sums over the others",
    worth="with the fission that it asks for, the textbook convolution's gradient on an H100: 1.74 ms "
    "(benchmarks/results/gpu.json) to 0.13 (gpu_everyday.json)",
)
INVARIANT = LEGAL.condition("place invariant", "the sum goes to one place of many")
UNCONDITIONAL = LEGAL.condition("one update an iteration", "updates of branches, or after this one, are lost or moved")
FAILS_NOT = LEGAL.condition("place fails not", "the place is computed though there is nothing to be added there")

FEW = 64  # elements of a sum that a thread takes by itself


# --- one map ------------------------------------------------------------------------------------------------------


def invariant_updates(lam: Lambda, accs: Sequence[tuple[Var, Atom]]) -> dict[Var, Stm]:
    """The accumulators of an iteration, each given with what it is at the end, that are updated once, by a scalar at a
    place that all iterations have in common; with these updates."""
    own = {*lam.params, *[v for s in lam.stms for v in s.pat]}
    out: dict[Var, Stm] = {}
    for p, end in accs:
        users = [s for s in lam.stms if p in ir.stm_free(s)]
        e = users[0].exp if len(users) == 1 else None
        if not isinstance(e, ir.UpdateAcc) or not UNCONDITIONAL(end is users[0].pat[0]):
            continue
        if isinstance(e.value.type, Prim) and INVARIANT(own.isdisjoint(e.index)):
            out[p] = users[0]
    return out


def _one_map(stm: Stm, e: ir.Mapping) -> list[Stm] | None:
    """A map with the updates that all iterations make at one place as folds; None if there are none."""
    pat, ends = e.parts(stm.pat), e.parts(e.lam.result)
    inside = [(p, a) for p, a in zip(e.lam.params, e.arrays, strict=True) if isinstance(p.type, AccType)]
    found = invariant_updates(e.lam, [(p, r) for (p, _), r in zip(inside, ends.accs, strict=True)])
    if not found:
        return None
    b = Builder()
    folds, totals, values = list(e.reduces), list[Var](), list[Atom]()
    after: list[Stm] = []
    for (p, a), v in zip(inside, pat.accs, strict=True):
        if p in found:
            x = found[p].exp
            assert isinstance(x, ir.UpdateAcc)
            folds.append(_sum(b, x.value.type))
            totals.append(Var("total", x.value.type))
            values.append(x.value)
            after.append(Stm((v,), ir.UpdateAcc(a, x.index, totals[-1])))
    kept = [k for k, (p, _) in enumerate(inside) if p not in found]
    gone = set(found.values())
    given = [(p, a) for p, a in zip(e.lam.params, e.arrays, strict=True) if p not in found]
    order = lambda x: (*[x.accs[k] for k in kept], *x.folded)  # noqa: E731
    lam = Lambda(
        tuple([p for p, _ in given]), tuple([s for s in e.lam.stms if s not in gone]),
        (*order(ends), *values, *ends.mapped),
    )  # fmt: skip
    fused = ir.Fused(e.width, tuple([a for _, a in given]), lam, e.scans, tuple(folds))
    return [Stm((*order(pat), *totals, *pat.mapped), fused, stm.attrs), *after]


def _sum(b: Builder, t: Prim | ir.Type) -> ir.Fold:
    assert isinstance(t, Prim)
    return ir.Fold(b.plus_lambda(t), (zero(t),), True)


# --- nests --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Updates:
    """A nest of maps that does nothing but update accumulators by scalars, innermost: its maps, all statements but the
    updates, in order, the updates, and the levels that each variable varies with."""

    stm: Stm
    nest: Nest
    maps: list[ir.Map] = field(default_factory=list)
    stms: list[Stm] = field(default_factory=list)
    updates: list[Stm] = field(default_factory=list)
    varies: dict[Atom, frozenset[int]] = field(default_factory=dict)
    level_of: dict[Var, int] = field(default_factory=dict)  # of parameters
    checked: list[Var] = field(default_factory=list)  # places that are asked for whatever is added there

    def of(self, atoms: Iterable[Atom]) -> frozenset[int]:
        """The levels that some atoms vary with."""
        return frozenset().union(*[self.varies.get(a, frozenset()) for a in atoms])

    @property
    def sums(self) -> list[ir.UpdateAcc]:
        """The updates."""
        return [s.exp for s in self.updates if isinstance(s.exp, ir.UpdateAcc)]

    def enter(self, s: Stm, e: ir.Map) -> list[Stm]:
        """A level more; its statements that have accumulators."""
        level = len(self.maps)
        self.nest.enter(e.lam, s if self.maps else None)
        self.maps.append(e)
        for p, a in zip(e.lam.params, e.arrays, strict=True):
            self.varies[p] = self.of([a]) | {level}
            self.level_of[p] = level
        users: list[Stm] = []
        for x in e.lam.stms:
            if any(isinstance(v.type, AccType) for v in ir.stm_free(x)):
                users.append(x)
                continue
            self.stms.append(x)
            on = self.of(ir.stm_free(x))
            self.varies.update((v, on) for v in x.pat)
        return users


def _updates(stm: Stm) -> _Updates | None:
    """The nest that a statement is; None if it is none."""
    if not isinstance(stm.exp, ir.Map):
        return None
    u = _Updates(stm, Nest([], stm.exp.arrays))
    s = stm
    while isinstance(e := s.exp, ir.Map) and e.accs == len(s.pat) and e.width not in u.nest.bound:
        before = len(u.stms)
        users = u.enter(s, e)
        accs = tuple([p for p in e.lam.params if isinstance(p.type, AccType)])
        if all(isinstance(x.exp, ir.UpdateAcc) for x in users):
            return u if _at_the_end(u, users, accs, e.lam.result) else None
        if len(users) != 1 or not repeated(u.stms[before:]) or not isinstance(users[0].exp, ir.Map):
            return None
        below = _in_order(users[0], users[0].exp, accs)
        if below is None or not UNCONDITIONAL(e.lam.result == below.pat):
            return None
        s = below
    return None


def _in_order(s: Stm, e: ir.Map, accs: Sequence[Var]) -> Stm | None:
    """A map with its accumulators in the order in which they are given; None if it has others."""
    own = [a for a in e.arrays if isinstance(a.type, AccType)]
    if own == [*accs] or len(own) != len(accs) or {*own} != {*accs}:
        return s if own == [*accs] else None
    order = [own.index(a) for a in accs]
    params = [p for p in e.lam.params if isinstance(p.type, AccType)]
    rest = [(p, a) for p, a in zip(e.lam.params, e.arrays, strict=True) if not isinstance(p.type, AccType)]
    results, pat = [e.lam.result[k] for k in order], [s.pat[k] for k in order]
    lam = Lambda((*[params[k] for k in order], *[p for p, _ in rest]), e.lam.stms, tuple(results))
    return Stm(tuple(pat), ir.Map(e.width, (*accs, *[a for _, a in rest]), lam), s.attrs)


def _at_the_end(u: _Updates, updates: list[Stm], accs: tuple[Var, ...], result: ir.Atoms) -> bool:
    """Whether the innermost iteration makes updates by scalars only, one after the other, that vary with the same."""
    u.updates = updates
    ends: dict[Atom, Atom] = {p: p for p in accs}
    for s, e in zip(updates, u.sums, strict=True):
        start = next((p for p, a in ends.items() if a is e.acc), None)
        if start is None or not isinstance(e.value.type, Prim):
            return False
        ends[start] = s.pat[0]
    return bool(updates) and UNCONDITIONAL(tuple(ends.values()) == tuple(result))


def _places(u: _Updates, indices: Set[Var]) -> Lambda | None:
    """The places that are updated, one after the other, as a function of parameters of the nest; None if more than
    scalar operations make them of these.  An element of an array of `indices` is where it is read; whether that is in
    range is asked by each element of the sum."""
    made = {v: s for s in u.stms for v in s.pat}
    chosen: set[Stm] = set()
    inputs: dict[Var, None] = {}
    index = tuple([a for e in u.sums for a in e.index])
    todo = [a for a in index if isinstance(a, Var)]
    while todo:
        v = todo.pop()
        if v in u.level_of:
            inputs[v] = None
        elif v in made:
            e = made[v].exp
            if isinstance(e, ir.At) and e.array in indices and isinstance(e.index[0], Var | Const):
                todo += [a for a in e.index if isinstance(a, Var)]
                u.checked.append(v)
            elif isinstance(e, ir.Op | ir.Alias) and FAILS_NOT(not isinstance(e, ir.Op) or divisor(e) is None):
                todo += ir.stm_free(made[v])
            else:
                return None
            chosen.add(made[v])
    stms = []
    for s in [x for x in u.stms if x in chosen]:
        at = s.exp.index[0] if isinstance(s.exp, ir.At) else None
        stms.append(Stm(s.pat, ir.Alias(at)) if isinstance(at, Var | Const) else s)
    return Lambda(tuple(inputs), tuple(stms), index)


class _Summed:
    """A nest with the dimensions that a place varies with first, and sums over the others."""

    def __init__(self, u: _Updates, place: Lambda, kept: list[int], summed: list[int]) -> None:
        self.u, self.place, self.kept, self.summed = u, place, kept, summed
        self.b = Builder()
        values = tuple([e.value for e in u.sums])
        needed, _ = dead_code(Lambda((), tuple(u.stms), (*values, *u.checked)))
        self.value = Lambda(tuple([v for v in needed.free() if v in u.level_of]), needed.stms, values)
        self.levels: dict[Var, tuple[int, ...]] = {}  # of each parameter: the levels, in the new order
        self.arrays: dict[Var, Atom] = {}  # and an array with these dimensions, in that order
        self.places: dict[int, Var] = {}  # of levels: their indices, as parameters

    def order(self, levels: Sequence[int]) -> tuple[int, ...]:
        return tuple([k for k in (*self.kept, *self.summed) if k in levels])

    def found(self, reads: Reads) -> bool:
        """Find arrays for all parameters that are read; whether there are."""
        for p in dict.fromkeys((*self.value.params, *self.place.params)):
            r = reads.get(p) or self.of_numbers(p)
            if r is None or len(set(r.levels)) != len(r.levels):
                return False
            self.levels[p] = self.order(r.levels)
            dims = [r.dims[r.levels.index(k)] for k in self.levels[p]]
            perm = (*dims, *r.rest)
            same = perm == tuple(range(len(perm)))
            self.arrays[p] = r.array if same else self.b.let(ir.Rearrange(r.array, perm), r.array.name)
        return True

    def of_numbers(self, p: Var) -> Read | None:
        """The element of an array of numbers that the nest makes, alike in all points, of one made outside."""
        level = self.u.level_of[p]
        m = self.u.maps[level]
        a = m.arrays[m.lam.params.index(p)]
        made = next((s.exp for s in self.u.stms if a in s.pat), None)
        if not isinstance(made, ir.Iota | ir.Replicate) or any(x in self.u.nest.bound for x in made.operands()):
            return None
        return whole(self.b.let(made, "xs")).element(level)

    def made(self) -> list[Stm]:
        maps = self.u.maps
        widths = [maps[k].width for k in self.summed]
        sizes = [int(n.value) if isinstance(n, Const) else FEW + 1 for n in widths]
        few = 1
        for n in sizes:
            few *= n
        self.flat = len(widths) > 1 and few > FEW
        if self.flat:
            self.total = self.b.size_mul(widths)
            self.points = self.b.let(ir.Iota(self.total, ZERO, ONE), "is")
        accs = [a for a in maps[0].arrays if isinstance(a.type, AccType)]
        self.updated(self.b, 0, accs, dict(self.arrays), self.u.stm.pat)
        last = self.b.stms[-1]
        self.b.stms[-1] = Stm(last.pat, last.exp, self.u.stm.attrs)
        return self.b.stms

    def updated(
        self, b: Builder, k: int, accs: Sequence[Atom], arrays: dict[Var, Atom], out: Sequence[Var]
    ) -> None:
        """Emit the nest from its k-th dimension on, on what `arrays` has at this point."""
        if k == len(self.kept):
            totals = self.folded(b, 0, arrays)
            index = list(b.inline(self.place, [arrays[p] for p in self.place.params]))
            now = dict(zip([p for p in self.u.maps[-1].lam.params if isinstance(p.type, AccType)], accs, strict=True))
            lasts = dict(zip(self.u.maps[-1].lam.result, out, strict=True))
            for s, e, total in zip(self.u.updates, self.u.sums, totals, strict=True):
                here, index = index[: len(e.index)], index[len(e.index) :]
                assert isinstance(e.acc, Var)
                now[s.pat[0]] = end = lasts.get(s.pat[0]) or Var("acc", e.acc.type)
                b.add(Stm((end,), ir.UpdateAcc(now[e.acc], tuple(here), total)))
            for p in [p for p in self.u.maps[-1].lam.params if p in lasts]:  # nothing is added to these
                b.add(Stm((lasts[p],), ir.Alias(now[p])))
            return
        level = self.kept[k]
        mine = [p for p in arrays if level in self.levels[p]]
        params = {p: Var(p.name, row_type(arrays[p].type)) for p in mine}
        inside, ends = [[Var("acc", a.type) for a in accs] for _ in range(2)]
        c = Builder()
        self.updated(c, k + 1, inside, {**arrays, **params}, ends)
        lam = Lambda((*inside, *params.values()), tuple(c.stms), tuple(ends))
        b.add(Stm(tuple(out), ir.Map(self.u.maps[level].width, (*accs, *[arrays[p] for p in mine]), lam)))

    def folded(self, b: Builder, k: int, arrays: dict[Var, Atom]) -> ir.Atoms:
        """Emit the sums over the dimensions from the k-th of the summed ones on."""
        if self.flat:
            return self.folded_flat(b, arrays)
        if k == len(self.summed):
            return b.inline(self.value, [arrays[p] for p in self.value.params])
        level = self.summed[k]
        mine = [p for p in arrays if level in self.levels[p] and p in self.value.params]
        params = {p: Var(p.name, row_type(arrays[p].type)) for p in mine}
        c = Builder()
        values = self.folded(c, k + 1, {**arrays, **params})
        lam = Lambda(tuple(params.values()), tuple(c.stms), values)
        return self.fold(b, self.u.maps[level].width, [arrays[p] for p in mine], lam)

    def fold(self, b: Builder, width: Atom, arrays: Sequence[Atom], lam: Lambda) -> ir.Atoms:
        types = [e.value.type for e in self.u.sums]
        return b.emit(ir.Fused(width, tuple(arrays), lam, (), tuple([_sum(b, t) for t in types])), "total", types=types)

    def folded_flat(self, b: Builder, arrays: dict[Var, Atom]) -> ir.Atoms:
        """Emit the sums over all summed dimensions as one."""
        at = Var("at", I64)
        c = Builder()
        places = unravelled(c, at, [self.u.maps[k].width for k in self.summed])
        index = dict(zip(self.summed, places, strict=True))
        args: list[Atom] = []
        for p in self.value.params:
            there = [index[k] for k in self.levels[p] if k in index]
            args.append(c.at(arrays[p], *there) if there else arrays[p])
        values = c.inline(self.value, args)
        return self.fold(b, self.total, [self.points], Lambda((at,), tuple(c.stms), values))


def _nest(stm: Stm, indices: Set[Var]) -> list[Stm] | None:
    u = _updates(by_elements(stm, indices))
    if u is None:
        return None
    if apart := _Apart(u).made():
        return apart
    place = _places(u, indices)
    kept = u.of(u.sums[0].index)
    summed = [k for k in range(len(u.maps)) if k not in kept]
    if place is None or not summed:
        return None
    made = _Summed(u, place, sorted(kept), summed)
    return made.made() if made.found(u.nest.reads()) else None


class _Apart:
    """A nest once for each set of levels that places of its updates vary with, each with these updates."""

    def __init__(self, u: _Updates) -> None:
        self.u = u
        own = [p for p in u.maps[-1].lam.params if isinstance(p.type, AccType)]
        self.number: dict[Atom, int] = {p: k for k, p in enumerate(own)}  # of accumulators, whatever was added to them
        self.groups: dict[frozenset[int], list[Stm]] = {}
        for s, e in zip(u.updates, u.sums, strict=True):
            self.number[s.pat[0]] = self.number[e.acc]
            self.groups.setdefault(u.of(e.index), []).append(s)

    def made(self) -> list[Stm]:
        """The nests, one after the other; none if there would be one."""
        if len(self.groups) < 2:
            return []
        pat, attrs = self.u.stm.pat, self.u.stm.attrs
        taken = [{self.number[s.pat[0]] for s in updates} for updates in self.groups.values()]
        taken[0] |= {*range(len(pat))}.difference(*taken)  # those that nothing is added to
        now: list[Atom] = [a for a in self.u.maps[0].arrays if isinstance(a.type, AccType)]
        out: list[Stm] = []
        for at, (updates, own) in enumerate(zip(self.groups.values(), taken, strict=True)):
            last = own.difference(*taken[at + 1 :])
            ends = {k: pat[k] if k in last else Var("acc", pat[k].type) for k in sorted(own)}
            given = self.given(0, [now[k] for k in ends])
            nest = ir.Map(self.u.maps[0].width, given, ir.rename(self.level(0, updates, list(ends))))
            made = Lambda((), (Stm(tuple(ends.values()), nest, attrs),), tuple(ends.values()))
            out += dead_code(made)[0].stms
            for k, v in ends.items():
                now[k] = v
        return out

    def given(self, level: int, accs: Sequence[Atom]) -> ir.Atoms:
        return (*accs, *[a for a in self.u.maps[level].arrays if not isinstance(a.type, AccType)])

    def level(self, level: int, updates: Sequence[Stm], own: Sequence[int]) -> Lambda:
        """A level of the nest that makes these updates, of these accumulators."""
        lam = self.u.maps[level].lam
        accs = [p for p in lam.params if isinstance(p.type, AccType)]
        now: dict[int, Var] = {k: accs[k] for k in own}
        stms = [s for s in lam.stms if not any(isinstance(v.type, AccType) for v in ir.stm_free(s))]
        if level + 1 < len(self.u.maps):
            inner = self.level(level + 1, updates, own)
            arrays = self.given(level + 1, [now[k] for k in own])
            now = {k: Var("acc", now[k].type) for k in own}
            stms.append(Stm(tuple(now.values()), ir.Map(self.u.maps[level + 1].width, arrays, inner)))
        else:
            for s in updates:
                e, k = s.exp, self.number[s.pat[0]]
                assert isinstance(e, ir.UpdateAcc)
                end = Var("acc", e.acc.type)
                stms.append(Stm((end,), ir.UpdateAcc(now[k], e.index, e.value)))
                now[k] = end
        params = [p for p in lam.params if not isinstance(p.type, AccType)]
        return Lambda((*[accs[k] for k in own], *params), tuple(stms), tuple(now.values()))


def sums_first(stm: Stm, indices: Set[Var]) -> list[Stm] | None:
    """The statements that a map, or a map with folds, becomes whose updates are sums; None if it has none.  `indices`:
    arrays of 0, 1, and so on."""
    e = stm.exp
    if not isinstance(e, ir.Mapping) or not e.accs:
        return None
    made = _one_map(stm, e) or _nest(stm, indices)
    if made is not None:
        LEGAL.fired()
    return made


__all__ = ["invariant_updates", "sums_first"]
