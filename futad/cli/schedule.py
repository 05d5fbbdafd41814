"""`futad dev --schedule` and `--trace-rules`: what is printed of schedules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from futad.core.ir import Program, Stm
    from futad.rewrite.schedule import Schedule
    from futad.rewrite.strategy import Stats
    from futad.target import Target


def write(program: Program | None, schedule: Schedule | None, backend: str | None) -> None:
    """Print the schedule: of one backend, if it is named, and then also what is done to each nest of the program, and
    why not more."""
    from dataclasses import replace

    from futad.pipeline import passes_of
    from futad.strategies import default
    from futad.target import target_of

    made = default() if schedule is None else schedule
    if backend is None:
        sys.stdout.write(str(made))
        return
    target = target_of(backend)
    runs = {p.name for p in passes_of(target)}
    mine = replace(made, steps=tuple([s for s in made.steps if s.strategy is not None or s.name in runs]))
    sys.stdout.write(str(replace(mine, nests=())))
    if program is not None:
        sys.stdout.write(nests(program, made, target))


def nests(program: Program, schedule: Schedule, target: Target) -> str:
    """What is done to each nest, as lines of a schedule with the reasons as comments."""
    from dataclasses import replace

    from futad.pipeline import compile_program
    from futad.rewrite.choices import Choices

    if target.code == "":
        return ""
    choices = Choices(schedule.nests)
    aimed = replace(target, choices=choices)
    core = compile_program(program, target=aimed, schedule=schedule)
    if target.code == "c":
        from futad.backend.c import CBackend

        CBackend(core, aimed)
    else:
        from futad.flatten import flatten

        flatten(core, target=aimed)
    return f"{choices}\n" if choices.nests else ""


def tracing(stats: Stats, file: str) -> None:
    """Print each application of a rule from now on: the rule, pass, place and time, the statements before and after."""
    lines = Path(file).name

    def applied(name: str, before: Stm, after: list[Stm], seconds: float) -> None:
        at = next((v.at for v in before.pat if v.at is not None), None)
        place = f"{at.file}:{at.line}" if at is not None else lines
        print(f"{name} in {stats.within} at {place}, {seconds * 1e6:.0f} us")
        print(_indented("- ", [before]))
        print(_indented("+ ", after))

    stats.applied = applied


def _indented(mark: str, stms: list[Stm]) -> str:
    return "\n".join(f"  {mark}{line}" for s in stms for line in repr(s).splitlines())


__all__ = ["nests", "tracing", "write"]
