"""The hand-derived gradients that judge futad are judged themselves, by complex steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference import closed_forms as cf

Array = np.ndarray[Any, np.dtype[Any]]


def complex_step(f: Callable[..., Any], args: tuple[Any, ...], i: int) -> Array:
    """The derivative of the real function f by its argument i, exact to rounding (Squire and Trapp 1998)."""
    out = np.empty(args[i].shape)
    for at in np.ndindex(out.shape):
        moved = args[i].astype(complex)
        moved[at] += 1e-30j
        out[at] = np.imag(f(*args[:i], moved, *args[i + 1 :])) / 1e-30
    return out


def gmm_args(seed: int, n: int = 7, d: int = 4, k: int = 3) -> tuple[Any, ...]:
    r = np.random.default_rng(seed)
    sizes = [(k,), (k, d), (k, d + d * (d - 1) // 2), (n, d)]
    return (*[r.normal(size=s) for s in sizes], 0.7, 2)


def lstm_args(seed: int, t: int = 4, b: int = 3, d: int = 2, h: int = 5, o: int = 2) -> tuple[Any, ...]:
    r = np.random.default_rng(seed)
    sizes = [(4, h, d), (4, h, h), (4, h), (o, h), (o,), (b, h), (b, h), (t, b, d), (t, b, o)]
    return tuple(0.5 * r.normal(size=s) for s in sizes)


@pytest.mark.parametrize("shape", [(7, 4, 3), (5, 1, 2), (1, 3, 1)])
def test_gmm(shape: tuple[int, int, int]) -> None:
    args = gmm_args(1, *shape)
    for i, g in enumerate(cf.gmm_gradient(*args)):
        np.testing.assert_allclose(g, complex_step(cf.gmm_objective, args, i), rtol=1e-12, atol=1e-12)


def test_gmm_likelihood_is_that_of_the_density() -> None:
    """With m = -1, gamma tiny, the prior is a constant; the rest is the logarithm of the mixture's
    density."""
    from scipy.stats import multivariate_normal

    alphas, means, icf, x, _, _ = gmm_args(2)
    q = cf.unpack_icf(icf, 4)
    weights = np.exp(alphas) / np.exp(alphas).sum()
    density = sum(
        w * multivariate_normal(mu, np.linalg.inv(f.T @ f)).pdf(x)
        for w, mu, f in zip(weights, means, q, strict=True)
    )
    log_det = icf[:, :4].sum()
    gamma, m = 1e-8, 2
    prior = cf._wishart_constant(4, 3, gamma, m) + m * log_det
    assert cf.gmm_objective(alphas, means, icf, x, gamma, m) - prior == pytest.approx(
        np.log(density).sum(), rel=1e-11
    )


def test_unpack_icf_goes_column_by_column() -> None:
    q = cf.unpack_icf(np.array([[0.0, np.log(2), np.log(3), 10.0, 20.0, 30.0]]), 3)
    np.testing.assert_allclose(q, [[[1, 0, 0], [10, 2, 0], [20, 30, 3]]], rtol=1e-15)


@pytest.mark.slow
def test_lstm() -> None:
    args = lstm_args(3)
    for i, g in enumerate(cf.lstm_gradient(*args)):
        np.testing.assert_allclose(g, complex_step(cf.lstm_objective, args, i), rtol=1e-12, atol=1e-14)


def test_kmeans() -> None:
    r = np.random.default_rng(4)
    args = (r.normal(size=(20, 3)), r.normal(size=(4, 3)))
    gradient, diagonal = cf.kmeans_gradient(*args)
    np.testing.assert_allclose(gradient, complex_step(cf.kmeans_objective, args, 1), rtol=1e-12, atol=1e-14)
    # The gradient is piecewise linear: a difference that crosses no boundary is exact.
    h = 1e-6
    for at in np.ndindex(args[1].shape):
        moved = args[1].copy()
        moved[at] += h
        column = (cf.kmeans_gradient(args[0], moved)[0] - gradient) / h
        assert column[at] == pytest.approx(diagonal[at], rel=1e-7)
        column[at] = 0
        assert not column.any()


def test_kmeans_newton_step_is_the_mean() -> None:
    points = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 10.0]])
    step = cf.kmeans_newton_step(points, np.array([[0.5, 0.0], [9.0, 9.0], [100.0, 100.0]]))
    np.testing.assert_array_equal(step, [[1.0, 0.0], [10.0, 10.0], [100.0, 100.0]])


def test_dense_of_csr() -> None:
    dense = cf.dense_of_csr(np.array([1.0, 2.0, 3.0]), np.array([1, 0, 2]), np.array([0, 1, 1, 3]), 3)
    np.testing.assert_array_equal(dense, [[0, 1, 0], [0, 0, 0], [2, 0, 3]])
