"""`memory=`, `checkpoints=`, `reruns=`, `method=`, `reversible=`: where they are taken, what they reach, what is said
of wrong ones, and that gradients stay what they are; `explain_memory`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.budget import Budget
from futad.core.measures import Measured
from futad.errors import Span, UsageError
from futad.runtime.arena import bytes_text
from futad.runtime.explain import NOTHING, explained, first_line, least_runs
from tests.support.needs import needs_cc
from tests.support.slow import slow_but

OPTIONS = ("memory", "checkpoints", "reruns", "method", "reversible")
TAKE = [getattr(futad, n) for n in ("load", "compile", "vjp", "grad", "value_and_grad", "jacrev", "hvp", "hessian")]
PROGRAM = """
entry loss (n: i64) (x: f64): f64 = loop y = x for _i < n do f64.sin y + 0.5 * x
entry grads (n: i64) (x: f64): f64 = vjp (\\x -> loop y = x for _i < n do f64.sin y) x 1
"""


def budgets(f: futad.Function) -> list[Budget | None]:
    """Those of all reverse-mode derivatives in an entry's program."""
    bodies = [fun.body.stms for fun in f.executable.core.funs.values()]
    return [Budget.of(s.attrs) for stms in bodies for s in ir.statements(stms) if isinstance(s.exp, ir.Vjp)]


@pytest.mark.parametrize("f", TAKE, ids=lambda f: f.__name__)
def test_signatures_and_documentation(f: Callable[..., Any]) -> None:
    params = inspect.signature(f).parameters
    assert [n for n in params if n in OPTIONS] == list(OPTIONS)
    assert all(params[n].kind is inspect.Parameter.KEYWORD_ONLY and params[n].default is None for n in OPTIONS)
    assert f.__doc__ is not None and "docs/memory.md" in f.__doc__ and "UsageError" in f.__doc__
    with pytest.raises(TypeError, match=rf"{f.__name__}\(\) got an unexpected keyword argument 'memroy'"):
        f("x", memroy=1)


def test_budget_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "p.fut").write_text(PROGRAM)
    b = Budget(memory=4_000_000)
    for prog in (futad.compile(PROGRAM, memory="4MB"), futad.load(tmp_path / "p.fut", memory="4MB")):
        assert budgets(prog.grads) == [b]
        assert budgets(futad.grad(prog.loss, 1)) == [b], "derivatives of its entries have it, too"
        assert budgets(futad.grad(prog.loss, 1, reruns=2)) == [Budget(reruns=2)], "unless they say something else"
    assert budgets(futad.compile(PROGRAM).grads) == [None]


def test_budget_of_a_derivative() -> None:
    prog = futad.compile(PROGRAM, backend="interp")
    g = futad.grad(prog.loss, 1, checkpoints=2)
    assert budgets(g)[-1] == Budget(checkpoints=2) and budgets(prog.grads) == [None]
    assert futad.grad(prog.loss, 1, checkpoints=2) is g, "made once"
    assert futad.grad(prog.loss, 1, checkpoints=3) is not g and futad.grad(prog.loss, 1) is not g
    for f in (futad.value_and_grad, futad.jacrev):
        assert budgets(f(prog.loss, 1, reversible="exact"))[-1] == Budget(reversible="exact")
    assert Budget(reruns=2) in budgets(futad.hessian(prog.loss, 1, reruns=2))


EVERY: list[dict[str, Any]] = [
    {"memory": "1MB"}, {"checkpoints": 2}, {"checkpoints": "log"}, {"reruns": 3}, {"method": "bisection"},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", slow_but(EVERY[:2], EVERY), ids=str)
@pytest.mark.parametrize("backend", slow_but(["interp"], ["interp", "c"]))
def test_gradients_are_what_they_were(options: dict[str, Any], backend: str) -> None:
    prog = futad.compile(PROGRAM, backend=backend)
    x = np.float64(0.7)
    want = futad.grad(prog.loss, 1)(9, x)
    assert futad.grad(prog.loss, 1, **options)(9, x) == pytest.approx(want, rel=1e-13)
    value, pull = futad.vjp(prog.loss, 9, x, **options)
    assert (value, pull(1.0)[1]) == pytest.approx((prog.loss(9, x), want), rel=1e-13)
    assert futad.value_and_grad(prog.loss, 1, **options)(9, x)[1] == pytest.approx(want, rel=1e-13)
    assert futad.jacrev(prog.loss, 1, **options)(9, x) == pytest.approx(want, rel=1e-13)
    second = futad.hessian(prog.loss, 1)(9, x)
    assert futad.hvp(prog.loss, (9, x), (None, 2.0), **options)[1] == pytest.approx(2 * second, rel=1e-12)
    assert futad.hessian(prog.loss, 1, **options)(9, x) == pytest.approx(second, rel=1e-12)
    with_budget = futad.compile(PROGRAM, backend=backend, **options)
    assert with_budget.grads(9, x) == pytest.approx(prog.grads(9, x), rel=1e-13)


def test_wrong_options_are_refused_at_once() -> None:
    prog = futad.compile(PROGRAM, backend="interp")
    for call in (
        lambda **o: futad.compile(PROGRAM, **o),
        lambda **o: futad.load("missing.fut", **o),
        lambda **o: futad.grad(prog.loss, 1, **o),
        lambda **o: futad.vjp(prog.loss, 3, 1.0, **o),
        lambda **o: futad.hvp(prog.loss, (3, 1.0), (None, 1.0), **o),
        lambda **o: futad.hessian(prog.loss, 1, **o),
    ):
        with pytest.raises(UsageError, match="did you mean 'MB'"):
            call(memory="64mb")
        with pytest.raises(UsageError, match="memory and reruns limit the same thing"):
            call(memory=64, reruns=3)


# --- explain_memory -------------------------------------------------------------------------------------------

PLACE = Span("sim.fut", 31, 3, 33, 8)
FACTS = (
    ("loop", PLACE), ("what", "nest of 2 (31, 33) as one"), ("way", "rerun"), ("state", "u; i j m h"),
    ("inverse", "no ('u' at 34: mean of neighbours)"),
)  # fmt: skip


def test_nothing_to_explain() -> None:
    prog = futad.compile(PROGRAM, backend="interp")
    assert prog.explain_memory() == prog.loss.explain_memory() == NOTHING
    prog.loss(3, 1.0)
    assert prog.explain_memory() == NOTHING


def test_text_of_a_loop() -> None:
    most = {
        "iterations": 170080, "states": 62, "state": 16000, "runs": 629296, "least": 629296, "predicted": 990000,
        "held": 1000000, "budget": 1000000, "without": 64000000,
    }  # fmt: skip
    assert explained([Measured(FACTS, 1, most, most)]).splitlines() == [
        "sim.fut:31 nest of 2 (31, 33) as one: run again from states; state 16 kB (u; i j m h); inverse: no ('u' at "
        "34: mean of neighbours)",
        "  170,080 iterations, 62 states fit 1 MB; each iteration run 3.7 times (least possible: 3.7)",
        "  predicted 990 kB, held 1 MB; without a budget 64 MB would be kept",
    ]
    assert first_line(FACTS).startswith("sim.fut:31 nest of 2 (31, 33) as one: run again from states; state (u; i")


def test_text_of_a_loop_that_is_undone() -> None:
    bits = [int(np.float64(x).view(np.int64)) for x in (3.1e-12, 1e-8)]
    most = {"iterations": 20000, "held": 0, "deviation": bits[0], "allowed": bits[1]}
    facts = (("loop", PLACE), ("what", "loop"), ("way", "undone"), ("inverse", "q p: 3 kicks, 3 drifts"))
    assert explained([Measured(facts, 2, {**most, "iterations": 40000}, most)]).splitlines() == [
        "sim.fut:31 loop: undone iteration by iteration; inverse: q p: 3 kicks, 3 drifts",
        "  40,000 iterations in 2 runs of the loop",
        "  held 0 bytes",
        "  came back within 3.1e-12 of where it began (allowed 1e-08)",
    ]
    assert explained([Measured((("loop", None), ("way", "kept")), 1)]) == "loop: every iteration kept"


def test_fields_of_a_record_have_one_name() -> None:
    """A field that comes back with round-off, beside one that is only compared, and one that is saved."""
    prog = futad.compile(
        """entry f (r: {a: f64, b: [2]f64, c: bool}) (k: i64): {a: f64, b: [2]f64, c: bool} =
             loop r = r for i < k do
               if r.c then r with a = r.a * r.b[i % 2] else r with b = [r.b[1] * 0.9, r.a] with c = true""",
        backend="interp",
    )
    at, bar = {"a": 1.1, "b": [0.7, 1.3], "c": True}, {"a": 1.0, "b": [1.0, 2.0], "c": None}
    want, _ = futad.vjp(prog.f, at, 5)[1](bar)
    got, _ = futad.vjp(prog.f, at, 5, reversible=True)[1](bar)
    assert np.allclose(got.a, want.a, rtol=1e-12) and np.allclose(got.b, want.b, rtol=1e-12)


def test_amounts_near_a_unit() -> None:
    """999,992 bytes round to 1000 kB."""
    amounts = {999: "999 bytes", 1000: "1 kB", 999_499: "999 kB", 999_992: "1 MB", 10**9 - 1: "1 GB"}
    assert {n: bytes_text(n) for n in amounts} == amounts


def test_least_runs() -> None:
    """By trying all places of the first state that is kept."""

    @functools.cache
    def least(n: int, states: int) -> int:
        if n == 1:
            return 0
        if states == 1:
            return n * (n - 1) // 2
        return min(k + least(n - k, states - 1) + least(k, states) for k in range(1, n))

    assert [least_runs(n, s) for n in range(1, 60) for s in range(1, 8)] == [
        least(n, s) for n in range(1, 60) for s in range(1, 8)
    ]


def measuring(prog: futad.Program, name: str) -> futad.Program:
    """The program whose function tells a number when it is called."""
    core = prog.core
    f = core.funs[name]
    size = f.body.params[0]
    stm = ir.Stm((), ir.Measure((("way", name),), ("iterations",), (size,)))
    body = ir.Lambda(f.body.params, (stm, *f.body.stms), f.body.result)
    made = ir.Fun(f.name, body, f.num_sizes, f.ret, f.entry, f.attrs, f.span)
    return futad.Program(ir.Program({**core.funs, name: made}, core.name), backend=prog.backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", slow_but(["interp", "c"], ["interp", "c", "multicore", "emulated"]))
def test_last_calls_are_explained(backend: str) -> None:
    def loops(text: str) -> str:
        return "\n".join([line for line in text.splitlines() if not line.startswith("other temporaries ")])

    prog = measuring(futad.compile(PROGRAM, backend=backend), "loss")
    prog.loss(3, 1.0)
    assert loops(prog.explain_memory()) == "loop: loss\n  3 iterations"
    prog.grads(3, 1.0)
    assert prog.explain_memory() == NOTHING, "of the last call"
    g = futad.grad(prog.loss, 1)
    g(5, 1.0)
    assert g.explain_memory() == prog.explain_memory(), "derivatives count"
    assert loops(g.explain_memory()) == "loop: loss\n  5 iterations"
    h = futad.grad(g, 1)
    h(7, 1.0)
    assert loops(prog.explain_memory()) == "loop: loss\n  5 iterations\nloop: loss\n  7 iterations"
    assert loops(h.explain_memory()) == "loop: loss\n  7 iterations"


@pytest.mark.slow
@pytest.mark.parametrize("backend", slow_but(["interp", "c"], ["interp", "c", "multicore", "emulated"]))
def test_loops_under_a_budget_are_explained(backend: str) -> None:
    prog = futad.compile(PROGRAM, backend=backend, memory=200)
    prog.grads(1000, 0.5)
    first, second, third, *rest = prog.explain_memory().splitlines()
    inverse = "inverse: no ('y' comes back with round-off, which only reversible= allows)"
    assert first == f"main:3 loop: run again from states; state 16 bytes (y); {inverse}"
    assert second == "  1,000 iterations, 12 states fit 200 bytes; each iteration run 3.4 times (least possible: 3.4)"
    assert third == "  predicted 192 bytes, held 192 bytes; without a budget 8 kB would be kept"
    assert [line.split()[:2] for line in rest] == ([] if backend == "interp" else [["other", "temporaries"]])
    futad.grad(prog.loss, 1, checkpoints=5)(50, 0.5)
    (text,) = [line for line in prog.explain_memory().splitlines() if line.startswith("  50")]
    assert text.startswith("  50 iterations, 6 states fit; each iteration run "), "the first state and 5 more"
    assert "main:2 loop: run again from states" in prog.explain_memory()


KEPT = """
entry counted (n: i64) (x: f64): f64 = vjp (\\x -> loop y = x for _i < n do f64.sin y) x 1
entry until (n: i64) (x: f64): f64 =
  vjp (\\x -> (loop (y, k) = (x, 0) while k < n do (f64.sin y, k + 1)).0) x 1
entry updated (n: i64) (x: f64): f64 =
  vjp (\\x -> f64.sum (loop y = replicate 5 x for i < n do y with [i % 5] = f64.sin y[i % 5] * y[(i + 1) % 5])) x 1
"""


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("name", ["counted", "until", "updated"])
@pytest.mark.parametrize("options", [{"memory": "2kB"}, {"checkpoints": 9}], ids=str)
def test_what_would_be_kept_without_a_budget(name: str, options: dict[str, Any]) -> None:
    """As much as the same program without one has more of, when the loop is longer."""
    bounded, free = futad.compile(KEPT, backend="c", **options), futad.compile(KEPT, backend="c")
    told, has = [], []
    for n in (10_000, 20_000):
        bounded[name](n, 0.5)
        (without,) = [m.most["without"] for m in bounded.executor().measured() if "without" in m.most]
        told.append(without)
        free.executor().compiled.forget()
        free[name](n, 0.5)
        has.append(free.executor().memory()[0])
    assert told == [8 * 10_000, 8 * 20_000] and abs(told[1] - told[0] - (has[1] - has[0])) <= 128


def test_a_budget_below_a_state_is_an_error() -> None:
    prog = futad.compile(PROGRAM, backend="interp", memory="10B")
    with pytest.raises(futad.Error, match=r"of 10 bytes is too small: a state of the loop \(y\) takes 16"):
        prog.grads(1000, 0.5)


def test_an_error_of_a_derivative_of_a_derivative_has_a_place() -> None:
    """Its loop is one that the first derivative has made."""
    source = """
entry loss [n] (k: i64) (x: [n]f64) : f64 =
  f64.sum (loop x = copy x for i < k do x with [i % n] = f64.sin x[i % n] * x[0])
"""
    loss = futad.compile(source, backend="interp", name="sums.fut").loss
    gradient, x, v = futad.grad(loss, 1, memory="1kB"), np.linspace(0.2, 1, 3), np.ones(3)
    with pytest.raises(futad.Error, match=r"sums\.fut:3:\d+: Error: the budget of 32 bytes is too small") as found:
        futad.vjp(gradient, 9, x, memory="32B")[1](v)
    least = re.findall(r"(\d+) are the least", str(found.value))[0]
    _, second = futad.vjp(gradient, 9, x, memory=int(least))[1](v)
    np.testing.assert_allclose(second, futad.vjp(futad.grad(loss, 1), 9, x)[1](v)[1], rtol=1e-12)
