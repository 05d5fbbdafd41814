"""Measure by which sizes a program's host code should choose between versions on this machine's GPU.

A nest of maps with something parallel inside becomes several kernels: a thread a point, a block a point, one
kernel a statement; matrix products small and large tiles, or cuBLAS.  Which is best depends on sizes and on the
card, so the host compares sizes with thresholds when it launches.  This command runs the program's data sets
with several values of each and keeps the best, for this program and this device, in `tuned/` of the cache folder
(FUTAD_CACHE_DIR, else ~/.cache/futad); from then on every run of the program uses them.

The data sets are those of the program's test blocks, or with --size random ones of these sizes:

    futad tune gmm.fut
    futad tune mine.fut -e main --size n=100000,d=16
    futad tune gmm.fut --show

With --strategies FILE what is measured are the alternatives in a schedule, `alternatives(A, B)`, on any backend; the
fastest schedule is written to --output (docs/strategies.md):

    futad tune gmm.fut -b c --strategies mine.sched --output best.sched
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from futad.cli import options

if TYPE_CHECKING:
    from futad.api.program import Function, Program
    from futad.backend.cuda import DeviceBackend
    from futad.testing.tuner import Call


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)
    options.add_backend(parser)
    parser.add_argument("-e", "--entry", metavar="ENTRY", help="only the data sets of this entry")
    parser.add_argument(
        "--size", metavar="N=NUMBER,...", help="random arguments of these sizes, instead of the test blocks' data sets"
    )
    parser.add_argument("-r", "--runs", type=int, default=10, metavar="RUNS", help="runs a time (default: 10)")
    parser.add_argument("--strategies", metavar="FILE", help="a schedule with alternatives: find the fastest ones")
    parser.add_argument("--output", metavar="FILE", help="where --strategies writes the schedule (default: FILE.best)")
    parser.add_argument("--show", action="store_true", help="print the thresholds in use, measure nothing")
    parser.add_argument("--forget", action="store_true", help="go back to the device's own thresholds")


def run(args: argparse.Namespace) -> int:
    import time

    from futad.backend.backends import DEVICES
    from futad.errors import UsageError
    from futad.runtime import tuning
    from futad.testing.tuner import NEVER, Tuner

    if args.strategies is not None:
        return _strategies(args)
    if args.output is not None:
        raise UsageError("--output is for --strategies")
    args.backend = "cuda" if args.backend == "auto" else args.backend
    if args.backend not in DEVICES:
        raise UsageError(f"backend '{args.backend}' has no thresholds to tune; choose -b {' or '.join(DEVICES)}")
    if args.runs < 1:
        raise UsageError("--runs must be at least 1")
    sizes = _sizes(args.size) if args.size is not None else None
    program = options.load(args.file, args.backend)
    if args.entry is not None:
        options.entry_of(program, args.entry)
    backend: Any = program.executor()
    made: DeviceBackend = backend
    running = made.running
    model, key = running.device.model, running.key
    if args.forget:
        print(f"forgotten: {tuning.store(model, key, None, {})}")
        return 0
    if args.show:
        found = tuning.stored(model, key)
        print(f"{args.file} on {model}: {'tuned' if found else 'not tuned'}")
        for name, value in (found or running.device.limits.thresholds)._asdict().items():
            print(f"  {name:<15} {'never' if value >= NEVER else value}")
        return 0
    calls = _generated(program, args.entry, sizes) if sizes is not None else _data_sets(program, Path(args.file), args)
    tuner = Tuner(running, calls, args.runs, print)
    own = running.device.limits.thresholds
    before = tuner.cost(own)
    best = tuner.search()
    after = tuner.cost(best)
    about = {"file": Path(args.file).name, "date": time.strftime("%Y-%m-%d"), "data_sets": [c.label for c in calls]}
    path = tuning.store(model, key, best, {**about, "seconds_before": before, "seconds": after})
    print(f"{len(calls)} data sets, {before * 1e3:.3g} ms -> {after * 1e3:.3g} ms (geometric mean): {path}")
    return 0


def _strategies(args: argparse.Namespace) -> int:
    """Find the fastest of the alternatives of a schedule, and write it."""
    from futad.cli.emit import write_file
    from futad.errors import UsageError
    from futad.rewrite.words import Picks
    from futad.strategies import load_schedule
    from futad.testing.strategy_tuner import StrategyTuner

    if args.show or args.forget:
        raise UsageError("--strategies measures: it goes with no --show or --forget")
    if args.runs < 1:
        raise UsageError("--runs must be at least 1")
    sizes = _sizes(args.size) if args.size is not None else None
    found = Picks()
    load_schedule(args.strategies, found)
    plain = options.load(args.file, args.backend)
    if args.entry is not None:
        options.entry_of(plain, args.entry)
    calls = _generated(plain, args.entry, sizes) if sizes is not None else _data_sets(plain, Path(args.file), args)

    def timed(picked: tuple[int, ...]) -> list[tuple[float, list[Any]]]:
        made = options.load(args.file, args.backend, schedule=load_schedule(args.strategies, Picks(picked)))
        executor = made.executor()
        return [_least(executor, c, args.runs) for c in calls]

    tuner = StrategyTuner(found.sizes, timed, print)
    best = tuner.search()
    out = Path(args.output or f"{args.strategies}.best")
    write_file(out, str(load_schedule(args.strategies, Picks(best))).encode())
    first, last = tuner.cost(tuple([0] * len(best))), tuner.cost(best)
    print(f"{len(calls)} data sets, {first * 1e3:.4g} ms -> {last * 1e3:.4g} ms (geometric mean): {out}")
    return 0


def _least(executor: Any, call: Call, runs: int) -> tuple[float, list[Any]]:
    """The least seconds of some calls, and the results."""
    import time
    from copy import deepcopy

    def once() -> tuple[float, list[Any]]:
        given = deepcopy(list(call.args))  # unique arguments may be overwritten
        if hasattr(executor, "timed"):
            seconds, results = executor.timed(call.name, given)
            return seconds, list(results)
        start = time.perf_counter()
        results = list(executor.run(call.name, given))
        return time.perf_counter() - start, results

    results = deepcopy(once()[1])
    return min(once()[0] for _ in range(runs)), results


def _data_sets(program: Program, file: Path, args: argparse.Namespace) -> list[Call]:
    """The data sets of the test blocks.  Raises UsageError if there are none."""
    from futad.errors import UsageError
    from futad.testing.blocks import read_test_file
    from futad.testing.inputs import make_input
    from futad.testing.tuner import Call

    calls = []
    for case in read_test_file(file).cases:
        left_out = {"disable", "notest", "nobench", f"no_{args.backend}"} & case.tags
        if case.entry in program.entries and args.entry in (None, case.entry) and case.expected != "error":
            f = program.entries[case.entry]
            if not left_out:
                calls.append(Call(f"{case.entry}: {case.name}", f.symbol, make_input(program, f, case)))
    if not calls:
        raise UsageError(
            f"{file} has no data sets to measure{f' for entry {args.entry}' if args.entry else ''}",
            hint="add a test block, or give sizes: --size n=1000",
        )
    return calls


def _sizes(text: str) -> dict[str, int]:
    from futad.errors import UsageError

    out = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        if not equals or not number.strip().isdigit():
            raise UsageError(f"--size is written n=1000,m=20, not '{text}'")
        out[name.strip()] = int(number)
    return out


def _generated(program: Program, entry: str | None, sizes: dict[str, int]) -> list[Call]:
    """Random arguments for an entry, or for all entries that have these sizes.  Raises UsageError."""
    from futad.errors import UsageError

    chosen = [program.entries[entry]] if entry is not None else list(program.entries.values())
    known = {name for f in chosen for name in _names(f)}
    if unknown := [n for n in sizes if n not in known]:
        raise UsageError(f"no size or number is called '{unknown[0]}'; there are: {', '.join(sorted(known)) or 'none'}")
    calls = [_random(f, sizes) for f in chosen if entry is not None or _names(f) <= set(sizes)]
    if not calls:
        raise UsageError("no entry has all its sizes given; name one with -e", hint=f"there are: {sorted(known)}")
    return calls


def _names(f: Function) -> set[str]:
    """The sizes and i64 parameters of an entry by their source names."""
    s = f.signature
    return {*s.size_names, *[p.path for p in s.params if not p.dims and p.elem.name == "i64"]}


def _random(f: Function, sizes: dict[str, int]) -> Call:
    import numpy as np

    from futad.errors import UsageError
    from futad.runtime.randomvalues import random_value
    from futad.testing.tuner import Call

    s = f.signature
    if missing := sorted(_names(f) - set(sizes)):
        raise UsageError(f"{f.entry.name} has a size or number '{missing[0]}', which --size does not give")
    numbers: list[int] = [sizes[n] for n in s.size_names]
    numbers += [sizes.get(p.path, 0) if not p.dims else 0 for p in s.params]
    rng = np.random.default_rng(0)
    leaves: list[Any] = []
    for p in s.params:
        if not p.dims and p.path in sizes:
            leaves.append(p.elem.dtype.type(sizes[p.path]))
            continue
        shape = tuple([d if isinstance(d, int) else numbers[d[1]] for d in p.dims])
        if p.elem.is_float:
            value: Any = rng.normal(size=shape).astype(p.elem.dtype)
        elif p.elem.is_integral and shape:
            # Indices, more often than not: within every array there is.
            value = rng.integers(0, max(1, min(sizes.values(), default=1)), shape).astype(p.elem.dtype)
        else:
            value = random_value(rng, p.elem, shape)
        leaves.append(value if shape else p.elem.dtype.type(value))
    label = f"{f.entry.name}: {', '.join(f'{k}={v}' for k, v in sizes.items())}"
    return Call(label, f.symbol, s.bind(leaves))
