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
