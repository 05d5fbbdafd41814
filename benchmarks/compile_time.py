"""Time that the compiler itself takes, from source text to C text, beside that of another checkout.

    python benchmarks/compile_time.py --beside TREE [--runs N] [--without PASS...] [PATH...]

Two processes, one with this checkout and one with the other, compile the same programs in turn: processor time, the
least of N runs each.  Prints the ratio (this checkout / the other) of programs that differ most, the geometric
mean and the ratio of the sums.  A PATH is a program or a folder of them; by default `tests/programs` and
`benchmarks/programs` of this checkout.  Programs that one of the two refuses are left out.

--without leaves passes out on the other side, so that with `--beside .` it is their cost which is measured; programs
that they change are named and left out, as what comes after is then another program.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import inspect
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ("tests/programs", "benchmarks/programs")
SHOWN = 8  # programs


def worker(without: Sequence[str]) -> None:
    """For each line, a file, print the processor time of compiling it; before the first time, which of the passes
    change it.  null: it is refused.  All of it runs in one thread with a large stack, as in `backend/backends.py`,
    which takes its time, too."""
    from futad import pipeline
    from futad.backend.c import CBackend
    from futad.errors import Error
    from futad.pipeline import Trace, compile_program
    from futad.source import load_program

    kind: dict[str, Any] = {"sequential": True}  # of checkouts from before there were targets
    if "target" in inspect.signature(compile_program).parameters:
        from futad.target import C

        kind = {"target": C}

    def once(file: str) -> float:
        gc.collect()
        start = time.process_time()
        CBackend(compile_program(load_program(file), **kind)).source  # noqa: B018
        return time.process_time() - start

    def changes(file: str) -> list[str]:
        trace = Trace()
        compile_program(load_program(file), **kind, trace=trace)
        return [r.name for r in trace.records if r.name in without and r.changed]

    with contextlib.suppress(ImportError):  # of checkouts from before there were such threads
        from futad.deep import deep

        once = deep(once)
    every = list(pipeline.PASSES)
    for line in sys.stdin:
        file, first = json.loads(line)
        answer: Any = None
        with contextlib.suppress(Error):
            if first and without:
                pipeline.PASSES[:] = every
                answer = changes(file)
                pipeline.PASSES[:] = [p for p in every if p.name not in without]
            else:
                answer = once(file)
                answer = [] if first else answer
        print(json.dumps(answer), flush=True)


class Compiler:
    """A process that compiles with the checkout `tree`."""

    def __init__(self, tree: Path, without: Sequence[str]) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--worker", "--without", *without]
        env = os.environ | {"PYTHONPATH": str(tree.resolve()), "PYTHONHASHSEED": "0"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def __call__(self, file: Path, first: bool = False) -> Any:
        """Seconds, or first the passes in question that change the program; None if it is refused."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(file), first]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def programs(paths: Sequence[str]) -> Iterator[Path]:
    """The files of the paths."""
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.fut")) if path.is_dir() else [path]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", default=[str(ROOT / p) for p in DEFAULT])
    parser.add_argument("--beside", type=Path, metavar="TREE", default=ROOT, help="the other checkout")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each program (3)")
    parser.add_argument("--without", nargs="*", default=[], metavar="PASS", help="left out on the other side")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        worker(args.without)
        return 0
    sides = Compiler(ROOT, ()), Compiler(args.beside, args.without)
    rows: list[tuple[float, float, float, Path]] = []
    for file in programs(args.paths):
        changed = [side(file, True) for side in sides]
        if any(changed):
            print(f"{file.name}: changed by {', '.join(changed[1])}")
        if any(changed) or any(side(file) is None for side in sides):  # warms both up
            continue
        times: list[list[float]] = [[], []]
        for run in range(args.runs):
            for k in (0, 1) if run % 2 == 0 else (1, 0):
                times[k].append(sides[k](file))
        here, other = map(min, times)
        rows.append((here / other, here, other, file))
    for side in sides:
        side.close()
    if not rows:
        print("no programs")
        return 1
    for ratio, here, other, file in sorted(rows, reverse=True)[:SHOWN]:
        print(f"{file.name:28} {here * 1e3:9.1f} ms  beside {other * 1e3:9.1f} ms   {ratio:6.3f}")
    mean = math.exp(sum(math.log(r[0]) for r in rows) / len(rows))
    whole = sum(r[1] for r in rows) / sum(r[2] for r in rows)
    print(f"{len(rows)} programs: geometric mean {mean:.3f}, of the sums {whole:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
