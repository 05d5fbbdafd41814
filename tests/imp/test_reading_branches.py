"""Loops that carry scalars through branches that read, for many points at a time: what is in range is read anyway."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

NEAREST = """
def f [s][n] (c: [s]f64) (r: [s]f64) (a: [s]f64) (x: [n]f64): f64 =
  let point p =
    (loop (near, colour) = (1e30, 0.1) for k < s do
      let d = r[k] * r[k] - (p - c[k]) ** 2
      in if d > 0 then
           let t = p - f64.sqrt d
           in if t < near then (t, a[k] * f64.exp (-t * t)) else (near, colour)
         else (near, colour)).1
  in f64.sum (map point x)
"""
NEXT = """
def f [s][n] (c: [s]f64) (r: [s]f64) (a: [s]f64) (x: [n]f64): f64 =
  let point p =
    loop t = p for k < s do
      if t > 0 && k < s - 1 then f64.sin (t * c[k + 1]) - r[k + 1] else f64.exp (-t * t) + a[k]
  in f64.sum (map point x)
"""
ENTRIES = """
entry main [s][n] (c: [s]f64) (r: [s]f64) (a: [s]f64) (x: [n]f64) = f c r a x
entry back [s][n] (c: [s]f64) (r: [s]f64) (a: [s]f64) (x: [n]f64) = vjp (\\(c, r, a, x) -> f c r a x) (c, r, a, x) 1
"""
PROGRAMS = {"nearest": NEAREST, "next": NEXT}


@functools.cache
def compiled(name: str, backend: str) -> Any:
    return futad.compile(PROGRAMS[name] + ENTRIES, backend=backend)


@pytest.mark.slow
def test_it_runs_in_lanes() -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(NEAREST + ENTRIES), target=C))
    assert counts["outer-loop-vectorisation"] and counts["if-conversion"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives(name: str, backend: str) -> None:
    made, expected = compiled(name, backend), compiled(name, "interp")
    rng = np.random.default_rng(3)
    for s, n in ((0, 5), (1, 1), (3, 0), (4, 70), (2, 33)):
        args = [rng.normal(size=s), rng.random(s) + 0.5, rng.normal(size=s), rng.normal(size=n)]
        np.testing.assert_allclose(made.main(*args), expected.main(*args), rtol=1e-11, atol=1e-13)
        for x, y in zip(made.back(*args), expected.back(*args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_read_out_of_range(name: str) -> None:
    """By the checks of memory."""
    from futad import checks

    program = compile_program(compile_text(PROGRAMS[name] + ENTRIES), target=C)
    checked = CBackend(program, C, carries=frozenset({checks.MEMORY}))
    args = [np.array([0.3, -0.2]), np.array([1.0, 0.7]), np.array([0.5, 2.0]), np.linspace(-1, 1, 40)]
    (value,) = checked.run("main", [np.int64(2), np.int64(40), *args])
    np.testing.assert_allclose(value, compiled(name, "interp").main(*args), rtol=1e-11)
