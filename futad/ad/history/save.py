"""What the forward sweep of a loop saves, and how the return sweep gets a loop variable back.

A variable of the loop as it was at the start of an iteration is
* computed, if it goes up by a constant every iteration;
* taken back, if iterations change it only by updates: what each overwrites is saved (`update_log.py`);
* read from an array that holds it for every iteration, otherwise;
* read from a flat array of all iterations' elements, if its size changes (`Grower`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from futad.ad.history.dependence import iterations_of
from futad.ad.history.update_log import Element, Finder, Slot, Undoer, instrument, room, slots
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Type, Var, array_of, elem_of, shape_of


@dataclass(slots=True)
class Restore:
    """How the return sweep gets a loop variable as it was at the start of an iteration.

    `begin(b, i, after)` emits code for iteration i and gives its value.  `last`: the variable's final value if the
    return sweep carries it backwards (`after` is then the value after the iteration), else None.
    """

    begin: Callable[[Builder, Atom, Var], Atom]
    last: Atom | None = None


def varying(some: Sequence[Var], params: Sequence[Var]) -> list[int]:
    """The positions among loop variables of the sizes that `some` of them have."""
    own = {p: q for q, p in enumerate(params)}
    return sorted({own[n] for x in some for n in shape_of(x.type) if isinstance(n, Var) and n in own})


def convert(b: Builder, t: Type, a: Atom) -> Atom:
    assert isinstance(t, Prim)
    return b.convert(t, a)


class Saver:
    """Adds to a loop the variables that hold what is saved, and the statements that save.

    `index` is the i64 number of the iteration in the loop's body (code for it may be in `head`), `iterations` how many
    there are at most, `final` what the loop's variables end as; code goes to `before` the loop.
    """

    def __init__(
        self, loop: ir.Loop, final: Sequence[Var], head: Builder, index: Atom, iterations: Atom, before: Builder
    ) -> None:
        self.loop = loop
        self.own = loop.variables
        self.final = final
        self.head = head
        self.index = index
        self.iterations = iterations
        self.before = before
        self.stms = loop.body.stms
        self.params: list[Var] = []
        self.inits: list[Atom] = []
        self.results: list[Atom] = []
        self.pat: list[Var] = []
        self.restores: dict[int, Restore] = {}

    def more(self, init: Atom, name: str) -> tuple[Var, Var]:
        """One more variable: what it is in the body, and after the loop.  Its result is still to be given."""
        p, v = Var(name, init.type), Var(name, init.type)
        self.params.append(p)
        self.inits.append(init)
        self.pat.append(v)
        return p, v

    def save(self, which: Sequence[int]) -> None:
        """Save the loop variables at these positions, none of changing size."""
        counters = {v: (start, step) for v, start, step in iterations_of(self.loop).counters}
        lead = self.loop.body.params[: len(self.loop.body.params) - len(self.own)]
        finder = Finder(self.before, indices={*lead, *counters})
        if isinstance(self.index, Var):
            finder.indices.add(self.index)
        finder.enter(self.loop.body)
        chains: dict[int, list[Element]] = {}
        for q in which:
            x = self.own[q]
            if x in counters:
                self.restores[q] = Restore(counted(*counters[x]))
                continue
            found = None
            if isinstance(x.type, ArrayType):
                found = finder.chain(self.loop.body, x, self.loop.body.result[q], (self.iterations,))
            if found is None:
                self._whole(q)
            elif found:
                chains[q] = found
            else:
                self.restores[q] = Restore(_unchanged(self.loop.inits[q]))
        self._chains(finder, chains, {v: counted(*c) for v, c in counters.items()}, lead)

    def _whole(self, q: int) -> None:
        x = self.own[q]
        t = array_of(x.type, self.iterations)
        assert isinstance(t, ArrayType)
        p, v = self.more(self.before.let(ir.Scratch(elem_of(t), t.shape), f"{x.name}_saved"), f"{x.name}_saved")
        self.results.append(self.head.let(ir.Update(p, (self.index,), x), p.name))
        self.restores[q] = Restore(lambda b, t, after: b.let(ir.At(v, (t,)), x.name))

    def _chains(
        self,
        finder: Finder,
        chains: dict[int, list[Element]],
        counters: dict[Var, Callable[[Builder, Atom, Var], Atom]],
        lead: Sequence[Var],
    ) -> None:
        places = [k for c in chains.values() for k in slots(c)]
        held: dict[Slot, Var] = {}
        after: dict[Slot, Var] = {}
        for k in places:
            held[k], after[k] = self.more(room(self.before, k), "saved")
        for c in chains.values():
            self.stms = tuple(instrument(self.stms, c, (self.index,), held))
        self.results += [held[k] for k in places]
        undoer = Undoer(finder, after)
        for q, c in chains.items():

            def begin(b: Builder, t: Atom, x: Var, c: list[Element] = c) -> Atom:
                env: dict[Var, Atom] = {i: convert(b, i.type, t) for i in lead}
                if isinstance(self.index, Var):
                    env[self.index] = t
                env |= {v: at(b, t, v) for v, at in counters.items()}
                return undoer.run(b, x, c, (t,), env)

            self.restores[q] = Restore(begin, self.final[q])

    def lambda_(self) -> ir.Lambda:
        body = self.loop.body
        return ir.Lambda(
            (*body.params, *self.params), (*self.head.stms, *self.stms), (*body.result, *self.results)
        )


def _unchanged(start: Atom) -> Callable[[Builder, Atom, Var], Atom]:
    """A variable that stays `start`."""
    return lambda b, iteration, after: start


def counted(start: Atom, step: int) -> Callable[[Builder, Atom, Var], Atom]:
    """A variable that is `start` and goes up by `step`."""

    def begin(b: Builder, iteration: Atom, after: Var) -> Atom:
        assert isinstance(start.type, Prim)
        by = b.convert(start.type, iteration)
        if step != 1:
            unsigned = start.type.kind == "uint"
            by = b.op("mul", by, Const(start.type, step % (1 << start.type.bits) if unsigned else step))
        return by if isinstance(start, Const) and start.value == 0 else b.op("add", start, by)

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
            saver.restores[q] = Restore(_row(flats, places))


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
