"""Which functions of a program call which.  (Those that call themselves: `callgraph.py`.)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from futad.core.ir import Call, Lambda, Program, statements


def calls(lam: Lambda) -> Counter[str]:
    """How often a scope, those inside it included, calls each function."""
    if not lam.has(Call):
        return Counter()
    return Counter([s.exp.name for s in statements(lam.stms) if type(s.exp) is Call])


def reached(program: Program, roots: Iterable[str]) -> list[str]:
    """The functions that some others call, directly or by way of others, and these; in the order of definition."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += calls(program.funs[name].body)
    return [name for name in program.funs if name in seen]


__all__ = ["calls", "reached"]
