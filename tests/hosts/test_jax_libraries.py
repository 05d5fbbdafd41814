"""Entries in programs that use libraries on top of JAX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import futad
from futad.api.program import Program

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import futad.jax  # noqa: E402

SOURCE = """
type params [n] = {w: [n]f64, b: f64}
entry residuals [m][n] (p: params [n]) (x: [m][n]f64) (y: [m]f64): [m]f64 =
  map2 (\\r y -> f64.tanh (f64.sum (map2 (*) r p.w) + p.b) - y) x y
entry loss [m][n] (p: params [n]) (x: [m][n]f64) (y: [m]f64): f64 =
  f64.sum (map (** 2) (residuals p x y)) / f64.i64 m
entry logp [m] (mu: f64) (log_s: f64) (y: [m]f64): f64 =
  let s = f64.exp log_s
  in - mu * mu / 200 - log_s * log_s / 2 - f64.sum (map (\\y -> (y - mu) ** 2 / (2 * s * s) + log_s) y)
"""


@pytest.fixture(scope="module", autouse=True)
def wide() -> Iterator[None]:
    """64-bit types, for these tests alone."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def prog() -> Program:
    return futad.compile(SOURCE, "fit.fut", backend="c")


def data() -> tuple[Any, Any, Any]:
    """Points, the true parameters, and what they give."""
    rng = np.random.default_rng(0)
    x, w = jnp.asarray(rng.normal(size=(40, 3))), jnp.array([0.5, -1.0, 0.25])
    return x, {"w": w, "b": jnp.asarray(0.3)}, jnp.tanh(x @ w + 0.3)


def plain_loss(p: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ p["w"] + p["b"]) - y) ** 2)


def test_optax(prog: Program) -> None:
    optax = pytest.importorskip("optax")
    x, truth, y = data()
    optimiser = optax.adam(0.05)

    def steps(loss: Any) -> Any:
        @jax.jit
        def step(state: Any, _: Any) -> Any:
            p, inner = state
            value, bar = jax.value_and_grad(loss)(p, x, y)
            moved, inner = optimiser.update(bar, inner, p)
            return (optax.apply_updates(p, moved), inner), value

        start = jax.tree.map(jnp.zeros_like, truth)
        (p, _), values = jax.lax.scan(step, (start, optimiser.init(start)), None, length=200)
        return p, values

    mine, values = steps(futad.jax.function(prog.loss))
    theirs, expected = steps(plain_loss)
    np.testing.assert_allclose(values, expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(mine["w"], theirs["w"], rtol=1e-6)
    assert values[-1] < 1e-3 * values[0]


@pytest.mark.slow
def test_optimistix(prog: Program) -> None:
    optimistix = pytest.importorskip("optimistix")
    residuals, (x, truth, y) = futad.jax.function(prog.residuals), data()
    start = jax.tree.map(jnp.zeros_like, truth)
    for solver in (optimistix.LevenbergMarquardt(1e-10, 1e-10), optimistix.GaussNewton(1e-10, 1e-10)):
        found = optimistix.least_squares(lambda p, _: residuals(p, x, y), solver, start).value
        np.testing.assert_allclose(found["w"], truth["w"], rtol=1e-7)
    bfgs = optimistix.BFGS(1e-9, 1e-9)
    best = optimistix.minimise(lambda p, _: futad.jax.function(prog.loss)(p, x, y), bfgs, start).value
    np.testing.assert_allclose(best["b"], truth["b"], rtol=1e-4)


def sample() -> Any:
    return jnp.asarray(np.random.default_rng(1).normal(2.0, 0.5, size=100))


@pytest.mark.slow
def test_blackjax(prog: Program) -> None:
    blackjax = pytest.importorskip("blackjax")
    y = sample()

    def chain(logp: Any) -> Any:
        nuts = blackjax.nuts(lambda p: logp(p["mu"], p["log_s"]), 0.05, jnp.ones(2))

        def one(state: Any, key: Any) -> Any:
            state, _ = nuts.step(key, state)
            return state, state.position

        start = nuts.init({"mu": jnp.asarray(1.0), "log_s": jnp.asarray(0.0)})
        return jax.jit(lambda keys: jax.lax.scan(one, start, keys)[1])(jax.random.split(jax.random.key(0), 150))

    made = chain(lambda mu, s: futad.jax.function(prog.logp)(mu, s, y))
    assert abs(made["mu"][50:].mean() - y.mean()) < 0.05 and abs(jnp.exp(made["log_s"][50:]).mean() - y.std()) < 0.06
    plain = chain(lambda mu, s: -mu * mu / 200 - s * s / 2 - jnp.sum((y - mu) ** 2 / (2 * jnp.exp(2 * s)) + s))
    np.testing.assert_allclose(made["mu"][:5], plain["mu"][:5], rtol=1e-9)  # later ones differ by rounding


@pytest.mark.slow
def test_numpyro(prog: Program) -> None:
    numpyro = pytest.importorskip("numpyro")
    distributions, infer = pytest.importorskip("numpyro.distributions"), pytest.importorskip("numpyro.infer")
    y, logp = sample(), futad.jax.function(prog.logp)

    def model() -> None:
        mu = numpyro.sample("mu", distributions.ImproperUniform(distributions.constraints.real, (), ()))
        log_s = numpyro.sample("log_s", distributions.Normal(0, 10))
        numpyro.factor("points", logp(mu, log_s, y))

    mcmc = infer.MCMC(infer.NUTS(model), num_warmup=150, num_samples=150, progress_bar=False)
    mcmc.run(jax.random.key(0))
    made = mcmc.get_samples()
    assert abs(made["mu"].mean() - y.mean()) < 0.05 and abs(jnp.exp(made["log_s"]).mean() - y.std()) < 0.06
