"""Layouts of arrays between kernels: neighbouring threads access neighbouring elements, and values stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from device_support import OnDevice, needs_cxx

from futad.flatten.layouts import layouts
from futad.flatten.prepare import prepare

SOURCE = """
def row (x: f64): [6]f64 = [x, x + 1, f64.sin x, x * x, 2 - x, 0.5 * x]
def horner [k] (r: [k]f64): f64 = loop s = 0 for i < k do s * 0.5 + r[i] * r[(i * 5) % k]

-- A row by each thread, returned by columns: made by columns.
entry columns [n] (xs: [n]f64): [6][n]f64 = transpose (map row xs)
entry flat [n] (xs: [n]f64): []f64 = flatten (transpose (map row xs))
entry planes [n][m] (xss: [n][m]f64): [6][n][m]f64 =
  map (map row) xss |> map transpose |> transpose
-- Made and read by a thread a row.
entry rows [n] (xs: [n]f64): ([n]f64, f64) =
  let rs = map row xs in (map horner rs, f64.sum (map horner rs))
-- Made by a thread a row, read by one an element.
entry elements [n] (xs: [n]f64): [6][6]f64 =
  let rs = map (\\x -> map (+ x) (row x)) xs
  in loop m = tabulate_2d 6 6 (\\i j -> f64.i64 (i - j)) for r in rs do
       map2 (\\x -> map2 (\\y z -> x * y + 0.5 * z) r) r m
-- Seen from two sides, put together, updated, carried by a loop.
entry both [n] (xs: [n]f64): ([n][6]f64, [6][n]f64) = let rs = map row xs in (rs, transpose rs)
entry joined [n] (xs: [n]f64): [][6]f64 = let rs = map row xs in concat rs (map (map (* 2)) rs)
entry reversed_ [n] (xs: [n]f64): [][6]f64 = let rs = map row xs in map (map (+ 1)) rs[::-1]
entry part [n] (xs: [n]f64): ([]f64, []f64) =
  let rs = map row xs in (map horner rs[1:], transpose rs |> map f64.sum)
entry updated [n] (xs: [n]f64): [n][6]f64 =
  let rs = map row xs in if n > 1 then rs with [1] = map (* 3) rs[0] else rs
entry carried [n] (t: i64) (xs: [n]f64): [6][n]f64 =
  let rs = loop rs = map row xs for _i < t do map (\\r -> map (+ horner r) (row r[2])) rs
  in transpose rs
entry product [n] (xs: [n]f64): [6][6]f64 =
  let rs = map row xs
  in map (\\a -> map (\\b -> f64.sum (map2 (*) a b)) (transpose rs)) (transpose rs)
entry gathered [n] (is: [n]i64) (xs: [n]f64): [n]f64 =
  let rs = map row xs in map (\\i -> horner rs[i % n]) is
entry slope [n] (xs: [n]f64): [n]f64 =
  vjp (\\xs -> f64.sum (map (map horner) (map (map row) (unflatten (xs :> [n * 1]f64))) |> map f64.sum)) xs 1
"""
DEVICE = OnDevice(SOURCE, "layouts.fut", check=True)
ENTRIES = ("columns", "flat", "rows", "elements", "both", "joined", "reversed_", "part", "updated", "product", "slope")


@needs_cxx
@pytest.mark.parametrize("name", [*ENTRIES, "planes", "carried", "gathered"])
def test_arrays_mean_the_same_in_every_layout(name: str) -> None:
    r = np.random.default_rng(1)
    for n in (0, 1, 2, 33, 300):
        sizes: list = [np.int64(n)]
        xs = r.standard_normal(n)
        match name:
            case "planes":
                args = [*sizes, np.int64(7), r.standard_normal((n, 7))]
            case "carried":
                args = [*sizes, np.int64(3), xs]
            case "gathered":
                args = [*sizes, r.integers(0, 10 * n + 1, n), xs]
            case "part" if n == 0:
                continue
            case _:
                args = [*sizes, xs]
        for x, y in zip(DEVICE.run(name, args), DEVICE.interpreted(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["columns", "flat", "rows"])
def test_rows_that_threads_make_are_not_apart(name: str) -> None:
    a = DEVICE.count(name, {"n": 10_000})
    assert a.transposes == 0 and not any(r.what.startswith("cop") for r in a.rows.values())
    assert a.total.strided == 0


def test_layouts_are_of_arrays_that_gain_by_them() -> None:
    funs = prepare(DEVICE.program).funs

    def orders(name: str) -> list[tuple[int, ...]]:
        return list(layouts(funs[DEVICE.core_name(name)].body).values())

    assert orders("columns") == [(1, 0)]
    # What is returned by rows, and updated or carried by a loop, is row-major.
    assert orders("joined") == orders("updated") == orders("carried") == []
