"""Loops that come back to where they began and were elsewhere on the way are errors, never wrong gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import AssertionFailed
from futad.legality import dropping
from tests.support.needs import needs_cc, needs_cxx
from tests.support.slow import slow_but

# Differences grow fourfold in the first half, and are forgotten in the second one: undone, what the second half makes
# of round-off comes to nothing in the first.  n, a: how often, and of what.
HALVES = "if i < n / 2 then 4 * x else x / 4 + a"
FORGETS = {
    "scalar": f"(loop (x, s) = (0, 0) for i < n do let x = {HALVES} in (x, s + f64.sin (x * a))).1",
    "f32": "(loop (x, s) = (0f32, 0) for i < n do"
    " let x = if i < n / 2 then 4 * x else x / 4 + f32.f64 a in (x, s + f64.f32 (f32.sin (x * f32.f64 a)))).1",
    "array": "(loop (xs, s) = (replicate 3 0, 0) for i < n do"
    f" let xs = map (\\x -> {HALVES}) xs in (xs, s + f64.sum (map f64.sin xs))).1",
    "one element": "(loop (xs, s) = ([1, 0, 2], 0) for i < n do"
    f" let xs = map2 (\\x k -> if k == 1 then {HALVES} else x + 0.5) xs (iota 3)"
    " in (xs, s + f64.sum (map f64.sin xs))).1",
    "rows": "(loop (xs, s) = (replicate 2 (replicate 3 0), 0) for i < n do"
    f" let xs = map (map (\\x -> {HALVES})) xs in (xs, s + f64.sum (map f64.sin (flatten xs)))).1",
    "while": f"(loop (x, s, i) = (0, 0, 0) while i < n do let x = {HALVES} in (x, s + f64.sin (x * a), i + 1)).1",
    "in a map": "f64.sum (map (\\k ->"
    f" (loop (x, s) = (0, 0) for i < n do let x = {HALVES} in (x, s + f64.sin (x * a * k))).1) [1.0, 2.0])",
}


def source(body: str) -> str:
    return f"entry f (n: i64) (a: f64): f64 = {body}"


def gradients(text: str, backend: str, n: int, how: Any) -> Any:
    f = futad.compile(text, backend=backend).f
    return futad.grad(f, argnums=1, reversible=how)(n, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["scalar", "array", "while"], FORGETS))
def test_what_is_forgotten_on_the_way_is_an_error(name: str) -> None:
    text = source(FORGETS[name])
    assert np.isfinite(gradients(text, "interp", 60, False))
    np.testing.assert_allclose(gradients(text, "interp", 8, True), gradients(text, "interp", 8, False), rtol=1e-4)
    with pytest.raises(AssertionFailed, match=r"the loop is not where it was on the way: 'xs?' is off by"):
        gradients(text, "interp", 60, True)
    with dropping("inverse/compared on the way"):
        wrong = gradients(text, "interp", 60, True)
    assert not np.isclose(wrong, gradients(text, "interp", 60, False), rtol=0.01)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_backends(backend: str) -> None:
    for name in ("scalar", "array", "in a map"):
        text = source(FORGETS[name])
        np.testing.assert_allclose(gradients(text, backend, 8, True), gradients(text, backend, 8, False), rtol=1e-9)
        with pytest.raises(AssertionFailed, match="not where it was on the way"):
            gradients(text, backend, 60, True)


@pytest.mark.slow
def test_between_points_of_return() -> None:
    """Of 1000 iterations eight states are kept, and the halves are between two of these."""
    body = "if i < 510 then x else if i < 550 then 4 * x else if i < 590 then x / 4 + a else x"
    text = source(f"(loop (x, s) = (0, 0) for i < n do let x = {body} in (x, s + f64.sin (x * a))).1")
    assert np.isfinite(gradients(text, "interp", 1000, False))
    with pytest.raises(AssertionFailed, match="not where it was on the way"):
        gradients(text, "interp", 1000, True)


# An inverse that is wrong, and whatever comes there begins where the loop did.
CONSTANT = {
    "integer": ("\\x -> (x * 48271u64) % 2147483647u64", "\\_ -> 17u64", "17u64", "f64.sin (f64.u64 x * a)", None),
    "bool": ("\\x -> (a > 0) != x", "\\_ -> true", "true", "(if x then a else a * a)", None),
    "float": ("\\x -> x * 1.1", "\\_ -> 0.3", "0.3", "f64.sin x", True),
    "turned": ("\\xs -> rotate 1 xs", "\\xs -> rotate 1 xs", "[0.1, 0.2, 0.4, a]", "x[0] * x[0]", True),
    "turned integers": ("\\xs -> rotate 1 xs", "\\xs -> rotate 1 xs", "[1i32, 2, 4, 8]", "f64.i32 x[0]", None),
}


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["interp", "c"])
@pytest.mark.parametrize("name", slow_but(["integer", "float", "turned"], CONSTANT))
def test_an_inverse_that_is_right_of_the_first_iteration_only(name: str, backend: str) -> None:
    f, back, start, use, how = CONSTANT[name]
    text = source(f"(loop (x, s) = ({start}, 0) for i < n do (with_inverse ({f}) ({back}) x, s + a * {use})).1")
    f = futad.compile(text, backend=backend).f
    options = {} if how is None else {"reversible": how}
    assert np.isfinite(futad.grad(f, argnums=1, reversible=False)(4, 0.3))
    with pytest.raises(AssertionFailed, match=r"on the way: 'x' (is off|differs)"):
        futad.grad(f, argnums=1, **options)(4, 0.3)


@pytest.mark.slow
def test_an_inverse_is_compared_in_each_iteration() -> None:
    """It is wrong once, in iterations that may be left out where only round-off is looked for."""
    f = futad.compile(
        """
        def back (wrong: f64) (x: f64): f64 = if x == wrong then x - 1.5
          else if x == wrong - 1.5 then x - 0.5 else x - 1
        entry f (n: i64) (wrong: f64) (a: f64): f64 = (loop (xs, s) = ([0, 0.25], 0) for i < n do
          (with_inverse (\\xs -> map (+ 1) xs) (\\xs -> map (back wrong) xs) xs, s + f64.sin (a * xs[0]))).1""",
        backend="interp",
    ).f
    gradient = futad.grad(f, argnums=2, reversible=True)
    assert gradient(400, -1.0, 0.999) == futad.grad(f, argnums=2, reversible=False)(400, -1.0, 0.999)
    for wrong in range(300, 310):
        with pytest.raises(AssertionFailed, match="on the way"):
            gradient(400, float(wrong), 0.999)


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 2, 200])
def test_what_is_right_passes(n: int) -> None:
    """Of no elements and of one, of numbers that are large, small, and both."""
    for start in ("[]", "[a]", "[1e300 * a]", "[1e-300 * a]", "[1e12, a, -1e12, 0]"):
        text = source(f"""let (xs, s) = loop (xs, s) = ({start}, 0) for i < n do
          let xs = map2 (\\x k -> x * 1.01 + 0.1 * f64.i64 ((i + k) % 3)) xs (indices xs) in (xs, s + f64.sum xs)
          in s""")
        np.testing.assert_allclose(gradients(text, "interp", n, True), gradients(text, "interp", n, False), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("how", [True, 1e-6])
def test_higher_derivatives(how: float) -> None:
    text = source("(loop (p, q) = (a, 1) for i < n do let p = p + 0.1 * f64.sin q in (p, q - 0.1 * f64.cos p)).0")
    f = futad.compile(text, backend="interp").f
    undone, plain = [futad.grad(f, argnums=1, reversible=r) for r in (how, False)]
    exact = futad.grad(plain, argnums=1, reversible=False)(90, 0.3)
    np.testing.assert_allclose(futad.grad(undone, argnums=1, reversible=how)(90, 0.3), exact, rtol=1e-8)
    np.testing.assert_allclose(futad.hvp(f, (90, 0.3), (None, 1.0), reversible=how)[1], exact, rtol=1e-8)
