"""The operators of folds of scalars, and their lowering to functions of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import Prim, prim_of
from futad.flatten import kernel as kir
from futad.imp import ir
from futad.imp.ir import Expr, Ref

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer


@dataclass(slots=True)
class Fold:
    """One scan or reduction of scalars."""

    lam: core.Lambda
    neutral: core.Atoms
    scan: bool
    commutes: bool

    @property
    def types(self) -> list[Prim]:
        return [prim_of(a) for a in self.neutral]


def combine(lo: DeviceLowerer, f: Fold, left: Sequence[Expr], right: Sequence[Expr]) -> list[Expr]:
    """The fold's operator on two values, in thread mode."""
    for p, x in zip(f.lam.params, [*left, *right], strict=True):
        lo.bind(p, lo.let(x, p.name))
    out: list[Expr] = []
    for v in lo.scope(f.lam, repeats=True):
        assert isinstance(v, Expr)
        if isinstance(v, Ref) and len(f.neutral) > 1:
            # It may be a variable that is assigned before this result is used.
            name = lo.name("r")
            lo.out.append(ir.Decl(name, v.type, v))
            v = Ref(name, v.type)
        out.append(lo.let(v, "r"))
    return out


def operator(lo: DeviceLowerer, folds: Sequence[Fold]) -> kir.Function:
    """The operators of folds as one function, of the left values of all and then the right ones."""
    types = [t for f in folds for t in f.types]
    left, right = [[Ref(lo.name(w), t) for t in types] for w in ("left", "right")]
    results: list[Expr] = []
    with lo.inside("thread"), lo.block() as body:
        for f in folds:
            at, k = len(results), len(f.types)
            results += combine(lo, f, left[at : at + k], right[at : at + k])
    return kir.Function([*left, *right], body, results)


__all__ = ["Fold", "combine", "operator"]
