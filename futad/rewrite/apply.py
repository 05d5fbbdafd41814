"""A strategy on a whole program: on every statement of every function, then what it leaves is tidied up."""

from __future__ import annotations

from futad.core import ir
from futad.core.alias import aliases
from futad.core.ir import Fun, Program
from futad.core.types import Var, shape_of
from futad.rewrite.context import Context
from futad.rewrite.simplify import Schedule, simplify
from futad.rewrite.strategy import Stats, Strategy, apply_to, fail, fuelled

TIDY = Schedule(fail, fail)  # copy propagation, common subexpressions, dead code


def apply_strategy(program: Program, strategy: Strategy, stats: Stats | None = None) -> Program:
    """The program with `strategy` tried on each statement of the functions' bodies; the same one if nothing applied.

    Raises UsageError if it does not end.
    """
    differentiates = any(f.body.has(ir.Derivative) for f in program.funs.values())
    stats = Stats() if stats is None else stats  # rules that are counted say which one was the last
    with fuelled(sum(1 for f in program.funs.values() for _ in ir.statements(f.body.stms))):
        funs = {n: _function(f, strategy, differentiates, stats) for n, f in program.funs.items()}
    if all(funs[n] is f for n, f in program.funs.items()):
        return program
    return simplify(Program(funs, program.name), schedule=TIDY)


def _function(fun: Fun, strategy: Strategy, differentiates: bool, stats: Stats) -> Fun:
    ctx = Context(aliases(fun.body, fun.body.result + fun.body.params), differentiates, stats)
    ctx.function, ctx.eager = fun.name, True
    ctx.ranges.sizes.update(fun.body.params[: fun.num_sizes])
    if fun.entry is not None:
        ctx.ranges.stored.update(n for p in fun.body.params for n in shape_of(p.type) if type(n) is Var)
    body = apply_to(strategy, fun.body, ctx)
    if body is fun.body:
        return fun
    return Fun(fun.name, body, fun.num_sizes, fun.ret, fun.entry, fun.attrs, fun.span)


def simplify_by(enter: Strategy, leave: Strategy, program: Program, stats: Stats | None) -> Program:
    """The program simplified by other rules than the simplifier's.  Raises UsageError if that does not end."""
    with fuelled(sum(1 for f in program.funs.values() for _ in ir.statements(f.body.stms))):
        return simplify(program, Stats() if stats is None else stats, Schedule(_burning(enter), _burning(leave)))


def _burning(s: Strategy) -> Strategy:
    """The strategy, each application of which takes fuel of the run, as the simplifier repeats it."""

    def go(stm: ir.Stm, ctx: Context) -> list[ir.Stm] | None:
        out = s.apply(stm, ctx)
        if out is not None:
            with fuelled(1) as fuel:
                fuel.burn(f"repeat({s.text})")
        return out

    return Strategy(s.text, go, (s,))


__all__ = ["apply_strategy", "simplify_by"]
