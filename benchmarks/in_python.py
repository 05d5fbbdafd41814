"""Programs written in Python beside the same ones as `.fut` files.

    python benchmarks/in_python.py [PROGRAM ...] [--backend c] [--runs N] [--small] [--json OUT]

Values and gradients of `python_programs.py` are timed in turn with those of `programs/`, in one process; medians are
compared.  On `c` (one thread) the clock is the process's CPU time, on other backends the wall's.  Exit status 1 if the
answers differ, or if Python's takes more than 1.05 of the time of the `.fut` file's (on `c`, of inputs that are not
`--small`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import cases
import numpy as np
from python_programs import PROGRAMS

import futad

HERE = Path(__file__).resolve().parent
LIMIT = 1.05
SIZES = {
    "gmm": (1000, 32, 25), "kmeans": (100, 10000, 16), "lstm": (64, 20, 64, 64), "ode": (10000, 100), "lse": (160000,)
}  # fmt: skip
SMALL = {"gmm": (20, 3, 4), "kmeans": (3, 40, 2), "lstm": (2, 3, 4, 5), "ode": (7, 4), "lse": (100,)}


def on(f: Any, backend: str) -> Any:
    """The function for a backend."""
    return futad.compile(f.source(), f.__name__, backend=backend)[f.entry.name]


def ratio(one: Any, other: Any, args: tuple[Any, ...], runs: int, clock: Any) -> tuple[float, float, float]:
    """The medians of both, in milliseconds, and the median of the ratios of neighbouring turns.

    A turn calls each so often that it takes 20 ms, one before the other and the other way round.
    """
    one(*args), other(*args)
    start = clock()
    one(*args)
    repeat = max(1, int(0.02 / max(clock() - start, 1e-6)))
    times: list[tuple[float, float]] = []
    for turn in range(runs):
        taken = [0.0, 0.0]
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            f = (one, other)[which]
            start = clock()
            for _ in range(repeat):
                f(*args)
            taken[which] = (clock() - start) / repeat * 1e3
        times.append((taken[0], taken[1]))
    a, b = [statistics.median(t) for t in zip(*times, strict=True)]
    return a, b, statistics.median([x / y for x, y in times])


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two results are."""
    parts = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
    return all(np.allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y).max()) for x, y in parts)


def main(argv: list[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}; by default all")
    parser.add_argument("--backend", default="c")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    if unknown := [p for p in options.programs if p not in PROGRAMS]:
        parser.error(f"no program {unknown[0]!r}; there are: {', '.join(PROGRAMS)}")
    clock = time.process_time if options.backend == "c" else time.perf_counter
    rows, failed = [], False
    print(f"{'':8}{'':10}{'Python':>11}{'.fut':>11}{'ratio':>8}   backend {options.backend}, milliseconds")
    for name in options.programs or PROGRAMS:
        value, gradient, *entries = PROGRAMS[name]
        case = getattr(cases, name)(*(SMALL if options.small else SIZES)[name])
        program = futad.load(HERE / "programs" / f"{name}.fut", backend=options.backend)
        for what, f, entry in zip(("value", "gradient"), (value, gradient), entries, strict=True):
            ours, theirs = on(f, options.backend), program[entry]
            if not same(ours(*case.args), theirs(*case.args), case.tolerance):
                print(f"{name}: {what}: the answers differ")
                failed = True
                continue
            a, b, r = ratio(ours, theirs, case.args, options.runs, clock)
            over = r > LIMIT and options.backend == "c" and not options.small
            failed |= over
            print(f"{name:8}{what:10}{a:11.3f}{b:11.3f}{r:8.3f}{'   over the limit of 1.05' if over else ''}")
            rows.append({"program": name, "what": what, "size": case.size, "python": a, "fut": b, "ratio": r})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
