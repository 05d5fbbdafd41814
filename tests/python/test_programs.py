"""Programs of the benchmarks written in Python: the answers of the `.fut` files, and their code."""

from __future__ import annotations

import re

import in_python
import pytest
from python_programs import PROGRAMS

import futad
from futad.core import ir
from futad.pipeline import compile_program
from futad.target import C
from tests.support.paths import BENCHMARK_PROGRAMS


@pytest.mark.slow
def test_answers_are_those_of_the_files(capsys):
    assert in_python.main(["--small", "--runs", "1", "--backend", "interp", "gmm", "lstm", "ode"]) == 0
    out = capsys.readouterr().out
    assert out.count("value") == out.count("gradient") == 3


def test_the_command_says_what_programs_there_are(capsys):
    with pytest.raises(SystemExit) as e:
        in_python.main(["nothing"])
    assert e.value.code == 2 and "there are: gmm, kmeans" in capsys.readouterr().err


def normal(program: ir.Program, entry: str) -> str:
    """The IR of an entry after all passes, its variables numbered in the order of the text, without places in the
    source."""
    (fun,) = [f for f in compile_program(program, target=C).funs.values() if f.entry and f.entry.name == entry]
    text = re.sub(r', @"[^"]*"|@"[^"]*"| #\[\["place"[^\n]*', "", str(fun.body))
    numbers: dict[str, str] = {}
    return re.sub(r"\b[A-Za-z_]\w*_\d+\b", lambda m: numbers.setdefault(m[0], f"v{len(numbers)}"), text)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "which"), [("lse", 0), ("lse", 1), ("kmeans", 0), ("kmeans", 1), ("ode", 0)])
def test_the_code_is_that_of_the_file(name, which):
    f, entry = PROGRAMS[name][which], PROGRAMS[name][2 + which]
    of_file = futad.load(BENCHMARK_PROGRAMS / f"{name}.fut")
    made, expected = normal(futad.compile(f.source()).core, f.entry.name), normal(of_file.core, entry)
    assert expected.count("v") > 10 and made == expected
