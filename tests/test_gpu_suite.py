"""A tiny part of the device suite on the emulated device: every stage runs, answers are compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from device_support import has_cxx

import futad
from futad.errors import BackendError

SUITE = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.insert(0, str(SUITE))
import gpu  # noqa: E402
import gpu_stage  # noqa: E402
from gpu_workloads import Contender, arguments, difference, workloads  # noqa: E402


@pytest.mark.skipif(not has_cxx(), reason="no C++ compiler")
def test_the_suite_in_small(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(SUITE / "gpu.py"), "--device", "emulated", "--toy", "--programs", "1", "--no-peers",
               "--only", "kmeans f64", "--json", str(out)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    assert report["problems"] == [] and report["card"] == "emulated" and report["compiled"]["programs"] == 2
    assert report["correctness"]["cases"] >= 1 and report["ceilings"]["copy_gb_s"] > 0
    (row,) = report["rows"]
    mine = row["times"]["futad"]
    assert row["against"] == "backend 'c'" and mine["primal_error"] < 1e-9 and mine["gradient_error"] < 1e-9
    assert mine["primal_runs"] >= 10 and mine["gradient_ms"] > 0 and mine["launches"] >= 1
    assert "kmeans f64 k=4 n=50 d=3" in done.stdout


def test_a_wrong_answer_is_a_problem() -> None:
    rows = [
        {"workload": "a", "times": {"futad": {"wrong": "differs"}, "jax": {"skipped": "no"}}},
        {"workload": "b", "failed": "exit status 1"}, {"workload": "c", "skipped": "1 s is left"},
        {"workload": "d", "times": {"futad": {"failed": "Error"}, "torch": {"failed": "out of memory"}}},
    ]  # fmt: skip
    report = {"compiled": {"problems": []}, "correctness": {"failures": ["p"]}, "rows": rows,
              "sanitizers": {"memcheck": "clean (3 cases)", "racecheck": "exit status 9: hazard"}}  # fmt: skip
    found = gpu.problems(report)
    assert [f.split(":")[0] for f in found] == ["p", "a", "b", "d", "racecheck"]
    assert difference([np.array([1.0, np.nan])], [np.ones(2)]) == float("inf")
    assert difference([np.array([1.0, 2.5])], [np.array([1.0, 2.0])]) == 0.25
    text = gpu.table({"rows": rows})
    assert "1 s is left" in text and "exit status 1" in text


def test_times_are_medians_of_ten_or_none() -> None:
    def contender(seconds: float) -> Contender:
        return Contender("x", lambda: 0, lambda: 0, lambda out: out, lambda call, runs: [seconds] * runs)

    quick = gpu_stage.measured(contender(0.001), 20, 10.0)
    assert quick["primal_runs"] == quick["gradient_runs"] == 20 and quick["overhead"] == 1
    assert gpu_stage.measured(contender(0.4), 50, 10.0)["primal_runs"] == 12
    slow = gpu_stage.measured(contender(2.0), 20, 10.0)
    assert "primal_ms" not in slow and "10 runs take 24 s, 10 s are left" in slow["skipped"]


def test_workloads() -> None:
    rows, toys = list(workloads(False)), list(workloads(True))
    assert len(rows) == 19 and {(w.program, w.dtype) for w in toys} == {(w.program, w.dtype) for w in rows}
    assert max(w.gigabytes for w in rows) < 50 and not any(w.small for w in rows if w.program == "lstm")
    for w in toys:
        again = arguments(w)
        assert all(np.array_equal(a, b) for a, b in zip(arguments(w), again, strict=True)) and w.small


def test_a_program_unlike_the_interpreter_is_found(tmp_path: Path) -> None:
    """Programs that differ in a digit, an integer, a size or in failing, in the place of a device's defects."""
    from futad.testblocks import read_test_file

    text = "-- ==\n-- input { 3i64 }\nentry main (n: i64): ([n]f64, i64) = (replicate n VALUE, NUMBER)\n"
    good = text.replace("VALUE", "0.1").replace("NUMBER", "n")
    (tmp_path / "p.fut").write_text(good)
    (case,) = read_test_file(tmp_path / "p.fut").cases
    reference = futad.compile(good, backend="interp")
    assert gpu_stage.unlike(futad.compile(good, backend="interp"), reference, case) is None
    for value, number, says in (
        ("0.1000001", "n", "result 0 differs"), ("0.1", "n + 1", "result 1 differs"),
        ("0.1", "n / (n - n)", "RuntimeError_ here"), ("(f64.nan)", "n", "result 0 differs"),
    ):  # fmt: skip
        other = futad.compile(text.replace("VALUE", value).replace("NUMBER", number), backend="interp")
        assert says in (gpu_stage.unlike(other, reference, case) or "")


def test_without_a_card_it_says_so() -> None:
    """Whatever is missing here (CuPy, a driver, a card), and what runs without; no traceback."""
    from futad.backend.cuda import open_device

    try:
        open_device("cuda")
    except BackendError:
        done = subprocess.run([sys.executable, str(SUITE / "gpu.py")], capture_output=True, text=True, timeout=120)
        assert done.returncode == 1 and done.stdout.startswith("error: ") and "emulated" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    else:
        pytest.skip("there is a card")
