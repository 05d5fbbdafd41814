"""Who runs the shards of a phase.  An engine has `run(job, done)` with a job and whom it tells how many are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from futad.distributed.job import Job
from futad.distributed.recipes import Recipe

Told = Callable[[int], None]


@dataclass(slots=True)
class Made:
    """What a phase made of all shards: combined values, for each shard its parts of sharded ones; and how."""

    sums: list[Any]
    parts: list[list[Any]]
    workers: int = 1
    tasks: int = 1
    sent: int = 0  # bytes of partial values that came from workers


class Engine(Protocol):
    """`backend`: what the parts run on, given what the program was loaded with.  `recipe`: of an array in memory.
    `call`: all that is done in a call of a sharded entry is done inside."""

    name: str

    def backend(self, requested: str) -> str: ...

    def workers(self) -> int: ...

    def recipe(self, array: Any) -> Recipe: ...

    def call(self) -> AbstractContextManager[None]: ...

    def run(self, job: Job, done: Told) -> Made: ...


class Local:
    """This process, one shard after the other: for data larger than memory."""

    name = "local"

    def backend(self, requested: str) -> str:
        return requested

    def workers(self) -> int:
        return 1

    def recipe(self, array: Any) -> Recipe:
        from futad.distributed.recipes import InMemory

        return InMemory(array.shape, array.dtype, array)

    def call(self) -> AbstractContextManager[None]:
        return nullcontext()

    def run(self, job: Job, done: Told) -> Made:
        count = 0

        def one(shard: int) -> None:
            nonlocal count
            count += 1
            done(count)

        nodes, parts = job.run(0, job.shards, one)
        (sums,) = nodes.values()
        return Made(sums, parts)


def settled(requested: str) -> str:
    """What `auto` is where one process runs on each processor: a GPU if there is one, else C on one thread."""
    from futad.backend import backends

    if requested == "auto":
        return "cuda" if backends.gpu_answers() else "c"
    return requested


def ranges(count: int, tasks: int) -> Sequence[tuple[int, int]]:
    """Shards that follow each other, for each of some tasks; none is empty."""
    tasks = max(1, min(count, tasks))
    return [(count * t // tasks, count * (t + 1) // tasks) for t in range(tasks)]


__all__ = ["Engine", "Local", "Made", "Told", "ranges", "settled"]
