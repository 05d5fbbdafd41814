"""Loops that save what they carry: the values are made where they are kept, and mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from device_support import OnDevice, needs_cxx

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.flatten.prepare import prepare

SOURCE = """
def step [n] (xs: [n]f64): [n]f64 = map (\\x -> f64.sin x + 0.5 * x) xs

entry simple [n] (t: i64) (xs: [n]f64): [n]f64 =
  vjp (\\xs -> f64.sum (loop xs for i < t do step xs)) xs 1

entry pair [n] (t: i64) (xs: [n]f64): ([n]f64, [n]f64) =
  let f (xs, ys) =
    let (xs, ys) = loop (xs, ys) for i < t do
      let new = map2 (\\x y -> f64.sin (x * y)) xs ys
      in (new, map2 (\\y z -> y * 0.5 + f64.cos z) ys new)
    in f64.sum xs + f64.sum ys
  in vjp f (xs, map (+ 1) xs) 1

-- The value before the last one is carried, too.
entry two_back [n] (t: i64) (xs: [n]f64): [n]f64 =
  vjp (\\xs -> f64.sum (loop (xs, before) = (xs, xs) for i < t do
                         (map2 (\\x b -> f64.sin (x - b * 0.5)) xs before, xs)).0)
      xs 1

-- What is saved is written to in place.
entry consumed [n] (t: i64) (xs: [n]f64): [n]f64 =
  vjp (\\xs -> f64.sum (loop xs = copy xs for i < t do
                         let y = f64.sin xs[i % n] in xs with [i % n] = y * xs[(i + 1) % n]))
      xs 1

-- The value of this turn is read after the next one is made.
entry late [n] (t: i64) (xs: [n]f64): ([n]f64, f64) =
  vjp2 (\\xs -> (loop (xs, s) = (xs, 0) for i < t do
                  let new = step xs in (new, s + f64.sum (map2 (*) (map f64.cos new) xs))).1)
       xs 1 |> \\(s, xs') -> (xs', s)

entry kept [n] (t: i64) (xs: [n]f64): ([t][n]f64, [n]f64) =
  let (all, xs) = loop (all, xs) = (replicate t (replicate n 0), xs) for i < t do (all with [i] = copy xs, step xs)
  in (all, xs)

entry matrices [n] (t: i64) (xs: [n]f64): ([n][n]f64, [n]f64) =
  let a = map (\\x -> map (\\y -> f64.cos (x + 2 * y) / f64.i64 n) xs) xs
  let f (a: [n][n]f64, xs: [n]f64) =
    let times p q = map (\\row -> map (\\col -> f64.sum (map2 (*) row col)) (transpose q)) p
    let m = loop m = a for i < t do map2 (map2 (\\x y -> f64.sin x + y)) (times m a) a
    in f64.sum (map (\\row -> f64.sum (map2 (*) row xs)) m)
  in vjp f (a, xs) 1
"""
ENTRIES = ("simple", "pair", "two_back", "consumed", "late", "kept", "matrices")
DEVICE = OnDevice(SOURCE, "history.fut", check=True)


@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_loops_equal_the_interpreter(name: str) -> None:
    prepared = prepare(DEVICE.program)
    check_program(prepared)
    for n, t in ((5, 4), (3, 1), (4, 0), (1, 7), (70, 3), *([(0, 2)] if name != "consumed" else [])):
        args = [np.int64(n), np.int64(t), np.random.default_rng(n).standard_normal(n)]
        expected = DEVICE.interpreted(name, args)
        for got in (Interpreter(prepared).run(DEVICE.core_name(name), args), DEVICE.run(name, args)):
            for x, y in zip(got, expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["simple", "pair", "matrices"])
def test_nothing_is_copied_in_a_turn(name: str) -> None:
    def copies(t: int) -> int:
        rows = DEVICE.count(name, {"n": 1000, "t": t}).rows
        return rows["copy"].launches if "copy" in rows else 0

    assert copies(30) == copies(10)


def test_only_values_with_memory_of_their_own_are_made_where_they_are_kept() -> None:
    """What is carried on as it is, is saved as it was."""
    funs = prepare(DEVICE.program).funs
    for name, kept in (("simple", True), ("pair", True), ("two_back", False)):
        forward = next(s.exp for s in funs[DEVICE.core_name(name)].body.stms if isinstance(s.exp, ir.For))
        made = {v: s.exp for s in forward.body.stms for v in s.pat}
        places = [s.exp.index[0] for s in forward.body.stms if isinstance(s.exp, ir.Update)]
        assert any(isinstance(made.get(i), ir.Op) for i in places) == kept, name  # type: ignore[arg-type]
