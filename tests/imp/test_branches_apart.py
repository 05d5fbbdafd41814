"""Maps that read under branches and checks, and compute much: the branches first, the rest in vector lanes."""

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

SOURCE = """
def step [n] (a: [n]f64) (y: [n]i64) (table: []f64): [n]f64 =
  tabulate n (\\i ->
    let stay = a[i]
    let prev = if i > 0 then a[i-1] else -1e30
    let skip = if i > 1 && i % 2 == 1 && y[i / 2] != y[i - 2] then a[i-2] else -1e30
    let m = f64.max stay (f64.max prev skip)
    in m + f64.log (f64.exp (stay - m) + f64.exp (prev - m) + f64.exp (skip - m))
       + table[if i % 2 == 0 then 0 else y[i / 2]])
entry main [n] (a: [n]f64) (y: [n]i64) (table: []f64) = step a y table
entry back [n] (a: [n]f64) (y: [n]i64) (table: []f64) (s: [n]f64) =
  vjp (\\(a, table) -> step a y table) (a, table) s
entry total [n] (a: [n]f64) (y: [n]i64) (table: []f64): f64 = f64.sum (step a y table) + f64.maximum (step a y table)
"""


@functools.cache
def compiled(backend: str) -> Any:
    return futad.compile(SOURCE, backend=backend)


def arguments(n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    return [rng.normal(size=n), rng.integers(0, 4, n), rng.normal(size=4), rng.normal(size=n)]


@pytest.mark.slow
def test_it_fires() -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(SOURCE), target=C))
    assert counts["loop-fission"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 130])
def test_values_and_derivatives(n: int, backend: str) -> None:
    made, expected = compiled(backend), compiled("interp")
    a, y, table, s = arguments(n)
    np.testing.assert_allclose(made.main(a, y, table), expected.main(a, y, table), rtol=1e-12)
    np.testing.assert_allclose(made.total(a, y, table), expected.total(a, y, table), rtol=1e-12)
    for p, q in zip(made.back(a, y, table, s), expected.back(a, y, table, s), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-11, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("place", [1, 45, 64])
def test_the_first_failure_is_told(place: int) -> None:
    a, y, table, _ = arguments(130)
    y[place], y[64] = 40 + place, 104
    with pytest.raises(futad.errors.BoundsError, match=rf"Index \[{40 + place}\] out of bounds"):
        compiled("c").main(a, y, table)
