"""Explain an error of a program's text: the rule, a program that breaks it, and one that does not.

    futad explain E0401

CODE is what the error message ends in.  Without one: all codes, with what each is about.  The same text is in
docs/errors.md.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import futad
from futad.errors import FileError, UsageError

_SECTION = re.compile(r"^### (E\d{4}): (.*?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", metavar="CODE", nargs="?", help="such as E0401")


def run(args: argparse.Namespace) -> int:
    found = sections()
    if args.code is None:
        print("\n".join(f"{code}  {title}" for code, (title, _) in found.items()))
        return 0
    code = args.code.strip("[]").upper()
    if code not in found:
        raise UsageError(f"no error has the code '{args.code}'", hint="futad explain, without a code, lists them all")
    title, text = found[code]
    print(f"{code}: {title}\n\n{text}")
    return 0


def sections() -> dict[str, tuple[str, str]]:
    """Title and text of each code, as plain text: examples are indented, the first one is the wrong one."""
    return {code: (_LINK.sub(r"\1", title), _plain(text)) for code, title, text in _SECTION.findall(page())}


def page() -> str:
    """docs/errors.md, which travels in the package."""
    package = Path(next(iter(futad.__path__)))
    for folder in (package / "docs", package.parent / "docs"):
        file = folder / "errors.md"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise FileError("errors.md is missing from this installation of futad")


def _plain(text: str) -> str:
    lines: list[str] = []
    inside, examples = False, 0
    for line in text.strip().splitlines():
        if line.startswith("```"):
            inside, examples = not inside, examples + (not inside)
            lines += ["", "Wrong:" if examples == 1 else "Right:", ""] if inside else [""]
        else:
            lines.append(f"    {line}" if inside else _LINK.sub(r"\1", line).replace("`", ""))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


__all__ = ["arguments", "page", "run", "sections"]
