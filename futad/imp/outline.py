"""Which functions become C functions of their own instead of being lowered where they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.callgraph import components
from futad.core.calls import reached
from futad.core.failure import FailureSite
from futad.core.types import I64, AccType
from futad.errors import TOO_DEEP
from futad.imp import ir

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

LARGE = 200  # statements; a larger function that is called more than once becomes a C function
NOINLINE = ("noinline",)  # the attribute of one that does whatever its size


def separate_functions(program: core.Program) -> tuple[dict[str, int], set[str], set[str]]:
    """How often each function is called, those that are not lowered at each call, and of these the recursive ones.

    Accumulators cannot be passed, so a function that has some is always lowered where it is called.  Functions that
    call each other are never; the calls counted are those from outside of their group.
    """
    groups = components(program)
    group_of = {name: group for group in groups for name in group if group.cyclic}
    calls: dict[str, int] = {}
    sizes: dict[str, int] = {}

    def measure(lam: core.Lambda, caller: str) -> int:
        size = 0
        for s in lam.stms:
            size += 1 + sum(measure(inner, caller) for inner in s.exp.lambdas())
            if isinstance(s.exp, core.Call):
                name = s.exp.name
                if name not in group_of or group_of[name] is not group_of.get(caller):
                    calls[name] = calls.get(name, 0) + 1
                size += 0 if name in separate else sizes[name]
        return size

    separate: set[str] = set(group_of)
    for f in [program.funs[name] for group in groups for name in group]:
        sizes[f.name] = measure(f.body, f.name)
        has_acc = any(isinstance(v.type, AccType) for v in (*f.body.params, *f.ret))
        if not has_acc and (sizes[f.name] > LARGE or NOINLINE in f.attrs):
            separate.add(f.name)
    separate = {n for n in separate if calls.get(n, 0) > 1 or n in group_of or NOINLINE in program.funs[n].attrs}
    # What may run again on one thread before it is done has arrays of its own in each activation: who waits for a task
    # does others.
    forking = {name for name, f in program.funs.items() if f.body.has(core.Par)}
    again = {name for name in separate if forking and not forking.isdisjoint(reached(program, [name]))}
    return calls, separate, again.union(group_of)


def lower_outlined(lo: Lowerer, fun: core.Fun) -> ir.Function:
    """A function that is not lowered where it is called."""
    return activation(lo, fun) if fun.name in lo.recursive else lo.function(fun, local=True)


def activation(lo: Lowerer, fun: core.Fun) -> ir.Function:
    """A recursive function: its own arrays lie in slots of each activation."""
    outside, lo.slots = lo.slots, 0
    made = lo.function(fun, local=True, in_frame=True)
    made.recursive = lo.slots, len(lo.places)
    lo.slots = outside
    lo.places.append(FailureSite(fun.span, TOO_DEEP, (I64, I64)))
    return made
