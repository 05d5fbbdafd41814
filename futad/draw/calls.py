"""The calls of a program as a figure: a box for each function, callers above those they call."""

from __future__ import annotations

import networkx as nx

from futad.core.calls import calls
from futad.core.ir import Program, statements
from futad.core.types import I64, Var
from futad.draw.figure import Box, Port


def call_graph(program: Program) -> nx.DiGraph[str]:
    """The functions, with an edge for each that calls another, of weight how often it does."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(program.funs)
    for name, f in program.funs.items():
        graph.add_edges_from((name, callee, {"times": n}) for callee, n in calls(f.body).items())
    return graph


def calls_figure(program: Program) -> Box:
    """The functions of a program; those that no entry reaches are in a paler box."""
    graph = call_graph(program)
    entries = [name for name, f in program.funs.items() if f.entry is not None]
    live = set(entries).union(*[nx.descendants(graph, name) for name in entries])
    ways = {edge: Var("call", I64) for edge in graph.edges}
    whole = Box("function", "calls")
    for name, f in program.funs.items():
        kind = "nest" if f.entry is not None else "data" if name in live else "scalar"
        box = Box(kind, "", [name, f"{sum(1 for _ in statements(f.body.stms))} statements"], binds=[name])
        box.ins = [Port(ways[edge], None) for edge in graph.in_edges(name)]
        box.outs = [
            Port(ways[name, callee], None, f"{data['times']} times" if data["times"] > 1 else "")
            for _, callee, data in graph.out_edges(name, data=True)
        ]
        box.note = name + (f" at {f.span}" if f.span is not None else "")
        whole.inside.append(box)
    return whole


LEGEND = {"nest": "entry", "data": "function", "scalar": "function that no entry calls"}

__all__ = ["LEGEND", "call_graph", "calls_figure"]
