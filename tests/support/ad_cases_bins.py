"""Rows of the AD table: scatter and reduce_by_index."""

from __future__ import annotations

from typing import Any

import numpy as np

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import (
    F64,
    ArrayType,
    Atom,
    Const,
    i64,
    one,
    zero,
)
from tests.support.ad_cases import BINS, bilinear, case, normal, operator, product_rows, square

# --- scatter, reduce_by_index ---------------------------------------------------------------------------


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


@case(["[n]f64", "[k]f64", "[k]i64"], np.array([1.0, 2, 0, 3]), np.array([2.0, 5, 0, 0, 7, 0, 4]), BINS)
@case(["[n]f64", "[k]f64", "[k]i64"], np.array([0.0, 2, 1, 0]), np.array([0.0, 5, 0, 0, 7, 9, 0]), BINS)
def hist_mul_zeros(b, s, xs, vs, ix):
    """Two zeros and more in a bin: the product has no derivative there, but a second one."""
    d = b.let(ir.Copy(xs))
    return b.emit(ir.Hist(s["k"], (d,), (ix,), (vs,), operator(b, "mul"), (one(F64),)))


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


# --- reduce_by_index with any operator: sorted by bin -------------------------------------------------------


@case(["[n]f64", "[k]f64", "[k]i64", "f64"], normal(4), normal(0), BINS[:0], 0.3, name="hist_general_no_values")
@case(["[n]f64", "[k]f64", "[k]i64", "f64"], normal(0), normal(7), BINS, 0.3, name="hist_general_no_bins")
@case(["[n]f64", "[k]f64", "[k]i64", "f64"], normal(1), normal(7), 0 * BINS, 0.3, name="hist_general_one_bin")
@case(["[n]f64", "[k]f64", "[k]i64", "f64"], normal(8), normal(7), np.array([7, 0, 7, 7, 0, 6, 8]), 0.3)
def hist_general(b, s, xs, vs, ix, c):
    """Values computed and results used, so that adjoints of both arrive inside."""
    ws = b.zip_with(lambda q, v: q.op("sin", v), vs)
    out = b.emit(ir.Hist(s["k"], (square(b, xs),), (ix,), (ws,), bilinear(b, c), (zero(F64),)))
    return [square(b, out[0])]


def sum_of_exps(q: Builder, x: Atom, y: Atom) -> list[Atom]:
    """log (exp x + exp y), whose neutral element is -inf; between two of those the derivative is NaN."""
    return [q.op("log", q.op("add", q.op("exp", x), q.op("exp", y)))]


@case(["[n]f64", "[k]f64", "[k]i64"], normal(4), normal(7), BINS)
def hist_log_sum_exp(b, s, xs, vs, ix):
    lam = b.lambda_([("a", F64), ("b", F64)], sum_of_exps)
    return b.emit(ir.Hist(s["k"], (b.let(ir.Copy(xs)),), (ix,), (vs,), lam, (Const(F64, -np.inf),)))


def compose(q: Builder, a1: Atom, c1: Atom, a2: Atom, c2: Atom) -> list[Atom]:
    """x -> a2 (a1 x + c1) + c2."""
    return [q.op("mul", a1, a2), q.op("add", q.op("mul", a2, c1), c2)]


@case(["[n]f64", "[n]f64", "[k]f64", "[k]f64", "[k]i64"], normal(4), normal(4), normal(7), normal(7), BINS)
def hist_tuples(b, s, xs, ys, vs, ws, ix):
    lam = b.lambda_([(x, F64) for x in "abcd"], compose)
    dests = (b.let(ir.Copy(xs)), b.let(ir.Copy(ys)))
    return b.emit(ir.Hist(s["k"], dests, (ix,), (vs, ws), lam, (one(F64), zero(F64))))


@case(["[n][2][2]f64", "[k][2][2]f64", "[k]i64"], normal(4, 2, 2), normal(7, 2, 2), BINS)
def hist_matrices(b, s, xs, vs, ix):
    two = i64(2)
    t = ArrayType(F64, (two, two))
    rows = [b.let(ir.ArrayLit((Const(F64, x), Const(F64, 1 - x)), F64)) for x in (1.0, 0.0)]
    unit = b.let(ir.ArrayLit(tuple(rows), ArrayType(F64, (two,))))
    lam = b.lambda_([("a", t), ("b", t)], product_rows(two))
    return b.emit(ir.Hist(s["k"], (b.let(ir.Copy(xs)),), (ix,), (vs,), lam, (unit,)))


@case(["[n][m]f64", "[k][m]f64", "[k]i64", "f64"], normal(4, 3), normal(7, 3), BINS, 0.3)
def hist_vectorised_general(b, s, xs, vs, ix, c):
    t = ArrayType(F64, (s["m"],))

    def f(q, x, y):
        return q.emit(ir.Map(s["m"], (x, y), bilinear(q, c)))

    lam = b.lambda_([("a", t), ("b", t)], f)
    return b.emit(ir.Hist(s["k"], (b.let(ir.Copy(xs)),), (ix,), (vs,), lam, (b.zeros(t),)))


@case(
    ["[n][m]f64", "[k]f64", "[k]i64", "[k]i64", "f64"],
    normal(4, 3), normal(7), BINS, np.array([0, 1, 2, 0, 1, 5, 0]), 0.3,
)  # fmt: skip
def hist_two_indices(b, s, xs, vs, ix, iy, c):
    d = b.let(ir.Copy(xs))
    return b.emit(ir.Hist(s["k"], (d,), (ix, iy), (vs,), bilinear(b, c), (zero(F64),)))


@case(["[n][k]f64", "[k]i64", "f64"], normal(3, 7), BINS, 0.3)
def hist_in_map(b, s, vs, ix, c):
    def f(q, row):
        d = q.let(ir.Replicate((i64(3),), Const(F64, 0.5)))
        return q.emit(ir.Hist(s["k"], (d,), (ix,), (row,), bilinear(q, c), (zero(F64),)))

    return b.map_(f, vs)
