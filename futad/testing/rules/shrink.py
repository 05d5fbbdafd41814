"""Least counterexamples: fewer statements, results and elements, simpler inputs, as long as the rule is wrong alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.core import ir
from futad.core.types import ArrayType, Atom, Const, Prim, Var, elem_of, shape_of
from futad.rewrite.patterns.instance import returning

if TYPE_CHECKING:
    from futad.testing.rules.soundness import Checker, Found

SECONDS = 4.0


def least(c: Checker, found: Found) -> Found:
    """A smaller case in which the rule is wrong."""
    end = time.monotonic() + SECONDS
    if found.kind == "slopes":
        return found
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for program, args in _smaller(found):
            if time.monotonic() > end:
                break
            got = c.wrong(program, args) if args is not None else None
            if got is not None and got.kind == found.kind and (got.args or not found.args):
                found, changed = got, True
                break
    return found


def _smaller(found: Found) -> Iterator[tuple[ir.Program, list[Any] | None]]:
    fun = next(iter(found.program.funs.values()))
    for f in _programs(fun):
        keep = [k for k, p in enumerate(fun.body.params) if p in f.body.params]
        args = [found.args[k] for k in keep] if found.args else []
        yield ir.Program({f.name: f}), args
    if found.args:
        for args in _inputs(fun, found.args):
            yield found.program, args


def _programs(fun: ir.Fun) -> Iterator[ir.Fun]:
    """Functions with a result, a statement or a parameter less."""
    params, body = fun.body.params[: fun.num_sizes], fun.body
    values = [r for r in body.result if not (isinstance(r, Var) and _is_size(r, body.result))]
    if len(values) > 1:
        for r in values:
            yield _made(fun, body.params, body.stms, [v for v in values if v is not r])
    used = body.free().keys() | {a for s in body.stms for a in ir.stm_free(s)} | set(body.result)
    for p in body.params:
        if p not in used and not any(p in shape_of(q.type) for q in body.params):
            rest = tuple([q for q in body.params if q is not p])
            yield _made(fun, rest, body.stms, values, fun.num_sizes - (p in params))
    for k, s in enumerate(body.stms):
        rest_stms = body.stms[:k] + body.stms[k + 1 :]
        needed = {a for t in rest_stms for a in ir.stm_free(t)} | set(values)
        if not any(v in needed for v in s.pat):
            yield _made(fun, body.params, rest_stms, values)
            continue
        if len(s.pat) == 1:
            for e in _simpler(s, body, k):
                yield _made(fun, body.params, (*body.stms[:k], ir.Stm(s.pat, e), *body.stms[k + 1 :]), values)


def _simpler(s: ir.Stm, body: ir.Lambda, k: int) -> Iterator[ir.Exp]:
    t = s.pat[0].type
    before: list[Atom] = [*body.params, *[v for u in body.stms[:k] for v in u.pat]]
    if type(s.exp) not in (ir.Alias, ir.Replicate, ir.Copy):
        for a in before:
            if a.type == t:
                yield ir.Alias(a) if isinstance(t, Prim) else ir.Copy(a)
        if isinstance(t, ArrayType):
            yield ir.Replicate(t.shape, Const(elem_of(t), 1))
        elif isinstance(t, Prim):
            yield ir.Alias(Const(t, 1))
    lams = s.exp.lambdas()
    for j, lam in enumerate(lams):
        for i, u in enumerate(lam.stms):
            rest = (*lam.stms[:i], *lam.stms[i + 1 :])
            needed = {a for w in rest for a in ir.stm_free(w)} | set(lam.result)
            if not any(v in needed for v in u.pat):
                yield _with(s.exp, j, ir.Lambda(lam.params, rest, lam.result))
            elif len(u.pat) == 1 and type(u.exp) is not ir.Alias:
                like: list[Atom] = [a for a in lam.params if a.type == u.pat[0].type]
                like += [Const(elem_of(u.pat[0].type), 1)] if isinstance(u.pat[0].type, Prim) else []
                for a in like:
                    alias = ir.Stm(u.pat, ir.Alias(a))
                    yield _with(s.exp, j, ir.Lambda(lam.params, (*lam.stms[:i], alias, *lam.stms[i + 1 :]), lam.result))


def _with(e: ir.Exp, j: int, lam: ir.Lambda) -> ir.Exp:
    new = [lam if k == j else old for k, old in enumerate(e.lambdas())]
    it = iter(new)
    return e.rebuild(lambda a: a, lambda _: next(it))


def _is_size(r: Var, result: tuple[Atom, ...]) -> bool:
    return any(r in shape_of(a.type) for a in result)


def _made(fun: ir.Fun, params: Any, stms: Any, values: Any, sizes: int | None = None) -> ir.Fun:
    return returning(params, tuple(stms), values, fun.num_sizes if sizes is None else sizes)


def _inputs(fun: ir.Fun, args: list[Any]) -> Iterator[list[Any]]:
    """Smaller sizes, then simpler numbers."""
    for k in range(fun.num_sizes):
        n = int(args[k])
        for m in {0, 1, 2, n - 1}:
            if 0 <= m < n:
                yield _resized(fun, args, k, m)
    for k in range(fun.num_sizes, len(args)):
        a = np.asarray(args[k])
        for simple in (0, 1, 2):
            for place in np.ndindex(a.shape):
                if a[place] != simple and not (a[place] in (0, 1) and simple > a[place]) and a[place] != 2:
                    b = a.copy()
                    b[place] = simple
                    yield [*args[:k], b[()], *args[k + 1 :]]


def _resized(fun: ir.Fun, args: list[Any], which: int, size: int) -> list[Any]:
    p = fun.body.params[which]
    out = list(args)
    out[which] = np.int64(size)
    for k, q in enumerate(fun.body.params):
        shape = shape_of(q.type)
        if p in shape and isinstance(q.type, ArrayType):
            out[k] = np.asarray(args[k])[tuple([slice(size) if n is p else slice(None) for n in shape])].copy()
    return out


__all__ = ["least"]
