"""Rules of linear algebra, of matrices and batches of them: Cholesky, LU, triangular solves, QR, eigenvalues, singular
values.

They are those of futad's own library, with derivatives from closed forms, but for LU of matrices that are not square,
with partial pivoting: Golub and Van Loan, "Matrix computations", 4th edition, algorithm 3.4.1.
"""

from __future__ import annotations

import math
from typing import Any

from jax import lax
from jax import numpy as jnp

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.scalarops import folded
from futad.core.types import I64, ONE, ZERO, Atom, Const, Prim, elem_of, shape_of, zero
from futad.jax.jaxprs import library
from futad.jax.jaxprs.lifted import Value, along, iota, minus, transposed
from futad.jax.jaxprs.table import Site, Unsupported, is_one_of, rule


def places(b: Builder, n: Atom) -> Atom:
    return iota(b, n, I64)


def cholesky(b: Builder, a: Atom) -> Atom:
    """The lower factor; entries above the diagonal are 0.  NaN all over if a is not positive definite."""
    t = elem_of(a.type)
    n = shape_of(a.type)[0]
    (made,) = library.call(b, "cholesky", t, [n], [a])
    bad, nan = b.op("isnan", _diagonal_sum(b, made, n, t)), Const(t, math.nan)
    return b.zip_with(lambda c, row: c.zip_with(lambda d, e: d.op("select", bad, nan, e), row), made)


def _diagonal_sum(b: Builder, a: Atom, n: Atom, t: Prim) -> Atom:
    diagonal = b.zip_with(lambda c, i: c.at(a, i, i), places(b, n))
    return b.sum_outer(n, diagonal)


@rule("cholesky")
def _cholesky(s: Site, a: Value) -> Value:
    return along(s.b, lambda c, m: [cholesky(c, m)], [a], [a.rank - 2, a.rank - 1])[0]


def solved(b: Builder, a: Atom, right: Atom, lower: bool, transpose: bool, unit: bool) -> Atom:
    """X of A X = B, or A' X = B, A triangular: the other triangle is not read."""
    n, m = shape_of(right.type)
    t = elem_of(a.type)
    if unit:
        one = Const(t, 1.0)
        a = b.zip_with(
            lambda c, row, i: c.zip_with(lambda d, e, j: d.op("select", d.op("eq", i, j), one, e), row, places(c, n)),
            a, places(b, n),
        )  # fmt: skip
    name = f"solve_{'lower' if lower else 'upper'}{'_t' if transpose else ''}"
    if m is not ONE:
        return library.call(b, f"{name}_many", t, [n, m], [a, right])[0]
    (made,) = library.call(b, name, t, [n], [a, b.let(ir.Reshape(right, (n,)))])
    return b.let(ir.Reshape(made, (n, m)))


@rule("triangular_solve", reads="left_side transpose_a lower unit_diagonal", hints="conjugate_a")
def _triangular_solve(s: Site, a: Value, right: Value) -> Value:
    p = s.params
    last = [a.rank - 2, a.rank - 1]
    flip = [*range(a.rank - 2), a.rank - 1, a.rank - 2]
    left = p["left_side"]
    transpose = bool(p["transpose_a"]) == left  # X A = B is A' X' = B'
    if not left:
        right = transposed(s.b, right, flip)
    made = along(
        s.b, lambda c, m, r: [solved(c, m, r, p["lower"], transpose, p["unit_diagonal"])], [a, right], last
    )[0]
    return made if left else transposed(s.b, made, flip)


def lu(b: Builder, a: Atom, place: Prim) -> list[Atom]:
    """Both factors in one array, the rows that were exchanged, and the permutation of rows that this is."""
    m, n = shape_of(a.type)
    t = elem_of(a.type)
    if m == n and t.name in ("f32", "f64"):
        factors, order, exchanged = library.call(b, "lu_exchanges", t, [n], [a])
        return [factors, *[b.zip_with(lambda c, e: c.convert(place, e), v) for v in (exchanged, order)]]
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


@rule("lu_pivots_to_permutation", reads="permutation_size")
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


def wide(a: Value) -> bool:
    """Whether matrices have more columns than rows; False where sizes are not known: the library checks that."""
    rows, columns = a.shape[a.rank - 2 :]
    return isinstance(rows, Const) and isinstance(columns, Const) and rows.value < columns.value


def square(a: Value) -> bool:
    return a.shape[a.rank - 2] is a.shape[a.rank - 1]


def factored(s: Site, name: str, a: Value) -> list[Value]:
    """The factors of matrices that have at least as many rows as columns."""

    def f(c: Builder, m: Atom) -> list[Atom]:
        rows, columns = shape_of(m.type)
        return library.call(c, name, elem_of(m.type), [rows] if name == "eigh" else [rows, columns], [m])

    return along(s.b, f, [a], [a.rank - 2, a.rank - 1])


def reduced(s: Site) -> None:
    """Raises Unsupported for factors of matrices that are not square, all columns of which are wanted."""
    if s.params.get("full_matrices"):
        raise Unsupported("with full_matrices=True is not supported for matrices that are not square")


@rule("qr", reads="full_matrices", hints="use_magma", only={"pivoting": is_one_of(False)})
def _qr(s: Site, a: Value) -> list[Value]:
    """Of a matrix with more columns than rows: r is q' a, whose first columns are triangular."""
    if not wide(a):
        if not square(a):
            reduced(s)
        return factored(s, "qr", a)

    def f(x: Any) -> Any:
        n = x.shape[-2]
        q, r = lax.linalg.qr(x[..., :n], full_matrices=False)
        return q, jnp.concatenate([r, jnp.matmul(jnp.swapaxes(q, -1, -2), x[..., n:])], -1)

    return s.importer.traced(s.b, f, [v.aval for v in s.eqn.invars], [a])


@rule("eigh", reads="lower", hints="sort_eigenvalues algorithm")
def _eigh(s: Site, a: Value) -> list[Value]:
    """Eigenvectors, and eigenvalues, smallest first, of one triangle of a symmetric matrix."""
    if not s.params.get("lower", True):
        a = transposed(s.b, a, [*range(a.rank - 2), a.rank - 1, a.rank - 2])
    values, vectors = factored(s, "eigh", a)
    return [vectors, values]


@rule("svd", reads="full_matrices compute_uv", hints="algorithm")
def _svd(s: Site, a: Value) -> list[Value]:
    """Singular values, largest first, and where they are asked for the vectors on the left and on the right."""
    vectors = s.params.get("compute_uv", True)
    if vectors and not square(a):
        reduced(s)
    flip = [*range(a.rank - 2), a.rank - 1, a.rank - 2]
    across = wide(a)
    u, values, vt = factored(s, "svd", transposed(s.b, a, flip) if across else a)
    if not vectors:
        return [values]
    return [values, *([transposed(s.b, vt, flip), transposed(s.b, u, flip)] if across else [u, vt])]


@rule("tridiagonal_solve", only={"perturb_singular": is_one_of(False)})
def _tridiagonal_solve(s: Site, *args: Value) -> Value:
    return s.importer.traced(s.b, tridiagonal, [v.aval for v in s.eqn.invars], args)[0]


def tridiagonal(below: Any, diagonal: Any, above: Any, right: Any) -> Any:
    """X of A X = B, A given by its diagonals, of n elements each: elimination with partial pivoting, as LAPACK's gtsv
    does it (Golub and Van Loan, algorithm 3.4.1, of which two diagonals above remain)."""
    rows = [jnp.moveaxis(v, axis, 0) for v, axis in ((below, -1), (diagonal, -1), (above, -1), (right, -2))]
    zeros = jnp.zeros_like(rows[1][0])

    def down(held: Any, row: Any) -> Any:
        """`held`: the diagonal and above it, and the right side, of the row that nothing has been taken from yet."""
        (d, u, r), (low, own, up, b) = held, row
        swap = jnp.abs(low) > jnp.abs(d)
        pivot, other = jnp.where(swap, low, d), jnp.where(swap, d, low)
        k = other / pivot
        to, second = jnp.where(swap, own, u), jnp.where(swap, up, zeros)
        done = (pivot, to, second, jnp.where(swap[..., None], b, r))
        left = (
            jnp.where(swap, u, own) - k * to,
            jnp.where(swap, zeros, up) - k * second,
            jnp.where(swap[..., None], r, b) - k[..., None] * done[3],
        )
        return left, done

    def back(later: Any, row: Any) -> Any:
        (x, y), (d, u, v, r) = later, row
        made = (r - u[..., None] * x - v[..., None] * y) / d[..., None]
        return (made, x), made

    held, done = lax.scan(down, tuple(v[0] for v in rows[1:]), tuple(v[1:] for v in rows))
    last = held[2] / held[0][..., None]
    _, first = lax.scan(back, (last, jnp.zeros_like(last)), done, reverse=True)
    return jnp.moveaxis(jnp.concatenate([first, last[None]]), 0, -2)
