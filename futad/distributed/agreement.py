"""Ranks of MPI that take part in a call: all of them return from it, or none does.

A call is a sequence of steps.  A rank that has done its part of a step tells rank 0, which waits for all and then tells
them to go on.  A rank that fails, whatever the exception, tells rank 0 and raises at once; rank 0 makes all others give
the call up, in the same step or the next one.  The end of a call is a step, too.

Ranks wait for point-to-point messages alone, with a time limit: a rank that is busy sends news of itself between
shards, and who is not heard of for so long has failed.  A collective operation of MPI cannot be left, so all say that
they are about to begin it, with its memory allocated, and signals of Python's handlers are held back until it ends.

Messages name the call by its number, so those of a call that was given up are passed over in later ones.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from futad.errors import Error, ExecutionError, UsageError

TAG = 1  # the communicator is a duplicate that nobody else has
NEWS = 10  # times in the time limit that a busy rank sends news of itself
GRACE = 1.2  # the time limit for rank 0, which has others to wait for
SPIN, LONGEST = 2e-2, 5e-3  # seconds: how long a wait is busy, and the longest pause between two looks later
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
HERE, DONE, GO, FAILED = range(4)  # kinds of messages
HINT = "it may have failed before this call; shard(..., timeout=) is how long ranks wait for a call or a shard"
ERROR, USAGE, SILENT = range(3)  # kinds of failures


class Agreement:
    """What the ranks of a communicator `comm`, a private duplicate, agree on."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.limit: float | None = None  # seconds
        self.lost = ""  # why ranks do not wait for each other any more
        self._call = self._step = 0
        self._open = False  # whether others wait for this rank
        self._sent: list[Any] = []
        self._told = 0.0  # when this rank last said something
        self._heard = np.zeros(comm.size)  # when others did

    @contextlib.contextmanager
    def call(self, limit: float | None) -> Iterator[None]:
        """All of a call.  Raises ExecutionError if another rank fails in it or is not heard of for `limit` seconds."""
        if self.lost:
            raise ExecutionError(f"ranks have lost each other in an earlier call: {self.lost}")
        self.limit, self._call, self._step, self._open = limit, self._call + 1, 0, True
        try:
            yield
            self.agree("the end")
        except BaseException as e:
            if self._open:
                self._tell(FAILED, (ERROR, f"rank {self.comm.rank} failed: {described(e)}"))
            raise
        finally:
            self._open = False

    def news(self) -> None:
        """This rank is busy and alive: those who wait for it are told now and then."""
        if self.limit is not None and time.monotonic() - self._told > self.limit / NEWS:
            self._tell(HERE, None)

    def gather(self, value: Any, what: Any) -> list[Any]:
        """The value of each rank, in their order.  `what` is the same on all of them, else raises UsageError."""
        own = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        sizes = self.agree(what, len(own))
        ends = np.cumsum(sizes)
        starts = ends - sizes
        every = np.empty(ends[-1], np.uint8)
        with held_back():
            self.agree("an exchange")
            self.comm.Allgatherv(np.frombuffer(own, np.uint8), [every, (sizes, starts)])
        return [pickle.loads(every[a:b].data) for a, b in zip(starts, ends, strict=True)]

    def agree(self, what: Any, size: int = 0) -> np.ndarray[Any, Any]:
        """The end of a step: waits for all ranks; their sizes.  `what` is the same on all of them."""
        self._step += 1
        return self._decide(what, size) if self.comm.rank == 0 else self._follow(what, size)

    def _decide(self, what: Any, size: int) -> np.ndarray[Any, Any]:
        """Of rank 0."""
        sizes = np.full(self.comm.size, size)
        missing = set(range(1, self.comm.size))
        for now in self._waiting():
            while missing and (message := self._received(now)):
                rank, step, kind, value = message
                if kind == FAILED:
                    self._give_up(*value)
                elif kind == DONE and (step, value[0]) != (self._step, what):
                    self._give_up(USAGE, f"rank {rank} makes another call: {value[0]}, rank 0 {what}")
                elif kind == DONE:
                    sizes[rank] = value[1]
                    missing.remove(rank)
            if not missing:
                break
            self.news()
            late = [r for r in sorted(missing) if self.limit is not None and now - self._heard[r] > self.limit]
            if late:
                self._give_up(SILENT, f"{numbered(late)} not been heard of for {self.limit:g} s")
        self._tell(GO, sizes)
        return sizes

    def _follow(self, what: Any, size: int) -> np.ndarray[Any, Any]:
        """Of the other ranks."""
        self._tell(DONE, (what, size))
        for now in self._waiting():
            while message := self._received(now):
                _, step, kind, value = message
                if kind == FAILED:
                    self._open = False
                    self._raise(*value)
                if kind == GO and step == self._step:
                    sizes: np.ndarray[Any, Any] = value
                    return sizes
            if self.limit is not None and now - self._heard[0] > self.limit * GRACE:
                self._give_up(SILENT, f"rank 0 has not been heard of for {self.limit * GRACE:g} s")
        raise AssertionError

    def _waiting(self) -> Iterator[float]:
        """Times at which to look for messages.  Who is waited for may have been silent until now."""
        self._heard[:] = time.monotonic()
        return waiting()

    def _received(self, now: float) -> tuple[int, int, int, Any] | None:
        """A message of this call: its rank, step, kind and value; None if there is none."""
        from mpi4py import MPI

        status = MPI.Status()
        while self.comm.iprobe(MPI.ANY_SOURCE, TAG, status):
            rank = status.Get_source()
            call, step, kind, value = self.comm.recv(source=rank, tag=TAG)
            self._heard[rank] = now
            if call > self._call:
                return rank, step, FAILED, (SILENT, f"rank {rank} has left the call without a word")
            if call == self._call:
                return rank, step, kind, value
        return None

    def _tell(self, kind: int, value: Any) -> None:
        """A message to rank 0, and from there to all; nobody waits until it has arrived."""
        self._told = time.monotonic()
        self._sent = [request for request in self._sent if not request.Test()]
        for rank in range(1, self.comm.size) if self.comm.rank == 0 else [0]:
            self._sent.append(self.comm.isend((self._call, self._step, kind, value), rank, TAG))

    def _give_up(self, kind: int, text: str) -> NoReturn:
        self._open = False
        self._tell(FAILED, (kind, text))
        self._raise(kind, text)

    def _raise(self, kind: int, text: str) -> NoReturn:
        if kind == USAGE:
            raise UsageError(text, hint="all ranks call the same functions with the same arguments")
        if kind == ERROR:
            raise ExecutionError(text)
        self.lost = text
        raise ExecutionError(text, hint=HINT)


def duplicate(comm: Any, limit: float | None, known: int) -> Agreement:
    """The agreement of a communicator, kept as its attribute `known`.  Raises ExecutionError if after `limit` seconds
    not all ranks have asked for it."""
    agreement: Agreement | None = comm.Get_attr(known)
    if agreement is None:
        made, request = comm.Idup()
        agreement = Agreement(made)
        agreement.lost = f"of {comm.size} ranks some did not make the first call"
        comm.Set_attr(known, agreement)
        if not until(request.Test, limit):
            text = f"of {comm.size} ranks some have not made this call within {limit:g} s"
            raise ExecutionError(text, hint=HINT)
        agreement.lost = ""
    return agreement


def until(true: Callable[[], bool], limit: float | None) -> bool:
    """Waits until something is true; whether it is within `limit` seconds."""
    began = time.monotonic()
    for now in waiting():
        if true():
            return True
        if limit is not None and now - began > limit:
            return False
    raise AssertionError


def waiting() -> Iterator[float]:
    """The time, again and again, with pauses that become longer."""
    began = now = time.monotonic()
    while True:
        yield now
        now = time.monotonic()
        if now - began < SPIN:
            os.sched_yield()
        else:
            time.sleep(min(LONGEST, (now - began) / 20))


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Handlers of signals, which may raise exceptions anywhere, run at the end of this."""
    before: dict[signal.Signals, Any] = {}
    came: list[int] = []
    try:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if callable(handler := signal.getsignal(number)):
                    before[number] = handler
                    signal.signal(number, lambda number, frame: came.append(number))
        yield
    finally:
        for number in before:
            signal.signal(number, before[number])
        while came:
            signal.raise_signal(came.pop(0))


def described(error: BaseException) -> str:
    """An exception's kind and text; also of one whose text cannot be had."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, Error):
        text = text.removeprefix("error: ").removeprefix("Error: ")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def numbered(ranks: list[int]) -> str:
    return f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} have"


__all__ = ["Agreement", "duplicate"]
