"""The search of `futad tune`: the thresholds with which a program's data sets take the least time.

What it finds is kept by `runtime/tuning.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from futad.errors import InternalError
from futad.runtime.device import Thresholds
from futad.testing.compare import mismatch

if TYPE_CHECKING:
    from futad.runtime.deviceprogram import DeviceProgram

NEVER = 1 << 62  # above every size
_STEPS = (1 / 64, 1 / 16, 1 / 4, 4, 16, 64)
WORTH = 0.98  # a version is chosen only if it takes less than this part of the time


@dataclass(frozen=True, slots=True)
class Call:
    """A data set: an entry's core name and its core arguments."""

    label: str
    name: str
    args: Sequence[Any]


@dataclass(slots=True)
class Tuner:
    """Looks for the thresholds with which a program's data sets take the least time, as a product of ratios.

    One threshold is varied at a time.  Different values that lead to the same kernels are measured once.
    """

    program: DeviceProgram
    calls: Sequence[Call]
    runs: int
    report: Callable[[str], None]
    times: dict[tuple[int, tuple[int, ...]], float] = field(default_factory=dict)
    results: dict[int, list[Any]] = field(default_factory=dict)

    def search(self) -> Thresholds:
        """The best thresholds found; the program uses them from now on."""
        best = self.program.device.limits.thresholds
        cost = self.cost(best)
        for name, before in best._asdict().items():
            if not self.matters(name):
                continue
            values = [0, *[round(before * s) for s in _STEPS], NEVER]
            if before >= NEVER:  # without a BLAS of its own there is no scale
                values = [0, *[1 << n for n in range(10, 40, 5)]]
            for value in sorted({v for v in values if v != before}):
                new = best._replace(**{name: value})
                found = self.cost(new)
                if found < cost * WORTH:
                    best, cost = new, found
            self.report(f"{name}: {_text(before)} -> {_text(getattr(best, name))}")
        self.program.choose(best)
        return best

    def matters(self, name: str) -> bool:
        """Whether the program compares anything with a threshold."""
        if name == "blas":
            return self.program.has_products
        return self.program.host.count(name.upper()) > len(self.program.layout.functions)

    def cost(self, thresholds: Thresholds) -> float:
        """The geometric mean of the calls' times, in seconds."""
        self.program.choose(thresholds)
        return math.exp(sum(math.log(self.time(i)) for i in range(len(self.calls))) / len(self.calls))

    def time(self, i: int) -> float:
        """Seconds of a call with the present thresholds: the least of some runs."""
        call, r = self.calls[i], self.program.runtime
        r.trace = True
        try:
            results = self.program.run(call.name, call.args)
        finally:
            r.trace = False
        path = tuple(r.counts.path)
        first = self.results.setdefault(i, results)
        if (problem := mismatch(results, first)) is not None:
            raise InternalError(f"{call.label}: versions of the program disagree: {problem}")
        key = (i, path)
        if key not in self.times:
            # The first run after the one above captures the graph.
            self.times[key] = max(min(self.program.timed(call.name, call.args, self.runs + 1)[1:]), 1e-9)
        return self.times[key]


def _text(value: int) -> str:
    return "never" if value >= NEVER else str(value)
