"""Elements of arrays in derivatives: reads where an index may be out of range, values by the names of their sizes."""

from __future__ import annotations

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import BOOL, I64, ZERO, Atom, Prim, Type, shape_of


def coerce(b: Builder, a: Atom, t: Type) -> Atom:
    """`a` as a value of type `t`, which differs at most in the atoms that name its sizes."""
    if a.type == t or isinstance(t, Prim):
        return a
    return b.let(ir.Reshape(a, shape_of(t)), "view")


def in_range(b: Builder, index: ir.Atoms, shape: ir.Atoms) -> Atom | None:
    """Whether every index is within its dimension; None for no index."""
    ok: Atom | None = None
    for i, n in zip(index, shape, strict=False):
        i = b.convert(I64, i)
        here = b.op("and", b.op("le", ZERO, i), b.op("lt", i, n))
        ok = here if ok is None else b.op("and", ok, here, hint="inside")
    assert ok is None or ok.type is BOOL
    return ok


def read_or_zero(b: Builder, array: Atom, index: ir.Atoms, t: Type) -> Atom:
    """array[index] of type `t`, zero where the index is out of range."""
    ok = in_range(b, index, shape_of(array.type))
    if ok is None:
        return array
    then = b.body(lambda inner: [coerce(inner, inner.at(array, *index), t)])
    orelse = b.body(lambda inner: [inner.zeros(t)])
    return b.emit(ir.If(ok, then, orelse), "y", types=[t])[0]
