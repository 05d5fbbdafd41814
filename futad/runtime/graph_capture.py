"""What calls did, as graphs to replay.

Note [Recordings]
~~~~~~~~~~~~~~~~~
A call of an entry is a sequence of launches, copies and zeros, cut into segments by the values that the host reads
to go on.  Between two reads everything is decided by the arguments (numbers and addresses), the addresses of the
memory slots, and the values read before.  So a recording, kept for the arguments of a call, is a tree: a segment is a
captured graph, its children are by the value read after it.  A call like one before goes down the tree and launches
the graphs; the Python of the host does not run.  Where it meets a value not met before, the Python runs from the
start with everything done so far skipped and the values read so far answered from memory, and captures on from there.

Recordings are dropped when slots change addresses.  A call is captured the second time it is made, if it launches
enough between reads for a graph to pay.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from futad.runtime.device import Graph

MOST_RECORDINGS = 16
MOST_STEPS = 64  # of a recording; segments beyond run without
MOST_NODES = 16384  # of a graph; longer segments are cut
ENOUGH_LAUNCHES = 2  # a segment, on average


@dataclass(slots=True, eq=False)
class Step:
    """A segment: its graph (None: nothing to do), whether its kernels can fail, and what comes after it: a read of
    (address, dtype), the next part of a segment that was cut, or the end with its results."""

    graph: Graph | None = None
    fails: bool = False
    nodes: int = 0
    read: tuple[int, np.dtype[Any]] | None = None
    after: dict[Hashable, Step] = field(default_factory=dict)
    results: list[Any] | None = None
    known: bool = False
    plain: bool = False  # not to be captured


@dataclass(slots=True, eq=False)
class Recording:
    """The segments of calls with the same arguments."""

    version: int = -1
    pays: bool = False
    plain: bool = False  # could not be captured: never tried again
    steps: int = 0
    root: Step = field(default_factory=Step)

    def reset(self, version: int) -> None:
        """Forget the segments: slots have moved."""
        self.version, self.steps, self.root = version, 1, Step()

    def next(self, step: Step, value: Any) -> Step:
        """What follows a step when `value` was read (None where a segment was cut)."""
        key = word(value)
        found = step.after.get(key)
        if found is None:
            # The rest of a segment that was cut is always captured: no value says where it begins.
            found = step.after[key] = Step(plain=value is not None and self.steps >= MOST_STEPS)
            self.steps += 1
        return found


class Recordings:
    """The recordings of a program, by entry and arguments; the least recently used ones go."""

    def __init__(self) -> None:
        self.recordings: OrderedDict[Hashable, Recording] = OrderedDict()

    def of(self, name: str, values: list[Any]) -> Recording:
        key = (name, *map(word, values))
        recording = self.recordings.get(key)
        if recording is None:
            recording = self.recordings[key] = Recording()
            if len(self.recordings) > MOST_RECORDINGS:
                self.recordings.popitem(last=False)
        else:
            self.recordings.move_to_end(key)
        return recording

    def clear(self) -> None:
        self.recordings.clear()


def word(value: Any) -> Hashable:
    """A value's bits: 0.0 and -0.0 differ, a NaN equals itself."""
    return value.tobytes() if isinstance(value, np.generic) else value
