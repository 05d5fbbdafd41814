"""What reports of checked execution name (docs/checking.md): lowering numbers them, whoever reports looks them up."""

from __future__ import annotations

from dataclasses import dataclass

from futad.errors import Span


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable, what makes it, about where in the source, and the number of the loop around."""

    name: str
    what: str
    span: Span | None
    loop: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop whose iterations are known: what it is, about where, and the number of the loop around."""

    what: str
    span: Span | None
    outer: int
