"""What the everyday programs are called with: random arguments, and by which of them the gradient is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator


@dataclass(frozen=True, slots=True)
class Row:
    """`make(random, size)` gives the arguments of `value`, `size` being 1 for what is timed and less for tests;
    `wrt`: the gradient is by the first so many.  `dense`: products and sweeps over arrays in order, for which the share
    of the machine's bound counts."""

    field: str
    wrt: int
    make: Callable[[Generator, float], tuple[Any, ...]]
    dense: bool = False


def _few(count: int, size: float, least: int = 2) -> int:
    return max(least, round(count * size))


def _labels(r: Generator, n: int, c: int) -> Any:
    return r.integers(0, c, n)


def _mixture(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(20_000, size)
    return r.normal(size=4), r.normal(size=(4, 2)), 0.3 * r.normal(size=4), r.normal(size=(n, 2))


def _neural_ode(r: Generator, size: float) -> tuple[Any, ...]:
    d, h = 4, _few(32, size)
    w1, w2 = r.normal(size=(h, d)) / 2, r.normal(size=(d, h)) / h
    return w1, np.zeros(h), w2, np.zeros(d), r.normal(size=d), r.normal(size=d)


def _logistic(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(10_000, size)
    return 0.1 * r.normal(size=50), 0.1, r.normal(size=(n, 50)), r.integers(0, 2, n).astype(np.float64)


def _hmc(r: Generator, size: float) -> tuple[Any, ...]:
    n, d = _few(500, size), 5
    return 0.1 * r.normal(size=d), r.normal(size=d), r.normal(size=(n, d)), r.integers(0, 2, n).astype(np.float64)


def _soft_dtw(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(40, size)
    return r.normal(size=(16, n)), r.normal(size=(16, n))


def _bratu(r: Generator, size: float) -> tuple[Any, ...]:
    return r.normal(size=_few(100_000, size)), 1.5


def _barrier(r: Generator, size: float) -> tuple[Any, ...]:
    return 100.0, 0.25, 0.03, r.normal(size=(_few(100_000, size), 12))


def _deconvolution(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(256, size)
    kernel = np.array([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
    return r.random((n, n)), r.random((n, n)), kernel


def _gaussian_process(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(200, size)
    x = r.normal(size=(n, 3))
    return 1.3, 0.3, x, np.sin(x.sum(axis=1)) + 0.3 * r.normal(size=n)


def _single(*arrays: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(a, np.float32) if np.asarray(a).dtype == np.float64 else a for a in arrays)


def _convolution(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(64, size, 4)
    return _single(0.2 * r.normal(size=(16, 8, 3, 3)), 0.1 * r.normal(size=16), r.normal(size=(8, n, n)))


def _mlp(r: Generator, size: float) -> tuple[Any, ...]:
    n, d, h, c = _few(256, size), _few(784, size), _few(128, size), 10
    weights = 0.05 * r.normal(size=(d, h)), np.zeros(h), 0.1 * r.normal(size=(h, c)), np.zeros(c)
    return _single(*weights, r.random((n, d)), _labels(r, n, c))


def _gru(r: Generator, size: float) -> tuple[Any, ...]:
    h, d, b, t = _few(64, size), _few(32, size), _few(32, size), _few(50, size)
    w = [0.2 * r.normal(size=(h, d)) for _ in range(3)]
    u = [0.1 * r.normal(size=(h, h)) for _ in range(3)]
    return _single(*w, *u, r.normal(size=(b, t, d)), r.normal(size=(b, h)))


def _transformer(r: Generator, size: float) -> tuple[Any, ...]:
    n, d, h = _few(128, size), _few(64, size), _few(256, size)
    square = [r.normal(size=(d, d)) / d**0.5 for _ in range(3)]
    return _single(*square, r.normal(size=(d, h)) / d**0.5, r.normal(size=(h, d)) / h**0.5, r.normal(size=(n, d)))


def _kmeans(r: Generator, size: float) -> tuple[Any, ...]:
    return r.normal(size=(16, 8)), r.normal(size=(_few(10_000, size), 8))


def _factorisation(r: Generator, size: float) -> tuple[Any, ...]:
    u, m, n = _few(2000, size), _few(1000, size), _few(100_000, size)
    factors = 0.3 * r.normal(size=(u, 16)), 0.3 * r.normal(size=(m, 16))
    return *factors, _labels(r, n, u), _labels(r, n, m), r.normal(size=n)


def _hmm(r: Generator, size: float) -> tuple[Any, ...]:
    s, o, t = _few(32, size), 20, _few(1000, size)
    return r.normal(size=s), r.normal(size=(s, s)), r.normal(size=(s, o)), _labels(r, t, o)


def _kalman(r: Generator, size: float) -> tuple[Any, ...]:
    return 0.1, 0.5, np.cumsum(r.normal(size=(_few(500, size), 2)), axis=0)


def _nbody(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(1000, size)
    return r.normal(size=(n, 3)), r.random(n)


def _lotka_volterra(r: Generator, size: float) -> tuple[Any, ...]:
    return np.array([1.1, 0.4, 0.1, 0.4]), np.array([10.0, 5.0]), 5 + r.random((_few(100, size), 2))


def _heat(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(64, size)
    return r.random((n, n)), r.random((n, n)), r.random((n, n))


def _black_scholes(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(100_000, size)
    return 80 + 40 * r.random(n), 0.1 + 0.3 * r.random(n), 0.03, np.full(n, 100.0), 0.1 + 2 * r.random(n)


def _conjugate_gradients(r: Generator, size: float) -> tuple[Any, ...]:
    n = max(10, _few(64, size))
    return r.normal(size=(n, n)), 0.5


def _cox(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(10_000, size)
    return 0.1 * r.normal(size=20), r.normal(size=(n, 20)), r.integers(0, 2, n).astype(np.float64)


def _graph_network(r: Generator, size: float) -> tuple[Any, ...]:
    n, e, d, h, c = _few(5000, size), _few(50_000, size), 32, 16, 7
    weights = 0.3 * r.normal(size=(d, h)), 0.3 * r.normal(size=(h, c))
    return _single(*weights, r.normal(size=(n, d)), _labels(r, e, n), _labels(r, e, n), _labels(r, n, c))


def _vae(r: Generator, size: float) -> tuple[Any, ...]:
    n, d, h, z = _few(256, size), _few(196, size), _few(64, size), 8
    shapes = (d, h), h, (h, z), z, (h, z), z, (z, h), h, (h, d), d
    return _single(*[0.1 * r.normal(size=s) for s in shapes], r.random((n, d)), r.normal(size=(n, z)))


def _sinkhorn(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(100, size)
    return r.normal(size=(n, 2)), r.normal(size=(n, 2))


def _trimmed(r: Generator, size: float) -> tuple[Any, ...]:
    return r.normal(size=_few(1_000_000, size, 8)), 1.1


def _recursive_filter(r: Generator, size: float) -> tuple[Any, ...]:
    n = _few(100_000, size)
    return np.array([0.3, 0.2, -0.9, 0.3]), r.normal(size=n), r.normal(size=n)


def _rosenbrock(r: Generator, size: float) -> tuple[Any, ...]:
    return (r.normal(size=_few(100_000, size)),)


def _bundle(r: Generator, size: float) -> tuple[Any, ...]:
    c, p, m = _few(50, size), _few(5000, size), _few(30_000, size)
    cameras = np.concatenate([0.3 * r.normal(size=(c, 3)), r.normal(size=(c, 3)) + [0, 0, 8]], axis=1)
    return cameras, r.normal(size=(p, 3)), _labels(r, m, c), _labels(r, m, p), 0.1 * r.normal(size=(m, 2))


ROWS: dict[str, Row] = {
    "mixture": Row("statistics", 3, _mixture),
    "neural_ode": Row("machine learning", 4, _neural_ode),
    "logistic": Row("statistics", 2, _logistic, dense=True),
    "hmc": Row("statistics", 2, _hmc),
    "soft_dtw": Row("time series", 2, _soft_dtw),
    "bratu": Row("differential equations", 2, _bratu, dense=True),
    "barrier": Row("finance", 3, _barrier),
    "deconvolution": Row("imaging", 1, _deconvolution, dense=True),
    "gaussian_process": Row("statistics", 2, _gaussian_process),
    "convolution": Row("machine learning", 2, _convolution, dense=True),
    "mlp": Row("machine learning", 4, _mlp, dense=True),
    "gru": Row("machine learning", 6, _gru),
    "transformer": Row("machine learning", 5, _transformer, dense=True),
    "kmeans": Row("clustering", 1, _kmeans, dense=True),
    "factorisation": Row("recommendation", 2, _factorisation),
    "hmm": Row("time series", 3, _hmm),
    "kalman": Row("control", 2, _kalman),
    "nbody": Row("physics", 2, _nbody, dense=True),
    "lotka_volterra": Row("biology", 2, _lotka_volterra),
    "heat": Row("differential equations", 2, _heat, dense=True),
    "black_scholes": Row("finance", 3, _black_scholes, dense=True),
    "conjugate_gradients": Row("linear algebra", 2, _conjugate_gradients),
    "cox": Row("medicine", 1, _cox),
    "graph_network": Row("machine learning", 2, _graph_network),
    "vae": Row("machine learning", 10, _vae, dense=True),
    "sinkhorn": Row("optimal transport", 2, _sinkhorn),
    "trimmed": Row("statistics", 2, _trimmed),
    "recursive_filter": Row("signals", 1, _recursive_filter),
    "rosenbrock": Row("optimisation", 1, _rosenbrock, dense=True),
    "bundle": Row("vision", 2, _bundle),
}


def arguments(name: str, size: float = 1.0) -> tuple[Any, ...]:
    """The arguments of a row's `value`, the same in every call."""
    return ROWS[name].make(np.random.default_rng([*name.encode()]), size)
