"""CONTRIBUTING.md: its examples, applied to a copy of the repository, do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT, TESTS

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(?:#|--) (\S+?)(?:, after: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = (
    "A scalar operation", "A construct", "A rule of the simplifier", "A pass", "A loop transformation", "A test",
)  # fmt: skip


def blocks() -> list[tuple[str, str | None, str]]:
    """The file, the line it goes behind (None: the end), and the text of each example."""
    return [(path, after, text) for _, path, after, text in BLOCK.findall(PAGE)]


def apply(root: Path, path: str, after: str | None, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text() if file.exists() else ""
    if not after:
        file.write_text(f"{before}\n\n{text}" if before else text)
        return
    lines = before.splitlines(keepends=True)
    (at,) = [k for k, line in enumerate(lines) if line.strip().startswith(after.strip())]
    file.write_text("".join([*lines[: at + 1], text, *lines[at + 1 :]]))


def copy(to: Path) -> None:
    """The package, and of the tests what tests need."""
    shutil.copytree(ROOT / "futad", to / "futad", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(TESTS / "support", to / "tests" / "support", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, to / name)
    for name in ("kernels", "benchmarks", "datasets"):
        (to / name).symlink_to(ROOT / name)


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(folder), "FUTAD_CACHE_DIR": str(folder / "cache")}
    return subprocess.run([sys.executable, *args], cwd=folder, env=env, capture_output=True, text=True, timeout=600)


def test_every_section_has_an_example():
    found = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert set(SECTIONS) <= set(found)
    for section in SECTIONS:
        text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
        assert BLOCK.search(text), section
    assert len(blocks()) == len(re.findall(r"^```\w+$", PAGE, re.MULTILINE))


@pytest.mark.slow
def test_the_examples_work(tmp_path):
    copy(tmp_path)
    for path, after, text in blocks():
        apply(tmp_path, path, after, text)
    tests = [path for path, _, _ in blocks() if Path(path).name.startswith("test_")]
    assert len(tests) >= 4
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert done.returncode == 0, done.stdout + done.stderr
    place = run(tmp_path, "-c", "import futad; print(futad.__file__)")
    assert place.stdout.startswith(str(tmp_path)), "the copy is what was tested"
    files = [path for path, _, _ in blocks() if path.endswith(".py")]
    done = run(tmp_path, "-m", "ruff", "check", "--no-cache", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    programs = [path for path, _, _ in blocks() if path.endswith(".fut")]
    done = run(tmp_path, "-m", "futad", "test", "-b", "c", *programs)
    assert done.returncode == 0 and "0 failed" in done.stdout, done.stdout + done.stderr
    listed = run(tmp_path, "-m", "futad", "dev", "--list").stdout.split()
    assert "constant-sums" in listed


def test_what_is_not_there_is_refused(tmp_path):
    (tmp_path / "f.py").write_text("a = 1\nb = 2\n")
    apply(tmp_path, "f.py", "a = 1", "c = 3\n")
    assert (tmp_path / "f.py").read_text() == "a = 1\nc = 3\nb = 2\n"
    with pytest.raises(ValueError, match="not enough"):
        apply(tmp_path, "f.py", "d = 4", "c = 3\n")
