"""Tasks that may run at once, in the imperative IR."""

from __future__ import annotations

from dataclasses import dataclass

from futad.imp.node import Stmt


@dataclass(slots=True, eq=False)
class Fork(Stmt):
    """Run two bodies, which may run at once.  What is declared outside and set by `second` is read after both are
    done."""

    first: list[Stmt]
    second: list[Stmt]


__all__ = ["Fork"]
