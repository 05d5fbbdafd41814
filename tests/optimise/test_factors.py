"""Products of factors that are computed, or read by columns: values and derivatives are the interpreter's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.text import program_text
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

GRAM = """
def f [n][d] (x: [n][d]f64) (w: [n]f64): [d][d]f64 =
  tabulate_2d d d (\\i j -> f64.sum (map (\\r -> r[i] * r[j]) x) + if i == j then f64.sum w else 0)
"""
WEIGHTED = """
def f [n][d] (x: [n][d]f64) (w: [n]f64): [d][d]f64 =
  tabulate_2d d d (\\i j -> f64.sum (map2 (\\r v -> f64.exp v * r[i] * r[j]) x w))
"""
CENTRED = """
def f [n][d] (x: [n][d]f64) (w: [n]f64): [d][d]f64 =
  tabulate_2d d d (\\i j -> f64.sum (map2 (\\r v -> (r[i] - f64.i64 i) * (r[j] - v)) x w) / f64.i64 n)
"""
ONE_HOT = """
def f [n][d] (x: [n][d]f64) (w: [n]f64): [d][d]f64 =
  tabulate_2d d d (\\a b -> 2 * f64.sum (map (\\i ->
    (f64.sin x[i, a] - if i64.f64 w[i] == a then 1 else 0) * x[i, b]) (iota n)))
"""
BATCH = """
def g [n][d] (x: [n][d]f64) (w: [n]f64): [d][d]f64 =
  tabulate_2d d d (\\i j -> f64.sum (map2 (\\r v -> (v - r[i]) * r[j]) x w))
def f [n][d] (x: [n][d]f64) (w: [n]f64): [d][d]f64 =
  let both = map (\\k -> g (map (map (* k)) x) w) [1, 2]
  in map2 (map2 (+)) both[0] both[1]
"""
BY_INDEX = """
def f [n][d] (x: [n][d]f64) (w: [n]f64): [d][d]f64 =
  let m = tabulate_2d d d (\\i j -> f64.sum (map (\\l -> x[l, i] * x[l, j]) (iota n)))
  in map (map (\\v -> f64.sin v + f64.sum w)) m
"""
WALK = """
def f [n][d] (x: [n][d]f64) (w: [n]f64): [d][d]f64 =
  let p = tabulate_2d d d (\\i j -> if i < n then x[i, j] else f64.i64 (i - j) / 10)
  let start = replicate d (f64.sum w / 10)
  let r = loop r = start for _k < 3 do map (\\j -> f64.tanh (f64.sum (map (\\i -> p[i, j] * r[i]) (iota d)))) (iota d)
  in map (\\a -> map (* a) r) r
"""
PROGRAMS = {
    "gram": GRAM, "weighted": WEIGHTED, "centred": CENTRED, "one_hot": ONE_HOT, "batch": BATCH, "by_index": BY_INDEX,
    "walk": WALK,
}  # fmt: skip
ENTRIES = """
entry main [n][d] (x: [n][d]f64) (w: [n]f64) = f x w
entry back [n][d] (x: [n][d]f64) (w: [n]f64) (s: [d][d]f64) = vjp (\\(x, w) -> f x w) (x, w) s
entry again [n][d] (x: [n][d]f64) (w: [n]f64) (s: [d][d]f64) =
  jvp (\\(x, w) -> vjp (\\(x, w) -> f x w) (x, w) s) (x, w) (map (map f64.cos) x, w)
"""


@functools.cache
def compiled(name: str, backend: str) -> tuple[Any, int]:
    with counting() as counts:
        made = futad.compile(PROGRAMS[name] + ENTRIES, backend=backend)
        x, w, s = arguments(3, 2)
        made.main(x, w)
        made.back(x, w, s)
        made.again(x, w, s)
    return made, counts["factors"]


def arguments(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + d)
    return rng.normal(size=(n, d)), rng.random(n) * d, rng.normal(size=(d, d))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_values_and_derivatives(name, backend):
    made, fired = compiled(name, backend)
    assert fired
    plain, _ = compiled(name, "interp")
    for n, d in [(1, 1), (5, 3), (40, 9), (1, 4), (7, 0)]:
        x, w, s = arguments(n, d)
        for entry, args in [("main", (x, w)), ("back", (x, w, s)), ("again", (x, w, s))]:
            got, wanted = [getattr(p, entry)(*args) for p in (made, plain)]
            for a, b in zip(got, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_what_is_not_finite():
    made, _ = compiled("weighted", "c")
    plain, _ = compiled("weighted", "interp")
    x, w, _ = arguments(6, 5)
    x[2, 3], w[4] = np.nan, np.inf
    np.testing.assert_allclose(made.main(x, w), plain.main(x, w), rtol=1e-12)


def test_places_that_an_iteration_reads_stay_in_it():
    """Updates at a row that each point has for itself are in the order of their levels."""
    source = """
    def f [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (is: [n]i64) (w: [m][m][m]f64): f64 =
      f64.sum (map3 (\\x y s ->
        let row i x = f64.sum (map2 (\\y j -> x * y * #[unsafe] w[s, j, i]) y (iota m))
        in f64.sum (map2 row (iota m) x)) xs ys is)
    entry main [n][m] (xs: [n][m]f64) (ys: [n][m]f64) (is: [n]i64) (w: [m][m][m]f64) = vjp (f xs ys is) w 1
    """
    rng = np.random.default_rng(1)
    xs, ys = rng.normal(size=(2, 5, 3))
    args = xs, ys, rng.integers(0, 3, 5), rng.normal(size=(3, 3, 3))
    made, expected = (futad.compile(source, backend=b).main(*args) for b in ("c", "interp"))
    np.testing.assert_allclose(made, expected, rtol=1e-12)


def final(source: str) -> str:
    """The entry `main` after all passes of the target C."""
    program = compile_program(compile_text(source, "t.fut"), target=C)
    return program_text(ir.Program({"main": program.funs["main"]}))


def test_several_updates_of_one_accumulator_are_products():
    """A product of a matrix with itself adds to each of its elements twice."""
    text = final("""
    def f [n][d] (x: [n][d]f64): f64 =
      f64.sum (flatten (tabulate_2d d d (\\i j -> f64.sin (f64.sum (map (\\l -> x[l, i] * x[l, j]) (iota n))))))
    entry main [n][d] (x: [n][d]f64) = vjp f x 1
    """)
    assert text.count(" matmul(") == 3, text


def test_vectors_by_matrices_that_are_read_by_columns():
    """In a loop, too: an array is gone through by rows, and the iterations' folds are not computed again."""
    text = final("""
    def f [n] (p: [n][n]f64) (v: [n]f64): f64 =
      f64.sum (loop r = v for _k < 3 do map (\\j -> f64.tanh (f64.sum (map (\\i -> p[i, j] * r[i]) (iota n)))) (iota n))
    entry main [n] (p: [n][n]f64) (v: [n]f64) = vjp (\\(p, v) -> f p v) (p, v) 1
    """)
    assert "updateacc" not in text, text
    assert text.count("tanh") == 1, text
