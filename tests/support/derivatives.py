"""Derivatives of a sample program as further functions of it, for the property tests."""

from __future__ import annotations

from futad.core import ir
from futad.core.types import Atom, Type, Var, subst_type


def _copy(fun: ir.Fun) -> tuple[ir.Lambda, tuple[Var, ...], tuple[Var, ...], dict[Var, Atom]]:
    """A renamed copy of a body over new sizes: (lambda of the values, sizes, values, renaming of all)."""
    r = ir.Renamer()
    sizes = tuple([r.bind(v) for v in fun.body.params[: fun.num_sizes]])
    inner = ir.Renamer(dict(r.mapping))
    values = tuple([r.bind(v) for v in fun.body.params[fun.num_sizes :]])
    params = tuple([inner.bind(v) for v in fun.body.params[fun.num_sizes :]])
    stms = tuple(inner.stms(fun.body.stms))
    lam = ir.Lambda(params, stms, tuple([inner.atom(a) for a in fun.body.result]))
    return lam, sizes, values, r.mapping


def _fresh(name: str, types: list[Type]) -> tuple[Var, ...]:
    return tuple([Var(name, t) for t in types])


def _returned(types: list[Type]) -> tuple[Var, ...]:
    return _fresh("r", types)


def with_vjp(fun: ir.Fun, name: str) -> ir.Fun:
    """`name(sizes, values, adjoints of results)`: results, then adjoints of values.

    The sizes of the results must be parameters or constants.
    """
    lam, sizes, values, mapping = _copy(fun)
    outs = [subst_type(r.type, mapping) for r in fun.body.result]
    adjoints = _fresh("bar", outs)
    pat = _fresh("y", outs) + _fresh("xbar", [v.type for v in values])
    body = ir.Lambda(sizes + values + adjoints, (ir.Stm(pat, ir.Vjp(lam, values, adjoints)),), pat)
    return ir.Fun(name, body, len(sizes), _returned([v.type for v in pat]))


def with_jvp(fun: ir.Fun, name: str) -> ir.Fun:
    """`name(sizes, values, tangents of values)`: results, then their tangents."""
    lam, sizes, values, mapping = _copy(fun)
    outs = [subst_type(r.type, mapping) for r in fun.body.result]
    tangents = _fresh("dot", [v.type for v in values])
    pat = _fresh("y", outs) + _fresh("ydot", outs)
    body = ir.Lambda(sizes + values + tangents, (ir.Stm(pat, ir.Jvp(lam, values, tangents)),), pat)
    return ir.Fun(name, body, len(sizes), _returned([v.type for v in pat]))
