"""Where a program is nested too deeply to be compiled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from futad.errors import Span
from futad.source import ast as A
from futad.source import modast as M

DEEP = 1000  # levels; a program of fewer is too deep by the functions that call each other
_NODES = (A.__name__, M.__name__)


def deepest(files: Iterable[A.File]) -> Span | None:
    """The declaration whose text is nested most deeply, if any is deep."""
    found = [(_depth(d), d.span) for file in files for d in file.decls]
    depth, span = max(found, key=lambda f: f[0], default=(0, None))
    return span if depth >= DEEP else None


def _depth(root: Any) -> int:
    """How many nodes of a syntax tree lie inside each other.  It does not recurse."""
    depth, here = 0, [root]
    seen = {id(root)}
    while here:
        depth += 1
        inside = [part for node in here for part in _parts(node) if id(part) not in seen]
        seen.update(map(id, inside))
        here = inside
    return depth


def _parts(node: Any) -> list[Any]:
    """The nodes right inside a node."""
    out: list[Any] = []
    values = [getattr(node, name, None) for name in getattr(type(node), "__dataclass_fields__", ())]
    while values:
        value = values.pop()
        if isinstance(value, list | tuple):
            values.extend(value)
        elif type(value).__module__ in _NODES:
            out.append(value)
    return out


__all__ = ["deepest"]
