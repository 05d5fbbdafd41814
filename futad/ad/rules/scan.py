"""Reverse rules of scans.

Source: Schenck et al., SC 2022, section 5.2.  With y_i = f(y_{i-1}, x_i), the total adjoint of y_i is
r_i = ybar_i + A_i r_{i+1}, A_i the transposed Jacobian of f(., x_{i+1}) at y_i; x_i and the operator's free variables
get theirs through f(y_{i-1}, x_i) from r_i.  The recurrence is solved in one of three ways:

* + : A_i is 1, and the totals are suffix sums.
* up to four scalars: a scan that composes the linear functions r -> A r + c, A a k x k matrix.
* anything else, arrays too: a tree over the segments of the index (ours).  As f is associative, the linear function
  that leads over a segment needs no matrix: its transposed Jacobian is that of f(., X) for X the reduction of the
  segment, applied to a vector by a return sweep of f.  Work O(n), 2 log n steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.ad.emit import reexecution
from futad.ad.operators import ruled
from futad.ad.reverse import Scope
from futad.ad.rules.map_adjoint import MapSweep
from futad.ad.rules.reduce import Fold, along_rows, isolated, reverse, shifted
from futad.ad.sort_by_bin import Body, choice
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.operator import row_operator
from futad.core.types import BOOL, I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Var, array_of, i64, one, zero


def scan_part(s: Scope, f: Fold) -> None:
    """Adjoints of one independent part of a scan."""
    if ruled(f.lam) == "add":
        seed = f.seeds[0]
        assert seed is not None
        b, t = s.b, f.neutral[0].type
        (sums,) = b.emit(
            ir.Scan(f.width, (reverse(b, f.width, seed),), b.plus_lambda(t), (b.zeros(t),)), "sums"
        )
        s.add(f.arrays[0], reverse(b, f.width, sums))
        return
    if (row := row_operator(f.lam)) is not None:
        along_rows(s, f, row.lam, scan=True)
        return
    on = [q for q, y in enumerate(f.results) if s.is_active(y)]
    types = [f.neutral[q].type for q in on]
    fits = len(on) <= 4 and all(isinstance(t, Prim) and t is not BOOL for t in types)
    totals = _recurrence(s, f, on) if fits else _tree(s, f, on)
    _pull_elements(s, f, dict(zip(on, totals, strict=True)))


def _pull_elements(s: Scope, f: Fold, totals: dict[int, Atom]) -> None:
    """With the total adjoint of every y_i: those of x_i and of free variables through f(y_{i-1}, x_i)."""
    k = len(f.neutral)
    m = MapSweep(s, f.width)
    c = m.inner.b
    lam = reexecution(f.lam)
    for p, a in zip(lam.params[k:], f.arrays, strict=True):
        m.primal(p, a)
    i = m.index()
    left = shifted(c, f.results, c.op("sub", i, ONE), c.op("lt", ZERO, i), f.neutral)
    for p, v in zip(lam.params[:k], left, strict=True):
        m.inner.local.add(p)
        c.add(ir.Stm((p,), ir.Alias(v)))
    swept = m.inner.forward(lam.stms)
    for q, total in totals.items():
        m.inner.add(lam.result[q], m.bind(total))
    m.inner.back(swept)
    m.finish()


def _through_left(b: Builder, f: Fold, on: Sequence[int], args: Sequence[Atom], seeds: Sequence[Atom | None]) -> list:
    """The adjoints, None for zero, of components `on` of the operator's first argument under those of its results."""
    k = len(f.neutral)
    every: list[Atom | None] = [None] * k
    for q, y in zip(on, seeds, strict=True):
        every[q] = y
    got = isolated(b).inline(f.lam, args, [q in on for q in range(k)] + [False] * k, every)
    return [got[q] for q in on]


def _seeds_dense(b: Builder, f: Fold, on: Sequence[int]) -> list[Atom]:
    return [b.zeros(array_of(f.neutral[q].type, f.width)) if (y := f.seeds[q]) is None else y for q in on]


# --- by composing linear functions --------------------------------------------------------------------------


def _recurrence(s: Scope, f: Fold, on: Sequence[int]) -> list[Atom]:
    """The total adjoints of components `on`, scalars, by a scan that composes linear functions from the right.

    Only the cells of the matrices that are not always zero are computed and composed: for a linear recurrence
    (a, b) (c, d) = (a c, b c + d), say, the two on the diagonal.
    """
    b, n = s.b, f.width
    k = len(on)
    ts: list[Prim] = [t for q in on if isinstance(t := f.neutral[q].type, Prim)]
    cells = _cells(f, on)

    def jacobian(c: Builder, i: Var) -> list[Atom]:
        following = c.op("add", i, ONE)

        def rows(d: Builder) -> list[Atom]:
            args = [*[d.at(y, i) for y in f.results], *[d.at(a, following) for a in f.arrays]]
            out: list[list[Atom]] = []
            for j in range(k):
                got = _through_left(d, f, on, args, [one(ts[j]) if q == j else None for q in range(k)])
                out.append([zero(ts[q]) if g is None else g for q, g in enumerate(got)])
            return [out[j][q] for q, j in cells]

        types = [ts[q] for q, _ in cells]
        ends = c.body(lambda d: [zero(t) for t in types])
        return list(c.emit(ir.If(c.op("lt", following, n), c.body(rows), ends), "a", types=types))

    where = b.let(ir.Iota(n, ZERO, ONE), "is")
    matrix = b.map_(jacobian, where, hint="jac")
    c_in = [reverse(b, n, y) for y in _seeds_dense(b, f, on)]
    a_in = [reverse(b, n, a) for a in matrix]

    def compose(d: Builder, *v: Var) -> list[Atom]:
        w = k + len(cells)
        c1, c2 = v[:k], v[w : w + k]
        a1, a2 = dict(zip(cells, v[k:w], strict=True)), dict(zip(cells, v[w + k :], strict=True))

        def dot(row: int, column: dict[int, Var]) -> Atom:
            total: Atom | None = None
            for q, x in column.items():
                if (row, q) in a2:
                    term = d.op("mul", d.convert(ts[row], a2[row, q]), d.convert(ts[row], x))
                    total = term if total is None else d.op("add", total, term)
            assert total is not None
            return total

        cs: list[Atom] = [d.op("add", c2[q], dot(q, dict(enumerate(c1)))) for q in range(k)]
        return cs + [dot(q, {p: a1[p, j] for p in range(k) if (p, j) in a1}) for q, j in cells]

    types = ts + [ts[q] for q, _ in cells]
    lam = b.lambda_([("c", t) for t in types + types], compose)
    unit: list[Const] = [zero(t) for t in ts]
    unit += [one(ts[q]) if q == j else zero(ts[q]) for q, j in cells]
    out = b.emit(ir.Scan(n, tuple(c_in + a_in), lam, tuple(unit)), "r")
    totals: list[Atom] = [reverse(b, n, r) for r in out[:k]]
    return totals


def _cells(f: Fold, on: Sequence[int]) -> list[tuple[int, int]]:
    """The cells (q, j) that products of the transposed Jacobians can have: where result on[j] depends on the first
    argument's component on[q], directly or through others; and the diagonal."""
    k = len(on)
    found = {(q, q) for q in range(k)}
    for j in range(k):
        t = f.neutral[on[j]].type
        assert isinstance(t, Prim)
        got = _through_left(Builder(), f, on, f.lam.params, [one(t) if q == j else None for q in range(k)])
        found |= {(q, j) for q, g in enumerate(got) if g is not None}
    for p in range(k):
        found |= {(q, j) for q in range(k) for j in range(k) if (q, p) in found and (p, j) in found}
    return sorted(found)


# --- by a tree of segments ----------------------------------------------------------------------------------

ROOM = 64  # more elements than two a leaf that a tree can need: one a level


def _tree(s: Scope, f: Fold, on: Sequence[int]) -> list[Atom]:
    """The total adjoints of components `on`, whatever the elements are.

    Segment j of level l covers indices from j 2^l to below (j+1) 2^l or n.  Going up, each segment [a, e) gets X, the
    reduction of its elements, and c, what its own results contribute to the adjoint of y_{a-1}: at a leaf through
    f(y_{a-1}, x_a), else c of its left half and, through f(y_{a-1}, X of the left half), c of its right half.  Going
    down, R(m), the adjoint of y_{m-1} from all results at m and after, is found at the middle m of each segment
    [a, e): c of its right half and, through f(y_{m-1}, X of that), R(e).  The total is r_i = ybar_i + R(i+1).
    """
    b, n = s.b, f.width
    k, w = len(f.neutral), len(on)
    seeds = _seeds_dense(b, f, on)
    units = [f.neutral[q] for q in on]

    def through(d: Builder, a: Atom, xs: Sequence[Atom], c: Sequence[Atom]) -> list[Atom]:
        """The adjoint of y_{a-1}, 0 < a, that of f(y_{a-1}, xs) being c."""
        before = d.op("sub", a, ONE)
        got = _through_left(d, f, on, [*[d.at(y, before) for y in f.results], *xs], c)
        return [d.zeros(u.type) if g is None else g for g, u in zip(got, units, strict=True)]

    def unless(d: Builder, cond: Atom, otherwise: Sequence[Atom], then: Body) -> tuple[Var, ...]:
        return choice(d, cond, then, lambda z: otherwise, like=tuple(otherwise))

    def leaf(d: Builder, i: Var, *rest: Var) -> Sequence[Atom]:
        nothing = [d.zeros(u.type) for u in units]
        return unless(d, d.op("lt", ZERO, i), nothing, lambda z: through(z, i, rest[:k], rest[k:]))

    where = b.let(ir.Iota(n, ZERO, ONE), "is")
    leaves = (*f.arrays, *b.map_(leaf, where, *f.arrays, *seeds, hint="c"))
    room = b.op("add", b.op("add", n, n), i64(ROOM), hint="room")

    def buffer(leaf: Atom) -> Var:
        assert isinstance(leaf.type, ArrayType)
        empty = b.let(ir.Scratch(leaf.type.elem, (room, *leaf.type.shape[1:])), "tree")
        return b.let(ir.Update(empty, (Range(ZERO, n, ONE),), leaf), "tree")

    def up(d: Builder, level: Var, at: Var, size: Var, *tree: Var) -> list[Atom]:
        half = d.op("shr", d.op("add", size, ONE), ONE)

        def join(z: Builder, j: Var) -> Sequence[Atom]:
            left = z.op("add", j, j)
            right = z.op("add", left, ONE)
            near = z.op("add", at, left)
            far = z.op("add", at, right)
            mine = [z.at(x, near) for x in tree]

            def both(q: Builder) -> list[Atom]:
                other = [q.at(x, far) for x in tree]
                whole = q.inline(f.lam, [*mine[:k], *other[:k]])
                start = q.op("shl", left, level)
                nothing = [q.zeros(u.type) for u in units]
                inner = unless(q, q.op("lt", ZERO, start), nothing, lambda p: through(p, start, mine[:k], other[k:]))
                return [*whole, *[q.plus(x, y) for x, y in zip(mine[k:], inner, strict=True)]]

            return unless(z, z.op("lt", right, size), mine, both)

        joined = d.map_(join, d.let(ir.Iota(half, ZERO, ONE), "js"))
        onto = d.op("add", at, size)
        grown = [d.let(ir.Update(x, (Range(onto, half, ONE),), y), "tree") for x, y in zip(tree, joined, strict=True)]
        return [onto, half, *grown]

    # The number of levels above the leaves: no segment reaches over all n without the last of them.
    last = b.op("max", ZERO, b.op("sub", n, ONE))
    levels = b.op("sub", i64(64), b.convert(I64, b.op("clz", last)), hint="levels")
    trees = [buffer(x) for x in leaves]
    state = [("at", I64), ("size", I64), *[("tree", x.type) for x in trees]]
    at, _, *trees = b.emit(ir.For(levels, (ZERO, n, *trees), b.lambda_([("level", I64), *state], up)), "tree")

    def down(d: Builder, iteration: Var, at: Var, *into: Var) -> list[Atom]:
        level = d.op("sub", d.op("sub", levels, ONE), iteration)
        length = d.op("shl", ONE, level)
        size = d.op("shr", d.op("sub", d.op("add", n, length), ONE), level)
        at = d.op("sub", at, size)
        halves = d.op("shr", size, ONE)

        def middle(z: Builder, j: Var) -> Sequence[Atom]:
            right = z.op("add", z.op("add", j, j), ONE)
            m = z.op("shl", right, level)
            end = z.op("min", n, z.op("add", m, length))
            here = z.op("add", at, right)
            own = [z.at(x, here) for x in trees]
            after = through(z, m, own[:k], [z.at(r, end) for r in into])
            return [z.plus(x, y) for x, y in zip(own[k:], after, strict=True)]

        found = d.map_(middle, d.let(ir.Iota(halves, ZERO, ONE), "js"))
        place = Range(length, halves, d.op("add", length, length))
        return [at, *[d.let(ir.Update(r, (place,), x), "R") for r, x in zip(into, found, strict=True)]]

    ends = b.op("add", n, ONE)
    starts = [b.zeros(array_of(u.type, ends)) for u in units]
    lam = b.lambda_([("iteration", I64), ("at", I64), *[("R", x.type) for x in starts]], down)
    after = b.emit(ir.For(levels, (at, *starts), lam), "R")[1:]
    assert len(after) == w
    return [b.plus(y, b.let(ir.At(r, (Range(ONE, n, ONE),)), "R")) for y, r in zip(seeds, after, strict=True)]
