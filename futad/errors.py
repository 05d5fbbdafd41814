"""Errors a user can act on.

Every error futad raises for bad input is an `Error`.  On the command line it prints as
`FILE:LINE:COL: error: MESSAGE` followed by the source line and a caret; in Python it is an
exception with the same text, and a subclass of the Python error that its kind is an instance of: a ShapeError is a
ValueError, a BoundsError an IndexError, a FileNotFound a FileNotFoundError.  So whoever catches those in futad's own
code must let `Error` pass first.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from futad.frozen import frozen
from futad.library import place


@frozen
class Span:
    """A half-open range of source text; lines and columns count from 1."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


class Written(dict[str, str]):
    """Texts of programs that were written for the user; `origins`: what of the user's lines are, by their numbers."""

    def __init__(self, texts: Mapping[str, str], origins: Mapping[int, str]) -> None:
        super().__init__(texts)
        self.origins = origins

    def origin(self, span: Span) -> str | None:
        """What the line at a place comes from: the last one that is known, up to it."""
        return next((self.origins[n] for n in range(span.line, 0, -1) if n in self.origins), None)


class Error(Exception):
    """Base of every error that bad input can cause.

    `span` is the place in the source (or None), `source_line` the text of its first line,
    `notes` what else is known (where a size comes from), `hint` a suggestion, `code` names the page in
    docs/errors.md (errors in a program's text have one), `more` are errors independent of this one,
    found at once.  `exit_code` is what the command line returns for it.
    """

    exit_code = 1
    code = ""
    word = "error"  # before the message

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        source_line: str | None = None,
        hint: str | None = None,
        code: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        if code:
            self.code = code
        self.notes = notes
        self.more: list[Error] = []
        self.message = message
        self.span = span
        self.source_line = source_line
        self.hint = hint

    def locate(self, texts: Mapping[str, str]) -> None:
        """Take the source line from the text of the file, or from the file itself."""
        for other in self.more:
            other.locate(texts)
        if self.span is None or self.source_line is not None:
            return
        self.source_line = line_of(texts, self.span)
        if isinstance(texts, Written) and (origin := texts.origin(self.span)) is not None:
            self.notes = (*self.notes, origin)

    def __str__(self) -> str:
        text = f"{self.message} [{self.code}]" if self.code and self.span else self.message
        out = show_at(self.span, self.word, text, self.source_line)
        for note in self.notes:
            out += f"\nnote: {note}"
        if self.hint:
            out += f"\nhint: {self.hint}"
        return "\n".join([out, *map(str, self.more)])


def line_of(texts: Mapping[str, str], span: Span) -> str | None:
    """The line at a place, from the text of its file or else from the file; None if it cannot be had."""
    text = texts.get(span.file)
    try:
        text = place(Path(span.file)).read_text(encoding="utf-8-sig") if text is None else text
    except (OSError, ValueError):
        return None
    lines = text.split("\n")
    return lines[span.line - 1].rstrip("\r") if 1 <= span.line <= len(lines) else None


def show_at(span: Span | None, what: str, text: str, line: str | None) -> str:
    """`FILE:LINE:COL: what: text`, with the source line and a caret under the place."""
    out = f"{span}: {what}: {text}" if span else f"{what}: {text}"
    if span and line and not line.isspace():
        width = max(1, span.end_col - span.col) if span.end_line == span.line else 1
        line, before = _around(line, span.col - 1)
        pad = "".join("\t" if c == "\t" else " " for c in line[:before])
        out += f"\n{line}\n{pad}{'^' * min(width, max(1, len(line) - before))}"
    return out


LONGEST = 320  # characters of a line that are shown


def _around(line: str, at: int) -> tuple[str, int]:
    """What is shown of a line, and where the place in it is there."""
    if len(line) <= LONGEST:
        return line, at
    start = max(0, at - LONGEST // 4)
    shown = line[start : start + LONGEST]
    head, tail = "..." if start else "", "..." if start + LONGEST < len(line) else ""
    return head + shown + tail, at - start + len(head)


@dataclass(slots=True)
class Lint:
    """What is allowed but probably not meant; prints as an error does."""

    message: str
    span: Span
    source_line: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        out = show_at(self.span, "warning", self.message, self.source_line)
        return f"{out}\nhint: {self.hint}" if self.hint else out


class FutadWarning(UserWarning):
    """Something works, but not as well as it could; the text says what to do."""


def outside(e: Error) -> Error:
    """The error as calls from outside raise it: without frames of futad's own, unless FUTAD_DEBUG asks for them.

    Those of a defect of futad itself stay."""
    if isinstance(e, InternalError) or os.environ.get("FUTAD_DEBUG", "0") not in ("", "0"):
        return e
    e.__cause__, e.__context__ = None, None
    return e.with_traceback(None)


def warn(text: str) -> None:
    """A FutadWarning at the line that called futad: the first one that is not in a file of futad's own."""
    own = f"{Path(__file__).parent}{os.sep}"
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FutadWarning, stacklevel=level)


class UsageError(Error):
    """The command line or a Python call was used wrongly (unknown entry, backend, option)."""

    exit_code = 2


class SourceError(Error):
    """Base of errors in a program's text."""


class ParseError(SourceError):
    """The text is not a program."""

    code = "E0101"


class ScopeError(SourceError, NameError):
    """A name is unknown, or defined twice."""

    code = "E0201"


class TypeCheckError(SourceError, TypeError):
    """Types, ranks or sizes do not fit."""

    code = "E0301"


class ConsumptionError(SourceError):
    """A value is used after it was consumed by an in-place update."""

    code = "E0501"


class RuleError(SourceError):
    """A rewrite rule as text is none, or is not right."""

    code = "E1001"


class UnsupportedError(SourceError, NotImplementedError):
    """A legal program that this version does not compile; the message says what to write instead."""

    code = "E0801"


class TraceError(SourceError, TypeError):
    """A function of Python does with a traced value what needs a number, or what the values do not fit; the place is
    the user's."""


class InputError(Error, ValueError):
    """Input values that cannot be read, or do not fit an entry's parameters."""


class ShapeError(InputError):
    """An argument's shape does not fit; the message names the argument."""


class DtypeError(InputError, TypeError):
    """An argument's dtype does not fit; the message names the argument."""


class FileError(Error, OSError):
    """A file is missing, unreadable or malformed; `errno` and `filename` are the system's, where it refused it."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Python's own copies an OSError's fields only where it was made of them.
        fields = {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return type(self), self.args, {**self.__dict__, **fields}


class FileNotFound(FileError, FileNotFoundError):
    """There is no such file."""


def file_error(doing: str, path: object, why: Exception, place: Span | None = None, *, code: str = "") -> FileError:
    """The error of a file that the system refused: `cannot DOING PATH`, and its reason."""
    strerror = getattr(why, "strerror", None)
    made = FileNotFound if isinstance(why, FileNotFoundError) else FileError
    error = made(f"cannot {doing} {path}: {strerror or why}", place, code=code)
    error.errno, error.strerror, error.filename = getattr(why, "errno", None), strerror, str(path)
    return error


class ExecutionError(Error, RuntimeError):
    """The program failed while running."""

    word = "Error"  # as in Futhark, whose tests expect it


class BoundsError(ExecutionError, IndexError):
    """An index was out of bounds; the message names the source line, the index and the size of its dimension."""


class DivisionByZero(ExecutionError, ZeroDivisionError):
    """An integer was divided by zero."""


class AssertionFailed(ExecutionError, AssertionError):
    """A size check or an `assert` in the program failed."""


class OutOfMemory(ExecutionError, MemoryError):
    """A value does not fit in memory."""


class TooDeep(ExecutionError, RecursionError):
    """Recursive functions call each other more often than there is room for."""


# What checks of running programs say, as templates: in Futhark's words where it has such a check.
OUT_OF_BOUNDS = "Index [{}] out of bounds for array of shape [{}]."
SLICE_OUT_OF_BOUNDS = "Index [{}:{}] out of bounds for array of shape [{}]."
DIVISION_BY_ZERO = "division by zero"
NEGATIVE_SIZE = "Range 0..1..<{} is invalid: an array of negative size is needed"
INVALID_SIZES = "entry point arguments have invalid sizes"  # Futhark says no more
EXCEEDS = "an array is needed whose size exceeds the address space"
TOO_DEEP = "recursion is deeper than {} calls (a stack of {} MiB)"  # of compiled code


def failed_check(template: str, message: str, place: Span | None) -> ExecutionError:
    """The error of a failed check: `template` is the compiler's own text; `message` has the values in its places."""
    if template.startswith(OUT_OF_BOUNDS[:7]):  # of slices, too
        return BoundsError(message, place)
    return {DIVISION_BY_ZERO: DivisionByZero, TOO_DEEP: TooDeep}.get(template, AssertionFailed)(message, place)


def negative_size(n: int) -> OutOfMemory:
    """The error of an array that would have a negative size, where the place is not known."""
    return OutOfMemory(NEGATIVE_SIZE.replace("{}", str(n)))


class DeviceError(ExecutionError):
    """The GPU or its driver failed during a call; the message names the kernel, where it is known, and the cause."""


class BackendError(Error, RuntimeError):
    """A backend cannot be used here (no compiler, no GPU); the message says what to install."""


class InternalError(Error):
    """A defect of futad itself: a pass produced a program that does not check."""


class CheckFailure(InternalError):
    """Checked execution (docs/checking.md) found that compiled code does not do what the program says."""


# Names of earlier versions.
_FORMER: dict[str, type] = {
    "AssertionError_": AssertionFailed,
    "MemoryError_": OutOfMemory,
    "NameError_": ScopeError,
    "RuntimeError_": ExecutionError,
    "TypeError_": TypeCheckError,
    "ValueError_": InputError,
    "Warning_": Lint,
}


def former(module: str, name: str) -> type:
    """The class that had the name in an earlier version, with a DeprecationWarning for whoever asked the module.

    Raises AttributeError if there is none.
    """
    found = _FORMER.get(name)
    if found is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{module}.{name} is now called {found.__name__}", DeprecationWarning, stacklevel=3)
    return found


def __getattr__(name: str) -> type:
    return former(__name__, name)
