"""Parse and type-check a program; silent if all is well."""

from __future__ import annotations

import argparse

from futad.cli import options


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)


def run(args: argparse.Namespace) -> int:
    from futad.source import load_program

    load_program(args.file)
    return 0
