# ruff: noqa: E501 (programs read better unbroken)
"""Strategies: their laws, their text, and counts."""

from __future__ import annotations

from futad.core import ir
from futad.core.ir import Stm
from futad.core.parse import parse_program
from futad.core.types import F64, Const
from futad.rewrite.rules.scalar import fold, unit
from futad.rewrite.rules.shipped import ENTER, LEAVE
from futad.rewrite.simplify import SCHEDULE, Schedule, simplify
from futad.rewrite.strategy import (
    Rules,
    Stats,
    Strategy,
    all_,
    apply_to,
    bottomup,
    choice,
    fail,
    id_,
    innermost,
    normalize,
    one,
    repeat,
    rule,
    seq,
    topdown,
    try_,
)
from tests.support.optimise_support import body, passes


@rule(ir.Op)
def halve(stm, ctx):
    """A constant argument above 1 -> half of it."""
    c = stm.exp.args[0]
    if isinstance(c, Const) and c.value > 1:
        return [Stm(stm.pat, ir.Op(stm.exp.op, (Const(F64, c.value / 2),)))]
    return None


@rule(ir.Op)
def split(stm, ctx):
    """`neg 1` -> `exp 1` and `neg 0.5`."""
    if stm.exp.op != "neg" or stm.exp.args[0] is not Const(F64, 1):
        return None
    twin = ir.Var("twin", F64)
    return [Stm((twin,), ir.Op("exp", stm.exp.args)), Stm(stm.pat, ir.Op("neg", (Const(F64, 0.5),)))]


def statement(text: str) -> Stm:
    return parse_program(body(text, params="c_1: bool")).funs["main"].body.stms[0]


NEG8 = "let t_9: f64 = neg(8.0f64) in (t_9)"
NESTED = "let t_9: f64 = if(c_1, { let a_2: f64 = neg(8.0f64) let b_3: f64 = exp(4.0f64) in (b_3) }, { let d_4: f64 = neg(2.0f64) in (d_4) }) in (t_9)"


def args(stms) -> list[float]:
    """The constant arguments found, outermost first."""
    out = []
    for s in stms:
        if isinstance(s.exp, ir.Op):
            out.append(s.exp.args[0].value)
        for lam in s.exp.lambdas():
            out += args(lam.stms)
    return out


def test_atoms():
    s = statement(NEG8)
    assert id_(s) == [s] and fail(s) is None
    assert args(halve(s)) == [4] and try_(fail)(s) == [s] and args(try_(halve)(s)) == [4]


def test_sequence_and_choice():
    s = statement(NEG8)
    assert args(seq(halve, halve)(s)) == [2]
    assert seq(halve, fail)(s) is None and seq(fail, halve)(s) is None
    assert args(choice(fail, halve)(s)) == [4] and choice(fail, fail)(s) is None
    assert args((halve >> halve)(s)) == [2] and args((fail | halve)(s)) == [4]


def test_repeat_works_on_all_that_a_rule_leaves():
    s = statement(NEG8)
    assert args(repeat(halve)(s)) == [1]
    assert args(repeat(halve | split)(s)) == [1, 0.5]
    assert repeat(fail)(s) == [s]


def test_traversals():
    s = statement(NESTED)
    assert args(one(halve)(s)) == [4, 4, 2]
    assert args(all_(halve)(s)) == [4, 2, 1]
    assert all_(halve | fail)(statement(NESTED.replace("2.0", "1.0"))) is None
    assert one(halve)(statement(NEG8)) is None and all_(fail)(statement(NEG8)) is not None
    assert args(topdown(halve)(s)) == [4, 4, 2] and args(bottomup(halve)(s)) == [4, 4, 2]
    assert topdown(fail)(s) is None
    assert args(normalize(halve)(s)) == [1, 1, 1] and args(innermost(halve)(s)) == [1, 1, 1]
    assert args(topdown(halve)(statement(NEG8))) == [4]


def test_strategies_print_themselves():
    assert repr(normalize(choice(halve, split))) == "normalize(halve | split)"
    assert repr(seq(halve, try_(split), fail)) == "halve ; try(split) ; fail"
    assert repr(choice(seq(halve, split), id_)) == "(halve ; split) | id"
    assert repr(seq(choice(halve, split), id_)) == "(halve | split) ; id"
    assert repr(topdown(bottomup(one(all_(innermost(repeat(halve))))))) == (
        "topdown(bottomup(one(all(innermost(repeat(halve))))))"
    )
    assert "fold | unit" in repr(SCHEDULE) and "map_results" in repr(SCHEDULE)


def test_every_rule_shows_before_and_after():
    for r in (*ENTER, *LEAVE):
        assert r.doc and ("->" in r.doc or "become" in r.doc or "leave" in r.doc or "go" in r.doc), r


def test_rules_dispatch_like_choice():
    table, plain = Rules([halve, split]), choice(halve, split)

    class Quiet:
        stats = None

    for text in (NEG8, NEG8.replace("8", "1"), NEG8.replace("8.0", "0.5"), NESTED):
        a, b = table(statement(text), Quiet), plain(statement(text), Quiet)
        assert (a is None) == (b is None) and (a is None or args(a) == args(b))


PROGRAM = body(
    "let t_4: f64 = mul(1.0f64, 2.0f64) let u_5: f64 = mul(t_4, 1.0f64) let e_7: f64 = xs_2[0i64]"
    " let v_6: f64 = add(e_7, u_5) in (v_6)"
)


def test_counts_and_times():
    stats = Stats()
    simplify(parse_program(PROGRAM), stats)
    assert stats.hits["fold"] == 2 and stats.tries["fold"] >= 2 and stats.seconds["fold"] > 0
    assert stats.hits["copy_propagation"] == 2
    assert "fold" in str(stats) and stats.table()[0][1] >= stats.table()[-1][1]


def test_another_schedule():
    """A user's schedule: only folding."""
    only = Schedule(Rules([fold]), Strategy("nothing", lambda stm, ctx: None))
    p = parse_program(body("let t_4: f64 = mul(1.0f64, 2.0f64) let e_7: f64 = xs_2[0i64] let u_5: f64 = mul(e_7, 1.0f64)"
                           " let v_6: f64 = add(u_5, t_4) in (v_6)"))
    q = passes(p, lambda_named(only))
    ops = [s.exp.op for s in q.funs["main"].body.stms if isinstance(s.exp, ir.Op)]
    assert ops == ["mul", "add"]
    assert unit.heads == (ir.Op,)


def lambda_named(schedule: Schedule):
    def run(p):
        return simplify(p, schedule=schedule)

    return run


def test_apply_to_a_scope():
    lam = parse_program(body(NEG8 + "", params="c_1: bool")).funs["main"].body
    assert args(apply_to(halve, lam).stms) == [4] and apply_to(fail, lam) is lam
