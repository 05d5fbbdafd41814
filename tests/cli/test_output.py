"""Output that cannot be written: closed, full, or nobody reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from futad.cli import main
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

SOURCE = """-- ==
-- input { 3i64 } output { [0i64, 1i64, 2i64] }
entry main (n: i64): [n]i64 = iota n
entry square (x: f64): f64 = x * x
"""
COMMANDS = {
    "run": "run p.fut -b interp", "run binary": "run p.fut -b interp -B", "expression": "run -x 1+1",
    "help": "--help", "help of one": "run --help", "version": "--version", "dataset": "dataset -g [10]i32",
    "cache": "cache", "much": "dataset -g [100000]i32", "dev": "dev p.fut", "c": "c p.fut", "cuda": "cuda p.fut",
    "test": "test p.fut -b interp", "bench": "bench p.fut -b interp -r 2",
    "gradcheck": "gradcheck p.fut -e square -b interp",
}  # fmt: skip


def shell(line: str, folder: Path, **environment: str) -> tuple[int, str]:
    """The status and the errors of a shell's command line, with a number on its standard input."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(["sh", "-c", line], cwd=folder, input="3", capture_output=True, text=True, env=env,
                          timeout=300)  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("output")
    (made / "p.fut").write_text(SOURCE)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", list(COMMANDS))
def test_closed(folder: Path, name: str) -> None:
    line = f"{sys.executable} -m futad {COMMANDS[name]} >&-"
    assert shell(line, folder, PYTHONUNBUFFERED="") == (1, "error: output: Bad file descriptor\n")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("name", ["run binary", "help of one", "much", "bench"])
def test_full(folder: Path, name: str, unbuffered: str) -> None:
    line = f"{sys.executable} -m futad {COMMANDS[name]} > /dev/full"
    assert shell(line, folder, PYTHONUNBUFFERED=unbuffered) == (1, "error: output: No space left on device\n")


@pytest.mark.slow
def test_a_closed_output_that_nothing_is_written_to(folder: Path) -> None:
    assert shell(f"{sys.executable} -m futad check p.fut >&-", folder) == (0, "")
    code, _ = shell(f"{sys.executable} -m futad run p.fut -b interp >&- 2>&-", folder)
    assert code == 1
    assert shell(f"{sys.executable} -m futad run --unknown 2>&-", folder)[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run p.fut -b interp", "dataset", "gradcheck p.fut -e square --input -"])
def test_closed_input(folder: Path, command: str) -> None:
    code, err = shell(f"{sys.executable} -m futad {command} <&-", folder)
    assert (code, err) == (1, "error: <stdin>: Bad file descriptor\n")


@pytest.mark.slow
def test_nobody_reads(folder: Path) -> None:
    """The reader of a pipe has gone: status 141, as of a process that SIGPIPE ends, and no message."""
    line = f"({sys.executable} -m futad dataset -g [100000]i32; echo $? >&2) | true"
    assert shell(line, folder) == (0, "141\n")


@pytest.fixture(scope="module")
def programs(folder: Path) -> Path:
    for kind in ("executable", "server"):
        assert main(["c", str(folder / "p.fut"), f"--{kind}", "-o", str(folder / kind)]) == 0
    return folder


@pytest.mark.slow
@needs_cc
def test_executables(programs: Path) -> None:
    long = "echo 100000 | "  # longer than the buffer, so that a write fails before the end
    for before in ("", long):
        assert shell(f"{before}./executable >&-", programs) == (1, "error: output: Bad file descriptor\n")
        if os.path.exists("/dev/full"):
            want = (1, "error: output: No space left on device\n")
            assert shell(f"{before}./executable > /dev/full", programs) == want
            assert shell(f"{before}./executable -b > /dev/full", programs) == want
    assert shell("./executable --help >&-", programs) == (1, "error: output: Bad file descriptor\n")
    assert shell("./executable <&-", programs)[0] == 1
    assert "<stdin>: Bad file descriptor" in shell("./executable <&-", programs)[1]
    # No other file is taken for the standard output.
    assert shell("./executable -t times >&-", programs)[0] == 1
    assert (programs / "times").read_text().strip().isdecimal()
    if os.path.exists("/dev/full"):
        code, err = shell("./executable -n -t /dev/full", programs)
        assert (code, err) == (1, "error: cannot write /dev/full: No space left on device\n")
    assert shell("(echo 1000000 | ./executable; echo $? >&2) | true", programs) == (0, "141\n")


@pytest.mark.slow
@needs_cc
def test_servers(programs: Path) -> None:
    assert shell("./server >&-", programs) == (1, "error: output: Bad file descriptor\n")
    if os.path.exists("/dev/full"):
        assert shell("./server > /dev/full", programs) == (1, "error: output: No space left on device\n")


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_disk_with_room_for_a_part(folder: Path, unbuffered: str) -> None:
    for line in ("run p.fut -b interp", "run p.fut -b interp -B", "cuda p.fut"):
        line = f"ulimit -f 1; echo 100000 | {sys.executable} -m futad {line} > part"
        assert shell(line, folder, PYTHONUNBUFFERED=unbuffered) == (1, "error: output: File too large\n")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
def test_messages_that_cannot_be_written_change_nothing_else(folder: Path) -> None:
    for line, code in (("run p.fut -b interp --no", 2), ("run p.fut -e no", 2), ("run no.fut", 1), ("run -x 1 >&-", 1),
                       ("check p.fut", 0)):  # fmt: skip
        assert shell(f"{sys.executable} -m futad {line} 2>/dev/full", folder) == (code, ""), line
