"""`#[stripmine(k)]`: a loop as a nest of k + 1 loops, before reverse mode saves the loop variables of each.

A loop of n iterations becomes an outer one of m iterations around inner ones of about n / m, with m the (k+1)-th root
of n, and so on k times.  Every level saves its own loop variables when the level around it re-executes it: the
body runs k + 2 times, and about (k + 1) m values of a loop variable are alive at once instead of n.
Source: Schenck et al., SC 2022, section 4.3.

Note [While loops in nests]
A while loop with a bound is a for loop of that many iterations which does nothing once the condition is false; a block
of iterations is left out as a whole.  One without a bound is run once to count its iterations.

Note [Arrays of changing size]
The first run of the nest counts the elements that its outermost loop is to save.  The second saves them, and counts
for each of its iterations what the loop inside is to save, and so on (`loop.py`): the body runs k + 3 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.ad.emit import fresh_like
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import F64, I64, ONE, ZERO, Atom, Const, Prim, Var, i64, shape_of
from futad.errors import UnsupportedError

NEST = "nest"  # the attribute of the loops made inside of one


def _number(attrs: Sequence[Any], name: str, what: str) -> int | None:
    """The argument of the attribute, None without it."""
    for a in attrs:
        if isinstance(a, tuple) and a[0] == name:
            if len(a) != 2 or not str(a[1]).isdigit():
                raise UnsupportedError(f"the attribute {name} takes one number: {what}")
            return int(a[1])
    return None


def bound_of(stm: ir.Stm) -> int | None:
    """The number of the statement's bound attribute."""
    return _number(stm.attrs, "bound", "how many iterations the loop takes at most")


def within(cond: Atom, limit: int) -> ir.Stm:
    """The check that a loop keeps its bound."""
    return ir.Stm((), ir.Assert(cond, "the loop runs more iterations than its bound of {}", (i64(limit),), None))


def stripmine(stm: ir.Stm) -> list[ir.Stm]:
    """The loop as a nest, the last but for checks of the statements returned (itself without such an attribute)."""
    k = _number(stm.attrs, "stripmine", "how many times to split the loop") or 0
    e = stm.exp
    if k == 0 or not isinstance(e, ir.For | ir.While):
        return [stm]
    attrs = tuple([a for a in stm.attrs if a[0] not in ("stripmine", "bound")])
    b = Builder()
    limit = bound_of(stm)
    if isinstance(e, ir.For):
        iterations: Atom = b.op("max", b.convert(I64, e.bound), ZERO, hint="iterations")
    else:
        iterations = _counted(b, e) if limit is None else i64(limit)
        e = _bounded(e, iterations, limit is not None)
    nest = _StripMined(e, isinstance(stm.exp, ir.While) and limit is not None)
    nest.loops(b, k, iterations, ZERO, e.inits, ())
    *before, last = b.stms
    out = [*before, ir.Stm(stm.pat, last.exp, attrs)]
    if isinstance(stm.exp, ir.While) and limit is not None:
        check = Builder()
        check.add(within(check.op("not", stm.pat[0]), limit))
        out += check.stms
    return out


def _counted(b: Builder, e: ir.While) -> Var:
    """Emit the loop to count its iterations."""
    iteration = Var("iteration", I64)
    inner = Builder()
    body = ir.rename(e.body)
    inner.extend(body.stms)
    step = inner.op("add", iteration, ONE)
    pat = fresh_like(e.body.params)
    count = Var("iterations", I64)
    exp = ir.While((*e.inits, ZERO), ir.Lambda((*body.params, iteration), tuple(inner.stms), (*body.result, step)))
    b.add(ir.Stm((*pat, count), exp))
    return count


def _bounded(e: ir.While, iterations: Atom, idle: bool) -> ir.For:
    """The while loop as a for loop; with `idle` its condition may become false before the end."""
    index = Var("i", I64)
    if not idle:
        return ir.For(iterations, e.inits, ir.Lambda((index, *e.body.params), e.body.stms, e.body.result))
    return ir.For(iterations, e.inits, _while_going((index, *e.body.params), e.body.params, e.body))


def _while_going(params: Sequence[Var], state: Sequence[Var], then: ir.Lambda) -> ir.Lambda:
    """A loop's body that runs `then` while the first variable of the state is true."""
    then = ir.Lambda((), then.stms, then.result)
    pat = fresh_like(state)
    stay = ir.Lambda((), (), tuple(state))
    return ir.Lambda(tuple(params), (ir.Stm(pat, ir.If(state[0], then, stay)),), pat)


class _StripMined:
    """Splits one loop; with `skips`, blocks of iterations are left out when its first variable is false."""

    def __init__(self, e: ir.For, skips: bool) -> None:
        self.e = e
        own = e.variables
        # In a branch, a loop inside is not seen by the one around it that counts for it.
        self.skips = skips and not any(n in own for p in own for n in shape_of(p.type))

    def loops(
        self, b: Builder, k: int, iterations: Atom, start: Atom, state: Sequence[Atom], attrs: tuple[Any, ...]
    ) -> tuple[Var, ...]:
        """Emit iterations start .. start + iterations of the loop, split k times."""
        own = self.e.variables
        m = iterations if k == 0 else _root(b, iterations, k)
        share = b.op("div", iterations, m) if k else ONE
        extra = b.op("mod", iterations, m) if k else ZERO
        j, now = Var("j", I64), fresh_like(own)
        c = Builder()
        result: Sequence[Atom]
        if k == 0:
            i = c.op("add", start, j)
            index = self.e.body.params[0].type
            assert isinstance(index, Prim)
            result = c.inline(self.e.body, [c.convert(index, i), *now])
            body = ir.Lambda((j, *now), tuple(c.stms), tuple(result))
        else:
            # The first `extra` inner loops take one iteration more.
            more = c.convert(I64, c.op("lt", j, extra))
            first = c.op("add", c.op("mul", j, share), c.op("min", j, extra))
            result = self.loops(c, k - 1, c.op("add", share, more), c.op("add", start, first), now, ((NEST,),))
            body = ir.Lambda((j, *now), tuple(c.stms), tuple(result))
            if self.skips:
                body = _while_going(body.params, now, body)
        pat = fresh_like(own)
        b.add(ir.Stm(pat, ir.For(m, tuple(state), body), attrs))
        return pat


def _root(b: Builder, n: Atom, k: int) -> Atom:
    """About the (k+1)-th root of n, at least 1."""
    power = b.op("pow", b.convert(F64, n), Const(F64, 1 / (k + 1)))
    return b.op("max", b.convert(I64, b.op("ceil", power)), ONE, hint="m")
