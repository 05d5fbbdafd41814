"""Budgets: amounts of memory, options and their contradictions, and the attribute that statements carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.budget import Budget, amount, budget_of, budgeted, reversible_of
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.errors import UsageError
from futad.source import compile_text

AMOUNTS = {
    0: 0, 1000000: 1000000, "7": 7, "64MB": 64 * 10**6, "4 MiB": 4 << 20, "512kB": 512000, " 2 KiB ": 2048,
    "1e6": 10**6, "1.5kB": 1500, "1_000 B": 1000, "0.5GiB": 1 << 29, "3GB": 3 * 10**9, "1TB": 10**12,
    "2TiB": 2 << 40, 2.0: 2,
}  # fmt: skip


@pytest.mark.parametrize("text", AMOUNTS, ids=str)
def test_amounts(text: Any) -> None:
    assert amount(text) == AMOUNTS[text] and type(amount(text)) is int
    assert amount(np.int32(5)) == 5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("", "no amount of memory"),
        ("MB", "no amount of memory"),
        ("64 M B", "no amount of memory"),
        ("0x10", "no unit is called 'x'"),
        ("-1MB", "must not be negative"),
        (-1, "must not be negative"),
        ("64mb", "did you mean 'MB'"),
        ("64KB", "did you mean 'kB'"),
        ("64M", "did you mean 'MB'"),
        ("64 parsec", "there are: B, kB"),
        ("0.3B", "no whole number of bytes"),
        ("1e30", "more than an address space"),
        (1 << 63, "does not fit in 64 bits"),
        (1.5, "must be a number of bytes"),
        (float("nan"), "must be a number of bytes"),
        (float("inf"), "must be a number of bytes"),
        (True, "must be a number of bytes"),
        ([1], "must be a number of bytes"),
    ],
    ids=str,
)
def test_wrong_amounts(wrong: Any, message: str) -> None:
    if message == "no unit is called 'x'":
        wrong = "10x"
    with pytest.raises(UsageError) as e:
        budget_of(memory=wrong)
    assert message in str(e.value) and "memory" in str(e.value)


OPTIONS: list[tuple[dict[str, Any], Budget | None]] = [
    ({}, None),
    ({"memory": None, "nest": True}, None),
    ({"memory": "1kB"}, Budget(memory=1000)),
    ({"memory": 0, "reversible": "exact"}, Budget(memory=0, reversible="exact")),
    ({"checkpoints": 0}, Budget(checkpoints=0)),
    ({"checkpoints": np.int64(30), "method": "bisection"}, Budget(checkpoints=30, method="bisection")),
    ({"checkpoints": "log"}, Budget(checkpoints="log")),
    ({"reruns": 3, "reversible": False}, Budget(reruns=3, reversible=False)),
    ({"method": "binomial"}, Budget(checkpoints="log")),
    ({"nest": False}, Budget(checkpoints="log", nest=False)),
    ({"reversible": True}, Budget(reversible=True)),
    ({"reversible": 1e-10}, Budget(reversible=1e-10)),
    ({"reversible": float("inf")}, Budget(reversible=float("inf"))),
]


@pytest.mark.parametrize(("options", "want"), OPTIONS, ids=[str(o) for o, _ in OPTIONS])
def test_options(options: dict[str, Any], want: Budget | None) -> None:
    made = budget_of(**options)
    assert made == want
    if made is not None:
        assert Budget.of([("unroll",), made.attribute()]) == made
        assert made.limits == bool({"memory", "checkpoints", "reruns", "method", "nest"} & options.keys())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": 1, "reruns": 2}, "memory and reruns limit the same thing"),
        ({"memory": 1, "reruns": 2, "checkpoints": 3}, "memory and checkpoints and reruns limit"),
        ({"checkpoints": -1}, "checkpoints must not be negative"),
        ({"checkpoints": "many"}, "checkpoints must be a number of states, or 'log', not 'many'"),
        ({"checkpoints": 2.5}, "checkpoints must be a number of states"),
        ({"checkpoints": True}, "checkpoints must be a number of states"),
        ({"reruns": 0}, "reruns must be at least 1"),
        ({"reruns": "log"}, "reruns must be a number of times"),
        ({"method": "treeverse"}, "method must be 'binomial' or 'bisection', not 'treeverse'"),
        ({"reversible": "yes"}, "reversible must be True, False, 'exact' or a tolerance"),
        ({"reversible": 0.0}, "a tolerance above 0"),
        ({"reversible": -1e-3}, "a tolerance above 0"),
        ({"reversible": float("nan")}, "a tolerance above 0"),
        ({"reversible": 1}, "a tolerance above 0"),
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as e:
        budget_of(**options)
    assert message in str(e.value)


def test_reversible_as_text() -> None:
    assert [reversible_of(t) for t in ("on", "OFF", "true", "exact", "1e-10")] == [True, False, True, "exact", 1e-10]
    with pytest.raises(UsageError, match="on, off, exact or a tolerance"):
        reversible_of("perhaps")


PROGRAM = """
def f (n: i64) (x: f64) = loop y = x for _i < n do f64.sin y
entry plain (x: f64) = f 3 x
entry one (x: f64) = vjp (f 3) x 1
entry nested (x: f64) = vjp (\\x -> vjp (f 3) x 1) x 1
entry forward (x: f64) = jvp (\\x -> vjp (f 3) x 1) x 1
entry mapped (xs: []f64) = map (\\x -> vjp (f 3) x 1) xs
"""


def budgets(p: ir.Program, name: str) -> list[Budget | None]:
    return [Budget.of(s.attrs) for s in ir.statements(p.funs[name].body.stms) if isinstance(s.exp, ir.Vjp)]


def test_derivatives_of_a_program_are_given_the_budget() -> None:
    program, b = compile_text(PROGRAM), Budget(memory=1000, reversible=1e-10)
    made = budgeted(program, b)
    assert budgeted(program, None) is program and made.funs["plain"] is program.funs["plain"]
    assert [budgets(made, n) for n in ("plain", "one", "nested", "forward", "mapped")] == [[], [b], [b, b], [b], [b]]
    assert budgeted(made, Budget(reruns=1)).funs["nested"] is made.funs["nested"], "their own ones stay"
    for text in (program_text(made), program_text(parse_program(program_text(made)))):
        assert text.count('["checkpoint", ["memory", 1000], ["reversible", 1e-10]]') == 5
    assert budgets(parse_program(program_text(made)), "nested") == [b, b]
    every = Budget(checkpoints="log", method="bisection", reversible="exact", nest=False)
    assert budgets(parse_program(program_text(budgeted(program, every))), "one") == [every]
    assert budgets(parse_program(program_text(budgeted(program, Budget(reversible=float("inf"))))), "one") == [
        Budget(reversible=float("inf"))
    ]
