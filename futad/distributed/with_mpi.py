"""Shards on the ranks of an MPI communicator.

All ranks run the same program and make the same calls, each with its range of the shards; all get the result.  If a
rank fails in a call, all raise (`agreement.py`); if one dies, `mpirun` ends the others; what no `except` takes ends all
of them; who does not come is not waited for longer than a time limit.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

from futad.distributed.agreement import Agreement, duplicate
from futad.distributed.engines import Made, Told, ranges, settled
from futad.distributed.job import Job
from futad.distributed.recipes import InMemory, Recipe
from futad.errors import UsageError

_CARDS = "/proc/driver/nvidia/gpus"
# The number of a process on its machine, as those that start ranks tell it: Open MPI, MPICH and Intel, MVAPICH, PALS,
# Slurm, Flux.
_LOCAL = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID",
          "SLURM_LOCALID", "FLUX_TASK_LOCAL_ID")  # fmt: skip


class MPI:
    """Ranks of an mpi4py communicator.  `timeout`: seconds that they wait for one of which they hear nothing."""

    name = "mpi"

    def __init__(self, comm: Any, timeout: float | None) -> None:
        try:
            from mpi4py import MPI as mpi
        except (ImportError, RuntimeError) as e:
            hint = "pip install 'futad[mpi]', and an MPI library; mpirun -n 4 python program.py"
            raise UsageError(f"engine 'mpi' needs mpi4py: {e}", hint=hint) from None
        self.comm = mpi.COMM_WORLD if comm is None else comm
        self.timeout = timeout
        self.agreed: Agreement | None = None
        if self.comm.size > 1:
            _take_card(self.comm.rank)
            _abort_all(mpi.COMM_WORLD)

    def backend(self, requested: str) -> str:
        return settled(requested)

    def workers(self) -> int:
        size: int = self.comm.size
        return size

    def recipe(self, array: Any) -> Recipe:
        return InMemory(array.shape, array.dtype, array)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        agreed = duplicate(self.comm, self.timeout, _attribute())
        with agreed.call(self.timeout):
            self.agreed = agreed
            yield

    def run(self, job: Job, done: Told) -> Made:
        assert self.agreed is not None, "inside `call`"
        agreed = self.agreed
        spans = ranges(job.shards, self.comm.size)
        first, last = spans[self.comm.rank] if self.comm.rank < len(spans) else (0, 0)

        def one(shard: int) -> None:
            done(shard - first + 1)
            agreed.news()

        own = job.run(first, last, one)
        every = agreed.gather(own, (job.split.function.symbol, job.level, job.count, job.shards))
        tree = job.tree()
        sent = 0
        for nodes, _ in every:
            for node, value in nodes.items():
                sent += sum([np.asarray(v).nbytes for v in value])
                tree.add(node, value)
        done(job.shards)
        return Made(tree.root(), [part for _, parts in every for part in parts], self.comm.size, len(spans), sent)


@functools.cache
def _attribute() -> int:
    """Under which a communicator keeps its agreement."""
    from mpi4py import MPI as mpi

    key: int = mpi.Comm.Create_keyval()
    return key


def _take_card(rank: int) -> None:
    """A GPU for each process of a machine, where there are several and nobody has said which.  Nobody is asked who else
    is on the machine: a rank that has failed before would not answer."""
    local = next((int(number) for name in _LOCAL if (number := os.environ.get(name, "")).isdecimal()), rank)
    if "CUDA_VISIBLE_DEVICES" not in os.environ and os.path.isdir(_CARDS) and (count := len(os.listdir(_CARDS))) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(local % count)


_watched = False


def _abort_all(world: Any) -> None:
    """An exception that nobody takes ends all ranks: others would wait for this one."""
    global _watched
    if _watched:
        return
    _watched = True

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        print(f"rank {world.rank}:", file=sys.stderr)
        traceback.print_exception(kind, value, trace)
        sys.stderr.flush()
        world.Abort(1)

    sys.excepthook = hook


__all__ = ["MPI"]
