"""Tasks shared out to processes, which compiled code may crash or hang without harm.

A process takes one task after the other, each with a limit of time.  If it dies or exceeds the limit it is replaced,
and its task is done again program by program, so that the one at fault is found.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from futad import checks
from futad.testing.fuzz.batch import Finding, Outcome, Task, run

RENEW = 40  # tasks after which a process is replaced: its loaded programs stay in memory


def _serve(pipe: Connection, folder: str, chosen: frozenset[str]) -> None:
    """The body of a process: tasks in, outcomes out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["FUTAD_CACHE_DIR"] = folder
    import futad.api.derive  # noqa: F401 (the compiler is loaded before the first task)

    gc.freeze()
    gc.disable()  # a fifth of the time; between tasks what one has made goes at once
    with checks.checking(chosen):
        while (task := pipe.recv()) is not None:
            pipe.send(run(task))
            gc.collect()


class _Process:
    def __init__(self, context: Any) -> None:
        self.folder = tempfile.mkdtemp(prefix="futad-fuzz-")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self.folder, checks.modes()), daemon=True)
        self.process.start()
        other.close()
        self.task: Task | None = None
        self.since = 0.0
        self.done = 0

    def give(self, task: Task) -> None:
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def end(self) -> None:
        if self.process.is_alive() and self.task is None:
            try:
                self.pipe.send(None)
                self.process.join(1)
            except OSError:
                pass
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Pool:
    """`jobs` processes; `limit` is the time for one program, in seconds."""

    def __init__(self, jobs: int, limit: float) -> None:
        # Forked processes have the compiler loaded; where forking is not the safe way, each loads its own.
        if sys.platform == "linux":
            import futad.source

            futad.source.compile_text("def main (x: f64) = x", "warm.fut")
            self.context: Any = multiprocessing.get_context("fork")
        else:
            self.context = multiprocessing.get_context("spawn")
        self.limit = limit
        self.processes = [_Process(self.context) for _ in range(jobs)]

    def outcomes(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """What each task came to, in the order they end; tasks are taken as processes become free."""
        coming = iter(tasks)
        again: list[Task] = []
        dry = False
        while True:
            for k, p in enumerate(self.processes):
                if p.task is not None:
                    continue
                if p.done >= RENEW:
                    p.end()
                    p = self.processes[k] = _Process(self.context)
                task = again.pop() if again else None if dry else next(coming, None)
                if task is None:
                    dry = dry or not again
                    continue
                p.give(task)
            busy = [p for p in self.processes if p.task is not None]
            if not busy:
                return
            for pipe in wait([p.pipe for p in busy], timeout=1.0):
                k = next(k for k, p in enumerate(self.processes) if p.pipe is pipe)
                p = self.processes[k]
                assert p.task is not None
                try:
                    outcome = p.pipe.recv()
                except (EOFError, OSError):
                    yield from self._lost(k, again, "crash")
                    continue
                p.task, p.done = None, p.done + 1
                yield outcome
            now = time.monotonic()
            for k, p in enumerate(self.processes):
                if p.task is not None and now - p.since > self._limit(p.task):
                    yield from self._lost(k, again, "hang")

    def _limit(self, task: Task) -> float:
        return (self.limit + task.shrink) * (1 + len(task.programs))

    def _lost(self, k: int, again: list[Task], what: str) -> Iterator[Outcome]:
        """A process that died or does not answer: its task is divided, or if it is one program, that is the finding."""
        p = self.processes[k]
        task = p.task
        assert task is not None
        p.process.join(1)
        code = p.process.exitcode
        p.end()
        self.processes[k] = _Process(self.context)
        if len(task.programs) > 1:
            again += [replace(task, programs=(one,)) for one in task.programs]
            return
        detail = f"no end after {self._limit(task):.0f} s" if what == "hang" else f"the process ended with {code}"
        out = Outcome(task, programs=1)
        c = task.cases()[0]
        out.tried.update({(c.kind, m, task.backend): 1 for m in c.modes})
        out.findings.append(Finding(c.kind, c.seed, c.elem, "+".join(c.modes), task.backend, what, detail))
        yield out

    def close(self) -> None:
        for p in self.processes:
            p.end()


__all__ = ["Pool"]
