"""Hints for what people type who come from NumPy: what they propose is right, and they stand where they belong."""

from __future__ import annotations

import itertools

import pytest

from futad.core.types import PRIMS
from futad.errors import SourceError
from futad.source import check_text, hints, numeric

NUMBERS = [name for name in PRIMS if numeric.is_module(name) and name != "bool"]
SCOPE = "def f [n] [m] (xs: [n]f64) (ys: [n]f64) (a: [m][n]f64) (b: [n][m]f64) (x: f64) (y: f64) (h: f64) (c: bool) = "
# Hints that are expressions as they stand; the others name what to choose from.
PROPOSED = {"linspace": "(\\a -> {}) 1", "where": "if c then x else y"}
WORDS = ("argmax", "array", "fold", "range", "return", "shape", "size", "sort")


def said(text: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        check_text(text, "a.fut")
    return caught.value


@pytest.mark.parametrize("name", sorted(set(hints.NAMES) - set(WORDS)))
def test_what_is_proposed_for_a_name_checks(name):
    proposed = hints.NAMES[name].split(" of two numbers")[0]
    if name == "where":
        assert proposed.startswith("if c then a else b")
        return
    check_text(SCOPE + PROPOSED.get(name, "{}").format(proposed.replace("f64.i64 n", "f64.i64 (length xs)")), "a.fut")
    assert said(f"def f x = {name} x").hint == f"here that is {hints.NAMES[name]}"


@pytest.mark.parametrize(("a", "b"), [(a, b) for a, b in itertools.permutations(NUMBERS, 2)])
def test_there_is_every_conversion_that_is_proposed(a, b):
    error = said(f"def g (x: {b}) = x def f (x: {a}) = g x")
    assert error.hint == f"convert it: {b}.{a} x"
    check_text(f"def g (x: {b}) = x def f (x: {a}) = g ({b}.{a} x)", "a.fut")


MEMBERS = [name for name in numeric.module_members("f64") if name.isidentifier() and name not in hints.NAMES]


@pytest.mark.parametrize("name", MEMBERS)
def test_names_of_the_modules_of_numbers(name):
    hint = hints.of_name(name, False)
    assert hint is not None and f"f64.{name}" in hint
    check_text(f"def f = f64.{name}" if " x" not in hint else SCOPE + hint.split(": ")[1].split(" of ")[0], "a.fut")


@pytest.mark.parametrize("name", hints.TYPES)
def test_types(name):
    assert said(f"def f (x: {name}) = x").hint == f"the type is called {hints.TYPES[name]}"
    check_text(f"def f (x: {hints.TYPES[name]}) = x", "a.fut")


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("x ^ 2", "'^' is the exclusive or of bits; powers are x ** 2"),
        ("xs + xs", "element by element: map2 (+) xs ys of two arrays, map (+ y) xs of one"),
        ("f64.exp xs", "element by element: map f64.exp xs"),
        ("f64.exp a", "element by element: map (map f64.exp) xs"),
        ("f64.max (x, y)", "arguments stand side by side, without commas: f64.max x y"),
        ("f64.sum [1i64]", "convert it: map f64.i64 xs"),
        ("f64.exp (xs, ys)", "arguments stand side by side, without commas: f64.exp x y"),
        ("f64.max xs", "of all elements: f64.maximum xs"),
        ("f64.max a", "element by element: map (map f64.max) xs"),
        ("x > 0 and c", "'&&' is the and of two bools"),
        ("c or c", "'||' is the or of two bools"),
        ("c x", None),
        ("f64.exp {x, y}", None),
        ("c && x", None),
        ("f64.exp f64.sin", None),
        ("xs ++ x", None),
        ("anything x", None),
    ],
)
def test_types_that_do_not_fit(body, hint):
    assert said(SCOPE + body).hint == hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("def f (x: f64) = let y = x; in y", "lines end without ';': let x = 1 let y = 2 in x + y"),
        ("def f (x: f64) (c: bool) = c ? x : 1", "a choice is written: if c then a else b"),
        ("def f [n] (xs: f64[n]) = xs", "an array's type has its size in front: [n]f64"),
        ("def f (x: f64) = x $ 1", None),
    ],
)
def test_what_other_languages_have(text, hint):
    assert said(text).hint == hint


def test_a_name_that_is_defined_needs_no_hint():
    check_text("def sum (x: f64) = x def zeros = sum 1", "a.fut")
    assert said("def summed (x: f64) = x def f = summd 1").hint == "did you mean 'summed'?"
