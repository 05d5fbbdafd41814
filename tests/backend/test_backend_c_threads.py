"""multicore: copies of arrays and of accumulators, shared out among threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.imp import ir
from futad.testing.build import c_backend

TEXT = """
entry plain [n][m][k] (x: [n][m][k]f64): *[n][m][k]f64 = copy x
entry turned [n][m][k] (x: [n][m][k]f64): [m][n][k]f64 = transpose x
entry columns [n][m][k] (x: [n][m][k]f64): [k][m][n]f64 = transpose (map transpose (transpose x))
entry backwards [n][m][k] (x: [n][m][k]f64): [n][m][k]f64 = reverse x
entry sliced [n][m][k] (x: [n][m][k]f64): [][]f64 = map (\\i -> x[i, :, 0]) (iota n)
entry repeated [n][m][k] (_x: [n][m][k]f64): [2][n][m]i64 = replicate 2 (replicate n (iota m))
entry joined [n][m][k] (x: [n][m][k]f64): []f64 =
  let flat = flatten (flatten x)
  in flat ++ [1] ++ reverse flat
entry pairs [n][m][k] (x: [n][m][k]f64): [2][m][n]f64 =
  let y = x[:, :, 0] in [transpose y, map reverse (transpose y)]
entry counted [n][m][k] (x: [n][m][k]f64): [m]f64 =
  vjp (\\w -> f64.sum (map (\\i -> w[i * i % m] * w[(i + 1) % m]) (iota (n * k)))) (map (\\r -> r[0] + 1) x[0]) 1
"""
NAMES = ("plain", "turned", "columns", "backwards", "sliced", "repeated", "joined", "pairs", "counted")


@pytest.fixture(scope="module")
def backend(core: Any) -> CBackend:
    return c_backend(core, multicore=True, grain=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_as_the_interpreter(core: Any, backend: CBackend, name: str) -> None:
    for shape in ((1, 1, 1), (1, 5, 3), (2, 33, 4), (7, 2, 1), (65, 31, 2)):
        args = [*shape, np.random.default_rng(shape[0]).standard_normal(shape)]
        for a, e in zip(backend.run(name, args), Interpreter(core).run(name, args), strict=True):
            if name == "counted":  # a sum in another order
                np.testing.assert_allclose(a, e, rtol=1e-12, err_msg=f"{name} {shape}")
            else:
                np.testing.assert_array_equal(a, e, err_msg=f"{name} {shape}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "turned", "columns", "backwards", "joined", "pairs"])
def test_nothing_is_copied(core: Any, backend: CBackend, name: str) -> None:
    args = [0, 3, 2, np.zeros((0, 3, 2))]
    for a, e in zip(backend.run(name, args), Interpreter(core).run(name, args), strict=True):
        np.testing.assert_array_equal(a, e)


def kinds(body: list[ir.Stmt]) -> set[type[ir.Stmt]]:
    """The statements that are outside of parallel regions."""
    out = set()
    for s in body:
        out.add(type(s))
        if not isinstance(s, ir.Parallel):
            for part in ("body", "then", "orelse"):
                out |= kinds(getattr(s, part, []))
    return out


def test_large_copies_are_in_regions(backend: CBackend) -> None:
    functions = {f.name: f for f in backend.module.functions}
    for name in ("turned", "columns", "backwards", "joined", "pairs"):
        made = kinds(functions[name].body)
        assert ir.Parallel in made and not made & {ir.Copy, ir.Transpose, ir.For}, name


def test_threads_add_up_together(backend: CBackend) -> None:
    """The copies of an accumulator are added to it in a region of their own, in vector lanes."""
    function = next(f for f in backend.module.functions if f.name == "counted")
    adders = [
        s
        for s in function.body
        if isinstance(s, ir.Parallel) and any(isinstance(x, ir.For) and kinds(x.body) >= {ir.Subscribe} for x in s.body)
    ]
    assert len(adders) == 1


@pytest.mark.slow
def test_operators_do_not_run_where_there_is_nothing() -> None:
    """They may fail, and no thread has a result to combine."""
    source = """
entry sums [n] (m: i64) (x: [n]i64): [n]i64 = scan (\\a b -> (a + b) % m) 0 x
entry total [n] (m: i64) (x: [n]i64): i64 = reduce (\\a b -> (a + b) % m) 0 x"""
    program = futad.compile(source, backend="multicore")
    nothing = np.zeros(0, np.int64)
    assert program.sums(0, nothing).shape == (0,) and program.total(0, nothing) == 0
    assert program.sums(3, np.arange(5)).tolist() == [0, 1, 0, 0, 1] and program.total(3, np.arange(5)) == 1
    with pytest.raises(futad.errors.DivisionByZero):
        program.total(0, np.arange(5))
