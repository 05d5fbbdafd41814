"""Entries in SciPy: `futad.scipy`."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.api.program import Program
from futad.errors import AssertionFailed, DtypeError, ShapeError, UsageError
from tests.support.paths import ROOT

scipy = pytest.importorskip("scipy")
import futad.scipy  # noqa: E402

SOURCE = """
entry loss [n] (w: {a: [n]f64, b: f64, k: i64}) (x: [n]f64): f64 =
  f64.sum (map2 (\\a x -> (a * x - 1) ** 2 + (w.b - a) ** 2 * 0.1 + 0.1 * a ** 4) w.a x)
entry residuals [n] (w: {a: [n]f64, b: f64, k: i64}) (x: [n]f64): ([n]f64, {z: f64, c: i64}) =
  (map2 (\\a x -> a * x - 1 + 0.1 * a * a) w.a x, {z = w.b - f64.sum w.a, c = w.k})
entry narrow (xs: *[]f32) (s: f32): f32 = f32.sum (map (\\x -> (x - s) ** 2) xs)
entry bowl (x: [2]f64) (y: f64): f64 = assert (y < 5) ((x[0] - 1) ** 2 + (x[1] - y) ** 2 + (y - 3) ** 2)
entry counts (k: i64): f64 = f64.i64 k
entry column (xs: []f64): f64 = xs[1]
"""
X = np.array([1.0, 2.0, 3.0])
W = {"a": np.zeros(3), "b": 0.5, "k": 3}


@pytest.fixture(scope="module")
def prog() -> Program:
    return futad.compile(SOURCE, backend="c")


@pytest.fixture(scope="module")
def least(prog: Program) -> np.ndarray:
    return futad.scipy.minimize(prog.loss, (W, X), method="trust-exact").vector


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [None, "L-BFGS-B", "Newton-CG", "trust-krylov", "trust-ncg", "dogleg", "trust-exact", "trust-constr", "BFGS", "CG",
     "SLSQP", "TNC", "Nelder-Mead", "COBYQA"],
)  # fmt: skip
def test_minimisers_take_records(prog: Program, least: np.ndarray, method: str | None) -> None:
    r = futad.scipy.minimize(prog.loss, (W, X), method=method, tol=1e-9)
    assert r.x.k == 3 and r.x.a.shape == (3,)
    np.testing.assert_allclose(r.vector, least, atol=1e-4)
    np.testing.assert_array_equal(r.vector, [*r.x.a, r.x.b])
    if method in ("Newton-CG", "trust-krylov", "trust-exact"):
        assert np.abs(futad.grad(prog.loss)(r.x, X).a).max() < 1e-6
        assert r.nfev < 15  # with exact second derivatives


@pytest.mark.slow
def test_the_methods_with_products_make_no_hessian(prog: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise AssertionError("a Hessian was made")

    monkeypatch.setattr(futad.scipy.Objective, "hess", none)
    assert futad.scipy.minimize(prog.loss, (W, X), method="trust-krylov").success
    kmeans = futad.load(ROOT / "benchmarks" / "programs" / "kmeans.fut", backend="c")
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 2)) + rng.integers(0, 3, (60, 1)) * 8
    start = points[[0, 1, 2]] + 0.1
    bound = futad.bind(kmeans.objective, points)
    for method in ("Newton-CG", "trust-krylov"):
        r = futad.scipy.minimize(bound, (start,), method=method, tol=1e-8)
        assert np.abs(r.jac).max() < 1e-6 and r.fun < bound(start)


@pytest.mark.slow
def test_objective_as_a_function_of_a_vector(prog: Program) -> None:
    o = futad.scipy.objective(prog.loss, (W, X), argnums=(1, 0))
    assert o.x0.tolist() == [1, 2, 3, 0, 0, 0, 0.5]
    value, gradient = o.fun(o.x0)
    assert value == o.value(o.x0) == prog.loss(W, X)
    expected = futad.grad(prog.loss, (1, 0))(W, X)
    np.testing.assert_array_equal(gradient, [*expected[0], *expected[1].a, expected[1].b])
    x, w = o.unravel(np.arange(7.0))
    assert x.tolist() == [0, 1, 2] and w.a.tolist() == [3, 4, 5] and (w.b, w.k) == (6, 3)
    assert o.ravel((x, w)).tolist() == list(range(7))
    h = o.hess(o.x0 + 0.3)
    np.testing.assert_allclose(h, h.T, atol=1e-12)
    np.testing.assert_allclose(h @ gradient, o.hessp(o.x0 + 0.3, gradient), atol=1e-12)
    error = scipy.optimize.check_grad(o.value, lambda v: o.fun(v)[1], o.x0 + 0.3)
    assert error < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("jac", ["auto", "dense", "operator"])
def test_least_squares(prog: Program, jac: str) -> None:
    r = futad.scipy.least_squares(prog.residuals, (W, X), jac=jac, xtol=1e-12)
    assert r.cost < 1e-20 and r.x.k == 3
    y, z = prog.residuals(r.x, X)
    assert np.abs(y).max() < 1e-9 and abs(z.z) < 1e-9


@pytest.mark.slow
def test_jacobians_are_operators_and_matrices(prog: Program) -> None:
    w = {"a": X / 2, "b": 1.0, "k": 0}
    J = futad.scipy.linear_operator(prog.residuals, (w, X), argnums=(0, 1))
    made = futad.scipy.Residuals(prog.residuals, (w, X), argnums=(0, 1))
    dense = made.jac(made.x0)
    assert J.shape == dense.shape == (4, 7) and J.dtype == np.float64
    assert made.x0.tolist() == [*w["a"], 1, *X]
    rng = np.random.default_rng(3)
    v, u, vs, us = rng.normal(size=7), rng.normal(size=4), rng.normal(size=(7, 3)), rng.normal(size=(4, 2))
    np.testing.assert_allclose(J @ v, dense @ v)
    np.testing.assert_allclose(J.T @ u, dense.T @ u)
    np.testing.assert_allclose(J @ vs, dense @ vs)
    np.testing.assert_allclose(J.T @ us, dense.T @ us)
    np.testing.assert_allclose((J.T @ J) @ v, dense.T @ dense @ v)
    numeric = scipy.optimize.approx_fprime(made.x0, made.value)
    np.testing.assert_allclose(dense, numeric, atol=1e-6)
    solved = scipy.sparse.linalg.lsqr(J, J @ v, atol=1e-14, btol=1e-14)[0]
    np.testing.assert_allclose(J @ solved, J @ v, rtol=1e-8)


@pytest.mark.slow
def test_f32_and_consumed_arguments(prog: Program) -> None:
    start = np.zeros(3, np.float32)
    r = futad.scipy.minimize(prog.narrow, (start, 2.0), method="L-BFGS-B")
    assert r.x.dtype == np.float32 and r.vector.dtype == np.float64 and not start.any()
    np.testing.assert_allclose(r.x, 2, atol=1e-3)
    both = futad.scipy.minimize(prog.bowl, ([0.0, 0.0], 1.0), argnums=(0, 1), method="Newton-CG", tol=1e-12)
    np.testing.assert_allclose(both.vector, [1, 3, 3], atol=1e-6)
    assert isinstance(both.x, tuple) and both.x[0].shape == (2,)


@pytest.mark.slow
def test_bounds_and_callbacks(prog: Program) -> None:
    seen = []
    limits = ({"a": 0.5, "b": -1.0, "k": 0}, None)
    r = futad.scipy.minimize(prog.loss, (W, X), bounds=limits, callback=lambda w: seen.append(w.b))
    assert r.x.a.min() == 0.5 and len(seen) == r.nit
    same = futad.scipy.minimize(prog.loss, (W, X), bounds=scipy.optimize.Bounds([0.5] * 3 + [-1.0], np.inf))
    np.testing.assert_array_equal(r.vector, same.vector)
    start, low = {**W, "a": np.full(3, 0.6)}, {**W, "a": 0.5, "b": -9}
    q = futad.scipy.least_squares(prog.residuals, (start, X), bounds=(low, 9))
    assert q.x.a.min() >= 0.5
    with pytest.raises(ShapeError, match="bounds: a part of shape"):
        futad.scipy.minimize(prog.loss, (W, X), bounds=({**W, "a": [1.0, 2.0]}, None))
    with pytest.raises(UsageError, match="bounds are a pair"):
        futad.scipy.minimize(prog.loss, (W, X), bounds=3)


@pytest.mark.slow
def test_errors_come_through(prog: Program) -> None:
    with pytest.raises(AssertionFailed, match=r"main:\d+:\d+: Error: "):
        futad.scipy.minimize(prog.bowl, ([0.0, 0.0], 7.0))
    with pytest.raises(futad.BoundsError, match=r"Index \[1\] out of bounds"):
        futad.scipy.minimize(prog.column, ([1.0],))
    with pytest.raises(UsageError, match="no floating-point numbers are in 'k' of counts"):
        futad.scipy.objective(prog.counts, (3,))
    with pytest.raises(UsageError, match="grad needs an entry with one floating-point number as result"):
        futad.scipy.objective(prog.residuals, (W, X))
    with pytest.raises(DtypeError, match="argument 'x'"):
        futad.scipy.minimize(prog.loss, (W, X.astype(int)))
    with pytest.raises(UsageError, match="takes an entry of a program, not function"):
        futad.scipy.minimize(lambda x: x, (1.0,))
    with pytest.raises(UsageError, match="args must be a tuple"):
        futad.scipy.minimize(prog.column, X)
    with pytest.raises(UsageError, match="jac is 'auto', 'dense', 'operator', not 'lsmr'"):
        futad.scipy.least_squares(prog.residuals, (W, X), jac="lsmr")
    with pytest.raises(ShapeError, match="the unknowns of loss are 4 numbers, not 3"):
        futad.scipy.objective(prog.loss, (W, X)).fun(np.ones(3))
