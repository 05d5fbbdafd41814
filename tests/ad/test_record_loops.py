"""Calls in loops, and in functions of numbers: a gradient makes each once, whatever is around it."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.interp import Interpreter
from futad.errors import AssertionFailed
from futad.pipeline import compile_program
from futad.source import compile_text
from tests.ad.test_records import BACKENDS, left
from tests.ad.test_recursion import differences
from tests.support.compiled import library_of
from tests.support.needs import needs_cc

pytestmark = needs_cc

LOOPS = {
    "while": """
def g [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sin xs[0]
  else let (s, _) = loop (s, c) = (1f64, 0i64) while c < n do
                      let y = g (d - 1) (rotate c xs)
                      in (s * 0.7 + f64.sin (y * s), c + 1)
       in s * xs[0]
def f [n] (xs: [n]f64): f64 = g 2 xs
""",
    "stack": """
def g [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sin xs[0]
  else let stack = replicate 100 0f64 with [0] = xs[0]
       let (_, stack, s) = loop (sp, stack, s) = (1i64, stack, 0.5f64) while sp > 0 do
           let x = stack[sp - 1]
           in if x < 1 && sp < 20 then
               let stack = stack with [sp - 1] = x * 1.3 + 0.1
               let stack = stack with [sp] = x * 1.5 + g (d - 1) (map (* x) xs) * 0.1 + 0.2
               in (sp + 1, stack, s + 0.1 * x)
              else (sp - 1, stack, s * 0.9 + x * x)
       in s + f64.sum stack[0:10]
def f [n] (xs: [n]f64): f64 = g 2 xs
""",
    "grow": """
def g [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sum (map f64.sin xs)
  else let ys = loop ys = [1f64] while length ys < 5 do
                 let m = length ys
                 let y = g (d - 1) (map (* ys[0]) xs)
                 in (map (* y) ys) ++ [y, f64.sin y + f64.i64 m]
       in f64.sum ys / 5 + xs[0]
def f [n] (xs: [n]f64): f64 = g 2 xs
""",
    "inner loops": """
def g [n] (d: i64) (xs: [n]f64) (big: [90]f64): f64 =
  if d == 0 then f64.sin xs[0] + big[3]
  else let big = copy big
       let (big, t) = loop (big: *[90]f64, t) = (big, 1.0) for c < 4 do
           let big = loop big for j < 3 do big with [(c * j) % 7] = (big[j] * f64.sin t + 0.1)
           let y = f64.tanh (g (d - 1) xs (copy big))
           let (big, _) = loop (big, k) = (big, c) while k > 0 do
                            (big with [k * 2] = f64.cos (big[k] * y), k - 1)
           let big = if y > 0.3 then big with [1:4] = map (* y) big[1:4] else big
           let big = if t > 0.5 then big with [c:c + c] = (map (* y) big[2:c + 2] :> [c + c - c]f64) else big
           let big = scatter big (map (\\i -> i * 3 + c) (iota 5)) (map (\\x -> x * y + t) big[:5])
           in (big, t * 0.8 + y * 0.1)
       in f64.sum big * t * 0.1
def f [n] (xs: [n]f64): f64 = g 2 xs (replicate 90 0.3 with [5] = xs[n - 1])
""",
    "nests": """
def g [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sin xs[0]
  else let (s, zs, _) = loop (s, zs, c) = (1f64, copy xs, 0i64) while c < 3 do
                      let (s, zs) = loop (s, zs) for i < c do
                         let y = g (d - 1) (rotate i zs)
                         let (y, _) = loop (y, k) = (y, 0) while k < i do (y * 0.9 + g (d - 1) (map (* y) xs), k + 1)
                         in (s * 0.7 + f64.sin (y * s), map (\\z -> f64.sin (z * s)) zs)
                      in (s, zs, c + 1)
       in s * xs[0] + f64.sum zs
def f [n] (xs: [n]f64): f64 = g 2 xs
""",
    "branches and maps": """
def g (d: i64) (x: f64) (ws: [3]f64): f64 =
  if d == 0 then f64.sin (x * ws[0])
  else let (_, s) = loop (c, s) = (d, x) while c > 0 do
            let ys = map (\\w -> if w > 0.5 then g (d - 1) (w * s) ws else w) ws
            let s' = if c % 2 == 0 then g (c - 1) (f64.sum ys) ws else
                     let (a, b) = par (\\w -> g (d - 1) w ws) (\\w -> g (c - 1) w ws) (ys[0], ys[1]) in a + 2 * b
            in (c - 1, s' * 0.9 + 0.1)
       in s + x
def f [n] (xs: [n]f64): f64 = f64.sum (map (\\i -> g (i % 3) xs[i] [xs[0], 0.6, xs[n - 1]]) (iota n))
""",
    "unchanged": """
def g [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sin xs[0]
  else let (ys, s, zs) = loop (ys, s, zs) = (map (* 2) xs, 1f64, copy xs) for i < 3 do
                      let y = g (d - 1) ys
                      in (ys, s * y + ys[i % n], map (\\z -> z * y) ys)
       in s * xs[0] + f64.sum zs + ys[n - 1]
def f [n] (xs: [n]f64): f64 = g 2 xs
""",
    "shrink": """
def g [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 || n == 0 then 0.3
  else let (ys, s) = loop (ys, s) = (map f64.sin xs, 1f64) while length ys > 1 do
                      let y = g (d - 1) ys
                      in (map2 (\\a b -> a * y + b) (init ys) (tail ys), s * ys[0] + y)
       in s * xs[0] + f64.sum ys
def f [n] (xs: [n]f64): f64 = g 2 xs
""",
    "bounded": """
def g [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sin xs[0]
  else let (s, _) = #[bound(10)] loop (s, c) = (1f64, 0i64) while c < n do
                      let y = g (d - 1) (rotate c xs)
                      in (s * 0.7 + f64.sin (y * s), c + 1)
       in s * xs[0]
def f [n] (xs: [n]f64): f64 = g 2 xs
""",
}
ENTRIES = """
entry value [n] (xs: [n]f64): f64 = f xs
entry gradient [n] (xs: [n]f64): [n]f64 = vjp f xs 1
entry product [n] (xs: [n]f64) (vs: [n]f64): [n]f64 = jvp (\\xs -> vjp f xs 1) xs vs
"""


def arguments():
    rng = np.random.default_rng(3)
    return rng.uniform(0.6, 0.95, 4), rng.uniform(-1, 1, 4)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOOPS)
def test_calls_in_loops(case, backend):
    """First and second derivatives against dual numbers and differences; no record is left of either."""
    xs, vs = arguments()
    oracle = futad.compile(LOOPS[case] + ENTRIES, backend="interp", method="dual")
    p = futad.compile(LOOPS[case] + ENTRIES, backend=backend)
    gradient = p.gradient(xs)
    np.testing.assert_allclose(gradient, oracle.gradient(xs), rtol=1e-10)
    if backend != "interp":
        assert left(p)[0] > 3 and left(p)[1] == 0
    np.testing.assert_allclose(gradient, differences(p.value, xs), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(p.product(xs, vs), oracle.product(xs, vs), rtol=1e-9)
    if backend != "interp":
        assert left(p)[0] > 3 and left(p)[1] == 0


def test_a_bound_that_a_loop_with_calls_does_not_keep():
    p = futad.compile(LOOPS["bounded"].replace("bound(10)", "bound(3)") + ENTRIES, backend="interp")
    xs = arguments()[0]
    assert p.gradient(xs[:3]).shape == (3,)
    with pytest.raises(AssertionFailed, match="bound of 3"):
        p.gradient(xs)


#: Chains of calls, d deep: what a gradient runs again of each call takes it d times as long.
CHAINS = {
    "while": """
def f [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sin xs[0]
  else let (s, _) = loop (s, c) = (1, 0i64) while c < 1 do (s * 0.7 + f64.sin (f (d - 1) xs * s), c + 1)
       in s * xs[d % n]
""",
    "large variables": """
def f [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sin xs[0]
  else let ys = loop ys = map (* 0.9) xs for c < d % 2 + 1 do
                  let y = if c == 0 then f (d - 1) xs else 0.5 in map (\\y' -> y' * 0.9 + f64.sin y) ys
       in f64.sum ys / f64.i64 n
""",
    "updates": """
def f [n] (d: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sin xs[0]
  else let (ys, _) = loop (ys, c) = (copy xs, d) while c > d - 2 do
                       let y = if c == d then f (d - 1) xs else 0.5
                       in (ys with [c % n] = f64.sin (ys[0] * y), c - 1)
       in ys[d % n] * ys[0] + ys[n - 1]
""",
    "arrays and numbers": """
def s (d: i64) (x: f64): f64 = if d == 0 then f64.sin x else let ys = a (d - 1) [x, x * 0.9] in ys[0] * ys[1]
def a [n] (d: i64) (xs: [n]f64): [n]f64 =
  if d == 0 then xs else let y = s (d - 1) (xs[0] + xs[1]) in map (\\x -> f64.sin (x * y)) xs
def f [n] (d: i64) (xs: [n]f64): f64 = f64.sum (a d xs)
""",
    "numbers in a while loop": """
def s (d: i64) (x: f64): f64 =
  if d == 0 then f64.sin x else (loop (y, c) = (x, 0i64) while c < 1 do (y * s (d - 1) (y * 0.9), c + 1)).0
def f [n] (d: i64) (xs: [n]f64): f64 = s d xs[0] + xs[n - 1]
""",
    "numbers in a map": """
def s (d: i64) (x: f64): f64 =
  if d == 0 then f64.sin x else f64.product (map (\\x -> x * s (d - 1) (x * 0.9)) [x])
def f [n] (d: i64) (xs: [n]f64): f64 = s d xs[0] + xs[n - 1]
""",
    "two numbers of a branch": """
def s (d: i64) (x: f64): f64 =
  if d == 0 then f64.sin x
  else let (a, b) = if d % 2 == 0 then (s (d - 1) x, x) else (x, s (d - 1) (x * x)) in a * b * b
def f [n] (d: i64) (xs: [n]f64): f64 = s d xs[0] + xs[n - 1]
""",
}
DEEP_ENTRIES = """
entry value [n] (d: i64) (xs: [n]f64): f64 = f d xs
entry gradient [n] (d: i64) (xs: [n]f64): [n]f64 = vjp (f d) xs 1
entry product [n] (d: i64) (xs: [n]f64): [n]f64 = jvp (\\xs -> vjp (f d) xs 1) xs xs
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", CHAINS)
def test_the_factor_does_not_grow_with_the_depth(case):
    """Of a gradient, and of its derivative in a direction: what the interpreter counts, over what it does for f."""
    m = Interpreter(compile_program(compile_text(CHAINS[case] + DEEP_ENTRIES), check=True), count=True)
    factors = []
    for depth in (8, 32):
        xs = np.random.default_rng(0).uniform(0.5, 1.0, 3)
        work = []
        for name in ("value", "gradient", "product"):
            m.counts.clear()
            m.run(name, [np.int64(3), np.int64(depth), xs])
            assert m.records.left == 0
            work.append(sum(w.ops + w.read + w.written for w in m.counts.values()))
        factors.append((work[1] / work[0], work[2] / work[0]))
    assert factors[1][0] < min(1.15 * factors[0][0], 5) and factors[1][1] < min(1.15 * factors[0][1], 12)


@pytest.mark.slow
def test_an_update_costs_what_it_overwrites():
    """A large array that a loop with calls updates is not copied for each iteration's record."""
    text = """
def g (d: i64) (x: f64): (f64, i64) = if d == 0 then (f64.sin x, 0) else let (a, b) = g (d - 1) x in (a * x, b + 1)
entry gradient [n] (xs: [n]f64) (m: i64): [n]f64 =
  vjp (\\xs -> let (ys, _) = loop (ys, c) = (map f64.sin xs, 0) while c < m do
                               let (y, k) = g 2 ys[c % n] in (ys with [(c * 7 + k) % n] = y * ys[c * 3 % n], c + 1)
               in f64.sum ys) xs 1
"""
    m = Interpreter(compile_program(compile_text(text), check=True))
    made = []
    for n in (100, 10000):
        m.run("gradient", [np.int64(n), np.linspace(0.1, 1, n), np.int64(20)])
        made.append(m.records.made)
    p = futad.compile(text, backend="c")
    p.gradient(np.linspace(0.1, 1, 100000), 20)
    assert made == [40, 40] and library_of(p).records() == (40, 0, 1 << 16)
