"""Derivatives of matrix products in many directions at once are matrix products."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.pipeline import compile_program
from futad.source import load_program
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS

TEXT = """
def dot [n] (x: [n]f64) (y: [n]f64): f64 = f64.sum (map2 (*) x y)
def product [n][k][m] (a: [n][k]f64) (b: [k][m]f64): *[n][m]f64 = map (\\row -> map (dot row) (transpose b)) a
entry right [n][k][m][q] (a: [n][k]f64) (b: [k][m]f64) (d: [q][k][m]f64): [q][n][m]f64 = jmp (product a) b d
entry left [n][k][m][q] (a: [n][k]f64) (b: [k][m]f64) (d: [q][n][k]f64): [q][n][m]f64 = jmp (\\a -> product a b) a d
entry skin [n][k][q] (w: [n][k]f64) (p: [n][4]f64) (t: [k][3][4]f64) (d: [q][k][3][4]f64): [q][n][3]f64 =
  jmp (\\t -> map2 (\\row x -> map (dot x) row) (map unflatten (product w (map flatten t))) p) t d
entry apart [n][k][q] (a: [n][k][4]f64) (x: [n][4]f64) (d: [q][n][k][4]f64): [q][n][k]f64 =
  jmp (\\a -> map2 (\\rows x -> map (dot x) rows) a x) a d
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("directions") / "directions.fut"
    file.write_text(TEXT)
    return file


def products(core: Any, name: str) -> int:
    def count(lam: ir.Lambda) -> int:
        here = sum(isinstance(s.exp, ir.MatMul) for s in lam.stms)
        return here + sum(count(inner) for s in lam.stms for inner in s.exp.lambdas())

    return count(core.funs[name].body)


def test_structure(file: Path) -> None:
    """One product each where a factor is the same for all rows; none where there is nothing to share."""
    core = compile_program(load_program(str(file)))
    assert {n: products(core, n) for n in ("right", "skin", "apart")} == {"right": 1, "skin": 1, "apart": 0}


@pytest.mark.slow
def test_hand_tracking() -> None:
    """The blend of the bones' movements, in both branches of both derivatives, and of the values beside them."""
    core = compile_program(load_program(str(PROGRAMS / "hand.fut")))
    assert products(core, "simple_jacobian") == 2


SIZES = [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0), (1, 1, 1, 1), (5, 4, 3, 6)]


@pytest.mark.slow
@pytest.mark.parametrize("n,k,m,q", SIZES)
@pytest.mark.parametrize("backend", ["interp", "c", "multicore"])
def test_answers(file: Path, backend: str, n: int, k: int, m: int, q: int) -> None:
    rng = np.random.default_rng(n)
    p = futad.load(file, backend=backend)
    a, b = rng.standard_normal((n, k)), rng.standard_normal((k, m))
    d, e = rng.standard_normal((q, k, m)), rng.standard_normal((q, n, k))
    near = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(p.right(a, b, d), a @ d, **near)
    np.testing.assert_allclose(p.left(a, b, e), e @ b, **near)
    x, t, s = rng.standard_normal((n, 4)), rng.standard_normal((k, 3, 4)), rng.standard_normal((q, k, 3, 4))
    np.testing.assert_allclose(p.skin(a, x, t, s), np.einsum("nk,qkij,nj->qni", a, s, x), **near)
    y, z = rng.standard_normal((n, k, 4)), rng.standard_normal((q, n, k, 4))
    np.testing.assert_allclose(p.apart(y, x, z), np.einsum("qnkj,nj->qnk", z, x), **near)
