"""futad dev FILE --graph OUT: the dataflow of a function, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from futad.errors import UsageError

if TYPE_CHECKING:
    from futad.core.ir import Program

FORMS = (".svg", ".json")
BESIDE = Path()  # no name is given: that of the program, in the current folder


def checked(path: Path, file: str) -> Path:
    """The name of the drawing of a program.  UsageError unless it says what the file is to hold."""
    if path == BESIDE:
        return Path(Path(file).with_suffix(FORMS[0]).name)
    if path.suffix not in FORMS:
        raise UsageError(f"--graph {path}: the name is to end in {' or '.join(FORMS)}")
    return path


def write(path: Path, program: Program, file: str, name: str, after: str, calls: bool) -> None:
    """Draw the entry or function of that name of the program in a file, or its `calls`, as it is after a pass, and
    print the name of the drawing.

    UsageError if there is none, FileError if `path` cannot be written.
    """
    from futad.cli.emit import write_file
    from futad.cli.options import choose
    from futad.draw import calls_described, calls_picture, described, picture

    svg = path.suffix == ".svg"
    if calls:
        title = f"calls of {Path(file).name}, after {after}"
        write_file(path, calls_picture(program, title) if svg else calls_described(program))
        print(path)
        return
    functions = {f.name: f for f in program.funs.values()}
    functions |= {f.entry.name: f for f in program.funs.values() if f.entry is not None}
    fun = choose(program.name, name, functions)
    title = f"{name} of {Path(file).name}, after {after}"
    write_file(path, picture(fun, title) if svg else described(fun))
    print(path)


__all__ = ["BESIDE", "checked", "write"]
