"""Loops whose iterations are independent are maps, and nests of loops change places for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.types import shape_of
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from futad.target import INTERP, C
from futad.testing.build import common
from tests.support.slow import slow_but

CHOLESKY = """
-- Row by row with a branch, the diagonal after its row, column by column, the upper factor, the element by a branch.
entry branch [n] (a: [n][n]f64): [n][n]f64 =
  loop l = replicate n (replicate n 0) for i < n do
    loop l for j < i + 1 do
      let s = f64.sum (map2 (*) l[i, :j] l[j, :j])
      in if i == j then l with [i, j] = f64.sqrt (a[i, i] - s) else l with [i, j] = (a[i, j] - s) / l[j, j]
entry after [n] (a: [n][n]f64): [n][n]f64 =
  loop l = replicate n (replicate n 0) for i < n do
    let l = loop l for j < i do l with [i, j] = (a[i, j] - f64.sum (map2 (*) l[i, :j] l[j, :j])) / l[j, j]
    in l with [i, i] = f64.sqrt (a[i, i] - f64.sum (map (** 2) l[i, :i]))
entry columns [n] (a: [n][n]f64): [n][n]f64 =
  loop l = replicate n (replicate n 0) for j < n do
    let l = l with [j, j] = f64.sqrt (a[j, j] - f64.sum (map (** 2) l[j, :j]))
    in loop l for t < n - j - 1 do
      let i = j + 1 + t
      in l with [i, j] = (a[i, j] - f64.sum (map2 (*) l[i, :j] l[j, :j])) / l[j, j]
entry upper [n] (a: [n][n]f64): [n][n]f64 =
  let u = loop u = replicate n (replicate n 0) for j < n do
    loop u for i < j + 1 do
      let s = a[i, j] - f64.sum (map2 (*) u[:i, i] u[:i, j])
      in u with [i, j] = if j != i then s / u[i, i] else f64.sqrt s
  in transpose u
entry less [n] (a: [n][n]f64): [n][n]f64 =
  loop l = replicate n (replicate n 0) for i < n do
    loop l for j < i + 1 do
      let s = a[i, j] - f64.sum (map2 (*) l[i, :j] l[j, :j])
      in if j < i then l with [i, j] = s / l[j, j] else l with [i, j] = f64.sqrt s
"""

OTHERS = """
-- L and U, the second one's rows and the first one's columns by loops.
entry lu [n] (a: [n][n]f64): ([n][n]f64, [n][n]f64) =
  loop (l, u) = (replicate n (replicate n 0), replicate n (replicate n 0)) for i < n do
    let u = loop u for t < n - i do
      let j = i + t
      in u with [i, j] = a[i, j] - f64.sum (map2 (*) l[i, :i] u[:i, j])
    let l = l with [i, i] = 1
    let l = loop l for t < n - i - 1 do
      let j = i + 1 + t
      in l with [j, i] = (a[j, i] - f64.sum (map2 (*) l[j, :i] u[:i, i])) / u[i, i]
    in (l, u)
-- Many right-hand sides, row by row and column by column; of a unit matrix, below its diagonal.
entry rows [n] (a: [n][n]f64): [n][n]f64 =
  loop x = replicate n (replicate n 0) for i < n do
    loop x for c < n do x with [i, c] = (a[c, i] - f64.sum (map2 (*) a[i, :i] x[:i, c])) / a[i, i]
entry columns [n] (a: [n][n]f64): [n][n]f64 =
  loop x = replicate n (replicate n 0) for c < n do
    loop x for i < n do x with [i, c] = (a[c, i] - f64.sum (map2 (*) a[i, :i] x[:i, c])) / a[i, i]
entry strict [n] (a: [n][n]f64): [n][n]f64 =
  loop x = copy a for i < n do
    loop x for j < i do x with [i, j] = a[i, j] - f64.sum (map2 (*) x[i, :j] x[j, :j])
-- A part of a vector.
entry part [n] (a: [n][n]f64): [n]f64 =
  loop x = replicate n 1 for i < n - 1 do
    let k = i + 1
    in x with [k] = f64.sum a[k] + x[k]
"""
STAY = """
entry checked [n] (a: [n][n]f64) (is: [n]i64): [n]f64 =
  loop x = replicate n 0 for i < n do x with [i] = f64.sum a[is[i]]
entry scalars [n] (a: [n][n]f64): [n]f64 = loop x = replicate n 0 for i < n do x with [i] = 2 * a[i, i]
entry scattered [n] (a: [n][n]f64): [n]f64 =
  loop x = replicate n 0 for i < n do x with [i / 2] = f64.sum a[i]
entry wavefront [n] (a: [n][n]f64): [n][n]f64 =
  loop x = copy a for i < n - 1 do
    loop x for j < n - 1 do x with [i + 1, j + 1] = x[i, j + 1] + f64.sum x[i + 1, :j + 1]
"""
ENTRIES = ("branch", "after", "columns", "upper", "less")


def matrix(n: int) -> Any:
    x = np.random.default_rng(n).normal(size=(n, n))
    return x @ x.T + n * np.eye(n)


def updates(tmp_path: Path, text: str, entry: str) -> tuple[int, int]:
    """How many maps with a fold, and how many loops, are in a compiled entry."""
    file = tmp_path / "main.fut"
    file.write_text(text)
    stms = list(ir.statements(common(load_program(str(file)), INTERP, check=True).funs[entry].body.stms))
    maps = [s.exp.lam.stms for s in stms if isinstance(s.exp, ir.Map)]
    folds = [m for m in maps if any(t.exp.folds for t in m if isinstance(t.exp, ir.Screma))]
    return len(folds), sum(isinstance(s.exp, ir.For) for s in stms)


@pytest.mark.parametrize("entry", ENTRIES)
def test_cholesky_is_a_loop_over_columns(tmp_path: Path, entry: str) -> None:
    assert updates(tmp_path, CHOLESKY, entry) == (1, 1)


@pytest.mark.parametrize(
    "entry, maps, loops", [("lu", 2, 1), ("rows", 1, 1), ("columns", 1, 1), ("strict", 1, 1), ("part", 1, 0)]
)
def test_loops_become_maps(tmp_path: Path, entry: str, maps: int, loops: int) -> None:
    assert updates(tmp_path, OTHERS, entry) == (maps, loops)


@pytest.mark.parametrize("entry, loops", [("checked", 1), ("scalars", 1), ("scattered", 1), ("wavefront", 2)])
def test_others_stay(tmp_path: Path, entry: str, loops: int) -> None:
    assert updates(tmp_path, STAY, entry) == (0, loops)


@pytest.mark.parametrize("backend", slow_but(["interp", "c"], ["interp", "c", "multicore", "emulated"]))
def test_factors_are_those_of_numpy(backend: str) -> None:
    prog = futad.compile(CHOLESKY, backend=backend)
    for n in (0, 1, 2, 5, 19):
        a = matrix(n)
        for entry in ENTRIES:
            np.testing.assert_allclose(getattr(prog, entry)(a), np.linalg.cholesky(a), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", slow_but(["interp", "c"], ["interp", "c", "multicore", "emulated"]))
def test_results_are_those_of_loops(backend: str) -> None:
    prog = futad.compile(OTHERS, backend=backend)
    for n in (0, 1, 2, 5, 18):
        a = matrix(n) / (4 * n + 1)
        lower, u = prog.lu(a)
        np.testing.assert_allclose(np.asarray(lower) @ np.asarray(u), a, rtol=1e-12)
        solved = np.linalg.solve(np.tril(a), a.T)
        np.testing.assert_allclose(prog.rows(a), solved, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(prog.columns(a), solved, rtol=1e-10, atol=1e-14)
        part = np.ones(n)
        for k in range(1, n):
            part[k] = a[k].sum() + 1
        np.testing.assert_allclose(prog.part(a), part, rtol=1e-12)
        below = a.copy()
        for i in range(n):
            for j in range(i):
                below[i, j] = a[i, j] - below[i, :j] @ below[j, :j]
        np.testing.assert_allclose(prog.strict(a), below, rtol=1e-9)


def test_what_is_no_number_stays_in_its_elements() -> None:
    """The element that is no number is the diagonal's and all that need it, as in a loop."""
    a = matrix(6)
    a[3, 3] = -1
    want = futad.compile(CHOLESKY, backend="interp").columns(a)
    assert np.isnan(want[3, 3]) and np.isfinite(want[2, 2])
    prog = futad.compile(CHOLESKY, backend="c")
    for entry in ("branch", "after", "columns", "less"):
        np.testing.assert_allclose(getattr(prog, entry)(a), want, rtol=1e-12)


@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "emulated"]))
def test_gradients_are_those_of_the_formula(backend: str) -> None:
    """The logarithm of the determinant has half the inverse as its derivative, on the triangle that is read."""
    f = "let l = branch a in f64.sum (tabulate n (\\i -> f64.log l[i, i]))"
    grad = futad.compile(f"{CHOLESKY}entry d [n] (a: [n][n]f64) = vjp (\\a -> {f}) a 1", backend=backend).d
    for n in (1, 2, 7):
        a = matrix(n)
        inverse = np.linalg.inv(a)
        np.testing.assert_allclose(grad(a), np.tril(inverse, -1) + np.diag(np.diag(inverse)) / 2, rtol=1e-9, atol=1e-12)


def test_adjoints_of_a_row_that_all_read_are_one_sum() -> None:
    """What the elements of a column add to the row that they all read has an array of its own in the return sweep."""
    text = CHOLESKY + "entry d [n] (a: [n][n]f64) = vjp (\\a -> (branch a)[n - 1, n - 1]) a 1"
    core = compile_program(compile_text(text), target=C)
    opened = [s.exp for s in ir.statements(core.funs["d"].body.stms) if isinstance(s.exp, ir.WithAcc)]
    assert any(len(shape_of(a.type)) == 1 for e in opened for a in e.arrays)
