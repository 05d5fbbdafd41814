"""Maps over whole programs, in each of the ways that the host picks from: all give what the interpreter gives.

FUTAD_SEED moves the seeds, FUTAD_PROGRAMS scales their number.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from futad.errors import Error
from futad.runtime.device import EmulatedDevice, Thresholds
from futad.testing.programs.source import source
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

FIRST = int(os.environ.get("FUTAD_SEED", "1"))
SCALE = float(os.environ.get("FUTAD_PROGRAMS", "1"))
NUMPY = {"f64": "f8", "f32": "f4", "i32": "i4", "i8": "i1", "u8": "u1"}
TOLERANCE = {"f8": 1e-8, "f4": 2e-3}
ENTRIES = """
def at [n][k] ((xs, ms, s): ([n]t, [n][k]t, t)) : (t, [n]t, [k]t, t) = f xs ms s
def each [p][n][k] (x: ([p][n]t, [p][n][k]t, [p]t)) = map (\\x -> at x) (zip3 x.0 x.1 x.2) |> unzip4
entry primal [p][n][k] (xs: [p][n]t) (ms: [p][n][k]t) (s: [p]t) = each (xs, ms, s)
entry rev [p][n][k] (xs: [p][n]t) (ms: [p][n][k]t) (s: [p]t) (b0: [p]t) (b1: [p][n]t) (b2: [p][k]t) (b3: [p]t) =
  vjp each (xs, ms, s) (b0, b1, b2, b3)
entry fwd [p][n][k] (xs: [p][n]t) (ms: [p][n][k]t) (s: [p]t) (dx: [p][n]t) (dm: [p][n][k]t) (ds: [p]t) =
  jvp each (xs, ms, s) (dx, dm, ds)
"""
ALWAYS, NEVER = 0, 1 << 40
OWN = EmulatedDevice.limits.thresholds
VERSIONS = {
    "own": OWN,
    "threads": OWN._replace(enough_threads=-1, block_inner=NEVER, long_inner=NEVER),
    "blocks": OWN._replace(enough_threads=NEVER, block_inner=ALWAYS, long_inner=NEVER, warp_inner=ALWAYS),
    "warps": OWN._replace(enough_threads=31, block_inner=ALWAYS, long_inner=ALWAYS, warp_inner=NEVER),
    "parts": OWN._replace(enough_threads=NEVER, block_inner=ALWAYS, long_inner=ALWAYS, enough_tiles=NEVER),
}
SIZES = [(3, 4, 2), (1, 5, 3), (2, 0, 2), (2, 2, 0), (0, 2, 2), (2, 40, 9)]

pytestmark = needs_cxx


def outcome(run: Any, entry: str, args: list[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return run(entry, args)
    except Error as e:
        return type(e)


def equal(got: Any, want: Any, what: str) -> None:
    if isinstance(want, type):
        assert got is want, what
        return
    assert not isinstance(got, type), f"{what}: {got}"
    for x, y in zip(map(np.asarray, got), map(np.asarray, want), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, what
        tol = TOLERANCE.get(y.dtype.str[1:], 0)
        scale = 1 + np.abs(y[np.isfinite(y)]).max(initial=0) if tol else 0
        np.testing.assert_allclose(x, y, rtol=tol, atol=tol * scale, err_msg=what)


def check(device: OnDevice, entry: str, args: list[Any], chosen: dict[str, Thresholds], seed: int) -> None:
    """With each thresholds, and with the last ones once more with blocks that interleave at random."""
    want = outcome(device.interpreted, entry, args)
    for name, thresholds in chosen.items():
        device.emulated.choose(thresholds)
        equal(outcome(device.run, entry, args), want, f"{device.name}: {entry}, {name}, {args[:3]}")
    mixed = device.on(EmulatedDevice(seed=seed))
    mixed.choose(thresholds)
    equal(outcome(mixed.run, device.symbol(entry), args), want, f"{device.name}: {entry}, mixed, {args[:3]}")


def drawn(rng: np.random.Generator, elem: str, *shape: int) -> Any:
    if elem[0] == "f":
        return rng.normal(size=shape).astype(NUMPY[elem])
    return rng.integers(0 if elem[0] == "u" else -4, 9, shape).astype(NUMPY[elem])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + round(3 * SCALE)))
def test_random_programs_under_a_map(seed: int) -> None:
    elem = ("f64", "i32", "f64", "f32", "u8", "f64", "i8")[seed % 7]
    text, repeats = source(seed + 5000, elem, 6)
    if repeats:
        pytest.skip("several values for one place: which one wins is open")
    device = OnDevice(text + ENTRIES, f"seed{seed}.fut")
    for p, n, k in SIZES:
        rng = np.random.default_rng(seed + n)
        sizes = [*map(np.int64, (p, n, k))]
        xs, dxs, bars = [
            [drawn(rng, elem, *s) for s in shapes]
            for shapes in (((p, n), (p, n, k), (p,)), ((p, n), (p, n, k), (p,)), ((p,), (p, n), (p, k), (p,)))
        ]
        for entry, args in (("primal", xs), ("fwd", xs + dxs), ("rev", xs + bars)):
            check(device, entry, sizes + args, VERSIONS, seed)


@pytest.mark.slow
def test_memory_whose_size_is_computed() -> None:
    """Of a block or of a warp: the size is known to both kinds of launch."""
    text = """
entry own [n][m] (k: i64) (xs: [n][m]f64): [n][k]f64 =
  #[flattening(only_intra)] map (\\x -> let rows = map (\\y -> scan (+) 0 (map (\\i -> y * f64.i64 i) (iota k))) x
                                       in map f64.sum (transpose rows)) xs
"""
    device = OnDevice(text)
    for n, m, k in ((3, 4, 2), (1, 70, 5), (2, 0, 3), (0, 2, 2)):
        args = [*map(np.int64, (n, m, k)), np.random.default_rng(m).standard_normal((n, m))]
        check(device, "own", args, VERSIONS, 1)
