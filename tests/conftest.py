"""All tests check the IR after every pass; the order of tests; what several need."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from futad import checks

os.environ.setdefault(checks.VARIABLE, checks.IR)
# Tests start some thousand processes; without bytecode each would first compile the modules that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Instead of xdist's chunks: workers start with equal shares and take from each other when they are done."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with slow tests come first in each worker's share, so that no worker is in a long test when the others end.

    Files stay whole, as tests of one share what it compiles.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    with_slow = {i.path for i in items if i.get_closest_marker("slow")}
    parts = [[i for i in items if i.path in with_slow], [i for i in items if i.path not in with_slow]]
    items[:] = [
        i for k in range(workers) for p in parts for i in p[len(p) * k // workers : len(p) * (k + 1) // workers]
    ]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Shells start what runs in the background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
