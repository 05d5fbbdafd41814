"""Five programs of the benchmarks as functions of Python; `programs/` has them as `.fut` files."""

from __future__ import annotations

import math

import futad
import futad.numpy as fnp
from futad.numpy import f32, f64, i64


def shifted(top, x):
    return top + fnp.log(fnp.sum(fnp.exp(x - top)))


@futad.function
def lse(x: f64["n"]) -> f64:
    """The logarithm of a sum of exponentials."""
    return shifted(fnp.max(x), x)


@futad.function
def lse_gradient(x: f64["n"]) -> f64["n"]:
    """Its gradient, to which the largest term contributes nothing."""
    top = fnp.max(x)
    return fnp.grad(lambda terms: shifted(top, terms))(x)


@futad.function
def kmeans(points: f64["n", "d"], centroids: f64["k", "d"]) -> f64:
    """The squared distances of points to the nearest centroid, added."""

    def sqdist(p, c):
        return fnp.sum((p - c) * (p - c))

    return fnp.sum(fnp.map(lambda p: fnp.min(fnp.map(lambda c: sqdist(p, c), centroids)), points))


def runge_kutta(f, y0, time, s):
    h = time / s

    def step(i, y):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return fnp.loop(s, step, y0)


@futad.function
def ode(x: f64["n"], s: i64) -> f64["n"]:
    """y_0' = x_0 and y_i' = x_i y_(i-1), from y(0) = 0 to time 2, in s steps of the classical Runge-Kutta method."""

    def slope(y):
        return x * fnp.concatenate([[1.0], y[:-1]])

    return runge_kutta(slope, fnp.zeros_like(x), 2, s)


@futad.function
def kmeans_gradient(points: f64["n", "d"], centroids: f64["k", "d"]) -> f64["k", "d"]:
    """The gradient by the centroids."""
    return fnp.grad(kmeans, 1)(points, centroids)


@futad.function
def ode_gradient(x: f64["n"], s: i64) -> f64["n"]:
    """The gradient of the last component."""
    return fnp.grad(lambda y: ode(y, s)[-1])(x)


def sigmoid(x):
    return 1 / (1 + fnp.exp(-x))


@futad.function
def lstm(
    wx: f32[4, "h", "d"], wh: f32[4, "h", "h"], bias: f32[4, "h"], wy: f32["o", "h"], by: f32["o"],
    hidden0: f32["b", "h"], state0: f32["b", "h"], inputs: f32["t", "b", "d"], targets: f32["t", "b", "o"],
) -> f32:  # fmt: skip
    """The mean squared error of a batched long short-term memory."""
    t, b, o = targets.shape
    zs = fnp.map(lambda step: fnp.map(lambda x: fnp.map(lambda w, c: c + w @ x, wx, bias), step), inputs)

    def cell(z, hidden, state):
        gates = fnp.map(lambda w, zs: zs + w @ hidden, wh, z)
        inlet, forget, new, outlet = gates
        state = sigmoid(forget) * state + sigmoid(inlet) * fnp.tanh(new)
        return sigmoid(outlet) * fnp.tanh(state), state

    def step(i, hidden, state, total):
        hidden, state = fnp.map(cell, zs[i], hidden, state)
        errors = fnp.map(lambda hs, ys: fnp.sum((by + wy @ hs - ys) ** 2), hidden, targets[i])
        return hidden, state, total + fnp.sum(errors)

    _, _, total = fnp.loop(t, step, (hidden0, state0, 0))
    return total / (t * b * o).astype(f32)


@futad.function
def lstm_gradient(
    wx: f32[4, "h", "d"], wh: f32[4, "h", "h"], bias: f32[4, "h"], wy: f32["o", "h"], by: f32["o"],
    hidden0: f32["b", "h"], state0: f32["b", "h"], inputs: f32["t", "b", "d"], targets: f32["t", "b", "o"],
):  # fmt: skip
    """The gradient by the weights."""
    return fnp.grad(lstm, (0, 1, 2, 3, 4))(wx, wh, bias, wy, by, hidden0, state0, inputs, targets)


def logsumexp(x):
    """Terms below e^-650 of the largest one count as nothing."""
    top = fnp.max(x)
    return top + fnp.log(fnp.sum(fnp.exp(fnp.where(x - top < -650, -fnp.inf, x - top))))


def unpack(d, icf):
    """The dense factor, of its parameters."""

    def entry(i, j):
        lower = lambda: icf[d + j * (2 * d - j - 1) // 2 + i - j - 1]  # noqa: E731
        return fnp.cond(i == j, lambda: fnp.exp(icf[i]), lambda: fnp.cond(i > j, lower, lambda: 0.0))

    return fnp.map(lambda i: fnp.map(lambda j: entry(i, j), fnp.arange(d)), fnp.arange(d))


def log_wishart_prior(factors, log_dets, gamma, m):
    k, d, _ = factors.shape
    dof = d + m + 1
    a = 0.5 * dof
    log_gamma = 0.25 * (d * (d - 1)) * math.log(math.pi) + fnp.sum(
        fnp.map(lambda j: fnp.gammaln(a - 0.5 * j), fnp.arange(d))
    )
    constant = dof * d * (fnp.log(gamma) - 0.5 * math.log(2)) - log_gamma
    return k * constant - 0.5 * gamma * gamma * fnp.sum(factors * factors) + m * fnp.sum(log_dets)


def whiten(factors, means, x):
    origin = fnp.mean(x, axis=0)
    xs = x - origin

    def cluster(q, mu):
        shift = q @ mu
        return fnp.map(lambda p: fnp.map(lambda row, s: row @ p - s, q, shift), xs)

    return fnp.map(cluster, factors, means - origin)


@futad.function
def gmm(
    alphas: f64["k"], means: f64["k", "d"], icf: f64["k", "l"], x: f64["n", "d"], gamma: f64, m: i64
) -> f64:  # fmt: skip
    """The log likelihood of ADBench's Gaussian mixture, with a Wishart prior."""
    n, d = x.shape
    factors = fnp.map(lambda params: unpack(d, params), icf)
    log_dets = fnp.map(lambda params: fnp.sum(params[:d]), icf)

    def cluster(alpha, log_det, ys):
        return fnp.map(lambda y: alpha + log_det - 0.5 * fnp.sum(y * y), ys)

    terms = fnp.map(cluster, alphas, log_dets, whiten(factors, means, x))
    likelihood = fnp.sum(fnp.map(logsumexp, terms.T)) - n * logsumexp(alphas) - 0.5 * (n * d) * math.log(2 * math.pi)
    return likelihood + log_wishart_prior(factors, log_dets, gamma, m)


@futad.function
def gmm_gradient(alphas: f64["k"], means: f64["k", "d"], icf: f64["k", "l"], x: f64["n", "d"], gamma: f64, m: i64):
    """The gradient by the parameters."""
    return fnp.grad(gmm, (0, 1, 2))(alphas, means, icf, x, gamma, m)


# Of each program the function, its gradient, and the entries of the `.fut` file that compute the same.
PROGRAMS = {
    "gmm": (gmm, gmm_gradient, "objective", "gradient"),
    "kmeans": (kmeans, kmeans_gradient, "objective", "gradient"),
    "lstm": (lstm, lstm_gradient, "objective", "gradient"),
    "ode": (ode, ode_gradient, "primal", "gradient"),
    "lse": (lse, lse_gradient, "primal", "gradient"),
}
