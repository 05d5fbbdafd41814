"""The library beside JAX: the same random numbers, chains and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import library
import numpy as np
import pytest

import futad
from tests.support.needs import needs_cc

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import jax.scipy as jsp  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def wide() -> Iterator[None]:
    """64-bit types, for these tests alone."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


RANDOM = """
module random = import "futad/random"
entry uniform (n: i64) (s: i64) = tabulate n (random.uniform (random.key s))
entry uniform32 (n: i64) (s: i64) = tabulate n (random.random_f32.uniform (random.key s))
entry normal (n: i64) (s: i64) = tabulate n (random.normal (random.key s))
entry exponential (n: i64) (s: i64) = tabulate n (random.exponential (random.key s))
entry bits32 (n: i64) (s: i64) = tabulate n (random.bits32 (random.key s))
entry bits64 (n: i64) (s: i64) = tabulate n (random.bits64 (random.key s))
entry keys (n: i64) (s: i64) = unzip (random.keys n (random.key s))
entry fold_in (i: i64) (s: i64) = random.fold_in (random.key s) i
"""


@needs_cc
@pytest.mark.parametrize("seed", [0, 1, 12345678901])
def test_numbers_are_those_of_jax(seed):
    p, key, n = program(RANDOM), jax.random.key(seed), 1000
    np.testing.assert_array_equal(p.uniform(n, seed), jax.random.uniform(key, (n,), jnp.float64))
    np.testing.assert_array_equal(p.uniform32(n, seed), jax.random.uniform(key, (n,), jnp.float32))
    np.testing.assert_array_equal(p.bits32(n, seed), jax.random.bits(key, (n,), jnp.uint32))
    np.testing.assert_array_equal(p.bits64(n, seed), jax.random.bits(key, (n,), jnp.uint64))
    np.testing.assert_array_equal(np.stack(list(p.keys(n, seed)), 1), jax.random.key_data(jax.random.split(key, n)))
    assert tuple(p.fold_in(77, seed)) == tuple(jax.random.key_data(jax.random.fold_in(key, 77)).tolist())
    np.testing.assert_allclose(p.exponential(n, seed), jax.random.exponential(key, (n,), jnp.float64), rtol=1e-13)
    # By another formula of the same bits.
    np.testing.assert_allclose(p.normal(n, seed), jax.random.normal(key, (n,), jnp.float64), rtol=1e-9, atol=1e-13)


@cache
def program(text: str) -> Any:
    return futad.compile(text, "random", backend="c")


DENSITIES = {
    "normal_logpdf": (lambda m, s, x: jsp.stats.norm.logpdf(x, m, s), (0.3, 1.7, 2.0)),
    "normal_logcdf": (lambda m, s, x: jsp.stats.norm.logcdf(x, m, s), (0.3, 1.7, -10.0)),
    "student_t_logpdf": (lambda n, m, s, x: jsp.stats.t.logpdf(x, n, m, s), (2.5, 0.3, 1.7, 2.0)),
    "laplace_logpdf": (lambda m, s, x: jsp.stats.laplace.logpdf(x, m, s), (0.3, 1.7, 2.0)),
    "logistic_logpdf": (lambda m, s, x: jsp.stats.logistic.logpdf(x, m, s), (0.3, 1.7, -20.0)),
    "cauchy_logpdf": (lambda m, s, x: jsp.stats.cauchy.logpdf(x, m, s), (0.3, 1.7, 2.0)),
    "gamma_logpdf": (lambda a, b, x: jsp.stats.gamma.logpdf(x, a, scale=1 / b), (2.5, 0.7, 3.0)),
    "gamma_cdf": (lambda a, b, x: jsp.stats.gamma.cdf(x, a, scale=1 / b), (2.5, 0.7, 6.0)),
    "beta_logpdf": (lambda a, b, x: jsp.stats.beta.logpdf(x, a, b), (2.5, 0.7, 0.4)),
    "logaddexp": (jnp.logaddexp, (0.5, 0.5)),
    "log_sigmoid": (jax.nn.log_sigmoid, (0.0,)),
    "sigmoid": (jax.nn.sigmoid, (0.0,)),
    "softplus": (jax.nn.softplus, (0.0,)),
}


@needs_cc
def test_gradients_are_those_of_jax():
    """All of the first order, and the second one by the last argument."""
    text = ['module stats = import "futad/stats"']
    for name, (_, args) in DENSITIES.items():
        ps = [f"p{i}" for i in range(len(args))]
        given, of = " ".join([f"({p}: f64)" for p in ps]), " ".join(ps)
        pattern = f"({', '.join(ps)})"
        text.append(f"entry {name} {given} = vjp (\\{pattern} -> stats.{name} {of}) {pattern} 1")
        x = ps[-1]
        text.append(f"entry {name}_2 {given} = jvp (\\{x} -> vjp (\\{x} -> stats.{name} {of}) {x} 1) {x} 1")
    p = program("\n".join(text))
    for name, (f, args) in DENSITIES.items():
        places = tuple(range(len(args)))
        got, want = np.ravel(p[name](*args)), jax.grad(f, argnums=places)(*args)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-12, err_msg=name)
        last = places[-1]
        want = jax.grad(jax.grad(f, argnums=last), argnums=last)(*args)
        np.testing.assert_allclose(p[f"{name}_2"](*args), want, rtol=1e-7, atol=1e-12, err_msg=name)


@needs_cc
@pytest.mark.parametrize("name", library.PROGRAMS)
def test_programs_of_the_benchmark(name):
    made = library.PROGRAMS[name]
    assert made.lines <= library.LINES
    args = made.arguments(True)
    ours = futad.compile(made.text, name, backend="c")[made.entry](*args)
    assert library.difference(ours, made.peer()(*args)) <= made.tolerance


def test_the_benchmark_says_what_is_wrong():
    row = {"program": "hmc", "difference": float("nan"), "lines": 26, "ratio": 0.9}
    assert library.failures(row, True) == ["results differ", "too many lines"]
    assert library.failures(row, False)[-1] == "slower than JAX"
    assert library.difference((np.ones(2), np.zeros(0)), (np.array([1, 0.5]), np.zeros(0))) == 0.5
