"""Recursive programs by the engine: against closed forms, differences, and the transformation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.dual.engine import DualInterpreter
from futad.source import compile_text

SOURCE = """
def tree [n] (lo: i64) (hi: i64) (xs: [n]f64): f64 =
  if hi - lo == 1 then f64.sin xs[lo] else
  let mid = (lo + hi) / 2
  in tree lo mid xs * 0.5 + tree mid hi xs * f64.cos xs[lo]
entry of_tree [n] (xs: [n]f64): f64 = tree 0 n xs
entry curvature [n] (xs: [n]f64) (d: [n]f64): [n]f64 = jvp (\\xs -> vjp (tree 0 n) xs 1) xs d
entry curvature2 [n] (xs: [n]f64) (d: [n]f64): [n]f64 = vjp (\\xs -> vjp (tree 0 n) xs 1) xs d

def simpson (a: f64) (b: f64) (p: f64): f64 =
  (b - a) / 6 * (f64.exp (p * a) + 4 * f64.exp (p * (a + b) / 2) + f64.exp (p * b))
def integral (a: f64) (b: f64) (p: f64) (eps: f64) (depth: i64): f64 =
  let m = (a + b) / 2
  let (w, l, r) = (simpson a b p, simpson a m p, simpson m b p)
  in if depth == 0 || f64.abs (l + r - w) < 15 * eps then l + r + (l + r - w) / 15
     else integral a m p (eps / 2) (depth - 1) + integral m b p (eps / 2) (depth - 1)
entry quadrature (a: f64) (b: f64) (p: f64): f64 = integral a b p 1e-10 30
entry quadratures [n] (ps: [n]f64): [n]f64 = map (\\p -> integral 0 p p 1e-9 30) ps

def power (n: i64) (x: f64): f64 = if n == 0 then 1 else x * power (n - 1) x
entry pow (n: i64) (x: f64): f64 = power n x

def ping (n: i64) (x: f64): f64 = if n == 0 then x else f64.sin (pong (n - 1) x)
def pong (n: i64) (x: f64): f64 = if n == 0 then x * x else 2 * ping (n - 1) x
entry rally (n: i64) (x: f64): f64 = ping n x

def last [n] (xs: [n]f64): f64 = if n == 1 then xs[0] * xs[0] else xs[0] * last (drop 1 xs)
entry shrinking [n] (xs: [n]f64): f64 = last xs
entry mixed [n] (ns: [n]i64) (xs: [n]f64): f64 = f64.sum (map2 power ns xs)
"""
XS = np.linspace(0.1, 2.0, 16)


@pytest.fixture(scope="module")
def program() -> futad.Program:
    return futad.compile(SOURCE, method="dual")


def differences(f: Any, x: Any, h: float = 1e-6) -> Any:
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


@pytest.mark.slow
def test_the_transformation_gives_the_same(program: futad.Program) -> None:
    plain = futad.compile(SOURCE, backend="interp", method="transform")
    xs, ns = np.array([0.3, 1.2, 0.8, -0.5, 2.0]), np.array([3, 0, 1, 7, 2])
    for entry, args, argnums in [
        ("of_tree", (xs,), 0), ("quadrature", (0.25, 1.0, 1.5), (0, 1, 2)), ("pow", (9, 1.1), 1),
        ("rally", (4, 0.7), 1), ("shrinking", (xs,), 0), ("mixed", (ns, xs), 1),
    ]:  # fmt: skip
        for taken in (futad.grad, futad.hessian):
            got, want = (taken(p[entry], argnums=argnums)(*args) for p in (program, plain))
            for g, w in zip(np.atleast_1d(got).ravel(), np.atleast_1d(want).ravel(), strict=True):
                np.testing.assert_allclose(np.asarray(g, float), np.asarray(w, float), rtol=1e-9, atol=1e-12)
    for entry in ("curvature", "curvature2"):
        np.testing.assert_allclose(program[entry](xs, xs), plain[entry](xs, xs), rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_a_tree(program: futad.Program) -> None:
    gradient = futad.grad(program.of_tree)
    np.testing.assert_allclose(gradient(XS), differences(program.of_tree, XS), rtol=1e-7, atol=1e-9)
    d = np.cos(XS)
    along = (gradient(XS + 1e-6 * d) - gradient(XS - 1e-6 * d)) / 2e-6
    for second in (program.curvature(XS, d), program.curvature2(XS, d)):
        np.testing.assert_allclose(second, along, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_quadrature(program: futad.Program) -> None:
    """The integral of exp(p x) from a to b: its derivatives are those of the formula."""
    a, b, p = 0.25, 2.0, 1.5
    got = futad.grad(program.quadrature, argnums=(0, 1, 2))(a, b, p)
    ea, eb = np.exp(p * a), np.exp(p * b)
    want = (-ea, eb, (b * eb - a * ea) / p - (eb - ea) / p**2)
    np.testing.assert_allclose(got, want, rtol=1e-8)


@pytest.mark.slow
def test_different_depths_in_a_map(program: futad.Program) -> None:
    ps = np.array([0.1, 1.5, 1.0, 0.75])
    (got,) = futad.vjp(program.quadratures, ps)[1](np.ones(4))
    np.testing.assert_allclose(got, 2 * np.exp(ps**2) - (np.exp(ps**2) - 1) / ps**2, rtol=1e-6)
    ns = np.array([3, 0, 1, 40])
    np.testing.assert_allclose(futad.grad(program.mixed, argnums=1)(ns, ps), ns * ps ** (ns - 1.0), rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 7, 900])
def test_depth(program: futad.Program, n: int) -> None:
    assert futad.grad(program.pow, argnums=1)(n, 1.001) == pytest.approx(n * 1.001 ** (n - 1), rel=1e-11)


def test_functions_that_call_each_other(program: futad.Program) -> None:
    for n in range(5):
        x, h = 0.7, 1e-6
        want = (program.rally(n, x + h) - program.rally(n, x - h)) / (2 * h)
        assert futad.grad(program.rally, argnums=1)(n, x) == pytest.approx(want, rel=1e-8)


def test_arrays_that_shrink(program: futad.Program) -> None:
    xs = np.array([0.5, 2.0, 3.0])
    np.testing.assert_allclose(futad.grad(program.shrinking)(xs), [18.0, 4.5, 2 * 0.5 * 2 * 3])


@pytest.mark.parametrize("leaves", [1, 2, 64])
def test_each_backpropagator_is_called_once(leaves: int) -> None:
    e = DualInterpreter(compile_text(SOURCE))
    e.gradient("of_tree", [leaves, np.linspace(0, 1, leaves)])
    c = e.counts_of_run
    assert c.calls == c.made and c.most == 1
    assert c.made <= 8 * leaves
