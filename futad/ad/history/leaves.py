"""Loops under a budget in bytes of which iterations save less than a state: several iterations between two states.

Of a large array that iterations update a few elements are saved each (`update_log.py`), w bytes where a state takes S.
Such a loop is cut: blocks of a iterations, which are what is run again from states, and the last iterations, at most a,
which are not.

    loop xs for i < n do f i xs  -->  let xs = loop xs for k < m do loop xs for j < a do f (k a + j) xs
                                      in loop xs for j < n - m a do f (m a + j) xs        where m = (n - 1) / a

Both inner loops save what they do without a budget, which the budget is to have room for: a w bytes.  Where it has for
n w bytes, a = n: there are no blocks, and no states.  Otherwise a is the power of two with the fewest runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from futad.ad.emit import fresh_like
from futad.ad.history.rerun import Step, always, counter
from futad.ad.history.save import Ways
from futad.ad.history.split import Leaf, Plan
from futad.ad.history.variables import convert, varying
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ZERO, AccType, Atom, Var, elem_of, i64, shape_of
from futad.rewrite.dependence import iterations_of

LEAF = "leaf"  # the attribute of the loops inside


def saves_less(stm: ir.Stm, ways: Ways, step: Step, plan: Plan) -> bool:
    """Whether what an iteration saves is other than a state, and the loop can be cut.  One of unknown length is run
    before to count, which pays only for updates of arrays."""
    e = stm.exp
    assert isinstance(e, ir.Loop)
    if isinstance(e, ir.While) and not ways.chains:
        return False
    if plan.memory is None or plan.adjoints or any(isinstance(x.type, AccType) for x in e.variables):
        return False
    if varying(e.variables, e.variables):
        return False
    saved = Counter([(elem_of(t), shape_of(t)) for t in ways.rows(e.variables)])
    state = Counter([(elem_of(v.type), shape_of(v.type)) for v in step.vars])
    return not state <= saved


def saved_bytes(b: Builder, stm: ir.Stm, ways: Ways, before: Builder) -> Atom:
    """Bytes that an iteration saves; `before` has the code of sizes."""
    assert isinstance(stm.exp, ir.Loop)
    b.extend(before.stms)
    total: Atom = ZERO
    for t in ways.rows(stm.exp.variables):
        total = b.op("add", total, b.op("mul", b.size_mul(shape_of(t)), i64(elem_of(t).bytes)), hint="saved")
    return total


def cut(stm: ir.Stm, n: Atom, leaf: Leaf) -> list[ir.Stm]:
    """The blocks of a loop of n iterations (the first statement), the last iterations, and variables that neither
    changes or that are counted."""
    e = stm.exp
    assert isinstance(e, ir.Loop)
    own = e.variables
    easy: dict[int, Callable[[Builder, Atom], Atom]] = {}
    counters = {v: (start, step) for v, start, step in iterations_of(e).counters}
    for q, x in enumerate(own):
        if x in counters:
            easy[q] = counter(x, *counters[x])
        elif e.body.result[q] is x:
            easy[q] = always(e.inits[q])
    carried = [q for q in range(len(own)) if q not in easy]
    b = Builder()

    def iterations(b: Builder, count: Atom, first: Atom, inits: Sequence[Atom], pat: Sequence[Var]) -> None:
        j, now = Var("j", I64), fresh_like([own[q] for q in carried])
        c = Builder()
        at = c.op("add", first, j, hint="at")
        args = {q: how(c, at) for q, how in easy.items()} | dict(zip(carried, now, strict=True))
        lead = [convert(c, p.type, at) for p in e.body.params[: len(e.body.params) - len(own)]]
        out = c.inline(e.body, [*lead, *[args[q] for q in range(len(own))]])
        lam = ir.Lambda((j, *now), tuple(c.stms), tuple([out[q] for q in carried]))
        b.add(ir.Stm(tuple(pat), ir.For(count, tuple(inits), lam), (*stm.attrs, (LEAF,))))

    k, now, done, middle = Var("k", I64), *[fresh_like([own[q] for q in carried]) for _ in range(3)]
    c = Builder()
    iterations(c, leaf.length, c.op("mul", k, leaf.length, hint="first"), now, done)
    inits = tuple([e.inits[q] for q in carried])
    b.add(ir.Stm(middle, ir.For(leaf.blocks, inits, ir.Lambda((k, *now), tuple(c.stms), done)), stm.attrs))
    iterations(b, b.op("sub", n, leaf.start), leaf.start, middle, [stm.pat[q] for q in carried])
    for q, how in easy.items():
        b.add(ir.Stm((stm.pat[q],), ir.Alias(how(b, n))))
    return b.stms


__all__ = ["LEAF", "cut", "saved_bytes", "saves_less"]
