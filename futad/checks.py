"""What is checked beside what programs check themselves: `FUTAD_CHECK`, and what sets it for a while.

Every folder may ask; this is the one place that answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from futad.errors import UsageError

if TYPE_CHECKING:
    from futad.core.checker import Checker
    from futad.core.ir import Program

VARIABLE = "FUTAD_CHECK"
IR, MEMORY, VALUES, LANES = "ir", "memory", "values", "lanes"
MODES = (IR, MEMORY, VALUES, LANES)
EXECUTION = frozenset({MEMORY, VALUES, LANES})  # what compiled programs carry; IR is of the compiler, see core/check.py
_chosen: ContextVar[frozenset[str] | None] = ContextVar("chosen", default=None)  # by `checking`


def modes() -> frozenset[str]:
    """The checks that the environment asks for, see docs/checking.md.  Raises UsageError for one there is not."""
    chosen = _chosen.get()
    if chosen is None:
        names = [part.strip() for part in os.environ.get(VARIABLE, "").split(",")]
        chosen = frozenset(name for name in names if name)
    unknown = sorted(chosen.difference(MODES))
    if unknown:
        raise UsageError(f"{VARIABLE}: there is no check '{unknown[0]}'; there are: {', '.join(MODES)}")
    return chosen


def checked(program: Program, name: str, before: Checker | None = None) -> Checker | None:
    """`core.check.check_program` of what the pass of that name made, if IR is asked for (`futad test` and
    `futad gradcheck` do).  Raises InternalError, which names the pass."""
    if IR not in modes():
        return None
    from futad.core.check import check_program

    return check_program(program, name, before)


@contextmanager
def also(*more: str) -> Iterator[None]:
    """Within it, or within the function it decorates, these checks besides those that the environment asks for."""
    with checking(modes() | set(more)):
        yield


@contextmanager
def checking(chosen: Iterable[str]) -> Iterator[None]:
    """Programs that this thread makes ready inside carry these checks, whatever the environment says."""
    before = _chosen.set(frozenset(chosen))
    try:
        yield
    finally:
        _chosen.reset(before)
