"""Every program under tests/programs: equal on all backends, and well-formed IR after every pass."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from futad import api
from futad.cli.test import run_case
from futad.core.check import check_program
from futad.core.ir import Program
from futad.core.parse import alpha_equal, parse_program
from futad.core.text import program_text
from futad.pipeline import Trace, compile_program
from futad.source import load_program
from futad.testblocks import read_test_file

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.fut"))
IDS = [p.stem for p in PROGRAMS]


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 45


@pytest.mark.parametrize("backend", ["interp", "c", "multicore"])
@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_cases(path: Path, backend: str) -> None:
    spec = read_test_file(path)
    assert spec.cases
    program = api.load(str(path), backend=backend)
    for case in spec.cases:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert run_case(program, case) is None, f"{case.place} {case.name}"


@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_ir_after_every_pass(path: Path) -> None:
    def well_formed(name: str, program: Program) -> None:
        check_program(program, name)
        again = parse_program(program_text(program))
        assert alpha_equal(program, again), f"{name}: the text does not read back as the same program"

    lowered = load_program(str(path))
    well_formed("lowering", lowered)
    compile_program(lowered, trace=Trace(after=well_formed))
