"""The checker: what it refuses, and how it says so."""
# ruff: noqa: E501  (programs as text)

from __future__ import annotations

import time

import pytest

from futad.core import ir
from futad.core.builder import Builder
from futad.core.check import check_program
from futad.core.parse import parse_program
from futad.core.types import F64, I64, TRUE, ArrayType, Const, Var, i64
from futad.errors import InternalError
from tests.support.processor_time import within

ADD = r"\(a_90: f64, b_91: f64) -> { let c_92: f64 = add(a_90, b_91) in (c_92) }"
ACC = "acc([n_1]f64)"


def program(body: str, ret: str = "") -> ir.Program:
    return parse_program(
        f"fun main [n_1: i64, m_2: i64] (xs_3: [n_1]f64, x_4: f64) -> ({ret}) = {{ {body} }}"
    )


GOOD = [
    "let s_5: f64 = reduce(n_1, [xs_3], " + ADD + ", [0.0f64], False) in ()",
    # sizes: the pattern's own, equal operations, aliases, constants folded
    "let (k_5: i64, r_6: [k_5]f64) = if(true, { in (n_1, xs_3) }, {"
    " let o_7: [2]f64 = replicate([2i64], x_4) in (2i64, o_7) }) in ()",
    "let k_5: i64 = add(n_1, 1i64) let a_6: [k_5]f64 = replicate([k_5], x_4) let j_7: i64 = add(n_1, 1i64)"
    " let b_8: [j_7]f64 = a_6 let h_9: i64 = j_7 let c_10: [h_9]f64 = a_6 in ()",
    "let k_5: i64 = add(1i64, 2i64) let a_6: [3]f64 = replicate([k_5], x_4) in ()",
    # loop variables whose types mention earlier ones
    "let (k_5: i64, r_6: [k_5]f64) = for(n_1, [n_1, xs_3], \\(i_7: i64, h_8: i64, a_9: [h_8]f64) -> {"
    " let j_10: i64 = add(h_8, 1i64) let b_11: [j_10]f64 = replicate([j_10], x_4) in (j_10, b_11) }) in ()",
    # an accumulator through a map, a branch and a loop
    f'let c_5: [n_1]f64 = copy(xs_3) let r_6: [n_1]f64 = withacc([c_5], "add", \\(a_7: {ACC}) -> {{'
    f" let b_8: {ACC} = map(m_2, [a_7], \\(c_9: {ACC}) -> {{"
    f" let d_10: {ACC} = if(true, {{ let e_11: {ACC} = updateacc(c_9, [0i64], x_4) in (e_11) }}, {{ in (c_9) }})"
    f" let f_12: {ACC} = for(3i64, [d_10], \\(i_13: i64, g_14: {ACC}) -> {{"
    f" let h_15: {ACC} = updateacc(g_14, [i_13], x_4) in (h_15) }}) in (f_12) }}) in (b_8) }}) in ()",
    # the branches of an if may each consume an array
    "let a_5: [n_1]f64 = copy(xs_3) let b_6: [n_1]f64 = if(true, {"
    " let c_7: [n_1]f64 = update(a_5, [0i64], x_4, None) in (c_7) }, {"
    " let d_8: [n_1]f64 = update(a_5, [0i64], x_4, None) in (d_8) }) in ()",
]

BAD = [
    ("let y_5: f32 = add(x_4, x_4) in ()", "y_5 has type f32, not f64"),
    ("let y_5: f64 = add(x_4, 1i64) in ()", "add does not take f64, i64"),
    ("let y_5: f64 = add(x_4) in ()", "add takes 2 arguments, not 1"),
    ("let (y_5: f64, z_6: f64) = sin(x_4) in ()", "binds 2 variables for 1 results"),
    ("let ys_5: [m_2]f64 = copy(xs_3) in ()", "ys_5 has type [m_2]f64, not [n_1]f64"),
    ("let y_5: f64 = xs_3[x_4] in ()", "index x_4 has type f64, not i64"),
    ("let y_5: f64 = xs_3[0i64, 0i64] in ()", "2 indices into xs_3"),
    ("let y_5: f64 = x_4[0i64] in ()", "is not an array"),
    ("let a_5: [n_1]f64 = update(xs_3, [0i64], 1i64, None) in ()", "value 1i64 has type i64, not f64"),
    ("let a_5: [m_2]f64 = map(m_2, [xs_3], \\(e_6: f64) -> { in (e_6) }) in ()", "in a construct of width m_2"),
    ("let a_5: [n_1]f64 = map(n_1, [xs_3], \\(e_6: i64) -> { in (x_4) }) in ()", "parameter e_6 has type i64, not f64"),
    ("let a_5: [n_1]f64 = map(n_1, [xs_3], { in (x_4) }) in ()", "0 parameters where 1 are passed"),
    ("let a_5: f64 = reduce(n_1, [xs_3], " + ADD + ", [0i64], False) in ()", "neutral element 0i64"),
    ("let a_5: f64 = reduce(n_1, [xs_3], \\(a_6: f64, b_7: f64) -> { in (n_1) }, [0.0f64], False) in ()", "result n_1"),
    ("let a_5: [n_1]f64 = scan(n_1, [xs_3], " + ADD + ", [0.0f64, 1.0f64]) in ()", "2 neutral elements for 1 values"),
    ("let a_5: f64 = if(true, { in (x_4) }, { in (n_1) }) in ()", "result n_1 for a_5 has type i64, not f64"),
    ("let a_5: f64 = if(x_4, { in (x_4) }, { in (x_4) }) in ()", "condition x_4 has type f64, not bool"),
    ("let a_5: [n_1]f64 = if(true, { in (xs_3) }, { let b_6: [2]f64 = replicate([2i64], x_4) in (b_6) }) in ()",
     "result b_6 for a_5 has type [2i64]f64, not [n_1]f64"),
    ("let a_5: f64 = for(n_1, [0i64], \\(i_6: i64, b_7: f64) -> { in (b_7) }) in ()", "initial value 0i64"),
    ("let a_5: f64 = for(n_1, [x_4], \\(i_6: i32, b_7: f64) -> { in (b_7) }) in ()", "loop index i_6"),
    ("let a_5: f64 = for(n_1, [x_4], \\(i_6: i64, b_7: f64) -> { in (i_6) }) in ()", "loop result i_6"),
    ("let a_5: bool = while([x_4], \\(b_7: f64) -> { in (b_7) }) in ()", "condition x_4"),
    ("let a_5: [m_2]f64 = rearrange(xs_3, [1, 0]) in ()", "does not permute"),
    ("let k_6: i64 = add(n_1, m_2) let a_5: [k_6]f64 = concat([xs_3, x_4], k_6) in ()", "malformed"),
    ("assert(true, \"{} {}\", [x_4], None) in ()", "values do not fit the message"),
    ("let a_5: f64 = call(\"g\", []) in ()", "function g is not defined before its call"),
    (f"let r_6: [n_1]f64 = withacc([xs_3], \"mul\", \\(a_7: {ACC}) -> {{ in (a_7) }}) in ()", "they cannot mul"),
    # accumulators are linear
    (f"let r_6: [n_1]f64 = withacc([xs_3], \"add\", \\(a_7: {ACC}) -> {{"
     f" let b_8: {ACC} = updateacc(a_7, [0i64], x_4) in (a_7) }}) in ()", "accumulator a_7 is used twice"),
    (f"let r_6: [n_1]f64 = withacc([xs_3], \"add\", \\(a_7: {ACC}) -> {{"
     f" let b_8: {ACC} = updateacc(a_7, [x_4], x_4) in (b_8) }}) in ()", "index x_4"),
    (f"let (r_6: [n_1]f64, q_5: [m_2]f64) = withacc([xs_3], \"add\", \\(a_7: {ACC}) -> {{"
     f" let z_8: [m_2]f64 = map(m_2, [], {{ let c_9: {ACC} = updateacc(a_7, [0i64], x_4) in (x_4) }})"
     f" in (a_7, z_8) }}) in ()", "used twice, or in a scope that runs more than once"),
    (f"let r_6: [n_1]f64 = withacc([xs_3], \"add\", \\(a_7: {ACC}) -> {{"
     f" let b_8: {ACC} = if(true, {{ in (a_7) }}, {{ let c_9: {ACC} = updateacc(a_7, [0i64], x_4)"
     f" in (c_9) }}) let d_10: {ACC} = updateacc(b_8, [0i64], x_4) in (b_8) }}) in ()", "b_8 is used twice"),
    # consumption
    ("let a_5: [n_1]f64 = copy(xs_3) let b_6: [n_1]f64 = update(a_5, [0i64], x_4, None)"
     " let e_7: f64 = a_5[0i64] in ()", "a_5 is used after a_5 was consumed"),
    ('let a_5: [n_1]f64 = copy(xs_3) let b_6: [n_1]f64 = assert(true, "never", [], None, [a_5])'
     " let c_7: [n_1]f64 = update(b_6, [0i64], x_4, None) let e_8: f64 = a_5[0i64] in ()",
     "a_5 is used after b_6 was consumed"),
    ("let a_5: [n_1]f64 = copy(xs_3) let v_6: [2]f64 = a_5[0i64:2i64:1i64]"
     " let b_7: [n_1]f64 = update(a_5, [0i64], x_4, None) let e_8: f64 = v_6[0i64] in ()", "v_6 is used after"),
    ("let a_5: [n_1]f64 = copy(xs_3) let b_6: [n_1]f64 = if(true, {"
     " let c_7: [n_1]f64 = update(a_5, [0i64], x_4, None) in (c_7) }, { in (xs_3) })"
     " let e_8: f64 = a_5[0i64] in ()", "a_5 is used after"),
    ("let a_5: [n_1]f64 = copy(xs_3) let b_6: [m_2][n_1]f64 = map(m_2, [], {"
     " let c_7: [n_1]f64 = update(a_5, [0i64], x_4, None) in (c_7) }) in ()", "consumed in a scope that may run"),
]  # fmt: skip


@pytest.mark.parametrize("body", GOOD)
def test_accepts(body):
    check_program(program(body))


@pytest.mark.parametrize("body,message", BAD)
def test_refuses(body, message):
    with pytest.raises(InternalError) as e:
        check_program(program(body), "somepass")
    text = e.value.message
    # The message numbers variables anew: compare names only.
    assert strip(message) in strip(text), text
    assert text.startswith("after somepass, function main: ")
    assert "\nin  " in text


def strip(text: str) -> str:
    import re

    return re.sub(r"_\d+\b", "", text)


def fun(stms, result=(), params=()):
    return ir.Program({"f": ir.Fun("f", ir.Lambda(tuple(params), tuple(stms), tuple(result)), 0, ())})


def test_binding_and_scope():
    x, y = Var("x", F64), Var("y", F64)
    one = Const(F64, 1)
    twice = [ir.Stm((x,), ir.Alias(one)), ir.Stm((x,), ir.Alias(one))]
    for p, message in [
        (fun(twice), "is bound twice"),
        (fun([ir.Stm((x,), ir.Alias(y))]), "is not in scope"),
        (fun([ir.Stm((y,), ir.If(TRUE, ir.Lambda((), (ir.Stm((x,), ir.Alias(one)),), (x,)), ir.Lambda((), (), (x,))))]),
         "is not in scope"),
        (fun([ir.Stm((Var("a", ArrayType(F64, (x,))),), ir.Scratch(F64, (x,)))], params=[x]), "not i64"),
    ]:  # fmt: skip
        with pytest.raises(InternalError, match=message):
            check_program(p)


def test_inner_sizes_do_not_leak():
    b = Builder()
    xs = Var("xs", ArrayType(F64, (i64(3),)))
    ns = Var("ns", ArrayType(I64, (i64(3),)))
    lam = b.lambda_([("n", I64)], lambda inner, n: [inner.let(ir.Iota(n, Const(F64, 0), Const(F64, 1)))])
    b.emit(ir.Map(i64(3), (ns,), lam))
    with pytest.raises(InternalError, match="size n_.* is not in scope"):
        check_program(fun(b.stms, params=[xs, ns]))


def test_functions():
    callee = "fun f [n_1: i64] (xs_2: [n_1]f64) -> (k_3: i64, r_4: [k_3]f64) = { in (n_1, xs_2) }\n"
    main = "fun main [m_11: i64] (a_12: [m_11]f64, b_13: [3]f64) -> () = {{ {} in () }}"
    good = 'let (k_14: i64, r_15: [k_14]f64) = call("f", [m_11, a_12])'
    check_program(parse_program(callee + main.format(good)))
    for bad, message in [
        ('let (k_14: i64, r_15: [k_14]f64) = call("f", [m_11, b_13])', "argument b"),
        ('let (k_14: i64, r_15: [m_11]f64) = call("f", [m_11, a_12])', "r_.* has type"),
        ('let k_14: i64 = call("f", [m_11, a_12])', "binds 1 variables for 2 results"),
        ('let (k_14: i64, r_15: [k_14]f64) = call("f", [m_11])', "1 arguments for 2"),
    ]:
        with pytest.raises(InternalError, match=message):
            check_program(parse_program(callee + main.format(bad)))
    with pytest.raises(InternalError, match="result"):
        check_program(parse_program("fun f (x_1: f64) -> (r_2: i64) = { in (x_1) }"))


@pytest.mark.slow
def test_linear_time():
    """20 000 statements in well under two seconds, and no worse than linear."""

    def chain(n: int) -> ir.Program:
        b = Builder()
        x = Var("x", F64)
        v = x
        for _ in range(n):
            v = b.op("add", v, x)
        return fun(b.stms, params=[x])

    small, large = chain(2_000), chain(20_000)
    start = time.process_time()
    check_program(small)
    once = time.process_time() - start
    assert within(40 * once + 0.2, lambda: check_program(large))
