"""`python -m futad.testing.fuzz`: random programs against the compiler, for a given time."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from futad import checks
from futad.errors import Error, UsageError
from futad.runtime import cc
from futad.testing.fuzz.batch import Task
from futad.testing.fuzz.budgets import drawn
from futad.testing.fuzz.cases import KINDS, MODES, SOURCE, kinds_named
from futad.testing.fuzz.report import Report, append
from futad.testing.fuzz.workers import Pool

BATCH = 28  # programs in one file
# Of how many files in a hundred: a program of `multicore` takes the C compiler four times as long.
SHARES = {"c": 60, "emulated": 25, "multicore": 15, "interp": 1, "cuda": 30, "middle": 5, "passes": 1}

OFTEN = {"inplace": 5}  # kinds that are many kinds of program


def tasks(
    seed: int, kinds: Sequence[str], backends: Sequence[str], every: bool, modes: tuple[str, ...], shrink: float,
    budgeted: bool = False,
) -> Iterator[Task]:
    """Files of programs without end: all kinds in turn, programs of a file from one kind of source text, and all or
    none with budgets: loops that are run again have the whole file compiled otherwise."""
    rng = random.Random(f"tasks {seed}")
    number = turn = iteration = 0
    mixed = [k for k in kinds if k != SOURCE for _ in range(OFTEN.get(k, 1))]
    waiting: dict[tuple[bool, bool], list[tuple[str, int]]] = {}
    while True:
        source = SOURCE in kinds and (not mixed or turn % 8 == 7)
        turn += 1
        for _ in range(BATCH // 2 if source else BATCH):
            kind = SOURCE if source else mixed[iteration % len(mixed)]
            iteration += not source
            one = (kind, seed * 1_000_000 + rng.randrange(1_000_000))
            waiting.setdefault((source, drawn(*one, budgeted) is not None), []).append(one)
        for (source, _), programs in waiting.items():
            if len(programs) < (size := BATCH // 2 if source else BATCH):
                continue
            chosen = tuple(programs[:size])
            del programs[:size]
            elem = "f32" if rng.random() < 0.08 else "f64"
            shares = [SHARES.get(b, 10) for b in backends]
            for backend in backends if every else rng.choices(list(backends), shares):
                yield Task(number, backend, elem, chosen, modes, shrink, budgeted)
            number += 1


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m futad.testing.fuzz",
        description="Random programs against the compiler: values and derivatives on compiled backends must be the "
        "interpreter's, derivatives those by dual numbers, reverse mode must agree with forward mode, and smooth "
        "programs with central differences.  Backend 'interp' compares derivatives alone, "
        "'passes' checks the IR after each pass and compiles no C.",
        epilog=f"Kinds: all (the default), skeletons, {', '.join(KINDS)}.",
    )
    p.add_argument("--seconds", type=float, default=60, help="for how long (default 60)")
    p.add_argument("--programs", type=int, default=0, help="stop after as many programs")
    p.add_argument("--seed", type=int, default=1, help="other seeds are other programs (default 1)")
    p.add_argument("--kinds", default="all", help="which programs, comma-separated")
    p.add_argument("--modes", default="", help=f"derivatives of every program (else drawn): {', '.join(MODES)}")
    p.add_argument("--budgets", action="store_true", help="every program under budgets (else one in five)")
    p.add_argument("--backends", default="c,multicore,emulated", help="comma-separated")
    p.add_argument("--check", default="", help="checks that programs carry (docs/checking.md): memory, values, lanes")
    p.add_argument("--every-backend", action="store_true", help="each program on all of them (else on one, drawn)")
    p.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    p.add_argument("--limit", type=float, default=30, help="seconds for a program before it counts as hanging")
    p.add_argument("--shrink", type=float, default=0, help="seconds for making each program that went wrong smaller")
    p.add_argument("--keep", type=Path, help="a folder for the programs that went wrong")
    p.add_argument("--fires", action="store_true", help="print which transformations were applied, which never")
    p.add_argument("--log", type=Path, help="a file that the run's sums are appended to, as a line of JSON")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """0 if nothing was found, 1 if something was, 2 if it could not run."""
    given = parser().parse_args(argv)
    try:
        kinds = kinds_named([k for k in given.kinds.split(",") if k])
        modes = tuple(m for m in given.modes.split(",") if m)
        backends = [b for b in given.backends.split(",") if b]
        for name, known in ((m, MODES) for m in modes):
            if name not in known:
                raise UsageError(f"no derivative is called '{name}'; there are: {', '.join(known)}")
        for b in backends:
            if b not in SHARES:
                raise UsageError(f"backend '{b}' is not one of {', '.join(SHARES)}")
        if not backends or given.jobs < 1 or given.seconds <= 0:
            raise UsageError("--backends names none, or --jobs or --seconds is not positive")
        cc.find_compiler()
        os.environ.setdefault("OMP_NUM_THREADS", "3")  # of `multicore`
        with checks.also(*[name for name in given.check.split(",") if name]):
            checks.modes()
            return _run(given, kinds, modes, backends)
    except Error as e:
        print(e, file=sys.stderr)
        return 2


def _run(given: argparse.Namespace, kinds: list[str], modes: tuple[str, ...], backends: list[str]) -> int:
    report = Report(sys.stdout, given.keep)
    pool = Pool(given.jobs, given.limit)
    end = time.monotonic() + given.seconds
    started = 0

    def coming() -> Iterator[Task]:
        nonlocal started
        for task in tasks(given.seed, kinds, backends, given.every_backend, modes, given.shrink, given.budgets):
            if time.monotonic() >= end or 0 < given.programs <= started:
                return
            started += len(task.programs)
            yield task

    try:
        for outcome in pool.outcomes(coming()):
            report.add(outcome)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        pool.close()
    print(report.table())
    if given.fires:
        print(report.coverage())
    report.progress()
    if report.ties:
        print(f"{report.ties} programs where rounding decides: not counted as findings")
    if given.log is not None:
        sums = append(given.log, report.summary(given.seed))
        print(f"{given.log}: " + ", ".join(f"{n} {k}" for k, n in sums.items()))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
