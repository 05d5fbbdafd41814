"""Neutral elements of the operations that reduce scalars."""

from __future__ import annotations

import numpy as np

from futad.core.types import Prim
from futad.imp.ir import Num


def unit_of(op: str, t: Prim) -> Num:
    """The neutral element of a reduction."""
    if op in ("min", "max"):
        if t.is_float:
            return Num(float("inf") if op == "min" else float("-inf"), t)
        if t.is_bool:
            return Num(op == "min", t)
        info = np.iinfo(t.dtype)
        return Num(int(info.max if op == "min" else info.min), t)
    if t.is_float:
        return Num(1.0 if op == "mul" else 0.0, t)
    if t.is_bool:
        return Num(op in ("and", "mul"), t)
    signed = np.iinfo(t.dtype).min < 0
    ones = -1 if signed else int(np.iinfo(t.dtype).max)
    return Num({"mul": 1, "and": ones}.get(op, 0), t)
