"""Every code that the front end gives has a section in docs/errors.md whose examples show it."""

from __future__ import annotations

import re

import pytest

from futad import errors
from futad.errors import SourceError
from futad.source import check_text
from tests.support.paths import ROOT

# Those that no short program shows: what is not supported changes, and the others are not text.
WITHOUT_EXAMPLE = {"E0801", "E0803", "E0902", "E1001"}


def sections() -> dict[str, list[str]]:
    """The examples by code, in order of appearance."""
    out: dict[str, list[str]] = {}
    for part in (ROOT / "docs" / "errors.md").read_text().split("\n### ")[1:]:
        code = part.split(":")[0]
        assert code not in out, f"{code} twice"
        out[code] = re.findall(r"```futhark\n(.*?)```", part.split("\n## ")[0], re.DOTALL)
    return out


PAGE = sections()


def test_the_page_has_exactly_the_codes_in_use():
    used = {c.code for c in vars(errors).values() if isinstance(c, type) and getattr(c, "code", "")}
    for path in (ROOT / "futad" / "source").rglob("*.py"):
        used |= set(re.findall(r"\"(E\d{4})\"", path.read_text()))
    assert set(PAGE) == used
    assert list(PAGE) == sorted(PAGE)
    assert {code for code, examples in PAGE.items() if not examples} == WITHOUT_EXAMPLE


@pytest.mark.parametrize("code", sorted(set(PAGE) - WITHOUT_EXAMPLE))
def test_the_wrong_example_gives_its_code_and_the_right_one_checks(code):
    wrong, *right = PAGE[code]
    with pytest.raises(SourceError if code != "E0901" else errors.Error) as caught:
        check_text(wrong, "example.fut")
    assert caught.value.code == code
    assert f" [{code}]\n" in str(caught.value)
    for text in right:
        check_text(text, "example.fut")
