"""The forward sweep of a loop under a budget: which states it puts on the stack that the return sweep runs from.

Of a loop of known length those at which reversing from the end would keep one.  While the length is not known, or what
the states to come will take, every 2^k-th state is kept, every other one is dropped when there is no room, and in the
end those that reversing would not have kept.
Source: Stumm and Walther, "New algorithms for optimal online checkpointing", SISC 32(2), 2010, of which the thinning is
the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from futad.ad.history.rerun import Rerun, Step, either, iterations, looped, once, push
from futad.ad.history.split import Plan, split, states, while_
from futad.ad.history.stack import Layout, Room
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ONE, ZERO, Atom, Prim, Var, i64


def _enough(b: Builder, step: Step, plan: Plan, size: Atom, fits: Atom) -> None:
    """Emit the check that the states of a loop, of `size` bytes at most, fit."""
    if plan.memory is None:
        return
    message = "the budget of {} bytes is too small: a state of the loop takes {}, and {} are the least"
    message = message.replace("the loop", f"the loop ({step.names})")
    assert plan.budget.memory is not None
    least = size if plan.leaf is None else plan.leaf.least
    values = (i64(plan.budget.memory), size, b.op("mul", least, plan.parts))
    b.add(ir.Stm((), ir.Assert(fits, message, values, plan.place)))


def empty(b: Builder, step: Step, plan: Plan, n: Atom | None, sizes: Sizes | None = None) -> tuple[Room, list[Atom]]:
    """A stack without states; `sizes` are the largest, if they change."""
    layout = Layout(step.vars)
    fixed = layout.fixed(b)
    size = sizes.bytes if sizes else fixed
    slots = states(b, plan, n, size)
    enough = b.op("le", ONE, slots)
    if plan.leaf is not None:
        enough = b.op("or", plan.leaf.whole, enough)
        slots = b.op("max", b.op("min", slots, plan.leaf.blocks), ZERO, hint="states")
    _enough(b, step, plan, size, enough)
    working = plan.working and not plan.adjoints  # the states of a derivative around have the stack in them
    rows = b.op("add", slots, b.op("min", slots, ONE), hint="rows") if working else slots
    room = {t: b.op("mul", rows, most) for t, most in sizes.elements.items()} if sizes else {}
    return Room(layout, slots, fixed, size, working=working), layout.empty(b, rows, room)


def known(
    b: Builder, emitted: ir.Stm, loop: ir.Loop, step: Step, where: Sequence[int], plan: Plan, n: Atom,
    sizes: Sizes | None = None,
) -> Rerun:  # fmt: skip
    """Emit the forward sweep of `loop` with n iterations; it binds the variables of `emitted`.

    `where`: the positions of a state's variables among those of `loop`, whose index, if it has one, is its first
    parameter.  `sizes`: the largest, if they change.
    """
    room, stack = empty(b, step, plan, n, sizes)
    k = len(stack)

    def segment(b: Builder, at: Atom, *others: Atom) -> Sequence[Atom]:
        own = others[k:]
        stack = room.layout.pushed(b, others[:k], at, [own[q] for q in where])
        free = b.op("sub", room.states, stack[0], hint="free")
        left = b.op("sub", n, at, hint="left")
        more = b.op("le", ONE, free)
        count = either(b, more, lambda b: split(b, plan.budget, b.op("add", left, ONE), free), lambda b: left)
        after = iterations(b, loop, at, count, own)
        return [b.op("add", at, count), *stack, *after]

    names = ["at", *room.layout.names]
    inits = [ZERO, *stack, *loop.inits]
    out = while_(b, inits, lambda b, at, *_: b.op("lt", at, n), segment, names, emitted.pat, loop.variables)
    stack = [*out[1 : k + 1]]
    return Rerun(step, plan, room, n, stack, room.held(b, stack), [])


def unknown(
    b: Builder, emitted: ir.Stm, loop: ir.While, step: Step, where: Sequence[int], plan: Plan, count: Var
) -> Rerun:
    """Emit the forward sweep of a loop of unknown length; it binds the variables of `emitted`, and `count` to the
    number of iterations.

    Every state whose iteration is a multiple of `stride` is kept; when there is no room, every other one is dropped.
    """
    room, stack = empty(b, step, plan, None)
    k, layout = len(stack), room.layout

    def segment(b: Builder, at: Atom, stride: Atom, *others: Atom) -> Sequence[Atom]:
        stack, own = [*others[:k]], others[k:]
        full = b.op("and", b.op("eq", stack[0], room.states), b.op("eq", b.op("rem", at, stride), ZERO), hint="full")
        thin = partial(_thinned, layout)
        stride, *stack = once(b, full, [stride, *stack], thin, ["stride", *layout.names])
        past = b.op("rem", at, stride, hint="past")
        stack = push(b, layout, b.op("eq", past, ZERO), stack, at, [own[q] for q in where])
        done, *after = _while_iterations(b, loop, b.op("sub", stride, past), own)
        return [b.op("add", at, done), stride, *stack, *after]

    names = ["at", "stride", *layout.names]
    inits = [ZERO, ONE, *stack, *loop.inits]
    out = while_(b, inits, lambda b, *vs: vs[2 + k], segment, names, emitted.pat, loop.variables)
    b.add(ir.Stm((count,), ir.Alias(out[0])))
    stack = _dropped(b, layout, plan, out[0], room.states, out[2 : k + 2])
    return Rerun(step, plan, room, out[0], stack, room.held(b, stack), [])


def _while_iterations(b: Builder, loop: ir.While, most: Atom, own: Sequence[Atom]) -> Sequence[Atom]:
    """How many iterations were run, at least one and `most` at most, and the variables after them."""

    def step(b: Builder, j: Atom, *own: Atom) -> Sequence[Atom]:
        return [b.op("add", j, ONE), *b.inline(loop.body, own)]

    def more(b: Builder, j: Atom, *own: Atom) -> Atom:
        return b.op("and", own[0], b.op("lt", j, most))

    return while_(b, [ZERO, *own], more, step, ["j"], like=loop.variables)


def _thinned(layout: Layout, b: Builder, stride: Atom, *stack: Atom) -> Sequence[Atom]:
    """Twice the stride, and every other state."""
    top, *arrays = stack
    half = b.op("shr", b.op("add", top, ONE), ONE, hint="half")

    def move(b: Builder, to: Atom, *arrays: Atom) -> Sequence[Atom]:
        return [b.op("add", to, ONE), *layout.moved(b, arrays, to, b.op("mul", to, i64(2)))]

    names = ["to", *layout.names[1:]]
    out = while_(b, [ONE, *arrays], lambda b, to, *_: b.op("lt", to, half), move, names)
    return [b.op("mul", stride, i64(2)), half, *out[1:]]


def _dropped(b: Builder, layout: Layout, plan: Plan, n: Atom, slots: Atom, stack: Sequence[Atom]) -> list[Atom]:
    """The stack with the uppermost state below each place at which the first descent of a loop of n iterations would
    keep one with room for `slots`; the room of the others is free again."""
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
            return [b.op("add", kept, ONE), *layout.moved(b, arrays, kept, after)]

        stack = once(b, found, [kept, places, *rows], keep, layout.names)
        return [target, b.op("sub", free, ONE), after, *stack]

    first = b.op("min", top, ONE)
    names = ["target", "free", "read", *layout.names]
    out = while_(b, [ZERO, free, ZERO, first, places, *rows], more, step, names)
    return [*out[3:]]


# --- states whose sizes change --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sizes:
    """The largest state of a loop: its bytes, and the most elements of each type in variables whose sizes change."""

    bytes: Atom
    elements: dict[Prim, Atom]


def _measured(
    loop: ir.Loop, where: Sequence[int], sizes: Callable[[Builder, Sequence[Atom]], Sequence[Atom]],
    names: Sequence[str],
) -> ir.Loop:  # fmt: skip
    """The loop with a last few variables: the largest of each of the `sizes` of states."""
    most = [Var(name, I64) for name in names]
    b = Builder()
    now = sizes(b, [loop.variables[q] for q in where])
    larger = [b.op("max", p, x) for p, x in zip(most, now, strict=True)]
    body = ir.Lambda((*loop.body.params, *most), (*b.stms, *loop.body.stms), (*loop.body.result, *larger))
    new = loop.remade((*loop.inits, *[ZERO] * len(most)), body)
    assert isinstance(new, ir.Loop)
    return new


def largest(b: Builder, loop: ir.Loop, step: Step, where: Sequence[int]) -> tuple[Sizes, Sequence[Atom]]:
    """Run a loop to find how large its states are; that, and what its variables end as."""
    layout = Layout(step.vars)
    fixed = layout.fixed(b)

    def sizes(b: Builder, state: Sequence[Atom]) -> Sequence[Atom]:
        return [layout.size(b, fixed, state), *layout.elements(b, state).values()]

    found = _measured(loop, where, sizes, ["bytes", *["elements"] * len(layout.elems)])
    out = looped(b, found.remade(found.inits, ir.rename(found.body)))
    k = len(loop.inits)
    return Sizes(out[k], dict(zip(layout.elems, out[k + 1 :], strict=True))), out[:k]


def changing(
    b: Builder, emitted: ir.Stm, loop: ir.Loop, step: Step, where: Sequence[int], plan: Plan, n: Atom | None, count: Var
) -> Rerun:
    """Emit the forward sweep of a loop whose states share bytes as their sizes change; n iterations, if that is known.

    It binds the variables of `emitted`, and `count` to the number of iterations.  As in `unknown` every state whose
    iteration is a multiple of `stride` is kept, and every other one dropped until the next one fits.  What cannot fit
    is not kept; in the end that is an error, which knows the largest state.
    """
    assert plan.memory is not None
    memory = plan.memory
    layout = Layout(step.vars)
    fixed = layout.fixed(b)
    slots = b.op("quot", memory, fixed, hint="slots")
    if n is not None:
        slots = b.op("min", slots, b.op("max", n, ONE), hint="slots")
    stack = layout.empty(b, slots, {t: b.op("quot", memory, i64(t.bytes)) for t in layout.elems})
    room = Room(layout, slots, fixed, fixed, memory)
    k = len(stack)
    loop = _measured(loop, where, lambda b, state: [layout.size(b, fixed, state)], ["largest"])
    size = Var("largest", I64)

    def segment(b: Builder, at: Atom, stride: Atom, most: Atom, *others: Atom) -> Sequence[Atom]:
        state = [others[k + q] for q in where]
        size = layout.size(b, fixed, state)

        def full(b: Builder, stride: Atom, top: Atom, *arrays: Atom) -> Atom:
            fits = b.op("le", ONE, room.free(b, [top, *arrays], size))
            wanted = b.op("and", b.op("le", i64(2), top), b.op("eq", b.op("rem", at, stride), ZERO))
            return b.op("and", wanted, b.op("not", fits))

        thin = partial(_thinned, layout)
        stride, *thinner = while_(b, [stride, *others[:k]], full, thin, ["stride", *layout.names])
        past = b.op("rem", at, stride, hint="past")
        fits = b.op("le", ONE, room.free(b, thinner, size))
        stack = push(b, layout, b.op("and", fits, b.op("eq", past, ZERO)), thinner, at, state)
        most = b.op("max", most, room.held(b, stack))
        count = b.op("sub", stride, past)
        if isinstance(loop, ir.While):
            done, *after = _while_iterations(b, loop, count, others[k:])
        else:
            assert n is not None
            done = b.op("min", count, b.op("sub", n, at))
            after = [*iterations(b, loop, at, done, others[k:])]
        return [b.op("add", at, done), stride, most, *stack, *after]

    names = ["at", "stride", "most", *layout.names]
    inits = [ZERO, ONE, ZERO, *stack, *loop.inits]

    def more(b: Builder, at: Atom, *others: Atom) -> Atom:
        return others[2 + k] if n is None else b.op("lt", at, n)

    last, stride, most, *out = while_(b, inits, more, segment, names, (*emitted.pat, size), loop.variables)
    b.add(ir.Stm((count,), ir.Alias(last)))
    _enough(b, step, plan, size, b.op("le", size, memory))
    end = layout.size(b, fixed, [out[k + q] for q in where])
    stack = [*out[:k]]
    each = b.op("quot", b.op("add", room.held(b, stack), stack[0]), b.op("max", stack[0], ONE), hint="each")
    fit = b.op("min", slots, b.op("quot", memory, b.op("max", each, ONE)))
    thinned = b.op("lt", ONE, stride)
    drop = partial(_dropped_of, layout, plan, last, fit)
    stack = once(b, thinned, stack, drop, layout.names)
    return Rerun(step, plan, Room(layout, slots, fixed, size, memory), last, stack, most, [end])


def _dropped_of(layout: Layout, plan: Plan, n: Atom, slots: Atom, b: Builder, *stack: Atom) -> Sequence[Atom]:
    return _dropped(b, layout, plan, n, slots, stack)
