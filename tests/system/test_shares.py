"""Shares of the slow tests (`--share`): each test is in one, and which one depends on its name."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import in_share, share


def item(name: str, **options: Any) -> Any:
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda _: pytest.mark.slow(**options).mark)


def shares_of(test: Any, n: int = 12) -> list[int]:
    return [k for k in range(n) if in_share(test, k, n)]


def test_each_test_is_in_one_share():
    counts = [0] * 12
    for i in range(600):
        (k,) = shares_of(item(f"tests/ad/test_ad.py::test_number_{i}"))
        counts[k] += 1
    assert min(counts) > 20


def test_cases_are_together_unless_they_are_to_be_apart():
    cases = [f"tests/ad/test_ad.py::test_programs[{i}]" for i in range(50)]
    assert len({k for c in cases for k in shares_of(item(c))}) == 1
    assert len({k for c in cases for k in shares_of(item(c, apart=True))}) == 12


def test_what_is_no_share_is_refused():
    assert share("0/7") == (0, 7)
    for text in ("7/7", "-1/7", "1", "a/b", "0/0"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no share"):
            share(text)
