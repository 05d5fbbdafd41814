"""Numbers of iterations of `while` loops in loops: saved where the loop saves as much anyway, else counted again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.interp import HANDLERS, Interpreter
from futad.pipeline import compile_program
from futad.source import compile_text

# Conditions evaluate atan, which no derivative does.
GOES = "f64.atan d > 0.1 * f64.abs (f64.sin s) + 0.01"
INNER = f"(loop (s, d) = (s, 1f64) while {GOES} do (f64.sin s + d * x[i % n], d * 0.6)).0"
SUM = f"loop t = x[0] for i < n do t + (loop (s, d) = (x[i], 1f64) while {GOES} do (f64.sin s + d, d * 0.6)).0"
# By name: the loops, and how often the gradient evaluates the condition for each time that the value does.
LOOPS = {
    "for": (f"loop s = x[0] for i < n do {INNER}", 1),
    "branch": (f"loop s = x[0] for i < n do if i % 3 != 1 then {INNER} else s * x[i]", 1),
    "branches": (f"loop s = x[0] for i < n do if i % 3 != 1 then if s < 0 then s * x[i] else {INNER} else -s", 1),
    "two": (f"loop s = x[0] for i < n do let s = {INNER} in {INNER}", 2),  # counts of two take more than the state
    "bound": (f"(#[bound(20)] loop (s, i) = (x[0], 0) while i < n do ({INNER}, i + 1)).0", 1),
    "while": (f"(loop (s, i) = (x[0], 0i64) while i < n && f64.abs s < 9 do ({INNER}, i + 1)).0", 2),
    # An iteration of the outer loop is run again, and saves then.
    "nest": (f"loop s = x[0] for j < 3 do (loop (s, i) = (s, j) while i < n && s < 9 do ({INNER}, i + 1)).0", 2),
    "sum": (SUM, 1),  # none of the forward sweep
}


def text(name: str) -> str:
    return (
        f"def f [n] (x: [n]f64) : f64 = {LOOPS[name][0]}\n"
        "entry value [n] (x: [n]f64) : f64 = f x\nentry gradient [n] (x: [n]f64) : [n]f64 = vjp f x 1\n"
        "entry second [n] (x: [n]f64) : [n]f64 = vjp (\\x -> f64.sum (vjp f x 1)) x 1\n"
    )


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    found: Counter[str] = Counter()
    op = HANDLERS[ir.Op]

    def count(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        found[e.op] += sc.lanes
        return op(m, e, stm, sc)

    monkeypatch.setitem(HANDLERS, ir.Op, count)
    yield found


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("n", [1, 7])
def test_conditions(name: str, n: int, evaluated: Counter[str]) -> None:
    x = np.linspace(0.3, 1.2, n)
    program = compile_program(compile_text(text(name)), check=True)
    counts = {}
    for entry in ("value", "gradient"):
        evaluated.clear()
        result = Interpreter(program, batched=False).run(entry, [n, x])[0]
        counts[entry] = evaluated["atan"]
    assert counts["value"] > n
    assert counts["gradient"] == LOOPS[name][1] * counts["value"]
    expected = futad.grad(futad.compile(text(name), backend="interp").value, method="dual")(x)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_nothing_is_kept_that_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that saves nothing saves no counts."""
    made: list[tuple[str, int]] = []
    scratch = HANDLERS[ir.Scratch]

    def count(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        out = scratch(m, e, stm, sc)
        made.append((stm.pat[0].name, np.size(out[0])))
        return out

    monkeypatch.setitem(HANDLERS, ir.Scratch, count)
    n = 100
    Interpreter(compile_program(compile_text(text("sum"))), batched=False).run("gradient", [n, np.linspace(1, 2, n)])
    assert made and all(size < n for name, size in made if not name.endswith("_bar"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_backends(backend: str) -> None:
    x = np.linspace(0.3, 1.2, 7)
    for name in LOOPS:
        expected = futad.compile(text(name), backend="interp")
        found = futad.compile(text(name), backend=backend)
        np.testing.assert_allclose(found.gradient(x), expected.gradient(x), rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(found.second(x), expected.second(x), rtol=1e-8, atol=1e-10)
