"""Matching: what the metavariables of a pattern stand for in a program.

A match is found from the root: what it names is looked up by definition.  Arguments of commutative operations match in
either order; statements of scopes in the order in which they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from futad.core import ir
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import Atom, Prim, Type, Var, elem_of, shape_of
from futad.rewrite.equal import alike_lambdas
from futad.rewrite.patterns.syntax import ANY, Hole, Scheme, is_many

# Of a metavariable an atom, or several; of a scope's name ("f") the scope.
Bindings = dict[Any, Any]
Goals = tuple[Any, ...]  # ((pattern, found), rest) or ()
Find = Callable[[Atom], ir.Exp | None]


def matches(s: Scheme, stm: ir.Stm, find: Find) -> Iterator[tuple[Bindings, list[ir.Exp]]]:
    """The ways in which the statement is the root of the pattern, with the expressions that matched."""
    root = s.root
    goals = ((root.exp, stm.exp), ((root.pat, stm.pat), ()))
    yield from _solve(goals, {}, s, s.before[:-1], [stm.exp], find)


def _solve(
    goals: Goals, b: Bindings, s: Scheme, above: tuple[ir.Stm, ...], found: list[ir.Exp], find: Find
) -> Iterator[tuple[Bindings, list[ir.Exp]]]:
    while goals:
        (p, x), goals = goals
        more = _step(p, x, b, s)
        if more is None:
            return
        first, *others = more
        for o in others:
            yield from _solve(_chain(o[0], goals), {**b, **o[1]}, s, above, found, find)
        goals, b = _chain(first[0], goals), {**b, **first[1]} if first[1] else b
    if not above:
        yield b, found
        return
    ready = next((t for t in above if t.pat[0] in b), None)
    if ready is None:
        return
    exp = find(b[ready.pat[0]])
    if exp is not None:
        rest = tuple([t for t in above if t is not ready])
        yield from _solve(((ready.exp, exp), ()), b, s, rest, [*found, exp], find)


def _chain(first: list[tuple[Any, Any]], rest: Goals) -> Goals:
    for g in reversed(first):
        rest = (g, rest)
    return rest


Step = list[tuple[list[tuple[Any, Any]], Bindings]]  # alternatives: further goals, what is bound


def _step(p: Any, x: Any, b: Bindings, s: Scheme) -> Step | None:
    if p is ANY:
        return [([], {})]
    if type(p) is Var:
        return _atom(p, x, b, s)
    if type(p) is tuple:
        return _sequence(p, x, b)
    if isinstance(p, Hole):
        if p.name in b:
            return [([], {})] if alike_lambdas(b[p.name], x, {}) else None
        return [([], {p.name: x})]
    if isinstance(p, ir.Lambda):
        if len(p.stms) != len(x.stms):
            return None
        stms = [g for u, v in zip(p.stms, x.stms, strict=True) for g in ((u.exp, v.exp), (u.pat, v.pat))]
        return [([(p.params, x.params), *stms, (p.result, x.result)], {})]
    if isinstance(p, ir.Exp):
        if type(p) is not type(x):
            return None
        if isinstance(p, ir.Op) and isinstance(x, ir.Op):
            if p.op != x.op or len(p.args) != len(x.args):
                return None
            orders = [x.args, x.args[::-1]] if OPS[p.op].commutative and x.args[0] is not x.args[1] else [x.args]
            return [([(p.args, args)], {}) for args in orders]
        skipped = ("place", "comm") if not isinstance(p, ir.Assert) else ()
        return [([(getattr(p, f), getattr(x, f)) for f in type(p).kinds if f not in skipped], {})]
    if isinstance(p, Range):
        parts = [(p.start, x.start), (p.count, x.count), (p.stride, x.stride)] if isinstance(x, Range) else []
        return [(parts, {})] if parts else None
    if isinstance(p, ir.Fold):
        return [([(p.lam, x.lam), (p.neutral, x.neutral)], {})]
    return [([], {})] if p is x or type(p) is type(x) and p == x else None


def _atom(p: Var, x: Any, b: Bindings, s: Scheme) -> Step | None:
    if isinstance(x, Range):
        return None
    if p in b:
        return [([], {})] if b[p] is x else None
    want = s.given.get(p)
    return [(_typed(want, x.type), {p: x})] if want is None or _fits(want, x.type) else None


def _fits(want: Type, t: Type) -> bool:
    return type(want) is type(t) and elem_of(want) is elem_of(t) and len(shape_of(want)) == len(shape_of(t))


def _typed(want: Type | None, t: Type) -> list[tuple[Any, Any]]:
    return [] if want is None or isinstance(want, Prim) else [(shape_of(want), shape_of(t))]


def _sequence(p: tuple[Any, ...], x: tuple[Any, ...], b: Bindings) -> Step | None:
    at = next((k for k, y in enumerate(p) if is_many(y)), None)
    if at is None:
        return [(list(zip(p, x, strict=True)), {})] if len(p) == len(x) else None
    after = len(p) - at - 1
    if len(x) < at + after:
        return None
    taken = x[at : len(x) - after]
    if any(isinstance(y, Range) for y in taken):
        return None
    if p[at] in b:
        same = b[p[at]]
        if len(same) != len(taken) or any(u is not v for u, v in zip(same, taken, strict=True)):
            return None
    ends = list(zip(p[:at], x[:at], strict=True)) + list(zip(p[at + 1 :], x[len(x) - after :], strict=True))
    return [(ends, {p[at]: taken})]


__all__ = ["Bindings", "Find", "matches"]
