"""What not all backends run: functions that call themselves other than as the last thing they do."""

from __future__ import annotations

from futad.core.callgraph import components
from futad.core.calls import reached
from futad.core.ir import Program
from futad.errors import BackendError


def refuse(program: Program, backend: str) -> Program:
    """The program.  Raises BackendError if an entry of it may call a function that calls itself."""
    entries = [n for n, f in program.funs.items() if f.entry is not None]
    used = set(reached(program, entries or program.funs))
    for group in components(program):
        if group.cyclic and used.intersection(group):
            f = program.funs[group[0]]
            raise BackendError(
                f"the backend '{backend}' does not run the recursive function '{f.name}'",
                f.span,
                hint="'interp', 'c' and 'multicore' run it; what calls itself as its last step runs everywhere, and so "
                "does one with '#[bound(d)]' before its definition, of which there are at most d activations at once",
            )
    return program


__all__ = ["refuse"]
