"""Objectives and hand-derived gradients of `benchmarks/programs/` in NumPy, independent of futad.

Objectives also take complex arguments (analytic in everything but the choice of a maximum or minimum, which
looks at the real part), so that `test_closed_forms` can check each gradient by complex steps.  The Gaussian
mixture is written for speed as well: all its work is in matrix products, one cluster at a time, which makes
it the reference of `benchmarks/gmm_floor.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


# --- Gaussian mixture (ADBench's objective) --------------------------------------------------------


def unpack_icf(icf: Array, d: int) -> Array:
    """The lower triangular factors [k][d][d] of [k][d + d(d-1)/2]: logarithms of the diagonal, then the
    strictly lower triangle column by column."""
    q = np.zeros((icf.shape[0], d, d), icf.dtype)
    column, row = np.triu_indices(d, 1)  # pairs column < row, ordered by column
    q[:, row, column] = icf[:, d:]
    q[:, np.arange(d), np.arange(d)] = np.exp(icf[:, :d])
    return q


def log_sum_exp(x: Array) -> Array:
    """log of the sum of exp along the last axis."""
    top = x.real.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0]


def _wishart_constant(d: int, k: int, gamma: float, m: int) -> float:
    """The part of the log of the Wishart prior that depends on no parameter (the multivariate gamma function
    is Anderson, An Introduction to Multivariate Statistical Analysis, section 7.2)."""
    dof = d + m + 1
    log_gamma_d = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (dof - j)) for j in range(d))
    return k * (dof * d * (math.log(gamma) - 0.5 * math.log(2)) - log_gamma_d)


def gmm_objective(alphas: Array, means: Array, icf: Array, x: Array, gamma: float, m: int) -> Any:
    """The log likelihood of the points x [n][d] under the mixture, with the prior on icf [k][d +
    d(d-1)/2]."""
    (n, d), k = x.shape, len(alphas)
    q = unpack_icf(icf, d)
    log_det = icf[:, :d].sum(axis=1)
    main = np.empty((n, k), np.result_type(alphas, means, icf))
    for c in range(k):
        y = (x - means[c]) @ q[c].T
        main[:, c] = alphas[c] + log_det[c] - 0.5 * np.einsum("ij,ij->i", y, y)
    squares = np.exp(2 * icf[:, :d]).sum() + (icf[:, d:] ** 2).sum()
    prior = _wishart_constant(d, k, gamma, m) - 0.5 * gamma**2 * squares + m * log_det.sum()
    return -0.5 * n * d * math.log(2 * math.pi) + log_sum_exp(main).sum() - n * log_sum_exp(alphas) + prior


def gmm_gradient(alphas: Array, means: Array, icf: Array, x: Array, gamma: float, m: int) -> tuple[Array, Array, Array]:
    """The derivatives of `gmm_objective` by alphas, means and icf.

    With responsibilities w and y = Q (x - mu): the derivative by mu is Q' (sum w y), by Q the lower triangle
    of -(w y)' (x - mu): two matrix products of n by d by d a cluster.
    """
    (n, d), k = x.shape, len(alphas)
    q = unpack_icf(icf, d)
    log_det = icf[:, :d].sum(axis=1)
    main = np.empty((k, n))
    ys = np.empty((k, n, d))
    centred = np.empty_like(x)
    for c in range(k):
        np.subtract(x, means[c], out=centred)
        np.matmul(centred, q[c].T, out=ys[c])
        main[c] = alphas[c] + log_det[c] - 0.5 * np.einsum("ij,ij->i", ys[c], ys[c])
    main -= main.max(axis=0)
    # Weights below e^-650 change nothing, but would fill the products with denormal numbers, which are slow.
    main[main < -650] = -np.inf
    w = np.exp(main, out=main)
    w /= w.sum(axis=0)
    total = w.sum(axis=1)
    softmax = np.exp(alphas - alphas.max())
    d_alphas = total - n * softmax / softmax.sum()
    d_means = np.empty_like(means)
    d_q = np.empty_like(q)
    for c in range(k):
        d_means[c] = (w[c] @ ys[c]) @ q[c]
        np.subtract(x, means[c], out=centred)
        centred *= w[c][:, None]
        np.matmul(ys[c].T, centred, out=d_q[c])
    column, row = np.triu_indices(d, 1)
    diagonal = np.exp(icf[:, :d])
    d_icf = np.empty_like(icf)
    d_icf[:, :d] = total[:, None] - np.diagonal(d_q, axis1=1, axis2=2) * diagonal - gamma**2 * diagonal**2 + m
    d_icf[:, d:] = -d_q[:, row, column] - gamma**2 * icf[:, d:]
    return d_alphas, d_means, d_icf


# --- LSTM ------------------------------------------------------------------------------------------


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _einsum(*operands: Any) -> Array:
    """By matrix products."""
    return np.einsum(*operands, optimize=True)


def lstm_objective(
    wx: Array, wh: Array, bias: Array, wy: Array, by: Array, h0: Array, c0: Array, xs: Array, ys: Array
) -> Any:
    """The mean squared error of the predictions wy h_t + by against ys [t][b][o], over inputs xs [t][b][d].

    Gates in the order input, forget, cell, output: wx [4][h][d], wh [4][h][h], bias [4][h].
    """
    h, c, loss = h0, c0, 0.0
    for x, y in zip(xs, ys, strict=True):
        z = _einsum("ghd,bd->gbh", wx, x) + _einsum("ghe,be->gbh", wh, h) + bias[:, None, :]
        i, f, g, o = _sigmoid(z[0]), _sigmoid(z[1]), np.tanh(z[2]), _sigmoid(z[3])
        c = f * c + i * g
        h = o * np.tanh(c)
        loss = loss + ((h @ wy.T + by - y) ** 2).sum()
    return loss / ys.size


def lstm_gradient(
    wx: Array, wh: Array, bias: Array, wy: Array, by: Array, h0: Array, c0: Array, xs: Array, ys: Array
) -> tuple[Array, ...]:
    """The derivatives of `lstm_objective` by wx, wh, bias, wy, by: back-propagation through time."""
    h, c = h0, c0
    steps = []
    for x, y in zip(xs, ys, strict=True):
        z = _einsum("ghd,bd->gbh", wx, x) + _einsum("ghe,be->gbh", wh, h) + bias[:, None, :]
        i, f, g, o = _sigmoid(z[0]), _sigmoid(z[1]), np.tanh(z[2]), _sigmoid(z[3])
        c_next = f * c + i * g
        t = np.tanh(c_next)
        h_next = o * t
        error = h_next @ wy.T + by - y
        steps.append((x, h, c, i, f, g, o, t, h_next, error))
        h, c = h_next, c_next
    d_wx, d_wh, d_bias, d_wy, d_by = (np.zeros_like(a) for a in (wx, wh, bias, wy, by))
    d_h, d_c = np.zeros_like(h0), np.zeros_like(c0)
    for x, h, c, i, f, g, o, t, h_next, error in reversed(steps):
        d_y = 2 * error / ys.size
        d_wy += d_y.T @ h_next
        d_by += d_y.sum(axis=0)
        d_h = d_h + d_y @ wy
        d_c = d_c + d_h * o * (1 - t**2)
        d_z = np.stack([
            d_c * g * i * (1 - i),
            d_c * c * f * (1 - f),
            d_c * i * (1 - g**2),
            d_h * t * o * (1 - o),
        ])  # fmt: skip
        d_wx += _einsum("gbh,bd->ghd", d_z, x)
        d_wh += _einsum("gbh,be->ghe", d_z, h)
        d_bias += d_z.sum(axis=1)
        d_h = _einsum("gbh,ghe->be", d_z, wh)
        d_c = d_c * f
    return d_wx, d_wh, d_bias, d_wy, d_by


# --- k-means ---------------------------------------------------------------------------------------


def kmeans_objective(points: Array, centroids: Array) -> Any:
    """The sum over points [n][d] of the squared distance to the nearest of the centroids [k][d]."""
    distance = ((points[:, None, :] - centroids[None, :, :]) ** 2).sum(axis=2)
    nearest = distance.real.argmin(axis=1)
    return distance[np.arange(len(points)), nearest].sum()


def kmeans_gradient(points: Array, centroids: Array) -> tuple[Array, Array]:
    """The derivative by the centroids, and the diagonal of the second derivative (which has nothing else)."""
    distance = ((points[:, None, :] - centroids[None, :, :]) ** 2).sum(axis=2)
    nearest = distance.argmin(axis=1)
    one_hot = np.eye(len(centroids))[nearest]
    count = one_hot.sum(axis=0)[:, None]
    gradient = 2 * (count * centroids - one_hot.T @ points)
    return gradient, np.broadcast_to(2 * count, centroids.shape)


def kmeans_newton_step(points: Array, centroids: Array) -> Array:
    """The centroids moved to the mean of the points nearest to each; one with no points stays."""
    gradient, diagonal = kmeans_gradient(points, centroids)
    return centroids - np.divide(gradient, diagonal, out=np.zeros_like(centroids), where=diagonal != 0)


def dense_of_csr(values: Array, columns: Array, starts: Array, d: int) -> Array:
    """The matrix [n][d] of a compressed sparse row matrix (starts has n + 1 entries)."""
    dense = np.zeros((len(starts) - 1, d), values.dtype)
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    np.add.at(dense, (row, columns), values)
    return dense
