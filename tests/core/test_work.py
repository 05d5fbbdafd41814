"""How often the interpreter counts each scalar operation: known programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core import interp_soacs
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

KS = np.array([0, 3, 1, 7, 2])


def counted(source: str, *args: Any, compiled: bool = False, batched: bool = True) -> dict[tuple[str, str], int]:
    """Operations of floats by name and type; `args` with sizes before them, of a source program without passes or with
    those of C."""
    program = compile_text(source)
    program = compile_program(program, target=C) if compiled else compile_program(program, stop_after="simplify")
    m = Interpreter(program, count=True, batched=batched)
    m.run("main", list(args))
    return {key: times for key, times in m.tally.by_name().items() if times and key[1] in ("f32", "f64")}


def test_a_map_calls_a_function_for_each_element():
    source = "entry main [n] (x: [n]f32): [n]f32 = map f32.exp x"
    assert counted(source, 9, np.zeros(9, np.float32)) == {("exp", "f32"): 9}


def test_a_loop_multiplies_what_is_in_it():
    source = "entry main [n] (k: i64) (x: [n]f64): [n]f64 = loop y = x for _i < k do map (\\v -> f64.sin v * v) y"
    assert counted(source, 4, 6, np.ones(4)) == {("sin", "f64"): 24, ("mul", "f64"): 24}


def test_loops_of_different_lengths_count_as_often_as_each_goes_round():
    source = """
    entry main [n] (ks: [n]i64): [n]f64 =
      map (\\k -> (loop (x, i) = (1, 0) while i < k do (f64.exp x, i + 1)).0) ks"""
    for batched in (True, False):
        assert counted(source, len(KS), KS, batched=batched) == {("exp", "f64"): KS.sum()}


def test_of_a_branch_the_side_counts_that_is_taken():
    source = """
    entry main [n] (ks: [n]i64) (x: [n]f64): [n]f64 = map2 (\\k v -> if k > 2 then f64.exp v else f64.log v) ks x"""
    got = counted(source, len(KS), KS, np.ones(len(KS)))
    assert got == {("exp", "f64"): (KS > 2).sum(), ("log", "f64"): (KS <= 2).sum()}


def test_what_is_combined_counts():
    """Sums and scans of n elements, bins that are there, an operator of several operations."""
    x = np.ones(7)
    assert counted("entry main [n] (x: [n]f64): f64 = f64.sum x", 7, x) == {("add", "f64"): 7}
    assert counted("entry main [n] (x: [n]f64): [n]f64 = scan (*) 1 x", 7, x) == {("mul", "f64"): 7}
    bins = "entry main [n] (d: *[3]f64) (is: [n]i64) (x: [n]f64): [3]f64 = reduce_by_index d (+) 0 is x"
    assert counted(bins, 7, np.zeros(3), np.array([0, 1, 9, 2, -1, 1, 1]), x) == {("add", "f64"): 5}
    both = "entry main [n] (x: [n]f64): f64 = reduce (\\a b -> a + b + a * b) 0 x"
    assert counted(both, 7, x) == {("add", "f64"): 14, ("mul", "f64"): 7}


@pytest.mark.parametrize("t", ("f32", "f64"))
def test_a_product_of_matrices_has_exactly_so_many_multiply_adds(t):
    source = f"""
    entry main [n][k][m] (a: [n][k]{t}) (b: [k][m]{t}): [n][m]{t} =
      map (\\row -> map (\\column -> {t}.sum (map2 (*) row column)) (transpose b)) a"""
    a, b = np.ones((5, 6), t.replace("f", "float")), np.ones((6, 7), t.replace("f", "float"))
    assert counted(source, 5, 6, 7, a, b, compiled=True) == {("multiply-add", t): 5 * 6 * 7}
    assert counted(source, 5, 6, 7, a, b) == {("mul", t): 5 * 6 * 7, ("add", t): 5 * 6 * 7}


def test_a_convolution_counts_its_terms():
    source = """
    entry main [n][k] (x: [n]f64) (w: [k]f64): [n - k + 1]f64 =
      tabulate (n - k + 1) (\\i -> f64.sum (tabulate k (\\j -> w[j] * x[i + j])))"""
    assert counted(source, 20, 4, np.ones(20), np.ones(4), compiled=True) == {("multiply-add", "f64"): 17 * 4}


NESTED = """
fun main [n_1: i64, m_2: i64] (xs_3: [n_1][m_2]f64, ws_14: [n_1]f64) -> (r_4: [n_1]f64) = {
  let zs_13: [n_1]f64 = map(n_1, [xs_3, ws_14], \\(row_5: [m_2]f64, w_15: f64) -> {
    let v_16: f64 = log(w_15)
    let ys_6: [m_2]f64 = map(m_2, [row_5], \\(x_7: f64) -> { let y_8: f64 = exp(x_7) in (y_8) })
    let s_9: f64 = reduce(m_2, [ys_6], \\(a_10: f64, b_11: f64) -> { let t_12: f64 = add(a_10, b_11) in (t_12) },
      [0.0f64], false)
    let u_17: f64 = mul(s_9, v_16)
    in (u_17)
  })
  in (zs_13)
}
"""


@pytest.mark.parametrize("most", (2, 10, 1000))
def test_attempts_that_are_given_up_do_not_count(most, monkeypatch):
    """A batch that is too large is done in halves, and these again; what came before it in each is done again."""
    monkeypatch.setattr(interp_soacs, "MAX_BATCH", most)
    m = Interpreter(parse_program(NESTED), count=True)
    m.run("main", [6, 5, np.ones((6, 5)), np.ones(6)])
    expected = {"exp": 30, "add": 30, "log": 6, "mul": 6}
    assert m.tally.by_name() == {(op, "f64"): times for op, times in expected.items()}
    assert m.counts["op"].ops == sum(expected.values())
