"""Code that several rules emit: guarded reads, sums, additions to accumulators, scopes for re-execution."""

from __future__ import annotations

from collections.abc import Iterable

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import (
    BOOL,
    I64,
    ONE,
    ZERO,
    ArrayType,
    Atom,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    i64,
    row_type,
    shape_of,
)
from futad.errors import Span


def coerce(b: Builder, a: Atom, t: Type) -> Atom:
    """`a` as a value of type `t`, which differs at most in the atoms that name its sizes."""
    if a.type == t or isinstance(t, Prim):
        return a
    return b.let(ir.Reshape(a, shape_of(t)), "view")


def fresh_like(vs: Iterable[Var]) -> tuple[Var, ...]:
    """Fresh variables like these; types that mention sizes among them follow."""
    copy = ir.Renamer()
    return tuple([copy.bind(v) for v in vs])


def size_of(b: Builder, types: Iterable[Type]) -> Atom:
    """How many bytes values of these types have."""
    size: Atom = ZERO
    for t in types:
        size = b.op("add", size, b.op("mul", b.size_mul(shape_of(t)), i64(elem_of(t).bytes)), hint="size")
    return size


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


def add_to_acc(b: Builder, acc: Atom, index: ir.Index, value: Atom, check: Span | None = None) -> Var:
    """acc[index] += value; ranges of the index become maps that thread the accumulator.

    With `check`, as in `At`, an index out of range is an error: the places are then read from all positions of their
    dimensions, as accumulators ignore such updates, and what the program itself reads there may be dead code.
    """
    if check is not None:
        positions = [b.let(ir.Iota(n, ZERO, ONE), "is") for n in shape_of(acc.type)[: len(index)]]
        index = tuple([b.let(ir.At(a, (i,), check), "at") for a, i in zip(positions, index, strict=True)])
    for d, ix in enumerate(index):
        where = b.let(ir.Iota(ix.count, ix.start, ix.stride), "is") if isinstance(ix, Range) else ix
        if isinstance(where.type, Prim):
            continue
        (n,) = shape_of(where.type)
        rows = coerce(b, value, array_of(row_type(value.type), n))
        t = elem_of(where.type)

        def step(inner: Builder, a: Var, i: Var, row: Var, d: int = d) -> list[Atom]:
            return [add_to_acc(inner, a, (*index[:d], i, *index[d + 1 :]), row)]

        params = [("acc", acc.type), ("i", t), ("row", row_type(rows.type))]
        return b.let(ir.Map(n, (acc, where, rows), b.lambda_(params, step)), "acc")
    plain: tuple[Atom, ...] = tuple([i for i in index if not isinstance(i, Range)])
    rest = shape_of(acc.type)[len(plain) :]
    want: Type = ArrayType(elem_of(acc.type), rest) if rest else elem_of(acc.type)
    return b.let(ir.UpdateAcc(acc, plain, coerce(b, value, want)), "acc")


def within(b: Builder, outer: ir.Index, inner: ir.Index) -> ir.Index:
    """The index of what is at `inner` in the part at `outer`."""
    out: list[Atom | Range] = []
    rest = list(inner)
    for i in outer:
        if not isinstance(i, Range) or not rest:
            out.append(i)
            continue
        j = rest.pop(0)
        if isinstance(j, Range):
            out.append(Range(_place(b, i, j.start), j.count, _times(b, i.stride, j.stride)))
        else:
            out.append(_place(b, i, b.convert(I64, j)))
    return (*out, *rest)


def _place(b: Builder, r: Range, i: Atom) -> Atom:
    by = _times(b, r.stride, i)
    return by if r.start is ZERO else r.start if by is ZERO else b.op("add", r.start, by, hint="at")


def _times(b: Builder, x: Atom, y: Atom) -> Atom:
    return y if x is ONE else x if y is ONE else ZERO if y is ZERO else b.op("mul", x, y, hint="at")


class _Reexecution(ir.Renamer):
    """Renames for re-execution: assertions are left out, they have held before, and so is what has been printed."""

    def lam(self, lam: ir.Lambda) -> ir.Lambda:
        params = tuple([self.bind(p) for p in lam.params])
        stms = tuple([self.stm(s) for s in lam.stms if not s.exp.effect])
        return ir.Lambda(params, stms, tuple([self.atom(a) for a in lam.result]))


def reexecution(lam: ir.Lambda, origins: dict[Var, Var] | None = None) -> ir.Lambda:
    """A copy of a scope for the return sweep; `origins` gets the scope's variables by those of the copy."""
    names = _Reexecution()
    out = names.lam(lam)
    if origins is not None:
        origins.update((new, old) for old, new in names.mapping.items() if isinstance(new, Var))
    return out
