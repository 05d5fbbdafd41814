"""Every program under tests/programs: equal on all backends, and well-formed IR after every pass.

Programs are compiled a group at a time, as one program with prefixed names: most of a C compiler's time
goes into starting.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from futad import api
from futad.cli.test import run_case
from futad.core import ir
from futad.core.check import check_program
from futad.core.parse import alpha_equal, parse_program
from futad.core.text import program_text
from futad.pipeline import Trace, compile_program
from futad.source import load_program
from futad.testblocks import read_test_file

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.fut"))
IDS = [p.stem for p in PROGRAMS]
GROUPS = 6


def statements(lam: ir.Lambda) -> Iterator[ir.Stm]:
    for s in lam.stms:
        yield s
        for inner in s.exp.lambdas():
            yield from statements(inner)


@cache
def group(number: int, backend: str) -> api.Program:
    """The programs of a group as one, each name prefixed with its file's."""
    funs: dict[str, ir.Fun] = {}
    for path in PROGRAMS[number::GROUPS]:
        for f in load_program(str(path)).funs.values():
            f.name = f"{path.stem}__{f.name}"
            if f.entry is not None:
                f.entry.name = f"{path.stem}__{f.entry.name}"
            for s in statements(f.body):
                if isinstance(s.exp, ir.Call):
                    s.exp.name = f"{path.stem}__{s.exp.name}"
            funs[f.name] = f
    return api.Program(ir.Program(funs, f"group{number}"), backend=backend)


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 45


@pytest.mark.parametrize("backend", ["interp", "c", "multicore"])
@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_cases(path: Path, backend: str) -> None:
    spec = read_test_file(path)
    assert spec.cases
    program = group(PROGRAMS.index(path) % GROUPS, backend)
    for case in spec.cases:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            problem = run_case(program, replace(case, entry=f"{path.stem}__{case.entry}"))
        assert problem is None, f"{case.place} {case.name}: {problem}"


@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_ir_after_every_pass(path: Path) -> None:
    def well_formed(name: str, program: ir.Program) -> None:
        check_program(program, name)
        again = parse_program(program_text(program))
        assert alpha_equal(program, again), f"{name}: the text does not read back as the same program"

    lowered = load_program(str(path))
    well_formed("lowering", lowered)
    compile_program(lowered, trace=Trace(after=well_formed))
