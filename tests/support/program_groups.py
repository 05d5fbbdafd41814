"""Programs compiled a group at a time, as one program with prefixed names: most of a C compiler's time goes into
starting."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from futad.api.program import Program
from futad.checks import modes
from futad.cli.test import run_case
from futad.core import ir
from futad.source import load_program
from futad.testing.blocks import read_test_file


def statements(lam: ir.Lambda) -> Iterator[ir.Stm]:
    for s in lam.stms:
        yield s
        for inner in s.exp.lambdas():
            yield from statements(inner)


@cache
def compiled(paths: tuple[Path, ...], backend: str, checked: frozenset[str]) -> Program:
    """`checked`: the checks of docs/checking.md that the environment names, to which the program belongs."""
    return joined(paths, f"group of {paths[0].stem}", backend)


def joined(paths: Sequence[Path], name: str, backend: str) -> Program:
    """The programs as one, each name prefixed with its file's."""
    funs: dict[str, ir.Fun] = {}
    for path in paths:
        for f in load_program(str(path)).funs.values():
            f.name = f"{path.stem}__{f.name}"
            if f.entry is not None:
                f.entry.name = f"{path.stem}__{f.entry.name}"
            for s in statements(f.body):
                if isinstance(s.exp, ir.Call):
                    s.exp.name = f"{path.stem}__{s.exp.name}"
            funs[f.name] = f
    return Program(ir.Program(funs, name), backend=backend)


def check_cases(path: Path, programs: Sequence[Path], groups: int, backend: str) -> None:
    """Run the test blocks of one of `programs`, which are compiled as so many groups of neighbours (so that processes
    that share the tests out compile others); a failure is an assertion."""
    spec = read_test_file(path)
    assert spec.cases
    n = len(programs)
    group = programs.index(path) * groups // n
    those = tuple([p for k, p in enumerate(programs) if k * groups // n == group])
    program = compiled(those, backend, modes())
    for case in spec.cases:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "'trace' prints nothing")
            problem = run_case(program, replace(case, entry=f"{path.stem}__{case.entry}"))
        assert problem is None, f"{case.place} {case.name}: {problem}"
