"""The commands in `benchmarks/`: what they compare, print and write, and how they refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cases  # noqa: E402
import cpu  # noqa: E402
import numpy as np
import published  # noqa: E402
import pytest
import registers  # noqa: E402
import speedup  # noqa: E402

from futad.runtime.cubin import Resources
from tests.support.needs import needs_cc, needs_toolkit
from tests.support.paths import ROOT


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *args]
    return subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, timeout=300, check=False)


# --- cpu.py ------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_cc
def test_cpu(tmp_path: Path) -> None:
    """Answers are compared and everyone is timed."""
    out = tmp_path / "cpu.json"
    done = run("cpu.py", "--small", "--only", "ls", "lls", "--threads", "1", "--seconds", "0", "--json", str(out))
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    rows = [(r["case"], r["what"], r["threads"]) for r in record["rows"]]
    assert rows == [
        (case, what, 1) for case in ("lstm", "llsq", "lse") for what in ("objective", "derivative")
    ]  # fmt: skip
    for row in record["rows"]:
        who = {t["who"] for t in row["times"]}
        assert {"c", "multicore", "numpy"} <= who
        assert all(t["error"] <= row["tolerance"] and len(t["seconds"]) == 5 and t["median"] > 0 for t in row["times"])
        assert 0 < row["bound"] < 1 and row["clock"] == "CPU"
    assert record["ceilings"][0]["dgemm_flops"] > 1e8
    assert "llsq n=256 m=32" in done.stdout and "derivative / objective" in done.stdout and "ceiling" in done.stdout
    assert "WRONG" not in done.stdout


@pytest.mark.slow
@needs_cc
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_cpu_two_threads(tmp_path: Path) -> None:
    """What copies of `c` take at once is measured, and each row is judged."""
    out = tmp_path / "cpu.json"
    done = run("cpu.py", "--small", "--only", "lls", "--threads", "2", "--seconds", "0", "--json", str(out))
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 2 and all(len(r["at_once"]["seconds"]) == 5 and r["at_once"]["median"] > 0 for r in rows)
    assert len(re.findall(r"tive .* (limit 1.6: good|limit 1.6: MISSED|too little work)\n", done.stdout)) == 2
    assert "rows with enough work miss the limit" in done.stdout


@pytest.mark.slow
def test_cpu_usage() -> None:
    assert run("cpu.py", "--threads", "0").returncode == 2


@pytest.mark.parametrize("expected, actual, error", [
    (2.0, 2.0, 0), (2.0, 3.0, 0.5), ((1.0, np.array([2.0, 4.0])), (1.0, np.array([2.0, 5.0])), 0.25),
    (np.zeros(2), np.zeros(3), np.inf), (1.0, np.nan, np.inf), (np.array([1.0, 100.0]), np.array([2.0, 100.0]), 0.01),
])  # fmt: skip
def test_relative_error(expected: Any, actual: Any, error: float) -> None:
    assert cpu.relative_error(actual, expected) == pytest.approx(error)


def test_iterations() -> None:
    """Every candidate is called twice in each round, and the second time counts."""
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds = cpu.interleaved(5, calls, 2)
    assert {name: len(s) for name, s in seconds.items()} == dict.fromkeys("abc", 5)
    assert order == list("aabbcc") * 5


@pytest.mark.slow
def test_more_iterations() -> None:
    """Short runs are repeated for so long, up to a number of rounds."""
    assert len(cpu.interleaved(5, {"a": lambda: None}, 2, 60)["a"]) == cpu.MOST
    assert len(cpu.interleaved(5, {"a": lambda: time.sleep(0.01)}, 2, 0.05)["a"]) == 5
    assert len(cpu.interleaved(cpu.MOST + 1, {"a": lambda: None}, 2)["a"]) == cpu.MOST + 1


class Clocks:
    """`time` of a process that computes until `busy` seconds have gone; only sleeping takes time."""

    def __init__(self, busy: float) -> None:
        self.now, self.busy = 0.0, busy

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return min(self.now, self.busy)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("busy", "least", "most"), [(0, 0, 0.01), (0.05, 0.05, 0.06), (60, 10, 10.01)])
def test_what_others_threads_still_do_is_waited_for(monkeypatch: pytest.MonkeyPatch, busy, least, most) -> None:
    clocks = Clocks(busy)
    monkeypatch.setattr(cpu, "time", clocks)
    cpu.settle(10)
    assert least <= clocks.now <= most


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_peers(library: str) -> None:
    """Other libraries' versions of all programs compute what NumPy does."""
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    module = __import__(f"peers_{library}")
    seen = set()
    for make in cases.cases(True, None):
        case = make()
        calls = getattr(module, f"{library}_calls")(case.program, (*case.args, *case.more))
        assert cpu.relative_error(calls[0](), case.numpy()) <= case.tolerance, case.name
        assert cpu.relative_error(case.peer_seen(calls[1]()), case.numpy_derivative()) <= case.tolerance, case.name
        seen.add(case.program)
    assert seen == set(module.MAKERS)


@pytest.mark.slow
def test_published_figures() -> None:
    """Each is of a row that `cpu.py` measures, and shrinks as the machine gets faster."""
    named = {(f.case, f.size) for f in published.FIGURES}
    makers = {name for _, name, _ in cases.FULL}
    rows = set()
    for make in cases.cases(False, sorted({case.split()[0] for case, _ in named} & makers)):
        case = make()
        rows.add((case.name, case.size))
    assert named <= rows
    machine = {"copy_bytes": 30e9, "dgemm_flops": 54e9, "sgemm_flops": 103e9}
    for speed in (1, 2):
        here = {name: speed * value for name, value in machine.items()}
        found = {f["who"]: f["seconds"] for f in published.scaled("lse", "n=1280000", "derivative", 1, here)}
        assert found == pytest.approx({"C++": 7.4e-3 / speed, "Futhark's C": 16.8e-3 / speed})
    assert published.scaled("lse", "n=1280000", "derivative", 2, machine) == []
    assert published.scaled("lse", "n=7", "derivative", 1, machine) == []


# --- speedup.py --------------------------------------------------------------------------------------


def timed_row(c: float, multicore: float, at_once: float | None = None, threads: int = 2) -> dict[str, Any]:
    """A row of `cpu.py`'s, as far as its speed-up is concerned; the best runs take half as long on `multicore`."""
    times = [{"who": "c", "median": c, "best": c}, {"who": "multicore", "median": multicore, "best": multicore / 2}]
    return {"threads": threads, "times": times} | ({"at_once": {"median": at_once}} if at_once else {})


@pytest.mark.parametrize(("row", "gain", "machine", "verdict"), [
    (timed_row(16e-3, 10e-3, 8e-3), 1.6, 4, "limit 1.6: good"),
    (timed_row(16e-3, 10.1e-3, 16e-3), 16 / 10.1, 2, "limit 1.6: MISSED"),
    (timed_row(16e-3, 20e-3), 0.8, None, "limit 1.6: MISSED"),
    (timed_row(161e-6, 161e-6), 1, None, "limit 1.6: MISSED"),
    (timed_row(159e-6, 200e-6), 0.795, None, "too little work"),
    (timed_row(159e-6, 50e-6), 3.18, None, "too little work"),
    (timed_row(16e-3, 5.1e-3, threads=4), 16 / 5.1, None, "limit 3.2: MISSED"),
    (timed_row(16e-3, 5e-3, threads=4), 3.2, None, "limit 3.2: good"),
    (timed_row(300e-6, 300e-6, threads=4), 1, None, "too little work"),
])  # fmt: skip
def test_speedup(row: dict[str, Any], gain: float, machine: float | None, verdict: str) -> None:
    """Which rows have the work for several threads, and which of these fall short."""
    found = speedup.speedup(row)
    assert found is not None
    assert (found.gain, found.machine) == (pytest.approx(gain), machine and pytest.approx(machine))
    assert found.best == pytest.approx(2 * gain)
    assert found.verdict == verdict


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_least_work(threads: int) -> None:
    """With that much, sharing it out reaches the limit at best, by the cost of waking in `kernels/thread_pool.h`."""
    waking = re.search(r"#define FUTAD_POOL_WAKING (\d+)", (ROOT / "kernels" / "thread_pool.h").read_text())
    assert waking is not None and pytest.approx(2e-9 * int(waking[1])) == speedup.WAKING
    seconds = speedup.least_work(threads)
    assert seconds / (seconds / threads + speedup.WAKING) == pytest.approx(speedup.limit(threads))


def test_no_speedup_of_one_thread() -> None:
    assert speedup.speedup(timed_row(1, 1, threads=1)) is None


def test_summary_of_speedups() -> None:
    rows = [timed_row(1, 0.5, 1), timed_row(1, 0.9, 1), timed_row(1, 0.9, 1.9), timed_row(1e-6, 1e-6)]
    text = speedup.summary([s for r in rows if (s := speedup.speedup(r))])
    assert text == (
        "2 of 3 rows with enough work miss the limit, 1 of these while the machine gave copies of c less than that; "
        "1 rows have too little work"
    )


def test_calls_at_once() -> None:
    """They run at the same time, each as often, and it counts when the last one ends."""
    counts = [0, 0, 0]
    meeting = threading.Barrier(3)

    def call(i: int) -> None:
        counts[i] += 1
        time.sleep(0.005 * (i + 1))
        if counts[i] > 1:  # the first ones are to find out how long they take
            meeting.wait(300)

    with speedup.AtOnce([lambda i=i: call(i) for i in range(3)]) as calls:
        seconds = [calls.seconds() for _ in range(3)]
    assert counts == [4, 4, 4] and all(s >= 0.015 for s in seconds)
    assert not any(t.is_alive() for t in calls.threads)


def test_calls_at_once_that_fail() -> None:
    """The failure is the caller's, and nobody waits for ever."""
    counts = [0, 0]

    def call(i: int) -> None:
        counts[i] += 1
        if i == 0 and counts[i] > 1:
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"), speedup.AtOnce([lambda i=i: call(i) for i in range(2)]) as calls:
        calls.seconds()


# --- report.py ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_report(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = []
    for threads in (1, 2):
        for size, work in (("n=1", 1), ("n=10000", 10000)):
            for what in ("objective", "derivative"):
                times = [
                    {"who": who, "median": m, "best": m, "seconds": [m] * 5, "error": 0.0}
                    for who, m in (("c", 0.01), ("multicore", 0.005), ("numpy", 0.02))
                ]
                rows.append({
                    "case": "<case>", "size": size, "what": what, "threads": threads, "work": work, "times": times,
                    "bound": 0.001, "tolerance": 1e-9, "published": [{"who": "C++", "seconds": 0.03}],
                    "at_once": {"median": 0.0125, "best": 0.01, "seconds": [0.0125] * 5} if threads > 1 else None,
                })  # fmt: skip
    ceilings = [{"threads": n, "copy_bytes": 1e10, "dgemm_flops": 4e10, "sgemm_flops": 8e10} for n in (1, 2)]
    measurements, page, plots = tmp_path / "cpu.json", tmp_path / "page.html", tmp_path / "plots"
    measurements.write_text(json.dumps({"machine": "<m>", "ceilings": ceilings, "rows": rows}))
    done = run("report.py", str(measurements), str(page), "--plots", str(plots))
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    names = sorted(p.name for p in plots.iterdir())
    kinds = ("derivative_over_objective", "ratio_to_others", "share_of_the_ceiling", "time_against_size")
    assert names == sorted([*[f"{kind}_{n}.png" for kind in kinds for n in (1, 2)], "speed-up_2.png"])
    assert text.count("data:image/png") == len(names)
    assert all((plots / name).read_bytes().startswith(b"\x89PNG") for name in names)
    assert "&lt;case&gt;  n=10000" in text and "&lt;m&gt;" in text and "<td class='best'>5</td>" in text
    assert text.count("<td>2.00</td><td>2.00</td><td>1.60</td><td>limit 1.6: good</td>") == 4
    assert "0 of 4 rows with enough work miss the limit" in text


# --- The others --------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_cc
def test_matmul(tmp_path: Path) -> None:
    out = tmp_path / "matmul.json"
    done = run("matmul.py", "--shapes", "9x7x5", "64x32x48", "--runs", "1", "--json", str(out))
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert [(r["type"], *r["shape"]) for r in rows] == [
        (t, *s) for t in ("f64", "f32") for s in ((9, 7, 5), (64, 32, 48))
    ]
    assert all(r["share"] > 0 and r["error"] < 1e-5 for r in rows) and done.stdout.count("share") == 4
    assert run("matmul.py", "--shapes", "1x2").returncode == 2


@pytest.mark.parametrize(
    ("per_thread", "shared", "threads", "part"),
    [(32, 0, 256, 1.0), (128, 16900, 256, 0.25), (129, 0, 256, 0.125), (255, 0, 128, 0.125), (20, 48 << 10, 256, 0.5),
     (16, 0, 32, 0.5)],
)  # fmt: skip
def test_occupancy(per_thread: int, shared: int, threads: int, part: float) -> None:
    """Limited by registers, by shared memory, or by the number of blocks."""
    resources = Resources(per_thread, 0, 0, 0, shared)
    assert registers.occupancy(resources, threads, registers.SHARED["sm_90"]) == part


@pytest.mark.slow
@needs_toolkit
def test_registers(capsys: pytest.CaptureFixture[str]) -> None:
    assert registers.main(["lse"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["program", "regs", "spills", "shared", "warps", "kind", "line", "what"]
    assert rows and all(row.startswith("lse ") and 0 < int(row.split()[1]) <= 255 for row in rows)
    assert registers.main(["lse", "--most", "0"]) == 0 and len(capsys.readouterr().out.splitlines()) == 1
    assert registers.main(["nothing"]) == 2


@pytest.mark.slow
@needs_cc
def test_sparse() -> None:
    done = run("sparse.py", "--points", "50", "--runs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Newton step") == 9 and "50 points of  80 of  1000" in done.stdout


@pytest.mark.slow
@needs_cc
def test_batches() -> None:
    done = run("batches.py", "--only", "root", "hand", "--runs", "1")
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()[1:5]] == ["root", "root", "hand", "hand"]


@pytest.mark.slow
@needs_cc
def test_imported() -> None:
    pytest.importorskip("jax")
    done = run("imported.py", "--small", "--only", "lse", "gmm", "--runs", "1", "--seconds", "0")
    assert done.returncode == 0, done.stderr
    assert "of 2 derivatives are within 1.3" in done.stdout and "(f32: 2e-05): none" in done.stdout


@pytest.mark.slow
@needs_cc
def test_sparse_jacobian() -> None:
    pytest.importorskip("scipy")
    done = run("sparse_jacobian.py", "--small", "--runs", "1")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ba", "torus", "torus", "Hessian"]
    assert "blocks of each iteration, 14 elements a row" in done.stdout
    assert "3 colours, forward over reverse" in done.stdout


@pytest.mark.slow
@needs_cc
def test_overhead(tmp_path: Path) -> None:
    out = tmp_path / "overhead.json"
    done = run("overhead.py", "hand-simple", "--runs", "1", "--json", str(out))
    (record,) = json.loads(out.read_text())["results"]
    good = record["ratio"] <= record["limit"]
    assert done.returncode == (0 if good else 1) and ("good" if good else "EXCEEDED") in done.stdout
    assert run("overhead.py", "nothing").returncode == 2


@pytest.mark.slow
@needs_cc
def test_calls(tmp_path: Path) -> None:
    out = tmp_path / "calls.json"
    done = run("calls.py", "--runs", "1", "--json", str(out))
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert {f"{k} arrays" for k in (0, *range(2, 8))} < record["calls"].keys() and min(record["calls"].values()) > 0
    assert len(record["shares"]) == 4 and all(0 < code < whole for whole, code in record["shares"].values())
    assert all(len(times) == len(record["maps"]["lengths"]) and min(times) > 0 for times in record["maps"].values())
    assert done.stdout.count(" us") == len(record["calls"]) + 4 + len(record["maps"]["lengths"])
    assert run("calls.py", "--backend", "cuda").returncode == 2


@pytest.mark.slow
@needs_cc
def test_what_checks_cost() -> None:
    done = run("checking.py", "--only", "det", "llsq", "--runs", "1")
    rows = [line for line in done.stdout.splitlines() if line.endswith(" times")]
    assert done.returncode == 0 and len(rows) == 4 and all(float(line.split()[-2]) > 0 for line in rows), done.stderr
    assert run("checking.py", "--check", "none").returncode == 2


EVAL = """
import json, sys
def ask(id, **message):
    print(json.dumps({"id": id, **message}), flush=True)
    answer = json.loads(sys.stdin.readline())
    assert answer["id"] == id
    return answer
ask(0, kind="start", eval="hello")
assert ask(1, kind="define", module="hello")["success"]
for i, x in enumerate((1.5, WRONG)):
    answer = ask(2 + 2 * i, kind="evaluate", module="hello", function="square", input=x, description=f"x={x}")
    right = answer["success"] and answer["output"] == 2.25
    ask(3 + 2 * i, kind="analysis", of=2 + 2 * i, valid=right, **({} if right else {"error": "not 2.25"}))
"""


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("wrong", [False, True])
def test_gradbench(tmp_path: Path, wrong: bool) -> None:
    """A stand-in for GradBench, whose eval finds one of two answers wrong, or none."""
    folder = tmp_path / "python" / "gradbench" / "gradbench" / "evals" / "hello"
    folder.mkdir(parents=True)
    (folder / "run.py").write_text(EVAL.replace("WRONG", "2.0" if wrong else "-1.5"))
    other = tmp_path / "tools" / "manual" / "bin" / "hello"
    assert run("gradbench.py", str(tmp_path), "--only", "hello").returncode == 2  # nothing is built
    other.parent.mkdir(parents=True)
    other.write_text('#!/bin/sh\necho 1\necho \'{"name": "evaluate", "nanoseconds": 5000000}\'\n')
    other.chmod(0o755)
    out = tmp_path / "out.json"
    done = run("gradbench.py", str(tmp_path), "--only", "hello", "--against", "manual", "--json", str(out))
    rows = json.loads(out.read_text())
    assert [r["valid"] for r in rows] == [True, not wrong] and all(r["other"] == 5e-3 for r in rows)
    assert done.returncode == int(wrong), done.stderr
    assert f"{2 - wrong} of 2 evaluations valid" in done.stdout and ("not 2.25" in done.stdout) == wrong


def test_gradbench_usage(tmp_path: Path) -> None:
    done = run("gradbench.py", str(tmp_path))
    assert done.returncode == 2 and "no clone of GradBench" in done.stderr


# --- forward.py and compile_time.py ------------------------------------------------------------------


@pytest.mark.slow
@needs_cc
def test_forward_draws_what_it_prints(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    measurements, plot = tmp_path / "forward.json", tmp_path / "forward.svg"
    done = run("forward.py", "--quick", "--only", "sum", "--json", str(measurements), "--plot", str(plot))
    assert not done.stderr.startswith("Traceback") and set(json.loads(measurements.read_text())) == {"sum"}
    assert plot.read_text().count("<svg") == 1


@pytest.mark.slow
def test_compile_time() -> None:
    """What a pass costs programs that it leaves alone; those that it changes are named."""
    programs = [str(ROOT / "benchmarks" / "programs" / f"{name}.fut") for name in ("lse", "forward")]
    done = run("compile_time.py", "--beside", str(ROOT), "--without", "one-hot", "--runs", "1", *programs)
    assert done.returncode == 0, done.stderr
    assert "forward.fut: changed by one-hot" in done.stdout and "1 programs: geometric mean" in done.stdout
    assert run("compile_time.py", str(ROOT / "docs")).stdout == "no programs\n"
