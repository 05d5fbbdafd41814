"""Lowering of functions whose elements yield arrays of different sizes."""

from __future__ import annotations

from futad.core import ir
from futad.core.node import Range
from futad.core.types import FALSE, I64, TRUE, Atom, Const, Var, elem_of, i64, shape_of
from futad.source.lower.arrays import index_row
from futad.source.lower.calls import Use, apply
from futad.source.lower.core import Lowerer, lam_of
from futad.source.lower.scope import Scope
from futad.source.lower.sizes import outer_sizes, recast
from futad.source.lower.soacs import Args, as_array, elem_type, field_type, map_arrays, reduce_with
from futad.source.lower.values import (
    Arr,
    Leaf,
    Rec,
    Value,
    dims_of,
    inner,
    leaves,
    outer,
    rebuild,
    scalar,
    tuple_value,
    typed_vars,
)
from futad.source.types import SizeConst, TArray, TPrim, TRecord


def do_flatmap(lw: Lowerer, args: Args, use: Use) -> Value:
    """flatmap f as: the sizes, the flags, the offsets, the data, the uniform results.

    A map finds the sizes and the uniform results; a loop puts the pieces where the sizes before them say.
    """
    b = lw.b
    f, array = args[0], as_array(args[1])
    n = array.dims[0]
    seen: list[tuple[Arr, Scope]] = []

    def first(row: Value) -> Value:
        v = apply(lw, f, (row,), None, use.span)
        assert type(v) is Rec
        piece = as_array(v.fields["0"])
        seen.append((piece, lw.b))
        return tuple_value(Leaf(piece.dims[0]), v.fields["1"])

    rt = None
    uniform = elem_type(field_type(use.rt, "4"))
    if uniform is not None:
        pair = TRecord((("0", TPrim(I64)), ("1", uniform[0])))
        rt = (TArray(SizeConst(0), pair), uniform[1])
    both = map_arrays(lw, first, [array], rt)
    assert type(both.elem) is Rec
    sizes, rest = (as_array(outer((n,), v)) for v in both.elem.fields.values())
    piece, scope = seen[0]
    dims = outer_sizes(lw, inner(piece), scope, elem_type(field_type(use.rt, "3")))
    if any(d is None for d in dims):
        raise lw.unsupported_error("an array whose elements have sizes that vary", use.span)

    counts = leaves(sizes)[0]
    add = b.lambda_([("x", I64), ("y", I64)], lambda s, x, y: [s.op("add", x, y)])
    ends = b.let(ir.Scan(n, (counts,), add, (i64(0),)), "ends")
    offsets = b.zip_with(lambda s, e, k: s.op("sub", e, k), ends, counts, hint="offsets")
    m = scalar(reduce_with(lw, "add", counts, i64(0)))
    minus = Const(I64, -1)
    empty = lambda s, o, k: s.op("select", s.op("eq", k, i64(0)), minus, o)  # noqa: E731
    places = b.zip_with(empty, offsets, counts, hint="is")
    blank = b.let(ir.Replicate((m,), FALSE), "flags")
    trues = b.let(ir.Replicate((n,), TRUE), "trues")
    flags = b.let(ir.Scatter(n, (blank,), (places,), (trues,)), "flags")

    out, fresh = typed_vars(outer((m,), inner(piece)), "data", [m, *[d for d in dims if d is not None]])
    start = [b.let(ir.Scratch(elem_of(v.type), shape_of(v.type)), "scratch") for v in fresh]
    i = Var("i", I64)
    body = lw.new_scope([i, *fresh])
    with lw.within(body):
        result = [
            lw.b.let(ir.Update(d, (at,), x, None), "data")
            for d, (at, x) in zip(fresh, pieces(lw, f, array, offsets, i, dims, use), strict=True)
        ]
    data = b.emit(ir.For(n, tuple(start), lam_of(body, [i, *fresh], result)), "data")
    column = lambda a: Arr((n,), Leaf(a))  # noqa: E731
    return tuple_value(sizes, Arr((m,), Leaf(flags)), column(offsets), rebuild(out, iter(data)), rest)


def pieces(
    lw: Lowerer, f: Value, array: Arr, offsets: Atom, i: Var, dims: list[Atom | None], use: Use
) -> list[tuple[Range, Atom]]:
    """What element `i` contributes: for each core array the range it fills, and with what."""
    v = apply(lw, f, (index_row(lw, array, i),), None, use.span)
    assert type(v) is Rec
    piece = v.fields["0"]
    count, *own = dims_of(piece)
    piece = recast(lw, piece, [count, *[o if d is None else d for o, d in zip(own, dims, strict=True)]])
    at = Range(lw.b.at(offsets, i, check=None), count, i64(1))
    return [(at, a) for a in leaves(piece)]
