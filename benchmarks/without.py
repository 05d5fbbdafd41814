"""What one transformation brings: programs of `textbook/` with it, and without it, in turn in one process.

    python benchmarks/without.py "no short-inner-loops" mixture hmc         a choice of loops (docs/strategies.md)
    python benchmarks/without.py contractions convolution                   a pass
    python benchmarks/without.py shifts mixture                             a transformation with conditions
    python benchmarks/without.py --rounds 9 --size 0.5 --threads 2 ...

Prints milliseconds of the value and of the value with its gradient, the best of a round's calls, medians over the
rounds.  The figures in the tables of transformations (`worth=`) that name no other command are from here, one thread.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

TEXTBOOK = Path(__file__).resolve().parent / "textbook"
ROUND = 0.2  # seconds of calls


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left_out", metavar="WHAT", help="'no CHOICE' for all nests, or a name")
    parser.add_argument("rows", nargs="+", metavar="ROW", help="programs of benchmarks/textbook")
    parser.add_argument("--size", type=float, default=1.0, metavar="S", help="a part of each size")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    sys.path.insert(0, str(TEXTBOOK))
    from inputs import ROWS

    from futad import legality, strategies
    from futad.errors import UsageError
    from futad.pipeline import PASSES

    for name in options.rows:
        if name not in ROWS:
            parser.error(f"no program is called {name}; there are {', '.join(ROWS)}")
    whole = strategies.default()
    try:
        choice, less, left_out = options.left_out.startswith("no "), whole, nullcontext
        if choice:
            less = whole.nest("*", options.left_out)
        elif any(p.name == options.left_out for p in PASSES):
            less = whole.without(options.left_out)
        else:
            left_out = partial(legality.without, options.left_out)
        for name in options.rows:
            one_row(name, ((whole, nullcontext), (less, left_out)), options)
    except UsageError as e:  # choices are known where code is made
        parser.error(e.message)
    return 0


def one_row(name: str, ways: tuple[tuple[Any, Callable[[], Any]], ...], options: argparse.Namespace) -> None:
    from inputs import ROWS, arguments

    import futad

    args, wrt = arguments(name, options.size), tuple(range(ROWS[name].wrt))
    backend = "c" if options.threads == 1 else "multicore"
    calls: dict[str, list[Callable[..., Any]]] = {"value": [], "gradient": []}
    for schedule, left_out in ways:
        with left_out():
            entry = futad.load(TEXTBOOK / f"{name}.fut", backend=backend, schedule=schedule).value
            calls["value"].append(entry)
            calls["gradient"].append(futad.value_and_grad(entry, argnums=wrt))
            for pair in calls.values():
                pair[-1](*args)  # compiles it
    for what, pair in calls.items():
        times: tuple[list[float], ...] = ([], [])
        for _ in range(options.rounds):
            for f, found in zip(pair, times, strict=True):
                found.append(best(f, args))
        with_it, without = (1e3 * statistics.median(found) for found in times)
        print(f"{name:20} {what:9} with {with_it:.3f}  without {without:.3f}  {without / with_it:.2f}", flush=True)


def best(f: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Seconds a call, the best of as many as a round has time for."""
    found, end = math.inf, time.monotonic() + ROUND
    while time.monotonic() < end:
        start = time.perf_counter()
        f(*args)
        found = min(found, time.perf_counter() - start)
    return found


if __name__ == "__main__":
    sys.exit(main())
