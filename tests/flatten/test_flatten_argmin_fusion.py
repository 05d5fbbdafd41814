"""The least or greatest element and its place by one fold."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core.check import check_program
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
entry least [n] (xs: [n]f64) = vjp2 f64.minimum xs 1
entry greatest [n] (xs: [n]f32) = vjp2 f32.maximum xs 1
entry mapped [n] (xs: [n]f64) = vjp2 (\\xs -> f64.minimum (map (\\x -> (x - 1) * (x - 1)) xs)) xs 1
entry rows [n][m] (xss: [n][m]f64) = unzip (map (\\xs -> vjp2 f64.maximum xs 1) xss)
-- Places by a search that is not of the minimum's own elements, or of another one's.
entry apart [n] (xs: [n]f64) =
  let low = f64.minimum xs
  let find ys = i64.minimum (map2 (\\y i -> if y == low then i else n) ys (iota n))
  in (low, find xs, find (map f64.abs xs), f64.maximum xs, find (reverse xs))
"""
DEVICE = OnDevice(SOURCE, "placed.fut", check=True)
VALUES = (0.0, -0.0, 1.0, 2.0, -3.0, np.inf, -np.inf, np.nan)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["least", "greatest", "mapped", "apart"])
def test_special_values_and_ties(name: str) -> None:
    rng = np.random.default_rng(3)
    kind = "float32" if name == "greatest" else "float64"
    for n in (0, 1, 2, 5, 300):
        for values in (VALUES, VALUES[:5], VALUES[:2], (np.inf,), (-np.inf,), (np.nan,), (np.nan, np.inf)):
            args = [np.int64(n), rng.choice(values, n).astype(kind)]
            with np.errstate(all="ignore"):
                expected = DEVICE.interpreted(name, args)
            for x, y in zip(DEVICE.run(name, args), expected, strict=True):
                np.testing.assert_array_equal(x, y)


@pytest.mark.slow
@needs_cxx
def test_rows() -> None:
    """Each by a thread, by a warp or a block, and by several blocks."""
    own = DEVICE.emulated.device.limits.thresholds
    for n, m in ((0, 3), (3, 0), (7, 1), (40, 33), (2, 4000)):
        args = [np.int64(n), np.int64(m), np.random.default_rng(n).choice(VALUES[:6], (n, m))]
        expected = DEVICE.interpreted("rows", args)
        for threads, inner in ((own.enough_threads, own.block_inner), (-1, 1 << 20), (1 << 20, 0)):
            DEVICE.emulated.choose(own._replace(enough_threads=threads, block_inner=inner))
            for x, y in zip(DEVICE.run("rows", args), expected, strict=True):
                np.testing.assert_array_equal(x, y)


def test_elements_are_read_once() -> None:
    check_program(prepared(DEVICE.program))
    for name, size in (("least", 8), ("greatest", 4)):
        a = DEVICE.count(name, {"n": 1_000_000})
        folds = [r for r in a.rows.values() if r.what.startswith("reduce")]
        assert len(folds) == 1 and folds[0].cost.read <= 1.01 * size * 1_000_000
