"""Loops under a budget whose variables change size: states of all sizes in one stack, that share its bytes."""

from __future__ import annotations

import numpy as np
import pytest
from reference.schedules import least

import futad
from futad.core.budget import Budget
from futad.core.measures import Measured
from futad.pipeline import compile_program
from tests.support.budgets import (
    HIGHER,
    check_higher,
    compiled_gradient_of,
    gradient_of,
    gradient_text,
    run_measured,
    under,
)
from tests.support.needs import needs_cc, needs_cxx
from tests.support.slow import slow_but

GROWN = "y ++ [f64.sin (y[i] * 1.1) + 0.1 * x[i % n]]"
LOOPS = {
    "grows": f"f64.sum (loop y = x[0:1] for i < k do {GROWN})",
    "shrinks": "f64.sum (loop y = tabulate (k + 1) (\\i -> x[i % n]) for i < k do"
    " map2 (\\a b -> 0.7 * f64.sin a + 0.2 * b) y[1:] (init y))",
    "up and down": "f64.sum (loop y = x[0:0] for i < k do tabulate ((i * i * 7 + 3) % 11) (\\j ->"
    " f64.sin (x[j % n] * 1.3 + f64.i64 i + (if length y > 0 then f64.cos y[j % length y] else 0.2))))",
    "empty": "f64.sum (loop y = x[0:0] for i < k do (if i == 2 then x[0:2] else if i % 4 == 3 then"
    " map (* x[1]) y[0:0] else map f64.sin y ++ [x[2]]))",
    "until": f"f64.sum (loop (y, i) = (x[0:1], 0i64) while i < k && y[i] < 90 do ({GROWN}, i + 1)).0",
    "bounded": f"f64.sum (#[bound(60)] loop (y, i) = (x[0:1], 0i64) while i < k do ({GROWN}, i + 1)).0",
    "record": "let r = loop r = {a = x[0:1], b = 1f64, c = x} for i < k do"
    " {a = r.a ++ [r.b * f64.sin r.a[i]], b = f64.cos (r.b + f64.sum r.c), c = if i % 3 == 0 then"
    " map (* r.b) r.c else tabulate (i % 5) (\\j -> r.b * x[j])} in f64.sum r.a * r.b",
    "element types": "let (y, z, s) = loop (y, z, s) = (x[0:1], [2i64], 1f64) for i < k do"
    " (y ++ [f64.sin (y[i] * s)], map (* 3) z ++ [i], f64.cos (s + f64.i64 z[i / 2])) in f64.sum y * s",
    "rank two": "f64.sum (flatten (loop y = [x] for i < k do y ++ [map2 (\\a b -> f64.sin (a * b + 0.2)) y[i] x]))",
    "one state": "let (_, s) = loop (y, s) = ([0i64], x[0]) for i < k do (y ++ [i], f64.sin (s + f64.i64 y[i])) in s",
    "nested": "f64.sum (loop y = x[0:1] for i < k do (loop y for j < 1 + i % 3 do"
    f" map (\\a -> f64.sin (a + 0.1 * f64.i64 j)) y) |> \\y -> {GROWN})",
    "in a map": "f64.sum (map (\\a -> f64.sum (loop y = [a] for i < k do y ++ [f64.sin (y[i] * 1.1)])) x)",
    "while in a map": "f64.sum (map (\\a -> f64.sum (loop (y, i) = ([a], 0i64) while i < k && y[i] > 0.2 do"
    " (y ++ [f64.sin (y[i] * 1.1)], i + 1)).0) x)",
}  # fmt: skip
LIMITS = [Budget(checkpoints=2), Budget(memory=3500)]
BUDGETS = [
    *LIMITS,
    Budget(checkpoints=0),
    Budget(checkpoints=1000),
    Budget(checkpoints="log"),
    Budget(checkpoints=3, method="bisection"),
    Budget(reruns=2),
    Budget(memory=1300),
    Budget(memory=1300, method="bisection"),
    Budget(memory=10**6),
]
CASES = [(loop, b) for loop in LOOPS for b in (BUDGETS if loop in ("grows", "until") else LIMITS)]
X = np.linspace(0.1, 0.9, 5)
LENGTHS = (0, 1, 2, 3, 24)


def gradient(loop: str, k: int, budget: Budget) -> tuple[np.ndarray, list[Measured]]:
    return run_measured(compile_program(under(gradient_of(LOOPS[loop]), budget), check=True), k, X)


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "budget"), CASES, ids=str)
def test_gradient_is_the_one_without_a_budget(loop: str, budget: Budget) -> None:
    bounded = compile_program(under(gradient_of(LOOPS[loop]), budget), check=True)
    for k in LENGTHS:
        want, _ = run_measured(compiled_gradient_of(LOOPS[loop]), k, X)
        got, found = run_measured(bounded, k, X)
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)
        if budget.memory is not None and "map" not in loop:
            assert all(m.sums["held"] <= budget.memory for m in found)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["grows", "until"])
def test_states_are_as_many_as_are_asked_for(loop: str) -> None:
    """As many runs as of states of one size; no more is held than states as large as the largest."""
    for c in (1, 3):
        _, (m,) = gradient(loop, 24, Budget(checkpoints=c))
        assert m.sums["runs"] == least(25, c + 1) and m.sums["states"] == c + 1
        assert m.sums["held"] <= m.sums["predicted"] == (c + 1) * m.sums["state"]


@pytest.mark.slow
@pytest.mark.parametrize("loop", slow_but(["grows"], ["grows", "shrinks", "up and down", "until"]))
def test_states_share_the_bytes(loop: str) -> None:
    """All are kept where they fit.  Where they do not, no more runs than with as many states as the largest takes fit
    twice less, which is what guessing the sizes of states to come costs."""
    _, (m,) = gradient(loop, 40, Budget(memory=10**6))
    assert m.sums["runs"] == m.sums["iterations"] == 40
    everything = m.sums["held"]
    for memory in (everything, everything // 2, everything // 4, everything // 8):
        _, (m,) = gradient(loop, 40, Budget(memory=memory))
        assert m.sums["held"] <= memory
        if memory == everything:
            assert m.sums["runs"] == 40
        else:
            assert 40 < m.sums["runs"] <= least(41, max(1, memory // m.sums["state"] // 2))


@pytest.mark.slow
def test_a_state_that_outgrows_the_budget() -> None:
    message = r":1:.*of 200 bytes is too small: a state of the loop \(n y\) takes 216, and 216 are the least"
    with pytest.raises(futad.AssertionFailed, match=message):
        gradient("grows", 24, Budget(memory=200))
    gradient("grows", 24, Budget(memory=216))
    with pytest.raises(futad.AssertionFailed, match="takes 224, and 224 are the least"):
        gradient("shrinks", 24, Budget(memory=200))


STEP = "map (\\a -> a * f64.cos (0.3 * a)) y ++ [f64.sin (y[i] * 1.1) + x[i % n] * y[0]]"
SUM = f"f64.sum (loop y = x[0:1] for i < k do {STEP})"


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Budget(checkpoints=2), Budget(checkpoints="log"), Budget(memory=20000)], ids=str)
@pytest.mark.parametrize("name", HIGHER)
def test_higher_derivatives(name: str, budget: Budget) -> None:
    check_higher(name, SUM, budget, (0, 1, 2, 3, 11), X, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
                                     pytest.param("emulated", marks=needs_cxx)])  # fmt: skip
@pytest.mark.parametrize("loop", ["up and down", "until", "record", "element types", "in a map"])
def test_backends(backend: str, loop: str) -> None:
    for limit in ({"checkpoints": 3}, {"memory": 4000}):
        prog = futad.compile(gradient_text(LOOPS[loop]), backend=backend, **limit)  # type: ignore[arg-type]
        for k in (0, 1, 17):
            want, _ = run_measured(compiled_gradient_of(LOOPS[loop]), k, X)
            np.testing.assert_allclose(prog.main(k, X), want, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_what_is_told() -> None:
    prog = futad.compile(gradient_text(LOOPS["grows"]), backend="interp", memory=700)
    prog.main(24, X)
    text = prog.explain_memory()
    assert "run again from states; state at most 216 bytes (n y)" in text
    assert "24 iterations; states share 700 bytes; each iteration run 2.0 times" in text
    assert "held 680 bytes" in text
