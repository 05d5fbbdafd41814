"""futad bench: what is timed, what is checked first, and the JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import special

from futad.cli.bench import Measurement, interval, summary, t_quantile
from tests.support.cli_helpers import Runner


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    return Runner(tmp_path, monkeypatch, capfdbinary)


PROGRAM = """
-- ==
-- entry: dot
-- "small" random input { [100]f64 [100]f64 } auto output
-- nobench input { [1.0] [2.0] } output { 7.0 }
-- input { [1.0] [2.0] } output { 2.0 }
-- input { [1.0] [2.0, 3.0] } error: .*
entry dot [n] (x: [n]f64) (y: [n]f64): f64 = f64.sum (map2 (*) x y)

-- ==
-- entry: step
-- input { [1, 2, 3] } output { [2, 2, 3] }
-- input { [1, 2, 3] } output { [2, 2, 3] }
entry step [n] (x: *[n]i32): *[n]i32 = x with [0] = x[0] + 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "interp", "emulated"])
def test_every_data_set_but_those_tagged_nobench_is_timed(futad, backend):
    done = futad("bench", futad.file("p.fut", PROGRAM), "-b", backend, "-r", "5", "--json", "out.json")
    assert done.code == 0, done.err + done.out
    found = json.loads((futad.folder / "out.json").read_text())
    assert list(found) == ["p.fut:dot", "p.fut:step"]
    dot = found["p.fut:dot"]["datasets"]
    assert "small" in dot and len(dot) == 2
    assert len(found["p.fut:step"]["datasets"]) == 2, "equal names are told apart"
    for sets in found.values():
        for one in sets["datasets"].values():
            assert set(one) == {"runtimes", "bytes", "stderr"}
            assert len(one["runtimes"]) == 5 and all(t > 0 for t in one["runtimes"])
    assert f"p.fut:dot ({backend})" in done.out and done.out.count("µs a run, 95% CI [") == 4
    assert done.err == "", "a progress bar is for terminals"


@pytest.mark.slow
def test_without_runs_it_goes_on_until_the_time_is_up(futad):
    name = futad.file("p.fut", PROGRAM)
    done = futad("bench", name, "-b", "c", "-e", "step", "--max-seconds", "0.05", "--json", "o.json")
    assert done.code == 0
    for one in json.loads((futad.folder / "o.json").read_text())["p.fut:step"]["datasets"].values():
        assert len(one["runtimes"]) > 10


@pytest.mark.slow
def test_a_wrong_result_is_not_timed(futad):
    wrong = "-- ==\n-- input { 1 } output { 3 }\n-- input { 2 } output { 3 }\ndef main (x: i32) = x + 1\n"
    done = futad("bench", futad.file("p.fut", wrong), "-b", "c", "-r", "2", "--json", "o.json")
    assert done.code == 1 and "expected 3i32, got 2i32" in done.out
    first, second = json.loads((futad.folder / "o.json").read_text())["p.fut:main"]["datasets"].values()
    assert isinstance(first, str) and "expected 3i32" in first
    assert len(second["runtimes"]) == 2, "the others are timed all the same"


@pytest.mark.slow
def test_a_program_that_does_not_compile_fails_but_the_others_run(futad):
    futad.file("a.fut", "-- ==\n-- input { 1 }\ndef main (x: i32) = y\n")
    futad.file("b.fut", "-- ==\n-- input { 1 }\ndef main (x: i32) = x\n")
    futad.file("c.fut", "def f (x: i32) = x\n")
    done = futad("bench", ".", "-b", "c", "-r", "2")
    assert done.code == 1
    assert "a.fut:3:21: error:" in done.out and "b.fut:main (c)" in done.out and "c.fut" not in done.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["missing.fut"], 1, "cannot read missing.fut"),
        (["p.fut", "-r", "0"], 2, "--runs must be at least 1"),
        (["p.fut", "--max-seconds", "nan"], 2, "--max-seconds must be positive"),
        (["p.fut", "-b", "abacus"], 2, "no backend is called 'abacus'"),
        (["p.fut", "-r", "1", "-e", "step", "--json", "no/such/folder.json"], 1, "cannot write no/such/folder.json"),
        ([], 2, "required"),
    ],
)
def test_wrong_use(futad, args, code, text):
    futad.file("p.fut", PROGRAM)
    done = futad("bench", *args)
    assert done.code == code and text in done.err


def test_nothing_to_time(futad):
    done = futad("bench", futad.file("p.fut", "def main = 1\n"))
    assert (done.code, done.out, done.err) == (0, "", "no data sets\n")


@pytest.mark.parametrize("freedom", [*range(1, 12), 30, 100, 10_000])
def test_quantiles_of_students_t(freedom):
    assert t_quantile(freedom) == pytest.approx(special.stdtrit(freedom, 0.975), rel=2e-4)


def test_the_interval_is_the_textbooks():
    values = [1.0, 2.0, 4.0, 5.0, 5.5]
    mean, half = interval(values)
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert (mean, half) == pytest.approx((np.mean(values), special.stdtrit(len(values) - 1, 0.975) * error), rel=1e-4)
    assert math.isnan(interval([3.0])[1])


def test_the_summary_counts_bytes_by_time():
    text = summary(Measurement([1e-3, 1e-3], moved=2_000_000))
    assert "1000.0 µs a run, 95% CI [1000.0, 1000.0], 2 GB/s (2 runs)" in text
    assert summary(Measurement([2e-6], moved=0)).strip() == "2.0 µs a run (1 run)"


@pytest.mark.slow
def test_on_a_terminal_a_bar_counts_the_data_sets(futad, monkeypatch):
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # for the library that draws it
    done = futad("bench", futad.file("p.fut", PROGRAM), "-b", "c", "-r", "1")
    assert done.code == 0 and done.out.count("µs a run") == 4
    assert "100%" in done.err and "p.fut:step" in done.err
