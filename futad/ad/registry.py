"""What rules ask of functions that are called: their derivatives, which are functions of the program in turn.

`calls.py` has the answers, for the program that `expand` is about.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from futad.core import ir
from futad.core.types import Var
from futad.errors import InternalError

Flags = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Sweeps:
    """The sweeps of a function, as functions: `forward` returns all results and a record; `back` takes all parameters,
    those results that are sizes (`sizes`), the record, adjoints, and an accumulator for each array parameter that is
    marked, and returns these, and then the adjoints of the scalar ones that are."""

    forward: ir.Fun
    back: ir.Fun
    sizes: tuple[int, ...]


class Functions(ABC):
    """The functions of a program that derivatives are taken of; each derivative is made once."""

    @abstractmethod
    def marked(self, e: ir.Call, active: set[Var]) -> Flags:
        """Which parameters of a call depend on the inputs; sizes have no derivatives."""

    @abstractmethod
    def flow(self, name: str, params: Flags) -> Flags:
        """Which results depend on the parameters that are so marked."""

    @abstractmethod
    def jvp(self, name: str, params: Flags) -> tuple[ir.Fun, Flags]:
        """The function of all parameters and the tangents of those marked, which returns all results and the tangents
        of some; of which."""

    @abstractmethod
    def vjp(self, name: str, params: Flags, results: Flags) -> tuple[ir.Fun, tuple[int, ...]]:
        """The function of all parameters, some results, and the adjoints of those marked, which returns the adjoints of
        the parameters marked; of which results it takes the values (they are sizes)."""

    @abstractmethod
    def sweeps(self, name: str, params: Flags, results: Flags) -> Sweeps | None:
        """The function's sweeps by themselves, for parameters and results that are marked.  None if it is to be run
        again instead of keeping records."""

    @abstractmethod
    def gradient(self, name: str, params: Flags, keeps: bool) -> tuple[ir.Fun, int] | None:
        """The function that returns all results, then the derivatives of the one that depends on the parameters
        marked; which that is.  None unless it is one float, and so are these parameters.  `keeps`: whether its body may
        keep records of what it calls."""

    @abstractmethod
    def checks(self, name: str) -> bool:
        """Whether a call has to be made though nothing needs its results."""


_current: ContextVar[Functions | None] = ContextVar("functions", default=None)


@contextmanager
def using(functions: Functions) -> Iterator[None]:
    """What rules ask for a while."""
    token = _current.set(functions)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Functions:
    """The functions of the program that is being differentiated."""
    found = _current.get()
    if found is None:
        raise InternalError("a call is differentiated apart from its program")
    return found


__all__ = ["Flags", "Functions", "Sweeps", "current", "using"]
