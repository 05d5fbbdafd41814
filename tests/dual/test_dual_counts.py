"""What the engine promises of its work, the ladder's table, jobs and threads, and the commands that show them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from futad.dual import ladder, numbers
from futad.dual.__main__ import main
from futad.dual.engine import DualInterpreter
from futad.dual.numbers import Dual
from futad.dual.resolve import Counts, Reverse
from futad.source import compile_text
from tests.support.paths import BENCHMARK_PROGRAMS, ROOT


def engine(text: str, threads: int = 1) -> DualInterpreter:
    return DualInterpreter(compile_text(text), threads=threads)


# --- the ladder ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 5, 10, 15])
def test_calls_of_the_doubling_chain(k: int) -> None:
    """2^(k + 1) - 1 by naive backpropagators, k + 1 from staging on; the derivative is 2^k on every rung."""
    for rung in ladder.RUNGS:
        cost, gradient = ladder.run(rung, ladder.doubling(k), [1.0])
        assert gradient.tolist() == [2.0**k]
        assert cost.calls == (2 ** (k + 1) - 1 if rung is ladder.Naive else k + 1)


@pytest.mark.parametrize("k", [0, 1, 7, 12])
def test_only_identifiers_bring_calls_together(k: int) -> None:
    calls = {}
    for rung in ladder.RUNGS:
        cost, gradient = ladder.run(rung, ladder.fibonacci(k), [1.0])
        calls[rung] = cost.calls
        a, b = 1, 1
        for _ in range(k):
            a, b = b, a + b
        assert gradient.tolist() == [float(b)]
    assert {calls[r] for r in ladder.RUNGS[2:]} == {k + 1}
    assert calls[ladder.Naive] >= calls[ladder.Factored] >= k + 1
    assert k < 7 or calls[ladder.Factored] > 1.5**k


def test_one_hot_vectors() -> None:
    """Of 1000 inputs and as many operations: a vector made and a vector added a call, until the collector is changed in
    place."""
    cells = {r: ladder.run(r, ladder.doubling(1000), [1.0] + [0.0] * 999)[0].cells for r in ladder.RUNGS[1:]}
    assert cells[ladder.Factored] == cells[ladder.Staged] == 2 * 1000 * 1001
    assert all(cells[r] <= 6 * 1001 for r in ladder.RUNGS[3:])


def test_every_rung_differentiates_products() -> None:
    xs = [0.5, -1.0, 2.0, 3.0, 0.25, 4.0]
    for rung in ladder.RUNGS:
        assert ladder.run(rung, ladder.dot, xs)[1].tolist() == [*xs[3:], *xs[:3]]


def test_the_cost_of_dot_products() -> None:
    """Quadratic with vectors of all inputs, n log n with maps, linear with arrays."""
    exponents = {r.name: r.exponent for r in ladder.rows(3, 10)}
    for name in ("naive", "factored", "staged by ids"):
        assert exponents[name] > 1.9
    assert 1.05 < exponents["Cayley, maps"] < 1.35
    assert exponents["arrays"] < 1.02 and exponents["taping"] < 1.02


# --- the engine ---------------------------------------------------------------------------------------------

CHAIN = """
entry chain (k: i64) (x: f64): f64 = loop y = x for _i < k do y + y
entry squares [n] (xs: [n]f64): f64 = f64.sum (map (\\x -> x * x) xs)
entry reads [n] (xs: [n]f64): f64 = loop s = 0 for i < n do s + xs[i] * xs[n - 1 - i]
entry writes (n: i64) (x: f64): f64 =
  let ys = loop ys = replicate n x for i < n do ys with [i] = ys[i] * x in f64.sum ys
"""


@pytest.mark.parametrize("k", [0, 1, 20, 200])
def test_doubling(k: int) -> None:
    """As on the ladder from staging on; the input's own is the one call that is not counted here."""
    e = engine(CHAIN)
    _, (_, gradient) = e.gradient("chain", [k, 1.5])
    counts = e.counts_of_run
    assert gradient == 2.0**k and (counts.made, counts.calls, counts.most) == (k, k, min(k, 1))
    assert counts.chain == k


def test_a_map_is_one_backpropagator_a_statement() -> None:
    e = engine(CHAIN)
    for n in (3, 3000):
        xs = np.arange(float(n))
        gradient = e.gradient("squares", [n, xs])[1][1]
        assert (gradient == 2 * xs).all() and e.counts_of_run.made <= 3


@pytest.mark.parametrize("entry", ["reads", "writes"])
def test_arrays_are_added_to_and_moved_in_place(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of n reads or writes of an array touches O(n) cells: adjoints are made whole a few times,
    however many elements are read or written."""
    made: list[int] = []
    zeros, copy = np.zeros, numbers.keep

    def count(shape: Any, dtype: Any = float) -> Any:
        made.append(int(np.prod(shape)))
        return zeros(shape, dtype)

    def kept(v: Any) -> Any:
        made.append(v.size)
        return copy(v)

    cells = []
    for n in (50, 100, 200):
        e = engine(CHAIN)
        made.clear()
        with monkeypatch.context() as m:
            m.setattr(np, "zeros", count)
            m.setattr(numbers, "keep", kept)
            args = [n, np.linspace(1, 2, n)] if entry == "reads" else [n, 1.5]
            e.gradient(entry, args)
        cells.append(sum(made))
    assert cells[2] - cells[1] <= 2.1 * (cells[1] - cells[0]) and cells[2] < 25 * 200


# --- jobs ---------------------------------------------------------------------------------------------------


def tree(level: Reverse, xs: list[Dual], depth: int) -> Dual:
    """The sum of products of neighbours by forks in two, `depth` deep."""
    if depth == 0:
        out = xs[0]
        for x in xs[1:]:
            out = out * x
        return out
    half = len(xs) // 2
    with level.forked(2) as begin:
        begin()
        left = tree(level, xs[:half], depth - 1)
        begin()
        right = tree(level, xs[half:], depth - 1)
    return left + right


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_forks_become_joins(depth: int, threads: int) -> None:
    """3 forks + 1 jobs; each backpropagator called once; the gradient, also of a number that all branches read."""
    leaves = 2**depth
    level = Reverse(1, threads=threads)
    values = np.random.default_rng(1).normal(size=2 * leaves)
    shared = Dual(level, np.float64(1.25), level.leaf(np.float64(1.25)))
    inputs = [Dual(level, x, level.leaf(x)) for x in values]
    out = tree(level, [x * shared for x in inputs], depth)
    level.resolve([(out.slope, np.float64(1))])
    c = level.counts
    assert c.forks == leaves - 1 and c.jobs == 3 * c.forks + 1
    assert c.calls == c.made and c.most == 1 and c.job_chain == 2 * depth + 1
    for i, x in enumerate(inputs):
        assert x.slope.adjoint == pytest.approx(values[i ^ 1] * 1.25**2, rel=1e-15)
    assert shared.slope.adjoint == pytest.approx(2 * 1.25 * np.sum(values[::2] * values[1::2]), rel=1e-13)


def test_threads_wait_for_no_thread_that_waits() -> None:
    """A deep comb of forks has more tasks than threads."""
    level = Reverse(1, threads=2)
    x = Dual(level, np.float64(2), level.leaf(np.float64(2)))

    def comb(k: int) -> Dual:
        if k == 0:
            return x * x
        with level.forked(2) as begin:
            begin()
            left = x * x
            begin()
            right = comb(k - 1)
        return left + right

    out = comb(60)
    level.resolve([(out.slope, np.float64(1))])
    assert x.slope.adjoint == 4.0 * 61 and level.counts.jobs == 181


# --- commands -----------------------------------------------------------------------------------------------


def test_the_ladder_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ladder", "--depth", "10"]) == 0
    text = capsys.readouterr().out
    lines = {line[:14].strip(): line.split() for line in text.splitlines() if line}
    assert lines["naive"][1] == "2,047" and lines["staged by ids"][3] == "11" and lines["taping"][1] == "11"


@pytest.mark.slow
def test_a_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gmm = str(BENCHMARK_PROGRAMS / "gmm.fut")
    for entry, what in (("objective", "its gradient"), ("gradient", "the derivatives in it")):
        assert main(["trace", gmm, "-e", entry]) == 0
        text = capsys.readouterr().out
        assert f"entry {entry}: {what}" in text and "of one at most 1" in text
        assert re.search(r"jobs +1 of 0 forks", text)
    file = tmp_path / "f.fut"
    file.write_text(CHAIN)
    (tmp_path / "in").write_text("30i64 1.5")
    assert main(["trace", str(file), "-e", "chain", "--input", str(tmp_path / "in")]) == 0
    assert re.search(r"backpropagators +30, of 30 elements\n +calls +30;", capsys.readouterr().out)
    assert main(["trace", str(file), "-e", "squares", "--size", "n=40"]) == 0
    assert re.search(r"backpropagators +[123], of", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["ladder", "--depth", "-1"], "--depth must be from 0 to 1000"),
        (["trace", "nowhere.fut"], "nowhere.fut"),
        (["trace", str(BENCHMARK_PROGRAMS / "gmm.fut"), "-e", "f"], "has no entry 'f'; there are: objective, gradient"),
        (["trace", "x.fut", "--threads", "0"], "--threads must be at least 1"),
        (["trace", "x.fut", "--input", "i", "--seed", "1"], "not with --input"),
    ],
)
def test_what_commands_say(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_as_a_module() -> None:
    command = [sys.executable, "-m", "futad.dual", "ladder", "--depth", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert "naive" in done.stdout and " 15 " in done.stdout


def test_gradcheck_compares_with_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    from futad.cli import main as cli

    file = str(BENCHMARK_PROGRAMS / "lse.fut")
    assert cli(["gradcheck", file, "-e", "primal", "-b", "interp", "--engine", "dual"]) == 0
    assert "dual against reverse" in capsys.readouterr().out
    assert cli(["gradcheck", file, "-e", "primal", "-b", "interp"]) == 0
    assert "dual against" not in capsys.readouterr().out


def test_counts_are_of_one_run() -> None:
    e = engine(CHAIN)
    e.gradient("chain", [5, 1.0])
    first = e.counts_of_run
    e.gradient("chain", [5, 1.0])
    assert e.counts_of_run == first != Counts() and e.counts_of_run is not first
