"""`#[stripmine(k)]`: a loop as a nest of k + 1 loops, before reverse mode saves the loop variables of each.

A loop of n turns becomes an outer one of m turns around inner ones of about n / m, with m the (k+1)-th root
of n, and so on k times.  Every level saves its own loop variables when the level around it re-executes it: the
body runs k + 2 times, and about (k + 1) m values of a loop variable are alive at once instead of n.
Source: Schenck et al., SC 2022, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import F64, I64, ONE, ZERO, Atom, Const, Prim, Var, shape_of
from futad.errors import UnsupportedError


def depth_of(stm: ir.Stm) -> int:
    """The k of the statement's stripmine attribute, 0 if it has none."""
    for a in stm.attrs:
        if isinstance(a, tuple) and a[0] == "stripmine":
            if len(a) != 2 or not str(a[1]).isdigit():
                raise UnsupportedError("the attribute stripmine takes one number: how many times to split the loop")
            return int(a[1])
    return 0


def stripmine(stm: ir.Stm) -> list[ir.Stm]:
    """The loop as a nest (itself if it has no such attribute, or arrays whose sizes change from turn to turn)."""
    e = stm.exp
    k = depth_of(stm)
    if k == 0 or not isinstance(e, ir.For) or any(n in e.body.params for p in e.body.params for n in shape_of(p.type)):
        return [stm]
    b = Builder()
    turns = b.op("max", b.convert(I64, e.bound), ZERO, hint="turns")
    results = _nest(b, k, turns, ZERO, e, e.inits)
    *before, last = b.stms
    assert tuple(last.pat) == tuple(results)
    return [*before, ir.Stm(stm.pat, last.exp, tuple([a for a in stm.attrs if a[0] != "stripmine"]))]


def _root(b: Builder, n: Atom, k: int) -> Atom:
    """About the (k+1)-th root of n, at least 1."""
    power = b.op("pow", b.convert(F64, n), Const(F64, 1 / (k + 1)))
    return b.op("max", b.convert(I64, b.op("ceil", power)), ONE, hint="m")


def _nest(b: Builder, k: int, turns: Atom, start: Atom, e: ir.For, state: Sequence[Atom]) -> tuple[Var, ...]:
    """Emit turns start .. start + turns of the loop `e`, split k times."""
    types = [x.type for x in e.body.params[1:]]
    names = [x.name for x in e.body.params[1:]]
    m = turns if k == 0 else _root(b, turns, k)
    share = b.op("div", turns, m) if k else ONE
    extra = b.op("mod", turns, m) if k else ZERO

    def turn(c: Builder, j: Var, *now: Var) -> Sequence[Atom]:
        if k == 0:
            i = c.op("add", start, j)
            index = e.body.params[0].type
            assert isinstance(index, Prim)
            return c.inline(e.body, [c.convert(index, i), *now])
        # The first `extra` inner loops take one turn more.
        more = c.convert(I64, c.op("lt", j, extra))
        first = c.op("add", c.op("mul", j, share), c.op("min", j, extra))
        return _nest(c, k - 1, c.op("add", share, more), c.op("add", start, first), e, now)

    body = b.lambda_([("j", I64), *zip(names, types, strict=True)], turn)
    return b.emit(ir.For(m, tuple(state), body), *names, types=types)
