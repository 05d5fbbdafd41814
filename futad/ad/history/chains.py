"""Array loop variables that iterations change only by updates: what an iteration overwrites, found in its body.

A *chain* leads from a loop variable x to the body's result for it through updates, and through branches and inner loops
that do the same.  The forward sweep then saves, per update, the elements overwritten, and what else is needed to find
the place again: an index, which branch, how many iterations.  The return sweep carries the array backwards, and takes
the updates of each iteration back.  An iteration costs what its updates touch, not the size of the array.  An empty
chain is a loop variable that never changes.

`threads.py` walks a chain in both sweeps; what is saved is held in arrays (`update_log.py`), or is in records
(`record_log.py`).

Note [Runs]
What a loop inside saves has a place for each of its iterations.  Where the number of these is the same in all
iterations around, the places are those of an array with one more dimension.  Where it is not, as in elimination, whose
rows get shorter, or in a `while` loop, the places of all its runs lie one after the other: a counter has how many there
are so far, and each run keeps what it was when that began.  So it is with an update of a range that changes its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from futad.ad.history.stripmine import bound_of
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.type_rules import index_type
from futad.core.types import BOOL, I64, ZERO, ArrayType, Atom, Const, Prim, Type, Var, array_of, elem_of, i64, shape_of
from futad.legality import Legality

LEGAL = Legality(
    "saved-updates",
    "of an array that iterations change by updates only what these overwrite is saved",
    worth="of an array of n elements that m iterations update m elements are saved in place of n m",
)
ENDS = LEGAL.condition("ends in the result", "the array is also changed in another way")
COMPUTABLE = LEGAL.condition("index computed again", "the index is not known in the return sweep")
CONDITION_COMPUTABLE = LEGAL.condition("condition computed again", "the branch is not known in the return sweep")
SIZES_OUTSIDE = LEGAL.condition("sizes known outside", "the memory for what is overwritten is had before the loop")
COUNTABLE = LEGAL.condition("sizes computed before", "how much is overwritten follows from what the iterations compute")
WRITTEN = LEGAL.condition("elements written", "nobody may have written an element that a branch not taken would read")
FAILS_NOT = LEGAL.condition("counted without failing", "a division fails for an iteration that does not compute it")


@dataclass(frozen=True, slots=True)
class Space:
    """The places for what is saved once an iteration: `dims` of the array that has them, outermost first, and how many
    iterations the loops around have, as far as that is known."""

    dims: tuple[Atom, ...]
    counts: tuple[Atom | None, ...]


@dataclass(eq=False)
class Slot:
    """Values that are saved, a place for each; with a `run`, their elements lie one after the other."""

    type: Type
    space: Space
    run: Run | None = None

    def array(self) -> Type:
        """The array that holds them."""
        if self.run is not None:
            return ArrayType(elem_of(self.type), (self.run.total,))
        return array_of(self.type, *self.space.dims)

    def row(self) -> tuple[tuple[Atom | None, ...], Type]:
        """How many are saved in an iteration of the outermost loop, and their type."""
        return self.space.counts[1:], self.type


@dataclass(eq=False)
class Run:
    """Places in a row: how many there are in `total`, where those begin of each time that some are taken, and how many
    that then are, if it can be computed before the loop."""

    base: Slot
    count: Atom | None
    total: Var = field(default_factory=lambda: Var("total", I64))

    def array(self) -> Type:
        """The counter."""
        return I64


@dataclass(eq=False)
class Write:
    """An update; `places` has a slot for every index atom and size that cannot be computed again."""

    stm: ir.Stm
    old: Slot
    places: dict[Var, Slot]


@dataclass(eq=False)
class Scattered:
    """A scatter into the array; `places` has a slot for every index array that is made in the loop."""

    stm: ir.Stm
    which: int
    old: Slot
    places: dict[Var, Slot]


@dataclass(eq=False)
class Branch:
    stm: ir.Stm
    then: list[Element]
    orelse: list[Element]
    cond: Slot | None


@dataclass(eq=False)
class Iterations:
    """An inner loop; `count` has the number of its iterations where that cannot be computed again; `run` their places
    where it is not always the same."""

    stm: ir.Stm
    body: list[Element]
    count: Slot | None
    run: Run | None


Element = Write | Scattered | Branch | Iterations
Elements = Sequence[Element]


@dataclass
class Finder:
    """Finds the chains of one loop body.

    `bound` are the variables bound in it, `defs` the scalar operations that define some of them, `reads` the elements
    that others are, `indices` the loop indices on the way.  Code goes to `before` the loop.  `listed`: what is
    overwritten goes to a list (`record_log.py`), for which neither sizes nor the number of iterations have to be known.
    `runs`: whether they may change from iteration to iteration.
    """

    before: Builder
    listed: bool = False
    runs: bool = True

    bound: set[Var] = field(default_factory=set)
    defs: dict[Var, ir.Op] = field(default_factory=dict)
    reads: dict[Var, tuple[Atom, ir.Atoms]] = field(default_factory=dict)
    indices: set[Var] = field(default_factory=set)
    counts: dict[Atom, Atom] = field(default_factory=dict)

    def iterations(self, bound: Atom) -> Atom:
        """A number of iterations or elements, for one that may be negative."""
        if isinstance(bound, Const):
            return i64(max(0, bound.value))
        if bound not in self.counts:
            self.counts[bound] = self.before.op("max", bound, ZERO, hint="iterations")
        return self.counts[bound]

    def enter(self, lam: ir.Lambda, always: bool = True) -> None:
        """Note a scope; `always`: whether each iteration of the loops around does it."""
        self.bound.update(lam.params)
        for s in lam.stms:
            self.bound.update(s.pat)
            if isinstance(s.exp, ir.Op):
                self.defs[s.pat[0]] = s.exp
            elif isinstance(s.exp, ir.At) and isinstance(s.pat[0].type, Prim) and WRITTEN(always):
                index = tuple([i for i in s.exp.index if not isinstance(i, Range)])
                self.reads[s.pat[0]] = s.exp.array, index
            for inner in s.exp.lambdas():
                self.enter(inner, always and not isinstance(s.exp, ir.If | ir.While))

    def fixed(self, atoms: Sequence[Atom]) -> bool:
        """Whether the atoms are known outside the loop."""
        return all(isinstance(a, Const) or a not in self.bound for a in atoms)

    def computable(self, a: Atom, reads: bool = False) -> bool:
        """Whether `a` follows from loop indices and what is known outside; `reads`: elements of arrays as well."""
        if isinstance(a, Const) or a not in self.bound or a in self.indices:
            return True
        if a in self.reads:
            array, index = self.reads[a]
            return reads and self.fixed((array,)) and all(self.computable(x, reads) for x in index)
        d = self.defs.get(a)
        return d is not None and all(self.computable(x, reads) for x in d.args)

    def countable(self, a: Atom) -> bool:
        """Whether `a`, computable, is so for iterations too that do not compute it; elements that are not there are
        zero then."""
        if not isinstance(a, Var) or a in self.indices:
            return True
        if a in self.reads:
            return all(self.countable(x) for x in self.reads[a][1])
        d = self.defs.get(a)
        if d is None:
            return True
        by = d.args[-1]
        safe = not OPS[d.op].can_fail or elem_of(by.type).is_float or (isinstance(by, Const) and by.value != 0)
        return FAILS_NOT(safe) and all(self.countable(x) for x in d.args)

    def known_before(self, a: Atom) -> bool:
        """Whether `a` can be computed for all iterations before the loop, which reads no array that is made in it."""
        return COUNTABLE(self.computable(a, reads=True)) and self.countable(a)

    def chain(self, lam: ir.Lambda, x: Var, result: Atom, space: Space) -> list[Element] | None:
        """The chain from x to the result of `lam`; None if there is none."""
        end, out = self._follow(lam, x, space)
        return out if ENDS(end is result) else None

    def _follow(self, lam: ir.Lambda, x: Var, space: Space) -> tuple[Var, list[Element]]:
        """The chain from x as far as it leads in `lam`, and its last array."""
        out: list[Element] = []
        for s in lam.stms:
            step = self._step(s, x, space)
            if step is not None:
                x, element = step
                if element is not None:
                    out.append(element)
        return x, out

    def _step(self, s: ir.Stm, x: Var, space: Space) -> tuple[Var, Element | None] | None:
        """The chain's next array and what leads there, if this statement continues it."""
        match s.exp:
            case ir.Alias(atom) if atom is x:
                return s.pat[0], None
            case ir.Update() as e if e.array is x:
                write = self._write(s, e, space)
                return None if write is None else (s.pat[0], write)
            case ir.Scatter() as e if x in e.dests and self.fixed((e.width,)):
                return self._scattered(s, e, x, space)
            case ir.If() as e if x in e.then.free() or x in e.orelse.free():
                results = [r for r in zip(s.pat, e.then.result, e.orelse.result, strict=True) if r[0].type == x.type]
                if not results:
                    return None
                # Once, not for each of the results: branches in branches would take time exponential in their depth.
                (one, then), (other, orelse) = (self._follow(side, x, space) for side in (e.then, e.orelse))
                for v, a, c in results:
                    if ENDS(a is one) and ENDS(c is other) and (then or orelse):
                        cond = None if CONDITION_COMPUTABLE(self.computable(e.cond)) else Slot(BOOL, space)
                        return v, Branch(s, then, orelse, cond)
            case ir.Loop() as e if x in e.inits:
                return self._iterations(s, e, x, space)
        return None

    def _write(self, s: ir.Stm, e: ir.Update, space: Space) -> Write | None:
        t = index_type(e.array.type, e.index)
        old = Slot(t, space)
        if not SIZES_OUTSIDE(self.fixed(shape_of(t))) and not self.listed:
            if not self.runs:
                return None
            known = all(self.known_before(n) for n in shape_of(t))
            size = self._size(shape_of(t)) if known else None
            old.run = Run(Slot(I64, space), size)
        elif not self.listed and (odd := [n for n in shape_of(t) if n not in shape_of(e.array.type)]):
            # A size may be negative where nothing is overwritten.
            sizes = {n: self.iterations(n) for n in odd}
            old.type = array_of(elem_of(t), *[sizes.get(n, n) for n in shape_of(t)])
        lost = [a for a in e.operands()[1:-1] if isinstance(a, Var) and not COMPUTABLE(self.computable(a))]
        lost += [a for a in shape_of(t) if isinstance(a, Var) and not self.fixed((a,)) and a not in lost]
        return Write(s, old, {a: Slot(I64, space) for a in lost})

    def _size(self, shape: Sequence[Atom]) -> Atom:
        """The number of elements, as one more variable that can be computed."""
        size = shape[0]
        for n in shape[1:]:
            product = Var("size", I64)
            self.bound.add(product)
            self.defs[product] = ir.Op("mul", (size, n))
            size = product
        return size

    def _scattered(self, s: ir.Stm, e: ir.Scatter, x: Var, space: Space) -> tuple[Var, Element] | None:
        j = e.dests.index(x)
        t = array_of(cell(x.type, len(e.idxs)), e.width)
        made = [a for a in e.idxs if isinstance(a, Var) and not self.fixed((a,))]
        if not self.fixed(shape_of(t)) or any(elem_of(a.type) is not I64 for a in made):
            return None
        places = {a: Slot(array_of(I64, e.width), space) for a in made}
        return s.pat[j], Scattered(s, j, Slot(t, space), places)

    def _iterations(self, s: ir.Stm, e: ir.Loop, x: Var, space: Space) -> tuple[Var, Element] | None:
        q = e.inits.index(x)
        run: Run | None = None
        count: Slot | None = None
        counts: Atom | None = None
        dims = space.dims
        if isinstance(e, ir.For):
            if e.bound.type is not I64:
                return None
            self.indices.add(e.body.params[0])
            if not COMPUTABLE(self.computable(e.bound)):
                count = Slot(I64, space)
            if SIZES_OUTSIDE(self.fixed((e.bound,))):
                counts = self.iterations(e.bound)
            elif not self.listed:
                run = Run(Slot(I64, space), e.bound if self.known_before(e.bound) else None)
        else:
            count, limit = Slot(I64, space), bound_of(s)
            if limit is not None:
                counts = i64(limit)
            elif not self.listed:
                run = Run(Slot(I64, space), None)
        if run is not None:
            if not self.runs:
                return None
            dims = (run.total,)
        elif counts is not None:
            dims = (*dims, counts)
        inner = self.chain(e.body, e.variables[q], e.body.result[q], Space(dims, (*space.counts, counts)))
        return None if inner is None else (s.pat[q], Iterations(s, inner, count, run))


def cell(t: Type, rank: int) -> Type:
    """What one row of a scatter with `rank` index arrays writes."""
    rest = shape_of(t)[rank:]
    return ArrayType(elem_of(t), rest) if rest else elem_of(t)


def saved(el: Element) -> list[Slot]:
    """What an element saves itself, in this order."""
    match el:
        case Write() | Scattered():
            return [*el.places.values(), el.old]
        case Branch():
            return [el.cond] if el.cond else []
        case Iterations():
            return [el.count] if el.count else []


def inside(el: Element) -> list[Element]:
    """The elements in an element."""
    match el:
        case Branch():
            return [*el.then, *el.orelse]
        case Iterations():
            return el.body
    return []


def slots(elements: Elements) -> list[Slot]:
    """All that they save, in arrays."""
    return [k for el in elements for k in [*saved(el), *[r.base for r in own_runs(el)], *slots(inside(el))]]


def own_runs(el: Element) -> list[Run]:
    """The runs of an element itself."""
    run = el.run if isinstance(el, Iterations) else el.old.run if isinstance(el, Write) else None
    return [] if run is None else [run]


def runs(elements: Elements) -> list[Run]:
    """All their runs."""
    return [r for el in elements for r in [*own_runs(el), *runs(inside(el))]]


def uncounted(elements: Elements) -> bool:
    """Whether the loop has to be run to find how many places there are in some run."""
    return any(r.count is None for r in runs(elements))


__all__ = [
    "LEGAL", "Branch", "Element", "Elements", "Finder", "Iterations", "Run", "Scattered", "Slot", "Space", "Write",
    "cell", "inside", "own_runs", "runs", "saved", "slots", "uncounted",
]  # fmt: skip
