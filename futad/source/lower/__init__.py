"""From the typed syntax tree to core IR.

`lower` evaluates each entry over symbolic arguments; see `core.py` (the evaluator), `values.py` (what
expressions evaluate to) and `calls.py` (when a function becomes a core function).
"""

from __future__ import annotations

import sys

from futad.core.ir import Program
from futad.source.ast import CheckedProgram, EApp, EVar, FunDef, PVar
from futad.source.lower import control, expr  # noqa: F401  (they register their expressions)
from futad.source.lower.core import Lowerer
from futad.source.lower.entries import lower_entry
from futad.source.stypes import Binding, TFun, resolve

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
    """In a program without entries a function `main` is one."""
    own = checked.files[-1].path if checked.files else None
    mains = [f for f in checked.funs if f.name == "main" and f.span.file == own]
    for fd in mains[-1:]:
        expand(fd)
    return mains[-1:]


def expand(fd: FunDef) -> None:
    """Give a definition that yields a function (`def main = f`) the parameters it lacks."""
    while fd.ret_type is not None and type(fun := resolve(fd.ret_type)) is TFun:
        p = PVar(fd.span, f"x{len(fd.params)}")
        p.type = fun.param
        p.binding = fun.name or Binding(p.name, "value")
        arg = EVar(fd.span, p.name)
        arg.binding, arg.type = p.binding, fun.param
        app = EApp(fd.body.span, fd.body, arg)
        app.type = fd.ret_type = fun.result
        fd.params.append(p)
        fd.body = app
        fd.ret = None


__all__ = ["lower"]
