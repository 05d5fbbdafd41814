"""Which statements share a box, what values they use, and where in the source they stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx

from futad.core import ir
from futad.core.ir import Exp, Stm
from futad.core.types import Prim, Var
from futad.errors import Span


def is_scalar(s: Stm) -> bool:
    """Whether the statement computes or reads one scalar."""
    e = s.exp
    return isinstance(e, ir.Op | ir.Alias | ir.At) and len(s.pat) == 1 and isinstance(s.pat[0].type, Prim)


def uses(e: Exp) -> list[Var]:
    """The variables that an expression uses as values, its scopes' own left out (sizes in types are no values)."""
    out = dict.fromkeys(a for a in e.operands() if isinstance(a, Var))
    for lam in e.lambdas():
        bound = set(lam.params)
        for s in lam.stms:
            out.update(dict.fromkeys(v for v in uses(s.exp) if v not in bound))
            bound.update(s.pat)
        out.update(dict.fromkeys(a for a in lam.result if isinstance(a, Var) and a not in bound))
    return list(out)


def grouped(stms: Sequence[Stm]) -> list[list[Stm]]:
    """The statements one by one, but for scalar ones that depend on each other directly.

    A scalar's level is the number of other statements on the longest way to it.  Of those on one level none depends on
    another by way of a statement that is no scalar's, so that no group depends on itself by way of others.
    """
    made = {v: s for s in stms for v in s.pat}
    level: dict[Stm, int] = {}
    near = nx.Graph()
    for s in stms:
        needed = [made[v] for v in uses(s.exp) if v in made]
        scalar = is_scalar(s)
        level[s] = max([level[d] + (scalar and not is_scalar(d)) for d in needed], default=0)
        near.add_node(s)
        near.add_edges_from((d, s) for d in needed if scalar and is_scalar(d) and level[d] == level[s])
    order = {s: k for k, s in enumerate(stms)}
    groups = [sorted(c, key=order.__getitem__) for c in nx.connected_components(near)]
    return sorted(groups, key=lambda g: order[g[0]])


def places(s: Stm) -> Iterable[Span]:
    """The places in the source that a statement and those in it know, in order."""
    for inner in ir.statements([s]):
        for name in type(inner.exp).kinds:
            if isinstance(place := getattr(inner.exp, name), Span):
                yield place


__all__ = ["grouped", "is_scalar", "places", "uses"]
