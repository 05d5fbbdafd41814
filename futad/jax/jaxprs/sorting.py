"""Rules of sorts: stable ones of the places of keys, which the other operands follow."""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.builder import Builder, Ex
from futad.core.node import Range
from futad.core.types import I64, ONE, U64, ZERO, Atom, Const, elem_of, i64
from futad.jax.jaxprs.elementwise import ordered_bits
from futad.jax.jaxprs.lifted import Value, along, swept_back
from futad.jax.jaxprs.table import Site, rule

_HALF = 32  # bits of a key that one sort takes: places times a bound of 2^32 are an i64


def sort_places(b: Builder, keys: Sequence[Atom], descending: bool = False) -> Atom:
    """The places of rows in the order of their keys, the first key first, equal ones in the order of places.

    Sorts by the parts of the keys, the least significant part first (Knuth, The Art of Computer Programming, volume 3,
    section 5.2.5)."""
    order: Atom | None = None
    for key in reversed(keys):
        elem = elem_of(key.type)
        width = 1 if elem.is_bool else min(elem.bits, _HALF)
        for shift in range(0, elem.bits, width) if elem.bits > width and not elem.is_bool else (0,):
            order = _sorted_by(b, key, order, shift, width, descending)
    assert order is not None
    return order


def _sorted_by(b: Builder, key: Atom, order: Atom | None, shift: int, width: int, descending: bool) -> Atom:
    """Places in an order, sorted by some bits of their keys."""

    def part(c: Builder, k: Atom) -> Atom:
        x = ordered_bits(c.ex(k))
        x = x.op("not") if descending else x
        x = x.op("ushr", shift) if shift else x
        return c.convert(I64, (x & Ex(c, Const(U64, (1 << width) - 1))).atom)

    if order is None:
        return b.let(ir.ArgSort(b.zip_with(part, key), i64(1 << width)), "order")
    digits = b.zip_with(lambda c, i: part(c, c.at(key, i)), order)
    found = b.let(ir.ArgSort(digits, i64(1 << width)), "order")
    return b.zip_with(lambda c, i: c.at(order, i), found)


@rule("sort", reads="dimension num_keys", hints="is_stable")
def _sort(s: Site, *operands: Value) -> list[Value]:
    axis, count = s.params["dimension"], s.params["num_keys"]

    def rows(c: Builder, *arrays: Atom) -> list[Atom]:
        order = sort_places(c, arrays[:count])
        return [c.zip_with(lambda d, i, a=a: d.at(a, i), order) for a in arrays]

    return [swept_back(s.b, v, [axis]) for v in along(s.b, rows, operands, [axis])]


@rule("top_k", reads="k axis")
def _top_k(s: Site, x: Value) -> list[Value]:
    """The k largest elements of the rows, falling, NaN first, of equal ones the first ones; and their places."""
    k = s.importer.size(s.params["k"])
    axis = int(s.params.get("axis", x.rank - 1)) % x.rank
    place = s.elem(1)

    def rows(c: Builder, row: Atom) -> list[Atom]:
        order = c.at(sort_places(c, [row], descending=True), Range(ZERO, k, ONE))
        return [c.zip_with(lambda d, i: d.at(row, i), order), c.zip_with(lambda d, i: d.convert(place, i), order)]

    return [swept_back(s.b, v, [axis]) for v in along(s.b, rows, [x], [axis])]

