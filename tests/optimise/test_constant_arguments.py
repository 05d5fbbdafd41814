"""Constants that all calls of a recursive function are given."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.fires import counting
from futad.optimise.constant_arguments import constant_arguments
from futad.rewrite.simplify import simplify

TEXT = """
fun f (n_1: i64, k_2: i64, x_3: f64) -> (y_4: f64) = {{
  let c_5: bool = le(k_2, 0i64)
  let y_6: f64 = if(c_5, {{ in (x_3) }}, {{
    let m_7: i64 = sub(k_2, 1i64)
    let s_8: f64 = to_f64(n_1)
    let t_9: f64 = add(x_3, s_8)
    let r_10: f64 = call("f", [{again}, m_7, t_9])
    in (r_10)
  }})
  in (y_6)
}}
fun g (n_11: i64, x_12: f64) -> (y_13: f64) = {{ let z_14: f64 = call("f", [n_11, 3i64, x_12]) in (z_14) }}
fun main (x_20: f64, q_21: i64) -> (y_22: f64, z_23: f64) = {{
  let a_24: f64 = call("f", [{first}, 2i64, x_20])
  let b_25: f64 = call("f", [{second}, q_21, a_24])
  in (a_25, b_25)
}}
""".replace("a_25", "a_24")


@pytest.mark.parametrize(
    ("again", "first", "second", "fires"),
    [
        ("n_1", "10i64", "10i64", True),
        ("10i64", "10i64", "10i64", True),
        ("n_1", "10i64", "11i64", False),
        ("m_7", "10i64", "10i64", False),
        ("n_1", "10i64", "q_21", False),
    ],
)
def test_what_all_calls_are_given(again, first, second, fires):
    text = TEXT.format(again=again, first=first, second=second)
    text = text.replace(text[text.index("fun g") : text.index("fun main")], "")
    program = parse_program(text)
    with counting() as counts:
        done = constant_arguments(program)
    assert counts["constant-arguments"] == fires and (done is not program) is fires
    check_program(done)
    body = str(simplify(done).funs["f"].body)
    assert ("to_f64" not in body) is fires
    args = [np.float64(0.5), np.int64(2)]
    assert Interpreter(done).run("main", args) == Interpreter(program).run("main", args)


def test_an_entry_has_callers_that_nobody_sees():
    text = TEXT.format(again="n_1", first="10i64", second="10i64")
    program = parse_program(text.replace('"f", [n_11', '"f", [10i64'))
    assert constant_arguments(program) is not program
    program.funs["f"].entry = object()
    assert constant_arguments(program) is program


def test_functions_that_pass_on_what_they_are_given():
    """Of each other: a constant for both, or for none."""
    text = """
fun f (n_1: i64, k_2: i64) -> (y_3: i64) = {
  let c_4: bool = le(k_2, 0i64)
  let y_5: i64 = if(c_4, { in (n_1) }, { let m_6: i64 = sub(k_2, 1i64) let r_7: i64 = call("g", [m_6, n_1]) in (r_7) })
  in (y_5)
}
fun g (k_11: i64, n_12: i64) -> (y_13: i64) = {
  let r_14: i64 = call("f", [n_12, k_11])
  let s_15: i64 = add(r_14, OTHER)
  in (s_15)
}
fun main (q_20: i64) -> (y_21: i64) = { let r_22: i64 = call("f", [7i64, q_20]) in (r_22) }
"""
    for other, value in (("n_12", 28), ("1i64", 10)):
        program = parse_program(text.replace("OTHER", other))
        done = constant_arguments(program)
        assert "7i64" in str(done.funs["f"].body) and "7i64" in str(done.funs["g"].body)
        check_program(done)
        assert Interpreter(done).run("main", [np.int64(3)]) == [value]
    more = text.replace("OTHER", "0i64")
    more += 'fun other (q_30: i64) -> (y_31: i64) = { let r_32: i64 = call("g", [q_30, q_30]) in (r_32) }'
    program = parse_program(more)
    assert constant_arguments(program) is program
