"""Shards on the workers of a Dask cluster.

A task is a range of shards, for which the worker sends back the nodes of the tree that they make.  What a lost worker
had is run again on another one by Dask; a task needs nothing but its recipe.  Arrays in memory are written once to a
file that workers map: the scheduler holds no data, and losing a worker loses none.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Collection, Iterator
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from futad.distributed.engines import Made, Told, ranges, settled
from futad.distributed.job import Job
from futad.distributed.recipes import InMemory, Mapped, Recipe
from futad.errors import Error, ExecutionError, UsageError, file_error

SECONDS = 1.0  # of work in a task, about: what a lost worker costs, and how often progress is told
FIRST_TASKS = 4  # for each worker, while the work is not known
LOOK = 1.0  # seconds without a task that ends, after which is looked whether there are workers
ANSWER = 10.0  # seconds for the scheduler to answer
BLOCK = 1 << 20  # bytes that are compared at a time


def run_range(job: Job, first: int, last: int) -> tuple[Any, Any]:
    """What a task runs on a worker."""
    return job.run(first, last)


class Dask:
    """Workers of a `distributed.Client`.  `timeout`: seconds for which there may be none."""

    name = "dask"

    def __init__(self, client: Any, folder: str | None, timeout: float | None = None) -> None:
        try:
            import distributed
        except ImportError:
            raise UsageError("engine 'dask' needs Dask", hint="pip install 'futad[dask]'") from None
        if client is None:
            try:
                client = distributed.get_client()
            except ValueError:
                hint = "client = distributed.Client(...), then shard(..., client=client)"
                raise UsageError("engine 'dask' needs a client, and there is none", hint=hint) from None
        self.client = client
        self.timeout = timeout
        self._folder = folder
        self._spool = ""
        self._files: dict[int, tuple[weakref.ref[Any], Mapped]] = {}
        self._cost: dict[tuple[Any, int], float] = {}  # seconds a shard, by split function and phase

    def backend(self, requested: str) -> str:
        return settled(requested)

    def workers(self) -> int:
        try:
            return len(self.client.sync(self.client.scheduler.ncores, callback_timeout=ANSWER))
        except Exception:  # of Dask, Tornado or the system
            return 0

    def recipe(self, array: Any) -> Recipe:
        """The array in a file, which is compared with it in later calls: an array that was changed is written again."""
        if array.nbytes == 0:
            return InMemory(array.shape, array.dtype, array)
        known = self._files.get(id(array))
        if known is not None and known[0]() is array and _same(array, known[1]):
            return known[1]
        path = ""
        try:
            if not self._spool:
                self._spool = tempfile.mkdtemp(prefix="futad-data-", dir=self._folder)
                weakref.finalize(self, shutil.rmtree, self._spool, True)
            handle, path = tempfile.mkstemp(dir=self._spool)
            with os.fdopen(handle, "wb") as f:
                f.write(np.ascontiguousarray(array).data.cast("B"))
        except OSError as e:
            if path:
                os.unlink(path)
            hint = "an array in memory is written for the workers: make space, or name a folder in shard(..., folder=)"
            error = file_error("write", path or self._folder or tempfile.gettempdir(), e)
            error.hint = hint
            raise error from None
        os.chmod(path, 0o644)
        made = Mapped(array.shape, array.dtype, path, 0, "C")
        self._files[id(array)] = weakref.ref(array), made
        weakref.finalize(array, _forget, weakref.ref(self), id(array), path)
        return made

    def call(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def run(self, job: Job, done: Told) -> Made:
        from distributed import KilledWorker

        if self.client.status != "running":
            raise ExecutionError(f"Dask's client is {self.client.status}")
        workers = max(1, self.workers())
        key = (job.split, job.level)
        each = self._cost.get(key)
        per = FIRST_TASKS if each is None else max(1, math.ceil(each * job.shards / workers / SECONDS))
        spans = ranges(job.shards, min(workers * per, job.shards))
        start = time.perf_counter()
        futures = {self.client.submit(run_range, job, a, b, pure=False): (a, b) for a, b in spans}
        tree = job.tree()
        parts: dict[int, list[Any]] = {}
        count = sent = 0
        try:
            for future in self._finished(futures):
                a, b = futures[future]
                try:
                    nodes, own = future.result()
                except KilledWorker as e:
                    hint = "their logs say why; a shard may be more than their memory holds (more shards=)"
                    raise ExecutionError(f"workers died that ran the shards {a} to {b}: {e}", hint=hint) from None
                except CancelledError:
                    lost = f"Dask has lost the tasks of the shards {a} to {b}"
                    raise ExecutionError(f"{lost}: its scheduler ended, or the client was closed") from None
                for node, value in nodes.items():
                    sent += sum([np.asarray(v).nbytes for v in value])
                    tree.add(node, value)
                parts |= dict(zip(range(a, b), own, strict=True))
                count += b - a
                done(count)
        except RuntimeError as e:
            if isinstance(e, Error) or self.client.status == "running":
                raise
            raise ExecutionError("Dask's client was closed during a call") from None
        finally:
            if self.client.status == "running":
                self.client.cancel(list(futures), asynchronous=True)
        self._cost[key] = (time.perf_counter() - start) * workers / job.shards
        return Made(tree.root(), [parts[k] for k in range(job.shards)], workers, len(spans), sent)


    def _finished(self, futures: Collection[Any]) -> Iterator[Any]:
        """Futures as they end.  Raises ExecutionError if Dask is gone, or has no workers for too long."""
        from distributed import as_completed

        ended = as_completed(futures)
        count, seen = len(futures), time.monotonic()  # when there were workers
        while count:
            began = time.monotonic()
            while not (batch := ended.next_batch(block=False)) and time.monotonic() - began < LOOK:
                time.sleep(max(5e-4, min(2e-2, (time.monotonic() - began) / 20)))
            yield from batch
            count -= len(batch)
            if self.client.status == "closed":
                raise ExecutionError("Dask's client was closed during a call")
            if batch or self.workers():
                seen = time.monotonic()
            elif self.timeout is not None and time.monotonic() - seen > self.timeout:
                text = f"Dask's scheduler has had no workers, or has not answered, for {self.timeout:g} s"
                raise ExecutionError(text, hint="shard(..., timeout=) is how long they are waited for")


def _forget(engine: weakref.ref[Dask], key: int, path: str) -> None:
    """The array is gone, and so is its file."""
    if (there := engine()) is not None:
        there._files.pop(key, None)
    if os.path.exists(path):
        os.unlink(path)


def _same(array: Any, there: Mapped) -> bool:
    """Whether the file has the array's bytes."""
    if not array.flags.c_contiguous or array.shape != there.shape or array.dtype != there.dtype:
        return False
    ours = array.reshape(-1).view(np.uint8)
    theirs = np.memmap(there.path, np.uint8, "r")
    return all(
        np.array_equal(ours[i : i + BLOCK], theirs[i : i + BLOCK]) for i in range(0, max(ours.size, theirs.size), BLOCK)
    )


__all__ = ["Dask"]
