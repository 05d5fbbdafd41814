"""Tasks one after the other, where they need not run at once: `par({ a }, { b })` is a, then b.

Two tasks run at once if a recursive function is called in one of them, or if both loop and neither has anything in it
that runs in parallel itself: the elements of arrays make better use of many threads than two tasks do.

Tasks in order give what they give at once (`one_after_the_other`), so both passes are right for all programs, and have
no conditions.
"""

from __future__ import annotations

from functools import partial

from futad.core import ir
from futad.core.callgraph import recursive
from futad.core.calls import reached
from futad.core.ir import Lambda, Program, Stm
from futad.rewrite.rules.control import one_after_the_other


def in_order(program: Program) -> Program:
    """The program without `Par`; the same one if it has none."""
    return ir.map_bodies(program, lambda body: _scope(body, None, False))


def at_once(program: Program) -> Program:
    """The program with those tasks only that are to run at once; the same one if these are all."""
    if not any(f.body.has(ir.Par) for f in program.funs.values()):
        return program
    cycles = recursive(program)
    deep = frozenset(name for name in program.funs if not cycles.isdisjoint(reached(program, [name])))
    return ir.map_bodies(program, lambda body: _scope(body, deep, False))


def _scope(lam: Lambda, deep: frozenset[str] | None, inside: bool) -> Lambda:
    """`deep`: the functions that may call recursive ones; None: no tasks run at once.  `inside`: of what runs over the
    elements of arrays."""
    if not lam.has(ir.Par):
        return lam
    out: list[Stm] = []
    for s in lam.stms:
        within = inside or isinstance(s.exp, ir.Soac)
        s = ir.map_scopes(s, partial(_scope, deep=deep, inside=within))
        out += [s] if not isinstance(s.exp, ir.Par) or _pays(s.exp, deep, inside) else one_after_the_other(s)
    return Lambda(lam.params, tuple(out), lam.result)


def _pays(e: ir.Par, deep: frozenset[str] | None, inside: bool) -> bool:
    if deep is None:
        return False
    exps = [[s.exp for s in ir.statements(lam.stms)] for lam in e.lambdas()]
    if any(isinstance(x, ir.Call) and x.name in deep for each in exps for x in each):
        return True
    loops = all(any(isinstance(x, ir.Loop) for x in each) for each in exps)
    return loops and not inside and not any(isinstance(x, ir.Soac | ir.Call) for each in exps for x in each)


__all__ = ["at_once", "in_order"]
