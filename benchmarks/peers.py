"""The objectives of some cases for JAX, whose derivatives are its own."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

Call = Callable[[], Any]


def jax_calls(program: str, args: tuple[Any, ...]) -> tuple[Call, Call] | None:
    """The compiled objective and gradient on `args`; None without JAX or without a version for it."""
    if find_spec("jax") is None or program not in ("gmm", "llsq", "lse"):
        return None
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jnp, logsumexp = jax.numpy, jax.scipy.special.logsumexp

    if program == "gmm":
        alphas, means, icf, x, gamma, m = args
        (n, d), k = x.shape, len(alphas)
        column, row = np.triu_indices(d, 1)

        def objective(alphas: Any, means: Any, icf: Any) -> Any:
            diagonal, log_det = jnp.exp(icf[:, :d]), icf[:, :d].sum(axis=1)
            q = jnp.zeros((k, d, d)).at[:, row, column].set(icf[:, d:])
            q = q + jax.vmap(jnp.diag)(diagonal)
            y = jnp.einsum("kij,knj->kni", q, x[None] - means[:, None])
            main = alphas[:, None] + log_det[:, None] - 0.5 * (y * y).sum(axis=2)
            dof = d + m + 1
            lgammas = jax.scipy.special.gammaln(0.5 * (dof - jnp.arange(d))).sum()
            log_gamma_d = 0.25 * d * (d - 1) * jnp.log(jnp.pi) + lgammas
            constant = k * (dof * d * (jnp.log(gamma) - 0.5 * jnp.log(2.0)) - log_gamma_d)
            prior = constant - 0.5 * gamma**2 * (q * q).sum() + m * log_det.sum()
            likelihood = logsumexp(main, axis=0).sum() - n * logsumexp(alphas)
            return likelihood - 0.5 * n * d * jnp.log(2 * jnp.pi) + prior

        wanted: tuple[Any, ...] = (alphas, means, icf)
    elif program == "llsq":
        x, n = args
        t = np.linspace(-1, 1, n)

        def objective(x: Any) -> Any:
            return 0.5 * ((jnp.sign(t) - jnp.polyval(x[::-1], t)) ** 2).sum()

        wanted = (x,)
    else:
        objective, wanted = logsumexp, args

    inputs = [jnp.asarray(a) for a in wanted]
    which = 0 if len(inputs) == 1 else tuple(range(len(inputs)))
    value, gradient = jax.jit(objective), jax.jit(jax.grad(objective, argnums=which))
    return lambda: jax.block_until_ready(value(*inputs)), lambda: jax.block_until_ready(gradient(*inputs))
