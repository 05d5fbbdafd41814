"""Errors a user can act on.

Every error futad raises for bad input is an `Error`.  On the command line it prints as
`FILE:LINE:COL: error: MESSAGE` followed by the source line and a caret; in Python it is an
exception with the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open stretch of source text; lines and columns count from 1."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


class Error(Exception):
    """Base of every error that bad input can cause.

    `span` is the place in the source (or None), `source_line` the text of its first line,
    `hint` a suggestion.  `exit_code` is what the command line returns for it.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        source_line: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.source_line = source_line
        self.hint = hint

    def locate(self, texts: Mapping[str, str]) -> None:
        """Take the source line from the text of the file, or from the file itself."""
        if self.span is None or self.source_line is not None:
            return
        text = texts.get(self.span.file)
        try:
            text = Path(self.span.file).read_text(encoding="utf-8-sig") if text is None else text
        except (OSError, ValueError):
            return
        lines = text.split("\n")
        if 1 <= self.span.line <= len(lines):
            self.source_line = lines[self.span.line - 1].rstrip("\r")

    def __str__(self) -> str:
        out = f"{self.span}: error: {self.message}" if self.span else f"error: {self.message}"
        if self.span and self.source_line and not self.source_line.isspace():
            width = 1
            if self.span.end_line == self.span.line:
                width = max(1, self.span.end_col - self.span.col)
            pad = "".join("\t" if c == "\t" else " " for c in self.source_line[: self.span.col - 1])
            out += f"\n{self.source_line}\n{pad}{'^' * width}"
        if self.hint:
            out += f"\nhint: {self.hint}"
        return out


class UsageError(Error):
    """The command line or a Python call was used wrongly (unknown entry, backend, option)."""

    exit_code = 2


class SourceError(Error):
    """Base of errors in a program's text."""


class ParseError(SourceError):
    """The text is not a program."""


class NameError_(SourceError):
    """A name is unknown, or defined twice."""


class TypeError_(SourceError):
    """Types, ranks or sizes do not fit."""


class ConsumptionError(SourceError):
    """A value is used after it was consumed by an in-place update."""


class UnsupportedError(SourceError):
    """A legal program that this version does not compile; the message says what to write instead."""


class ValueError_(Error):
    """Input values that cannot be read, or do not fit an entry's parameters."""


class ShapeError(ValueError_):
    """An argument's shape does not fit; the message names the argument."""


class DtypeError(ValueError_):
    """An argument's dtype does not fit; the message names the argument."""


class FileError(Error):
    """A file is missing, unreadable or malformed."""


class RuntimeError_(Error):
    """The program failed while running."""


class BoundsError(RuntimeError_):
    """An index was out of bounds; the message names the source line, the index and the size."""


class AssertionError_(RuntimeError_):
    """A size check or an `assert` in the program failed."""


class MemoryError_(RuntimeError_):
    """A value does not fit in memory."""


class BackendError(Error):
    """A backend cannot be used here (no compiler, no GPU); the message says what to install."""


class InternalError(Error):
    """A defect of futad itself: a pass produced a program that does not check."""
