"""Folds of all elements of a matrix that maps make are folds of its rows, which fusion puts into the maps.

    let xss = map (\\i -> map (\\j -> f i j) js) is
    let r = reduce (+) 0 (flatten xss)        -->        let r = reduce (+) 0 (map (\\row -> reduce (+) 0 row) xss)

The elements keep their order.  No array of them is left then, unless something else reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.operator import is_unit, operators_of
from futad.core.types import Atom, Const, Prim, Var, shape_of
from futad.legality import Legality

LEGAL = Legality(
    "folds-by-rows",
    "a fold of all elements of a matrix that maps make becomes a fold of folds of rows",
    worth="no array of the elements: of an image of 1024 by 1024 a deconvolution's value 3.1 to 2.9 ms, its "
    "gradient 7.6 to 6.8: `benchmarks/without.py folds-by-rows deconvolution --size 4`",
)
NEUTRAL = LEGAL.condition("neutral", "each row, and then all of them, begin with something that counts")
SHORT = 8  # elements of a row that is not worth a fold


def folds_by_rows(program: Program) -> Program:
    """Rewrite such folds in every scope; the same program if there are none."""
    return ir.map_bodies(program, _scope)


def _scope(lam: Lambda) -> Lambda:
    made: dict[Var, ir.Exp] = {}
    stms: list[Stm] = []
    for s in lam.stms:
        s = ir.map_scopes(s, _scope)
        stms += _by_rows(s, made) or [s]
        made |= dict.fromkeys(s.pat, s.exp)
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(stms), lam.result)


def _by_rows(s: Stm, made: Mapping[Var, ir.Exp]) -> list[Stm] | None:
    e = s.exp
    if type(e) is not ir.Reduce or len(e.arrays) != 1 or not isinstance(s.pat[0].type, Prim):
        return None
    shaped = made.get(e.arrays[0]) if type(e.arrays[0]) is Var else None
    if type(shaped) is not ir.Reshape or type(shaped.array) is not Var or len(shaped.shape) != 1:
        return None
    shape = shape_of(shaped.array.type)
    if len(shape) < 2 or not _nest(shaped.array, made, len(shape)) or _short(shape[-1]):
        return None
    if not _neutral(e):
        return None
    b = Builder()
    (total,) = _folded(b, e, shaped.array)
    b.add(Stm(s.pat, ir.Alias(total), s.attrs))
    LEGAL.fired()
    return b.stms


def _folded(b: Builder, e: ir.Reduce, array: Atom) -> Sequence[Atom]:
    shape = shape_of(array.type)
    if len(shape) > 1:
        (array,) = b.map_(lambda c, row: _folded(c, e, row), array, hint="folded")
    return b.emit(ir.Reduce(shape[0], (array,), ir.rename(e.lam), e.neutral, e.comm), "fold")


def _nest(a: Atom, made: Mapping[Var, ir.Exp], depth: int) -> bool:
    """Whether it is what maps in maps make, element by element."""
    e = made.get(a) if type(a) is Var else None
    if type(e) is not ir.Map or type(a) is not Var:
        return False
    if depth == 1:
        return True
    inner = {v: s.exp for s in e.lam.stms for v in s.pat}
    at = [i for i, r in enumerate(e.lam.result) if shape_of(r.type)]
    return len(at) == len(e.lam.result) and all(_nest(e.lam.result[i], inner, depth - 1) for i in at)


def _short(n: Atom) -> bool:
    return type(n) is Const and n.value < SHORT


def _neutral(e: ir.Reduce) -> bool:
    """Whether the fold is by one operation on scalars, and begins with what that leaves as it is."""
    found = operators_of(e.lam)
    return found is not None and not found[0].rank and NEUTRAL(is_unit(found[0].op, e.neutral[0]))


__all__ = ["folds_by_rows"]
