"""Where states are kept: the splits that programs compute, against theory, references and another package."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from reference.schedules import Split, binary, binomial, bisection, least, most, online, runs, stack, treeverse

import futad
from futad.ad.history.split import split
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.interp import Interpreter
from futad.core.types import I64, Var
from tests.support.needs import needs_cc

SPLITS: dict[str, Split] = {"binomial": binomial, "bisection": bisection}
ALL = list(itertools.product(range(1, 301), range(13)))
SOME = [(n, c) for n, c in ALL if n < 12 or n % 50 == 0]


@pytest.mark.parametrize("pairs", [SOME, pytest.param(ALL, marks=pytest.mark.slow)], ids=["some", "all"])
def test_runs_are_the_least_possible(pairs: list[tuple[int, int]]) -> None:
    for n, c in pairs:
        states = min(c + 1, n)
        steps = stack(n, states, binomial)
        assert runs(steps) == least(n + 1, states), (n, c)
        assert most(steps) <= states
        assert [a for what, a, _ in steps if what == "reverse"] == [*range(n)][::-1]


@pytest.mark.parametrize("method", SPLITS)
def test_binary_and_treeverse_are_one(method: str) -> None:
    """The same leaves in the same order and the same reruns, whichever way the tree is drawn."""
    for n, c in SOME:
        states = min(c + 1, n)
        one, other = binary(n, states, SPLITS[method]), treeverse(n, states, SPLITS[method])
        assert one == other
        assert [a for what, a, _ in one if what == "reverse"] == [*range(n)][::-1]
        if method == "binomial":
            assert runs(one) == least(n, states), (n, c)


@pytest.mark.slow
def test_agrees_with_another_package() -> None:
    package = pytest.importorskip("checkpoint_schedules", reason="needs the extra 'test'")
    for n, c in [(n, c) for n, c in SOME if c >= 1 and n >= 2]:
        total = 0
        for action in package.Revolve(n, c):
            if isinstance(action, package.Forward):
                total += action.n1 - action.n0
            if isinstance(action, package.EndReverse):
                break
        assert total == least(n, min(c, n)) + n, (n, c)  # it counts the run of each iteration for its derivative too


def test_unknown_length() -> None:
    """Not much more than if it were known, with four states or more."""
    ratios = []
    for n in [*range(1, 40), 61, 100, 317, 1000, 1375, 2049, 3000, 10_000]:
        for states in (4, 5, 8, 13, 32, 101):
            total, kept, _ = online(n, states, binomial)
            assert len(kept) <= states and kept[0] == 0
            ratios.append((total / least(n + 1, min(states, n)), n, states))
    assert max(ratios) <= (1.6, 0, 0), max(ratios)
    assert sorted(ratios)[len(ratios) // 2][0] <= 1.15


def splits(method: str) -> ir.Program:
    """A program that maps lengths and rooms to splits."""
    n, free, k = Var("n", I64), Var("free", I64), Var("k", I64)
    b = Builder()
    out = split(b, Budget(checkpoints=1, method=method), n, free)  # type: ignore[arg-type]
    entry = ir.Entry("main", tuple([(v.name, ir.EntryType("scalar", "i64", I64)) for v in (n, free)]),
                     ir.EntryType("scalar", "i64", I64))  # fmt: skip
    return ir.Program({"main": ir.Fun("main", ir.Lambda((n, free), tuple(b.stms), (out,)), 0, (k,), entry)})


@pytest.mark.parametrize("method", SPLITS)
def test_the_program_splits_as_the_reference(method: str) -> None:
    machine = Interpreter(splits(method))
    for n, c in SOME:
        if c:
            assert machine.run("main", [n, c])[0] == SPLITS[method](n, c), (n, c)
    for n, free in ((10**6, 1), (10**9, 30), (2**40, 100), (2**40, 1_000_000), (10**5, 10**5)):
        assert machine.run("main", [n, free])[0] == SPLITS[method](n, free), (n, free)


FOR = "entry main (k: i64) (x: f64): f64 = vjp (\\x -> loop x for i < k do f64.sin (x * 1.1)) x 1"
STEP = "(f64.sin (x * 1.1), i + 1)"
WHILE = f"entry main (k: i64) (x: f64): f64 = vjp (\\x -> (loop (x, i) = (x, 0) while i < k do {STEP}).0) x 1"


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("method", SPLITS)
@pytest.mark.parametrize("c", [0, 1, 2, 5, 12])
def test_loops_run_as_the_reference(c: int, method: str) -> None:
    known, unknown = [futad.compile(t, backend="c", checkpoints=c, method=method) for t in (FOR, WHILE)]
    want: dict[int, float] = {}
    for n in range(1, 301, 1 if method == "binomial" else 7):
        got = known.main(n, 0.3)
        m, _ = known._executable.measured()
        steps = stack(n, min(c + 1, n), SPLITS[method])
        assert (m.sums["runs"], m.sums["held"]) == (runs(steps), most(steps) * m.sums["state"]), n
        assert np.array_equal(unknown.main(n, 0.3), got)
        m, _ = unknown._executable.measured()
        assert m.sums["runs"] == online(n, c + 1, SPLITS[method])[0], n
        want[n] = got
    assert len(set(want.values())) == len(want)
