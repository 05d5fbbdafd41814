"""Parse and type-check a program; warnings go to stderr, and nothing else is said if all is well.

With --strategy the passes of that schedule run, too, and what each makes is checked.
"""

from __future__ import annotations

import argparse
import sys

from futad.cli import options


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)
    options.add_strategy(parser)


def run(args: argparse.Namespace) -> int:
    from futad.cli.forward_passes import forward_passes
    from futad.source import load_program

    schedule = options.schedule_of(args)
    program = load_program(args.file, lambda w: print(w, file=sys.stderr))
    for w in forward_passes(program):
        print(w, file=sys.stderr)
    if schedule is not None:
        from futad.pipeline import compile_program
        from futad.target import CUDA, C

        for target in (C, CUDA) if "grids" in schedule.names else (C,):
            compile_program(program, target=target, schedule=schedule, check=True)
    return 0
