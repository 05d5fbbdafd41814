"""Minimum cuts are those of networkx."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from futad.optimise.remat.mincut import INFINITE, Graph

EDGE = st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from([0, 1, 2, 3, 7, INFINITE]))


@settings(max_examples=300, deadline=None)
@given(st.lists(EDGE, max_size=30))
def test_minimum_cuts(edges: list[tuple[int, int, int]]) -> None:
    edges = [(a, b, c) for a, b, c in edges if a != b]
    graph: Graph[int] = Graph()
    peer = nx.DiGraph()
    peer.add_nodes_from(range(8))
    for a, b, c in edges:
        graph.edge(a, b, c)
        peer.add_edge(a, b, capacity=c + (peer[a][b]["capacity"] if peer.has_edge(a, b) else 0))
    expected, _ = nx.minimum_cut(peer, 0, 7)
    price, side = graph.side(0, 7)
    assert price == expected or min(price, expected) >= INFINITE
    if price < INFINITE:
        assert 0 in side and 7 not in side
        assert sum(c for a, b, c in edges if a in side and b not in side) == price
