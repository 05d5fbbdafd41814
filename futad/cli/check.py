"""Parse and type-check a program; warnings go to stderr, and nothing else is said if all is well."""

from __future__ import annotations

import argparse
import sys

from futad.cli import options


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)


def run(args: argparse.Namespace) -> int:
    from futad.source import load_program

    load_program(args.file, lambda w: print(w, file=sys.stderr))
    return 0
