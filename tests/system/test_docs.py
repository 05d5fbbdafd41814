"""What the documentation names is there: files, folders, subcommands and their options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from futad.cli import COMMANDS
from tests.support.paths import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "benchmarks" / "README.md", *(ROOT / "docs").glob("*.md")])
PLACES = ("", "futad", "docs", "kernels", "benchmarks", "benchmarks/programs", "datasets", "tests", "examples")
ELSEWHERE = {"OUT.h", "futad/kernels", "futad/datasets"}  # what a command writes; folders where futad is installed


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_exist(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"`([\w./-]+\.(?:py|h|cuh|md|lark))`", text))
    named |= set(re.findall(r"`((?:futad|kernels|benchmarks|datasets|tests|examples)/[\w./]*)`", text))
    missing = [n for n in named - ELSEWHERE if not any((ROOT / p / n).exists() for p in PLACES)]
    # A module may be named without its folder, or the first of its folders.
    assert [n for n in missing if not list((ROOT / "futad").rglob(n))] == []
    links = [x for x in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text) if not x.startswith("http")]
    assert [x for x in links if not (page.parent / x).exists()] == []


def test_notes_exist() -> None:
    files = [p for f in ("futad", "kernels") for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".h", ".cuh")]
    code = "".join(p.read_text() for p in files)
    named = {n for page in PAGES for n in re.findall(r"Note\s\[([^\]]+)\]", page.read_text())}
    assert len(named) > 20 and [n for n in named if f"Note [{n}]" not in code] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    text = page.read_text()
    for line in re.findall(r"^    (?:\$ )?(.*)$", text, re.M):
        words = line.split()
        if words[:1] == ["futad"] and len(words) > 1:
            assert set(words[1].split("|")) <= {*COMMANDS, "SUBCOMMAND"}, line
        if words[:1] == ["python"] and len(words) > 1 and words[1].endswith(".py"):
            assert (ROOT / words[1]).exists(), line
