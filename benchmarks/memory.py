"""What gradients keep: processor time and growth of memory against the budget.

    python benchmarks/memory.py adaptive                      section 6 of Siskind and Pearlmutter, OMS 33, 2018
    python benchmarks/memory.py leapfrog --iterations 20000   springs, run backwards
    python benchmarks/memory.py adaptive --json FILE

Each figure is of one call in a process of its own, after a small call of the same function: the growth of the process's
peak (VmHWM, reset by /proc/self/clear_refs; Linux only), and the least processor time of `--runs` processes.  Exit
status 1 if a bar is missed.  A bar on time is a ratio to the gradient without a budget in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = Path(__file__).parent / "programs"
LENGTHS = (53, 103, 203, 403, 803, 1603, 3203)
SIZE = 1000
# What is kept in all, and how much of the time without a budget it may take.
BARS = {10: 3.0, 64: 1.8, 201: 1.2}
MOST_GROWTH = 512  # kB, from the shortest to the longest
MOST_ERROR = 1e-7
LEAPFROG_GROWTH, LEAPFROG_TIME, LEAPFROG_ERROR = 256, 0.6, 1e-9


def peak() -> int:
    """The largest memory of this process since it was last reset, in kB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def one_call(call: Callable[[int], Sequence[np.ndarray]], small: int, large: int) -> dict[str, Any]:
    """The figures of `call(large)`, and its results, after `call(small)`."""
    call(small)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = peak(), time.process_time()
    results = call(large)
    seconds = time.process_time() - start
    return {"seconds": seconds, "kB": peak() - before, "results": [r.tolist() for r in results]}


def worker(workload: str, length: int, options: dict[str, Any]) -> dict[str, Any]:
    """One figure, in this process."""
    import futad

    prog = futad.load(str(PROGRAMS / f"{workload}.fut"), backend="c", **options)
    rng = np.random.default_rng(1)
    if workload == "adaptive":
        x = rng.normal(size=SIZE)
        x /= np.linalg.norm(x)
        out = one_call(lambda n: (prog.gradient(n, 3.0, x),), 7, length)
        out["error"] = float(np.abs(np.array(out.pop("results")[0]) - x).max() / np.abs(x).max())
    else:
        q, p, k = rng.normal(size=SIZE), rng.normal(size=SIZE), rng.uniform(0.5, 2.0, SIZE)
        out = one_call(lambda n: prog.gradient(n, 0.01, k, q, p), 7, length)
    out["told"] = prog.explain_memory()
    return out


def measure(workload: str, length: int, options: dict[str, Any], runs: int) -> dict[str, Any]:
    """The figures, from processes of their own."""
    command = [sys.executable, __file__, workload, "--worker", json.dumps([length, options])]
    found = []
    for _ in range(runs):
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise SystemExit(f"{workload} with {options} failed:\n{done.stderr}")
        found.append(json.loads(done.stdout))
    return min(found, key=lambda f: f["seconds"]) | {"kB": max(f["kB"] for f in found)}


@dataclass
class Bar:
    """What must hold of a figure."""

    what: str
    value: float
    most: float

    @property
    def holds(self) -> bool:
        return self.value <= self.most

    def __str__(self) -> str:
        return f"{'ok    ' if self.holds else 'MISSED'} {self.what}: {self.value:.3g} (at most {self.most:g})"


def adaptive(runs: int, lengths: Sequence[int] = LENGTHS) -> tuple[list[dict[str, Any]], list[Bar]]:
    """The rows, and the bars on them."""
    rows: list[dict[str, Any]] = []
    print(f"{'l':>5} {'states':>7} {'CPU s':>8} {'growth kB':>10} {'error':>9}")
    for length in lengths:
        for states in (None, *BARS):
            found = measure("adaptive", length, {} if states is None else {"checkpoints": states - 1}, runs)
            rows.append({"l": length, "states": states, **found})
            shown = "all" if states is None else str(states)
            figures = f"{found['seconds']:8.3f} {found['kB']:>10,} {found['error']:9.1e}"
            print(f"{length:>5} {shown:>7} {figures}", flush=True)
    last = {r["states"]: r for r in rows if r["l"] == lengths[-1]}
    bars = [Bar(f"time with {s} states over that without a budget", last[s]["seconds"] / last[None]["seconds"], most)
            for s, most in BARS.items()]  # fmt: skip
    ten = [r["kB"] for r in rows if r["states"] == 10]
    bars.append(Bar(f"kB that memory grows by from l = {lengths[0]} to {lengths[-1]} with 10 states",
                    max(ten) - ten[0], MOST_GROWTH))  # fmt: skip
    bars.append(Bar("largest relative error", max(r["error"] for r in rows), MOST_ERROR))
    return rows, bars


def leapfrog(iterations: int, runs: int, plain: bool) -> tuple[list[dict[str, Any]], list[Bar]]:
    """The rows, and the bars on them; without `plain` only what needs no comparison."""
    found = {"undone": measure("leapfrog", iterations, {"reversible": True}, runs)}
    if plain:
        found["kept"] = measure("leapfrog", iterations, {}, runs)
    for name, row in found.items():
        print(f"{iterations:>9,} iterations, {name}: {row['seconds']:.3f} CPU s, {row['kB']:,} kB more")
    undone = found["undone"]
    bars = [Bar("kB that memory grows by", undone["kB"], LEAPFROG_GROWTH)]
    if plain:
        kept = found["kept"]
        pairs = list(zip(undone["results"], kept["results"], strict=True))
        worst = max(np.abs(np.array(a) - np.array(b)).max() / np.abs(np.array(b)).max() for a, b in pairs)
        bars.append(Bar("time over that of what is kept", undone["seconds"] / kept["seconds"], LEAPFROG_TIME))
        bars.append(Bar("largest relative difference", float(worst), LEAPFROG_ERROR))
    rows = [{"iterations": iterations, "way": k, **{n: v for n, v in r.items() if n != "results"}}
            for k, r in found.items()]  # fmt: skip
    return rows, bars


def main() -> int:
    parser = argparse.ArgumentParser(description="what gradients keep, in time and memory")
    parser.add_argument("workload", choices=["adaptive", "leapfrog"])
    parser.add_argument("--iterations", type=int, default=20_000, help="of leapfrog")
    parser.add_argument("--no-plain", action="store_true", help="leapfrog: leave out the gradient that keeps all")
    parser.add_argument("--runs", type=int, default=3, help="processes a figure")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(worker(args.workload, *json.loads(args.worker))))
        return 0
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("the peak of memory is read from /proc, which this system does not have")
    if args.workload == "adaptive":
        rows, bars = adaptive(args.runs)
    else:
        rows, bars = leapfrog(args.iterations, args.runs, not args.no_plain)
    print("\n".join(map(str, bars)))
    if args.json:
        verdicts = [{"what": b.what, "value": b.value, "most": b.most, "holds": b.holds} for b in bars]
        Path(args.json).write_text(json.dumps({"rows": rows, "bars": verdicts}, indent=1) + "\n")
    return 0 if all(b.holds for b in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
