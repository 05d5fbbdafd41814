"""Folds of rows that both sweeps of a loop compute are saved by the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.api.program import Program
from futad.core import ir
from futad.core.interp import Interpreter
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import MULTICORE, C

LOGSUMEXP = """
def logsumexp [m] (v: [m]f64) = let t = f64.maximum v in t + f64.log (f64.sum (map (\\u -> f64.exp (u - t)) v))
"""
SCALED = (
    LOGSUMEXP
    + """
def scaled [n][m] (cost: [n][m]f64) (k: i64) (g: [m]f64): f64 =
  let (f, g) = loop (f, g) = (replicate n 0, g) for _i < k do
    let f = map (\\row -> 0 - logsumexp (map2 (-) g row)) cost
    in (f, map (\\col -> 0 - logsumexp (map2 (-) f col)) (transpose cost))
  in f64.sum (map (** 3) f) + f64.sum (map (** 2) g)
entry gradient [n][m] (cost: [n][m]f64) (k: i64) (g: [m]f64) = vjp (\\(c, g) -> scaled c k g) (cost, g) 1
entry along [n][m] (cost: [n][m]f64) (k: i64) (g: [m]f64) (v: [m]f64) = jvp (scaled cost k) g v
"""
)
# The loop carries 5 numbers, the folds would be n in each iteration.
LARGER = (
    LOGSUMEXP
    + """
entry gradient [n] (x: [n][5]f64) (k: i64) (w: [5]f64): [5]f64 =
  vjp (\\w -> f64.sum (loop w = w for _i < k do
    let p = map (\\row -> logsumexp (map2 (*) row w)) x
    in map2 (\\a c -> a - 0.1 * f64.sum (map2 (*) p c)) w (transpose x))) w 1
"""
)
# The force is a derivative, a sum over rows; the return sweep reads what the place is half way.
FORCE = """
def potential [n][d] (x: [n][d]f64) (w: [d]f64): f64 =
  f64.sum (map (\\row -> f64.log (1 + f64.exp (f64.sum (map2 (*) row w)))) x)
entry gradient [n][d] (x: [n][d]f64) (k: i64) (q: [d]f64) (p: [d]f64): [d]f64 =
  vjp (\\q -> let (q, p) = loop (q, p) = (q, p) for _i < k do
                let q = map2 (\\q g -> q - 0.1 * g) q (vjp (potential x) q 1)
                in (q, map2 (\\p g -> p - 0.1 * g * g) p (vjp (potential x) q 1))
             in f64.sum (map2 (*) q p)) q 1
"""
# A product with a row is cheap.
CHEAP = """
entry gradient [n] (a: [n][n]f64) (k: i64) (x: [n]f64): [n]f64 =
  vjp (\\x -> f64.sum (loop x = x for _i < k do
    let y = map (\\row -> f64.sum (map2 (*) row x)) a
    in map2 (\\x y -> x * y) x y)) x 1
"""
# The force's folds are made where it is added up alone.
TRAINED = """
def loss [n] (a: [n][n]f64) (b: [n]f64): f64 =
  f64.sum (map (\\r -> let t = f64.tanh (f64.sum (map2 (*) r b)) in t * t) a)
entry trained [n] (a: [n][n]f64) (k: i64) (b: [n]f64): f64 =
  f64.sum (loop b for _i < k do map2 (\\x d -> x - 0.1 * d) b (vjp (loss a) b 1))
entry gradient [n] (a: [n][n]f64) (k: i64) (b: [n]f64) = vjp (\\(a, b) -> trained a k b) (a, b) 1
"""


def exponentials(core: Any, name: str) -> int:
    """In a function's text."""

    def count(lam: ir.Lambda) -> int:
        here = sum(isinstance(s.exp, ir.Op) and s.exp.op == "exp" for s in lam.stms)
        return here + sum(count(inner) for s in lam.stms for inner in s.exp.lambdas())

    return count(core.funs[name].body)


@pytest.mark.parametrize(
    ("source", "fires", "before", "after"), [(SCALED, 1, 7, 4), (LARGER, 0, 3, 3), (FORCE, 1, 6, 5), (CHEAP, 0, 0, 0)]
)
def test_folds_are_not_computed_again(source: str, fires: int, before: int, after: int) -> None:
    """Two log-sum-exps in the forward sweep, and of each one the weights in the return sweep; without the folds saved
    these, and what the second one is of."""
    core = compile_text(source)
    with counting() as counts:
        with_them = compile_program(core, target=C, stop_after="simplify-remat", check=True)
    without = compile_program(core, target=C, stop_after="simplify-matmul")
    assert counts["saved-folds"] == fires
    assert (exponentials(without, "gradient"), exponentials(with_them, "gradient")) == (before, after)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize(("n", "m", "k"), [(3, 4, 3), (1, 5, 2), (5, 1, 1), (2, 3, 0), (40, 33, 5)])
def test_answers(backend: str, n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(n + m)
    cost, g, v = rng.standard_normal((n, m)), rng.standard_normal(m), rng.standard_normal(m)
    program = futad.compile(SCALED, backend=backend)
    expected = futad.compile(SCALED, backend="interp").gradient(cost, k, g)
    for a, e in zip(program.gradient(cost, k, g), expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(np.sum(expected[1] * v), program.along(cost, k, g, v), rtol=1e-10)


# The place of a row's least element is found by comparing that with the elements: sines, which are computed again.
EXTREMA = """
def ends [n][k] (x: [n][k]f64) (w: [k][k]f64) =
  loop (v, hs) = (replicate k 0.7, replicate n (replicate k 0)) for i < n do
    let v = tabulate k (\\s ->
      let z = f64.minimum (map2 (\\u a -> 0.9 * (a * f64.sin u)) v w[s]) * 0.9
      in f64.sin (f64.exp (-f64.sqrt (0.1 + z * z)) + 0.3 * x[i, s]))
    in (v, hs with [(i * 2) % n] = v)
def repeated [n][k] (x: [n][k]f64) (w: [k][k]f64) =
  ends (loop x for _t < 3 do map (map (\\a -> a / (1 + a * a))) (ends x w).1) w
entry gradient [n][k] (x: [n][k]f64) (w: [k][k]f64) (y: [k]f64) (z: [n][k]f64) =
  vjp (\\(x, w) -> repeated x w) (x, w) (y, z)
"""


def test_extrema_that_are_compared_are_not_saved() -> None:
    text = EXTREMA.replace("f64.sin (f64.exp (-f64.sqrt (0.1 + z * z))", "(z")
    for element, fires in [("f64.sin u", False), ("f64.sqrt (1 + u * u) / (2 - u)", True)]:
        with counting() as counts:
            compile_program(compile_text(text.replace("f64.sin u", element)), target=C, check=True)
        assert (counts["saved-folds"] > 0) == fires


@pytest.mark.slow
def test_extrema_that_are_compared_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CFLAGS", "-O3")  # vectors, whose sines are other ones
    rng = np.random.default_rng(7)
    c, duals = futad.compile(EXTREMA, backend="c"), Program(compile_text(EXTREMA), engine="dual")
    for n, k in [(0, 3), (1, 1), (4, 4), (6, 9), (2, 17)]:
        x, w, y, z = rng.normal(size=(n, k)), rng.normal(size=(k, k)), rng.normal(size=k), rng.normal(size=(n, k))
        for a, b in zip(c.gradient(x, w, y, z), duals.gradient(x, w, y, z), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_folds_made_in_the_scope_of_an_accumulator() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((4, 4)), rng.standard_normal(4)
    core = compile_text(TRAINED)
    for target in (C, MULTICORE):
        compiled = Interpreter(compile_program(core, target=target, check=True))
        found = compiled.run("gradient", [np.int64(4), a, np.int64(3), b])
        expected = futad.grad(futad.compile(TRAINED, backend="interp").trained, argnums=(0, 2), method="dual")(a, 3, b)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-13)


# A fold of values and their tangents is one statement; what a derivative inside folds is in the scope of accumulators.
PAIRS = """
def ends [n][k] (x: [n][k]f64) (w: [k][k]f64) =
  loop v = replicate k 1.1 for i < n do
    map2 (\\row e -> let z = 0.9 * f64.maximum (map2 (\\u a -> (u + f64.log (1 + a * a)) / (1 + u * u)) v row)
                   in f64.log (1.2 + z * z * f64.sin e)) w x[i]
entry second [n][k] (x: [n][k]f64) (w: [k][k]f64) (dx: [n][k]f64) (dw: [k][k]f64) (y: [k]f64) =
  jvp (\\(x, w) -> vjp (\\(x, w) -> ends x w) (x, w) y) (x, w) (dx, dw)
"""
INSIDE = """
def small (x: f64) = x / (1 + x * x)
def filtered [n] (x: [n]f64) (o: [3][3]f64) =
  loop (m, c) = (replicate 3 0.5, tabulate_2d 3 3 (\\i j -> if i == j then 1.3 else 0.1)) for i < n do
    let m = map (\\r -> small (f64.sum (map2 (*) r m))) o
    let p = map (\\r -> map (* x[i]) r) c
    let s = 1.1 + p[0, 0] * p[0, 0]
    let g = map (\\r -> r[0] / s) p
    in (m, map2 (\\r q -> map2 (\\u v -> small (u - q * v)) r p[0]) p g)
entry second [n] (x: [n]f64) (o: [3][3]f64) (dx: [n]f64) (d: [3][3]f64) (y: [3]f64) (z: [3][3]f64) =
  vjp (\\(x, o) -> vjp (\\(x, o) -> filtered x o) (x, o) (y, z)) (x, o) (dx, d)
"""


@pytest.mark.parametrize("text", [PAIRS, INSIDE])
def test_second_derivatives_compile(text: str) -> None:
    compile_program(compile_text(text), target=C, check=True)
