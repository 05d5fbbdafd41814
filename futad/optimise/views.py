"""Views of invariant arrays move out of maps and loops.

    map (\\x -> let t = rearrange a (1, 0) in f t x) xs   -->   let t = rearrange a (1, 0) in map (\\x -> f t x) xs

A view costs nothing, wherever it stands.  But inside a map the adjoint of `t` would be an array of its own in every
iteration, added to that of `a` as a whole; outside, the map's contributions go to the elements of one accumulator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from futad.core import ir
from futad.core.alias import Aliases, aliases
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import Prim, Var, shape_of
from futad.legality import Legality
from futad.rewrite.ranges import Ranges

LEGAL = Legality("views", "views of arrays from outside move out of maps and loops")
CONSTANT = LEGAL.condition("not overwritten", "an array that an iteration overwrites is to be new in each")
INVARIANT = LEGAL.condition("invariant", "outside there is no value yet of what it depends on")
SIZES = LEGAL.condition("sizes known", "before a loop that is not run an array of negative size is an error")
AS_MANY = LEGAL.condition("as many elements", "what has another shape is there before the check of the sizes")

Repeated = TypeVar("Repeated", bound=ir.Exp)


def hoist_views(program: Program) -> Program:
    """Move views, index arrays and products of sizes out of every map and loop that they do not depend on."""
    return ir.map_bodies(program, lambda lam: _scope(lam, Ranges({})))


def _scope(lam: Lambda, ranges: Ranges) -> Lambda:
    if not lam.has(ir.Map, ir.For):
        return lam
    mark = ranges.mark()
    _declare(ranges, lam.params)
    out: list[Stm] = []
    for s in lam.stms:
        s = ir.map_scopes(s, lambda inner: _scope(inner, ranges))
        if type(s.exp) is ir.Map or type(s.exp) is ir.For:
            before, exp = invariant_views(s.exp, ranges)
            for x in before:
                _define(ranges, x)
            if before:
                out += before
                s = Stm(s.pat, exp, s.attrs)
        _define(ranges, s)
        out.append(s)
    ranges.release(mark)
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def _declare(ranges: Ranges, variables: Iterable[Var]) -> None:
    for v in variables:
        for n in shape_of(v.type):
            if type(n) is Var:
                ranges.size(n)


def _define(ranges: Ranges, s: Stm) -> None:
    _declare(ranges, s.pat)
    if len(s.pat) == 1:
        ranges.defs[s.pat[0]] = s.exp


def invariant_views(e: Repeated, known: Ranges | None = None) -> tuple[list[Stm], Repeated]:
    """The statements of a map's or loop's body that can go before it, and the map or loop without them.

    `known`: about integers before it; those that are sizes of arrays it reads are known anyway.
    """
    (lam,) = e.lambdas()
    if not any(map(_is_free, lam.stms)):
        return [], e
    known = known or Ranges({})
    mark = known.mark()
    _declare(known, ir.stm_free(Stm((), e)))
    out, rest = _parted(lam, e, known)
    known.release(mark)
    if not out:
        return [], e
    LEGAL.fired()
    return out, e.rebuild(lambda a: a, lambda _: Lambda(lam.params, tuple(rest), lam.result))


def _parted(lam: Lambda, e: ir.Exp, known: Ranges) -> tuple[list[Stm], list[Stm]]:
    """The statements of the body that can go before the construct, and those that stay."""
    own: set[Var] = set(lam.params)
    for s in lam.stms:
        own.update(s.pat)
    out: list[Stm] = []
    rest: list[Stm] = []
    alias: Aliases | None = None

    def constant(s: Stm) -> bool:
        """Whether no iteration overwrites what the statement makes: else it has to be made anew in each."""
        nonlocal alias
        if type(s.exp) is ir.Op:
            return True
        alias = alias or aliases(Lambda((), (Stm((), e),), ()))
        return not alias.mutable(s.pat[0])

    for s in lam.stms:
        if (
            _is_free(s)
            and INVARIANT(not any(v in own for v in ir.stm_free(s) if v not in s.pat))
            and CONSTANT(constant(s))
            and SIZES(all(known.nonneg(n) for v in s.pat for n in shape_of(v.type)))
            and (type(s.exp) is not ir.Reshape or AS_MANY(known.as_many(shape_of(s.exp.array.type), s.exp.shape)))
        ):
            out.append(s)
            _define(known, s)
            own.difference_update(s.pat)
        else:
            rest.append(s)
    return out, rest


def _is_free(s: Stm) -> bool:
    """Whether the statement costs nothing and cannot fail: a view, an index array, a product of sizes."""
    e = s.exp
    if type(e) is ir.Op:
        t = s.pat[0].type
        return e.op == "mul" and isinstance(t, Prim) and t.is_integral
    return bool(e.views()) and not e.fails or type(e) is ir.Iota


__all__ = ["hoist_views", "invariant_views"]
