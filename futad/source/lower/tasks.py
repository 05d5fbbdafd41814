"""Lowering of `par`."""

from __future__ import annotations

from futad.core import ir
from futad.core.types import I64, Atom, Var
from futad.source.lower.calls import Use, apply
from futad.source.lower.core import Lowerer, lam_of
from futad.source.lower.sizes import outer_sizes, recast
from futad.source.lower.values import Rec, Value, dims_of, leaves, typed_vars

Args = tuple[Value, ...]


def do_par(lw: Lowerer, args: Args, use: Use) -> Value:
    """`(f x, g y)`, both at once.  Sizes that are not known outside are results, before the values."""
    f, g, xy = args
    assert type(xy) is Rec
    pat: list[Var] = []
    lams: list[ir.Lambda] = []
    values: list[Value] = []
    for function, x in ((f, xy.fields["0"]), (g, xy.fields["1"])):
        scope = lw.new_scope()
        with lw.within(scope):
            v = apply(lw, function, (x,), None, use.span)
        own = dims_of(v)
        outside = outer_sizes(lw, v, scope, None)
        unknown = {d: Var("n", I64) for d, known in zip(own, outside, strict=True) if known is None}
        dims: list[Atom] = [unknown[d] if k is None else k for k, d in zip(outside, own, strict=True)]
        with lw.within(scope):
            inside = recast(lw, v, [d if k is None else k for k, d in zip(outside, own, strict=True)])
        made, fresh = typed_vars(v, "p", dims)
        pat += [*unknown.values(), *fresh]
        lams.append(lam_of(scope, (), [*unknown, *leaves(inside)]))
        values.append(made)
    lw.b.emit_pat(tuple(pat), ir.Par(*lams))
    return Rec({"0": values[0], "1": values[1]})


__all__ = ["do_par"]
