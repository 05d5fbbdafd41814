"""`invert f y`: f's body solved for its arguments.

    let x = invert(\\x -> { let r = x * 3 + c in r }, y)      -->      let x = (y - c) * 3^-1

What is right for an iteration that is undone is right here: the rows of the solver are shared (`rows.py`, `nests.py`).
Two things differ.  Nothing has run forwards, so that no condition or count can be kept: one that the results do not
tell is an error.  And y may be a value that f does not give.  Where each statement of f has been solved for once, in
one direction, x = f^-1 y satisfies them all, and f x = y (`determined.py`).  Elsewhere f runs again at x, and what it
gives is compared with y.
"""

from __future__ import annotations

import math
from collections import ChainMap
from dataclasses import replace

import futad.ad.inverse.affine
import futad.ad.inverse.nests
import futad.ad.inverse.places
import futad.ad.inverse.rows  # noqa: F401  (fill the tables)
from futad.ad.emit import coerce
from futad.ad.inverse.determined import determined
from futad.ad.inverse.lost import not_inverted
from futad.ad.inverse.returned import ALLOWED, flat, most
from futad.ad.inverse.solver import Solver, bound_in
from futad.ad.tidy.live import live
from futad.ad.tidy.protect import protect
from futad.core import ir
from futad.core.budget import PLACE
from futad.core.builder import Builder
from futad.core.types import I64, ZERO, ArrayType, Atom, Const, Var, elem_of
from futad.errors import Span
from futad.legality import Legality

LEGAL = Legality(
    "invert",
    "the argument of a function is computed of its result",
    worth="none: programs ask for it, where `invert f` stands",
)
GIVEN = LEGAL.condition("the function gives that", "what the function never gives gets an argument all the same")

NOT_GIVEN = "the function that is inverted does not give this value"


def expand_inverses(program: ir.Program) -> ir.Program:
    """The program without `Invert`; the same one if it has none.

    Raises UnsupportedError, with the place, for a function that cannot be inverted: it names the variable that is lost,
    and the statement that loses it.
    """
    return ir.map_bodies(program, lambda body: _scope(body, ChainMap()))


def _scope(lam: ir.Lambda, outer: ChainMap[Var, ir.Stm]) -> ir.Lambda:
    """`outer`: what makes the variables of the scopes around it."""
    if not lam.has(ir.Invert):
        return lam
    out: list[ir.Stm] = []
    made = outer.new_child()
    for s in lam.stms:
        if isinstance(s.exp, ir.Invert):
            # The outer one first: it takes inverses inside back by the functions that they are of.
            inner = _scope(ir.Lambda((), *_inverse(s.exp, dict(s.attrs).get(PLACE), made)), made)
            out += inner.stms
            out += [ir.Stm((v,), ir.Alias(a)) for v, a in zip(s.pat, inner.result, strict=True)]
        else:
            out.append(ir.map_scopes(s, lambda inner: _scope(inner, made)))
            made.update(dict.fromkeys(s.pat, s))
    return ir.Lambda(lam.params, tuple(out), lam.result)


def _inverse(
    e: ir.Invert, place: Span | None, outer: ChainMap[Var, ir.Stm]
) -> tuple[tuple[ir.Stm, ...], ir.Atoms]:
    """The statements that compute the arguments, and these."""
    lam, b = e.lam, Builder()
    given = [b.let(ir.Copy(y), "res") if isinstance(y.type, ArrayType) else y for y in e.args]
    s = Solver(lam.stms, bound_in(lam), set(lam.params), {}, b, rounding=True, outer=outer)
    for r, y in zip(lam.result, given, strict=True):
        s.learn(r, y)
    s.run()
    gone = [k for k, p in enumerate(lam.params) if p not in s.known]
    if gone:
        raise not_inverted(s, lam, gone, place)
    LEGAL.fired()
    results: list[Atom] = [s.known[p] for p in lam.params]
    if e.check is not None and not GIVEN(determined(s, lam)):
        again = b.inline(lam, [coerce(b, x, p.type) for x, p in zip(results, lam.params, strict=True)])
        for y, now in zip(e.args, again, strict=True):
            _compare(b, y, coerce(b, now, y.type), e.check)
    if e.check is not None:
        b.stms[:] = [_checked(stm, e.check) for stm in b.stms]
    return tuple(protect(live(b.stms, results)[0], results)), tuple(results)


def _checked(s: ir.Stm, place: Span) -> ir.Stm:
    """The statement with a check of all indices: that they were in range where f was applied says nothing of a value
    that f does not give."""
    e = s.exp
    if isinstance(e, ir.At | ir.Update) and e.check is None:
        return ir.Stm(s.pat, replace(e, check=place), s.attrs)

    def scope(lam: ir.Lambda) -> ir.Lambda:
        return ir.Lambda(lam.params, tuple([_checked(x, place) for x in lam.stms]), lam.result)

    return ir.map_scopes(s, scope)


def _compare(b: Builder, y: Atom, now: Atom, place: Span) -> None:
    """Emit the check that `now` is `y`, floats as far as round-off allows."""
    t = elem_of(y.type)
    x, z = flat(b, y), flat(b, now)
    if not t.is_float:
        differ = most(b, lambda c, u, v: c.op("to_i64", c.op("ne", u, v)), I64, x, z)
        b.add(ir.Stm((), ir.Assert(b.op("eq", differ, ZERO), NOT_GIVEN, (), place)))
        return

    def deviation(c: Builder, u: Atom, v: Atom) -> Atom:
        d = c.op("abs", c.op("sub", v, u))
        d = c.op("select", c.op("isnan", d), Const(t, math.inf), d)
        return c.op("select", c.op("eq", u, v), Const(t, 0.0), d)

    off = most(b, deviation, t, x, z)
    limit = b.op("add", Const(t, 1), most(b, lambda c, u: c.op("abs", u), t, x))
    limit = b.op("mul", Const(t, ALLOWED[t]), limit)
    ok = b.op("and", b.op("le", off, limit), b.op("lt", off, Const(t, math.inf)))
    message = f"{NOT_GIVEN}: it comes to within {{}} of it, where {{}} is allowed"
    b.add(ir.Stm((), ir.Assert(ok, message, (off, limit), place)))


__all__ = ["expand_inverses"]
