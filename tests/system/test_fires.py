"""Which transformations fire: each that is declared says so somewhere, and the numbers are those of the programs."""

from __future__ import annotations

import ast
import threading

import pytest

from futad import checks, legality
from futad.core.parse import parse_program
from futad.fires import DECLARED, Transformation, counting, fired
from futad.testing.firing import FEW, count, table
from futad.testing.freeze import programs
from tests.support.cli_helpers import Runner
from tests.support.paths import BENCHMARK_PROGRAMS, ROOT, TESTS

PACKAGE = ROOT / "futad"
KINDS = ("Legality", "Transformation")

SUMS = """
entry main [n] (xs: [n]f64) (ys: [n]f64): f64 = f64.sum (map2 (*) (map (+ 1) xs) ys)
"""
ROWS = """
entry main [n][m] (a: [n][m]f64) (x: [m]f64): [n]f64 = map (\\r -> f64.sum (map2 (*) r x)) a
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sums.fut").write_text(SUMS)
    (tmp_path / "rows.fut").write_text(ROWS)
    return tmp_path


def sites() -> tuple[dict[str, str], set[str], set[str]]:
    """In the compiler's text: declared names by module and variable; the `module.variable`s that say they fired; and
    the names that are given to `fired`, or to a `Schedule`, which is said to fire where it is done."""
    declared: dict[str, str] = {}
    said: set[str] = set()
    given: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(("futad", *path.relative_to(PACKAGE).with_suffix("").parts))
        tree = ast.parse(path.read_text())
        origin = {
            a.asname or a.name: f"{s.module}.{a.name}"
            for s in tree.body if isinstance(s, ast.ImportFrom) for a in s.names
        }  # fmt: skip
        for s in ast.walk(tree):
            if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Name):
                first = s.value.args[0] if s.value.args else None
                if s.value.func.id in KINDS and isinstance(first, ast.Constant) and isinstance(s.targets[0], ast.Name):
                    declared[f"{module}.{s.targets[0].id}"] = first.value
            if isinstance(s, ast.Call) and isinstance(s.func, ast.Attribute) and s.func.attr == "fired":
                if isinstance(s.func.value, ast.Name):
                    said.add(origin.get(s.func.value.id, f"{module}.{s.func.value.id}"))
            if isinstance(s, ast.Call) and isinstance(s.func, ast.Name) and s.func.id in ("fired", "Schedule"):
                if isinstance(s.args[0], ast.Constant):
                    given.add(s.args[0].value)
    return declared, said, given


@pytest.mark.slow
def test_each_declared_transformation_says_when_it_fires():
    legality.load_all()
    declared, said, given = sites()
    assert len(said) > 50
    for place, name in declared.items():
        silent = not DECLARED[name].fires
        assert (place in said or name in given) is not silent, f"{name}: {place}"
    assert given <= DECLARED.keys()
    assert set(declared.values()) <= DECLARED.keys()


def test_names_are_unique_and_known_by_module(monkeypatch):
    from futad import fires

    monkeypatch.setattr(fires, "DECLARED", {})
    assert Transformation("moves", "things move").module == __name__
    assert legality.Legality("shares", "memory is shared").module == __name__
    with pytest.raises(ValueError, match="two transformations are called 'moves'"):
        Transformation("moves", "again")


def test_counts_within():
    fired("nobody counts")
    with counting() as outer:
        fired("a")
        with counting() as inner:
            fired("a")
            fired("a")
        other = threading.Thread(target=fired, args=("b",))
        other.start()
        other.join()
    fired("a")
    assert dict(outer) == {"a": 1, "b": 1} and dict(inner) == {"a": 2}


@pytest.mark.slow
def test_the_numbers_are_those_of_the_programs(folder):
    names, found = count(programs([folder]))
    assert names == [str(folder / "rows.fut"), str(folder / "sums.fut")]
    rows, sums = names
    fusion = found["fusion"].by_backend
    assert {b: dict(c) for b, c in fusion.items()} == {b: {rows: 1, sums: 2} for b in fusion}
    assert found["fusion"].programs() == {rows: 3, sums: 6}
    threads = found["parallel-nests"].by_backend
    assert threads["multicore"].keys() == {rows, sums} and not threads["c"] and not threads["emulated"]
    assert dict(found["rows-in-parts"].by_backend["emulated"]).keys() == {rows}
    assert not found["overlapped-tiling"].programs()
    assert set(found) == {t.name for t in DECLARED.values() if t.fires}


@pytest.mark.slow
def test_a_transformation_of_few_programs_has_a_reason(monkeypatch, folder):
    counted = count(programs([folder]))  # imports what declares them
    monkeypatch.setattr(DECLARED["fusion"], "worth", "programs are written as maps; 2 times as fast")
    monkeypatch.setattr(DECLARED["overlapped-tiling"], "worth", "")
    text = table(*counted)
    line = {x.split()[0]: x for x in text.splitlines()[3:]}
    assert text.startswith("2 programs\n")
    assert "6 in 2" not in line["fusion"] and "3 in 2" in line["fusion"]
    assert line["fusion"].endswith("rows, sums: programs are written as maps; 2 times as fast")
    assert line["overlapped-tiling"].endswith("none: MISSING")


@pytest.mark.slow
def test_what_fires_in_few_programs_is_there_for_a_reason():
    """Over the benchmarks, the tests' programs and the examples, as docs/testing.md has the command."""
    with checks.checking([]):  # other tests check the IR of these
        _, found = count(programs([BENCHMARK_PROGRAMS, TESTS / "programs", ROOT / "examples"]))
    few = {name for name, firing in found.items() if len(firing.programs()) < FEW}
    assert {name for name in few if not DECLARED[name].worth} == set()
    assert len(found) - len(few) > 20  # the others are used all over


def test_a_program_that_a_backend_refuses_is_counted_up_to_there(monkeypatch):
    from futad.testing import firing

    whole = parse_program("fun main (x_1: i64) -> (r_2: i64) = { in (x_1) }")

    def refuses(program, backend):
        from futad.errors import DeviceError

        fired("fusion")
        raise DeviceError("not here")

    monkeypatch.setattr(firing, "emitted", refuses)
    assert count([("p", whole)])[1]["fusion"].programs() == {"p": 3}


@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch, capfdbinary, folder):
    futad = Runner(tmp_path, monkeypatch, capfdbinary)
    done = futad("dev", "--fires", str(folder))
    assert done.code == 0 and "fusion" in done.out and done.out.startswith("2 programs")
    (tmp_path / "empty").mkdir()
    for path, said in (("empty", "no program in empty"), ("missing", "missing: no such file or folder")):
        done = futad("dev", "--fires", path)
        assert done.code != 0 and said in done.err
