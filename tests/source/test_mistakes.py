"""Mistakes of newcomers: each gets an error at its place, and a hint that, followed to the letter, is what was meant.

The table is `tests/mistakes/*.txt`:

    ### a name
    the program
    ! LINE:COLUMN: the error, or
    ~ LINE:COLUMN: the warning
    ? the hint
    -->                      the hint followed; there may be another mistake, which begins with ! again
    the program
    = ARGUMENTS -> RESULT    of main

A program that is not run ends in `-`.  `python tests/source/test_mistakes.py` writes what futad says now into the lines
with ! ~ ? for review.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import Error
from futad.source import check_text

FOLDER = Path(__file__).resolve().parents[1] / "mistakes"


@dataclass
class Mistake:
    """One of the table: the programs on the way to one without a mistake, and what is said about each but the last."""

    name: str
    programs: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    run: tuple[str, str] | None = None  # arguments, result


def read(path: Path) -> list[Mistake]:
    out = []
    for chunk in path.read_text().split("\n### ")[1:]:
        name, _, body = chunk.partition("\n")
        mistake = Mistake(name)
        for part in body.split("\n-->\n"):
            lines = part.rstrip("\n").split("\n")
            if m := re.fullmatch(r"= ?(.*?) ?-> (.*)", lines[-1]):
                mistake.run = m[1], m[2]
                lines.pop()
            elif lines[-1] == "-":
                lines.pop()
            mistake.programs.append("\n".join(x for x in lines if not re.match(r"[!~?] ", x)).strip("\n"))
            if said := [x for x in lines if re.match(r"[!~?] ", x)]:
                mistake.said.append("\n".join(said))
        out.append(mistake)
    return out


MISTAKES = [m for path in sorted(FOLDER.glob("*.txt")) for m in read(path)]


def says(text: str) -> str:
    """The first error or warning about a program and its hint, as the table has them."""
    try:
        warned = check_text(text, "a.fut").warnings
        if not warned:
            return ""
        mark, message, span, hint, notes = "~", warned[0].message, warned[0].span, warned[0].hint, ()
    except Error as e:
        mark, message, span, hint, notes = "!", e.message, e.span, e.hint, e.notes
    assert span is not None
    out = f"{mark} {span.line}:{span.col}: {message}"
    out += "".join(f" ({note})" for note in notes if "not closed" in note)
    return out + (f"\n? {hint}" if hint else "")


@pytest.mark.parametrize("mistake", MISTAKES, ids=[m.name for m in MISTAKES])
def test_what_is_said(mistake: Mistake) -> None:
    assert mistake.said == [says(text) for text in mistake.programs[: len(mistake.said)]]
    if mistake.run is not None:
        assert says(mistake.programs[-1]) == ""


def proposals(hint: str) -> list[str]:
    """The ends of a hint that may be code."""
    begin = r"^|(?<=: )|(?<=, )|(?<=; )|(?<=write )|(?<= is )|(?<= in )|(?<=called )"
    return [hint[m.end() :] for m in re.finditer(begin, hint)]


def test_hints_are_followed_to_the_letter() -> None:
    """What a hint proposes is in the program that follows, unless it shows a form by an example of its own."""
    forms = "import |x -> x [+] 1|def f|[.][.][.]|xs|comment|written|'let'|'if'|lines end|leave it|lacks|match x"
    for mistake in MISTAKES:
        for before, after in zip(mistake.said, mistake.programs[1:], strict=False):
            hint = before.partition("\n? ")[2]
            quoted = re.findall(r"'([^']+)'", hint)
            assert hint, mistake.name
            cut = (re.split(r"; | for the | of numbers| of a number", p)[0] for p in proposals(hint))
            used = any(p in after for p in cut)
            assert used or any(q in after for q in quoted) or re.search(forms, hint), (mistake.name, hint)


def test_what_was_meant_is_computed() -> None:
    """All programs at the ends as modules of one."""
    runs = [(i, m) for i, m in enumerate(MISTAKES) if m.run is not None]
    modules = [f"module m{i} = {{\n{m.programs[-1]}\n}}\nentry main{i} = m{i}.main\n" for i, m in runs]
    program = futad.compile("\n".join(modules), backend="interp")
    for i, m in runs:
        assert m.run is not None
        args: tuple[Any, ...] = eval(f"({m.run[0]},)" if m.run[0] else "()", {"np": np})
        found, wanted = getattr(program, f"main{i}")(*args), np.asarray(eval(m.run[1], {"np": np}))
        found = np.asarray(found)
        assert found.shape == wanted.shape and found.dtype.kind == wanted.dtype.kind, (m.name, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-14, err_msg=m.name)


def test_the_table_is_large() -> None:
    assert len(MISTAKES) >= 180 and len({m.name for m in MISTAKES}) == len(MISTAKES)
    assert all(m.said and (m.run is None or len(m.programs) > 1) for m in MISTAKES)
    assert sum(m.run is not None for m in MISTAKES) >= 160


LOSSY = re.compile(r"\b(i8|i16|i32|i64|u8|u16|u32|u64)\.f(16|32|64)\b|\bf32\.f64\b|\bf16\.f(32|64)\b|\bi32\.i64\b")


def test_no_hint_loses_anything() -> None:
    assert not [(m.name, said) for m in MISTAKES for said in m.said if LOSSY.search(said.partition("\n? ")[2])]


def rewrite() -> None:
    """Put what futad says now in place of what the table expects."""
    for path in sorted(FOLDER.glob("*.txt")):
        head, *chunks = path.read_text().split("\n### ")
        out = [head.rstrip("\n")]
        for chunk, mistake in zip(chunks, read(path), strict=True):
            name, _, body = chunk.partition("\n")
            parts = body.rstrip("\n").split("\n-->\n")
            for k, (part, text) in enumerate(zip(parts, mistake.programs, strict=True)):
                tail = [x for x in part.split("\n")[-1:] if x == "-" or x.startswith("= ")]
                last = k + 1 == len(parts) and (len(parts) > 1)
                parts[k] = "\n".join([text, *([] if last else [says(text)]), *tail])
            out.append(f"### {name}\n" + "\n-->\n".join(parts))
        path.write_text("\n\n".join(out) + "\n")


if __name__ == "__main__":
    rewrite()
