"""Running a program compiled before without importing the compiler.

Beside the shared library the cache keeps, for a program file, how its entries are called.  The key covers the
texts of the file and its imports, futad's own code, the backend, and what the compilation looks at in the
environment; so what is found needs no further check.

It is kept as JSON, of which nothing but these descriptions can be made.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from futad import __version__, cache
from futad.bindings import Binding, Loop
from futad.core.entry import Entry, EntryType
from futad.core.failure import FailureSite
from futad.core.measures import Site
from futad.core.types import Prim, prim
from futad.errors import Span
from futad.runtime import cc
from futad.runtime.cc import compiler_file, cpu
from futad.runtime.ffi import CFunction, CLibrary, Layout
from futad.runtime.values import Leaf, Signature, signature_of
from futad.target import target_of

if TYPE_CHECKING:
    from futad.core import ir
    from futad.core.budget import Budget
    from futad.rewrite.schedule import Schedule

_IMPORT = re.compile(r'\bimport\s+"([^"]+)"')
_ENVIRONMENT = ("FUTAD_CC", "CC", "FUTAD_OPT", "FUTAD_CFLAGS", "PATH", "FUTAD_CHECK", "FUTAD_MUTANT")


@dataclass(slots=True)
class Compiled:
    """A compiled program: entries by name (core name and signature), the library's key and layout."""

    entries: dict[str, tuple[str, Signature]]
    library_key: str
    layout: Layout


_CLASSES: dict[str, Any] = {
    c.__name__: c
    for c in (Compiled, Signature, Entry, EntryType, Leaf, Layout, CFunction, FailureSite, Binding, Loop, Site, Span)
}


def to_json(x: Any) -> Any:
    """A description as JSON: lists are tuples, and what is neither that nor a plain value says what it is under ''."""
    if isinstance(x, Prim):
        return {"": "prim", "name": x.name}
    if isinstance(x, tuple):
        return [to_json(v) for v in x]
    if isinstance(x, frozenset):
        return {"": "set", "of": sorted(x)}
    if isinstance(x, dict):
        return {"": "dict", "of": [[k, to_json(v)] for k, v in x.items()]}
    if type(x).__name__ in _CLASSES:
        shown = [f.name for f in fields(x) if not f.name.startswith("_")]
        return {"": type(x).__name__, **{name: to_json(getattr(x, name)) for name in shown}}
    assert x is None or isinstance(x, str | int), x
    return x


def from_json(x: Any) -> Any:
    """The description that `to_json` wrote.  Raises KeyError, TypeError and the like if it is none."""
    if isinstance(x, list):
        return tuple([from_json(v) for v in x])
    if not isinstance(x, dict):
        return x
    kind = x.pop("")
    if kind == "prim":
        return prim(x["name"])
    if kind == "set":
        return frozenset(x["of"])
    if kind == "dict":
        return {k: from_json(v) for k, v in x["of"]}
    return _CLASSES[kind](**{name: from_json(v) for name, v in x.items()})


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


def key_of(
    texts: Mapping[str, str],
    backend: str,
    budget: Budget | None = None,
    schedule: Schedule | None = None,
    derived: str = "",
) -> str:
    """The key under which a program's compiled form is kept: all that compiling it looks at.  `budget`: of its
    derivatives; `schedule`: one whose text says all of it; `derived`: the derivative that it is of the texts' program.
    """
    environment = [os.environ.get(name, "") for name in _ENVIRONMENT]
    named = [part for item in sorted(texts.items()) for part in item]
    # On few threads other rules are chosen, whichever backend 'auto' will be.
    machine = [cpu(), platform.platform(), compiler_file(), str(target_of("multicore").few)]
    asked = [backend, repr(budget), *([str(schedule)] if schedule is not None else []), *([derived] if derived else [])]
    return cache.digest("quick", __version__, *asked, *machine, *environment, *own_files(), "texts", *named)


def own_files() -> list[str]:
    """Which state futad's own files are in: what they made may be used again while it is the same."""
    package = Path(__file__).resolve().parent.parent
    found: list[str] = []
    folders = [str(package), str(package.parent / "kernels")]
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except FileNotFoundError:  # an installed package has its kernels inside
            continue
        with entries:
            for e in entries:
                if e.name.endswith((".py", ".fut", ".lark", ".h")):
                    about = e.stat()
                    found.append(f"{e.name} {about.st_mtime_ns} {about.st_size}")
                elif e.name != "__pycache__" and e.is_dir():
                    folders.append(e.path)
    return sorted(found)


def as_shipped() -> bool:
    """Whether the tables of the compiler that others may add to are as they came: no key tells of additions."""
    tables = (("futad.core.scalarops", "OPS"), ("futad.pipeline", "PASSES"), ("futad.imp.loops.schedule", "SCHEDULES"))
    loaded = [(import_module(module), table) for module, table in tables if module in sys.modules]
    return all(getattr(module, table) == module.SHIPPED for module, table in loaded)


def find(key: str) -> tuple[Compiled, CLibrary] | None:
    """The compiled program of that key, loaded; None if there is none (or no longer a whole one)."""
    raw = cache.read(_name(key))
    try:
        if raw is None:
            return None
        compiled = from_json(json.loads(raw))
        path = cache.find(compiled.library_key, ".so")
        return (compiled, CLibrary(ctypes.CDLL(str(path)), compiled.layout)) if path is not None else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def store(key: str, program: ir.Program, executor: Any) -> None:
    """Keep how a program, in the core before any pass, is called, that a C backend compiles or has compiled; other
    backends' programs are not kept."""
    from futad.backend.c import CBackend

    if not isinstance(executor, CBackend):
        return
    entries = {f.entry.name: (name, signature_of(f)) for name, f in program.funs.items() if f.entry is not None}
    library = cc.library(executor.source, threads=executor.multicore).key
    cache.write(_name(key), json.dumps(to_json(Compiled(entries, library, executor.layout()))).encode())


def _name(key: str) -> str:
    return f"{key[:2]}/{key}.entries"
