"""Every construct x mode: duality, central differences, second order, edge cases.

`CASES` has a row (at least) per node class and, through `operators`, per scalar operation;
`test_every_construct_has_a_row` fails for a new construct without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from derived_program import derived_program
from test_ad_support import Derivs, differences, directions, duality, make, retyped, second_order

from futad.ad import expand
from futad.core import ir
from futad.core.builder import Builder
from futad.core.interp import HANDLERS, Interpreter
from futad.core.node import Range
from futad.core.types import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    ONE,
    TRUE,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Prim,
    Var,
    i64,
    one,
    zero,
)
from futad.rewrite.simplify import simplify

rng = np.random.default_rng(1)


@dataclass
class Case:
    """A function, arguments, and which checks apply (`smooth`: twice differentiable there)."""

    name: str
    params: Sequence[str]
    args: Sequence[Any]
    f: Callable[..., Sequence[Atom]]
    smooth: bool = True
    once: bool = True


CASES: list[Case] = []


def case(params: Sequence[str], *args: Any, smooth: bool = True, once: bool = True, name: str = "") -> Any:
    def register(f: Callable[..., Sequence[Atom]]) -> Any:
        CASES.append(Case(name or f.__name__, params, args, f, smooth, once))
        return f

    return register


def normal(*shape: int) -> Any:
    return rng.normal(size=shape)


def operator(b: Builder, op: str, t: Prim = F64) -> ir.Lambda:
    return b.lambda_([("a", t), ("b", t)], lambda q, x, y: [q.op(op, x, y)])


def bilinear(b: Builder, c: Atom) -> ir.Lambda:
    """a + b + c a b: associative, with a free variable; its neutral element is 0."""

    def f(q: Builder, x: Atom, y: Atom) -> list[Atom]:
        return [q.op("add", q.op("add", x, y), q.op("mul", c, q.op("mul", x, y)))]

    return b.lambda_([("a", F64), ("b", F64)], f)


def square(q: Builder, x: Atom) -> Atom:
    if isinstance(x.type, Prim):
        return q.op("mul", x, x)
    return q.zip_with(square, x)


def total(q: Builder, x: Atom) -> Atom:
    """The sum of squares of all elements."""
    if isinstance(x.type, Prim):
        return q.op("mul", x, x)
    parts = q.zip_with(total, x)
    return q.emit(ir.Reduce(x.type.shape[0], (parts,), operator(q, "add"), (zero(F64),)))[0]


def total_of(q: Builder, row: Atom) -> Atom:
    return total(q, row)


def product_rows(n: Atom) -> Callable[..., Sequence[Atom]]:
    """The matrix product of n x n matrices as a function of a builder."""

    def f(q: Builder, a: Atom, b: Atom) -> Sequence[Atom]:
        cols = q.let(ir.Rearrange(b, (1, 0)))

        def row(q1: Builder, x: Atom) -> Sequence[Atom]:
            def col(q2: Builder, y: Atom) -> Sequence[Atom]:
                p = q2.zip_with(lambda z, u, v: z.op("mul", u, v), x, y)
                return q2.emit(ir.Reduce(n, (p,), operator(q2, "add"), (zero(F64),)))

            return q1.map_(col, cols)

        return q.map_(row, a)

    return f


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
        def turn(z, i, a):
            return [z.op("add", a, z.op("mul", z.at(r, i), z.op("mul", a, z.at(ys, i))))]

        a = q.emit(ir.For(s["m"], (one(F64),), q.lambda_([("i", I64), ("a", F64)], turn)))[0]
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


# --- scatter, reduce_by_index ---------------------------------------------------------------------------

BINS = np.array([2, -1, 0, 2, 9, 3, 2])


@case(["[n]f64", "[k]f64", "[k]i64"], normal(4), normal(0), BINS[:0], name="scatter_empty")
@case(["[n]f64", "[k]f64", "[k]i64"], normal(4), normal(7), BINS)
def scatter(b, s, xs, vs, ix):
    d = b.let(ir.Copy(xs))
    return [square(b, b.emit(ir.Scatter(s["k"], (d,), (ix,), (vs,)))[0])]


@case(["[n][m]f64", "[k][m]f64", "[k]i64"], normal(4, 3), normal(7, 3), BINS)
def scatter_rows(b, s, xs, vs, ix):
    d = b.let(ir.Copy(xs))
    return [square(b, b.emit(ir.Scatter(s["k"], (d,), (ix,), (vs,)))[0])]


@case(["[n][m]f64", "[k]f64", "[k]i64", "[k]i64"], normal(4, 3), normal(7), BINS, np.array([0, 1, 2, 0, 1, 5, 0]))
def scatter_two_indices(b, s, xs, vs, ix, iy):
    d = b.let(ir.Copy(xs))
    return [square(b, b.emit(ir.Scatter(s["k"], (d,), (ix, iy), (vs,)))[0])]


def hist_with(
    op: str, unit: float, dest: Any, values: Any, smooth: bool = True, once: bool = True, tag: str = ""
) -> None:
    def f(b, s, xs, vs, ix):
        d = b.let(ir.Copy(xs))
        out = b.emit(ir.Hist(s["k"], (d,), (ix,), (vs,), operator(b, op), (Const(F64, unit),)))
        return [square(b, out[0])]

    args = (np.array(dest, float), np.array(values, float), BINS[: len(values)])
    case(["[n]f64", "[k]f64", "[k]i64"], *args, smooth=smooth, once=once, name=f"hist_{op}{tag}")(f)


for _op, _unit in (("add", 0), ("mul", 1), ("min", np.inf), ("max", -np.inf)):
    hist_with(_op, _unit, normal(4), normal(7))
    hist_with(_op, _unit, normal(4), [], tag="_empty")
hist_with("min", np.inf, [1, 2, 0, 4], [0, 7, 1, 0, 9, 4, 0], smooth=False, once=False, tag="_ties")
hist_with("max", -np.inf, [1, 2, -9, 4], [0, 7, 1, 0, 9, 4, 0], smooth=False, once=False, tag="_ties")
hist_with("mul", 1, [1, 2, 3, 0], [2, np.nan, 0, 0, np.inf, 4, 5], smooth=False, tag="_zeros")


IGNORED = np.array([1, np.nan, 2, 3, np.inf, 4, 5])  # not numbers where the bin is out of range


@case(["[n]f64", "[k]f64", "[k]i64", "f64"], normal(4), IGNORED, BINS, 0.3, smooth=False)
@case(["[n]f64", "[k]f64", "[k]i64", "f64"], normal(4), normal(7), BINS, 0.3)
def hist_general_free(b, s, xs, vs, ix, c):
    d = b.let(ir.Copy(xs))
    return b.emit(ir.Hist(s["k"], (d,), (ix,), (vs,), bilinear(b, c), (zero(F64),)))


@case(["[n][m]f64", "[k][m]f64", "[k]i64"], normal(4, 3), normal(7, 3), BINS)
def hist_rows(b, s, xs, vs, ix):
    t = ArrayType(F64, (s["m"],))
    out = []
    for op, unit in (("add", 0.0), ("mul", 1.0), ("max", -np.inf)):
        d = b.let(ir.Copy(xs))

        def f(q, x, y, op=op):
            return [q.zip_with(lambda z, u, v: z.op(op, u, v), x, y)]

        lam = b.lambda_([("a", t), ("b", t)], f)
        ne = b.let(ir.Replicate((s["m"],), Const(F64, unit)))
        out += b.emit(ir.Hist(s["k"], (d,), (ix,), (vs,), lam, (ne,)))
    return out


# --- array constructs -----------------------------------------------------------------------------------


@case(["[n][k]f64", "[k][m]f64"], normal(2, 3), normal(3, 4))
def matrix_product(b, s, xs, ys):
    product = b.let(ir.MatMul(xs, ys))
    return [total(b, product), b.let(ir.MatMul(xs, ys, (product,)))]


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


@case(["[n]f64"], normal(4))
def scratch_and_assert(b, s, xs):
    b.add(ir.Stm((), ir.Assert(TRUE, "fine", (), None)))
    room = b.let(ir.Scratch(F64, (s["n"],)))
    return [square(b, b.let(ir.Update(room, (Range(ZERO, s["n"], ONE),), xs)))]


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


@case(["f64", "f64"], 0.3, 1.2)
def for_scalar(b, s, x, c):
    body = b.lambda_([("i", I64), ("x", F64)], lambda q, i, x: [q.op("mul", q.op("sin", x), c)])
    return b.emit(ir.For(i64(4), (x,), body))


@case(["f64", "f64"], 0.3, 1.2)
def for_no_turns(b, s, x, c):
    body = b.lambda_([("i", I64), ("x", F64)], lambda q, i, x: [q.op("mul", q.op("sin", x), c)])
    return b.emit(ir.For(i64(-3), (x,), body))


@case(["f64", "[n]f64", "i32"], 0.3, normal(5), np.int32(5))
def for_i32_bound(b, s, x, ys, n):
    def turn(q, i, x, ys):
        k = q.convert(I64, i)
        return [q.op("add", q.op("sin", x), q.at(ys, k)), q.let(ir.Update(ys, (k,), q.op("mul", x, q.at(ys, k))))]

    body = b.lambda_([("i", I32), ("x", F64), ("ys", ys.type)], turn)
    return b.emit(ir.For(n, (x, b.let(ir.Copy(ys))), body))


@case(["[n]f64", "f64"], normal(5), 1.2)
def for_reads_array(b, s, xs, c):
    def turn(q, i, y):
        return [q.op("add", q.op("mul", y, q.at(xs, i)), c)]

    return b.emit(ir.For(s["n"], (c,), b.lambda_([("i", I64), ("y", F64)], turn)))


@case(["[n]f64"], normal(5))
def for_updates_array(b, s, xs):
    def turn(q, j, xs):
        i = q.op("add", j, ONE)
        return [q.let(ir.Update(xs, (i,), q.op("mul", q.op("sin", q.at(xs, i)), q.at(xs, j))))]

    body = b.lambda_([("i", I64), ("xs", xs.type)], turn)
    return b.emit(ir.For(b.op("sub", s["n"], ONE), (b.let(ir.Copy(xs)),), body))


@case(["[n]f64", "f64"], normal(6), 0.7)
def for_updates_in_branches(b, s, xs, c):
    """The place and the branch depend on values that the loop itself changes."""

    def turn(q, i, xs, k):
        v = q.at(xs, k)
        pos = q.op("lt", zero(F64), v)

        def then(z):
            ys = z.let(ir.Update(xs, (i,), z.op("mul", z.op("sin", v), c)))
            return [z.let(ir.Update(ys, (k,), z.op("mul", z.at(ys, i), z.at(ys, k))))]

        ys = q.emit(ir.If(pos, q.body(then), q.body(lambda z: [xs])))[0]
        two = q.op("mod", q.op("add", k, i64(2)), s["n"])
        far = q.op("select", pos, two, q.op("mod", q.op("add", k, ONE), s["n"]))
        return [ys, far]

    body = b.lambda_([("i", I64), ("xs", xs.type), ("k", I64)], turn)
    return b.emit(ir.For(s["n"], (b.let(ir.Copy(xs)), ZERO), body))[:1]


@case(["[n][m]f64", "f64"], normal(3, 4), 0.7)
def for_updates_in_inner_loops(b, s, xs, c):
    """Rows and elements updated by a nest of loops, the array read around the updates."""

    def turn(q, i, xs, total):
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

    body = b.lambda_([("i", I64), ("xs", xs.type), ("t", F64)], turn)
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
    def turn(q, i, a, xs):
        return [q.op("add", q.op("sin", a), q.op("mul", a, q.at(xs, i))), xs]

    body = b.lambda_([("i", I64), ("a", F64), ("xs", xs.type)], turn)
    return b.emit(ir.For(s["n"], (b.at(ys, ZERO), xs), body))


@case(["[n]f64", "[n]f64"], normal(4), normal(4))
def for_maps_array(b, s, xs, ys):
    def turn(q, i, xs):
        return [q.zip_with(lambda z, x, y: z.op("mul", z.op("sin", x), y), xs, ys)]

    return b.emit(ir.For(i64(3), (xs,), b.lambda_([("i", I64), ("xs", xs.type)], turn)))


@case(["[n]f64", "f64", "i64"], normal(4), 0.5, 2)
def for_swaps(b, s, xs, c, k):
    def turn(q, i, xs, ys, x, k):
        y = q.op("mul", x, q.at(ys, k))
        return [ys, xs, y, q.op("mod", q.op("add", k, ONE), s["n"])]

    params = [("i", I64), ("xs", xs.type), ("ys", xs.type), ("x", F64), ("k", I64)]
    return b.emit(ir.For(i64(3), (xs, square(b, xs), c, k), b.lambda_(params, turn)))[:3]


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
    def turn(q, c, x):
        y = q.op("mul", x, q.op("add", q.op("sin", x), Const(F64, 2.5)))
        return [q.op("lt", y, Const(F64, 50.0)), y]

    body = b.lambda_([("c", BOOL), ("x", F64)], turn)
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

        def turn(z, c, y):
            y2 = z.op("mul", z.op("add", y, Const(F64, 9.0)), Const(F64, 1.5))
            return [z.op("lt", y2, Const(F64, 50.0)), y2]

        body = q.lambda_([("c", BOOL), ("y", F64)], turn)
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


# --- fused, accumulators, nested derivatives ------------------------------------------------------------


@case(["[n]f64", "f64"], normal(5), 0.3)
def fused(b, s, xs, c):
    def f(q, x):
        y = q.op("mul", q.op("sin", x), c)
        return [y, q.op("mul", y, x), q.op("exp", y)]

    lam = b.lambda_([("x", F64)], f)
    e = ir.Fused(
        s["n"], (xs,), lam, (operator(b, "add"),), ((zero(F64),),), (operator(b, "mul"),), ((one(F64),),), (False,)
    )
    return b.emit(e)


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

    from futad.core.types import AccType

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

    def turn(q, i, a, xs):
        a = q.op("mul", a, q.at(xs, i))
        return [a, q.let(ir.Update(xs, (i,), q.op("mul", a, c)))]

    body = b.lambda_([("i", I64), ("a", I64), ("xs", xs.type)], turn)
    return [*out, *b.emit(ir.For(n, (c, b.let(ir.Copy(zs))), body))]


@case(["[n]i64", "[k]i64", "[k]i64"], ints(4), ints(7), BINS, smooth=False, once=False)
def integers_by_index(b, s, xs, vs, ix):
    out = []
    for op, unit in (("add", 0), ("mul", 1), ("min", 2**63 - 1)):
        d = b.let(ir.Copy(xs))
        out += b.emit(ir.Hist(s["k"], (d,), (ix,), (vs,), operator(b, op, I64), (Const(I64, unit),)))
    d = b.let(ir.Copy(xs))
    return out + list(b.emit(ir.Scatter(s["k"], (d,), (ix,), (vs,))))


IDS = [f"{c.name}-{i}" for i, c in enumerate(CASES)]


def rows(wanted: Callable[[Case], bool]) -> Any:
    return pytest.mark.parametrize("c", [pytest.param(c, id=i) for c, i in zip(CASES, IDS, strict=True) if wanted(c)])


@rows(lambda c: True)
def test_reverse_is_the_transpose_of_forward(c: Case) -> None:
    duality(make(c.params, c.f), c.args)


@rows(lambda c: c.once)
def test_forward_agrees_with_differences(c: Case) -> None:
    differences(make(c.params, c.f), c.args)


@rows(lambda c: c.smooth)
def test_second_order(c: Case) -> None:
    second_order(make(c.params, c.f), c.args)


def _reads_bits(lam: ir.Lambda) -> bool:
    return any(
        isinstance(s.exp, ir.Op) and "bits" in s.exp.op or any(map(_reads_bits, s.exp.lambdas())) for s in lam.stms
    )


@rows(lambda c: c.smooth and not _reads_bits(make(c.params, c.f).funs["f"].body))
def test_single_precision(c: Case) -> None:
    """Duality at f32, to the same number of units in the last place."""
    args = [np.asarray(a, np.float32)[()] if np.asarray(a).dtype == np.float64 else a for a in c.args]
    duality(retyped(make(c.params, c.f), F64, F32), args, tol=1e-12 * 2**29)


@rows(lambda c: True)
def test_many_directions(c: Case) -> None:
    directions(make(c.params, c.f), c.args, c.smooth)


def _nodes_of(lam: ir.Lambda) -> set[type]:
    out: set[type] = set()
    for s in lam.stms:
        out.add(type(s.exp))
        for inner in s.exp.lambdas():
            out |= _nodes_of(inner)
    return out


def test_every_construct_has_a_row() -> None:
    every = {c for c in ir.Exp.__subclasses__() if c is getattr(ir, c.__name__)} - {ir.Call}
    seen: set[type] = set()
    for c in CASES:
        seen |= _nodes_of(make(c.params, c.f).funs["f"].body)
    assert every == seen




def stripmined(k: int) -> Callable[..., Sequence[Atom]]:
    def f(b, s, x, c, n):
        body = b.lambda_([("i", I64), ("x", F64)], lambda q, i, x: [q.op("add", q.op("sin", x), c)])
        return b.emit(ir.For(n, (x,), body), attrs=(("stripmine", k),))

    return f


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 7, 30])
def test_stripmined_loops(k: int, n: int) -> None:
    """The same derivative, bit for bit, as of the plain loop."""
    types, args = ["f64", "f64", "i64"], [0.3, 0.4, n]
    plain, split = make(types, stripmined(0)), make(types, stripmined(k))
    duality(split, args)
    got, want = Derivs(split).vjp(args, [1.0]), Derivs(plain).vjp(args, [1.0])
    assert got == want


@pytest.mark.parametrize("k", [1, 2, 3])
def test_stripmined_loops_run_k_plus_two_times(k: int) -> None:
    p = derived_program(make(["f64", "f64", "i64"], stripmined(k)), "f", "vjp")
    g = p.funs["f_vjp"]
    p = simplify(expand(ir.Program({"f_vjp": g})))
    saved = [0]
    runs = [0]
    interp = Interpreter(p)
    evaluate = HANDLERS[ir.Op]

    def counted(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        runs[0] += e.op == "sin"
        return evaluate(m, e, stm, sc)

    def room(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        out = scratch(m, e, stm, sc)
        saved[0] = max(saved[0], out[0].size)
        return out

    scratch = HANDLERS[ir.Scratch]
    HANDLERS[ir.Op], HANDLERS[ir.Scratch] = counted, room
    try:
        interp.run("f_vjp", [0.3, 0.4, 200, 1.0])
    finally:
        HANDLERS[ir.Op], HANDLERS[ir.Scratch] = evaluate, scratch
    # sin is part of the primal only: in the last execution, dead, as its derivative is a cosine.
    assert runs[0] == (k + 1) * 200
    assert saved[0] <= np.ceil(200 ** (1 / (k + 1))) + 1
