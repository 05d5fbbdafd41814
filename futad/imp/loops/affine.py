"""Indices by how they move with a loop's variable."""

from __future__ import annotations

from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref, add, mul, num

Affine = tuple[int, int, Expr]
"""scale * (the loop's variable) + constant + invariant"""


def affine(e: Expr, var: str, inits: dict[str, Expr | None]) -> Affine | None:
    """The index by how it moves with `var`, None if it does otherwise; `inits`: variables of the loop's body."""
    match e:
        case Num(value):
            return 0, int(value), ir.ZERO
        case Ref(name) if name == var:
            return 1, 0, ir.ZERO
        case Ref(name):
            init = inits.get(name)
            if name not in inits:
                return 0, 0, e
            return affine(init, var, inits) if init is not None else None
        case ir.Bin("+", a, b):
            left, right = affine(a, var, inits), affine(b, var, inits)
            if left is None or right is None:
                return None
            return left[0] + right[0], left[1] + right[1], add(left[2], right[2])
        case ir.Bin("*", a, Num(k)):
            inner = affine(a, var, inits)
            return None if inner is None else (inner[0] * k, inner[1] * k, mul(inner[2], num(int(k))))
    return None
