"""Options that several subcommands share."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from futad.errors import UsageError

if TYPE_CHECKING:
    from futad.api.program import Function, Program

BACKEND_CHOICES = ("auto", "interp", "c", "multicore", "cuda", "emulated")


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
        type=_backend,
        default=default,
        metavar="BACKEND",
        help=f"what runs the program: {', '.join(BACKEND_CHOICES)} (default: %(default)s)",
    )


def _backend(name: str) -> str:
    if name not in BACKEND_CHOICES:
        raise argparse.ArgumentTypeError(f"no backend is called '{name}'; there are: {', '.join(BACKEND_CHOICES)}")
    return name


def load(file: str, backend: str = "auto") -> Program:
    from futad.api.program import load as load_program

    return load_program(file, backend=backend)


@contextmanager
def killable() -> Iterator[None]:
    """Ctrl-C ends the process at once: Python's own handler would wait until compiled code returns."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


T = TypeVar("T")


def entry_of(program: Program, name: str) -> Function:
    """The entry; raises UsageError naming the near ones."""
    return choose(program.name, name, program.entries)


def choose(program: str, name: str, entries: Mapping[str, T]) -> T:
    """The item of that name; raises UsageError naming the near ones."""
    if name in entries:
        return entries[name]
    from difflib import get_close_matches

    if not entries:
        raise UsageError(f"{program} has no entry '{name}', nor any other (declare one with `entry`)")
    near = [] if name == "main" else get_close_matches(name, entries, n=3)
    if near:
        raise UsageError(f"{program} has no entry '{name}'; did you mean {' or '.join(near)}?")
    raise UsageError(f"{program} has no entry '{name}'; choose one with -e: {', '.join(entries)}")
