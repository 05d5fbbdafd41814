"""Indices by how they move with a loop's variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from futad.imp import ir
from futad.imp.ir import ZERO, Expr, Num, Ref, add, mul, num
from futad.imp.walk import has_load, refs


class Affine(NamedTuple):
    """scale * (the loop's variable) + constant + invariant"""

    scale: int
    constant: int
    invariant: Expr = ZERO


def inits_of(body: Iterable[ir.Stmt]) -> dict[str, Expr | None]:
    """The values of the variables that statements declare, None for those that change."""
    return {s.name: None if s.mutable else s.init for s in body if isinstance(s, ir.Decl)}


def affine(e: Expr, var: str, inits: Mapping[str, Expr | None]) -> Affine | None:
    """The index by how it moves with `var`, None if it does otherwise; `inits`: the values of what the loop's body
    declares, None where it is not known or changes."""
    match e:
        case Num(value):
            return Affine(0, int(value))
        case Ref(name) if name == var:
            return Affine(1, 0)
        case Ref(name) if (init := inits.get(name)) is not None:
            return affine(init, var, inits)
        case ir.Bin("+" | "*" as op, a, b):
            x, y = affine(a, var, inits), affine(b, var, inits)
            if x is None or y is None:
                return None
            if op == "+":
                return Affine(x.scale + y.scale, x.constant + y.constant, add(x.invariant, y.invariant))
            for factor, term in ((y, x), (x, y)):
                if not factor.scale and factor.invariant == ZERO:
                    k = factor.constant
                    return Affine(term.scale * k, term.constant * k, mul(term.invariant, num(k)))
    return None if refs(e) & {var, *inits} or has_load(e) else Affine(0, 0, e)


__all__ = ["Affine", "affine", "inits_of"]
