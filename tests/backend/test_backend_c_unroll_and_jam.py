"""Iterations of a loop that run together inside its inner loops, on the C backends."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.testing.build import c_backend

COUNTS = [1, 2, 3, 4, 5, 7, 8, 9, 16, 19]
TEXT = "".join(
    f"""
entry sums_{k} [m] (xs: [{k}]f64) (ys: [{k}][m]f64): [m]f64 =
  reduce (map2 (+)) (replicate m 0) (map2 (\\x y -> map (x *) y) xs ys)
entry distances_{k} [m] (xs: [{k}][m]f64) (y: [m]f64): [{k}]f64 =
  map (\\x -> f64.sum (map2 (\\a b -> f64.abs (a - b)) x y)) xs
entry each_{k} [n] (xs: [n][{k}]f64) (ys: [n][{k}][5]f64): [n][5]f64 =
  map2 (\\x y -> reduce (map2 (+)) (replicate 5 0) (map2 (\\a r -> map (a *) r) x y)) xs ys
"""
    for k in COUNTS
) + """
entry sums_n [n][m] (xs: [n]f64) (ys: [n][m]f64): [m]f64 =
  reduce (map2 (+)) (replicate m 0) (map2 (\\x y -> map (x *) y) xs ys)
"""


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, *COUNTS])
def test_any_number_of_iterations(core: Any, backend: CBackend, k: int) -> None:
    rng = np.random.default_rng(3)
    interp = Interpreter(core)
    for m in (0, 1, 6, 33):
        xs, ys, each = rng.standard_normal(k), rng.standard_normal((k, m)), rng.standard_normal((7, k, 5))
        calls: list[tuple[str, list[Any]]] = [("sums_n", [k, m, xs, ys])]
        if k:
            calls += [(f"sums_{k}", [m, xs, ys]), (f"distances_{k}", [m, ys, rng.standard_normal(m)])]
            calls += [(f"each_{k}", [7, rng.standard_normal((7, k)), each])]
        for name, args in calls:
            (expected,), (actual,) = interp.run(name, args), backend.run(name, args)
            np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-14, strict=True, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("k, loops", [(4, [(0, 4, 4)]), (8, [(0, 8, 8)]), (19, [(0, 16, 8), (16, 19, 3)])])
def test_what_is_left_in_the_end_runs_together(core: Any, k: int, loops: list[tuple[int, int, int]]) -> None:
    """A sum of few vectors is one pass over them, however few."""
    source = c_backend(core).source
    body = source.split(f"futad_entry_sums_{k}(")[-1].split("\nint64_t futad_entry_")[0]
    found = re.findall(r"for \(int64_t (\w+) = (\d+); \1 < (\d+); \1 \+= (\d+)\)", body)
    assert [tuple(int(n) for n in f[1:]) for f in found] == loops
