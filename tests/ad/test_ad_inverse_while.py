"""Inner `while` loops that are undone: the number of their iterations is kept, once an iteration of the outer loop."""

from __future__ import annotations

from typing import Any

import pytest

import futad
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

STEP = "while k % 5 != 0 do (x + 0.25 * f64.sin (a * f64.u32 (k % 7)), k * 3 + 1)"
BODIES = {
    "plain": f"let (x, k) = loop (x, k) = (x, k) {STEP} in (x - 0.5 * a, k + 1)",
    "in a branch": f"if i % 3 == 1 then (x * 0.5, k + 2) else (loop (x, k) = (x + a, k + 1) {STEP})",
    "two": f"let (x, k) = loop (x, k) = (x, k) {STEP} let k = k + u32.i64 i in loop (x, k) = (x + a, k * 7) {STEP}",
    "in a for loop too": f"let (x, k) = loop (x, k) = (x, k) for _j < i % 4 do (x * 1.5 + a, k * 3) "
                         f"in loop (x, k) = (x, k) {STEP}",
}  # fmt: skip


def program(name: str, how: str) -> str:
    return f"""
        entry f (n: i64) (a: f64) : f64 =
          let (x, s, _) = {how} loop (x, s, k) = (a, 0, 1u32) for i < n do
            (let (x, k) = {BODIES[name]} in (x, s + f64.sin x * a, k))
          in s + x
        entry grad (n: i64) (a: f64) = vjp (f n) a 1
        entry twice (n: i64) (a: f64) = jvp (grad n) a 1"""


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["plain"], BODIES))
def test_gradients_are_those_that_keep_all(name: str) -> None:
    plain = futad.compile(program(name, "#[reversible(false)]"), backend="interp")
    undone = futad.compile(program(name, "#[reversible]"), backend="interp", check=True)
    for n in (0, 1, 2, 9):
        assert undone.f(n, 0.3) == plain.f(n, 0.3)
        assert undone.grad(n, 0.3) == pytest.approx(plain.grad(n, 0.3), rel=1e-12)
        assert undone.twice(n, 0.3) == pytest.approx(plain.twice(n, 0.3), rel=1e-11)
        h = 1e-5
        difference = (undone.f(n, 0.3 + h) - undone.f(n, 0.3 - h)) / (2 * h)
        assert undone.grad(n, 0.3) == pytest.approx(difference, rel=1e-6, abs=1e-8)


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
@pytest.mark.parametrize("name", BODIES)
def test_backends(name: str, backend: str) -> None:
    made = futad.compile(program(name, "#[reversible]"), backend=backend)
    reference = futad.compile(program(name, "#[reversible(false)]"), backend="interp")
    for n in (0, 1, 7):
        for entry in ("grad", "twice"):
            assert getattr(made, entry)(n, 0.3) == pytest.approx(getattr(reference, entry)(n, 0.3), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["plain"], BODIES))
def test_exactly(name: str) -> None:
    plain = futad.compile(program(name, "#[reversible(false)]"), backend="interp")
    undone = futad.compile(program(name, "#[reversible(exact)]"), backend="interp", check=True)
    for n in (1, 9, 40):
        assert undone.grad(n, 0.3) == plain.grad(n, 0.3)


def test_loops_in_loops_whose_numbers_are_not_kept_are_refused() -> None:
    inner = f"let (x, k) = loop (x, k) = (x, k) for _j < 2 do (loop (x, k) = (x, k) {STEP}) in (x, k + 1)"
    text = program("plain", "#[reversible]").replace(BODIES["plain"], inner)
    with pytest.raises(futad.UnsupportedError, match="does not follow from .*while"):
        futad.compile(text, backend="interp").grad(3, 0.3)


def test_what_a_loop_loses_is_named() -> None:
    text = program("plain", "#[reversible]").replace("x + 0.25 *", "f64.max x 0.25 *")
    with pytest.raises(futad.UnsupportedError, match=r"'x' does not follow from max\("):
        futad.compile(text, backend="interp").grad(3, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loops"), [("plain", 1), ("two", 2)])
def test_nothing_but_the_numbers_is_kept(kept: Any, name: str, loops: int) -> None:
    """Of the outer loop: what an inner one keeps while its own iterations are reversed is the same without undoing."""
    (_, inner) = kept(program(name, "#[reversible(false)]"), "grad", 0, 0.3)
    (_, room) = kept(program(name, "#[reversible]"), "grad", 50, 0.3)
    (_, much) = kept(program(name, "#[reversible(false)]"), "grad", 50, 0.3)
    counts = 50 * 8 * loops
    whole = 50 * (8 + 4)  # x and k, where an iteration begins
    assert much - room >= whole - counts - inner - 24  # the state, and its place
