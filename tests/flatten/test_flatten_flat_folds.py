"""Folds of folds by one operator are one fold on devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.errors import AssertionFailed
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
entry sums [n][m][k] (xs: [n][m][k]f64) (w: [m]f64): f64 =
  f64.sum (map (\\x -> f64.sum (map2 (\\r c -> let d = f64.exp c in f64.sum (map (\\a -> a * d) r)) x w)) xs)
entry beside [n][m][k] (xs: [n][m][k]f64) (w: [m]f64): (f64, [n][m][k]f64) =
  let f a c = f64.tanh (a * c)
  let y = map (\\x -> map2 (\\r c -> map (\\a -> f a c) r) x w) xs
  in (f64.sum (map (\\x -> f64.sum (map (\\r -> f64.sum (map (** 2) r)) x)) y), y)
entry several [n][m][k] (xs: [n][m][k]f64) (w: [m]f64): (f64, i64) =
  let both (a, b) (c, d) = (f64.max a c, b + d)
  let fold xs = reduce both (-f64.inf, 0) xs
  in fold (map (\\x -> fold (map (\\r -> fold (map (\\a -> (a, i64.bool (a > 0))) r)) x)) xs)
entry mixed [n][m][k] (xs: [n][m][k]f64) (w: [m]f64): f64 =
  f64.sum (map (\\x -> f64.maximum (map (\\r -> f64.sum (map (* 2) r)) x)) xs)
-- In a map, added to what is there, or with more results.
entry rows [n][m][k] (xs: [n][m][k]f64) (w: [m]f64): ([n]f64, [n][m][k]f64) =
  unzip (map (\\x -> let mean = f64.sum (map (\\r -> f64.sum r) x) / f64.i64 (m * k)
                    let y = map (map (\\a -> a - mean)) x
                    in (f64.sum (map (\\r -> f64.sum (map (** 2) r)) y), y)) xs)
entry gains [n][m][k] (xs: [n][m][k]f64) (w: [m]f64): [m]f64 =
  let cost w = f64.sum (map (\\x -> f64.sum (map2 (\\r c -> f64.sum (map (\\a -> f64.sin (a * c)) r)) x w)) xs)
  in vjp cost w 1
-- Few elements, all known.
entry few [n][m][k] (xs: [n][m][k]f64) (w: [m]f64): [n]f64 =
  map (\\x -> f64.sum (tabulate 3 (\\i -> f64.sum (tabulate 4 (\\j -> f64.i64 (i * j) * x[0, 0]))))) xs
"""
ENTRIES = ("sums", "beside", "several", "mixed", "rows", "gains", "few")
DEVICE = OnDevice(SOURCE, "folds.fut", check=True)


def ways(entry: str) -> set[str]:
    def inside(lam: ir.Lambda) -> set[str]:
        out: set[str] = set()
        for s in ir.statements(lam.stms):
            for v in s.grid.versions if s.grid is not None else ():
                out |= {v.level} | (inside(v.body) if v.body is not None else set())
        return out

    return inside(prepared(DEVICE.program).funs[DEVICE.symbol(entry)].body)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("entry", ENTRIES)
def test_equal_to_the_interpreter(entry: str) -> None:
    own = DEVICE.emulated.device.limits.thresholds
    for n, m, k in ((3, 4, 5), (1, 7, 1), (20, 3, 9), (2, 1, 200), (0, 3, 2), (3, 0, 2), (3, 2, 0)):
        if entry == "few" and not m * k:
            continue
        r = np.random.default_rng(n + m)
        args: list[Any] = [*map(np.int64, (n, m, k)), r.normal(size=(n, m, k)), r.normal(size=m)]
        expected = DEVICE.interpreted(entry, args)
        for threads, inner in ((own.enough_threads, own.block_inner), (-1, 1 << 20), (1 << 20, 0)):
            DEVICE.emulated.choose(own._replace(enough_threads=threads, block_inner=inner))
            for x, y in zip(DEVICE.run(entry, args), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)
    DEVICE.emulated.choose(own)


@pytest.mark.parametrize("entry", ["sums", "beside"])
def test_one_launch_folds_all(entry: str) -> None:
    assert "one-fold" in ways(entry)
    a = DEVICE.count(entry, {"n": 16, "m": 32, "k": 32})
    folds = [r for r in a.rows.values() if r.what.startswith("reduce")]
    assert len(folds) == 1 and folds[0].threads >= 16 * 32 * 32 and a.total.steps <= 60


def test_folds_by_other_operators_stay() -> None:
    assert "one-fold" not in ways("mixed") and "one-fold" not in ways("few")


def test_rows_of_maps_are_shared_out() -> None:
    """A block a point has all elements of the two inner dimensions, and no thread more than its share of them."""
    a = DEVICE.count("rows", {"n": 8, "m": 16, "k": 256})
    assert a.total.steps <= 300, a.table()


ODD = OnDevice(
    """
-- An assertion beside a reshape, and a scatter inside of what is folded.
entry asserted [n][m] (xss: [n][m]f64): [n][2][2]f64 =
  map (\\xs -> let ys = map (* 2) (xs[:4] :> [4]f64) in unflatten (assert (xs[0] < 9) ys :> [2 * 2]f64)) xss
entry scattered [n][m] (xss: [n][m]f64): f64 =
  f64.sum (map (\\xs -> f64.sum (scatter (copy xs) [0, 1] [1, f64.sum xs])) xss)
""",
    "odd.fut",
    check=True,
)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("entry", ["asserted", "scattered"])
def test_what_stands_beside(entry: str) -> None:
    args = [np.int64(3), np.int64(5), np.random.default_rng(3).normal(size=(3, 5))]
    for x, y in zip(ODD.run(entry, args), ODD.interpreted(entry, args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    args[2][1, 0] = 10
    if entry == "asserted":
        with pytest.raises(AssertionFailed):
            ODD.run(entry, args)
