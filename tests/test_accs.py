# ruff: noqa: E501 (programs read better unbroken)
"""Accumulators: which become reductions and maps, and the same results."""

from __future__ import annotations

import numpy as np
import pytest
from optimise_support import heads, passes, same_results

from futad.accs import accs
from futad.core.parse import parse_program
from futad.rewrite import simplify


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
    report = rewritten(with_acc("m_2", INVARIANT, "acc_20", start), "w_11", "[m_2]f64", Reduce=1, UpdateAcc=1, WithAcc=1)
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
        rewritten(text, "w_11", "[m_2]f64", Reduce=reduces, WithAcc=reduces)


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
