"""Comparisons at numbers of all kinds, and smooth functions where their arguments are equal."""

from __future__ import annotations

import numpy as np
import pytest

import futad
import futad.numpy as fnp
from futad.numpy import f64

SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 5e-324, 1e308, np.inf, -np.inf, np.nan]
COMPARED = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal", "nextafter"]


def test_comparisons_are_those_of_numpy():
    def compared(x: f64["n"], y: f64["n"]):
        return tuple([getattr(fnp, name)(x, y) for name in COMPARED])

    x, y = [np.array(v) for v in zip(*[(a, b) for a in SPECIAL for b in SPECIAL], strict=True)]
    for name, got in zip(COMPARED, futad.function(backend="interp")(compared)(x, y), strict=True):
        np.testing.assert_array_equal(got, getattr(np, name)(x, y), err_msg=name)


def test_logistic_regression_from_zero():
    """At w = 0 both arguments of each logaddexp are equal."""
    optimize = pytest.importorskip("scipy.optimize")

    @futad.function(backend="interp")
    def loss(w: f64["d"], x: f64["n", "d"], y: f64["n"]) -> f64:
        return fnp.sum(fnp.logaddexp(0.0, -y * (x @ w))) + fnp.sum(w * w) / 2

    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = np.sign(x @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=40))
    gradient = futad.grad(loss)
    for f in (gradient, futad.grad(loss, method="dual")):
        np.testing.assert_allclose(f(np.zeros(3), x, y), -(y @ x) / 2, rtol=1e-12)
    found = optimize.minimize(lambda w: loss(w, x, y), np.zeros(3), jac=lambda w: gradient(w, x, y), method="L-BFGS-B")
    p = 1 / (1 + np.exp(y * (x @ found.x)))
    assert found.success and found.nit > 2
    np.testing.assert_allclose(found.x, (y * p) @ x, atol=1e-4)  # where the gradient is 0
