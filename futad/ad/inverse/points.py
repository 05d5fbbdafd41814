"""Points of return: states of a loop that is undone with round-off, kept on the way.

The return sweep compares its state with each that it comes to, and goes on from the one that was kept.  So round-off
grows over the iterations between two of them only, and a loop that loses digits fails at the first.

    for i < n: body      -->      for j < c: kept[j] = state; for i < stride: body

In a long loop the stretches between them are run again from their states, each when it is its turn, for more states on
the way: those of a few parts take the memory of as few states more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from futad.ad.emit import coerce, fresh_like, size_of
from futad.ad.inverse.returned import Returns
from futad.core import ir
from futad.core.budget import ATTRIBUTE, PLACE, place_of
from futad.core.builder import Builder
from futad.core.types import F64, I64, ONE, ZERO, Atom, Const, Prim, Var, elem_of, i64, shape_of

MOST = 8  # states that are kept where none is run again; few points take the most of an error that grows with n
FEWEST = 64  # iterations between two of them; less do not pay for the state


LONGEST = 384  # iterations that are undone from a state, as far as states go
ALL = 13  # states at a time where stretches are cut into parts
PARTS = (3,)  # into how many at most; one more number would cut these again


@dataclass(slots=True)
class Points:
    """`number` states of `size` bytes, one each `stride` of n iterations; `rows[k]`: those of the loop variable k.

    Where iterations can be run `again` from a state, of the variables k that are the keys of `rows`, a longer stretch
    is: it is cut into `parts`, of whose states there are as many at a time, and each of these again.
    """

    number: Atom
    size: Atom
    stride: Atom
    iterations: Atom
    rows: dict[int, Var]
    again: ir.For | None = None
    parts: list[tuple[Atom, Atom]] = field(default_factory=list)  # how many, of how many iterations

    def stretch(self, b: Builder, j: Atom) -> tuple[Atom, Atom]:
        """The first iteration after the state j, and how many there are to the next."""
        return _part(b, j, self.stride, self.iterations)

    @property
    def states(self) -> list[Atom]:
        """How many states there are at a time on each level."""
        return [self.number, *[many for many, _ in self.parts]]

    def back(
        self, b: Builder, pat: Sequence[Var], inits: Sequence[Atom], i: Var, iteration: ir.Lambda,
        exact: dict[Var, tuple[Returns, int]],
    ) -> Atom:  # fmt: skip
        """Emit the return sweep; it binds `pat`.  The largest relative deviation, an f64.

        `iteration`: the return sweep of one; its first statement binds `i`, which its first parameter does here.
        `exact`: those of its other parameters that go on from a state, the check of each, and which variable it is.
        """
        own, back = iteration.params[1:], Var("iteration", I64)

        def undone(b: Builder, at: Atom, count: Atom, values: Sequence[Atom]) -> Sequence[Atom]:
            inner = Builder()
            last = b.op("sub", b.op("add", at, count), ONE, hint="last")
            assert isinstance(i.type, Prim)
            inner.add(ir.Stm((i,), ir.Alias(inner.convert(i.type, inner.op("sub", last, back)))))
            lam = ir.Lambda((back, *own), (*inner.stms, *iteration.stms[1:]), iteration.result)
            names = ir.Renamer()
            ends = tuple([names.bind(p) for p in own])
            b.add(ir.Stm(ends, ir.For(count, tuple(values), lam)))
            return ends

        def through(
            b: Builder, level: int, at: Atom, count: Atom, start: dict[int, Atom], values: Sequence[Atom], most: Atom
        ) -> list[Atom]:
            """The values, and the deviation, after the iterations from at + count - 1 to `at` of a stretch that begins
            with the state `start`."""
            if level == len(self.parts):
                ends = [*undone(b, at, count, values)]
                for k, p in enumerate(own):
                    if p in exact:
                        returns, q = exact[p]
                        most = b.op("max", most, returns.check(b, start[q], ends[k], count))
                        now = start[q]
                        ends[k] = now if isinstance(now.type, Prim) else b.let(ir.Copy(now), p.name)
                return [*ends, most]
            number, stride = self.parts[level]
            rows = self._again(b, number, stride, at, count, start)
            cut = b.op("lt", ONE, number, hint="cut")

            def part(b: Builder, k: Atom, values: Sequence[Atom], most: Atom) -> list[Atom]:
                first, many = _part(b, k, stride, count)
                found = [_row(b, cut, rows[q], k, x) for q, x in start.items()]
                now = dict(zip(start, found, strict=True))
                return through(b, level + 1, b.op("add", at, first, hint="at"), many, now, values, most)

            return self._backwards(b, b.op("max", number, ONE), own, values, most, part)

        def stretch(b: Builder, k: Atom, values: Sequence[Atom], most: Atom) -> list[Atom]:
            at, count = self.stretch(b, k)
            start: dict[int, Atom] = {q: b.at(rows, k, hint=rows.name) for q, rows in self.rows.items()}
            return through(b, 0, at, count, start, values, most)

        *done, out = self._backwards(b, self.number, own, inits, Const(F64, 0.0), stretch)
        for v, a in zip(pat, done, strict=True):
            b.add(ir.Stm((v,), ir.Alias(a)))
        return out

    def _backwards(
        self, b: Builder, n: Atom, own: Sequence[Var], values: Sequence[Atom], most: Atom,
        each: Callable[[Builder, Atom, Sequence[Atom], Atom], list[Atom]],
    ) -> list[Atom]:  # fmt: skip
        """each(builder, k, values, deviation) for k from n - 1 to 0."""
        body, j, worst = Builder(), Var("j", I64), Var("deviation", F64)
        names = ir.Renamer()
        params = [names.bind(p) for p in own]
        k = body.op("sub", body.op("sub", n, j), ONE, hint="state")
        results = each(body, k, params, worst)
        lam = ir.Lambda((j, *params, worst), tuple(body.stms), tuple(results))
        names = ir.Renamer()
        pat = [*[names.bind(p) for p in own], Var("deviation", F64)]
        b.add(ir.Stm(tuple(pat), ir.For(n, (*values, most), lam)))
        return [*pat]

    def _again(
        self, b: Builder, number: Atom, stride: Atom, at: Atom, count: Atom, start: dict[int, Atom]
    ) -> dict[int, Var]:
        """Run the iterations of a stretch again, and keep the state that each of its parts begins with; none are kept
        of a stretch that is not cut."""
        assert self.again is not None
        n = b.op("select", b.op("lt", ONE, number), number, ZERO, hint="parts")
        rows = [b.let(ir.Scratch(elem_of(x.type), (n, *shape_of(x.type))), "kept") for x in start.values()]
        k, now, state = Var("k", I64), fresh_like(rows), fresh_like(self.again.variables)
        body = Builder()
        stored = [body.let(ir.Update(r, (k,), x), "kept") for r, x in zip(now, state, strict=True)]
        first, many = _part(body, k, stride, count)
        many = body.op("select", body.op("lt", body.op("add", k, ONE), number), many, ZERO, hint="count")
        after = iterations(body, self.again, body.op("add", at, first), many, state)
        lam = ir.Lambda((k, *now, *state), tuple(body.stms), (*stored, *after))
        begin = [coerce(b, x, p.type) for x, p in zip(start.values(), self.again.variables, strict=True)]
        finals = fresh_like(rows)
        b.add(ir.Stm((*finals, *fresh_like(state)), ir.For(n, (*rows, *begin), lam)))
        return dict(zip(start, finals, strict=True))


def _parts(b: Builder, n: Atom, states: int, most: int) -> Var:
    """Into how many parts a stretch between so many states is cut."""
    return b.op("max", b.op("min", _quotient(b, n, i64(states * LONGEST)), i64(most)), ONE, hint="parts")


def _first(b: Builder, parts: Sequence[Var]) -> Atom:
    """How many states the forward sweep keeps at most."""
    left: Atom = i64(ALL)
    for many in parts:
        left = b.op("sub", left, b.op("select", b.op("lt", ONE, many), many, ZERO))
    return b.op("select", b.op("lt", ONE, parts[0]), left, i64(MOST)) if parts else i64(MOST)


def _quotient(b: Builder, x: Atom, y: Atom) -> Var:
    """x / y, rounded up."""
    return b.op("quot", b.op("sub", b.op("add", x, y), ONE), y)


def _part(b: Builder, k: Atom, stride: Atom, n: Atom) -> tuple[Atom, Atom]:
    """Where part k of n iterations begins, and how many it has."""
    at = b.op("mul", k, stride, hint="at")
    left = b.op("max", b.op("sub", n, at), ZERO)
    return at, b.op("min", left, stride, hint="count")


def _row(b: Builder, cut: Atom, rows: Var, k: Atom, otherwise: Atom) -> Atom:
    """A row, if there are some, or another value."""
    then, orelse = b.body(lambda b: [b.at(rows, k)]), b.body(lambda b: [otherwise])
    return b.emit(ir.If(cut, then, orelse), rows.name, types=[otherwise.type])[0]


def kept(
    b: Builder, attrs: tuple[Any, ...], pat: Sequence[Var], loop: ir.For, which: Sequence[int], n: Atom,
    memory: Atom | None, again: ir.For | None = None,
) -> Points:  # fmt: skip
    """Emit the forward sweep of `loop`, of n iterations, so that the variables `which` are kept now and then; it binds
    `pat`.  `memory`: how many bytes there are for that, None for any number; `attrs`: of the loop's statement;
    `again`: the loop as it is run from states, of these variables."""
    attrs = tuple([a for a in attrs if a[0] in (ATTRIBUTE, PLACE)])
    own = loop.variables
    size = size_of(b, [own[k].type for k in which])
    parts: list[Var] = []
    states = MOST
    for most in PARTS if again is not None else ():
        parts.append(_parts(b, n, states, most))
        states = (ALL - most) * most
    number: Atom = b.op("min", b.op("quot", n, i64(FEWEST)), _first(b, parts))
    if memory is not None:
        names = " ".join([own[k].name for k in which])
        message = f"the budget is too small: where the loop begins ({names}) takes {{}} bytes, and there are {{}}"
        b.add(ir.Stm((), ir.Assert(b.op("le", size, memory), message, (size, memory), place_of(attrs))))
        number = b.op("min", number, b.op("quot", memory, b.op("max", size, ONE)))
    number = b.op("max", number, ONE, hint="points")
    stride = b.op("max", b.op("quot", b.op("sub", b.op("add", n, number), ONE), number), ONE, hint="stride")
    rows = [b.let(ir.Scratch(elem_of(own[k].type), (number, *shape_of(own[k].type))), "kept") for k in which]
    points = Points(number, size, stride, n, {}, again)
    for many in parts:
        stride = _quotient(b, stride, many)
        points.parts.append((many, stride))
    j, params = Var("j", I64), fresh_like((*rows, *own))
    body = Builder()
    now, state = params[: len(rows)], params[len(rows) :]
    stored = [body.let(ir.Update(r, (j,), state[k]), "kept") for r, k in zip(now, which, strict=True)]
    at, count = points.stretch(body, j)
    after = iterations(body, loop, at, count, state, attrs)
    lam = ir.Lambda((j, *params), tuple(body.stms), (*stored, *after))
    finals = fresh_like(rows)
    b.add(ir.Stm((*finals, *pat), ir.For(number, (*rows, *loop.inits), lam)))
    points.rows = dict(zip(which, finals, strict=True))
    return points


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
