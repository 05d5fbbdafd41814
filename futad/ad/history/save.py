"""What the forward sweep of a loop saves, and how the return sweep gets a loop variable back.

A variable of the loop as it was at the start of an iteration is
* computed, if it goes up by a constant every iteration;
* computed from the variables after the iteration, if the iteration can be run backwards (`ad/inverse/`);
* taken back, if iterations change it only by updates: what each overwrites is saved (`chains.py`);
* read from an array that holds it for every iteration, otherwise;
* read from a flat array of all iterations' elements, if its size changes (`Grower`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from futad.ad.history.chains import Element, Elements, Finder, Space, runs, slots, uncounted
from futad.ad.history.points import Points
from futad.ad.history.threads import Undoer, logged
from futad.ad.history.update_log import ArrayLog, Arrays, Key, counting_updates, keys_of, room, totals
from futad.ad.history.variables import convert, counted
from futad.ad.inverse import lost_bits
from futad.ad.inverse.iteration import Backwards, backwards, bytes_of, count
from futad.ad.inverse.kept import exposed
from futad.ad.inverse.returned import Returns
from futad.ad.inverse.solver import LEGAL
from futad.ad.inverse.underway import Underway, added, weights_of, zero_of
from futad.core import ir
from futad.core.budget import place_among
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import (
    F64,
    I64,
    ONE,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    row_type,
    shape_of,
)
from futad.errors import Span
from futad.rewrite.dependence import iterations_of

SAME_BITS = LEGAL.condition("the same bits, or compared", "a loop that loses digits has a wrong derivative in silence")
ON_THE_WAY = LEGAL.condition("compared on the way", "a loop that magnifies, then forgets comes back all the same")


@dataclass(slots=True)
class Restore:
    """How the return sweep gets a loop variable as it was at the start of an iteration.

    `begin(b, i, after)` emits code for iteration i and gives its value.  `last`: the variable's final value if the
    return sweep carries it backwards (`after` is then the value after the iteration), else None.  `carried`: what
    `after` has to be, if others need it too.  `returns` has the check of the value that the return sweep ends with;
    without it that is the one that the loop began with.  `saved`: whether something of it is saved in
    each iteration.  `points`: states with which the return sweep goes on, `row`: which
    variable of them it is.  `bits`: what is kept of it where lost bits are.  `underway`: the sums of what it is in all
    iterations.
    """

    begin: Callable[[Builder, Atom, Var], Atom]
    last: Atom | None = None
    carried: Var | None = None
    returns: Returns | None = None
    saved: bool = False
    points: Points | None = None
    row: int | None = None
    bits: lost_bits.Kept | None = None
    underway: Underway | None = None


@dataclass(frozen=True, slots=True)
class Undo:
    """Which loop variables may be undone: not those `closed`; with round-off if `how` is True or a tolerance, none if
    it is False; where it is `demanded`, what cannot be undone is an error.  `place`: of the loop in the
    source, if that is known.  `why` gets the reasons why variables are not undone, by name.  `functions`: where lost
    bits may be kept, what that takes.  `places`: what makes arrays of places, around the loop.  `runs`: whether
    iterations may save more or less than others."""

    closed: Collection[int] = ()
    how: bool | float | Literal["exact"] | None = None
    demanded: bool = False
    place: Span | None = None
    why: dict[str, str] | None = None
    functions: lost_bits.Functions | None = None
    places: Mapping[Var, ir.Stm] = field(default_factory=dict)
    runs: bool = True


def _lead(loop: ir.Loop) -> Sequence[Var]:
    """The body's parameters before the loop's variables."""
    return loop.body.params[: len(loop.body.params) - len(loop.variables)]


@dataclass(slots=True)
class Ways:
    """How loop variables are restored, of which there is no code yet: those that go up by a constant, with where they
    start and by how much; by inverse iterations; by position, what updates overwrite (nothing: those that stay as they
    are) as `finder` has found it; and those that are saved as a whole."""

    counters: dict[Var, tuple[Atom, int]]
    undone: list[Backwards]
    chains: dict[int, list[Element]]
    whole: list[int]
    finder: Finder

    @property
    def saves(self) -> bool:
        """Whether something is saved in each iteration."""
        undone = any(way.kept or way.lost for way in self.undone)
        return bool(self.whole or undone or any(map(slots, self.chains.values())))

    @property
    def uncounted(self) -> dict[int, Elements]:
        """The chains for which the loop has to be run once before, to count how much they save."""
        return {q: c for q, c in self.chains.items() if uncounted(c)}

    def rows(self, own: Sequence[Var]) -> list[Type]:
        """The types of what is saved in an iteration; `own`: the loop's variables."""
        out: list[Type] = [own[q].type for q in self.whole]
        out += [v.type for v in dict.fromkeys(v for way in self.undone for v in way.kept)]
        out += [t for way in self.undone for q in way.lost for t in lost_bits.rows(own[q].type)]
        return out + [row_type(slot.array()) for chain in self.chains.values() for slot in slots(chain)]


def ways_of(
    loop: ir.Loop, index: Atom, iterations: Atom, which: Sequence[int], undo: Undo, before: Builder
) -> Ways:  # fmt: skip
    """How to restore the loop variables at these positions, none of changing size; see `Saver`.  Code for places that
    the loop does not change goes to `before` it."""
    own = loop.variables
    counters = {v: (start, step) for v, start, step in iterations_of(loop).counters}

    def found_by(before: Builder) -> tuple[Finder, Callable[[int], list[Element] | None]]:
        finder = Finder(before, runs=undo.runs, indices={*_lead(loop), *counters})
        if isinstance(index, Var):
            finder.indices.add(index)
        finder.enter(loop.body)

        def chain(q: int) -> list[Element] | None:
            if not isinstance(own[q].type, ArrayType):
                return None
            space = Space((iterations,), (iterations,))
            found = finder.chain(loop.body, own[q], loop.body.result[q], space)
            return found if found is None or _pays(own[q].type, found) else None

        return finder, chain

    undone = _undone(loop, which, counters, found_by(Builder())[1], undo)
    easy = {q for way in undone for q in way.group} | {q for q, x in enumerate(own) if x in counters}
    finder, chain = found_by(before)
    chains = {q: chain(q) for q in which if q not in easy}
    overwritten = {q: found for q, found in chains.items() if found}
    return Ways(counters, undone, overwritten, [q for q, found in chains.items() if found is None], finder)


def _undone(
    loop: ir.Loop, which: Sequence[int], counters: Collection[Var], chain: Callable[[int], list[Element] | None],
    undo: Undo,
) -> list[Backwards]:  # fmt: skip
    """The inverses of iterations, for the variables for which there is one, and it pays."""
    own = loop.variables
    easy = [q for q, x in enumerate(own) if x in counters]
    open_ = [q for q in which if q not in easy and q not in undo.closed]
    if not open_ or undo.how is False:
        return []
    chains = {q: found for q in open_ if (found := chain(q)) is not None}
    unchanged = [q for q, found in chains.items() if not found]

    def saved(q: int) -> float:
        if q not in chains:
            return bytes_of(own[q].type)
        return sum(bytes_of(t) * count(counts) for counts, t in [slot.row() for slot in slots(chains[q])])

    wanted = [q for q in open_ if q not in unchanged]
    rounding = undo.how is not None and undo.how != "exact"
    chained = set(chains) - set(unchanged)
    return backwards(
        loop.body, own, wanted, [*easy, *unchanged], undo.closed, chained, saved, rounding, undo.demanded, undo.why,
        undo.place, undo.functions is not None, undo.places,
    )


def _pays(t: Type, chain: Elements) -> bool:
    """Whether to save what the updates overwrite of an array of this type, where no number of updates is known: if
    there are not more loops around them than the array has dimensions."""
    if not runs(chain):
        return True
    most = max(len([n for n in (*counts, *shape_of(old)) if not isinstance(n, Const)])
               for counts, old in [slot.row() for slot in slots(chain)])  # fmt: skip
    return most <= len([n for n in shape_of(t) if not isinstance(n, Const)])


class Saver:
    """Adds to a loop the variables that hold what is saved, and the statements that save.

    `index` is the i64 number of the iteration in the loop's body (code for it may be in `head`), `iterations` how many
    there are at most, `final` what the loop's variables end as; code goes to `before` the loop.
    """

    def __init__(
        self,
        loop: ir.Loop,
        final: Sequence[Var],
        head: Builder,
        index: Atom,
        iterations: Atom,
        before: Builder,
        undo: Undo = Undo(),
    ) -> None:
        self.loop = loop
        self.own = loop.variables
        self.final = final
        self.head = head
        self.index = index
        self.iterations = iterations
        self.before = before
        self.undo = undo
        self.stms = loop.body.stms
        self.params: list[Var] = []
        self.inits: list[Atom] = []
        self.results: list[Atom] = []
        self.pat: list[Var] = []
        self.restores: dict[int, Restore] = {}
        self.kept: dict[Var, tuple[Var, Var]] = {}
        self.weights: dict[Atom, Var] = {}  # of elements, by their number

    def more(self, init: Atom, name: str) -> tuple[Var, Var]:
        """One more variable: what it is in the body, and after the loop.  Its result is still to be given."""
        p, v = Var(name, init.type), Var(name, init.type)
        self.params.append(p)
        self.inits.append(init)
        self.pat.append(v)
        return p, v

    def ways(self, which: Sequence[int]) -> Ways:
        """How these loop variables, none of changing size, are restored."""
        return ways_of(self.loop, self.index, self.iterations, which, self.undo, self.before)

    def save(self, which: Sequence[int], ways: Ways, counts: Mapping[int, Sequence[Atom]] = {}) -> None:
        """Save the loop variables at these positions in these ways; `counts`: how many places the runs of their
        updates have, where a run of the loop has counted them (`counting`)."""
        counters = {v: counted(*c) for v, c in ways.counters.items()}
        for way in ways.undone:
            self._undone(way, {q: counters[x] for q, x in enumerate(self.own) if x in counters})
        for q in which:
            if q in ways.whole:
                self._whole(q)
            elif q not in self.restores and q not in ways.chains:
                x = self.own[q]
                self.restores[q] = Restore(counters[x] if x in counters else _unchanged(self.loop.inits[q]))
        self._chains(ways.finder, {q: c for q, c in ways.chains.items() if q in which}, counters, counts)

    def _undone(self, way: Backwards, counters: dict[int, Callable[[Builder, Atom, Var], Atom]]) -> None:
        for g in way.given:
            if g in counters:
                self.restores[g] = Restore(counters[g])
        held = [self._each(v, way.loops.get(v)) for v in way.kept]
        inverse = Inverse(self, way, [out for _, out in held])
        if way.lost and self.undo.functions is not None:
            self._bits(inverse, self.undo.functions, [v for v, _ in held])
        for q in way.group:
            bits = inverse.bits.get(q)
            returns = None if bits is not None or SAME_BITS(not way.rounds) else self._returns(q)
            underway = None if returns is None else self._underway(q, returns, way.code.has(ir.WithInverse))
            restore = Restore(inverse.begin(q), self.final[q], inverse.after[q], returns, bits=bits, underway=underway)
            self.restores[q] = restore

    def _underway(self, q: int, returns: Returns, every: bool) -> Underway | None:
        """Add up what the iterations begin with, `every` one or some."""
        if returns.allowed == inf or ON_THE_WAY(False):
            return None
        x, float_ = self.own[q], elem_of(self.own[q].type).is_float
        weights = None
        if float_ and isinstance(x.type, ArrayType):
            n = self.before.size_mul(shape_of(x.type))
            weights = self.weights[n] = self.weights.get(n) or weights_of(self.before, n)
        kinds = [Var("total", F64), Var("size", F64)] if float_ else [Var("total", lost_bits.U64)]
        pairs = [self.more(zero_of(v), v.name) for v in kinds]
        self.results += added(self.head, [p for p, _ in pairs], x, self.index, weights, every)
        ends = [v for _, v in pairs]
        return Underway(returns, elem_of(x.type), weights, ends[0], ends[1] if float_ else None, every)

    def _bits(self, inverse: Inverse, functions: lost_bits.Functions, values: Sequence[Var]) -> None:
        """Undo each iteration where it is done, and keep what is lost; `values`: of `way.kept`, in the iteration."""
        way, own, body, b = inverse.way, self.own, self.loop.body, Builder()
        inverse.near = lost_bits.Near(functions, way.code, [own[q].type for q in way.group])
        place = self._returns(way.group[0]).place
        args = [*_lead(self.loop), *[body.result[q] for q in way.group], *[own[g] for g in way.given], *values]
        found = inverse.near.call(b, args)
        for q in way.lost:
            x, before = own[q], self.before
            shape = (self.iterations, *([] if isinstance(x.type, Prim) else [before.size_mul(shape_of(x.type))]))
            bits, out = self.more(before.let(ir.Scratch(lost_bits.I8, shape), "bits"), "bits")
            most = lost_bits.room(before, x.type, self.iterations)
            list_, whole = self.more(before.let(ir.Scratch(elem_of(x.type), (most,)), "list"), "list")
            (top, tops), (total, totals) = self.more(ZERO, "top"), self.more(Const(lost_bits.U64, 0), "sum")
            now, near = (bits, list_, top, total), found[way.group.index(q)]
            self.results += lost_bits.keep(functions, b, x, near, self.index, now, x.name, place)
            inverse.bits[q] = lost_bits.Kept(functions, x.name, place, self.iterations, out, whole, tops, totals)
        self.stms = (*self.stms, *b.stms)

    def _returns(self, q: int) -> Returns:
        how, place = self.undo.how, self.undo.place or place_among(self.loop.body.stms)
        return Returns(self.own[q].name, None if how is True or not isinstance(how, float) else how, place)

    def _each(self, v: Var, loop: Var | None) -> tuple[Var, Var]:
        """Save a variable of the loop's body in every iteration, once; it at the end of the body, and the array."""
        if v in self.kept:
            return self.kept[v]
        t = array_of(v.type, self.iterations)
        assert isinstance(t, ArrayType)
        p, out = self.more(self.before.let(ir.Scratch(elem_of(t), t.shape), f"{v.name}_saved"), f"{v.name}_saved")
        b = Builder()
        stms, value = exposed(self.stms, v, loop)
        self.results.append(b.let(ir.Update(p, (self.index,), value), p.name))
        self.stms = (*stms, *b.stms)
        self.kept[v] = value, out
        return value, out

    def counts(self, loop: Var) -> Var:
        """Save how many iterations a `while` loop takes in each iteration, given its first result; the array."""
        return self._each(Var("iterations", I64), loop)[1]

    def _whole(self, q: int) -> None:
        x = self.own[q]
        t = array_of(x.type, self.iterations)
        assert isinstance(t, ArrayType)
        p, v = self.more(self.before.let(ir.Scratch(elem_of(t), t.shape), f"{x.name}_saved"), f"{x.name}_saved")
        self.results.append(self.head.let(ir.Update(p, (self.index,), x), p.name))
        self.restores[q] = Restore(lambda b, t, after: b.let(ir.At(v, (t,)), x.name), saved=True)

    def _chains(
        self,
        finder: Finder,
        chains: dict[int, list[Element]],
        counters: dict[Var, Callable[[Builder, Atom, Var], Atom]],
        counts: Mapping[int, Sequence[Atom]],
    ) -> None:
        def indices(b: Builder, t: Atom) -> dict[Var, Atom]:
            env: dict[Var, Atom] = {i: convert(b, i.type, t) for i in _lead(self.loop)}
            if isinstance(self.index, Var):
                env[self.index] = t
            return env | {v: at(b, t, v) for v, at in counters.items()}

        now: dict[Key, Atom] = {}
        after: dict[Key, Var] = {}
        for q, c in chains.items():
            if uncounted(c):
                for r, total in zip(runs(c), counts[q], strict=True):
                    self.before.add(ir.Stm((r.total,), ir.Alias(total)))
            elif runs(c):
                totals(self.before, finder, c, self.iterations, indices)
            for k in keys_of(c):
                now[k], after[k] = self.more(room(self.before, k), "saved")
        log = ArrayLog()
        for c in chains.values():
            self.stms = tuple(logged(log, self.stms, c, (self.index,), now))
        self.results += now.values()
        undoer = Undoer(finder, Arrays(after))
        for q, c in chains.items():

            def begin(b: Builder, t: Atom, x: Var, c: list[Element] = c) -> Atom:
                return undoer.run(b, x, c, (t,), indices(b, t))[0]

            self.restores[q] = Restore(begin, self.final[q], saved=True)

    def lambda_(self) -> ir.Lambda:
        body = self.loop.body
        return ir.Lambda(
            (*body.params, *self.params), (*self.head.stms, *self.stms), (*body.result, *self.results)
        )


def _unchanged(start: Atom) -> Callable[[Builder, Atom, Var], Atom]:
    """A variable that stays `start`."""
    return lambda b, iteration, after: start


class Inverse:
    """The inverse of an iteration for a group of variables, in the return sweep."""

    def __init__(self, saver: Saver, way: Backwards, held: Sequence[Var]) -> None:
        self.saver, self.way, self.held = saver, way, held
        self.after = {q: Var(saver.own[q].name, saver.own[q].type) for q in way.group}
        self.done: dict[Builder, ir.Atoms] = {}
        self.near: lost_bits.Near | None = None  # the code, where lost bits are kept
        self.bits: dict[int, lost_bits.Kept] = {}

    def begin(self, q: int) -> Callable[[Builder, Atom, Var], Atom]:
        """The way of one variable; the first that is asked emits the code for all."""

        def begin(b: Builder, t: Atom, after: Var) -> Atom:
            if b not in self.done:
                args = [*[convert(b, p.type, t) for p in _lead(self.saver.loop)], *self.after.values()]
                args += [self.saver.restores[g].begin(b, t, self.saver.own[g]) for g in self.way.given]
                args += [b.let(ir.At(v, (t,)), v.name) for v in self.held]
                found = b.inline(self.way.code, args) if self.near is None else self.near.call(b, args)
                each = zip(self.way.group, found, strict=True)
                self.done[b] = tuple([self.bits[g].find(b, a, t) if g in self.bits else a for g, a in each])
            return self.done[b][self.way.group.index(q)]

        return begin


# --- changing sizes ------------------------------------------------------------------------------------------------


class Grower:
    """Saves loop variables whose sizes change from iteration to iteration, one iteration after the other in a flat
    array.

    How many elements that takes (`totals`) a run of the loop before this one has counted (`counting`).
    """

    def __init__(self, saver: Saver, totals: Sequence[Atom], which: Sequence[int]) -> None:
        for q, total in zip(which, totals, strict=True):
            x, head = saver.own[q], saver.head
            t = ArrayType(elem_of(x.type), (total,))
            before = saver.before
            flat, flats = saver.more(before.let(ir.Scratch(t.elem, t.shape), "saved"), "saved")
            begins, places = saver.more(before.let(ir.Scratch(I64, (saver.iterations,)), "begins"), "begins")
            begin, _ = saver.more(ZERO, "begin")
            n = head.size_mul(shape_of(x.type))
            row = head.let(ir.Reshape(x, (n,)), "row")
            saver.results.append(head.let(ir.Update(flat, (Range(begin, n, ONE),), row), "saved"))
            saver.results.append(head.let(ir.Update(begins, (saver.index,), begin), "begins"))
            saver.results.append(head.op("add", begin, n))
            saver.restores[q] = Restore(_row(flats, places), saved=True)


@dataclass(slots=True)
class Counted:
    """What a loop saves in a second run, once a first one has counted how much that is: loop variables of changing
    size, at the positions `grown`, and what updates overwrite, `chains` by the variable's position."""

    grown: Sequence[int]
    chains: Mapping[int, Elements] = field(default_factory=dict)
    totals: Sequence[Atom] = ()
    counts: Mapping[int, Sequence[Atom]] = field(default_factory=dict)

    def counting(self, stm: ir.Stm) -> ir.Stm:
        """The first run: the loop, with variables that count."""
        if self.grown and not self.totals:
            stm, self.totals = counting(stm, self.grown)
        if self.chains:
            stm, self.counts = counting_updates(stm, self.chains)
        return stm


def counting(stm: ir.Stm, which: Sequence[int]) -> tuple[ir.Stm, list[Var]]:
    """The loop, with variables that count the elements that these loop variables have in all iterations; their
    results."""
    e = stm.exp
    assert isinstance(e, ir.Loop)
    b = Builder()
    params, totals = [Var("total", I64) for _ in which], [Var("total", I64) for _ in which]
    own = e.variables
    more = [b.op("add", p, b.size_mul(shape_of(own[q].type))) for p, q in zip(params, which, strict=True)]
    inits = (*e.inits, *[ZERO] * len(more))
    body = ir.Lambda((*e.body.params, *params), (*b.stms, *e.body.stms), (*e.body.result, *more))
    new: ir.Exp = e.remade(inits, body)
    return ir.Stm((*stm.pat, *totals), new, stm.attrs), totals


def _row(flat: Var, begins: Var) -> Callable[[Builder, Atom, Var], Atom]:
    def begin(b: Builder, iteration: Atom, x: Var) -> Atom:
        at = b.let(ir.At(begins, (iteration,)), "begin")
        row = b.let(ir.At(flat, (Range(at, b.size_mul(shape_of(x.type)), ONE),)), "row")
        return b.let(ir.Reshape(row, shape_of(x.type)), x.name)

    return begin
