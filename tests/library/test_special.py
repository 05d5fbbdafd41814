"""futad/special beside SciPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from tests.support.needs import needs_cc
from tests.support.slow import slow_but

special = pytest.importorskip("scipy.special")

PROGRAM = """
module special = import "futad/special"
module special_f32 = special.mk_special f32
entry quantile (ps: []f64) = map special.normal_quantile ps
entry quantile32 (ps: []f32) = map special_f32.normal_quantile ps
entry digamma (xs: []f64) = map special.digamma xs
entry trigamma (xs: []f64) = map (\\x -> jvp special.digamma x 1) xs
entry gammas (a: f64) (xs: []f64) = unzip (map (\\x -> (special.gamma_p a x, special.gamma_q a x)) xs)
entry slopes (a: f64) (xs: []f64) = unzip (map (\\x -> vjp (\\(a, x) -> special.gamma_p a x) (a, x) 1) xs)
entry beta_inc (a: []f64) (b: []f64) (xs: []f64) = map3 special.beta_inc a b xs
entry beta_slope (a: f64) (b: f64) (x: f64) = vjp (\\(a, b, x) -> special.beta_inc a b x) (a, b, x) 1
entry bessel (xs: []f64) = unzip (map (\\x -> (special.bessel_i0e x, special.bessel_i1e x)) xs)
entry bessel_slopes (xs: []f64) =
  unzip (map (\\x -> (vjp special.bessel_i0e x 1, jvp special.bessel_i1e x 1)) xs)
entry zeta (xs: []f64) (qs: []f64) = map2 special.zeta xs qs
entry constant (xs: []f64) = map special.constant xs
entry constant_slopes (xs: []f64) =
  let f x = x * special.constant x
  in unzip (map (\\x -> (jvp f x 1, vjp f x 1)) xs)
"""


@cache
def program() -> Any:
    return futad.compile(PROGRAM, "special", backend="c")


@pytest.mark.slow
@needs_cc
def test_quantiles():
    p = program()
    ps = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 500), 10.0 ** -np.arange(1, 308, 5), [0.075, 0.925, 0.5]])
    np.testing.assert_allclose(p.quantile(ps), special.ndtri(ps), rtol=2e-14, atol=1e-16)
    np.testing.assert_array_equal(p.quantile(np.array([0, 1, -1e-9, 2, np.nan])), [-np.inf, np.inf, *[np.nan] * 3])
    small = ps[:500].astype(np.float32)
    np.testing.assert_allclose(p.quantile32(small), special.ndtri(small.astype(float)), rtol=3e-6, atol=1e-7)


@needs_cc
@pytest.mark.parametrize("a", slow_but([42.0], [1e-3, 0.5, 1.0, 3.0, 42.0, 1e3, 1e6, 1e13]))
def test_incomplete_gamma_functions(a):
    p = program()
    # SciPy cuts its series short far below a large a: at 1e13 it has 4e-12 where a normal number has 1e-9.
    from_mean = np.array([-6 if a < 1e6 else -4, -2, -0.5, 0, 0.5, 1, 3, 8])
    xs = np.maximum(a + np.sqrt(a) * from_mean, 1e-3 * a)
    lower, upper = p.gammas(a, xs)
    tolerance = 1e-10 if a < 1e6 else 1e-8
    np.testing.assert_allclose(lower, special.gammainc(a, xs), rtol=tolerance, atol=1e-300)
    np.testing.assert_allclose(upper, special.gammaincc(a, xs), rtol=tolerance, atol=1e-300)
    if a == 1e13:  # normal but for its skewness, 2 / sqrt(a): the first term of Edgeworth's series
        wanted = special.ndtr(-6) - np.exp(-18) / np.sqrt(2 * np.pi) * (2 / np.sqrt(a)) / 6 * (6**2 - 1)
        np.testing.assert_allclose(p.gammas(a, np.array([a - 6 * np.sqrt(a)]))[0], wanted, rtol=1e-8)


@needs_cc
def test_derivatives_of_incomplete_gamma_functions():
    for a in (0.5, 1.0, 3.7, 42.0):
        xs = a * np.array([0.1, 0.7, 1.0, 1.5, 4.0])
        by_a, by_x = program().slopes(a, xs)
        h = 1e-3 * a
        weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
        steps = {k: special.gammainc(a + k * h, xs) - special.gammainc(a - k * h, xs) for k in weights}
        wanted = sum(w * steps[k] for k, w in weights.items())
        np.testing.assert_allclose(by_a, wanted / h, rtol=1e-8, atol=1e-11)
        density = np.exp((a - 1) * np.log(xs) - xs - special.gammaln(a))
        np.testing.assert_allclose(by_x, density, rtol=1e-9)


@needs_cc
def test_others():
    p = program()
    xs = np.array([1e-3, 0.5, 1.4616, 7, 1e5])
    np.testing.assert_allclose(p.digamma(xs), special.digamma(xs), rtol=1e-9, atol=1e-12)
    every = np.array([0.0, -0.0, 1.0, -np.pi, 1e300, -1e-300, 5e-324, 3e-310, np.inf, -np.inf, 1 / 3])
    np.testing.assert_array_equal(p.constant(every), every)
    assert np.isnan(p.constant(np.array([np.nan])))
    finite = every[np.isfinite(every)]
    for slopes in p.constant_slopes(finite):  # of x * (x as a constant)
        np.testing.assert_array_equal(slopes, finite)
    for a, x, wanted in ((2.0, -1.0, (0, 1)), (2.0, 0.0, (0, 1)), (2.0, np.inf, (1, 0))):
        assert tuple(float(y[0]) for y in p.gammas(a, np.array([x]))) == wanted
    for a, x in ((0.0, 1.0), (-1.0, 1.0), (np.nan, 1.0), (np.inf, 1.0), (1.0, np.nan)):
        assert np.isnan(np.array(p.gammas(a, np.array([x])))).all()


@needs_cc
def test_incomplete_beta_function():
    r, n = np.random.default_rng(0), 4000
    a, b = 10 ** r.uniform(-2, 3, n), 10 ** r.uniform(-2, 3, n)
    mean = a / (a + b)
    near = np.clip(mean + np.sqrt(mean * (1 - mean) / (a + b + 1)) * r.normal(size=n), 1e-9, 1 - 1e-9)
    for x in (r.uniform(size=n), near):
        np.testing.assert_allclose(program().beta_inc(a, b, x), special.betainc(a, b, x), rtol=2e-10, atol=1e-14)
    edge = np.array([0.0, 1.0, -0.1, 1.1, np.nan, 0.5, 0.5])
    shape = np.array([2.0] * 5 + [0.0, -1.0])
    np.testing.assert_array_equal(program().beta_inc(shape, np.full(7, 3.0), edge), [0, 1, *[np.nan] * 5])


@needs_cc
@pytest.mark.parametrize("a, b, x", [(0.5, 2.0, 0.3), (30.0, 20.0, 0.6), (2.0, 3.0, 0.99), (200.0, 300.0, 0.41)])
def test_slopes_of_the_incomplete_beta_function(a, b, x):
    h = 1e-3 * np.array([a, b, min(x, 1 - x)])
    for k, slope in enumerate(program().beta_slope(a, b, x)):
        def at(t, k=k):
            return special.betainc(*(np.array([a, b, x]) + t * h * np.eye(3)[k]))

        wanted = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h[k])
        np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-12)
    assert program().beta_slope(a, b, 0.0)[:2] == (0, 0)


@needs_cc
def test_bessel_functions():
    x = np.concatenate([np.linspace(-60, 60, 2001), [1e-300, 1e5, np.nan]])
    first, second = program().bessel(x)
    np.testing.assert_allclose(first, special.i0e(x), rtol=4e-15)
    np.testing.assert_allclose(second, special.i1e(x), rtol=4e-15, atol=1e-320)
    x = x[x != 0][:-1]
    zeroth, order1 = program().bessel_slopes(x)
    np.testing.assert_allclose(zeroth, special.i1e(x) - np.sign(x) * special.i0e(x), atol=1e-15)
    wanted = special.i0e(x) - special.i1e(x) / x - np.sign(x) * special.i1e(x)
    np.testing.assert_allclose(order1, wanted, atol=1e-15)
    assert [y[0] for y in program().bessel_slopes(np.zeros(1))] == [0, 0.5]


@needs_cc
def test_hurwitz_zeta():
    r = np.random.default_rng(1)
    x, q = 1 + 10 ** r.uniform(-2, 1.5, 2000), 10 ** r.uniform(-2, 2, 2000)
    np.testing.assert_allclose(program().zeta(x, q), special.zeta(x, q), rtol=2e-15)
    x, q = np.array([1.0, 0.5, 2.0, np.nan]), np.array([1.0, 1.0, 0.0, 1.0])
    np.testing.assert_array_equal(program().zeta(x, q), [np.inf, *[np.nan] * 3])


@needs_cc
@pytest.mark.parametrize("backend", ["c", "interp"])
def test_digamma_beside_its_poles(backend):
    """At -n + d it is -1 / d + psi(n + 1) + O(d), its derivative 1 / d^2 + O(1)."""
    p = program() if backend == "c" else futad.compile(PROGRAM, "special", backend=backend)
    n = np.array([0.0, 1, 2, 7, 40])
    for d in (-1e-7, 1e-7):
        x = -n + d
        d = x + n
        np.testing.assert_allclose(p.digamma(x), -1 / d + special.digamma(n + 1), rtol=1e-13)
        np.testing.assert_allclose(p.trigamma(x), 1 / d**2, rtol=2e-12)
