"""Lowering of functions with an inverse of their own, and of inverses of functions."""

from __future__ import annotations

from futad.core import ir
from futad.core.budget import PLACE
from futad.core.types import Var
from futad.source import ast
from futad.source.lower.calls import Use, apply
from futad.source.lower.core import Lowerer, lam_of
from futad.source.lower.sizes import bind_sizes, like, placed_sizes, recast, size_atom, zero_value
from futad.source.lower.soacs import derived, function
from futad.source.lower.values import Fn, Frame, Rec, Value, dims_of, leaves, rebuild, typed_vars
from futad.source.types import SType

Args = tuple[Value, ...]


def do_with_inverse(lw: Lowerer, args: Args, use: Use) -> Value:
    """`f x`, from which `back` makes x again."""
    f, inverse, x = args
    lam, v = function(lw, f, x, use)
    now, given = typed_vars(v, "res", dims_of(v))
    inside = lw.new_scope(given)
    with lw.within(inside):
        before = like(lw, apply(lw, inverse, (now,), None, use.span), x)
    back = lam_of(inside, given, leaves(before))
    made = lw.b.emit(ir.WithInverse(lam, back, tuple(leaves(x))), "y", attrs=((PLACE, use.span),))
    return rebuild(v, iter(made))


def do_invert(lw: Lowerer, args: Args, use: Use) -> Value:
    """The x with `f x = y`; it has the sizes of the type of f's parameter."""
    f, y = args
    x = _example(lw, y, use)
    params, v, scope = derived(lw, f, x, use)
    with lw.within(scope):
        v = recast(lw, v, dims_of(y))
    _named(f, rebuild(x, iter(params)))
    e = ir.Invert(lam_of(scope, params, leaves(v)), tuple(leaves(y)), lw.check_span(use.span))
    return rebuild(x, iter(lw.b.emit(e, "x", attrs=((PLACE, use.span),))))


def _example(lw: Lowerer, y: Value, use: Use) -> Value:
    """A value of the type of f's parameter.

    Raises UnsupportedError where a size of it is not known.
    """
    assert use.inst is not None
    types: dict[str, SType] = {b.name: t for b, t in use.inst.targs.items()}
    fr = Frame(use.inst.frame)
    bind_sizes(types["b"], y, fr)
    x = zero_value(lw, types["a"], fr)
    for place in placed_sizes(types["a"], x, fr):
        if place is None or size_atom(lw, *place) is None:
            raise lw.unsupported_error("`invert` of a function of arrays whose size its result does not tell", use.span)
    return x


def _named(f: Value, x: Value) -> None:
    """Give the leaves of f's argument the names that the program has for them: errors speak of them."""
    if type(f) is Fn and not isinstance(f.code, str) and len(f.args) < len(f.code.params):
        _named_by(f.code.params[len(f.args)], x)


def _named_by(p: ast.Pat, x: Value) -> None:
    if isinstance(p, ast.PAscript | ast.PAttr):
        _named_by(p.pat, x)
    elif isinstance(p, ast.PVar):
        for a in leaves(x):
            if isinstance(a, Var):
                a.name = p.name
    elif type(x) is Rec:
        parts = enumerate(p.elems) if isinstance(p, ast.PTuple) else p.fields if isinstance(p, ast.PRecord) else ()
        for name, part in parts:
            _named_by(part, x.fields[str(name)])
