"""Stable sorts by integer key on every backend, and histograms that devices make by sorting."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.errors import InternalError, OutOfMemory
from futad.runtime.device import EmulatedDevice
from futad.testing.build import c_backend, device_backend
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = r"""
fun whole (n_1: i64, ks_2: [n_1]i64, most_3: i64) -> (r_9: [n_1]i64) = {
  let r_4: [n_1]i64 = argsort(ks_2, most_3)
  in (r_4) }
fun computed (n_5: i64, ks_6: [n_5]i64, most_7: i64) -> (r_8: [n_5]i64, r_19: [n_5]i64) = {
  let up_10: [n_5]i64 = map(n_5, [ks_6], \(k_11: i64) -> {
    let a_12: i64 = sub(most_7, k_11) let b_13: i64 = sub(a_12, 1i64) in (b_13) })
  let r_14: [n_5]i64 = argsort(up_10, most_7)
  let is_15: [n_5]i64 = iota(n_5, 0i64, 1i64)
  let s_16: [n_5]i64 = argsort(is_15, n_5)
  in (r_14, s_16) }
fun rows (n_20: i64, m_21: i64, ks_22: [n_20][m_21]i64, most_23: i64) ->
  (r_24: [n_20][m_21]i64, s_25: [m_21][n_20]i64) = {
  let r_26: [n_20][m_21]i64 = map(n_20, [ks_22], \(row_27: [m_21]i64) -> {
    let o_28: [m_21]i64 = argsort(row_27, most_23) in (o_28) })
  let t_29: [m_21][n_20]i64 = rearrange(ks_22, [1, 0])
  let s_30: [m_21][n_20]i64 = map(m_21, [t_29], \(row_31: [n_20]i64) -> {
    let q_32: i64 = reduce(n_20, [row_31],
      \(a_33: i64, b_34: i64) -> { let c_35: i64 = max(a_33, b_34) in (c_35) }, [0i64], True)
    let z_36: i64 = add(q_32, 1i64)
    let o_37: [n_20]i64 = argsort(row_31, z_36)
    let p_38: [n_20]i64 = map(n_20, [o_37], \(x_39: i64) -> { let y_40: i64 = add(x_39, q_32) in (y_40) })
    in (p_38) })
  in (r_26, s_30) }
"""


@functools.cache
def program() -> Any:
    p = parse_program(SOURCE)
    check_program(p)
    return p


@functools.cache
def backend(name: str) -> Any:
    match name:
        case "interp":
            return Interpreter(program())
        case "c" | "multicore":
            return c_backend(program(), multicore=name == "multicore")
        case "blocks":
            p = parse_program(SOURCE)
            for s in p.funs["rows"].body.stms:
                s.attrs = (("flattening", "only_intra"),)
            made = device_backend(p)
            assert any(k.kind == "block" and k.what.startswith("map over") for k in made.module.kernels)
            return made.on(EmulatedDevice(seed=3))
    return device_backend(program()).on(EmulatedDevice(seed=3))


BACKENDS = ["interp", "c", "multicore", pytest.param("emulated", marks=needs_cxx)]
SIZES = [0, 1, 2, 37, 64, 65, 3000]
BOUNDS = [1, 2, 256, 257, 2048, 2049, 1 << 23, 1 << 40, (1 << 63) - 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKENDS)
def test_it_sorts_stably(name: str) -> None:
    rng = np.random.default_rng(0)
    for n in SIZES:
        for most in BOUNDS:
            keys = rng.integers(0, most, n)
            if n:
                keys[rng.integers(n)] = most - 1
            if n > 5:
                keys[rng.integers(0, n, n // 2)] = keys[0]
            want = np.argsort(keys, kind="stable")
            got = backend(name).run("whole", [n, keys, np.int64(most)])
            np.testing.assert_array_equal(got[0], want)
            got = backend(name).run("computed", [n, keys, np.int64(most)])
            np.testing.assert_array_equal(got[0], np.argsort(-keys, kind="stable"))
            np.testing.assert_array_equal(got[1], np.arange(n))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BACKENDS, pytest.param("blocks", marks=needs_cxx)])
def test_it_sorts_rows(name: str) -> None:
    rng = np.random.default_rng(1)
    for n, m in [(0, 3), (3, 0), (1, 40), (40, 1), (7, 100), (300, 5), (600, 3)]:
        for most in (3, 1000, 100_000):
            keys = rng.integers(0, most, (n, m))
            rows, columns = backend(name).run("rows", [n, m, keys, np.int64(most)])
            np.testing.assert_array_equal(rows, np.argsort(keys, axis=1, kind="stable"))
            top = keys.max(0, initial=0)[:, None]
            np.testing.assert_array_equal(columns, np.argsort(keys.T, axis=1, kind="stable") + top)


@pytest.mark.slow
@needs_cxx
def test_more_keys_than_a_device_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("futad.flatten.sort.MOST", 40)
    device = device_backend(program()).on(EmulatedDevice())
    np.testing.assert_array_equal(device.run("whole", [39, np.zeros(39, np.int64), np.int64(1)])[0], np.arange(39))
    with pytest.raises(OutOfMemory):
        device.run("whole", [40, np.zeros(40, np.int64), np.int64(1)])


def test_keys_are_integers() -> None:
    for wrong in ("[n_1]f64", "[n_1]i32", "[n_1][n_1]i64"):
        body = f"{{ let r_3: {wrong} = argsort(xs_2, n_1) in (r_3) }}"
        p = parse_program(f"fun f (n_1: i64, xs_2: {wrong}) -> (r_4: {wrong}) = {body}")
        with pytest.raises(InternalError, match="no keys"):
            check_program(p)


HISTOGRAMS = OnDevice("""
-- Products of a + b e with e * e = 0: exact on integers, in any order.
entry products [k][n] (start: *[k]i64) (is: [n]i64) (vs: [n]i64) : ([k]i64, [k]i64) =
  let times (a: i64, x: i64) (b: i64, y: i64) = (a * b, x * b + y * a)
  in unzip (reduce_by_index (zip start (replicate k 1)) times (1, 0) is (zip vs (map (% 7) vs)))
-- Of values out of range none is divided by, nor multiplied with another.
entry largest [k][l][n] (start: [k][l]f32) (is: [n](i64, i64)) (xs: [n]f32) (ds: [n]i64) : ([k][l]f32, [k][l]i64) =
  let best (x: f32, d: i64) (y: f32, e: i64) = if x > y || (x == y && 5 / d > 5 / e) then (x, d) else (y, e)
  let there = map (map (\\x -> (x, 1i64))) start
  in unzip (map unzip (reduce_by_index_2d (copy there) best (-f32.inf, 1) is (zip xs ds)))
""")


@pytest.mark.slow
@needs_cxx
def test_histograms_by_sorting_and_by_locks() -> None:
    rng = np.random.default_rng(2)
    device = HISTOGRAMS.emulated
    own = device.device.limits.thresholds
    launched: dict[int, set[int]] = {}
    for n, k in [(0, 3), (1, 1), (300, 1), (500, 7), (40, 100)]:
        for updates in (0, 1 << 40):
            device.choose(own._replace(bin_updates=updates))
            start, vs = rng.integers(-3, 4, k), rng.integers(-4, 5, n)
            args = [k, n, start, rng.integers(-1, k + 1, n), vs]
            want = HISTOGRAMS.interpreted("products", args)
            args[2] = start.copy()
            for got, expected in zip(HISTOGRAMS.run("products", args), want, strict=True):
                np.testing.assert_array_equal(got, expected)
            rows, columns = rng.integers(-1, 3, n), rng.integers(-1, k + 1, n)
            inside = (0 <= rows) & (rows < 2) & (0 <= columns) & (columns < k)
            xs = rng.integers(0, 5, n).astype(np.float32)
            args = [2, k, n, rng.integers(0, 5, (2, k)).astype(np.float32), rows, columns, xs, np.where(inside, 2, 0)]
            want = HISTOGRAMS.interpreted("largest", args)
            for got, expected in zip(HISTOGRAMS.run("largest", args), want, strict=True):
                np.testing.assert_array_equal(got, expected)
            launched.setdefault(updates, set()).add(device.runtime.counts.launches)
    # By locks it is one kernel more than the argument takes, by sorting several.
    assert max(launched[1 << 40]) < max(launched[0])
