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
    from futad.core.budget import Budget
    from futad.core.ir import Program as Core
    from futad.rewrite.schedule import Schedule

BACKEND_CHOICES = ("auto", "interp", "c", "multicore", "cuda", "emulated")


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a program (.fut)")


def add_entry(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-e", "--entry", metavar="ENTRY", default="main", help="the entry (default: main)")


def add_backend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-b",
        "--backend",
        type=_backend,
        default="auto",
        metavar="BACKEND",
        help=f"what runs the program: {', '.join(BACKEND_CHOICES)} (default: %(default)s)",
    )


def _backend(name: str) -> str:
    if name not in BACKEND_CHOICES:
        raise argparse.ArgumentTypeError(f"no backend is called '{name}'; there are: {', '.join(BACKEND_CHOICES)}")
    return name


def add_budget(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what reverse mode may keep of loops (docs/memory.md); one of the first three")
    group.add_argument("--memory", metavar="SIZE", help="bytes that loops keep: 64MB, 4MiB, 512kB, 1000000")
    group.add_argument("--checkpoints", metavar="N", help="states that a loop keeps beside its first one, or 'log'")
    group.add_argument("--reruns", metavar="N", help="how often an iteration may be run")
    group.add_argument("--method", metavar="HOW", help="where to split: binomial (the fewest runs) or bisection")
    group.add_argument("--reversible", metavar="HOW", help="undo iterations: on, off, exact, or a tolerance (1e-10)")


def add_strategy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strategy", metavar="FILE", help="a schedule: passes, rules, and what is done to loops (docs/strategies.md)"
    )


def schedule_of(args: argparse.Namespace) -> Schedule | None:
    """The schedule in the file that `--strategy` names, checked.  Raises UsageError and FileError."""
    if args.strategy is None:
        return None
    from futad.strategies import load_schedule

    return load_schedule(args.strategy)


def budget_of(args: argparse.Namespace) -> Budget | None:
    """The budget that the options of a command say.  Raises UsageError."""
    if all(x is None for x in (args.memory, args.checkpoints, args.reruns, args.method, args.reversible)):
        return None
    from futad.core import budget

    reversible = None if args.reversible is None else budget.reversible_of(args.reversible)
    states, times = _number(args.checkpoints), _number(args.reruns)
    return budget.budget_of(
        memory=args.memory, checkpoints=states, reruns=times, method=args.method, reversible=reversible
    )


def _number(text: str | None) -> int | str | None:
    """A number where the text is one."""
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else text


def load(
    file: str, backend: str = "auto", budget: Budget | None = None, schedule: Schedule | None = None
) -> Program:
    """The program of a file, whose derivatives have that budget, by that schedule.  Raises as `futad.load`."""
    from futad.api.program import Program, load

    plain = load(file, backend=backend, schedule=schedule)
    if budget is None:
        return plain
    return Program(plain.core, backend=backend, name=file, budget=budget, schedule=schedule)


def load_core(file: str, budget: Budget | None = None) -> Core:
    """Its core IR, before any pass."""
    from futad.source import load_program

    if budget is None:
        return load_program(file)
    from futad.core.budget import budgeted

    return budgeted(load_program(file), budget)


@contextmanager
def killable() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the process at once: Python's own handlers would wait until compiled code returns."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number in before:
            signal.signal(number, before[number])


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
