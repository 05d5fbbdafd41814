"""A loop whose return sweep has the states of a few iterations, and runs forward from the nearest for those of others.

The states kept are a stack: rows of one array for each variable, the iterations that they precede, and how many there
are.  The forward sweep fills it as reversing from the end would (or, while it does not know how long the loop is, with
every 2^k-th state, and drops in the end what reversing would not have kept).  The return sweep of an iteration takes
the uppermost state, runs to the iteration, keeping states on the way where `split.py` puts them, and takes its own off.
Everything is a loop of the core IR, so it runs wherever loops do and is differentiated like any other.
Source: Siskind and Pearlmutter, "Divide-and-conquer checkpointing for arbitrary programs with no user annotation", OMS
33, 2018; Griewank and Walther, ACM TOMS 26(1), 2000; for unknown length Stumm and Walther, "New algorithms for optimal
online checkpointing", SISC 32(2), 2010, of which the thinning is the first step.

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

from futad.ad.emit import reexecution
from futad.ad.history.dependence import iterations_of
from futad.ad.history.save import counted, varying
from futad.ad.history.split import Plan, split, states, while_
from futad.ad.tidy.live import live
from futad.ad.tidy.without_accumulators import strip_stm
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ONE, ZERO, AccType, Atom, Prim, Var, elem_of, i64, shape_of
from futad.errors import Span
from futad.legality import Legality

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
    names: list[str]
    body: ir.Lambda
    easy: dict[int, Callable[[Builder, Atom], Atom]]


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
            easy[q] = _counted(x, *counters[x])
        elif loop.body.result[q] is x:
            easy[q] = _always(loop.inits[q])
        elif q in final:
            easy[q] = _always(final[q])
    dead = {x for x in own if isinstance(x.type, AccType)} | stripped
    stms = [kept for s in body.stms if (kept := strip_stm(s, dead)) is not None]
    need = {*which}
    while True:
        state = sorted(q for q in need if q not in easy)
        code, used = live(stms, [body.result[q] for q in state])
        written = {a for s in ir.statements(code) for a in s.exp.consumes()}
        for q in [q for q in easy if q in final and own[q] in written]:
            del easy[q]
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
        b.add(ir.Stm((own[q],), ir.Alias(easy[q](b, at))))
    results = tuple([body.result[q] for q in state])
    names = [own[q].name for q in state]
    return Step(state, names, ir.Lambda((at, *[own[q] for q in state]), (*b.stms, *code), results), easy)


def _counted(x: Var, start: Atom, step: int) -> Callable[[Builder, Atom], Atom]:
    at_iteration = counted(start, step)
    return lambda b, at: at_iteration(b, at, x)


def _always(a: Atom) -> Callable[[Builder, Atom], Atom]:
    return lambda b, at: a


@dataclass(slots=True)
class Room:
    """How many states a budget allows, and the bytes of one with its position."""

    states: Atom
    size: Atom


@dataclass(slots=True)
class Rerun:
    """The stack in the return sweep: its loop carries `params` from `inits` to `results`, which `begin` makes.

    `begin(b, i)` emits code for iteration i; what the variables by their positions are at its start.
    """

    step: Step
    plan: Plan
    room: Room
    iterations: Atom
    stack: list[Atom]  # how many there are, their iterations, and the rows of each variable
    inits: list[Atom] = field(init=False)  # the stack, and how many iterations were run and states were there at most
    params: list[Var] = field(init=False)
    results: list[Atom] = field(init=False)

    def __post_init__(self) -> None:
        self.inits = [*self.stack, self.iterations, self.stack[0]]
        self.params = [Var(a.name if isinstance(a, Var) else "kept", a.type) for a in self.inits]

    def begin(self, b: Builder, i: Atom) -> dict[int, Atom]:
        top, places, *rows, runs, most = self.params
        last = b.op("sub", top, ONE, hint="last")
        first = b.at(places, last, hint="first")
        state = [_taken(b, r, last) for r in rows]
        k = len(rows)

        def advance(b: Builder, at: Atom, most: Atom, top: Atom, places: Atom, *others: Atom) -> Sequence[Atom]:
            rows, state = others[:k], [*others[k:]]
            free = b.op("sub", self.room.states, top, hint="free")
            room = b.op("le", ONE, free, hint="room")
            length = b.op("sub", b.op("add", i, ONE), at)
            to = _either(b, room, lambda b: b.op("add", at, split(b, self.plan.budget, length, free)), lambda b: i)
            state = run(b, self.step, at, b.op("sub", to, at), state)
            kept = b.op("and", room, b.op("lt", to, i), hint="kept")
            stack = push(b, kept, [top, places, *rows], to, state)
            return [to, b.op("max", most, stack[0]), *stack, *state]

        LEGAL.fired()
        names = ["at", "most", "top", "places", *["kept"] * k, *[v.name for v in state]]
        inits = [first, most, top, places, *rows, *state]
        out = while_(b, inits, lambda b, at, *_: b.op("lt", at, i), advance, names)
        most, top, places, *others = out[1:]
        own = b.op("eq", first, i, hint="own")
        top = b.op("select", own, b.op("sub", top, ONE), top, hint="top")
        runs = b.op("add", runs, b.op("sub", i, first), hint="runs")
        self.results = [top, places, *others[:k], runs, most]
        found = {q: how(b, i) for q, how in self.step.easy.items()}
        return found | dict(zip(self.step.state, others[k:], strict=True))


    def told(self, b: Builder, last: Sequence[Atom], place: Span | None) -> None:
        """Emit what a user may ask about it; `last`: what the loop's variables end as."""
        runs, most = last[-2:]
        size = self.room.size
        facts = (
            ("loop", place), ("what", "loop"), ("way", "rerun"), ("method", self.plan.budget.method),
            ("state", " ".join(self.step.names)),
        )  # fmt: skip
        numbers: dict[str, Atom] = {
            "iterations": self.iterations,
            "states": self.room.states,
            "state": size,
            "runs": runs,
            "predicted": b.op("mul", self.room.states, size),
            "held": b.op("mul", most, size),
        }
        if self.plan.memory is not None:
            numbers["budget"] = self.plan.memory
        b.add(ir.Stm((), ir.Measure(facts, tuple(numbers), tuple(numbers.values()))))


def _taken(b: Builder, rows: Atom, at: Atom) -> Var:
    """A state's variable, copied out of the rows: they are overwritten while it is used, and a backend would else copy
    all of them."""
    row = b.at(rows, at, hint="state")
    return row if isinstance(row.type, Prim) else b.let(ir.Copy(row), "state")


def _either(b: Builder, cond: Atom, then: Callable[[Builder], Atom], orelse: Callable[[Builder], Atom]) -> Var:
    return b.emit(ir.If(cond, b.body(lambda b: [then(b)]), b.body(lambda b: [orelse(b)])), "k")[0]


def run(b: Builder, step: Step, at: Atom, count: Atom, state: Sequence[Atom]) -> list[Atom]:
    """The state `count` iterations after that at the start of iteration `at`."""
    i = Var("i", I64)
    own = [Var(a.name if isinstance(a, Var) else "state", a.type) for a in state]
    inner = Builder()
    out = inner.inline(step.body, [inner.op("add", at, i), *own])
    return [*b.emit(ir.For(count, tuple(state), ir.Lambda((i, *own), tuple(inner.stms), out)), *[v.name for v in own])]


def push(b: Builder, wanted: Atom, stack: Sequence[Atom], at: Atom, state: Sequence[Atom]) -> list[Atom]:
    """The stack with a state, if it is `wanted`."""
    return _if(b, wanted, stack, lambda b, *stack: push_always(b, stack, at, state), ["top", "places", "kept"])


def _if(
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


def empty(b: Builder, step: Step, loop: ir.Loop, plan: Plan, n: Atom | None) -> tuple[Room, list[Atom]]:
    """A stack without states."""
    types = [loop.variables[q].type for q in step.state]
    size: Atom = i64(8)
    for t in types:
        elem = elem_of(t)
        size = b.op("add", size, b.op("mul", b.size_mul(shape_of(t)), i64(elem.bytes)), hint="size")
    slots = states(b, plan, n, size)
    if plan.memory is not None:
        message = "the budget of {} bytes is too small: a state of the loop takes {}, and {} are the least"
        message = message.replace("the loop", f"the loop ({' '.join(step.names)})")
        assert plan.budget.memory is not None
        values = (i64(plan.budget.memory), size, b.op("mul", size, plan.parts))
        b.add(ir.Stm((), ir.Assert(b.op("le", ONE, slots), message, values, plan.place)))
    rows = [b.let(ir.Scratch(elem_of(t), (slots, *shape_of(t))), "kept") for t in types]
    return Room(slots, size), [ZERO, b.let(ir.Scratch(I64, (slots,)), "places"), *rows]


def known(
    b: Builder, emitted: ir.Stm, loop: ir.Loop, step: Step, where: Sequence[int], plan: Plan, n: Atom
) -> Rerun:
    """Emit the forward sweep of `loop` with n iterations; it binds the variables of `emitted`.

    `where`: the positions of a state's variables among those of `loop`, whose index, if it has one, is its first
    parameter.
    """
    room, stack = empty(b, step, loop, plan, n)
    k = len(stack)

    def segment(b: Builder, at: Atom, *others: Atom) -> Sequence[Atom]:
        stack, own = others[:k], others[k:]
        top, places, *rows = push_always(b, stack, at, [own[q] for q in where])
        free = b.op("sub", room.states, top, hint="free")
        left = b.op("sub", n, at, hint="left")
        more = b.op("le", ONE, free)
        count = _either(b, more, lambda b: split(b, plan.budget, b.op("add", left, ONE), free), lambda b: left)
        after = _iterations(b, loop, at, count, own)
        return [b.op("add", at, count), top, places, *rows, *after]

    names = ["at", "top", "places", *["kept"] * (k - 2), *[v.name for v in loop.variables]]
    inits = [ZERO, *stack, *loop.inits]
    out = while_(b, inits, lambda b, at, *_: b.op("lt", at, n), segment, names, emitted.pat)
    return Rerun(step, plan, room, n, [*out[1 : k + 1]])


def push_always(b: Builder, stack: Sequence[Atom], at: Atom, state: Sequence[Atom]) -> list[Atom]:
    """The stack, which has room, with one more state."""
    top, places, *rows = stack
    more = [b.let(ir.Update(r, (top,), x), "kept") for r, x in zip(rows, state, strict=True)]
    return [b.op("add", top, ONE), b.let(ir.Update(places, (top,), at), "places"), *more]


def _iterations(b: Builder, loop: ir.Loop, at: Atom, count: Atom, own: Sequence[Atom]) -> Sequence[Atom]:
    """The variables after `count` iterations of a loop whose first parameter is its index, from `at` on."""
    i = Var("i", I64)
    params = [Var(v.name, v.type) for v in loop.variables]
    inner = Builder()
    index = loop.body.params[0].type
    assert isinstance(index, Prim)
    out = inner.inline(loop.body, [inner.convert(index, inner.op("add", at, i)), *params])
    lam = ir.Lambda((i, *params), tuple(inner.stms), out)
    return b.emit(ir.For(count, tuple(own), lam), *[v.name for v in params])


def unknown(
    b: Builder, emitted: ir.Stm, loop: ir.While, step: Step, where: Sequence[int], plan: Plan, count: Var
) -> Rerun:
    """Emit the forward sweep of a loop of unknown length; it binds the variables of `emitted`, and `count` to the
    number of iterations.

    Every state whose iteration is a multiple of `stride` is kept; when there is no room, every other one is dropped.
    """
    room, stack = empty(b, step, loop, plan, None)
    k = len(stack)

    def segment(b: Builder, at: Atom, stride: Atom, *others: Atom) -> Sequence[Atom]:
        stack, own = [*others[:k]], others[k:]
        full = b.op("and", b.op("eq", stack[0], room.states), b.op("eq", b.op("rem", at, stride), ZERO), hint="full")
        stride, *stack = _if(b, full, [stride, *stack], _thinned, ["stride", "top", "places", "kept"])
        past = b.op("rem", at, stride, hint="past")
        stack = push(b, b.op("eq", past, ZERO), stack, at, [own[q] for q in where])
        done, *after = _while_iterations(b, loop, b.op("sub", stride, past), own)
        return [b.op("add", at, done), stride, *stack, *after]

    names = ["at", "stride", "top", "places", *["kept"] * (k - 2), *[v.name for v in loop.variables]]
    inits = [ZERO, ONE, *stack, *loop.inits]
    out = while_(b, inits, lambda b, *vs: vs[2 + k], segment, names, emitted.pat)
    b.add(ir.Stm((count,), ir.Alias(out[0])))
    return Rerun(step, plan, room, out[0], _dropped(b, plan, out[0], room.states, out[2 : k + 2]))


def _while_iterations(b: Builder, loop: ir.While, most: Atom, own: Sequence[Atom]) -> Sequence[Atom]:
    """How many iterations were run, at least one and `most` at most, and the variables after them."""
    params = [Var(v.name, v.type) for v in loop.variables]

    def step(b: Builder, j: Atom, *own: Atom) -> Sequence[Atom]:
        return [b.op("add", j, ONE), *b.inline(loop.body, own)]

    def more(b: Builder, j: Atom, *own: Atom) -> Atom:
        return b.op("and", own[0], b.op("lt", j, most))

    return while_(b, [ZERO, *own], more, step, ["j", *[v.name for v in params]])


def _thinned(b: Builder, stride: Atom, *stack: Atom) -> Sequence[Atom]:
    """Twice the stride, and every other state."""
    top, places, *rows = stack
    half = b.op("shr", b.op("add", top, ONE), ONE, hint="half")

    def move(b: Builder, to: Atom, *arrays: Atom) -> Sequence[Atom]:
        source = b.op("mul", to, i64(2))
        return [b.op("add", to, ONE), *[_moved(b, a, to, source) for a in arrays]]

    out = while_(b, [ONE, places, *rows], lambda b, to, *_: b.op("lt", to, half), move, ["to", "places", "kept"])
    return [b.op("mul", stride, i64(2)), half, *out[1:]]


def _moved(b: Builder, rows: Atom, to: Atom, source: Atom) -> Atom:
    return b.let(ir.Update(rows, (to,), _taken(b, rows, source)), "kept")


def _dropped(b: Builder, plan: Plan, n: Atom, slots: Atom, stack: Sequence[Atom]) -> list[Atom]:
    """The stack with the uppermost state below each place at which the first descent of a loop of n iterations would
    keep one; the room of the others is free again."""
    top, places, *rows = stack
    free = b.op("sub", slots, ONE, hint="free")
    end = b.op("add", n, ONE, hint="end")

    def more(b: Builder, target: Atom, free: Atom, read: Atom, *_: Atom) -> Atom:
        left = b.op("and", b.op("le", ONE, free), b.op("lt", target, n))
        return b.op("and", left, b.op("lt", b.op("add", read, ONE), top))

    def step(
        b: Builder, target: Atom, free: Atom, read: Atom, kept: Atom, places: Atom, *rows: Atom
    ) -> Sequence[Atom]:
        target = b.op("add", target, split(b, plan.budget, b.op("sub", end, target), free), hint="target")

        def below(b: Builder, at: Atom) -> Atom:
            following = b.op("add", at, ONE)
            there = b.op("lt", following, top)
            place = b.at(places, b.op("select", there, following, ZERO))
            return b.op("and", there, b.op("le", place, target))

        after = while_(b, [read], below, lambda b, at: [b.op("add", at, ONE)], ["read"])[0]
        found = b.op("lt", read, after, hint="found")

        def keep(b: Builder, kept: Atom, *arrays: Atom) -> Sequence[Atom]:
            return [b.op("add", kept, ONE), *[_moved(b, a, kept, after) for a in arrays]]

        stack = _if(b, found, [kept, places, *rows], keep, ["top", "places", "kept"])
        return [target, b.op("sub", free, ONE), after, *stack]

    first = b.op("min", top, ONE)
    names = ["target", "free", "read", "top", "places", "kept"]
    out = while_(b, [ZERO, free, ZERO, first, places, *rows], more, step, names)
    return [*out[3:]]
