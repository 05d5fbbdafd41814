"""Findings made small: the least sizes at which a program is wrong, and as little as possible of its text.

Of the text, whatever stands in parentheses becomes its own content without the function before it, or a number; what
follows a `with` goes; a `let` goes.  Of most of this the type checker says that it is no program: that costs little.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from futad.testing.fuzz.cases import Case, inputs

Wrong = Callable[[Case, dict[str, int]], bool]  # whether a program is wrong at these sizes


def shrunk(c: Case, sizes: dict[str, int], wrong: Wrong, seconds: float) -> tuple[Case, dict[str, int]]:
    """A smaller program that is wrong too, and its sizes; `seconds` are about the time for it."""
    end = time.monotonic() + seconds
    sizes = least_sizes(c, sizes, wrong)
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        done = 0
        while time.monotonic() < end:
            tried = list(itertools.islice(smaller_texts(c.program.text), done, done + 1))
            if not tried:
                break
            one = replace(c, program=replace(c.program, text=tried[0]))
            if wrong(one, sizes):
                c, changed = one, True
            else:
                done += 1
    return c, least_sizes(c, sizes, wrong) if time.monotonic() < end else sizes


def least_sizes(c: Case, sizes: dict[str, int], wrong: Wrong) -> dict[str, int]:
    """The first sizes by their sum at which the program is wrong."""
    names = list(sizes)
    ranges = [range(c.program.least.get(s, 0), sizes[s] + 1) for s in names]
    for values in sorted(itertools.product(*ranges), key=sum)[:60]:
        smaller = dict(zip(names, values, strict=True))
        if wrong(c, smaller):
            return smaller
    return sizes


def smaller_texts(text: str) -> Iterator[str]:
    """Texts with something left out, the largest parts first."""
    start = text.rfind("def f@")
    body = text.find("\n", start)
    head, tail = text[:body], text[body:]
    cuts: list[tuple[int, int, str]] = []
    for a, b in _groups(tail):
        inside = tail[a + 1 : b - 1]
        cuts.append((a, b, "0.5"))
        word = re.search(r"[\w.]+ $", tail[:a])
        if word is not None:
            cuts.append((word.start(), b, f"({inside})"))
        for sign in (" + ", " * ", " - "):
            if sign in inside:
                left, right = inside.split(sign, 1)
                cuts += [(a, b, f"({left})"), (a, b, f"({right})")]
    cuts += [(m.start(), m.end(), "") for m in re.finditer(r" with \[[^\]]*\] = \w+(\[[^\]]*\])?", tail)]
    cuts += [(m.start(), m.end(), "") for m in re.finditer(r"let [^=\n]* = [^\n]*? in ?", tail)]
    cuts += [(m.start(), m.end(), m[1]) for m in re.finditer(r"copy (\w+)", tail)]
    cuts += [(m.start(), m.end(), m[1]) for m in re.finditer(r"\b(\w+) - 1 - \w+\b", tail)]
    seen = {text}
    for a, b, new in sorted(cuts, key=lambda cut: len(cut[2]) - (cut[1] - cut[0])):
        out = head + tail[:a] + new + tail[b:]
        if len(new) < b - a and out not in seen:
            seen.add(out)
            yield out


def _groups(text: str) -> list[tuple[int, int]]:
    """The places of all pairs of parentheses."""
    out, open_ = [], []
    for i, ch in enumerate(text):
        if ch == "(":
            open_.append(i)
        elif ch == ")" and open_:
            out.append((open_.pop(), i + 1))
    return out


def wrong_like(what: str, compiled: Callable[[Case], Any], check: Callable[..., bool]) -> Wrong:
    """Whether a program goes wrong in the way `what`; compiled programs are kept for other sizes."""
    last: list[tuple[str, Any]] = []

    def wrong(c: Case, sizes: dict[str, int]) -> bool:
        if not last or last[0][0] != c.program.text:
            last[:] = [(c.program.text, None)]
            try:
                last[:] = [(c.program.text, compiled(c))]
            except Exception as e:
                last[:] = [(c.program.text, type(e).__name__)]
        made = last[0][1]
        if isinstance(made, str):
            return what == "internal" and made not in ("TypeCheckError", "ParseError", "ScopeError", "ConsumptionError")
        return what != "internal" and check(made, c, inputs(c, 1, sizes))

    return wrong


__all__ = ["least_sizes", "shrunk", "smaller_texts", "wrong_like"]
