"""`futad explain`: the sections of docs/errors.md, on a terminal."""

from __future__ import annotations

import re

import pytest

from futad.cli import explain
from futad.source import check_text
from tests.support.cli_helpers import Runner
from tests.support.paths import ROOT

CODES = re.findall(r"^### (E\d{4})", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    return Runner(tmp_path, monkeypatch, capfdbinary)


def test_every_code_has_a_text():
    found = explain.sections()
    assert list(found) == CODES and len(CODES) > 20
    for title, text in found.values():
        prose = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
        assert title and prose and "```" not in text and "](" not in title + prose and "`" not in prose


@pytest.mark.parametrize("given", ["E0401", "e0401", "[E0401]"])
def test_a_code(futad, given):
    done = futad("explain", given)
    assert done.code == 0 and done.out.startswith("E0401: sizes do not fit\n\n")
    right = done.out.split("Right:\n\n")[1]
    check_text(right, "right.fut")


def test_without_a_code_all_are_listed(futad):
    done = futad("explain")
    assert done.code == 0 and [line[:5] for line in done.out.splitlines()] == CODES


@pytest.mark.parametrize("given", ["E9999", "", "sizes", "E04011"])
def test_codes_that_are_none(futad, given):
    done = futad("explain", given)
    assert done.code == 2 and "no error has the code" in done.err and "Traceback" not in done.err
