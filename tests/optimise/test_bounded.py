"""`#[bound(d)]`: recursion on a stack of d frames, on all backends, with derivatives; against the same program without
the attribute, whose recursion compiled code has a stack of its own for, and against central differences."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.callgraph import recursive
from futad.errors import Error, UnsupportedError
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import TARGETS
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

BACKENDS = ["interp", "c", "multicore", "emulated"]
pytestmark = needs_cxx

CASES = {
    "tree": """
#[bound(8)]
def sum (xs: []f64) (a: i64) (b: i64): f64 =
  if a == b then 0 else if b - a == 1 then xs[a] * xs[a]
  else let m = (a + b) / 2 let l = sum xs a m let r = sum xs m b in f64.sin l + l * r
def f [n] (xs: [n]f64): f64 = sum xs 0 n
""",
    "depths": """
#[bound(12)]
def sum (xs: []f64) (a: i64) (b: i64): f64 =
  if b <= a then 1 else let y = sum xs a (b - 1) in xs[b - 1] * y + f64.cos y
def f [n] (xs: [n]f64): f64 = f64.sum (map2 (\\i x -> x * sum xs 0 i) (iota n) xs)
""",
    "quadrature": """
#[bound(11)]
def simpson (c: f64) (a: f64) (b: f64) (ga: f64) (gm: f64) (gb: f64) (whole: f64) (d: i64): f64 =
  let g (x: f64) = f64.exp (c * x) / (0.1 + x * x)
  let m = (a + b) / 2
  let (gl, gr) = (g ((a + m) / 2), g ((m + b) / 2))
  let left = (m - a) / 6 * (ga + 4 * gl + gm)
  let right = (b - m) / 6 * (gm + 4 * gr + gb)
  in if d == 0 || f64.abs (left + right - whole) < 1e-4 then left + right + (left + right - whole) / 15
     else let (x, y) = par (\\(l: f64) -> simpson c a m ga gl gm l (d - 1)) (\\r -> simpson c m b gm gr gb r (d - 1))
                           (left, right)
          in x + y
def f [n] (xs: [n]f64): f64 = f64.sum (map (\\c -> simpson c 0 2 1 2 3 0 10) xs)
""",
    "fibonacci": """
#[bound(7)]
def fib (n: i64) (x: f64): f64 = if n <= 1 then x * x else fib (n - 1) (x + 0.1) + f64.sin (fib (n - 2) (x * 0.7))
def f [n] (xs: [n]f64): f64 = f64.sum (map2 fib (map (% 8) (iota n)) xs)
""",
    "ackermann": """
#[bound(20)]
def ack (m: i64) (n: i64) (x: f64): (i64, f64) =
  if m == 0 then (n + 1, x * 1.01) else if n == 0 then ack (m - 1) 1 (f64.sin x)
  else let (k, y) = ack m (n - 1) x in ack (m - 1) k (f64.sin (y + x))
def f [n] (xs: [n]f64): f64 = f64.sum (map2 (\\x i -> (ack 2 (i % 3) x).1) xs (iota n))
""",
    "branches that meet": """
#[bound(9)]
def go (n: i64) (x: f64) (y: f64): (f64, f64) =
  if n <= 0 then (x, y)
  else let (a, b) = if n % 3 == 0 then (x * y, y) else if n % 3 == 1 then go (n - 1) (x + y) (f64.sin y)
                    else let (c, d) = go (n - 2) y x in (c * 0.5, d + x)
       let e = if a > 1 then (go (n - 4) a b).0 else a + y
       in (e * y + b, a - x)
def f [n] (xs: [n]f64): f64 = f64.sum (map2 (\\x i -> let (a, b) = go (i + 3) x 0.7 in a + a * b) xs (iota n))
""",
    "arrays": """
#[bound(6)]
def node (w: [4]f64) (xs: []f64) (a: i64) (b: i64): [2]f64 =
  if b - a <= 1 then (if a == b then [0.5, 0.1] else [xs[a], f64.sin xs[a]] with [1] = xs[a] * w[3])
  else let m = (a + b) / 2
       let l = node w xs a m
       let r = node (map (* 0.9) w) xs m b
       let out = copy l with [0] = l[1] * r[0] + w[0]
       in map2 (\\x y -> f64.tanh (w[1] * x + w[2] * y)) out r
def f [n] (xs: [n]f64): f64 = let y = node [0.3, -0.2, 0.5, 0.1] xs 0 n in y[0] + y[0] * y[1]
""",
    "arrays of one size": """
#[bound(5)]
def mix [n] (xs: [n]f64) (k: i64): [n]f64 =
  if k == 0 then xs
  else let a = mix (map (* 0.8) xs) (k - 1)
       let b = mix (reverse a) (k - 2 |> i64.max 0) in map2 (\\x y -> x * y + x) a b
def f [n] (xs: [n]f64): f64 = f64.sum (map f64.sin (mix xs 4))
""",
    "each other": """
#[bound(7)]
def even [n] (xs: [n]f64) (i: i64): f64 = if i >= n then 1 else xs[i] * odd xs (i + 1)
def odd [n] (xs: [n]f64) (i: i64): f64 = if i >= n then 2 else f64.sin xs[i] + even xs (i + 1)
def f [n] (xs: [n]f64): f64 = even xs 0 + odd xs 0
""",
    "last step": """
#[bound(10)]
def go (n: i64) (x: f64): f64 = if n == 0 then x else go (n - 1) (f64.sin x + x)
def f [n] (xs: [n]f64): f64 = f64.sum (map2 go (iota n) xs)
""",
}  # fmt: skip
ENTRIES = """
entry value [n] (xs: [n]f64) = f xs
entry gradient [n] (xs: [n]f64) = vjp f xs 1
entry tangent [n] (xs: [n]f64) (vs: [n]f64) = jvp f xs vs
entry second [n] (xs: [n]f64) (vs: [n]f64) = jvp (\\xs -> vjp f xs 1) xs vs
entry mapped [n][m] (xss: [m][n]f64) = unzip (map (\\xs -> (f xs, vjp f xs 1)) xss)
"""


def without(text):
    return re.sub(r"#\[bound.*\n", "", text)


FAST = [("ackermann", "interp"), ("each other", "interp")]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "backend"), slow_but(FAST, product(CASES, BACKENDS)))
def test_values_and_derivatives(case, backend):
    text = CASES[case] + ENTRIES
    p = futad.compile(text, backend=backend)
    oracle = futad.compile(without(text), backend="interp" if backend == "interp" else "c")
    rng = np.random.default_rng(3)
    for n in (5, 0, 1) if backend == "interp" else (9, 5, 2, 1, 0):
        xs, vs = rng.uniform(0.3, 1.2, n), rng.normal(size=n)
        np.testing.assert_allclose(p.value(xs), oracle.value(xs), rtol=1e-13)
        gradient = p.gradient(xs)
        np.testing.assert_allclose(gradient, oracle.gradient(xs), rtol=1e-11, atol=1e-12)
        central = [(oracle.value(xs + 1e-6 * e) - oracle.value(xs - 1e-6 * e)) / 2e-6 for e in np.eye(n)]
        np.testing.assert_allclose(gradient, np.array(central).reshape(n), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(p.tangent(xs, vs), gradient @ vs, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(p.second(xs, vs), oracle.second(xs, vs), rtol=1e-9, atol=1e-10)
    xss = rng.uniform(0.3, 1.2, (3, 4))
    values, gradients = p.mapped(xss)
    np.testing.assert_allclose(values, [oracle.value(xs) for xs in xss], rtol=1e-13)
    np.testing.assert_allclose(gradients, [oracle.gradient(xs) for xs in xss], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_it_is_a_loop(case):
    program = compile_text(CASES[case] + ENTRIES)
    with counting() as counts:
        made = compile_program(program, target=TARGETS["cuda"], stop_after="inline", check=True)
    assert counts["bounded-recursion"] >= 1 and not recursive(made)
    assert any(isinstance(s.exp, ir.While) for f in made.funs.values() for s in ir.statements(f.body.stms))


COUNT = """
#[bound({})]
def f (n: i64): i64 = if n <= 0 then 0 else 1 + f (n - 1)
#[bound({})]
def g (n: i64) (x: f64): f64 = if n <= 0 then x else g (n - 1) x * g (n - 2) x
entry one (n: i64) = f n
entry many [n] (ks: [n]i64) = map f ks
entry gradient (n: i64) = vjp (g n) 1.5 1
"""


@pytest.mark.slow
@pytest.mark.parametrize(("d", "backend"), slow_but([(3, "interp"), (1, "emulated")], product([1, 2, 3], BACKENDS)))
def test_the_bound(d, backend):
    """d activations are there at once, and not one more."""
    p = futad.compile(COUNT.format(d, d), backend=backend)
    assert [p.one(n) for n in range(-1, d)] == [max(n, 0) for n in range(-1, d)]
    np.testing.assert_array_equal(p.many(np.arange(d)), np.arange(d))
    assert p.many(np.zeros(0, np.int64)).shape == (0,)
    assert np.isfinite(p.gradient(d - 1))
    message = re.escape(f"recursion of 'f' is deeper than its bound of {d}")
    for call in (lambda: p.one(d), lambda: p.one(1 << 40), lambda: p.many(np.array([0, d, 0]))):
        with pytest.raises(Error, match=message) as caught:
            call()
        assert caught.value.span is not None and caught.value.span.line == 3
    with pytest.raises(Error, match="recursion of 'g' is deeper"):
        p.gradient(d)


REFUSED = {
    "a map": ("f64.sum (map (\\i -> f xs (a + i)) (iota 2))", "calls itself in a map"),
    "a loop": ("(loop y = 0 for i < 2 do y + f xs (a + i))", "calls itself in a loop"),
    "a derivative": ("vjp (\\x -> x * f xs (a + 1)) 1 1", "calls itself in a derivative"),
    "a size": ("let ys = map (+ 1) (iota a) in f xs (a + 1) + f64.i64 (i64.sum ys)", "has a size that is not the same"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    body, message = REFUSED[case]
    text = f"#[bound(5)]\ndef f (xs: []f64) (a: i64): f64 =\n  if a > 3 then xs[0] else {body}\n"
    text += "entry main (xs: []f64) = f xs 0"
    with pytest.raises(UnsupportedError, match=message) as caught:
        futad.compile(text, backend="interp").main(np.ones(2))
    assert caught.value.span is not None and "without '#[bound]' the backends" in (caught.value.hint or "")


def test_other_cycles_than_those_of_the_bounded_function():
    text = """
#[bound(5)]
def a (n: i64): i64 = if n <= 0 then 0 else 1 + b (n - 1)
def b (n: i64): i64 = if n <= 0 then 0 else if n % 2 == 0 then 2 + b (n - 1) else 3 + a (n - 1)
entry main (n: i64) = a n
"""
    with pytest.raises(UnsupportedError, match="'b' calls itself other than by way of 'a'"):
        futad.compile(text, backend="interp").main(3)
