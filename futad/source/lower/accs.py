"""Lowering of accumulator streams: `scatter_stream`, `hist_stream` and `acc_write` of the module `intrinsics`.

Note [Accumulators in the source].  Its static value is a record of the array being written ('acc:') and how ('op:', a
function value that is never applied: its arguments are the operator and its neutral element, none for a scatter).
Updates that add go to an accumulator of core, opened around a parallel map.  Core has no accumulators with
other operators: those streams are sequential loops, in which the array is updated in place.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.operator import SUM, operators_of
from futad.core.types import I64, AccType, Atom, Const, Var, elem_of, shape_of
from futad.source.lower.arrays import fold_loop, index_row
from futad.source.lower.calls import Use, apply
from futad.source.lower.core import Lowerer, lam_of
from futad.source.lower.sizes import recast
from futad.source.lower.soacs import Args, as_array, operator, row_like, row_params
from futad.source.lower.values import Arr, Fn, Rec, Value, dims_of, inner, leaves, rebuild, scalar


def accumulator(lw: Lowerer, array: Value, how: tuple[Value, ...]) -> Rec:
    return Rec({"acc:": array, "op:": Fn("#accumulate", lw.root, how, None, 3)})


def array_of(v: Value) -> Arr:
    """The array (or core accumulators in its form) of an accumulator."""
    assert type(v) is Rec
    return as_array(v.fields["acc:"])


def do_scatter_stream(lw: Lowerer, args: Args, use: Use) -> Value:
    dest, f, array = args
    return one_by_one(lw, as_array(lw.owned(dest)), (), f, as_array(array), use)


def do_hist_stream(lw: Lowerer, args: Args, use: Use) -> Value:
    op, ne, f, array = args[1:]
    dest = as_array(lw.owned(args[0]))
    found = operators_of(operator(lw, op, row_like(dest), use))
    if found is not None and all(o == SUM for o in found):
        return in_parallel(lw, dest, f, as_array(array), use)
    return one_by_one(lw, dest, (op, ne), f, as_array(array), use)


def one_by_one(lw: Lowerer, dest: Arr, how: tuple[Value, ...], f: Value, array: Arr, use: Use) -> Value:
    def step(i: Atom, state: Value) -> Value:
        return apply(lw, f, (state, index_row(lw, array, i)), None, use.span)

    return array_of(fold_loop(lw, accumulator(lw, dest, how), array.dims[0], step))


def in_parallel(lw: Lowerer, dest: Arr, f: Value, array: Arr, use: Use) -> Value:
    """A map over the stream that threads core accumulators on the arrays of `dest`."""
    types = [AccType(elem_of(a.type), shape_of(a.type)) for a in leaves(dest)]
    opened, mine = [[Var("acc", t) for t in types] for _ in range(2)]
    row, params = row_params(array)
    outer = lw.new_scope(opened)
    with lw.within(outer):
        scope = lw.new_scope([*mine, *params])
        with lw.within(scope):
            state = accumulator(lw, rebuild(dest, iter(mine)), ())
            result = leaves(apply(lw, f, (state, row), None, use.span))
        lam = lam_of(scope, [*mine, *params], result)
        closed = lw.b.emit(ir.Map(array.dims[0], (*opened, *leaves(array)), lam), "acc")
    made = lw.b.emit(ir.WithAcc(tuple(leaves(dest)), "add", lam_of(outer, opened, closed)), "hist")
    return rebuild(dest, iter(made))


def do_write(lw: Lowerer, args: Args, use: Use) -> Value:
    """`acc_write acc i v`: the accumulator after that; a place that is not in the array is ignored."""
    acc, value = args[0], args[2]
    i = lw.b.convert(I64, scalar(args[1]))
    assert type(acc) is Rec
    dest = array_of(acc)
    value = recast(lw, value, dims_of(inner(dest)))
    how = acc.fields["op:"]
    assert type(how) is Fn
    targets, values = leaves(dest), leaves(value)
    made: list[Atom]
    if any(type(a.type) is AccType for a in targets):
        made = [lw.b.let(ir.UpdateAcc(a, (i,), v), "acc") for a, v in zip(targets, values, strict=True)]
    else:
        at = lw.b.let(ir.ArrayLit((i,), I64), "at")
        rows = tuple([lw.b.let(ir.ArrayLit((v,), v.type), "row") for v in values])
        exp: ir.Exp
        if how.args:
            op, ne = how.args
            row = row_like(dest)
            lam = operator(lw, op, row, use)
            neutral = tuple(leaves(recast(lw, ne, dims_of(row))))
            exp = ir.Hist(ONE, tuple(targets), (at,), rows, lam, neutral)
        else:
            exp = ir.Scatter(ONE, tuple(targets), (at,), rows)
        made = list(lw.b.emit(exp, "acc"))
    return Rec({"acc:": rebuild(dest, iter(made)), "op:": how})


ONE = Const(I64, 1)
