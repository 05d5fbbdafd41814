"""futad/stats beside SciPy and NumPy: values, gradients, edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from tests.support.needs import needs_cc

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")

Case = tuple[tuple[float, ...], list[float], Callable[..., Any]]
INF = np.inf

# Parameters, numbers, and the same of SciPy.
REALS: dict[str, Case] = {
    "normal_logpdf": ((0.3, 1.7), [-40, -1, 0.3, 2, 1e3], lambda m, s, x: stats.norm.logpdf(x, m, s)),
    "normal_cdf": ((0.3, 1.7), [-9, -1, 0.3, 2, 30], lambda m, s, x: stats.norm.cdf(x, m, s)),
    "normal_logcdf": ((0.3, 1.7), [-60, -35, -32, -1, 0.3, 2, 9, 12], lambda m, s, x: stats.norm.logcdf(x, m, s)),
    "normal_quantile": ((0.3, 1.7), [1e-9, 0.01, 0.4, 0.5, 0.93, 1 - 1e-6], lambda m, s, p: stats.norm.ppf(p, m, s)),
    "lognormal_logpdf": ((0.3, 1.7), [1e-3, 1, 8], lambda m, s, x: stats.lognorm.logpdf(x, s, scale=np.exp(m))),
    "laplace_logpdf": ((0.3, 1.7), [-40, -1, 2, 1e3], lambda m, s, x: stats.laplace.logpdf(x, m, s)),
    "logistic_logpdf": ((0.3, 1.7), [-400, -1, 2, 1e3], lambda m, s, x: stats.logistic.logpdf(x, m, s)),
    "cauchy_logpdf": ((0.3, 1.7), [-40, -1, 0.3, 2, 1e3], lambda m, s, x: stats.cauchy.logpdf(x, m, s)),
    "student_t_logpdf": ((2.5, 0.3, 1.7), [-40, -1, 0.3, 2], lambda n, m, s, x: stats.t.logpdf(x, n, m, s)),
    "uniform_logpdf": ((-1.0, 3.5), [-0.5, 0, 3], lambda a, b, x: stats.uniform.logpdf(x, a, b - a)),
    "exponential_logpdf": ((2.5,), [0.1, 1, 30], lambda r, x: stats.expon.logpdf(x, scale=1 / r)),
    "exponential_cdf": ((2.5,), [1e-2, 0.1, 1, 30], lambda r, x: stats.expon.cdf(x, scale=1 / r)),
    "gamma_logpdf": ((2.5, 0.7), [1e-3, 1, 30], lambda a, b, x: stats.gamma.logpdf(x, a, scale=1 / b)),
    "gamma_cdf": ((2.5, 0.7), [1e-3, 1, 3, 6, 30], lambda a, b, x: stats.gamma.cdf(x, a, scale=1 / b)),
    "inverse_gamma_logpdf": ((2.5, 0.7), [1e-2, 1, 30], lambda a, b, x: stats.invgamma.logpdf(x, a, scale=b)),
    "beta_logpdf": ((2.5, 0.7), [1e-3, 0.5, 0.9], lambda a, b, x: stats.beta.logpdf(x, a, b)),
    "logaddexp": ((0.3,), [-800, -1, 0.1, 2, 900], np.logaddexp),
    "softplus": ((), [-800, -1, 0.1, 2, 900], lambda x: np.logaddexp(0, x)),
    "sigmoid": ((), [-700, -1, 0, 2, 40], special.expit),
    "log_sigmoid": ((), [-800, -1, 0.1, 2, 40], special.log_expit),
}
INTEGERS: dict[str, Case] = {
    "poisson_logpmf": ((2.5,), [0, 1, 40], lambda m, k: stats.poisson.logpmf(k, m)),
    "negative_binomial_logpmf": ((2.5, 0.3), [0, 1, 40], lambda r, p, k: stats.nbinom.logpmf(k, r, p)),
    "geometric_logpmf": ((0.3,), [0, 1, 40], lambda p, k: stats.geom.logpmf(k + 1, p)),
    "binomial_logpmf 9": ((0.3,), [0, 1, 5, 9], lambda p, k: stats.binom.logpmf(k, 9, p)),
}
# Outside, and where what is multiplied by 0 is infinite: numbers, and what SciPy has there.
EDGES: list[tuple[str, tuple[float, ...], list[float]]] = [
    ("normal_logpdf", (0.0, 1.0), [INF, -INF, np.nan]), ("normal_cdf", (0.0, 1.0), [INF, -INF, np.nan]),
    ("normal_quantile", (0.0, 1.0), [0, 1, -0.1, 1.1, np.nan]), ("lognormal_logpdf", (0.0, 1.0), [0, -1]),
    ("uniform_logpdf", (0.0, 2.0), [-1, 0, 2, 2.1]), ("exponential_logpdf", (2.0,), [-1, 0]),
    ("exponential_cdf", (2.0,), [-1, 0, INF]), ("gamma_logpdf", (1.0, 2.0), [-1, 0]),
    ("gamma_logpdf", (2.0, 2.0), [0]), ("gamma_logpdf", (0.5, 2.0), [0]), ("gamma_cdf", (2.0, 2.0), [-1, 0, INF]),
    ("inverse_gamma_logpdf", (1.5, 2.0), [-1, 0]), ("beta_logpdf", (1.0, 1.0), [-0.1, 0, 1, 1.1]),
    ("beta_logpdf", (2.0, 3.0), [0, 1]), ("beta_logpdf", (0.5, 0.5), [0, 1]), ("poisson_logpmf", (0.0,), [-1, 0, 1]),
    ("binomial_logpmf 9", (0.0,), [-1, 0, 1, 10]), ("binomial_logpmf 9", (1.0,), [8, 9]),
    ("logaddexp", (-INF,), [-INF, 0, INF]), ("logaddexp", (INF,), [-INF, 0, INF]), ("sigmoid", (), [-INF, INF]),
    ("negative_binomial_logpmf", (2.0, 1.0), [-1, 0, 1]),
]  # fmt: skip


def entries() -> str:
    out = ['module stats = import "futad/stats"']
    for table, kind in ((REALS, "f64"), (INTEGERS, "i64")):
        for name, (params, _, _) in table.items():
            f = f"stats.{name}"  # "binomial_logpmf 9" has the number of trials
            ps = [f"p{i}" for i in range(len(params))]
            given = " ".join([f"({p}: f64)" for p in ps])
            by = [*ps, "x"] if kind == "f64" else ps
            pattern, call = f"({', '.join(by)})", " ".join([f, *ps, "x"])
            out.append(f"entry {name.split()[0]} {given} (xs: []{kind}) = map (\\x -> {call}) xs")
            slopes = f"map (\\x -> vjp (\\{pattern} -> {call}) {pattern} 1) xs"
            out.append(f"entry {name.split()[0]}_slopes {given} (xs: []{kind}) = {slopes}")
    return "\n".join(out)


REST = """
entry logsumexp (xs: []f64) = stats.logsumexp xs
entry logsumexp_slopes (xs: []f64) = vjp stats.logsumexp xs 1
entry softmaxes (xs: []f64) = (stats.softmax xs, stats.log_softmax xs)
entry softmax_slopes [n] (xs: [n]f64) (w: [n]f64) = vjp (\\xs -> f64.sum (map2 (*) w (stats.softmax xs))) xs 1
entry multivariate [n] (mu: [n]f64) (l: [n][n]f64) (x: [n]f64) = stats.multivariate_normal_logpdf mu l x
entry multivariate_slopes [n] (mu: [n]f64) (l: [n][n]f64) (x: [n]f64) =
  vjp (\\(mu, l, x) -> stats.multivariate_normal_logpdf mu l x) (mu, l, x) 1
entry dirichlet [n] (as: [n]f64) (xs: [n]f64) = stats.dirichlet_logpdf as xs
entry dirichlet_slopes [n] (as: [n]f64) (xs: [n]f64) = vjp (\\(as, xs) -> stats.dirichlet_logpdf as xs) (as, xs) 1
entry categorical (ps: []f64) (ks: []i64) = map (stats.categorical_logpmf ps) ks
entry categorical_logit (ps: []f64) (ks: []i64) = map (stats.categorical_logit_logpmf ps) ks
entry bernoulli (p: f64) (k: bool) = (stats.bernoulli_logpmf p k, stats.bernoulli_logit_logpmf p k)
entry describe (xs: []f64) =
  (stats.mean xs, stats.variance xs, stats.sample_variance xs, stats.stddev xs, stats.median xs)
entry describe_slopes (xs: []f64) = (vjp stats.variance xs 1, vjp (stats.quantile 0.3) xs 1)
entry relations [n] (xs: [n]f64) (ys: [n]f64) = (stats.covariance xs ys, stats.correlation xs ys)
entry covariance_matrix (rows: [][]f64) = stats.covariance_matrix rows
entry quantiles (ps: []f64) (xs: []f64) = stats.quantiles ps xs
entry f32s (xs: []f32) =
  (stats.stats_f32.logsumexp xs, stats.stats_f32.quantile 0.25 xs, map (stats.stats_f32.normal_logpdf 0 1) xs,
   map (stats.stats_f32.normal_logcdf 0 1) xs)
"""


@cache
def program(backend: str = "c") -> Any:
    return futad.compile(entries() + REST, "stats", backend=backend)


def values(name: str, params: tuple[float, ...], xs: Any, backend: str = "c") -> Any:
    first = name.split()[0]
    kind = np.int64 if name in INTEGERS else np.float64
    return np.asarray(getattr(program(backend), first)(*params, np.array(xs, kind)))


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("name", [*REALS, *INTEGERS])
def test_values(name):
    params, xs, reference = {**REALS, **INTEGERS}[name]
    np.testing.assert_allclose(values(name, params, xs), reference(*params, np.array(xs)), rtol=1e-10, atol=1e-300)


def slope(f: Callable[[float], Any], x: float) -> Any:
    """The derivative by differences of the sixth order."""
    h = 4e-3 * min(1.0, max(abs(x), 1e-3))
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    return sum(w * (f(x + k * h) - f(x - k * h)) for k, w in weights.items()) / h


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("name", [*REALS, *INTEGERS])
def test_gradients(name):
    params, xs, reference = {**REALS, **INTEGERS}[name]
    kind = np.int64 if name in INTEGERS else np.float64
    found = getattr(program(), f"{name.split()[0]}_slopes")(*params, np.array(xs, kind))
    columns = [found] if isinstance(found, np.ndarray) else [found[i] for i in range(len(found))]
    by = len(params) + (name in REALS)
    assert len(columns) == by
    for j, column in enumerate(columns):
        for x, got in zip(xs, np.asarray(column), strict=True):
            point = (*params, x)
            if name == "normal_quantile" and j == 2:
                z = stats.norm.ppf(x)
                wanted = params[1] / stats.norm.pdf(z)
            elif name.startswith("uniform") and j == 2:
                wanted = 0
            else:
                wanted = slope(lambda v, j=j, p=point: reference(*p[:j], v, *p[j + 1 :]), point[j])
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-8, err_msg=f"{x} by {j}")


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_edges(backend):
    for name, params, xs in EDGES:
        with np.errstate(all="ignore"):
            wanted = {**REALS, **INTEGERS}[name][2](*params, np.array(xs))
        np.testing.assert_allclose(values(name, params, xs, backend), wanted, 1e-12, 1e-14, err_msg=f"{name}{params}")


@needs_cc
def test_slopes_at_the_border_of_a_case():
    """The shape 1 of a gamma density has a derivative by the shape, though its factor log x is multiplied by 0."""
    found = program().gamma_logpdf_slopes(1.0, 2.0, np.array([0.5]))
    np.testing.assert_allclose(found[0][0], np.log(2) - special.digamma(1) + np.log(0.5), rtol=1e-12)


@needs_cc
def test_sums_of_exponentials():
    p, rng = program(), np.random.default_rng(1)
    for xs in (rng.normal(size=9) * 50, np.array([1000.0, 1000.0]), np.array([-INF, 3.0]), np.array([5.0])):
        np.testing.assert_allclose(p.logsumexp(xs), special.logsumexp(xs), rtol=1e-14)
        np.testing.assert_allclose(p.logsumexp_slopes(xs), special.softmax(xs), rtol=1e-12)
        soft, log_soft = p.softmaxes(xs)
        np.testing.assert_allclose(soft, special.softmax(xs), rtol=1e-12)
        np.testing.assert_allclose(log_soft, special.log_softmax(xs), rtol=1e-12, atol=1e-14)
    assert p.logsumexp(np.array([])) == -INF and p.logsumexp(np.array([-INF, -INF])) == -INF
    assert p.logsumexp(np.array([INF, 1.0])) == INF and np.isnan(p.logsumexp(np.array([np.nan, 1.0])))
    assert p.logsumexp_slopes(np.array([2.0, 2.0])).tolist() == [0.5, 0.5]
    xs, w = rng.normal(size=5), rng.normal(size=5)
    s = special.softmax(xs)
    np.testing.assert_allclose(p.softmax_slopes(xs, w), s * (w - s @ w), rtol=1e-11, atol=1e-15)


@needs_cc
def test_vectors():
    p, rng = program(), np.random.default_rng(2)
    mu, x, half = rng.normal(size=4), rng.normal(size=4), np.tril(rng.normal(size=(4, 4))) + 2 * np.eye(4)
    above = half + np.triu(np.full((4, 4), np.nan), 1)
    wanted = stats.multivariate_normal.logpdf(x, mu, half @ half.T)
    np.testing.assert_allclose(p.multivariate(mu, above, x), wanted, rtol=1e-12)
    by_mu, by_l, by_x = p.multivariate_slopes(mu, half, x)
    z = np.linalg.solve(half @ half.T, x - mu)
    np.testing.assert_allclose(by_mu, z, rtol=1e-11)
    np.testing.assert_allclose(by_x, -z, rtol=1e-11)
    wanted = np.tril(np.outer(z, half.T @ z)) - np.diag(1 / np.diag(half))
    np.testing.assert_allclose(by_l, wanted, rtol=1e-10, atol=1e-12)
    assert p.multivariate(mu[:0], half[:0, :0], x[:0]) == 0
    shape, shares = np.array([0.5, 2.0, 1.0]), np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(p.dirichlet(shape, shares), stats.dirichlet.logpdf(shares, shape), rtol=1e-12)
    by_shape, by_shares = p.dirichlet_slopes(shape, shares)
    digamma = special.digamma
    np.testing.assert_allclose(by_shape, digamma(3.5) - digamma(shape) + np.log(shares), rtol=1e-11)
    np.testing.assert_allclose(by_shares, (shape - 1) / shares, rtol=1e-12)
    assert p.dirichlet(shape, np.array([-0.1, 0.8, 0.3])) == -INF
    probabilities, ks = np.array([0.2, 0.0, 0.8]), np.array([0, 1, 2, 3, -1])
    np.testing.assert_allclose(p.categorical(probabilities, ks), [np.log(0.2), -INF, np.log(0.8), -INF, -INF])
    logits = np.array([0.3, -2.0, 800.0])
    np.testing.assert_allclose(p.categorical_logit(logits, ks), [*(logits - 800), -INF, -INF], rtol=1e-14, atol=1e-14)
    for k in (False, True):
        one, other = p.bernoulli(0.3, k)
        np.testing.assert_allclose(one, stats.bernoulli.logpmf(k, 0.3), rtol=1e-14)
        np.testing.assert_allclose(other, special.log_expit(0.3 if k else -0.3), rtol=1e-14)


@needs_cc
def test_samples():
    p, rng = program(), np.random.default_rng(3)
    xs, ys = rng.normal(size=31), rng.normal(size=31)
    wanted = [xs.mean(), xs.var(), xs.var(ddof=1), xs.std(), np.median(xs)]
    np.testing.assert_allclose(np.array(p.describe(xs)), wanted, rtol=1e-12)
    by_variance, by_quantile = p.describe_slopes(xs)
    np.testing.assert_allclose(by_variance, 2 * (xs - xs.mean()) / 31, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(np.sort(by_quantile)[-1:], [1.0], rtol=1e-12)  # 0.3 * 30 is a rank
    assert np.argmax(by_quantile) == np.argsort(xs)[9]
    covariance, correlation = p.relations(xs, ys)
    np.testing.assert_allclose(covariance, np.cov(xs, ys, ddof=0)[0, 1], rtol=1e-12)
    np.testing.assert_allclose(correlation, np.corrcoef(xs, ys)[0, 1], rtol=1e-12)
    rows = rng.normal(size=(12, 3))
    np.testing.assert_allclose(p.covariance_matrix(rows), np.cov(rows.T, ddof=0), rtol=1e-11)
    ps = np.array([0, 0.1, 0.25, 0.5, 0.999, 1])
    ties = np.array([2.0, -1.0, 2.0, 2.0, -0.0, 0.0, -INF, 7.0])
    for sample in (xs, ties[ties > -INF], np.array([4.0])):
        np.testing.assert_allclose(p.quantiles(ps, sample), np.quantile(sample, ps), rtol=1e-13)
    assert p.quantiles(ps, ties)[:2].tolist() == [-INF, -INF]
    assert p.quantiles(ps, np.array([3.0, INF, INF])).tolist() == [3, INF, INF, INF, INF, INF]
    assert np.isnan(p.quantiles(ps, np.array([]))).all() and np.isnan(p.quantiles(ps, np.array([1.0, np.nan]))).all()
    assert np.isnan(np.array(p.describe(np.array([])))).all()


@needs_cc
def test_single_precision():
    xs = np.array([-30.0, -8.5, -1, 0.25, 3, 8], np.float32)
    total, quartile, logpdf, logcdf = program().f32s(xs)
    assert {np.asarray(y).dtype for y in (total, quartile, logpdf, logcdf)} == {np.dtype(np.float32)}
    np.testing.assert_allclose(total, special.logsumexp(xs.astype(float)), rtol=1e-6)
    np.testing.assert_allclose(quartile, np.quantile(xs, 0.25), rtol=1e-6)
    np.testing.assert_allclose(logpdf, stats.norm.logpdf(xs), rtol=1e-6)
    np.testing.assert_allclose(logcdf, stats.norm.logcdf(xs.astype(float)), rtol=2e-5, atol=1e-7)


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "multicore", "emulated"])
def test_the_same_on_all_backends(backend):
    for name, (params, xs, _) in {**REALS, **INTEGERS}.items():
        wanted = values(name, params, xs)
        np.testing.assert_allclose(values(name, params, xs, backend), wanted, rtol=1e-13, err_msg=name)
    rng = np.random.default_rng(4)
    xs = rng.normal(size=9)
    for one, other in zip(program().describe(xs), program(backend).describe(xs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
