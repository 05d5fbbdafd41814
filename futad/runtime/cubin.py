"""CUDA kernels compiled to cubins, with or without a card: by NVRTC through CuPy, else by nvcc; cached on disk.

    made = compile_cubin(source, "sm_90")
    made.kernels["name"].registers
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import re
import shutil
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from futad import cache
from futad.errors import BackendError, InternalError, UsageError
from futad.runtime.compiler_runs import run_compiler, version_of
from futad.runtime.kerneltext import expand

INSTALL_HINT = (
    "install futad[cuda13] or futad[cuda12] (CuPy with NVRTC), or the CUDA toolkit (nvcc on the PATH or named in "
    "FUTAD_NVCC); backends 'c', 'emulated' and 'interp' work without"
)


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas says of one kernel; sizes in bytes, of one thread (of one block: `shared`)."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int

    @property
    def spills(self) -> int:
        return self.spill_stores + self.spill_loads


@dataclass(frozen=True, slots=True)
class Cubin:
    """A compiled module: its bytes, the file they are in, and the resources of each kernel by name."""

    code: bytes
    path: Path
    kernels: dict[str, Resources]


@dataclass(frozen=True, slots=True)
class _Toolkit:
    """A compiler: NVRTC as a module of CuPy, or the command of nvcc; and its version."""

    version: str
    nvrtc: Any = None
    nvcc: str = ""


def find_toolkit() -> str:
    """The version of what `compile_cubin` will use.  Raises BackendError if there is nothing."""
    return _toolkit().version


def toolkit_available() -> bool:
    """Whether `compile_cubin` has something to compile with."""
    try:
        find_toolkit()
    except BackendError:
        return False
    return True


def compile_cubin(source: str, arch: str, *, ftz: bool = False, fmad: bool = True) -> Cubin:
    """The kernels of a CUDA text for one architecture ('sm_80', 'sm_90', ...).

    `ftz` flushes f32 denormals to zero, `fmad` lets products and sums contract; both as asked, neither by CuPy's
    defaults.  Raises BackendError, saying what to install, if there is neither NVRTC nor nvcc or it does not know
    the architecture; InternalError if the text is rejected.
    """
    if not re.fullmatch(r"sm_\d+[af]?", arch):
        raise UsageError(f"no architecture {arch!r}: 'sm_80', 'sm_90', ...")
    toolkit = _toolkit()
    text = expand(source)
    flags = [f"-ftz={str(ftz).lower()}", f"-fmad={str(fmad).lower()}", "-prec-div=true", "-prec-sqrt=true"]
    key = cache.digest(text, arch, *flags, toolkit.version, "nvrtc, whole" if toolkit.nvrtc else "nvcc")

    logs: list[str] = []

    def build(out: Path) -> None:
        code, log = (_nvrtc if toolkit.nvrtc else _nvcc)(toolkit, text, arch, flags)
        out.write_bytes(code)
        logs.append(log)

    def report(out: Path) -> None:
        if not logs:  # somebody threw away this half of the cache
            build(out)
        out.write_text(json.dumps({k: asdict(r) for k, r in parse_report(logs[0]).items()}))

    path = cache.fetch(key, ".cubin", build)
    kernels = json.loads(cache.fetch(cache.digest(key, "report"), ".json", report).read_text())
    return Cubin(path.read_bytes(), path, {k: Resources(**r) for k, r in kernels.items()})


def parse_report(log: str) -> dict[str, Resources]:
    """The resources of each kernel in what `ptxas -v` prints."""
    out: dict[str, Resources] = {}
    name, frame = "", (0, 0, 0)
    for line in log.splitlines():
        if m := re.search(r"Compiling entry function '(\w+)'", line):
            name, frame = m[1], (0, 0, 0)
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            frame = (int(m[1]), int(m[2]), int(m[3]))
        elif name and (m := re.search(r"Used (\d+) registers", line)):
            shared = re.search(r"(\d+) bytes smem", line)
            out[name] = Resources(int(m[1]), *frame, int(shared[1]) if shared else 0)
            name = ""
    return out


def _toolkit() -> _Toolkit:
    return _find_toolkit(os.environ.get("FUTAD_NVCC", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _find_toolkit(nvcc: str, path: str) -> _Toolkit:
    if not nvcc:
        try:
            nvrtc = importlib.import_module("cupy.cuda").nvrtc  # an attribute: no module has that name
            return _Toolkit(".".join(map(str, nvrtc.getVersion())), nvrtc=nvrtc)
        except Exception:  # CuPy without NVRTC raises what its loader raises
            pass
    command = nvcc or "nvcc"
    if shutil.which(command):
        with contextlib.suppress(OSError):
            if (version := version_of([command])) is not None:
                return _Toolkit(version, nvcc=command)
    raise BackendError("no compiler for CUDA kernels was found (neither NVRTC nor nvcc)", hint=INSTALL_HINT)


def _nvrtc(toolkit: _Toolkit, text: str, arch: str, flags: list[str]) -> tuple[bytes, str]:
    nvrtc = toolkit.nvrtc
    # Lambdas with parameters of type auto would be functions of the host, which NVRTC refuses.
    options = [f"-arch={arch}", "-std=c++17", "-default-device", "-w", "--ptxas-options=-v", *flags]
    program = nvrtc.createProgram(text, "kernels.cu", [], [])
    try:
        nvrtc.compileProgram(program, options)
        return whole(nvrtc.getCUBIN(program)), nvrtc.getProgramLog(program)
    except nvrtc.NVRTCError as e:
        _rejected(nvrtc.getProgramLog(program) or str(e), arch)
    finally:
        nvrtc.destroyProgram(program)


def whole(code: bytes) -> bytes:
    """A cubin with all its bytes: the `getCUBIN` of CuPy 13 and 14 drops the last one, as if it were a text's end."""
    if code[:5] != b"\x7fELF\2":
        return code
    (program_at, section_at), (size, count, section_size, sections) = (
        struct.unpack_from("<QQ", code, 32), struct.unpack_from("<4H", code, 54)
    )  # fmt: skip
    end = max(program_at + size * count, section_at + section_size * sections)
    return code + bytes(1) if len(code) == end - 1 else code


def _nvcc(toolkit: _Toolkit, text: str, arch: str, flags: list[str]) -> tuple[bytes, str]:
    def build(work: Path) -> tuple[bytes, str]:
        source, out = work / "kernels.cu", work / "kernels.cubin"
        source.write_text(text, encoding="utf-8")
        command = [toolkit.nvcc, f"-arch={arch}", "-cubin", "-std=c++17", "-w", "-Xptxas", "-v", *flags]
        done = run_compiler([*command, str(source), "-o", str(out)], work)
        if done.returncode != 0:
            _rejected(done.stdout + done.stderr, arch)
        if not out.is_file():
            raise BackendError(f"nvcc does not work: it wrote no file\n{done.stdout + done.stderr}", hint=INSTALL_HINT)
        return out.read_bytes(), done.stdout + done.stderr

    return cache.in_temporary_folder(build)


def _rejected(log: str, arch: str) -> NoReturn:
    lines = [s for s in log.strip().splitlines() if s.strip()]
    if any(re.search(r"(gpu-architecture|invalid value for|Unsupported gpu arch)", s) for s in lines):
        raise BackendError(
            f"the CUDA toolkit here does not know the architecture {arch}:\n{lines[0]}",
            hint="install a newer one",
        )
    if any("host compiler" in s or "cannot execute" in s or "No such file" in s for s in lines):
        raise BackendError("nvcc does not work:\n" + "\n".join(lines[:10]), hint=INSTALL_HINT)
    raise InternalError(
        "the CUDA compiler rejected the generated kernels:\n" + "\n".join(lines[:20]),
        hint="this is a defect of futad; please report it with the program",
    )
