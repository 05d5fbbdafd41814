"""A program compiled before is taken only where compiling it again would give the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from futad.backend import aot_cache
from futad.runtime import cc
from tests.support.needs import without_compilers
from tests.support.paths import ROOT

TEXTS = {"p.fut": "entry main (x: f64) = x"}


def key(backend: str = "multicore") -> str:
    return aot_cache.key_of(TEXTS, backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "c", "multicore"])
def test_the_number_of_threads_decides_where_it_chooses_rules(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    for threads in ("2", "8", "9", "64"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        keys.append(key(backend))
    assert keys[0] == keys[1] != keys[2] == keys[3]
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    assert key(backend) == keys[2]
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    assert key(backend) == keys[0]


def test_another_compiler_is_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is put where the other was."""
    script = tmp_path / "mycc"
    script.write_text("#!/bin/sh\nexec cc \"$@\"\n")
    script.chmod(0o755)
    plain = key()
    monkeypatch.setenv("FUTAD_CC", f"{script} -m64")
    first = key()
    assert first not in (plain, "") and cc.compiler_file().startswith(f"{script} ")
    script.write_text("#!/bin/sh\nexec cc -g \"$@\"\n")
    assert key() != first
    without_compilers(monkeypatch, tmp_path)
    assert cc.compiler_file() == ""


@pytest.mark.slow
@pytest.mark.skipif(not cc.compiler_available(), reason="no C compiler")
def test_code_for_few_threads_is_not_run_by_many(tmp_path: Path) -> None:
    """From the command line, which keeps one description for each."""
    (tmp_path / "p.fut").write_text("entry main [n] (xs: [n]f64): f64 = f64.sum xs\n")
    for threads in ("2", "64", "2"):
        mine = {"FUTAD_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": threads}
        env = {**os.environ, "PYTHONPATH": str(ROOT), **mine}
        command = [sys.executable, "-m", "futad", "run", "p.fut", "-b", "multicore"]
        done = subprocess.run(command, cwd=tmp_path, env=env, input="[1.0, 2.5]", capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "3.5f64\n"), done.stderr
    assert len(list((tmp_path / "cache").rglob("*.entries"))) == 2
