"""Derivatives that functions bring are kept as deep as derivatives are taken, and derivatives stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.ad.orders import customs_by_order
from futad.core import ir
from futad.source import compile_text

# The derivative of `cube` is wrong by a factor that tells how often it was looked at: 10 x, then 100, then 1000.
NESTED = """
def third (x: f64): f64 = with_vjp (\\x -> 6 * x) (\\_ d -> 1000 * d) x
def second (x: f64): f64 = with_vjp (\\x -> 3 * x * x) (\\_ d -> 100 * d * third 1) x
def cube (x: f64): f64 = with_vjp_tape (\\x -> (x, x * x * x)) (\\(x, d) -> 10 * d * second x) x
def once (x: f64): f64 = vjp cube x 1
def twice (x: f64): f64 = vjp once x 1
entry value (x: f64) = cube x
entry first (x: f64) = once x
entry again (x: f64) = twice x
entry pushed (x: f64) = jvp once x 1
entry pulled (x: f64) = vjp (\\x -> jvp cube x 1) x 1
entry tangent (x: f64) = jvp cube x 1
"""


def kept(name: str) -> int:
    """How many functions with derivatives of their own an entry has, once it is looked at by order."""
    program = compile_text(NESTED, "nested")
    for f in program.funs.values():
        f.entry = f.entry if f.name == name else None
    made = customs_by_order(program)
    from futad.optimise.inline import inline

    body = inline(made).funs[name].body
    return sum(isinstance(s.exp, ir.WithVjp) for s in ir.statements(body.stms))


@pytest.mark.parametrize(("name", "count"), [("value", 0), ("first", 1), ("again", 2), ("tangent", 1)])
def test_only_what_is_looked_at_is_kept(name: str, count: int) -> None:
    assert kept(name) == count
    assert kept("pushed") >= 2  # the derivative of the given one by forward mode goes through its functions


@pytest.mark.parametrize("name", ["value", "first", "again", "pushed", "pulled", "tangent"])
def test_derivatives_are_those_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = 1.5
    got = futad.compile(NESTED, backend="interp").entries[name](x)
    monkeypatch.setattr("futad.ad.orders.customs_by_order", lambda program: program)
    whole = futad.compile(NESTED, backend="interp").entries[name](x)
    assert got == whole
    expected = {"value": x**3, "first": 10 * 3 * x * x, "tangent": 3 * x * x}
    if name in expected:
        np.testing.assert_allclose(got, expected[name], rtol=1e-15)


def test_a_function_of_several_orders_keeps_the_highest() -> None:
    text = NESTED + "entry both (x: f64) = cube x + once x\n"
    got = futad.compile(text, backend="interp").both(2.0)
    assert got == 8 + 10 * 12
