"""Digests of what programs compile to: a change that is to change no decision leaves them all as they are.

    python -m futad.testing.freeze [--backend B] [PATH...] > before.txt

prints a line for each program and backend: the digest of the emitted text (C; for devices, the kernels and the host
code) without the numbers of variables, the backend, and the program.  A PATH is a program (.fut, or .core: the text of
core IR), a folder of them, or a Python file, of which every string is taken that is a program (of tests also those that
they put together); by default those of this repository's tests and benchmarks.  Two runs are compared by `diff`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from futad import cache
from futad.core.ir import Program
from futad.core.parse import parse_program
from futad.errors import Error

ROOT = Path(__file__).resolve().parent.parent.parent
DEFAULT = ("tests", "benchmarks/programs")
CORE = re.compile(r"\s*fun \w+ [\[(]")  # how core IR begins
SUFFIXES = (".fut", ".core", ".py")
BACKENDS = ("c", "multicore", "emulated")


def programs(paths: list[Path]) -> Iterator[tuple[str, Program]]:
    """Programs by name: of files, and of strings in Python files by the first digits of their digest."""
    from futad.source import compile_text, load_program

    for path in paths:
        for file in sorted(f for e in SUFFIXES for f in path.rglob(f"*{e}")) if path.is_dir() else [path]:
            if file.suffix == ".core":
                yield str(file), parse_program(file.read_text())
            elif file.suffix == ".fut":
                try:
                    yield str(file), load_program(str(file))
                except Error:
                    continue  # one that is to be refused
            else:
                for name, text in texts(file):
                    try:
                        yield f"{file}:{name}", parse_program(text) if CORE.match(text) else compile_text(text)
                    except Error:
                        continue


def texts(file: Path) -> Iterator[tuple[str, str]]:
    """The strings of a Python file that look like programs, after the digits that name them, which edits elsewhere in
    the file leave as they are; of tests also those that their variables have, after the names of these."""
    seen: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_program(node.value):
            seen.add(node.value)
            yield cache.digest(node.value.encode(errors="surrogatepass"))[:8], node.value
    if not file.name.startswith("test_"):
        return
    try:
        found = vars(import_module(".".join(file.resolve().relative_to(ROOT).with_suffix("").parts)))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001  (it needs what is not installed here; pytest's skips are no Exception)
        return
    for name, value in found.items():
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
        for k, text in enumerate(parts):
            if isinstance(text, str) and _is_program(text) and text not in seen:
                seen.add(text)
                yield f"{name}[{k}]", text


def _is_program(text: str) -> bool:
    return bool(re.search(r"^\s*entry\s", text, re.MULTILINE) or CORE.match(text))


def emitted(program: Program, backend: str) -> str:
    """What the program becomes on a backend: the texts that are compiled and run."""
    from futad.pipeline import compile_program
    from futad.target import TARGETS

    target = replace(TARGETS[backend], threads=1) if backend == "multicore" else TARGETS[backend]
    program = compile_program(program, target=target)
    if backend == "emulated":
        from futad.backend.cuda import DeviceBackend

        device = DeviceBackend(program)
        return f"{device.source}\n{device.host}"
    from futad.backend.c import CBackend

    return CBackend(program, target).source


def digest(text: str) -> str:
    """Of a text without the numbers of its variables, which depend on what was compiled before."""
    return cache.digest(re.sub(r"_\d+\b", "_", text))[:16]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m futad.testing.freeze", description=__doc__.split("\n")[0])
    parser.add_argument("paths", metavar="PATH", nargs="*", type=Path)
    parser.add_argument("--backend", choices=BACKENDS, action="append", help="only this one; may be repeated")
    args = parser.parse_args(argv)
    paths = args.paths or [ROOT / folder for folder in DEFAULT]
    for name, program in programs(paths):
        name = name.removeprefix(f"{ROOT}/")
        for backend in args.backend or BACKENDS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = digest(emitted(program, backend))
                except Error as e:
                    found = f"refused: {type(e).__name__}"
                except Exception as e:  # a defect, which is to stay visible as one
                    found = f"internal error: {type(e).__name__}"
            print(f"{found:<16} {backend:<9} {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
