"""When a transformation is legal, said once, and switched off one condition at a time to see who notices.

A transformation that moves, shares, reuses, drops or reorders something declares at the top of its file what must hold
for the result to be right:

    LEGAL = Legality("fusion", "a producer's body runs where its only consumer runs")
    UNWRITTEN = LEGAL.condition("inputs unwritten between", "the producer would read what was written since")

and asks each condition where it decides:

    if not UNWRITTEN(not written & inputs):
        return None

A condition is called with whether it holds and answers that.  It stands for what makes the result *right*; whether a
transformation pays (sizes, costs) is decided by plain code, and so is what kind of statement it knows how to handle.

A *mutant* is the compiler with one condition dropped: it then answers True whatever it is told.  `dropping(name)` does
that within a `with`, the variable FUTAD_MUTANT=TRANSFORMATION/CONDITION in a whole process (it is part of the keys that
compiled programs are kept under).  `python -m futad.testing.mutants` looks whether the tests notice each.  Where code
after a dropped condition would not even run, that counts as noticed only if it is an internal error; so a condition
that guards an operand's existence is written `if x is None: return` and is none of these.

The other way round, `without(name)` and FUTAD_MUTANT=TRANSFORMATION have all conditions of a transformation fail, so
that it is never applied: what it brings is measured so (`benchmarks/without.py`).

A `Legality` is a `futad.fires.Transformation`: it says `LEGAL.fired()` where it is applied.

`refusals` counts how often a condition said no: programs for which it stays 0 cannot notice that it is gone.

`futad dev --legality` prints all conditions; docs/legality.md is that list, written anew by sending it there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from futad.errors import UsageError
from futad.fires import DECLARED, Transformation, refused

VARIABLE = "FUTAD_MUTANT"

# Folders whose files declare transformations; `load_all` imports them, drivers first: these and what registers itself
# with them import each other.
DRIVERS = ("futad.core.check", "futad.core.interp", "futad.imp.lower", "futad.flatten.lower")
FOLDERS = ("core", "rewrite", "optimise", "ad", "accs", "imp", "flatten", "backend", "distributed")

class Condition:
    """Something that must hold for a transformation's result to be right, and why."""

    __slots__ = ("dropped", "legality", "module", "name", "reason", "refusals", "why")

    def __init__(self, legality: Legality, name: str, why: str, module: str) -> None:
        self.legality, self.name, self.why, self.module = legality, name, why, module
        self.reason = f"it has to be shown that '{name}', or else {why}"
        self.dropped = os.environ.get(VARIABLE) == str(self)
        self.refusals = 0

    def __call__(self, holds: object) -> bool:
        """Whether the condition holds, as the caller found out; True where it is dropped."""
        if holds and not self.legality.off:
            return True
        self.refusals += 1
        refused(self.reason)
        return self.dropped

    def __str__(self) -> str:
        return f"{self.legality.name}/{self.name}"

    def __repr__(self) -> str:
        return f"Condition({str(self)!r})"


class Legality(Transformation):
    """A transformation with the conditions under which its result is right."""

    def __init__(self, name: str, what: str, *, worth: str = "", fires: bool = True) -> None:
        super().__init__(name, what, worth=worth, fires=fires)
        self.conditions: dict[str, Condition] = {}
        self.off = os.environ.get(VARIABLE) == name

    def condition(self, name: str, why: str) -> Condition:
        """A condition of this transformation: `name` says what must hold, `why` what goes wrong where it does not."""
        if name in self.conditions:
            raise ValueError(f"two conditions of {self.name!r} are called {name!r}")
        self.conditions[name] = made = Condition(self, name, why, sys._getframe(1).f_globals["__name__"])
        return made


def load_all() -> list[Legality]:
    """Every transformation that declares conditions, by name; the others are in `fires.DECLARED` then, too."""
    package = Path(__file__).parent
    for driver in DRIVERS:
        import_module(driver)
    for folder in FOLDERS:
        for path in sorted((package / folder).rglob("*.py")):
            if any(f"{kind}(" in path.read_text() for kind in ("Legality", "Transformation")):
                parts = path.relative_to(package).with_suffix("").parts
                import_module(".".join(["futad", *[p for p in parts if p != "__init__"]]))
    return [t for _, t in sorted(DECLARED.items()) if isinstance(t, Legality)]


def conditions() -> str:
    """The list of all transformations and their conditions, as Markdown."""
    every = load_all()
    lines = [
        "# What makes each transformation legal",
        "",
        "`futad dev --legality` prints this page. A transformation is applied where all of its conditions hold; beside",
        "each stands what goes wrong without it. `python -m futad.testing.mutants` drops them one at a time and looks",
        "whether the tests notice.",
    ]
    for t in every:
        path = t.module.replace(".", "/") + ".py"
        lines += ["", f"## {t.name}", "", f"`{path}`: {t.what}.", "", "| must hold | or else |", "|---|---|"]
        # Those of its own file first; which of the others is imported first differs.
        ordered = sorted(t.conditions.values(), key=lambda c: (c.module != t.module, c.module))
        lines += [f"| {c.name} | {c.why} |" for c in ordered]
    return "\n".join(lines) + "\n"


def find(name: str) -> Condition:
    """The condition called TRANSFORMATION/CONDITION; UsageError if there is none."""
    transformation, _, condition = name.partition("/")
    found = {t.name: t for t in load_all()}
    try:
        return found[transformation].conditions[condition]
    except KeyError:
        raise UsageError(f"no condition is called {name!r}", hint="futad dev --legality lists them") from None


def intact() -> bool:
    """Whether no condition is dropped now, so that what was found out of a program before still holds."""
    return not _within[0]


_within = [0]  # calls of `dropping`


@contextmanager
def dropping(*names: str) -> Iterator[None]:
    """Within it these conditions (TRANSFORMATION/CONDITION) answer True."""
    conditions = [find(name) for name in names]
    _within[0] += 1
    before = [c.dropped for c in conditions]
    for c in conditions:
        c.dropped = True
    try:
        yield
    finally:
        for c, was in zip(conditions, before, strict=True):
            c.dropped = was
        _within[0] -= 1


@contextmanager
def without(name: str) -> Iterator[None]:
    """Within it, and in processes started there, no condition of that transformation holds; UsageError if there is none
    of that name that has conditions."""
    found = next((t for t in load_all() if t.name == name and t.conditions), None)
    if found is None:
        raise UsageError(f"no transformation with conditions is called {name!r}", hint="see futad dev --legality")
    before, os.environ[VARIABLE] = os.environ.get(VARIABLE), name
    found.off = True
    try:
        yield
    finally:
        found.off = False
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
