"""reduce_by_index with any operator: the reverse rule by sorting the elements by bin.

Source: Schenck et al., SC 2022, section 5.1.2: a stable sort by bin makes each bin a segment, and segmented scans
give what comes before and after each element in its bin; the rest is the general reduction's rule (see `reduce.py`).
The sort looks only at the digits that a bin can have, so the work is O(n log bins), all of it parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.ad.emit import reexecution
from futad.ad.rules.map_adjoint import MapSweep
from futad.ad.rules.reduce import isolated, reverse
from futad.ad.sort_by_bin import Sorted, choice, flat_bins, segmented, sort_by_bin
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import FALSE, ONE, TRUE, ZERO, Atom, Var, elem_of, i64, shape_of

if TYPE_CHECKING:
    from futad.ad.reverse import Scope

@dataclass(slots=True)
class _Segments:
    """The elements by bin (neutral ones for those out of range), where segments start and end, what is combined
    up to each element (what the bin held included), and from each element on (in reverse order)."""

    at: Sorted
    held: list[Atom]
    starts: Var
    ends: Var
    elements: list[Var]
    upto: tuple[Var, ...]
    onwards: tuple[Var, ...]


def _segments(b: Builder, h: ir.Hist) -> _Segments:
    n, k, rank = h.width, len(h.dests), len(h.idxs)
    at = sort_by_bin(b, shape_of(h.dests[0].type)[:rank], h.idxs)
    held = [flat_bins(b, d, at.count, rank) for d in h.dests]

    def fetch(c: Builder, j: Var, i: Var, bin: Var) -> list[Atom]:
        # Each of those out of range is a segment by itself: neutral elements are not combined with each other, as
        # that may have no derivative.
        ok = c.op("lt", bin, at.count)

        def differs(inside: Atom, other: Atom) -> Atom:
            near = c.op("and", ok, inside)
            return choice(c, near, lambda d: [d.op("ne", d.at(at.bins, other), bin)], lambda d: [TRUE], (TRUE,))[0]

        starts = differs(c.op("lt", ZERO, j), c.op("sub", j, ONE))
        ends = differs(c.op("lt", j, c.op("sub", n, ONE)), c.op("add", j, ONE))
        return [starts, ends, *choice(c, ok, lambda d: [d.at(v, i) for v in h.values], lambda d: h.neutral, h.neutral)]

    where = b.let(ir.Iota(n, ZERO, ONE), "is")
    starts, ends, *elements = b.map_(fetch, where, at.order, at.bins, hint="w")

    def with_held(c: Builder, start: Var, bin: Var, *w: Var) -> Sequence[Atom]:
        first = c.op("and", start, c.op("lt", bin, at.count))
        return choice(c, first, lambda d: d.inline(h.lam, [*[d.at(x, bin) for x in held], *w]), lambda d: w, h.neutral)

    joined = b.map_(with_held, starts, at.bins, *elements, hint="w")
    nothing = (FALSE, *h.neutral)
    upto = b.emit(ir.Scan(n, (starts, *joined), segmented(h.lam), nothing), "upto")[1:]
    flip = ir.Lambda(h.lam.params[k:] + h.lam.params[:k], h.lam.stms, h.lam.result)
    backwards = tuple([reverse(b, n, a) for a in (ends, *elements)])
    onwards = b.emit(ir.Scan(n, backwards, segmented(flip), nothing), "onwards")[1:]
    return _Segments(at, held, starts, ends, elements, upto, onwards)


def general_hist(s: Scope, h: ir.Hist, seeds: Sequence[Atom | None]) -> None:
    """Adjoints of values, destinations and the operator's free variables.

    In a bin that holds d and gets w_1 ... w_m, with p_0 = d, p_j = f(p_{j-1}, w_j), and r_j the reduction of what
    follows w_j: p_j's adjoint is that of the first argument of f(p_j, r_j), and w_j and free variables get theirs
    from f(p_{j-1}, w_j); d's is that of the first argument of f(d, r_0).  An empty bin keeps its adjoint.
    """
    b = s.b
    g = _segments(b, h)
    rank = len(h.idxs)
    bars = [None if y is None else flat_bins(b, y, g.at.count, rank) for y in seeds]
    _pull_elements(s, h, g, bars)
    if any(map(s.is_active, h.dests)):
        _pull_held(s, h, g, bars)


def _first_adjoints(
    b: Builder, h: ir.Hist, left: Sequence[Atom], right: Sequence[Atom], bars: Sequence[Atom | None]
) -> list[Atom]:
    """The adjoints of the first arguments of f(left, right)."""
    k = len(h.dests)
    got = isolated(b).inline(h.lam, [*left, *right], [True] * k + [False] * k, bars)[:k]
    return [b.zeros(x.type) if d is None else d for d, x in zip(got, h.neutral, strict=True)]


def _pull_elements(s: Scope, h: ir.Hist, g: _Segments, bars: Sequence[Atom | None]) -> None:
    n = h.width
    for w, v in zip(g.elements, h.values, strict=True):
        s.local.add(w)
        if s.is_active(v):
            s.ctx.active.add(w)
    m = MapSweep(s, n)
    c = m.inner.b
    j, bin = m.index(), m.bind(g.at.bins)
    start, end = m.bind(g.starts), m.bind(g.ends)
    lam = reexecution(h.lam)
    given = [Var("w", x.type) for x in h.neutral]
    for p, w in zip(given, g.elements, strict=True):
        m.primal(p, w)
    ok = c.op("lt", bin, g.at.count)

    def before(d: Builder) -> Sequence[Atom]:
        previous = d.op("sub", j, ONE)
        return choice(
            d, start, lambda q: [q.at(x, bin) for x in g.held], lambda q: [q.at(x, previous) for x in g.upto], h.neutral
        )

    # What is out of range takes part in nothing: not even 0 times a derivative there, which may be NaN.
    left = choice(c, ok, before, lambda d: h.neutral, h.neutral)
    stms = [ir.Stm((p,), ir.Alias(v)) for p, v in zip(lam.params, (*left, *given), strict=True)]
    joined = ir.If(ok, ir.Lambda((), lam.stms, lam.result), ir.Lambda((), (), h.neutral))
    results = tuple([Var("p", x.type) for x in h.neutral])
    swept = m.inner.forward([*stms, ir.Stm(results, joined)])

    def onto(d: Builder) -> Sequence[Atom]:
        back = d.op("sub", d.op("sub", n, j), i64(2))
        right = choice(d, end, lambda q: h.neutral, lambda q: [q.at(x, back) for x in g.onwards], h.neutral)
        here = [None if y is None else d.at(y, bin) for y in bars]
        return _first_adjoints(d, h, results, right, here)

    totals = choice(c, ok, onto, lambda d: [d.zeros(x.type) for x in h.neutral], h.neutral)
    for r, y in zip(results, totals, strict=True):
        m.inner.add(r, y)
    m.inner.back(swept)
    m.finish()
    for w, v in zip(g.elements, h.values, strict=True):
        if (bar := s.take(w)) is not None:
            room = s.b.let(ir.Scratch(elem_of(bar.type), shape_of(bar.type)), "room")
            s.add(v, s.b.emit(ir.Scatter(n, (room,), (g.at.order,), (bar,)), "v_bar")[0])


def _pull_held(s: Scope, h: ir.Hist, g: _Segments, bars: Sequence[Atom | None]) -> None:
    b, n, k = s.b, h.width, len(h.dests)
    where = b.let(ir.Iota(n, ZERO, ONE), "is")
    outside = b.op("sub", ZERO, ONE)
    (bins,) = b.map_(lambda c, start, bin: [c.op("select", start, bin, outside)], g.starts, g.at.bins)
    none = b.let(ir.Replicate((g.at.count,), n), "none")
    (first,) = b.emit(ir.Scatter(n, (none,), (bins,), (where,)), "first")
    dense = [b.zeros(x.type) if y is None else y for x, y in zip(g.held, bars, strict=True)]

    def pull(c: Builder, at: Var, *rest: Var) -> Sequence[Atom]:
        d, y = rest[:k], rest[k:]

        def onto(q: Builder) -> Sequence[Atom]:
            back = q.op("sub", q.op("sub", n, at), ONE)
            return _first_adjoints(q, h, d, [q.at(x, back) for x in g.onwards], y)

        return choice(c, c.op("lt", at, n), onto, lambda q: y, h.neutral)

    out = b.map_(pull, first, *g.held, *dense, hint="d_bar")
    for d, x in zip(h.dests, out, strict=True):
        s.add(d, x if d.type == x.type else b.let(ir.Reshape(x, shape_of(d.type)), "d_bar"))
