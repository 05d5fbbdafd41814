"""`import "futad/NAME"`: where it leads, from which programs, and what messages call it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import futad
import futad.library as library
from futad.backend import aot_cache
from futad.ipython import program_of_cell
from futad.source import check_file, check_text, compile_texts
from tests.support.cli_helpers import Runner, shell
from tests.support.needs import needs_cc

OWN = """-- A file of this test.
def second (xs: []f64): f64 = xs[1]
def twice (x: f64) = 2 * x
"""
PROGRAM = 'import "futad/own"\nentry main (xs: []f64) = twice (second xs)\n'


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of two files, of which one imports the other; the program's folder is another one."""
    folder, beside = tmp_path / "library", tmp_path / "beside"
    folder.mkdir()
    beside.mkdir()
    (folder / "own.fut").write_text(OWN)
    (folder / "other.fut").write_text('module o = import "futad/own"\ndef four (x: f64) = o.twice (o.twice x)\n')
    monkeypatch.setattr(library, "HERE", folder)
    monkeypatch.chdir(beside)
    return folder


@pytest.mark.slow
def test_there_is_a_library_and_it_is_without_warnings_or_errors():
    assert library.names() and all(re.fullmatch(r"futad/[a-z]+", name) for name in library.names())
    for name in library.names():
        assert check_file(library.place(Path(library.shown(name)))).warnings == []


def test_from_a_text_a_file_a_cell_and_another_file(shipped):
    xs = np.array([1.0, 2.0])
    assert futad.compile(PROGRAM, backend="interp").main(xs) == 4
    Path("p.fut").write_text(PROGRAM)
    assert futad.load("p.fut", backend="interp").main(xs) == 4
    assert program_of_cell("model -b interp", PROGRAM)[1].main(xs) == 4
    Path("lib").mkdir()
    Path("lib/deep.fut").write_text('open import "futad/other"')
    deep = 'module m = { module d = import "lib/deep" }\nentry main (x: f64) = m.d.four x'
    assert futad.compile(deep, backend="interp").main(3.0) == 12


def test_a_file_beside_the_program_wins_there_and_only_there(shipped):
    Path("futad").mkdir()
    Path("futad/own.fut").write_text("def second (xs: []f64) = xs[0]\ndef twice (x: f64) = 3 * x")
    text = PROGRAM + 'module o = import "futad/other"\nentry four (x: f64) = o.four x'
    prog = futad.compile(text, backend="interp")
    assert (prog.main(np.array([1.0, 2.0])), prog.four(1.0)) == (3, 4)
    again = pickle.loads(pickle.dumps(prog))
    assert (again.main(np.array([1.0, 2.0])), again.four(1.0)) == (3, 4)


def test_what_there_is_not(shipped):
    with pytest.raises(futad.errors.FileNotFound) as caught:
        check_text('import "futad/xyz"')
    assert str(caught.value).splitlines() == [
        'main:1:1: error: futad comes without "futad/xyz" [E0901]', 'import "futad/xyz"', "^" * 18,
        "hint: there are futad/other, futad/own; a file futad/xyz.fut would be imported, too",
    ]  # fmt: skip
    with pytest.raises(futad.errors.FileNotFound, match='futad comes without "futad/../own"'):
        check_text('import "futad/../own"')


@needs_cc
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_places_in_the_library(shipped, backend):
    with pytest.raises(futad.errors.BoundsError) as caught:
        futad.compile(PROGRAM, backend=backend).main(np.array([1.0]))
    first, line, *_ = str(caught.value).splitlines()
    assert first.startswith("<futad>/own.fut:2:31: Error: ") and line == OWN.splitlines()[1]
    (shipped / "own.fut").write_text("def twice (x: f64) = 2 * y")
    with pytest.raises(futad.errors.SourceError) as caught:
        check_text(PROGRAM)
    assert "<futad>/own.fut:1:26: error: unknown name 'y'" in str(caught.value)


def test_a_program_is_kept_with_what_it_imports(shipped):
    prog = futad.compile(PROGRAM, backend="interp")
    data = pickle.dumps(prog.main)
    texts = prog.main.executable.origin.texts
    assert texts == {"main": PROGRAM, "<futad>/own.fut": OWN}
    (shipped / "own.fut").unlink()
    assert compile_texts(texts, "main").funs
    assert pickle.loads(data)(np.array([1.0, 2.0])) == 4
    with pytest.raises(futad.errors.FileNotFound, match='comes without "futad/own"'):
        compile_texts({"main": PROGRAM}, "main")


def test_a_file_that_comes_to_win_changes_the_key(shipped):
    Path("p.fut").write_text(PROGRAM)
    before = aot_cache.texts_of("p.fut")
    assert before is not None
    Path("futad").mkdir()
    Path("futad/own.fut").write_text(OWN)
    after = aot_cache.texts_of("p.fut")
    assert after is not None and aot_cache.key_of(before, "c") != aot_cache.key_of(after, "c")


@pytest.mark.slow
@needs_cc
def test_commands(shipped, monkeypatch, capfdbinary):
    cli = Runner(Path.cwd(), monkeypatch, capfdbinary)
    cli.file("p.fut", PROGRAM)
    assert cli("run", "p.fut", "-x", "twice 4").out.startswith("8.0")
    for _ in range(2):  # the second time from the cache
        assert cli("run", "p.fut", "-b", "c", stdin="[1.0, 2.0]").out.startswith("4.0")
    assert '"<futad>/own.fut:2:31' in cli("dev", "p.fut").out
    assert cli("c", "p.fut", "--executable", "-o", "p").code == 0
    done = shell("./p", Path.cwd(), input="[1.0]")
    assert "<futad>/own.fut:2:31: Error: " in done.stderr and OWN.splitlines()[1] in done.stderr
