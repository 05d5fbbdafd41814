"""Sums of inner loops in vectors (`backend/c_sums.py`): every length around that of vectors, sums alone and of several
rows, constants, what is the same for all iterations, NaN and infinities where a vector overlaps another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.build import c_backend
from tests.support.agreement import agree

TEXT = """
def row_sums [n][d] (a: [n][d]f64) (w: [d]f64) (c: f64): [n]f64 =
  map (\\row -> f64.sum (map2 (\\x y -> (x - c) * y + 0.5) row w)) a
entry wide [n][d] (a: [n][d]f64) (w: [d]f64) (c: f64): [n]f64 = row_sums a w c
entry narrow [n][d] (a: [n][d]f32) (w: [d]f32): [n]f32 =
  map (\\row -> f32.sum (map2 (\\x y -> -x * y / 3) row w)) a
entry two [d] (x: [d]f64) (y: [d]f64): (f64, f64) = (f64.sum (map2 (*) x y), f64.sum (map (\\v -> v * v) x))
entry part [d] (x: [d]f64) (k: i64): f64 = f64.sum (map2 (*) x[k:] x[:d - k])
entry steps [n][d] (a: [n][d]f64) (w: [d]f64): [d]f64 =
  loop w for _i < 3 do map (/ 10) (map2 (+) w (vjp (\\w -> f64.sum (map (** 2) (row_sums a w 0.1))) w 1))
"""
SCALED = """
def mix [k][d] (m: [k][d]f64) (s: [k]f64) (p: [d]f64): f64 =
  f64.log (1 + f64.sum (map2 (\\m s -> 1 / (1 + f64.sum (map2 (\\a b -> ((a - b) / s) ** 2) p m))) m s))
entry scaled [n][k][d] (m: [k][d]f64) (s: [k]f64) (x: [n][d]f64): ([k][d]f64, [k]f64) =
  vjp (\\(m, s) -> f64.sum (map (mix m s) x)) (m, s) 1
"""
LENGTHS = (0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 50, 67)


def test_lanes_that_go_on_are_counted_by_masks() -> None:
    text = "entry f [n] (xs: [n]f64) = map (\\x -> loop x while x > 0.1 do x * f64.exp (-x) * f64.cos x) xs"
    core = compile_program(compile_text(text, "counts.fut"))
    backend, xs = c_backend(core), np.linspace(-1, 3, 37)
    assert "futad_count(counted_" in backend.source
    np.testing.assert_allclose(backend.run("f", [37, xs])[0], Interpreter(core).run("f", [37, xs])[0], rtol=1e-12)


def test_structure(backend: CBackend) -> None:
    assert backend.source.count("futad_total_f64(") >= 8
    assert backend.source.count("futad_total_f32(") >= 4


@pytest.mark.parametrize("d", LENGTHS)
def test_every_length(core: Any, backend: CBackend, d: int) -> None:
    r = np.random.default_rng(d)
    for n in (1, 4, 6):
        a, w = r.normal(size=(n, d)), r.normal(size=d)
        assert agree(core, backend, "wide", [n, d, a, w, 0.3], 2e-13)
        assert agree(core, backend, "narrow", [n, d, a.astype(np.float32), w.astype(np.float32)], 2e-5)
        assert agree(core, backend, "steps", [n, d, a, w], 2e-13)
    assert agree(core, backend, "two", [d, a[0], w], 2e-13)
    assert agree(core, backend, "part", [d, w, min(2, d)], 2e-13)


@pytest.mark.slow
def test_rows_added_to_beside_a_sum() -> None:
    core = compile_program(compile_text(SCALED, "scaled.fut"))
    backend = c_backend(core)
    assert "*to_last_" in backend.source
    for d in LENGTHS:
        r = np.random.default_rng(d)
        for n, k in ((1, 1), (3, 5)):
            m, s, x = r.normal(size=(k, d)), 1 + r.random(k), r.normal(size=(n, d))
            assert agree(core, backend, "scaled", [k, d, n, m, s, x], 2e-13)
            if d:
                x[0, r.integers(d)] = np.nan
                assert agree(core, backend, "scaled", [k, d, n, m, s, x], 2e-13)


@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf))
def test_what_is_not_finite_counts_once_and_in_its_row(core: Any, backend: CBackend, value: float) -> None:
    for at in range(19):
        a, w = np.ones((5, 19)), np.ones(19)
        a[2, at] = value
        (sums,) = backend.run("wide", [5, 19, a, w, 0.5])
        np.testing.assert_array_equal(sums, [19, 19, value, 19, 19])


def test_a_sum_of_many_is_as_exact_as_one_after_the_other(backend: CBackend) -> None:
    x = np.full(1003, 2.0**-3)
    assert backend.run("two", [1003, x, np.ones(1003)])[0] == 1003 / 8
