"""Contractions in nests whose maps do other things beside: sums over images, assertions, strides, channels last."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

# Sums in sums, of what is made of each sum.
SUMMED = """
def f [n][o][c][h][w][r] (k: [o][c][r][r]f64) (x: [n][c][h][w]f64): f64 =
  let m = r / 2
  let at i b y z = if y < 0 || y >= h || z < 0 || z >= w then 0 else x[i, b, y, z]
  let pixel i a y z =
    f64.sum (map (\\b -> f64.sum (map (\\p -> f64.sum (map (\\q -> k[a, b, p, q] * at i b (y + p - m) (z + q - m))
                                                          (iota r))) (iota r))) (iota c))
  in f64.sum (map (\\i -> f64.sum (map (\\a ->
       f64.sum (map (\\y -> f64.maximum (map (\\z -> let v = f64.sin (pixel i a y z) in v * v) (iota w))) (iota h)))
       (iota o))) (iota n))
"""
STRIDED = """
def f [n][o][c][h][w][r] (k: [o][c][r][r]f64) (x: [n][c][h][w]f64): f64 =
  let (high, wide) = ((h - 3) / 2 + 1, (w - 3) / 2 + 1)
  let at a b i p q u v = k[a, b, p % r, q % r] * x[i, b, u, v]
  let y = tabulate_2d n o (\\i a -> tabulate_2d high wide (\\y z ->
    f64.sum (tabulate c (\\b -> f64.sum (flatten (tabulate_2d 3 3 (\\p q -> at a b i p q (2 * y + p) (2 * z + q))))))))
  in f64.sum (map (\\v -> v * v) (flatten (flatten (flatten y))))
"""
LAST = """
def f [n][o][c][h][w][r] (k: [o][c][r][r]f64) (x: [n][c][h][w]f64): f64 =
  let xs = map (\\i -> tabulate_3d h w c (\\y z b -> i[b, y, z])) x
  let y = tabulate_3d n (h - 2) (w - 2) (\\i y z -> tabulate o (\\a ->
    f64.sum (flatten_3d (tabulate_3d 3 3 c (\\p q b -> k[a, b, p % r, q % r] * xs[i, y + p, z + q, b])))))
  in f64.sum (map f64.tanh (flatten (flatten (flatten y))))
"""
ENTRIES = """
entry value [n][o][c][h][w][r] (k: [o][c][r][r]f64) (x: [n][c][h][w]f64): f64 = f k x
entry gradient [n][o][c][h][w][r] (k: [o][c][r][r]f64) (x: [n][c][h][w]f64) = vjp (\\(k, x) -> f k x) (k, x) 1
"""
SOURCES = {"summed": SUMMED, "strided": STRIDED, "last": LAST}


def close(got: Any, want: Any) -> None:
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, want)], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def inputs(n: int, o: int, c: int, h: int, w: int, r: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([n, o, c, h, w, r])
    return rng.normal(size=(o, c, r, r)), rng.normal(size=(n, c, h, w))


@pytest.mark.parametrize(("name", "backend"), slow_but([("last", "c")], product(SOURCES, ["c", "multicore"])))
def test_values_and_gradients(name: str, backend: str) -> None:
    made, expected = (futad.compile(SOURCES[name] + ENTRIES, backend=b) for b in (backend, "interp"))
    for shape in ((2, 3, 2, 5, 6, 3), (1, 1, 1, 3, 3, 1), (3, 2, 2, 4, 9, 2), (0, 2, 2, 4, 4, 3), (2, 0, 1, 4, 4, 3),
                  (2, 2, 0, 4, 4, 3)):  # fmt: skip
        k, x = inputs(*shape)
        close(made.value(k, x), expected.value(k, x))
        close(made.gradient(k, x), expected.gradient(k, x))


@pytest.mark.parametrize("name", SOURCES)
def test_all_of_the_nest_is_one_contraction(name: str) -> None:
    text = str(compile_program(compile_text(SOURCES[name] + ENTRIES.splitlines()[1]), target=C))
    assert text.count("contraction(") == 1
    assert text.split("contraction([")[1].split("]")[0].count(",") == 6  # four that are left, three that are summed


ASSERTED = """
def sums [n][o][c] (k: [o][3][c]f64) (x: [n][c]f64) (check: i64 -> bool): [][]f64 =
  let sum i a = f64.sum (flatten (tabulate_2d 3 c (\\p b -> a[p, b] * x[i + p, b])))
  in tabulate (n - 2) (\\i -> map (\\a -> assert (check i) (sum i a)) k)
entry same [n][o][c] (d: i64) (k: [o][3][c]f64) (x: [n][c]f64): [][]f64 = sums k x (\\_ -> d < 5)
entry other [n][o][c] (d: i64) (k: [o][3][c]f64) (x: [n][c]f64): [][]f64 = sums k x (\\i -> i + d < 5)
"""


@pytest.mark.parametrize(("entry", "fires"), [("same", 1), ("other", 0)])
def test_assertions_of_all_iterations_are_made_before(entry: str, fires: int) -> None:
    """And fail where there is an iteration."""
    with counting() as counts:
        compile_program(
            compile_text("\n".join(x for x in ASSERTED.splitlines() if "entry" not in x or entry in x)), target=C
        )
    assert counts["contractions"] == fires
    call, expected = [getattr(futad.compile(ASSERTED, backend=b), entry) for b in ("c", "interp")]
    k, x = np.arange(18.0).reshape(2, 3, 3), np.arange(15.0).reshape(5, 3)
    close(call(2, k, x), expected(2, k, x))
    for some in ((k, x[:2]), (k[:0], x)):
        close(call(9, *some), expected(9, *some))
    with pytest.raises(futad.errors.AssertionFailed):
        call(9, k, x)
