"""`--memory` and the options beside it, on every command that compiles; `--why-memory`."""

from __future__ import annotations

import pytest

from tests.support.cli_helpers import Runner
from tests.support.slow import slow_but

PROGRAM = """
-- ==
-- entry: main
-- input { 5i64 1.0f64 } auto output
entry main (n: i64) (x: f64): f64 = vjp (\\x -> loop y = x for _i < n do f64.sin y) x 1
entry f (n: i64) (x: f64): f64 = loop y = x for _i < n do f64.sin y
"""
COMMANDS = ["run", "bench", "test", "gradcheck", "c", "multicore", "cuda", "dev"]


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    made = Runner(tmp_path, monkeypatch, capfdbinary)
    made.file("p.fut", PROGRAM)
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_wrong_options(futad, command):
    text = futad(command, "--help").out
    assert all(f"--{name}" in text for name in ("memory", "checkpoints", "reruns", "method", "reversible"))
    for wrong, message in (
        (["--memory", "64mb"], "did you mean 'MB'?"),
        (["--memory", "-5"], "memory"),
        (["--memory", "1MB", "--reruns", "3"], "memory and reruns limit the same thing"),
        (["--checkpoints", "many"], "checkpoints must be a number of states, or 'log', not 'many'"),
        (["--reruns", "0"], "reruns must be at least 1"),
        (["--method", "best"], "method must be 'binomial' or 'bisection', not 'best'"),
        (["--reversible", "perhaps"], "reversible must be on, off, exact or a tolerance"),
    ):
        done = futad(command, "p.fut", *wrong)
        assert done.code == 2 and message in done.err and "Traceback" not in done.err, (wrong, done)


GIVEN = [
    ["--memory", "4MiB"],
    ["--checkpoints", "2"],
    ["--checkpoints", "log", "--method", "bisection"],
    ["--reruns", "2"],
]


@pytest.mark.slow
@pytest.mark.parametrize("given", slow_but(GIVEN[:1], GIVEN), ids=str)
def test_what_runs_gives_the_same(futad, given):
    want = futad("run", "p.fut", "-b", "interp", stdin="5 1.0").out
    assert futad("run", "p.fut", "-b", "interp", *given, stdin="5 1.0").out == want
    assert futad("run", "p.fut", "-b", "c", *given, stdin="5 1.0").out == want
    assert futad("run", "-x", "main 5 1.0", "p.fut", *given).out == want
    assert futad("test", "p.fut", "-b", "interp", *given).code == 0
    done = futad("gradcheck", "p.fut", "-e", "f", "-b", "interp", *given)
    assert done.code == 0, done


@pytest.mark.slow
def test_all_that_compile_have_it(futad):
    text = futad("dev", "p.fut", "--memory", "4MiB", "--after", "none").out
    assert text.count('#[["checkpoint", ["memory", 4194304]]]') == 1
    for command in ("c", "multicore", "cuda"):
        assert futad(command, "p.fut", "--memory", "4MiB").code == 0
    assert futad("bench", "p.fut", "-b", "interp", "-r", "1", "--reruns", "2").code == 0


@pytest.mark.slow
def test_compiled_programs_are_told_apart(futad, monkeypatch):
    """What is found in the cache has the budget that is asked for."""
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(futad.folder / "cache"))

    def kept() -> int:
        return len(list((futad.folder / "cache").rglob("*.entries")))

    for given in ([], ["--checkpoints", "1"], ["--checkpoints", "2"], ["--checkpoints", "2"], []):
        assert futad("run", "p.fut", "-b", "c", *given, stdin="5 1.0").code == 0
    assert kept() == 3


@pytest.mark.slow
def test_why_memory(futad):
    done = futad("run", "p.fut", "-b", "c", "-e", "f", "--why-memory", stdin="5 1.0")
    assert done.code == 0 and "no loop of the last calls was reversed under a budget" in done.err
    again = futad("run", "p.fut", "-b", "c", "-e", "f", "--why-memory", stdin="5 1.0")
    assert again == done, "from the cache"
    for _ in range(2):
        done = futad("run", "p.fut", "-b", "c", "--memory", "32B", "--why-memory", stdin="5 1.0")
        *loop, rest = done.err.splitlines()
        assert done.code == 0 and rest.startswith("other temporaries ") and loop == [
            "p.fut:5 loop: run again from states; state 16 bytes (y); inverse: no ('y' comes back with round-off, "
            "which only reversible= allows)",
            "  5 iterations, 2 states fit 32 bytes; each iteration run 1.6 times (least possible: 1.6)",
            "  predicted 32 bytes, held 32 bytes; without a budget 40 bytes would be kept",
        ]
    done = futad("dev", "p.fut", "--memory", "32B", "--why-memory")
    assert done.code == 0 and done.out.startswith("p.fut:5 loop: run again from states; state (y); inverse: no ('y' ")
    done = futad("run", "-x", "f 5 1.0", "p.fut", "--why-memory")
    assert done.code == 0 and "no loop of the last calls" in done.err
    done = futad("dev", "p.fut", "--why-memory")
    assert done.code == 0 and "no loop" in done.out
