"""Many processes at once, and processes that are ended in the middle: nothing is lost, half-written or locked."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from futad.runtime import cc
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

pytestmark = [pytest.mark.slow, needs_cc]

PROGRAM = """
entry main [n] (x: [n]f64): f64 = f64.sum (map f64.sin x)
entry grad [n] (x: [n]f64): [n]f64 = vjp (\\x -> f64.sum (map f64.sin x)) x 1
"""
CALL = """
import futad, numpy as np, sys
prog = futad.load("p.fut", backend=sys.argv[1])
x = np.arange(1000.0)
np.testing.assert_allclose(prog.main(x), np.sin(x).sum(), rtol=1e-12)
np.testing.assert_allclose(prog.grad(x), np.cos(x), rtol=1e-12)
print("right")
"""


def logging(folder: Path, before: str = "") -> str:
    """A compiler that counts its runs on programs."""
    gcc = shlex.join(cc.find_compiler().command)
    script = folder / "mycc"
    script.write_text(f"""#!/bin/sh
[ "$1" = --version ] && exec {gcc} --version
case "$*" in *program.c*) echo run >> {folder}/log; {before};; esac
exec {gcc} "$@"
""")
    script.chmod(0o755)
    return str(script)


def environment(folder: Path, **more: str) -> dict[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    here = {"PYTHONPATH": str(ROOT), "FUTAD_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    return {**os.environ, **here, "FUTAD_CFLAGS": "-O1", **(more or {"FUTAD_CC": logging(folder)})}


def started(folder: Path, *command: str, **more: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *command], cwd=folder, env=environment(folder, **more), stdin=pipe,
                            stdout=pipe, stderr=pipe, text=True)  # fmt: skip


def left(folder: Path) -> list[str]:
    """Locks, and what is being built."""
    paths = [p for top in ("cache", "tmp") for p in (folder / top).rglob("*")]
    return [p.name for p in paths if p.suffix == ".lock" or p.name.startswith(".") and p.name != ".swept"]


def runs(folder: Path) -> int:
    return len((folder / "log").read_text().splitlines())


def test_twenty_processes_compile_one_program(tmp_path: Path) -> None:
    """One of them runs the compiler."""
    (tmp_path / "p.fut").write_text(PROGRAM)
    processes = [started(tmp_path, "-c", CALL, "c") for _ in range(20)]
    done = [p.communicate(timeout=300) for p in processes]
    assert done == [("right\n", "")] * 20 and [p.returncode for p in processes] == [0] * 20
    assert runs(tmp_path) == 1 and left(tmp_path) == []


def until(true: Any, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 100
    while not true():
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.01)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=100)
    return process.returncode, err


def works(folder: Path, count: int) -> None:
    """Another process is not held up, and finds nothing wrong in the cache; the compiler has run `count` times."""
    process = started(folder, "-c", CALL, "c")
    assert process.communicate(timeout=100) == ("right\n", "")
    assert runs(folder) == count and left(folder) == []


def test_the_command_line_in_the_c_compiler(tmp_path: Path) -> None:
    """It stops the compiler and removes its files."""
    (tmp_path / "p.fut").write_text(PROGRAM)
    waits = logging(tmp_path, f"sleep 600 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/child; wait")
    process = started(tmp_path, "-m", "futad", "run", "p.fut", "-b", "c", FUTAD_CC=waits)
    until((tmp_path / "child").exists, process)
    assert end(process) == (143, "futad: terminated\n")
    child = int((tmp_path / "child").read_text())
    state = Path(f"/proc/{child}/stat")
    deadline = time.monotonic() + 100
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert time.monotonic() < deadline and left(tmp_path) == []
    works(tmp_path, 2)


def test_a_library_in_the_c_compiler(tmp_path: Path) -> None:
    """Python ends at once.  Nobody waits for its lock, and what it left is passed over."""
    (tmp_path / "p.fut").write_text(PROGRAM)
    waits = logging(tmp_path, f"touch {tmp_path}/child; sleep 5")
    process = started(tmp_path, "-c", CALL, "c", FUTAD_CC=waits)
    until((tmp_path / "child").exists, process)
    assert end(process) == (-signal.SIGTERM, "")
    process = started(tmp_path, "-c", CALL, "c")
    assert process.communicate(timeout=100) == ("right\n", "") and runs(tmp_path) == 2


@pytest.mark.parametrize("where", ("futad.source.check", "futad.pipeline", "futad.imp.lower", "futad.cache.sweep"))
def test_the_command_line_in_the_compiler(where: str, tmp_path: Path) -> None:
    """Where it has just begun to import a stage, which waits: what it makes until then stays whole."""
    (tmp_path / "p.fut").write_text(PROGRAM)
    text = f"""
import sys, time
from pathlib import Path
class Waiting:
    def find_spec(self, name, path=None, target=None):
        if name == {where!r}:
            Path("there").touch()
            while True: time.sleep(0.01)
sys.meta_path.insert(0, Waiting())
from futad.cli import main
sys.exit(main(["run", "p.fut", "-b", "c"]))
"""
    process = started(tmp_path, "-c", text)
    until((tmp_path / "there").exists, process)
    assert end(process) == (143, "futad: terminated\n") and left(tmp_path) == []
    works(tmp_path, 2 if where == "futad.cache.sweep" and not list((tmp_path / "cache").rglob("*.so")) else 1)


def test_a_call(tmp_path: Path) -> None:
    (tmp_path / "p.fut").write_text("entry main (n: i64): i64 = loop x = n while x > 0 do x * 3 % 1000 + 1")
    process = started(tmp_path, "-m", "futad", "run", "p.fut", "-b", "c")
    assert process.stdin is not None
    process.stdin.write("3\n")
    process.stdin.flush()
    process.stdin.close()
    process.stdin = None
    stat = Path(f"/proc/{process.pid}/stat")
    until(lambda: list((tmp_path / "cache").rglob("*.so")), process)
    seen = int(stat.read_text().rpartition(")")[2].split()[11])
    until(lambda: int(stat.read_text().rpartition(")")[2].split()[11]) > seen + 100, process)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=100)[0] == "" and process.returncode in (-signal.SIGTERM, 143)
    assert left(tmp_path) == []


SWEEP = """
import os, sys, time
from pathlib import Path
from futad.cache import sweep
sweep.LIMIT = 0
real = sweep._remove
count = 0
def slow(path):
    global count
    count += 1
    real(path)
    if count == 1:
        Path("there").touch()
        time.sleep(100)
sweep._remove = slow
sweep.sweep(Path("cache"))
"""


@pytest.mark.parametrize("signal_", (signal.SIGTERM, signal.SIGKILL))
def test_a_sweep_of_the_cache(signal_: int, tmp_path: Path) -> None:
    """Half of an entry is gone: it is built again, and the next sweep takes what is left."""
    (tmp_path / "p.fut").write_text(PROGRAM)
    works(tmp_path, 1)
    process = started(tmp_path, "-c", SWEEP)
    until((tmp_path / "there").exists, process)
    process.send_signal(signal_)
    process.communicate(timeout=100)
    assert process.returncode == -signal_
    process = started(tmp_path, "-c", CALL, "c")
    assert process.communicate(timeout=100) == ("right\n", "") and left(tmp_path) == []


@pytest.mark.parametrize("moment", range(1, 12, 2))
def test_killed_at_any_moment(moment: int, tmp_path: Path) -> None:
    """kill -9 between the start and the end of a first run: the next process is right, and does not wait."""
    (tmp_path / "p.fut").write_text(PROGRAM)
    process = started(tmp_path, "-c", CALL, "c")
    time.sleep(0.25 * moment)
    process.kill()
    process.communicate(timeout=100)
    process = started(tmp_path, "-c", CALL, "c")
    assert process.communicate(timeout=100) == ("right\n", "")
