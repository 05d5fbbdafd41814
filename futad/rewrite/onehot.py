"""The pass of one-hot tangents: the simplifier with the rules of `rules/hot.py`, for functions that may have such."""

from __future__ import annotations

from futad.core.alias import stale
from futad.core.ir import Fun, Program
from futad.rewrite.dce import asserting_functions
from futad.rewrite.hot_rows import rows_where_read
from futad.rewrite.may_vanish import may_sum_one_hot
from futad.rewrite.rules.hot import HOT_SUMS
from futad.rewrite.rules.hot_bins import HOT_BINS, HOT_ENTER
from futad.rewrite.rules.shipped import ENTER, LEAVE
from futad.rewrite.simplify import Schedule, simplify_fun
from futad.rewrite.strategy import Rules, Stats

SCHEDULE = Schedule(Rules((*ENTER, *HOT_ENTER)), Rules((*LEAVE, *HOT_SUMS, *HOT_BINS)))


def one_hot_tangents(program: Program, stats: Stats | None = None) -> Program:
    """The program with sums of one-hot values as these values.  Functions that cannot have any are not gone through."""
    before, program = program, rows_where_read(program)
    found = {f.name for f in program.funs.values() if f is not before.funs[f.name] or may_sum_one_hot(f)}
    if not found:
        return program
    asserting, written = asserting_functions(program), stale(program)

    def rewritten(f: Fun) -> Fun:
        return simplify_fun(f, False, asserting, SCHEDULE, stats, written) if f.name in found else f

    funs = {n: rewritten(f) for n, f in program.funs.items()}
    if all(funs[n] is f for n, f in program.funs.items()):
        return program
    return Program(funs, program.name)


__all__ = ["SCHEDULE", "one_hot_tangents"]
