"""The functions of futad/special and futad/stats of numbers, each with its oracle."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp

from tests.support.oracle import Case, Expected, Point
from tests.support.oracle_numpy import INF, TIE, ZERO, _logaddexp, no, of, two

LN2 = math.log(2)
HALF = mp.mpf(1) / 2


def softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def ncdf(z: Any) -> Any:
    return mp.erfc(-z / mp.sqrt(2)) / 2


def quantile(p: Any) -> Any:
    """By Newton's method on the smaller tail."""
    if p > HALF:
        return -quantile(1 - p)
    z = (
        -mp.sqrt(2) * mp.mpf(mp.erfinv(1 - 2 * p))
        if p > 1e-15
        else -mp.sqrt(-2 * mp.log(p) - mp.log(-4 * mp.pi * mp.log(p)))
    )
    for _ in range(60):
        move = (mp.log(ncdf(z)) - mp.log(p)) * ncdf(z) / mp.npdf(z)
        z -= move
        if abs(move) < abs(z) * mp.mpf(10) ** (5 - mp.mp.dps) or not move:
            break
    return z


def lg(x: Any) -> Any:
    return mp.loggamma(x)


def xlogy(a: Any, x: Any) -> Any:
    return a * mp.log(x) if a else mp.mpf(0)


def _hlp() -> Any:
    return mp.log(2 * mp.pi) / 2


def student(nu: Any, m: Any, b: Any, x: Any) -> Any:
    z, h = (x - m) / b, nu / 2
    return lg(h + HALF) - lg(h) - mp.log(nu * mp.pi) / 2 - mp.log(b) - (h + HALF) * mp.log1p(z * z / nu)


def lbeta(a: Any, b: Any) -> Any:
    return lg(a) + lg(b) - lg(a + b)


S = "stats_@."
Z = [-300.0, -37.5, -20.0, -9.0, -3.0, -1e-9, 0.0, 1e-9, 0.5, 5.0, 5.1, 9.0, 40.0]
ONE: dict[str, tuple[str, Any, list[Point], dict[Point, Expected]]] = {
    "stats.softplus": (
        S + "softplus",
        softplus,
        of([*Z, -0.0, 1e300, -1e300]),
        {(INF,): no(INF, 1, 0), (-INF,): no(0, 0, 0)},
    ),
    "stats.sigmoid": (
        S + "sigmoid",
        sigmoid,
        of([*Z, -0.0, 700.0, -700.0]),
        {(INF,): no(1, 0, 0), (-INF,): no(0, 0, 0)},
    ),
    "stats.log_sigmoid": (
        S + "log_sigmoid",
        lambda x: -softplus(-x),
        of([*Z, -0.0, 1e300, -1e300]),
        {(INF,): no(0, 0, 0), (-INF,): no(-INF, 1, 0)},
    ),
    "stats.normal_cdf": (S + "normal_cdf 0 1", ncdf, of([*Z, -0.0]), {(INF,): no(1, 0), (-INF,): no(0, 0)}),
    "stats.normal_logcdf": (
        S + "normal_logcdf 0 1",
        lambda z: mp.log(ncdf(z)) if z < 5 else mp.log1p(-ncdf(-z)),
        of([*Z, -19.9, -20.1, -1e5]),
        {(INF,): no(0, 0), (-INF,): no(-INF, INF, -1)},
    ),
    "special.normal_quantile": (
        "special_@.normal_quantile",
        quantile,
        of([1e-100, 1e-9, 0.01, 0.07499, 0.075, 0.3, 0.5, 0.925, 0.93, 1 - 1e-7]),
        {(0.0,): no(-INF, INF, -INF), (1.0,): no(INF, INF, INF)},
    ),
    "special.digamma": (
        "special.digamma",
        lambda x: mp.psi(0, x),
        of([-3.5, -0.7, 1e-9, 0.3, 1.0, 2.5, 20.0, 1e9]),
        {},
    ),
    "special.bessel_i0e": (
        "special.bessel_i0e",
        lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
        of([-30.0, -25.0, -3.0, 1e-9, 0.5, 5.0, 24.9, 25.1, 300.0, 1e6]),
        {(0.0,): no(1, 0, None), (INF,): no(0, 0, 0)},
    ),
    "special.bessel_i1e": (
        "special.bessel_i1e",
        lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
        of([-30.0, -25.0, -3.0, 1e-9, 0.5, 5.0, 24.9, 25.1, 300.0, 1e6]),
        {(0.0,): no(0, 0.5, None), (INF,): no(0, 0, 0)},
    ),
}
P2: list[Point] = [(0.5, 2.0), (3.0, 1.5), (0.5, 0.25), (2.5, 8.0)]
MORE: dict[str, tuple[str, Any, list[Point], dict[Point, Expected]]] = {
    "stats.logaddexp": (
        S + "logaddexp",
        lambda x, y: mp.log(mp.exp(x) + mp.exp(y)) if max(abs(x), abs(y)) < 50 else _logaddexp(x, y),
        [(0.5, 2.0), (0.3, 0.3), (-2.0, -2.0), (0.0, 0.0), (-0.0, 0.0), (700.0, 690.0), (-800.0, -799.0), (1e9, -1e9)],
        {
            (1000.0, 1000.0): two(1000 + LN2, [0.5, 0.5], TIE),
            (-1e300, -1e300): two(-1e300, [0.5, 0.5], TIE),
            (INF, 1.0): two(INF, [1, 0], ZERO),
            (1.0, INF): two(INF, [0, 1], ZERO),
            (-INF, 1.0): two(1, [0, 1], ZERO),
            (1.0, -INF): two(1, [1, 0], ZERO),
            (INF, -INF): two(INF, [1, 0], ZERO),
        },
    ),
    "stats.normal_logpdf": (
        S + "normal_logpdf",
        lambda m, s, x: -(((x - m) / s) ** 2) / 2 - mp.log(s) - _hlp(),
        [(0.3, 1.7, 2.0), (0.3, 1.7, 0.3), (0.0, 1e-5, 1.0), (0.0, 1.0, 1e5), (2.0, 0.5, -40.0)],
        {},
    ),
    "stats.normal_cdf 3": (
        S + "normal_cdf",
        lambda m, s, x: ncdf((x - m) / s),
        [(0.3, 1.7, 2.0), (0.3, 1.7, 0.3), (2.0, 0.5, -4.0), (2.0, 0.5, 7.0)],
        {},
    ),
    "stats.normal_logcdf 3": (
        S + "normal_logcdf",
        lambda m, s, x: mp.log(ncdf((x - m) / s)),
        [(0.3, 1.7, 2.0), (0.3, 1.7, 0.3), (2.0, 0.5, -4.0), (2.0, 0.5, -40.0), (2.0, 0.5, 5.0)],
        {},
    ),
    "stats.normal_quantile": (
        S + "normal_quantile",
        lambda m, s, p: m + s * quantile(p),
        [(0.3, 1.7, 0.2), (0.3, 1.7, 0.5), (2.0, 0.5, 1e-9)],
        {},
    ),
    "stats.lognormal_logpdf": (
        S + "lognormal_logpdf",
        lambda m, s, x: -(((mp.log(x) - m) / s) ** 2) / 2 - mp.log(s) - _hlp() - mp.log(x),
        [(0.3, 1.7, 2.0), (0.3, 1.7, 1e-5), (2.0, 0.5, 40.0)],
        {(0.0, 1.0, -1.0): (-INF, [0, 0, 0], None), (0.0, 1.0, 0.0): (-INF, [None, None, None], None)},
    ),
    "stats.laplace_logpdf": (
        S + "laplace_logpdf",
        lambda m, b, x: -abs(x - m) / b - mp.log(2 * b),
        [(0.3, 1.7, 2.0), (0.3, 1.7, -1e-5), (2.0, 0.5, 40.0)],
        {},
    ),
    "stats.logistic_logpdf": (
        S + "logistic_logpdf",
        lambda m, b, x: -(x - m) / b - 2 * softplus(-(x - m) / b) - mp.log(b),
        [(0.3, 1.7, 2.0), (0.3, 1.7, 0.3), (0.0, 1.0, -700.0), (0.0, 1.0, 700.0), (2.0, 0.5, 40.0)],
        {},
    ),
    "stats.cauchy_logpdf": (
        S + "cauchy_logpdf",
        lambda m, b, x: -mp.log1p(((x - m) / b) ** 2) - mp.log(mp.pi * b),
        [(0.3, 1.7, 2.0), (0.3, 1.7, 0.3), (0.0, 1.0, -700.0), (0.0, 1.0, 1e9), (0.0, 1.0, 1e30), (0.0, 1.0, 1e200)],
        {},
    ),
    "stats.student_t_logpdf": (
        S + "student_t_logpdf",
        student,
        [
            (2.5, 0.3, 1.7, 2.0),
            (2.5, 0.3, 1.7, 0.3),
            (1.0, 0.0, 1.0, 1e9),
            (300.0, 0.0, 1.0, 2.0),
            (1e6, 0.0, 1.0, 2.0),
            (3.0, 0.0, 1.0, 1e30),
            (3.0, 0.0, 1.0, 1e200),
        ],
        {},
    ),
    "stats.uniform_logpdf": (
        S + "uniform_logpdf",
        lambda a, b, x: -mp.log(b - a),
        [(-1.0, 3.5, 0.0), (0.0, 1e-5, 5e-6)],
        {(0.0, 2.0, -1.0): (-INF, [0, 0, 0], None), (0.0, 2.0, 2.0): (-LN2, [0.5, -0.5, 0], None)},
    ),
    "stats.exponential_logpdf": (
        S + "exponential_logpdf",
        lambda r, x: mp.log(r) - r * x,
        [*P2, (2.5, 300.0)],
        {(2.0, -1.0): (-INF, [0, 0], ZERO), (2.0, 0.0): (LN2, [0.5, -2], None)},
    ),
    "stats.exponential_cdf": (
        S + "exponential_cdf",
        lambda r, x: -mp.expm1(-r * x),
        [*P2, (2.5, 30.0), (2.0, 1e-9)],
        {(2.0, -1.0): (0, [0, 0], ZERO), (2.0, INF): (1, [None, None], None)},
    ),
    "stats.gamma_logpdf": (
        S + "gamma_logpdf",
        lambda a, b, x: a * mp.log(b) - lg(a) + (a - 1) * mp.log(x) - b * x,
        [(2.5, 0.7, 1.0), (2.5, 0.7, 1e-5), (0.3, 2.0, 30.0), (1.0, 2.0, 0.5), (1e6, 1.0, 1e6)],
        {(1.0, 2.0, 0.0): (LN2, [None, 0.5, -2], None), (2.0, 2.0, -1.0): (-INF, [0, 0, 0], None)},
    ),
    "stats.gamma_cdf": (
        S + "gamma_cdf",
        lambda a, b, x: mp.gammainc(a, 0, b * x, regularized=True),
        [(2.5, 0.7, 1.0), (2.5, 0.7, 1e-3), (0.3, 2.0, 3.0), (1.0, 2.0, 0.5), (40.0, 1.0, 42.0)],
        {},
    ),
    "stats.inverse_gamma_logpdf": (
        S + "inverse_gamma_logpdf",
        lambda a, b, x: a * mp.log(b) - lg(a) - (a + 1) * mp.log(x) - b / x,
        [(2.5, 0.7, 1.0), (2.5, 0.7, 1e-2), (0.3, 2.0, 30.0)],
        {(2.0, 2.0, -1.0): (-INF, [0, 0, 0], None)},
    ),
    "stats.beta_logpdf": (
        S + "beta_logpdf",
        lambda a, b, x: (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - lbeta(a, b),
        [(2.5, 0.7, 0.3), (2.5, 0.7, 1e-5), (0.3, 2.0, 0.9), (1.0, 1.0, 0.5), (2.0, 3.0, 1 - 1e-7), (1e5, 2e5, 0.3)],
        {(1.0, 1.0, 0.0): (0, [None, None, None], None), (2.0, 2.0, -0.1): (-INF, [0, 0, 0], None)},
    ),
    "special.gamma_p": (
        "special.gamma_p",
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        [(2.5, 1.0), (2.5, 3.4), (2.5, 3.6), (0.3, 1e-5), (1.0, 2.0), (40.0, 42.0), (150.0, 140.0), (1e4, 9.9e3)],
        {(2.0, 0.0): (0, [0, 0], None), (2.0, INF): (1, [0, 0], None)},
    ),
    "special.gamma_q": (
        "special.gamma_q",
        lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True),
        [(2.5, 1.0), (2.5, 3.4), (2.5, 3.6), (0.3, 1e-5), (1.0, 2.0), (40.0, 42.0), (150.0, 160.0), (1.0, 600.0)],
        {(2.0, 0.0): (1, [0, 0], None), (2.0, INF): (0, [0, 0], None)},
    ),
    "special.beta_inc": (
        "special.beta_inc",
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        [(0.5, 2.0, 0.3), (30.0, 20.0, 0.6), (2.0, 3.0, 0.99), (1.0, 1.0, 0.5), (2.5, 0.5, 1e-9)],
        {(2.0, 3.0, 0.0): (0, [0, 0, 0], None), (2.0, 3.0, 1.0): (1, [0, 0, 0], None)},
    ),
    "special.gamma_log_slope": (
        "special.gamma_log_slope",
        lambda a, y: (
            -mp.diff(lambda b: mp.gammainc(b, 0, mp.exp(y), regularized=True), a) / mp.exp(a * y - mp.exp(y) - lg(a))
        ),
        [(2.5, 0.5), (2.5, 2.0), (0.3, -4.0), (30.0, 3.5)],
        {},
    ),
    "special.zeta": ("special.zeta", mp.zeta, [(2.0, 1.0), (1.001, 0.5), (7.5, 30.0), (3.0, 1e-3), (1.5, 1e9)], {}),
}


def binomial(n: Any, p: Any, k: Any) -> Any:
    return lg(n + 1) - lg(k + 1) - lg(n - k + 1) + xlogy(k, p) + (mp.log1p(-p) * (n - k) if n - k else 0)


# By their real parameters; integers stand last.
COUNTS: dict[str, tuple[str, int, Any, list[Point], dict[Point, Expected]]] = {
    "stats.poisson_logpmf": (
        f"\\m k -> {S}poisson_logpmf m (i64.@ k)",
        1,
        lambda m, k: xlogy(k, m) - m - lg(k + 1),
        [(2.5, 0.0), (2.5, 3.0), (1e-5, 2.0), (1e4, 9900.0)],
        {
            (0.0, 0.0): (0, [-1], None),
            (0.0, 2.0): (-INF, [INF], None),
            (2.0, -1.0): (-INF, [0], None),
            (0.0, 1.0): (-INF, [INF], None),
        },
    ),
    "stats.binomial_logpmf": (
        f"\\p n k -> {S}binomial_logpmf (i64.@ n) p (i64.@ k)",
        1,
        lambda p, n, k: binomial(n, p, k),
        [(0.3, 9.0, 0.0), (0.3, 9.0, 9.0), (0.3, 9.0, 4.0), (1e-5, 9.0, 1.0)],
        {(0.0, 9.0, 0.0): (0, [-9], None), (1.0, 9.0, 9.0): (0, [9], None), (0.5, 9.0, 10.0): (-INF, [0], None)},
    ),
    "stats.bernoulli_logpmf": (
        f"\\p k -> {S}bernoulli_logpmf p (k > 0)",
        1,
        lambda p, k: mp.log(p) if k else mp.log1p(-p),
        [(0.3, 0.0), (0.3, 1.0), (1e-9, 0.0), (1e-9, 1.0)],
        {(1.0, 1.0): (0, [1], None), (0.0, 0.0): (0, [-1], None)},
    ),
    "stats.bernoulli_logit_logpmf": (
        f"\\p k -> {S}bernoulli_logit_logpmf p (k > 0)",
        1,
        lambda p, k: -softplus(-p if k else p),
        [(0.3, 0.0), (0.0, 1.0), (0.0, 0.0), (-40.0, 0.0), (300.0, 1.0), (-300.0, 1.0)],
        {},
    ),
    "stats.negative_binomial_logpmf": (
        f"\\r p k -> {S}negative_binomial_logpmf r p (i64.@ k)",
        2,
        lambda r, p, k: lg(r + k) - lg(r) - lg(k + 1) + r * mp.log(p) + (k * mp.log1p(-p) if k else 0),
        [(2.5, 0.3, 0.0), (2.5, 0.3, 4.0), (0.1, 0.9, 40.0)],
        {(2.0, 1.0, 0.0): (0, [0, 2], None)},
    ),
    "stats.geometric_logpmf": (
        f"\\p k -> {S}geometric_logpmf p (i64.@ k)",
        1,
        lambda p, k: mp.log(p) + (k * mp.log1p(-p) if k else 0),
        [(0.3, 0.0), (0.3, 4.0), (1e-9, 40.0)],
        {(1.0, 0.0): (0, [1], None)},
    ),
}


# Whose derivatives are far smaller than the value.
SATURATED = ("stats.softplus", "stats.sigmoid", "stats.log_sigmoid", "stats.logistic_logpdf", "stats.normal_logcdf")
# What is more than that: where terms cancel as they must, and what fitted polynomials' derivatives are worth.
WITHIN: dict[str, tuple[float, float, float]] = {
    "stats.normal_logcdf": (8, 32, 1 << 13),
    "stats.normal_logcdf 3": (8, 32, 1 << 13),
    "special.normal_quantile": (8, 512, 1 << 14),
    "stats.normal_quantile": (8, 512, 1 << 14),
    "special.gamma_log_slope": (64, 256, 1 << 14),
    "special.bessel_i0e": (8, 128, 1 << 13),
    "special.bessel_i1e": (8, 128, 1 << 13),
}

# Where logarithms of gamma functions of large parameters cancel: as in SciPy, results are as exact as these.
TERMS: dict[str, Any] = {
    "stats.student_t_logpdf": lambda nu, m, b, x: (nu + 1) / 2 * mp.log1p(((x - m) / b) ** 2 / nu),
    "stats.gamma_logpdf": lambda a, b, x: abs(lg(a)) + abs(a * mp.log(b)),
    "stats.beta_logpdf": lambda a, b, x: abs(lg(a + b)),
    "special.beta_inc": lambda a, b, x: abs(lg(a + b)),
    "stats.poisson_logpmf": lambda m, k: abs(lg(k + 1)),
}


def cases() -> list[Case]:
    out = []
    for n, (text, f, ps, at) in {**ONE, **MORE}.items():
        slow = "@" not in text or "quantile" in n or "gamma_cdf" in n
        digits = 100 if slow else 700 if n in SATURATED else 150
        types = ("f64",) if "@" not in text else ("f64", "f32")
        out.append(
            Case(n, text, f, ps, at, types=types, digits=digits, within=WITHIN.get(n, (8, 32, 256)), terms=TERMS.get(n))
        )
    for n, (text, by, f, ps, at) in COUNTS.items():
        out.append(Case(n, text, f, ps, at, by=by, terms=TERMS.get(n)))
    return out


CASES = cases()
