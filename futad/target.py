"""The machines that programs are compiled for: one record each, which passes and lowering ask."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from futad.errors import UsageError

if TYPE_CHECKING:
    from futad.rewrite.choices import Choices

MANY = 1 << 30  # threads, where it is not known how many or there are as many as anybody wants
FEW = 8  # up to as many threads a loop is at least as fast as a parallel rule that does several times its work


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One machine.

    `name` is the backend's; `code` the language of its code: 'c', 'cuda', or '' where core IR itself is run.
    `threads` run a call; where there are `few`, AD and the passes prefer less work to more parallelism.  `traces`:
    a program may print while it runs.  `load` to `small` are what memory costs, which `optimise/remat/policy.py` asks.
    All other fields are decisions of the lowering.
    """

    name: str
    code: str = ""
    threads: int = MANY
    load: int = 3  # of an element of an array, in scalar operations, see `core/scalarops.py`
    store: int = 5
    cached: int = 1 << 20  # bytes that are still in a cache when a return sweep reads them
    small: int = 1 << 23  # bytes that an array may have which is there for another choice of what is computed
    traces: bool = True
    pool: bool = False  # nests are cut into parts, which a thread pool takes
    forks: bool = False  # tasks may run at once
    reassociates: bool = True  # sums of floats may be taken in vector lanes
    builds_in_place: bool = False  # the parts of an array are computed where it will lie
    jams: bool = False  # unroll-and-jam: several iterations of a loop run together inside its inner loops
    outer_lanes: bool = False  # outer-loop vectorisation: many iterations run in vector lanes
    tiles: bool = False  # maps that follow each other are done a tile of their width at a time
    grows: bool = False  # an array that a loop appends to stays where it is until its slot is full
    transposes: bool = False  # the emitter has `Transpose`
    packs: bool = False  # the emitter has `Pack`
    moves: bool = False  # the emitter has `Move` (`imp/moves.py`)
    stops: bool = False  # a call ends early if it is told to
    choices: Choices | None = None  # what a schedule asks of nests, and what becomes of them
    digit_bits: int = 11  # of a key that a sort takes in one pass: the counts stay in the nearest cache

    @property
    def few(self) -> bool:
        """Whether a call runs on one thread, or on few."""
        return self.threads <= FEW


INTERP = Target(name="interp", forks=True)
C = Target(
    name="c", code="c", threads=1, builds_in_place=True, jams=True, outer_lanes=True, tiles=True, grows=True,
    transposes=True, packs=True, moves=True,
)  # fmt: skip
MULTICORE = replace(C, name="multicore", threads=MANY, pool=True, forks=True)
# A thread of a device has few registers, and its own counts of digits.
CUDA = Target(name="cuda", code="cuda", traces=False, digit_bits=8)
EMULATED = replace(CUDA, name="emulated")
TARGETS = {t.name: t for t in (INTERP, C, MULTICORE, CUDA, EMULATED)}


def target_of(backend: str) -> Target:
    """The target of a backend as it runs on this machine, in this process.  Raises UsageError if there is none."""
    if backend not in TARGETS:
        raise UsageError(f"no backend is called '{backend}'; there are: {', '.join(TARGETS)}")
    target = TARGETS[backend]
    return replace(target, threads=thread_count()) if target.pool else target


def thread_count() -> int:
    """How many threads `multicore` has, see `kernels/thread_pool.h`."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


__all__ = ["C", "CUDA", "EMULATED", "INTERP", "MULTICORE", "TARGETS", "Target", "target_of", "thread_count"]
