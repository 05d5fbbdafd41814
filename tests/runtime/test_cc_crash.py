"""A compiler that crashes compiles again with less optimisation."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import futad
from futad.errors import BackendError, InternalError
from futad.runtime import cc
from tests.support.needs import needs_cc

SOURCE = '#include "prelude.h"\nint answer(int x) { return futad_max_i32(x, 42); }\n'
ICE = "program.c:1:1: internal compiler error: in vect_slp_analyze, at tree-vect.cc:7"
VERSION_13 = "gcc (GCC) 13.3.0\nCopyright (C) 2023 Free Software Foundation, Inc.\n"
SWAP = """
def f [n] (x: [n]f32): [n]f32 = loop a = copy x for j < n - 1 do
  let (p, q) = if a[j] > a[j + 1] then (a[j + 1], a[j]) else (a[j], a[j + 1]) in a with [j] = p with [j + 1] = q
entry value [n] (x: [n]f32) = f x
"""


def crashing(folder: Path, unless: str, how: str) -> Path:
    """A compiler that crashes on sources that include the prelude unless it is given a flag; `log` tells of its calls.

    How: what it says, or its status, or the signal that ends it.
    """
    gcc = shutil.which(cc.find_compiler().command[0])
    end = f"kill -{how} $$" if how.isupper() else f"exit {how}" if how.isdigit() else f'echo "{how}" >&2; exit 1'
    fake = folder / "fakecc"
    fake.write_text(f"""#!/bin/sh
[ "$1" = --version ] && exec {gcc} --version
echo "$*" >> {folder}/log
case " $* " in
  *" {unless} "*) ;;
  *program.c*) {end};;
esac
exec {gcc} "$@"
""")
    fake.chmod(0o755)
    return fake


def calls(folder: Path) -> list[str]:
    return [line for line in (folder / "log").read_text().splitlines() if "program.c" in line]


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FUTAD_PROGRESS", raising=False)
    monkeypatch.setattr(cc, "_loaded", {})
    yield
    cc._find.cache_clear()


@needs_cc
@pytest.mark.parametrize(
    ("how", "unless", "said"),
    [
        (ICE, "-fno-tree-vectorize", "without vectors"),
        ("gcc: fatal error: Killed signal terminated program cc1", "-fno-openmp-simd", "without vectors"),
        ("SEGV", "-O1", "at -O1"),
        ("245", "-O0", "at -O0"),
    ],
)
def test_a_crash_is_compiled_around_and_the_result_kept(tmp_path, monkeypatch, capfd, own_cache, unless, said, how):
    monkeypatch.setenv("FUTAD_CC", str(crashing(tmp_path, unless, how)))
    assert cc.build_library(SOURCE).answer(3) == 42
    lines = capfd.readouterr().err.splitlines()
    assert lines == [f"futad: fakecc crashed, and compiled {said} instead; the result is kept"]
    monkeypatch.setattr(cc, "_loaded", {})
    before = len(calls(tmp_path))
    assert cc.build_library(SOURCE).answer(50) == 50
    assert len(calls(tmp_path)) == before and capfd.readouterr().err == ""


@needs_cc
def test_a_pass_of_gcc_that_crashes_is_left_out_silently(tmp_path, monkeypatch, capfd, own_cache):
    """Nothing of note is lost."""
    fake = crashing(tmp_path, "-fno-tree-slp-vectorize", ICE)
    compiler = cc.Compiler((str(fake),), VERSION_13)
    flags = ["-O3", "-w", *cc.IDLE_SLP, "-DLAST"]
    cc._compile(compiler, SOURCE, flags, tmp_path / "out.so")
    assert (tmp_path / "out.so").exists() and capfd.readouterr().err == ""
    first, second = calls(tmp_path)
    assert second == first.replace(" ".join(cc.IDLE_SLP), *cc.NO_SLP)


@needs_cc
def test_who_crashes_always_is_said_to(tmp_path, monkeypatch, capfd, own_cache):
    monkeypatch.setenv("FUTAD_CC", str(crashing(tmp_path, "-never", ICE)))
    with pytest.raises(BackendError, match="crashed on the generated code") as e:
        cc.build_library(SOURCE)
    assert "internal compiler error" in str(e.value) and "FUTAD_CC" in str(e.value)
    assert capfd.readouterr().err == "" and len(calls(tmp_path)) >= 4


@needs_cc
def test_a_rejected_source_is_compiled_once(tmp_path, monkeypatch, own_cache):
    monkeypatch.setenv("FUTAD_CC", str(crashing(tmp_path, "-w", ICE)))
    with pytest.raises(InternalError, match="rejected"):
        cc.build_library('#include "prelude.h"\nint f( {')
    assert len(calls(tmp_path)) == 1


def test_source_that_is_compiled_elsewhere_has_no_flags_that_gcc_13_crashes_with():
    gcc = cc.Compiler(("gcc",), VERSION_13)
    once = cc.compile_flags(compiler=gcc, once=True)
    assert cc.NO_SLP[0] in once and not set(cc.IDLE_SLP) & set(once)
    assert set(cc.IDLE_SLP) <= set(cc.compile_flags(compiler=gcc))


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["", *(f"gcc-{version}" for version in range(11, 17)), "clang"])
def test_branches_that_store_side_by_side(own_cache, capfd, monkeypatch, compiler):
    """GCC 13 crashes with the flags that it is given first (`IDLE_SLP`)."""
    if compiler:
        if shutil.which(compiler) is None:
            pytest.skip(f"there is no {compiler}")
        monkeypatch.setenv("FUTAD_CC", compiler)
    for backend in ("c", "multicore"):
        program = futad.compile(SWAP, backend=backend)
        for n in (0, 1, 2, 33):
            x = np.random.default_rng(n).normal(size=n).astype(np.float32)
            want = x.copy()
            for j in range(n - 1):
                want[j : j + 2] = np.sort(want[j : j + 2])
            np.testing.assert_array_equal(program.value(x), want)
    assert "crashed" not in capfd.readouterr().err
