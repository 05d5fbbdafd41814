"""Every program under tests/programs on the emulated device, and that its kernels compile for real ones.

Programs are compiled a group at a time, as one program with prefixed names: most of a compiler's time goes into
starting.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from futad import api
from futad.backend.cuda import DeviceBackend
from futad.cli.test import run_case
from futad.core import ir
from futad.errors import BackendError
from futad.pipeline import compile_program
from futad.runtime import cc
from futad.runtime.cubin import compile_cubin, toolkit_available
from futad.source import load_program
from futad.testblocks import read_test_file

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*.fut"))
IDS = [p.stem for p in PROGRAMS]
GROUPS = 4



def has_cxx() -> bool:
    try:
        cc.find_cxx_compiler()
    except BackendError:
        return False
    return True


needs_cxx = pytest.mark.skipif(not has_cxx(), reason="no C++ compiler")
needs_cuda = pytest.mark.skipif(not toolkit_available(), reason="no NVRTC or nvcc")


def statements(lam: ir.Lambda) -> Iterator[ir.Stm]:
    for s in lam.stms:
        yield s
        for inner in s.exp.lambdas():
            yield from statements(inner)


@cache
def group(number: int) -> api.Program:
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
    return api.Program(ir.Program(funs, f"group{number}"), backend="emulated")


@needs_cxx
@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_cases(path: Path) -> None:
    spec = read_test_file(path)
    program = group(PROGRAMS.index(path) % GROUPS)
    for case in spec.cases:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            problem = run_case(program, replace(case, entry=f"{path.stem}__{case.entry}"))
        assert problem is None, f"{case.place} {case.name}: {problem}"


@needs_cuda
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["gmm", "lstm", "kmeans", "kmeans_sparse"])
def test_kernels_compile_for_cards(name: str, arch: str) -> None:
    """To machine code, with every kernel of the text in it.

    None spills registers but the version of a large map in which one thread does everything inside: there the calls
    of 64-bit divisions do.
    """
    program = compile_program(load_program(str(ROOT / "benchmarks" / "programs" / f"{name}.fut")))
    made = DeviceBackend(program)
    cubin = compile_cubin(made.source, arch)
    assert set(cubin.kernels) == set(made.names.values())
    spilling = {k for k, r in cubin.kernels.items() if r.spills}
    assert all("sequential inside" in k.what for k in made.module.kernels if made.names[k] in spilling)
