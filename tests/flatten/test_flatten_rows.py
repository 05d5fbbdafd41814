"""Accumulators updated by rows or elements of maps: by way of shared memory or not, by threads or by nests."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
def nearest [k] (xs: [k]f64) (x: f64): i64 =
  let top = f64.minimum (map (\\y -> f64.abs (x - y)) xs)
  in reduce i64.min k (map2 (\\y i -> if f64.abs (x - y) == top then i else k) xs (iota k))

-- The place is found by a fold of its own.
entry found [n][d][k] (xs: [n][d]f64) (w: [k][d]f64) (c: [k]f64): [k][d]f64 =
  vjp (\\w -> f64.sum (map (\\x -> f64.sum (map2 (\\a b -> f64.sin (a * b)) x w[nearest c (f64.sum x)])) xs)) w 1

-- Some points add nothing, some places are outside.
entry guarded [n][d][k] (xs: [n][d]f64) (w: [k][d]f64) (c: [k]f64): [k][d]f64 =
  let place x = i64.f64 (f64.floor (2 * f64.sum x))
  in vjp (\\w -> f64.sum (map (\\x -> let i = place x
                                   in if i >= 0 && i < k && x[0] < 0.5
                                      then f64.sum (map2 (\\a b -> a * f64.exp (0.1 * b)) x w[i]) else 1) xs)) w 1

-- Elements of a nest, at places that only the row knows.
entry elements [n][d][k] (xs: [n][d]f64) (w: [k][d]f64) (c: [k]f64): [k][d]f64 =
  vjp (\\w -> f64.sum (map f64.sum (map (\\x -> map2 (\\a b -> f64.sin (a * b)) x
                                                  w[if x[0] < 0.5 then 0 else k - 1]) xs))) w 1

-- Two accumulators, and another result beside them.
entry two [n][d][k] (xs: [n][d]f64) (w: [k][d]f64) (c: [k]f64): ([k][d]f64, [k]f64, [n]f64) =
  let f (w: [k][d]f64, c: [k]f64) =
    map (\\x -> let i = nearest c (f64.sum x) in c[i] * f64.sum (map2 (*) x w[i])) xs
  let (ys, (w', c')) = vjp2 f (w, c) (map (const 1) xs)
  in (w', c', ys)

-- Two accumulators by rows, one of which gets the same everywhere.
entry curvature [n][d][k] (xs: [n][d]f64) (w: [k][d]f64) (c: [k]f64): ([k][d]f64, [k][d]f64) =
  let cost (w: [k][d]f64) =
    f64.sum (map (\\x -> f64.sum (map2 (\\a b -> (a - b) * (a - b)) x w[nearest c (f64.sum x)])) xs)
  in jvp2 (\\w -> vjp cost w 1) w (map (map (const 1)) w)

-- A loop of as many iterations as data say, whose return sweep does nothing but add.
entry ragged [n][d][k] (xs: [n][d]f64) (w: [k][d]f64) (c: [k]f64): [k][d]f64 =
  let cost i (w: [k][d]f64) =
    loop s = 0 for j < i64.f64 (4 * xs[i, 0]) do s + w[(i + j) % k, j % d] * xs[i, j % d]
  in vjp (\\w -> f64.sum (tabulate n (\\i -> cost i w))) w 1

-- A loop for each pair of a point and a row, of as many iterations as data say, which looks into the
-- row here and there.
entry looping [n][d][k] (xs: [n][d]f64) (w: [k][d]f64) (c: [k]f64): (f64, [k][d]f64) =
  let cost (w: [k][d]f64) =
    let one (x: [d]f64) (r: [d]f64) (a: f64) =
      loop s = a for j < i64.f64 (4 * x[0]) do s + (x[j % d] - r[(3 * j) % d]) ** 2
    in f64.sum (map (\\x -> f64.minimum (map2 (one x) w c)) xs)
  in vjp2 cost w 1

-- Scalars before the rows that are too much for each element, but all of them single operations.
entry costly [n][d][k] (xs: [n][d]f64) (w: [k][d]f64) (c: [k]f64): [k][d]f64 =
  let factor (x: [d]f64) = f64.exp (f64.sin (f64.cos (f64.exp (f64.sin x[0])))) * f64.log (1.5 + f64.tanh x[0])
  let one (s: f64) (x: [d]f64) (r: [d]f64) = f64.sum (map2 (\\a b -> f64.sin (s * a * b)) x r)
  in vjp (\\w -> f64.sum (map (\\x -> one (factor x) x w[k - 1]) xs)) w 1
"""
ENTRIES = ("costly", "found", "guarded", "elements", "two", "curvature", "ragged", "looping")
SIZES = [(0, 3, 2), (1, 1, 1), (40, 3, 2), (7, 40, 3), (300, 5, 4), (30, 9, 60), (150, 95, 3), (20, 96, 1)]
DEVICE = OnDevice(SOURCE, "rows.fut", check=True)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_equal_to_the_interpreter(name: str) -> None:
    own = DEVICE.emulated.device.limits.thresholds
    for n, d, k in SIZES:
        rng = np.random.default_rng(n + d)
        args = [*map(np.int64, (n, d, k)), rng.standard_normal((n, d)), rng.standard_normal((k, d)), np.arange(k) - 0.5]
        expected = DEVICE.interpreted(name, args)
        for threads, inner in ((own.enough_threads, own.block_inner), (-1, 1 << 20), (1 << 20, 0)):
            DEVICE.emulated.choose(own._replace(enough_threads=threads, block_inner=inner))
            for x, y in zip(DEVICE.run(name, args), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES[:3])
def test_sizes_decide(name: str) -> None:
    def what(n: int, d: int, k: int) -> str:
        rows = DEVICE.count(name, {"n": n, "d": d, "k": k}).rows
        return " ".join(r.what for r in rows.values())

    assert "shared memory" in what(100_000, 35, 5) and "shared memory" in what(100_000, 10, 5)
    assert "shared memory" not in what(10_000, 256, 1024) and "shared memory" not in what(3, 35, 5)


def test_rows_are_read_once() -> None:
    """Where rows and what is added up have room in shared memory, and points are many."""
    for name in ("found", "curvature"):
        a = DEVICE.count(name, {"n": 100_000, "d": 35, "k": 5})
        assert any("rows and sums in shared memory" in r.what for r in a.rows.values())
        assert a.total.read + a.total.written <= 1.05 * a.least[0]
        assert a.total.strided + a.total.gathered <= 0.05 * a.total.traffic
        for n, d, k in ((10_000, 35, 5), (100_000, 96, 5), (100_000, 35, 70)):
            rows = DEVICE.count(name, {"n": n, "d": d, "k": k}).rows
            assert not any("rows and sums" in r.what for r in rows.values())


def test_loops_that_only_add_are_maps() -> None:
    def loops(lam: ir.Lambda) -> int:
        mine = sum(isinstance(s.exp, ir.For) for s in lam.stms)
        return mine + sum(loops(f) for s in lam.stms for f in s.exp.lambdas())

    made = prepared(DEVICE.program)
    check_program(made)
    assert loops(DEVICE.fun("ragged").body) == 1 and loops(made.funs[DEVICE.symbol("ragged")].body) == 0


def test_loops_of_all_pairs_have_threads_of_their_own() -> None:
    """And neighbours read neighbouring elements."""
    a = DEVICE.count("looping", {"n": 100_000, "d": 1000, "k": 10})
    assert a.transposes == 1
    (row,) = [r for r in a.rows.values() if r.what.startswith("map over [n") and "][k" in r.what]
    assert row.cost.strided + row.cost.gathered <= 0.3 * row.cost.traffic


def test_neighbouring_threads_add_neighbouring_elements() -> None:
    a = DEVICE.count("found", {"n": 100_000, "d": 35, "k": 5})
    (row,) = [r for r in a.rows.values() if "shared memory" in r.what]
    assert row.cost.strided + row.cost.gathered <= 0.05 * row.cost.traffic
