"""Which cases of a parametrized test are for the whole suite alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(kept: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """The cases, all but those `kept` marked slow.  Each of these is among the cases; a tuple is the values of several
    parameters."""
    kept, cases = list(kept), list(cases)
    assert all(k in cases for k in kept), "a case that is kept is there"
    every = [(c, c if isinstance(c, tuple) else (c,)) for c in cases]
    return [c if c in kept else pytest.param(*values, marks=pytest.mark.slow) for c, values in every]


__all__ = ["slow_but"]
