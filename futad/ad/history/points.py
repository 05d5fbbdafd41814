"""Points of return: states of a loop that is undone with round-off, kept on the way.

The return sweep compares its state with each that it comes to, and goes on from the one that was kept.  So round-off
grows over the iterations between two of them only, and a loop that loses digits fails at the first.

    for i < n: body      -->      for k < number: point k; for i < stride: body

Of a short loop all points are kept; of arrays, what tells them from all that are near (`near.py`), which is half.  A
long one has more than memory is to be taken for: it is a loop over stretches under a budget of `STATES`, which are run
again from the nearest state (`rerun.py`), each when it is its turn.  So its memory does not grow with the number m of
stretches, and each is run at most t times in the forward direction, where t is the least with C(13 + t, t) > m
(`rerun.py`): 2 up to 104 stretches, 5 up to 8,567.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from futad.ad.emit import fresh_like, size_of
from futad.ad.history import descent
from futad.ad.history.near import Near, near
from futad.ad.history.rerun import Rerun, Step, iterations, looped
from futad.ad.history.split import Plan
from futad.ad.inverse.returned import Returns
from futad.core import ir
from futad.core.budget import ATTRIBUTE, PLACE, Budget, place_of, placed
from futad.core.builder import Builder
from futad.core.types import F64, I64, ONE, ZERO, Atom, Const, Prim, Var, elem_of, i64, shape_of

MOST = 8  # points where all are kept; few take the most of an error that grows with n
FEWEST = 64  # iterations between two of them; less do not pay for the state
LONG = 3072  # iterations; a longer loop has more points, and may be run again for them
STATES = 13  # states that it has at a time
STRETCHES, SHORTEST, LONGEST = 28, 384, 1024  # so many stretches, each of that many iterations


@dataclass(slots=True)
class Points:
    """`number` points, one each `stride` of n iterations, of states of `size` bytes.

    `rows[k]`: the states of the loop variable k, where all are kept; else `stack` is what they are run again from.
    `near`: what is kept of points that are no states there.
    """

    number: Atom
    size: Atom
    stride: Atom
    iterations: Atom
    rows: dict[int, Var]
    stack: Rerun | None = None
    near: Near | None = None
    runs: Atom | None = None  # of iterations forwards, in both sweeps
    most: Atom | None = None  # states that were kept at a time

    def stretch(self, b: Builder, k: Atom) -> tuple[Atom, Atom]:
        """The first iteration after the point k, and how many there are to the next."""
        at = b.op("mul", k, self.stride, hint="at")
        left = b.op("max", b.op("sub", self.iterations, at), ZERO)
        return at, b.op("min", left, self.stride, hint="count")

    def held(self, b: Builder) -> Atom:
        """Bytes of the states that are kept at a time."""
        if self.stack is None or self.most is None:
            return b.op("mul", self.number, self.size)
        held = b.op("mul", self.most, self.stack.room.size)
        if self.near is None:
            return held
        return b.op("add", held, b.op("mul", b.op("sub", self.near.each, ONE), self.near.size), hint="held")

    def back(
        self, b: Builder, pat: Sequence[Var], inits: Sequence[Atom], i: Var, iteration: ir.Lambda,
        exact: dict[Var, tuple[Returns, int]],
    ) -> Atom:  # fmt: skip
        """Emit the return sweep; it binds `pat`.  The largest relative deviation, an f64.

        `iteration`: the return sweep of one; its first statement binds `i`, which its first parameter does here.
        `exact`: those of its other parameters that go on from a state, the check of each, and which variable it is.
        """
        own = iteration.params[1:]
        body, j, worst = Builder(), Var("j", I64), Var("deviation", F64)
        params = fresh_like(own)
        number = self.number if self.near is None else self.near.states
        k = body.op("sub", body.op("sub", number, j), ONE, hint="point")
        start: dict[int, Atom] = {q: body.at(rows, k, hint=rows.name) for q, rows in self.rows.items()}
        if self.stack is not None:
            start = self.stack.begin(body, k)

        def stretch(b: Builder, k: Atom, within: Atom | None, worst: Atom, values: Sequence[Atom]) -> list[Atom]:
            """The return sweep of those from point k on, and the largest deviation; `within`: the number of the point
            among those of a state."""
            at, count = self.stretch(b, k)
            ends = self._undone(b, i, iteration, at, count, values)
            for p, (returns, q) in exact.items():
                e = own.index(p)
                now = start[q]
                if self.near is not None and within is not None:
                    now = self.near.state(b, q, within, now, ends[e], returns, count)
                worst = b.op("max", worst, returns.check(b, now, ends[e], count))
                ends[e] = now if isinstance(now.type, Prim) else b.let(ir.Copy(now), p.name)
            return [*ends, worst]

        if self.near is None:
            swept = stretch(body, k, None, worst, params)
        else:
            point, values, off, inner = Var("j", I64), fresh_like(own), Var("deviation", F64), Builder()
            within = inner.op("sub", inner.op("sub", self.near.each, point), ONE, hint="within")
            at = inner.op("add", inner.op("mul", k, self.near.each), within, hint="point")
            of_point = stretch(inner, at, within, off, values)
            code = ir.Lambda((point, *values, off), tuple(inner.stms), tuple(of_point))
            swept = looped(body, ir.For(self.near.each, (*params, worst), code))
        more = self.stack.params if self.stack is not None else []
        results = self.stack.results if self.stack is not None else []
        lam = ir.Lambda((j, *params, worst, *more), tuple(body.stms), (*swept, *results))
        deviation, after = Var("deviation", F64), fresh_like(more)
        starts = (*inits, Const(F64, 0.0), *(self.stack.inits if self.stack is not None else []))
        b.add(ir.Stm((*pat, deviation, *after), ir.For(number, starts, lam)))
        if self.stack is not None:
            runs, self.most = after[len(self.stack.stack) :][:2]
            again = b.op("mul", b.op("sub", runs, number), self.stride)  # the last stretch is not among these
            self.runs = b.op("add", self.iterations, again, hint="runs")
        return deviation

    @staticmethod
    def _undone(
        b: Builder, i: Var, iteration: ir.Lambda, at: Atom, count: Atom, values: Sequence[Atom]
    ) -> list[Atom]:
        """Emit the return sweep of `count` iterations, of which the first is `at`."""
        inner, back = Builder(), Var("iteration", I64)
        last = inner.op("sub", inner.op("add", at, count), ONE, hint="last")
        assert isinstance(i.type, Prim)
        inner.add(ir.Stm((i,), ir.Alias(inner.convert(i.type, inner.op("sub", last, back)))))
        lam = ir.Lambda((back, *iteration.params[1:]), (*inner.stms, *iteration.stms[1:]), iteration.result)
        ends = fresh_like(iteration.params[1:])
        b.add(ir.Stm(ends, ir.For(count, tuple(values), lam)))
        return [*ends]


def _quotient(b: Builder, x: Atom, y: Atom) -> Var:
    """x / y, rounded up."""
    return b.op("quot", b.op("sub", b.op("add", x, y), ONE), y)


def kept(
    b: Builder, emitted: ir.Stm, pat: Sequence[Var], loop: ir.For, which: Sequence[int], n: Atom,
    memory: Atom | None, again: ir.For | None = None, rounded: Mapping[int, Returns] | None = None,
) -> Points:  # fmt: skip
    """Emit the forward sweep of `loop`, of n iterations, so that the variables `which` are kept now and then; it binds
    `pat`.  `memory`: how many bytes there are for that, None for any number; `emitted`: the loop's statement,
    whose attributes stay; `again`: the loop as it is run from states, of these variables; `rounded`: those that come
    back with round-off, of which remainders may be kept."""
    attrs = tuple([a for a in emitted.attrs if a[0] in (ATTRIBUTE, PLACE)])
    own = loop.variables
    size = size_of(b, [own[k].type for k in which])
    number: Atom = b.op("min", b.op("quot", n, i64(FEWEST)), i64(MOST))
    if memory is not None:
        names = " ".join([own[k].name for k in which])
        message = f"the budget is too small: where the loop begins ({names}) takes {{}} bytes, and there are {{}}"
        b.add(ir.Stm((), ir.Assert(b.op("le", size, memory), message, (size, memory), place_of(placed(emitted)))))
        number = b.op("min", number, b.op("quot", memory, b.op("max", size, ONE)))
    number = b.op("max", number, ONE, hint="points")
    stride = _quotient(b, n, number)
    if again is not None:
        long = b.op("max", b.op("min", _quotient(b, n, i64(STRETCHES)), i64(LONGEST)), i64(SHORTEST))
        stride = b.op("select", b.op("lt", i64(LONG), n), long, stride)
    stride = b.op("max", stride, ONE, hint="stride")
    if again is not None:
        number = b.op("max", _quotient(b, n, stride), ONE, hint="points")
    points = Points(number, size, stride, n, {})

    def stretches(loop: ir.For, attrs: tuple[Any, ...]) -> ir.For:
        k, state, c = Var("point", I64), fresh_like(loop.variables), Builder()
        at, count = points.stretch(c, k)
        after = iterations(c, loop, at, count, state, attrs)
        return ir.For(number, loop.inits, ir.Lambda((k, *state), tuple(c.stms), tuple(after)))

    if again is not None:
        step = Step([*which], stretches(again, ()).body, {})
        plan = Plan(Budget(checkpoints=STATES - 1), working=False)  # its copies are few
        states: Atom = number
        whole = ir.Stm(tuple(pat), stretches(loop, attrs))
        points.near = None if rounded is None else near(b, own, rounded, number, size)
        if points.near is not None:
            states, whole = points.near.states, points.near.kept(loop, pat, points.stretch, attrs)
        assert isinstance(whole.exp, ir.For)
        points.stack = descent.known(b, whole, whole.exp, step, which, plan, states)
        return points
    outer = stretches(loop, attrs)
    rows = [b.let(ir.Scratch(elem_of(own[k].type), (number, *shape_of(own[k].type))), "kept") for k in which]
    now, c = fresh_like(rows), Builder()
    k, *state = outer.body.params
    stored = [c.let(ir.Update(r, (k,), state[q]), "kept") for r, q in zip(now, which, strict=True)]
    body = ir.Lambda((k, *now, *state), (*c.stms, *outer.body.stms), (*stored, *outer.body.result))
    finals = fresh_like(rows)
    b.add(ir.Stm((*finals, *pat), ir.For(number, (*rows, *loop.inits), body)))
    points.rows = dict(zip(which, finals, strict=True))
    return points
