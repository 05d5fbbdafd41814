"""Copies of syntax, for each use of a parametric module: checking writes into the nodes."""

from __future__ import annotations

from typing import Any, TypeVar

from futad.core.types import Prim
from futad.errors import Span
from futad.source.ast import AttrText

T = TypeVar("T")

# What is the same in all copies.
_KEPT = frozenset({Span, Prim, AttrText, str, int, float, bool, bytes, type(None)})


def fresh(node: T) -> T:
    """A copy of a syntax tree; what is one object in two places of the tree is one in the copy."""
    made: dict[int, Any] = {}

    def copy(x: Any) -> Any:
        kind = type(x)
        if kind in _KEPT:
            return x
        if kind is tuple:
            return tuple([copy(y) for y in x])
        known = made.get(id(x))
        if known is not None:
            return known
        if kind is list:
            out: Any = []
            made[id(x)] = out
            out.extend([copy(y) for y in x])
        elif kind is dict:
            out = made[id(x)] = {copy(k): copy(v) for k, v in x.items()}
        else:
            out = made[id(x)] = object.__new__(kind)
            for name in kind.__dataclass_fields__:
                object.__setattr__(out, name, copy(getattr(x, name)))
        return out

    whole: T = copy(node)
    return whole


__all__ = ["fresh"]
