"""docs/memory.md: its program, its Python and its commands do what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import futad
from futad.core.budget import budget_of
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "memory.md").read_text()


def block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return found


@needs_cc
@pytest.mark.slow
def test_program_and_python(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sim.fut").write_text(block("futhark"))
    names: dict = {}
    exec(block("python"), names)
    told = names["prog"].explain_memory()
    assert "10,000 iterations, 7 states fit 64 kB" in told and "124 states fit 1 MB" in told
    plain = futad.load("sim.fut").gradient(10_000, names["x"])
    np.testing.assert_allclose(names["g"], plain, rtol=1e-13)


COMMANDS = re.findall(r"^    ((?:echo .*\| )?futad .*)$", PAGE, re.M)


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, tmp_path) -> None:
    (tmp_path / "sim.fut").write_text(block("futhark"))
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    given, _, call = command.rpartition(" | ")
    done = subprocess.run([sys.executable, "-m", *shlex.split(call)], capture_output=True, text=True, cwd=tmp_path,
                          input=shlex.split(given)[1] if given else "")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ("--why-memory" in call) == ("run again from states" in done.stderr + done.stdout)
    after = PAGE.split(command)[1].split("\n\n")[1]
    if after.startswith("    benchmarks/"):  # what the page says it prints
        assert done.stderr.strip() == re.sub("^    ", "", after, flags=re.M).strip()
    assert len(COMMANDS) == 4


def test_options_are_those_of_the_page() -> None:
    """Each value in the first table is one that is taken."""
    table = PAGE.split("## Options")[1].split("\n\n")[1]
    for line in table.splitlines()[2:]:
        name, values = [cell.strip() for cell in line.split("|")[1:3]]
        for value in re.findall(r"`([^`]+)`", values.split("(")[0]):
            assert budget_of(**{name.strip("`"): eval(value)}) is not None, (name, value)


def test_the_plot_is_there() -> None:
    assert "](memory.svg)" in PAGE
    text = (ROOT / "docs" / "memory.svg").read_text()
    assert text.startswith("<?xml") and "budget in MB" in text and "growth without a budget" in text
