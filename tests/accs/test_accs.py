# ruff: noqa: E501 (programs read better unbroken)
"""Accumulators: which become reductions and maps, and the same results."""

from __future__ import annotations

import numpy as np
import pytest

from futad.accs.reduce import accs
from futad.core.parse import parse_program
from futad.rewrite.simplify import simplify
from tests.support.optimise_support import heads, passes, same_results


def fun(stms: str, result: str, ret: str) -> str:
    return (
        "fun main [n_1: i64, m_2: i64] (x_3: f64, k_4: i64, xs_6: [n_1]f64, ys_7: [m_2]f64, a_8: [n_1][m_2]f64)"
        f" -> (r_9: {ret}) = {{ {stms} in ({result}) }}"
    )


def arguments(n: int = 4, m: int = 3, k: int = 2) -> list[object]:
    rng = np.random.default_rng(1)
    return [n, m, 1.5, k, rng.normal(size=n), rng.normal(size=m), rng.normal(size=(n, m))]


def rewritten(stms: str, result: str, ret: str, **count: int) -> list[str]:
    p = parse_program(fun(stms, result, ret))
    report: list[str] = []

    def run(p):
        return accs(p, report=report)

    q = passes(p, simplify, run, simplify)
    for kind, n in count.items():
        assert heads(q)[kind] == n, f"{kind}\n{q}"
    for args in (arguments(), arguments(n=0), arguments(n=1, m=1, k=0), arguments(k=77)):
        same_results(p, q, args)
    return report


ZEROS = "let z_10: [{0}]f64 = replicate([{0}], 0.0f64) "
COPY = "let z_10: [{0}]f64 = copy({1}) "


def with_acc(size: str, stms: str, result: str, start: str) -> str:
    return rf'{start} let w_11: [{size}]f64 = withacc([z_10], "add", \(acc_12: acc([{size}]f64)) -> {{ {stms} in ({result}) }})'


INVARIANT = r"""let acc_20: acc([m_2]f64) = map(n_1, [acc_12, xs_6], \(acc_21: acc([m_2]f64), e_22: f64) -> {
  let t_23: f64 = exp(e_22) let acc_24: acc([m_2]f64) = updateacc(acc_21, [k_4], t_23) in (acc_24) })"""


@pytest.mark.parametrize("start", [ZEROS.format("m_2"), COPY.format("m_2", "ys_7")])
def test_invariant_place_becomes_a_reduction(start):
    report = rewritten(with_acc("m_2", INVARIANT, "acc_20", start), "w_11", "[m_2]f64", Reduce=1, Update=1, UpdateAcc=0, WithAcc=0)
    assert any("reduced" in line for line in report)


OWN_INDEX = r"""let i_19: [n_1]i64 = iota(n_1, 0i64, 1i64)
  let acc_20: acc([n_1]f64) = map(n_1, [acc_12, xs_6, i_19], \(acc_21: acc([n_1]f64), e_22: f64, i_25: i64) -> {
  let t_23: f64 = exp(e_22) let acc_24: acc([n_1]f64) = updateacc(acc_21, [i_25], t_23) in (acc_24) })"""


@pytest.mark.parametrize("start,maps", [(ZEROS.format("n_1"), 1), (COPY.format("n_1", "xs_6"), 2)])
def test_own_index_becomes_a_map(start, maps):
    rewritten(with_acc("n_1", OWN_INDEX, "acc_20", start), "w_11", "[n_1]f64", Map=maps, UpdateAcc=0, WithAcc=0)


def test_accumulators_among_the_inputs():
    """Arguments may come in any order; results have the accumulators first."""
    stms = r"""let i_19: [m_2]i64 = iota(m_2, 0i64, 1i64)
      let (acc_20: acc([m_2]f64), s_31: [m_2]f64) = map(m_2, [ys_7, acc_12, i_19], \(e_22: f64, acc_21: acc([m_2]f64), i_25: i64) -> {
      let t_23: f64 = exp(e_22) let acc_24: acc([m_2]f64) = updateacc(acc_21, [INDEX], t_23) in (acc_24, t_23) })"""
    for index, reduces in (("i_25", 0), ("k_4", 1)):
        text = with_acc("m_2", stms.replace("INDEX", index), "acc_20", ZEROS.format("m_2"))
        rewritten(text, "w_11", "[m_2]f64", Reduce=reduces, Update=reduces, WithAcc=0)


def test_other_results_of_the_map_stay():
    stms = rf"""{ZEROS.format("n_1")} let i_19: [n_1]i64 = iota(n_1, 0i64, 1i64)
      let (w_11: [n_1]f64, o_30: [n_1]f64) = withacc([z_10], "add", \(acc_12: acc([n_1]f64)) -> {{
        let (acc_20: acc([n_1]f64), s_31: [n_1]f64) = map(n_1, [acc_12, xs_6, i_19], \(acc_21: acc([n_1]f64), e_22: f64, i_25: i64) -> {{
          let t_23: f64 = exp(e_22) let acc_24: acc([n_1]f64) = updateacc(acc_21, [i_25], t_23) let u_32: f64 = sin(t_23)
          in (acc_24, u_32) }})
        in (acc_20, s_31) }})
      let r_40: [n_1]f64 = map(n_1, [w_11, o_30], \(a_41: f64, b_42: f64) -> {{ let c_43: f64 = sub(a_41, b_42) in (c_43) }})"""
    rewritten(stms, "r_40", "[n_1]f64", UpdateAcc=0, WithAcc=0, exp=1, sin=1)


def test_inner_map_reduces_and_the_outer_one_becomes_a_map():
    """acc[i] += a[i, j] for all i, j: row sums."""
    stms = r"""let i_19: [n_1]i64 = iota(n_1, 0i64, 1i64)
      let acc_20: acc([n_1]f64) = map(n_1, [acc_12, a_8, i_19], \(acc_21: acc([n_1]f64), e_22: [m_2]f64, i_25: i64) -> {
        let acc_26: acc([n_1]f64) = map(m_2, [acc_21, e_22], \(acc_27: acc([n_1]f64), e_28: f64) -> {
          let acc_24: acc([n_1]f64) = updateacc(acc_27, [i_25], e_28) in (acc_24) })
        in (acc_26) })"""
    rewritten(with_acc("n_1", stms, "acc_20", ZEROS.format("n_1")), "w_11", "[n_1]f64", UpdateAcc=0, WithAcc=0, Reduce=1, Map=1)


def test_varying_and_conditional_places_stay():
    varying = r"""let acc_20: acc([m_2]f64) = map(n_1, [acc_12, xs_6], \(acc_21: acc([m_2]f64), e_22: f64) -> {
      let t_23: i64 = to_i64(e_22) let acc_24: acc([m_2]f64) = updateacc(acc_21, [t_23], e_22) in (acc_24) })"""
    report = rewritten(with_acc("m_2", varying, "acc_20", ZEROS.format("m_2")), "w_11", "[m_2]f64", UpdateAcc=1, WithAcc=1)
    assert any("varies" in line for line in report)
    conditional = r"""let acc_20: acc([m_2]f64) = map(n_1, [acc_12, xs_6], \(acc_21: acc([m_2]f64), e_22: f64) -> {
      let c_25: bool = lt(e_22, x_3)
      let acc_24: acc([m_2]f64) = if(c_25, { let acc_26: acc([m_2]f64) = updateacc(acc_21, [k_4], e_22) in (acc_26) }, { in (acc_21) })
      in (acc_24) })"""
    report = rewritten(with_acc("m_2", conditional, "acc_20", ZEROS.format("m_2")), "w_11", "[m_2]f64", UpdateAcc=1, WithAcc=1)
    assert any("unconditional" in line for line in report)


def test_another_size_stays():
    """acc[i] += e for i < n into an array of another size: out-of-range updates are ignored."""
    stms = OWN_INDEX.replace("acc([n_1]f64)", "acc([m_2]f64)")
    rewritten(with_acc("m_2", stms, "acc_20", ZEROS.format("m_2")), "w_11", "[m_2]f64", UpdateAcc=1, WithAcc=1)


ROWS = r"""let i_19: [m_2]i64 = iota(m_2, 0i64, 1i64)
  let acc_20: acc([m_2]f64) = map(n_1, [acc_12, a_8], \(acc_21: acc([m_2]f64), e_22: [m_2]f64) -> {
    let acc_26: acc([m_2]f64) = map(m_2, [acc_21, e_22, i_19], \(acc_27: acc([m_2]f64), e_28: f64, i_29: i64) -> {
      let t_30: f64 = exp(e_28) let acc_24: acc([m_2]f64) = updateacc(acc_27, [i_29], t_30) in (acc_24) })
    in (acc_26) })"""


@pytest.mark.parametrize("start,maps", [(ZEROS.format("m_2"), 0), (COPY.format("m_2", "ys_7"), 1)])
def test_rows_at_one_place_become_a_sum_of_rows(start, maps):
    """Column sums: the inner map writes the row in order, the outer one adds rows at an invariant place."""
    report = rewritten(with_acc("m_2", ROWS, "acc_20", start), "w_11", "[m_2]f64", Reduce=1, UpdateAcc=0, WithAcc=0)
    (line,) = report
    assert line.split(": ", 1)[1] == "reduced: the place does not vary with the map; removed: the contributions come in the order of the array"


def test_rows_larger_than_what_is_read_stay():
    """Outer products: an array of all of them would be larger than the map's inputs."""
    stms = r"""let i_19: [n_1]i64 = iota(n_1, 0i64, 1i64) let j_18: [m_2]i64 = iota(m_2, 0i64, 1i64)
      let acc_20: acc([n_1][m_2]f64) = map(m_2, [acc_12, ys_7], \(acc_21: acc([n_1][m_2]f64), e_22: f64) -> {
        let acc_26: acc([n_1][m_2]f64) = map(n_1, [acc_21, xs_6, i_19], \(acc_27: acc([n_1][m_2]f64), e_28: f64, i_29: i64) -> {
          let acc_36: acc([n_1][m_2]f64) = map(m_2, [acc_27, ys_7, j_18], \(acc_37: acc([n_1][m_2]f64), e_38: f64, i_39: i64) -> {
            let t_40: f64 = mul(e_28, e_38) let t_41: f64 = mul(t_40, e_22)
            let acc_44: acc([n_1][m_2]f64) = updateacc(acc_37, [i_29, i_39], t_41) in (acc_44) })
          in (acc_36) })
        in (acc_26) })"""
    start = "let z_10: [n_1][m_2]f64 = copy(a_8) "
    text = with_acc("n_1][m_2", stms, "acc_20", start)
    report = rewritten(text, "w_11", "[n_1][m_2]f64", UpdateAcc=1, WithAcc=1)
    assert "a row is added, in place" in report[0]


def test_a_sum_of_products_is_one_product():
    """acc += transpose(p) q for every p, q of batches: one product over the batches laid end to end."""
    text = r"""fun main [t_1: i64, b_2: i64, m_3: i64, n_4: i64] (ps_5: [t_1][b_2][m_3]f64, qs_6: [t_1][b_2][n_4]f64) -> (r_7: [m_3][n_4]f64) = {
      let z_8: [m_3][n_4]f64 = replicate([m_3, n_4], 0.0f64)
      let w_9: [m_3][n_4]f64 = withacc([z_8], "add", \(acc_10: acc([m_3][n_4]f64)) -> {
        let acc_11: acc([m_3][n_4]f64) = map(t_1, [acc_10, ps_5, qs_6], \(acc_12: acc([m_3][n_4]f64), p_13: [b_2][m_3]f64, q_14: [b_2][n_4]f64) -> {
          let tr_15: [m_3][b_2]f64 = rearrange(p_13, [1, 0]) let x_16: [m_3][n_4]f64 = matmul(tr_15, q_14, [])
          let acc_17: acc([m_3][n_4]f64) = updateacc(acc_12, [], x_16) in (acc_17) })
        in (acc_11) })
      in (w_9) }"""
    p = parse_program(text)
    q = passes(p, simplify, accs, simplify)
    assert heads(q)["MatMul"] == 1 and heads(q)["Map"] == heads(q)["WithAcc"] == 0
    rng = np.random.default_rng(2)
    for t, b, m, n in ((3, 4, 5, 2), (0, 4, 5, 2), (3, 0, 5, 2)):
        args = [t, b, m, n, rng.integers(-9, 9, (t, b, m)).astype(float), rng.integers(-9, 9, (t, b, n)).astype(float)]
        same_results(p, q, args)


def test_a_chain_of_updates_is_taken_apart():
    """One in a map at a varying place, one of a whole array, one at a single place: only the first stays."""
    stms = r"""let acc_20: acc([m_2]f64) = updateacc(acc_12, [], ys_7)
      let acc_30: acc([m_2]f64) = map(n_1, [acc_20, xs_6], \(acc_21: acc([m_2]f64), e_22: f64) -> {
        let t_23: i64 = to_i64(e_22) let acc_24: acc([m_2]f64) = updateacc(acc_21, [t_23], e_22) in (acc_24) })
      let acc_40: acc([m_2]f64) = updateacc(acc_30, [k_4], x_3)"""
    report = rewritten(with_acc("m_2", stms, "acc_40", ZEROS.format("m_2")), "w_11", "[m_2]f64", UpdateAcc=1, WithAcc=1, Update=1)
    assert len(report) == 1


PRODUCTS = r"""
fun main [n_1: i64, a_2: i64, b_3: i64, m_4: i64, k_5: i64] (xs_6: [n_1][a_2][b_3][m_4]f64, ys_7: [n_1][a_2][b_3][k_5]f64)
    -> (r_8: [m_4][k_5]f64) = {
  OUTSIDE
  let z_10: [m_4][k_5]f64 = replicate([m_4, k_5], 0.0f64)
  let w_11: [m_4][k_5]f64 = withacc([z_10], "add", \(acc_12: acc([m_4][k_5]f64)) -> {
    let acc_13: acc([m_4][k_5]f64) = map(n_1, [acc_12, xs_6, ys_7],
        \(acc_14: acc([m_4][k_5]f64), x_15: [a_2][b_3][m_4]f64, y_16: [a_2][b_3][k_5]f64) -> {
      INSIDE
      let p_17: [s_9][m_4]f64 = reshape(x_15, [s_9, m_4]) let q_18: [s_9][k_5]f64 = reshape(y_16, [s_9, k_5])
      let t_19: [m_4][s_9]f64 = rearrange(p_17, [1, 0]) let u_20: [m_4][k_5]f64 = matmul(t_19, q_18, [])
      let acc_21: acc([m_4][k_5]f64) = updateacc(acc_14, [], u_20) in (acc_21) })
    in (acc_13) })
  in (w_11) }
"""


@pytest.mark.parametrize("place", ["OUTSIDE", "INSIDE"])
def test_sums_of_products_of_reshaped_rows_are_one_product(place):
    """Where the sizes are known outside."""
    p = parse_program(PRODUCTS.replace(place, "let s_9: i64 = mul(a_2, b_3)").replace("OUTSIDE", "").replace("INSIDE", ""))
    q = passes(p, accs)
    assert heads(q)["WithAcc"] == (place == "INSIDE")
    for sizes in ((3, 2, 4, 5, 2), (0, 2, 1, 3, 2), (2, 0, 3, 1, 2), (1, 1, 1, 2, 3)):
        rng = np.random.default_rng(1)
        n, a, b, m, k = sizes
        same_results(p, q, [*sizes, rng.normal(size=(n, a, b, m)), rng.normal(size=(n, a, b, k))])
