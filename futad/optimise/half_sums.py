"""Sums and products of f16 are taken in f32 and rounded once.

    reduce (+) 0f16 xs      -->      f16.f32 (reduce (+) 0f32 (map f32.f16 xs))

This is what `reduce` and `scan` of f16 mean (docs/language.md): partial sums, which differ between backends, neither
overflow nor lose small terms.  It runs before the passes that look for sums.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.operator import operators_of
from futad.core.types import F16, F32, Atom, Prim, elem_of

_FOLDED = ("add", "mul")


def half_sums(program: Program) -> Program:
    """The program with such folds in f32; the same one if there are none."""
    return ir.map_bodies(program, _scope)


def _scope(lam: Lambda) -> Lambda:
    b = Builder()
    for s in lam.stms:
        if isinstance(s.exp, ir.Reduce | ir.Scan) and any(elem_of(a.type) is F16 for a in s.exp.arrays):
            _fold(b, s, s.exp)
        else:
            b.add(ir.map_scopes(s, _scope))
    same = len(b.stms) == len(lam.stms) and all(x is y for x, y in zip(b.stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(b.stms), lam.result)


def _fold(b: Builder, s: Stm, e: ir.Reduce | ir.Scan) -> None:
    found = operators_of(e.lam)
    if found is None or any(o.op not in _FOLDED for o in found):
        b.add(ir.map_scopes(s, _scope))
        return
    arrays, neutral = [[_converted(b, a, F16, F32) for a in atoms] for atoms in (e.arrays, e.neutral)]
    names = [(p.name, x.type) for p, x in zip(e.lam.params, neutral * 2, strict=True)]
    k = len(neutral)

    def apply(c: Builder, *xs: Atom) -> list[Atom]:
        return [_combined(c, found[i].op, xs[i], xs[k + i]) for i in range(k)]

    lam = b.lambda_(names, apply)
    wide: ir.Exp = (
        ir.Reduce(e.width, tuple(arrays), lam, tuple(neutral), e.comm)
        if isinstance(e, ir.Reduce)
        else ir.Scan(e.width, tuple(arrays), lam, tuple(neutral))
    )
    for v, x in zip(s.pat, b.emit(wide, *[v.name for v in s.pat], attrs=s.attrs), strict=True):
        b.add(Stm((v,), ir.Alias(_converted(b, x, F32, F16) if elem_of(v.type) is F16 else x)))


def _combined(b: Builder, op: str, x: Atom, y: Atom) -> Atom:
    if isinstance(x.type, Prim):
        return b.op(op, x, y)
    return b.zip_with(lambda c, u, v: _combined(c, op, u, v), x, y)


def _converted(b: Builder, a: Atom, source: Prim, to: Prim) -> Atom:
    """The value with its elements, if they are of type `source`, as another."""
    if elem_of(a.type) is not source:
        return a
    if isinstance(a.type, Prim):
        return b.convert(to, a)
    return b.zip_with(lambda c, x: _converted(c, x, source, to), a)


__all__ = ["half_sums"]
