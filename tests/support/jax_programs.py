"""Random functions of JAX of two matrices, a vector and a number, with one number as result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array = Any
N, M = 4, 3


@jax.custom_jvp
def soft(x: Array) -> Array:
    return jnp.logaddexp(x, 0.0)


soft.defjvp(lambda xs, ts: (soft(xs[0]), jax.nn.sigmoid(xs[0]) * ts[0]))

UNARY: list[Callable[[Array], Array]] = [
    jnp.sin, jnp.cos, jnp.tanh, jax.nn.sigmoid, jnp.arctan, jnp.abs, soft, jnp.negative, jax.nn.softplus, jax.nn.gelu,
    lambda x: x**2, lambda x: x**3, lambda x: jnp.exp(-x * x), lambda x: jnp.log1p(x * x), lambda x: 1 / (1 + x * x),
    lambda x: jnp.sqrt(1 + x * x), lambda x: jnp.maximum(x, 0.3), lambda x: jnp.clip(x, -1.1, 0.7), jax.nn.relu,
    lambda x: jnp.where(x > 0.2, x * x, 0.5 * x), jax.scipy.special.erf, lambda x: lax.stop_gradient(x) * x,
    jax.checkpoint(lambda x: jnp.sin(jnp.exp(-x * x))), lambda x: lax.rsqrt(1.5 + jnp.abs(x)), jnp.floor,
    lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y * 0.5, x), lambda x: x % 1.7, jnp.square,
]  # fmt: skip
BINARY: list[Callable[[Array, Array], Array]] = [
    jnp.add, jnp.subtract, jnp.multiply, lambda x, y: x / (2 + y * y), jnp.maximum, jnp.minimum, jnp.logaddexp,
    lambda x, y: jnp.where(x < y, x, y * y), lambda x, y: jnp.arctan2(x, 2 + y * y), lambda x, y: jnp.hypot(x, 1 + y),
    lambda x, y: (1.5 + jnp.tanh(x)) ** y, lambda x, y: lax.select(*jnp.broadcast_arrays(x > y, x * y, y)),
]  # fmt: skip


def loops(x: Array) -> Array:
    def step(carry: Array, row: Array) -> tuple[Array, Array]:
        new = jnp.tanh(carry * 0.5 + row)
        return new, new * row

    last, rows = lax.scan(step, jnp.zeros(x.shape[1:]), x)
    return rows + last


def rounds(x: Array) -> Array:
    return lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) + 0.1 * i * x, x)


def newton(x: Array) -> Array:
    """A loop that ends by its values, reversed by JAX as scan with a fixed number of iterations would be."""
    y, _ = lax.scan(lambda y, _: (y - (y**3 - 1 - x * x) / (3 * y**2), None), 1 + x * x / 3, None, length=4)
    return y


MATRIX: list[Callable[[Array], Array]] = [
    lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::2], lambda x: x[1:], lambda x: jnp.roll(x, 1, axis=0),
    lambda x: jnp.cumsum(x, axis=0), lambda x: jnp.cumsum(x, axis=1)[:, ::-1], lambda x: jnp.sort(x, axis=0),
    lambda x: x[jnp.array([1, 0, 1])], lambda x: x.at[1].add(x[0]), lambda x: x.at[:, 0].set(0.5),
    lambda x: x.at[jnp.array([0, 1, 0])].add(0.3 * x[1]), lambda x: x.at[0].multiply(x[1]), loops, rounds, newton,
    lambda x: jnp.concatenate([x, x * x]), lambda x: jnp.stack([x[0], x[1], x[0] * x[1]]), lambda x: jnp.pad(x, 1),
    lambda x: x @ x.T, lambda x: jax.nn.softmax(x, axis=1), lambda x: x - x.mean(axis=0), lambda x: x.reshape(-1, 1),
    lambda x: jax.vmap(lambda r: jnp.sin(r) * r.sum())(x), lambda x: jnp.take_along_axis(x, jnp.argsort(x, 0), 0),
    lambda x: jnp.einsum("ij,kj->ik", x, jnp.cos(x)), lambda x: jnp.cumprod(1 + 0.1 * jnp.tanh(x), axis=0),
    lambda x: jax.ops.segment_sum(x, jnp.arange(len(x)) % 2, 2), lambda x: lax.dynamic_slice(x, (1, 0), (1, 2)),
    lambda x: jnp.linalg.solve(x.T @ x + 3 * jnp.eye(x.shape[1]), x.T), lambda x: jnp.repeat(x, 2, axis=1),
    lambda x: jnp.linalg.cholesky(x @ x.T + 3 * jnp.eye(len(x))), lambda x: jnp.triu(x), lambda x: jnp.tile(x, (2, 1)),
    lambda x: jax.jacfwd(lambda t: jnp.sin(t * x))(0.3), lambda x: jax.grad(lambda y: (jnp.sin(y) * y).sum())(x),
]  # fmt: skip
FOLDS: list[Callable[[Array], Array]] = [
    lambda x: x.sum(axis=0), lambda x: x.mean(axis=1), lambda x: x.max(axis=0), lambda x: x.min(axis=1),
    lambda x: jnp.prod(1 + 0.2 * jnp.tanh(x), axis=0), lambda x: jax.scipy.special.logsumexp(x, axis=1),
    lambda x: x.var(axis=0), lambda x: jnp.diagonal(x), lambda x: x.ravel()[:3], lambda x: x[jnp.argmax(x[:, 0])],
    lambda x: jnp.linalg.norm(1 + x * x, axis=1), lambda x: x @ jnp.arange(1.0, 1 + x.shape[1]),
]  # fmt: skip


def random_program(seed: int, length: int = 10) -> Callable[..., Array]:
    """A function of `arguments`; operations whose operands do not fit are left out, by their shapes alone."""

    def f(a: Array, b: Array, v: Array, s: Array) -> Array:
        r = np.random.default_rng(seed)
        pool: list[Array] = [a, b, v, s]
        for _ in range(length):
            kind, x, y = r.integers(4), pool[r.integers(len(pool))], pool[r.integers(len(pool))]
            choice = int(r.integers(1 << 30))
            if kind == 1 and jnp.ndim(x) == 2 and min(x.shape) > 1:
                made = MATRIX[choice % len(MATRIX)](x)
            elif kind == 2 and jnp.ndim(x) == 2 and min(x.shape) > 1:
                made = FOLDS[choice % len(FOLDS)](x)
            elif kind == 3 and fits(x, y):
                made = BINARY[choice % len(BINARY)](x, y)
            else:
                made = UNARY[choice % len(UNARY)](x)
            pool.append(jnp.tanh(made) if r.random() < 0.3 else made)
            if made.size > 200:
                pool[-1] = made.ravel()[:7]
        return sum(jnp.mean(jnp.sin(x)) for x in pool[4:])

    f.__name__ = f"random{seed}"
    return f


def fits(x: Array, y: Array) -> bool:
    try:
        np.broadcast_shapes(jnp.shape(x), jnp.shape(y))
    except ValueError:
        return False
    return True


def arguments(seed: int) -> tuple[Any, ...]:
    r = np.random.default_rng([seed, 1])
    return r.normal(size=(N, M)), r.normal(size=(N, M)), r.normal(size=M), r.normal()
