"""Searches by bisection in a map run in masked lanes; other loops that compute little do not."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

SEARCH = """
entry value [n][m] (xs: [n]f64) (ts: [m]f64): [m]f64 =
  map (\\t -> let (l, _) = loop (lo, hi) = (0, n - 1) while lo < hi do
                let mid = lo + (hi - lo) / 2 in if xs[mid] < t then (mid + 1, hi) else (lo, mid)
             in xs[l]) ts"""
# One step after the other, from where the last read says: lanes would differ in length.
WALK = """
entry value [n][m] (xs: [n]f64) (ts: [m]f64): [m]f64 =
  map (\\t -> let (l, _) = loop (l, go) = (0, true) while go do
                let x = xs[l] in if x < t && l + 1 < n then (l + 1, true) else (l, false)
             in xs[l]) ts"""
# As long as its other loop, which is in vector lanes already.
BESIDE = SEARCH.replace("in xs[l])", "in f64.sum (map (\\x -> f64.exp (x * t)) xs[:l]))")


@pytest.mark.parametrize(("text", "fires"), [(SEARCH, True), (WALK, False), (BESIDE, False)])
def test_which_run_in_lanes(text: str, fires: bool) -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=C))
    assert (counts["masked-lanes"] > 0) is fires


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_searches_are_right(backend: str) -> None:
    made, expected = (futad.compile(SEARCH, backend=b) for b in (backend, "interp"))
    for n, m in ((1, 40), (2, 16), (3, 33), (1000, 100)):
        rng = np.random.default_rng(n)
        xs, ts = np.sort(rng.normal(size=n)), rng.normal(size=m)
        np.testing.assert_array_equal(made.value(xs, ts), expected.value(xs, ts))


@pytest.mark.parametrize("backend", ["c", "interp"])
def test_an_empty_table_is_an_error(backend: str) -> None:
    with pytest.raises(futad.errors.BoundsError, match=r"Index \[0\] out of bounds"):
        futad.compile(SEARCH, backend=backend).value(np.zeros(0), np.ones(20))
