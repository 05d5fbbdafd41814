"""Options that several subcommands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from futad.errors import UsageError

if TYPE_CHECKING:
    from futad.api import Function, Program

BACKEND_CHOICES = ("auto", "interp", "c", "multicore")


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a program (.fut)")


def add_entry(parser: argparse.ArgumentParser, required: bool = False) -> None:
    parser.add_argument(
        "-e", "--entry", metavar="ENTRY", required=required, default="main", help="the entry (default: main)"
    )


def add_backend(parser: argparse.ArgumentParser, default: str = "auto") -> None:
    parser.add_argument(
        "-b",
        "--backend",
        choices=BACKEND_CHOICES,
        default=default,
        help="what runs the program (default: %(default)s)",
    )


def load(file: str, backend: str = "auto") -> Program:
    from futad.api import load as load_program

    return load_program(file, backend=backend)


def entry_of(program: Program, name: str) -> Function:
    """The entry; raises UsageError naming the near ones."""
    if name == "main" and name not in program.entries and program.entries:
        raise UsageError(
            f"{program.name} has no entry 'main'; choose one with -e: {', '.join(program.entries)}"
        )
    return program[name]
