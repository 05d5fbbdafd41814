"""Updates whose places vary with some dimensions of a nest only are sums over the others on devices; maps that update
accumulators are distributed over their statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.types import i64, shape_of
from futad.errors import AssertionFailed, BoundsError
from futad.runtime.device import card_limits, chunks
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
type~ acc 't = intrinsics.acc t
-- A place that varies with the second dimension, one that a scalar operation makes of it, one that is read there.
entry second [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): [m]f64 =
  vjp (\\w -> f64.sum (map (\\x -> f64.sum (map2 (\\a b -> f64.tanh (a * b)) x w)) xs)) w 1
entry moved [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): [m]f64 =
  let at (j: i64) = i64.min (j + 1) (m - 1)
  in vjp (\\w -> f64.sum (map (\\x -> f64.sum (map2 (\\a j -> f64.sin (a * w[at j])) x (iota m))) xs)) w 1
entry gathered [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): [m]f64 =
  vjp (\\w -> f64.sum (map (\\x -> f64.sum (map2 (\\a k -> f64.sin (a * w[k])) x ks)) xs)) w 1

-- One that varies with the first.
entry first [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): [n]f64 =
  let cost (v: [n]f64) = f64.sum (map2 (\\c x -> f64.sum (map2 (\\a b -> f64.exp (c * a * b)) x w)) v xs)
  in vjp cost (map (\\x -> if m == 0 then 0 else x[0]) xs) 1

-- Of four dimensions with two, and with none; the nest is cut at what is dear, or summed itself.
entry window [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): [2][3]f64 =
  let at i j = if i < n && j < m then xs[i, j] else 0
  let cost (k: [2][3]f64) =
    let at i j = f64.sum (flatten (tabulate_2d 2 3 (\\p q -> k[p, q] * at (i + p) (j + q))))
    let y = tabulate_2d n m (\\i j -> f64.max 0 (at i j))
    in f64.sum (map (\\v -> v * v) (flatten y))
  in vjp cost [[1, 0.5, -0.25], [0.25, -1, 2]] 1
entry layers [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): ([4][m][2]f64, [4]f64) =
  let cost (k: [4][m][2]f64, b: [4]f64) =
    f64.sum (map2 (\\kk bb -> f64.sum (map (\\x ->
      f64.tanh (bb + f64.sum (map2 (\\a r -> r[0] * a + r[1] * a * a) x kk))) xs)) k b)
  in vjp cost (replicate 4 (map (\\a -> [a, 1 - a]) w), [0, 1, 2, 3]) 1
entry scalar [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): f64 =
  vjp (\\s -> f64.sum (map (\\x -> f64.sum (map (\\a -> f64.sin (a * s) / (2 + f64.cos s)) x)) xs)) 0.5 1

-- Beside other results; by a loop in each element.
entry beside [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): ([m]f64, [n]f64) =
  let f (w: [m]f64) (c: [n]f64) =
    f64.sum (map2 (\\x c -> let s = f64.sum (map2 (*) x w) in f64.sin s * c + s) xs c)
  in vjp (\\(w, c) -> f w c) (w, replicate n 2) 1
entry looping [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): f64 =
  vjp (\\s -> f64.sum (map (\\x -> loop y = s for i < m do f64.sin (y * x[i])) xs)) 1.5 1

-- Rows of several arrays, added at places that many points have in common.
entry pairs [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): ([3][m]f64, [2][m]f64) =
  let cost (u: [3][m]f64, v: [2][m]f64) =
    f64.sum (map (\\i -> (1 - f64.sum (map2 (*) u[i % 3] v[i % 2])) ** 2) (iota n))
  in vjp cost (replicate 3 w, replicate 2 w) 1

-- Adjoints of one variable, and their tangents, to which a nest adds nothing.
entry untouched [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): [m]f64 =
  let cost (p: f64) (w: [m]f64) =
    f64.sum (map (\\x -> f64.sin (f64.sum (map2 (*) x w))) xs) + p / 2 * f64.sum (map (** 2) w)
  in jvp (\\p -> vjp (cost p) w 1) 0.5 1

-- Integers.
entry counts [n][m] (xs: [n][m]f64) (w: [m]f64) (ks: [m]i64): [m]i64 =
  let adding (a: *acc ([m]i64)) (i: i64): acc ([m]i64) =
    loop a for j < m do intrinsics.acc_write a j (i64.f64 (4 * xs[i, j]) + j)
  in intrinsics.hist_stream (replicate m 7i64) (+) 0 adding (iota n)
"""
ENTRIES = (
    "second", "moved", "gathered", "first", "window", "layers", "scalar", "beside", "looping", "pairs", "untouched",
    "counts",
)  # fmt: skip
SUMMED = ("second", "moved", "gathered", "window", "layers", "beside")
SIZES = [(0, 3), (4, 1), (1, 4), (7, 5), (40, 3), (3, 130), (300, 20), (5, 0)]
DEVICE = OnDevice(SOURCE, "updates.fut", check=True)
SINGLE = OnDevice(SOURCE.replace("f64", "f32"), "single.fut", check=True)


def arguments(n: int, m: int, dtype: type = np.float64) -> list[Any]:
    rng = np.random.default_rng(n + m)
    xs, w = (rng.standard_normal(s).astype(dtype) for s in ((n, m), m))
    return [np.int64(n), np.int64(m), xs, w, rng.integers(0, max(1, m // 2), m)]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_equal_to_the_interpreter(name: str) -> None:
    own = DEVICE.emulated.device.limits.thresholds
    for n, m in SIZES:
        args = arguments(n, m)
        if name == "pairs" and not n:
            continue
        expected = DEVICE.interpreted(name, args)
        for threads, inner in ((own.enough_threads, own.block_inner), (-1, 1 << 20), (1 << 20, 0)):
            DEVICE.emulated.choose(own._replace(enough_threads=threads, block_inner=inner))
            for x, y in zip(DEVICE.run(name, args), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)
    DEVICE.emulated.choose(own)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["window", "layers", "gathered"])
def test_single_precision(name: str) -> None:
    args = arguments(40, 7, np.float32)
    for x, y in zip(SINGLE.run(name, args), SINGLE.interpreted(name, args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def levels(lam: ir.Lambda) -> set[str]:
    """The levels of all versions of a scope's statements, and of those in these."""
    out: set[str] = set()
    for s in ir.statements(lam.stms):
        for v in s.grid.versions if s.grid is not None else ():
            out |= {v.level} | (levels(v.body) if v.body is not None else set())
    return out


def ways(name: str) -> set[str]:
    return levels(prepared(DEVICE.program).funs[DEVICE.symbol(name)].body)


@pytest.mark.parametrize("name", SUMMED)
def test_updates_are_sums(name: str) -> None:
    assert "updates-as-sums" in ways(name)


def test_updates_at_places_of_their_own_stay() -> None:
    assert "updates-as-sums" not in ways("looping") and "updates-as-sums" not in ways("pairs")


def _whats(name: str, sizes: dict[str, int]) -> Sequence[str]:
    return [r.what for r in DEVICE.count(name, sizes).rows.values()]


def test_few_places_have_blocks() -> None:
    """A block a place, whose threads share out the sum over the other dimensions."""
    assert any("by the block" in w and "[2][3]" in w.replace("i64", "") for w in _whats("window", {"n": 64, "m": 64}))


FAILING = OnDevice(
    """
type~ acc 't = intrinsics.acc t
-- The places of a whole row are asked for before the first of them is used.
entry picked [n][m][k] (xs: [n][m]f64) (w: [k]f64) (ks: [m]i64): [k]f64 =
  vjp (\\w -> f64.sum (map (\\x -> f64.sum (map2 (\\a k -> f64.sin (a * w[k])) x ks)) xs)) w 1
entry asserted [n][m][k] (xs: [n][m]f64) (w: [k]f64) (ks: [m]i64): [m]f64 =
  let f (a: *acc ([m]f64)) (x: [m]f64): acc ([m]f64) =
    let b = assert (k > 2) (f64.i64 k)
    in loop a for j < m do intrinsics.acc_write a j (b * x[j])
  in intrinsics.hist_stream (replicate m 0) (+) 0 f xs
""",
    "failing.fut",
    check=True,
)


@needs_cxx
def test_an_index_out_of_range_keeps_its_place() -> None:
    args = [*map(np.int64, (3, 4, 2)), np.ones((3, 4)), np.ones(2), np.array([0, 1, 2, 0])]
    with pytest.raises(BoundsError) as expected:
        FAILING.interpreted("picked", args)
    with pytest.raises(BoundsError) as got:
        FAILING.run("picked", args)
    assert got.value.span == expected.value.span and str(got.value) == str(expected.value)
    args[-1] = np.array([0, 1, 1, 0])
    for x, y in zip(FAILING.run("picked", args), FAILING.interpreted("picked", args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@needs_cxx
@pytest.mark.parametrize("m", [0, 3])
def test_assertions_between_maps_are_asked_whatever_is_inside(m: int) -> None:
    args = [*map(np.int64, (3, m, 2)), np.ones((3, m)), np.ones(2), np.zeros(m, np.int64)]
    for run in (FAILING.interpreted, FAILING.run):
        with pytest.raises(AssertionFailed):
            run("asserted", args)
    args[2], args[4] = np.int64(3), np.ones(3)
    for x, y in zip(FAILING.run("asserted", args), FAILING.interpreted("asserted", args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_few_flattened_elements_are_folded_without_an_array() -> None:
    folds = [s.exp for s in ir.statements(prepared(DEVICE.program).funs[DEVICE.symbol("window")].body.stms)]
    assert not any(isinstance(e, ir.Reshape) and e.shape and shape_of(e.array.type)[-1:] == (i64(3),) for e in folds)
    assert any(isinstance(e, ir.Fused) and e.width == i64(2) and e.lam.has(ir.Fused) for e in folds)


def test_chunks_are_short_while_blocks_are_few() -> None:
    limits = card_limits(132)
    assert [chunks(limits, n, 1) for n in (0, 1, 256, 257, 10_000)] == [1, 1, 1, 2, 40]
    assert chunks(limits, 1_000_000, 1) == 4 * 132 and chunks(limits, 1 << 30, 1) == limits.blocks
    assert chunks(limits, 4_000_000, 1) == -(-4_000_000 // limits.chunk)  # long ones, of as many elements
    assert chunks(limits, 100_000, 100) == limits.blocks // 100 and chunks(limits, 100_000, 1000) == 2
    assert chunks(limits, 100_000, 1, 1000) == 25  # each updates a thousand bins at its end
