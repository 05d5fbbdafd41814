"""The language, section by section: tests/language has a program for each, docs/language.md says which is which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from futad.runtime.cc import compiler_available
from tests.support.paths import ROOT, TESTS
from tests.support.program_groups import check_cases

FOLDER = TESTS / "language"
PROGRAMS = sorted(FOLDER.glob("*.fut"))
PAGE = ROOT / "docs" / "language.md"
BACKENDS = ["interp", "c", "multicore", "emulated"]
GROUPS = 4


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_section(path: Path, backend: str) -> None:
    if backend != "interp" and not compiler_available():
        pytest.skip("no C compiler")
    check_cases(path, PROGRAMS, GROUPS, backend)


def test_the_page_names_every_program_and_no_other() -> None:
    named = set(re.findall(r"language/([a-z_]+)\.fut", PAGE.read_text()))
    assert named == {p.stem for p in PROGRAMS}


def test_what_the_page_points_to_is_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)", PAGE.read_text()):
        assert (PAGE.parent / link).exists(), link
