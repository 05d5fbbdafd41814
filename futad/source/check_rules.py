"""The table of inference rules, and the types they mention most."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from futad.core.types import BOOL, I64, PRIMS
from futad.registry import registering
from futad.source import ast as A
from futad.source.types import TPrim

if TYPE_CHECKING:
    from futad.source.check import Checker

Infer = Callable[["Checker", Any], A.Expr]
INFER: dict[type, Infer] = {}
infers = registering(INFER)

T_BOOL = TPrim(BOOL)
T_I64 = TPrim(I64)
T_U8 = TPrim(PRIMS["u8"])
