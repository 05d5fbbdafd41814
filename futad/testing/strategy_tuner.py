"""The search of `futad tune --strategies`: which of the alternatives of a schedule is the fastest.

All combinations are measured if they are few.  Else it climbs: from the first of all alternatives, and from random
ones, one alternative is changed at a time as long as that is faster.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from futad.errors import UsageError
from futad.testing.compare import mismatch

WORTH = 0.98  # another schedule is chosen only if it takes less than this part of the time
FEW = 24  # combinations that are all measured
STARTS = 3  # random ones to climb from
Picked = tuple[int, ...]


@dataclass(slots=True)
class StrategyTuner:
    """`sizes`: how many there are of each of the alternatives.  `timed` makes the program by a choice of each, and
    gives for each data set the seconds of a call, the least of some, and the results; a UsageError means that the
    choice is impossible."""

    sizes: Sequence[int]
    timed: Callable[[Picked], list[tuple[float, list[Any]]]]
    report: Callable[[str], None]
    costs: dict[Picked, float] = field(default_factory=dict)
    results: list[list[Any]] = field(default_factory=list)

    def search(self) -> Picked:
        """The fastest found, the first ones where nothing is faster.  Raises UsageError if those are impossible, or
        results differ."""
        first = tuple([0] * len(self.sizes))
        if (best := self.cost(first)) == math.inf:
            raise UsageError("the first of the alternatives are impossible; see above")
        found = first
        for picked in self.tries(first):
            if (cost := self.cost(picked)) < best * WORTH:
                found, best = picked, cost
        return found

    def tries(self, first: Picked) -> Iterator[Picked]:
        """What to measure besides."""
        if math.prod(self.sizes) <= FEW:
            yield from itertools.product(*map(range, self.sizes))
            return
        rng = random.Random(0)
        for start in [first, *[tuple([rng.randrange(n) for n in self.sizes]) for _ in range(STARTS)]]:
            here, cost = start, self.cost(start)
            yield here
            moved = True
            while moved:
                moved = False
                for k, n in enumerate(self.sizes):
                    for i in range(n):
                        other = (*here[:k], i, *here[k + 1 :])
                        yield other
                        if self.cost(other) < cost * WORTH:
                            here, cost, moved = other, self.cost(other), True

    def cost(self, picked: Picked) -> float:
        """The geometric mean of the data sets' times; infinite if the choice is impossible."""
        if picked not in self.costs:
            self.costs[picked] = self.measured(picked)
        return self.costs[picked]

    def measured(self, picked: Picked) -> float:
        """`cost`, measured.  Raises UsageError if results are not those of the first choice."""
        name = ", ".join(str(i + 1) for i in picked) or "no alternatives"
        try:
            done = self.timed(picked)
        except UsageError as e:
            self.report(f"{name}: {e.message}")
            return math.inf
        results = [r for _, r in done]
        self.results = self.results or results
        for mine, first in zip(results, self.results, strict=True):
            if (problem := mismatch(mine, first)) is not None:
                raise UsageError(f"alternatives {name} compute something else than the first ones: {problem}")
        seconds = math.exp(sum(math.log(max(t, 1e-9)) for t, _ in done) / len(done))
        self.report(f"{name}: {seconds * 1e3:.4g} ms")
        return seconds


__all__ = ["StrategyTuner"]
