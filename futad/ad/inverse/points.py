"""Points of return: states of a loop that is undone with round-off, kept on the way.

The return sweep compares its state with each that it comes to, and goes on from the one that was kept.  So round-off
grows over the iterations between two of them only, and a loop that loses digits fails at the first.

    for i < n: body      -->      for j < c: kept[j] = state; for i < stride: body
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from futad.ad.emit import size_of
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ONE, ZERO, Atom, Prim, Var, elem_of, i64, shape_of
from futad.errors import Span

MOST = 8  # states that are kept; the error of a sum of n terms grows with n, and few points take the most of it
FEWEST = 64  # iterations between two of them; less do not pay for the state


@dataclass(slots=True)
class Points:
    """`number` states, one each `stride` of n iterations; `rows[k]`: those of the loop variable k."""

    number: Atom
    stride: Atom
    iterations: Atom
    rows: dict[int, Var]

    def stretch(self, b: Builder, j: Atom) -> tuple[Atom, Atom]:
        """The first iteration after the state j, and how many there are to the next."""
        at = b.op("mul", j, self.stride, hint="at")
        left = b.op("max", b.op("sub", self.iterations, at), ZERO)
        return at, b.op("min", left, self.stride, hint="count")

    def back(
        self, b: Builder, inits: Sequence[Atom], pat: Sequence[Var],
        inner: Callable[[Builder, Atom, Atom, Sequence[Var]], Sequence[Atom]],
    ) -> None:  # fmt: skip
        """Emit the return sweep as a loop over stretches, the last first: `inner(builder, j, last, variables)` emits
        the one after state j, whose last iteration is `last`; its results.  `pat`: what the variables end as."""
        names = ir.Renamer()
        j, params = Var("j", I64), [names.bind(Var(v.name, v.type)) for v in pat]
        body = Builder()
        state = body.op("sub", body.op("sub", self.number, j), ONE, hint="state")
        results = inner(body, state, params)
        b.add(ir.Stm(tuple(pat), ir.For(self.number, tuple(inits), ir.Lambda((j, *params), tuple(body.stms), tuple(results)))))


def kept(
    b: Builder, emitted: ir.Stm, pat: Sequence[Var], loop: ir.For, which: Sequence[int], n: Atom, memory: Atom | None,
    place: Span | None,
) -> Points:  # fmt: skip
    """Emit the forward sweep of `loop`, of n iterations, so that the variables `which` are kept now and then; it binds
    `pat`.  `memory`: how many bytes there are for that, None for any number."""
    own = loop.variables
    size = size_of(b, [own[k].type for k in which])
    number: Atom = b.op("min", b.op("quot", n, i64(FEWEST)), i64(MOST))
    if memory is not None:
        names = " ".join([own[k].name for k in which])
        message = f"the budget is too small: where the loop begins ({names}) takes {{}} bytes, and there are {{}}"
        b.add(ir.Stm((), ir.Assert(b.op("le", size, memory), message, (size, memory), place)))
        number = b.op("min", number, b.op("quot", memory, b.op("max", size, ONE)))
    number = b.op("max", number, ONE, hint="points")
    stride = b.op("max", b.op("quot", b.op("sub", b.op("add", n, number), ONE), number), ONE, hint="stride")
    rows = [b.let(ir.Scratch(elem_of(own[k].type), (number, *shape_of(own[k].type))), "kept") for k in which]
    points = Points(number, stride, n, {})
    j, params = Var("j", I64), [Var(v.name, v.type) for v in (*rows, *own)]
    body = Builder()
    now, state = params[: len(rows)], params[len(rows) :]
    stored = [body.let(ir.Update(r, (j,), state[k]), "kept") for r, k in zip(now, which, strict=True)]
    at, count = points.stretch(body, j)
    after = iterations(body, loop, at, count, state)
    lam = ir.Lambda((j, *params), tuple(body.stms), (*stored, *after))
    finals = [Var(r.name, r.type) for r in rows]
    b.add(ir.Stm((*finals, *pat), ir.For(number, (*rows, *loop.inits), lam), emitted.attrs))
    points.rows = dict(zip(which, finals, strict=True))
    return points


def iterations(b: Builder, loop: ir.Loop, at: Atom, count: Atom, own: Sequence[Atom]) -> Sequence[Atom]:
    """The variables after `count` iterations of a loop whose first parameter is its index, from `at` on."""
    i = Var("i", I64)
    params = [Var(v.name, v.type) for v in loop.variables]
    inner = Builder()
    index = loop.body.params[0].type
    assert isinstance(index, Prim)
    out = inner.inline(loop.body, [inner.convert(index, inner.op("add", at, i)), *params])
    lam = ir.Lambda((i, *params), tuple(inner.stms), out)
    return b.emit(ir.For(count, tuple(own), lam), *[v.name for v in params])
