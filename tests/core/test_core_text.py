"""Printing and parsing of the core IR."""
# ruff: noqa: E501  (programs as text)

from __future__ import annotations

import math
import struct

import pytest

from futad.core import ir
from futad.core.parse import alpha_equal, parse_program
from futad.core.text import const_text, program_text
from futad.core.types import BOOL, F32, F64, I8, Const
from futad.errors import ParseError

SAMPLE = r"""
program "a \"name\""
-- a comment
fun "op +" [n_1: i64, m_30: i64] (xs_2: [n_1]f64, i_3: i64, g_31: [2][m_30]i32) -> (r_4: f64, ys_5: [n_1]f64)
  entry Entry("main", [["xs", EntryType("array", "[n]f64",
    EntryType("scalar", "f64", f64, [], []), ["n", 3, None], [])]],
    EntryType("record", "{}", None, [], [["a", EntryType("scalar", "f64", f64, [], [])]]), [True, False], "doc\n")
  attrs [["inline"], 1, 2.5, None, "s"]
  at @"a b.fut:1:2-3:4" = {
  let ys_6: [n_1]f64 = map(n_1, [xs_2], \(x_7: f64) -> {
    let t_8: f64 = mul(x_7, -2e-05f64) in (t_8) }) #[["stripmine", 2]]
  let s_9: f64 = reduce(n_1, [ys_6], \(a_10: f64, b_11: f64) -> {
    let c_12: f64 = add(a_10, b_11) in (c_12) }, [0.0f64], True)
  let q_13: f64 = ys_6[i_3]@"x.fut:1:1-1:2"
  let w_14: [2]f64 = ys_6[0i64:2i64:-1i64]
  let z_15: [2][n_1]f64 = arraylit([xs_2, xs_2], [n_1]f64)
  let e_36: [0]i32 = arraylit([], i32)
  assert(true, "no {}\n\"", [q_13], @"C:\\x.fut:1:1-1:2")
  let (g_16: f64, h_17: f64) = if(true, { in (s_9, nanf64) }, { in (inff64, -inff64) })
  let z_18: f64 = log2(h_17)
  let b_19: u64 = bits_f64(z_18)
  let k_20: i64 = i_3
  let f_21: [n_1]f64 = fused(n_1, [xs_2], \(x_22: f64) -> { in (x_22) },
    [Fold(\(x_23: f64, y_24: f64) -> { in (x_23) }, [0.0f64], False)], [])
  let w_25: [n_1]f64 = withacc([f_21], "add", \(a_26: acc([n_1]f64)) -> {
    let a_27: acc([n_1]f64) = updateacc(a_26, [0i64], 1.0f64) in (a_27) })
  let t_28: [m_30][2]i32 = rearrange(g_31, [1, 0])
  let u_29: [2]f64 = update(w_14, [0i64:1i64:1i64], w_14, None)
  let s_37: [4]f64 = scratch(f64, [4i64])
  in (s_9, w_25)
}
"""


def test_round_trip():
    p = parse_program(SAMPLE)
    text = program_text(p)
    q = parse_program(text)
    assert program_text(q, normal=True) == program_text(p, normal=True)
    assert alpha_equal(p, q)
    f, g = p.funs["op +"], q.funs["op +"]
    assert f.entry == g.entry and f.attrs == g.attrs and f.span == g.span and f.num_sizes == 2
    assert f.entry.params[0][1].dims == ("n", 3, None)
    assert f.body.stms[0].attrs == (("stripmine", 2),)
    assert isinstance(f.body.stms[-2].exp, ir.Update)


def test_alpha_equal_tells_programs_apart():
    p = parse_program(SAMPLE)
    assert not alpha_equal(p, parse_program(SAMPLE.replace("-2e-05f64", "2e-05f64")))
    assert not alpha_equal(p, parse_program(SAMPLE.replace("in (s_9, w_25)", "in (q_13, w_25)")))


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-300, 0.1, 5e-324,
                                   struct.unpack("<d", bytes.fromhex("010000000000f87f"))[0]])  # fmt: skip
def test_constants(value):
    for c in (Const(F64, value), Const(F32, value)):
        p = parse_program(f"fun f () -> (r_1: {c.type.name}) = {{ in ({const_text(c)}) }}")
        assert p.funs["f"].body.result[0] is c


def test_small_constants():
    assert const_text(Const(I8, -128)) == "-128i8" and const_text(Const(BOOL, True)) == "true"


@pytest.mark.parametrize("text,place,message", [
    ("fun f () -> () = { in (x_1) }", (1, 24), "unknown variable"),
    ("fun f (x_1: f64, x_1: f64) -> () = { in () }", (1, 18), "bound twice"),
    ("fun f () -> () = {\n  foo(1)\n in () }", (2, 3), "unknown construct 'foo'"),
    ("fun f () -> () = {\n  copy(1i64, 2i64)\n in () }", (2, 3), "copy has 1 fields, not 2"),
    ("fun f () -> () = { in () ", (1, 26), "expected '}'"),
    ("fun f (x_1: q) -> () = { in () }", (1, 13), "expected a type"),
])  # fmt: skip
def test_errors_have_places(text, place, message):
    with pytest.raises(ParseError, match=message) as e:
        parse_program(text, "f.core")
    assert (e.value.span.line, e.value.span.col) == place
