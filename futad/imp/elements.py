"""What a construct's function has of each element: parameters bound to it, results put in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import Var
from futad.imp.ir import Expr
from futad.imp.views import Acc, Mem, Root, Value, View

if TYPE_CHECKING:
    from futad.imp.carried import Carried
    from futad.imp.lower import Lowerer


def bind_elements(lo: Lowerer, lam: core.Lambda, params: Sequence[Var], values: Sequence[Value], i: Expr) -> None:
    """Bind the parameters of a map's lambda for iteration i: loads, rows, accumulators."""
    inside = core.Lambda((), lam.stms, lam.result).free()
    for k, (p, v) in enumerate(zip(params, values, strict=True)):
        if isinstance(v, Acc):
            lo.bind(p, v)
        elif isinstance(v, View) and p in inside:
            x = element(lo, v, i, p.name)
            if isinstance(x, View) and (not v.injective or _shared(lo, lam, values, k)):
                x = guarded(x)
            lo.bind(p, x)


def _shared(lo: Lowerer, lam: core.Lambda, values: Sequence[Value], k: int) -> bool:
    """Whether other iterations may read the memory of argument k's row."""
    roots = _roots(values[k])
    others = [v for j, v in enumerate(values) if j != k] + [lo.env[v] for v in lam.free() if v in lo.env]
    return any(roots & _roots(v) for v in others)


def _roots(v: Value) -> frozenset[Root]:
    if isinstance(v, Acc):
        v = v.view
    return v.roots if isinstance(v, View) else frozenset()


def guarded(v: Value) -> Value:
    """An array that must not be overwritten even if it looks dead: others read the same memory."""
    if not isinstance(v, View) or not isinstance(v.base, Mem):
        return v
    base = replace(v.base, roots=v.base.roots | {Root(None, False, v.elem)})
    return View(base, v.offset, v.strides, v.shape, v.dense, v.injective)


def element(lo: Lowerer, v: View, i: Expr, hint: str) -> Value:
    """Element i of an array: a scalar in a variable, or a view of the row."""
    if v.rank == 1:
        return lo.let(v.load((i,)), hint)
    row = v.row((i,))
    return View(row.base, lo.let(row.offset, "o"), row.strides, row.shape, row.dense, row.injective)


def step(lo: Lowerer, f: core.Lambda, carried: Carried, values: Sequence[Value]) -> list[Value]:
    """Apply a fold's operator to its variables and one more value each."""
    for p, v in zip(f.params[len(values) :], values, strict=True):
        lo.bind(p, guarded(v))
    return lo.scope(f, carried.destinations(), repeats=True)


def put(lo: Lowerer, out: View, i: Expr, v: Value) -> None:
    """out[i] = v, for a scalar or a row."""
    if isinstance(v, View):
        lo.copy(out.row((i,)), v)
    else:
        assert isinstance(v, Expr)
        lo.store(out, (i,), v)
