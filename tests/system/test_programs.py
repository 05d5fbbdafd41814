"""Every program under tests/programs: equal on all backends, and well-formed IR after every pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.parse import alpha_equal, parse_program
from futad.core.text import program_text
from futad.pipeline import Trace, compile_program
from futad.source import load_program
from tests.support.paths import TESTS
from tests.support.program_groups import check_cases

PROGRAMS = sorted((TESTS / "programs").glob("*.fut"))
IDS = [p.stem for p in PROGRAMS]
GROUPS = 6


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 45


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("backend", ["interp", "c", "multicore"])
@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_cases(path: Path, backend: str) -> None:
    check_cases(path, PROGRAMS, GROUPS, backend)


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_every_value(path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bound outside of maps, against the interpreter; what the C compiler makes of it is tested above."""
    monkeypatch.setenv("FUTAD_CHECK", "values")
    monkeypatch.setenv("FUTAD_CFLAGS", "-O0")
    check_cases(path, PROGRAMS, 2, backend)


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_ir_after_every_pass(path: Path) -> None:
    def well_formed(name: str, program: ir.Program) -> None:
        check_program(program, name)
        again = parse_program(program_text(program))
        assert alpha_equal(program, again), f"{name}: the text does not read back as the same program"

    lowered = load_program(str(path))
    well_formed("lowering", lowered)
    compile_program(lowered, trace=Trace(after=well_formed))
