"""What a program tells of its own run: numbers of `ir.Measure`, kept by place, for whoever asks after the call.

A program has a number of sites; two nodes of the same facts and names are one.  Each keeps words of i64, of which the
first is how often it was passed, followed by two for each number, its sum and the largest.  Threads and devices only
add and take the larger, so order does not matter.

Of a loop whose derivative has a budget (`core/budget.py`) the facts are

    loop      its place, None if not known
    what      "loop", or how many loops are split as one
    way       "kept", "rerun" or "undone"
    state     the names of the variables of a state, as text
    inverse   which operations undo an iteration; or why it cannot be undone: the variable, the statement

and the numbers, all of them i64, in bytes where they are of memory, any of which may be left out

    iterations   of the loop                          predicted   what is kept by the formula
    states       that fit                             held        what was kept
    state        bytes of one                         budget      what was allowed
    runs         of iterations, the first included    without     what would be kept without a budget
    least        runs that cannot be avoided          block       iterations from state to state, if several

    (a run of the loop that only counts its iterations or their sizes is not among the runs)

    points       of return: states with which a loop that is undone goes on

    deviation    of what came back from what it was, relative, as the bits of an f64; `allowed` beside it
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

# The number of a record that is of a whole program: bytes reserved, or those of them that were written.
MEMORY, WRITTEN = "memory", "written"
Facts = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Site:
    """What measures say at one place: the static facts, the names of the numbers, and the first of its words."""

    facts: Facts
    names: tuple[str, ...]
    at: int

    @property
    def words(self) -> int:
        return 1 + 2 * len(self.names)


@dataclass(slots=True)
class Measured:
    """What a site has told in a call: how often, and for each number the sum and the largest."""

    facts: Facts
    times: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)

    def add(self, times: int, numbers: Iterable[tuple[str, int, int]]) -> None:
        """Sums and largest numbers, by name."""
        self.times += times
        for name, total, largest in numbers:
            self.sums[name] = self.sums.get(name, 0) + total
            self.most[name] = max(self.most.get(name, 0), largest)


def bits_of(x: float) -> int:
    """The bits of an f64, as an i64."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def real_of(bits: int) -> float:
    """The f64 of these bits."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


class Sites:
    """The sites of a program that is being compiled."""

    def __init__(self) -> None:
        self.found: dict[tuple[Facts, tuple[str, ...]], Site] = {}
        self.words = 0

    def of(self, facts: Facts, names: tuple[str, ...]) -> Site:
        """The site of these facts and names."""
        if (facts, names) not in self.found:
            site = self.found[facts, names] = Site(facts, names, self.words)
            self.words += site.words
        return self.found[facts, names]

    def all(self) -> tuple[Site, ...]:
        return tuple(self.found.values())


def words_of(sites: Sequence[Site]) -> int:
    """How many words they have."""
    return sum(s.words for s in sites)


def gathered(
    sites: Sequence[Site], blocks: Iterable[Sequence[int]], memory: int, number: str = MEMORY
) -> list[Measured]:
    """What was told, by the words of one or several blocks of memory; sites that were not passed are left out.  After
    them, if there are any: the bytes of all memory that the program has after the call, as a `number`."""
    out = [Measured(s.facts) for s in sites]
    for words in blocks:
        for site, m in zip(sites, out, strict=True):
            times, *rest = words[site.at : site.at + site.words]
            if times:
                m.add(times, zip(site.names, rest[::2], rest[1::2], strict=True))
    told = [m for m in out if m.times]
    return [*told, Measured((), 1, {}, {number: memory})] if told else []


__all__ = ["MEMORY", "WRITTEN", "Facts", "Measured", "Site", "Sites", "bits_of", "gathered", "real_of", "words_of"]
