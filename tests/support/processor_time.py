"""How long something takes, on machines that do other work as well."""

from __future__ import annotations

import time
from collections.abc import Callable


def within(seconds: float, action: Callable[[], object], tries: int = 5) -> bool:
    """Whether a try of `action()` takes less processor time: other work on the machine only makes it longer."""
    for _ in range(tries):
        start = time.process_time()
        action()
        if time.process_time() - start < seconds:
            return True
    return False


def is_below(ours: Callable[[], float], other: Callable[[], float], limit: float, tries: int = 12) -> bool:
    """Whether `ours() < limit * other()`, both seconds of processor time, by the least of each so far; tried again
    until it is, as other work on the machine disturbs one of them more than the other."""
    least = [float("inf")] * 2
    for _ in range(tries):
        least = [min(least[0], ours()), min(least[1], other())]
        if least[0] < limit * least[1]:
            return True
    return False
