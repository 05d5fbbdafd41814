"""Nests of maps with one more result, or with another lambda that has elements of more arrays."""

from __future__ import annotations

from typing import TypeAlias

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import Var, array_of, row_type


def with_result(s: Stm, path: tuple[int, ...], v: Var) -> Stm:
    """The nest with what the map at the end of the path binds as its last result."""
    e = s.exp
    assert isinstance(e, ir.Mapping)
    lam = e.lam
    if path:
        inner = with_result(lam.stms[path[0]], path[1:], v)
        lam = Lambda(lam.params, (*lam.stms[: path[0]], inner, *lam.stms[path[0] + 1 :]), lam.result)
        v = inner.pat[-1]
    lam = Lambda(lam.params, lam.stms, (*lam.result, v))
    return Stm((*s.pat, Var(v.name, array_of(v.type, e.width))), e.over(e.arrays, lam), s.attrs)


Input: TypeAlias = tuple[Var, tuple[int, ...], Var, Var]
"""An array, the levels that index it, the part of it at hand, and what its element is to be called."""


def with_inputs(s: Stm, path: tuple[int, ...], new: Lambda, inputs: list[Input], level: int = 0) -> Stm:
    """The nest with another lambda at the end of the path, which has elements of more arrays."""
    e = s.exp
    assert isinstance(e, ir.Mapping)
    arrays, params, below = list(e.arrays), list(e.lam.params), list[Input]()
    for array, levels, part, name in inputs:
        if level not in levels:
            below.append((array, levels, part, name))
            continue
        arrays.append(part)
        p = name if level == levels[-1] else Var(array.name, row_type(part.type))
        params.append(p)
        if level != levels[-1]:
            below.append((array, levels, p, name))
    if path:
        inner = with_inputs(e.lam.stms[path[0]], path[1:], new, below, level + 1)
        stms, result = (*e.lam.stms[: path[0]], inner, *e.lam.stms[path[0] + 1 :]), e.lam.result
    else:
        stms, result = new.stms, new.result
    return Stm(s.pat, e.over(tuple(arrays), Lambda(tuple(params), stms, result)), s.attrs)


__all__ = ["with_inputs", "with_result"]
