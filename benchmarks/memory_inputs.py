"""Inputs of the applications that `memory.py` and the device suite measure: arguments of each program's objective."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def generator() -> np.random.Generator:
    return np.random.default_rng(1)


def springs(iterations: int, n: int) -> tuple[Any, ...]:
    """leapfrog: iterations, step, stiffness, positions and momenta of n springs."""
    rng = generator()
    return iterations, 0.01, rng.uniform(0.5, 2.0, n), rng.normal(size=n), rng.normal(size=n)


def rotated(length: int, n: int) -> tuple[Any, ...]:
    """adaptive: l, phi, and a vector of norm 1."""
    x = generator().normal(size=n)
    return length, 3.0, x / np.linalg.norm(x)


def sparse(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Starts and indices of the rows of an n x n matrix of density 0.05."""
    there = rng.random((n, n)) < 0.05
    starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return starts.astype(np.int64), np.nonzero(there)[1].astype(np.int64)


def sparse_dot(n: int) -> tuple[Any, ...]:
    rng = generator()
    return tuple([a for _ in range(2) for s, i in [sparse(rng, n)] for a in (s, i, rng.normal(size=i.size))])


def sparse_mul(n: int) -> tuple[Any, ...]:
    rng = generator()
    starts, columns = sparse(rng, n)
    return starts, columns, rng.normal(size=(columns.size, 2)), rng.normal(size=(n, 2))


def embeddings(count: int, dimensions: int) -> tuple[Array]:
    """petersen: places of the ten vertices, many times."""
    return (generator().normal(size=(count, 10, dimensions)),)


def flow(layers: int, points: int) -> tuple[Any, ...]:
    """realnvp: weights, and points in 16 dimensions by halves."""
    rng = generator()
    d, h = 8, 32
    shapes = [(h, d), (h,), (d, h), (d,), (d, h), (d,)]
    return *[0.1 * rng.normal(size=(layers, *s)) for s in shapes], *rng.normal(size=(2, points, d))


def training(steps: int, points: int, d: int) -> tuple[Any, ...]:
    """hypersgd: rates, decays, weights, and twice as many points, with labels, in d dimensions."""
    rng = generator()
    x, held = rng.normal(size=(2, points, d))
    y, held_y = (rng.random((2, points)) < 0.5).astype(float)
    return np.full(steps, 0.1), np.full(steps, 0.9), 0.1 * rng.normal(size=d), x, y, held, held_y
