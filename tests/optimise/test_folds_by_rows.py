"""Folds of all elements of a matrix, by rows."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C, target_of

# Of x [n][m]f64: whether the fold is by rows.
FOLDS = {
    "f64.sum (flatten (tabulate_2d n m (\\i j -> x[i, j] ** 2)))": True,
    "f64.maximum (flatten (map (map f64.abs) x))": True,
    "reduce (*) 1 (flatten_3d (map (map (\\a -> [a, 1 - a, -1, 1, 1, 1, 1, 1])) x))": False,  # no maps make the rows
    "f64.sum (flatten_3d (tabulate_3d n m n (\\i j k -> x[i, j] + f64.i64 k)))": True,
    "f64.i64 (reduce (&) (-1) (flatten (map (map i64.f64) x)))": True,
    "f64.sum (flatten (tabulate_2d n 3 (\\i j -> f64.i64 (i - j))))": False,  # short rows
    "f64.sum (flatten x)": False,
    "reduce (\\a b -> a + b - 1) 1 (flatten (map (map f64.ceil) x))": False,  # another operator
    "reduce (+) 1 (flatten (map (map f64.ceil) x))": False,
}


def source(fold: str) -> str:
    return f"""
entry value [n][m] (x: [n][m]f64): f64 = {fold}
entry back [n][m] (x: [n][m]f64): [n][m]f64 = vjp value x 1
"""


@pytest.mark.parametrize("fold", FOLDS)
def test_folds_of_all_elements(fold: str) -> None:
    text = source(fold)
    with counting() as counts:
        compile_program(compile_text(text), check=True, target=C)
    assert (counts["folds-by-rows"] > 0) is FOLDS[fold]
    expected, made = (futad.compile(text, backend=b) for b in ("interp", "c"))
    for n, m in ((0, 0), (0, 3), (3, 0), (1, 1), (2, 9), (17, 5)):
        x = np.random.default_rng(n).integers(-4, 5, (n, m)) / 4
        np.testing.assert_allclose(made.value(x), expected.value(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(made.back(x), expected.back(x), rtol=1e-12, atol=1e-12)
    x[1, 2] = np.nan
    np.testing.assert_allclose(made.value(x), expected.value(x), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["multicore", "emulated"])
def test_folds_of_all_elements_on_others(backend: str) -> None:
    entries = [f"entry f{k} [n][m] (x: [n][m]f64): f64 = {fold}" for k, fold in enumerate(FOLDS)]  # the last: no monoid
    expected, made = (futad.compile("\n".join(entries), backend=b) for b in ("interp", backend))
    x = np.random.default_rng(1).integers(-4, 5, (70, 90)) / 64
    for k in range(len(FOLDS) - 1):
        a, b = (getattr(p, f"f{k}")(x) for p in (made, expected))
        np.testing.assert_allclose(a, b, rtol=1e-11)


def test_the_matrix_is_not_kept() -> None:
    text = source("f64.sum (flatten (tabulate_2d n m (\\i j -> f64.sqrt (1 + x[i, j] ** 2))))")
    core = str(compile_program(compile_text(text), target=target_of("c")))
    assert "reshape" not in core.split("fun back")[0]
