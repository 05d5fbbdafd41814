"""The applications of `benchmarks/memory.py seeds` against SciPy, NumPy and central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import memory_seeds
import numpy as np
import pytest
from scipy import sparse, special

import futad
from futad.ad.inverse.returned import MISSED
from futad.errors import AssertionFailed
from tests.support.benchmark_programs import program
from tests.support.needs import needs_cc
from tests.support.paths import BENCHMARK_PROGRAMS

BACKENDS = ["interp", *[pytest.param(b, marks=[needs_cc, pytest.mark.slow]) for b in ("c", "multicore", "emulated")]]
Array = np.ndarray[Any, np.dtype[Any]]


def close(actual: Any, expected: Any, tolerance: float = 1e-11) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def check_gradients(f: Callable[..., float], args: Sequence[Array], gradients: Sequence[Array]) -> None:
    """Against central differences along random directions, an argument at a time."""
    r = np.random.default_rng(7)
    for k, (x, g) in enumerate(zip(args, gradients, strict=True)):
        v = r.normal(size=x.shape)

        def at(h: float, k: int = k, v: Array = v) -> float:
            return f(*[a + h * v if i == k else a for i, a in enumerate(args)])

        close((g * v).sum(), (at(1e-5) - at(-1e-5)) / 2e-5, 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_bessel(backend: str) -> None:
    p = program("bessel", backend)
    z = np.array([1e-3, 0.5, 1.0, 2.5, 7.0])
    for order in (0, 1, 2, 5):
        close(p.value(order, z), special.jv(order, z), 2e-8)  # terms below 1e-8 are left out
        close(p.gradient(order, z), special.jvp(order, z), 1e-6)
        close(p.second(order, z), special.jvp(order, z, 2), 1e-5)
    assert p.value(2, z[:0]).shape == p.gradient(2, z[:0]).shape == (0,)


@pytest.mark.slow
def test_bessel_keeps_nothing() -> None:
    """Its terms are undone; that changes the derivative by round-off alone."""
    z = np.linspace(0.5, 5, 7)
    undone = futad.load(BENCHMARK_PROGRAMS / "bessel.fut", backend="interp", reversible=True)
    close(undone.gradient(2, z), program("bessel", "interp").gradient(2, z), 1e-12)
    assert "undone iteration by iteration; state (term)" in undone.explain_memory()


def matrix(seed: int, n: int, m: int, values: Callable[[np.random.Generator, int], Array]) -> Any:
    """A sparse matrix by columns, some of them empty."""
    r = np.random.default_rng(seed)
    there = r.random((n, m)) < 0.3
    there[:, 1] = False
    rows, columns = np.nonzero(there)
    found = sparse.csc_array((values(r, rows.size), (rows, columns)), shape=(n, m))
    found.sort_indices()
    return found


def parts(a: Any) -> tuple[Array, Array]:
    return a.indptr.astype(np.int64), a.indices.astype(np.int64)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_dot(backend: str) -> None:
    p = program("sparse_dot", backend)
    a, b = [matrix(k, 9, 6, lambda r, n: r.normal(size=n)) for k in (1, 2)]
    args = (*parts(a), a.data, *parts(b), b.data)
    close(p.value(*args), a.multiply(b).sum())
    # The derivative by an entry is the other matrix's there.
    for got, x, y in zip(p.gradient(*args), (a, b), (b, a), strict=True):
        columns = np.repeat(np.arange(6), np.diff(x.indptr))
        close(got, y.toarray()[x.indices, columns])
    starts, none = np.zeros(7, np.int64), np.zeros(0, np.int64)
    assert p.value(starts, none, np.zeros(0), *args[3:]) == 0
    assert [g.size for g in p.gradient(starts, none, np.zeros(0), *args[3:])] == [0, b.nnz]


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_mul(backend: str) -> None:
    p = program("sparse_mul", backend)
    r = np.random.default_rng(3)
    a = matrix(3, 6, 7, lambda r, n: r.normal(size=n) + 1j * r.normal(size=n)).T  # 7 rows, one of them empty
    x, seed = [r.normal(size=n) + 1j * r.normal(size=n) for n in (6, 7)]

    def real(z: Array) -> Array:
        return np.stack([z.real, z.imag], axis=1)

    args = (*parts(a), real(a.data), real(x))
    close(p.value(*args), real(a @ x))
    rows = np.repeat(np.arange(7), np.diff(a.indptr))
    values_bar, x_bar = p.gradient(*args, real(seed))
    close(values_bar, real(seed[rows] * x[a.indices].conj()))
    close(x_bar, real(a.conj().T @ seed))


def edges() -> set[tuple[int, int]]:
    """The Petersen graph: subsets of two of five, joined where they have none in common."""
    subsets = [{a, b} for b in range(5) for a in range(b)]
    return {(i, j) for j in range(10) for i in range(j) if not subsets[i] & subsets[j]}


def degrees(near: set[tuple[int, int]]) -> list[int]:
    return [sum(v in e for e in near) for v in range(10)]


def cycles(near: set[tuple[int, int]]) -> list[int]:
    """How many closed walks of each length there are: two graphs of this kind with the same ones are the same."""
    a = np.zeros((10, 10), int)
    for i, j in near:
        a[i, j] = a[j, i] = 1
    return [int(np.trace(np.linalg.matrix_power(a, k))) for k in range(1, 11)]


def embedding(places: Array, near: set[tuple[int, int]]) -> float:
    lengths = {(i, j): ((places[i] - places[j]) ** 2).sum() for j in range(10) for i in range(j)}
    one, other = [np.array([s for p, s in lengths.items() if (p in near) is kind]) for kind in (True, False)]
    return one.var() + other.var() + np.exp(max(0, one.mean() - other.mean() + 0.1)) - 1


def ours() -> set[tuple[int, int]]:
    """The graph of the program: two cycles of five and spokes."""
    outer = {tuple(sorted((i, (i + 1) % 5))) for i in range(5)}
    inner = {tuple(sorted((5 + i, 5 + (i + 2) % 5))) for i in range(5)}
    return {(a, b) for a, b in outer | inner | {(i, i + 5) for i in range(5)}}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_graph_embedding(backend: str) -> None:
    assert cycles(ours()) == cycles(edges()) and degrees(ours()) == [3] * 10
    p = program("petersen", backend)
    for d, spread in ((1, 1.0), (3, 1.0), (4, 0.1)):
        x = spread * np.random.default_rng(d).normal(size=(10, d))
        close(p.loss(x), embedding(x, ours()))
        check_gradients(p.loss, [x], [p.gradient(x)])
        v = np.random.default_rng(9).normal(size=x.shape)
        along = (p.gradient(x + 1e-6 * v) - p.gradient(x - 1e-6 * v)) / 2e-6
        close((p.hessian(x) * v).sum((2, 3)), along, 1e-6)
        batch = np.stack([x, 2 * x])
        close(p.losses(batch), [p.loss(x), p.loss(2 * x)])
        close(p.gradients(batch), [p.gradient(x), p.gradient(2 * x)])


@needs_cc
@pytest.mark.slow
def test_least_dimension() -> None:
    """Strongly regular graphs: the eigenspace of eigenvalue 1, of dimension 5, has the edges shorter."""
    found = memory_seeds.least_dimension(program("petersen", "c"), starts=3)
    assert max(found) == 5 and found[5] < 1e-10 and all(found[d] > 1e-4 for d in range(1, 5))


def flow_loss(*args: Array) -> float:
    *weights, a, b = args
    logs = np.zeros(len(a))
    for hidden, hidden_at, scale, scale_at, shift, shift_at in zip(*weights, strict=True):
        units = np.tanh(a @ hidden.T + hidden_at)
        s = np.tanh(units @ scale.T + scale_at)
        a, b = b * np.exp(s) + units @ shift.T + shift_at, a
        logs += s.sum(1)
    return float((0.5 * ((a * a).sum(1) + (b * b).sum(1)) - logs).mean())


@pytest.mark.slow
@pytest.mark.parametrize("reversible", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_normalizing_flow(backend: str, reversible: bool | None) -> None:
    p = futad.load(BENCHMARK_PROGRAMS / "realnvp.fut", backend=backend, reversible=reversible)
    r = np.random.default_rng(4)
    for layers, d, h, n in ((3, 2, 4, 5), (1, 1, 1, 1)):
        shapes = [(h, d), (h,), (d, h), (d,), (d, h), (d,)]
        args = [*[0.5 * r.normal(size=(layers, *s)) for s in shapes], *r.normal(size=(2, n, d))]
        close(p.loss(*args), flow_loss(*args))
        found = p.gradient(*args)
        check_gradients(lambda *w, rest=args[6:]: flow_loss(*w, *rest), args[:6], found)
    if reversible:
        assert "undone iteration by iteration" in p.explain_memory()


def training_loss(rates: Array, decays: Array, w: Array, x: Array, y: Array, held_x: Array, held_y: Array) -> float:
    v = np.zeros_like(w)
    for rate, decay in zip(rates, decays, strict=True):
        slope = x.T @ (special.expit(x @ w) - y) / len(y)
        v = decay * v - (1 - decay) * slope
        w = w + rate * v
    z = held_x @ w
    return float((np.logaddexp(0, z) - held_y * z).mean())


@pytest.mark.slow
@pytest.mark.parametrize("reversible", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_hyperparameters(backend: str, reversible: bool | None) -> None:
    p = futad.load(BENCHMARK_PROGRAMS / "hypersgd.fut", backend=backend, reversible=reversible)
    r = np.random.default_rng(5)
    n, d = 6, 3
    data = (r.normal(size=(n, d)), (r.random(n) < 0.5) * 1.0, r.normal(size=(4, d)), np.array([1.0, 0, 0, 1]))
    for steps in (0, 1, 7):
        hyper = (r.uniform(0.1, 1, steps), r.uniform(0.5, 0.95, steps), r.normal(size=d))
        close(p.loss(*hyper, *data), training_loss(*hyper, *data))
        check_gradients(lambda *h: training_loss(*h, *data), hyper, p.gradient(*hyper, *data))
    if reversible:
        assert "undone iteration by iteration" in p.explain_memory()


@pytest.mark.slow
def test_training_that_cannot_be_undone() -> None:
    """Without momentum the velocity before a step is lost: the gradient is refused, not wrong."""
    p = futad.load(BENCHMARK_PROGRAMS / "hypersgd.fut", backend="interp", reversible=True)
    args = (np.ones(3), np.array([0.5, 0.0, 0.5]), np.ones(2), np.eye(2), np.ones(2), np.eye(2), np.ones(2))
    with pytest.raises(AssertionFailed, match=MISSED):
        p.gradient(*args)
