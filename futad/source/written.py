"""The text of expressions as the program has it, and with parts of it replaced: what hints are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.errors import Span
from futad.source import ast as A

if TYPE_CHECKING:
    from futad.source.check import Checker

LONGEST = 80  # characters of an expression that is shown
_OPEN, _CLOSED = "([{", ")]}"


def written(ck: Checker, e: A.Expr, replaced: Sequence[tuple[A.Expr, str]] = ()) -> str | None:
    """The text of an expression, with that of some expressions inside `replaced`, on one line; None if it is long, or
    is not to be had.  `-(x)` is written so: parentheses around all of it are no part."""
    if e.span.file != ck.file.path:
        return None
    start, end = _reach(ck.file.text, e.span)
    out, at = "", start
    for x, text in sorted(replaced, key=lambda r: (r[0].span.line, r[0].span.col)):
        a, b = _reach(ck.file.text, x.span)
        if a < at or b > end:
            return None
        out, at = out + ck.file.text[at:a] + text, b
    out = " ".join((out + ck.file.text[at:end]).split())
    return out if out and "--" not in out and len(out) <= LONGEST else None


_NEGATED = re.compile(r"\s+(-(?:[\w.']+|(?=\()))")


def negated_after(ck: Checker, e: A.Expr) -> str | None:
    """The operand after an expression that is written as if it was one argument more: `-x` of `f -x`."""
    if e.span.file != ck.file.path:
        return None
    text = ck.file.text
    _, end = _reach(text, e.span)
    m = _NEGATED.match(text, end)
    if m is None:
        return None
    stop = m.end()
    while stop < len(text) and text[stop] in "([" and (close := _closing(text, stop)) is not None:
        stop = close
    return " ".join(text[m.start(1) : stop].split())


_ATOM = re.compile(r"\s*(?!(?:in|then|else|do|with|for|while|def|entry|let|case|of)\b)[\w.']+|\s*(?=[(\[\"])")


def arguments_after(ck: Checker, span: Span) -> list[str]:
    """The arguments of a name at a place, as the program has them; of `f (x, y)` two."""
    if span.file != ck.file.path:
        return []
    text = ck.file.text
    _, stop = _reach(text, span)
    out = []
    while (m := _ATOM.match(text, stop)) is not None and "\n\n" not in m[0]:
        start, stop = m.end() - len(m[0].strip()), m.end()
        while stop < len(text) and text[stop] in "([" and (close := _closing(text, stop)) is not None:
            stop = close
        if stop == start:
            break
        out.append(" ".join(text[start:stop].split()))
    if len(out) == 1 and out[0][0] == "(":
        inside = parts(out[0][1:-1])
        out = inside if len(inside) > 1 else [out[0][1:-1].strip()]
    return [a for a in out if "--" not in a and len(a) <= LONGEST]


def index_after(ck: Checker, span: Span) -> int | None:
    """The number in brackets behind a place."""
    if span.file != ck.file.path:
        return None
    m = re.compile(r"\[\s*([0-9])\s*\]").match(ck.file.text, _reach(ck.file.text, span)[1])
    return int(m[1]) if m else None


def parts(text: str) -> list[str]:
    """The parts of a tuple's text."""
    out, depth = [""], 0
    for c in text:
        depth += (c in _OPEN) - (c in _CLOSED)
        if c == "," and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return [part.strip() for part in out]


def _closing(text: str, start: int) -> int | None:
    """Where the bracket that is opened at a place has been closed."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in _OPEN) - (text[i] in _CLOSED)
        if depth == 0:
            return i + 1
    return None


def _reach(text: str, s: Span) -> tuple[int, int]:
    """Where an expression begins and ends in a text."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return _balanced(text, starts[s.line - 1] + s.col - 1, starts[s.end_line - 1] + s.end_col - 1)


def _balanced(text: str, start: int, end: int) -> tuple[int, int]:
    """A range with the brackets around it that its parts have: the span of `(a) + b` begins with a."""
    least = depth = 0
    for c in text[start:end]:
        depth += (c in _OPEN) - (c in _CLOSED)
        least = min(least, depth)
    left, right = -least, depth - least
    while left and start and (text[start - 1].isspace() or text[start - 1] in _OPEN):
        start -= 1
        left -= text[start] in _OPEN
    while right and end < len(text) and (text[end].isspace() or text[end] in _CLOSED):
        right -= text[end] in _CLOSED
        end += 1
    return start, end


def outside(text: str) -> str:
    """What of a text stands in no brackets."""
    out, depth = "", 0
    for c in text:
        depth -= c in _CLOSED
        out += c if depth == 0 else ""
        depth += c in _OPEN
    return out


def atom(text: str) -> str:
    """An expression as an argument: in parentheses unless nothing comes between its parts."""
    depth = 0
    for i, c in enumerate(text):
        depth -= c in _CLOSED
        if depth == 0 and not (c.isalnum() or c in "_.'\"" or c in _CLOSED or c == "[" and i or i == 0 and c in _OPEN):
            return f"({text})"
        if depth == 0 and c in _CLOSED and text[0] in "({" and i + 1 < len(text) and text[i + 1] not in ".[":
            return f"({text})"
        depth += c in _OPEN
    return text


def fresh(*texts: str) -> str:
    """A name that none of the texts has."""
    used = set(re.findall(r"\w+", " ".join(texts)))
    return next(n for n in ("x", "y", "z", "a", "b", "v", "w", "it", "this") if n not in used)


__all__ = ["arguments_after", "atom", "fresh", "index_after", "negated_after", "outside", "parts", "written"]
