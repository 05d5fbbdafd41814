"""From the typed syntax tree to core IR.

`lower` evaluates each entry over symbolic arguments; see `core.py` (the evaluator), `values.py` (what
expressions evaluate to) and `calls.py` (when a function becomes a core function).
"""

from __future__ import annotations

from futad.core.ir import Program
from futad.source.ast import CheckedProgram
from futad.source.lower import attributes, control, expr  # noqa: F401  (they register their expressions)
from futad.source.lower.core import Lowerer
from futad.source.lower.entries import lower_entry
from futad.source.lower.intrinsics import lookup


def lower(checked: CheckedProgram, name: str = "main") -> Program:
    """The core program of a checked one; its functions' names are the entries' names, or name_N.

    Raises UnsupportedError (with the place) for what this version does not compile.
    """
    lw = Lowerer(checked, lookup)
    for fd in checked.entries:
        lw.names[fd.name] = 0
    for fd in checked.entries:
        lower_entry(lw, fd)
    return Program(lw.funs, name)


__all__ = ["lower"]
