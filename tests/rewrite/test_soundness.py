"""`check_rule`: right rules pass, mutants of rules do not, the compiler's own rules are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.parse import parse_program
from futad.core.types import ONE
from futad.legality import dropping
from futad.rewrite.pattern import rule as text_rule
from futad.rewrite.rules import arrays
from futad.rewrite.simplify import Schedule, simplify
from futad.rewrite.strategy import Result, Rules, op_rule, rule
from futad.testing.rules import check_rule
from futad.testing.rules.__main__ import main, own_rules
from tests.rewrite.test_pattern import AT_BUILD, FUSE, SCALE
from tests.support.slow import slow_but

TWICE = "rule twice: let ?y = mul(?x, 2.0f64) => let ?y = add(?x, ?x)"
FACTOR = """rule factor:
  let ?p: i64 = mul(?a, ?c)
  let ?q = mul(?b, ?c)
  let ?z = sub(?p, ?q)
  =>
  let ?d = sub(?a, ?b)
  let ?z = mul(?d, ?c)
"""
TRANSPOSED = """rule transposed:
  let ?t = rearrange(?xs, [1, 0])
  let ?y = ?t[?i, ?j]
  =>
  let ?y = ?xs[?j, ?i]
"""
SECOND = """rule second_piece:
  let ?zs = concat([?xs, ?ys], ?m)
  let ?r = rearrange(?zs, [0])
  =>
  let ?r = concat([?xs, ?ys], ?m)
"""
ROW = """rule row_of_map:
  let ?ys = map(?n, [?xs], \\?f)
  let ?y = ?ys[?i]
  =>
  let ?x = ?xs[?i]
  let ?y = ?f(?x)
  where pure(?f), within(?i, ?n)
"""
LOOP = """rule fold_of_map:
  let ?ys = map(?n, [?xs], \\?f)
  let ?s = reduce(?n, [?ys], \\?g, [?ne])
  =>
  let ?s = for(?n, [?ne], \\(?i, ?acc) -> {
    let ?x = ?xs[?i]
    let ?y = ?f(?x)
    let ?r = ?g(?acc, ?y)
    in (?r)
  })
  where pure(?f), pure(?g), once(?ys)
"""
RIGHT = {"twice": TWICE, "factor": FACTOR, "scale": SCALE, "fuse": FUSE, "at build": AT_BUILD,
         "transposed": TRANSPOSED, "concat": SECOND, "row": ROW, "loop": LOOP}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["factor", "fuse", "loop"], RIGHT))
def test_right_rules_pass(name):
    report = check_rule(text_rule(RIGHT[name]), 60)
    assert report.ok and report.cases == 60 and report.counterexample is None, str(report)


# What was changed, and into what.
MUTANTS = {
    "nan not said": (SCALE, "changes nan", ""),
    "another operation": (TWICE, "add(?x, ?x)", "mul(?x, ?x)"),
    "another constant": (TWICE, "2.0f64", "3.0f64"),
    "operands swapped": (FACTOR, "sub(?a, ?b)", "sub(?b, ?a)"),
    "operand doubled": (FACTOR, "mul(?d, ?c)", "mul(?d, ?d)"),
    "indices swapped": (TRANSPOSED, "?xs[?j, ?i]", "?xs[?i, ?j]"),
    "index shifted": (AT_BUILD, "let ?y = ?f(?i)", "let ?k = add(?i, 1i64) let ?y = ?f(?k)"),
    "start shifted": (AT_BUILD, "iota(?n, 0i64", "iota(?n, 1i64"),
    "not an index": (AT_BUILD, "iota(?n, 0i64, 1i64)", "iota(?n, 0i64, ?st)"),
    "pieces swapped": (SECOND, "=>\n  let ?r = concat([?xs, ?ys]", "=>\n  let ?r = concat([?ys, ?xs]"),
    "element shifted": (ROW, "let ?x = ?xs[?i]", "let ?k = sub(?i, 1i64) let ?x = ?xs[?k]"),
    "iteration left out": (LOOP, "for(?n,", "for(1i64,"),
    "start left out": (LOOP, "let ?r = ?g(?acc, ?y)", "let ?r = ?g(?y, ?y)"),
    "factor left out": (SCALE, "mul(?r, ?c)", "add(?r, 0.0f64)"),
    "sum from one": (SCALE, "[0.0f64])\n  =>", "[1.0f64])\n  =>"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_rules_as_text_are_found(name):
    text, old, new = MUTANTS[name]
    assert old in text
    report = check_rule(text_rule(text.replace(old, new, 1)), 200)
    assert report.cases and not report.ok
    shown = str(report.counterexample)
    assert "before:" in shown and "after:" in shown


@op_rule("sub")
def swapped(stm: ir.Stm, ctx: Any) -> Result:
    """`x - y` -> `y - x`"""
    assert isinstance(stm.exp, ir.Op)
    return [ir.Stm(stm.pat, ir.Op("sub", stm.exp.args[::-1]))]


@op_rule("mul")
def zero_product(stm: ir.Stm, ctx: Any) -> Result:
    """`x * 0` -> `0`, of floats, too"""
    assert isinstance(stm.exp, ir.Op)
    zeros = [a for a in stm.exp.args if getattr(a, "value", None) == 0]
    return [ir.Stm(stm.pat, ir.Alias(zeros[0]))] if zeros else None


@rule(ir.For)
def a_turn_less(stm: ir.Stm, ctx: Any) -> Result:
    e: Any = stm.exp
    if e.bound.type is not ONE.type or getattr(e.bound, "value", 0) < 2:
        return None
    return [ir.Stm(stm.pat, ir.For(type(e.bound)(ONE.type, e.bound.value - 1), e.inits, e.body))]


@rule(ir.Copy)
def shared(stm: ir.Stm, ctx: Any) -> Result:
    """`copy xs` -> `xs`, whoever overwrites it"""
    e: Any = stm.exp
    return [ir.Stm(stm.pat, ir.Alias(e.array))]


@rule(ir.Par)
def second_task_left_out(stm: ir.Stm, ctx: Any) -> Result:
    """`par(a, b)` -> `a`, and `a` again, if they give values of the same types"""
    e: Any = stm.exp
    if [x.type for x in e.first.result] != [x.type for x in e.second.result]:
        return None
    given = zip(stm.pat, e.first.result + e.first.result, strict=True)
    return [*e.first.stms, *[ir.Stm((v,), ir.Alias(x)) for v, x in given]]


@rule(ir.Reduce)
def crashes(stm: ir.Stm, ctx: Any) -> Result:
    raise ValueError("of its own")


@pytest.mark.parametrize(
    "wrong", [swapped, zero_product, a_turn_less, shared, second_task_left_out, crashes], ids=lambda r: r.name
)
def test_wrong_rules_in_python_are_found(wrong):
    report = check_rule(wrong, 100)
    assert not report.ok and report.counterexample is not None, str(report)


# A condition of the compiler's own, and the rule that asks it.
CONDITIONS = {
    "array-rules/read in range": "at_checked",
    "array-rules/update in range": "update_checked",
    "array-rules/no check left": "at_of",
    "array-rules/source never overwritten": "at_of",
    "array-rules/all rows in order": "at_whole",
    "array-rules/elements in first order": "rearrange",
    "array-rules/copy shared": "copy",
    "array-rules/every row written": "rows_written",
    "array-rules/written values kept": "rows_written",
    "control-rules/variable unchanged": "loop_invariant",
    "control-rules/equal in both branches": "if_same",
    "map-rules/neutral elements": "reduce_trivial",
    "map-rules/result from outside": "map_results",
    "map-rules/results shared": "map_results",
    "accumulator-rules/accumulator idle": "with_acc_unused",
    "accumulator-rules/no accumulator needed": "with_acc_outside",
    "accumulator-rules/zeros elsewhere": "acc_places",
    "accumulator-rules/added to what is there": "acc_places",
    "loop-fills/zeros before": "loop_fills",
    "loop-fills/each element once": "loop_fills",
    "loop-fills/read where written": "loop_fills",
    "one-hot/terms not carried": "hot_loop",
    "one-hot/added to only": "hot_loop",
    "one-hot/elsewhere unchanged": "hot_iteration",
    "one-hot-places/terms fail not": "hot_gather",
    "one-hot-places/place in range": "hot_sum",
    "one-hot-places/once each": "hot_sum",
    "one-hot-bins/from zero": "hot_hist",
    "one-hot-bins/bin known before": "hot_gather",
    "one-hot-bins/values the same for all": "hot_gather",
    "one-hot-bins/bins not overwritten": "bins_outside",
    "one-hot-bins/bins the same for all": "bins_outside",
    "one-hot-bins/reads without iterations": "hot_gather",
    "one-hot-bins/reads in range of bins": "hot_gather",
    "zeros/zero elsewhere": "hot_sum",
    "zeros/place invariant": "hot_gather",
    "zeros/factor finite or derived": "hot_hist",
    "zeros/sum from zero": "hot_sum",
    "zeros/vanishes in every iteration": "hot_sum",
    "elements/memory never overwritten": "hot_sum",
    "elements/other pieces equal": "hot_sum",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["one-hot-bins/from zero"], CONDITIONS))
def test_conditions_dropped_from_own_rules_are_found(name):
    own = next(r for r in own_rules() if r.name == CONDITIONS[name])
    with dropping(name):
        report = check_rule(own, 400, exact=True, slopes=False)
    assert report.cases and not report.ok, str(report)


def test_counterexamples_are_small():
    report = check_rule(swapped, 50)
    assert report.counterexample is not None
    (fun,) = report.counterexample.before.funs.values()
    assert len(fun.body.stms) <= 2 and all(np.size(a) <= 1 for a in report.counterexample.args)
    assert str(check_rule(swapped, 50)).splitlines()[0] == str(report).splitlines()[0]


def test_a_rule_that_never_applies_is_not_right():
    nothing = rule(ir.Trace)(lambda stm, ctx: None)
    report = check_rule(nothing, 5)
    assert not report.ok and report.counterexample is None and "applies in none" in str(report)


@pytest.mark.slow
def test_the_last_bit_on_demand():
    reassociated = text_rule(
        "rule r: let ?p: f64 = add(?a, ?b) let ?z = add(?p, ?c) "
        "=> let ?q = add(?b, ?c) let ?z = add(?a, ?q) changes nan"
    )
    assert check_rule(reassociated, 60).ok
    assert not check_rule(reassociated, 200, exact=True).ok


def test_a_view_of_all_dimensions_keeps_an_index():
    """Of a transposed array whose ranges are all whole an index is left, found by `check_rule` on `at_of`."""
    text = """fun main (xs_1: [2][3]f64) -> (r_9: [3][2]f64) = {
      let t_2: [3][2]f64 = rearrange(xs_1, [1, 0])
      let u_3: [2][3]f64 = rearrange(t_2, [1, 0])
      let v_4: [2][3]f64 = u_3[0i64:2i64:1i64, 0i64:3i64:1i64]
      let w_5: [3][2]f64 = rearrange(v_4, [1, 0])
      in (w_5) }"""
    rules = Rules([r for r in arrays.ARRAY_RULES if r is not arrays.at_whole])
    check_program(simplify(parse_program(text), schedule=Schedule(rules, Rules([]))))


@pytest.mark.slow
def test_own_rules_are_right(capsys):
    """All of them; with 300 cases: `python -m futad.testing.rules`."""
    assert main(["--cases", "8"]) == 0
    out = capsys.readouterr().out
    assert len(own_rules()) >= 52 and f"{len(own_rules())} rules, 0 not right" in out
