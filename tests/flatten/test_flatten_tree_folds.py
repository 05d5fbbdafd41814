"""Folds of arrays by operators that are no maps over them, in iterations: the same results, nothing on one thread."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.flatten import report
from futad.flatten.tree_folds import in_iterations
from futad.runtime.device import EmulatedDevice
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
def mm [k] (a: [k][k]f64) (b: [k][k]f64) = map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose b)) a
def eye k = tabulate_2d k k (\\i j -> f64.bool (i == j))
entry reduced [n][k] (xs: [n][k][k]f64) (_: [n][k]f64) = reduce mm (eye k) xs
entry scanned [n][k] (xs: [n][k][k]f64) (_: [n][k]f64) = scan mm (eye k) xs
-- Affine maps composed: neither commutative nor of one array.
entry affine [n][k] (xs: [n][k][k]f64) (us: [n][k]f64) =
  unzip (scan (\\(a, u) (b, v) -> (mm b a, map2 (\\r w -> f64.sum (map2 (*) r u) + w) b v)) (eye k, replicate k 0)
              (zip xs us))
entry least [n][k] (_: [n][k][k]f64) (us: [n][k]f64) =
  reduce (\\(s, a) (t, b) -> if s <= t then (s, a) else (t, b)) (f64.inf, replicate k 0)
         (map (\\u -> (f64.sum u, u)) us)
entry several [n][k] (xs: [n][k][k]f64) (us: [n][k]f64) =
  let ys = map2 (\\x u -> map2 (\\r v -> map (* v) r) x u) xs us
  in (reduce mm (eye k) ys, scan mm (eye k) xs, map f64.sum us)
entry repeated [n][k] (xs: [n][k][k]f64) (us: [n][k]f64) =
  loop u = replicate k 1 for i < 3 do
    let product = reduce mm (eye k) (map (map (map (* f64.i64 (i + 1)))) xs)
    in map2 (\\r v -> f64.sum r + v) product (if n > 0 then us[0] else u)
entry gradient [n][k] (xs: [n][k][k]f64) (us: [n][k]f64) =
  vjp (\\xs -> f64.sum (map2 (\\x u -> f64.sum (map2 (\\r v -> r[0] * v) x u)) (scan mm (eye k) xs) us)) xs 1
"""
ENTRIES = ("reduced", "scanned", "affine", "least", "several", "repeated", "gradient")
DEVICE = OnDevice(SOURCE, check=True)
SIZES = ((5, 3), (0, 2), (1, 2), (2, 1), (16, 2), (17, 2), (3, 0), (100, 2))


def arguments(n: int, k: int) -> list:
    rng = np.random.default_rng(n + k)
    return [np.int64(n), np.int64(k), rng.normal(size=(n, k, k)) * 0.7, rng.normal(size=(n, k))]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("seed", [None, 5])
def test_equal_to_the_interpreter(seed: int | None) -> None:
    running = DEVICE.on(EmulatedDevice(seed=seed))
    for entry in ENTRIES:
        for n, k in SIZES if seed is None else [(5, 3), (17, 2)]:
            if k == 0 and entry == "gradient":
                continue  # r[0] is out of bounds
            args = arguments(n, k)
            got, want = running.run(DEVICE.symbol(entry), args), DEVICE.interpreted(entry, args)
            for x, y in zip(got, want, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10, err_msg=f"{entry} {n} {k}")


@pytest.mark.slow
def test_nothing_is_done_by_one_thread() -> None:
    assert "one thread" not in report(prepared(DEVICE.program))
    for entry, each in (("reduced", 2), ("scanned", 6)):
        a, b = [DEVICE.count(entry, {"n": n, "k": 8}) for n in (1 << 10, 1 << 16)]
        assert b.launches - a.launches <= 6 * each and b.total.traffic <= 65 * a.total.traffic


@pytest.mark.parametrize("entry", ["reduced", "scanned", "least"])
def test_iterations_in_the_ir(entry: str) -> None:
    """Well typed, and each element is combined once or twice."""
    name = DEVICE.symbol(entry)
    fun = DEVICE.program.funs[name]

    def replaced(lam: ir.Lambda) -> ir.Lambda:
        folds = [in_iterations(s) if isinstance(s.exp, (ir.Reduce, ir.Scan)) else [s] for s in lam.stms]
        return ir.Lambda(lam.params, tuple(s for stms in folds for s in stms), lam.result)

    plain = ir.map_bodies(ir.Program({name: fun}), lambda lam: lam)
    turned = ir.map_bodies(plain, replaced)
    check_program(turned)
    assert turned.funs[name].body is not fun.body
    for n, k in SIZES:
        args = arguments(n, k)
        for x, y in zip(Interpreter(turned).run(name, args), Interpreter(plain).run(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
