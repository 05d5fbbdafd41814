"""Accumulators of few bins by way of shared memory, or not: both give what the interpreter gives; sizes decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.errors import ExecutionError
from futad.runtime.device import EmulatedDevice
from futad.testing.build import device_backend, prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

SOURCE = """
entry plain [n][k] (is: [n]i64) (w: [k]f64) (xs: [n]f64): [k]f64 =
  vjp (\\w -> f64.sum (map2 (\\i x -> w[i] * w[i] * x) is xs)) w 1

entry guarded [n][k] (is: [n]i64) (w: [k]f64) (xs: [n]f64): [k]f64 =
  vjp (\\w -> f64.sum (map2 (\\i x -> if i >= 0 && i < k then f64.sin (w[i] * x) else x) is xs)) w 1

entry branches [n][k] (is: [n]i64) (w: [k]f64) (xs: [n]f64): [k]f64 =
  vjp (\\w -> f64.sum (map2 (\\i x -> if x < 0 then w[i] * x else w[k - 1 - i] * w[k - 1 - i]) is xs)) w 1

entry two [n][k] (is: [n]i64) (w: [k]f64) (xs: [n]f64): ([k]f64, [k]f64, f64, [n]f64) =
  let f (v: [k]f64, w: [k]f64) =
    let ys = map2 (\\i x -> f64.exp (v[i]) * w[(i + 1) % k] * x) is xs in (f64.sum ys, ys)
  let ((y, ys), (v', w')) = vjp2 f (w, map (+ 1) w) (1, map (const 0) xs)
  in (v', w', y, ys)

entry both [n][k] (is: [n]i64) (w: [k]f64) (xs: [n]f64): ([k]f64, [k]f64) =
  let f (v: [k]f64, w: [k]f64) =
    f64.sum (map2 (\\i x -> if x < 1 then f64.exp (v[i] * x) * w[(i + 1) % k] else v[i] * v[k - 1 - i]) is xs)
  in vjp f (w, map (+ 1) w) 1

entry table [n][k] (is: [n]i64) (w: [k]f64) (xs: [n]f64): [k][k]f64 =
  vjp (\\t -> f64.sum (map2 (\\i x -> f64.sin (t[i, (i * 7) % k]) * x) is xs)) (map (\\x -> map (* x) w) w) 1

entry rows [n][k] (is: [n]i64) (w: [k]f64) (xs: [n]f64): [k][k]f64 =
  vjp (\\t -> f64.sum (map2 (\\i x -> f64.sum (map (\\y -> y * y * x) t[i])) is xs)) (map (\\x -> map (* x) w) w) 1
"""
ENTRIES = ("plain", "guarded", "branches", "two", "both", "table")
DEVICE = OnDevice(SOURCE, "binned.fut", check=True)


def arguments(n: int, k: int, places: Callable[[np.random.Generator], Any]) -> list[Any]:
    rng = np.random.default_rng(n + k)
    return [np.asarray(places(rng), np.int64).reshape(n), rng.normal(size=k), rng.normal(size=n)]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("entry", [*ENTRIES, "rows"])
@pytest.mark.parametrize(
    ("n", "k"), [(0, 3), (1, 1), (1, 4), (5, 1), (100, 3), (1000, 7), (20, 50)], ids=lambda x: str(x)
)
def test_equal_to_the_interpreter(entry: str, n: int, k: int) -> None:
    args = arguments(n, k, lambda rng: rng.integers(0, k, n))
    expected = DEVICE.interpreted(entry, [n, k, *args])
    for x, y in zip(DEVICE.run(entry, [n, k, *args]), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-11)


@needs_cxx
@pytest.mark.parametrize("n", slow_but([500], [3, 500]))
def test_places_out_of_range_take_part_in_nothing(n: int) -> None:
    args = arguments(n, 2, lambda rng: rng.choice([-(2**62), -1, 2, 2**62], n))
    assert np.array_equal(DEVICE.run("guarded", [n, 2, *args])[0], np.zeros(2))


@pytest.mark.slow
@needs_cxx
def test_what_fails_fails_without_bins() -> None:
    """No bins are no passes over the updates, but these are computed."""
    text = """
entry gathered [m][n] (is: [m]i64) (w: [n]f64) = vjp (\\w -> f64.sum (map (\\i -> f64.sin (w[i % n])) is)) w 1
entry counted (n: i64) (is: []i64) = hist (+) 0i64 n (map (\\i -> 10 / i) is) is"""
    device = OnDevice(text)
    for m in (0, 3, 2000):
        is_ = np.arange(m) % 7
        for entry, sizes, args, fails in (
            ("gathered", [m, 0], [is_, np.zeros(0)], m > 0),
            ("gathered", [m, 5], [is_, np.arange(5.0)], False),
            ("counted", [m], [0, is_], m > 0),
            ("counted", [m], [0, is_ + 1], False),
        ):
            values = [*map(np.int64, sizes), *args]
            if fails:
                for run in (device.run, device.interpreted):
                    with pytest.raises(ExecutionError, match="division by zero"):
                        run(entry, values)
            else:
                np.testing.assert_allclose(device.run(entry, values)[-1], device.interpreted(entry, values)[-1])


@pytest.mark.parametrize("entry", ENTRIES)
def test_sizes_decide(entry: str) -> None:
    """Shared memory where bins are few, an atomic update an element where they are not."""

    def ways(n: int, k: int) -> bool:
        account = DEVICE.count(entry, {"n": n, "k": k})
        return any("shared memory" in row.what for row in account.rows.values())

    assert ways(100_000, 10)
    assert not ways(100_000, 60_000) and not ways(30, 10)


def test_rows_are_added_in_place() -> None:
    account = DEVICE.count("rows", {"n": 100_000, "k": 10})
    assert not any("histogram" in row.what for row in account.rows.values())


FLAGS = r"""
fun main [n_1: i64, m_2: i64] (is_3: [n_1]i64, xs_4: [n_1]f64, ys_5: [m_2]f64) -> (r_6: [3]bool, q_7: [3]f64) = {
  let no_8: [3]bool = replicate([3i64], false)
  let ones_9: [3]f64 = replicate([3i64], 1.0f64)
  let (w_10: [3]bool, v_11: [3]f64) = withacc([no_8, ones_9], "add", \(a_12: acc([3]bool), b_13: acc([3]f64)) -> {
    let (c_14: acc([3]bool), d_15: acc([3]f64)) = map(n_1, [a_12, b_13, is_3, xs_4],
        \(e_16: acc([3]bool), f_17: acc([3]f64), i_18: i64, x_19: f64) -> {
      let s_20: f64 = reduce(m_2, [ys_5], \(u_21: f64, y_22: f64) -> {
        let z_23: f64 = add(u_21, y_22) in (z_23) }, [0.0f64], True)
      let p_24: f64 = mul(s_20, x_19)
      let t_25: bool = lt(p_24, 0.5f64)
      let g_26: acc([3]bool) = updateacc(e_16, [i_18], t_25)
      let h_27: acc([3]f64) = updateacc(f_17, [i_18], p_24)
      in (g_26, h_27) })
    in (c_14, d_15) })
  in (w_10, v_11) }
"""


@pytest.mark.slow
@needs_cxx
def test_flags_are_joined() -> None:
    """On bools accumulators take `or`, also beside floats and of what a thread folds."""
    program = parse_program(FLAGS)
    made = prepared(program)
    check_program(made, "prepare")
    device = device_backend(program).on(EmulatedDevice())
    for n, m in ((0, 1), (5, 3), (300, 2)):
        rng = np.random.default_rng(n)
        args = [np.int64(n), np.int64(m), rng.integers(0, 4, n), rng.normal(size=n), rng.normal(size=m)]
        expected = Interpreter(program).run("main", args)
        for run in (Interpreter(made).run, device.run):
            got = run("main", args)
            np.testing.assert_array_equal(got[0], expected[0])
            np.testing.assert_allclose(got[1], expected[1], rtol=1e-12, atol=1e-12)
