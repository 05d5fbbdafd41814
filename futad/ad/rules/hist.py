"""Scatter and reduce_by_index.

Source: Schenck et al., SC 2022, section 5.3 (scatter) and 5.1.2 (reduce_by_index).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from futad.ad.emit import in_range, read_or_zero, reexecution
from futad.ad.operators import canonical, ruled, split_operator
from futad.ad.rules.hist_by_sort import general_hist
from futad.ad.rules.hist_loops import hist_by_loops
from futad.ad.rules.reduce import numerators, of_the_others
from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.builder import Builder
from futad.core.operator import operator_of, row_operator
from futad.core.types import (
    BOOL,
    I64,
    ONE,
    ZERO,
    Atom,
    Prim,
    Var,
    array_of,
    elem_of,
    one,
    row_type,
    shape_of,
    zero,
)

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope


# --- scatter ------------------------------------------------------------------------------------------------


def _scatter_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Scatter)
    t.b.add(stm)
    on = [j for j, v in enumerate(stm.pat) if v in t.active]
    dests = tuple([t.dense(e.dests[j]) for j in on])
    values = tuple([t.dense(e.values[j]) for j in on])
    pat = tuple([t.fresh(stm.pat[j]) for j in on])
    t.b.add(ir.Stm(pat, ir.Scatter(e.width, dests, e.idxs, values)))


def _scatter_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Scatter)
    b = s.b
    seeds = [s.take(v) for v in stm.pat]
    rank = len(e.idxs)
    if any(y is not None and s.is_active(v) for y, v in zip(seeds, e.values, strict=True)):
        # Where several values go to one place, only the one that stayed gets the adjoint.
        cells = shape_of(stm.pat[0].type)[:rank]
        iterations = b.let(ir.Iota(e.width, ZERO, ONE), "is")
        room = b.let(ir.Scratch(I64, cells), "room")
        (winner,) = b.emit(ir.Scatter(e.width, (room,), e.idxs, (iterations,)), "winner")
        for y, v in zip(seeds, e.values, strict=True):
            if y is None or not s.is_active(v):
                continue

            def gather(c: Builder, i: Var, *at: Var, y: Atom = y, v: Atom = v) -> list[Atom]:
                t = row_type(v.type)
                ok = in_range(c, at, cells)
                assert ok is not None

                def inside(d: Builder) -> list[Atom]:
                    mine = d.op("eq", d.at(winner, *at), i)
                    return [_choose(d, mine, d.at(y, *at), t)]

                return list(c.emit(ir.If(ok, c.body(inside), c.body(lambda d: [d.zeros(t)])), "y", types=[t]))

            s.add(v, b.map_(gather, iterations, *e.idxs)[0])
    for y, d in zip(seeds, e.dests, strict=True):
        if y is not None and s.is_active(d):
            part = row_type(y.type, rank)
            nothing = b.let(ir.Replicate((e.width, *shape_of(part)), zero(elem_of(part))), "zeros")
            s.add(d, b.emit(ir.Scatter(e.width, (y,), e.idxs, (nothing,)), "dest_bar")[0])


def _choose(b: Builder, cond: Atom, value: Atom, t: object) -> Atom:
    """`value` if `cond`, else zero, for scalars and arrays."""
    if isinstance(value.type, Prim):
        return b.op("select", cond, value, zero(value.type))
    then = b.body(lambda c: [value])
    return b.emit(ir.If(cond, then, b.body(lambda c: [c.zeros(value.type)])), "y", types=[value.type])[0]


# --- reduce_by_index ----------------------------------------------------------------------------------------


def _hist_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Hist)
    b = t.b
    if ruled(e.lam) == "add":
        b.add(stm)
        n = e.neutral[0].type
        args = (t.dense(e.dests[0]),), e.idxs, (t.dense(e.values[0]),)
        zeros = b.zeros(n)
        b.add(ir.Stm((t.fresh(stm.pat[0]),), ir.Hist(e.width, *args, b.plus_lambda(n), (zeros,))))
        return
    flags = [v in t.active for v in stm.pat]
    on = [i for i, f in enumerate(flags) if f]
    lam = t.operator(canonical(e.lam), flags)
    dests = e.dests + tuple([t.dense(e.dests[i]) for i in on])
    values = e.values + tuple([t.dense(e.values[i]) for i in on])
    neutral = e.neutral + tuple([b.zeros(e.neutral[i].type) for i in on])
    pat = stm.pat + tuple([t.fresh(stm.pat[i]) for i in on])
    b.add(ir.Stm(pat, ir.Hist(e.width, dests, e.idxs, values, lam, neutral), stm.attrs))


def _hist_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Hist)
    seeds = [s.take(v) for v in stm.pat]
    for part, lam in split_operator(canonical(e.lam)):
        if not any(seeds[j] is not None for j in part):
            continue

        def pick(xs: tuple[Atom, ...], part: tuple[int, ...] = part) -> tuple[Atom, ...]:
            return tuple([xs[j] for j in part])

        h = ir.Hist(e.width, pick(e.dests), e.idxs, pick(e.values), lam, pick(e.neutral))
        mine = [seeds[j] for j in part]
        results = tuple([stm.pat[j] for j in part])
        op = ruled(lam)
        first = mine[0]
        scalar = isinstance(e.neutral[part[0]].type, Prim)
        if op == "add" or op == "xor" and e.neutral[part[0]].type is BOOL:
            assert first is not None
            s.add(h.dests[0], first)
            _gather_into(s, h, first)
        elif (extremum := operator_of(lam)) is not None and extremum.op in ("min", "max"):
            assert first is not None
            _hist_extremum(s, h, results[0], first)
        elif op == "mul" and scalar and elem_of(e.neutral[part[0]].type).is_float:
            assert first is not None
            _hist_product(s, h, first)
        elif (row := row_operator(lam)) is not None:
            _hist_columns(s, h, row.lam, mine)
        elif s.ctx.how.sequential:
            hist_by_loops(s, h, mine)
        else:
            general_hist(s, h, mine)


def _gather_into(s: Scope, h: ir.Hist, seed: Atom) -> None:
    v = h.values[0]
    if not s.is_active(v):
        return
    t = row_type(v.type)
    s.add(v, s.b.map_(lambda c, *at: [read_or_zero(c, seed, at, t)], *h.idxs)[0])


def _flat_map(b: Builder, cells: ir.Atoms, f: Callable[..., Atom], *arrays: Atom) -> Atom:
    """f(builder, *elements) over arrays whose dimensions are `cells`; of scalars, if there are none."""
    if not cells:
        return f(b, *arrays)
    return b.map_(lambda c, *xs: [_flat_map(c, cells[1:], f, *xs)], *arrays)[0]


def _hist_extremum(s: Scope, h: ir.Hist, y: Var, seed: Atom) -> None:
    """min, max, of rows element by element: the destination if it has the result, else the first value that has it."""
    b, n = s.b, h.width
    t = row_type(h.values[0].type)
    everywhere, row = shape_of(y.type), shape_of(t)
    cells = everywhere[: len(h.idxs)]
    nobody = b.op("sub", ZERO, ONE)
    start = _flat_map(b, everywhere, lambda c, d, r: c.op("select", c.op("eq", d, r), nobody, n), h.dests[0], y)
    iterations = b.let(ir.Iota(n, ZERO, ONE), "is")

    def claim(c: Builder, i: Var, v: Var, *at: Var) -> list[Atom]:
        best = read_or_zero(c, y, at, t)
        return [_flat_map(c, row, lambda d, x, r: d.op("select", d.op("eq", x, r), i, n), v, best)]

    claims = b.map_(claim, iterations, h.values[0], *h.idxs)[0]
    place = array_of(I64, *row)
    least = b.lambda_(
        [("i", place), ("j", place)], lambda c, i, j: [_flat_map(c, row, lambda d, p, q: d.op("min", p, q), i, j)]
    )
    last = b.let(ir.Replicate(row, n), "last") if row else n
    (winner,) = b.emit(ir.Hist(n, (start,), h.idxs, (claims,), least, (last,)), "winner")
    nothing = zero(elem_of(seed.type))

    def if_won(c: Builder, by: Atom, w: Atom, r: Atom) -> Atom:
        return c.op("select", c.op("eq", w, by), r, nothing)

    if s.is_active(h.dests[0]):
        s.add(h.dests[0], _flat_map(b, everywhere, lambda c, w, r: if_won(c, nobody, w, r), winner, seed))
    if s.is_active(h.values[0]):

        def pull(c: Builder, i: Var, *at: Var) -> list[Atom]:
            ok = in_range(c, at, cells)
            assert ok is not None

            def inside(d: Builder) -> list[Atom]:
                return [_flat_map(d, row, lambda e, w, r: if_won(e, i, w, r), d.at(winner, *at), d.at(seed, *at))]

            return list(c.emit(ir.If(ok, c.body(inside), c.body(lambda d: [d.zeros(t)])), "y", types=[t]))

        s.add(h.values[0], b.map_(pull, iterations, *h.idxs)[0])


def _hist_product(s: Scope, h: ir.Hist, seed: Atom) -> None:
    """The product of the others in the bin, by counting the zeros in it as `reduce.py` does."""
    b, n = s.b, h.width
    t = h.neutral[0].type
    assert isinstance(t, Prim)
    cells = shape_of(seed.type)
    nil, unit = zero(t), one(t)

    def is_zero(c: Builder, x: Atom) -> Atom:
        return c.op("select", c.op("eq", x, nil), ONE, ZERO)

    def or_one(c: Builder, x: Atom) -> Atom:
        return c.op("select", c.op("eq", x, nil), unit, x)

    def if_zero(c: Builder, x: Atom) -> Atom:
        return c.op("select", c.op("eq", x, nil), x, nil)

    mul = b.lambda_([("x", t), ("y", t)], lambda c, x, y: [c.op("mul", x, y)])
    dest0 = _flat_map(b, cells, is_zero, h.dests[0])
    dest1 = _flat_map(b, cells, or_one, h.dests[0])
    zs, ps = b.map_(lambda c, x: [is_zero(c, x), or_one(c, x)], h.values[0])
    (counts,) = b.emit(ir.Hist(n, (dest0,), h.idxs, (zs,), b.plus_lambda(I64), (ZERO,)), "counts")
    (products,) = b.emit(ir.Hist(n, (dest1,), h.idxs, (ps,), mul, (unit,)), "products")

    # The sum of the zeros in a bin is 0; only its derivative is not.  No zero, no sum.
    def sums(c: Builder) -> list[Atom]:
        dest2 = _flat_map(c, cells, if_zero, h.dests[0])
        (nils,) = c.map_(lambda d, x: [if_zero(d, x)], h.values[0])
        return list(c.emit(ir.Hist(n, (dest2,), h.idxs, (nils,), c.plus_lambda(t), (nil,)), "z"))

    flat = counts if len(cells) == 1 else b.let(ir.Reshape(counts, (b.size_mul(cells),)), "flat")
    top = b.lambda_([("i", I64), ("j", I64)], lambda c, i, j: [c.op("max", i, j)])
    (most,) = b.emit(ir.Reduce(shape_of(flat.type)[0], (flat,), top, (ZERO,), True), "most")
    none = b.body(lambda c: [c.zeros(seed.type)])
    (zeros,) = b.emit(ir.If(b.op("lt", ZERO, most), b.body(sums), none), "z", types=[seed.type])

    def others(c: Builder, x: Atom, count: Atom, p: Atom, z: Atom, y: Atom) -> Atom:
        one_zero, two_zeros, rest = numerators(c, t, count, p, z)
        return of_the_others(c, x, c.op("mul", y, one_zero), c.op("mul", y, two_zeros), z, c.op("mul", y, rest))

    if s.is_active(h.dests[0]):
        s.add(h.dests[0], _flat_map(b, cells, others, h.dests[0], counts, products, zeros, seed))
    if s.is_active(h.values[0]):

        def pull(c: Builder, x: Var, *at: Var) -> list[Atom]:
            ok = in_range(c, at, cells)
            assert ok is not None
            then = c.body(lambda d: [others(d, x, *[d.at(a, *at) for a in (counts, products, zeros, seed)])])
            return list(c.emit(ir.If(ok, then, c.body(lambda d: [nil])), "y", types=[t]))

        s.add(h.values[0], b.map_(pull, h.values[0], *h.idxs)[0])


def _hist_columns(s: Scope, h: ir.Hist, row: ir.Lambda, seeds: list[Atom | None]) -> None:
    """A vectorised operator: the scalar rule for every column."""
    rank = len(h.idxs)

    def flip(b: Builder, a: Atom, at: int) -> Var:
        """Dimension `at` first."""
        dims = range(len(shape_of(a.type)))
        return b.let(ir.Rearrange(a, (at, *[d for d in dims if d != at])), "cols")

    outer = Builder()
    dests = [flip(outer, d, rank) for d in h.dests]
    values = [flip(outer, v, 1) for v in h.values]

    def column(c: Builder, *xs: Var) -> list[Atom]:
        k = len(dests)
        own = tuple([c.let(ir.Copy(d), "bins") for d in xs[:k]])
        return list(c.emit(ir.Hist(h.width, own, h.idxs, xs[k : 2 * k], reexecution(row), xs[2 * k :]), "bins"))

    ys = outer.map_(column, *dests, *values, *h.neutral)
    swept = s.forward(outer.stms)
    for y, seed in zip(ys, seeds, strict=True):
        if seed is not None:
            s.add(y, flip(s.b, seed, rank))
    s.back(swept)


RULES[ir.Scatter] = Rule(_scatter_jvp, _scatter_vjp)
RULES[ir.Hist] = Rule(_hist_jvp, _hist_vjp)
