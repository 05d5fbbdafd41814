"""What one transformation brings: programs of `textbook/` with it, and without it, in turn in one process.

    python benchmarks/without.py "no short-inner-loops" mixture hmc         a choice of loops (docs/strategies.md)
    python benchmarks/without.py contractions convolution                   a pass
    python benchmarks/without.py shifts mixture                             a transformation with conditions
    python benchmarks/without.py --rounds 9 --size 0.5 --threads 2 ...
    python benchmarks/without.py independent-loops FILE:ENTRY --values '[200][200]f64'      an entry of another program

Prints milliseconds of the value and of the value with its gradient, the best of a round's calls, medians over the
rounds; of FILE:ENTRY those of a call with random values of these types: floats from 0 to 1, integers from -1 to 2.
The figures in the tables of transformations (`worth=`) that name no other command are from here, one thread.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

TEXTBOOK = Path(__file__).resolve().parent / "textbook"
ROUND = 0.2  # seconds of calls


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left_out", metavar="WHAT", help="'no CHOICE' for all nests, or a name")
    parser.add_argument("rows", nargs="+", metavar="ROW", help="programs of benchmarks/textbook, or FILE:ENTRY")
    parser.add_argument("--values", nargs="+", default=(), metavar="TYPE", help="of FILE:ENTRY, as `futad dataset -g`")
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
        if name not in ROWS and ".fut:" not in name:
            parser.error(f"no program is called {name}; there are {', '.join(ROWS)}")
    whole = strategies.default()
    try:
        choice, less, left_out = options.left_out.startswith("no "), whole, nullcontext
        if choice:
            less = whole.nest("*", options.left_out)
        elif passes := [p.name for p in PASSES if p.name in (options.left_out, f"{options.left_out}-fused")]:
            for name in passes:
                less = less.without(name)
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

    backend = "c" if options.threads == 1 else "multicore"
    path, entry_name = TEXTBOOK / f"{name}.fut", "value"
    if name in ROWS:
        args = arguments(name, options.size)
    else:
        file, entry_name = name.rsplit(":", 1)
        path, args, name = Path(file), random_values(options.values), entry_name
    calls: dict[str, list[Callable[..., Any]]] = {"value": [], "gradient": []}
    for schedule, left_out in ways:
        with left_out():
            entry = getattr(futad.load(path, backend=backend, schedule=schedule), entry_name)
            calls["value"].append(entry)
            if name in ROWS:
                calls["gradient"].append(futad.value_and_grad(entry, argnums=tuple(range(ROWS[name].wrt))))
            for pair in calls.values():
                if pair:
                    pair[-1](*args)  # compiles it
    for what, pair in calls.items():
        if not pair:
            continue
        times: tuple[list[float], ...] = ([], [])
        for _ in range(options.rounds):
            for f, found in zip(pair, times, strict=True):
                found.append(best(f, args))
        with_it, without = (1e3 * statistics.median(found) for found in times)
        print(f"{name:20} {what:9} with {with_it:.3f}  without {without:.3f}  {without / with_it:.2f}", flush=True)


def random_values(types: Sequence[str]) -> tuple[Any, ...]:
    """Values of these types (`[10][2]f64`)."""
    import numpy as np

    from futad.runtime.randomvalues import parse_type, random_value

    rng = np.random.default_rng(1)
    parsed = [parse_type(t) for t in types]
    return tuple([random_value(rng, t, shape, None if t.is_float else (-1, 2)) for t, shape in parsed])


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
