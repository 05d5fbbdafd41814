"""`python -m futad.dual`: the ladder of the paper, and what the gradient of a program comes to (docs/dual.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from futad.core.ir import Jvp, Program, Vjp
from futad.dual.engine import DualInterpreter
from futad.dual.ladder import table
from futad.dual.resolve import Counts
from futad.errors import Error, InputError, UsageError


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m futad.dual", description="Reverse mode by dual numbers.")
    commands = p.add_subparsers(dest="command", required=True)
    ladder = commands.add_parser("ladder", help="from naive backpropagators to taping: what each rung costs")
    ladder.add_argument("--depth", type=int, default=20, metavar="K", help="operations in the chains (default: 20)")
    trace = commands.add_parser("trace", help="jobs and backpropagators of an entry's gradient")
    trace.add_argument("file", help="a .fut file")
    trace.add_argument("-e", "--entry", default="main", help="the entry (default: main)")
    trace.add_argument("--input", metavar="FILE", help="a file of values (default: those of the entry's first test)")
    trace.add_argument("--seed", type=int, metavar="N", help="random values of that seed")
    trace.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a size of random values")
    trace.add_argument("--threads", type=int, default=1, help="threads that resolve branches of forks (default: 1)")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """0, or 2 if it could not run."""
    given = parser().parse_args(argv)
    try:
        if given.command == "ladder":
            if not 0 <= given.depth <= 1000:
                raise UsageError("--depth must be from 0 to 1000")
            print(table(given.depth))
        else:
            if given.threads < 1 or (given.seed or 0) < 0:
                raise UsageError("--threads must be at least 1, --seed not negative")
            if given.input is not None and (given.size or given.seed is not None):
                raise UsageError("--size and --seed are for random values, not with --input")
            print(traced(given.file, given.entry, given.input, given.seed, given.size, given.threads))
        return 0
    except Error as e:
        e.locate({})
        print(e, file=sys.stderr)
        return 2


def traced(file: str, entry: str, data: str | None, seed: int | None, sizes: Sequence[str], threads: int) -> str:
    """What the derivatives of an entry came to: its own, if there are some in it, else its gradient."""
    from futad.source import load_program

    core = load_program(file)
    names = {f.entry.name: name for name, f in core.funs.items() if f.entry is not None}
    if entry not in names:
        raise UsageError(f"{file} has no entry '{entry}'; there are: {', '.join(names) or 'none'}")
    name = names[entry]
    engine = DualInterpreter(core, threads=threads)
    args = _arguments(core, name, file, data, seed, sizes)
    if _differentiates(core, name):
        engine.run(name, args)
        what = "the derivatives in it"
    else:
        engine.gradient(name, args)
        what = "its gradient"
    return "\n".join([f"{file}, entry {entry}: {what}", *lines(engine.counts_of_run)])


def lines(c: Counts) -> list[str]:
    """The counts as text."""
    rows = [
        ("jobs", f"{c.jobs:,} of {c.forks:,} forks; the longest chain {c.job_chain:,}"),
        ("backpropagators", f"{c.made:,}, of {c.elements:,} elements"),
        ("calls", f"{c.calls:,}; of one at most {c.most}"),
        ("longest chain", f"{c.chain:,} backpropagators, each calling the next"),
    ]
    if c.chain:
        rows.append(("available parallelism", f"{c.elements / c.chain:,.1f} elements a step of the chain"))
    return [f"  {name:<22} {text}" for name, text in rows]


def _differentiates(core: Program, name: str) -> bool:
    """Whether a derivative is taken in a function, or in those that it calls."""
    from futad.core.calls import reached

    return any(core.funs[f].body.has(Jvp, Vjp) for f in reached(core, [name]))


def _arguments(
    core: Program, name: str, file: str, data: str | None, seed: int | None, sizes: Sequence[str]
) -> list[Any]:
    """The values in a data file; else those of the entry's first test in which they are written; else random ones."""
    from futad.runtime.inputs import fit_values, read_arguments, read_data_file
    from futad.runtime.randomvalues import random_leaves, sizes_given
    from futad.runtime.values import signature_of
    from futad.testing.blocks import read_test_file

    signature = signature_of(core.funs[name])
    if data is not None:
        return read_arguments(signature, read_data_file(Path(data)), data)
    if seed is None and not sizes:
        for case in read_test_file(Path(file)).cases:
            if case.entry == signature.entry.name and case.input.kind == "values":
                return fit_values(signature, case.input.values, InputError("the values end here", case.input.place))
    return signature.bind(random_leaves(signature, 1 if seed is None else seed, sizes_given(signature, sizes)))


if __name__ == "__main__":
    sys.exit(main())
