"""Which program finds which mutant of the compiler: tests/legality/found.txt, and open.txt beside it (`mutants.py`).

Programs are recorded by their files, and tests by their names: the numbers of random programs are other programs once
a generator changes.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

from futad import legality
from futad.testing.freeze import ROOT

FOUND = ROOT / "tests" / "legality" / "found.txt"
OPEN = FOUND.with_name("open.txt")


@dataclass(slots=True)
class Outcome:
    """What became of one mutant: `found` says how, by `program`; or `tried` programs did not.  `stale`: why the
    program that is recorded for it was not tried."""

    condition: str
    found: str | None = None
    program: str = ""
    tried: int = 0
    asked: int = 0
    seconds: float = 0.0
    stale: str | None = None

    def shown(self, first: str = "") -> str:
        """A line about it; `first` is the program that is recorded, where no others are to be tried."""
        if self.found is not None:
            return f"found     {self.condition}: {self.program}: {self.found}"
        if first and self.stale is not None:
            return f"NOT TRIED {self.condition}: recorded is {first}, but {self.stale}"
        return f"SURVIVED  {self.condition}: {self.tried} of {self.asked} programs tried"


def by_number(program: str) -> bool:
    """Whether a program is named by the number that a generator makes it from."""
    return re.fullmatch(r"(core|source|skeleton) program \d+", program) is not None


def recorded() -> dict[str, str]:
    """Which program found each mutant: of the file that keeps it."""
    if not FOUND.exists():
        return {}
    lines = [line.split("\t") for line in FOUND.read_text().splitlines() if line and not line.startswith("#")]
    return {condition: program for condition, program, *_ in lines}


def still_open() -> list[str]:
    """The conditions without which nothing is known to go wrong: of the file that lists them."""
    return [line for line in OPEN.read_text().splitlines() if line and not line.startswith("#")]


def record(outcomes: Sequence[Outcome]) -> None:
    """Write down which programs found mutants, and which conditions none did, or random ones alone."""
    how = dict(line.split("\t", 1) for line in FOUND.read_text().splitlines() if "\t" in line) if FOUND.exists() else {}
    for o in outcomes:
        if o.found is None or by_number(o.program):
            how.pop(o.condition, None)
        else:
            how[o.condition] = f"{o.program}\t{o.found}"
    every = conditions()
    lines = [f"{c}\t{how[c]}\n" for c in every if c in how]
    FOUND.write_text("# condition, the program that found the mutant without it, and how\n" + "".join(lines))
    rest = [f"{c}\n" for c in every if c not in how]
    OPEN.write_text("# conditions without which no program is known to go wrong\n" + "".join(rest))


def conditions(pattern: str = "*") -> list[str]:
    """The names of all conditions that match."""
    names = [str(c) for t in legality.load_all() for c in t.conditions.values()]
    return [n for n in names if fnmatch.fnmatch(n, pattern) or pattern in n]


__all__ = ["FOUND", "OPEN", "Outcome", "by_number", "conditions", "record", "recorded", "still_open"]
