"""Folds of columns are folds of rows, where rows are made."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import INTERP, MULTICORE, C
from tests.support.needs import needs_cxx

MADE = "let m = map (\\x -> map (\\y -> f64.sin (x * y)) ys) xs"
# What is done with the columns of a matrix, and whether its rows are folded in its place.
COLUMNS = {
    "sum": (f"{MADE} in map f64.sum (transpose m)", True),
    "mean and most": (f"{MADE} in map (\\c -> f64.sum c / f64.maximum c) (transpose m)", True),
    "two": (f"{MADE} in map2 (\\c y -> y * f64.sum c - f64.minimum c) (transpose m) ys", True),
    "not associative alone": (f"{MADE} in map (reduce (\\a b -> a * b + a + b) 0) (transpose m)", True),
    "with the place": (
        f"{MADE} in map (\\c -> f64.i64 (reduce (\\(a, i) (b, j) -> if b > a then (b, j) else (a, i)) (-1, -1)"
        " (zip c (indices c))).1) (transpose m)", True),
    "with weights": (
        f"{MADE} in let w = map f64.sin xs in map (\\c -> f64.sum (map2 (*) w c)) (transpose m)", True),
    "weights made alone": (
        "let w = map f64.sin xs in map (\\c -> f64.sum (map2 (\\x y -> x * (y - 1)) w c)) (transpose xss)", False),
    "with given weights": ("map (\\c -> f64.sum (map2 (*) xs c)) (transpose xss)", False),
    "with an element of its own": (
        f"{MADE} in map2 (\\c y -> f64.sum (map (\\x -> f64.exp (x * y)) c)) (transpose m) ys", True),
    "with a value of its own": (
        f"{MADE} in map2 (\\c y -> let z = f64.exp y in f64.sum (map (\\x -> x * z) c)) (transpose m) ys", False),
    "column used": (f"{MADE} in map (\\c -> f64.sum c * c[0]) (transpose m)", True),
    "operator of the column": (f"{MADE} in map2 (\\c y -> reduce (\\a b -> a + b * y) y c) (transpose m) ys", False),
    "neutral element of the column": (f"{MADE} in map2 (\\c y -> reduce f64.max y c) (transpose m) ys", False),
    "in each row": (
        "let m = map (\\x -> map (\\z -> map (\\y -> f64.sin (x * y) + z) ys) xs) xs"
        " in foldl (map2 (+)) (replicate k 0) (map (\\b -> map (\\c -> f64.exp (f64.maximum c)) b)"
        " (map transpose m))", True),
    "rows kept": (
        "let m = map (\\x -> map (\\z -> map (\\y -> f64.sin (x * y) + z) ys) xs) xs"
        " in foldl (map2 (+)) (replicate k 0) (map2 (\\b r -> map2 (\\c s -> f64.exp (f64.sum c) + s) b r[0])"
        " (map transpose m) m)", True),
    "given": ("map f64.sum (transpose (copy xss))", False),
}  # fmt: skip


def program(body: str) -> str:
    return f"entry f [n][k] (xs: [n]f64) (ys: [k]f64) (xss: [n][k]f64): [k]f64 = {body}"


@pytest.mark.parametrize("name", COLUMNS)
def test_where_it_is_done(name: str) -> None:
    body, expected = COLUMNS[name]
    for target in (C, MULTICORE):
        with counting() as counts:
            compile_program(compile_text(program(body)), target=target, check=True)
        assert (counts["column-folds"] > 0) == expected
    with counting() as counts:
        compile_program(compile_text(program(body)), target=INTERP, check=True)
    assert not counts["column-folds"]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", COLUMNS)
def test_equal_to_the_interpreter(name: str) -> None:
    text = program(COLUMNS[name][0])
    plain = futad.compile(text, backend="interp")
    others = [futad.compile(text, backend=b, check=True) for b in ("c", "multicore")]
    for n, k in ((4, 3), (1, 1), (0, 2), (3, 0), (5, 33)):
        if n == 0 and "[0]" in text:
            continue
        rng = np.random.default_rng(10 * n + k)
        args = rng.normal(size=n), rng.normal(size=k), rng.normal(size=(n, k))
        for values in (args, (args[0] * np.nan, *args[1:])):
            for other in others:
                np.testing.assert_allclose(other.f(*values), plain.f(*values), rtol=1e-12, atol=1e-14)


def test_few_columns_stay() -> None:
    """Where it is known that columns are fewer than lanes are worth."""
    for k, expected in (("7", False), ("8", True)):
        text = f"entry f (xs: [100]f64) (ys: [{k}]f64): [{k}]f64 = {MADE} in map f64.sum (transpose m)"
        with counting() as counts:
            compile_program(compile_text(text), target=C, check=True)
        assert (counts["column-folds"] > 0) == expected
