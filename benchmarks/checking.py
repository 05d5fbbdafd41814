"""What checked execution costs: time with FUTAD_CHECK over time without, program by program.

    python benchmarks/checking.py [--only NAME...] [--large] [--check memory|values] [--runs N]
                                  [--backend c|multicore|emulated]

The inputs are the small ones of `cpu.py`, or with `--large` those that it times.  Both run in turn in one process, and
the least CPU times are compared; on `multicore`, whose threads wait, wall times.  Exit status 1 if the check of memory
takes more than 20 times as long.
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import sys
import time
from pathlib import Path

from cases import Case, cases

import futad
from futad import checks

PROGRAMS = Path(__file__).resolve().parent / "programs"
LIMIT = 20


def ratio(case: Case, derivative: bool, check: str, backend: str, runs: int) -> tuple[float, float]:
    """The least seconds of a call without the check and with it."""
    entry = case.derivative if derivative else case.objective
    args = (*case.args, *case.more) if derivative else case.args
    programs = []
    for chosen in ((), (check,)):
        with checks.checking(chosen):
            programs.append(futad.load(PROGRAMS / f"{case.program}.fut", backend=backend))
            programs[-1][entry](*args)
    clock = time.perf_counter if backend == "multicore" else time.process_time
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for program, times in zip(programs, seconds, strict=True):
            start = clock()
            program[entry](*args)
            times.append(clock() - start)
    plain, checked = map(min, seconds)
    return plain, checked


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of checked execution.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="rows whose name begins so")
    parser.add_argument("--large", action="store_true", help="the sizes of the benchmarks")
    parser.add_argument("--check", choices=(checks.MEMORY, checks.VALUES), default=checks.MEMORY)
    parser.add_argument("--backend", choices=("c", "multicore", "emulated"), default="c")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    exceeded = False
    for make in cases(not options.large, options.only):
        case = make()
        for derivative in (False, True):
            plain, checked = ratio(case, derivative, options.check, options.backend, options.runs)
            times = checked / plain
            over = options.check == checks.MEMORY and times > LIMIT
            exceeded |= over
            what = "derivative" if derivative else "objective"
            figures = f"{1e3 * plain:9.2f} ms {1e3 * checked:9.2f} ms {times:6.1f} times"
            print(f"{case.name:14s} {case.size:22s} {what:10s} {figures}{' EXCEEDED' if over else ''}", flush=True)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
