"""Loops of which each point is done by a block: how wide it is, and the layout of the matrices that it reads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
def mul [m][n] (a: [m][n]f64) (x: [n]f64): [m]f64 = map (\\row -> f64.sum (map2 (*) row x)) a
def step [h] (w: [h][h]f64) (s: [h]f64) (x: [h]f64): [h]f64 = map2 (\\a c -> f64.sin (a + c)) (mul w s) x

-- A recurrent network on each sequence by itself.
entry forward [b][t][h] (xs: [b][t][h]f64) (w: [h][h]f64) =
  map (\\x -> loop s = replicate h 0.1 for i < t do step w s x[i]) xs
entry adjoint [b][t][h] (xs: [b][t][h]f64) (w: [h][h]f64) =
  let loss w = f64.sum (map (\\x -> f64.sum (loop s = replicate h 0.1 for i < t do step w s x[i])) xs)
  in vjp loss w 1

-- By rows and by columns, both from outside.
entry both [b][t][h] (xs: [b][t][h]f64) (w: [h][h]f64) =
  map (\\x -> loop s = replicate h 0.1 for i < t do step w (step (transpose w) s x[i]) x[i]) xs

-- A matrix of the point's own, one that the loop changes, and no loop.
entry own [b][t][h] (xs: [b][t][h]f64) (w: [h][h]f64) =
  map (\\x -> let v = map (map (* x[0, 0])) w
             in loop s = replicate h 0.1 for i < t do step v s x[i]) xs
entry changing [b][t][h] (xs: [b][t][h]f64) (w: [h][h]f64) =
  map (\\x -> let (s, _) = loop (s, w) = (replicate h 0.1, copy w) for i < t do
                            let s = step w s x[i] in (s, w with [i % h] = copy s)
             in s) xs
entry once [b][t][h] (xs: [b][t][h]f64) (w: [h][h]f64) =
  map (\\x -> scan (+) 0 (map f64.cos (step w x[0] x[0]))) xs
"""
DEVICE = OnDevice(SOURCE, "block_loops.fut", check=True)
ENTRIES = ("forward", "adjoint", "both", "own", "changing", "once")


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_equal_to_the_interpreter(name: str) -> None:
    own = DEVICE.emulated.device.limits.thresholds
    for b, t, h in [(0, 2, 3), (1, 1, 1), (3, 4, 5), (2, 3, 40), (2, 1, 0), (2, 0, 3)]:
        if (name in ("own", "changing", "once") and t * h == 0) or (name == "own" and b == 0):
            continue  # they look into the arrays
        rng = np.random.default_rng(b + h)
        args = [*map(np.int64, (b, t, h)), rng.standard_normal((b, t, h)), rng.standard_normal((h, h)) / 4]
        expected = DEVICE.interpreted(name, args)
        for tiles in (0, own.enough_tiles):
            DEVICE.emulated.choose(own._replace(block_inner=0, enough_threads=1 << 20, enough_tiles=tiles))
            for x, y in zip(DEVICE.run(name, args), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_rows_that_threads_fold_in_a_loop_are_columns() -> None:
    sizes = {"b": 32, "t": 50, "h": 64}
    copies = {name: DEVICE.count(name, sizes).transposes for name in ENTRIES}
    assert copies == {"forward": 1, "adjoint": 1, "both": 1, "own": 0, "changing": 0, "once": 0}
    assert DEVICE.count("forward", sizes).total.strided == 0


def test_blocks_are_as_wide_as_nests_where_points_are_few() -> None:
    def threads(points: int) -> int:
        rows = DEVICE.count("adjoint", {"b": points, "t": 50, "h": 64}).rows.values()
        return max(r.threads // r.blocks for r in rows if "by the block" in r.what)

    assert (threads(32), threads(1000)) == (256, 64)
