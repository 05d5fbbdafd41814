"""Adjoints of contractions at strides: the interpreter's, which adds up iteration by iteration."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

# A stride in one dimension of two, filter sizes that are known or not, turned filters, borders, axes with other steps.
OVER = "f64.sum (map (\\p -> f64.sum (map (\\q -> k[a, p, q] * at {}) (iota r))) (iota r))"
SUMS = {
    "two": "f64.sum (tabulate 3 (\\p -> f64.sum (tabulate 3 (\\q -> k[a, p, q] * at (2 * i + p) (2 * j + q)))))",
    "one": OVER.format("(3 * i + p - 1) (j + q)"),
    "turned": OVER.format("(2 * i - p + 1) (4 * j + q)"),
    "dilated": OVER.format("(2 * i + p) (2 * j + 2 * q)"),
}
SIZES = [(3, 7, 9), (3, 8, 6), (3, 2, 3), (3, 3, 3), (3, 0, 4), (3, 1, 1), (4, 9, 5), (5, 12, 16)]


def program(name: str) -> str:
    return f"""
def f [o][r][h][w] (k: [o][r][r]f64) (x: [h][w]f64): [o][][]f64 =
  let at u v = if u < 0 || u >= h || v < 0 || v >= w then 0 else x[u, v]
  in tabulate_3d o ((h + 1) / 2) ((w + 1) / 2) (\\a i j -> {SUMS[name]})
entry back [o][r][h][w] (k: [o][r][r]f64) (x: [h][w]f64): ([o][r][r]f64, [h][w]f64) =
  let seed a i j = f64.i64 (1 + (a + 3 * i + j) % 5)
  in vjp (\\(k, x) -> f k x) (k, x) (tabulate_3d o ((h + 1) / 2) ((w + 1) / 2) seed)"""


@pytest.mark.parametrize("name", slow_but(["two"], SUMS))
def test_adjoints(name: str) -> None:
    source = program(name)
    with counting() as counts:
        compile_program(compile_text(source), target=C)
    assert bool(counts["strided-adjoints"]) == (name != "dilated")
    made, expected = (futad.compile(source, backend=b) for b in ("c", "interp"))
    rng = np.random.default_rng(1)
    for r, h, w in SIZES:
        args = [rng.integers(-3, 4, shape).astype(float) for shape in ((2, r, r), (h, w))]
        for a, b in zip(made.back(*args), expected.back(*args), strict=True):
            np.testing.assert_array_equal(a, b)
