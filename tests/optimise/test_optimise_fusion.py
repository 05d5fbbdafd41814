# ruff: noqa: E501 (programs read better unbroken)
"""Fusion: what becomes one loop and what must not, by structure and by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.parse import parse_program
from futad.optimise.fusion import fuse
from futad.rewrite.simplify import simplify
from tests.support.core_programs import MATMUL
from tests.support.optimise_support import body, heads, passes, same_results

ADD = r"\(u_{0}: f64, v_{0}: f64) -> {{ let w_{0}: f64 = add(u_{0}, v_{0}) in (w_{0}) }}"


def add(k: int) -> str:
    return ADD.format(k)


def fused(text, args=None, **expect):
    """The program after simplify, fuse, simplify has these numbers of nodes and the same results."""
    p = parse_program(text)
    q = passes(p, simplify, fuse, simplify)
    h = heads(q)
    for kind, n in expect.items():
        assert h[kind] == n, f"{kind}: {h[kind]}, not {n}\n{q}"
    rng = np.random.default_rng(0)
    args = args or [5, rng.normal(size=5), rng.normal(size=5)]
    same_results(p, q, args)
    return q


def unary(k: int, x: str, op: str = "exp") -> str:
    return rf"map(n_1, [{x}], \(a_{k}: f64) -> {{ let b_{k}: f64 = {op}(a_{k}) in (b_{k}) }})"


def test_map_map():
    fused(body(f"let p_4: [n_1]f64 = {unary(50, 'xs_2')} let q_5: [n_1]f64 = {unary(60, 'p_4', 'sin')} in (q_5)", ret="[n_1]f64")
          .replace("r_900: [n_1]f64", "r_900: [n_1]f64"), Map=1, exp=1, sin=1)


def test_map_reduce_and_horizontal():
    fused(body(f"""
      let p_4: [n_1]f64 = {unary(50, "xs_2")}
      let s_5: f64 = reduce(n_1, [p_4], {add(60)}, [0.0f64], False)
      let t_6: f64 = reduce(n_1, [xs_2], {add(70)}, [0.0f64], False)
      let z_7: f64 = mul(s_5, t_6) in (z_7)"""), Map=0, Reduce=0, Fused=1)


def test_a_loop_waits_for_the_reader_that_it_can_be_one_with():
    """Of two loops over one array the first is read beside what is made of the second's result."""
    q = fused(body(f"""
      let p_4: [n_1]f64 = {unary(50, "xs_2")}
      let c_5: [n_1]f64 = {unary(60, "xs_2", "sin")}
      let u_6: [n_1]f64 = update(c_5, [0i64], 1.0f64, None)
      let q_7: [n_1]f64 = map(n_1, [p_4, u_6], \\(a_80: f64, b_81: f64) -> {{ let c_82: f64 = mul(a_80, b_81) in (c_82) }})
      in (q_7)""", ret="[n_1]f64"), Map=2, exp=1, sin=1)
    maps = [{t.exp.op for t in s.exp.lam.stms} for f in q.funs.values() for s in f.body.stms if isinstance(s.exp, ir.Map)]
    assert maps == [{"sin"}, {"exp", "mul"}]


def test_producer_used_twice_is_kept_as_an_output():
    fused(body(f"""
      let p_4: [n_1]f64 = {unary(50, "xs_2")}
      let s_5: f64 = reduce(n_1, [p_4], {add(60)}, [0.0f64], False)
      let q_7: [n_1]f64 = map(n_1, [p_4], \\(a_80: f64) -> {{ let b_81: f64 = div(a_80, s_5) in (b_81) }})
      in (q_7)""", ret="[n_1]f64"), Map=1, Reduce=0, Fused=1, exp=1)


def test_cheap_producer_is_copied():
    fused(body(f"""
      let p_4: [n_1]f64 = {unary(50, "xs_2", "neg")}
      let s_5: f64 = reduce(n_1, [p_4], \\(u_6: f64, v_7: f64) -> {{ let w_8: f64 = max(u_6, v_7) in (w_8) }}, [-inff64], False)
      let q_7: [n_1]f64 = map(n_1, [p_4], \\(a_80: f64) -> {{ let b_81: f64 = div(a_80, s_5) in (b_81) }})
      in (q_7)""", ret="[n_1]f64"), Map=1, Reduce=0, Fused=1, neg=2)


def test_map_scan():
    fused(body(f"""
      let p_4: [n_1]f64 = {unary(50, "xs_2")}
      let s_5: [n_1]f64 = scan(n_1, [p_4], {add(60)}, [0.0f64])
      let q_7: [n_1]f64 = {unary(70, "s_5", "sin")}
      in (q_7)""", ret="[n_1]f64"), Map=1, Scan=0, Fused=1)


def test_consumption_between_forbids():
    # xs is overwritten after p is computed from it: p cannot move down past the update.
    q = fused(body(f"""
      let c_4: [n_1]f64 = copy(xs_2)
      let p_5: [n_1]f64 = {unary(50, "c_4")}
      let d_6: [n_1]f64 = update(c_4, [0i64], 7.0f64, "f:1:1-1:2"@)
      let e_8: f64 = d_6[0i64]
      let q_7: [n_1]f64 = map(n_1, [p_5], \\(a_80: f64) -> {{ let b_81: f64 = sub(a_80, e_8) in (b_81) }})
      in (q_7, d_6)""".replace('update(c_4, [0i64], 7.0f64, "f:1:1-1:2"@)', "update(c_4, [0i64], 7.0f64, None)"),
      ret="[n_1]f64;[n_1]f64"), Map=2)
    assert q is not None


def test_dependence_between_forbids():
    # The loop between needs p, and the second map needs the loop.
    fused(body(f"""
      let p_4: [n_1]f64 = {unary(50, "xs_2")}
      let s_5: f64 = for(n_1, [0.0f64], \\(i_20: i64, a_21: f64) -> {{
         let x_22: f64 = p_4[i_20] let t_23: f64 = mul(a_21, 0.5f64) let y_24: f64 = add(x_22, t_23) in (y_24) }})
      let q_7: [n_1]f64 = map(n_1, [p_4], \\(a_80: f64) -> {{ let b_81: f64 = sub(a_80, s_5) in (b_81) }})
      in (q_7)""", ret="[n_1]f64"), Map=2)


def test_what_needs_the_producer_moves_below():
    fused(body(f"""
      let p_4: [n_1]f64 = {unary(50, "xs_2")}
      let s_5: f64 = for(n_1, [0.0f64], \\(i_20: i64, a_21: f64) -> {{
         let x_22: f64 = p_4[i_20] let t_23: f64 = mul(a_21, 0.5f64) let y_24: f64 = add(x_22, t_23) in (y_24) }})
      let q_7: [n_1]f64 = map(n_1, [p_4], \\(a_80: f64) -> {{ let b_81: f64 = sin(a_80) in (b_81) }})
      in (q_7, s_5)""", ret="[n_1]f64;f64"), Map=1)


@pytest.mark.parametrize("n,k,m", [(3, 4, 5), (0, 2, 1)])
def test_inside_lambdas(n, k, m):
    rng = np.random.default_rng(0)
    fused(MATMUL, [n, k, m, rng.normal(size=(n, k)), rng.normal(size=(k, m))], Map=2, Fused=1, Reduce=0)


def test_element_of_a_map():
    fused(body(f"""
      let p_4: [n_1]f64 = {unary(50, "xs_2")}
      let e_5: f64 = at(p_4, [2i64], None)
      let z_7: f64 = mul(e_5, e_5) in (z_7)"""), Map=0, exp=1)


def test_element_of_a_map_that_asserts_stays():
    q = fused(body("""
      let p_4: [n_1]f64 = map(n_1, [xs_2], \\(a_50: f64) -> {
        let t_51: bool = lt(a_50, 100.0f64) assert(t_51, "too large", [], @"f:1:1-1:2")
        let b_52: f64 = exp(a_50) in (b_52) })
      let e_5: f64 = at(p_4, [2i64], None)
      let z_7: f64 = mul(e_5, e_5) in (z_7)"""), Map=1, Assert=1)
    assert q is not None


def test_a_map_of_few_elements_is_unrolled():
    """Gates of a recurrent cell: rows of a small map, read one by one."""
    fused(body("""
      let a_4: [3][n_1]f64 = arraylit([xs_2, ys_3, xs_2], [n_1]f64)
      let g_5: [3][n_1]f64 = map(3i64, [a_4], \\(row_6: [n_1]f64) -> {
        let h_7: [n_1]f64 = map(n_1, [row_6, ys_3], \\(a_8: f64, b_9: f64) -> { let c_10: f64 = add(a_8, b_9) in (c_10) })
        in (h_7) })
      let r_20: [n_1]f64 = g_5[0i64] let s_21: [n_1]f64 = g_5[1i64] let t_22: [n_1]f64 = g_5[2i64]
      let z_30: [n_1]f64 = map(n_1, [r_20, s_21, t_22], \\(p_31: f64, q_32: f64, o_33: f64) -> {
        let u_34: f64 = mul(p_31, q_32) let v_35: f64 = sub(u_34, o_33) in (v_35) })
      in (z_30)""", ret="[n_1]f64"), Map=1, add=2)
