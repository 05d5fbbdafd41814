"""Conditions of legality: declared once, dropped one at a time."""

from __future__ import annotations

import os

import pytest

from futad import fires, legality
from futad.errors import UsageError
from tests.support.paths import ROOT


@pytest.fixture
def own(monkeypatch):
    """A registry of the test's own."""
    monkeypatch.setattr(legality, "DECLARED", {})
    monkeypatch.setattr(fires, "DECLARED", legality.DECLARED)
    monkeypatch.setattr(legality, "FOLDERS", ())
    monkeypatch.setattr(legality, "DRIVERS", ())
    made = legality.Legality("moves", "things move")
    return made, made.condition("nothing between", "it would be moved past")


def test_a_condition_answers_what_it_is_told(own):
    _, condition = own
    assert condition(True) is True and condition.refusals == 0
    assert condition(False) is False and condition.refusals == 1
    assert str(condition) == "moves/nothing between"


def test_a_dropped_condition_answers_true_within(own):
    _, condition = own
    with pytest.raises(KeyError), legality.dropping("moves/nothing between"):
        assert condition(False) is True
        raise KeyError
    assert condition(False) is False
    assert condition.refusals == 2


def test_the_environment_drops_one(own, monkeypatch):
    monkeypatch.setenv(legality.VARIABLE, "moves/other")
    made, first = own
    assert made.condition("other", "of another kind")(False) is True
    assert first(False) is False


def test_without_a_transformation_none_of_its_conditions_holds(own, monkeypatch):
    made, condition = own
    monkeypatch.setattr(legality, "load_all", lambda: [made])
    monkeypatch.delenv(legality.VARIABLE, raising=False)
    with pytest.raises(KeyError), legality.without("moves"):
        assert condition(True) is False
        assert os.environ[legality.VARIABLE] == "moves"
        raise KeyError
    assert condition(True) is True and legality.VARIABLE not in os.environ
    monkeypatch.setenv(legality.VARIABLE, "turns")
    assert legality.Legality("turns", "things turn").condition("any", "of any kind")(True) is False
    with pytest.raises(UsageError, match="no transformation"), legality.without("moves/nothing between"):
        pass


def test_names_are_unique_and_known(own):
    made, _ = own
    with pytest.raises(ValueError, match="two conditions"):
        made.condition("nothing between", "again")
    with pytest.raises(ValueError, match="two transformations"):
        legality.Legality("moves", "again")
    with pytest.raises(UsageError, match="no condition"), legality.dropping("moves/what"):
        pass


def test_a_mutant_is_not_taken_from_what_was_compiled_before(monkeypatch):
    from futad.backend import aot_cache

    monkeypatch.delenv(legality.VARIABLE, raising=False)
    plain = aot_cache.key_of({}, "c")
    monkeypatch.setenv(legality.VARIABLE, "moves/other")
    assert aot_cache.key_of({}, "c") != plain


def test_the_documentation_lists_all():
    page = ROOT / "docs" / "legality.md"
    assert page.read_text() == legality.conditions(), "write it anew: futad dev --legality > docs/legality.md"
