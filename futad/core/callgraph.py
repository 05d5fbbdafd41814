"""Functions that call themselves, perhaps by way of others: the strongly connected components of the call graph."""

from __future__ import annotations

from futad.core.calls import calls
from futad.core.ir import Program


def recursive(program: Program) -> frozenset[str]:
    """The functions that are on a cycle of the call graph."""
    return frozenset([name for group in components(program) if group.cyclic for name in group])


class Component(tuple[str, ...]):
    """Functions that all call each other, in the order of definition; or one that is on no cycle."""

    cyclic: bool = False


def components(program: Program) -> list[Component]:
    """The functions in groups, callees before those that call them."""
    called = {name: [n for n in calls(f.body) if n in program.funs] for name, f in program.funs.items()}
    seen: set[str] = set()
    for name, names in called.items():
        if not seen.issuperset(names):
            return _components(program, called)
        seen.add(name)
    return [Component((name,)) for name in program.funs]


def _components(program: Program, called: dict[str, list[str]]) -> list[Component]:
    import networkx as nx  # which takes longer to import than most programs to compile

    graph = nx.DiGraph(called)
    order = {name: k for k, name in enumerate(program.funs)}
    condensed = nx.condensation(graph)
    out: list[Component] = []
    for k in reversed(list(nx.lexicographical_topological_sort(condensed))):
        members = sorted(condensed.nodes[k]["members"], key=order.__getitem__)
        group = Component(members)
        group.cyclic = len(members) > 1 or members[0] in called[members[0]]
        out.append(group)
    return out


__all__ = ["Component", "components", "recursive"]
