"""Every template compiled for real cards, where there is a compiler for them: no spills, and what errors say."""

from __future__ import annotations

import struct
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import pytest

from futad.errors import BackendError, InternalError, UsageError
from futad.pipeline import compile_program
from futad.runtime import cubin, handover
from futad.runtime.kerneltext import kernel_names
from futad.source import compile_text, load_program
from futad.testing.build import device_backend
from tests.support.kernel_sources import SOURCES
from tests.support.needs import needs_toolkit
from tests.support.paths import ROOT

SMALL = '#include "futad_scalar.cuh"\nFUTAD_KERNEL f(double *x) { x[threadIdx.x] = futad_digamma_f64(x[threadIdx.x]); }'


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@needs_toolkit
def test_rejected() -> None:
    with pytest.raises(InternalError, match=r"kernels\.cu\(2\): error"):
        cubin.compile_cubin(SMALL.replace("futad_digamma_f64", "nothing"), "sm_90")
    with pytest.raises(BackendError, match="does not know the architecture sm_10"):
        cubin.compile_cubin(SMALL, "sm_10")
    with pytest.raises(UsageError, match="no architecture"):
        cubin.compile_cubin(SMALL, "hopper")


class Nvrtc(types.SimpleNamespace):
    """NVRTC as CuPy has it: an attribute of `cupy.cuda`, programs by handle, what ptxas says in the log."""

    class NVRTCError(RuntimeError):
        pass

    def __init__(self, log: str, fails: bool = False) -> None:
        self.seen: list[list[str]] = []
        self.alive = 0
        super().__init__(getVersion=lambda: (13, 5), getCUBIN=lambda p: b"\x7fELF", getProgramLog=lambda p: log)
        self.fails = fails

    def createProgram(self, text: str, name: str, headers: list[str], includes: list[str]) -> int:
        assert "FUTAD_KERNEL" in text and '#include "' not in text
        self.alive += 1
        return 3

    def destroyProgram(self, program: int) -> None:
        self.alive -= 1

    def compileProgram(self, program: int, options: list[str]) -> None:
        self.seen.append(options)
        if self.fails:
            raise self.NVRTCError("NVRTC_ERROR_COMPILATION")


def with_nvrtc(monkeypatch: pytest.MonkeyPatch, cache: Path, nvrtc: Nvrtc) -> None:
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(cache))
    monkeypatch.delenv("FUTAD_NVCC", raising=False)
    monkeypatch.setenv("PATH", f"{cache}:/usr/bin:/bin")  # another key of the cached search
    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    monkeypatch.setitem(sys.modules, "cupy.cuda", types.SimpleNamespace(nvrtc=nvrtc))


def test_nvrtc_comes_before_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = "ptxas info : Compiling entry function 'f' for 'sm_90'\nptxas info : Used 9 registers, used 0 barriers"
    nvrtc = Nvrtc(log)
    with_nvrtc(monkeypatch, tmp_path, nvrtc)
    made = cubin.compile_cubin(SMALL, "sm_90", ftz=True)
    assert cubin.find_toolkit() == "13.5" and made.code == b"\x7fELF"
    assert made.kernels == {"f": cubin.Resources(9, 0, 0, 0, 0)}
    flags = {"-arch=sm_90", "-ftz=true", "-fmad=true", "-prec-div=true", "-prec-sqrt=true", "-default-device"}
    assert flags <= set(nvrtc.seen[0])
    assert cubin.compile_cubin(SMALL, "sm_90", ftz=True) == made and len(nvrtc.seen) == 1 and nvrtc.alive == 0


@pytest.mark.slow
@pytest.mark.skipif(find_spec("cupy") is None, reason="no CuPy, by which NVRTC is called")
@pytest.mark.parametrize("source", ["handed over", "a histogram"])
def test_nvrtc_takes_what_nvcc_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """NVRTC has fewer types, and no functions of the host; a lambda with a parameter of type auto is one for it."""
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FUTAD_NVCC", raising=False)
    text = handover.SOURCE
    if source == "a histogram":
        program = "entry f [n] (is: [n]i64) (xs: [n]f64) = reduce_by_index (replicate 9 0) (+) 0f64 is xs"
        text = device_backend(compile_program(compile_text(program, "h.fut"))).source
        assert "const auto &futad_add" in text
    assert cubin.compile_cubin(text, "sm_90").kernels


def test_nvrtc_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = "nvrtc: error: invalid value for --gpu-architecture"
    for i, (log, error) in enumerate([("kernels.cu(2): error: undefined", InternalError), (unknown, BackendError)]):
        nvrtc = Nvrtc(log, fails=True)
        with_nvrtc(monkeypatch, tmp_path / str(i), nvrtc)
        with pytest.raises(error, match=log.partition(":")[2].strip()):
            cubin.compile_cubin(SMALL, "sm_90")
        assert nvrtc.alive == 0


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


DMMA = 0x23F  # the lowest twelve bits of that instruction on sm_80 and sm_90, by what nvdisasm shows


def instructions(code: bytes) -> dict[str, list[int]]:
    """The operations of each kernel of a cubin, by their lowest twelve bits."""
    (at,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<3H", code, 58)
    sections = [struct.unpack_from("<IIQQQQ", code, at + i * size) for i in range(count)]
    out = {}
    for name_at, _, _, _, start, length in sections:
        first = sections[names][4] + name_at
        name = code[first : code.index(b"\0", first)].decode()
        if name.startswith(".text."):
            words = range(start, start + length, 16)
            out[name.removeprefix(".text.")] = [struct.unpack_from("<Q", code, i)[0] & 0xFFF for i in words]
    return out


@pytest.mark.slow
@needs_toolkit
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_products_of_f64_are_done_by_the_matrix_units(arch: str) -> None:
    path = ROOT / "benchmarks" / "programs" / "gmm.fut"
    made = device_backend(compile_program(load_program(str(path))))
    found = instructions(cubin.compile_cubin(made.source, arch).code)
    products = {name: ops for name, ops in found.items() if name.endswith("_product")}
    assert len(products) >= 5 and all(DMMA in ops for ops in products.values())
    assert not any(DMMA in ops for name, ops in found.items() if not name.endswith("_product"))
