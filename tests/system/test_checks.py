"""Which checks are asked for."""

import os

import pytest

from futad import checks
from futad.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("values", {"values"}),
        ("memory,values", {"memory", "values"}),
        (" values , memory,", {"memory", "values"}),
    ],
)
def test_modes_are_a_list_in_the_environment(monkeypatch, text, expected):
    monkeypatch.setenv("FUTAD_CHECK", text)
    assert checks.modes() == expected


def test_without_the_variable_nothing_is_checked(monkeypatch):
    monkeypatch.delenv("FUTAD_CHECK", raising=False)
    assert checks.modes() == frozenset()


def test_an_unknown_mode_is_named(monkeypatch):
    monkeypatch.setenv("FUTAD_CHECK", "values,momory")
    with pytest.raises(UsageError, match="'momory'; there are: ir, memory, values"):
        checks.modes()


@pytest.mark.parametrize("before", [None, "memory"])
def test_checking_for_a_while_leaves_the_environment_as_it_was(monkeypatch, before):
    if before is None:
        monkeypatch.delenv("FUTAD_CHECK", raising=False)
    else:
        monkeypatch.setenv("FUTAD_CHECK", before)
    with pytest.raises(KeyError), checks.checking({"values"}):
        assert checks.modes() == {"values"}
        raise KeyError
    assert os.environ.get("FUTAD_CHECK") == before
