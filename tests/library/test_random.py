"""futad/random: published words, distributions, the same numbers on all backends, derivatives."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from tests.support.needs import needs_cc

stats = pytest.importorskip("scipy.stats")

PROGRAM = """
module random = import "futad/random"
module philox = random.mk_random random.philox4x32 f64
module f32s = random.random_f32
module f16s = random.mk_random random.threefry2x32 f16

entry threefry (k: (u32, u32)) (c: (u32, u32)) = random.threefry2x32.block k c
entry philox_block (k: (u32, u32)) (c: (u32, u32, u32, u32)) = random.philox4x32.block k c

entry uniform (n: i64) (s: i64) = tabulate n (random.uniform (random.key s))
entry open_uniform (n: i64) (s: i64) = tabulate n (random.uniform_open (random.key s))
entry normal (n: i64) (s: i64) = tabulate n (random.normal (random.key s))
entry exponential (n: i64) (s: i64) = tabulate n (random.exponential (random.key s))
entry laplace (n: i64) (s: i64) = tabulate n (random.laplace (random.key s))
entry logistic (n: i64) (s: i64) = tabulate n (random.logistic (random.key s))
entry gumbel (n: i64) (s: i64) = tabulate n (random.gumbel (random.key s))
entry philox_uniform (n: i64) (s: i64) = tabulate n (philox.uniform (philox.key s))
entry philox_normal (n: i64) (s: i64) = tabulate n (philox.normal (philox.key s))
entry uniform32 (n: i64) (s: i64) = tabulate n (f32s.uniform (random.key s))
entry normal32 (n: i64) (s: i64) = tabulate n (f32s.normal (random.key s))
entry exponential32 (n: i64) (s: i64) = tabulate n (f32s.exponential (random.key s))
entry uniform16 (n: i64) (s: i64) = tabulate n (\\i -> f32.f16 (f16s.uniform_open (random.key s) i))

entry gamma (a: f64) (n: i64) (s: i64) = tabulate n (random.gamma a (random.key s))
entry gamma32 (a: f32) (n: i64) (s: i64) = tabulate n (f32s.gamma a (random.key s))
entry beta (a: f64) (b: f64) (n: i64) (s: i64) = tabulate n (random.beta a b (random.key s))
entry student_t (nu: f64) (n: i64) (s: i64) = tabulate n (random.student_t nu (random.key s))
entry poisson (l: f64) (n: i64) (s: i64) = tabulate n (random.poisson l (random.key s))
entry below (m: i64) (n: i64) (s: i64) = tabulate n (random.below m (random.key s))
entry bernoulli (p: f64) (n: i64) (s: i64) = tabulate n (\\i -> i64.bool (random.bernoulli p (random.key s) i))
entry categorical [m] (ws: [m]f64) (n: i64) (s: i64) = tabulate n (random.categorical ws (random.key s))
entry dirichlet [m] (as: [m]f64) (n: i64) (s: i64) = tabulate n (random.dirichlet as (random.key s))
entry multivariate [m] (mu: [m]f64) (l: [m][m]f64) (n: i64) (s: i64) =
  tabulate n (random.multivariate_normal mu l (random.key s))
entry permutation (n: i64) (s: i64) = random.permutation n (random.key s)
entry shuffle [n] (xs: [n]f64) (s: i64) = random.shuffle xs (random.key s)
entry keys (n: i64) (s: i64) = let ks = random.keys n (random.key s) in map (\\k -> random.bits64 k 0) ks

entry gamma_slopes (a: f64) (n: i64) (s: i64) =
  let x i a = random.gamma a (random.key s) i
  in unzip (tabulate n (\\i -> (jvp (x i) a 1, vjp (x i) a 1)))
entry mean_slopes (n: i64) (s: i64) (mu: f64) (sigma: f64) =
  vjp (\\(mu, sigma) -> f64.sum (tabulate n (\\i -> mu + sigma * random.normal (random.key s) i))) (mu, sigma) 1
entry rate_slope (n: i64) (s: i64) (rate: f64) =
  vjp (\\rate -> f64.sum (tabulate n (\\i -> random.exponential (random.key s) i / rate))) rate 1
entry beta_slopes (a: f64) (b: f64) (n: i64) (s: i64) =
  unzip (tabulate n (\\i -> vjp (\\(a, b) -> random.beta a b (random.key s) i) (a, b) 1))
entry dirichlet_slopes [m] (as: [m]f64) (s: i64) (w: [m]f64) =
  vjp (\\as -> f64.sum (map2 (*) w (random.dirichlet as (random.key s) 0))) as 1
"""
pytestmark = pytest.mark.slow  # all read one program, which takes seconds to compile


@cache
def program(backend: str = "c") -> Any:
    return futad.compile(PROGRAM, "random", backend=backend)


def expected(words: str) -> tuple[int, ...]:
    return tuple(int(w, 16) for w in words.split())


# Known answers of Random123 1.14, `kat_vectors`: counter, key, words.
THREEFRY = [
    ("00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
    ("ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
    ("243f6a88 85a308d3", "13198a2e 03707344", "c4923a9c 483df7a0"),
]
PHILOX = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@needs_cc
def test_published_words():
    p = program()
    for counter, key, words in THREEFRY:
        assert p.threefry(expected(key), expected(counter)) == expected(words)
    for counter, key, words in PHILOX:
        assert p.philox_block(expected(key), expected(counter)) == expected(words)


CONTINUOUS = {
    "uniform": ((), stats.uniform()), "open_uniform": ((), stats.uniform()), "normal": ((), stats.norm()),
    "exponential": ((), stats.expon()), "laplace": ((), stats.laplace()), "logistic": ((), stats.logistic()),
    "gumbel": ((), stats.gumbel_r()), "philox_uniform": ((), stats.uniform()), "philox_normal": ((), stats.norm()),
    "uniform32": ((), stats.uniform()), "normal32": ((), stats.norm()), "exponential32": ((), stats.expon()),
    "gamma 0.05": ((0.05,), stats.gamma(0.05)), "gamma 0.6": ((0.6,), stats.gamma(0.6)),
    "gamma 1": ((1.0,), stats.gamma(1)), "gamma 7.5": ((7.5,), stats.gamma(7.5)),
    "gamma 2000": ((2000.0,), stats.gamma(2000)), "gamma32 2.5": ((np.float32(2.5),), stats.gamma(2.5)),
    "beta 0.4 0.7": ((0.4, 0.7), stats.beta(0.4, 0.7)), "beta 3 1.5": ((3.0, 1.5), stats.beta(3, 1.5)),
    "student_t 1": ((1.0,), stats.t(1)), "student_t 4.5": ((4.5,), stats.t(4.5)),
}  # fmt: skip
DISCRETE = {
    "poisson 0.3": ((0.3,), stats.poisson(0.3)), "poisson 9.9": ((9.9,), stats.poisson(9.9)),
    "poisson 10": ((10.0,), stats.poisson(10)), "poisson 47.5": ((47.5,), stats.poisson(47.5)),
    "poisson 5000": ((5000.0,), stats.poisson(5000)), "below 7": ((7,), stats.randint(0, 7)),
    "below 1000": ((1000,), stats.randint(0, 1000)), "bernoulli 0.2": ((0.2,), stats.bernoulli(0.2)),
    "categorical": ((np.array([2.0, 0, 5, 1, 0]),), stats.rv_discrete(values=([0, 2, 3], [0.25, 0.625, 0.125]))),
}  # fmt: skip
SEED = 11


def draw(name: str, args: tuple[Any, ...], n: int, backend: str = "c") -> Any:
    return np.asarray(getattr(program(backend), name.split()[0])(*args, n, SEED))


def is_continuous_as(name: str, n: int) -> None:
    """Kolmogorov and Smirnov's test, and the first moments where there are some."""
    args, law = CONTINUOUS[name]
    xs = draw(name, args, n)
    if xs.dtype == np.float32:  # as many numbers as there are steps of 2^-23, and more
        xs = xs.astype(np.float64)
    assert np.isfinite(xs).all()
    assert stats.kstest(xs, law.cdf).pvalue > 1e-4
    mean, variance, skew, kurtosis = law.stats("mvsk")
    if np.isfinite(variance) and variance > 0:
        assert abs(xs.mean() - mean) < 4.5 * np.sqrt(variance / n)
    if np.isfinite(kurtosis):
        assert abs(xs.var() / variance - 1) < 5 * np.sqrt((kurtosis + 2) / n)


def is_discrete_as(name: str, n: int) -> None:
    """Pearson's chi-square test, values of less than 20 expected occurrences together."""
    args, law = DISCRETE[name]
    xs = draw(name, args, n)
    values, counts = np.unique(xs, return_counts=True)
    assert (law.pmf(values) > 0).all()
    low, high = int(law.ppf(1e-6)), int(law.ppf(1 - 1e-6))
    probability = law.pmf(np.arange(low, high + 1))
    seen = np.zeros(len(probability))
    inside = (values >= low) & (values <= high)
    seen[values[inside] - low] = counts[inside]
    often = probability * n >= 20
    observed = [*seen[often], n - seen[often].sum()]
    wanted = [*(probability[often] * n), n * (1 - probability[often].sum())]
    if wanted[-1] < 20:
        wanted[-2:], observed[-2:] = [sum(wanted[-2:])], [sum(observed[-2:])]
    wanted = np.array(wanted) * (n / sum(wanted))
    assert stats.chisquare(observed, wanted).pvalue > 1e-4
    assert abs(xs.mean() - law.mean()) < 4.5 * law.std() / np.sqrt(n)


@needs_cc
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    is_continuous_as(name, 20000)


@needs_cc
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    is_discrete_as(name, 20000)


@pytest.mark.slow(apart=True)
@needs_cc
@pytest.mark.parametrize("name", CONTINUOUS)
def test_ten_million_continuous(name):
    # Of f32 there are too few values for the test of a distribution without steps.
    is_continuous_as(name, 10**6 if "32" in name else 10**7)


@pytest.mark.slow(apart=True)
@needs_cc
@pytest.mark.parametrize("name", DISCRETE)
def test_ten_million_discrete(name):
    is_discrete_as(name, 10**7)


@needs_cc
def test_ten_million_bits_and_pairs():
    """Every bit is as often 0 as 1, and neighbours, and numbers of neighbouring keys, are independent."""
    n = 10**7
    bits = (draw("uniform", (), n) * 2.0**52).astype(np.uint64)
    for place in range(52):
        ones = int((bits >> np.uint64(place) & np.uint64(1)).sum())
        assert abs(ones - n / 2) < 5 * np.sqrt(n / 4), place
    xs = draw("uniform", (), n)
    other = np.asarray(program().uniform(n, SEED + 1))
    for pairs in ((xs[:-1], xs[1:]), (xs, other), (xs[: n // 2], xs[n // 2 :])):
        counts = np.histogram2d(*pairs, bins=32, range=[[0, 1], [0, 1]])[0].ravel()
        assert stats.chisquare(counts).pvalue > 1e-4


@needs_cc
@pytest.mark.parametrize("backend", ["interp", "multicore", "emulated"])
def test_the_same_numbers_on_all_backends(backend):
    n = 40
    for name, (args, _) in {**CONTINUOUS, **DISCRETE}.items():
        one, other = draw(name, args, n), draw(name, args, n, backend)
        if one.dtype.kind == "i":
            np.testing.assert_array_equal(one, other, err_msg=name)
        else:
            np.testing.assert_allclose(one, other, rtol=2e-6 if one.dtype == np.float32 else 1e-13, err_msg=name)
    np.testing.assert_array_equal(program().permutation(n, 3), program(backend).permutation(n, 3))


@needs_cc
def test_ranges_and_edges():
    p = program()
    assert 0 <= min(p.uniform(1000, 1)) and max(p.uniform(1000, 1)) < 1
    halves = np.asarray(p.uniform16(4000, 1))
    assert 0 < halves.min() and halves.max() < 1 and len(np.unique(halves)) > 900
    assert p.below(1, 5, 3).tolist() == [0] * 5 and p.below(2**62, 1000, 3).max() > 2**61
    assert np.isnan(p.gamma(-1.0, 3, 1)).all() and np.isnan(p.gamma(0.0, 3, 1)).all()
    assert np.isnan(p.gamma(np.nan, 2, 1)).all() and np.isnan(p.gamma(np.inf, 2, 1)).all()
    assert (p.gamma(1e-4, 1000, 1) >= 0).all()
    assert p.poisson(0.0, 4, 1).tolist() == [0] * 4 and p.poisson(np.nan, 2, 1).tolist() == [0, 0]
    tiny = np.asarray(p.beta(1e-3, 1e-3, 1000, 1))
    assert np.isfinite(tiny).all() and 0.4 < tiny.mean() < 0.6
    assert p.uniform(0, 1).shape == (0,) and p.permutation(0, 1).shape == (0,) and p.permutation(1, 1).tolist() == [0]
    assert p.categorical(np.array([0.0, 3.0, 0.0]), 50, 1).tolist() == [1] * 50
    shares = np.asarray(p.dirichlet(np.array([0.01, 1.0, 5.0]), 2000, 1))
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-14)
    np.testing.assert_allclose(shares.mean(0), np.array([0.01, 1, 5]) / 6.01, atol=0.02)


@needs_cc
def test_orders_keys_and_vectors():
    p = program()
    orders = np.array([p.permutation(4, s) for s in range(2400)])
    assert (np.sort(orders, 1) == np.arange(4)).all()
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 1e-4
    xs = np.linspace(0, 1, 50)
    assert sorted(p.shuffle(xs, 5)) == xs.tolist() and p.shuffle(xs, 5).tolist() == xs[p.permutation(50, 5)].tolist()
    assert len(np.unique(p.keys(1000, 1))) == 1000
    mu, half = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 9, 9], [0.5, 1, 9], [-1, 0.3, 0.7]])
    vectors, lower = np.asarray(p.multivariate(mu, half, 20000, 2)), np.tril(half)
    np.testing.assert_allclose(vectors.mean(0), mu, atol=0.08)
    np.testing.assert_allclose(np.cov(vectors.T), lower @ lower.T, atol=0.12)


@needs_cc
@pytest.mark.parametrize("a", [0.01, 0.4, 1.0, 3.7, 60.0, 1500.0])
def test_derivatives_of_gamma(a):
    """Beside differences of the quantile at the probability of what was drawn, from the tail that is more exact."""
    from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv

    n = 400
    xs = np.asarray(program().gamma(a, n, SEED))
    forward, reverse = map(np.asarray, program().gamma_slopes(a, n, SEED))
    np.testing.assert_allclose(forward, reverse, rtol=1e-13)
    p, q, h = gammainc(a, xs), gammaincc(a, xs), 1e-4 * a

    def at(b: float) -> Any:
        return np.where(p < q, gammaincinv(b, p), gammainccinv(b, q))

    wanted = (8 * (at(a + h) - at(a - h)) - (at(a + 2 * h) - at(a - 2 * h))) / (12 * h)
    known = xs > 1e-280
    np.testing.assert_allclose(forward[known], wanted[known], rtol=1e-7, atol=1e-9 * np.sqrt(a))


@needs_cc
def test_derivatives_by_other_parameters():
    p, n = program(), 50
    by_mean, by_deviation = p.mean_slopes(n, SEED, 0.5, 2.0)
    assert by_mean == n
    np.testing.assert_allclose(by_deviation, np.sum(draw("normal", (), n)), rtol=1e-13)
    np.testing.assert_allclose(p.rate_slope(n, SEED, 2.0), -np.sum(draw("exponential", (), n)) / 4, rtol=1e-13)


@needs_cc
def test_gradients_of_means():
    """Averages of derivatives of samples are derivatives of averages: of beta numbers, and of shares."""
    p, n, a, b = program(), 20000, 1.7, 0.8
    by_a, by_b = map(np.asarray, p.beta_slopes(a, b, n, SEED))
    for slopes, mean in ((by_a, b / (a + b) ** 2), (by_b, -a / (a + b) ** 2)):
        assert abs(slopes.mean() - mean) < 4.5 * slopes.std() / np.sqrt(n)
    shape, w = np.array([0.7, 2.0, 1.3]), np.array([1.0, -2.0, 0.5])
    slopes = np.array([p.dirichlet_slopes(shape, s, w) for s in range(2000)])
    mean = (w - w @ shape / shape.sum()) / shape.sum()
    assert (np.abs(slopes.mean(0) - mean) < 4.5 * slopes.std(0) / np.sqrt(2000)).all()
