"""Conditions of legality dropped one at a time: a program finds each of these mutants of the compiler."""

from __future__ import annotations

import os

import pytest

from futad.testing import mutants, records
from futad.testing.freeze import texts
from futad.testing.records import Outcome
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT

pytestmark = needs_cxx
PARTS = 8


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Threads to race, and no time for the C compiler to optimise."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv("FUTAD_CFLAGS", "-O1")


def test_every_condition_is_found_or_known_to_be_open():
    known, still_open = records.recorded(), records.still_open()
    assert len(known) >= 100
    assert sorted([*known, *still_open]) == sorted(records.conditions()), (
        "write the lists anew: python -m futad.testing.mutants --missing --record"
    )


def test_each_recorded_program_is_there():
    """Strings of tests are found by their digests."""
    gone = []
    for program in set(records.recorded().values()):
        path, _, name = program.partition(":")
        if mutants.is_test(program):
            continue
        file = ROOT / path
        if not file.exists() or (name and name not in {each for each, _ in texts(file)}):
            gone.append(program)
    assert gone == [], "write the list anew: python -m futad.testing.mutants --record"


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("part", range(PARTS))
def test_each_recorded_mutant_is_found(part):
    """By the program that found it first; FUTAD_MUTANTS=all for all of them, else every fifth."""
    known = records.recorded()
    names = sorted(known)[:: 1 if os.environ.get("FUTAD_MUTANTS") == "all" else 5]
    names.sort(key=known.__getitem__)  # those of one program in one part
    names = names[len(names) * part // PARTS : len(names) * (part + 1) // PARTS]
    outcomes = list(mutants.hunt_all(names, mutants.items_of(known, names), seconds=1800, jobs=1))
    assert len(outcomes) == len(names)
    assert [o.shown(known[o.condition]) for o in outcomes if o.found is None] == []


@pytest.mark.slow
def test_a_text_that_is_no_unicode_has_a_name(tmp_path):
    """Tests of errors have such texts, and a hunt over all programs reads them."""
    file = tmp_path / "test_texts.py"
    file.write_text(r'TEXT = "entry main = 1 -- \ud800"')
    assert [text for _, text in texts(file)] == ["entry main = 1 -- \ud800"]


def test_a_program_without_a_mutant_has_nothing_to_find(tmp_path):
    file = tmp_path / "sum.fut"
    file.write_text("entry main [n] (xs: [n]f64) : f64 = f64.sum (map (* 2) xs)\n")
    (item,) = mutants.load([file])
    assert mutants.examine(item, tuple(item.emitted)) is None
    assert len(item.calls) >= 4


@pytest.mark.slow
def test_a_record_that_tries_nothing_is_told(tmp_path):
    file = tmp_path / "sum.fut"
    file.write_text("entry main [n] (xs: [n]f64) : f64 = f64.sum (map (* 2) xs)\n")
    condition, items = "zeros/place invariant", mutants.load([file], backends=("c",))
    for first, why in [
        (str(file), "it holds wherever that asks for it"),
        ("tests/legality/gone.fut", "that is not there, or does not compile"),
        ("tests/testing/test_mutants.py::test_gone", "there is no such test"),
    ]:
        outcome = mutants.hunt(condition, items, 60, first)
        assert outcome.found is None and outcome.tried == 0
        assert outcome.shown(first) == f"NOT TRIED {condition}: recorded is {first}, but {why}"


def test_what_random_programs_find_is_not_recorded(tmp_path, monkeypatch):
    """Their numbers are other programs once the generator changes."""
    monkeypatch.setattr(records, "FOUND", tmp_path / "found.txt")
    monkeypatch.setattr(records, "OPEN", tmp_path / "open.txt")
    named = Outcome("zeros/sum from zero", "result on c", "tests/legality/onehot.fut")
    records.record([named, Outcome("zeros/zero elsewhere", "result on c", "source program 7")])
    assert records.recorded() == {"zeros/sum from zero": "tests/legality/onehot.fut"}
    assert "zeros/zero elsewhere" in records.still_open()


@pytest.mark.parametrize("kind", ["core", "source", "skeleton"])
def test_a_random_program_is_shown(kind, capsys):
    assert mutants.main(["--show", f"{kind} program 3"]) == 0
    assert "main" in (text := capsys.readouterr().out) or "entry" in text
    assert mutants.main(["--show", kind]) == 1


@pytest.mark.slow
def test_what_crashes_or_does_not_end_is_found():
    assert mutants.in_child(lambda: os._exit(3)) == "crash (status 3)"
    assert mutants.in_child(os.abort) == "crash (SIGABRT)"

    def endless():
        while True:
            pass

    assert mutants.in_child(endless, patience=0.5) == "does not end"
