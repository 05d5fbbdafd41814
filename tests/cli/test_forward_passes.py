"""`futad check` tells of gradients by n forward passes that no rule made linear, with their place."""

from __future__ import annotations

import pytest

from futad.cli.forward_passes import forward_passes
from futad.source import compile_text

HEAD = "def hot n (i: i64): [n]f64 = tabulate n (\\j -> if i == j then 1.0 else 0.0)\n"
ENTRY = "entry main [n] (xs: [n]f64) = "


def places(body: str) -> list[int]:
    """The columns, counted from the body's first, of the warnings of an entry."""
    return [w.span.col - len(ENTRY) for w in forward_passes(compile_text(HEAD + ENTRY + body)) if w.span is not None]


@pytest.mark.parametrize(
    ("body", "columns"),
    [
        ("tabulate n (\\i -> jvp f64.product xs (hot n i))", [19]),
        ("tabulate n (\\i -> jvp (\\xs -> f64.sum (map (\\x -> x * x) (scan (+) 0 xs))) xs (hot n i))", [19]),
        ("tabulate n (\\i -> jvp f64.sum xs (hot n i) + jvp f64.product xs (hot n i))", [46]),
        ("jmp f64.product xs (tabulate n (hot n))", [1]),
        ("loop g = replicate n 0 for i < n do g with [i] = jvp f64.maximum xs (hot n i)", [50]),
        ("tabulate n (\\i -> jvp f64.sum xs (hot n i))", []),
        ("jmp f64.sum xs (tabulate n (hot n))", []),
        ("jvp f64.product xs (hot n 0)", []),
        ("tabulate n (\\i -> jvp f64.product xs (map (* f64.i64 i) xs))", []),
        ("tabulate n (\\i -> jvp (map (* xs[0])) xs (hot n i))", []),
        ("vjp f64.product xs 1", []),
    ],
)
def test_warnings(body, columns):
    assert places(body) == columns
