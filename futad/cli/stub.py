"""Types of a program's entries for editors and type checkers: a stub in Python.

    futad stub model.fut -o model.pyi

It declares a class, named as the file, with a method for each entry.  A file of Python that loads the program says that
it is one of that class:

    if TYPE_CHECKING:
        from model import Model
    prog = cast("Model", futad.load("model.fut"))

Without -o it is written to stdout.  Sizes are not part of Python's types: they are in the methods' comments.
"""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from futad.api.program import Function, Program, load
from futad.cli import options
from futad.cli.emit import write_file
from futad.core.entry import EntryType
from futad.core.types import PRIMS, Prim
from futad.runtime.values import widens

HEAD = '''"""The entries of {name}, for editors and type checkers; written by `futad stub`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import futad
'''


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)
    parser.add_argument("-o", "--output", metavar="OUT", help="the file to write (default: stdout)")


def run(args: argparse.Namespace) -> int:
    text = stub(load(args.file, backend="interp"), Path(args.file).name)
    if args.output:
        write_file(Path(args.output), text)
    else:
        print(text, end="")
    return 0


def stub(program: Program, file: str) -> str:
    """The stub of a program in that file."""
    title = "".join([part[:1].upper() + part[1:] for part in re.split(r"\W|_", file.removesuffix(".fut")) if part])
    title = title if title.isidentifier() and not keyword.iskeyword(title) else f"Program{title}"
    own, members = [], []
    for name, f in program.entries.items():
        if not name.isidentifier() or keyword.iskeyword(name) or hasattr(type(program), name):
            members.append(f'    # `{name}` is program["{name}"]')
            continue
        kind = f"{title}_{name}"
        own.append(_entry(kind, f))
        members.append(f"    {name}: {kind}")
    body = "\n".join(members) or "    pass"
    text = "\n".join([*own, f"\nclass {title}(futad.Program):\n{body}\n"])
    return f"{HEAD.format(name=file)}{_aliases(text)}\n{text}"


def _entry(kind: str, f: Function) -> str:
    """The class of an entry."""
    names = f.__signature__.parameters
    params = [f"{n}: {argument_type(t)}" for n, (_, t) in zip(names, f.entry.params, strict=True)]
    indent = "\n        "
    listed = "".join([f"{indent}{p}," for p in ["self", *params, "*", "out: Any = ..."]])
    doc = (f.__doc__ or "").replace("\\", r"\\").replace('"""', "'''").strip()
    doc = "\n".join([f"        {line}".rstrip() for line in doc.splitlines()]).lstrip()
    doc += " " if doc.endswith('"') else ""
    head = f"    def __call__({listed}\n    ) -> {result_type(f.entry.result)}:"
    return f'\nclass {kind}(futad.Function):\n{head}\n        """{doc}"""\n        ...\n'


def argument_type(t: EntryType, rank: int = 0) -> str:
    """What may be passed for a parameter, `rank` dimensions above."""
    elem = t.elem
    if isinstance(elem, EntryType):
        return argument_type(elem, rank + len(t.dims))
    if t.constructors:
        return _union([*(["Sequence[Any]"] if rank else _sums(t, argument_type)), "Mapping[str, Any]"])
    if t.kind == "record":
        return "Any"
    if t.kind == "tuple":
        made = _tuple([argument_type(ft, rank) for _, ft in t.fields])
        return _union([made, "Sequence[Any]", "NDArray[np.void]"]) if rank else made
    assert elem is not None
    return f"_{elem.name}_array" if rank + len(t.dims) else f"_{elem.name}"


def result_type(t: EntryType, rank: int = 0) -> str:
    """What comes back of a type, `rank` dimensions above."""
    elem = t.elem
    if isinstance(elem, EntryType):
        return result_type(elem, rank + len(t.dims))
    if t.constructors and not rank:
        return _union(_sums(t, result_type))
    if t.kind == "record":
        return "futad.Record"
    if t.kind == "tuple":
        return _tuple([result_type(ft, rank) for _, ft in t.fields])
    assert elem is not None
    return f"NDArray[{_numpy(elem)}]" if rank + len(t.dims) else _numpy(elem)


def _sums(t: EntryType, typed: Callable[[EntryType], str]) -> list[str]:
    """The tuples of a sum's constructors."""
    made = []
    for name, _ in t.constructors:
        args = [typed(ft) for n, ft in t.fields if n.startswith(f"#{name}.")]
        made.append(_tuple([f'Literal["{name}"]', *args]))
        if not args and typed is argument_type:
            made.append(f'Literal["{name}"]')
    return made


def _tuple(parts: list[str]) -> str:
    return f"tuple[{', '.join(parts) or '()'}]"


def _union(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _numpy(elem: Prim) -> str:
    return "np.bool_" if elem.is_bool else f"np.{elem.dtype.name}"


def _aliases(text: str) -> str:
    """What the names in a text stand for that `argument_type` gives numbers and arrays: all whose numbers a parameter
    holds, its own type first."""
    out = []
    for elem in PRIMS.values():
        held = [_numpy(elem), *[_numpy(p) for p in PRIMS.values() if p is not elem and widens(p.dtype, elem.dtype)]]
        plain = "bool" if elem.is_bool else "int" if elem.is_integral else "float"
        if re.search(rf"\b_{elem.name}\b", text):
            out.append(f"_{elem.name} = {_union([plain, *held])}\n")
        if f"_{elem.name}_array" in text:
            out.append(f"_{elem.name}_array = NDArray[{_union(held)}] | Sequence[Any]\n")
    return "".join(out) and "\n" + "".join(out)


__all__ = ["argument_type", "arguments", "result_type", "run", "stub"]
