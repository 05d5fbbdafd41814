"""A function's value and its derivative in one loop, where the derivative adds to elements of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.optimise.fusion import fuse
from futad.optimise.shared_loops import shared_loops
from futad.pipeline import compile_program
from futad.rewrite.simplify import simplify
from futad.source import compile_text
from futad.target import C
from tests.support.needs import needs_cc, needs_cxx
from tests.support.optimise_support import heads, passes

TEXT = """
def near [n] (u: [n]f64) (k: f64): f64 =
  let at i = if i < 0 || i >= n then 0 else u[i]
  in f64.sum (tabulate n (\\i -> (at (i - 1) - 2 * u[i] + at (i + 1) + k * f64.exp u[i]) ** 2))
def chosen [n] (u: [n]f64) (k: f64): f64 =
  f64.sum (map (\\i -> f64.sin (k * u[i]) * u[n - 1 - i] + f64.exp u[i * i % n]) (iota n))
def largest [n] (u: [n]f64) (k: f64): f64 =
  f64.maximum (map (\\i -> f64.exp (f64.sin (k * u[i])) - u[(i + 1) % n]) (iota n))
def sums [n] (u: [n]f64) (k: f64): f64 =
  let e = map (\\i -> f64.exp (k * u[i]) + u[(i + 2) % n]) (iota n)
  in f64.sum (scan (+) 0 e) / (1 + f64.sum (map (\\x -> x * x) e))
def guarded [n] (u: [n]f64) (k: f64): f64 =
  let s = near u k
  in assert (s >= 0) (s + near (map (* 2) u) k)
"""
NAMES = ("near", "chosen", "largest", "sums", "guarded")
ENTRIES = "".join(
    f"entry {name}_both [n] (u: [n]f64) (k: f64): (f64, [n]f64, f64) =\n"
    f"  let (v, (a, b)) = vjp2 (\\(u, k) -> {name} u k) (u, k) 1 in (v, a, b)\n"
    f"entry {name}_value [n] (u: [n]f64) (k: f64): f64 = {name} u k\n"
    f"entry {name}_curve [n] (u: [n]f64) (k: f64): (f64, f64, [n]f64) =\n"
    f"  let (s, t) = jvp2 (\\k -> let (v, (a, _)) = vjp2 (\\(u, k) -> {name} u k) (u, k) 1 in (v, a)) k 1\n"
    f"  in (s.0, t.0, t.1)\n"
    for name in NAMES
)


@pytest.fixture(scope="module")
def reference() -> Any:
    return futad.compile(TEXT + ENTRIES, backend="interp")


def one_scope(text: str) -> ir.Program:
    """After derivatives are taken, fused."""
    return passes(compile_program(compile_text(text, "m.fut"), target=C, check=True), simplify, fuse, simplify)


def test_value_and_derivative_are_one_loop() -> None:
    """One exponential an element, and no array of what each element adds to the adjoint of k."""
    text = TEXT + "entry g [n] (u: [n]f64) (k: f64) = vjp2 (\\(u, k) -> near u k) (u, k) 1"
    program = one_scope(text)
    found = heads(program)
    assert found["exp"] == 1 and found["Fused"] == 1 and found["Reduce"] == 0
    value = one_scope(TEXT + "entry g [n] (u: [n]f64) (k: f64) = near u k")
    assert heads(value)["exp"] == 1


def test_cheap_values_are_left_to_loops_of_their_own() -> None:
    """Of rank 1, with nothing dear in both: a loop that folds runs in vector lanes, one that adds may not."""
    text = "entry g [n] (u: [n]f64) (is: [n]i64) = vjp2 (\\u -> f64.sum (map (\\i -> u[i]) is)) u 1"
    found = heads(one_scope(text))
    assert found["Fused"] == 1 and found["WithAcc"] + found["Hist"] + found["Map"] >= 1


def test_values_whose_loops_the_derivative_runs_too_are_one_loop_with_it() -> None:
    """The loop is one of the whole, not one for the value and one for the derivative."""
    body = "loop y = u[0] for j < 3 do y * u[i] + f64.sqrt (y + k)"
    text = f"def value [n] (u: [n]f64) (k: f64): f64 = f64.sum (map (\\i -> {body}) (iota n))\n"
    program = one_scope(text + "entry g [n] (u: [n]f64) (k: f64) = vjp2 (\\u -> value u k) u 1")
    found = heads(passes(program, shared_loops, simplify))
    assert found["Fused"] == 1 and found["For"] == 2


def test_two_nests_made_one_compute_what_both_do_once() -> None:
    """The folds and maps of rows inside are shared before they become other loops in the value than in the gradient."""
    text = """
entry g [n][m] (a: [n][m]f64) (k: f64) =
  let f (a: [n][m]f64) = f64.sum (map (\\r ->
    let top = f64.maximum r
    let z = top + f64.log (f64.sum (map (\\x -> f64.exp (x - top)) r))
    let p = map (\\x -> x - z) r
    in f64.sum (map2 (\\x y -> x * f64.sin (k * y)) p (reverse p))) a)
  in vjp2 f a 1"""
    found = heads(one_scope(text))
    assert found["log"] == 1 and found["max"] == 1


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", pytest.param("emulated", marks=needs_cxx)])
@pytest.mark.parametrize("name", NAMES)
def test_as_the_interpreter(reference: Any, backend: str, name: str) -> None:
    program = futad.compile(TEXT + ENTRIES, backend=backend)
    for n in (1, 2, 3, 5, 31, 130, 300):
        u, k = np.random.default_rng(n).uniform(-1, 1, n), 0.7
        for entry in (f"{name}_both", f"{name}_value", f"{name}_curve"):
            got, want = getattr(program, entry)(u, k), getattr(reference, entry)(u, k)
            for a, e in zip(np.atleast_1d(got) if isinstance(got, float) else got,
                            np.atleast_1d(want) if isinstance(want, float) else want, strict=True):  # fmt: skip
                np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-10, err_msg=f"{entry} {n}")


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("name", [n for n in NAMES if n != "largest"])
def test_differences(name: str) -> None:
    program = futad.compile(TEXT + ENTRIES, backend="c")
    u, k, h = np.random.default_rng(1).uniform(-1, 1, 9), 0.7, 1e-6
    value = getattr(program, f"{name}_value")
    v, du, dk = getattr(program, f"{name}_both")(u, k)
    assert v == pytest.approx(value(u, k), rel=1e-12)
    for i in range(9):
        step = h * (np.arange(9) == i)
        assert du[i] == pytest.approx((value(u + step, k) - value(u - step, k)) / (2 * h), rel=1e-6, abs=1e-6)
    assert dk == pytest.approx((value(u, k + h) - value(u, k - h)) / (2 * h), rel=1e-6)


@pytest.mark.slow
@needs_cc
def test_empty_and_not_a_number(reference: Any) -> None:
    program = futad.compile(TEXT + ENTRIES, backend="c")
    for u in (np.zeros(0), np.array([1.0, np.nan, 0.5, 2.0]), np.array([0.1, 0.2, np.inf])):
        with np.errstate(all="ignore"):
            for a, e in zip(program.near_both(u, 0.5), reference.near_both(u, 0.5), strict=True):
                np.testing.assert_allclose(a, e, rtol=1e-12)


@pytest.mark.slow
@needs_cc
def test_what_lies_between_stays_between() -> None:
    """A nest does not move up past an assertion, nor past what its inputs are made of."""
    text = """
entry g [n] (u: [n]f64) (k: f64) =
  let (v, a) = vjp2 (\\u -> f64.sum (map (\\i -> f64.exp (k * u[i]) * u[(i + 1) % n]) (iota n))) u 1
  let w = assert (v > 0) (map (\\x -> x / v) a)
  in (v, a, f64.sum (map2 (*) w u))
"""
    u = np.array([0.5, 1.5, 1.0])
    program, reference = futad.compile(text, backend="c"), futad.compile(text, backend="interp")
    for a, e in zip(program.g(u, 1.0), reference.g(u, 1.0), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12)
    with pytest.raises(futad.errors.AssertionFailed):
        program.g(-u, 0.0)
