"""docs/environment.md lists every environment variable that anything here reads."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "environment.md").read_text()
_OURS = re.compile(r"FUTAD_[A-Z0-9_]+")


def read_in(path: Path) -> Iterator[str]:
    """Names of variables in a Python file that deals with the environment, but in dicts: what it gives to others."""
    text = path.read_text()
    if "environ" not in text or path.name == Path(__file__).name:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call | ast.Assign | ast.Tuple | ast.Subscript):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.Constant) and isinstance(child.value, str) and _OURS.fullmatch(child.value):
                    yield child.value


def read_under(*folders: str) -> set[str]:
    names = {name for folder in folders for path in (ROOT / folder).rglob("*.py") for name in read_in(path)}
    for folder in folders:
        for path in (ROOT / folder).rglob("*.[ch]*"):
            names |= set(re.findall(r'getenv\("(FUTAD_\w+)"\)', path.read_text(errors="replace")))
    return names


def test_variables_of_the_compiler_have_rows() -> None:
    rows = set(re.findall(r"^\| `(FUTAD_\w+)` \|", PAGE, re.M))
    found = read_under("futad", "kernels")
    assert {"FUTAD_CACHE_DIR", "FUTAD_CC", "FUTAD_CHECK", "FUTAD_MUTANT"} <= found, "the search finds what is known"
    assert rows == found


def test_variables_of_tests_and_benchmarks_are_named() -> None:
    assert read_under("tests", "benchmarks") <= set(_OURS.findall(PAGE))


def test_no_other_page_has_one_that_nothing_reads() -> None:
    known = set(_OURS.findall(PAGE))
    headers = " ".join(p.read_text(errors="replace") for p in (ROOT / "kernels").iterdir() if p.is_file())
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for name in _OURS.findall(page.read_text()):
            assert name in known or name in headers, f"{page.name}: {name}"
