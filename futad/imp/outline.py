"""Which functions become C functions of their own instead of being lowered where they are called."""

from __future__ import annotations

from futad.core import ir as core
from futad.core.types import AccType

LARGE = 200  # statements; a larger function that is called more than once becomes a C function
NOINLINE = ("noinline",)  # the attribute of one that does whatever its size


def separate_functions(program: core.Program) -> tuple[dict[str, int], set[str]]:
    """How often each function is called, and those that are not lowered at each call.

    Accumulators cannot be passed, so a function that has some is always lowered where it is called.
    """
    calls: dict[str, int] = {}
    sizes: dict[str, int] = {}

    def measure(lam: core.Lambda) -> int:
        size = 0
        for s in lam.stms:
            size += 1 + sum(measure(inner) for inner in s.exp.lambdas())
            if isinstance(s.exp, core.Call):
                calls[s.exp.name] = calls.get(s.exp.name, 0) + 1
                size += 0 if s.exp.name in separate else sizes[s.exp.name]
        return size

    separate: set[str] = set()
    for f in program.funs.values():
        sizes[f.name] = measure(f.body)
        has_acc = any(isinstance(v.type, AccType) for v in (*f.body.params, *f.ret))
        if not has_acc and (sizes[f.name] > LARGE or NOINLINE in f.attrs):
            separate.add(f.name)
    return calls, {name for name in separate if calls.get(name, 0) > 1 or NOINLINE in program.funs[name].attrs}
