"""Which transformations are applied to a program, and how often.

A special transformation has a name, which is declared where it is defined:

    STEP = Transformation("rows-as-one-sort", "rows are sorted as one array", worth="...")

or, if its result is right under conditions only, as a `futad.legality.Legality`, which is a `Transformation`.  Where it
is applied it says so: `STEP.fired()`, or `fired(name)`.  `counting()` counts within a `with`; elsewhere this costs a
comparison.  A version of code that a backend tries and then rejects counts, too.

`refused(reason)` says why one is not applied, to whoever is `asking()`: schedules of nests do (docs/strategies.md).

`futad dev --fires FOLDER...` prints the numbers over programs (`testing/firing.py`).  A transformation that fires in
fewer than three of them states in `worth` why it is there, and what was measured.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

DECLARED: dict[str, Transformation] = {}

_counts: Counter[str] | None = None
_asked: ContextVar[Asked | None] = ContextVar("asked", default=None)


def fired(name: str) -> None:
    """The transformation of that name was applied, once."""
    if _counts is not None:
        _counts[name] += 1


class Asked:
    """What a transformation that is tried says of itself: the last reason why it is not applied, the number by which it
    is."""

    why = ""
    number = 0


def refused(reason: str) -> Any:
    """A transformation is not applied to what is looked at, for that reason.  None, for callers to return."""
    if (asked := _asked.get()) is not None:
        asked.why = reason
    return None


def by_number(number: int) -> None:
    """It is applied by that number: of iterations, say."""
    if (asked := _asked.get()) is not None:
        asked.number = number


@contextmanager
def asking() -> Iterator[Asked]:
    """What the transformation that is tried within it says of itself; one `with` inside another has its own."""
    asked = Asked()
    before = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(before)


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Counts by name what fires within it, in all threads; one `with` inside another takes the numbers of its own."""
    global _counts
    before, _counts = _counts, Counter()
    try:
        yield _counts
    finally:
        _counts = before


class Transformation:
    """A transformation: `what` it does; `worth`: the reason and the measured gain if few programs have use for it.

    `module` is the one that declares it.  `fires=False`: an analysis that transformations ask, or rules that the
    simplifier counts by name (`futad dev --stats`); no number is kept of these.  ValueError if two have one name.
    """

    def __init__(self, name: str, what: str, *, worth: str = "", fires: bool = True) -> None:
        if name in DECLARED:
            raise ValueError(f"two transformations are called {name!r}")
        self.name, self.what, self.worth, self.fires = name, what, worth, fires
        frame = sys._getframe(1)
        while frame.f_code.co_name == "__init__" and frame.f_back is not None:
            frame = frame.f_back
        self.module: str = frame.f_globals["__name__"]
        DECLARED[name] = self

    def fired(self) -> None:
        """It was applied, once."""
        if _counts is not None:
            _counts[self.name] += 1


__all__ = ["DECLARED", "Transformation", "asking", "by_number", "counting", "fired", "refused"]
