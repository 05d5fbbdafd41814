"""Rows of the AD table: array constructs, accumulators, nested derivatives, integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from futad.core import ir
from futad.core.contraction import Factor, fixed
from futad.core.contraction import contraction as of_factors
from futad.core.node import Range
from futad.core.types import BOOL, F64, I64, ONE, TRUE, ZERO, AccType, Const, i64, one, zero
from tests.support.ad_cases import BINS, case, normal, operator, rng, square, total

# --- array constructs -----------------------------------------------------------------------------------


@case(["[n][k]f64", "[k][m]f64"], normal(2, 3), normal(3, 4))
def matrix_product(b, s, xs, ys):
    product = b.let(ir.MatMul(xs, ys))
    return [total(b, product), b.let(ir.MatMul(xs, ys, (product,)))]


@case(["[n][m]f64", "[m]f64"], normal(4, 3), normal(3))
def contraction(b, s, xs, ws):
    """Windows, whose adjoints gather; every other element, along a diagonal, whose adjoints are added up."""
    n, m = s["n"], s["m"]
    outs = b.op("sub", n, ONE)
    ways = [
        ((outs, m, i64(2)), (ONE, ZERO), ((1, 0, -1), (0, 1, 0)), False),
        ((ONE, i64(2), m), (ZERO, ZERO), ((2, 1, 0), (0, 0, 1)), False),
        ((i64(2), i64(2), ONE), (ONE, ZERO), ((1, 1, 1), (1, 0, 0)), False),
        ((n, m, i64(3)), (i64(-1), ZERO), ((1, 0, 1), (0, 1, 0)), True),
        ((n, m, i64(3)), (i64(-1), ZERO), ((1, 0, 2), (1, 1, 0)), True),
    ]
    own = Factor(ws, (ZERO,), fixed(((0, 0, 1),)))
    windows = [(sizes, Factor(xs, start, fixed(steps), out)) for sizes, start, steps, out in ways]
    parts = [of_factors(sizes, 2, f, own) for sizes, f in windows]
    apart = tuple([tuple([n if step is i64(2) else step for step in row]) for row in fixed(((1, 0, 2), (0, 1, 0)))])
    parts.append(of_factors((n, m, i64(3)), 2, Factor(xs, (i64(-2), ZERO), apart, True), own))
    return [total(b, b.let(p)) for p in parts]


@case(["[n][m]f64", "[m]f64"], normal(3, 4), normal(4))
def arrays(b, s, xs, ys):
    n, m = s["n"], s["m"]
    m3 = b.op("add", b.op("add", m, m), m)
    parts = [
        b.let(ir.Reshape(xs, (b.size_mul([n, m]),))),
        b.let(ir.Rearrange(xs, (1, 0))),
        b.let(ir.Replicate((n, i64(2)), ys)),
        b.let(ir.ArrayLit((ys, ys), ys.type)),
        b.at(xs, Range(b.op("sub", n, ONE), n, i64(-1)), Range(ONE, i64(2), i64(2))),
        b.at(xs, ONE, Range(ZERO, i64(3), ZERO)),
        b.let(ir.Concat((ys, b.at(xs, ZERO), ys), m3)),
        b.let(ir.Update(b.let(ir.Copy(xs)), (ONE, Range(ZERO, m, ONE)), ys)),
        b.let(ir.Alias(xs)),
    ]
    return [total(b, p) for p in parts] + [b.let(ir.Copy(ys))]


@case(["f64", "f64"], 0.5, 1.5)
def iota(b, s, x, d):
    return [total(b, b.let(ir.Iota(i64(5), x, d)))]


@case(["[k]f64", "[k]i64"], normal(0), BINS[:0], name="argsort_empty")
@case(["[k]f64", "[k]i64"], normal(7), BINS)
def argsort(b, s, xs, ks):
    (keys,) = b.map_(lambda q, k: [q.op("mod", k, i64(3))], ks)
    order = b.let(ir.ArgSort(keys, i64(3)))
    (ys,) = b.map_(lambda q, p, x: [q.op("mul", q.at(xs, p), x)], order, xs)
    return [square(b, ys)]


@case(["[n]f64"], normal(4))
def scratch_and_effects(b, s, xs):
    b.add(ir.Stm((), ir.Assert(TRUE, "fine", (), None)))
    b.add(ir.Stm((), ir.Trace(xs, "xs")))
    b.add(ir.Stm((), ir.Measure((("way", "kept"),), ("iterations",), (s["n"],))))
    room = b.let(ir.Scratch(F64, (s["n"],)))
    return [square(b, b.let(ir.Update(room, (Range(ZERO, s["n"], ONE),), xs)))]


# --- fused, accumulators, nested derivatives ------------------------------------------------------------


@case(["[n]f64", "f64"], normal(5), 0.3)
def fused(b, s, xs, c):
    def f(q, x):
        y = q.op("mul", q.op("sin", x), c)
        return [y, q.op("mul", y, x), q.op("exp", y)]

    lam = b.lambda_([("x", F64)], f)
    sums, product = ir.Fold(operator(b, "add"), (zero(F64),)), ir.Fold(operator(b, "mul"), (one(F64),))
    return b.emit(ir.Fused(s["n"], (xs,), lam, (sums,), (product,)))


@case(["[n]f64", "[k]f64", "[k]i64"], normal(4), normal(7), BINS)
def accumulators(b, s, xs, vs, ix):
    def inside(q, acc):
        def f(z, a, v, i):
            a = z.let(ir.UpdateAcc(a, (i,), z.op("sin", v)))
            return [z.let(ir.UpdateAcc(a, (ZERO,), v)), z.op("mul", v, v)]

        lam = q.lambda_([("a", acc.type), ("v", F64), ("i", I64)], f)
        acc, squares = q.emit(ir.Map(s["k"], (acc, vs, ix), lam))
        acc = q.let(ir.UpdateAcc(acc, (), q.zip_with(lambda z, x: z.op("exp", x), xs)))
        return [acc, squares]

    lam = b.lambda_([("acc", AccType(F64, (s["n"],)))], inside)
    out, squares = b.emit(ir.WithAcc((b.let(ir.Copy(xs)),), "add", lam))
    return [square(b, out), squares]


@case(["[n]f64", "f64"], normal(4), 0.7)
def nested_vjp(b, s, xs, c):
    """map (x -> vjp (y -> sin (c y) * y) x 1) xs"""

    def f(q, x):
        lam = q.lambda_([("y", F64)], lambda z, y: [z.op("mul", z.op("sin", z.op("mul", c, y)), y)])
        return list(q.emit(ir.Vjp(lam, (x,), (one(F64),))))

    return b.map_(f, xs)


@case(["[n]f64", "f64"], normal(4), 0.7)
def nested_jvp(b, s, xs, c):
    def f(q, x):
        lam = q.lambda_([("y", F64)], lambda z, y: [z.op("mul", z.op("sin", z.op("mul", c, y)), y)])
        return list(q.emit(ir.Jvp(lam, (x,), (one(F64),))))

    return b.map_(f, xs)


@case(["[n][m]f64", "[m]f64"], normal(3, 4), normal(4))
def nested_vjp_of_reduction(b, s, xs, w):
    def f(q, r):
        def g(z, r, w):
            p = z.zip_with(lambda y, u, v: y.op("mul", y.op("sin", u), v), r, w)
            return z.emit(ir.Reduce(s["m"], (p,), operator(z, "mul"), (one(F64),)))

        lam = q.lambda_([("r", r.type), ("w", w.type)], g)
        return list(q.emit(ir.Vjp(lam, (r, w), (one(F64),))))[1:]

    return b.map_(f, xs)


@case(["[n]f64", "f64"], normal(4), 0.7)
def with_own_derivative(b, s, xs, c):
    """A function with its derivative given (the true one), which reads the result, and one that saves something."""

    def f(q, x):
        lam = q.lambda_([("y", F64)], lambda z, y: [z.op("exp", z.op("mul", y, y))])

        def pull(z, y, dy):
            root = z.op("sqrt", z.op("log", y))
            return [z.op("mul", dy, z.op("mul", Const(F64, 2.0), z.op("mul", y, root)))]

        (u,) = q.emit(ir.WithVjp(lam, q.lambda_([("y", F64), ("dy", F64)], pull), (q.op("abs", x),)))
        both = q.lambda_([("u", F64), ("c", F64)], lambda z, u, c: [z.op("sin", u), z.op("mul", z.op("sin", u), c)])

        def back(z, saved, y, dy):
            root = z.op("sqrt", z.op("sub", Const(F64, 1.0), z.op("mul", saved, saved)))
            sign = z.op("select", z.op("lt", Const(F64, 0.0), z.op("cos", u)), Const(F64, 1.0), Const(F64, -1.0))
            slope = z.op("mul", z.op("mul", root, sign), c)
            return [z.op("mul", dy, slope), z.op("mul", dy, saved)]

        lam = q.lambda_([("saved", F64), ("y", F64), ("dy", F64)], back)
        return [q.emit(ir.WithVjp(both, lam, (u, c)))[1]]

    return b.map_(f, xs)


@case(["[n]f64", "f64"], normal(4), 0.7)
def with_own_tangents(b, s, xs, c):
    """Functions with their tangents given (the true ones): of two arguments with two results, and of one of these."""

    def f(q, x):
        both = q.lambda_([("y", F64), ("c", F64)], lambda z, y, c: [z.op("sin", y), z.op("mul", z.op("mul", y, y), c)])

        def push(z, y, c, dy, dc):
            by_y = z.op("mul", z.op("mul", Const(F64, 2.0), z.op("mul", y, c)), dy)
            return [z.op("mul", z.op("cos", y), dy), z.op("add", by_y, z.op("mul", z.op("mul", y, y), dc))]

        names = [("y", F64), ("c", F64), ("dy", F64), ("dc", F64)]
        u, v = q.emit(ir.WithJvp(both, q.lambda_(names, push), (x, c)))
        once = q.lambda_([("y", F64)], lambda z, y: [z.op("exp", y)])
        own = q.lambda_([("y", F64), ("dy", F64)], lambda z, y, dy: [z.op("mul", z.op("exp", y), dy)])
        (w,) = q.emit(ir.WithJvp(once, own, (u,)))
        return [q.op("mul", v, w)]

    return b.map_(f, xs)


@case(["[n]f64", "f64"], normal(4), 0.7)
def with_own_inverse(b, s, xs, c):
    """A function with its inverse given, in a map and in a loop in it."""

    def f(q, x):
        lam = q.lambda_([("y", F64)], lambda z, y: [z.op("exp", z.op("mul", y, c))])
        back = q.lambda_([("y", F64)], lambda z, y: [z.op("div", z.op("log", y), c)])
        (u,) = q.emit(ir.WithInverse(lam, back, (x,)))

        def body(z, i, y):
            add = z.lambda_([("y", F64)], lambda w, y: [w.op("add", y, w.op("sin", c))])
            subtract = z.lambda_([("y", F64)], lambda w, y: [w.op("sub", y, w.op("sin", c))])
            (v,) = z.emit(ir.WithInverse(add, subtract, (z.op("mul", y, c),)))
            return [v]

        return q.emit(ir.For(i64(3), (u,), q.lambda_([("i", I64), ("y", F64)], body)))

    return b.map_(f, xs)


@case(["[n]f64", "f64", "[k]i64"], normal(4), 0.7, BINS)
def whole_numbers(b, s, xs, c, ix):
    """Constructs of other rows with operations that integers have too."""
    n = s["n"]
    lam = b.lambda_([("x", F64)], lambda q, x: [q.op("mul", x, c), q.op("mul", x, x), q.op("add", x, c)])
    scan, reduce = ir.Fold(operator(b, "add"), (zero(F64),)), ir.Fold(operator(b, "mul"), (one(F64),))
    sums, product, more = b.emit(ir.Fused(n, (xs,), lam, (scan,), (reduce,)))

    def inside(q, acc):
        f = q.lambda_(
            [("a", acc.type), ("i", I64)],
            lambda z, a, i: [z.let(ir.UpdateAcc(a, (i,), z.op("mul", product, z.at(more, ZERO))))],
        )
        return q.emit(ir.Map(s["k"], (acc, ix), f))

    (added,) = b.emit(ir.WithAcc((sums,), "add", b.lambda_([("acc", AccType(F64, (n,)))], inside)))

    def each(q, x):
        cube = q.lambda_([("y", F64)], lambda z, y: [z.op("mul", z.op("mul", y, y), z.op("mul", y, c))])
        _, slope = q.emit(ir.Vjp(cube, (x,), (c,)))
        _, change = q.emit(ir.Jvp(ir.rename(cube), (x,), (slope,)))
        twice = q.lambda_([("y", F64)], lambda z, y: [z.op("add", y, y)])
        pull = q.lambda_([("y", F64), ("d", F64)], lambda z, y, d: [z.op("add", d, d)])
        (doubled,) = q.emit(ir.WithVjp(twice, pull, (change,)))
        push = q.lambda_([("y", F64), ("d", F64)], lambda z, y, d: [z.op("add", d, d)])
        return [*q.emit(ir.WithJvp(ir.rename(twice), push, (doubled,))), slope]

    first, second = b.map_(each, added)

    def iteration(q, more, i, total):
        j = q.op("add", i, ONE)
        return [q.op("lt", j, n), j, q.op("add", q.op("mul", total, c), q.at(second, i))]

    some = b.op("lt", ZERO, n)
    body = b.lambda_([("more", BOOL), ("i", I64), ("t", F64)], iteration)
    return [first, b.emit(ir.While((some, ZERO, c), body))[2]]


# --- integers: exact, wrapping ------------------------------------------------------------------------------


def ints(*shape: int) -> Any:
    return rng.integers(-(2**62), 2**62, size=shape)


@case(["[n]i64", "[n]i64", "i64"], ints(6), ints(6), int(ints()), smooth=False, once=False)
def integers(b, s, xs, ys, c):
    n = s["n"]
    zs = b.zip_with(lambda q, x, y: q.op("mul", q.op("add", x, c), q.op("sub", y, x)), xs, ys)
    out = []
    for op, unit in (("add", 0), ("mul", 1), ("max", -(2**63))):
        for cls in (ir.Reduce, ir.Scan):
            out += b.emit(cls(n, (zs,), operator(b, op, I64), (Const(I64, unit),)))

    def iteration(q, i, a, xs):
        a = q.op("mul", a, q.at(xs, i))
        return [a, q.let(ir.Update(xs, (i,), q.op("mul", a, c)))]

    body = b.lambda_([("i", I64), ("a", I64), ("xs", xs.type)], iteration)
    return [*out, *b.emit(ir.For(n, (c, b.let(ir.Copy(zs))), body))]


@case(["[n]i64", "[k]i64", "[k]i64"], ints(4), ints(7), BINS, smooth=False, once=False)
def integers_by_index(b, s, xs, vs, ix):
    out = []
    for op, unit in (("add", 0), ("mul", 1), ("min", 2**63 - 1)):
        d = b.let(ir.Copy(xs))
        out += b.emit(ir.Hist(s["k"], (d,), (ix,), (vs,), operator(b, op, I64), (Const(I64, unit),)))
    d = b.let(ir.Copy(xs))
    return out + list(b.emit(ir.Scatter(s["k"], (d,), (ix,), (vs,))))


@case(["[n]i64", "[n]i64", "i64"], ints(6), ints(6), int(ints()), smooth=False, once=False)
@case(["[n]i64", "[n]i64", "i64"], ints(1), ints(1), int(ints()), smooth=False, once=False, name="integers_undone_one")
@case(["[n]i64", "[n]i64", "i64"], ints(0), ints(0), int(ints()), smooth=False, once=False, name="integers_undone_none")
def integers_undone(b, s, xs, ys, c):
    """Sums beside sums of products (and a - b + 2 b): an operator that can be undone."""

    def f(q, y1, x1, y2, x2):
        twice = q.op("add", x2, x2)
        cross = q.op("mul", c, q.op("mul", x1, x2))
        return [q.op("sub", q.op("add", y1, cross), q.op("neg", y2)), q.op("add", q.op("sub", x1, x2), twice)]

    def g(q, y1, x1, y2, x2):
        cross = q.op("mul", c, q.op("mul", x1, x2))
        return [q.op("add", q.op("add", y1, cross), y2), q.op("add", x1, x2)]

    out = []
    for op in (f, g):
        lam = b.lambda_([(x, I64) for x in "abcd"], op)
        out += b.emit(ir.Reduce(s["n"], (ys, xs), lam, (ZERO, ZERO)))
    return out


@case(["[n]bool", "[n]bool"], np.array([True, False, True, True, False]), np.array([True, True, False, True, False]),
      smooth=False, once=False)  # fmt: skip
def bools(b, s, xs, ys):
    """Logical reductions and scans; parity alone and beside the parity of pairs."""
    out = []
    for op, unit in (("and", True), ("or", False), ("xor", False)):
        for cls in (ir.Reduce, ir.Scan):
            out += b.emit(cls(s["n"], (xs,), operator(b, op, BOOL), (Const(BOOL, unit),)))

    def f(q, y1, x1, y2, x2):
        return [q.op("xor", q.op("xor", y1, y2), q.op("and", x1, x2)), q.op("xor", x1, x2)]

    lam = b.lambda_([(x, BOOL) for x in "abcd"], f)
    return out + list(b.emit(ir.Reduce(s["n"], (ys, xs), lam, (Const(BOOL, False), Const(BOOL, False)))))


@case(["[n]bool", "[k]bool", "[k]i64"], np.array([True, False, True, False]), BINS > 1, BINS, smooth=False, once=False)
def bools_by_index(b, s, xs, vs, ix):
    out = []
    for op, unit in (("and", True), ("or", False), ("xor", False)):
        d = b.let(ir.Copy(xs))
        out += b.emit(ir.Hist(s["k"], (d,), (ix,), (vs,), operator(b, op, BOOL), (Const(BOOL, unit),)))
    return out
