"""Running a program compiled before without importing the compiler.

Beside the shared library the cache keeps, for a program file, how its entries are called.  The key covers the
texts of the file and its imports, futad's own code, the backend, and what the compilation looks at in the
environment; so what is found needs no further check.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from futad import __version__
from futad.runtime import cache
from futad.runtime.cc import cpu
from futad.runtime.clib import CLibrary, Layout
from futad.runtime.values import Signature

if TYPE_CHECKING:
    from futad.api import Program

_IMPORT = re.compile(r'\bimport\s+"([^"]+)"')
_ENVIRONMENT = ("FUTAD_CC", "CC", "FUTAD_CFLAGS", "PATH")


@dataclass(slots=True)
class Compiled:
    """A compiled program: entries by name (core name and signature), the library's key and layout."""

    entries: dict[str, tuple[str, Signature]]
    library_key: str
    layout: Layout


class _Missing(Exception):
    pass


def _absent(path: Path) -> None:
    raise _Missing


def texts_of(file: str) -> dict[str, str] | None:
    """The texts of a program and of all it may import, by the paths messages show; None if unreadable."""
    texts: dict[str, str] = {}
    todo = [file]
    while todo:
        name = todo.pop()
        if name in texts:
            continue
        try:
            texts[name] = Path(name).read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            if name == file:
                return None
            texts[name] = ""
            continue
        # Imports that only look like imports (in a comment) do no harm here.
        todo += [str(Path(name).parent / f"{m}.fut") for m in _IMPORT.findall(texts[name])]
    return texts


def key_of(texts: dict[str, str], backend: str) -> str:
    """The key under which a program's compiled form is kept."""
    package = Path(__file__).resolve().parent.parent
    stamp = [
        f"{p.name} {s.st_mtime_ns} {s.st_size}"
        for p in sorted([*package.rglob("*"), *(package.parent / "kernels").glob("*")])
        if p.suffix in (".py", ".fut", ".lark", ".h")
        for s in [p.stat()]
    ]
    environment = [os.environ.get(name, "") for name in _ENVIRONMENT]
    named = [part for item in sorted(texts.items()) for part in item]
    machine = [cpu(), platform.platform()]
    return cache.digest("quick", __version__, backend, *machine, *environment, *stamp, "texts", *named)


def find(key: str) -> tuple[Compiled, CLibrary] | None:
    """The compiled program of that key, loaded; None if there is none (or no longer a whole one)."""
    try:
        compiled = pickle.loads(cache.fetch(key, ".entries", _absent).read_bytes())
        path = cache.fetch(compiled.library_key, ".so", _absent)
        return compiled, CLibrary(ctypes.CDLL(str(path)), compiled.layout)
    except (_Missing, OSError, pickle.UnpicklingError, AttributeError, ImportError, EOFError):
        return None


def store(key: str, program: Program) -> None:
    """Keep a program that has been compiled by a C backend; others are not kept."""
    from futad.backend.c import CBackend

    executor: Any = program.executor()
    if not isinstance(executor, CBackend):
        return
    compiled = Compiled(
        {name: (f.core_name, f.signature) for name, f in program.entries.items()},
        Path(executor.library._name).stem,
        executor.layout(),
    )
    cache.fetch(key, ".entries", lambda path: _write(path, compiled))


def _write(path: Path, compiled: Compiled) -> None:
    path.write_bytes(pickle.dumps(compiled))
