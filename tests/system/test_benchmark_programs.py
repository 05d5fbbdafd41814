"""The programs of `benchmarks/programs/` against closed forms, on the C backends and the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from futad.datasets import read_gmm
from reference import closed_forms as cf

import futad
from futad.cli import main
from futad.core.interp import Interpreter
from futad.pipeline import compile_program
from tests.support.benchmark_programs import program
from tests.support.needs import needs_adbench, needs_cc
from tests.support.paths import ADBENCH, BENCHMARK_PROGRAMS, ROOT

REAL = ADBENCH / "gmm" / "1k" / "gmm_d64_K25.txt"

BACKENDS = ["interp", pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc)]

Array = np.ndarray[Any, np.dtype[Any]]


def gmm_args(seed: int, n: int = 40, d: int = 5, k: int = 4) -> tuple[Any, ...]:
    r = np.random.default_rng(seed)
    sizes = [(k,), (k, d), (k, d + d * (d - 1) // 2), (n, d)]
    return (*[0.7 * r.normal(size=s) for s in sizes], 0.8, 3)


def lstm_args(
    seed: int, t: int = 6, b: int = 3, d: int = 4, h: int = 5, o: int = 2, dtype: str = "float64"
) -> tuple[Array, ...]:
    r = np.random.default_rng(seed)
    sizes = [(4, h, d), (4, h, h), (4, h), (o, h), (o,), (b, h), (b, h), (t, b, d), (t, b, o)]
    return tuple((0.5 * r.normal(size=s)).astype(dtype) for s in sizes)


def kmeans_args(seed: int, n: int = 60, d: int = 3, k: int = 5) -> tuple[Array, Array]:
    r = np.random.default_rng(seed)
    return r.normal(size=(n, d)), r.normal(size=(k, d))


def sparse_args(seed: int, n: int = 30, d: int = 8, k: int = 4) -> tuple[tuple[Array, ...], Array]:
    """CSR points (some rows empty) with centroids, and the points as a dense matrix."""
    r = np.random.default_rng(seed)
    dense = np.where(r.random((n, d)) < 0.3, r.normal(size=(n, d)), 0.0)
    dense[3] = 0
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(n + 1)).astype(np.int64)
    return (dense[rows, columns], columns.astype(np.int64), starts, r.normal(size=(k, d))), dense


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-10) -> None:
    """Each result equals the expected one, to `tolerance` of its largest element."""
    if not isinstance(expected, tuple):
        actual, expected = (actual,), (expected,)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        a, e = np.asarray(a), np.asarray(e)
        assert a.shape == e.shape
        np.testing.assert_allclose(a, e, rtol=0, atol=tolerance * max(np.abs(e).max(initial=0), 1e-300))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(40, 5, 4), (3, 1, 2), (1, 2, 1)])
def test_gmm(backend: str, shape: tuple[int, int, int]) -> None:
    args = gmm_args(1, *shape)
    p = program("gmm", backend)
    assert_close(p.objective(*args), cf.gmm_objective(*args))
    assert_close(p.gradient(*args), cf.gmm_gradient(*args))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_gmm_far_points(backend: str) -> None:
    """Clusters whose weight vanishes at a point do not spoil its gradient, nor does a large offset."""
    alphas, means, icf, x, gamma, m = gmm_args(2)
    args = (alphas, 40 * means, icf, 40 * x, gamma, m)
    p = program("gmm", backend)
    assert_close(p.objective(*args), cf.gmm_objective(*args))
    assert_close(p.gradient(*args), cf.gmm_gradient(*args))


@pytest.mark.slow
@needs_cc
@needs_adbench
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_gmm_on_real_data(backend: str) -> None:
    g = read_gmm(REAL)
    args = (g.alphas, g.means, g.icf, g.x, g.gamma, g.m)
    p = program("gmm", backend)
    assert_close(p.objective(*args), cf.gmm_objective(*args))
    assert_close(p.gradient(*args), cf.gmm_gradient(*args))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_gmm_shipped_file(backend: str) -> None:
    g = read_gmm(ROOT / "datasets" / "gmm_n200_d3_K5.txt")
    args = (g.alphas, g.means, g.icf, g.x, g.gamma, g.m)
    p = program("gmm", backend)
    assert_close(p.objective(*args), cf.gmm_objective(*args))
    assert_close(p.gradient(*args), cf.gmm_gradient(*args))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(6, 3, 4, 5, 2), (1, 1, 1, 1, 1), (3, 2, 1, 4, 3)])
def test_lstm_in_f64(backend: str, shape: tuple[int, int, int, int, int]) -> None:
    args = lstm_args(3, *shape)
    p = program("lstm64", backend)
    assert_close(p.objective(*args), cf.lstm_objective(*args))
    assert_close(p.gradient(*args), cf.lstm_gradient(*args))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_lstm(backend: str) -> None:
    """In f32, as written: some dozens of roundings of 6e-8 lie between the inputs and each result."""
    args = lstm_args(4, dtype="float32")
    wide = tuple(a.astype(np.float64) for a in args)
    p = program("lstm", backend)
    objective, gradient = p.objective(*args), p.gradient(*args)
    assert np.asarray(objective).dtype == np.float32 and all(g.dtype == np.float32 for g in gradient)
    assert_close(objective, cf.lstm_objective(*wide), 3e-6)
    assert_close(gradient, cf.lstm_gradient(*wide), 3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(60, 3, 5), (1, 1, 1), (4, 2, 9)])
def test_kmeans(backend: str, shape: tuple[int, int, int]) -> None:
    args = kmeans_args(5, *shape)
    p = program("kmeans", backend)
    gradient, diagonal = cf.kmeans_gradient(*args)
    assert_close(p.objective(*args), cf.kmeans_objective(*args))
    assert_close(p.gradient(*args), gradient)
    assert_close(p.hessian_diagonal(*args), diagonal)
    assert_close(p.newton_step(*args), cf.kmeans_newton_step(*args))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(30, 8, 4), (4, 2, 3)])
def test_kmeans_sparse(backend: str, shape: tuple[int, int, int]) -> None:
    args, dense = sparse_args(6, *shape)
    p = program("kmeans_sparse", backend)
    gradient, diagonal = cf.kmeans_gradient(dense, args[3])
    assert_close(p.objective(*args), cf.kmeans_objective(dense, args[3]))
    assert_close(p.gradient(*args), gradient)
    assert_close(p.hessian_diagonal(*args), diagonal)
    assert_close(p.newton_step(*args), cf.kmeans_newton_step(dense, args[3]))


def sparse_work(n: int, held: int, d: int, k: int) -> dict[str, int]:
    """Operations and elements moved by each entry of the sparse k-means, on n points of d that hold so many numbers:
    the interpreter's counts, after all passes."""
    r = np.random.default_rng(12)
    columns = np.concatenate([r.choice(d, held, replace=False) for _ in range(n)]).astype(np.int64)
    args = (r.random(n * held), columns, np.arange(n + 1, dtype=np.int64) * held, r.random((k, d)))
    p = program("kmeans_sparse", "interp")
    compiled = compile_program(p.newton_step.executable.core, check=True)
    out = {}
    for name in ("objective", "gradient", "newton_step"):
        run = Interpreter(compiled, count=True)
        run.run(p[name].symbol, p[name].signature.flatten(args))
        out[name] = sum(w.ops + w.read + w.written for w in run.counts.values())
    return out


@pytest.mark.slow
def test_sparse_work_grows_with_what_points_hold() -> None:
    """Linear in the nonzeros, and not at all in the width of points but for the centroids."""
    few, more, most = (sparse_work(40, held, 60, 3) for held in (4, 8, 16))
    for name, base in few.items():
        # Equal steps, but for which centroid is nearest (the derivative is that of its distance alone).
        assert most[name] - more[name] == pytest.approx(2 * (more[name] - base), rel=0.02)
    for points in (20, 40):
        narrow, wide = (sparse_work(points, 4, d, 3) for d in (60, 660))
        for name, base in narrow.items():
            # A pass or two over the centroids and over the adjoint of each, however many points there are.
            assert 0 < wide[name] - base <= 600 * 3 * 12
            if points == 20:
                twice = sparse_work(40, 4, 660, 3)[name]
                assert twice - wide[name] == pytest.approx(few[name] - base, rel=0.05)


# program, arguments, those to differentiate by
DOT_PRODUCTS: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("gmm", gmm_args(7), (0, 1, 2, 3)),
    ("lstm64", lstm_args(8), tuple(range(9))),
    ("kmeans", kmeans_args(9), (0, 1)),
    ("kmeans_sparse", sparse_args(10)[0], (0, 3)),
]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS[:2])
@pytest.mark.parametrize("name, args, active", DOT_PRODUCTS, ids=[d[0] for d in DOT_PRODUCTS])
def test_forward_agrees_with_reverse(
    backend: str, name: str, args: tuple[Any, ...], active: tuple[int, ...]
) -> None:
    """<ybar, J xdot> = <J' ybar, xdot>, to rounding of the terms of the sum."""
    r = np.random.default_rng(11)
    f = program(name, backend).objective
    tangents = [r.normal(size=np.shape(a)) if i in active else None for i, a in enumerate(args)]
    y, dy = futad.jvp(f, args, tangents)
    y2, pull = futad.vjp(f, *args, argnums=active)
    adjoints = pull(1.5)
    terms = np.concatenate([(a * tangents[i]).reshape(-1) for a, i in zip(adjoints, active, strict=True)])
    assert y == pytest.approx(y2, rel=1e-14)
    assert abs(1.5 * dy - terms.sum()) <= 1e-12 * np.abs(terms).sum()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(BENCHMARK_PROGRAMS / f"{name}.fut") for name in ("gmm", "lstm", "kmeans", "kmeans_sparse")]
    assert main(["test", *files, "-b", backend]) == 0
    assert capsys.readouterr().out.endswith("13 passed, 0 failed, 0 skipped\n")
