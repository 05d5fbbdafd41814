"""Shards on the ranks of an MPI communicator.

All ranks run the same program and make the same calls, each with its range of the shards; all get the result.  If a
rank fails, all raise its error; if one dies, `mpirun` ends the others; what no `except` takes ends all of them.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Any

import numpy as np

from futad.distributed.engines import Made, Told, ranges, settled
from futad.distributed.job import Job
from futad.distributed.recipes import InMemory, Recipe
from futad.errors import ExecutionError, UsageError

_CARDS = "/proc/driver/nvidia/gpus"


class MPI:
    """Ranks of an mpi4py communicator."""

    name = "mpi"

    def __init__(self, comm: Any) -> None:
        try:
            from mpi4py import MPI as mpi
        except (ImportError, RuntimeError) as e:
            hint = "pip install 'futad[mpi]', and an MPI library; mpirun -n 4 python program.py"
            raise UsageError(f"engine 'mpi' needs mpi4py: {e}", hint=hint) from None
        self.comm = mpi.COMM_WORLD if comm is None else comm
        if self.comm.size > 1:
            _take_card(self.comm.Split_type(mpi.COMM_TYPE_SHARED).rank)
            _abort_all(mpi.COMM_WORLD)

    def backend(self, requested: str) -> str:
        return settled(requested)

    def workers(self) -> int:
        size: int = self.comm.size
        return size

    def recipe(self, array: Any) -> Recipe:
        return InMemory(array.shape, array.dtype, array)

    def run(self, job: Job, done: Told) -> Made:
        spans = ranges(job.shards, self.comm.size)
        first, last = spans[self.comm.rank] if self.comm.rank < len(spans) else (0, 0)
        call = (job.split.function.symbol, job.level, job.count, job.shards)
        nodes: Any = {}
        parts: Any = []
        error: BaseException | None = None
        try:
            nodes, parts = job.run(first, last, lambda k: done(k - first + 1))
        except Exception as e:
            error = e
        told = self.comm.allgather((call, "" if error is None else f"{type(error).__name__}: {error}", nodes, parts))
        if error is not None:
            raise error
        for rank, (theirs, failure, _, _) in enumerate(told):
            if failure:
                raise ExecutionError(f"rank {rank} failed: {failure}")
            if theirs != call:
                raise UsageError(f"rank {rank} makes another call: {theirs}, this one {call}",
                                 hint="all ranks call the same functions with the same arguments")  # fmt: skip
        tree = job.tree()
        sent = 0
        for _, _, theirs, _ in told:
            for node, value in theirs.items():
                sent += sum([np.asarray(v).nbytes for v in value])
                tree.add(node, value)
        done(job.shards)
        every = [own for _, _, _, ps in told for own in ps]
        return Made(tree.root(), every, self.comm.size, len(spans), sent)


def _take_card(local: int) -> None:
    """A GPU for each process of a machine, where there are several and nobody has said which."""
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
