"""Every program under tests/programs on the CPU simulator, and that its kernels compile for real ones.

Programs are compiled a group at a time, as one program with prefixed names: most of a compiler's time goes into
starting.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from futad.backend.cuda import DeviceBackend
from futad.cli import main
from futad.pipeline import compile_program
from futad.runtime.cubin import compile_cubin
from futad.source import load_program
from futad.testing.blocks import read_test_file
from futad.testing.build import device_backend
from tests.support.needs import needs_cxx, needs_toolkit
from tests.support.paths import ROOT
from tests.support.program_groups import check_cases

PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*.fut"))
IDS = [p.stem for p in PROGRAMS]
BENCHMARKS = sorted((ROOT / "benchmarks" / "programs").glob("*.fut"))
WITH_CASES = [p for p in BENCHMARKS if read_test_file(p).cases]


@pytest.mark.slow(apart=True)
@needs_cxx
@pytest.mark.parametrize("path", PROGRAMS, ids=IDS)
def test_cases(path: Path) -> None:
    check_cases(path, PROGRAMS, 4, "emulated")


@pytest.mark.slow(apart=True)
@needs_cxx
@pytest.mark.parametrize("path", WITH_CASES, ids=[p.stem for p in WITH_CASES])
def test_benchmark_cases(path: Path) -> None:
    check_cases(path, WITH_CASES, 4, "emulated")


@cache
def benchmark(name: str) -> DeviceBackend:
    return device_backend(compile_program(load_program(str(ROOT / "benchmarks" / "programs" / f"{name}.fut"))))


@pytest.mark.slow(apart=True)
@needs_toolkit
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", [p.stem for p in BENCHMARKS])
def test_kernels_compile_for_cards(name: str, arch: str) -> None:
    """To machine code, with every kernel of the text in it, and none spills registers."""
    made = benchmark(name)
    if not made.names:
        return  # nothing runs on the device
    cubin = compile_cubin(made.source, arch)
    assert set(cubin.kernels) == set(made.names.values())
    what = {made.names[k]: k.what for k in made.module.kernels}
    assert not [(what[k], r) for k, r in cubin.kernels.items() if r.spills]


@pytest.mark.slow
@needs_toolkit
@pytest.mark.parametrize("name", ["kmeans", "xsbench"])
def test_kernels_with_wide_indices_compile_for_cards(name: str) -> None:
    made = benchmark(name)
    cubin = compile_cubin(f"#define FUTAD_WIDE 1\n{made.source}", "sm_90")
    assert set(cubin.kernels) == set(made.names.values())
    assert not [(k, r) for k, r in cubin.kernels.items() if r.spills]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_what_the_command_writes_compiles_without_a_word(tmp_path: Path) -> None:
    out = tmp_path / "lse.cu"
    assert main(["cuda", str(ROOT / "benchmarks" / "programs" / "lse.fut"), "-o", str(out)]) == 0
    command = ["nvcc", "-arch=sm_90", "-cubin", str(out), "-o", str(tmp_path / "lse.cubin")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
