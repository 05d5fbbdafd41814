"""Array loop variables that iterations change only by updates: saving what is overwritten instead of the array.

A *chain* leads from a loop variable x to the body's result for it through updates, and through branches and
inner loops that do the same (`while` loops if they have a bound).  The forward sweep then saves, per update,
the elements overwritten (and what else is needed to find the place again: an index, which branch, how many
iterations); the return sweep carries the array backwards, taking the updates of each iteration back.  An iteration
costs what its updates touch, not the size of the array. An empty chain is a loop variable that never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from futad.ad.emit import read_or_zero
from futad.ad.history.stripmine import bound_of, within
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.type_rules import index_type
from futad.core.types import BOOL, I64, ONE, ZERO, ArrayType, Atom, Const, Type, Var, array_of, elem_of, i64, shape_of
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

@dataclass(eq=False)
class Slot:
    """Values saved one per iteration: `dims` are the iteration counts of the enclosing loops, outermost first."""

    type: Type
    dims: tuple[Atom, ...]

    def array(self) -> ArrayType:
        t = array_of(self.type, *self.dims)
        assert isinstance(t, ArrayType)
        return t


@dataclass(eq=False)
class Write:
    """An update; `places` has a slot for every index atom that cannot be computed again."""

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
    """An inner loop; `count` has the number of iterations that a while loop took."""

    stm: ir.Stm
    body: list[Element]
    count: Slot | None = None


Element = Write | Scattered | Branch | Iterations


@dataclass
class Finder:
    """Finds the chains of one loop body.

    `bound` are the variables bound in it, `defs` the scalar operations that define some of them, `indices`
    the loop indices on the way.  Code goes to `before` the loop.  `listed`: what is overwritten goes to a list
    (`record_log.py`), for which neither sizes nor the number of iterations have to be known before.
    """

    before: Builder
    listed: bool = False

    bound: set[Var] = field(default_factory=set)
    defs: dict[Var, ir.Op] = field(default_factory=dict)
    indices: set[Var] = field(default_factory=set)
    counts: dict[Atom, Atom] = field(default_factory=dict)

    def iterations(self, bound: Atom) -> Atom:
        """The number of iterations of an inner for loop (a bound may be negative)."""
        if isinstance(bound, Const):
            return i64(max(0, bound.value))
        if bound not in self.counts:
            self.counts[bound] = self.before.op("max", bound, ZERO, hint="iterations")
        return self.counts[bound]

    def enter(self, lam: ir.Lambda) -> None:
        self.bound.update(lam.params)
        for s in lam.stms:
            self.bound.update(s.pat)
            if isinstance(s.exp, ir.Op):
                self.defs[s.pat[0]] = s.exp
            for inner in s.exp.lambdas():
                self.enter(inner)

    def fixed(self, atoms: Sequence[Atom]) -> bool:
        """Whether the atoms are known outside the loop."""
        return all(isinstance(a, Const) or a not in self.bound for a in atoms)

    def computable(self, a: Atom) -> bool:
        """Whether `a` follows from loop indices and what is known outside."""
        if isinstance(a, Const) or a not in self.bound or a in self.indices:
            return True
        d = self.defs.get(a)
        return d is not None and all(self.computable(x) for x in d.args)

    def chain(self, lam: ir.Lambda, x: Var, result: Atom, dims: tuple[Atom, ...]) -> list[Element] | None:
        """The chain from x to the result of `lam`; None if there is none."""
        out: list[Element] = []
        now = x
        for s in lam.stms:
            step = self._step(s, now, dims)
            if step is not None:
                now, element = step
                if element is not None:
                    out.append(element)
        return out if ENDS(now is result) else None

    def _step(self, s: ir.Stm, x: Var, dims: tuple[Atom, ...]) -> tuple[Var, Element | None] | None:
        """The chain's next array and what leads there, if this statement continues it."""
        e = s.exp
        if isinstance(e, ir.Alias) and e.atom is x:
            return s.pat[0], None
        if isinstance(e, ir.Update) and e.array is x:
            t = index_type(x.type, e.index)
            if not SIZES_OUTSIDE(self.fixed(shape_of(t)) or self.listed):
                return None
            lost = [a for a in e.operands()[1:-1] if isinstance(a, Var) and not COMPUTABLE(self.computable(a))]
            lost += [a for a in shape_of(t) if isinstance(a, Var) and not self.fixed((a,)) and a not in lost]
            return s.pat[0], Write(s, Slot(t, dims), {a: Slot(I64, dims) for a in lost})
        if isinstance(e, ir.Scatter) and x in e.dests and self.fixed((e.width,)):
            j = e.dests.index(x)
            t = array_of(cell(x.type, len(e.idxs)), e.width)
            made = [a for a in e.idxs if isinstance(a, Var) and not self.fixed((a,))]
            if not self.fixed(shape_of(t)) or any(elem_of(a.type) is not I64 for a in made):
                return None
            places = {a: Slot(array_of(I64, e.width), dims) for a in made}
            return s.pat[j], Scattered(s, j, Slot(t, dims), places)
        if isinstance(e, ir.If) and (x in e.then.free() or x in e.orelse.free()):
            for v, a, c in zip(s.pat, e.then.result, e.orelse.result, strict=True):
                if v.type != x.type:
                    continue
                then, orelse = self.chain(e.then, x, a, dims), self.chain(e.orelse, x, c, dims)
                if then is not None and orelse is not None and (then or orelse):
                    cond = None if CONDITION_COMPUTABLE(self.computable(e.cond)) else Slot(BOOL, dims)
                    return v, Branch(s, then, orelse, cond)
        if isinstance(e, ir.For) and x in e.inits and self.fixed((e.bound,)) and e.bound.type is I64:
            q = e.inits.index(x)
            self.indices.add(e.body.params[0])
            inner = self.chain(e.body, e.body.params[1 + q], e.body.result[q], (*dims, self.iterations(e.bound)))
            if inner is not None:
                return s.pat[q], Iterations(s, inner)
        if isinstance(e, ir.While) and x in e.inits and ((limit := bound_of(s)) is not None or self.listed):
            q = e.inits.index(x)
            inner = self.chain(e.body, e.body.params[q], e.body.result[q], (*dims, i64(limit or 0)))
            if inner is not None:
                return s.pat[q], Iterations(s, inner, Slot(I64, dims))
        return None


def cell(t: Type, rank: int) -> Type:
    """What one row of a scatter with `rank` index arrays writes."""
    rest = shape_of(t)[rank:]
    return ArrayType(elem_of(t), rest) if rest else elem_of(t)


def slots(elements: Sequence[Element]) -> list[Slot]:
    out: list[Slot] = []
    for el in elements:
        match el:
            case Write() | Scattered():
                out += [el.old, *el.places.values()]
            case Branch():
                out += ([el.cond] if el.cond else []) + slots(el.then) + slots(el.orelse)
            case Iterations():
                out += ([el.count] if el.count else []) + slots(el.body)
    return out


# --- forward: saving ----------------------------------------------------------------------------------------


def instrument(
    stms: Sequence[ir.Stm], elements: Sequence[Element], at: ir.Atoms, held: dict[Slot, Var]
) -> list[ir.Stm]:
    """The statements with saving added; `held` maps each slot to the current array of it."""
    LEGAL.fired()
    todo = {el.stm.pat[0]: el for el in elements}
    b = Builder()

    def put(slot: Slot, value: Atom) -> None:
        held[slot] = b.let(ir.Update(held[slot], at, value), "saved")

    for s in stms:
        el = todo.get(s.pat[0]) if s.pat else None
        e = s.exp
        match el:
            case None:
                b.add(s)
            case Write():
                assert isinstance(e, ir.Update)
                for a, slot in el.places.items():
                    put(slot, a)
                put(el.old, b.let(ir.At(e.array, e.index, e.check), "old"))
                b.add(s)
            case Scattered():
                assert isinstance(e, ir.Scatter)
                for a, slot in el.places.items():
                    put(slot, a)
                x = e.dests[el.which]
                t = cell(x.type, len(e.idxs))
                put(el.old, b.map_(lambda c, *ix, x=x, t=t: [read_or_zero(c, x, ix, t)], *e.idxs, hint="old")[0])
                b.add(s)
            case Branch():
                assert isinstance(e, ir.If)
                if el.cond:
                    put(el.cond, e.cond)
                inside = slots(el.then) + slots(el.orelse)
                sides = []
                for lam, part in ((e.then, el.then), (e.orelse, el.orelse)):
                    mine = dict(held)
                    body = instrument(lam.stms, part, at, mine)
                    sides.append(ir.Lambda((), tuple(body), (*lam.result, *[mine[k] for k in inside])))
                fresh = [Var("saved", k.array()) for k in inside]
                b.add(ir.Stm((*s.pat, *fresh), ir.If(e.cond, *sides), s.attrs))
                held.update(zip(inside, fresh, strict=True))
            case Iterations():
                assert isinstance(e, ir.Loop)
                loop, count = (s, None) if isinstance(e, ir.For) else counted(s)
                e = loop.exp
                assert isinstance(e, ir.Loop)
                index = e.body.params[-1] if count else e.body.params[0]
                inside = slots(el.body)
                params = [Var("saved", k.array()) for k in inside]
                mine = dict(zip(inside, params, strict=True))
                body = instrument(e.body.stms, el.body, (*at, index), mine)
                results = (*e.body.result, *[mine[k] for k in inside])
                lam = ir.Lambda((*e.body.params, *params), tuple(body), results)
                fresh = [Var("saved", k.array()) for k in inside]
                inits = (*e.inits, *[held[k] for k in inside])
                new: ir.Exp = e.remade(inits, lam)
                b.add(ir.Stm((*loop.pat, *fresh), new, s.attrs))
                held.update(zip(inside, fresh, strict=True))
                if el.count and count:
                    put(el.count, count)
    return b.stms


def counted(s: ir.Stm) -> tuple[ir.Stm, Var]:
    """The while loop with its iterations counted in one more variable, and the count; more than its bound, if it has
    one, are an error."""
    e, limit = s.exp, bound_of(s)
    assert isinstance(e, ir.While)
    iteration, count = Var("iteration", I64), Var("iterations", I64)
    b = Builder()
    if limit is not None:
        b.add(within(b.op("lt", iteration, i64(limit)), limit))
    b.extend(e.body.stms)
    result = (*e.body.result, b.op("add", iteration, ONE))
    body = ir.Lambda((*e.body.params, iteration), tuple(b.stms), result)
    return ir.Stm((*s.pat, count), ir.While((*e.inits, ZERO), body), s.attrs), count


# --- backwards: taking back -----------------------------------------------------------------------------------


@dataclass
class Undoer:
    """Emits the code that takes the updates of one iteration back.

    What it computes again (an index, a condition) the forward sweep has computed in that iteration, of the same numbers
    and in the same branch: a division fails there or not at all.

    `held`: the finished array of each slot.  `env`: loop indices of the forward code to those of the iteration.
    """

    finder: Finder
    held: dict[Slot, Var]

    def run(self, b: Builder, y: Var, elements: Sequence[Element], at: ir.Atoms, env: dict[Var, Atom]) -> Var:
        """The array before the elements, given the one after them."""
        for el in reversed(elements):
            e = el.stm.exp
            match el:
                case Write():
                    assert isinstance(e, ir.Update)
                    recomputed = self.recompute(b, at, env, el.places)
                    index = tuple(
                        [
                            Range(*[recomputed(x) for x in (i.start, i.count, i.stride)])
                            if isinstance(i, Range)
                            else recomputed(i)
                            for i in e.index
                        ]
                    )
                    old = b.let(ir.At(self.held[el.old], at), "old")
                    y = b.let(ir.Update(y, index, old), y.name)
                case Scattered():
                    assert isinstance(e, ir.Scatter)
                    recomputed = self.recompute(b, at, env, el.places)
                    old = b.let(ir.At(self.held[el.old], at), "old")
                    idxs = tuple([recomputed(a) for a in e.idxs])
                    (y,) = b.emit(ir.Scatter(e.width, (y,), idxs, (old,)), y.name)
                case Branch():
                    assert isinstance(e, ir.If)
                    y = self._branch(b, y, el, e, at, env)
                case Iterations():
                    assert isinstance(e, ir.Loop)
                    y = self._iterations(b, y, el, e, at, env)
        return y

    def _branch(self, b: Builder, y: Var, el: Branch, e: ir.If, at: ir.Atoms, env: dict[Var, Atom]) -> Var:
        if el.cond is None:
            cond = self.recompute(b, at, env, {})(e.cond)
        else:
            cond = b.let(ir.At(self.held[el.cond], at), "cond")
        then = b.body(lambda c: [self.run(c, y, el.then, at, env)])
        orelse = b.body(lambda c: [self.run(c, y, el.orelse, at, env)])
        return b.emit(ir.If(cond, then, orelse), y.name, types=[y.type])[0]

    def _iterations(
        self, b: Builder, y: Var, el: Iterations, e: ir.Loop, at: ir.Atoms, env: dict[Var, Atom]
    ) -> Var:
        if isinstance(e, ir.For):
            count = e.bound
        else:
            assert el.count is not None
            count = b.let(ir.At(self.held[el.count], at), "iterations")

        def iteration(c: Builder, j: Var, z: Var) -> list[Atom]:
            i = c.op("sub", c.op("sub", count, j), ONE)
            index = {e.body.params[0]: i} if isinstance(e, ir.For) else {}
            return [self.run(c, z, el.body, (*at, i), {**env, **index})]

        body = b.lambda_([("j", I64), (y.name, y.type)], iteration)
        return b.emit(ir.For(count, (y,), body), y.name, types=[y.type])[0]

    def recompute(
        self, b: Builder, at: ir.Atoms, env: dict[Var, Atom], places: dict[Var, Slot]
    ) -> Callable[[Atom], Atom]:
        done: dict[Var, Atom] = dict(env)

        def recomputed(a: Atom) -> Atom:
            if isinstance(a, Const):
                return a
            if a not in done:
                if a in places:
                    done[a] = b.let(ir.At(self.held[places[a]], at), a.name)
                elif a not in self.finder.bound:
                    return a
                else:
                    d = self.finder.defs[a]
                    done[a] = b.op(d.op, *[recomputed(x) for x in d.args], hint=a.name, place=d.place)
            return done[a]

        return recomputed


def room(b: Builder, slot: Slot) -> Var:
    """Uninitialised space for a slot."""
    t = slot.array()
    return b.let(ir.Scratch(elem_of(t), t.shape), "saved")
