"""Equality of expressions with scopes, up to the names bound inside."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.ir import Fold, Lambda
from futad.core.node import Range
from futad.core.types import AccType, Atom, Prim, Var

Names = dict[Var, Atom]


def scoped_key(e: ir.Exp) -> tuple[Any, ...] | None:
    """Equal for constructs with scopes that may compute the same (`alike` decides); None for those that are
    never merged: accumulators are linear, and consuming constructs write."""
    head = type(e)
    if not e.pure:
        return None
    operands = e.operands()
    if any(type(a.type) is AccType for a in operands):
        return None
    shapes = [(len(lam.stms), len(lam.result)) for lam in e.lambdas()]
    return (head, *operands, *shapes, *[type(s.exp) for lam in e.lambdas() for s in lam.stms])


def alike(a: ir.Exp, b: ir.Exp, names: Names | None = None) -> bool:
    """Whether the two compute the same; `names` maps variables bound in `b`'s context to those of `a`'s."""
    head = type(a)
    if head is not type(b) or head in (ir.Trace, ir.Measure):  # told as often as it stands
        return False
    names = {} if names is None else names
    for field, kind in head.kinds.items():
        x, y = getattr(a, field), getattr(b, field)
        if kind == "Atom":
            ok = _same_atom(x, y, names)
        elif kind == "Atoms":
            ok = _same_atoms(x, y, names)
        elif kind == "Index":
            ok = _same_index(x, y, names)
        elif kind == "Lambda":
            ok = alike_lambdas(x, y, names)
        elif kind == "Folds":
            ok = len(x) == len(y) and all(_same_fold(g, h, names) for g, h in zip(x, y, strict=True))
        elif field == "check":
            ok = (x is None) == (y is None)
        elif field == "type":
            ok = type(x) is type(y) and (x is y if isinstance(x, Prim) else _same_atoms(x.shape, y.shape, names))
        else:
            ok = x == y
        if not ok:
            return False
    return True


def alike_lambdas(a: Lambda, b: Lambda, names: Names) -> bool:
    """Whether two scopes compute the same from the same arguments.  `names` grows."""
    if len(a.params) != len(b.params) or len(a.stms) != len(b.stms):
        return False
    for p, q in zip(a.params, b.params, strict=True):
        if not _bind(p, q, names):
            return False
    for s, t in zip(a.stms, b.stms, strict=True):
        if len(s.pat) != len(t.pat) or not alike(s.exp, t.exp, names):
            return False
        for p, q in zip(s.pat, t.pat, strict=True):
            if not _bind(p, q, names):
                return False
    return _same_atoms(a.result, b.result, names)


def _same_fold(a: Fold, b: Fold, names: Names) -> bool:
    return alike_lambdas(a.lam, b.lam, names) and _same_atoms(a.neutral, b.neutral, names) and a.comm == b.comm


def _bind(p: Var, q: Var, names: Names) -> bool:
    names[q] = p
    if type(p.type) is not type(q.type):
        return False
    if isinstance(p.type, Prim) or isinstance(q.type, Prim):
        return p.type is q.type
    return p.type.elem is q.type.elem and _same_atoms(p.type.shape, q.type.shape, names)


def _same_atom(x: Atom, y: Atom, names: Names) -> bool:
    return x is (names.get(y, y) if type(y) is Var else y)


def _same_atoms(xs: tuple[Atom, ...], ys: tuple[Atom, ...], names: Names) -> bool:
    return len(xs) == len(ys) and all(_same_atom(x, y, names) for x, y in zip(xs, ys, strict=True))


def _same_index(xs: ir.Index, ys: ir.Index, names: Names) -> bool:
    if len(xs) != len(ys):
        return False
    for x, y in zip(xs, ys, strict=True):
        if type(x) is Range and type(y) is Range:
            if not _same_atoms((x.start, x.count, x.stride), (y.start, y.count, y.stride), names):
                return False
        elif type(x) is Range or type(y) is Range or not _same_atom(x, y, names):
            return False
    return True


__all__ = ["alike", "alike_lambdas", "scoped_key"]
