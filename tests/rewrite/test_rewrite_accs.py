# ruff: noqa: E501 (programs read better unbroken)
"""Rules on what differentiation leaves: accumulators and one-hot adjoints."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.ad.expand import expand
from futad.core import ir
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.optimise.fusion import fuse
from futad.optimise.hoist import hoist
from futad.optimise.inline import inline
from futad.pipeline import compile_program
from futad.rewrite.simplify import simplify
from futad.source import compile_text
from futad.target import TARGETS
from futad.testing.programs.core_derived import derived_program
from tests.support.optimise_support import heads, passes, same_results

# Sum of squared distances to the nearest centroid.
NEAREST = r"""
fun main [n_1: i64, k_3: i64, d_9: i64] (xs_2: [n_1][d_9]f64, cs_3: [k_3][d_9]f64) -> (r_6: f64) = {
  let cost_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: [d_9]f64) -> {
     let ds_6: [k_3]f64 = map(k_3, [cs_3], \(c_7: [d_9]f64) -> {
        let sq_8: [d_9]f64 = map(d_9, [x_5, c_7], \(a_10: f64, b_11: f64) -> {
          let e_12: f64 = sub(a_10, b_11) let f_13: f64 = mul(e_12, e_12) in (f_13) })
        let s_14: f64 = reduce(d_9, [sq_8], \(u_15: f64, v_16: f64) -> { let w_17: f64 = add(u_15, v_16) in (w_17) }, [0.0f64], True)
        in (s_14) })
     let m_18: f64 = reduce(k_3, [ds_6], \(u_19: f64, v_20: f64) -> { let w_21: f64 = min(u_19, v_20) in (w_21) }, [inff64], True)
     in (m_18) })
  let t_22: f64 = reduce(n_1, [cost_4], \(u_23: f64, v_24: f64) -> { let w_25: f64 = add(u_23, v_24) in (w_25) }, [0.0f64], True)
  in (t_22) }
"""

# The same with the distance summed in a loop.
NEAREST_LOOP = NEAREST[: NEAREST.index("let sq_8")] + NEAREST[NEAREST.index("in (s_14)") :].replace(
    "in (s_14)",
    r"""let s_14: f64 = for(d_9, [0.0f64], \(i_30: i64, acc_31: f64) -> {
          let a_32: f64 = x_5[i_30] let b_33: f64 = c_7[i_30] let e_34: f64 = sub(a_32, b_33) let f_35: f64 = mul(e_34, e_34)
          let g_36: f64 = add(acc_31, f_35) in (g_36) })
        in (s_14)""",
)


def gradient(text: str) -> tuple[ir.Program, ir.Program]:
    """The derived program expanded only, and through all passes."""
    p = derived_program(parse_program(text), "main", "vjp")
    plain = expand(inline(p))
    del plain.funs["main"]
    q = passes(p, simplify, inline, simplify, expand, simplify, fuse, simplify, hoist, simplify)
    del q.funs["main"]
    return plain, q


def nearest(xs, cs):
    d = ((xs[:, None] - cs[None]) ** 2).sum(2)
    best = d.argmin(1)
    xbar, cbar = 2 * (xs - cs[best]), np.zeros_like(cs)
    np.add.at(cbar, best, -xbar)
    return d.min(1).sum(), xbar, cbar


@pytest.mark.parametrize("text", [NEAREST, NEAREST_LOOP], ids=["map", "loop"])
@pytest.mark.parametrize("n,k,d", [(5, 3, 2), (1, 1, 1), (4, 7, 3)])
def test_the_adjoint_of_a_minimum_visits_one_place(text, n, k, d):
    plain, q = gradient(text)
    h = heads(q)
    assert h["If"] >= 1, q
    rng = np.random.default_rng(n)
    xs, cs = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    got = same_results(plain, q, [n, k, d, xs, cs, 1.0], name="main_vjp")
    for x, y in zip(got, nearest(xs, cs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13)


def test_value_and_derivative_share_what_both_need():
    """The distances are computed once, for the value and for the return sweep's own forward part."""
    _, q = gradient(NEAREST)
    assert heads(q)["sub"] == 2 and heads(q)["Fused"] == 4, q
    (scope,) = [s.exp for s in q.funs["main_vjp"].body.stms if isinstance(s.exp, ir.WithAcc)]
    assert len(scope.lam.result) == 3


def test_one_hot_work_does_not_grow_with_the_width():
    """The return sweep of the minimum touches d places a point, not k d."""
    from futad.core.interp import Interpreter

    _, q = gradient(NEAREST)
    rng = np.random.default_rng(0)

    def updates(k: int) -> int:
        m = Interpreter(q, count=True)
        m.run("main_vjp", [6, k, 4, rng.normal(size=(6, 4)), rng.normal(size=(k, 4)), 1.0])
        return m.counts["updateacc"].written

    assert updates(40) == updates(2) > 0


def test_what_does_not_vanish_keeps_every_iteration():
    """acc += t + x with a one-hot t: every iteration adds something."""
    text = r"""
    fun main [n_1: i64] (k_2: i64, xs_3: [n_1]f64) -> (r_4: [n_1]f64) = {
      let z_5: [n_1]f64 = replicate([n_1], 0.0f64) let is_6: [n_1]i64 = iota(n_1, 0i64, 1i64)
      let w_7: [n_1]f64 = withacc([z_5], "add", \(a_8: acc([n_1]f64)) -> {
        let b_9: acc([n_1]f64) = map(n_1, [a_8, is_6, xs_3], \(c_10: acc([n_1]f64), i_11: i64, x_12: f64) -> {
          let t_13: bool = eq(i_11, k_2) let s_14: f64 = select(t_13, 2.0f64, 0.0f64) let u_15: f64 = OP(s_14, x_12)
          let d_16: acc([n_1]f64) = updateacc(c_10, [i_11], u_15) in (d_16) })
        in (b_9) })
      in (w_7) }
    """
    for op, maps in (("add", 1), ("mul", 0)):
        p = parse_program(text.replace("OP", op))
        q = passes(p, simplify)
        assert heads(q)["Map"] == maps, q
        for k in (0, 2, -1, 9):
            same_results(p, q, [4, k, np.array([1.0, 2.0, 3.0, 4.0])])


def test_what_needs_no_accumulator_leaves_the_scope():
    text = r"""
    fun main [n_1: i64] (k_2: i64, xs_3: [n_1]f64) -> (r_4: [n_1]f64, s_20: [n_1]f64, t_21: f64) = {
      let z_5: [n_1]f64 = replicate([n_1], 0.0f64)
      let (w_7: [n_1]f64, m_30: [n_1]f64, v_31: f64) = withacc([z_5], "add", \(a_8: acc([n_1]f64)) -> {
        let m_9: [n_1]f64 = map(n_1, [xs_3], \(x_12: f64) -> { let e_13: f64 = exp(x_12) in (e_13) })
        let e_14: f64 = m_9[0i64]
        let b_15: acc([n_1]f64) = updateacc(a_8, [k_2], e_14)
        in (b_15, m_9, e_14) })
      in (w_7, m_30, v_31) }
    """
    p = parse_program(text)
    q = passes(p, simplify)
    (scope,) = [s.exp for s in q.funs["main"].body.stms if isinstance(s.exp, ir.WithAcc)]
    assert [type(s.exp) for s in scope.lam.stms] == [ir.UpdateAcc] and len(scope.lam.result) == 1
    for k in (0, 3, -1, 9):
        same_results(p, q, [4, k, np.array([1.0, 2.0, 3.0, 4.0])])


def test_idle_accumulators_close():
    text = r"""
    fun main [n_1: i64] (k_2: i64, xs_3: [n_1]f64) -> (r_4: [n_1]f64, s_20: [n_1]f64) = {
      let z_5: [n_1]f64 = copy(xs_3) let y_6: [n_1]f64 = copy(xs_3)
      let (w_7: [n_1]f64, v_8: [n_1]f64) = withacc([z_5, y_6], "add", \(a_8: acc([n_1]f64), b_9: acc([n_1]f64)) -> {
        let c_15: acc([n_1]f64) = updateacc(b_9, [k_2], 1.0f64) in (a_8, c_15) })
      in (w_7, v_8) }
    """
    p = parse_program(text)
    q = passes(p, simplify)
    (scope,) = [s.exp for s in q.funs["main"].body.stms if isinstance(s.exp, ir.WithAcc)]
    assert len(scope.arrays) == 1
    same_results(p, q, [4, 2, np.array([1.0, 2.0, 3.0, 4.0])])


@pytest.mark.parametrize("place", ["0i64", "k_2"])
def test_what_overwrites_stays_after_what_reads(place):
    """Though it needs no accumulator."""
    text = r"""
    fun main [n_1: i64] (k_2: i64, xs_3: [n_1]f64) -> (r_4: [n_1]f64, s_20: [n_1]f64) = {
      let z_5: [n_1]f64 = replicate([n_1], 0.0f64) let is_6: [n_1]i64 = iota(n_1, 0i64, 1i64) let d_7: [n_1]f64 = copy(xs_3)
      let (w_8: [n_1]f64, e_9: [n_1]f64) = withacc([z_5], "add", \(a_10: acc([n_1]f64)) -> {
        let b_11: acc([n_1]f64) = map(n_1, [a_10, is_6, d_7], \(c_12: acc([n_1]f64), i_13: i64, x_14: f64) -> {
          let y_17: f64 = sin(x_14) let d_15: acc([n_1]f64) = updateacc(c_12, [k_2], y_17) in (d_15) })
        let e_16: [n_1]f64 = update(d_7, [PLACE], 5.0f64, None)
        in (b_11, e_16) })
      in (w_8, e_9) }
    """
    p = parse_program(text.replace("PLACE", place))
    q = passes(p, simplify)
    same_results(p, q, [4, 2, np.array([1.0, 2.0, 3.0, 4.0])])


READ_AT = r"""
def f [m][n] (q: [m][n]f64) (k: i64) =
  f64.sum (tabulate n (\i -> f64.sum (map (\r -> r[i] * r[(i + 1) % n] - r[0] ** 2) (take k q)) ** 2))
entry main [m][n] (q: [m][n]f64) (k: i64) : [m][n]f64 = vjp (\q -> f q k) q 1
"""


def test_rows_that_are_zero_but_at_places_are_added_there():
    program = futad.compile(READ_AT, backend="c")
    text = program_text(compile_program(compile_text(READ_AT), target=TARGETS["c"]))
    assert "updateacc" in text and "update(" not in text
    q = np.arange(12.0).reshape(3, 4) / 10
    got = program.main(q, 2)
    np.testing.assert_allclose(got, futad.compile(READ_AT, backend="interp").main(q, 2), rtol=1e-12)
    s = (q[:2] * np.roll(q[:2], -1, 1) - q[:2, :1] ** 2).sum(0)
    want = np.zeros_like(q)
    want[:2] = 2 * s * np.roll(q[:2], -1, 1) + np.roll(2 * s * q[:2], 1, 1)
    want[:2, 0] -= 4 * s.sum() * q[:2, 0]
    np.testing.assert_allclose(got, want, rtol=1e-12)
