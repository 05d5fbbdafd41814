"""Time the data sets of programs' test blocks, after checking each result.

A data set runs once to be checked against its expected output, then ten times or for half a second, whichever is
longer, and on until the mean is known to one per cent (or for --max-seconds, or 10000 times); with -r exactly RUNS
times.  What is timed is the call of the entry, without reading its input or writing its result.  Printed: the mean,
its 95% confidence interval (Student's t), and GB/s, the bytes of all argument and result arrays by the mean time.

--json OUT writes every time measured, in microseconds, in the layout of `futhark bench --json`.  Cases tagged
nobench, disable or no_BACKEND are left out.  The exit status is 1 if a program, a data set or a check failed.

Example: futad bench gmm.fut -b c --json gmm.json
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from futad.cli import options
from futad.cli.progress import progress

if TYPE_CHECKING:
    from futad.api.program import Program
    from futad.testing.blocks import Case

PRECISION = 0.01  # of the mean: the half width of its confidence interval at which measuring ends
MOST_RUNS = 10_000  # of a data set, unless --runs asks for more


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="FILE", nargs="+", help="programs, or folders of programs")
    options.add_backend(parser)
    options.add_budget(parser)
    options.add_strategy(parser)
    parser.add_argument("-e", "--entry", metavar="ENTRY", help="only the data sets of this entry")
    parser.add_argument("-r", "--runs", type=int, metavar="RUNS", help="run each data set exactly so many times")
    parser.add_argument("--json", metavar="OUT", help="write the times to this file")
    parser.add_argument("--exclude", metavar="TAG", action="append", default=[], help="leave out cases so tagged")
    parser.add_argument(
        "--max-seconds", type=float, default=5.0, metavar="S", help="time for one data set (default: 5)"
    )


@dataclass(slots=True)
class Measurement:
    """The times of a data set's runs in seconds, the bytes of its arguments and results, the memory it held."""

    seconds: list[float]
    moved: int
    memory: dict[str, int] = field(default_factory=dict)


# What `--json` writes: a data set's measurement, or why there is none.
Results = dict[str, dict[str, Measurement | str]]


def run(args: argparse.Namespace) -> int:
    from futad.cli.test import find_programs
    from futad.errors import UsageError

    if args.runs is not None and args.runs < 1:
        raise UsageError("--runs must be at least 1")
    if not args.max_seconds > 0:
        raise UsageError("--max-seconds must be positive")
    args.budget, args.schedule = options.budget_of(args), options.schedule_of(args)
    found = [(file, _selected(file, args)) for file in find_programs(args.paths)]
    results: Results = {}
    failures = 0
    total = sum(len(cases) for _, cases in found if not isinstance(cases, str))
    with progress("benchmarking", total) as (report, step):
        for file, cases in found:
            if isinstance(cases, str):
                failures += 1
                report(cases)
            elif cases:
                failures += _program(file, cases, args, results, report, step)
    if args.json is not None:
        from futad.cli.emit import write_file

        write_file(Path(args.json), (json.dumps(as_json(results), indent=1) + "\n").encode())
    if not results and not failures:
        print("no data sets", file=sys.stderr)
    return 1 if failures else 0


def _program(
    file: Path,
    cases: Sequence[Case],
    args: argparse.Namespace,
    results: Results,
    report: Callable[[str], None],
    step: Callable[[str], None],
) -> int:
    """Time the data sets of one program; how many failed."""
    from futad.errors import Error

    try:
        program = options.load(str(file), args.backend, args.budget, args.schedule)
        program.executor()
    except Error as e:
        report(str(e))
        for _ in cases:
            step(file.name)
        return 1
    cases = [c for c in cases if f"no_{program.backend}" not in c.tags]
    failures = 0
    names = _unique_names(cases)
    width = max(map(len, names), default=0)
    entry = ""
    for case, name in zip(cases, names, strict=True):
        if case.entry != entry:
            entry = case.entry
            report(f"{file}:{entry} ({program.backend})")
        found = _data_set(program, case, args.runs, args.max_seconds)
        step(f"{file.name}:{entry}")
        results.setdefault(f"{file}:{entry}", {})[name] = found
        if isinstance(found, str):
            failures += 1
            report(f"  {name}: failed\n" + "\n".join(f"    {line}" for line in found.splitlines()))
        else:
            report(f"  {name + ':':<{width + 1}} {summary(found)}")
    return failures


def _selected(file: Path, args: argparse.Namespace) -> list[Case] | str:
    """The cases of a program that are to be timed; in words why its test blocks cannot be read."""
    from dataclasses import replace

    from futad.errors import Error
    from futad.testing.blocks import read_test_file

    try:
        spec = read_test_file(file)
    except Error as e:
        return str(e)
    leave_out = {"nobench", "disable", *args.exclude}
    if spec.tags & leave_out:
        return []
    # A case that should fail has no time.
    cases = [replace(c, tags=c.tags | spec.tags) for c in spec.cases if c.expected != "error"]
    return [c for c in cases if not c.tags & leave_out and args.entry in (None, c.entry)]


def _unique_names(cases: Sequence[Case]) -> list[str]:
    """The cases' names, numbered where one entry has a name twice."""
    seen: dict[tuple[str, str], int] = {}
    out = []
    for c in cases:
        count = seen[c.entry, c.name] = seen.get((c.entry, c.name), 0) + 1
        out.append(c.name if count == 1 else f"{c.name} ({count})")
    return out


def _data_set(program: Program, case: Case, runs: int | None, limit: float) -> Measurement | str:
    """Check, then time, one data set; in words what failed."""
    from futad.cli.test import run_case
    from futad.errors import Error

    try:
        problem = run_case(program, case)
        return problem if problem is not None else measure(program, case, runs, limit)
    except Error as e:
        return str(e)
    except MemoryError:
        return "error: out of memory"


def measure(program: Program, case: Case, runs: int | None, limit: float) -> Measurement:
    """Time the runs of a case.  Raises what making its input and running it raises."""
    from time import perf_counter

    import numpy as np

    from futad.testing.inputs import make_input

    function = program[case.entry]
    flat = make_input(program, function, case)
    executor: Any = program.executor()
    # A consumed argument is overwritten by a run, so each run gets its own copies, made outside the time.
    fresh = (lambda: _copies(flat)) if any(function.entry.unique) else (lambda: flat)
    with options.killable():
        results = executor.run(function.symbol, fresh())
    moved = sum(a.nbytes for a in [*flat, *results] if isinstance(a, np.ndarray))
    del results
    sample = _stopwatch(executor, function.symbol, fresh)
    seconds: list[float] = []
    start, enough = perf_counter(), runs or 10
    while True:
        # So many that the time left is enough for them.
        left = limit - (perf_counter() - start)
        count = enough - len(seconds)
        if runs is None:
            count = min(count, int(left / seconds[-1]) if seconds and seconds[-1] > 0 else 1)
        with options.killable():
            seconds += sample(max(1, count))
        spent = perf_counter() - start
        if len(seconds) < enough and (runs is not None or spent < limit):
            continue
        if runs is not None or spent >= limit or len(seconds) >= MOST_RUNS or (spent >= 0.5 and _precise(seconds)):
            break
        # The statistics are taken again after a part of the runs so far, or their cost would grow with its square.
        enough = min(len(seconds) + len(seconds) // 4 + 1, MOST_RUNS)
    memory = getattr(executor, "memory", None)
    return Measurement(seconds, moved, {"default": memory()[0]} if memory is not None else {})


def _copies(flat: Sequence[Any]) -> list[Any]:
    import numpy as np

    return [a.copy() if isinstance(a, np.ndarray) else a for a in flat]


def _stopwatch(executor: Any, name: str, fresh: Callable[[], list[Any]]) -> Callable[[int], list[float]]:
    """A function from a number of runs to the seconds each took; `fresh` gives the arguments of a run.

    C times its own call, and a device runs with arguments and results in its memory, so that neither counts the
    passing of arguments.
    """
    device = getattr(executor, "running", None)
    if device is not None:
        return lambda count: list(device.timed(name, fresh(), count))
    timed = getattr(executor, "timed", None)
    if timed is not None:
        return lambda count: [timed(name, fresh())[0] for _ in range(count)]
    from time import perf_counter

    def call() -> float:
        args = fresh()
        start = perf_counter()
        executor.run(name, args)
        return perf_counter() - start

    return lambda count: [call() for _ in range(count)]


def _precise(seconds: Sequence[float]) -> bool:
    mean, half = interval(seconds)
    return half <= PRECISION * mean


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean and the half width of its 95% confidence interval (Student's t; NaN for one value)."""
    mean = statistics.fmean(values)
    n = len(values)
    if n < 2:
        return mean, math.nan
    return mean, t_quantile(n - 1) * statistics.stdev(values) / math.sqrt(n)


def t_quantile(freedom: int) -> float:
    """The 97.5% quantile of Student's t: tables for few degrees of freedom, beyond that the expansion in 1/n
    around the normal quantile (Abramowitz and Stegun, 26.7.5)."""
    few = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004)
    if freedom <= len(few):
        return few[freedom - 1]
    z = 1.959963985
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return float(sum(t / freedom**i for i, t in enumerate(terms)))


def summary(m: Measurement) -> str:
    """`12.3 µs a run, 95% CI [12.1, 12.5], 4.2 GB/s (57 runs)`."""
    mean, half = interval(m.seconds)
    micro, width = mean * 1e6, half * 1e6
    text = f"{micro:>12.1f} µs a run"
    if not math.isnan(width):
        text += f", 95% CI [{micro - width:.1f}, {micro + width:.1f}]"
    if m.moved and mean > 0:
        text += f", {m.moved / mean / 1e9:.3g} GB/s"
    return f"{text} ({len(m.seconds)} run{'' if len(m.seconds) == 1 else 's'})"


def as_json(results: Results) -> dict[str, Any]:
    """The results in the layout of `futhark bench --json`; a data set that failed is its message."""
    return {
        program: {
            "datasets": {
                name: m
                if isinstance(m, str)
                else {"runtimes": [round(s * 1e6, 3) for s in m.seconds], "bytes": m.memory, "stderr": ""}
                for name, m in sets.items()
            }
        }
        for program, sets in results.items()
    }
