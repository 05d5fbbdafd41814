"""The machine's bound of a program (`benchmarks/bound.py`): what is counted, what it takes at which ceiling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.core.scalarops import OPS
from futad.target import C

bound = pytest.importorskip("bound")  # of benchmarks/
ceilings = pytest.importorskip("ceilings")


def needs(source: str, *args: Any, wrt: tuple[int, ...] = (0,)) -> tuple[Any, list[Any]]:
    """What the entry `value` needs, and its gradient, in all ways."""
    entry = futad.compile(source, backend="interp").value
    both = futad.value_and_grad(entry, argnums=wrt)
    return bound.needs(entry, both, wrt, args, C)


PRODUCT = """
entry value [n][k][m] (a: [n][k]f32) (b: [k][m]f32): f32 =
  f32.sum (flatten (map (\\row -> map (\\column -> f32.exp (f32.sum (map2 (*) row column))) (transpose b)) a))
"""


def test_a_product_is_done_again_for_each_factor():
    a, b = np.ones((5, 6), np.float32), np.ones((6, 7), np.float32)
    value, one = needs(PRODUCT, a, b)
    assert value.multiply_adds == {"f32": 5 * 6 * 7}
    assert value.calls == {"exp f32": 35}
    assert value.others["f32"] == 35 + 5  # the sums of rows, and theirs
    assert value.bytes == 4 * (30 + 42)
    _, both = needs(PRODUCT, a, b, wrt=(0, 1))
    for ways, factors in ((one, 1), (both, 2)):
        assert {n.multiply_adds["f32"] for n in ways} == {(1 + factors) * 5 * 6 * 7}
        assert ways[0].calls == {"exp f32": 35}  # the derivative is the value
        assert ways[0].others["f32"] == 35 + 5 + 35
    assert both[0].bytes == 2 * 4 * (30 + 42)


def test_partial_derivatives_count_with_what_they_are_made_of():
    """A quotient's have a quotient in common; what does not depend on the argument has none."""
    x = np.ones(9)
    value, (pulled, compiled) = needs("entry value [n] (x: [n]f64) (y: [n]f64): f64 = f64.sum (map2 (/) x y)", x, x)
    assert (value.calls, value.others) == ({"div f64": 9}, {"f64": 9})
    assert (pulled.calls, pulled.others) == ({"div f64": 18}, {"f64": 9})
    assert compiled.calls == {"div f64": 18}
    quotients = "entry value [n] (x: [n]f64) (y: [n]f64): f64 = f64.sum (map2 (\\a b -> a / b) x y)"
    _, (pulled, _) = needs(quotients, x, x, wrt=(0, 1))
    assert (pulled.calls, pulled.others) == ({"div f64": 18}, {"f64": 18})
    _, (pulled, _) = needs("entry value [n] (x: [n]f64): f64 = f64.sum (map f64.tanh x)", x)
    # The derivative of tanh is an operation of its own, and the adjoint times it.
    assert (pulled.calls, pulled.others) == ({"tanh f64": 9, "sech_squared f64": 9}, {"f64": 9 + 9})


def test_most_adjoints_of_a_minimum_are_zero():
    """The compiled derivative needs less than all distances again, and counts."""
    source = """
    entry value [n][k][d] (c: [k][d]f64) (x: [n][d]f64): f64 =
      f64.sum (map (\\a -> f64.minimum (map (\\b -> f64.sum (map2 (\\p q -> (p - q) ** 2) a b)) c)) x)"""
    r, distances = np.random.default_rng(1), 20 * 30 * 3
    value, (pulled, compiled) = needs(source, r.normal(size=(30, 3)), r.normal(size=(20, 3)))
    assert value.others["f64"] == 3 * distances + 20 * 30 + 20  # their minima, and the sum of these
    assert pulled.others["f64"] - value.others["f64"] == 2 * distances
    assert compiled.others["f64"] - value.others["f64"] < distances / 2
    at = dict.fromkeys(pulled.ceilings | compiled.ceilings, 1.0)
    assert bound.least([pulled, compiled], at)["seconds"] == compiled.seconds(at)


def test_long_derivatives_are_not_run(monkeypatch):
    monkeypatch.setattr(bound, "LONGEST", 50)
    source = "entry value (x: f64): f64 = loop x for _i < 100 do f64.sin x"
    value, ways = needs(source, 0.5)
    assert value.calls == {"sin f64": 100}
    assert len(ways) == 1 and ways[0].calls == {"sin f64": 100, "cos f64": 100}


def test_the_bound_is_arithmetic_or_copying():
    """Units are shared by products and functions; another one divides, and memory moves meanwhile."""
    need = bound.Need({"f64": 1e6}, {"f64": 4e6, "f32": 2e6}, {"exp f64": 1e3, "div f64": 2e3}, 3_000_000)
    rates = {"multiply-add f64": 1e9, "multiply-add f32": 1e10, "exp f64": 1e6, "div f64": 1e6, "bytes 2097152": 1e9}
    assert need.ceilings == rates.keys()
    parts = {"products": 3.1e-3, "functions": 1e-3, "divisions": 2e-3, "copying": 3e-3}
    assert need.parts(rates) == pytest.approx(parts)
    assert need.seconds(rates) == pytest.approx(4.1e-3)
    assert need.seconds(rates | {"bytes 2097152": 5e8}) == pytest.approx(6e-3)
    assert need.seconds(rates | {"div f64": 4e5}) == pytest.approx(5e-3)
    assert bound.least([need], rates | {"log f64": 1.0})["ceilings"] == rates
    assert bound.Need().seconds({}) == 0


def test_a_ceiling_for_bytes_is_that_of_no_more():
    assert [ceilings.of_bytes(n) for n in (1, 4096, 8191)] == ["bytes 1", "bytes 4096", "bytes 4096"]


@pytest.mark.slow
def test_every_function_has_a_ceiling():
    measured = ceilings.Ceilings(2)
    names = [f"{op.name} {t.name}" for op in OPS.values() if op.cost > 1 for t in op.types if t.name in ("f32", "f64")]
    found = measured.measure(names, 0)
    assert found.keys() == set(names) and all(rate > 1e3 for rate in found.values()), found
    assert measured.measure(["exp f32"], 0.01)["exp f32"] >= found["exp f32"]


@pytest.mark.slow
def test_products_and_copying_have_ceilings():
    found = ceilings.Ceilings(1).measure(["multiply-add f64", "multiply-add f32", "bytes 4096", "bytes 33554432"], 0.05)
    assert len(found) == 4 and all(rate > 1e8 for rate in found.values()), found
    assert found["bytes 4096"] > found["bytes 33554432"]
