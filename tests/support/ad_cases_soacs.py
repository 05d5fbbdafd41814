"""Rows of the AD table: maps, reductions and scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import BOOL, F64, FALSE, I64, ONE, ZERO, ArrayType, Atom, Const, i64, one, zero
from tests.support.ad_cases import bilinear, case, normal, operator, product_rows, square

# --- map ----------------------------------------------------------------------------------------------------


@case(["[n][m]f64", "[m][k]f64"], normal(3, 4), normal(4, 2))
def map_matmul(b, s, x, y):
    return product_rows(s["m"])(b, x, y)


@case(["[n]f64", "[k]i64"], normal(5), np.array([3, 0, 3, 4, 1]))
def map_gather(b, s, xs, ix):
    return b.map_(lambda q, i: [q.op("mul", q.at(xs, i), q.at(xs, i))], ix)


@case(["[n]f64", "f64"], normal(0), 1.5, name="map_empty")
@case(["[n]f64", "f64"], normal(1), 1.5, name="map_one")
@case(["[n]f64", "f64"], normal(6), 1.5)
def map_free_scalar(b, s, xs, c):
    return b.map_(lambda q, x: [q.op("mul", q.op("sin", x), c), x], xs)


@case(["[n][m]f64", "[m]f64"], normal(3, 4), normal(4))
def map_nested_free(b, s, xs, ys):
    def row(q, r):
        def iteration(z, i, a):
            return [z.op("add", a, z.op("mul", z.at(r, i), z.op("mul", a, z.at(ys, i))))]

        a = q.emit(ir.For(s["m"], (one(F64),), q.lambda_([("i", I64), ("a", F64)], iteration)))[0]
        return [a, q.zip_with(lambda z, u, v: z.op("mul", z.op("mul", u, v), a), r, ys)]

    return b.map_(row, xs)


@case(["[n]f64", "[n]f64"], normal(5), normal(5))
def map_same_array_twice(b, s, xs, ys):
    zs = b.zip_with(lambda q, x, y: q.op("mul", x, y), xs, xs)
    return [b.zip_with(lambda q, x, y: q.op("mul", x, y), zs, xs), xs, xs]


@case(["[n]f64"], normal(4))
def map_constant_result(b, s, xs):
    return b.map_(lambda q, x: [one(F64), x], xs)


# --- reduce -----------------------------------------------------------------------------------------------


def reduce_with(op: str, unit: float, xs: Any, smooth: bool = True, once: bool = True, tag: str = "") -> None:
    def f(b, s, v):
        return b.emit(ir.Reduce(s["n"], (v,), operator(b, op), (Const(F64, unit),)))

    case(["[n]f64"], np.array(xs, float), smooth=smooth, once=once, name=f"reduce_{op}{tag}")(f)


reduce_with("add", 0, normal(5))
reduce_with("add", 0, [], tag="_empty")
reduce_with("mul", 1, normal(5))
reduce_with("mul", 1, [], tag="_empty")
reduce_with("mul", 1, [2.5], tag="_one")
reduce_with("mul", 1, [2, 0, 3, 4], smooth=False, tag="_zero")
reduce_with("mul", 1, [2, 0, 3, 0], smooth=False, tag="_zeros")
for _op, _unit in (("min", np.inf), ("max", -np.inf)):
    reduce_with(_op, _unit, normal(6))
    reduce_with(_op, _unit, [], tag="_empty", smooth=False, once=False)
    reduce_with(_op, _unit, [3, 1, 2, 1, 3], tag="_ties", smooth=False, once=False)
    reduce_with(_op, _unit, [np.nan, 1, 2], tag="_nan", smooth=False, once=False)


@case(["[n]f64", "f64"], normal(0), 0.7, name="reduce_general_empty")
@case(["[n]f64", "f64"], normal(1), 0.7, name="reduce_general_one")
@case(["[n]f64", "f64"], normal(6) * 0.5, 0.7)
def reduce_general_free(b, s, xs, c):
    return b.emit(ir.Reduce(s["n"], (xs,), bilinear(b, c), (zero(F64),)))


@case(["[n][m]f64"], normal(4, 3))
def reduce_scan_vectorised_mul(b, s, xs):
    t = ArrayType(F64, (s["m"],))

    def f(q, x, y):
        return [q.zip_with(lambda z, u, v: z.op("mul", u, v), x, y)]

    unit = b.let(ir.Replicate((s["m"],), one(F64)))
    out = []
    for cls in (ir.Reduce, ir.Scan):
        out += b.emit(cls(s["n"], (xs,), b.lambda_([("a", t), ("b", t)], f), (unit,)))
    return out


@case(["[n][m]f64"], normal(4, 3))
def reduce_scan_vectorised_add(b, s, xs):
    t = ArrayType(F64, (s["m"],))
    xs = b.zip_with(square, xs)
    out = []
    for cls in (ir.Reduce, ir.Scan):
        lam = b.lambda_([("a", t), ("b", t)], lambda q, x, y: [q.plus(x, y)])
        out += b.emit(cls(s["n"], (xs,), lam, (b.zeros(t),)))
    return out


@case(["[n][m]f64"], normal(4, 3))
def reduce_vectorised_max(b, s, xs):
    t = ArrayType(F64, (s["m"],))

    def f(q, x, y):
        return [q.zip_with(lambda z, u, v: z.op("max", u, v), x, y)]

    unit = b.let(ir.Replicate((s["m"],), Const(F64, -np.inf)))
    out = b.emit(ir.Reduce(s["n"], (xs,), b.lambda_([("a", t), ("b", t)], f), (unit,)))
    return [square(b, out[0])]


@case(["[n][m]f64"], normal(4, 3))
def reduce_scan_vectorised_swapped(b, s, xs):
    """The map takes the operator's arguments the other way round."""
    t = ArrayType(F64, (s["m"],))
    out = []
    for op, unit in (("max", -np.inf), ("mul", 1.0), ("add", 0.0)):
        for cls in (ir.Reduce, ir.Scan):

            def f(q, x, y, op=op):
                return q.emit(ir.Map(s["m"], (y, x), operator(q, op)))

            lam = b.lambda_([("a", t), ("b", t)], f)
            ne = b.let(ir.Replicate((s["m"],), Const(F64, unit)))
            out += b.emit(cls(s["n"], (xs,), lam, (ne,)))
    return out


@case(["[n][2][2]f64"], normal(1, 2, 2), name="reduce_scan_matrix_one")
@case(["[n][2][2]f64"], normal(4, 2, 2))
def reduce_scan_matrix(b, s, xs):
    two = i64(2)
    t = ArrayType(F64, (two, two))
    r0 = b.let(ir.ArrayLit((one(F64), zero(F64)), F64))
    r1 = b.let(ir.ArrayLit((zero(F64), one(F64)), F64))
    unit = b.let(ir.ArrayLit((r0, r1), ArrayType(F64, (two,))))
    out = []
    for cls in (ir.Reduce, ir.Scan):
        out += b.emit(cls(s["n"], (xs,), b.lambda_([("a", t), ("b", t)], product_rows(two)), (unit,)))
    return out


@case(["[n]f64", "[n]f64"], normal(5), normal(5))
def reduce_scan_tuple(b, s, a, c):
    """Composition of linear functions: the components depend on each other one way."""

    def f(q, a1, c1, a2, c2):
        return [q.op("mul", a1, a2), q.op("add", q.op("mul", a2, c1), c2)]

    out = []
    for cls in (ir.Reduce, ir.Scan):
        lam = b.lambda_([(x, F64) for x in "abcd"], f)
        out += b.emit(cls(s["n"], (a, c), lam, (one(F64), zero(F64))))
    return out


@case(["[n]f64", "[n]f64"], normal(5), normal(5))
def reduce_independent_parts(b, s, a, c):
    def f(q, a1, c1, a2, c2):
        return [q.op("mul", a1, a2), q.op("max", c1, c2)]

    lam = b.lambda_([(x, F64) for x in "abcd"], f)
    return b.emit(ir.Reduce(s["n"], (a, c), lam, (one(F64), Const(F64, -np.inf))))


# --- scan -------------------------------------------------------------------------------------------------


@case(["[n]f64"], normal(0), name="scan_add_empty")
@case(["[n]f64"], normal(6))
def scan_add(b, s, xs):
    ys = b.emit(ir.Scan(s["n"], (xs,), operator(b, "add"), (zero(F64),)))
    return b.map_(lambda q, x: [q.op("exp", x)], *ys)


@case(["[n]f64", "f64"], normal(0), 0.7, name="scan_general_empty")
@case(["[n]f64", "f64"], normal(1), 0.7, name="scan_general_one")
@case(["[n]f64", "f64"], normal(6) * 0.5, 0.7)
def scan_general_free(b, s, xs, c):
    return b.emit(ir.Scan(s["n"], (xs,), bilinear(b, c), (zero(F64),)))


@case(["[n]f64"], normal(6))
def scan_max(b, s, xs):
    return b.emit(ir.Scan(s["n"], (xs,), operator(b, "max"), (Const(F64, -np.inf),)))


def moments(q: Builder, *v: Atom) -> list[Atom]:
    """Five numbers, each with products of earlier ones: (a, b + c a a', ...) as a group of triangular matrices."""
    a, b = v[:5], v[5:]
    out = [q.op("add", x, y) for x, y in zip(a, b, strict=True)]
    out[1] = q.op("add", out[1], q.op("mul", a[0], b[0]))
    out[3] = q.op("add", out[3], q.op("mul", a[2], b[0]))
    out[4] = q.op("add", out[4], q.op("mul", a[0], b[2]))
    return out


@case(["[n]f64"] * 5, *[normal(0) for _ in range(5)], name="scan_five_empty")
@case(["[n]f64"] * 5, *[normal(1) for _ in range(5)], smooth=False, name="scan_five_one")
@case(["[n]f64"] * 5, *[normal(2) for _ in range(5)], smooth=False, name="scan_five_two")
@case(["[n]f64"] * 5, *[normal(8) for _ in range(5)], smooth=False, name="scan_five_eight")
@case(["[n]f64"] * 5, *[normal(7) for _ in range(5)])
def reduce_scan_five(b, s, *xs):
    out = []
    for cls in (ir.Reduce, ir.Scan):
        lam = b.lambda_([("x", F64)] * 10, moments)
        out += b.emit(cls(s["n"], xs, lam, (zero(F64),) * 5))
    return out


@case(["[n][2]f64", "f64"], normal(3, 2), 0.7, name="scan_rows_three")
@case(["[n][2]f64", "f64"], normal(6, 2), 0.7)
def reduce_scan_rows_free(b, s, xs, c):
    """Rows of two, the second with c times the product of the first ones: an array-valued operator."""
    t = ArrayType(F64, (i64(2),))

    def f(q, x, y):
        x0, y0 = q.at(x, ZERO), q.at(y, ZERO)
        second = q.op("add", q.op("add", q.at(x, ONE), q.at(y, ONE)), q.op("mul", c, q.op("mul", x0, y0)))
        return [q.let(ir.ArrayLit((q.op("add", x0, y0), second), F64))]

    out = []
    for cls in (ir.Reduce, ir.Scan):
        lam = b.lambda_([("a", t), ("b", t)], f)
        out += b.emit(cls(s["n"], (xs,), lam, (b.zeros(t),)))
    return [square(b, out[0]), square(b, out[1])]


@case(["[n]f64", "[n]bool"], normal(6), np.array([False, True, False, False, True, False]))
def scan_segmented(b, s, xs, flags):
    """A part of the operator that does not depend on anything active."""

    def f(q, f1, x, f2, y):
        return [q.op("or", f1, f2), q.op("select", f2, y, q.op("mul", x, y))]

    lam = b.lambda_([("f", BOOL), ("x", F64), ("g", BOOL), ("y", F64)], f)
    return b.emit(ir.Scan(s["n"], (flags, xs), lam, (FALSE, one(F64))))[1:]
