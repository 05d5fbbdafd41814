"""A tiny part of the device suite on the CPU simulator: every stage runs, answers are compared."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import futad
from futad.errors import BackendError, BoundsError, DeviceError
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT

SUITE = ROOT / "benchmarks"
import gpu  # noqa: E402
import gpu_stage  # noqa: E402
from gpu_rows import rows  # noqa: E402
from gpu_smoke import SMOKE  # noqa: E402
from gpu_worker import each  # noqa: E402
from gpu_workloads import Contender, arguments, difference, workloads  # noqa: E402


@pytest.mark.slow
@needs_cxx
def test_the_suite_in_small_with_planted_defects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault and a wrong answer are reported by program and kernel; all else is done."""
    out = tmp_path / "out.json"
    monkeypatch.setenv("FUTAD_SUITE_PLANT", "fault:ad_control,wrong:accumulators")
    command = [sys.executable, str(SUITE / "gpu.py"), "--device", "emulated", "--toy", "--programs", "5",
               "--only", "kmeans f64", "--per-case", "600", "--budget", "3000", "--json", str(out)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads(out.read_text())
    assert report["card"] == "emulated" and report["ceilings"][0]["copy_gb_s"] > 0
    assert [s["name"] for s in report["smoke"]] == list(SMOKE) and not any("failed" in s for s in report["smoke"])
    made = {p["name"]: p for p in report["programs"]}
    assert len(made) == 5 and made["abstract_stack"]["cases"] >= 1 and made["ad_vector"]["cases"] >= 1
    failed = {n: p["failed"] for n, p in made.items() if "failed" in p}
    assert sorted(failed) == ["accumulators", "ad_control"] and len(report["problems"]) == 2
    assert re.search(r"kernel \w+: __trap.*the kernel started last is futad_k0_map \(map over .*, line 5\)",
                     failed["ad_control"])  # fmt: skip
    assert re.search(r"alone: CheckFailure: .*accumulators.fut:23:48: .*acc_\d+ has another", failed["accumulators"])
    (row,) = report["rows"]
    mine = row["times"]["futad"]
    assert row["against"] == "the CPU" and mine["primal_error"] < 1e-9 and mine["after_gradient_error"] < 1e-9
    assert mine["primal_runs"] >= 10 and mine["gradient_ms"] > 0 and mine["launches"] >= 1
    assert "kmeans f64 k=4 n=50 d=3" in done.stdout and "programs: 3 of 5 good" in done.stdout


@pytest.mark.parametrize(("line", "clean"), [
    ("========= COMPUTE-SANITIZER", True), ("========= ERROR SUMMARY: 0 errors", True), ("", True),
    ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", True),
    ("========= ERROR SUMMARY: 10 errors", False), ("========= Invalid __global__ write of size 8 bytes", False),
    ("========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", False),
])  # fmt: skip
def test_lines_of_sanitizers_that_found_nothing(line: str, clean: bool) -> None:
    assert bool(gpu.CLEAN.match(line)) == clean


@pytest.mark.slow
@needs_cxx
def test_a_hang_is_told_with_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_SUITE_PLANT", "hang:ad_nested")
    failed = ""
    for seconds in (5, 20, 80, 320):  # compiling takes a part of them, more of it if the machine does other work
        options = argparse.Namespace(device="emulated")
        (made,) = each("programs", options, ["ad_nested"], seconds, time.monotonic() + 1000)
        failed = made["failed"]
        assert failed.startswith("no answer within")
        if "kernel" in failed:
            break
    assert "; the kernel started last is futad_k0_map" in failed


@pytest.mark.slow
@needs_cxx
def test_a_case_that_the_budget_ends_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be no hang: it had less time than cases have."""
    monkeypatch.setenv("FUTAD_SUITE_PLANT", "hang:ad_nested")
    options = argparse.Namespace(device="emulated")
    (made,) = each("programs", options, ["ad_nested"], 300, time.monotonic() + 8)
    assert made == {"name": "ad_nested", "skipped": "there was no time left"}


def test_a_wrong_answer_is_a_problem() -> None:
    report = {
        "programs": [{"name": "p", "failed": "differs", "cases": 2}, {"name": "q", "cases": 1}],
        "rows": [
            {"name": "a", "times": {"futad": {"wrong": "differs"}, "jax": {"skipped": "no"}}, "failed": "futad"},
            {"name": "b", "failed": "exit status 1"}, {"name": "c", "skipped": "1 s is left"},
        ],
        "sanitizers": [{"name": "memcheck", "cases": 3}, {"name": "racecheck", "failed": "exit status 9: hazard"}],
    }  # fmt: skip
    assert [f.split(": ")[1] for f in gpu.problems(report)] == ["p", "a", "b", "racecheck"]
    assert difference([np.array([1.0, np.nan])], [np.ones(2)]) == float("inf")
    assert difference([np.array([1.0, 2.5])], [np.array([1.0, 2.0])]) == 0.25
    text = gpu.table(report)
    assert "1 s is left" in text and "exit status 1" in text


def contender(seconds: float, results: list[float] | None = None) -> Contender:
    """One whose primal and gradient are the next of some results, else 1."""
    left = results or []

    def run() -> list[np.ndarray]:
        return [np.array(left.pop(0) if left else 1.0)]

    return Contender("x", run, run, lambda out: out, lambda call, runs: [seconds] * runs)


def test_times_are_medians_of_ten_or_none() -> None:
    quick = gpu_stage.measured(contender(0.001), 20, 10.0)
    assert quick["primal_runs"] == quick["gradient_runs"] == 20 and quick["overhead"] == 1
    assert gpu_stage.measured(contender(0.4), 50, 10.0)["primal_runs"] == 12
    slow = gpu_stage.measured(contender(2.0), 20, 10.0)
    assert "primal_ms" not in slow and "10 runs take 24 s, 10 s are left" in slow["skipped"]


def test_what_was_timed_is_compared_again() -> None:
    """Those runs were replays of a graph, the first was not."""
    want = ([np.array(1.0)], [np.array(1.0)])
    good = gpu_stage.times_of(contender(0.001), want, 1e-9, 20, 1.0)
    assert "wrong" not in good and good["primal_ms"] == 1.0
    late = gpu_stage.times_of(contender(0.001, [1, 1, 1, 2]), want, 1e-9, 20, 1.0)
    assert late["wrong"] == "gradient after the timed runs is 1 off, limit 1e-09"
    first = gpu_stage.times_of(contender(0.001, [3]), want, 1e-9, 20, 1.0)
    assert first["wrong"] == "primal is 2 off, limit 1e-09" and "primal_ms" not in first


@pytest.mark.slow
def test_rows() -> None:
    toys, large = list(rows(True)), list(rows(False))
    assert len({r.name for r in toys}) == len(toys) and len({r.name for r in large}) == len(large)
    programs = {p.stem for p in (SUITE / "programs").glob("*.fut") if "\nentry " in p.read_text()}
    assert {r.program for r in toys} == {r.program for r in large} == programs and len(programs) == 26
    paper, toy = list(workloads(False)), list(workloads(True))
    assert len(paper) == 19 and {(w.program, w.dtype) for w in toy} == {(w.program, w.dtype) for w in paper}
    for w in toy:
        assert all(np.array_equal(a, b) for a, b in zip(arguments(w), arguments(w), strict=True))


def test_a_device_that_is_lost_ends_its_worker() -> None:
    assert gpu_stage._lost(DeviceError("the GPU failed", notes=("start it again",)))
    assert not gpu_stage._lost(DeviceError("a launch was refused"))
    assert gpu_stage._lost(type("CUDARuntimeError", (RuntimeError,), {})("cudaErrorIllegalAddress"))
    assert not gpu_stage._lost(BoundsError("Index [9]"))


def test_a_program_unlike_the_interpreter_is_found(tmp_path: Path) -> None:
    """Programs that differ in a digit, an integer, a size or in failing, in the place of a device's defects."""
    from futad.testing.blocks import read_test_file

    text = "-- ==\n-- input { 3i64 }\nentry main (n: i64): ([n]f64, i64) = (replicate n VALUE, NUMBER)\n"
    good = text.replace("VALUE", "0.1").replace("NUMBER", "n")
    (tmp_path / "p.fut").write_text(good)
    (case,) = read_test_file(tmp_path / "p.fut").cases
    reference = futad.compile(good, backend="interp")
    assert gpu_stage.unlike(futad.compile(good, backend="interp"), reference, case) is None
    for value, number, says in (
        ("0.1000001", "n", "result 0 differs"), ("0.1", "n + 1", "result 1 differs"),
        ("0.1", "n / (n - n)", "DivisionByZero here"), ("(f64.nan)", "n", "result 0 differs"),
    ):  # fmt: skip
        other = futad.compile(text.replace("VALUE", value).replace("NUMBER", number), backend="interp")
        assert says in (gpu_stage.unlike(other, reference, case) or "")


@pytest.mark.slow
def test_without_a_card_it_says_so() -> None:
    """Whatever is missing here (CuPy, a driver, a card), and what runs without; no traceback."""
    from futad.backend.cuda import open_device

    try:
        open_device("cuda")
    except BackendError:
        done = subprocess.run([sys.executable, str(SUITE / "gpu.py")], capture_output=True, text=True, timeout=300)
        assert done.returncode == 1 and done.stdout.startswith("error: ") and "emulated" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    else:
        pytest.skip("there is a card")
