"""Rows that are zero but at one place, made where they are read: values on every backend, and derivatives."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from futad import strategies
from futad.core import ir
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import INTERP
from tests.support.needs import needs_cc, needs_cxx
from tests.support.paths import ROOT

FILE = ROOT / "tests" / "legality" / "hotrows.fut"
ENTRIES = (
    "product", "entropy", "weighted", "twice", "inner", "kept", "columns", "beside", "changed", "batch", "clusters",
    "adjoints",
)  # fmt: skip
SIZES = ((5, 3, 2), (1, 1, 1), (0, 3, 2), (4, 0, 2), (17, 40, 3), (3, 5, 0))


def arguments(name: str, n: int, m: int, d: int) -> list[Any]:
    rng = np.random.default_rng(100 * n + 10 * m + d)
    classes = rng.integers(-1, m + 1, size=n)  # two of them are none
    if name in ("clusters", "adjoints"):
        return [rng.normal(size=(n, d)), rng.normal(size=(m, d))]
    return [classes, rng.normal(size=(m, d) if name == "product" else (n, m))]


@cache
def programs(backend: str) -> futad.Program:
    return futad.load(FILE, backend=backend)


@cache
def made(with_rule: bool) -> ir.Program:
    schedule = strategies.default() if with_rule else strategies.default().without("one-hot")
    return compile_program(compile_text(FILE.read_text()), target=INTERP, stop_after="matmul", schedule=schedule)


def same(got: Any, want: Any, tolerance: float) -> None:
    for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def by_numpy(name: str, a: Any, b: Any) -> Any:
    """What entries give, by NumPy."""
    if name in ("clusters", "adjoints"):
        distances = (b * b).sum(1) - 2 * a @ b.T
        if name == "clusters":
            return distances.min(1, initial=np.inf).sum()
        k = distances.argmin(1)
        hot = np.eye(len(b))[k]
        return -2 * hot @ b, 2 * hot.sum(0)[:, None] * b - 2 * hot.T @ a
    m = len(b) if name == "product" else b.shape[1]
    hot = 1.5 * (a[:, None] == np.arange(m))
    match name:
        case "product":
            return hot @ b
        case "entropy":
            logs = b - np.log(np.exp(b).sum(1, keepdims=True))
            return -((hot / 1.5) * logs).sum()
        case "weighted":
            return np.sin(hot * b.sum(1, keepdims=True) + b).sum(1)
        case "twice":
            return (hot * b).sum(1), hot + b
        case "inner":
            return hot * b + hot[:, :1]
        case "kept":
            return hot * b, hot
        case "columns":
            return hot.sum(0), (hot * b).sum(1)
        case "beside":
            return (hot * hot).sum(1)
        case "changed":
            first = hot.copy()
            first[:, 0] = b[:, 0]
            return np.cumsum(first, axis=1).sum(1), (hot * b).sum(1)
    assert name == "batch"
    return np.stack([((a[:, None] + k == np.arange(m)) * 1.5 * b).sum(1) for k in range(3)])


@pytest.mark.parametrize("name", ENTRIES)
def test_values(name: str) -> None:
    for size in SIZES:
        if size[1] == 0 and name in ("inner", "changed", "adjoints", "entropy"):
            continue
        args = arguments(name, *size)
        same(programs("interp")[name](*args), by_numpy(name, *args), 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize(
    "backend", [pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
                pytest.param("emulated", marks=needs_cxx)],
)  # fmt: skip
def test_backends(name: str, backend: str) -> None:
    for size in SIZES:
        if size[1] == 0 and name in ("inner", "changed", "adjoints", "entropy"):
            continue
        args = arguments(name, *size)
        same(programs(backend)[name](*args), programs("interp")[name](*args), 1e-12)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("name", [n for n in ENTRIES if n not in ("adjoints", "kept", "twice", "columns", "changed")])
def test_derivatives(name: str) -> None:
    """By differences, and as the transpose of the forward derivative."""
    args = arguments(name, 5, 3, 2)
    f = programs("c")[name]
    rng = np.random.default_rng(1)
    x_dot, y = rng.normal(size=args[1].shape), np.asarray(f(*args))
    y_bar = rng.normal(size=y.shape)
    h = 1e-6
    up, down = (np.asarray(f(args[0], args[1] + t * x_dot)) for t in (h, -h))
    _, y_dot = futad.jvp(f, args, (None, x_dot))
    np.testing.assert_allclose(y_dot, (up - down) / (2 * h), rtol=1e-6, atol=1e-6)
    x_bar = np.asarray(f.derivative("vjp", 1)(*args, y_bar))
    np.testing.assert_allclose((y_bar * y_dot).sum(), (x_bar * x_dot).sum(), rtol=1e-10)


def test_infinite_factors_count_where_they_are_not_left_out() -> None:
    """Of a product that is no derivative's, zero times infinity is NaN."""
    w = np.array([[np.inf, 1.0], [2.0, 3.0]])
    got = programs("interp")["twice"](np.array([1, 0]), w)[0]
    assert np.isnan(got[0]) and got[1] == 3.0


# Matrices of rows that compare an index, and nothing else.  A product whose other factor may be infinite stays one.
READS = {"product": 1, "entropy": 0, "twice": 0, "inner": 0, "batch": 0, "adjoints": 0, "kept": 1, "columns": 1}


@pytest.mark.parametrize("name", READS)
def test_no_matrix_is_made_where_rows_are_read(name: str) -> None:
    def matrices(with_rule: bool) -> int:
        body = made(with_rule).funs[name].body
        found = 0
        for s in ir.statements(body.stms):
            if isinstance(s.exp, ir.Map):
                rows = {t.pat[0]: t.exp for t in s.exp.lam.stms if len(t.pat) == 1}
                results = [rows.get(r) for r in s.exp.lam.result]
                found += sum(isinstance(x, ir.Map) and len(x.arrays) == 1 and compares(x.lam) for x in results)
        return found

    assert matrices(True) == READS[name]
    assert matrices(False) >= 1


def compares(lam: ir.Lambda) -> bool:
    return any(type(s.exp) is ir.Op and s.exp.op == "eq" for s in lam.stms)
