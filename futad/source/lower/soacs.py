"""Lowering of the second-order array functions and of differentiation operators."""

from __future__ import annotations

from collections.abc import Callable

from futad.core import ir
from futad.core.budget import PLACE
from futad.core.types import BOOL, I64, Atom, Const, Var, elem_of, i64, row_type, shape_of
from futad.source.lower.calls import Use, apply
from futad.source.lower.core import Lowerer, TypeAt, lam_of
from futad.source.lower.scope import Scope
from futad.source.lower.sizes import head, like, outer_sizes, recast
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
from futad.source.types import TArray, TRecord

Args = tuple[Value, ...]


def as_array(v: Value) -> Arr:
    assert type(v) is Arr, v
    return v


def same_width(lw: Lowerer, arrays: list[Arr]) -> list[Arr]:
    """The arrays with the outer size atom of the first one."""
    n = arrays[0].dims[0]
    return [as_array(recast(lw, a, [n, *dims_of(a)[1:]])) for a in arrays]


def row_params(v: Arr) -> tuple[Value, list[Var]]:
    """Fresh variables for one element of an array, and the element's value."""
    params = [Var("x", row_type(a.type)) for a in leaves(v)]
    return rebuild(inner(v), iter(params)), params


def elem_type(rt: TypeAt | None) -> TypeAt | None:
    """The element type of an array type."""
    if rt is None:
        return None
    t, fr = head(*rt)
    return (t.elem, fr) if type(t) is TArray else None


def field_type(rt: TypeAt | None, name: str) -> TypeAt | None:
    if rt is None:
        return None
    t, fr = head(*rt)
    if type(t) is not TRecord:
        return None
    return next(((f, fr) for n, f in t.fields if n == name), None)


def regular(lw: Lowerer, v: Value, scope: Scope, rt: TypeAt | None) -> Value:
    """`v`, made in `scope` (still current), with sizes of the enclosing scope."""
    assert scope.parent is not None
    with lw.within(scope.parent):
        known = outer_sizes(lw, v, scope, rt)
    if any(k is None for k in known):
        raise lw.unsupported_error("an array whose elements have sizes that vary")
    return recast(lw, v, [k for k in known if k is not None])


# --- map ------------------------------------------------------------------------------------------------


def map_arrays(lw: Lowerer, f: Callable[..., Value], arrays: list[Arr], rt: TypeAt | None) -> Arr:
    """`map` of a Python function from element values to a value; `rt` the type of the result."""
    arrays = same_width(lw, arrays)
    width = arrays[0].dims[0]
    rows, params = [], []
    for a in arrays:
        row, ps = row_params(a)
        rows.append(row)
        params += ps
    inputs: list[Atom] = [x for a in arrays for x in leaves(a)]
    scope = lw.new_scope(params)
    with lw.within(scope):
        v = regular(lw, f(*rows), scope, elem_type(rt))
    results = leaves(v)
    if not scope.stms:
        # Nothing is computed: each result is an input, or the same for all elements.
        whole = dict(zip(params, inputs, strict=True))
        made = []
        for r in results:
            exp = ir.Copy(whole[r]) if type(r) is Var and r in whole else ir.Replicate((width,), r)
            made.append(lw.b.let(exp, "rep"))
        return outer((width,), rebuild(v, iter(made)))
    if not inputs:
        params = [Var("i", I64)]
        inputs = [lw.b.let(ir.Iota(width, i64(0), i64(1)), "is")]
    lam = lam_of(scope, params, results)
    made = list(lw.b.emit(ir.Map(width, tuple(inputs), lam), "m"))
    return outer((width,), rebuild(v, iter(made)))


def do_map(lw: Lowerer, args: Args, use: Use) -> Value:
    """map, map1, ... map5: a function and its arrays."""
    f, arrays = args[0], [as_array(a) for a in args[1:]]
    inside = elem_type(use.rt)
    return map_arrays(lw, lambda *rows: apply(lw, f, rows, inside, use.span), arrays, use.rt)


def counted(lw: Lowerer, n: Atom) -> Arr:
    """0, ..., n-1."""
    return Arr((n,), Leaf(lw.b.let(ir.Iota(n, i64(0), i64(1)), "is")))


def do_tabulate(lw: Lowerer, args: Args, use: Use) -> Value:
    """tabulate, tabulate_2d, tabulate_3d."""
    sizes, f = [lw.b.convert(I64, scalar(a)) for a in args[:-1]], args[-1]

    def level(k: int, done: tuple[Value, ...], rt: TypeAt | None) -> Value:
        if k == len(sizes):
            return apply(lw, f, done, rt, use.span)
        lw.require_size(sizes[k], use.span)
        inside = elem_type(rt)
        return map_arrays(lw, lambda i: level(k + 1, (*done, i), inside), [counted(lw, sizes[k])], rt)

    return level(0, (), use.rt)


# --- reduce, scan, hist ---------------------------------------------------------------------------------


def operator(lw: Lowerer, f: Value, like_row: Value, use: Use) -> ir.Lambda:
    """The lambda of a binary operator over element values shaped like `like_row`."""
    dims = dims_of(like_row)
    x, xs = typed_vars(like_row, "x", dims)
    y, ys = typed_vars(like_row, "y", dims)
    scope = lw.new_scope(xs + ys)
    with lw.within(scope):
        v = apply(lw, f, (x, y), None, use.span)
        result = leaves(like(lw, v, like_row))
    return lam_of(scope, xs + ys, result)


def row_like(v: Arr) -> Value:
    """A value with the structure and types of an element of the array (its leaves are placeholders)."""
    return row_params(v)[0]


def folded(lw: Lowerer, args: Args, use: Use) -> tuple[Arr, ir.Lambda, ir.Atoms]:
    f, neutral, array = args[0], args[1], as_array(args[2])
    row = row_like(array)
    ne = like(lw, neutral, row)
    return array, operator(lw, f, row, use), tuple(leaves(ne))


def do_reduce(comm: bool) -> Callable[[Lowerer, Args, Use], Value]:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        array, lam, ne = folded(lw, args, use)
        made = lw.b.emit(ir.Reduce(array.dims[0], tuple(leaves(array)), lam, ne, comm), "red")
        return rebuild(inner(array), iter(made))

    return go


def do_scan(lw: Lowerer, args: Args, use: Use) -> Value:
    array, lam, ne = folded(lw, args, use)
    made = lw.b.emit(ir.Scan(array.dims[0], tuple(leaves(array)), lam, ne), "scan")
    return rebuild(array, iter(made))


def do_exscan(lw: Lowerer, args: Args, use: Use) -> Value:
    """The inclusive scan moved up by one, the neutral element first."""
    array, lam, ne = folded(lw, args, use)
    n = array.dims[0]
    sums = lw.b.emit(ir.Scan(n, tuple(leaves(array)), lam, ne), "scan")
    start = [lw.b.let(ir.Replicate((n,), a), "ne") for a in ne]
    places = lw.b.let(ir.Iota(n, i64(1), i64(1)), "is")
    made = lw.b.emit(ir.Scatter(n, tuple(start), (places,), sums), "exscan")
    return rebuild(array, iter(made))


def do_any(name: str) -> Callable[[Lowerer, Args, Use], Value]:
    """any (or), all (and): map the predicate and reduce."""
    neutral = Const(BOOL, name == "and")

    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        flags = map_arrays(lw, lambda x: apply(lw, args[0], (x,), None, use.span), [as_array(args[1])], None)
        return reduce_with(lw, name, leaves(flags)[0], neutral)

    return go


def reduce_with(lw: Lowerer, name: str, array: Atom, neutral: Const) -> Value:
    """The reduction of a core array by a scalar operation."""
    lam = lw.b.lambda_([("x", neutral.type), ("y", neutral.type)], lambda b, x, y: [b.op(name, x, y)])
    return Leaf(lw.b.let(ir.Reduce(shape_of(array.type)[0], (array,), lam, (neutral,), True), "red"))


def do_and_or(name: str) -> Callable[[Lowerer, Args, Use], Value]:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        return reduce_with(lw, name, leaves(args[0])[0], Const(BOOL, name == "and"))

    return go


def histogram(lw: Lowerer, dest: Arr, args: Args, rank: int, use: Use) -> Value:
    """`args`: operator, neutral element, bins, values."""
    f, ne = args[0], args[1]
    where, values = same_width(lw, [as_array(args[2]), as_array(args[3])])
    row = row_like(values)
    dest = as_array(recast(lw, dest, [*dest.dims[:rank], *dims_of(row)]))
    lam = operator(lw, f, row, use)
    neutral = tuple(leaves(like(lw, ne, row)))
    bins = tuple(leaves(where))
    hist = ir.Hist(where.dims[0], tuple(leaves(dest)), bins, tuple(leaves(values)), lam, neutral)
    return rebuild(dest, iter(lw.b.emit(hist, "hist")))


def do_reduce_by_index(rank: int) -> Callable[[Lowerer, Args, Use], Value]:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        return histogram(lw, as_array(lw.owned(args[0])), args[1:], rank, use)

    return go


def do_hist(lw: Lowerer, args: Args, use: Use) -> Value:
    f, ne, k, where, values = args
    dest = replicate(lw, lw.b.convert(I64, scalar(k)), ne)
    return histogram(lw, dest, (f, ne, where, values), 1, use)


def replicate(lw: Lowerer, n: Atom, v: Value) -> Arr:
    made = [lw.b.let(ir.Replicate((n,), a), "rep") for a in leaves(v)]
    return outer((n,), rebuild(v, iter(made)))


def do_scatter(rank: int) -> Callable[[Lowerer, Args, Use], Value]:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        dest = as_array(lw.owned(args[0]))
        where, values = same_width(lw, [as_array(args[1]), as_array(args[2])])
        return scattered(lw, dest, where, values, rank)

    return go


def scattered(lw: Lowerer, dest: Arr, where: Arr, values: Arr, rank: int) -> Value:
    values = as_array(recast(lw, values, [where.dims[0], *dims_of(dest)[rank:]]))
    exp = ir.Scatter(where.dims[0], tuple(leaves(dest)), tuple(leaves(where)), tuple(leaves(values)))
    return rebuild(dest, iter(lw.b.emit(exp, "scat")))


def do_spread(lw: Lowerer, args: Args, use: Use) -> Value:
    k, x, where, values = args
    where_, values_ = same_width(lw, [as_array(where), as_array(values)])
    return scattered(lw, replicate(lw, lw.b.convert(I64, scalar(k)), x), where_, values_, 1)


# --- filter and partition -------------------------------------------------------------------------------


def compact(lw: Lowerer, array: Arr, flags: Atom) -> tuple[Atom, Arr]:
    """The elements where the bool array holds, in order, and how many there are."""
    b = lw.b
    n = array.dims[0]
    ones = b.zip_with(lambda s, f: s.op("to_i64", f), flags, hint="ones")
    add = b.lambda_([("x", I64), ("y", I64)], lambda s, x, y: [s.op("add", x, y)])
    ends = b.let(ir.Scan(n, (ones,), add, (i64(0),)), "ends")
    empty = b.scalar("eq", n, i64(0))
    last = b.body(lambda s: [s.at(ends, s.op("sub", n, i64(1)))])
    count = b.let(ir.If(empty, b.body(lambda s: [i64(0)]), last), "n")
    minus = Const(I64, -1)
    pick = lambda s, f, e: s.op("select", f, s.op("add", e, minus), minus)  # noqa: E731
    places = b.zip_with(pick, flags, ends, hint="is")
    dims = [count, *dims_of(array)[1:]]
    out, fresh = typed_vars(array, "kept", dims)
    start = [b.let(ir.Scratch(elem_of(v.type), shape_of(v.type)), "scratch") for v in fresh]
    made = b.emit(ir.Scatter(n, tuple(start), (places,), tuple(leaves(array))), "kept")
    return count, as_array(rebuild(out, iter(made)))


def flags_of(lw: Lowerer, p: Value, array: Arr, use: Use) -> Atom:
    v = map_arrays(lw, lambda x: apply(lw, p, (x,), None, use.span), [array], None)
    return leaves(v)[0]


def do_filter(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[1])
    return compact(lw, array, flags_of(lw, args[0], array, use))[1]


def do_partition(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[1])
    flags = flags_of(lw, args[0], array, use)
    _, yes = compact(lw, array, flags)
    no = compact(lw, array, lw.b.zip_with(lambda s, f: s.op("not", f), flags, hint="no"))[1]
    rest = lw.b.scalar("sub", array.dims[0], yes.dims[0])
    return tuple_value(yes, recast(lw, no, [rest, *dims_of(no)[1:]]))


def do_partition2(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[2])
    b = lw.b
    first = flags_of(lw, args[0], array, use)
    other = flags_of(lw, args[1], array, use)
    second = b.zip_with(lambda s, f, g: s.op("and", s.op("not", f), g), first, other, hint="snd")
    third = b.zip_with(lambda s, f, g: s.op("not", s.op("or", f, g)), first, second, hint="trd")
    parts = [compact(lw, array, flags)[1] for flags in (first, second, third)]
    n = array.dims[0]
    rest = b.scalar("sub", b.scalar("sub", n, parts[0].dims[0]), parts[1].dims[0])
    parts[2] = as_array(recast(lw, parts[2], [rest, *dims_of(parts[2])[1:]]))
    return tuple_value(*parts)


# --- differentiation ------------------------------------------------------------------------------------


def derived(lw: Lowerer, f: Value, x: Value, use: Use) -> tuple[list[Var], Value, Scope]:
    """`f` over fresh leaves like those of `x`: the parameters, and the result as it is inside."""
    point, params = typed_vars(x, "x", dims_of(x))
    scope = lw.new_scope(params)
    with lw.within(scope):
        v = apply(lw, f, (point,), None, use.span)
    return params, v, scope


def jvp_of(
    lw: Lowerer, f: Value, x: Value, dx: Value, rt: TypeAt | None, use: Use, many: tuple[Atom, ...] = ()
) -> tuple[Value, Value]:
    """Result and tangent; with `many`, a number of directions, the tangents are arrays of so many."""
    params, v, scope = derived(lw, f, x, use)
    with lw.within(scope):
        v = regular(lw, v, scope, rt)
    lam = lam_of(scope, params, leaves(v))
    given = recast(lw, dx, [*many, *dims_of(x)])
    attrs = ((PLACE, use.span),)
    made = lw.b.emit(ir.Jvp(lam, tuple(leaves(x)), tuple(leaves(given)), many), "y", attrs=attrs)
    k = len(leaves(v))
    return rebuild(v, iter(made[:k])), directed(many, rebuild(v, iter(made[k:])))


def vjp_of(
    lw: Lowerer, f: Value, x: Value, dy: Value, use: Use, many: tuple[Atom, ...] = ()
) -> tuple[Value, Value]:
    """Result and adjoint of the argument; the result has the sizes of its adjoint.  `many` as in `jvp_of`."""
    params, v, scope = derived(lw, f, x, use)
    with lw.within(scope):
        v = recast(lw, v, dims_of(dy)[len(many) :])
    lam = lam_of(scope, params, leaves(v))
    made = lw.b.emit(ir.Vjp(lam, tuple(leaves(x)), tuple(leaves(dy)), many), "y")
    k = len(leaves(v))
    return rebuild(v, iter(made[:k])), directed(many, rebuild(x, iter(made[k:])))


def directed(many: tuple[Atom, ...], v: Value) -> Value:
    """The array of directions whose leaves are those of `v`."""
    return outer(many, v) if many else v


def do_jvp(both: bool, many: bool = False) -> Callable[[Lowerer, Args, Use], Value]:
    """`jvp`, `jvp2`; with `many` `jmp`, `jmp2`."""

    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        rt = field_type(use.rt, "1") if both else use.rt
        dirs = as_array(args[2]).dims[:1] if many else ()
        y, dy = jvp_of(lw, args[0], args[1], args[2], elem_type(rt) if many else rt, use, dirs)
        return tuple_value(y, dy) if both else dy

    return go


def do_vjp(both: bool, many: bool = False) -> Callable[[Lowerer, Args, Use], Value]:
    """`vjp`, `vjp2`; with `many` `mjp`, `mjp2`."""

    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        dirs = as_array(args[2]).dims[:1] if many else ()
        y, dx = vjp_of(lw, args[0], args[1], args[2], use, dirs)
        return tuple_value(y, dx) if both else dx

    return go


def do_with_vjp(lw: Lowerer, args: Args, use: Use) -> Value:
    """`f x`, whose reverse-mode derivative is `f' (f x)`."""
    f, pull, x = args
    return custom(lw, f, x, use, lambda v: v, lambda v, dy: apply(lw, pull, (v, dy), None, use.span))


def do_with_vjp_tape(lw: Lowerer, args: Args, use: Use) -> Value:
    """`(f x).1`, whose reverse-mode derivative is `f'` of `(f x).0` and the adjoint."""
    f, pull, x = args

    def back(v: Value, dy: Value) -> Value:
        assert type(v) is Rec
        return apply(lw, pull, (tuple_value(v.fields["0"], dy),), None, use.span)

    def shown(v: Value) -> Value:
        assert type(v) is Rec
        return v.fields["1"]

    return custom(lw, f, x, use, shown, back)


def custom(
    lw: Lowerer, f: Value, x: Value, use: Use, shown: Callable[[Value], Value], pull: Callable[[Value, Value], Value]
) -> Value:
    """The part `shown` of `f x`, with the derivative `pull` from all of `f x` and the adjoint of that part."""
    lam, v = function(lw, f, x, use)
    now, given = typed_vars(v, "res", dims_of(v))
    dy, adjoints = typed_vars(shown(v), "adj", dims_of(shown(v)))
    inside = lw.new_scope(given + adjoints)
    with lw.within(inside):
        dx = like(lw, pull(now, dy), x)
    back = lam_of(inside, given + adjoints, leaves(dx))
    made = lw.b.emit(ir.WithVjp(lam, back, tuple(leaves(x))), "y")
    return shown(rebuild(v, iter(made)))


def function(lw: Lowerer, f: Value, x: Value, use: Use) -> tuple[ir.Lambda, Value]:
    """`f` over leaves like those of `x`, and its result, of sizes known outside."""
    params, v, scope = derived(lw, f, x, use)
    with lw.within(scope):
        v = regular(lw, v, scope, None)
    return lam_of(scope, params, leaves(v)), v
