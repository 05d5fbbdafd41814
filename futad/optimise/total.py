"""Statements that may move past others, as nobody sees when they are executed."""

from __future__ import annotations

from futad.core import ir
from futad.core.ir import Stm
from futad.core.operator import divisor


def total(s: Stm) -> bool:
    """Whether the statement cannot fail, and does nothing but compute what it binds."""
    e = s.exp
    if isinstance(e, ir.Op):
        return divisor(e) is None
    if isinstance(e, (ir.At, ir.Update)):
        return e.check is None
    return e.pure and not e.fails and not e.effect and all(total(x) for lam in e.lambdas() for x in lam.stms)


__all__ = ["total"]
