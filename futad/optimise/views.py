"""Views of invariant arrays move out of maps and loops.

    map (\\x -> let t = rearrange a (1, 0) in f t x) xs   -->   let t = rearrange a (1, 0) in map (\\x -> f t x) xs

A view costs nothing, wherever it stands.  But inside a map the adjoint of `t` would be an array of its own in every
iteration, added to that of `a` as a whole; outside, the map's contributions go to the elements of one accumulator.
"""

from __future__ import annotations

from typing import TypeVar

from futad.core import ir
from futad.core.alias import Aliases, aliases
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import Prim, Var
from futad.legality import Legality

LEGAL = Legality("views", "views of arrays from outside move out of maps and loops")
CONSTANT = LEGAL.condition("not overwritten", "an array that an iteration overwrites is to be new in each")
INVARIANT = LEGAL.condition("invariant", "outside there is no value yet of what it depends on")

Repeated = TypeVar("Repeated", bound=ir.Exp)


def hoist_views(program: Program) -> Program:
    """Move views, index arrays and products of sizes out of every map and loop that they do not depend on."""
    return ir.map_bodies(program, _scope)


def _scope(lam: Lambda) -> Lambda:
    out: list[Stm] = []
    for s in lam.stms:
        s = ir.map_scopes(s, _scope)
        if type(s.exp) is ir.Map or type(s.exp) is ir.For:
            before, exp = invariant_views(s.exp)
            if before:
                out += before
                s = Stm(s.pat, exp, s.attrs)
        out.append(s)
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def invariant_views(e: Repeated) -> tuple[list[Stm], Repeated]:
    """The statements of a map's or loop's body that can go before it, and the map or loop without them."""
    (lam,) = e.lambdas()
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
        ):
            out.append(s)
            own.difference_update(s.pat)
        else:
            rest.append(s)
    if not out:
        return [], e
    LEGAL.fired()
    return out, e.rebuild(lambda a: a, lambda _: Lambda(lam.params, tuple(rest), lam.result))


def _is_free(s: Stm) -> bool:
    """Whether the statement costs nothing and cannot fail: a view, an index array, a product of sizes."""
    e = s.exp
    if type(e) is ir.Op:
        t = s.pat[0].type
        return e.op == "mul" and isinstance(t, Prim) and t.is_integral
    return bool(e.views()) and not e.fails or type(e) is ir.Iota


__all__ = ["hoist_views", "invariant_views"]
