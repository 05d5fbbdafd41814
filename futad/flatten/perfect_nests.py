"""Bodies of maps as maps over their elements, so that nests are perfect and neighbouring threads have neighbours.

A thread that copies a row, or folds a few rows into one, goes along the row by itself, far from the thread beside it.
So inside of maps

- a row that is picked and returned as it is becomes a map:  `xs[i]`  -->  `map (\\x -> x) xs[i]`, whatever its size is,
  which is known where the row is picked;
- a fold of few rows, of known number, whose operator is a map becomes a map of folds:

    reduce (map2 op) ne (map f xss)   -->   map (\\j -> reduce op ne[j] (map (\\xs -> (f xs)[j]) xss)) (iota w)

  where f is a map of width w whose elements depend on those of its row;
- a fold of a flattened array of few elements, of known number, becomes a nest of folds, which fusion puts into the nest
  that makes the array: the thread has no array then.

    reduce op ne (flatten xss)   -->   reduce op ne (map (reduce op ne) xss)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.operator import row_operator
from futad.core.types import I64, ONE, ZERO, AccType, ArrayType, Atom, Const, Prim, Var, row_type, shape_of
from futad.fires import Transformation
from futad.flatten.fission import CHEAP
from futad.legality import Legality
from futad.rewrite.dce import effects

COLUMNS = Legality(
    "folds-of-few-rows",
    "folds of few rows become maps of folds of their columns",
    worth="hand tracking of 544 points on a device: 6.4 MB in place of 10.5, traffic 14 MB in place of 25",
)
ASSERTS_NOT = COLUMNS.condition("rows assert nothing", "rows without elements are not computed, and assert nothing")

FLATTENED = Transformation(
    "folds-of-flattened",
    "folds of few flattened elements become nests of folds",
    worth="convolution by a window of 9: no array of 9 in each thread",
)

FEW = 8  # rows that a thread folds by itself
FEW_ELEMENTS = 64  # and elements


def by_columns(lam: Lambda, inside: bool = False) -> Lambda:
    """The scope, and those in it, with folds of few rows as maps of folds; `inside` of a map."""
    stms: list[Stm] = []
    made: dict[Atom, Stm] = {}
    for s in lam.stms:
        within = inside or isinstance(s.exp, ir.Map)
        x = ir.map_scopes(s, partial(by_columns, inside=within))
        if inside:
            x = _flattened(x, made)
            made.update((v, x) for v in x.pat)
        found = _columns(x) if inside else None
        if found is not None:
            COLUMNS.fired()
        stms += [x] if found is None else found
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(stms), lam.result)


def _flattened(s: Stm, made: Mapping[Atom, Stm]) -> Stm:
    """A fold of flattened arrays of few elements as a nest of folds; any other statement as it is."""
    e = s.exp
    if not isinstance(e, ir.Reduce | ir.Fused):
        return s
    e = ir.as_fused(e)
    flat = [made[a].exp for a in e.arrays if a in made]
    arrays = [x.array for x in flat if isinstance(x, ir.Reshape)]
    if e.scans or e.accs or len(s.pat) != sum(map(len, e.reduces)) or len(arrays) != len(e.arrays) or not arrays:
        return s
    shape = shape_of(arrays[0].type)
    sizes = [n.value for n in shape if isinstance(n, Const)]
    if len(shape) < 2 or len(sizes) != len(shape) or prod(sizes) > FEW_ELEMENTS:
        return s
    if any(shape_of(a.type) != shape for a in arrays) or any(shape_of(a.type)[1:] for a in e.arrays):
        return s
    FLATTENED.fired()
    return Stm(s.pat, _nested(e, arrays, len(shape)), s.attrs)


def _nested(e: ir.Fused, arrays: Sequence[Atom], rank: int) -> ir.Fused:
    rows = tuple([Var("x", row_type(a.type)) for a in arrays])
    folds = tuple([ir.Fold(ir.rename(f.lam), f.neutral, f.comm) for f in e.reduces])
    if rank == 1:
        body = ir.rename(Lambda(e.lam.params, e.lam.stms, e.lam.result))
        return ir.Fused(shape_of(arrays[0].type)[0], tuple(arrays), body, (), folds)
    inner = _nested(e, rows, rank - 1)
    out = tuple([Var("part", a.type) for f in e.reduces for a in f.neutral])
    return ir.Fused(shape_of(arrays[0].type)[0], tuple(arrays), Lambda(rows, (Stm(out, inner),), out), (), folds)


def _columns(s: Stm) -> list[Stm] | None:
    """The fold as a map of folds; None if it is not one of few rows by maps."""
    e = s.exp
    if not isinstance(e, ir.Reduce | ir.Fused):
        return None
    e = ir.as_fused(e)
    if e.scans or len(e.reduces) != 1 or len(s.pat) != len(e.reduces[0]):
        return None
    (whole,), element = e.reduces, e.lam
    op, neutral = whole.lam, whole.neutral
    if not isinstance(e.width, Const) or e.width.value > FEW or e.accs:
        return None
    if not s.pat or not all(isinstance(v.type, ArrayType) and v.type.rank == 1 for v in s.pat):
        return None
    width = shape_of(s.pat[0].type)[0]
    row, made = row_operator(op), _element(element, width)
    if row is None or made is None or row.width is not width or len(shape_of(op.params[0].type)) != 1:
        return None
    b = Builder()

    def column(c: Builder, j: Var) -> Sequence[Atom]:
        first = tuple([c.at(n, j) for n in neutral])
        lam = ir.rename(Lambda(element.params, *_at(made, j)))
        fold = ir.Fused(e.width, e.arrays, lam, (), (ir.Fold(ir.rename(row.lam), first, whole.comm),))
        return c.emit(fold, "red", types=[a.type for a in first])

    places = b.let(ir.Iota(width, ZERO, ONE), "js")
    lam = b.lambda_([("j", I64)], column)
    return [*b.stms, Stm(s.pat, ir.Map(width, (places,), lam), s.attrs)]


Element = tuple[tuple[Stm, ...], tuple[Var, ...], tuple[Atom, ...], Lambda]


def _element(lam: Lambda, width: Atom) -> Element | None:
    """What is folded of element j of a row: statements before, then the parameters of a function of element j, what
    they are the elements of, and the function."""
    if lam.stms and lam.result == lam.stms[-1].pat and isinstance(lam.stms[-1].exp, ir.Map):
        m, before = lam.stms[-1].exp, lam.stms[:-1]
        scalars = all(isinstance(a.type, Prim) for a in m.lam.result)
        if m.width is not width or not scalars or any(isinstance(a.type, AccType) for a in m.arrays):
            return None
        found: Element = before, m.lam.params, m.arrays, m.lam
    else:
        if not all(isinstance(a, Var) and isinstance(a.type, ArrayType) for a in lam.result):
            return None
        rows = tuple([Var("x", row_type(a.type)) for a in lam.result])
        found = lam.stms, rows, lam.result, Lambda(rows, (), rows)
    cheap = all(isinstance(x.exp, (*CHEAP, ir.Op)) for x in found[0])
    return found if cheap and ASSERTS_NOT(not effects(found[0])) else None


def _at(e: Element, j: Var) -> tuple[tuple[Stm, ...], tuple[Atom, ...]]:
    """Statements and results of the element."""
    before, params, arrays, body = e
    reads = [Stm((p,), ir.At(a, (j,), None)) for p, a in zip(params, arrays, strict=True)]
    return (*before, *reads, *body.stms), body.result


PICKED = Transformation(
    "rows-as-maps",
    "rows that maps pick become maps over their elements",
    worth="hand tracking of 100,000 points on a device: traffic of 1.4 GB in place of 1.8",
)


def rows_as_maps(lam: Lambda) -> Lambda:
    """The scope, and those in it, with rows that maps pick as maps over their elements."""
    stms = [_picked(ir.map_scopes(s, rows_as_maps)) for s in lam.stms]
    same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(stms), lam.result)


def _picked(s: Stm) -> Stm:
    e = s.exp
    if not isinstance(e, ir.Map) or len(e.lam.result) != 1 or e.accs:
        return s
    (row,) = e.lam.result
    made = {v: x.exp for x in e.lam.stms for v in x.pat}
    if not isinstance(row, Var) or not isinstance(made.get(row), ir.At) or not isinstance(row.type, ArrayType):
        return s

    def copied(b: Builder, x: Var) -> Sequence[Atom]:
        return b.map_(copied, x, hint="row") if isinstance(x.type, ArrayType) else [x]

    PICKED.fired()
    b = Builder()
    (out,) = b.map_(copied, row, hint="row")
    return Stm(s.pat, ir.Map(e.width, e.arrays, Lambda(e.lam.params, (*e.lam.stms, *b.stms), (out,))), s.attrs)


__all__ = ["by_columns", "rows_as_maps"]
