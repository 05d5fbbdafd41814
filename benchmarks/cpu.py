"""Objectives and derivatives on the CPU, side by side in one run: futad's `c` and `multicore`, NumPy's closed forms,
JAX and PyTorch where they are installed, what the machine can do at best (copying, matrix products), and published
figures of others scaled by that.

    python benchmarks/cpu.py [--small | --middle] [--only NAME...] [--threads N...] [--runs N] [--seconds S]
                             [--json OUT]

Answers are compared before anything is timed.  Each number is a median of at least five runs, taken in turn with the
others of its row, more of them if they take less than a second; with one thread of the process's CPU time, which a busy
machine disturbs less, else of the wall's.  With several threads the last table says which rows are to gain from them,
and which of these fall short (`speedup.py`).  Exit status 1 if an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from speedup import AtOnce, least_work, speedup, summary

ROOT = Path(__file__).resolve().parents[1]
MOST = 25  # runs, unless more are asked for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small inputs: seconds altogether")
    parser.add_argument("--middle", action="store_true", help="of each program the middle one of its sizes")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs whose name begins so")
    parser.add_argument("--threads", nargs="+", type=int, metavar="N", help="numbers of threads (default: all)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each (at least 5)")
    parser.add_argument("--seconds", type=float, default=1, metavar="S", help=f"more runs for so long, at most {MOST}")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the measurements here")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    counts = options.threads or [len(cpus)]
    if not all(1 <= n <= len(cpus) for n in counts):
        parser.error(f"--threads: this machine has {len(cpus)}")
    if options.child:
        options.child.write_text(json.dumps(measure(options, counts[0])))
        return 0
    parts = [in_child(n) for n in counts]
    rows = [row for part in parts for row in part["rows"]]
    if not rows:
        parser.error(f"--only: no program begins with {' or '.join(options.only)}")
    record = {
        "machine": platform.processor() or platform.machine(),
        "ceilings": [part["ceilings"] for part in parts],
        "rows": rows,
    }
    show(record)
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(t["error"] <= row["tolerance"] for row in rows for t in row["times"]) else 1


def in_child(threads: int) -> dict[str, Any]:
    """The measurements with so many threads, in a process of its own: libraries count processors only once."""
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(variables, str(threads))
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        command = [sys.executable, __file__, *sys.argv[1:], "--threads", str(threads), "--child", str(out)]
        subprocess.run(command, check=True, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        return json.loads(out.read_text())


def measure(options: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Ceilings and rows."""
    from cases import cases
    from rich.console import Console
    from rich.progress import Progress

    chosen = cases(options.small, options.only, options.middle)
    runs = max(5, options.runs)
    rows = []
    limits = ceilings(runs, threads)
    name = f"{threads} thread{'s' * (threads > 1)}"
    print(
        f"{name}: copy {limits['copy_bytes'] / 1e9:.1f} GB/s (NumPy: one thread), "
        f"dgemm {limits['dgemm_flops'] / 1e9:.0f} and sgemm {limits['sgemm_flops'] / 1e9:.0f} GFLOP/s"
    )
    print(f"{'case':40} {'thr':>3} {'what':10} milliseconds (median)", flush=True)
    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        for make in bar.track(chosen, description=name):
            case = make()
            for part in (0, 1):
                rows.append(one_row(case, part, runs, options.seconds, threads, limits))
                print(times_of(rows[-1]), flush=True)
    return {"ceilings": {"threads": threads, **limits}, "rows": rows}


def times_of(row: dict[str, Any]) -> str:
    """A row's times as a line."""
    times = "  ".join(
        f"{t['who']} {1e3 * t['median']:.2f}{'' if t['error'] <= row['tolerance'] else ' WRONG'}" for t in row["times"]
    )
    return f"{row['case'] + ' ' + row['size']:40} {row['threads']:3} {row['what']:10} {times}"


def one_row(case: Any, part: int, runs: int, longest: float, threads: int, limits: dict[str, float]) -> dict[str, Any]:
    """The objective (part 0) or derivative (1) of a case: errors first, then times."""
    from peers_jax import jax_calls
    from peers_torch import torch_calls
    from published import scaled

    import futad

    reference = (case.numpy, case.numpy_derivative)[part]
    expected = reference()
    args = (*case.args, *case.more) if part else case.args
    candidates: dict[str, Callable[[], Any]] = {}
    errors = {}

    def ours(backend: str) -> Callable[[], Any]:
        program = futad.load(ROOT / "benchmarks" / "programs" / f"{case.program}.fut", backend=backend)
        entry = program[(case.objective, case.derivative)[part]]
        return lambda: entry(*args)

    for backend in ("c", "multicore"):
        candidates[backend] = ours(backend)
        result = candidates[backend]()
        errors[backend] = relative_error(case.seen(result) if part else result, expected)
    if case.timed[part]:
        candidates["numpy"], errors["numpy"] = reference, 0.0
    for peer, calls in (("jax", jax_calls), ("torch", torch_calls)):
        made = calls(case.program, (*case.args, *case.more))
        if made is not None:
            candidates[peer] = made[part]
            result = made[part]()
            errors[peer] = relative_error(case.peer_seen(result) if part else result, expected)
    if threads > 1:
        with AtOnce([ours("c") for _ in range(threads)]) as copies:
            seconds = interleaved(runs, {"at once": copies} | candidates, threads, longest)
        at_once = seconds.pop("at once")
    else:
        seconds, at_once = interleaved(runs, candidates, threads, longest), None
    rate = limits["sgemm_flops" if np_single(case.args) else "dgemm_flops"]
    what = ("objective", "derivative")[part]
    return {
        "case": case.name,
        "size": case.size,
        "what": what,
        "threads": threads,
        "clock": "CPU" if threads == 1 else "wall",
        "work": case.work,
        "tolerance": case.tolerance,
        "bound": max(case.flops[part] / rate, case.bytes[part] / limits["copy_bytes"]),
        "published": scaled(case.name, case.size, what, threads, limits),
        "at_once": at_once and figures(at_once),
        "times": [{"who": who, **figures(s), "error": errors[who]} for who, s in seconds.items()],
    }


def figures(seconds: list[float]) -> dict[str, Any]:
    return {"median": statistics.median(seconds), "best": min(seconds), "seconds": seconds}


def np_single(args: tuple[Any, ...]) -> bool:
    """Whether the case computes in f32."""
    return any(str(getattr(a, "dtype", "")) == "float32" for a in args)


def interleaved(
    runs: int, candidates: dict[str, Callable[[], Any] | AtOnce], threads: int, longest: float = 0
) -> dict[str, list[float]]:
    """Seconds of each run of each candidate, taken in iteration: of so many, and of more until `longest` seconds are
    over.

    Each run follows one of its own that is not counted, so that caches and threads are its own, and that one waits for
    the threads of the candidate before: those of BLAS libraries spin for tens of milliseconds after a call.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in candidates}

    def once(run: Callable[[], Any] | AtOnce) -> float:
        if isinstance(run, AtOnce):
            return run.seconds()
        start = clock()
        run()
        return clock() - start

    end = time.perf_counter() + longest
    rounds = 0
    while rounds < runs or (rounds < MOST and time.perf_counter() < end):
        rounds += 1
        for name, run in candidates.items():
            settle()
            once(run)
            seconds[name].append(once(run))
    return seconds


def settle(longest: float = 0.2) -> None:
    """Wait until this process does nothing, at most so many seconds."""
    end = time.perf_counter() + longest
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(0.002)
        if time.process_time() - used < 0.0005:
            return


def relative_error(actual: Any, expected: Any) -> float:
    """The largest difference, relative to the largest magnitude of each result."""
    import numpy as np

    if not isinstance(expected, tuple):
        actual, expected = (actual,), (expected,)
    if not isinstance(actual, tuple):
        actual = (actual,)
    worst = 0.0
    for a, e in zip(actual, expected, strict=True):
        a, e = np.asarray(a, dtype=float), np.asarray(e, dtype=float)
        if a.shape != e.shape or not np.isfinite(a).all():
            return float("inf")
        worst = max(worst, float(np.abs(a - e).max() / max(np.abs(e).max(), 1e-300)))
    return worst


def ceilings(runs: int, threads: int) -> dict[str, float]:
    """What the machine does at best: bytes a second read and written by copying, and operations a second in
    matrix products."""
    import numpy as np

    def best(call: Callable[[], Any]) -> float:
        return min(interleaved(runs, {"": call}, threads)[""])

    source = np.ones(4_000_000)
    target = np.empty_like(source)
    out = {"copy_bytes": 2 * source.nbytes / best(lambda: np.copyto(target, source))}
    for name, dtype in (("dgemm", np.float64), ("sgemm", np.float32)):
        a = np.random.default_rng(1).random((768, 768)).astype(dtype)
        product = np.empty_like(a)
        out[f"{name}_flops"] = 2 * 768**3 / best(lambda a=a, p=product: np.matmul(a, a, out=p))
    return out


def show(record: dict[str, Any]) -> None:
    """What follows from the measurements, as tables on stdout."""
    print(
        "times slower than the faster of c and multicore (published figures scaled to this machine); share of ceiling:"
    )
    for row in record["rows"]:
        median = {t["who"]: t["median"] for t in row["times"]}
        ours = min(median.pop("c"), median.pop("multicore"))
        others = median | {f"{p['who']} (published)": p["seconds"] for p in row["published"]}
        text = "  ".join(f"{who} {t / ours:.2f}" for who, t in others.items())
        share = f"  {row['bound'] / ours:.0%} of the ceiling" if row["bound"] else ""
        print(f"{row['case'] + ' ' + row['size']:40} {row['threads']:3} {row['what']:10} {text}{share}")
    print("derivative / objective:")
    for first, second in zip(record["rows"][::2], record["rows"][1::2], strict=True):
        ratios = [
            f"{b['who']} {b['median'] / a['median']:.2f}"
            for b in second["times"]
            for a in first["times"]
            if a["who"] == b["who"]
        ]
        print(f"{first['case'] + ' ' + first['size']:40} {first['threads']:3} {'  '.join(ratios)}")
    for threads in sorted({row["threads"] for row in record["rows"]} - {1}):
        print(
            f"c / multicore with {threads} threads: by medians, by the best runs, and what the machine gave {threads} "
            f"copies of c at once; a limit where c takes at least {1e3 * least_work(threads):.2f} ms:"
        )
        found = []
        for row in record["rows"]:
            if row["threads"] == threads and (s := speedup(row)):
                found.append(s)
                print(
                    f"{row['case'] + ' ' + row['size']:40} {threads:3} {row['what']:10} {s.gain:5.2f} {s.best:5.2f} "
                    f"{s.machine or 0:5.2f}  {s.verdict}"
                )
        print(summary(found))


if __name__ == "__main__":
    sys.exit(main())
