"""From the typed syntax tree to core IR.

`lower` evaluates each entry over symbolic arguments; see `core.py` (the evaluator), `values.py` (what
expressions evaluate to) and `calls.py` (when a function becomes a core function).
"""

from __future__ import annotations

import sys

from futad.core.ir import Program
from futad.source.ast import CheckedProgram, FunDef
from futad.source.lower import control, expr  # noqa: F401  (they register their expressions)
from futad.source.lower.core import Lowerer
from futad.source.lower.entries import lower_entry
from futad.source.lower.sizes import contains_function

# Nested expressions recurse a few Python frames a level.
_RECURSION = 20_000


def lower(checked: CheckedProgram, name: str = "main") -> Program:
    """The core program of a checked one; its functions' names are the entries' names, or name_N.

    Raises UnsupportedError (with the place) for what this version does not compile.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))
    lw = Lowerer(checked)
    entries = checked.entries or implicit_entry(checked)
    for fd in entries:
        lw.names[fd.name] = 0
    for fd in entries:
        lower_entry(lw, fd)
    return Program(lw.funs, name)


def implicit_entry(checked: CheckedProgram) -> list[FunDef]:
    """In a program without entries a function `main` is one, if it takes and yields data."""
    own = checked.files[-1].path if checked.files else None
    mains = [f for f in checked.funs if f.name == "main" and f.span.file == own]
    return [f for f in mains[-1:] if f.ret_type is not None and not contains_function(f.ret_type)]


__all__ = ["lower"]
