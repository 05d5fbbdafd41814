"""multicore: loops of parallel nests, all of which run in one region (`backend/c_merged_regions.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.errors import BoundsError, DivisionByZero
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import thread_count
from futad.testing.build import c_backend

TEXT = """
entry heat [n][m] (u: [n][m]f64) (k: [n][m]f64) (steps: i64): [n][m]f64 =
  loop u for _t < steps do
    tabulate_2d n m (\\i j ->
      let at a b = if a < 0 || a >= n || b < 0 || b >= m then u[i, j] else u[a, b]
      in u[i, j] + k[i, j] * (at (i - 1) j + at (i + 1) j + at i (j - 1) + at i (j + 1) - 4 * u[i, j]))
entry wave [n] (x: [n]f64) (v: [n]f64) (steps: i64): ([n]f64, [n]f64) =
  loop (x, v) for t < steps do
    let v = tabulate n (\\i -> v[i] + 0.1 * (x[(i + 1) % n] - 2 * x[i] + x[(i + n - 1) % n]) * f64.i64 (t + 1))
    in (tabulate n (\\i -> x[i] + 0.1 * v[i] + 0.01 * v[(i + 1) % n]), v)
entry nested [n] (x: [n]f64) (outer: i64) (inner: i64): [n]f64 =
  loop x for s < outer do
    let y = loop y = x for t < inner + s do tabulate n (\\i -> y[n - 1 - i] * 0.5 + f64.i64 (t - s))
    in map2 (\\a b -> a + 0.25 * b) x y
entry both [n] (x: [n]f64) (outer: i64) (inner: i64): [n]f64 =
  loop x for s < outer do
    let y = loop y = x for t < inner do tabulate n (\\i -> y[n - 1 - i] * 0.5 + f64.i64 (t - s))
    in map2 (\\a b -> a + 0.25 * b) x y
entry history [n] (x: [n]f64) (steps: i64): [steps][n]f64 =
  let (_, rows) = loop (x, rows) = (x, replicate steps (replicate n 0)) for t < steps do
    let y = tabulate n (\\i -> x[i] + x[(i + t) % n])
    in (y, rows with [t] = y)
  in rows
entry places [n] (x: [n]i64) (at: [n]i64) (steps: i64): [n]i64 =
  loop x for t < steps do tabulate n (\\i -> x[at[i] + t] + 1)
entry quotients [n] (x: [n]i64) (steps: i64): [n]i64 =
  loop x for t < steps do map (\\a -> 1000 / (a - t)) x
"""


@pytest.fixture(scope="module")
def core() -> Any:
    return compile_program(compile_text(TEXT, "merged_regions.fut"), check=True)


@pytest.fixture(scope="module")
def backend(core: Any) -> CBackend:
    return c_backend(core, multicore=True, grain=1)


@pytest.fixture(params=[1, 2, 3, 4])
def threads(request: pytest.FixtureRequest, backend: CBackend) -> Iterator[int]:
    backend.library.futad_pool_set_threads(ctypes.c_int64(request.param))
    yield request.param
    backend.library.futad_pool_set_threads(ctypes.c_int64(thread_count()))


def calls(steps: int, n: int, m: int) -> dict[str, list[Any]]:
    r = np.random.default_rng(n + m)
    vector = r.standard_normal(n)
    return {
        "heat": [n, m, r.standard_normal((n, m)), 0.2 * r.random((n, m)), steps],
        "wave": [n, vector, r.standard_normal(n), steps],
        "nested": [n, vector, steps, 2],
        "both": [n, vector, steps, 2],
        "history": [n, vector, steps],
        "places": [n, r.integers(-9, 9, n), r.integers(0, max(1, n - steps), n), min(steps, n)],
        "quotients": [n, np.full(n, -7), min(steps, 1)],
    }


def test_which_loops_are_one_region(backend: CBackend) -> None:
    source = backend.source
    assert source.count("struct futad_merged merged;") == 7  # of `nested` the inner one, whose length changes


SHARED = """
entry grows [n] (x: [n]f64) (k: i64): [n]f64 =
  loop x for _t < k do
    let a = tabulate n (\\i -> x[i] + x[n - 1 - i])
    let b = tabulate n (\\i -> a[i] * a[(i + 1) % n])
    let d = tabulate (2 * n) (\\i -> b[i % n] + b[i / 2])
    in tabulate n (\\i -> 0.1 * d[i] + 0.1 * d[2 * n - 1 - i])
"""


def test_memory_that_grows_in_an_iteration_is_not_had_before() -> None:
    """Where the larger array is put the smaller one was before."""
    source = c_backend(compile_program(compile_text(SHARED)), multicore=True, grain=1).source
    assert "struct futad_merged merged;" not in source


BEGUN = """
entry begun [n] (x: [n]f64) (outer: i64) (inner: i64): [n]f64 =
  loop x for _s < outer do
    let y = tabulate n (\\i -> x[i] - 0.1 * x[(i + 1) % n])
    in loop y for _t < inner do tabulate n (\\i -> 0.5 * y[n - 1 - i] + 0.1 * y[(i + 1) % n])
"""


@pytest.mark.parametrize("inner", [2, 3])
def test_each_iteration_begins_with_its_own_two_arrays(inner: int) -> None:
    """Which the iteration before has exchanged, an odd number of times perhaps."""
    core = compile_program(compile_text(BEGUN))
    made = c_backend(core, multicore=True, grain=1)
    assert "struct futad_merged merged;" in made.source
    for n in (1, 2, 70):
        args = [n, np.random.default_rng(n).standard_normal(n), 3, inner]
        for a, e in zip(made.run("begun", args), Interpreter(core).run("begun", args), strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 60])
def test_as_the_interpreter(core: Any, backend: CBackend, threads: int, steps: int) -> None:
    for shape in ((1, 1), (2, 3), (3, 70), (33, 5), (64, 64)):
        for name, args in calls(steps, *shape).items():
            expected, first = Interpreter(core).run(name, args), backend.run(name, args)
            for a, e in zip(first, expected, strict=True):  # C contracts products with sums
                np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12, err_msg=f"{name} {shape} {steps} {threads}")
            for _ in range(3):
                for a, e in zip(backend.run(name, args), first, strict=True):
                    np.testing.assert_array_equal(a, e, err_msg=f"{name} {shape} {steps} {threads}")


@pytest.mark.slow
def test_nothing_in_an_array(core: Any, backend: CBackend, threads: int) -> None:
    empty = np.zeros(0)
    for name, args in (("wave", [0, empty, empty, 3]), ("nested", [0, empty, 2, 2]), ("history", [0, empty, 3])):
        for a, e in zip(backend.run(name, args), Interpreter(core).run(name, args), strict=True):
            np.testing.assert_array_equal(a, e)


@pytest.mark.slow
def test_failures_end_the_loop(backend: CBackend, threads: int) -> None:
    n = 500
    with pytest.raises(BoundsError):
        backend.run("places", [n, np.zeros(n, np.int64), np.arange(n), 20])
    with pytest.raises(DivisionByZero):
        backend.run("quotients", [n, np.where(np.arange(n) == 400, 0, 7), 3])
    x = np.arange(n)
    assert backend.run("places", [n, x, np.zeros(n, np.int64), 1])[0].tolist() == [1] * n


@pytest.mark.slow
def test_gradients_are_the_same_on_any_number_of_threads() -> None:
    """With regions of the usual size, and many calls, which workers join early or late."""
    entry = futad.compile(TEXT, backend="multicore").heat
    gradient = futad.compile(
        TEXT.replace("entry heat", "def heat")
        + "entry gradient [n][m] (u: [n][m]f64) (k: [n][m]f64) (s: i64) = vjp (\\(u, k) -> heat u k s) (u, k) k",
        backend="multicore",
    ).gradient
    r = np.random.default_rng(5)
    u, k = r.standard_normal((96, 80)), 0.2 * r.random((96, 80))
    value, (du, dk) = entry(u, k, 30), gradient(u, k, 30)
    for n in (1, 2, 3, 4):
        for program in (entry, gradient):
            library: Any = program.executable.executor().library
            library.futad_pool_set_threads(ctypes.c_int64(n))
        for _ in range(40):
            np.testing.assert_array_equal(entry(u, k, 30), value)
            a, b = gradient(u, k, 30)
            np.testing.assert_array_equal(a, du)
            np.testing.assert_array_equal(b, dk)
    library.futad_pool_set_threads(ctypes.c_int64(thread_count()))
