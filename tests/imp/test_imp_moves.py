"""Parts of an array that are written to other parts of it: at once, however the two overlap."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad import checks
from futad.backend.c import CBackend
from futad.pipeline import compile_program
from futad.target import target_of
from tests.support.needs import needs_cc

PROGRAM = """
entry up [n] (k: i64) (xs: [n]f64): [n]f64 =
  let xs = map (+ 0.5) xs in xs with [k:] = copy xs[:n - k]
entry down [n] (k: i64) (xs: [n]f64): [n]f64 =
  let xs = map (+ 0.5) xs in xs with [:n - k] = copy xs[k:]
entry row [n][m] (i: i64) (j: i64) (k: i64) (xs: [n][m]f64): [n][m]f64 =
  let xs = map (map (* 2)) xs
  in xs with [j] = copy (loop x = xs[i] for l < k do map (+ f64.i64 l) x)
"""


@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_no_memory_is_had_for_what_moves(backend: str) -> None:
    program = futad.compile(PROGRAM, backend=backend)
    core = compile_program(program._executable.core, target=target_of(backend))
    source = CBackend(core, target=target_of(backend)).source
    for entry in ("up", "down"):
        body = source.split(f"int64_t futad_entry_{entry}(")[-1].split("\n}\n")[0]
        assert body.count("memmove(") == 1 and body.count("futad_ensure") == 1


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_moved_parts_are_those_of_the_interpreter(backend: str, checked: bool) -> None:
    with checks.checking((checks.MEMORY,) if checked else ()):
        program, wanted = futad.compile(PROGRAM, backend=backend), futad.compile(PROGRAM, backend="interp")
        for n in (0, 1, 2, 5, 40, 1000):
            xs = np.arange(n) + 0.5
            for k in {0, 1, 3, n} & set(range(n + 1)):
                np.testing.assert_array_equal(program.up(k, xs.copy()), wanted.up(k, xs.copy()))
                np.testing.assert_array_equal(program.down(k, xs.copy()), wanted.down(k, xs.copy()))
        rows = np.arange(35.0).reshape(5, 7)
        for i, j, k in ((0, 0, 0), (0, 4, 0), (4, 0, 0), (2, 2, 1), (1, 3, 1), (3, 1, 2)):
            np.testing.assert_array_equal(program.row(i, j, k, rows.copy()), wanted.row(i, j, k, rows.copy()))
