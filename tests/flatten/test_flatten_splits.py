"""Matrix products with few tiles and a long sum on devices: cut into parts, which are then added up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT

SOURCE = """
def dot [n] (a: [n]f64) (b: [n]f64) : f64 = f64.sum (map2 (*) a b)
def mul [m][n][k] (a: [m][n]f64) (b: [n][k]f64): [m][k]f64 = map (\\x -> map (dot x) (transpose b)) a

-- Added to an array.
entry added [m][n][k] (a: [m][k]f64) (b: [k][n]f64) (c: [m][n]f64): [m][n]f64 =
  map2 (map2 (+)) c (mul (map (map f64.cos) a) b)

-- What is made of the product's elements.
entry consumed [m][n][k] (a: [m][k]f64) (b: [k][n]f64) (c: [m][n]f64): [m][n]f64 =
  map2 (map2 (\\x y -> f64.exp (-x * x) + y)) (mul a b) c

-- By itself: the BLAS may get it.
entry plain [m][n][k] (a: [m][k]f64) (b: [k][n]f64) (c: [m][n]f64): [m][n]f64 = mul a b
"""
BATCHED = """
def dot [n] (a: [n]f64) (b: [n]f64) : f64 = f64.sum (map2 (*) a b)
entry batched [z][m][n][k] (a: [z][m][k]f64) (b: [z][n][k]f64): [z][m][n]f64 =
  map2 (\\a b -> map (\\x -> map (\\y -> dot (map f64.sin x) y) b) a) a b
"""
DEVICE, BATCHES = OnDevice(SOURCE, "splits.fut", check=True), OnDevice(BATCHED, "batched.fut", check=True)
LSTM = (ROOT / "benchmarks" / "programs" / "lstm.fut").read_text().replace("f32", "f64")
ENTRIES = ("added", "consumed", "plain")
SIZES = [(5, 4, 500), (3, 2, 127), (3, 2, 128), (70, 3, 300), (1, 1, 999), (0, 3, 300), (3, 0, 300), (3, 4, 0),
         (64, 64, 512)]  # fmt: skip


def given(device: OnDevice, entry: str, arrays: list[np.ndarray], **sizes: int) -> list[Any]:
    """Arguments: the sizes in the order that the entry has them, then the arrays."""
    fun = device.fun(entry)
    return [*[np.int64(sizes[p.name]) for p in fun.body.params[: fun.num_sizes]], *arrays]


def names(device: OnDevice, entry: str, args: list[np.ndarray]) -> set[str]:
    """What a call launches."""
    running = device.emulated
    running.runtime.trace = True
    device.run(entry, args)
    return {running.layout.kernels[n].what for n in running.runtime.counts.path if n >= 0}


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("entry", ENTRIES)
def test_equal_to_the_interpreter(entry: str) -> None:
    own = DEVICE.emulated.device.limits.thresholds
    for m, n, k in SIZES:
        rng = np.random.default_rng(m + k)
        arrays = [rng.standard_normal(s) for s in ((m, k), (k, n), (m, n))]
        args = given(DEVICE, entry, arrays, m=m, n=n, k=k)
        expected = DEVICE.interpreted(entry, args)
        for tiles in (own.enough_tiles, 9, 0):
            DEVICE.emulated.choose(own._replace(enough_tiles=tiles))
            for x, y in zip(DEVICE.run(entry, args), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-10)
    DEVICE.emulated.choose(own)


@pytest.mark.slow
@needs_cxx
def test_batches() -> None:
    own = BATCHES.emulated.device.limits.thresholds
    for z, m, n, k in [(3, 5, 4, 300), (1, 2, 3, 1000), (0, 2, 3, 300), (2, 70, 3, 200)]:
        rng = np.random.default_rng(k)
        a, b = rng.standard_normal((z, m, k)), rng.standard_normal((z, n, k))
        args = given(BATCHES, "batched", [a, b], z=z, m=m, n=n, k=k)
        for tiles in (own.enough_tiles, 40, 0):
            BATCHES.emulated.choose(own._replace(enough_tiles=tiles))
            (got,) = BATCHES.run("batched", args)
            np.testing.assert_allclose(got, np.sin(a) @ b.transpose(0, 2, 1), rtol=1e-11, atol=1e-10)
    BATCHES.emulated.choose(own)


@pytest.mark.slow
@needs_cxx
def test_sums_of_rows_that_a_product_takes_along() -> None:
    """The adjoints of LSTM's weights and of its bias are of all steps, hence long sums."""
    device = OnDevice(LSTM, "lstm.fut")
    b, t, d, h = 40, 8, 3, 5
    shapes = [(4, h, d), (4, h, h), (4, h), (h, h), (h,), (b, h), (b, h), (t, b, d), (t, b, h)]
    arrays = [np.random.default_rng(3).normal(size=s) / 3 for s in shapes]
    args = given(device, "gradient", arrays, b=b, t=t, d=d, h=h, o=h)
    expected = device.interpreted("gradient", args)
    own = device.emulated.device.limits.thresholds
    for tiles in (own.enough_tiles, 9, 0):
        device.emulated.choose(own._replace(enough_tiles=tiles))
        for x, y in zip(device.run("gradient", args), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
        assert any(w.startswith("parts of sums beside") for w in names(device, "gradient", args)) == (tiles > 0)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("entry", ENTRIES[:2])
def test_long_sums_of_few_tiles_are_cut(entry: str) -> None:
    """Where there is room for more blocks than tiles, and each part has eight steps; else they are not."""
    rng = np.random.default_rng(1)

    def launched(m: int, n: int, k: int, tiles: int) -> set[str]:
        DEVICE.emulated.choose(own._replace(enough_tiles=tiles))
        arrays = [rng.standard_normal(s) for s in ((m, k), (k, n), (m, n))]
        return names(DEVICE, entry, given(DEVICE, entry, arrays, m=m, n=n, k=k))

    own = DEVICE.emulated.device.limits.thresholds
    assert any("sums in parts" in w for w in launched(5, 4, 500, 9))
    assert not any("sums in parts" in w for w in launched(5, 4, 100, 9) | launched(5, 4, 500, 0))
    DEVICE.emulated.choose(own)


def test_small_products_are_cut_where_sums_are_long() -> None:
    """Into four parts at least, which another launch adds; what the BLAS may get it cuts up itself."""

    def products(m: int, n: int, k: int) -> list[str]:
        rows = DEVICE.count("plain", {"m": m, "n": n, "k": k}).rows.values()
        return [r.what for r in rows if "product" in r.what]

    for k, cut in ((5000, True), (512, True), (500, False), (20, False)):
        assert any("sums in parts" in w for w in products(32, 32, k)) == cut
    assert not any("sums in parts" in w for w in products(64, 64, 1 << 12) + products(2000, 2000, 600))
    few = DEVICE.count("plain", {"m": 32, "n": 32, "k": 5000})
    assert few.launches == 2 and few.total.steps <= 1000, few.table()
