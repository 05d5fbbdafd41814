"""docs/library.md has a section for each module, with a program."""

from __future__ import annotations

import re

import futad.library as library
from tests.support.paths import ROOT


def test_each_module_has_a_section_and_a_program():
    page = (ROOT / "docs" / "library.md").read_text()
    sections = dict(re.findall(r"^## (futad/\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(library.names()) <= set(sections)
    for name in library.names():
        assert re.search(rf'^```(python|futhark)\n.*import "{name}"', sections[name], re.MULTILINE | re.DOTALL), name
