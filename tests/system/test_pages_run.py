"""Code of the pages, as it stands: a page's Python blocks one after the other in an empty folder, its programs, its
commands.

A block of Futhark that begins with `-- NAME.fut` is that file; programs of `benchmarks/programs/` that a page names are
there.  Commands that install something are run by `.ci/run` and by `test_wheel.py`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from futad.source import check_text
from tests.support.needs import needs_cc
from tests.support.paths import BENCHMARK_PROGRAMS, ROOT

PAGES = {p.name: p.read_text() for p in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
# Pages whose blocks other tests run: they need what the page has made before, or are wrong on purpose.
ELSEWHERE = {
    "executables.md": "tests/cli/test_server.py",
    "memory.md": "tests/system/test_memory_page.py",
    "strategies.md": "tests/system/test_strategies_page.py",
    "errors.md": "tests/source/test_source_error_codes.py",
}
OPTIONAL = ("jax", "torch", "dask", "mpi4py", "scipy", "matplotlib", "IPython")
SLOW = ("tutorial.md", "python.md")
INSTALLS = ("python3 -m venv", "pip install", ".venv/")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)


def with_blocks(language: str) -> list[Any]:
    """The pages that have such blocks, and are run here."""
    names = [n for n in PAGES if n not in ELSEWHERE and blocks(n, language)]
    return [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in names]


def folder_of(page: str, folder: Path) -> None:
    """The files that the page's code reads."""
    for text in blocks(page, "futhark"):
        if found := re.match(r"-- ([\w/]+\.fut)\b", text):
            (folder / found[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / found[1]).write_text(text)
    for name in set(re.findall(r"\b(\w+\.fut)\b", PAGES[page])):
        if (BENCHMARK_PROGRAMS / name).exists() and not (folder / name).exists():
            shutil.copy(BENCHMARK_PROGRAMS / name, folder)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("page", with_blocks("python"))
def test_python(page, tmp_path, monkeypatch, capsys):
    for module in OPTIONAL:
        if any(re.search(rf"^(?:import|from) {module}\b|\bfutad\.{module.lower()}\b", b, re.M)
               for b in blocks(page, "python")):  # fmt: skip
            pytest.importorskip(module)
    folder_of(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page}, Python block {number + 1}", "exec"), names)  # noqa: S102
    assert "print(" not in "".join(blocks(page, "python")) or capsys.readouterr().out


@pytest.mark.parametrize("page", with_blocks("futhark"))
def test_programs(page):
    for block in blocks(page, "futhark"):
        check_text(block, page)


COMMANDS = [
    pytest.param(page, line, id=f"{page}: {line}"[:80])
    for page in PAGES for block in blocks(page, "sh")
    for line in block.replace("\\\n", " ").splitlines() if line and not line.startswith(("#", *INSTALLS))
]  # fmt: skip


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_commands(page, line, tmp_path):
    folder_of(page, tmp_path)
    assert line.startswith("futad "), "a command that this test does not know how to run"
    command = line.replace("futad ", f"{shlex.quote(sys.executable)} -m futad ", 1)
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_every_other_page_has_a_test_that_reads_it():
    for page, test in ELSEWHERE.items():
        assert page in PAGES and page in (ROOT / test).read_text()


def test_blocks_are_found():
    assert blocks("README.md", "python") and blocks("tutorial.md", "python") and len(COMMANDS) >= 3
    marked = re.findall(r"^```(\w+)", "".join(PAGES.values()), re.MULTILINE)
    assert set(marked) <= {"python", "sh", "futhark", "c"}, "code of another kind would not be run"
