"""The C library that runs a compiled program."""

from __future__ import annotations

from typing import Any


def library_of(program: Any) -> Any:
    """The `CLibrary` of a program, which was compiled now or comes from the cache."""
    executor = program._executable.executor()
    return getattr(executor, "compiled", executor)
