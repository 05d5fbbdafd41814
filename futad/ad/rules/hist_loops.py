"""reduce_by_index with any operator, for code that runs on one thread: the reverse rule by two loops.

One element after the other: the forward loop keeps what each iteration overwrites, the backward loop turns the adjoint
of a bin into those of what it held and of the value.  O(n) in all, and nothing is sorted; `hist_by_sort.py` has the
parallel rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.ad.emit import in_range, reexecution
from futad.ad.rules.map_adjoint import MapSweep
from futad.ad.rules.reduce import isolated
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ONE, Atom, Var, array_of, shape_of

if TYPE_CHECKING:
    from futad.ad.reverse import Scope


def hist_by_loops(s: Scope, h: ir.Hist, seeds: Sequence[Atom | None]) -> None:
    """Adjoints of destinations, values and the operator's free variables."""
    cells = shape_of(h.dests[0].type)[: len(h.idxs)]
    olds = _overwritten(s.b, h, cells)
    bars, entered = _backwards(s, h, cells, olds, seeds)
    for d, x in zip(h.dests, bars, strict=True):
        s.add(d, x)
    _pull(s, h, cells, olds, entered)


def _place(c: Builder, h: ir.Hist, i: Atom, cells: ir.Atoms) -> tuple[tuple[Atom, ...], Atom]:
    """The bin of element i, and whether there is one."""
    at = tuple([c.at(ix, i) for ix in h.idxs])
    ok = in_range(c, at, cells)
    assert ok is not None
    return at, ok


def _overwritten(b: Builder, h: ir.Hist, cells: ir.Atoms) -> ir.Atoms:
    """What each iteration finds in its bin; neutral elements where there is no bin, so that nothing there is
    undefined."""
    k = len(h.dests)

    def iteration(c: Builder, i: Var, *state: Var) -> Sequence[Atom]:
        at, ok = _place(c, h, i, cells)

        def inside(d: Builder) -> list[Atom]:
            now = [d.at(x, *at) for x in state[:k]]
            new = d.inline(h.lam, [*now, *[d.at(v, i) for v in h.values]])
            kept: list[Atom] = [d.let(ir.Update(o, (i,), x)) for o, x in zip(state[k:], now, strict=True)]
            return [d.let(ir.Update(x, at, y)) for x, y in zip(state[:k], new, strict=True)] + kept

        then, orelse = c.body(inside), c.body(lambda d: list(state))
        return c.emit(ir.If(ok, then, orelse), "s", types=[x.type for x in state])

    bins = [b.let(ir.Copy(d), "bins") for d in h.dests]
    state = [*bins, *[b.let(ir.Replicate((h.width,), x), "old") for x in h.neutral]]
    loop = b.lambda_([("i", I64), *[("s", x.type) for x in state]], iteration)
    return b.emit(ir.For(h.width, tuple(state), loop), "s", types=[x.type for x in state])[k:]


def _backwards(
    s: Scope, h: ir.Hist, cells: ir.Atoms, olds: ir.Atoms, seeds: Sequence[Atom | None]
) -> tuple[ir.Atoms, ir.Atoms]:
    """The adjoints of the destinations, and those of what each iteration put into its bin."""
    b, n, k = s.b, h.width, len(h.dests)
    ts = [x.type for x in h.neutral]

    def iteration(c: Builder, j: Var, *state: Var) -> Sequence[Atom]:
        i = c.op("sub", c.op("sub", n, j), ONE)
        at, ok = _place(c, h, i, cells)

        def inside(d: Builder) -> list[Atom]:
            args: list[Atom] = [d.at(x, i) for x in (*olds, *h.values)]
            bars: list[Atom] = [d.let(ir.Copy(x), "bar") if shape_of(x.type) else x for x in
                                [d.at(x, *at) for x in state[:k]]]  # fmt: skip
            kept: list[Atom] = [d.let(ir.Update(o, (i,), x)) for o, x in zip(state[k:], bars, strict=True)]
            got = isolated(d).inline(h.lam, args, [True] * k + [False] * k, bars)[:k]
            full = [d.zeros(t) if g is None else g for g, t in zip(got, ts, strict=True)]
            return [d.let(ir.Update(x, at, g)) for x, g in zip(state[:k], full, strict=True)] + kept

        then, orelse = c.body(inside), c.body(lambda d: list(state))
        return c.emit(ir.If(ok, then, orelse), "s", types=[x.type for x in state])

    bars = [
        b.zeros(d.type) if y is None else b.let(ir.Copy(s.coerce(y, d.type)), "bar")
        for y, d in zip(seeds, h.dests, strict=True)
    ]
    state = [*bars, *[b.zeros(array_of(t, n), "entered") for t in ts]]
    loop = b.lambda_([("j", I64), *[("s", x.type) for x in state]], iteration)
    out = b.emit(ir.For(n, tuple(state), loop), "s", types=[x.type for x in state])
    return out[:k], out[k:]


def _pull(s: Scope, h: ir.Hist, cells: ir.Atoms, olds: ir.Atoms, entered: ir.Atoms) -> None:
    """Values and free variables: the operator's derivative at (what the bin held, value), where there is a bin."""
    k = len(h.dests)
    m = MapSweep(s, h.width)
    c = m.inner.b
    lam = reexecution(h.lam)
    for p, o in zip(lam.params[:k], olds, strict=True):
        m.bind(o, p)
        m.inner.local.add(p)
    given = [Var("v", x.type) for x in h.neutral]
    for p, v in zip(given, h.values, strict=True):
        m.primal(p, v)
    ok = in_range(c, tuple([m.bind(ix) for ix in h.idxs]), cells)
    assert ok is not None
    # What is out of range takes part in nothing: not even 0 times a derivative there, which may be NaN.
    stms = [ir.Stm((p,), ir.Alias(v)) for p, v in zip(lam.params[k:], given, strict=True)]
    joined = ir.If(ok, ir.Lambda((), (*stms, *lam.stms), lam.result), ir.Lambda((), (), h.neutral))
    results = tuple([Var("p", x.type) for x in h.neutral])
    swept = m.inner.forward([ir.Stm(results, joined)])
    for r, y in zip(results, entered, strict=True):
        m.inner.add(r, m.bind(y))
    m.inner.back(swept)
    m.finish()
