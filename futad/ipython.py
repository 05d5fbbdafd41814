"""Programs in notebooks, a cell each.

    %load_ext futad

    %%futad model --backend c
    entry loss [n] (w: [n]f64): f64 = f64.sum (map (** 2) w)

The program is `model` afterwards, and its entries `model.loss` and so on.  Without a name each entry is a variable of
its own.  An error in the program is shown with its place in the cell, without a traceback, and changes no variable.
"""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from futad.api.program import Program, compile
from futad.backend import backends
from futad.errors import Error, UsageError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%futad: {message}", hint=self.format_usage().strip())


def program_of_cell(line: str, cell: str) -> tuple[str, Program]:
    """The program of a cell, and the name that it gets, "" for none.  `line` is what stands behind `%%futad`.

    Lines in messages are those of the cell.  Raises UsageError and SourceError.
    """
    parser = _Parser(prog="%%futad", add_help=False)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--backend", "-b", default="auto")
    try:
        options = parser.parse_args(shlex.split(line))
    except ValueError as e:  # quotes that do not end
        raise UsageError(f"%%futad: {e}") from None
    if options.name and not options.name.isidentifier():
        raise UsageError(f"%%futad: '{options.name}' cannot be the name of a variable")
    backends.check_name(options.backend)
    return options.name, compile("\n" + cell, options.name or "cell", backend=options.backend)


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext futad`: defines the cell magic `%%futad`."""

    def futad(line: str, cell: str) -> None:
        try:
            name, program = program_of_cell(line, cell)
        except Error as e:
            _show(e)
        shell.user_ns.update({name: program} if name else dict(program.entries))

    shell.register_magic_function(futad, magic_kind="cell", magic_name="futad")


def _show(error: Error) -> NoReturn:
    """IPython prints errors of usage as their text, and runs no cell behind."""
    from IPython.core.error import UsageError as Shown

    raise Shown("\n" + str(error)) from None


__all__ = ["load_ipython_extension", "program_of_cell"]
