"""Shards on the ranks of MPI; faults of one rank: test_mpi_faults.py."""

from __future__ import annotations

import pytest

import futad
from futad.distributed import shard
from tests.support.mpi import needs_mpirun, started
from tests.support.needs import needs_cc
from tests.support.sharding import arguments, flat

pytest.importorskip("mpi4py")
pytestmark = [pytest.mark.slow, needs_cc, needs_mpirun]


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
    said = ["0 Error: rank 1 failed: ValueError: no such rows", "1 itself no such rows"]
    assert sorted(done.stdout.splitlines()) == said


def test_an_exception_that_nobody_takes_ends_all(tmp_path):
    done = started(2, """
f, args, argnums = compiled("kmeans.objective")
sharded = shard(f, "n", engine="mpi")
if rank == 1: raise ValueError("gone")
sharded(*args)
print("done")
""", tmp_path)  # fmt: skip
    assert done.returncode != 0 and "done" not in done.stdout and "ValueError: gone" in done.stderr
