"""Powers with small constant exponents: products and square roots."""

from __future__ import annotations

import math
from typing import Any

from futad.core import ir
from futad.core.ir import Stm
from futad.core.types import BOOL, F16, Atom, Const, one, prim_of
from futad.rewrite.context import Context
from futad.rewrite.rules.arrays import Emit
from futad.rewrite.strategy import Result, op_rule

MOST = 8  # the exponent of products, which a round-off each stays within the 4 units of vector libraries for `pow`
ROOTS = (0.5, 1.5, 2.5, 3.5, -1.5, -3.5)  # not -0.5, -2.5: the root of -0.0 is -0.0, and so is the product then


@op_rule("pow", changes=("zeros", "rounding"), constant=True)
def power(stm: Stm, ctx: Context) -> Result:
    """`x ** 3` -> `x * x * x`, `x ** -2` -> `(1 / x) * (1 / x)`, `x ** 0.5` -> `sqrt x`,
    `x ** 1.5` -> `select (x == -inf) inf (x * sqrt x)`.

    Factors overflow or vanish only where the power does, and a root of numbers below zero is NaN, as the power is, but
    for -inf (to the power of 0.5 NaN, too, as NumPy has it).  Only after differentiation: a power has a simpler
    derivative, which at 0 is right for roots, too.
    """
    e: Any = stm.exp
    x, y = e.args
    t = prim_of(x)
    if ctx.differentiates or type(y) is not Const or t is F16 or not math.isfinite(y.value) or y.value == 2:
        return None
    k = abs(y.value)
    root = t.is_float and y.value in ROOTS
    if not root and not (k == int(k) and 1 <= k <= MOST and (y.value > 1 or t.is_float)):
        return None
    b = Emit()
    inverse = y.value < 0
    base = b.op("div", one(t), x, hint="inverse") if inverse and not root else x
    made = _product(b, base, int(k))
    if root:
        s = b.op("sqrt", x, hint="root")
        if made is None:
            return [*b.stms, Stm(stm.pat, ir.Alias(s))]
        below = b.let(ir.Op("eq", (x, Const(t, -math.inf))), BOOL, "below")
        made = b.let(ir.Op("select", (below, Const(t, math.inf), b.op("mul", made, s))), t, "power")
        made = b.op("div", one(t), made, hint="inverse") if inverse else made
    assert made is not None
    return [*b.stms, Stm(stm.pat, ir.Alias(made))]


def _product(b: Emit, x: Atom, k: int) -> Atom | None:
    """x to the power of k by squaring; None for 0."""
    if k == 0:
        return None
    half = _product(b, x, k // 2)
    even = None if half is None else b.op("mul", half, half, hint="square")
    if k % 2 == 0:
        return even
    return x if even is None else b.op("mul", even, x, hint="power")


POWER_ENTER = (power,)

__all__ = ["POWER_ENTER"]
