"""Loops under a budget that update a few elements of a large array: blocks of iterations between two states."""

from __future__ import annotations

import numpy as np
import pytest
from reference.schedules import least

import futad
from futad.core.budget import Budget
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

SIN = "f64.sin (x[{i}] * 1.1 + x[({i} + 1) % n])"
OWN = SIN.format(i="(i % n)")
LOOPS = {
    "updates": f"f64.sum (loop x = copy x for i < k do x with [i % n] = {OWN})",
    "i32 index": "f64.sum (loop x = copy x for i < i32.i64 k do let i = i64.i32 i in x with [i % n] ="
    " f64.sin (x[i % n] * 1.1 + x[(i + 1) % n]))",
    "counters and invariants": "let (x, j, y) = loop (x, j, y) = (copy x, 3i64, map f64.cos x) for i < k do"
    " (x with [j % n] = f64.sin (x[i % n] * y[j % n] + x[(i + 1) % n]), j + 2, y) in f64.sum x + f64.i64 j * y[1]",
    "a scalar too": "let (x, s) = loop (x, s) = (copy x, 1f64) for i < k do let t = f64.cos (s + x[(i * i) % n]) in"
    " (x with [i % n] = f64.sin (x[i % n] * s + x[(i + 1) % n]), t) in f64.sum x * s",
    "while": f"f64.sum (loop (x, i) = (copy x, 0i64) while i < k && x[0] < 5 do (x with [i % n] = {OWN}, i + 1)).0",
    "bounded": f"f64.sum (#[bound(99)] loop (x, i) = (copy x, 0i64) while i < k do (x with [i % n] = {OWN}, i + 1)).0",
    "branch": f"f64.sum (loop x = copy x for i < k do if x[i % n] > 0.5 then x with [i % n] = {OWN} else"
    " x with [(i + 2) % n] = x[0] * x[i % n])",
    "inner loop": "f64.sum (loop x = copy x for i < k do loop x for j < 2 do x with [(i + j) % n] ="
    " f64.sin (x[(i + j) % n] * 1.1 + x[(i + 1) % n]))",
    "in a map": "f64.sum (map (\\a -> f64.sum (loop y = map (* a) x for i < k do y with [i % n] ="
    " f64.sin (y[i % n] * 1.1 + y[(i + 1) % n]))) x)",
    "nested": f"f64.sum (loop x = copy x for i < k do let x = x with [i % n] = {OWN} in loop x for j < i % 3 do"
    f" x with [j] = {SIN.format(i='j')})",
    "the whole array is read": "f64.sum (loop x = copy x for i < k do x with [i % n] = f64.sin (f64.sum x))",
}
N = 11
X = np.linspace(0.1, 0.9, N)
STATE = 8 * N + 8
LENGTHS = (0, 1, 2, 3, 24, 57)
BUDGETS = [Budget(memory=m) for m in (1200, 2500, 9000)]
BUDGETS += [Budget(memory=2500, method="bisection"), Budget(checkpoints=3)]


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("loop", LOOPS)
def test_gradient_is_the_one_without_a_budget(loop: str, budget: Budget) -> None:
    bounded = compile_program(under(gradient_of(LOOPS[loop]), budget), check=True)
    for k in LENGTHS:
        want, _ = run_measured(compiled_gradient_of(LOOPS[loop]), k, X)
        got, found = run_measured(bounded, k, X)
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)
        if budget.memory is not None and loop != "in a map":  # there it is each one's
            assert sum(m.most["held"] for m in found if m.times == 1) <= budget.memory


def fewest(n: int, memory: int) -> tuple[int, int, int]:
    """Of the loop "updates": iterations of a block, states that fit, and runs of an iteration."""
    if 8 * n <= memory:
        return n, 0, n
    found = []
    for a in [1 << e for e in range(20) if 1 << e < n and (8 << e) + STATE <= memory]:
        m = (n - 1) // a
        states = min((memory - 8 * a) // STATE, m)
        found.append((a * least(m + 1, states), a, states))
    cost, a, states = min(found)
    return a, states, cost + n


@pytest.mark.slow
@pytest.mark.parametrize("loop", slow_but(["updates"], ["updates", "while"]))
def test_blocks_have_the_fewest_runs(loop: str) -> None:
    for memory in (104, 300, 456):
        bounded = compile_program(under(gradient_of(LOOPS[loop]), Budget(memory=memory)))
        for n in (1, 13, 57):
            _, (m,) = run_measured(bounded, n, X)
            block, states, runs = fewest(n, memory)
            assert (m.sums["block"], m.sums["states"], m.sums["runs"]) == (block, states, runs), (memory, n)
            assert m.sums["held"] <= m.sums["predicted"] <= memory


@pytest.mark.slow
def test_no_state_is_asked_for_where_all_is_kept() -> None:
    """What is saved may be less than one state; the gradient is then the same bit for bit."""
    bounded = compile_program(under(gradient_of(LOOPS["updates"]), Budget(memory=80)))
    for n in (0, 1, 10):
        want, _ = run_measured(compiled_gradient_of(LOOPS["updates"]), n, X)
        got, (m,) = run_measured(bounded, n, X)
        assert np.array_equal(got, want) and m.sums["held"] == 8 * n
    for n, most in ((11, 88), (12, 96), (13, 104), (50, 104)):
        message = f"of 80 bytes is too small: a state of the loop .x. takes {STATE}, and {most} are the least"
        with pytest.raises(futad.AssertionFailed, match=message):
            run_measured(bounded, n, X)
        enough = compile_program(under(gradient_of(LOOPS["updates"]), Budget(memory=most)))
        run_measured(enough, n, X)


SUM = f"f64.sum (loop x = copy x for i < k do x with [i % n] = {OWN})"


@pytest.mark.slow
@pytest.mark.parametrize("name", HIGHER)
def test_higher_derivatives(name: str) -> None:
    for memory in (8000, 10**6):
        check_higher(name, SUM, Budget(memory=memory), (0, 1, 2, 13), X, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
                                     pytest.param("emulated", marks=needs_cxx)])  # fmt: skip
@pytest.mark.parametrize("loop", ["counters and invariants", "while", "branch", "inner loop", "in a map"])
def test_backends(backend: str, loop: str) -> None:
    for memory in (2500, 90000):
        prog = futad.compile(gradient_text(LOOPS[loop]), backend=backend, memory=memory)
        for k in (0, 1, 57):
            want, _ = run_measured(compiled_gradient_of(LOOPS[loop]), k, X)
            np.testing.assert_allclose(prog.main(k, X), want, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_what_is_told() -> None:
    prog = futad.compile(gradient_text(LOOPS["updates"]), backend="interp", memory=300)
    prog.main(57, X)
    text = prog.explain_memory()
    assert "run again from states; state 96 bytes (x)" in text
    assert "57 iterations in blocks of 16, 1 states fit 300 bytes; each iteration run 2.7 times" in text
    prog.main(30, X)
    text = prog.explain_memory()
    assert "every iteration kept; state (x)" in text and "30 iterations, all of which fit 300 bytes" in text
