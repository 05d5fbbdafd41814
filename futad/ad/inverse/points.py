"""Points of return: states of a loop that is undone with round-off, kept on the way.

The return sweep compares its state with each that it comes to, and goes on from the one that was kept.  So round-off
grows over the iterations between two of them only, and a loop that loses digits fails at the first.

    for i < n: body      -->      for j < c: kept[j] = state; for i < stride: body
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from futad.ad.emit import fresh_like, size_of
from futad.ad.inverse.returned import Returns
from futad.core import ir
from futad.core.budget import ATTRIBUTE, PLACE, place_of
from futad.core.builder import Builder
from futad.core.types import F64, I64, ONE, ZERO, Atom, Const, Prim, Var, elem_of, i64, shape_of

MOST = 8  # states that are kept; the error of a sum of n terms grows with n, and few points take the most of it
FEWEST = 64  # iterations between two of them; less do not pay for the state


@dataclass(slots=True)
class Points:
    """`number` states of `size` bytes, one each `stride` of n iterations; `rows[k]`: those of the loop variable k."""

    number: Atom
    size: Atom
    stride: Atom
    iterations: Atom
    rows: dict[int, Var]

    def stretch(self, b: Builder, j: Atom) -> tuple[Atom, Atom]:
        """The first iteration after the state j, and how many there are to the next."""
        at = b.op("mul", j, self.stride, hint="at")
        left = b.op("max", b.op("sub", self.iterations, at), ZERO)
        return at, b.op("min", left, self.stride, hint="count")

    def back(
        self, b: Builder, pat: Sequence[Var], inits: Sequence[Atom], i: Var, iteration: ir.Lambda,
        exact: dict[Var, tuple[Returns, Var]],
    ) -> Atom:  # fmt: skip
        """Emit the return sweep; it binds `pat`.  The largest relative deviation, an f64.

        `iteration`: the return sweep of one; its first statement binds `i`, which its first parameter does here.
        `exact`: those of its other parameters that go on from a state, the check of each, and what it is in the states.
        """
        body, inner = Builder(), Builder()
        j, most = Var("j", I64), Var("deviation", F64)
        state = body.op("sub", body.op("sub", self.number, j), ONE, hint="state")
        at, count = self.stretch(body, state)
        last = body.op("sub", body.op("add", at, count), ONE, hint="last")
        own, back = iteration.params[1:], Var("iteration", I64)
        assert isinstance(i.type, Prim)
        inner.add(ir.Stm((i,), ir.Alias(inner.convert(i.type, inner.op("sub", last, back)))))
        lam = ir.Lambda((back, *own), (*inner.stms, *iteration.stms[1:]), iteration.result)
        names = ir.Renamer()
        params = [names.bind(p) for p in own]
        ends = tuple([names.bind(p) for p in own])
        body.add(ir.Stm(ends, ir.For(count, tuple(params), lam)))
        results: list[Atom] = [*ends]
        worst: Atom = most
        for k, p in enumerate(own):
            if p in exact:
                returns, rows = exact[p]
                now = body.at(rows, state, hint=p.name)
                worst = body.op("max", worst, returns.check(body, now, results[k], count))
                results[k] = now if isinstance(now.type, Prim) else body.let(ir.Copy(now), p.name)
        out = Var("deviation", F64)
        lam = ir.Lambda((j, *params, most), tuple(body.stms), (*results, worst))
        b.add(ir.Stm((*pat, out), ir.For(self.number, (*inits, Const(F64, 0.0)), lam)))
        return out


def kept(
    b: Builder, attrs: tuple[Any, ...], pat: Sequence[Var], loop: ir.For, which: Sequence[int], n: Atom,
    memory: Atom | None,
) -> Points:  # fmt: skip
    """Emit the forward sweep of `loop`, of n iterations, so that the variables `which` are kept now and then; it binds
    `pat`.  `memory`: how many bytes there are for that, None for any number; `attrs`: of the loop's statement."""
    attrs = tuple([a for a in attrs if a[0] in (ATTRIBUTE, PLACE)])
    own = loop.variables
    size = size_of(b, [own[k].type for k in which])
    number: Atom = b.op("min", b.op("quot", n, i64(FEWEST)), i64(MOST))
    if memory is not None:
        names = " ".join([own[k].name for k in which])
        message = f"the budget is too small: where the loop begins ({names}) takes {{}} bytes, and there are {{}}"
        b.add(ir.Stm((), ir.Assert(b.op("le", size, memory), message, (size, memory), place_of(attrs))))
        number = b.op("min", number, b.op("quot", memory, b.op("max", size, ONE)))
    number = b.op("max", number, ONE, hint="points")
    stride = b.op("max", b.op("quot", b.op("sub", b.op("add", n, number), ONE), number), ONE, hint="stride")
    rows = [b.let(ir.Scratch(elem_of(own[k].type), (number, *shape_of(own[k].type))), "kept") for k in which]
    points = Points(number, size, stride, n, {})
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
