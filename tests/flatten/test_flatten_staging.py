"""Rows that threads make one each are written by a warp together, and mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from futad.errors import BoundsError
from futad.flatten import kernel as kir
from futad.imp.walk import statements
from futad.runtime.device import EmulatedDevice
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
entry rows [n] (xs: [n]f64): [n][5]f64 = map (\\x -> [x, x + 1, f64.sin x, x * x, 2 - x]) xs
entry narrow [n] (xs: [n]f64): ([n][3]f32, [n][4]i32) =
  unzip (map (\\x -> ([f32.f64 x, 1, f32.f64 (2 * x)], let i = i32.f64 (x * 100) in [i, i + 1, -i, i * i])) xs)
entry blocks [n] (xs: [n]f64): [n][2][9]f64 =
  map (\\x -> let r = [x, x + 1, f64.sin x, x * x, 2 - x, x, 1, 0, x]
              in [r, [1, x, x, x * 2, f64.cos x, 3, 4, 5, x / 2]]) xs
entry joined [n] (xs: [n]f64): []f64 =
  flatten (map (\\x -> [x, x + 1, f64.sin x, x * x, 2 - x]) xs) ++ map (* 3) xs
-- Not all of a row, or at places that a value chooses: written as it comes.
entry chosen [n] (xs: [n]f64): [n][4]f64 =
  map (\\x -> [x, 1, 2, 3] with [i64.f64 (f64.abs x * 1000) % 4] = -x) xs
entry some [n] (xs: [n]f64): [n][4]f64 = map (\\x -> if x > 0 then [x, 1, 2, 3] else [0, x, x, x]) xs
-- A point that fails.
entry checked [n] (is: [n]i64) (xs: [n]f64): [n][3]f64 = map (\\i -> [xs[i], xs[i] + 1, 2]) is
"""
DEVICE = OnDevice(SOURCE, "staging.fut", check=True)
ENTRIES = ("rows", "narrow", "blocks", "joined", "chosen", "some")


def staged(entry: str) -> list[int]:
    """How long the rows are that an entry's kernels write together."""
    made = next(f for f in DEVICE.backend.module.functions if f.name == DEVICE.symbol(entry))
    kernels = [s.kernel for s in statements(made.body) if isinstance(s, kir.Launch)]
    return sorted(len(s.values) for k in kernels for s in statements(k.body) if isinstance(s, kir.RowsOut))


def test_whole_rows_are() -> None:
    assert [staged(e) for e in (*ENTRIES, "checked")] == [[5], [3, 4], [18], [5], [], [], [3]]
    for entry in ("rows", "narrow", "blocks", "joined"):
        a = DEVICE.count(entry, {"n": 100_000})
        assert a.total.strided == 0 and a.total.read + a.total.written <= 1.001 * a.least[0]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_they_mean_the_same(name: str) -> None:
    for n in (0, 1, 31, 32, 33, 500, 70_000 if name == "blocks" else 1000):
        args = [np.int64(n), np.random.default_rng(n).standard_normal(n)]
        for x, y in zip(DEVICE.run(name, args), DEVICE.interpreted(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6 if x.dtype == np.float32 else 1e-14)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("options", [{"seed": 3}, {"sanitize": "address"}, {"sanitize": "thread"}])
def test_in_any_order(options: dict) -> None:
    running = DEVICE.on(EmulatedDevice(**options))
    for name in ("blocks", "narrow"):
        args = [np.int64(77), np.random.default_rng(5).standard_normal(77)]
        for x, y in zip(running.run(DEVICE.symbol(name), args), DEVICE.interpreted(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.slow
@needs_cxx
def test_a_failure_is_reported() -> None:
    xs = np.arange(100.0)
    good = np.arange(100) % 7
    np.testing.assert_array_equal(DEVICE.run("checked", [np.int64(100), good, xs])[0][:, 1], xs[good] + 1)
    for at in (0, 40, 99):
        bad = good.copy()
        bad[at] = 100
        with pytest.raises(BoundsError, match=r"Index \[100\]"):
            DEVICE.run("checked", [np.int64(100), bad, xs])
