"""Where in the user's file a traced operation stands, and what the values there are called."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import NoReturn

from futad.errors import Span, TraceError, UsageError

_OWN = (str(Path(__file__).parent), str(Path(__file__).parent.parent / "numpy.py"))
# Code that calls a function in order to trace it: frames beyond are not the traced function's.
BEGINNINGS: set[CodeType] = set()


def frames() -> Iterator[FrameType]:
    """The frames of the user's code that is being traced, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in BEGINNINGS:
        of = frame.f_globals.get("__name__", "").partition(".")[0]
        if not frame.f_code.co_filename.startswith(_OWN) and of not in ("numpy", "scipy"):
            yield frame
        frame = frame.f_back


def here() -> Span | None:
    """The place of the operation that the user's code is at."""
    for frame in frames():
        return _span(frame.f_code, frame.f_lasti, frame.f_lineno)
    return None


def defined_at(code: CodeType) -> Span:
    """The place of the line that begins a function."""
    line = linecache.getline(code.co_filename, code.co_firstlineno).rstrip("\n")
    start = len(line) - len(line.lstrip())
    return Span(code.co_filename, code.co_firstlineno, start + 1, code.co_firstlineno, max(len(line), start + 1) + 1)


def raised_at(e: BaseException, file: str) -> Span | None:
    """The place in that file which an exception came through last."""
    found = None
    trace = e.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = _span(trace.tb_frame.f_code, trace.tb_lasti, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _span(code: CodeType, instruction: int, at: int) -> Span:
    line, end_line, col, end_col = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    first = line or at
    return Span(code.co_filename, first, (col or 0) + 1, end_line or first, (end_col or col or 0) + 1)


def line_at(span: Span | None) -> str | None:
    """The line of the user's file, also of a cell of a notebook."""
    return (linecache.getline(span.file, span.line).rstrip("\n") or None) if span is not None else None


def trace_error(message: str, hint: str | None = None, span: Span | None = None) -> TraceError:
    """The error of a traced operation, with its place."""
    place = span or here()
    return TraceError(message, place, source_line=line_at(place), hint=hint)


def fail(message: str, hint: str | None = None) -> NoReturn:
    """Raises `trace_error`."""
    raise trace_error(message, hint)


def misuse(message: str, hint: str | None = None) -> NoReturn:
    """Raises the error of what is wrong before anything is traced."""
    raise UsageError(message, hint=hint)


__all__ = ["BEGINNINGS", "defined_at", "fail", "frames", "here", "line_at", "misuse", "raised_at", "trace_error"]
