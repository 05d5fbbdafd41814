# ruff: noqa: E501 (programs read better unbroken)
"""What a loop carries and what it saves of that: one array where it can be, and the same values in any case."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from futad.core import ir
from futad.core.parse import parse_program
from futad.optimise.checkpoint_stack import kept_in_place
from tests.support.optimise_support import heads, passes, same_results

STEP = r"""let f_20: [n_1]f64 = map(n_1, [x_11], \(e_21: f64) -> {
             let g_22: f64 = sin(e_21) let h_23: f64 = add(g_22, c_4) in (h_23) })"""


def fun(stms: str, result: str, ret: str) -> str:
    rets = ", ".join(f"r_{900 + k}: {t}" for k, t in enumerate(ret.split(";")))
    return (
        "fun main [n_1: i64, t_2: i64] (x_3: [n_1]f64, c_4: f64, w_5: [t_2]f64)"
        f" -> ({rets}) = {{ {stms} in ({result}) }}"
    )


def kept(p: ir.Program) -> ir.Program:
    return ir.map_bodies(p, partial(kept_in_place, joins=True))


def same(text: str, scratch: int) -> None:
    """The answers stay; so many arrays start as scratch then."""
    p = parse_program(text)
    q = passes(p, kept)
    assert heads(q)["Scratch"] == scratch, q
    rng = np.random.default_rng(1)
    for n, t in ((3, 4), (1, 1), (2, 0), (0, 3), (5, 2)):
        same_results(p, q, [n, t, rng.normal(size=n), 0.25, rng.normal(size=t)])


@pytest.mark.parametrize("backwards", [False, True])
def test_rows_are_where_they_were_saved(backwards: bool) -> None:
    """Of the last iteration first, or of the first."""
    place = "let j_31: i64 = sub(t_2, i_10) let k_32: i64 = sub(j_31, 1i64)" if backwards else ""
    at = "k_32" if backwards else "i_10"
    same(fun(rf"""let m_6: [t_2][n_1]f64 = scratch(f64, [t_2, n_1])
      let (y_7: [n_1]f64, h_8: [t_2][n_1]f64) = for(t_2, [x_3, m_6], \(i_10: i64, x_11: [n_1]f64, s_12: [t_2][n_1]f64) -> {{
        {place} let u_30: [t_2][n_1]f64 = update(s_12, [{at}], x_11, None) {STEP} in (f_20, u_30) }})""",
        "y_7, h_8", "[n_1]f64;[t_2][n_1]f64"), 1)  # fmt: skip


COUNTED = rf"""(y_7: [n_1]f64, h_8: [SIZE][n_1]f64) = for(BOUND, [x_3, m_6], \(i_10: i32, x_11: [n_1]f64, s_12: [SIZE][n_1]f64) -> {{
        let i_30: i64 = to_i64(AT) let u_30: [SIZE][n_1]f64 = update(s_12, [i_30], x_11, None) {STEP} in (f_20, u_30) }})"""


@pytest.mark.parametrize("at", ["i_10", "j_31"])
@pytest.mark.parametrize("known", [False, True])
def test_counters_of_another_type(known: bool, at: str) -> None:
    """Iterations are counted in i32; their number is known or not."""
    size, bound = ("3", "3i32") if known else ("k_9", "b_9")
    sizes = "" if known else "let b_9: i32 = to_i32(t_2) let w_9: i64 = to_i64(b_9) let k_9: i64 = max(w_9, 0i64)"
    loop = COUNTED.replace("SIZE", size).replace("BOUND", bound).replace("AT", at)
    if at == "j_31":  # the last iteration first
        loop = loop.replace("let i_30", f"let e_31: i32 = sub({bound}, i_10) let j_31: i32 = sub(e_31, 1i32) let i_30")
    count = "3" if known else "t_2"
    read = f"let q_14: [{count}][n_1]f64 = h_8[0i64:{'3i64' if known else 't_2'}:1i64]"
    room = f"let m_6: [{size}][n_1]f64 = scratch(f64, [{'3i64' if known else size}, n_1])"
    text = fun(f"{sizes} {room} let {loop} {read}", "y_7, q_14", f"[n_1]f64;[{count}][n_1]f64")
    same(text, 1)
    pattern = next(s.pat for s in passes(parse_program(text), kept).funs["main"].body.stms if isinstance(s.exp, ir.For))
    assert len(pattern) == (1 if at == "i_10" else 2)


def test_two_histories_of_a_value() -> None:
    """The value could lie in one of them only."""
    same(fun(rf"""let m_6: [t_2][n_1]f64 = scratch(f64, [t_2, n_1]) let m_16: [t_2][n_1]f64 = scratch(f64, [t_2, n_1])
      let (y_7: [n_1]f64, h_8: [t_2][n_1]f64, h_18: [t_2][n_1]f64) = for(t_2, [x_3, m_6, m_16],
          \(i_10: i64, x_11: [n_1]f64, s_12: [t_2][n_1]f64, s_13: [t_2][n_1]f64) -> {{
        let u_30: [t_2][n_1]f64 = update(s_12, [i_10], x_11, None)
        let u_31: [t_2][n_1]f64 = update(s_13, [i_10], x_11, None)
        {STEP} in (f_20, u_30, u_31) }})""", "y_7, h_8, h_18", "[n_1]f64;[t_2][n_1]f64;[t_2][n_1]f64"), 2)


def test_more_rows_than_iterations() -> None:
    """The value after the last iteration is not in the last row; no row is read that was not written."""
    same(fun(rf"""let k_9: i64 = add(t_2, 2i64) let m_6: [k_9][n_1]f64 = scratch(f64, [k_9, n_1])
      let (y_7: [n_1]f64, h_8: [k_9][n_1]f64) = for(t_2, [x_3, m_6], \(i_10: i64, x_11: [n_1]f64, s_12: [k_9][n_1]f64) -> {{
        let u_30: [k_9][n_1]f64 = update(s_12, [i_10], x_11, None) {STEP} in (f_20, u_30) }})
      let q_14: [t_2][n_1]f64 = h_8[0i64:t_2:1i64]""", "y_7, q_14", "[n_1]f64;[t_2][n_1]f64"), 1)


def test_memory_that_starts_another_loop_too() -> None:
    """Both loops write all of their rows; what the memory was before neither reads."""
    same(fun(rf"""let m_6: [t_2][n_1]f64 = scratch(f64, [t_2, n_1]) let m_16: [t_2][n_1]f64 = copy(m_6)
      let (y_7: [n_1]f64, h_8: [t_2][n_1]f64) = for(t_2, [x_3, m_6], \(i_10: i64, x_11: [n_1]f64, s_12: [t_2][n_1]f64) -> {{
        let u_30: [t_2][n_1]f64 = update(s_12, [i_10], x_11, None) {STEP} in (f_20, u_30) }})
      let h_18: [t_2][n_1]f64 = for(t_2, [m_16], \(i_40: i64, s_41: [t_2][n_1]f64) -> {{
        let u_42: [t_2][n_1]f64 = update(s_41, [i_40], y_7, None) in (u_42) }})""",
        "y_7, h_8, h_18", "[n_1]f64;[t_2][n_1]f64;[t_2][n_1]f64"), 2)  # fmt: skip


def test_a_history_that_the_iteration_reads() -> None:
    """The row of the first iteration is read in each."""
    same(fun(r"""let m_6: [t_2][n_1]f64 = scratch(f64, [t_2, n_1])
      let (y_7: [n_1]f64, h_8: [t_2][n_1]f64) = for(t_2, [x_3, m_6], \(i_10: i64, x_11: [n_1]f64, s_12: [t_2][n_1]f64) -> {
        let u_30: [t_2][n_1]f64 = update(s_12, [i_10], x_11, None)
        let q_31: [n_1]f64 = u_30[0i64]
        let f_20: [n_1]f64 = map(n_1, [x_11, q_31], \(e_21: f64, d_22: f64) -> {
          let g_23: f64 = sin(e_21) let h_24: f64 = add(g_23, d_22) in (h_24) })
        in (f_20, u_30) })""", "y_7, h_8", "[n_1]f64;[t_2][n_1]f64"), 1)


def test_a_history_of_a_size_that_the_loop_carries() -> None:
    same(fun(r"""let m_6: [t_2][n_1]f64 = scratch(f64, [t_2, n_1])
      let (k_9: i64, y_7: [k_9]f64, h_8: [t_2][k_9]f64) = for(t_2, [n_1, x_3, m_6],
          \(i_10: i64, l_15: i64, x_11: [l_15]f64, s_12: [t_2][l_15]f64) -> {
        let u_30: [t_2][l_15]f64 = update(s_12, [i_10], x_11, None)
        let f_20: [l_15]f64 = map(l_15, [x_11], \(e_21: f64) -> { let g_22: f64 = sin(e_21) in (g_22) })
        in (l_15, f_20, u_30) })
      let r_17: f64 = reduce(k_9, [y_7], \(a_37: f64, b_38: f64) -> { let d_39: f64 = add(a_37, b_38) in (d_39) }, [0.0f64], False)
      let q_18: [t_2]f64 = map(t_2, [h_8], \(z_50: [k_9]f64) -> {
        let r_51: f64 = reduce(k_9, [z_50], \(a_52: f64, b_53: f64) -> { let d_54: f64 = add(a_52, b_53) in (d_54) }, [0.0f64], False)
        in (r_51) })""", "r_17, q_18", "f64;[t_2]f64"), 1)


@pytest.mark.parametrize("overwritten", ["y_7", "h_8"])
def test_results_that_are_overwritten(overwritten: str) -> None:
    """The last value lies in the array of what was saved, unless one of the two is overwritten while the other one is
    read later."""
    sizes, result = ("n_1", "u_40, h_8") if overwritten == "y_7" else ("t_2, n_1", "y_7, u_40")
    array, rows = "".join(f"[{k}]" for k in sizes.split(", ")) + "f64", sizes.split(",")[0]
    same(fun(rf"""let m_6: [t_2][n_1]f64 = scratch(f64, [t_2, n_1])
      let (y_7: [n_1]f64, h_8: [t_2][n_1]f64) = for(t_2, [x_3, m_6], \(i_10: i64, x_11: [n_1]f64, s_12: [t_2][n_1]f64) -> {{
        let u_30: [t_2][n_1]f64 = update(s_12, [i_10], x_11, None) {STEP} in (f_20, u_30) }})
      let z_41: {array} = replicate([{sizes}], c_4)
      let u_40: {array} = update({overwritten}, [0i64:{rows}:1i64], z_41, None)""",
        result, "[n_1]f64;[t_2][n_1]f64"), 1)  # fmt: skip


def test_zeros_that_are_used_elsewhere() -> None:
    """They stay; what the loop writes has other memory."""
    same(fun(r"""let z_6: [t_2]f64 = replicate([t_2], 0.0f64)
      let z_16: [t_2]f64 = map(t_2, [z_6, w_5], \(e_21: f64, d_22: f64) -> { let g_23: f64 = add(e_21, d_22) in (g_23) })
      let y_7: [t_2]f64 = for(t_2, [z_6], \(i_10: i64, b_11: [t_2]f64) -> {
        let e_12: f64 = b_11[i_10] let w_13: f64 = w_5[i_10] let s_14: f64 = add(e_12, w_13)
        let u_15: [t_2]f64 = update(b_11, [i_10], s_14, None) in (u_15) })""", "z_16, y_7", "[t_2]f64;[t_2]f64"), 1)
