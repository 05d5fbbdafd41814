"""Tables of functions by class, which fill where the functions are defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F")


def registering(table: dict[type, F]) -> Callable[..., Callable[[F], F]]:
    """A decorator that enters a function for the classes that it is called with: `@handles(Map, Fused)`."""

    def of(*classes: type) -> Callable[[F], F]:
        def register(f: F) -> F:
            table.update(dict.fromkeys(classes, f))
            return f

        return register

    return of


__all__ = ["registering"]
