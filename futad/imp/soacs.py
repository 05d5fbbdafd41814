"""Lowering of second-order array constructs to loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from futad.core import ir as core
from futad.core.operator import VECTOR_SUM, operator_of
from futad.core.types import I64, ArrayType, Prim, elem_of
from futad.imp import ir, parallel
from futad.imp.carried import Carried
from futad.imp.dispatch import Destination, handles
from futad.imp.elements import bind_elements, element, guarded, put, step
from futad.imp.indexing import if_inside
from futad.imp.ir import Expr, Ref
from futad.imp.loops.places import Sizes
from futad.imp.loops.schedule import MapLoop, scheduled
from futad.imp.packed import packed
from futad.imp.placement import ONE_PASS, in_step
from futad.imp.rows import by_rows, done
from futad.imp.sharing import DISJOINT
from futad.imp.transpose import reads_rows
from futad.imp.views import Acc, AccumulateInto, Joined, Mem, Value, View
from futad.legality import Legality
from futad.optimise.sequential import attributes

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

OVER_INPUT = Legality("over inputs", "a map writes a result over an input that nobody reads later")
NOT_NEEDED = OVER_INPUT.condition("input not needed", "somebody would read the result in place of the input")
AT_ITS_PLACE = OVER_INPUT.condition("read where it is written", "an iteration would read the result of another one")


@handles(core.Map)
@handles(core.Reduce)
@handles(core.Scan)
@handles(core.Fused)
def screma(lo: Lowerer, stm: core.Stm, e: core.Screma, destinations: list[Destination]) -> Sequence[Value]:
    """One loop that maps, scans and reduces; results in the order of `core.Fused`."""
    nest = SoacLoop(lo, stm, destinations)
    asked = lo.nest(stm)
    lams = [e.mapper, *[f.lam for f in e.folds]] if asked is None or asked.allows("packed") else []
    with packed(lo, lams, nest.width, asked):
        values = _lowered(nest, attributes(stm))
    done(nest)
    return values


def _lowered(nest: SoacLoop, names: frozenset[str]) -> list[Value]:
    lo = nest.lo
    asked = lo.nest(nest.stm)
    if lo.shares and names.isdisjoint(("sequential", "sequential_outer")):
        shared = parallel.nest(nest) if asked is None or asked.allows(parallel.LEGAL.name) else None
        if shared is not None:
            if asked is not None:
                asked.was(parallel.LEGAL.name)
            return shared
    outside = lo.in_parallel
    lo.in_parallel = outside or not names.isdisjoint(("sequential", "sequential_inner"))
    folds = nest.open_folds(nest.destinations)
    if not by_rows(nest, nest.inputs, folds):
        nest.loop(nest.inputs, folds)
    lo.in_parallel = outside
    return nest.results(folds)


class SoacLoop:
    """A map with scans and reductions on its first results."""

    def __init__(self, lo: Lowerer, stm: core.Stm, destinations: list[Destination]) -> None:
        e = stm.exp
        assert isinstance(e, core.Screma)
        self.lo, self.stm, self.exp, self.destinations = lo, stm, e, destinations
        self.lam, self.size, self.arrays, self.parts = e.mapper, e.width, e.arrays, e.parts
        arrays, lam = e.arrays, e.mapper
        self.width = lo.let(lo.expr(e.width), "n")
        self.inputs = [lo.value(a) for a in arrays]
        if lam is None or e.folds or not lo.target.builds_in_place:
            self.inputs = [
                lo.materialise(v) if isinstance(v, View) and isinstance(v.base, Joined) else v for v in self.inputs
            ]
        if lam is not None and lo.target.transposes:
            self.inputs = [
                lo.materialise(v) if isinstance(v, View) and reads_rows(lam, p, v) else v
                for p, v in zip(lam.params, self.inputs, strict=True)
            ]
        self.n_accs, self.first_red, self.first_map = e.accs, e.first_reduced, e.first_mapped
        self.outs: list[View | None] = []
        """Where whole-array results go."""
        self.adding: set[int] = set()
        """Those that are added to what is there."""
        for k, v in enumerate(stm.pat):
            destination = destinations[k]
            if isinstance(destination, AccumulateInto):
                self.outs.append(destination.view)
                self.adding.add(k)
            elif self.n_accs <= k < self.first_red or k >= self.first_map:
                assert isinstance(v.type, ArrayType)
                shape = (self.width, *lo.shape(v.type)[1:])
                dead = self.dead_input(k, v.type.elem, shape) if destinations[k] is None else None
                self.outs.append(dead or lo.result_of(v, shape, destinations[k]))
            else:
                self.outs.append(None)

    def dead_input(self, k: int, elem: Prim, shape: tuple[Expr, ...]) -> View | None:
        """An input that nobody reads after this map, where result `k` can go, which is made element by element of it:
        what was just read is in the cache."""
        lo, lam, e = self.lo, self.lam, self.exp
        if not lo.target.builds_in_place or lam is None or k < self.first_map or not ONE_PASS(not e.scans):
            return None
        if len(shape) == 1 and any(s.exp.lambdas() for s in lam.stms):
            return None
        free = [*lam.free(), *[x for f in e.folds for x in (*f.lam.free(), *f.neutral)]]
        for j, v in enumerate(self.inputs):
            if not isinstance(v, View) or not isinstance(v.base, Mem) or v.elem is not elem:
                continue
            if not v.dense or v.offset != ir.ZERO:
                continue
            if v.shape != shape or self.arrays[j] in lo.scopes[-1].deferred or any(r.slot is None for r in v.roots):
                continue
            if not DISJOINT(not any(o is not None and o.roots & v.roots for o in self.outs)):
                continue
            others = [x for i, x in enumerate(self.arrays) if i != j]
            dead = NOT_NEEDED(lo.can_overwrite(v, [*others, *free]))
            if dead and AT_ITS_PLACE(in_step(lo, lam, lam.params[j], lam.result[k])):
                OVER_INPUT.fired()
                return View(v.base, v.offset, v.strides, v.shape, True)
        return None

    def open_folds(self, destinations: Sequence[Destination], guard: bool = False) -> list[Carried]:
        """Declare the variables of scans and reductions, at their neutral elements; `guard`: these stay as they are."""
        lo = self.lo
        folds: list[Carried] = []
        at = self.n_accs
        for f in self.exp.folds:
            k = len(f)
            places = destinations[at : at + k] if at >= self.first_red else ()
            inits = [guarded(lo.value(a)) if guard else lo.value(a) for a in f.neutral]
            folds.append(Carried(lo, f.lam.params[:k], inits, f.lam, places))
            at += k
        return folds

    def loop(
        self, inputs: Sequence[Value], folds: list[Carried], start: Expr = ir.ZERO, bound: Expr | None = None
    ) -> None:
        """Emit the loop over [start, bound), the whole width by default; loops, if an input lies in pieces."""
        lo = self.lo
        outermost, lo.nests = lo.nests == 0, lo.nests + 1
        with lo.block() as body:
            for views, first, end in self.pieces(inputs, start, bound):
                self.one_loop(views, folds, first, end)
        lo.nests -= 1
        asked = lo.nest(self.stm)
        tiles = lo.target.tiles and (asked is None or asked.allows("overlapped-tiling"))
        if tiles and outermost and not folds and all(_is_scalar_map(s) for s in body):
            pieces = ir.Pieces(self.width, body, self.memory(inputs))
            lo.emit(pieces)
            if asked is not None:
                lo.pieces[pieces] = asked
        else:
            lo.out += body

    def memory(self, inputs: Sequence[Value]) -> dict[str, frozenset[Any]]:
        """The memory that each pointer to arrays of this map is of: roots, and the slots they have now."""
        out: dict[str, frozenset[Any]] = {}
        free = [self.lo.env.get(v) for v in self.lam.free()] if self.lam is not None else []
        for v in (*inputs, *self.outs, *free):
            for base in _bases(v):
                slots = {r.slot for r in base.roots if r.slot is not None}
                out[base.pointer] = out.get(base.pointer, frozenset()) | base.roots | slots
        return out

    def pieces(
        self, inputs: Sequence[Value], start: Expr, bound: Expr | None
    ) -> list[tuple[Sequence[Value], Expr, Expr | None]]:
        """The inputs, with the parts of the width on which they are one array each."""
        lo = self.lo
        parts: list[tuple[Sequence[Value], Expr, Expr | None]] = [(inputs, start, bound)]
        bases = {v.base: None for v in inputs if isinstance(v, View) and isinstance(v.base, Joined) and v.rank == 1}
        while bases:
            starts = next(iter(bases)).starts
            alike = [b for b in bases if b.starts == starts]
            for b in alike:
                del bases[b]
            split: list[tuple[Sequence[Value], Expr, Expr | None]] = []
            for views, first, end in parts:
                for k, at in enumerate(starts):
                    here = [_piece(v, k) if isinstance(v, View) and v.base in alike else v for v in views]
                    low = first if k == 0 else at if first == ir.ZERO else lo.let(_bound("max", first, at), "start")
                    high = end
                    if k + 1 < len(starts):
                        after = starts[k + 1]
                        high = after if end is None else lo.let(_bound("min", end, after), "end")
                    split.append((here, low, high))
            parts = split
        return parts

    def one_loop(self, inputs: Sequence[Value], folds: list[Carried], start: Expr, bound: Expr | None) -> None:
        """Emit the loop over [start, bound), the whole width by default."""
        lo = self.lo
        with lo.loop(self.width, "i", start, bound) as (i, loop):
            at = 0
            added = self.added(folds)
            values = self.elements(inputs, i, added)
            arrays: set[str] = set()
            for carried, f in zip(folds, self.exp.folds, strict=True):
                k = len(f)
                if self.n_accs + at in added:
                    at += k
                    continue
                arrays |= carried.pointers()
                results = step(lo, f.lam, carried, values[at : at + k])
                if self.n_accs + at < self.first_red:
                    for out, v in zip(self.outs[self.n_accs + at :], results, strict=False):
                        assert out is not None
                        put(lo, out, i, v)
                carried.commit(results)
                at += k
        loop.map = not arrays
        if lo.plain:
            return
        lo.out.pop()
        # All iterations read and write the arrays, one after the other unless they only add to them.
        asked = lo.nest(self.stm)
        outermost = lo.nests - lo.parts == 1
        sizes = Sizes(lo.shapes, lo.ranges, lo.lets)
        made = scheduled(
            MapLoop(loop, lo.target, lo.name, self.elements_of_results, arrays, asked, lo.before, outermost, sizes)
        )
        if not outermost:
            lo.before[made[0]] = made, loop
        lo.out += made

    def elements_of_results(self, var: str) -> set[tuple[str, Expr]]:
        """Where iteration `var` puts its elements of results that have no rows: pointers and places."""
        i = Ref(var, I64)
        return {(o.base.pointer, o.place((i,))) for o in self.outs if o and isinstance(o.base, Mem) and o.rank == 1}

    def added(self, folds: list[Carried]) -> dict[int, Destination]:
        """Sums of vectors to which maps in the body can add their results where the sums lie: by position in the
        body's results."""
        lo, lam = self.lo, self.lam
        out: dict[int, Destination] = {}
        if lam is None or not lo.target.builds_in_place or lo.shares:
            return out
        at = self.n_accs
        for carried, f in zip(folds, self.exp.folds, strict=True):
            r = lam.result[at]
            view = carried.vector() if at >= self.first_red and _adds_vectors(f.lam) else None
            once = lam.result.count(r) == 1 and not any(r in core.stm_free(s) for s in lam.stms)
            if view is not None and once and any(r in s.pat and type(s.exp) is core.Map for s in lam.stms):
                out[at] = AccumulateInto(view)
            at += len(f)
        return out

    def elements(self, inputs: Sequence[Value], i: Expr, added: dict[int, Destination] | None = None) -> list[Value]:
        """Iteration i of the map: stores what is mapped out, and returns what is scanned and reduced, where it is not
        `added` already."""
        lo, lam = self.lo, self.lam
        if lam is None:
            return [element(lo, v, i, "x") for v in inputs if isinstance(v, View)]
        bind_elements(lo, lam, lam.params, inputs, i)
        destinations: list[Destination] = []
        for k, out in enumerate(self.outs):
            if out is not None and k >= self.first_map and out.rank > 1:
                row = out.row((i,))
                destinations.append(View(row.base, lo.let(row.offset, "o"), row.strides, row.shape, row.dense))
            else:
                destinations.append(added.get(k) if added else None)
        values = lo.scope(lam, destinations, repeats=True)
        for k, v in enumerate(values[self.first_map :], self.first_map):
            if isinstance(v, Expr):
                out = self.outs[k]
                assert out is not None and isinstance(out.base, Mem)
                lo.emit(ir.Store(out.base.pointer, out.place((i,)), v, "add" if k in self.adding else None))
        return values[self.n_accs : self.first_map]

    def results(self, folds: list[Carried]) -> list[Value]:
        """The statement's values after the loop."""
        final: list[Value] = [v for v in self.inputs if isinstance(v, Acc)]
        closed = [c.finish() for c in folds]
        final += [o for o in self.outs[self.n_accs : self.first_red] if o is not None]
        for values in closed[len(self.exp.scans) :]:
            final += values
        return final + [o for o in self.outs[self.first_map :] if o is not None]


def _is_scalar_map(s: ir.Stmt) -> bool:
    """Whether the statement is a loop over the width whose iterations are independent, or a bound of one."""
    return isinstance(s, ir.Decl) or (isinstance(s, ir.For) and s.independent and not s.partials and not s.flat)


def _bases(v: Value | None) -> Iterator[Mem]:
    """The memory that a value is in."""
    base = v.base if isinstance(v, View) else None
    if isinstance(base, Mem):
        yield base
    elif isinstance(base, Joined):
        for part in base.views:
            yield from _bases(part)


def _piece(v: View, k: int) -> View:
    """The k-th array of those joined, by positions in the whole."""
    assert isinstance(v.base, Joined)
    at, part = v.base.starts[k], v.base.views[k]
    offset = ir.sub(part.offset, ir.mul(at, part.strides[0]))
    return View(part.base, offset, part.strides, v.shape, injective=False)


def _bound(op: str, a: Expr, b: Expr) -> Expr:
    return ir.Scalar(op, (a, b), I64, I64)


def _adds_vectors(f: core.Lambda) -> bool:
    """Whether the operator adds two vectors of floats."""
    return operator_of(f) == VECTOR_SUM and elem_of(f.params[0].type).is_float


# --- writes at computed places ------------------------------------------------------------------------------


def _targets(
    lo: Lowerer, dests: core.Atoms, others: Sequence[core.Atom], destinations: list[Destination]
) -> list[View]:
    """The destinations, copied unless they may be overwritten."""
    out = []
    for j, a in enumerate(dests):
        v = lo.view(a)
        rest = [d for k, d in enumerate(dests) if k != j]
        if not lo.can_overwrite(v, [*others, *rest]):
            v = lo.materialise(v, destinations[j])
        out.append(v)
    return out


@handles(core.Scatter)
def _scatter(lo: Lowerer, stm: core.Stm, e: core.Scatter, destinations: list[Destination]) -> Sequence[Value]:
    targets = _targets(lo, e.dests, [*e.idxs, *e.values], destinations)
    idxs = [lo.view(a) for a in e.idxs]
    values = [lo.view(a) for a in e.values]
    with lo.loop(lo.let(lo.expr(e.width), "n")) as (i, _loop):
        index = [lo.let(v.load((i,)), "ix") for v in idxs]
        with lo.block() as body:
            for target, v in zip(targets, values, strict=True):
                if v.rank == 1:
                    lo.store(target, index, v.load((i,)))
                else:
                    lo.copy(target.row(index), v.row((i,)))
        if_inside(lo, index, targets[0].shape, body)
    return targets


@handles(core.Hist)
def _hist(lo: Lowerer, stm: core.Stm, e: core.Hist, destinations: list[Destination]) -> Sequence[Value]:
    k = len(e.dests)
    targets = _targets(lo, e.dests, [*e.idxs, *e.values, *e.lam.free()], destinations)
    idxs = [lo.view(a) for a in e.idxs]
    values = [lo.view(a) for a in e.values]
    width = lo.let(lo.expr(e.width), "n")

    def loop(into: list[View], start: Expr, end: Expr) -> None:
        with lo.loop(width, "i", start, end) as (i, _loop):
            index = [lo.let(v.load((i,)), "ix") for v in idxs]
            with lo.block() as body:
                rows = [t.row(index) for t in into]
                inner: list[Destination] = []
                for p, row, r in zip(e.lam.params[:k], rows, e.lam.result, strict=True):
                    lo.bind(p, lo.changing(row) if row.rank else lo.let(lo.changing(row).load(()), p.name))
                    inner.append(row if row.rank and in_step(lo, e.lam, p, r) else None)
                bind_elements(lo, e.lam, e.lam.params[k:], [guarded(v) for v in values], i)
                results = lo.scope(e.lam, inner, repeats=True)
                results = [
                    lo.materialise(v) if isinstance(v, View) and k > 1 and not v.same_place(row) else v
                    for v, row in zip(results, rows, strict=True)
                ]
                for t, row, v in zip(into, rows, results, strict=True):
                    if isinstance(v, View):
                        lo.copy(row, v)
                    else:
                        assert isinstance(v, Expr)
                        lo.store(t, index, v)
            if_inside(lo, index, into[0].shape, body)

    shared = lo.shares and "sequential" not in attributes(stm)
    if not (shared and parallel.histogram(lo, e, targets, loop)):
        loop(targets, ir.ZERO, width)
    return targets
