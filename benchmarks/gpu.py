"""The device suite: correctness of every test program, sanitizers, and times of the paper's workloads.

    python benchmarks/gpu.py                          on a GPU, through CuPy; a table, and JSON in benchmarks/results/
    python benchmarks/gpu.py --device emulated --toy  the whole of it without a card, at toy sizes

Times are medians of at least ten runs after a warm-up, from arguments on the device to results on the device.
Answers are checked against the backend 'c' before anything is timed (at sizes it can do in reasonable time).
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import futad
from futad.backend.cuda import DeviceBackend, open_device
from futad.cli.test import run_case
from futad.pipeline import compile_program
from futad.runtime.device import Device
from futad.runtime.values import signature_of
from futad.source import compile_text, load_program
from futad.testblocks import read_test_file

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "benchmarks" / "programs"
SANITIZED = ("reduce_ops", "scan_family", "hist_family", "scatter_family", "matrix", "reduce_tuples")

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Workload:
    """One row: a program, the type it computes in, what the sizes are called, and their values."""

    program: str
    dtype: str
    sizes: dict[str, int]
    check: bool  # small enough to be compared with 'c'

    @property
    def label(self) -> str:
        return f"{self.program} {self.dtype} " + " ".join(f"{k}={v}" for k, v in self.sizes.items())


def workloads(toy: bool) -> Iterator[Workload]:
    """The rows of the suite."""
    gmm = [(1000, 64, 200), (1000, 128, 200), (10000, 32, 200), (10000, 64, 25), (10000, 128, 25), (10000, 128, 200)]
    lstm = [(1024, 20, 300, 192), (1024, 300, 80, 256)]
    kmeans = [(5, 494019, 35), (1024, 10000, 256)]
    sparse = [(6040, 3706, 1_000_000), (300_000, 102_660, 70_000_000), (68_579, 32_738, 36_000_000)]
    if toy:
        gmm, lstm, kmeans, sparse = [(30, 4, 3)], [(3, 4, 5, 6)], [(4, 50, 3)], [(20, 12, 60)]
    for dtype in ("f64", "f32"):
        for n, d, k in gmm:
            yield Workload("gmm", dtype, {"n": n, "d": d, "k": k}, n * d * d * k < 1 << 30)
    for b, t, d, h in lstm:
        yield Workload("lstm", "f32", {"bs": b, "n": t, "d": d, "h": h}, toy)
    for k, n, d in kmeans:
        yield Workload("kmeans", "f64", {"k": k, "n": n, "d": d}, n * d * k < 1 << 28)
    for rows, columns, nonzeros in sparse:
        sizes = {"k": 10, "n": rows, "d": columns, "nonzeros": nonzeros}
        yield Workload("kmeans_sparse", "f64", sizes, nonzeros < 1 << 21)


def arguments(w: Workload) -> Arrays:
    """Random arguments of a workload's entries."""
    r = np.random.default_rng(1)
    dtype = np.float64 if w.dtype == "f64" else np.float32
    s = w.sizes

    def normal(*shape: int, scale: float = 0.5) -> Any:
        return (scale * r.standard_normal(shape)).astype(dtype)

    if w.program == "gmm":
        n, d, k = s["n"], s["d"], s["k"]
        gamma = dtype(1.0)
        return (normal(k), normal(k, d), normal(k, d + d * (d - 1) // 2, scale=0.1), normal(n, d), gamma, 0)
    if w.program == "lstm":
        b, t, d, h, o = s["bs"], s["n"], s["d"], s["h"], s["h"]
        shapes = [(4, h, d), (4, h, h), (4, h), (o, h), (o,), (b, h), (b, h), (t, b, d), (t, b, o)]
        return tuple(normal(*x, scale=0.1) for x in shapes)
    if w.program == "kmeans":
        return normal(s["n"], s["d"]), normal(s["k"], s["d"])
    starts = np.sort(r.integers(0, s["nonzeros"] + 1, s["n"] + 1))
    starts[0], starts[-1] = 0, s["nonzeros"]
    columns = r.integers(0, s["d"], s["nonzeros"])
    return normal(s["nonzeros"]), columns, starts, normal(s["k"], s["d"])


def source_of(w: Workload) -> str:
    text = (PROGRAMS / f"{w.program}.fut").read_text()
    native = "f32" if w.program == "lstm" else "f64"
    return text.replace(native, w.dtype)


def time_workload(w: Workload, device: Device, runs: int) -> dict[str, Any]:
    """Compile, check, and time the primal and the gradient."""
    args = arguments(w)
    program = compile_program(compile_text(source_of(w), w.program))
    running = DeviceBackend(program).on(device)
    row: dict[str, Any] = {"workload": w.label, **w.sizes, "dtype": w.dtype}
    entries = {f.entry.name: f for f in program.funs.values() if f.entry is not None}
    primal = "objective" if "objective" in entries else "cost"
    for label, name in (("primal", primal), ("gradient", "gradient")):
        if name not in entries:
            continue
        fun = entries[name]
        flat = signature_of(fun).flatten(args)
        if w.check:
            row[f"{label}_error"] = compare(running.run(fun.name, flat), w, name, args)
        seconds = running.timed(fun.name, flat, runs + 2)[2:]
        row[f"{label}_ms"] = 1e3 * statistics.median(seconds)
        row[f"{label}_launches"] = running.runtime.launches
        row[f"{label}_reads"] = running.runtime.reads
    row["bytes_held"] = running.runtime.memory()[0]
    if "primal_ms" in row and "gradient_ms" in row:
        row["overhead"] = row["gradient_ms"] / row["primal_ms"]
    running.close()
    return row


def compare(results: list[Any], w: Workload, name: str, args: Arrays) -> float:
    """The largest difference from what 'c' computes, relative to the largest element."""
    reference = futad.compile(source_of(w), name=w.program, backend="c")
    f = reference.entries[name]
    expected = f.unit.run(f.core_name, f.signature.flatten(args))
    worst = 0.0
    for x, y in zip(results, expected, strict=True):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        worst = max(worst, float(np.abs(x - y).max(initial=0) / max(np.abs(y).max(initial=0), 1e-300)))
    limit = 1e-9 if w.dtype == "f64" else 2e-3
    if not worst <= limit:
        raise SystemExit(f"{w.label}: {name} differs from 'c' by {worst:.2g}")
    return worst


def correctness(backend: str, only: int | None) -> dict[str, Any]:
    """Every test program's cases on the backend."""
    failures: list[str] = []
    cases = 0
    paths = sorted((ROOT / "tests" / "programs").glob("*.fut"))[:only]
    for path in paths:
        program = futad.Program(load_program(str(path)), backend=backend)
        for case in read_test_file(path).cases:
            cases += 1
            problem = run_case(program, case)
            if problem is not None:
                failures.append(f"{path.stem} {case.name}: {problem}")
    return {"programs": len(paths), "cases": cases, "failures": failures}


def sanitizers() -> dict[str, str]:
    """compute-sanitizer over a few programs, if it is installed."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"compute-sanitizer": "not installed"}
    files = [str(ROOT / "tests" / "programs" / f"{n}.fut") for n in SANITIZED]
    out = {}
    for kind in ("memcheck", "racecheck"):
        command = [tool, "--tool", kind, "--error-exitcode", "9", sys.executable, "-m", "futad", "test", "-b", "cuda"]
        done = subprocess.run([*command, *files], capture_output=True, text=True)
        out[kind] = "clean" if done.returncode == 0 else done.stdout[-2000:]
    return out


def ceilings() -> dict[str, float]:
    """What the card reaches: bytes a second of a copy, flops a second of a matrix product."""
    import cupy

    def best(f: Any) -> float:
        times = []
        for _ in range(12):
            cupy.cuda.runtime.deviceSynchronize()
            start = time.perf_counter()
            f()
            cupy.cuda.runtime.deviceSynchronize()
            times.append(time.perf_counter() - start)
        return min(times[2:])

    x = cupy.ones(1 << 28, cupy.float32)
    y = cupy.empty_like(x)
    out = {"copy_gb_s": 2 * x.nbytes / best(lambda: cupy.copyto(y, x)) / 1e9}
    for name in ("float32", "float64"):
        a = cupy.ones((4096, 4096), name)
        out[f"matmul_{name}_tflop_s"] = 2 * 4096**3 / best(lambda a=a: a @ a) / 1e12
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "emulated"], default="cuda")
    parser.add_argument("--toy", action="store_true", help="small sizes")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--programs", type=int, help="only the first so many test programs")
    parser.add_argument("--only", help="workloads whose label contains this")
    parser.add_argument("--json", help="where to write the results")
    args = parser.parse_args()
    device: Device = open_device(args.device)
    report: dict[str, Any] = {"device": args.device, "machine": platform.platform(), "futad": futad.__version__}
    report["correctness"] = correctness(args.device, args.programs)
    if args.device == "cuda":
        report["sanitizers"] = sanitizers()
        report["ceilings"] = ceilings()
        report["card"] = device.describe()
    report["rows"] = []
    print(f"{'workload':<44} {'primal ms':>10} {'gradient ms':>12} {'overhead':>9} {'launches':>9}")
    for w in workloads(args.toy):
        if args.only and args.only not in w.label:
            continue
        row = time_workload(w, device, args.runs)
        report["rows"].append(row)
        cells = [row.get("primal_ms", float("nan")), row.get("gradient_ms", float("nan"))]
        launches = row.get("gradient_launches", 0)
        print(f"{w.label:<44} {cells[0]:>10.3f} {cells[1]:>12.3f} {row.get('overhead', 0):>9.2f} {launches:>9}")
    done = report["correctness"]
    print(f"test programs: {done['cases'] - len(done['failures'])} of {done['cases']} cases pass")
    for line in done["failures"]:
        print(f"  {line}")
    default = ROOT / "benchmarks" / "results" / f"gpu-{args.device}.json" if args.device == "cuda" else None
    target = Path(args.json) if args.json else default
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if done["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
