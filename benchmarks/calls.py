"""What a call costs beside the compiled code that it runs, and what waking threads costs.

    python benchmarks/calls.py [--backend c|multicore] [--runs N] [--json OUT]

Prints the time of calls of entries that do next to nothing, by what is passed; of derivatives of such; the share of
compiled code in calls of hand tracking and of least squares; and on `multicore` the time of a map on one thread and
together with others, by its length: from which length on several threads end sooner is what the constants of
`kernels/thread_pool.h` were chosen by.  The least time of several repeats counts, of CPU time where only one thread
works.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import futad

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = (
    "".join(
        f"entry arrays{k} {' '.join([f'(x{i}: []f64)' for i in range(k)])}: f64 = "
        f"{' + '.join(['1.0', *[f'f64.i64 (length x{i})' for i in range(k)]])}\n"
        for k in range(8)
    )
    + """
entry numbers (n: i64) (x: f64) (b: bool): f64 = f64.i64 n + x + f64.bool b
entry result [n] (x: [n]f64): [n]f64 = map (+ 1) x
entry squares [n] (x: [n]f64): f64 = f64.sum (map (\\a -> a * a) x)
entry roots [n] (x: [n]f64): [n]f64 = map f64.sqrt x
"""
)
LENGTHS = (1000, 3000, 10_000, 30_000, 100_000, 300_000)


def least(call: Callable[[], Any], runs: int, count: int = 300, wall: bool = False) -> float:
    """Microseconds of a call: the least mean of `count` of them."""
    clock = time.perf_counter if wall else time.process_time
    call()
    best = float("inf")
    for _ in range(runs):
        start = clock()
        for _ in range(count):
            call()
        best = min(best, (clock() - start) / count)
    return 1e6 * best


def small_calls(backend: str) -> dict[str, Callable[[], Any]]:
    """Calls that do next to nothing."""
    program = futad.compile(PROGRAM, name="calls.fut", backend=backend)
    x = np.ones(3)
    calls: dict[str, Callable[[], Any]] = {}
    for k in range(8):
        calls["1 array" if k == 1 else f"{k} arrays"] = partial(program[f"arrays{k}"], *[x] * k)
    calls["3 numbers"] = partial(program.numbers, 3, 2.0, True)
    calls["1 array, an array as result"] = partial(program.result, x)
    calls["value_and_grad, 1 array"] = partial(futad.value_and_grad(program.squares), x)
    calls["vjp and its pull, 1 array"] = lambda: futad.vjp(program.squares, x)[1](1.0)
    calls["jvp, 1 array"] = partial(futad.jvp, program.squares, (x,), (x,))
    return calls


def shares(backend: str, runs: int) -> dict[str, tuple[float, float]]:
    """Microseconds of calls, and of their compiled code."""
    import cases

    out = {}
    for name, case in (("hand c=100", cases.hand(10000, 100, False)), ("llsq n=1024", cases.llsq(1024, 128))):
        program = futad.load(ROOT / "benchmarks" / "programs" / f"{case.program}.fut", backend=backend)
        for what, entry in (("objective", program[case.objective]), ("derivative", program[case.derivative])):
            entry(*case.args)
            executor: Any = entry.executable.executor()
            flat = entry.signature.flatten(case.args)
            code = min(executor.timed(entry.symbol, flat)[0] for _ in range(20 * runs))
            call = least(partial(entry, *case.args), runs, 20, wall=True)
            out[f"{name} {what}"] = (call, 1e6 * code)
    return out


def maps() -> list[float]:
    """Microseconds of square roots on `multicore`, for each of `LENGTHS`, the first of a call."""
    roots = futad.compile(PROGRAM, name="calls.fut", backend="multicore").roots
    out = []
    for n in LENGTHS:
        args = roots.signature.flatten((np.ones(n),))
        run: Any = roots.executable.executor()
        out.append(1e6 * min(run.timed(roots.symbol, args)[0] for _ in range(300)))
    return out


def by_threads() -> list[list[float]]:
    """`maps` in processes of one thread and of all."""
    out = []
    for extra in ({"OMP_NUM_THREADS": "1"}, {}):
        command = [sys.executable, __file__, "--maps"]
        done = subprocess.run(command, env=os.environ | extra, check=True, stdout=subprocess.PIPE)
        out.append(json.loads(done.stdout))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description="What a call costs beside its compiled code.")
    parser.add_argument("--backend", choices=["c", "multicore"], default="multicore")
    parser.add_argument("--runs", type=int, default=15, help="repeats, of which the least counts (default 15)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the measurements here")
    parser.add_argument("--maps", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.maps:
        print(json.dumps(maps()))
        return 0
    from rich.console import Console
    from rich.progress import Progress

    record: dict[str, Any] = {"backend": options.backend, "calls": {}}
    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        for name, call in bar.track(small_calls(options.backend).items(), description="calls"):
            record["calls"][name] = least(call, options.runs)
            print(f"{name:30} {record['calls'][name]:6.1f} us", flush=True)
    record["shares"] = shares(options.backend, options.runs)
    for name, (whole, code) in record["shares"].items():
        print(f"{name:30} {whole:6.1f} us, of these compiled code {code:.1f}")
    if options.backend == "multicore":
        record["maps"] = dict(zip(("lengths", "one", "all"), (LENGTHS, *by_threads()), strict=True))
        for n, one, several in zip(*record["maps"].values(), strict=True):
            print(f"{f'roots of {n}':30} {one:6.1f} us on one thread, {several:.1f} on all")
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
