"""Maps whose threads would go along rows as maps over the rows' elements."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.ir import map_bodies
from futad.core.parse import parse_program
from futad.errors import AssertionFailed
from futad.flatten.perfect_nests import rows_as_maps
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import CUDA
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
-- Rows that are picked, of any rank, checked or not.
entry picked [n][k] (is: [n]i64) (xss: [n][k]f64): [n][k]f64 = map (\\i -> xss[i]) is
entry blocks [n][k] (is: [n]i64) (xss: [n][k]f64): [n][2][k]f64 =
  let both = map (\\xs -> [xs, map (+ 1) xs]) xss in map (\\i -> both[i % n]) is
-- Folds of few rows: by an operator on two arrays at once, of rows with scalars beside them, of rows as they are.
entry weighted [n][k] (ws: [n][4]f64) (xss: [k][4]f64): [n][k]f64 =
  map (\\w -> reduce (map2 (+)) (replicate k 0) (map2 (\\a xs -> map (* a) xs) w (transpose xss))) ws
entry largest [n][k] (xsss: [n][3][k]f64): [n][k]f64 =
  map (\\xss -> reduce (map2 f64.max) (replicate k f64.lowest) xss) xsss
entry minus [n][k] (xsss: [n][3][k]f64) (ys: [k]f64): [n][k]f64 =
  map (\\xss -> map2 (-) (reduce (map2 (\\x y -> x * y)) (map (const 1) ys) (map (\\xs -> map2 (+) xs ys) xss)) ys) xsss
entry slopes [n] (us: [n][3]f64) (xs: [n][3]f64): [n][3][3]f64 =
  let f u x = map (\\r -> f64.sum (map2 (*) (map (+ r) u) (map (* r) x))) x
  in map2 (\\u x -> tabulate 3 (\\i -> jvp (f u) x (tabulate 3 (\\j -> f64.bool (i == j))))) us xs
"""
DEVICE = OnDevice(SOURCE, "perfect.fut", check=True)
ARGS = {
    "picked": lambda r, n, k: [r.integers(0, max(n, 1), n), r.standard_normal((n, k))],
    "blocks": lambda r, n, k: [r.integers(0, 100, n), r.standard_normal((n, k))],
    "weighted": lambda r, n, k: [r.standard_normal((n, 4)), r.standard_normal((k, 4))],
    "largest": lambda r, n, k: [r.standard_normal((n, 3, k))],
    "minus": lambda r, n, k: [r.standard_normal((n, 3, k)), r.standard_normal(k)],
}


def arguments(name: str, n: int, k: int) -> list:
    r = np.random.default_rng(10 * n + k)
    if name == "slopes":
        return [np.int64(n), r.standard_normal((n, 3)), r.standard_normal((n, 3))]
    return [np.int64(n), np.int64(k), *ARGS[name](r, n, k)]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", [*ARGS, "slopes"])
def test_they_mean_the_same(name: str) -> None:
    made = prepared(DEVICE.program)
    check_program(made)
    for n, k in ((0, 3), (1, 1), (5, 0), (40, 7), (3, 100)):
        args = arguments(name, n, k)
        expected = DEVICE.interpreted(name, args)
        for got in (Interpreter(made).run(DEVICE.symbol(name), args), DEVICE.run(name, args)):
            for x, y in zip(got, expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@needs_cxx
def test_nan_and_infinities() -> None:
    args = arguments("largest", 3, 5)
    args[2][0, 1, :3] = [np.nan, np.inf, -np.inf]
    np.testing.assert_array_equal(DEVICE.run("largest", args)[0], DEVICE.interpreted("largest", args)[0])


@pytest.mark.parametrize("name", ["picked", "blocks", "weighted", "largest", "minus"])
def test_neighbours_have_neighbouring_elements(name: str) -> None:
    a = DEVICE.count(name, {"n": 10_000, "k": 32})
    assert a.total.strided <= 0.01 * a.total.traffic
    # A row's elements are beside each other, wherever it is.
    assert a.total.gathered <= 0.1 * a.total.traffic and a.transposes == 0


def test_rows_whose_size_has_a_name_of_its_own_inside() -> None:
    program = parse_program(r"""
    fun main [n_1: i64, k_2: i64] (is_3: [n_1]i64, xs_4: [n_1][k_2]f64) -> (r_5: [n_1][k_2]f64) = {
      let r_6: [n_1][k_2]f64 = map(n_1, [is_3], \(i_7: i64) -> {
        let k_8: i64 = k_2
        let row_9: [k_8]f64 = xs_4[i_7]@"t.fut:1:1-1:2"
        in (row_9) })
      in (r_6) }""")
    rewritten = map_bodies(program, rows_as_maps)
    assert rewritten is not program
    check_program(rewritten)
    args = [np.int64(3), np.int64(2), np.array([2, 0, 1]), np.arange(6.0).reshape(3, 2)]
    np.testing.assert_array_equal(Interpreter(rewritten).run("main", args)[0], args[3][args[2]])


@pytest.mark.parametrize("width", [0, 1])
def test_rows_without_elements_assert_what_others_do(width: int) -> None:
    text = """entry main [n][m] (xs: [9][m]f64) (is: [n][3]i64): [n][m]f64 =
      map (\\i -> reduce (map2 (+)) (replicate m 0) (map (\\k -> map (* 2) (assert (k < 9) xs[k % 9])) i)) is"""
    program = compile_program(compile_text(text), target=CUDA)
    args = [np.int64(width), np.int64(2), np.ones((9, width)), np.array([[0, 1, 2], [2, 3, 9]])]
    with pytest.raises(AssertionFailed):
        Interpreter(program).run("main", args)
    args[3][1, 2] = 4
    np.testing.assert_array_equal(Interpreter(program).run("main", args)[0], np.full((2, width), 6.0))
