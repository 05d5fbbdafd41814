"""Rows of the AD table: branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import (
    BOOL,
    F64,
    I32,
    I64,
    ONE,
    TRUE,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Var,
    i64,
    one,
    zero,
)
from tests.support.ad_cases import BINS, case, normal, operator, square, total, total_of

# --- control --------------------------------------------------------------------------------------------


@case(["[n]f64", "f64"], normal(6), 0.4)
def if_in_map(b, s, xs, c):
    def f(q, x):
        pos = q.op("lt", zero(F64), x)
        then = q.body(lambda z: [z.op("mul", x, c)])
        return q.emit(ir.If(pos, then, q.body(lambda z: [z.op("sin", z.at(xs, ZERO))])))

    return b.map_(f, xs)


@case(["[n]f64", "f64"], normal(6), -0.4, name="if_array_else")
@case(["[n]f64", "f64"], normal(6), 0.4)
def if_array(b, s, xs, c):
    return b.emit(ir.If(b.op("lt", zero(F64), c), b.body(lambda q: [square(q, xs)]), b.body(lambda q: [xs])))


@case(["[n]f64", "f64", "f64"], normal(4), 0.7, -0.3)
def tasks(b, s, xs, c, unused):
    """An array that both read, a scalar that one does, results of both kinds, an argument of neither."""
    first = b.body(lambda q: [q.op("mul", total(q, square(q, xs)), c), xs])
    second = b.body(lambda q: [square(q, xs)])
    return b.emit(ir.Par(first, second))


@case(["[n]f64", "f64"], normal(3), 0.6)
def tasks_in_map_and_tasks(b, s, xs, c):
    def f(q, x):
        def inner(z):
            one_more = z.body(lambda y: [y.op("sin", x)])
            return z.emit(ir.Par(one_more, z.body(lambda y: [y.op("mul", x, c)])))

        a, d, e = q.emit(ir.Par(q.body(inner), q.body(lambda z: [z.op("exp", c)])))
        return [q.op("mul", q.op("mul", a, d), e)]

    return b.map_(f, xs)


@case(["f64", "f64"], 0.3, 1.2)
def for_scalar(b, s, x, c):
    body = b.lambda_([("i", I64), ("x", F64)], lambda q, i, x: [q.op("mul", q.op("sin", x), c)])
    return b.emit(ir.For(i64(4), (x,), body))


@case(["f64", "f64"], 0.3, 1.2)
def for_no_iterations(b, s, x, c):
    body = b.lambda_([("i", I64), ("x", F64)], lambda q, i, x: [q.op("mul", q.op("sin", x), c)])
    return b.emit(ir.For(i64(-3), (x,), body))


@case(["f64", "[n]f64", "i32"], 0.3, normal(5), np.int32(5))
def for_i32_bound(b, s, x, ys, n):
    def iteration(q, i, x, ys):
        k = q.convert(I64, i)
        return [q.op("add", q.op("sin", x), q.at(ys, k)), q.let(ir.Update(ys, (k,), q.op("mul", x, q.at(ys, k))))]

    body = b.lambda_([("i", I32), ("x", F64), ("ys", ys.type)], iteration)
    return b.emit(ir.For(n, (x, b.let(ir.Copy(ys))), body))


@case(["[n]f64", "f64"], normal(5), 1.2)
def for_reads_array(b, s, xs, c):
    def iteration(q, i, y):
        return [q.op("add", q.op("mul", y, q.at(xs, i)), c)]

    return b.emit(ir.For(s["n"], (c,), b.lambda_([("i", I64), ("y", F64)], iteration)))


@case(["[n]f64"], normal(5))
def for_updates_array(b, s, xs):
    def iteration(q, j, xs):
        i = q.op("add", j, ONE)
        return [q.let(ir.Update(xs, (i,), q.op("mul", q.op("sin", q.at(xs, i)), q.at(xs, j))))]

    body = b.lambda_([("i", I64), ("xs", xs.type)], iteration)
    return b.emit(ir.For(b.op("sub", s["n"], ONE), (b.let(ir.Copy(xs)),), body))


@case(["[n]f64", "f64"], normal(6), 0.7)
def for_updates_in_branches(b, s, xs, c):
    """The place and the branch depend on values that the loop itself changes."""

    def iteration(q, i, xs, k):
        v = q.at(xs, k)
        pos = q.op("lt", zero(F64), v)

        def then(z):
            ys = z.let(ir.Update(xs, (i,), z.op("mul", z.op("sin", v), c)))
            return [z.let(ir.Update(ys, (k,), z.op("mul", z.at(ys, i), z.at(ys, k))))]

        ys = q.emit(ir.If(pos, q.body(then), q.body(lambda z: [xs])))[0]
        two = q.op("mod", q.op("add", k, i64(2)), s["n"])
        far = q.op("select", pos, two, q.op("mod", q.op("add", k, ONE), s["n"]))
        return [ys, far]

    body = b.lambda_([("i", I64), ("xs", xs.type), ("k", I64)], iteration)
    return b.emit(ir.For(s["n"], (b.let(ir.Copy(xs)), ZERO), body))[:1]


@case(["[n][m]f64", "f64"], normal(3, 4), 0.7)
def for_updates_in_inner_loops(b, s, xs, c):
    """Rows and elements updated by a nest of loops, the array read around the updates."""

    def iteration(q, i, xs, total):
        row = q.zip_with(lambda z, x, y: z.op("mul", x, y), q.at(xs, i), q.at(xs, ZERO))
        xs = q.let(ir.Update(xs, (i,), row))

        def inner(z, j, xs):
            prev = z.op("mod", z.op("add", j, ONE), s["m"])
            v = z.op("mul", z.op("sin", z.at(xs, i, j)), z.op("add", c, z.at(xs, ZERO, prev)))
            return [z.let(ir.Update(xs, (i, j), v))]

        xs = q.emit(ir.For(s["m"], (xs,), q.lambda_([("j", I64), ("xs", xs.type)], inner)))[0]
        sums = q.zip_with(total_of, xs)
        more = q.emit(ir.Reduce(s["n"], (sums,), operator(q, "add"), (zero(F64),)))[0]
        return [xs, q.op("add", total, more)]

    body = b.lambda_([("i", I64), ("xs", xs.type), ("t", F64)], iteration)
    return b.emit(ir.For(s["n"], (b.let(ir.Copy(xs)), zero(F64)), body))


@case(["[n]f64", "[k]f64", "[k]i64"], normal(4), normal(7), BINS)
def updates_taken_back(b, s, xs, vs, ix):
    """Code before and after an update and a scatter reads the array."""
    xs = b.zip_with(square, xs)
    first = b.zip_with(square, xs)
    ys = b.let(ir.Update(xs, (ONE,), b.op("sin", b.at(xs, ZERO))))
    second = b.zip_with(square, ys)
    zs = b.emit(ir.Scatter(s["k"], (ys,), (ix,), (vs,)))[0]
    return [total(b, first), total(b, second), total(b, zs)]


@case(["[n]f64", "[n]f64"], normal(4), normal(4))
def for_invariant_array(b, s, xs, ys):
    def iteration(q, i, a, xs):
        return [q.op("add", q.op("sin", a), q.op("mul", a, q.at(xs, i))), xs]

    body = b.lambda_([("i", I64), ("a", F64), ("xs", xs.type)], iteration)
    return b.emit(ir.For(s["n"], (b.at(ys, ZERO), xs), body))


@case(["[n]f64", "[n]f64"], normal(4), normal(4))
def for_maps_array(b, s, xs, ys):
    def iteration(q, i, xs):
        return [q.zip_with(lambda z, x, y: z.op("mul", z.op("sin", x), y), xs, ys)]

    return b.emit(ir.For(i64(3), (xs,), b.lambda_([("i", I64), ("xs", xs.type)], iteration)))


@case(["[n]f64", "f64", "i64"], normal(4), 0.5, 2)
def for_swaps(b, s, xs, c, k):
    def iteration(q, i, xs, ys, x, k):
        y = q.op("mul", x, q.at(ys, k))
        return [ys, xs, y, q.op("mod", q.op("add", k, ONE), s["n"])]

    params = [("i", I64), ("xs", xs.type), ("ys", xs.type), ("x", F64), ("k", I64)]
    return b.emit(ir.For(i64(3), (xs, square(b, xs), c, k), b.lambda_(params, iteration)))[:3]


@case(["[n][m]f64"], normal(3, 4))
def for_nested(b, s, xs):
    def outer(q, i, a):
        row = q.at(xs, i)

        def inner(z, j, v):
            return [z.op("add", z.op("sin", v), z.op("mul", v, z.at(row, j)))]

        body = q.lambda_([("j", I64), ("b", F64)], inner)
        return q.emit(ir.For(s["m"], (a,), body))

    return b.emit(ir.For(s["n"], (one(F64),), b.lambda_([("i", I64), ("a", F64)], outer)))


def while_loop(b, x, attrs=()):
    def iteration(q, c, x):
        y = q.op("mul", x, q.op("add", q.op("sin", x), Const(F64, 2.5)))
        return [q.op("lt", y, Const(F64, 50.0)), y]

    body = b.lambda_([("c", BOOL), ("x", F64)], iteration)
    return b.emit(ir.While((TRUE, x), body), attrs=attrs)[1:]


@case(["f64"], 1.1)
def while_counted(b, s, x):
    return while_loop(b, x)


@case(["f64"], 1.1)
def while_bounded(b, s, x):
    return while_loop(b, x, (("bound", 16),))


@case(["[n]f64"], normal(5) * 9)
def while_in_map(b, s, xs):
    def f(q, x):
        start = q.op("lt", x, Const(F64, 50.0))

        def iteration(z, c, y):
            y2 = z.op("mul", z.op("add", y, Const(F64, 9.0)), Const(F64, 1.5))
            return [z.op("lt", y2, Const(F64, 50.0)), y2]

        body = q.lambda_([("c", BOOL), ("y", F64)], iteration)
        return [square(q, q.emit(ir.While((start, x), body))[1])]

    return b.map_(f, xs)


def growing(b: Builder, xs: Any, make_loop: Callable[[tuple[Atom, ...], ir.Lambda], ir.Exp], lead: list[Var]) -> list:
    """A loop in which xs becomes map (\\x -> sin x * t) (xs ++ [t]) and t the product of t and the sum of xs."""
    n, t = Var("n", I64), Var("t", F64)
    array = Var("xs", ArrayType(F64, (n,)))
    q = Builder()
    more = q.op("add", n, ONE)
    last = q.let(ir.ArrayLit((t,), F64))
    longer = q.let(ir.Concat((array, last), more))
    new = q.zip_with(lambda z, x: z.op("mul", z.op("sin", x), t), longer)
    (s,) = q.emit(ir.Reduce(n, (array,), operator(q, "add"), (zero(F64),)))
    state = [more, new, q.op("mul", t, s)]
    if len(lead) == 2:
        i = lead[1]
        q2 = q.op("add", i, ONE)
        state = [q.op("lt", q2, i64(3)), q2, *state]
    lam = ir.Lambda((*lead, n, array, t), tuple(q.stms), tuple(state))
    start: list[Atom] = [xs.type.shape[0], xs, Const(F64, 0.7)]
    if len(lead) == 2:
        start = [TRUE, ZERO, *start]
    e = make_loop(tuple(start), lam)
    end = Var("end", I64)
    final = Var("xs", ArrayType(F64, (end,)))
    pat = [end, final, Var("t", F64)]
    if len(lead) == 2:
        pat = [Var("c", BOOL), Var("i", I64), *pat]
    b.add(ir.Stm(tuple(pat), e))
    return [total(b, final), pat[-1]]


@case(["[n]f64"], normal(3))
def for_shapes(b, s, xs):
    return growing(b, xs, lambda start, lam: ir.For(i64(3), start, lam), [Var("i", I64)])


@case(["[n]f64"], normal(3))
def while_shapes(b, s, xs):
    return growing(b, xs, lambda start, lam: ir.While(start, lam), [Var("c", BOOL), Var("i", I64)])
