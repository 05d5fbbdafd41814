"""A disk that fills while futad, or a program that it has built, writes a file: an error, no part of the file, and what
was there before is there still."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from futad.errors import FileError
from tests.support.disk import fill, small_disk
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

SOURCE = """-- ==
-- input { 3i64 } output { [0i64, 1i64, 2i64] }
entry main (n: i64): [n]i64 = iota n
entry %s (n: i64): [n]i64 = iota n
""" % ("a_long_name" * 500)  # so that each file is longer than a page
# What each command writes to the disk.
COMMANDS = {
    "c": "c p.fut -o DISK/p.c", "library": "c p.fut --library -o DISK/p",
    "server": "multicore p.fut --server -o DISK/p",
    "cuda": "cuda p.fut -o DISK/p.cu", "stub": "stub p.fut -o DISK/p.pyi",
    "picture": "dev p.fut --graph DISK/p.svg", "times": "bench p.fut -b interp -r 2 --json DISK/p.json",
    "dataset": "dataset -g [10000]i64 > DISK/p", "binary": "dataset -b -g [10000]i64 > DISK/p",
    "values": "run p.fut -b interp > DISK/p", "results": "run p.fut -b interp -B > DISK/p",
}  # fmt: skip


def shell(line: str, folder: Path, given: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FUTAD_CFLAGS": "-O0"}
    return subprocess.run(["sh", "-c", line], cwd=folder, input=given, capture_output=True, text=True, env=env,
                          timeout=100)  # fmt: skip


@needs_cc
@pytest.mark.parametrize("name", list(COMMANDS))
def test_commands(name: str, tmp_path: Path) -> None:
    (tmp_path / "p.fut").write_text(SOURCE)
    with small_disk(tmp_path / "small") as disk:
        redirected = ">" in COMMANDS[name]
        if not redirected:
            line = f"{sys.executable} -m futad {COMMANDS[name].replace('DISK', '.')}"
            assert shell(line, tmp_path, "").returncode == 0
            kept = {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file() and p.name != "p.fut"}
            assert kept and (len(max(kept.values(), key=len)) > 4096 or name == "times")
            for path, data in kept.items():  # what was written before
                (disk / path.name).write_bytes(data[:100])
        for left in (0, 4096):
            fill(disk, left)
            line = f"{sys.executable} -m futad {COMMANDS[name].replace('DISK', 'small')}"
            done = shell(line, tmp_path, "100000")
            if name == "times" and left:
                assert json.loads((disk / "p.json").read_text())
                continue
            assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
            assert "No space left on device" in done.stderr and "internal" not in done.stderr
            if not redirected:
                assert {p.name for p in disk.iterdir()} == {"filling", *[p.name for p in kept]}
                assert all((disk / p.name).read_bytes() in (data[:100], data) for p, data in kept.items())


@needs_cc
def test_executables_and_servers(tmp_path: Path) -> None:
    (tmp_path / "p.fut").write_text("entry main (n: i64): [n]i64 = iota n\n")
    for kind in ("executable", "server"):
        done = shell(f"{sys.executable} -m futad c p.fut --{kind} -o {kind}", tmp_path, "")
        assert done.returncode == 0, done.stderr
    with small_disk(tmp_path / "small") as disk:
        for left in (0, 4096, 100_000):
            fill(disk, left)
            for flags in ("", "-b"):
                done = shell(f"./executable {flags} > small/out", tmp_path, "100000")
                assert (done.returncode, done.stderr) == (1, "error: output: No space left on device\n")
                (disk / "out").unlink()
            given = f"restore {tmp_path}/n n i64\ncall main r n\nstore small/r r\nentry_points\n"
            (tmp_path / "n").write_bytes(b"b\2\0 i64" + np.int64(100_000).tobytes())
            done = shell("./server", tmp_path, given)
            assert done.returncode == 0 and "%%% FAILURE" in done.stdout and "No space left on device" in done.stdout
            assert done.stdout.rstrip().endswith("main\n%%% OK"), "it goes on"
            assert {p.name for p in disk.iterdir()} == {"filling"}


def test_data_for_workers(tmp_path: Path) -> None:
    """An array in memory that is written for Dask's workers."""
    pytest.importorskip("distributed")
    from futad.distributed.with_dask import Dask

    with small_disk(tmp_path / "small") as disk:
        engine = Dask(object(), str(disk))
        x = np.arange(1000.0)
        good = engine.recipe(x)
        with pytest.raises(FileError, match="cannot write .*small.*: No space left on device") as e:
            engine.recipe(np.arange(100_000.0))
        assert "shard(..., folder=)" in str(e.value)
        assert sum(p.stat().st_size for p in disk.rglob("*") if p.is_file()) <= 8000
        assert good.read(0, 3, 5).tolist() == [3, 4]
