"""Loops under a budget: the same gradient from a few states, as many runs and states as theory has."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

import futad
from futad.ad.history.split import split, while_
from futad.backend.c import CBackend
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.measures import Measured
from futad.core.types import ONE, Atom, Var
from futad.pipeline import compile_program
from futad.target import target_of
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
from tests.support.paths import BENCHMARK_PROGRAMS
from tests.support.processor_time import is_below
from tests.support.slow import slow_but

LOOPS = {
    "scalar": "loop s = f64.sum x for i < k do f64.sin (s * 1.1 + x[i % n] * f64.i64 i * 0.01)",
    "array": "f64.sum (loop x for i < k do map2 (\\a b -> f64.sin (a * 1.1 + b * f64.i64 i * 0.01)) x (rotate 1"
    " x))",
    "tuple": "(loop (s, x) = (1, x) for i < k do (s + x[i % n] * s * 0.1, map (\\a -> f64.cos (a + s)) x)).0",
    "i32 index": "loop s = f64.sum x for i < i32.i64 k do f64.sin (s * 1.1 + x[0] * f64.i32 i)",
    "counters": "(loop (s, j) = (f64.sum x, 7i64) for i < k do (f64.sin (s + x[j % n] * f64.i64 j), j +"
    " 3)).0",
    "updates": "f64.sum (loop x = copy x for i < k do x with [i % n] = f64.sin (x[i % n] * 1.1 + x[(i + 1) %"
    " n]))",
    "written once": "f64.sum (loop a = replicate (k + 1) x[0] for i < k do a with [i + 1] = f64.sin (a[i] * 1.2 + x[i %"
    " n]))",
    "invariant": "(loop (s, y) = (x[0], map f64.exp x) for i < k do (f64.sin (s + y[i % n]), y)).0",
    "while": "(loop (s, i) = (f64.sum x, 0i64) while i < k do (f64.sin (s * 1.1 + x[i % n]), i + 1)).0",
    "until": "(loop (x, i) = (x, 0i64) while i < k && f64.sum x < 1e6 do (map (\\a -> a * 1.01 + a * a * 1e-3) x,"
    " i + 1)).0 |> f64.sum",
    "bounded": "(#[bound(100)] loop (s, i) = (f64.sum x, 0i64) while i < k do (f64.sin (s * 1.1 + x[i % n]), i +"
    " 1)).0",
    "nested": "f64.sum (loop x for i < k do loop x for j < 1 + i % 3 do map2 (\\a b -> f64.sin (a + b * f64.i64"
    " j)) x (rotate 1 x))",
    "two": "f64.sum (loop y = loop x for i < k do map f64.sin x for i < k do map2 (\\a b -> a * f64.cos b) y"
    " x)",
    "in a branch": "if x[0] < 2 then f64.sum (loop x for i < k do map (\\a -> f64.sin (a * 1.1)) x) else 0",
    "in a map": "f64.sum (map (\\a -> loop a for i < k do f64.sin (a * 1.1 + x[i % n])) x)",
    "while in a map": "f64.sum (map (\\a -> (loop (a, i) = (a, 0i64) while i < k && a < 9 do (f64.sin (a * 1.1) + x[i %"
    " n], i + 1)).0) x)",
    "histogram": "f64.sum (loop h = replicate 3 0 for i < k do hist (+) 0 3 (map (\\j -> (j + i) % 3) (iota n)) (map2"
    " (*) x (map (\\j -> f64.cos h[j % 3]) (iota n))))",
}  # fmt: skip
BUDGETS = [
    Budget(checkpoints=0),
    Budget(checkpoints=1),
    Budget(checkpoints=2),
    Budget(checkpoints=7),
    Budget(checkpoints=1000),
    Budget(checkpoints=3, method="bisection"),
    Budget(checkpoints="log"),
    Budget(checkpoints="log", method="bisection"),
    Budget(reruns=1),
    Budget(reruns=3),
    Budget(reruns=3, method="bisection"),
    Budget(memory=300),
]
CASES = [(loop, b) for loop in LOOPS for b in (BUDGETS if loop in ("array", "while") else [BUDGETS[1], BUDGETS[-3]])]
LENGTHS = (0, 1, 2, 3, 24)
N = 5
X = np.linspace(0.1, 0.9, N)


def core(loop: str) -> ir.Program:
    return gradient_of(LOOPS.get(loop, loop))


def plain(loop: str) -> ir.Program:
    return compiled_gradient_of(LOOPS.get(loop, loop))


def gradient(program: ir.Program, k: int) -> tuple[np.ndarray, list[Measured]]:
    return run_measured(program, k, X)


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "budget"), CASES, ids=str)
def test_gradient_is_the_one_without_a_budget(loop: str, budget: Budget) -> None:
    bounded = compile_program(under(core(loop), budget), check=True)
    for k in LENGTHS:
        want, _ = gradient(plain(loop), k)
        got, _ = gradient(bounded, k)
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)


def least(n: int, states: int) -> int:
    """How many runs there are at least until the last of n iterations can start, and for those before it again."""
    t = 0
    while math.comb(states + t, t) < n:
        t += 1
    return t * n - math.comb(states + t, t - 1) if t else 0


@pytest.mark.slow
@pytest.mark.parametrize("c", slow_but([0, 3], [0, 1, 3, 12]))
def test_runs_are_the_least_possible(c: int) -> None:
    bounded = compile_program(under(core("scalar"), Budget(checkpoints=c)))
    for n in (1, 2, 3, 5, 10, 24, 57, 120):
        _, (m,) = gradient(bounded, n)
        states = min(c + 1, n)
        assert m.sums["iterations"] == n and m.sums["states"] == states
        assert m.sums["runs"] == least(n + 1, states)
        assert m.sums["held"] <= states * m.sums["state"]


@pytest.mark.slow
def test_states_of_what_is_needed() -> None:
    """Counters, invariants, and arrays that the return sweep reads in the end are not kept."""
    for loop, names in (("counters", "s"), ("invariant", "s"), ("tuple", "s x"), ("while", "s")):
        _, found = gradient(compile_program(under(core(loop), Budget(checkpoints=2))), 9)
        assert dict(found[0].facts)["state"] == names, loop


def test_loops_that_are_not_run_again_say_so() -> None:
    undone = "f64.sum (loop (a, b) = (x, map f64.cos x) for i < k do (b, a)).0"
    _, found = gradient(compile_program(under(core(undone), Budget(memory=1000)), check=True), 4)
    assert all(dict(m.facts)["way"] == "undone" for m in found)


@pytest.mark.slow
def test_a_budget_below_one_state() -> None:
    bounded = compile_program(under(core("array"), Budget(memory=40)))
    message = r":1:.*of 40 bytes is too small: a state of the loop \(x\) takes 48, and 48 are the least"
    with pytest.raises(futad.AssertionFailed, match=message):
        gradient(bounded, 3)
    gradient(compile_program(under(core("array"), Budget(memory=48))), 3)


def later(b: Builder, *args: Any) -> Atom:
    """`split`, one iteration later."""
    return b.op("add", split(b, *args), ONE)


def earlier(b: Builder, *args: Any) -> Atom:
    """`split`, one iteration earlier."""
    return b.op("max", b.op("sub", split(b, *args), ONE), ONE)


@pytest.mark.parametrize("wrong", [later, earlier])
def test_a_split_that_is_off_by_one_has_more_runs(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the counts above see it: the gradient is right wherever states are kept."""
    monkeypatch.setattr("futad.ad.history.rerun.split", wrong)
    monkeypatch.setattr("futad.ad.history.descent.split", wrong)
    bounded = compile_program(under(core("scalar"), Budget(checkpoints=3)))
    assert any(gradient(bounded, n)[1][0].sums["runs"] > least(n + 1, min(4, n)) for n in (5, 10, 24, 57))


@pytest.mark.slow
def test_a_condition_from_before_the_iteration_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the loop itself, in the forward sweep: one iteration too many."""

    def wrong(b: Builder, inits: Any, go_on: Any, step: Any, names: Any, *rest: Any, **more: Any) -> list[Var]:
        if names != ["j"]:
            return while_(b, inits, go_on, step, names, *rest, **more)
        before: list[Any] = []
        noting = lambda b, *vs: before.append(vs) or step(b, *vs)  # noqa: E731
        late = lambda b, *vs: go_on(b, *(before.pop() if before else vs))  # noqa: E731
        return while_(b, inits, late, noting, names, *rest, **more)

    monkeypatch.setattr("futad.ad.history.descent.while_", wrong)
    want, _ = gradient(plain("while"), 24)
    got, (m,) = gradient(compile_program(under(core("while"), Budget(checkpoints=3))), 24)
    assert m.sums["iterations"] > 24 and not np.allclose(got, want, rtol=1e-9)


AMPLE = {
    "array": ("f64.sum (loop x for i < k do map2 (\\a b -> f64.sin (a * 1.1 + b * 0.01)) x (rotate 1 x))", 2000, 1000),
    "scalar": ("loop s = f64.sum x for i < k do f64.sin (s * 1.1 + x[i % n] * f64.i64 i * 0.01)", 100_000, 1000),
    "updates": ("f64.sum (loop x = copy x for i < k do let j = (i * 7919) % n in x with [j] ="
                " f64.sin (x[j] * 1.1 + x[(j + 1) % n]))", 100_000, 100_000),
}  # fmt: skip


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("name", AMPLE)
def test_an_ample_budget_costs_nothing(name: str) -> None:
    """Where all fits nothing is run again, and the gradient takes no longer (5% and what measuring is off by)."""
    loop, k, n = AMPLE[name]
    x = np.linspace(0.1, 0.9, n)
    free = futad.compile(gradient_text(loop), backend="c")
    ample = futad.compile(gradient_text(loop), backend="c", memory="1GB")

    def seconds(prog: futad.Program) -> float:
        start = time.process_time()
        prog.main(k, x)
        return time.process_time() - start

    np.testing.assert_array_equal(ample.main(k, x), free.main(k, x))
    (m,) = [m for m in ample._executable.measured() if "runs" in m.sums]
    assert m.sums["runs"] == m.sums["iterations"] == k
    assert is_below(lambda: seconds(ample), lambda: seconds(free), 1.1)


SUM = "f64.sum (loop x for i < k do map2 (\\a b -> f64.sin (a * 1.1 + b * f64.i64 i * 0.01)) x (rotate 1 x))"


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Budget(checkpoints=2), Budget(checkpoints="log"), Budget(memory=8000)], ids=str)
@pytest.mark.parametrize("name", HIGHER)
def test_higher_derivatives(name: str, budget: Budget) -> None:
    told = check_higher(name, SUM, budget, LENGTHS, X, atol=1e-14)
    if budget.memory is not None and name != "rows":  # there it is each row's
        assert all(sum(m.most["held"] for m in found) <= budget.memory for found in told)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
                                     pytest.param("emulated", marks=needs_cxx)])  # fmt: skip
@pytest.mark.parametrize("loop", ["array", "tuple", "updates", "while", "nested", "in a map", "while in a map"])
def test_backends(backend: str, loop: str) -> None:
    text = f"entry main [n] (k: i64) (x: [n]f64): [n]f64 = vjp (\\x -> {LOOPS[loop]}) x 1"
    prog = futad.compile(text, backend=backend, checkpoints=3)
    for k in (0, 1, 30):
        np.testing.assert_allclose(prog.main(k, X), gradient(plain(loop), k)[0], rtol=1e-12, atol=1e-14)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_each_budget_gives_the_same_bits(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few states or all, a length that is counted or not; what is under no budget is left to contract."""
    path, x = BENCHMARK_PROGRAMS / "adaptive.fut", np.random.default_rng(1).normal(size=61)
    monkeypatch.setenv("FUTAD_CFLAGS", "-O2")  # with which the forms of this program contracted in two ways
    made = [futad.load(path, backend=backend, **o) for o in ({"checkpoints": 2}, {"checkpoints": 10**6}, {"reruns": 3})]
    assert len({m.gradient(53, 3.0, x).tobytes() for m in made}) == 1
    for m, contracts in ((made[0], False), (futad.load(path, backend=backend), True)):
        core = compile_program(m._executable.core, target=target_of(backend))
        assert ("fp-contract=off" in CBackend(core, target=target_of(backend)).source) != contracts
