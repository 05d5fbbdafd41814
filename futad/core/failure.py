"""What a check that fails reports."""

from __future__ import annotations

from dataclasses import dataclass

from futad.core.types import Prim
from futad.errors import Span


@dataclass(frozen=True, slots=True)
class FailureSite:
    """Where the source has it, None if nowhere; for asserts the message and the types of its values."""

    span: Span | None
    message: str = ""
    types: tuple[Prim, ...] = ()
