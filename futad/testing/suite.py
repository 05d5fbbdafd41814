"""Mutants of the compiler that tests of the suite find: see `mutants.py`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from futad import legality
from futad.testing.freeze import ROOT

TESTS = ROOT / "tests"
FILES = 8  # that are run for a mutant, at most
# These look for mutants themselves, or take long and have inputs of their own.
LEFT_OUT = ("test_mutants", "test_sanitize", "test_leaks", "test_fuzz", "test_legality")


class NoTest(Exception):
    """There is no test of these names."""


def is_test(program: str) -> bool:
    """Whether a recorded name is that of a test rather than that of a program."""
    return "::" in program


def files_for(condition: str) -> list[Path]:
    """The test files that are about the module that declares the condition, those named after it first."""
    module = legality.find(condition).legality.module
    folder, _, stem = module.removeprefix("futad.").rpartition(".")
    ranked: list[tuple[int, str, Path]] = []
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.stem in LEFT_OUT:
            continue
        text = path.read_text()
        named = stem.split("_")[0] in path.stem
        its_folder = path.parent.name == folder.split(".")[0]
        imported = module in text or re.search(rf"\bfutad\.{folder} import.*\b{stem}\b", text)
        ranks = (named and its_folder, imported, named, its_folder)
        if any(ranks):
            ranked.append((ranks.index(next(filter(None, ranks))), path.stem, path))
    return [path for _, _, path in sorted(ranked)[:FILES]]


def failure(tests: Sequence[str | Path], condition: str | None, seconds: float) -> tuple[str, str] | None:
    """The first test that fails without the condition (with all of them, if None), and how; None if none does in that
    time.  Raises NoTest if there is none of these names."""
    environment = {**os.environ, "FUTAD_CHECK": "ir"}
    environment.pop(legality.VARIABLE, None)
    if condition is not None:
        environment[legality.VARIABLE] = condition
    options = ["-x", "-v", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *map(str, tests)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
    found = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - (.*))?$", out, re.MULTILINE)
    if found is not None and is_test(found[1]):
        return found[1], f"test fails: {(found[2] or '')[:120]}".rstrip(": ")
    if process.returncode in (4, 5):  # of pytest: not found, or none collected
        raise NoTest(str(tests[0]))
    if process.returncode < 0:
        names = re.findall(r"^(tests/\S+::.*?) *$", out, re.MULTILINE)
        if names:
            return names[-1], f"crash ({signal.Signals(-process.returncode).name})"
    return None


def found_by_tests(condition: str, seconds: float) -> tuple[str, str] | None:
    """The test that finds the mutant, and how; None if none of `files_for` does in that time."""
    tests = files_for(condition)
    try:
        found = failure(tests, condition, seconds) if tests else None
    except NoTest:
        return None
    if found is None or failure([found[0]], None, seconds) is not None:
        return None
    return found


__all__ = ["NoTest", "failure", "files_for", "found_by_tests", "is_test"]
