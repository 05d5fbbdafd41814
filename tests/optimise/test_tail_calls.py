"""Functions that call themselves as their last step become loops: on all backends, and where they must not."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.callgraph import components, recursive
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from tests.support.needs import needs_cxx

PROGRAM = """
def gcd (a: i64) (b: i64): i64 = if b == 0 then a else gcd b (a % b)
def newton (x: f64) (a: f64) (k: i64): f64 =
  let y = 0.5 * (x + a / x)
  in if k == 0 then y else if f64.abs (y - x) < 1e-12 then y else newton y a (k - 1)
def dropped [n] (xs: [n]f64) (t: f64): []f64 =
  if n == 0 then xs else if xs[0] > t then xs else dropped (drop 1 xs) t
def fill [n] (xs: *[n]f64) (i: i64): *[n]f64 = if i >= n then xs else fill (xs with [i] = f64.i64 (i * i)) (i + 1)
def even (n: i64): bool = if n == 0 then true else odd (n - 1)
def odd (n: i64): bool = if n == 0 then false else even (n - 1)
entry divisor (a: i64) (b: i64) = gcd a b
entry root (a: f64) = newton a a 100
entry slope (a: f64) = (vjp (\\a -> newton a a 100) a 1, jvp (\\a -> newton a a 100) a 1)
entry after [n] (xs: [n]f64) (t: f64) = dropped xs t
entry squares (n: i64) = fill (replicate n 0) 0
entry parity (n: i64) = (even n, odd n)
entry divisors [n] (xs: [n]i64) (ys: [n]i64) = map2 gcd xs ys
"""


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("backend", ["interp", "c", "multicore", "emulated"])
def test_values(backend):
    p = futad.compile(PROGRAM, backend=backend)
    assert p.divisor(48, 18) == 6 and p.divisor(7, 0) == 7 and p.divisor(0, 0) == 0
    np.testing.assert_allclose(p.root(2.0), np.sqrt(2), rtol=1e-12)
    np.testing.assert_allclose(p.slope(2.0), [0.5 / np.sqrt(2)] * 2, rtol=1e-10)
    xs = np.array([1.0, 2, 3, 4, 1])
    np.testing.assert_array_equal(p.after(xs, 2.5), [3, 4, 1])
    np.testing.assert_array_equal(p.after(xs, 9.0), [])
    np.testing.assert_array_equal(p.squares(5), [0, 1, 4, 9, 16])
    assert [p.parity(n)[0] for n in range(5)] == [True, False, True, False, True]
    assert p.parity(2001 if backend == "interp" else 1000001)[0] is np.False_
    np.testing.assert_array_equal(p.divisors([12, 7, 0], [18, 14, 5]), [6, 7, 5])


CASES = {
    "a-tail-call": ("def f (n: i64) (x: f64): f64 = if n == 0 then x else f (n - 1) (x * 2)", True),
    "in-several-branches": (
        "def f (n: i64) (x: f64): f64 = if n == 0 then x else if x > 3 then f (n - 1) (x - 1) else f (n - 1) (x + 2)",
        True,
    ),
    "an-argument-that-stays": ("def f (n: i64) (x: f64): f64 = if f64.i64 n > x then x else f (n + 1) x", True),
    "something-after-it": ("def f (n: i64) (x: f64): f64 = if n == 0 then x else 1 + f (n - 1) x", False),
    "a-call-in-an-argument": ("def f (n: i64) (x: f64): f64 = if n <= 0 then x else f (n - 1) (f (n - 2) x)", False),
    "in-a-loop": ("def f (n: i64) (x: f64): f64 = if n == 0 then x else loop y = x for i < 2 do f (n - 1) y", False),
    "printed-before": (
        "def f (n: i64) (x: f64): f64 = let y = #[trace] (x + 1) in if n == 0 then y else f (n - 1) y", True,
    ),
    "printed-in-a-loop-before": (
        "def f (n: i64) (x: f64): f64 = let y = loop x for i < 2 do #[trace] (x + 1) "
        "in if n == 0 then y else f (n - 1) y",
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_where_it_fires(case, capfd):
    text, fires = CASES[case]
    text += "\nentry main (n: i64) (x: f64) = f n x"
    with counting() as counts:
        made = compile_program(compile_text(text), check=True)
    assert (counts["tail-calls"] > 0) is fires and bool(recursive(made)) is not fires
    p = futad.compile(text, backend="interp")
    assert p.main(0, 1.5) >= 1.5 and np.isfinite(p.main(4, 1.5))
    if case.startswith("printed"):
        times = 2 if "loop" in case else 1
        assert len(capfd.readouterr().err.splitlines()) == times * (1 + 5)  # once an activation


@pytest.mark.slow
def test_what_is_consumed_is_not_needed_again():
    """The array that is returned has been overwritten before: such a function stays as it is, and is right."""
    text = """
def f [n] (xs: *[n]f64) (i: i64): *[n]f64 =
  let xs = xs with [i] = f64.i64 i
  in if i + 1 >= n then xs else f xs (i + 1)
entry main (n: i64) = f (replicate n 5) 0
"""
    for backend in ("interp", "c"):
        np.testing.assert_array_equal(futad.compile(text, backend=backend).main(4), np.arange(4.0))


@pytest.mark.slow
def test_results_are_the_calls_own():
    text = """
def f (n: i64) (x: f64): (f64, f64) = if n == 0 then (x, 2 * x) else let (a, b) = f (n - 1) (x + 1) in (b, a)
entry main (n: i64) (x: f64) = f n x
"""
    for backend in ("interp", "c"):
        p = futad.compile(text, backend=backend)
        assert tuple(p.main(2, 1.0)) == (3, 6) and tuple(p.main(3, 1.0)) == (8, 4)


def test_components():
    program = compile_text("""
def leaf (n: i64): i64 = if n < 0 then n else 1 + leaf (n - 1)
def a (n: i64): i64 = if n == 0 then leaf n else 1 + b (n - 1)
def b (n: i64): i64 = 2 * a n
entry main (n: i64) = #[noinline] a n
""")
    groups = components(program)
    order = [name for group in groups for name in group]
    assert sorted(order) == sorted(program.funs) and order[-1] == "main"
    assert {n.rsplit("_", 1)[0] for n in recursive(program)} >= {"leaf", "a"} and "main" not in recursive(program)
    for k, group in enumerate(groups):
        called = {s.exp.name for n in group for s in ir.statements(program.funs[n].body.stms) if type(s.exp) is ir.Call}
        assert called <= {n for g in groups[: k + 1] for n in g}
