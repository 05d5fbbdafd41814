"""`multicore` against `c`: which rows of `cpu.py` have the work for several threads, how much faster these are to be,
and what the machine gives when `c` runs several times at once.

What sharing work out gains at best: waking the threads takes WAKING, then each does its part of the T seconds that `c`
takes, so that n threads are T / (T / n + WAKING) times as fast.  A row has the work if that reaches the limit, SHARE of
the number of threads.  So a row counts whatever its program looks like: one whose work is in steps too short to be
shared is a shortfall like any other.

How much of its processors a machine with other work gives changes from moment to moment.  So copies of `c` run at once
in turn with the rest of the row, a thread and a program each: what they do together over what one does alone is the
machine's gain at that time.  It is no strict bound: a half of the data may fit into a cache that all of it does not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SHARE = 0.8  # of the number of threads: 1.6 on two
WAKING = 20e-6  # seconds; kernels/thread_pool.h wakes a sleeping thread for no job that takes less
AT_ONCE = 2e-3  # seconds that copies run at least, so that beginning and ending together does not count


def limit(threads: int) -> float:
    """How many times as fast as `c` so many threads are to be."""
    return SHARE * threads


def least_work(threads: int) -> float:
    """The seconds that `c` must take at least for the limit to be within reach."""
    return WAKING * limit(threads) / (1 - SHARE)


@dataclass(frozen=True, slots=True)
class Speedup:
    """Of a row: `c` over `multicore` by medians and by the best runs, what the machine gives (None: not measured), the
    limit, and whether the row has the work for it."""

    gain: float
    best: float
    machine: float | None
    limit: float
    enough: bool

    @property
    def missed(self) -> bool:
        """Whether it falls short."""
        return self.enough and self.gain < self.limit

    @property
    def withheld(self) -> bool:
        """Whether the machine did not give copies of `c` as much as the limit either."""
        return self.machine is not None and self.machine < self.limit

    @property
    def verdict(self) -> str:
        if not self.enough:
            return "too little work"
        return f"limit {self.limit:g}: {'MISSED' if self.missed else 'good'}"


def speedup(row: dict[str, Any]) -> Speedup | None:
    """Of a row of `cpu.py`'s measurements; None with one thread."""
    if row["threads"] < 2:
        return None
    c, multicore = (next(t for t in row["times"] if t["who"] == who) for who in ("c", "multicore"))
    copies = row.get("at_once")
    return Speedup(
        c["median"] / multicore["median"],
        c["best"] / multicore["best"],
        row["threads"] * c["median"] / copies["median"] if copies else None,
        limit(row["threads"]),
        c["median"] >= least_work(row["threads"]),
    )


def summary(found: Sequence[Speedup]) -> str:
    """How many rows of how many miss the limit."""
    enough = [s for s in found if s.enough]
    missed = [s for s in enough if s.missed]
    withheld = sum(s.withheld for s in missed)
    return (
        f"{len(missed)} of {len(enough)} rows with enough work miss the limit, {withheld} of these while the machine "
        f"gave copies of c less than that; {len(found) - len(enough)} rows have too little work"
    )


class AtOnce:
    """Calls of equal work, each in a thread of its own, that begin together; a context, which ends the threads.

    `seconds()` is what a call takes while all run, from the common beginning to the end of the last one.
    """

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        start = time.perf_counter()
        for call in calls:
            call()
        each = max((time.perf_counter() - start) / len(calls), 1e-7)
        self.iterations = max(1, round(AT_ONCE / each))
        self.calls, self.going = calls, True
        self.begin, self.end = threading.Barrier(len(calls)), threading.Barrier(len(calls))
        self.starts, self.ends = [0.0] * len(calls), [0.0] * len(calls)
        self.threads = [threading.Thread(target=self._main, args=(i,), daemon=True) for i in range(1, len(calls))]
        for t in self.threads:
            t.start()

    def _main(self, i: int) -> None:
        while True:
            self.begin.wait()
            if not self.going:
                return
            self._work(i)

    def _work(self, i: int) -> None:
        self.starts[i] = time.perf_counter()
        try:
            for _ in range(self.iterations):
                self.calls[i]()
        except BaseException:
            self.end.abort()  # nobody waits for who has failed
            raise
        self.ends[i] = time.perf_counter()
        self.end.wait()

    def seconds(self) -> float:
        self.begin.wait()
        self._work(0)  # on a busy machine others may have begun before
        return (max(self.ends) - min(self.starts)) / self.iterations

    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *_: object) -> None:
        self.going = False
        if self.end.broken:
            return
        self.begin.wait()
        for t in self.threads:
            t.join()
