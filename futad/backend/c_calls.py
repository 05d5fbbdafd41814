"""Calls first: in a vector loop calls of functions come before what they do not need.

    a = x[i]; p = f(a); b = y[i]; t = b * p; q = g(a); z[i] = t + q
      -->   a = x[i]; p = f(a); q = g(a); b = y[i]; t = b * p; z[i] = t + q

A call takes all vector registers, so that what is there before it and needed after it goes to memory and back; C
compilers leave calls in their order.  Side by side, too, a processor computes independent calls at once, where
otherwise what waits for the first one keeps it from reaching the second.  What moves are declarations past others, of
which none is assigned between: this is always right.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core.scalarops import OPS
from futad.fires import Transformation
from futad.imp import ir
from futad.imp.walk import parts, refs

CALLS_FIRST = Transformation("calls-first", "calls in a vector loop come before what they do not need")
DEAR = 15  # cost of an operation that is a call
MOST = 8  # calls; the results of more would wait in memory for long


def calls_first(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """The statements, in each run of declarations those first that calls need; the same list if they are."""
    out: list[ir.Stmt] = []
    run: list[ir.Decl] = []
    for s in body:
        if isinstance(s, ir.Decl) and not s.mutable and s.init is not None:
            run.append(s)
        else:
            out += [*_ordered(run), s]
            run = []
    out += _ordered(run)
    if all(a is b for a, b in zip(out, body, strict=True)):
        return body
    CALLS_FIRST.fired()
    return out


def _ordered(run: Sequence[ir.Decl]) -> list[ir.Decl]:
    calls = [s for s in run if any(isinstance(x, ir.Scalar) and OPS[x.op].cost >= DEAR for x in parts(s))]
    if not 0 < len(calls) <= MOST:
        return [*run]
    needed = {s.name for s in calls}
    for s in reversed(run):
        if s.name in needed:
            needed |= refs(s)
    return [*[s for s in run if s.name in needed], *[s for s in run if s.name not in needed]]


__all__ = ["calls_first"]
