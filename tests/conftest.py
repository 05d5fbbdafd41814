"""All tests check the IR after every pass; what several need."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from futad import checks

os.environ.setdefault(checks.VARIABLE, checks.IR)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Shells start what runs in the background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
