"""Every template compiled for real cards, where there is a compiler for them: no spills, and what errors say."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_sources import SOURCES

from futad.errors import BackendError, InternalError, UsageError
from futad.runtime import cubin
from futad.runtime.kerneltext import kernel_names

needs_toolkit = pytest.mark.skipif(not cubin.toolkit_available(), reason="neither NVRTC nor nvcc")

SMALL = '#include "futad_scalar.cuh"\nFUTAD_KERNEL f(double *x) { x[threadIdx.x] = futad_digamma_f64(x[threadIdx.x]); }'


@needs_toolkit
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", list(SOURCES))
def test_no_spills(name: str, arch: str) -> None:
    made = cubin.compile_cubin(SOURCES[name], arch)
    assert made.code[:4] == b"\x7fELF"
    assert set(made.kernels) == set(kernel_names(SOURCES[name]))
    spills = {k: r for k, r in made.kernels.items() if r.spills}
    assert not spills
    assert all(r.shared <= 48 * 1024 for r in made.kernels.values())


@needs_toolkit
def test_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time nothing runs; options and architecture make different entries."""
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path))
    first = cubin.compile_cubin(SMALL, "sm_80")
    flushing = cubin.compile_cubin(SMALL, "sm_80", ftz=True, fmad=False)
    assert flushing.path != first.path
    for attribute in ("_nvcc", "_nvrtc"):
        monkeypatch.setattr(cubin, attribute, None)
    assert cubin.compile_cubin(SMALL, "sm_80") == first
    assert first.path.read_bytes() == first.code


@needs_toolkit
def test_rejected() -> None:
    with pytest.raises(InternalError, match=r"kernels\.cu\(2\): error"):
        cubin.compile_cubin(SMALL.replace("futad_digamma_f64", "nothing"), "sm_90")
    with pytest.raises(BackendError, match="does not know the architecture sm_10"):
        cubin.compile_cubin(SMALL, "sm_10")
    with pytest.raises(UsageError, match="no architecture"):
        cubin.compile_cubin(SMALL, "hopper")


def test_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_NVCC", "/nowhere/nvcc")
    assert not cubin.toolkit_available()
    with pytest.raises(BackendError, match=r"neither NVRTC nor nvcc[\s\S]*futad\[cuda13\]"):
        cubin.compile_cubin(SMALL, "sm_90")


def test_report() -> None:
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    40 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 31 registers, used 1 barriers, 40 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Function properties for two
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
ptxas info    : Function properties for __internal_helper
ptxas         .     24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
    one, two = cubin.Resources(31, 40, 8, 16, 512), cubin.Resources(12, 0, 0, 0, 0)
    assert cubin.parse_report(log) == {"one": one, "two": two}
    assert (one.spills, two.spills) == (24, 0)
