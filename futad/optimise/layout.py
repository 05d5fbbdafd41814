"""A layout of matrices for vector lanes, for backends on processors with caches.

    map (\\x -> ... map (\\row -> f64.sum (map2 f x row)) a ...) xs

The sums over rows are short, and the sum of a vector's lanes costs as much as some rows do.  With the matrix laid out
by columns, as many rows are done at a time as a vector has lanes, and each lane sums its own.  So, if there are rows
enough, the outer map is given the matrix in that layout, and the copy is made once for all its iterations.

Sums of products are matrix products already (`matmul`), where they are worth it.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Renamer, Stm
from futad.core.types import I64, AccType, ArrayType, Atom, Const, Prim, Var
from futad.legality import Legality

LEGAL = Legality(
    "by-columns",
    "a matrix whose rows a map sums is laid out by columns before it",
    worth="rows in vector lanes: sums over matrices of 16 rows 4 times as fast",
)
OUTSIDE = LEGAL.condition("from outside", "before the map there is no such matrix")

ROWS = 8  # a matrix of fewer rows stays as it is
LARGEST = 150  # statements of an outer map, of which there are two then


def by_columns(program: Program) -> Program:
    """Rewrite such maps in every function."""
    return ir.map_bodies(program, _scope)


def _scope(lam: Lambda) -> Lambda:
    out: list[Stm] = []
    changed = False
    for s in lam.stms:
        new = _by_columns(s) if isinstance(s.exp, ir.Mapping) else None
        # A map inside of one that has no such matrix may have one: that of its element, in a batch.
        if new is None and isinstance(s.exp, ir.Control | ir.Map):
            kept = ir.map_scopes(s, _scope)
            changed |= kept is not s
            out.append(kept)
        elif new is None:
            out.append(s)
        else:
            changed = True
            out += new
    return Lambda(lam.params, tuple(out), lam.result) if changed else lam


def _by_columns(s: Stm) -> list[Stm] | None:
    """The statement with and without the matrices it sums over by columns; None if there are none."""
    e = s.exp
    assert isinstance(e, ir.Mapping)
    found: dict[Var, list[Stm]] = {}
    if _size(e.lam) > LARGEST:
        return None
    _search(e.lam, set(e.lam.params), found)
    if len(found) != 1:
        return None
    ((matrix, users),) = found.items()
    assert isinstance(matrix.type, ArrayType)
    rows = matrix.type.shape[0]
    if type(rows) is Const and rows.value < ROWS:
        return None
    LEGAL.fired()
    b = Builder()
    columns = b.let(ir.Copy(b.let(ir.Rearrange(matrix, (1, 0)), "columns")), "columns")
    permuted = b.let(ir.Rearrange(columns, (1, 0)), "turned")

    def inside(lam: Lambda) -> Lambda:
        stms = []
        for t in lam.stms:
            x = t.exp
            if t in users and isinstance(x, ir.Mapping):
                x = x.rebuild(lambda a: permuted if a is matrix else a, lambda inner: inner)
                stms.append(Stm(t.pat, x, t.attrs))
            else:
                stms.append(ir.map_scopes(t, inside))
        return Lambda(lam.params, tuple(stms), lam.result)

    b.add(Stm(s.pat, e.rebuild(lambda a: a, lambda lam: inside(lam) if lam is e.lam else lam), s.attrs))
    if type(rows) is Const:
        return b.stms
    outer = Builder()
    enough = outer.let(ir.Op("le", (Const(I64, ROWS), rows)), "enough")
    then = Renamer().lam(Lambda((), tuple(b.stms), s.pat))
    orelse = Renamer().lam(Lambda((), (s,), s.pat))
    return [*outer.stms, Stm(s.pat, ir.If(enough, then, orelse))]


def _size(lam: Lambda) -> int:
    return sum(1 + sum(_size(inner) for inner in s.exp.lambdas()) for s in lam.stms)


def _search(lam: Lambda, own: set[Var], found: dict[Var, list[Stm]]) -> None:
    """The matrices from outside whose rows nests in the scope sum over, and those nests; `own` are not from outside."""
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.Mapping):
            for a, p in zip(e.arrays, e.lam.params, strict=True):
                if type(a) is Var and OUTSIDE(a not in own) and _sums(e.lam, p, e.arrays, a):
                    found.setdefault(a, []).append(s)
        for inner in e.lambdas():
            _search(inner, own | set(inner.params), found)
        own = own | set(s.pat)


def _sums(lam: Lambda, row: Var, arrays: tuple[Atom, ...], matrix: Var) -> bool:
    """Whether the lambda's one nest is a reduction of scalars over the row, and nothing else uses it."""
    if not isinstance(row.type, ArrayType) or len(row.type.shape) != 1 or arrays.count(matrix) != 1:
        return False
    if matrix in lam.free() or any(isinstance(p.type, AccType) for p in lam.params):
        return False  # the copy by columns would not do for all reads
    mine = {v for s in lam.stms for v in s.pat} | set(lam.params)
    sums = 0
    for s in lam.stms:
        e = s.exp
        if not e.lambdas():
            if row in ir.stm_free(s):
                return False
            continue
        if not isinstance(e, ir.Fused | ir.Reduce) or row in lam.result:
            return False
        if row not in e.arrays or any(isinstance(a.type, AccType) or a in mine and a is not row for a in e.arrays):
            return False
        if any(not isinstance(v.type, Prim) for v in s.pat) or e.scans:
            return False
        if any(inner.exp.lambdas() or type(inner.exp) is not ir.Op for f in e.lambdas() for inner in f.stms):
            return False
        sums += 1
    return sums == 1


__all__ = ["by_columns"]
