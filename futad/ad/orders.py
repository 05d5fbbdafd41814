"""Derivatives that functions bring with them, kept as deep as derivatives are taken.

The derivative that `with_vjp` gives may itself be of functions with derivatives of their own, for derivatives of
derivatives, and those of others again: of a solver in a library three quarters of the code.  Where a program takes
derivatives of order k, these are looked at k deep.

A scope that is differentiated k times is of order k: that of a function from outside of any derivative is of order 0,
that inside a `Vjp` or `Jvp` one more than what is around it, that of a function what the highest of its calls is.  In
a scope of order 0 a `WithVjp` or `WithJvp` is its function.  In one of order k it is differentiated once for each order
by the rules of `rules/custom.py`: reverse mode replaces a function by its `pull`, of which the derivatives that are
left are taken, and takes derivatives of the function itself, by what it saved, only in a derivative of that one.  So
both are of order k - 1.  Forward mode differentiates the function itself: where one is among the k, that is of order k.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from futad.core import ir
from futad.core.builder import Builder
from futad.legality import Legality

LEGAL = Legality(
    "customs-by-order", "derivatives that functions bring go where no derivative looks at them", fires=False
)
ORDER_ZERO = LEGAL.condition("not differentiated", "the function is differentiated where its derivative was given")

MOST = 8  # orders that are told apart
Order = tuple[float, bool]  # how often a scope is differentiated, and whether forward mode is among them
_NONE: Order = (0, False)


def customs_by_order(program: ir.Program) -> ir.Program:
    """The program without those derivatives of its functions at which no derivative that it takes looks."""
    if not any(f.body.has(ir.WithVjp, ir.WithJvp) for f in program.funs.values()):
        return program
    orders = _orders(program)
    funs = {}
    for name, f in program.funs.items():
        body = _kept(f.body, orders[name]) if name in orders else f.body
        same = body is f.body
        funs[name] = f if same else ir.Fun(f.name, body, f.num_sizes, f.ret, f.entry, f.attrs, f.span)
    return ir.Program(funs, program.name) if any(funs[n] is not f for n, f in program.funs.items()) else program


def _orders(program: ir.Program) -> dict[str, Order]:
    """The order of each function that an entry reaches; of all, if there is none."""
    found: dict[str, Order] = {}
    todo: list[str] = []

    def called(name: str, order: Order) -> None:
        before = found.get(name, (-1, False))
        k, forward = max(before[0], order[0]), before[1] or order[1]
        now = (math.inf if k > MOST else k, forward)
        if now != before:
            found[name] = now
            todo.append(name)

    for name, f in program.funs.items():
        if f.entry is not None or not any(g.entry is not None for g in program.funs.values()):
            called(name, _NONE)
    while todo:
        name = todo.pop()
        _visit(program.funs[name].body, found[name], called)
    return found


def _visit(lam: ir.Lambda, order: Order, called: Callable[[str, Order], None]) -> None:
    for s in lam.stms:
        if isinstance(s.exp, ir.Call):
            called(s.exp.name, order)
        for inner, inner_order in zip(s.exp.lambdas(), _inside(s.exp, order), strict=True):
            _visit(inner, inner_order, called)


def _inside(e: ir.Exp, order: Order) -> list[Order]:
    """The orders of an expression's scopes in a scope of that order."""
    k, forward = order
    less = (max(0, k - 1), forward)
    match e:
        case ir.Derivative():
            return [(k + 1, forward or isinstance(e, ir.Jvp)) for _ in e.lambdas()]
        case ir.WithVjp():
            assert list(e.lambdas()) == [e.lam, e.pull]
            return [order if forward else less, less]
    return [order for _ in e.lambdas()]


def _kept(lam: ir.Lambda, order: Order) -> ir.Lambda:
    """A scope of that order with what derivatives look at; the same object if that is all."""
    if not lam.has(ir.WithVjp, ir.WithJvp):
        return lam
    b = Builder()
    changed = False
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.WithVjp | ir.WithJvp) and ORDER_ZERO(order[0] == 0):
            results = b.inline(_kept(e.lam, order), e.args)
            b.extend([ir.Stm((v,), ir.Alias(a)) for v, a in zip(s.pat, results, strict=True)])
            changed = True
            continue
        kept = _scopes_kept(s, order)
        changed |= kept is not s
        b.add(kept)
    return ir.Lambda(lam.params, tuple(b.stms), lam.result) if changed else lam


def _scopes_kept(s: ir.Stm, order: Order) -> ir.Stm:
    """A statement of a scope of that order with what derivatives look at; the same object if that is all."""
    inside = iter(_inside(s.exp, order))
    return ir.map_scopes(s, lambda f: _kept(f, next(inside)))


__all__ = ["customs_by_order"]
