"""Rules of linear algebra, of matrices and batches of them: Cholesky, LU, triangular solves.

Sources: Golub and Van Loan, "Matrix computations", 4th edition, algorithms 3.1.1 to 3.1.3 (triangular systems), 3.4.1
(LU with partial pivoting), 4.2.1 (Cholesky by columns).
"""

from __future__ import annotations

import math

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.scalarops import folded
from futad.core.types import I64, ONE, ZERO, Atom, Const, Prim, elem_of, shape_of, zero
from futad.jax.jaxprs.lifted import Value, along, iota, minus, transposed
from futad.jax.jaxprs.table import Site, rule


def product_sum(b: Builder, x: Atom, y: Atom) -> Atom:
    t = elem_of(x.type)
    terms = b.zip_with(lambda c, p, q: c.op("mul", p, q), x, y)
    return b.emit(ir.Reduce(shape_of(x.type)[0], (terms,), b.plus_lambda(t), (zero(t),), True))[0]


def places(b: Builder, n: Atom) -> Atom:
    return iota(b, n, I64)


def cholesky(b: Builder, a: Atom) -> Atom:
    """The lower factor, column by column; entries above the diagonal are 0.  NaN all over if a is not positive
    definite."""
    t = elem_of(a.type)
    n = shape_of(a.type)[0]
    blank = b.let(ir.Replicate((n, n), zero(t)))

    def column(c: Builder, j: Atom, done: Atom) -> list[Atom]:
        own = c.at(done, j)

        def residue(d: Builder, i: Atom) -> Atom:
            # Columns from j on are 0 yet, so the sum is over those before.
            return d.op("sub", d.at(a, i, j), product_sum(d, d.at(done, i), own))

        pivot = c.op("sqrt", residue(c, j))

        def entry(d: Builder, i: Atom) -> Atom:
            scaled = d.op("div", residue(d, i), pivot)
            below = d.op("select", d.op("lt", i, j), zero(t), scaled)
            return d.op("select", d.op("eq", i, j), pivot, below)

        new = c.zip_with(entry, places(c, n))
        return [c.let(ir.Update(done, (Range(ZERO, n, ONE), j), new))]

    params = [("j", I64), ("l", blank.type)]
    made = b.emit(ir.For(n, (blank,), b.lambda_(params, column)))[0]
    bad, nan = b.op("isnan", _diagonal_sum(b, made, n, t)), Const(t, math.nan)
    return b.zip_with(lambda c, row: c.zip_with(lambda d, e: d.op("select", bad, nan, e), row), made)


def _diagonal_sum(b: Builder, a: Atom, n: Atom, t: Prim) -> Atom:
    diagonal = b.zip_with(lambda c, i: c.at(a, i, i), places(b, n))
    return b.sum_outer(n, diagonal)


@rule("cholesky")
def _cholesky(s: Site, a: Value) -> Value:
    return along(s.b, lambda c, m: [cholesky(c, m)], [a], [a.rank - 2, a.rank - 1])[0]


def solved(b: Builder, a: Atom, right: Atom, lower: bool, unit: bool) -> Atom:
    """X of A X = B, A triangular, row by row."""
    n, m = shape_of(right.type)
    t = elem_of(a.type)
    blank = b.let(ir.Replicate((n, m), zero(t)))

    def row(c: Builder, k: Atom, done: Atom) -> list[Atom]:
        i = k if lower else c.op("sub", minus(c, n, 1), k)
        # Only the triangle is read: what else the array holds does not count.
        own = c.zip_with(
            lambda d, e, j: d.op("select", d.op("lt", j, i) if lower else d.op("lt", i, j), e, zero(t)),
            c.at(a, i), places(c, n),
        )  # fmt: skip

        def entry(d: Builder, j: Atom) -> Atom:
            rest = d.op("sub", d.at(right, i, j), product_sum(d, own, d.at(done, Range(ZERO, n, ONE), j)))
            return rest if unit else d.op("div", rest, d.at(a, i, i))

        new = c.zip_with(entry, places(c, m))
        return [c.let(ir.Update(done, (i,), new))]

    params = [("k", I64), ("x", blank.type)]
    return b.emit(ir.For(n, (blank,), b.lambda_(params, row)))[0]


@rule("triangular_solve")
def _triangular_solve(s: Site, a: Value, right: Value) -> Value:
    p = s.params
    last = [a.rank - 2, a.rank - 1]
    flip = [*range(a.rank - 2), a.rank - 1, a.rank - 2]
    lower = p["lower"]
    left = p["left_side"]
    if bool(p["transpose_a"]) == left:  # X A = B is A' X' = B'
        a, lower = transposed(s.b, a, flip), not lower
    if not left:
        right = transposed(s.b, right, flip)
    made = along(s.b, lambda c, m, r: [solved(c, m, r, lower, p["unit_diagonal"])], [a, right], last)[0]
    return made if left else transposed(s.b, made, flip)


def lu(b: Builder, a: Atom, place: Prim) -> list[Atom]:
    """Both factors in one array, the rows that were exchanged, and the permutation of rows that this is."""
    m, n = shape_of(a.type)
    t = elem_of(a.type)
    steps = folded("min", (m, n)) or (m if m is n else b.op("min", m, n))
    work = b.let(ir.Copy(a))
    rows = iota(b, m, I64)
    pivots = b.let(ir.Replicate((steps,), ZERO))

    def step(c: Builder, k: Atom, work: Atom, rows: Atom, pivots: Atom) -> list[Atom]:
        sizes = c.zip_with(
            lambda d, e, i: d.op("select", d.op("lt", i, k), d.ex(e).lift(-1.0).atom, d.op("abs", e)),
            c.at(work, Range(ZERO, m, ONE), k), places(c, m),
        )  # fmt: skip

        def better(d: Builder, x: Atom, i: Atom, y: Atom, j: Atom) -> list[Atom]:
            first = d.op("or", d.op("lt", y, x), d.op("and", d.op("eq", x, y), d.op("lt", i, j)))
            return [d.op("select", first, x, y), d.op("select", first, i, j)]

        lam = c.lambda_([("x", t), ("i", I64), ("y", t), ("j", I64)], better)
        found = c.emit(ir.Reduce(m, (sizes, places(c, m)), lam, (c.ex(k).op("to_" + t.name).lift(-2.0).atom, m), True))
        at = c.op("min", found[1], minus(c, m, 1))

        def origin(d: Builder, i: Atom) -> Atom:
            return d.op("select", d.op("eq", i, k), at, d.op("select", d.op("eq", i, at), k, i))

        source = c.zip_with(origin, places(c, m))
        pivot = c.at(work, at, k)
        top = c.at(work, at)

        def new_row(d: Builder, i: Atom, from_: Atom) -> Atom:
            old = d.at(work, from_)
            factor = d.op("div", d.at(work, from_, k), pivot)
            below = d.op("lt", k, i)
            safe = d.op("select", d.op("eq", pivot, zero(t)), zero(t), factor)

            def entry(e: Builder, j: Atom, x: Atom, y: Atom) -> Atom:
                less = e.op("sub", x, e.op("mul", safe, y))
                kept = e.op("select", e.op("eq", j, k), safe, less)
                changed = e.op("and", below, e.op("le", k, j))
                return e.op("select", changed, kept, x)

            return d.zip_with(entry, places(d, n), old, top)

        return [
            c.zip_with(new_row, places(c, m), source),
            c.zip_with(lambda d, i: d.at(rows, i), source),
            c.let(ir.Update(pivots, (k,), at)),
        ]

    params = [("k", I64), ("a", work.type), ("rows", rows.type), ("pivots", pivots.type)]
    made = b.emit(ir.For(steps, (work, rows, pivots), b.lambda_(params, step)))
    narrow = [b.zip_with(lambda c, e: c.convert(place, e), v) for v in (made[2], made[1])]
    return [made[0], *narrow]


@rule("lu")
def _lu(s: Site, a: Value) -> list[Value]:
    return along(s.b, lambda c, m: lu(c, m, s.elem(1)), [a], [a.rank - 2, a.rank - 1])


@rule("lu_pivots_to_permutation")
def _pivots_to_permutation(s: Site, pivots: Value) -> Value:
    size = s.importer.size(s.params["permutation_size"])
    place = s.elem()

    def rows(c: Builder, exchanged: Atom) -> list[Atom]:
        def step(d: Builder, k: Atom, perm: Atom) -> list[Atom]:
            at = d.convert(I64, d.at(exchanged, k))
            x, y = d.at(perm, k), d.at(perm, at)
            first = d.let(ir.Update(perm, (k,), y))
            return [d.let(ir.Update(first, (at,), x))]

        start = c.let(ir.Copy(iota(c, size, I64)))
        params = [("k", I64), ("perm", start.type)]
        made = c.emit(ir.For(shape_of(exchanged.type)[0], (start,), c.lambda_(params, step)))[0]
        return [c.zip_with(lambda d, e: d.convert(place, e), made)]

    return along(s.b, rows, [pivots], [pivots.rank - 1])[0]
