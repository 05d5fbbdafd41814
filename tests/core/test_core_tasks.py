"""Two tasks in the core IR: text, the checker, what may be overwritten, what passes make of them."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.lastuse import analyse
from futad.core.parse import alpha_equal, parse_program
from futad.core.text import program_text
from futad.errors import InternalError
from futad.optimise.tasks import at_once, in_order
from futad.rewrite.simplify import simplify
from tests.support.optimise_support import passes

LOOP = "for({n}, [{x}], \\(i_{k}: i64, s_{m}: f64) -> {{ let t_{p}: f64 = mul(s_{m}, s_{m}) in (t_{p}) }})"


def loop(n: str, x: str, k: int) -> str:
    return LOOP.format(n=n, x=x, k=k, m=k + 1, p=k + 2)


TWO = f"""
fun main (n_1: i64, x_2: f64) -> (r_90: f64, r_91: f64) = {{
  let (a_3: f64, b_4: f64) = par({{ let y_5: f64 = {loop("n_1", "x_2", 10)} in (y_5) }}, {{
    let z_6: f64 = {loop("n_1", "x_2", 20)} let w_7: f64 = add(z_6, 1.0f64) in (w_7) }})
  in (a_3, b_4)
}}
"""


def test_text_and_meaning():
    p = parse_program(TWO)
    check_program(p)
    assert alpha_equal(p, parse_program(program_text(p)))
    assert Interpreter(p).run("main", [np.int64(2), np.float64(1.5)]) == [1.5**4, 1.5**4 + 1]
    ordered = in_order(p)
    check_program(ordered)
    assert not ordered.funs["main"].body.has(ir.Par)
    assert Interpreter(ordered).run("main", [np.int64(2), np.float64(1.5)]) == [1.5**4, 1.5**4 + 1]
    assert at_once(p) is p or at_once(p).funs["main"].body.has(ir.Par)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("par({ let y_5: [n_1]f64 = update(xs_2, [0i64], 1.0f64, None) in (y_5) }, { in (xs_2) })", "more than once"),
        ("par({ in (xs_2) }, { let y_5: [n_1]f64 = update(xs_2, [0i64], 1.0f64, None) in (y_5) })", "more than once"),
        ("par(\\(k_6: i64) -> { in (xs_2) }, { in (xs_2) })", "a task with parameters"),
        ("par({ in (xs_2) }, { in () })", "1 results for 2"),
    ],
)
def test_checker(body, message):
    p = parse_program(
        f"fun main [n_1: i64] (xs_2: [n_1]f64) -> (r_90: [n_1]f64) = "
        f"{{ let (a_3: [n_1]f64, b_4: [n_1]f64) = {body} in (b_4) }}"
    )
    with pytest.raises(InternalError, match=message) as caught:
        check_program(p)
    assert "function main" in str(caught.value)


def test_what_nothing_needs_goes():
    """One task alone is no task, and one of a few operations is none either."""
    one = passes(parse_program(TWO.replace("in (a_3, b_4)", "in (b_4, b_4)")), simplify, simplify)
    assert not one.funs["main"].body.has(ir.Par) and str(one).count("for(") == 1
    little = TWO.replace(loop("n_1", "x_2", 10), "mul(x_2, x_2)")
    assert not passes(parse_program(little), simplify).funs["main"].body.has(ir.Par)
    assert passes(parse_program(TWO), simplify).funs["main"].body.has(ir.Par)


OVERWRITES = """
fun main [n_1: i64] (xs_2: [n_1]f64) -> (r_90: [n_1]f64, r_91: [n_1]f64, r_92: [n_1]f64) = {
  let c_9: [n_1]f64 = copy(xs_2)
  let (a_3: [n_1]f64, b_4: [n_1]f64) = par({ in (c_9) }, {
    let d_5: [n_1]f64 = copy(c_9)
    let e_6: [n_1]f64 = update(d_5, [0i64], 7.0f64, None)
    in (e_6) })
  let f_7: [n_1]f64 = update(a_3, [0i64], 1.0f64, None)
  let g_8: [n_1]f64 = update(b_4, [1i64], 2.0f64, None)
  in (f_7, g_8, xs_2)
}
"""


def test_last_uses():
    """A task writes over what it made, nobody over what is outside; results may be overwritten later."""
    p = parse_program(OVERWRITES)
    check_program(p)
    uses = analyse(p)["main"]
    stms = {s.pat[0].name: s for s in ir.statements(p.funs["main"].body.stms)}
    assert uses.in_place(stms["e"]) and uses.in_place(stms["f"]) and uses.in_place(stms["g"])
    xs = np.arange(3.0)
    expected = [[1, 1, 2], [7, 2, 2], [0, 1, 2]]
    for found, want in zip(Interpreter(p).run("main", [np.int64(3), xs]), expected, strict=True):
        np.testing.assert_array_equal(found, want)
