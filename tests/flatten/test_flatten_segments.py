"""Few long rows that are reduced or scanned, by several blocks each."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from futad.backend.cuda import DeviceBackend
from futad.backend.device_cost import count
from futad.core.interp import Interpreter
from futad.core.ir import Program
from futad.errors import BoundsError
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.runtime.deviceprogram import DeviceProgram
from futad.source import compile_text
from futad.testing.build import device_backend
from tests.support.needs import needs_cxx

pytestmark = needs_cxx

SOURCE = """
entry sums [n][m] (xss: [n][m]i64) = map i64.sum xss
entry norms [n][m] (xss: [n][m]i64) = map (\\xs -> f64.sqrt (f64.i64 (i64.sum (map (\\x -> x * x) xs)))) xss
-- What comes before the fold is needed in its elements, and what comes after it in both of its results.
entry affine [n][m] (xss: [n][m]i64) =
  map2 (\\c xs -> let k = c * c + 1
                  let ys = map (\\x -> (2 * x + k, x - c)) xs
                  let (a, b) = reduce (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) ys
                  in a + k * b) (iota n) xss
entry several [n][m] (xss: [n][m]i64) =
  unzip3 (map (\\xs -> (i64.sum xs, i64.maximum xs, all (< 7) xs)) xss)
entry deep [n][m] (xss: [n][m]i64) = map (\\k -> map (\\xs -> i64.sum (map (* k) xs)) xss) (iota 2)
entry softmax [n][m] (xss: [n][m]i64) =
  map (\\xs -> let top = i64.maximum xs
              let es = map (\\x -> f64.exp (f64.i64 (x - top))) xs
              let s = f64.sum es
              in map (/ s) es) xss
entry scans [n][m] (xss: [n][m]i64) = map (scan (+) 0) xss
entry affines [n][m] (xss: [n][m]i64) =
  map2 (\\c xs -> unzip (scan (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (map (\\x -> (2 * x + c, x - 3)) xs)))
       (iota n) xss
entry deeps [n][m] (xss: [n][m]i64) = map (\\k -> map (\\xs -> scan i64.max i64.lowest (map (* k) xs)) xss) (iota 2)
-- Each row by another operator: not one scan.
entry modular [n][m] (xss: [n][m]i64) =
  map2 (\\k xs -> scan (\\a b -> (a + b) % (k + 2)) 0 (map (% (k + 2)) xs)) (iota n) xss
entry columns [n][m] (xss: [n][m]i64) = transpose (map (scan (+) 0) xss)
entry picked [n][m] (xss: [n][m]i64) = map (\\xs -> i64.sum (map (\\x -> xs[x + 9]) xs)) xss
"""
ENTRIES = ("softmax", "sums", "norms", "affine", "several", "deep", "scans", "affines", "deeps", "columns", "modular")


@cache
def program(only: str = "") -> Program:
    """All entries, or some."""
    head, *entries = SOURCE.split("\nentry ")
    return compile_program(compile_text("\nentry ".join([head, *[e for e in entries if e.startswith(only)]]), "main"))


@cache
def backend(only: str = "") -> DeviceBackend:
    return device_backend(program(only))


def running(device: EmulatedDevice, only: str = "") -> DeviceProgram:
    """On a device that takes 64 elements for many, and 99 rows for few."""
    made = backend(only)
    p = DeviceProgram(device, made.layout, made.source, made.host, made.constants)
    p.choose(device.limits.thresholds._replace(enough_tiles=100, long_inner=2))
    p.runtime.trace = True
    return p


def matrix(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(rows * 1009 + columns).integers(-9, 10, (rows, columns))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 1])
def test_results(seed: int | None) -> None:
    p = running(EmulatedDevice(seed=seed))
    for name in ENTRIES:
        for shape in ((3, 500), (1, 64), (3, 129), (4, 63), (3, 0), (0, 64), (2, 2000)):
            args = [*shape, matrix(*shape)]
            want, got = Interpreter(program()).run(name, args), p.run(name, args)
            for x, y in zip(got, want, strict=True):
                tolerance = 1e-13 if name == "softmax" else 0  # its sums are rounded
                np.testing.assert_allclose(x, y, rtol=tolerance, err_msg=f"{name} {shape}")
            kinds = [p.layout.kernels[k].kind for k in p.runtime.counts.path]
            if shape[0] and shape[1] >= 64:
                long = ["tile"] if name in ("scans", "affines", "deeps") else ["block", "block"]
                if name == "softmax":  # each fold in parts
                    assert kinds.count("block") >= 4 and kinds[-1] == "thread"
                else:
                    assert kinds == long or name in ("several", "columns", "modular"), (name, shape, kinds)
                assert p.runtime.counts.copied == 0 or name == "columns"


@pytest.mark.slow
def test_several_blocks_fill_the_card() -> None:
    """Ten rows are read once, by more blocks than there are rows; their sums are two launches."""
    sizes = {"n": 10, "m": 10_000_000}
    a = count(backend().module, program(), "sums", sizes)
    assert a.launches == 2 and any("parts" in r.what and r.launches for r in a.rows.values())
    assert a.total.read + a.total.written <= 1.01 * a.least[0]
    assert count(backend().module, program(), "sums", {"n": 10_000, "m": 10_000}).launches == 1
    assert count(backend().module, program(), "scans", sizes).launches == 2  # memory that is cleared, and the scan


@pytest.mark.slow
def test_an_index_out_of_bounds() -> None:
    p = running(EmulatedDevice())
    xs = matrix(3, 300)
    want = Interpreter(program()).run("picked", [3, 300, xs])[0]
    np.testing.assert_array_equal(p.run("picked", [3, 300, xs])[0], want)
    bad = xs.copy()
    bad[2, 299] = 291
    with pytest.raises(BoundsError, match=r"Index \[300\] out of bounds for array of shape \[300\]") as e:
        p.run("picked", [3, 300, bad])
    assert e.value.span is not None and e.value.span.line == SOURCE.splitlines().index(SOURCE.splitlines()[-1]) + 1
    np.testing.assert_array_equal(p.run("picked", [3, 300, xs])[0], want)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["address", "thread"])
def test_under_a_sanitizer(kind: str) -> None:
    p = running(EmulatedDevice(sanitize=kind), "affine")
    for name in ("affine", "affines"):
        args = [2, 90, matrix(2, 90)]
        for x, y in zip(p.run(name, args), Interpreter(program()).run(name, args), strict=True):
            np.testing.assert_array_equal(x, y)
