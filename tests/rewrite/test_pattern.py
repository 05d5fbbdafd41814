"""Rules as text: what they match and make, what is refused when they are defined."""

from __future__ import annotations

import re

import numpy as np
import pytest

from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.errors import RuleError
from futad.rewrite.pattern import parse_rules, rule
from futad.rewrite.simplify import Schedule, simplify
from futad.rewrite.strategy import Rules, Stats

SCALE = r"""
rule scale_out_of_sum:                 -- a factor common to all terms
  let ?ys = map(?n, [?xs], \(?x) -> { let ?y = mul(?x, ?c) in (?y) })
  let ?s = reduce(?n, [?ys], \(?a, ?b) -> { let ?t = add(?a, ?b) in (?t) }, [0.0f64])
  =>
  let ?r = reduce(?n, [?xs], \(?a, ?b) -> { let ?t = add(?a, ?b) in (?t) }, [0.0f64])
  let ?s = mul(?r, ?c)
  where invariant(?c)
  changes nan
"""

FUSE = r"""
rule fuse:
  let ?ys = map(?n, [??xs], \?f)
  let ?zs = map(?n, [?ys], \?g)
  =>
  let ?zs = map(?n, [??xs], \(??as) -> { let ?y = ?f(??as) let ?z = ?g(?y) in (?z) })
  where pure(?f), once(?ys)
"""

AT_BUILD = r"""
rule at_build:
  let ?is = iota(?n, 0i64, 1i64)
  let ?ys = map(?n, [?is], \?f)
  let ?y = ?ys[?i]
  =>
  let ?y = ?f(?i)
  where pure(?f), cost(?f) < 20
"""


def applied(text: str, program: str, on: object = None) -> tuple[str, int]:
    """The program after the rule, without the numbers of its variables, and how often it applied; both compute the
    same on the arguments."""
    r = rule(text)
    before = parse_program(program)
    stats = Stats()
    scoped = r.heads[0].scoped
    after = simplify(before, stats, Schedule(Rules([] if scoped else [r]), Rules([r] if scoped else [])))
    check_program(after)
    if on is not None:
        for x, y in zip(Interpreter(before).run("main", on), Interpreter(after).run("main", on), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)
    return re.sub(r"_\d+", "", str(after)), stats.hits.get(r.name, 0)


SUM = r"reduce(n_1, [ys_4], \(a_7: f64, b_8: f64) -> { let t_9: f64 = add(b_8, a_7) in (t_9) }, [0.0f64], True)"
PROGRAM = r"""fun main [n_1: i64] (xs_2: [n_1]f64, c_3: f64) -> (r_20: f64) = {
  let ys_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let y_6: f64 = mul(FACTORS) in (y_6) })
  let s_10: f64 = SUM
  in (s_10)
}""".replace("SUM", SUM)


@pytest.mark.parametrize(
    ("factors", "hits"), [("x_5, c_3", 1), ("c_3, x_5", 1), ("x_5, x_5", 0), ("2.0f64, x_5", 1)]
)
def test_statements_above_the_root_are_found_and_conditions_asked(factors, hits):
    text, got = applied(SCALE, PROGRAM.replace("FACTORS", factors), [np.int64(3), np.arange(3.0), np.float64(2)])
    assert got == hits and ("map(" not in text) == bool(hits)


def test_scopes_are_inlined_and_many_atoms_match():
    program = r"""fun main [n_1: i64] (xs_2: [n_1]f64, zs_3: [n_1]f64) -> (r_20: [n_1]f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2, zs_3], \(x_5: f64, z_6: f64) -> { let y_7: f64 = mul(x_5, z_6) in (y_7) })
      let ws_8: [n_1]f64 = map(n_1, [ys_4], \(v_9: f64) -> { let w_10: f64 = sin(v_9) in (w_10) })
      in (RESULT)
    }"""
    args = [np.int64(4), np.arange(4.0), np.ones(4)]
    text, hits = applied(FUSE, program.replace("RESULT", "ws_8"), args)
    assert hits == 1 and text.count("map(") == 1 and "[xs, zs]" in text
    twice = program.replace("RESULT", "ws_8, ys_4").replace("(r_20: [n_1]f64)", "(r_20: [n_1]f64, q_21: [n_1]f64)")
    assert applied(FUSE, twice, args)[1] == 0  # `once`


HOT = r"""rule sum_is_the_element:
  let ?ys = map(?n, [?is], \?f)
  let ?s = reduce(?n, [?ys], \(?a, ?b) -> { let ?t = add(?a, ?b) in (?t) }, [0.0f64])
  let ?e = ?ys[?p]
  let ?r: f64 = sub(?s, ?e)
  =>
  let ?r = sub(?e, ?e)
  where iota(?is), vanishes(?f, ?p)
"""


@pytest.mark.parametrize(
    ("value", "hits"),
    [("select(t_6, c_3, 0.0f64)", 1), ("select(t_6, 0.0f64, c_3)", 0), ("select(t_6, c_3, 1.0f64)", 0)],
)
@pytest.mark.parametrize(("place", "there"), [("i_2", 1), ("k_12", 0)])
def test_sums_of_what_vanishes_but_at_a_place(value, hits, place, there):
    program = r"""fun main [n_1: i64] (i_2: i64, k_12: i64, c_3: f64) -> (r_20: f64) = {
      let is_4: [n_1]i64 = iota(n_1, 0i64, 1i64)
      let ys_7: [n_1]f64 = map(n_1, [is_4], \(j_5: i64) -> {
        let t_6: bool = eq(j_5, i_2)
        let y_8: f64 = VALUE
        in (y_8) })
      let s_11: f64 = SUM
      let e_13: f64 = ys_7[PLACE]
      let d_14: f64 = sub(s_11, e_13)
      in (d_14)
    }""".replace("VALUE", value).replace("SUM", SUM.replace("ys_4", "ys_7")).replace("PLACE", place)
    text, got = applied(HOT, program, [np.int64(4), np.int64(2), np.int64(1), np.float64(3)])
    assert got == hits * there and ("reduce(" not in text) == bool(hits * there)


def test_elements_of_maps_over_indices_are_computed_alone():
    program = r"""fun main [n_1: i64] (i_2: i64, c_3: f64) -> (r_20: f64) = {
      let is_4: [n_1]i64 = iota(n_1, 0i64, 1i64)
      let ys_5: [n_1]f64 = map(n_1, [is_4], \(j_6: i64) -> {
        let f_7: f64 = to_f64(j_6)
        let g_8: f64 = WORK
        in (g_8) })
      let y_9: f64 = ys_5[i_2]
      in (y_9)
    }"""
    args = [np.int64(4), np.int64(2), np.float64(3)]
    text, hits = applied(AT_BUILD, program.replace("WORK", "mul(f_7, c_3)"), args)
    assert hits == 1 and "map(" not in text
    dear = AT_BUILD.replace("< 20", "< 10")
    assert applied(AT_BUILD, program.replace("WORK", "exp(f_7)"), args)[1] == 1
    assert applied(dear, program.replace("WORK", "exp(f_7)"), args)[1] == 0
    checked = program.replace("WORK", "mul(f_7, c_3)").replace("ys_5[i_2]", 'ys_5[i_2]@"a.fut:1:1-1:2"')
    assert applied(AT_BUILD, checked, args)[1] == 0  # a read that may fail is none of these


OVERWRITTEN = r"""fun main (xs_1: [3]f64, i_2: i64) -> (r_20: [3]f64, q_21: f64) = {
  let cs_3: [3]f64 = copy(xs_1)
  let ys_4: [3]f64 = map(3i64, [cs_3], \(x_5: f64) -> { let y_6: f64 = neg(x_5) in (y_6) })
  let new_7: [3]f64 = update(cs_3, [0i64], 9.0f64, None)
  let z_8: f64 = ys_4[i_2]
  in (new_7, z_8)
}"""
READ = r"""
rule read_of_neg:
  let ?ys = map(?n, [?xs], \(?x) -> { let ?y = neg(?x) in (?y) })
  let ?z = ?ys[?i]
  =>
  let ?x = ?xs[?i]
  let ?z = neg(?x)
"""


def test_what_was_overwritten_since_is_not_read():
    args = [np.arange(3.0), np.int64(0)]
    assert applied(READ, OVERWRITTEN, args)[1] == 0
    kept = OVERWRITTEN.replace("update(cs_3, [0i64], 9.0f64, None)", "copy(cs_3)")
    assert applied(READ, kept, args)[1] == 1


def test_arrays_that_leave_the_function_stay_apart():
    text = "rule same: let ?ys = copy(?xs) => let ?ys = ?xs"
    program = "fun main (xs_1: [3]f64) -> (r_9: [3]f64) = { let ys_2: [3]f64 = copy(xs_1) in (ys_2) }"
    assert applied(text, program)[1] == 0  # both leave
    inner = r"""fun main (xs_1: [3]f64) -> (r_9: f64) = {
      let ys_2: [3]f64 = copy(xs_1) let y_3: f64 = ys_2[1i64] in (y_3) }"""
    assert applied(text, inner)[1] == 1


def test_text_reads_back():
    for r in parse_rules(SCALE + FUSE + AT_BUILD):
        again = rule(str(r))
        assert str(again) == str(r) == r.source and again.name == r.name and again.changes == r.changes
    assert [r.name for r in parse_rules(SCALE + FUSE)] == ["scale_out_of_sum", "fuse"]
    assert str(rule(SCALE)).endswith("changes nan")


ADD = "rule r:\n  let ?z = add(?x, ?y)\n  =>\n  "
REFUSED = {
    "a condition left out": (SCALE.replace("where invariant(?c)", ""), "?c stands in a scope on the left", 7),
    "not bound": (SCALE.replace("mul(?r, ?c)", "mul(?q, ?c)"), "?q is not bound", 7),
    "bound inside": (SCALE.replace("mul(?r, ?c)", "mul(?r, ?y)"), "?y is bound inside of a scope", 7),
    "result lost": (SCALE.replace("let ?s = mul", "let ?z = mul"), "does not bind ?s", 4),
    "types": (SCALE.replace("[0.0f64]", "[0i64]", 1), "types do not fit: mul does not take f64, i64", 7),
    "another type": (ADD + "let ?z = lt(?x, ?y)", "?z is bound as bool", 4),
    "constant of one type": (ADD + "let ?z = add(?x, 1i64)", "add does not take f64, i64", 4),
    "arguments": ("rule r:\n let ?z = add(?x)\n => let ?z = ?x", "add takes 2 arguments", 2),
    "no types": ("rule r:\n let ?y = not(?x)\n let ?z = sin(?y)\n => let ?z = sin(?x)", "no types fit", 3),
    "no condition": (SCALE.replace("invariant(", "constant("), "there is no condition constant; there are: inv", 8),
    "not on the left": (SCALE.replace("invariant(?c)", "invariant(?k)"), "?k is not on the left side", 8),
    "a number": (SCALE.replace("invariant(?c)", "cost(?c)"), "cost is a number", 8),
    "arity": (SCALE.replace("invariant(?c)", "within(?c)"), "within takes 2 arguments, not 1", 8),
    "not reached": ("rule r:\n let ?q = neg(?w)\n let ?z = add(?x, ?y)\n => let ?z = ?x", "?q is not reached", 2),
    "fails and is dropped": ("rule r:\n let ?z: i64 = div(?x, ?y)\n => let ?z = ?x", "div may fail", 2),
    "fails and is added": ("rule r:\n let ?z: i64 = add(?x, ?y)\n => let ?z = div(?x, ?y)", "div may fail", 3),
    "effect": ("rule r:\n trace(?x, \"t\")\n => let ?y = ?x", "trace has an effect", 2),
    "effect of a scope": (FUSE.replace("pure(?f), ", ""), "?f may have effects", 6),
    "overwrites": ("rule r:\n let ?b = update(?a, [?i], ?v)\n => let ?b = ?a", "update overwrites an array", 2),
    "overwrites more": ("rule r:\n let ?b = copy(?a)\n => let ?b = update(?a, [0i64], ?b)", "?b is not bound", 3),
    "scope unknown": (ADD + "let ?z = ?f(?x)", "?f is no scope", 4),
    "twice": (FUSE + FUSE, "two rules of this name", 9),
    "syntax": (SCALE.replace("[0.0f64])\n  =>", "[0.0f64]\n  =>"), "expected ','", 5),
    "unknown construct": ("rule r:\n let ?b = frob(?a)\n => let ?b = ?a", "unknown construct 'frob'", 2),
    "applied on the left": ("rule r:\n let ?b = ?f(?a)\n => let ?b = ?a", "on the right side only", 2),
    "change": (SCALE.replace("changes nan", "changes all"), "expected one of zeros, rounding, nan, ", 9),
    "no right side": ("rule r:\n let ?b = copy(?a)\n =>", "the right side is empty", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_rules_are_refused_with_their_place(name):
    text, message, line = REFUSED[name]
    with pytest.raises(RuleError, match=re.escape(message)) as e:
        parse_rules(text, "own.rules")
    assert e.value.span is not None and (e.value.span.file, e.value.code) == ("own.rules", "E1001")
    assert e.value.span.line == line, str(e.value)


def test_one_rule_is_wanted():
    with pytest.raises(RuleError, match="one rule is wanted, here are 2"):
        rule(SCALE + FUSE)
