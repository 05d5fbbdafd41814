"""Joining the adjoints of two branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir
from futad.core.types import AccType, Atom, Type

if TYPE_CHECKING:
    from futad.ad.reverse import Scope


def merge_branches(s: Scope, cond: Atom, sides: Sequence[Scope]) -> None:
    """Emit an `If` on `cond` of two finished branch scopes: the adjoints that either changed are its results."""
    changed = list(dict.fromkeys(v for side in sides for v in side.outside()))
    for v in [v for v in changed if isinstance(v.type, AccType)]:
        s.adj[v] = next(side.adj[v] for side in sides if v in side.adj)
    changed = [v for v in changed if not isinstance(v.type, AccType)]
    if not changed:
        return
    before = {v: s.grab(v) for v in changed}
    types: list[Type] = []
    for v in changed:
        now = before[v]
        types.append(v.type if now is None else now.type)
    bodies = []
    for side in sides:
        out: list[Atom] = []
        for v, t in zip(changed, types, strict=True):
            now = side.adj.get(v, before[v])
            out.append(side.b.zeros(t, f"{v.name}_bar") if now is None else now)
        bodies.append(ir.Lambda((), tuple(side.code()), tuple(out)))
    new = s.b.emit(ir.If(cond, *bodies), *[f"{v.name}_bar" for v in changed], types=types)
    for v, x in zip(changed, new, strict=True):
        s.adj[v] = x
