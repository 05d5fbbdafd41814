"""Grids whose first and last rows have a neighbour less: which row is read is decided before the row's iterations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import futad
from futad import checks
from futad.backend.c import CBackend
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import MULTICORE, C

TARGETS = [C, replace(MULTICORE, threads=2)]
HELD = """
def f [n][m] (u: [n][m]f64) (k: [n][m]f64): [n][m]f64 =
  tabulate_2d n m (\\i j ->
    let at a b = if a < 0 || a >= n || b < 0 || b >= m then u[i, j] else u[a, b]
    in u[i, j] + k[i, j] * (at (i - 1) j - 2 * at (i + 2) j + 3 * at i (j - 1) - 4 * at i (j + 1)))
entry value [n][m] (u: [n][m]f64) (k: [n][m]f64): [n][m]f64 = f u k
entry back [n][m] (u: [n][m]f64) (k: [n][m]f64): [n][m]f64 = vjp (\\u -> f u k) u k
"""
# Rows of two arrays; the other way round; where something is stored before; by what is in the row.
OTHERS = {
    "two arrays": "u[i, j] * k[i, j] + (if i == 0 then k[i, j] else u[i - 1, j])",
    "backwards": "if i > 1 then u[i, m - 1 - j] else u[i, j]",
    "columns": "if i == 1 then u[i, j] else k[i, i64.max 0 (j - 1)]",
    "one side computes": "if i == 1 then u[i, j] else 2 * u[i64.max 0 (i - 1), j]",
    "by an element": "if k[i, 0] > 0 then u[i, j] else u[n - 1 - i, j]",
    "three rows": "if i == 0 then u[i, j] else if i == 1 then u[i - 1, j] else u[i - 2, j]",
}
SHAPES = ((1, 1), (2, 3), (3, 40), (7, 64), (5, 131))


def held(u: np.ndarray, k: np.ndarray) -> np.ndarray:
    n, m = u.shape
    out = u.copy()
    for i in range(n):
        for j in range(m):
            for w, a, b in ((1, i - 1, j), (-2, i + 2, j), (3, i, j - 1), (-4, i, j + 1)):
                out[i, j] += k[i, j] * w * (u[a, b] if 0 <= a < n and 0 <= b < m else u[i, j])
    return out


@pytest.mark.parametrize("target", TARGETS, ids=["c", "multicore"])
def test_it_fires_and_rows_need_no_masks(target) -> None:
    with counting() as counts:
        source = CBackend(compile_program(compile_text(HELD), target=target), target).source
    value = source[source.index("int64_t futad_entry_value(struct futad_context") :]
    assert counts["rows-chosen"] and counts["index-set-splitting"]
    assert "? u_" in value, "the columns have masks still"


@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("shape", SHAPES)
def test_held_borders(backend: str, shape: tuple[int, int]) -> None:
    made = futad.compile(HELD, backend=backend)
    u, k = np.random.default_rng(shape[1]).normal(size=(2, *shape))
    np.testing.assert_allclose(made.value(u, k), held(u, k), rtol=1e-12, atol=1e-12)
    seed = np.asarray(made.back(u, k))  # the transposed of a linear map, by inner products
    v = np.random.default_rng(1).normal(size=shape)
    np.testing.assert_allclose((seed * v).sum(), (k * held(v, k)).sum(), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_branches(name: str) -> None:
    text = f"entry main [n][m] (u: [n][m]f64) (k: [n][m]f64): [n][m]f64 = tabulate_2d n m (\\i j -> {OTHERS[name]})"
    made = [futad.compile(text, backend=b).main for b in ("interp", "c", "multicore")]
    for shape in SHAPES:
        u, k = np.random.default_rng(shape[0]).integers(-3, 4, (2, *shape)).astype(float)  # sums are exact
        expected, *got = [np.asarray(f(u, k)) for f in made]
        for one in got:
            np.testing.assert_array_equal(one, expected)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=["c", "multicore"])
@pytest.mark.parametrize("check", [checks.MEMORY, checks.LANES])
def test_checked(target, check: str) -> None:
    program = compile_program(compile_text(HELD), target=target)
    u, k = np.random.default_rng(5).integers(-3, 4, (2, 6, 100)).astype(float)  # sums are exact
    for name in ("value", "back"):
        (got,) = CBackend(program, target, carries=frozenset({check})).run(name, [6, 100, u, k])
        (right,) = CBackend(program, target).run(name, [6, 100, u, k])
        np.testing.assert_array_equal(got, right)
