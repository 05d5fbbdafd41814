"""Laws of strategies on random terms, and fuel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import BOOL, F64, Const, Var
from futad.errors import UsageError
from futad.rewrite.strategy import (
    MOST,
    MOST_EACH,
    Strategy,
    all_,
    bottomup,
    choice,
    fail,
    fix,
    id_,
    innermost,
    limit,
    normalize,
    one,
    repeat,
    rule,
    seq,
    some,
    topdown,
    try_,
    where,
)


@rule(ir.Op)
def halve(stm: Stm, ctx: object):
    """`neg 8` -> `neg 4`, down to 1."""
    c = stm.exp.args[0]
    return [Stm(stm.pat, ir.Op(stm.exp.op, (Const(F64, c.value / 2),)))] if c.value > 1 else None


@rule(ir.Op)
def third(stm: Stm, ctx: object):
    """`exp 9` -> `exp 3`."""
    c = stm.exp.args[0]
    return [Stm(stm.pat, ir.Op("neg", (Const(F64, c.value / 3),)))] if stm.exp.op == "exp" and c.value > 1 else None


@rule(ir.Op)
def again(stm: Stm, ctx: object):
    """`neg x` -> `neg x`, for ever."""
    return [stm]


def op(name: str, value: float) -> Stm:
    return Stm((Var("t", F64),), ir.Op(name, (Const(F64, value),)))


def branch(then: list[Stm], orelse: list[Stm]) -> Stm:
    scopes = [Lambda((), tuple(s), (Const(F64, 0.0),)) for s in (then, orelse)]
    return Stm((Var("b", F64),), ir.If(Const(BOOL, True), *scopes))


leaf = hs.builds(op, hs.sampled_from(["neg", "exp"]), hs.sampled_from([1.0, 2.0, 8.0, 9.0]))
terms = hs.recursive(leaf, lambda t: hs.builds(branch, hs.lists(t, max_size=3), hs.lists(t, max_size=2)), max_leaves=12)
atoms = hs.sampled_from([id_, fail, halve, third, where("neg"), where("if")])
plans = hs.recursive(
    atoms,
    lambda s: hs.one_of(
        hs.builds(seq, s, s),
        hs.builds(choice, s, s),
        hs.builds(try_, s),
        hs.builds(one, s),
        hs.builds(some, s),
        hs.builds(all_, s),
        hs.builds(topdown, s),
        hs.builds(bottomup, s),
    ),
    max_leaves=4,
)


def shown(stms: list[Stm] | None) -> object:
    """A term without the names of variables."""
    if stms is None:
        return None
    return [
        (s.exp.op, s.exp.args[0].value) if isinstance(s.exp, ir.Op) else [shown(list(f.stms)) for f in s.exp.lambdas()]
        for s in stms
    ]


def same(a: Strategy, b: Strategy, term: Stm) -> bool:
    return shown(a(term)) == shown(b(term))


@pytest.mark.slow
@given(plans, plans, plans, terms)
def test_sequence_and_choice_are_monoids(a: Strategy, b: Strategy, c: Strategy, t: Stm) -> None:
    assert same(seq(id_, a), a, t) and same(seq(a, id_), a, t)
    assert same(choice(fail, a), a, t) and same(choice(a, fail), a, t)
    assert same(seq(seq(a, b), c), seq(a, seq(b, c)), t)
    assert same(choice(choice(a, b), c), choice(a, choice(b, c)), t)
    assert seq(fail, a)(t) is None and same(choice(id_, a), id_, t)


@pytest.mark.slow
@given(plans, terms)
def test_try_is_choice_with_id_and_all_keeps_units(s: Strategy, t: Stm) -> None:
    assert same(try_(s), choice(s, id_), t)
    assert same(all_(id_), id_, t)
    assert one(fail)(t) is None and some(fail)(t) is None
    if one(s)(t) is None:
        assert some(s)(t) is None


@pytest.mark.slow
@given(plans, terms)
def test_traversals_are_their_recursive_definitions(s: Strategy, t: Stm) -> None:
    assert same(topdown(s), fix(lambda x: choice(s, one(x))), t)
    assert same(bottomup(s), fix(lambda x: choice(one(x), s)), t)


def places(stms: object) -> list[float]:
    out: list[float] = []
    for x in stms if isinstance(stms, list) else []:
        out += [x[1]] if isinstance(x, tuple) else [y for scope in x for y in places(scope)]
    return out


@pytest.mark.slow
@given(terms)
def test_normal_forms_are_reached_and_are_the_same(t: Stm) -> None:
    for s in (halve, choice(third, halve)):
        outer, inner = normalize(s)(t), innermost(s)(t)
        assert outer is not None and inner is not None
        assert max(places(shown(outer)), default=0) <= 1
        assert all(topdown(s)(x) is None and bottomup(s)(x) is None for x in (*outer, *inner))
        if s is halve:
            assert shown(outer) == shown(inner)


@pytest.mark.slow
@given(terms)
def test_outer_places_come_before_inner_ones(t: Stm) -> None:
    mark = Strategy("mark", lambda stm, ctx: [op("neg", -1.0)])
    assert shown(topdown(mark)(t)) == [("neg", -1.0)]
    inner = t.exp.lambdas()[0].stms if isinstance(t.exp, ir.If) else ()
    assert (shown(bottomup(mark)(t)) == [("neg", -1.0)]) is not bool(inner or _second(t))


def _second(t: Stm) -> bool:
    return isinstance(t.exp, ir.If) and bool(t.exp.lambdas()[1].stms)


@pytest.mark.slow
@given(terms, hs.integers(0, 5))
def test_limit_bounds_the_applications_of_a_run(t: Stm, most: int) -> None:
    calls = []

    def count(stm: Stm, ctx: object):
        out = halve(stm)
        calls.append(out is not None)
        return out

    normalize(limit(most, Strategy("count", count)))(t)
    assert sum(calls) <= most


@pytest.mark.parametrize(
    ("strategy", "named"),
    [
        (repeat(again), r"repeat\(again\) does not end: rule 'again' applies again and again"),
        (normalize(again), r"normalize\(again\) does not end: rule 'again'"),
        (innermost(choice(halve, again)), r"innermost\(halve \| again\) does not end: rule 'again'"),
        (repeat(id_), r"repeat\(id\) does not end: no rule applies in it"),
        (fix(lambda x: x), r"fix\(self -> self\) does not end"),
        (fix(lambda x: seq(again, x)), r"fix\(self -> again ; self\) does not end: rule 'again'"),
    ],
)
def test_what_does_not_end_is_an_error_that_names_rule_and_strategy(strategy: Strategy, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        strategy(op("neg", 4.0))


def test_fuel_grows_with_the_term() -> None:
    calls = 0

    def count(stm: Stm, ctx: object):
        nonlocal calls
        calls += 1
        return [stm]

    for terms_in in (0, 7):
        calls = 0
        with pytest.raises(UsageError):
            repeat(Strategy("count", count))(branch([op("neg", 1.0)] * terms_in, []))
        assert calls == MOST + MOST_EACH * (terms_in + 1) + 1
