"""`tests/tools/suites.py` on a few programs: each class of outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.tools import suites

PROGRAMS = {
    "right": "-- ==\n-- input { 1 } output { 2 }\n-- input { 0 } error: Error.*division by zero\n"
             "entry main (x: i32) = 2 / x",
    "refused": "-- ==\n-- input { 1 } output { 2 }\nentry main (x: i32) = y",
    "case": "-- ==\n-- input { 1 } output { 3 }\nentry main (x: i32) = x + 1",
    "accepted": "-- ==\n-- error: consumed\nentry main (x: i32) = x",
    "in other words": '-- ==\n-- error: "a".*consumed\nentry main (a: *[]i32) = let b = a with [0] = 1 in (a, b)',
    "error text": "-- ==\n-- error: also bound\nentry main (a: *[]i32) = let b = a with [0] = 1 in (a, b)",
    "warnings": "-- ==\n-- warning: hides\nentry main (x: i32) = x",
    "skipped": "-- ==\n-- tags { disable }\n-- input { 1 } output { 3 }\nentry main (x: i32) = x",
    "slow": "-- ==\n-- input { 1 } output { 1 }\nentry main (x: i32) = loop x while x > 0 do if x > 5 then 1 else x",
}  # fmt: skip


def test_each_class(tmp_path: Path) -> None:
    for kind, text in PROGRAMS.items():
        file = tmp_path / "a.fut"
        file.write_text(text)
        if kind != "slow":
            assert suites.outcomes(file, ["interp"])["interp"][0] == kind, text


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    for kind, text in PROGRAMS.items():
        (folder / f"{kind.replace(' ', '_')}.fut").write_text(text)
    (folder / "stacktrace.fut").write_text(PROGRAMS["case"])  # the name of a limit
    log = tmp_path / "log"
    command = [sys.executable, "tests/tools/suites.py", str(tmp_path), "--backends=interp"]
    command += ["--seconds=3", f"--log={log}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    found = {Path(file).stem.replace("_", " "): kind for file, _, kind, _ in rows}
    assert found == {kind: kind for kind in PROGRAMS} | {"stacktrace": "documented limit"}, done.stdout + done.stderr
    assert done.returncode == 1 and done.stdout.splitlines()[-1].split(None, 1) == [
        "interp",
        "1 right, 1 in other words, 1 skipped, 1 documented limit, 1 accepted, 1 case, 1 error text, 1 refused, "
        "1 slow, 1 warnings",
    ]
    done = subprocess.run([*command, "--only=right"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["1 files", "interp     1 right"])
    done = subprocess.run([*command[:2], "/none"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "none of the folders tests" in done.stderr


def test_a_crash_is_one_files_alone(tmp_path: Path, monkeypatch) -> None:
    files = [tmp_path / "a.fut", tmp_path / "b.fut", tmp_path / "c.fut"]
    said_of = {"c": ("right", "")}
    monkeypatch.setattr(suites, "outcomes", lambda file, backends: os.abort() if file.stem == "b" else said_of)
    said: list[tuple[str, str]] = []
    suites.run(files, ["c"], 1, 60, lambda file, backend, kind, text: said.append((file.stem, kind)))
    assert said == [("a", "right"), ("b", "crash"), ("c", "right")]


def test_the_codes_are_those_of_the_page_on_errors() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    assert [code for code in suites.WORDS if f"### {code}" not in page] == []
    page = (ROOT / "docs" / "from-futhark.md").read_text()
    assert "**What is otherwise.**" in page and all(suites.LIMITS.values())


def test_a_limit_that_no_file_shows_is_stale() -> None:
    files = [Path("x/tests/stacktrace.fut"), Path("x/tests/params/param1.fut"), Path("x/tests/a.fut")]
    assert [suites.limit_of(f) for f in files] == ["tests/stacktrace.fut", "tests/params/param", None]
    assert suites.stale_limits(files, {"tests/params/param"}) == ["tests/stacktrace.fut"]
