# ruff: noqa: E501 (programs read better unbroken)
"""Rules on arrays, branches, loops and second-order constructs: before -> after, and the same results."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.errors import AssertionFailed, BoundsError
from futad.rewrite.simplify import simplify
from tests.support.optimise_support import becomes, heads, passes, same_results

AT = '@"t.fut:1:1-1:2"'
ADD = r"\(u_{0}: f64, v_{0}: f64) -> {{ let w_{0}: f64 = add(u_{0}, v_{0}) in (w_{0}) }}"


def fun(stms: str, result: str, ret: str) -> str:
    rets = ", ".join(f"r_{900 + k}: {t}" for k, t in enumerate(ret.split(";")))
    return (
        "fun main [n_1: i64, m_2: i64] (x_3: f64, k_4: i64, c_5: bool, xs_6: [n_1]f64, ys_7: [n_1]f64,"
        f" a_8: [n_1][m_2]f64) -> ({rets}) = {{ {stms} in ({result}) }}"
    )


def arguments(n: int = 4, m: int = 3, k: int = 2) -> list[object]:
    rng = np.random.default_rng(1)
    return [n, m, 1.5, k, True, rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, m))]


# name: (before, result, after, result, types of the results)
CASES = {
    "at-iota": ("let i_10: [n_1]i64 = iota(n_1, 5i64, 2i64) let e_11: i64 = i_10[k_4]", "e_11",
                "let t_12: i64 = mul(k_4, 2i64) let e_11: i64 = add(5i64, t_12)", "e_11", "i64"),
    "at-replicate": ("let r_10: [n_1]f64 = replicate([n_1], x_3) let e_11: f64 = r_10[0i64]", "e_11", "", "x_3", "f64"),
    "at-replicated-row": ("let r_10: [m_2][n_1]f64 = replicate([m_2], xs_6) let e_11: f64 = r_10[0i64, 1i64]", "e_11",
                          "let e_11: f64 = xs_6[1i64]", "e_11", "f64"),
    "at-literal": ("let l_10: [2]f64 = arraylit([x_3, 2.0f64], f64) let e_11: f64 = l_10[1i64]", "e_11", "", "2.0f64", "f64"),
    "at-transpose": ("let t_10: [m_2][n_1]f64 = rearrange(a_8, [1, 0]) let e_11: f64 = t_10[1i64, k_4]", "e_11",
                     "let e_11: f64 = a_8[k_4, 1i64]", "e_11", "f64"),
    "column-of-transpose": ("let t_10: [m_2][n_1]f64 = rearrange(a_8, [1, 0]) let e_11: [n_1]f64 = t_10[1i64]", "e_11",
                            "let e_11: [n_1]f64 = a_8[0i64:n_1:1i64, 1i64]", "e_11", "[n_1]f64"),
    "at-at": ("let r_10: [m_2]f64 = a_8[k_4] let e_11: f64 = r_10[1i64]", "e_11", "let e_11: f64 = a_8[k_4, 1i64]", "e_11", "f64"),
    "at-slice": ("let s_10: [2]f64 = xs_6[1i64:2i64:1i64] let e_11: f64 = s_10[1i64]", "e_11", "let e_11: f64 = xs_6[2i64]", "e_11", "f64"),
    "at-copy": ("let y_10: [n_1]f64 = copy(xs_6) let e_11: f64 = y_10[0i64]", "e_11", "let e_11: f64 = xs_6[0i64]", "e_11", "f64"),
    "at-updated-place": ("let y_10: [n_1]f64 = copy(xs_6) let z_11: [n_1]f64 = update(y_10, [k_4], x_3, None) let e_12: f64 = z_11[k_4]",
                         "z_11, e_12",
                         "let y_10: [n_1]f64 = copy(xs_6) let z_11: [n_1]f64 = update(y_10, [k_4], x_3, None)", "z_11, x_3", "[n_1]f64;f64"),
    "at-unflattened": ("let f_10: [2][2]f64 = reshape(xs_6, [2i64, 2i64]) let e_11: f64 = f_10[1i64, 1i64]", "e_11",
                       "let e_11: f64 = xs_6[3i64]", "e_11", "f64"),
    "whole-slice": ("let s_10: [n_1]f64 = xs_6[0i64:n_1:1i64] let e_11: f64 = s_10[k_4]", "e_11", "let e_11: f64 = xs_6[k_4]", "e_11", "f64"),
    "transpose-twice": (
        "let t_10: [m_2][n_1]f64 = rearrange(a_8, [1, 0]) let u_11: [n_1][m_2]f64 = rearrange(t_10, [1, 0]) let e_12: f64 = u_11[0i64, 0i64]",
        "e_12", "let e_12: f64 = a_8[0i64, 0i64]", "e_12", "f64"),
    "reshape-same": ("let s_10: [n_1]f64 = reshape(xs_6, [n_1]) let e_11: f64 = s_10[k_4]", "e_11", "let e_11: f64 = xs_6[k_4]", "e_11", "f64"),
    "replicate-replicate": ("let r_10: [n_1]f64 = replicate([n_1], x_3) let s_11: [m_2][n_1]f64 = replicate([m_2], r_10)", "s_11",
                            "let s_11: [m_2][n_1]f64 = replicate([m_2, n_1], x_3)", "s_11", "[m_2][n_1]f64"),
    "literal-of-one-value": ("let l_10: [3]f64 = arraylit([x_3, x_3, x_3], f64)", "l_10",
                             "let l_10: [3]f64 = replicate([3i64], x_3)", "l_10", "[3]f64"),
    "concat-of-one": ("let c_10: [n_1]f64 = concat([xs_6], n_1)", "c_10", "let c_10: [n_1]f64 = copy(xs_6)", "c_10", "[n_1]f64"),
    "copy-of-a-local": (
        rf"let s_9: [n_1]f64 = scan(n_1, [xs_6], {ADD.format(20)}, [0.0f64]) let c_10: [n_1]f64 = copy(s_9)", "c_10",
        rf"let s_9: [n_1]f64 = scan(n_1, [xs_6], {ADD.format(20)}, [0.0f64])", "s_9", "[n_1]f64"),
    "copy-of-a-parameter-stays": ("let c_10: [n_1]f64 = copy(xs_6)", "c_10", "let c_10: [n_1]f64 = copy(xs_6)", "c_10", "[n_1]f64"),
    "write-back": ("let y_10: [n_1]f64 = copy(xs_6) let e_11: f64 = y_10[0i64] let z_12: [n_1]f64 = update(y_10, [0i64], e_11, None)", "z_12",
                   "let y_10: [n_1]f64 = copy(xs_6)", "y_10", "[n_1]f64"),
    "rows-written": (
        "let r_10: [2][n_1]f64 = replicate([2i64, n_1], 0.0f64) let u_11: [2][n_1]f64 = update(r_10, [1i64], xs_6, None)"
        " let v_12: [2][n_1]f64 = update(u_11, [0i64], ys_7, None)", "v_12",
        "let v_12: [2][n_1]f64 = arraylit([ys_7, xs_6], [n_1]f64)", "v_12", "[2][n_1]f64"),
    "row-written-twice": (
        "let r_10: [2]f64 = replicate([2i64], 0.0f64) let u_11: [2]f64 = update(r_10, [0i64], 2.0f64, None)"
        " let w_12: [2]f64 = update(u_11, [0i64], x_3, None) let v_13: [2]f64 = update(w_12, [1i64], 3.0f64, None)", "v_13",
        "let v_13: [2]f64 = arraylit([x_3, 3.0f64], f64)", "v_13", "[2]f64"),
    "row-not-written": (
        "let r_10: [2]f64 = replicate([2i64], 0.0f64) let u_11: [2]f64 = update(r_10, [0i64], x_3, None)", "u_11",
        "let r_10: [2]f64 = replicate([2i64], 0.0f64) let u_11: [2]f64 = update(r_10, [0i64], x_3, None)", "u_11", "[2]f64"),
    "written-value-overwritten": (
        "let y_9: [n_1]f64 = copy(xs_6) let r_10: [1][n_1]f64 = replicate([1i64, n_1], 0.0f64)"
        " let u_11: [1][n_1]f64 = update(r_10, [0i64], y_9, None) let z_12: [n_1]f64 = update(y_9, [k_4], x_3, None)",
        "u_11, z_12",
        "let y_9: [n_1]f64 = copy(xs_6) let r_10: [1][n_1]f64 = replicate([1i64, n_1], 0.0f64)"
        " let u_11: [1][n_1]f64 = update(r_10, [0i64], y_9, None) let z_12: [n_1]f64 = update(y_9, [k_4], x_3, None)",
        "u_11, z_12", "[1][n_1]f64;[n_1]f64"),
    "if-true": ("let r_10: f64 = if(true, { in (x_3) }, { in (1.0f64) })", "r_10", "", "x_3", "f64"),
    "if-not": (
        "let d_9: bool = not(c_5) let r_10: f64 = if(d_9, { let e_11: f64 = exp(x_3) in (e_11) }, { in (1.0f64) })", "r_10",
        "let r_10: f64 = if(c_5, { in (1.0f64) }, { let e_11: f64 = exp(x_3) in (e_11) })", "r_10", "f64"),
    "if-same": ("let (r_10: f64, s_12: f64) = if(c_5, { let e_11: f64 = exp(x_3) in (x_3, e_11) }, { in (x_3, 2.0f64) })", "r_10, s_12",
                "let s_12: f64 = if(c_5, { let e_11: f64 = exp(x_3) in (e_11) }, { in (2.0f64) })", "x_3, s_12", "f64;f64"),
    "if-select": ("let r_10: f64 = if(c_5, { let e_11: f64 = add(x_3, 1.0f64) in (e_11) }, { in (x_3) })", "r_10",
                  "let e_11: f64 = add(x_3, 1.0f64) let r_10: f64 = select(c_5, e_11, x_3)", "r_10", "f64"),
    "if-same-test-inside": (
        r"let t_9: bool = lt(k_4, n_1) let r_10: f64 = if(t_9, { let u_11: bool = lt(k_4, n_1) let e_12: f64 = exp(x_3)"
        " let s_13: f64 = select(u_11, e_12, x_3) in (s_13) }, { in (x_3) })", "r_10",
        "let t_9: bool = lt(k_4, n_1) let r_10: f64 = if(t_9, { let e_12: f64 = exp(x_3) in (e_12) }, { in (x_3) })", "r_10", "f64"),
    "loop-of-no-iteration": ("let r_10: f64 = for(0i64, [x_3], \\(i_11: i64, a_12: f64) -> { let b_13: f64 = exp(a_12) in (b_13) })", "r_10", "", "x_3", "f64"),
    "loop-of-one-iteration": ("let r_10: f64 = for(1i64, [x_3], \\(i_11: i64, a_12: f64) -> { let e_14: f64 = xs_6[i_11] let b_13: f64 = mul(a_12, e_14) in (b_13) })",
                         "r_10", "let e_14: f64 = xs_6[0i64] let b_13: f64 = mul(x_3, e_14)", "b_13", "f64"),
    "loop-invariant-variable": (
        r"let (r_10: f64, s_15: f64) = for(k_4, [x_3, 2.0f64], \(i_11: i64, a_12: f64, b_16: f64) -> {"
        " let c_13: f64 = mul(a_12, b_16) in (c_13, b_16) })", "r_10, s_15",
        r"let r_10: f64 = for(k_4, [x_3], \(i_11: i64, a_12: f64) -> { let c_13: f64 = mul(a_12, 2.0f64) in (c_13) })", "r_10, 2.0f64", "f64;f64"),
    "dead-loop-variables-in-a-cycle": (
        r"let (r_10: f64, s_15: f64, t_17: f64) = for(k_4, [x_3, 1.0f64, 2.0f64], \(i_11: i64, a_12: f64, b_16: f64, c_18: f64) -> {"
        " let d_13: f64 = exp(a_12) let e_14: f64 = add(c_18, 1.0f64) let f_19: f64 = mul(b_16, 2.0f64) in (d_13, e_14, f_19) })", "r_10",
        r"let r_10: f64 = for(k_4, [x_3], \(i_11: i64, a_12: f64) -> { let d_13: f64 = exp(a_12) in (d_13) })", "r_10", "f64"),
    "while-false": (r"let (c_9: bool, r_10: f64) = while([false, x_3], \(d_11: bool, a_12: f64) -> { in (d_11, a_12) })", "r_10", "", "x_3", "f64"),
    "map-identity": (r"let m_10: [n_1]f64 = map(n_1, [xs_6], \(e_11: f64) -> { in (e_11) }) let e_12: f64 = m_10[0i64]", "e_12",
                     "let e_12: f64 = xs_6[0i64]", "e_12", "f64"),
    "map-constant": (r"let m_10: [n_1]f64 = map(n_1, [xs_6], \(e_11: f64) -> { in (x_3) })", "m_10",
                     "let m_10: [n_1]f64 = replicate([n_1], x_3)", "m_10", "[n_1]f64"),
    "map-over-replicate": (
        r"let r_9: [n_1]f64 = replicate([n_1], 2.0f64) let m_10: [n_1]f64 = map(n_1, [xs_6, r_9],"
        r" \(e_11: f64, f_12: f64) -> { let g_13: f64 = mul(e_11, f_12) in (g_13) })", "m_10",
        r"let m_10: [n_1]f64 = map(n_1, [xs_6], \(e_11: f64) -> { let g_13: f64 = mul(e_11, 2.0f64) in (g_13) })", "m_10", "[n_1]f64"),
    "zeros-plus": (
        r"let r_9: [n_1]f64 = replicate([n_1], 0.0f64) let m_10: [n_1]f64 = map(n_1, [r_9, xs_6],"
        r" \(e_11: f64, f_12: f64) -> { let g_13: f64 = add(e_11, f_12) in (g_13) })", "m_10",
        "let m_10: [n_1]f64 = copy(xs_6)", "m_10", "[n_1]f64"),
    "zeros-plus-rows": (
        r"let r_9: [n_1][m_2]f64 = replicate([n_1, m_2], 0.0f64) let m_10: [n_1][m_2]f64 = map(n_1, [r_9, a_8],"
        r" \(e_11: [m_2]f64, f_12: [m_2]f64) -> { let g_13: [m_2]f64 = map(m_2, [e_11, f_12], \(p_14: f64, q_15: f64) -> {"
        r" let s_16: f64 = add(p_14, q_15) in (s_16) }) in (g_13) })", "m_10",
        "let m_10: [n_1][m_2]f64 = copy(a_8)", "m_10", "[n_1][m_2]f64"),
    "tabulate-reads-a-row": (
        r"let i_9: [n_1]i64 = iota(n_1, 0i64, 1i64) let m_10: [n_1]f64 = map(n_1, [i_9], \(i_11: i64) -> {"
        rf" let e_12: f64 = xs_6[i_11]{AT} let f_13: f64 = a_8[i_11, 0i64] let g_14: f64 = mul(e_12, f_13) in (g_14) }})", "m_10",
        r"let m_10: [n_1]f64 = map(n_1, [xs_6, a_8], \(e_12: f64, a_15: [m_2]f64) -> {"
        " let f_13: f64 = a_15[0i64] let g_14: f64 = mul(e_12, f_13) in (g_14) })", "m_10", "[n_1]f64"),
    "same-input-twice": (
        r"let m_10: [n_1]f64 = map(n_1, [xs_6, xs_6], \(e_11: f64, f_12: f64) -> { let g_13: f64 = mul(e_11, f_12) in (g_13) })", "m_10",
        r"let m_10: [n_1]f64 = map(n_1, [xs_6], \(e_11: f64) -> { let g_13: f64 = mul(e_11, e_11) in (g_13) })", "m_10", "[n_1]f64"),
    "dead-result-and-input": (
        r"let (m_10: [n_1]f64, d_14: [n_1]f64) = map(n_1, [xs_6, ys_7], \(e_11: f64, f_12: f64) -> {"
        " let g_13: f64 = exp(e_11) let h_15: f64 = exp(f_12) in (g_13, h_15) })", "m_10",
        r"let m_10: [n_1]f64 = map(n_1, [xs_6], \(e_11: f64) -> { let g_13: f64 = exp(e_11) in (g_13) })", "m_10", "[n_1]f64"),
    "dead-component-of-a-reduction": (
        r"let (s_10: f64, p_11: f64) = reduce(n_1, [xs_6, ys_7], \(a_12: f64, b_13: f64, c_14: f64, d_15: f64) -> {"
        " let e_16: f64 = add(a_12, c_14) let f_17: f64 = mul(b_13, d_15) in (e_16, f_17) }, [0.0f64, 1.0f64], False)", "s_10",
        rf"let s_10: f64 = reduce(n_1, [xs_6], {ADD.format(20)}, [0.0f64], False)", "s_10", "f64"),
    "needed-component-of-a-reduction": (
        r"let (s_10: f64, p_11: f64) = reduce(n_1, [xs_6, ys_7], \(a_12: f64, b_13: f64, c_14: f64, d_15: f64) -> {"
        " let e_16: f64 = add(a_12, d_15) let f_17: f64 = mul(b_13, d_15) in (e_16, f_17) }, [0.0f64, 1.0f64], False)", "s_10",
        r"let (s_10: f64, p_11: f64) = reduce(n_1, [xs_6, ys_7], \(a_12: f64, b_13: f64, c_14: f64, d_15: f64) -> {"
        " let e_16: f64 = add(a_12, d_15) let f_17: f64 = mul(b_13, d_15) in (e_16, f_17) }, [0.0f64, 1.0f64], False)", "s_10", "f64"),
    "equal-maps": (
        r"let m_10: [n_1]f64 = map(n_1, [xs_6], \(e_11: f64) -> { let g_13: f64 = exp(e_11) in (g_13) })"
        r" let m_20: [n_1]f64 = map(n_1, [xs_6], \(e_21: f64) -> { let g_23: f64 = exp(e_21) in (g_23) })"
        " let a_24: f64 = m_10[0i64] let b_25: f64 = m_20[0i64] let c_26: f64 = mul(a_24, b_25)", "c_26",
        r"let m_10: [n_1]f64 = map(n_1, [xs_6], \(e_11: f64) -> { let g_13: f64 = exp(e_11) in (g_13) })"
        " let a_24: f64 = m_10[0i64] let c_26: f64 = mul(a_24, a_24)", "c_26", "f64"),
    "copies-of-rows": (
        r"let m_10: [n_1][m_2]f64 = map(n_1, [a_8], \(e_11: [m_2]f64) -> { let g_13: [m_2]f64 = copy(e_11) in (g_13) })"
        " let e_20: f64 = m_10[0i64, 1i64]", "e_20", "let e_20: f64 = a_8[0i64, 1i64]", "e_20", "f64"),
    "sum-of-zeros": (rf"let z_9: [n_1]f64 = replicate([n_1], 0.0f64) let s_10: f64 = reduce(n_1, [z_9], {ADD.format(20)}, [0.0f64], False)",
                     "s_10", "", "0.0f64", "f64"),
    "accumulate-nothing": (
        r"let z_9: [n_1]f64 = copy(xs_6) let w_10: [n_1]f64 = withacc([z_9], "
        r'"add", \(acc_11: acc([n_1]f64)) -> { let acc_12: acc([n_1]f64) = updateacc(acc_11, [k_4], 0.0f64) in (acc_12) })', "w_10",
        "let z_9: [n_1]f64 = copy(xs_6)", "z_9", "[n_1]f64"),
    "assert-true": (f'let t_9: bool = lt(1i64, 2i64) assert(t_9, "no", [], {AT})', "x_3", "", "x_3", "f64"),
    "assert-stays": (f'let t_9: bool = lt(k_4, 3i64) assert(t_9, "no", [], {AT})', "x_3",
                     f'let t_9: bool = lt(k_4, 3i64) assert(t_9, "no", [], {AT})', "x_3", "f64"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rule(name):
    before, result, after, want, ret = CASES[name]
    p, q = fun(before, result, ret), fun(after, want, ret)
    becomes(p, q, simplify)
    same_results(parse_program(p), parse_program(q), arguments())


# Index expressions whose check can go: (statements, index, index's array)
IN_RANGE = {
    "loop index": ("", "i_20"),
    "reversed": ("let a_21: i64 = sub(n_1, i_20) let b_22: i64 = sub(a_21, 1i64)", "b_22"),
    "clamped": ("let a_21: i64 = sub(n_1, 1i64) let b_22: i64 = min(i_20, a_21) let c_23: i64 = max(b_22, 0i64)", "c_23"),
    "wrapped": ("let a_21: i64 = mul(i_20, k_4) let b_22: i64 = mod(a_21, n_1)", "b_22"),
    "first": ("", "0i64"),
    "last": ("let a_21: i64 = sub(n_1, 1i64)", "a_21"),
    "either": ("let a_21: i64 = select(c_5, i_20, 0i64)", "a_21"),
}


@pytest.mark.parametrize("name", IN_RANGE)
def test_check_goes_where_the_index_is_in_range(name):
    stms, index = IN_RANGE[name]
    loop = rf"let r_10: f64 = for(n_1, [x_3], \(i_20: i64, s_24: f64) -> {{ {stms} let e_25: f64 = xs_6[{index}]{AT} let t_26: f64 = sub(e_25, s_24) in (t_26) }})"
    p = parse_program(fun(loop, "r_10", "f64"))
    q = passes(p, simplify)
    assert AT not in repr(q), q
    same_results(p, q, arguments())


OUT_OF_RANGE = {
    "next": ("let a_21: i64 = add(i_20, 1i64)", "a_21"),
    "previous": ("let a_21: i64 = sub(i_20, 1i64)", "a_21"),
    "anything": ("", "k_4"),
    "size": ("", "n_1"),
    "second": ("", "1i64"),
    "product": ("let a_21: i64 = mul(i_20, k_4)", "a_21"),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_check_stays_where_it_is_needed(name):
    stms, index = OUT_OF_RANGE[name]
    loop = rf"let r_10: f64 = for(n_1, [x_3], \(i_20: i64, s_24: f64) -> {{ {stms} let e_25: f64 = xs_6[{index}]{AT} let t_26: f64 = sub(e_25, s_24) in (t_26) }})"
    p = parse_program(fun(loop, "r_10", "f64"))
    q = passes(p, simplify)
    assert AT in repr(q), q
    args = arguments(n=2 if name == "product" else 1, k=5)
    for prog in (p, q):
        with pytest.raises(BoundsError):
            Interpreter(prog).run("main", args)
            pytest.fail(f"{name} is in range")


def test_checks_in_guarded_and_flattened_places():
    stms = rf"""
      let r_10: f64 = for(n_1, [x_3], \(i_20: i64, s_24: f64) -> {{
        let g_21: bool = lt(0i64, i_20)
        let v_22: f64 = if(g_21, {{
          let j_23: i64 = sub(i_20, 1i64) let e_25: f64 = xs_6[j_23]{AT} let f_26: f64 = exp(e_25) in (f_26)
        }}, {{ in (0.0f64) }})
        in (v_22) }})
      let size_30: i64 = mul(n_1, m_2)
      let flat_31: [size_30]f64 = reshape(a_8, [size_30])
      let t_32: f64 = for(n_1, [r_10], \(i_33: i64, s_34: f64) -> {{
        let u_35: f64 = for(m_2, [s_34], \(j_36: i64, t_37: f64) -> {{
          let p_38: i64 = mul(i_33, m_2) let q_39: i64 = add(p_38, j_36)
          let e_40: f64 = flat_31[q_39]{AT} let w_41: f64 = add(t_37, e_40) in (w_41) }})
        in (u_35) }})"""
    p = parse_program(fun(stms, "t_32", "f64"))
    q = passes(p, simplify)
    assert AT not in repr(q), q
    same_results(p, q, arguments())


def test_assertion_gives_a_fact():
    stms = f"""let t_9: bool = lt(k_4, n_1) let u_10: bool = le(0i64, k_4) let b_11: bool = and(t_9, u_10)
      assert(b_11, "out of range", [], {AT}) let e_12: f64 = xs_6[k_4]@"t.fut:2:1-2:2" """
    p = parse_program(fun(stms, "e_12", "f64"))
    q = passes(p, simplify)
    assert "t.fut:2" not in repr(q) and heads(q)["Assert"] == 1
    with pytest.raises(AssertionFailed):
        Interpreter(q).run("main", arguments(k=7))


def test_arrays_overwritten_later_are_neither_shared_nor_read_again():
    stms = r"""
      let y_10: [n_1]f64 = replicate([n_1], x_3)
      let z_11: [n_1]f64 = replicate([n_1], x_3)
      let c_12: [n_1]f64 = copy(y_10)
      let u_13: [n_1]f64 = update(y_10, [0i64], 7.0f64, None)
      let e_14: f64 = c_12[1i64]
      let v_15: [n_1]f64 = update(z_11, [1i64], e_14, None)"""
    p = parse_program(fun(stms, "u_13, v_15, c_12", "[n_1]f64;[n_1]f64;[n_1]f64"))
    q = passes(p, simplify)
    u, v, c = same_results(p, q, arguments())
    assert heads(q)["Update"] == 2 and heads(q)["Replicate"] == 3
    assert u[0] == 7.0 and v[0] == c[0] == 1.5


def test_branches_become_selects_only_where_derivatives_allow():
    """`if c then x * y else x` before differentiation stays: 0 times an infinite partial would be NaN."""
    body = r"let r_10: f64 = if(c_5, { let e_11: f64 = mul(x_3, x_3) in (e_11) }, { in (x_3) })"
    plain = passes(parse_program(fun(body, "r_10", "f64")), simplify)
    assert heads(plain)["If"] == 0
    inner = r"let r_10: f64 = if(c_5, { let e_11: f64 = mul(z_30, z_30) in (e_11) }, { in (z_30) })"
    ad = rf"let (p_31: f64, q_32: f64) = vjp(\(z_30: f64) -> {{ {inner} in (r_10) }}, [x_3], [1.0f64], [])"
    before = passes(parse_program(fun(ad, "q_32", "f64")), simplify)
    assert heads(before)["If"] == 1


def test_asserting_maps_stay_without_results():
    stms = rf"""let m_10: [n_1]f64 = map(n_1, [xs_6], \(e_11: f64) -> {{
        let t_12: bool = lt(e_11, x_3) assert(t_12, "too large", [], {AT}) let f_13: f64 = exp(e_11) in (f_13) }})"""
    q = passes(parse_program(fun(stms, "x_3", "f64")), simplify)
    assert heads(q)["Assert"] == 1 and heads(q)["exp"] == 0
    with pytest.raises(AssertionFailed):
        Interpreter(q).run("main", [1, 1, 0.0, 0, True, np.ones(1), np.ones(1), np.ones((1, 1))])


def test_simplifying_twice_changes_nothing():
    for name, (before, result, _, _, ret) in CASES.items():
        once = simplify(parse_program(fun(before, result, ret)))
        check_program(once)
        assert simplify(once) is once, name


# name: (what is turned, permutation, reshape, permutation, whether it becomes a reshape, the array itself, or stays)
TURNED = {
    "in order again": ("[b_2][3][5]", "[1, 2, 0]", "[15][b_2]", "[1, 0]", ["Reshape", "Copy"]),
    "in order again, as four": ("[b_2][3][5]", "[1, 2, 0]", "[3][5][b_2]", "[2, 0, 1]", ["Copy"]),
    "another order": ("[b_2][3][5]", "[2, 1, 0]", "[15][b_2]", "[1, 0]", ["Rearrange", "Reshape", "Rearrange", "Copy"]),
    "dimensions of which only a part is joined": ("[b_2][3][4]", "[1, 2, 0]", "[2][6][b_2]", "[2, 0, 1]", ["Rearrange", "Reshape", "Rearrange", "Copy"]),
}


@pytest.mark.parametrize("name", TURNED)
def test_reshapes_between_permutations(name: str) -> None:
    """What a derivative in many directions leaves of a product's right factor."""
    source, first, shape, second, left = TURNED[name]

    def dims(text: str, perm: str) -> str:
        sizes = text[1:-1].split("][")
        return "".join(f"[{sizes[int(p)]}]" for p in perm[1:-1].split(", "))

    def atoms(text: str) -> str:
        return "[" + ", ".join(n if n == "b_2" else f"{n}i64" for n in text[1:-1].split("][")) + "]"

    result = dims(shape, second)
    text = (
        f"fun main [b_2: i64] (x_3: {source}f64) -> (r_9: {result}f64) = {{"
        f" let t_4: {dims(source, first)}f64 = rearrange(x_3, {first})"
        f" let s_5: {shape}f64 = reshape(t_4, {atoms(shape)})"
        f" let u_6: {result}f64 = rearrange(s_5, {second}) let c_7: {result}f64 = copy(u_6) in (c_7) }}"
    )
    program = parse_program(text)
    done = simplify(program)
    check_program(done, "simplify")
    kinds = [type(s.exp).__name__ for s in done.funs["main"].body.stms]
    assert kinds == left
    sizes = [int(n) for n in source[1:-1].split("][")[1:]]
    for b in (0, 1, 4):
        x = np.arange(b * np.prod(sizes), dtype=float).reshape(b, *sizes)
        (want,), (got,) = Interpreter(program).run("main", [b, x]), Interpreter(done).run("main", [b, x])
        np.testing.assert_array_equal(got, want, strict=True)
