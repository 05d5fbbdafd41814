"""What folds by scalar operations start from."""

from __future__ import annotations

from futad.core.scalarops import OPS
from futad.core.types import Prim
from futad.imp.ir import Num


def unit_of(op: str, t: Prim) -> Num:
    """The neutral element of a reduction by an operation."""
    return Num(OPS[op].neutral(t), t)


__all__ = ["unit_of"]
