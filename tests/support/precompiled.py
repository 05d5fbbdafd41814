"""The part of C++ texts that all programs on the CPU simulator share, read by the compiler once and not for each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from futad import cache
from futad.runtime import cc
from futad.runtime.kerneltext import expand

Build = Callable[..., Path]


def with_precompiled(build: Build, folder: Path) -> Build:
    """`cc.build_cxx` by GCC's precompiled headers, which `folder` keeps; where they do not serve, as it is.

    The compiler reads the same text with the same flags (another text or other flags, and GCC reads the header itself).
    """

    def shorter(source: str, *, flags: Sequence[str] = (), executable: bool = False) -> Path:
        head = expand('#include "emulate.h"\n', name="device.cpp")
        plain = not executable and not any(f.startswith("-fsanitize") for f in flags)
        if not plain or not source.startswith(head) or cc.find_cxx_compiler().is_clang:
            return build(source, flags=flags, executable=executable)
        header = _precompiled(head, tuple(flags), folder)
        return build(source[len(head) :], flags=[*flags, "-include", str(header)])

    return shorter


def _precompiled(text: str, flags: tuple[str, ...], folder: Path) -> Path:
    """The file with the text, beside it what GCC makes of it."""
    compiler = cc.find_cxx_compiler()
    header = folder / f"{cache.digest(text, *flags, *compiler.command, compiler.version, cc.cpu())}.h"
    made = header.with_name(f"{header.name}.gch")
    if not made.exists():
        own = header.with_name(f"{os.getpid()}-{header.name}")
        own.write_text(text, encoding="utf-8")
        command = [*compiler.command, *flags, "-fPIC", "-x", "c++-header", str(own), "-o", f"{own}.gch"]
        subprocess.run(command, check=True)
        own.replace(header)
        Path(f"{own}.gch").replace(made)
    return header
