"""In which versions a device runs a reduce_by_index on the host's arrays, decided.

The host takes the first whose condition holds:

    shared   sub-histograms in shared memory, where bins are few and updates many; left out if bins do not lie densely
    atomic   an atomic operation for each update
    sorted   updates sorted by bin and scanned, where there are many a bin; left out if bins do not lie densely
    locks    updates of a bin wait for a lock
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from futad.ad.sort_by_bin import choice, flat_bins, segmented, sort_by_bin
from futad.core import ir
from futad.core.builder import Builder
from futad.core.grid import Grid, Version
from futad.core.ir import Stm
from futad.core.operator import operators_of
from futad.core.scalarops import OPS
from futad.core.types import BOOL, FALSE, I64, ONE, TRUE, ZERO, Atom, Prim, Var, array_of, elem_of, shape_of
from futad.flatten.kernel import FEW_BINS, MOST_PASSES, SUB_BYTES
from futad.flatten.map_versions import Deciding
from futad.rewrite.dce import dead_code

LOCKED = "no atomic operation is its operator, so updates of a bin wait for a lock"


def histogram_grid(s: Stm, e: ir.Hist, d: Deciding) -> Grid:
    """The versions of a histogram.  One of several arrays, each with an atomic operation, is a histogram each."""
    ops = operators_of(e.lam) or ()
    atomic = bool(ops) and all(OPS[o.op].associative for o in ops)  # all of these are atomic
    if atomic and len(ops) > 1:
        apart = Version("bins-apart", body=d.instead(_each(s, e), s))
        return Grid("scope", versions=(apart,), why="bins of several arrays")
    bins = shape_of(e.dests[0].type)
    grid = Grid("histogram", (e.width, *bins[len(e.idxs) :]), work=(bins,))
    if atomic:
        cells = MOST_PASSES * (SUB_BYTES // elem_of(e.dests[0].type).bytes)
        # In no pass at all nothing would be computed, nor fail.
        few = f"0 < work && work <= {cells} && {FEW_BINS}*work < points"
        return replace(grid, versions=(Version("shared", few), Version("atomic")))
    locks = Version("locks")
    if not all(isinstance(a.type, Prim) for a in e.neutral):
        return replace(grid, versions=(locks,), why=LOCKED)
    body = d.scope(_by_sorting(e), d)
    return replace(grid, versions=(Version("sorted", "BIN_UPDATES*work < points", body), locks), why=LOCKED)


def _each(s: Stm, e: ir.Hist) -> list[Stm]:
    """A histogram for each array."""
    out, k = [], len(s.pat)
    for i, (v, dest, values, result, neutral) in enumerate(
        zip(s.pat, e.dests, e.values, e.lam.result, e.neutral, strict=True)
    ):
        lam, _ = dead_code(ir.Lambda((e.lam.params[i], e.lam.params[k + i]), e.lam.stms, (result,)))
        out.append(Stm((v,), ir.Hist(e.width, (dest,), e.idxs, (values,), ir.rename(lam), (neutral,)), s.attrs))
    return out


def _by_sorting(e: ir.Hist) -> ir.Lambda:
    """What the bins become, from these: updates are sorted by bin, and scanned; the last in each bin is what that then
    has."""
    dests = tuple([Var("bins", x.type) for x in e.dests])
    h = replace(e, dests=dests)
    b = Builder()
    n, rank = h.width, len(h.idxs)
    at = sort_by_bin(b, shape_of(h.dests[0].type), h.idxs)
    held = [flat_bins(b, d, at.count, rank) for d in h.dests]

    def differs(c: Builder, there: Atom, other: Atom, bin: Atom) -> Atom:
        return choice(c, there, lambda d: [d.op("ne", d.at(at.bins, other), bin)], lambda d: [TRUE], (TRUE,))[0]

    def element(c: Builder, j: Var, i: Var, bin: Var) -> Sequence[Atom]:
        """Whether it is its bin's first, which also has what the bin holds; those out of range are never combined."""
        inside = c.op("lt", bin, at.count)
        start = differs(c, c.op("and", inside, c.op("lt", ZERO, j)), c.op("sub", j, ONE), bin)

        def first(d: Builder) -> Sequence[Atom]:
            return d.inline(h.lam, [*[d.at(x, bin) for x in held], *[d.at(v, i) for v in h.values]])

        def other(d: Builder) -> Sequence[Atom]:
            return choice(d, inside, lambda q: [q.at(v, i) for v in h.values], lambda q: h.neutral, h.neutral)

        return [start, *choice(c, c.op("and", start, inside), first, other, h.neutral)]

    where = b.let(ir.Iota(n, ZERO, ONE), "is")
    lam = b.lambda_([("j", I64), ("i", I64), ("bin", I64)], element)
    scan = ir.Fused(n, (where, at.order, at.bins), lam, (ir.Fold(segmented(h.lam), (FALSE, *h.neutral)),), ())
    _, *upto = b.emit(scan, "upto", types=[array_of(t, n) for t in (BOOL, *[x.type for x in h.neutral])])

    def last(c: Builder, j: Var, bin: Var) -> Sequence[Atom]:
        after = c.op("add", j, ONE)
        return [c.op("select", differs(c, c.op("lt", after, n), after, bin), bin, at.count)]

    (places,) = b.map_(last, where, at.bins, hint="places")
    made = b.emit(ir.Scatter(n, tuple(held), (places,), tuple(upto)), "bins")
    shape = shape_of(h.dests[0].type)
    out = made if rank == 1 else tuple([b.let(ir.Reshape(x, shape), "bins") for x in made])
    return ir.rename(ir.Lambda(dests, tuple(b.stms), out))


__all__ = ["histogram_grid"]
