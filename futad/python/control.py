"""The language's constructs: map, reduce, scan, hist, scatter, filter, loops, branches, derivatives inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from futad.core.types import PRIMS
from futad.python.calls import Branch, Call, Derivative, Loop, Soac
from futad.python.elementwise import as_value, convert, is_weak, literal, shape_text
from futad.python.indexing import a_size, number
from futad.python.place import fail
from futad.python.sizes import Size, size
from futad.python.trees import Tree, flatten
from futad.python.values import LengthOf, Scope, Value, bind, check_scope, let, opened

if TYPE_CHECKING:
    from futad.python.arrays import Array

Attributes = str | Sequence[str]
Type = tuple[str, Sequence[Size]]


def _attributes(given: Attributes) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def values(tree: Any, what: str) -> tuple[list[Array], Tree]:
    """The leaves of a structure as traced values."""
    leaves, made = flatten(tree)
    return [as_value(x, what) for x in leaves], made


def parameter_names(f: Callable[..., Any], count: int) -> list[str]:
    """What a function calls its parameters, as far as that is known.  Raises TraceError if it does not take so many."""
    if not callable(f):
        fail(f"a function is expected, not {type(f).__name__}")
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return []
    try:
        signature.bind(*[None] * count)
    except TypeError:
        fail(f"{getattr(f, '__name__', 'the function')} is called with {count} argument{'s' * (count != 1)}, but takes "
             f"{len(signature.parameters)}: {signature}")  # fmt: skip
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [n for n, p in signature.parameters.items() if p.kind in plain]


def traced(
    f: Callable[..., Any], types: Sequence[Type], trees: Sequence[Tree], weak: Sequence[Any] = ()
) -> tuple[Scope, Tree, list[Any]]:
    """The body of a lambda: f called with parameters of these types, in structures; its scope, and what it returned,
    as leaves, perhaps numbers of Python's.  `weak`: what parameters are of Python's numbers, whose type is sought."""
    names = parameter_names(f, len(trees))
    with opened(types) as (scope, params):
        for v, x in zip(params, weak, strict=False):
            v.weak = x if is_weak(x) else None
        left = iter(params)
        paths = [p for t, n in zip(trees, [*names, *["x"] * len(trees)], strict=False) for p in t.paths(n)]
        for v, path in zip(params, paths, strict=True):
            if "." not in path:
                v.name = path
        made, tree = flatten(f(*[t.build(left) for t in trees]))
        leaves = [x if is_weak(x) else as_value(x, "what the function returns") for x in made]
        scope.results = [as_value(x) for x in leaves]
        for made_value in scope.results:
            check_scope(made_value)
    return scope, tree, leaves


def retyped(scope: Scope, leaves: Sequence[Any], types: Sequence[Type], what: str) -> None:
    """Give the results of a scope these types, or raise TraceError."""
    trace = scope.trace
    outer, trace.scope = trace.scope, scope
    try:
        made = []
        for x, (elem, dims) in zip(leaves, types, strict=True):
            v = literal(x, elem) if is_weak(x) and _fits(x, elem) else as_value(x)
            if v.elem != elem or v.dims != tuple(dims):
                fail(f"{what}: {_shown(v.elem, v.dims)} where {_shown(elem, dims)} is expected",
                     "convert it by .astype, or start with a value of that type")  # fmt: skip
            made.append(v)
        scope.results = list(made)
    finally:
        trace.scope = outer


def _fits(x: Any, elem: str) -> bool:
    return type(x) is bool if elem == "bool" else type(x) is int or (type(x) is float and PRIMS[elem].is_float)


def _shown(elem: str, dims: Sequence[Size]) -> str:
    return f"{elem} of shape {shape_text(tuple(dims))}" if dims else elem


def _rows(arrays: Sequence[Value], what: str) -> tuple[Size, list[Type]]:
    """The common outer size of arrays, and the types of their rows."""
    for a in arrays:
        if not a.dims:
            fail(f"{what} goes over arrays, but one argument is a number")
        if a.dims[0] != arrays[0].dims[0]:
            fail(f"{what}: arrays of {arrays[0].dims[0]} and {a.dims[0]} rows",
                 f"where the sizes are equal, say so: x.sized({str(arrays[0].dims[0])!r}, ...)")  # fmt: skip
    return arrays[0].dims[0], [(a.elem, a.dims[1:]) for a in arrays]


def map(f: Callable[..., Any], *arrays: Any, attributes: Attributes = ()) -> Any:
    """f of the rows of `arrays`, in parallel; what f returns, each part with one more dimension in front.

    The arrays, and those in structures, have the same outer size.  f is called once, with traced rows.
    """
    if not arrays:
        fail("map takes a function and the arrays it is mapped over")
    made = [values(a, "an argument of map") for a in arrays]
    flat = [v for vs, _ in made for v in vs]
    n, types = _rows(flat, "map")
    scope, tree, _ = traced(f, types, [t for _, t in made])
    return _mapped(scope, tree, n, flat, attributes)


def _mapped(scope: Scope, tree: Tree, n: Size, arrays: Sequence[Array], attributes: Attributes = ()) -> Any:
    for v in scope.results:
        if any(_inside(x, scope) for d in v.dims for x in d.atoms()):
            fail("the rows of a map's result would have different sizes", "compute sizes outside of the map")
    exp = Soac("map", scope, [], arrays, results=len(scope.results), attributes=_attributes(attributes))
    return tree.build(iter(bind(exp, [(v.elem, (n, *v.dims)) for v in scope.results])))


def _inside(atom: Any, scope: Scope) -> bool:
    v = atom.array if isinstance(atom, LengthOf) else atom
    return isinstance(v, Value) and v.scope.inside(scope)


def _operator(
    op: Callable[..., Any], neutral: Any, xs: Any, what: str
) -> tuple[Scope, list[Array], list[Array], Tree, Size, list[Type]]:
    """The lambda of a reduction, its neutral element, and the arrays."""
    arrays, tree = values(xs, f"an argument of {what}")
    if len(arrays) > 5:
        fail(f"{what} takes at most five arrays", "split it, or make arrays of one type one by fnp.stack")
    n, types = _rows(arrays, what)
    start, start_tree = flatten(neutral)
    if start_tree != tree:
        fail(f"{what}: the neutral element and the rows have different structures")
    first = []
    for x, (elem, dims) in zip(start, types, strict=True):
        v = literal(x, elem) if is_weak(x) and _fits(x, elem) else as_value(x)
        if v.elem != elem or v.dims != tuple(dims):
            fail(f"{what}: the neutral element is {_shown(v.elem, v.dims)}, the rows are {_shown(elem, dims)}")
        first.append(v)
    scope, made, leaves = traced(op, [*types, *types], [tree, tree])
    if made != tree:
        fail(f"{what}: the operator returns another structure than it takes")
    retyped(scope, leaves, types, f"what the operator of {what} returns")
    return scope, first, arrays, tree, n, types


def _pairs(count: int) -> list[list[int]]:
    return [list(range(count)), list(range(count, 2 * count))]


def reduce(
    op: Callable[..., Any], neutral: Any, xs: Any, *, commutative: bool = False, attributes: Attributes = ()
) -> Any:
    """The rows of xs combined by an associative operator, of which `neutral` is the neutral element; of no rows that.

    `xs` may be a structure of arrays; `neutral`, and what op takes and returns, has the same structure.
    """
    scope, first, arrays, tree, _, types = _operator(op, neutral, xs, "reduce")
    count = len(arrays)
    exp = Soac("reduce_comm" if commutative else "reduce", scope, [first], arrays, takes=_pairs(count),
               attributes=_attributes(attributes))  # fmt: skip
    return tree.build(iter(bind(exp, types)))


def scan(op: Callable[..., Any], neutral: Any, xs: Any, *, attributes: Attributes = ()) -> Any:
    """For each row of xs what `reduce` makes of the rows up to and with it."""
    scope, first, arrays, tree, n, types = _operator(op, neutral, xs, "scan")
    count = len(arrays)
    exp = Soac("scan", scope, [first], arrays, takes=_pairs(count), results=count, attributes=_attributes(attributes))
    return tree.build(iter(bind(exp, [(e, (n, *d)) for e, d in types])))


def hist(op: Callable[..., Any], neutral: Any, bins: Any, places: Any, xs: Any, *, attributes: Attributes = ()) -> Any:
    """An array of `bins` rows, each what an associative and commutative operator makes of the rows of xs whose place in
    `places` (whole numbers, of rank 1) is this one; of none `neutral`.  Places out of range are ignored."""
    where = convert(as_value(places), "i64")
    k = a_size(bins, "the number of bins")
    scope, first, arrays, tree, n, types = _operator(op, neutral, xs, "hist")
    if len(where.dims) != 1 or where.dims[0] != n:
        fail(f"hist: places of shape {shape_text(where.dims)} for {n} rows")
    count = len(arrays)
    exp = Soac("hist", scope, [first, k, where], arrays, takes=_pairs(count), results=count,
               attributes=_attributes(attributes))  # fmt: skip
    return tree.build(iter(bind(exp, [(e, (k, *d)) for e, d in types])))


def scatter(x: Any, places: Any, rows: Any) -> Array:
    """x with `rows` in `places`; places out of range are ignored, and of several rows for one place any is taken."""
    a, where, new = as_value(x), convert(as_value(places), "i64"), as_value(rows)
    new = convert(new, a.elem)
    if not a.dims or len(where.dims) != 1 or new.dims != (where.dims[0], *a.dims[1:]):
        fail(f"scatter: rows of shape {shape_text(new.dims)} and places of shape {shape_text(where.dims)} for an array "
             f"of shape {shape_text(a.dims)}")  # fmt: skip
    copied = let(Call("copy", a), a.elem, a.dims)
    return let(Call("scatter", copied, where, new, hint="scattered"), a.elem, a.dims)


def filter(keep: Callable[..., Any], xs: Any) -> Array:
    """The rows of an array for which `keep` is true; how many, only running the program tells (`ys.shape[0]`)."""
    arrays, tree = values(xs, "an argument of filter")
    if len(arrays) != 1:
        fail("filter takes one array", "filter an array of places (fnp.arange), and index by it")
    _, types = _rows(arrays, "filter")
    scope, _, leaves = traced(keep, types, [tree])
    retyped(scope, leaves, [("bool", ())], "what the function of filter returns")
    length = LengthOf()
    made = let(Soac("filter", scope, [], arrays, hint="kept"), types[0][0], (size(length), *types[0][1]))
    length.array = made
    return made


def cond(test: Any, yes: Callable[..., Any], no: Callable[..., Any], *args: Any) -> Any:
    """What `yes(*args)` returns if the test is true, else what `no(*args)` does; only one of them is computed.

    Both return the same structure, types and shapes.
    """
    c = convert(as_value(test, "the test of cond"), "bool")
    if c.dims:
        fail(f"the test of cond has shape {shape_text(c.dims)}", "fnp.where chooses for each element")
    branches = []
    for f in (yes, no):
        if not callable(f):
            fail("cond takes two functions", "write fnp.cond(test, lambda: a, lambda: b)")
        branches.append(traced(lambda f=f: f(*args), [], []))
    (one, tree, left), (other, tree2, right) = branches
    if tree != tree2:
        fail("cond: the branches return different structures")
    types = []
    for a, b, v, w in zip(left, right, one.results, other.results, strict=True):
        types.append((w.elem if is_weak(a) and not is_weak(b) and _fits(a, w.elem) else v.elem, v.dims))
        if is_weak(a) and is_weak(b) and type(a) is not type(b):
            types[-1] = ("f64", ())
    for scope, leaves in ((one, left), (other, right)):
        retyped(scope, leaves, types, "what a branch of cond returns")
    return tree.build(iter(bind(Branch(c, one, other), types)))


def loop(n: Any, body: Callable[..., Any], initial: Any, *, attributes: Attributes = ()) -> Any:
    """`for i in range(n): state = body(i, state)`, beginning with `initial`; the last state.

    The state may be a structure; its parts keep their types and shapes.  A state that is a tuple is passed as several
    arguments if body takes one for each part.  `attributes`: of the language, such as "stripmine(1)".
    """
    return _looped(number(n, "the number of iterations"), None, body, initial, attributes)


def while_loop(test: Callable[..., Any], body: Callable[..., Any], initial: Any, *, attributes: Attributes = ()) -> Any:
    """`while test(state): state = body(state)`, beginning with `initial`; the last state.  See `loop`."""
    return _looped(None, test, body, initial, attributes)


def _looped(
    n: Array | None, test: Callable[..., Any] | None, body: Callable[..., Any], initial: Any, attributes: Attributes
) -> Any:
    start, tree = flatten(initial)
    first = [as_value(x, "the state of a loop") for x in start]
    before: list[Type] = [("i64", ())] if n is not None else []
    sought: list[Any] = [None] * len(before) + start
    for _ in range(3):
        types: list[Type] = [(v.elem, v.dims) for v in first]
        trees = [*([Tree()] if n is not None else []), *_spread(body, tree, n is not None)]
        scope, made, leaves = traced(body, [*before, *types], trees, sought)
        if made != tree:
            fail("the body of a loop returns another structure than the state has")
        changed = [is_weak(x) and v.elem != r.elem and _fits(x, r.elem)
                   for x, v, r in zip(start, first, scope.results, strict=True)]  # fmt: skip
        if not any(changed):
            break
        sought = []
        told = zip(start, first, scope.results, changed, strict=True)
        first = [literal(x, r.elem) if c else v for x, v, r, c in told]
    retyped(scope, leaves, types, "what the body of a loop returns")
    tested = None
    if test is not None:
        tested, _, answer = traced(test, types, _spread(test, tree, False))
        retyped(tested, answer, [("bool", ())], "what the test of a loop returns")
        for a, b in zip(scope.params, tested.params, strict=True):
            b.name = a.name if b.name is None or a.name is not None else b.name
    exp = Loop(first, scope, n, tested, _attributes(attributes))
    return tree.build(iter(bind(exp, types)))


def _spread(f: Callable[..., Any], tree: Tree, counted: bool) -> list[Tree]:
    """The structures of the arguments that the state is passed as."""
    if tree.kind == "tuple":
        try:
            signature = inspect.signature(f)
            signature.bind(*[None] * (len(tree.parts) + counted))
            return list(tree.parts)
        except (TypeError, ValueError):
            pass
    return [tree]


# --- derivatives inside of a function ---


def _differentiated(f: Callable[..., Any], args: Sequence[Any]) -> tuple[Scope, Tree, list[Array], list[Tree]]:
    made = [values(a, "an argument") for a in args]
    flat = [v for vs, _ in made for v in vs]
    scope, tree, _ = traced(f, [(v.elem, v.dims) for v in flat], [t for _, t in made])
    return scope, tree, flat, [t for _, t in made]


def _types(vs: Sequence[Value]) -> list[Type]:
    return [(v.elem, v.dims) for v in vs]


def vjp(f: Callable[..., Any], args: Sequence[Any], cotangent: Any) -> tuple[Any, Any]:
    """The value of f at `args`, a tuple, and the adjoints of these, a tuple, for a cotangent of the value."""
    scope, tree, flat, trees = _differentiated(f, args)
    given, other = flatten(cotangent)
    if other != tree:
        fail("vjp: the cotangent has another structure than the value")
    results = scope.results
    bars = []
    for x, v in zip(given, results, strict=True):
        bar = literal(x, v.elem) if is_weak(x) and not v.dims else convert(as_value(x), v.elem)
        if bar.dims != v.dims:
            fail(f"vjp: a cotangent of shape {shape_text(bar.dims)} for a value of shape {shape_text(v.dims)}")
        bars.append(bar)
    made = iter(bind(Derivative("vjp2", [scope], flat, bars, [len(results), len(flat)]), _types([*results, *flat])))
    value = tree.build(made)
    return value, tuple([t.build(made) for t in trees])


def jvp(f: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of f at `args` and its derivative along `tangents`, a tuple of as many."""
    scope, tree, flat, trees = _differentiated(f, args)
    along, _ = flatten(tuple(tangents) if len(tangents) > 1 else tangents[0])
    if len(along) != len(flat):
        fail(f"jvp: {len(along)} tangents for {len(flat)} arguments")
    dots = [literal(x, v.elem) if is_weak(x) and not v.dims else convert(as_value(x), v.elem)
            for x, v in zip(along, flat, strict=True)]  # fmt: skip
    for d, v in zip(dots, flat, strict=True):
        if d.dims != v.dims:
            fail(f"jvp: a tangent of shape {shape_text(d.dims)} for an argument of shape {shape_text(v.dims)}")
    results = scope.results
    made = iter(bind(Derivative("jvp2", [scope], flat, dots, [len(results)] * 2), _types([*results, *results])))
    return tree.build(made), tree.build(made)


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The function that computes the gradient of f, whose value is a float, by the arguments that argnums names."""

    def gradient(*args: Any) -> Any:
        return value_and_grad(f, argnums)(*args)[1]

    return gradient


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The function that computes the value of f and its gradient."""
    active = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def both(*args: Any) -> Any:
        if any(not 0 <= i < len(args) for i in active):
            fail(f"grad: there is no argument {max(active)}; {len(args)} are given")

        def of(*some: Any) -> Any:
            by = dict(zip(active, some, strict=True))
            return f(*[by.get(i, a) for i, a in enumerate(args)])

        names = parameter_names(f, len(args))
        named = [names[i] if i < len(names) else f"x{i}" for i in active]
        signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in named])
        setattr(of, "__signature__", signature)  # noqa: B010
        def scalar(*some: Any) -> Any:
            value = of(*some)
            if not isinstance(value, Value) or value.dims or not PRIMS[value.elem].is_float:
                shown = repr(value) if isinstance(value, Value) else f"a {type(value).__name__}"
                fail(f"grad is for functions whose value is one float, not {shown}",
                     "write fnp.sum of an array, or fnp.jvp or fnp.vjp")  # fmt: skip
            return value

        setattr(scalar, "__signature__", signature)  # noqa: B010
        value, bars = vjp(scalar, [args[i] for i in active], 1)
        return value, bars[0] if isinstance(argnums, int) else bars

    return both


def with_vjp(f: Callable[..., Any], pull: Callable[[Any, Any], Any], *args: Any) -> Any:
    """f(*args), of which reverse mode takes `pull(value, cotangent)` for the adjoints of args: a tuple, of one
    argument that itself.  What f reads besides its arguments gets no adjoint."""
    scope, tree, flat, trees = _differentiated(f, args)
    types = _types(scope.results)
    back, _, leaves = traced(pull, [*types, *types], [tree, tree])
    if len(leaves) != len(flat):
        fail(f"with_vjp: {len(leaves)} adjoints for {len(flat)} arguments")
    retyped(back, leaves, _types(flat), "the adjoint")
    return tree.build(iter(bind(Derivative("with_vjp", [scope, back], flat, [], [len(types)]), types)))


__all__ = [
    "cond", "filter", "grad", "hist", "jvp", "loop", "map", "reduce", "scan", "scatter", "traced", "value_and_grad",
    "values", "vjp", "while_loop", "with_vjp",
]  # fmt: skip
