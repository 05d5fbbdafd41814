"""Sums and products of f16 are taken in f32: the same on all backends, whatever partial sums would come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from tests.support.needs import has_cxx, needs_cc

SOURCE = """
entry total (xs: []f16) = f16.sum xs
entry folded (xs: []f16) = reduce (\\a x -> x + a) 0 xs
entry dot (xs: []f16) = f16.sum (map2 (*) xs (map (\\_ -> 1) xs))
entry rows [n][m] (xss: [n][m]f16) = map f16.sum xss
entry columns [n][m] (xss: [n][m]f16) = reduce (map2 (+)) (replicate m 0) xss
entry matrix [n][m] (xss: [n][m]f16) = map (\\r -> map (\\c -> f16.sum (map2 (*) r c)) xss) xss
entry running (xs: []f16) = scan (+) 0 xs
entry product (xs: []f16) = f16.product xs
entry pairs (xs: []f16) = reduce (\\(a, b) (c, d) -> (a + c, b * d)) (0, 1) (zip xs xs)
entry stepwise (xs: []f16) = loop s = 0 for x in xs do s + x
entry slope (xs: []f16) = vjp (\\ys -> f16.sum (map (\\y -> y * y) ys)) xs 1
"""
BACKENDS = [
    "interp", pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=[needs_cc, pytest.mark.slow]),
    pytest.param("emulated", marks=[pytest.mark.slow, pytest.mark.skipif(not has_cxx(), reason="no C++ compiler")]),
]  # fmt: skip
OVERFLOWS = np.array([6e4, 6e4, -6e4, -6e4], "f2")  # on the way
SMALL = np.array([2048, *[1] * 2000], "f2")  # each is lost in a sum of f16
FACTORS = np.array([256, 512, 0.5, 1 / 512, 2], "f2")


def results(backend: str) -> dict[str, Any]:
    p = futad.compile(SOURCE, backend=backend)
    long = np.concatenate([np.full(300, 6e3, "f2"), np.full(300, -6e3, "f2")])
    wide = np.tile(long, (3, 1))
    return {
        "total": [p.total(OVERFLOWS), p.total(SMALL), p.total(long)],
        "folded": [p.folded(OVERFLOWS), p.folded(long)],
        "dot": p.dot(long),
        "rows": p.rows(wide), "columns": p.columns(np.ascontiguousarray(wide.T)),
        "matrix": p.matrix(np.tile(OVERFLOWS / np.float16(256), (2, 1))),
        "running": [p.running(OVERFLOWS), p.running(SMALL)[-1:], p.running(long)[-1:]],
        "product": p.product(FACTORS),
        "pairs": p.pairs(FACTORS),
        "stepwise": [p.stepwise(OVERFLOWS), p.stepwise(SMALL)],
        "slope": p.slope(OVERFLOWS),
    }  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_and_products(backend: str) -> None:
    got = results(backend)
    assert got["total"] == [0, 4048, 0] and got["folded"] == [0, 0] and got["dot"] == 0
    np.testing.assert_array_equal(got["rows"], [0, 0, 0])
    np.testing.assert_array_equal(got["columns"], [0, 0, 0])
    np.testing.assert_array_equal(got["matrix"], np.full((2, 2), np.inf))
    np.testing.assert_array_equal(got["running"][0], [6e4, np.inf, 6e4, 0])
    assert got["running"][1] == 4048 and got["running"][2] == 0
    assert got["product"] == 256 and got["pairs"] == (np.float16(770.5), 256)
    assert got["stepwise"] == [np.inf, 2048]  # a loop rounds each sum
    np.testing.assert_array_equal(got["slope"], [np.inf, np.inf, -np.inf, -np.inf])
