"""Points of return that the return sweep comes near to: what tells them from all states near, in half of the memory.

A loop that is undone with round-off is compared with states on the way, and goes on from them (`points.py`).  It is
near to each by then, so remainders tell which it is (`inverse/remainders.py`).  All points of a loop follow from one
state then, and none is run again.  Where there are too many for that, each is a state, from which others are run.

    for k < states: for j < each: (keep point k each + j, if j > 0); for i < stride: body
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from futad.ad.emit import coerce, fresh_like, size_of
from futad.ad.history.rerun import iterations, looped, once
from futad.ad.inverse.remainders import can_be_told, find, keep, room
from futad.ad.inverse.remainders import size_of as remainder_size
from futad.ad.inverse.returned import Returns
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ONE, ZERO, Atom, Var, elem_of, i64, shape_of

MOST = 15  # states, whose memory they may take


@dataclass(slots=True)
class Near:
    """What is kept of states that the return sweep comes near to: of the variables `told` remainders, of the others
    `whole` values, `size` bytes a state.  `arrays`: of all these, in this order."""

    told: dict[int, Returns]
    whole: list[int]
    size: Atom
    each: Atom  # points of a state, the one that is the state among them
    states: Atom  # all together
    arrays: Sequence[Atom]

    def of(self, q: int, arrays: Sequence[Atom]) -> Sequence[Atom]:
        """Those of a variable."""
        if q in self.told:
            first = 2 * [*self.told].index(q)
            return arrays[first : first + 2]
        return [arrays[2 * len(self.told) + self.whole.index(q)]]

    def state(
        self, b: Builder, q: int, within: Atom, first: Atom, near: Atom, returns: Returns, count: Atom
    ) -> Atom:
        """The variable at a point, where it came back as `near` after `count` iterations: `first` at the first one."""
        arrays, at = self.of(q, self.arrays), b.op("sub", within, ONE)

        def there(c: Builder) -> Atom:
            if q in self.told:
                return find(c, arrays, at, near, returns, count)
            return c.at(arrays[0], at, hint=returns.name)

        then, orelse = b.body(lambda _: [first]), b.body(lambda c: [coerce(c, there(c), first.type)])
        return b.emit(ir.If(b.op("eq", within, ZERO), then, orelse), returns.name, types=[first.type])[0]

    def kept(
        self, loop: ir.For, pat: Sequence[Var], stretch: Callable[[Builder, Atom], tuple[Atom, Atom]],
        attrs: tuple[Any, ...],
    ) -> ir.Stm:  # fmt: skip
        """A loop over the states with one over their points inside, of each of which `stretch` tells the iterations;
        it keeps what there is to keep, and binds `pat`."""
        k, j = Var("state", I64), Var("j", I64)
        c = Builder()
        arrays, state = [Var("kept", a.type) for a in self.arrays], fresh_like(loop.variables)

        def keep_all(d: Builder, *now: Atom) -> Sequence[Atom]:
            at, out = d.op("sub", j, ONE), []
            for q, returns in self.told.items():
                out += keep(d, self.of(q, now), at, state[q], returns)
            return [*out, *[d.let(ir.Update(self.of(q, now)[0], (at,), state[q]), "kept") for q in self.whole]]

        kept = once(c, c.op("lt", ZERO, j), arrays, keep_all, ["kept"])
        at, count = stretch(c, c.op("add", c.op("mul", k, self.each), j))
        after = iterations(c, loop, at, count, state, attrs)
        lam = ir.Lambda((j, *state, *arrays), tuple(c.stms), (*after, *kept))
        params, outer = fresh_like(lam.params[1:]), Builder()
        results = looped(outer, ir.For(self.each, params, lam))
        inits, finals = self.arrays, fresh_like(arrays)
        self.arrays = finals
        body = ir.Lambda((k, *params), tuple(outer.stms), tuple(results))
        return ir.Stm((*pat, *finals), ir.For(self.states, (*loop.inits, *inits), body))


def near(
    b: Builder, own: Sequence[Var], rounded: Mapping[int, Returns], number: Atom, size: Atom
) -> Near | None:  # fmt: skip
    """What is kept of `number` points of states of `size` bytes, of which the variables `rounded` go on from there: all
    of them from one state, if there is memory for that, else none; None where remainders save nothing."""
    told = {q: r for q, r in rounded.items() if can_be_told(own[q].type, r)}
    if not told:
        return None
    whole = [q for q in rounded if q not in told]
    each_size = size_of(b, [own[q].type for q in whole])
    for q in told:
        each_size = b.op("add", each_size, remainder_size(b, own[q].type), hint="size")
    more = b.op("sub", number, ONE, hint="more")
    fits = b.op("le", b.op("mul", more, each_size), b.op("mul", size, i64(MOST)), hint="near")
    rest = b.op("select", fits, more, ZERO, hint="rest")
    arrays: list[Atom] = [a for q in told for a in room(b, own[q].type, rest)]
    arrays += [b.let(ir.Scratch(elem_of(own[q].type), (rest, *shape_of(own[q].type))), "kept") for q in whole]
    each, states = b.op("add", rest, ONE, hint="each"), b.op("sub", number, rest, hint="states")
    return Near(told, whole, each_size, each, states, arrays)


__all__ = ["Near", "near"]
