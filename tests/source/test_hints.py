"""Hints that are tables: what they propose for names, types and conversions is right (in programs: test_mistakes)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import futad
from futad.core.types import PRIMS
from futad.errors import SourceError
from futad.numpy import f64, i64
from futad.source import check_text, hints, numeric
from futad.source.hint_syntax import CHARACTERS
from futad.source.hint_types import lossless

NUMBERS = [name for name in PRIMS if name != "bool"]
# What the arguments in the table of calls are.
SCOPE = """
def f [k] [l] (xs: [k]f64) (ys: [k]f64) (zs: [k]f64) (a: [l][k]f64) (b: [k][l]f64) (x: f64) (y: f64) (n: i64) (m: i64)
      (c: bool) (p: (f64, f64)) = """
OTHERS = {  # names that the scope has of another type
    "arange": "(\\a b -> {})", "range": "(\\a b -> {})", "clip": "(\\a b -> {})", "linspace": "(\\a b -> {})",
    "fmap": "(\\f -> {}) f64.exp", "vmap": "(\\f -> {}) f64.exp", "grad": "(\\f -> {}) f64.exp",
    "value_and_grad": "(\\f -> {}) f64.exp", "zipWith": "(\\f -> {}) (+)",
    "zipWith3": "(\\f -> {}) (\\x y z -> x + y + z)",
    "realToFrac": "(\\x -> {}) 1f32",
}  # fmt: skip


def said(text: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        check_text(text, "a.fut")
    return caught.value


@pytest.mark.parametrize("name", sorted(hints.CALLS))
def test_what_is_proposed_for_a_call_checks(name):
    for params, _ in hints.CALLS[name]:
        proposed = hints.call(name, params.split()).partition(" of numbers")[0]
        check_text(SCOPE + OTHERS.get(name, "{}").format(proposed), "a.fut")
    with pytest.raises(SourceError):  # the name is free
        check_text(f"def f x = {name} x", "a.fut")


def test_conversions_that_are_proposed():
    """Of each pair of types: a conversion if it loses nothing, and there is that."""
    for a, b in itertools.permutations(NUMBERS, 2):
        error = said(f"def g (x: {b}) = x def f (x: {a}) = g x")
        assert error.hint == (f"convert it: ({b}.{a} x)" if lossless(PRIMS[a], PRIMS[b]) else None), (a, b)
        assert numeric.member(b, a) is not None


ENDS = {"i": (-128, 127), "u": (0, 255)}


def test_no_conversion_that_is_proposed_loses_anything():
    """The ends of each type come back; where an integer becomes a float that has fewer bits, to its precision."""
    for a, b in itertools.permutations(NUMBERS, 2):
        p, q = PRIMS[a], PRIMS[b]
        if not lossless(p, q):
            continue
        if p.is_float:
            ends = [np.finfo(p.dtype).max, np.finfo(p.dtype).smallest_subnormal]
        else:
            ends = [np.iinfo(p.dtype).min, np.iinfo(p.dtype).max]
        for x in ends:
            made = q.dtype.type(x)
            exact = not (q.is_float and p.is_integral and p.bits > q.bits // 2)
            assert int(made) == int(x) and float(made) == float(x) if exact else math.isclose(made, x, rel_tol=1e-7)


MEMBERS = [name for name in numeric.module_members("f64") if name.isidentifier() and name not in hints.CALLS]


def test_names_of_the_modules_of_numbers():
    for name in MEMBERS:
        assert f"f64.{name}" in str(said(f"def f = {name}").hint), name
    proposed = {said(f"def f (x: f64) = {n} x").hint for n in MEMBERS if numeric.module_members("f64")[n] == "t t"}
    defs = [f"def g{i} (x: f64) = {hint.partition(': ')[2]}" for i, hint in enumerate(sorted(proposed))]
    check_text("\n".join(defs), "a.fut")


@pytest.mark.parametrize("module", ["f32", "f64", "i64"])
def test_other_names_of_members(module):
    for name, other in hints.MEMBERS.items():
        hint = said(f"def f = {module}.{name}").hint or ""
        if other and other in numeric.module_members(module):
            assert other in hint, name
        assert not hint.startswith(f"here that is {module}.") or numeric.member(module, hint.rpartition(".")[2]), name


def test_types():
    for name, meant in hints.TYPES.items():
        assert said(f"def f (x: {name}) = x").hint == f"the type is called {meant}"
    check_text("\n".join(f"def f{i} (x: {t}) = x" for i, t in enumerate(set(hints.TYPES.values()))), "a.fut")


def test_characters():
    for char, hint in CHARACTERS.items():
        error = said(f"def f (x: f64) = x {char} 1")
        assert error.hint == hint and error.code == "E0102", char


BODY = "def f [n] [m] (xs: [n]f64) (ys: [n]f64) (a: [m][n]f64) (x: f64) (y: f64) (c: bool) = "


@pytest.mark.parametrize("body", ["c x", "f64.exp {x, y}", "c && \"a\"", "xs ++ c", "anything x"])
def test_where_nothing_is_known(body):
    assert said(BODY + body).hint is None


def test_a_name_that_is_defined_needs_no_hint():
    check_text("def sum (x: f64) = x def zeros = sum 1", "a.fut")
    assert said("def summed (x: f64) = x def f = summd 1").hint == "did you mean 'summed'?"


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("def f (x: f64) = (-x) ** 2 + (-(x)) ** 2 + ((-x)) ** 2 - x ** 2 + -(x ** 2) + 2 ** -x", []),
        ("def f (x: f64) = -x ** 2 + -(x) ** 2 + f64.exp (-x ** x) + -f64.sin x ** 2", [18, 28, 49, 60]),
        ("def f (x: f64) = map (\\y -> - y ** 2) [x]", [29]),
        ("def f (x: f64) = x * -2 ** 2 + -x f64.** 2 + (-x **) 2", [22, 32, 47]),
        ("def f (x: i64) = !x ** 2 + -x * 2 + -x % 2 + -x // 2", []),
    ],
)
def test_a_negated_operand_of_a_power(text, warned):
    assert [w.span.col for w in check_text(text, "a.fut").warnings] == warned


def test_python_writes_powers_of_negatives_without_a_warning():
    @futad.function
    def f(x: f64, n: i64):
        return (-x) ** 2 + -(x**2) + (-n) ** 2 + (-2.0) ** n + (-(x + 1)) ** x

    text = f.source()
    assert "**" in text and not check_text(text, "a.fut").warnings


def test_an_unknown_function_of_a_unit():
    with pytest.raises(SourceError, match="unknown name 'm0'"):
        check_text("entry main (x: i32) : i32 = m0.number () + x")
