"""futad/optim beside SciPy: the same minima and solutions, and derivatives of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from tests.support.needs import needs_cc

optimize = pytest.importorskip("scipy.optimize")

PROGRAM = """
module optim = import "futad/optim"

def rosenbrock [n] (x: [n]f64): f64 =
  f64.sum (tabulate (n - 1) (\\i -> 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2))
-- Logistic regression with a penalty.
def logistic [m] [n] (rows: [m][n]f64) (signs: [m]f64) (penalty: f64) (w: [n]f64): f64 =
  f64.sum (map2 (\\row s -> f64.log1p (f64.exp (-s * f64.sum (map2 (*) row w)))) rows signs)
  + penalty / 2 * f64.sum (map (** 2) w)
def times [n] (a: [n][n]f64) (x: [n]f64): [n]f64 = map (\\row -> f64.sum (map2 (*) row x)) a

entry rosenbrock_value (x: []f64) = rosenbrock x
entry logistic_value (rows: [][]f64) (signs: []f64) (penalty: f64) (w: []f64) = logistic rows signs penalty w

entry by_lbfgs (memory: i64) (x: []f64) =
  let r = optim.lbfgs rosenbrock (optim.lbfgs_options with memory = memory) x
  in (r.x, r.value, r.gradient, r.iterations, r.converged)
entry by_newton (x: []f64) =
  let r = optim.newton_cg rosenbrock optim.newton_options x in (r.x, r.value, r.iterations, r.converged)
entry logistic_lbfgs (rows: [][]f64) (signs: []f64) (penalty: f64) (w: []f64) =
  (optim.lbfgs (logistic rows signs penalty) (optim.lbfgs_options with tolerance = 1e-10) w).x
entry logistic_newton (rows: [][]f64) (signs: []f64) (penalty: f64) (w: []f64) =
  (optim.newton_cg (logistic rows signs penalty) optim.newton_options w).x
entry flat (x: []f64) =
  let r = optim.lbfgs (\\x -> 0 * f64.sum x) optim.lbfgs_options x in (r.x, r.iterations, r.converged)
entry endless (x: []f64) =
  let r = optim.lbfgs (\\x -> -f64.sum x) (optim.lbfgs_options with iterations = 3) x in (r.iterations, r.converged)
entry corner (x: []f64) = (optim.lbfgs (\\x -> f64.sum (map f64.abs x)) optim.lbfgs_options x).value

entry descent (a: [][]f64) (rate: f64) (steps: i64) (x: []f64) =
  optim.gradient_descent (\\x -> 0.5 * f64.sum (map2 (*) x (times a x))) rate steps x
entry adam (rate: f64) (steps: i64) (x: []f64) = optim.adam rosenbrock (optim.adam_options rate) steps x
entry adam_slope (rate: f64) (steps: i64) (x: []f64) =
  vjp (\\rate -> rosenbrock (optim.adam rosenbrock (optim.adam_options rate) steps x)) rate 1
entry adam_value (rate: f64) (steps: i64) (x: []f64) =
  rosenbrock (optim.adam rosenbrock (optim.adam_options rate) steps x)

entry cg (a: [][]f64) (b: []f64) = optim.cg (times a) 1e-13 1000 b
entry cg_slopes [n] (a: [n][n]f64) (b: [n]f64) (w: [n]f64) =
  vjp (\\(a, b) -> f64.sum (map2 (*) w (optim.cg_with times 1e-13 1000 a b))) (a, b) 1
entry hessian_times (x: []f64) (d: []f64) = optim.hessian_times rosenbrock x d

def fitted [m] [n] (rows: [m][n]f64) (signs: [m]f64) (penalty: f64): [n]f64 =
  optim.minimum_with (logistic rows signs)
    (\\p w -> (optim.lbfgs (logistic rows signs p) (optim.lbfgs_options with tolerance = 1e-11) w).x)
    penalty (replicate n 0)
entry fitted_sum (rows: [][]f64) (signs: []f64) (penalty: f64) = f64.sum (fitted rows signs penalty)
entry fitted_slopes (rows: [][]f64) (signs: []f64) (penalty: f64) =
  let total p = f64.sum (fitted rows signs p) in (vjp total penalty 1, jvp total penalty 1)
"""
pytestmark = pytest.mark.slow  # all read one program, which takes seconds to compile


@cache
def program(backend: str = "c") -> Any:
    return futad.compile(PROGRAM, "optim", backend=backend)


def data(m: int = 60, n: int = 5) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(m, n))
    return rows, np.sign(rows @ rng.normal(size=n) + rng.normal(size=m))


def definite(n: int) -> Any:
    a = np.random.default_rng(6).normal(size=(n, n))
    return a @ a.T + np.eye(n)


@needs_cc
@pytest.mark.parametrize("n", [2, 5, 20])
def test_rosenbrock(n):
    start = np.where(np.arange(n) % 2, 1.0, -1.2)
    p = program()
    for memory in (10, 3):
        x, value, gradient, iterations, converged = p.by_lbfgs(memory, start)
        assert converged and np.abs(gradient).max() <= 1e-8 and value < 1e-15
        np.testing.assert_allclose(x, 1, atol=1e-8)
    reference = optimize.minimize(p.rosenbrock_value, start, jac=futad.grad(p.rosenbrock_value), method="L-BFGS-B",
                                  options={"maxcor": 10, "gtol": 1e-8, "ftol": 1e-16})  # fmt: skip
    assert p.by_lbfgs(10, start)[3] < 1.5 * reference.nit + 10
    x, value, iterations, converged = p.by_newton(start)
    assert converged and iterations < 200
    np.testing.assert_allclose(x, 1, atol=1e-8)


@needs_cc
def test_logistic_regression_as_scipy():
    p, (rows, signs) = program(), data()

    def value(w):
        return p.logistic_value(rows, signs, 0.3, w)

    slope = futad.grad(p.logistic_value, argnums=3)
    reference = optimize.minimize(value, np.zeros(5), jac=lambda w: slope(rows, signs, 0.3, w), method="BFGS",
                                  options={"gtol": 1e-11}).x  # fmt: skip
    for start in (np.zeros(5), np.full(5, 30.0)):
        np.testing.assert_allclose(p.logistic_lbfgs(rows, signs, 0.3, start), reference, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(p.logistic_newton(rows, signs, 0.3, start), reference, rtol=1e-8, atol=1e-8)


@needs_cc
def test_ends():
    p = program()
    x, iterations, converged = p.flat(np.array([3.0, 4.0]))
    assert x.tolist() == [3, 4] and iterations == 0 and converged
    assert not p.endless(np.array([3.0]))[1]  # without a minimum
    assert 0 <= p.corner(np.array([3.0, -4.0])) < 1e-6
    assert p.flat(np.array([]))[1] == 0 and p.cg(np.zeros((0, 0)), np.array([])).shape == (0,)
    x, value, _, iterations, converged = p.by_lbfgs(10, np.ones(4))
    assert iterations == 0 and converged and value == 0
    assert not p.by_lbfgs(10, np.array([np.nan, 1.0]))[4]
    assert p.by_lbfgs(0, np.array([-1.2, 1.0]))[1] < 24.2  # without memory it is gradient descent


@needs_cc
def test_descent_and_adam():
    p, a = program(), definite(4)
    x = np.arange(1.0, 5)
    step = np.eye(4) - 0.01 * a
    np.testing.assert_allclose(p.descent(a, 0.01, 7, x), np.linalg.matrix_power(step, 7) @ x, rtol=1e-12)
    start = np.array([-1.2, 1.0])
    np.testing.assert_allclose(p.adam(0.02, 20000, start), 1, atol=1e-4)
    gradient = futad.grad(p.rosenbrock_value)
    w, m, v = start, np.zeros(2), np.zeros(2)
    for t in range(1, 51):
        g = gradient(w)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.05 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(p.adam(0.05, 50, start), w, rtol=1e-10)
    h = 1e-6
    wanted = (p.adam_value(0.05 + h, 30, start) - p.adam_value(0.05 - h, 30, start)) / (2 * h)
    np.testing.assert_allclose(p.adam_slope(0.05, 30, start), wanted, rtol=1e-6)
    assert p.adam(0.05, 5, np.ones(3)).tolist() == [1, 1, 1] and p.adam_slope(0.05, 5, np.ones(3)) == 0


@needs_cc
def test_linear_systems():
    p, a, rng = program(), definite(12), np.random.default_rng(7)
    b, w = rng.normal(size=12), rng.normal(size=12)
    x = np.linalg.solve(a, b)
    np.testing.assert_allclose(p.cg(a, b), x, rtol=1e-9, atol=1e-10)
    by_a, by_b = p.cg_slopes(a, b, w)
    y = np.linalg.solve(a, w)
    np.testing.assert_allclose(by_b, y, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(by_a, -np.outer(y, x), rtol=1e-8, atol=1e-9)
    assert p.cg(a, np.zeros(12)).tolist() == [0] * 12
    at = rng.normal(size=5)
    np.testing.assert_allclose(p.hessian_times(at, w[:5]), optimize.rosen_hess_prod(at, w[:5]), rtol=1e-11)


@needs_cc
def test_the_derivative_of_a_minimum():
    p, (rows, signs) = program(), data()
    reverse, forward = p.fitted_slopes(rows, signs, 0.3)
    h = 1e-4
    at = [p.fitted_sum(rows, signs, 0.3 + k * h) for k in (-2, -1, 1, 2)]
    wanted = (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * h)
    np.testing.assert_allclose(reverse, wanted, rtol=1e-7)
    np.testing.assert_allclose(forward, wanted, rtol=1e-5)  # through the iterations


@needs_cc
@pytest.mark.parametrize("backend", ["interp", "multicore", "emulated"])
def test_on_all_backends(backend):
    p, a, (rows, signs) = program(backend), definite(4), data()
    np.testing.assert_allclose(p.by_lbfgs(10, np.array([-1.2, 1.0]))[0], 1, atol=1e-8)
    np.testing.assert_allclose(p.logistic_newton(rows, signs, 0.3, np.zeros(5)),
                               program().logistic_newton(rows, signs, 0.3, np.zeros(5)), rtol=1e-8)  # fmt: skip
    np.testing.assert_allclose(p.cg(a, np.ones(4)), np.linalg.solve(a, np.ones(4)), rtol=1e-9)
    np.testing.assert_allclose(p.adam(0.05, 20, np.array([-1.2, 1.0])), program().adam(0.05, 20, np.array([-1.2, 1.0])))
