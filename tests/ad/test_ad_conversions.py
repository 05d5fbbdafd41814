"""Derivatives of conversions between floats, integers and bools."""

from __future__ import annotations

import numpy as np
import pytest

import futad

TEXT = """
def rounded (x: f64): f64 = f64.i64 (i64.f64 (3 * x))
entry pull (x: f64) (y: f64): f64 = vjp rounded x y
entry push (x: f64) (d: f64): f64 = jvp rounded x d
entry pull_bool (x: f64) (y: f64): f64 = vjp (\\x -> f64.bool (bool.f64 x)) x y
entry push_bool (x: f64) (d: f64): f64 = jvp (\\x -> f64.bool (bool.f64 x)) x d
entry pull_count (x: f64) (y: f64): f64 = vjp (\\x -> f32.u8 (u8.f64 x) |> f64.f32) x y

-- Beside other uses of x, in maps, loops, sums of integers and branches.
def mixed [n] (xs: [n]f64): f64 =
  let ks = map (\\x -> i64.f64 (10 * x)) xs
  let total = loop s = 0 for i < n do s + f64.i64 ks[i] * xs[i]
  in total + f64.i64 (i64.sum ks) * f64.sum xs + (if ks[0] > 0 then f64.bool (ks[0] > 1) else 2) * xs[0]
entry gradient [n] (xs: [n]f64): [n]f64 = vjp mixed xs 1
entry along [n] (xs: [n]f64) (ds: [n]f64): f64 = jvp mixed xs ds
entry second [n] (xs: [n]f64) (ds: [n]f64): [n]f64 = jvp (\\xs -> vjp mixed xs 1) xs ds

-- As Futhark's own tests have it.
entry to_int (x: f64): (i32, f64) = (jvp i32.f64 x 1, vjp i32.f64 x 2)
-- A float is taken apart and put together again; other floats carry theirs.
entry through (x: f64) (y: f64): (f64, f64) =
  (vjp (\\x -> f64.from_bits (f64.to_bits x)) x y, vjp (\\x -> f64.f32 (f32.f64 x)) x y)
-- Integers carry data: each element goes where its key says.
entry moved (k: i64): i64 = vjp (\\k -> i64.i32 (i32.i64 k) * 3) k 5
"""


@pytest.fixture(scope="module", params=["interp", "c", "multicore", "emulated"])
def program(request):
    return futad.compile(TEXT, backend=request.param)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pull", "push", "pull_bool", "push_bool", "pull_count"])
def test_what_rounds_has_the_derivative_0(program, name: str) -> None:
    """Almost everywhere, along any direction: so it is linear in it."""
    for x in (0.7, -1.4, 0.0, 2.0):
        assert [float(program[name](x, seed)) for seed in (0.5, 1.0, 1.5, -3.0)] == [0, 0, 0, 0]


@pytest.mark.slow
def test_what_is_rounded_counts_as_a_constant(program) -> None:
    rng = np.random.default_rng(3)
    xs, ds = rng.uniform(0.21, 0.29, 5), rng.standard_normal(5)  # 10 x is between 2 and 3
    expected = 2 + 10 + np.array([1.0, 0, 0, 0, 0])
    np.testing.assert_allclose(program.gradient(xs), expected, rtol=1e-14)
    np.testing.assert_allclose(program.along(xs, ds), expected @ ds, rtol=1e-13)
    np.testing.assert_array_equal(program.second(xs, ds), np.zeros(5))


@pytest.mark.slow
def test_what_carries_a_derivative_over(program) -> None:
    assert tuple(program.to_int(1.0)) == (1, 2.0)
    assert tuple(program.through(0.7, 1.5)) == (1.5, 1.5)
    assert program.moved(7) == 15
