"""Tables of functions by class, which fill where the functions are defined; and of what is made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F")
T = TypeVar("T")


def registering(table: dict[type, F]) -> Callable[..., Callable[[F], F]]:
    """A decorator that enters a function for the classes that it is called with: `@handles(Map, Fused)`."""

    def of(*classes: type) -> Callable[[F], F]:
        def register(f: F) -> F:
            table.update(dict.fromkeys(classes, f))
            return f

        return register

    return of


def once(f: Callable[..., T]) -> Callable[..., T]:
    """As `functools.cache`, for results that are told apart by identity: threads that call it with the same arguments
    for the first time get the same object, where `cache` gives each its own."""
    made: dict[tuple[str, ...], T] = {}

    def of(*names: str) -> T:
        return made[names] if names in made else made.setdefault(names, f(*names))

    return of


__all__ = ["once", "registering"]
