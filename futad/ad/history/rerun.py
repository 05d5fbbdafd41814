"""A loop whose return sweep has the states of a few iterations, and runs forward from the nearest for those of others.

The states kept are a stack: rows of one array for each variable, the iterations that they precede, and how many there
are.  The forward sweep fills it (`descent.py`).  The return sweep of an iteration takes the uppermost state, runs to
the iteration, keeping states on the way where `split.py` puts them, and takes its own off.
Everything is a loop of the core IR, so it runs wherever loops do and is differentiated like any other.
Source: Siskind and Pearlmutter, "Divide-and-conquer checkpointing for arbitrary programs with no user annotation", OMS
33, 2018; Griewank and Walther, ACM TOMS 26(1), 2000.

Note [Length]
The forward sweep goes to the end, so that it reverses one iteration more than there are: the one that needs the loop's
results.  The first descent is that of n + 1 iterations, and with s states T(n + 1, s) are run, the least possible,
where T(n, s) = t n - C(s + t, t - 1), t least with C(s + t, t) >= n.

Note [States]
A state is what later iterations need to compute what the return sweep reads: counters, invariants and arrays that the
return sweep reads from the loop's result (`final.py`) are no part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from futad.ad.emit import fresh_like, reexecution
from futad.ad.history.split import Plan, split, while_
from futad.ad.history.stack import Layout, Room
from futad.ad.history.variables import counted, varying
from futad.ad.tidy.live import live
from futad.ad.tidy.without_accumulators import strip_stm
from futad.core import ir
from futad.core.budget import merged, place_of
from futad.core.builder import Builder
from futad.core.types import I64, ONE, ZERO, AccType, Atom, Prim, Var, shape_of
from futad.legality import Legality
from futad.rewrite.dependence import iterations_of

LEGAL = Legality(
    "rerun",
    "a loop's return sweep has a few states, and runs iterations again for the others",
    worth="asked for by a budget: 201 states in place of 23,684 for the nest of benchmarks/programs/adaptive.fut",
)
ALL_NEEDED = LEGAL.condition("state complete", "an iteration that is run again reads what no state has")


@dataclass(slots=True)
class Step:
    """An iteration as it is run again: `body` takes the i64 number of the iteration and a state to the next state.
    `state`: the positions of a state's variables among the loop's; `easy`: what others are at an iteration."""

    state: list[int]
    body: ir.Lambda
    easy: dict[int, Callable[[Builder, Atom], Atom]]

    @property
    def vars(self) -> tuple[Var, ...]:
        return self.body.params[1:]

    @property
    def changes(self) -> bool:
        """Whether states differ in size."""
        return bool(Layout(self.vars).elems)

    @property
    def names(self) -> str:
        return " ".join([v.name for v in self.vars])


def step_of(loop: ir.Loop, which: Sequence[int], final: dict[int, Atom], stripped: set[Var]) -> Step:
    """The step that computes the variables `which` of a loop.

    `final`: arrays that are read from the loop's result instead; `stripped`: accumulators that are not run again.
    """
    body = reexecution(loop.body)
    own = body.params[len(body.params) - len(loop.inits) :]
    counters = {v: (start, step) for v, start, step in iterations_of(loop).counters}
    easy: dict[int, Callable[[Builder, Atom], Atom]] = {}
    for q, x in enumerate(loop.variables):
        if isinstance(x.type, AccType):
            continue
        if x in counters:
            easy[q] = counter(x, *counters[x])
        elif loop.body.result[q] is x:
            easy[q] = always(loop.inits[q])
        elif q in final:
            easy[q] = always(final[q])
    dead = {x for x in own if isinstance(x.type, AccType)} | stripped
    stms = [kept for s in body.stms if (kept := strip_stm(s, dead)) is not None]
    need = {*which}
    while True:
        state = sorted(q for q in need if q not in easy)
        code, used = live(stms, [body.result[q] for q in state])
        written = {a for s in ir.statements(code) for a in s.exp.consumes()}
        for q in [q for q in easy if q in final and own[q] in written]:
            del easy[q]
        for q in varying([own[q] for q in state], own):  # with the arrays that have these sizes
            easy.pop(q, None)
        more = {q for q, x in enumerate(own) if x in used and not isinstance(x.type, AccType)}
        more.update(varying([own[q] for q in need | more], own))
        if ALL_NEEDED(more <= need) and state == sorted(q for q in need if q not in easy):
            break
        need |= more
    at = Var("at", I64)
    b = Builder()
    for p in body.params[: len(body.params) - len(own)]:
        assert isinstance(p.type, Prim)
        b.add(ir.Stm((p,), ir.Alias(b.convert(p.type, at))))
    for q in sorted(need & easy.keys()):
        put(b, own[q], easy[q](b, at))
    results = tuple([body.result[q] for q in state])
    return Step(state, ir.Lambda((at, *[own[q] for q in state]), (*b.stms, *code), results), easy)


def put(b: Builder, x: Var, a: Atom) -> None:
    """Bind a variable, whose type may have other atoms for the sizes, to a value."""
    b.add(ir.Stm((x,), ir.Alias(a) if a.type == x.type else ir.Reshape(a, shape_of(x.type))))


def counter(x: Var, start: Atom, step: int) -> Callable[[Builder, Atom], Atom]:
    """What a variable that goes up by `step` is at an iteration."""
    at_iteration = counted(start, step)
    return lambda b, at: at_iteration(b, at, x)


def always(a: Atom) -> Callable[[Builder, Atom], Atom]:
    """What a variable that stays is."""
    return lambda b, at: a


@dataclass(slots=True)
class Rerun:
    """The stack in the return sweep: its loop carries `params` from `inits` to `results`, which `begin` makes.

    `begin(b, i)` emits code for iteration i; what the variables by their positions are at its start.  `held`: what the
    stack took at most in the forward sweep; `end`: the state after the last iteration, where states share bytes.
    """

    step: Step
    plan: Plan
    room: Room
    iterations: Atom
    stack: list[Atom]
    held: Atom
    end: list[Atom]  # bytes
    saved: Atom | None = None  # bytes that each iteration would save without a budget, if known
    inits: list[Atom] = field(init=False)  # the stack, how many iterations were run, the most it took, `end`
    params: list[Var] = field(init=False)
    results: list[Atom] = field(init=False)

    def __post_init__(self) -> None:
        self.inits = [*self.stack, self.iterations, self.held, *self.end]
        self.params = [Var(a.name if isinstance(a, Var) else "kept", a.type) for a in self.inits]

    def begin(self, b: Builder, i: Atom) -> dict[int, Atom]:
        if not self.room.working:
            return self._beside(b, i)
        layout = self.room.layout
        stack, (runs, most) = self.params[:-2], self.params[-2:]
        last = b.op("sub", stack[0], ONE, hint="last")
        first = b.at(stack[1], last, hint="first")

        def advance(b: Builder, at: Atom, most: Atom, *stack: Atom) -> Sequence[Atom]:
            state = layout.taken(b, stack, b.op("sub", stack[0], ONE, hint="last"))
            free = self.room.free(b, stack, self.room.size)
            to, kept = self._next(b, i, at, free)
            state = run(b, self.step, at, b.op("sub", to, at), state)
            before = self.room.held(b, stack)
            new = layout.pushed(b, stack, to, state)
            most = b.op("max", most, b.op("select", kept, self.room.held(b, new), before), hint="most")
            return [to, most, *new]

        LEGAL.fired()
        names = ["at", "most", *layout.names]
        out = while_(b, [first, most, *stack], lambda b, at, *_: b.op("lt", at, i), advance, names)
        _, most, top, *arrays = out
        top = b.op("sub", top, ONE, hint="top")
        state = layout.taken(b, [top, *arrays], top)
        runs = b.op("add", runs, b.op("sub", i, first), hint="runs")
        self.results = [top, *arrays, runs, most]
        return self._found(b, i, state)

    def _next(self, b: Builder, i: Atom, at: Atom, free: Atom) -> tuple[Atom, Atom]:
        """Where to run to from iteration `at` on the way to i, with room for `free` more states, and whether the state
        there is to be kept."""
        fits = b.op("le", ONE, free, hint="room")
        length = b.op("sub", b.op("add", i, ONE), at)
        to = either(b, fits, lambda b: b.op("add", at, split(b, self.plan.budget, length, free)), lambda b: i)
        return to, b.op("and", fits, b.op("lt", to, i), hint="kept")

    def _found(self, b: Builder, i: Atom, state: Sequence[Atom]) -> dict[int, Atom]:
        found = {q: how(b, i) for q, how in self.step.easy.items()}
        return found | dict(zip(self.step.state, state, strict=True))

    def _beside(self, b: Builder, i: Atom) -> dict[int, Atom]:
        """As `begin` where the stack has no room for a state that is not kept: that is beside it."""
        room, k = self.room, len(self.stack)
        stack, runs, most, after = self.params[:k], self.params[k], self.params[k + 1], self.params[k + 2 :]
        last = b.op("sub", stack[0], ONE, hint="last")
        first = b.at(stack[1], last, hint="first")
        state = room.layout.taken(b, stack, last)

        def larger(b: Builder, state: Sequence[Atom]) -> Atom:
            """Of states between this one and the iteration: neither end is larger, where sizes only grow or shrink."""
            size = room.size_of(b, state)
            return b.op("max", size, after[0]) if after else size

        def advance(b: Builder, at: Atom, most: Atom, *others: Atom) -> Sequence[Atom]:
            stack, state = [*others[:k]], [*others[k:]]
            to, kept = self._next(b, i, at, room.free(b, stack, larger(b, state)))
            state = run(b, self.step, at, b.op("sub", to, at), state)
            if room.memory is not None:
                kept = b.op("and", kept, b.op("le", ONE, room.free(b, stack, room.size_of(b, state))), hint="kept")
            stack = push(b, room.layout, kept, stack, to, state)
            return [to, b.op("max", most, room.held(b, stack)), *stack, *state]

        LEGAL.fired()
        inits = [first, most, *stack, *state]
        names = ["at", "most", *room.layout.names]
        out = while_(b, inits, lambda b, at, *_: b.op("lt", at, i), advance, names, like=self.step.vars)
        _, most, top, *others = out
        state = [*others[k - 1 :]]
        own = b.op("eq", first, i, hint="own")
        top = b.op("select", own, b.op("sub", top, ONE), top, hint="top")
        runs = b.op("add", runs, b.op("sub", i, first), hint="runs")
        self.results = [top, *others[: k - 1], runs, most, *[room.size_of(b, state) for _ in after]]
        return self._found(b, i, state)

    def told(
        self, b: Builder, last: Sequence[Atom], attrs: Sequence[Any], more: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Emit what a user may ask about it; `last`: what the loop's variables end as; `attrs` of the
        loop, `more` facts about it."""
        runs, most = last[len(self.stack) :][:2]
        size, iterations, leaf = self.room.size, self.iterations, self.plan.leaf
        held: Atom = most if self.room.layout.elems else b.op("mul", most, size)
        predicted: Atom = b.op("mul", self.room.states, size)
        if leaf is not None:  # each block is run once more for what its iterations save
            iterations = leaf.iterations
            runs = b.op("add", b.op("mul", runs, leaf.length), iterations)
            held, predicted = b.op("add", held, leaf.bytes), b.op("add", predicted, leaf.bytes)
        facts = (
            ("loop", place_of(attrs)), ("what", "loop" if merged(attrs) == 1 else f"{merged(attrs)} loops as one"),
            ("way", "rerun"), ("method", self.plan.budget.method), ("state", self.step.names), *more,
        )  # fmt: skip
        numbers: dict[str, Atom] = {"iterations": iterations, "state": size, "runs": runs, "held": held}
        if self.room.memory is None:
            numbers |= {"states": self.room.states, "predicted": predicted}
        if leaf is not None:
            numbers["block"] = leaf.length
        saved = self.saved if leaf is None else b.op("quot", leaf.bytes, b.op("max", leaf.length, ONE))
        if saved is not None and merged(attrs) == 1:  # of several each would save something else
            numbers["without"] = b.op("mul", iterations, saved)
        if self.plan.memory is not None:
            numbers["budget"] = self.plan.memory if leaf is None else b.op("add", self.plan.memory, leaf.bytes)
        b.add(ir.Stm((), ir.Measure(facts, tuple(numbers), tuple(numbers.values()))))


def either(b: Builder, cond: Atom, then: Callable[[Builder], Atom], orelse: Callable[[Builder], Atom]) -> Var:
    return b.emit(ir.If(cond, b.body(lambda b: [then(b)]), b.body(lambda b: [orelse(b)])), "k")[0]


def run(b: Builder, step: Step, at: Atom, count: Atom, state: Sequence[Atom]) -> list[Atom]:
    """The state `count` iterations after that at the start of iteration `at`."""
    i = Var("i", I64)
    own = fresh_like(step.vars)
    inner = Builder()
    out = inner.inline(step.body, [inner.op("add", at, i), *own])
    return looped(b, ir.For(count, tuple(state), ir.Lambda((i, *own), tuple(inner.stms), out)))


def iterations(
    b: Builder, loop: ir.Loop, at: Atom, count: Atom, own: Sequence[Atom], attrs: tuple[Any, ...] = ()
) -> Sequence[Atom]:
    """The variables after `count` iterations of a loop whose first parameter is its index, from `at` on."""
    i = Var("i", I64)
    params = fresh_like(loop.variables)
    inner = Builder()
    index = loop.body.params[0].type
    assert isinstance(index, Prim)
    out = inner.inline(loop.body, [inner.convert(index, inner.op("add", at, i)), *params])
    lam = ir.Lambda((i, *params), tuple(inner.stms), out)
    pat = fresh_like(params)
    b.add(ir.Stm(pat, ir.For(count, tuple(own), lam), attrs))
    return pat


def looped(b: Builder, loop: ir.Exp) -> list[Atom]:
    """Emit a loop; its results."""
    assert isinstance(loop, ir.Loop)
    pat = fresh_like(loop.variables)
    b.add(ir.Stm(pat, loop))
    return [*pat]


def push(
    b: Builder, layout: Layout, wanted: Atom, stack: Sequence[Atom], at: Atom, state: Sequence[Atom]
) -> list[Atom]:
    """The stack with a state, if it is `wanted`."""
    return once(b, wanted, stack, lambda b, *stack: layout.pushed(b, stack, at, state), layout.names)


def once(
    b: Builder, wanted: Atom, arrays: Sequence[Atom], f: Callable[..., Sequence[Atom]], names: Sequence[str]
) -> list[Atom]:
    """f(builder, *arrays) if it is `wanted`, else the arrays.

    A loop of one iteration or none, as loops update their variables in place, where the results of branches are
    copies.
    """
    count = b.op("select", wanted, ONE, ZERO)
    params = [("i", I64), *[(a.name if isinstance(a, Var) else "t", a.type) for a in arrays]]
    lam = b.lambda_(params, lambda b, i, *arrays: f(b, *arrays))
    return [*b.emit(ir.For(count, tuple(arrays), lam), *names)]
