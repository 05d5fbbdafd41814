"""Lowering of the first-order array functions."""

from __future__ import annotations

from collections.abc import Callable

from futad.core import ir
from futad.core.node import Range
from futad.core.types import BOOL, I64, MOST_SHOWN, TRUE, Atom, Const, Var, i64, shape_of
from futad.errors import OUT_OF_BOUNDS
from futad.source.lower.attributes import trace
from futad.source.lower.calls import Use, apply
from futad.source.lower.core import Lowerer, lam_of
from futad.source.lower.expr import Slot, index_value, resolve_slots
from futad.source.lower.sizes import MOST_ELEMENTS, like, placed_sizes, recast, require_room, size_atom
from futad.source.lower.soacs import as_array, replicate, same_width
from futad.source.lower.values import (
    Arr,
    Leaf,
    Rec,
    Value,
    dims_of,
    leaves,
    outer,
    rebuild,
    scalar,
    tuple_value,
    typed_vars,
)

Args = tuple[Value, ...]
Handler = Callable[[Lowerer, Args, Use], Value]


def size_arg(lw: Lowerer, v: Value) -> Atom:
    return lw.b.convert(I64, scalar(v))


def result_sizes(lw: Lowerer, use: Use, v: Value, count: int) -> list[Atom | None]:
    """The first `count` sizes that the type of the application gives its result."""
    if use.rt is None:
        return [None] * count
    places = placed_sizes(use.rt[0], v, use.rt[1])[:count]
    return [None if p is None else size_atom(lw, *p) for p in places]


def instance_size(lw: Lowerer, use: Use, name: str) -> Atom | None:
    """The size that the use of the function gives its size parameter of that name."""
    if use.inst is None:
        return None
    for b, s in use.inst.sargs.items():
        if b.name == name:
            return size_atom(lw, s, use.inst.frame)
    return None


def do_length(lw: Lowerer, args: Args, use: Use) -> Value:
    return Leaf(as_array(args[0]).dims[0])


def do_argsort_below(lw: Lowerer, args: Args, use: Use) -> Value:
    bound, keys = size_arg(lw, args[0]), as_array(args[1])
    positive = lw.b.scalar("lt", i64(0), bound)
    if not isinstance(positive, Const):
        lw.b.emit(ir.Assert(positive, "the bound of the keys is {}, and has to be positive", (bound,), use.span))
    (key,) = leaves(keys)
    (digits,) = lw.b.map_(lambda b, k: (b.op("mod", k, bound),), key, hint="digits")
    return Arr(keys.dims, Leaf(lw.b.let(ir.ArgSort(digits, bound), "order")))


def do_null(lw: Lowerer, args: Args, use: Use) -> Value:
    return Leaf(lw.b.scalar("eq", as_array(args[0]).dims[0], i64(0)))


def do_iota(lw: Lowerer, args: Args, use: Use) -> Value:
    n = size_arg(lw, args[0])
    lw.require_size(n, use.span)
    return Arr((n,), Leaf(lw.b.let(ir.Iota(n, i64(0), i64(1)), "iota")))


def do_indices(lw: Lowerer, args: Args, use: Use) -> Value:
    n = as_array(args[0]).dims[0]
    return Arr((n,), Leaf(lw.b.let(ir.Iota(n, i64(0), i64(1)), "iota")))


def do_replicate(lw: Lowerer, args: Args, use: Use) -> Value:
    n = size_arg(lw, args[0])
    lw.require_size(n, use.span)
    return replicate(lw, n, args[1])


def do_rep(lw: Lowerer, args: Args, use: Use) -> Value:
    n = instance_size(lw, use, "n")
    if n is None:
        (n,) = result_sizes(lw, use, outer((i64(0),), args[0]), 1)
    if n is None:
        raise lw.unsupported_error("rep where its size is not known", use.span)
    return replicate(lw, n, args[0])


def section(lw: Lowerer, array: Arr, start: Atom, count: Atom, stride: Atom) -> Value:
    """A part of the outer dimension, known to be inside."""
    made = [lw.b.at(a, Range(start, count, stride), hint="part") for a in leaves(array)]
    return rebuild(Arr((count, *array.dims[1:]), array.elem), iter(made))


def do_take(lw: Lowerer, args: Args, use: Use) -> Value:
    n, array = size_arg(lw, args[0]), as_array(args[1])
    fits(lw, n, array, use)
    return section(lw, array, i64(0), n, i64(1))


def fits(lw: Lowerer, n: Atom, array: Arr, use: Use, part: str = "0:{}") -> None:
    """0 <= n <= length; `part` is what messages show of the slice."""
    width = array.dims[0]
    if lw.check_span(use.span) is None or n is width:
        return
    ok = lw.b.scalar("and", lw.b.scalar("le", i64(0), n), lw.b.scalar("le", n, width))
    lw.b.emit(ir.Assert(ok, OUT_OF_BOUNDS.replace("{}", part, 1), (n, width), use.span))


def do_drop(lw: Lowerer, args: Args, use: Use) -> Value:
    n, array = size_arg(lw, args[0]), as_array(args[1])
    fits(lw, n, array, use, "{}:")
    return section(lw, array, n, lw.b.scalar("sub", array.dims[0], n), i64(1))


def do_split(lw: Lowerer, args: Args, use: Use) -> Value:
    """`split (xs: [n + m]t): ([n]t, [m]t)`; with two arguments the first is n."""
    array = as_array(args[-1])
    n = size_arg(lw, args[0]) if len(args) == 2 else instance_size(lw, use, "n")
    if n is None:
        n = result_sizes(lw, use, tuple_value(array, array), 1)[0]
    if n is None:
        raise lw.unsupported_error("split where its sizes are not known", use.span)
    fits(lw, n, array, use)
    rest = lw.b.scalar("sub", array.dims[0], n)
    first, second = section(lw, array, i64(0), n, i64(1)), section(lw, array, n, rest, i64(1))
    m = instance_size(lw, use, "m") if len(args) == 1 else None
    if m is not None:
        second = recast(lw, second, [m, *dims_of(second)[1:]])
    return tuple_value(first, second)


def do_head(lw: Lowerer, args: Args, use: Use) -> Value:
    return element(lw, as_array(args[0]), i64(0), use)


def do_last(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[0])
    return element(lw, array, lw.b.scalar("sub", array.dims[0], i64(1)), use)


def element(lw: Lowerer, array: Arr, i: Atom, use: Use) -> Value:

    return index_value(lw, array, [i], lw.check_span(use.span))


def not_empty(lw: Lowerer, array: Arr, use: Use, part: str) -> None:
    """An empty array has no element to leave out."""
    if lw.check_span(use.span) is not None:
        ok = lw.b.scalar("lt", i64(0), array.dims[0])
        lw.b.emit(ir.Assert(ok, OUT_OF_BOUNDS.replace("{}", part, 1), (array.dims[0],), use.span))


def do_tail(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[0])
    not_empty(lw, array, use, "1:")
    return section(lw, array, i64(1), lw.b.scalar("sub", array.dims[0], i64(1)), i64(1))


def do_init(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[0])
    not_empty(lw, array, use, "0:-1")
    return section(lw, array, i64(0), lw.b.scalar("sub", array.dims[0], i64(1)), i64(1))


def do_reverse(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[0])
    n = array.dims[0]
    return section(lw, array, lw.b.scalar("sub", n, i64(1)), n, i64(-1))


def do_concat(lw: Lowerer, args: Args, use: Use) -> Value:
    x, y = as_array(args[0]), as_array(args[1])
    y = as_array(recast(lw, y, [y.dims[0], *dims_of(x)[1:]]))
    size = lw.b.scalar("add", x.dims[0], y.dims[0])
    if lw.check_span(use.span) is not None and not (_is_short(lw, x) and _is_short(lw, y)):
        fits = lw.b.scalar("le", x.dims[0], lw.b.scalar("sub", i64((1 << 63) - 1), y.dims[0]))
        message = "an array of {} and {} elements has more than an array can have"
        lw.b.emit(ir.Assert(fits, message, (x.dims[0], y.dims[0]), use.span))
    made = [lw.b.let(ir.Concat((a, c), size), "cat") for a, c in zip(leaves(x), leaves(y), strict=True)]
    return rebuild(Arr((size, *x.dims[1:]), x.elem), iter(made))


def _is_short(lw: Lowerer, array: Arr) -> bool:
    """Whether an array has far fewer than 2^63 elements: by its size, or as a part of one that has."""
    return _is_small(lw, array.dims[0]) or any(_is_part(lw, a) for a in leaves(array))


def _is_part(lw: Lowerer, a: Atom) -> bool:
    """Whether an array shares its elements with one whose sizes are known to be small."""
    while True:
        match lw.b.definition(a):
            case ir.Copy(b) | ir.Alias(b):
                a = b
            case ir.At(b, (Range(_, _, stride), *_)) if type(stride) is Const and stride.value != 0:
                a = b
            case _:
                return all(_is_small(lw, n) for n in shape_of(a.type))


def _is_small(lw: Lowerer, size: Atom, depth: int = 4) -> bool:
    """Whether a size is known to be far below 2^63: a constant, that of what is in memory, or little more."""
    if type(size) is Const:
        return abs(size.value) < MOST_ELEMENTS
    match lw.b.definition(size):
        case ir.Op("add" | "sub" | "min" | "max", args) if depth:
            return all(_is_small(lw, a, depth - 1) for a in args)
    return size in lw.stored_sizes


def do_rotate(lw: Lowerer, args: Args, use: Use) -> Value:
    """rotate r a: element i is a[(i + r) mod n]."""
    r, array = size_arg(lw, args[0]), as_array(args[1])
    b, n = lw.b, array.dims[0]
    cut = b.op("mod", r, b.scalar("max", n, i64(1)), hint="cut")
    rest = b.scalar("sub", n, cut)
    back, front = section(lw, array, cut, rest, i64(1)), section(lw, array, i64(0), cut, i64(1))
    made = [b.let(ir.Concat((x, y), n), "rot") for x, y in zip(leaves(back), leaves(front), strict=True)]
    return rebuild(array, iter(made))


def do_transpose(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[0])
    made = []
    for a in leaves(array):
        rank = len(shape_of(a.type))
        made.append(lw.b.let(ir.Rearrange(a, (1, 0, *range(2, rank))), "tr"))
    return rebuild(Arr((array.dims[1], array.dims[0], *array.dims[2:]), array.elem), iter(made))


def reshape(lw: Lowerer, array: Arr, old: int, new: tuple[Atom, ...]) -> Value:
    """The first `old` dimensions replaced by `new`."""
    made = []
    for a in leaves(array):
        made.append(lw.b.let(ir.Reshape(a, new + shape_of(a.type)[old:]), "shaped"))
    return rebuild(Arr(new + array.dims[old:], array.elem), iter(made))


def _in_memory(lw: Lowerer, a: Atom) -> bool:
    """Whether an array is known to be there: one that only its elements are asked of may never be made."""
    while True:
        match lw.b.definition(a):
            case None:
                return True
            case ir.Copy(b):
                a = b
            case e if not e.views():
                return False
            case e:
                a = e.views()[0]


def do_flatten(rank: int) -> Handler:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        array = as_array(args[0])
        n: Atom = i64(1)
        for d in array.dims[:rank]:
            n = lw.b.scalar("mul", n, d, hint="size")
        if lw.check_span(use.span) is not None and not all(_in_memory(lw, a) for a in leaves(array)):
            require_room(lw, array.dims[:rank], use.span)
        return reshape(lw, array, rank, (n,))

    return go


def do_unflatten(rank: int) -> Handler:
    """The new sizes come from the type: `unflatten (xs: [n * m]t): [n][m]t`; or from arguments before it."""
    names = ("n", "m", "l", "k")

    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        array = as_array(args[-1])
        want: list[Atom | None]
        if len(args) > 1:
            want = [size_arg(lw, a) for a in args[:-1]]
        else:
            tree = Arr((i64(0),) * rank + array.dims[1:], array.elem)
            want = result_sizes(lw, use, tree, rank)
            for i in range(rank):
                if want[i] is None:
                    want[i] = instance_size(lw, use, names[i])
        new = [w for w in want if w is not None]
        if len(new) < rank:
            raise lw.unsupported_error("unflatten where the new sizes are not known", use.span)
        total: Atom = i64(1)
        for w in new:
            total = lw.b.scalar("mul", total, w, hint="size")
        if lw.check_span(use.span) is not None:
            ok: Atom = TRUE if total is array.dims[0] else lw.b.scalar("eq", total, array.dims[0])
            for w in new:
                fits_here = lw.b.scalar("le", i64(0), w)
                ok = fits_here if ok is TRUE else ok if fits_here is TRUE else lw.b.scalar("and", ok, fits_here)
            shown = (array.dims[0], *new)[: MOST_SHOWN]
            message = "Cannot unflatten array of shape [{}] to array of shape " + "[{}]" * (len(shown) - 1)
            if ok is not TRUE:
                message += "[...]" * (rank + 1 - len(shown))
                lw.b.emit(ir.Assert(ok, message, shown, use.span))
            if lw.checked_here(*new):
                require_room(lw, new, use.span)  # else a product that wraps around may be a smaller array's size
        return reshape(lw, array, 1, tuple(new))

    return go


def do_copy(lw: Lowerer, args: Args, use: Use) -> Value:
    def one(a: Atom) -> Atom:
        return lw.b.let(ir.Copy(a), "copy") if shape_of(a.type) else a

    return rebuild(args[0], iter([one(a) for a in leaves(args[0])]))


def do_sized(lw: Lowerer, args: Args, use: Use) -> Value:
    """`sized n xs`: xs, checked to have n elements."""
    n, array = size_arg(lw, args[0]), as_array(args[1])
    return recast(lw, array, [n, *dims_of(array)[1:]], lw.check_span(use.span))


# --- zip, unzip -----------------------------------------------------------------------------------------


def do_zip(lw: Lowerer, args: Args, use: Use) -> Value:
    """Free: an array of tuples is a tuple of arrays."""
    arrays = same_width(lw, [as_array(a) for a in args])
    n = arrays[0].dims[0]
    lw.borrowed.update(x for a in arrays for x in leaves(a))
    elems: list[Value] = [Arr(a.dims[1:], a.elem) if len(a.dims) > 1 else a.elem for a in arrays]
    return Arr((n,), Rec({str(i): e for i, e in enumerate(elems)}))


def do_unzip(lw: Lowerer, args: Args, use: Use) -> Value:
    array = as_array(args[0])
    assert type(array.elem) is Rec
    return Rec({n: outer(array.dims, f) for n, f in array.elem.fields.items()})


# --- functions of functions -----------------------------------------------------------------------------


def do_pipe(lw: Lowerer, args: Args, use: Use) -> Value:
    return apply(lw, args[1], (args[0],), use.rt, use.span)


def do_back_pipe(lw: Lowerer, args: Args, use: Use) -> Value:
    return apply(lw, args[0], (args[1],), use.rt, use.span)


def do_compose(lw: Lowerer, args: Args, use: Use) -> Value:
    """`(f >-> g) x`"""
    return apply(lw, args[1], (apply(lw, args[0], (args[2],), None, use.span),), use.rt, use.span)


def do_back_compose(lw: Lowerer, args: Args, use: Use) -> Value:
    """`(g <-< f) x`"""
    return apply(lw, args[0], (apply(lw, args[1], (args[2],), None, use.span),), use.rt, use.span)


def do_flip(lw: Lowerer, args: Args, use: Use) -> Value:
    return apply(lw, args[0], (args[2], args[1]), use.rt, use.span)


def do_curry(lw: Lowerer, args: Args, use: Use) -> Value:
    return apply(lw, args[0], (tuple_value(args[1], args[2]),), use.rt, use.span)


def do_uncurry(lw: Lowerer, args: Args, use: Use) -> Value:
    pair = args[1]
    assert type(pair) is Rec
    return apply(lw, args[0], tuple(pair.fields.values()), use.rt, use.span)


def do_first(lw: Lowerer, args: Args, use: Use) -> Value:
    return args[0]


def do_trace(lw: Lowerer, args: Args, use: Use) -> Value:
    trace(lw, args[0], "trace")
    return args[0]


def do_project(path: tuple[str, ...]) -> Handler:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        v = args[0]
        for name in path:
            assert type(v) is Rec
            v = v.fields[name]
        return v

    return go


def do_index_section(form: str) -> Handler:
    """`(.[i, j:k])` applied: its index values, then the array."""

    def go(lw: Lowerer, args: Args, use: Use) -> Value:

        given = iter(scalar(a) for a in args[:-1])
        slots: list[Atom | Slot] = []
        part: dict[str, Atom] = {}
        for c in form:
            if c == ":":
                slots.append((part.get("s"), part.get("e"), part.get("t")))
                part = {}
            elif c == "i":
                slots.append(next(given))
            else:
                part[c] = next(given)
        array = as_array(args[-1])
        index = resolve_slots(lw, array.dims, slots, use.span)
        return index_value(lw, array, index, lw.check_span(use.span))

    return go


# --- loops of the prelude -------------------------------------------------------------------------------


def fold_loop(lw: Lowerer, init: Value, width: Atom, step: Callable[[Atom, Value], Value]) -> Value:
    """A for loop whose state keeps its sizes."""
    state, params = typed_vars(init, "acc", dims_of(init))
    i = Var("i", width.type)
    scope = lw.new_scope([i, *params])
    with lw.within(scope):
        result = leaves(like(lw, step(i, state), state))
    made = lw.b.emit(ir.For(width, tuple(leaves(init)), lam_of(scope, [i, *params], result)), "acc")
    return rebuild(init, iter(made))


def do_foldl(lw: Lowerer, args: Args, use: Use) -> Value:
    f, init, array = args[0], args[1], as_array(args[2])

    def step(i: Atom, state: Value) -> Value:
        row = index_row(lw, array, i)
        return apply(lw, f, (state, row), None, use.span)

    return fold_loop(lw, init, array.dims[0], step)


def index_row(lw: Lowerer, array: Arr, i: Atom) -> Value:

    return index_value(lw, array, [i], None)


def do_foldr(lw: Lowerer, args: Args, use: Use) -> Value:
    f, init, array = args[0], args[1], as_array(args[2])
    last = lw.b.scalar("sub", array.dims[0], i64(1))

    def step(i: Atom, state: Value) -> Value:
        row = index_row(lw, array, lw.b.scalar("sub", last, i))
        return apply(lw, f, (row, state), None, use.span)

    return fold_loop(lw, init, array.dims[0], step)


def do_iterate(lw: Lowerer, args: Args, use: Use) -> Value:
    n, f, x = args
    return fold_loop(lw, x, scalar(n), lambda i, state: apply(lw, f, (state,), None, use.span))


def do_iterate_while(stop: bool) -> Handler:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:

        p, f, x = args

        def test(v: Value) -> Atom:
            c = scalar(apply(lw, p, (v,), None, use.span))
            return lw.b.scalar("not", c) if stop else c

        start = test(x)
        state, params = typed_vars(x, "x", dims_of(x))
        go_on = Var("go", BOOL)
        scope = lw.new_scope([go_on, *params])
        with lw.within(scope):
            after = like(lw, apply(lw, f, (state,), None, use.span), state)
            result = [test(after), *leaves(after)]
        body = lam_of(scope, [go_on, *params], result)
        made = lw.b.emit(ir.While((start, *leaves(x)), body), "go", "x")
        return rebuild(x, iter(made[1:]))

    return go

