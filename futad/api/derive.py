"""Derivatives of entries, as entries of new programs.

`derive(program, name, kind, active)` wraps the function `name` in one more function that takes its
derivative with a `Jvp` or `Vjp` node; the pipeline does the rest.  What comes out is again an entry, so
derivatives nest.  `active` lists the parameters differentiated with respect to; all their components count.

Kinds, with x the parameters of f, a the active ones:

    jvp              f's parameters, then a tangent per active one     -> (y, tangent of y)
    vjp              f's parameters, then a cotangent of y             -> adjoints of a
    jmp, mjp         the same in many directions: tangents, cotangents and what comes of them have one more dimension
    grad             f's parameters (f has one float scalar result)    -> adjoints of a
    value_and_grad   f's parameters                                    -> (y, adjoints of a)
    jacfwd, jacrev   f's parameters   -> for each component of y, derivatives shaped [y...][a...]

The Jacobians take derivatives along the elements of a (`jacfwd`) or of y (`jacrev`) inside the program, with one-hot
seeds, many directions at a time (`jmp` and `mjp`).

"vmap" is no derivative, but made in the same way: f for each of a batch.  `active` has an item for each parameter, the
dimension that is the batch's in the arrays given for it, or None if all have the same value.  "moved" is f with
dimension 0 of its results, the batch's, at other places: an item of `active` for each component of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from futad.api.sizes import OPERATIONS, evaluated, is_size, params_of, size_formulas
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.calls import reached
from futad.core.node import Range
from futad.core.scalarops import folded
from futad.core.types import (
    I64,
    ONE,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    i64,
    one,
    shape_of,
    subst_type,
    zero,
)
from futad.errors import UsageError
from futad.runtime.structure import count_leaves, leaf_paths, leaf_types
from futad.runtime.values import witnesses_of

KINDS = ("jvp", "vjp", "jmp", "mjp", "grad", "value_and_grad", "jacfwd", "jacrev")
VMAP, MOVED = "vmap", "moved"
DIRECTIONS = "directions"  # the name of their number


@dataclass(slots=True)
class _Site:
    """The function being wrapped, and the wrapper as far as it is built."""

    program: ir.Program
    fun: ir.Fun
    entry: ir.Entry
    active: tuple[int, ...]
    single: bool
    attrs: tuple[Any, ...]  # of reverse-mode derivatives
    b: Builder
    sizes: list[Var]
    params: list[Var]
    leaf_arg: list[int]  # the parameter of the entry each value parameter belongs to
    shown: list[tuple[str, ir.EntryType]]  # the entry's parameters

    @property
    def args(self) -> list[Atom]:
        return [*self.sizes, *self.params]

    def active_params(self) -> list[Var]:
        return [p for k in self.active for p, i in zip(self.params, self.leaf_arg, strict=True) if i == k]


def derive(
    program: ir.Program,
    name: str,
    kind: str,
    active: tuple[Any, ...],
    single: bool = False,
    budget: Budget | None = None,
) -> tuple[ir.Program, str]:
    """A program whose only entry is the derivative, and the name of its function.

    With `single`, `active` is one parameter and its adjoint is not wrapped in a tuple.  `budget`: what reverse mode may
    keep.
    """
    fun = program.funs[name]
    assert fun.entry is not None and kind in (*KINDS, VMAP, MOVED)
    site = _open(program, fun, active, single, budget)
    build = {
        "jvp": _jvp,
        "vjp": _vjp,
        "jmp": _jmp,
        "mjp": _mjp,
        VMAP: _vmap,
        MOVED: _moved,
        "grad": _grad,
        "value_and_grad": _value_and_grad,
        "jacfwd": _jacfwd,
        "jacrev": _jacrev,
    }[kind]
    extra_sizes, extra_params, extra_entry, results, result_type = build(site)
    body_params = (*site.sizes, *extra_sizes, *site.params, *extra_params)
    new_name = _fresh_name(program, f"{name}_{kind}")
    entry = ir.Entry(
        f"{kind}({fun.entry.name})", (*site.shown, *extra_entry), result_type, (), _doc(kind, fun.entry)
    )
    new = ir.Fun(
        new_name,
        ir.Lambda(body_params, tuple(site.b.stms), tuple(results)),
        len(site.sizes) + len(extra_sizes),
        _ret(results),
        entry,
    )
    funs = {n: _inner(program.funs[n]) for n in reached(program, [name])}
    return ir.Program({**funs, new_name: new}, program.name), new_name


_Built = tuple[list[Var], list[Var], tuple[tuple[str, ir.EntryType], ...], list[Atom], ir.EntryType]


# --- the kinds --------------------------------------------------------------------------------------------


def _jvp(s: _Site) -> _Built:
    tangents = [Var(f"{p.name}_tan", p.type) for p in s.active_params()]
    primal, tans = _emit_jvp(s, s.b, list(s.active_params()), list(tangents))
    shown = witnesses_of(s.fun.ret, s.entry.result)
    visible = [i for i in range(len(tans)) if i not in shown]
    tangent = _tagged([s.entry.result], [tans[i] for i in visible], [primal[i] for i in visible])
    entry = tuple([(f"{s.entry.params[i][0]}_tangent", s.entry.params[i][1]) for i in s.active])
    return [], tangents, entry, [*primal, *tangent], _tuple(s.entry.result, s.entry.result)


def _vjp(s: _Site) -> _Built:
    return _pullback(s, ())


def _mjp(s: _Site) -> _Built:
    return _pullback(s, (Var(DIRECTIONS, I64),))


def _pullback(s: _Site, many: tuple[Var, ...]) -> _Built:
    shown = witnesses_of(s.fun.ret, s.entry.result)
    mapping: dict[Var, Atom] = dict(zip(s.fun.body.params, s.args, strict=True))
    sizes: list[Var] = []
    found: dict[int, Var] = {}
    cotangents: list[Var] = []
    seeds: list[Atom] = []
    named = {v for r in s.fun.ret for v in shape_of(r.type)}
    for i, r in enumerate(s.fun.ret):
        if r in named:
            size = Var(r.name, I64)
            mapping[r] = found[i] = size
            sizes.append(size)
        if i in shown:
            seeds.append(s.b.let(ir.Replicate(many, ZERO), "zeros") if many else ZERO)
        else:
            cotangents.append(Var(f"{r.name}_bar", array_of(subst_type(r.type, mapping), *many)))
            seeds.append(cotangents[-1])
    _, adjoints = _emit_vjp(s, s.b, seeds, many, expected=found)
    name, given, made = "cotangent", s.entry.result, _adjoint_type(s)
    if many:
        name, given, made = "cotangents", lifted(given), lifted(made)
    results: list[Atom] = [*adjoints] if many else _adjoints(s, adjoints)
    return [*many, *sizes], cotangents, ((name, given),), results, made


def _adjoints(s: _Site, adjoints: Sequence[Atom]) -> list[Atom]:
    return _tagged([s.entry.params[i][1] for i in s.active], adjoints, s.active_params())


def _tagged(types: Sequence[ir.EntryType], made: Sequence[Atom], like: Sequence[Atom]) -> list[Atom]:
    """The components of tangents or adjoints of values: those of sums have the constructors of these."""
    suffixes = [suffix for t in types for suffix, _ in leaf_types(t)]
    return [x if n.endswith(".#") else v for n, v, x in zip(suffixes, made, like, strict=True)]


def _jmp(s: _Site) -> _Built:
    count = Var(DIRECTIONS, I64)
    tangents = [Var(f"{p.name}_tan", array_of(p.type, count)) for p in s.active_params()]
    primal, tans = _emit_jvp(s, s.b, list(s.active_params()), list(tangents), (count,))
    shown = witnesses_of(s.fun.ret, s.entry.result)
    visible = [t for i, t in enumerate(tans) if i not in shown]
    entry = tuple([(f"{s.entry.params[i][0]}_tangents", lifted(s.entry.params[i][1])) for i in s.active])
    return [count], tangents, entry, [*primal, *visible], _tuple(s.entry.result, lifted(s.entry.result))


def _grad(s: _Site) -> _Built:
    _, adjoints = _emit_vjp(s, s.b, [one(_scalar_result(s, "grad"))])
    return [], [], (), _adjoints(s, adjoints), _adjoint_type(s)


def _value_and_grad(s: _Site) -> _Built:
    primal, adjoints = _emit_vjp(s, s.b, [one(_scalar_result(s, "value_and_grad"))])
    return [], [], (), [*primal, *_adjoints(s, adjoints)], _tuple(s.entry.result, _adjoint_type(s))


def _jacfwd(s: _Site) -> _Built:
    results, outs = _results(s)
    params = s.active_params()

    def columns(b: Builder, count: Atom, directions: list[Atom]) -> list[Atom]:
        tangents = _emit_jvp(s, b, list(params), directions, (count,))[1]
        return [_reshaped(b, tangents[i], (count, *shape_of(results[i].type))) for i in outs]

    found = _in_blocks(s.b, [p.type for p in params], [results[i].type for i in outs], columns)
    blocks = {}
    for leaf in range(len(params)):
        for k, i in enumerate(outs):
            value = found[leaf][k]
            rank = len(shape_of(results[i].type))
            blocks[i, leaf] = s.b.let(ir.Rearrange(value, (*range(1, rank + 1), 0)), "jac") if rank else value
    return _jacobian(s, results, outs, blocks)


def _jacrev(s: _Site) -> _Built:
    results, outs = _results(s)
    params = s.active_params()

    def rows(b: Builder, count: Atom, directions: list[Atom]) -> list[Atom]:
        given = dict(zip(outs, directions, strict=True))
        none = [b.let(ir.Replicate((count,), ZERO), "zeros") for _ in results]
        seeds = [given.get(i, z) for i, z in enumerate(none)]
        return list(_emit_vjp(s, b, seeds, (count,))[1])

    found = _in_blocks(s.b, [results[i].type for i in outs], [p.type for p in params], rows)
    blocks = {(i, leaf): found[k][leaf] for k, i in enumerate(outs) for leaf in range(len(params))}
    return _jacobian(s, results, outs, blocks)


def _vmap(s: _Site) -> _Built:
    """The batch's size is one more size argument, before the parameters; results have it as dimension 0."""
    axes = [s.active[i] for i in s.leaf_arg]
    of_sizes = {size for p in s.params for size in shape_of(p.type)}
    for p, path, axis in zip(s.params, _paths(s.entry), axes, strict=True):
        if axis is None:
            continue
        if p in of_sizes:
            raise UsageError(f"vmap: '{path}' of {s.entry.name} is a size, which all of a batch have in common")
        if axis > len(shape_of(p.type)):
            raise UsageError(f"vmap: '{path}' of {s.entry.name} has no dimension {axis}, also with that of the batch")
    batch = Var("batch", I64)
    given = {p: _batched(p, batch, axis) for p, axis in zip(s.params, axes, strict=True) if axis is not None}
    rows: list[Atom] = []
    for (p, array), axis in zip(given.items(), [a for a in axes if a is not None], strict=True):
        others = [d for d in range(len(shape_of(p.type)) + 1) if d != axis]
        rows.append(s.b.let(ir.Rearrange(array, (axis, *others)), "rows") if axis else array)
    brought = _common_sizes(s, given)
    mapping: dict[Var, Atom] = dict(zip(s.fun.body.params, s.args, strict=True)) | brought
    types = []
    for r in s.fun.ret:
        t = subst_type(r.type, mapping)
        if any(size in given or size in s.fun.ret for size in shape_of(t)):
            raise UsageError(f"vmap: the results of {s.entry.name} may differ in shape from one to the next of a batch")
        types.append(t)

    inside = [Var(p.name, p.type) for p in given]
    inner = Builder()
    args = [dict(zip(given, inside, strict=True)).get(a, a) if isinstance(a, Var) else a for a in s.args]
    made = _call(s, inner, args)
    rows_made = [i for i, r in enumerate(s.fun.ret) if r not in brought]
    results = [_reshaped(inner, made[i], shape_of(types[i])) for i in rows_made]
    lam = ir.Lambda(tuple(inside), tuple(inner.stms), tuple(results))
    many = [array_of(types[i], batch) for i in rows_made]
    out = iter(s.b.emit(ir.Map(batch, tuple(rows), lam), "batched", types=many))
    s.params = [given.get(p, p) for p in s.params]
    s.shown = [
        (name, t if axis is None else lifted(t, "batch", axis))
        for (name, t), axis in zip(s.entry.params, s.active, strict=True)
    ]
    every = [brought[r] if r in brought else next(out) for r in s.fun.ret]
    return [batch], [], (), every, lifted(s.entry.result, "batch")


def _common_sizes(s: _Site, given: Mapping[Var, Var]) -> dict[Var, Atom]:
    """The sizes that results bring along and that all of a batch have in common, computed from arguments that are not
    the batch's."""
    wanted = witnesses_of(s.fun.ret, s.entry.result)
    formulas = size_formulas(s.program, s.fun.name) if wanted else {}
    ops: dict[str, Callable[..., Any]] = {name: partial(s.b.op, name, hint="size") for name in OPERATIONS}
    args, found = s.args, {}
    for i in sorted(wanted & formulas.keys()):
        if not any(args[k] in given for k in params_of(formulas[i])):
            size = evaluated(formulas[i], args.__getitem__, i64, ops)
            # Of no batch at all nothing checks it.
            found[s.fun.ret[i]] = size if is_size(formulas[i], s.fun.num_sizes) else ops["max"](size, ZERO)
    return found


def _moved(s: _Site) -> _Built:
    """Dimension 0 of each component of the result becomes the one that `active` names."""
    results = _call(s, s.b, s.args)
    brought, axes = witnesses_of(s.fun.ret, s.entry.result), iter(s.active)
    out: list[Atom] = []
    for i, r in enumerate(results):
        axis = 0 if i in brought else next(axes)
        rank = len(shape_of(r.type))
        if axis >= max(rank, 1):
            raise UsageError(f"vmap: out_axes holds {axis}, but a result of {s.entry.name} has {rank} dimensions")
        perm = (*range(1, axis + 1), 0, *range(axis + 1, rank))
        out.append(s.b.let(ir.Rearrange(r, perm), "moved") if axis else r)
    places = iter(s.active)

    def moved(elem: Prim, d: ir.EntryType) -> ir.EntryType:
        axis = next(places)
        return _leaf_type(elem, (*d.dims[1 : axis + 1], *d.dims[:1], *d.dims[axis + 1 :]))

    return [], [], (), out, _map_leaves(s.entry.result, moved)


def _batched(p: Var, batch: Var, axis: int) -> Var:
    """A parameter with the batch's dimension."""
    if isinstance(p.type, Prim):
        return Var(p.name, array_of(p.type, batch))
    shape = p.type.shape
    return Var(p.name, ArrayType(p.type.elem, (*shape[:axis], batch, *shape[axis:])))


def _paths(entry: ir.Entry) -> list[str]:
    return [path for name, t in entry.params for path in leaf_paths(t, name)]


def _results(s: _Site) -> tuple[list[Var], list[int]]:
    """The wrapped function's results, of use only for their sizes, and which of them are not themselves sizes."""
    results = _call(s, s.b, s.args)
    shown = witnesses_of(s.fun.ret, s.entry.result)
    return results, [i for i in range(len(results)) if i not in shown]


BLOCK = 64  # directions at a time: the memory for derivatives grows with it, the primal runs once a block


def _in_blocks(
    b: Builder, over: list[Type], rows: list[Type], derive: Callable[[Builder, Atom, list[Atom]], list[Atom]]
) -> list[list[Atom]]:
    """The derivatives, of types `rows`, along the directions of each element of the components `over`.

    `derive(builder, count, directions)` computes `count` of them.  The result has, for each component, the derivatives
    along its elements, stacked along dimension 0.  One block of known size is no map, for passes to see through.
    """
    sizes = [b.size_mul(shape_of(t)) for t in over]
    total: Atom = ZERO
    starts: list[Atom] = []
    for size in sizes:
        starts.append(total)
        total = size if total is ZERO else folded("add", [total, size]) or b.op("add", total, size, hint="directions")
    at_once = isinstance(total, Const) and 0 < total.value <= BLOCK
    count = total if at_once else b.op("max", ONE, b.op("min", total, i64(BLOCK)), hint="block")

    def along(c: Builder, first: Atom) -> list[Atom]:
        return derive(c, count, [_one_hot(c, t, count, first, s) for t, s in zip(over, starts, strict=True)])

    def parts(found: Sequence[Atom]) -> list[list[Atom]]:
        ranges = [Range(start, size, ONE) for start, size in zip(starts, sizes, strict=True)]
        return [[b.let(ir.At(x, (r,)), "jac") for x in found] for r in ranges]

    if at_once:
        return parts(along(b, ZERO))
    blocks = b.op("div", b.op("add", total, b.op("sub", count, ONE)), count, hint="blocks")
    index = b.let(ir.Iota(blocks, ZERO, ONE), "index")
    types = [array_of(array_of(t, count), blocks) for t in rows]
    lam = b.lambda_([("k", I64)], lambda c, k: along(c, c.op("mul", k, count)))
    out = b.emit(ir.Map(blocks, (index,), lam), "jac", types=types)
    flat = [_reshaped(b, x, (b.op("mul", blocks, count), *shape_of(t))) for x, t in zip(out, rows, strict=True)]
    return parts(flat)


def _jacobian(s: _Site, results: list[Var], outs: list[int], blocks: dict[tuple[int, int], Atom]) -> _Built:
    """One array a pair of components, shaped [y...][a...]."""
    flat: list[Atom] = [r for i, r in enumerate(results) if i not in outs]
    for i in outs:
        for leaf, p in enumerate(s.active_params()):
            flat.append(_reshaped(s.b, blocks[i, leaf], (*shape_of(results[i].type), *shape_of(p.type))))
    inputs = [s.entry.params[i][1] for i in s.active]

    def per_output(out_elem: Prim, out_dims: ir.EntryType) -> ir.EntryType:
        parts = [_map_leaves(t, lambda elem, d: _leaf_type(elem, out_dims.dims + d.dims)) for t in inputs]
        return parts[0] if s.single else _tuple(*parts)

    return [], [], (), flat, _map_leaves(s.entry.result, per_output)


# --- pieces -------------------------------------------------------------------------------------------------


def _open(program: ir.Program, fun: ir.Fun, active: tuple[int, ...], single: bool, budget: Budget | None) -> _Site:
    entry = fun.entry
    assert entry is not None
    mapping: dict[Var, Atom] = {}
    fresh: list[Var] = []
    for p in fun.body.params:
        q = Var(p.name, subst_type(p.type, mapping))
        mapping[p] = q
        fresh.append(q)
    leaf_arg = [i for i, (_, t) in enumerate(entry.params) for _ in range(count_leaves(t))]
    n = fun.num_sizes
    attrs = (budget.attribute(),) if budget is not None else ()
    sizes, params = fresh[:n], fresh[n:]
    return _Site(program, fun, entry, active, single, attrs, Builder(), sizes, params, leaf_arg, list(entry.params))


def _call(s: _Site, b: Builder, args: Sequence[Atom]) -> list[Var]:
    """Call the wrapped function; arguments it may consume are copied."""
    unique = s.entry.unique
    n = s.fun.num_sizes
    passed = list(args[:n])
    for a, i in zip(args[n:], s.leaf_arg, strict=True):
        consumed = i < len(unique) and unique[i] and isinstance(a.type, ArrayType)
        passed.append(b.let(ir.Copy(a), "copy") if consumed else a)
    mapping: dict[Var, Atom] = dict(zip(s.fun.body.params, passed, strict=True))
    pattern = _instantiate(s.fun.ret, mapping)
    b.add(ir.Stm(tuple(pattern), ir.Call(s.fun.name, tuple(passed))))
    return pattern


def _instantiate(ret: Sequence[Var], mapping: dict[Var, Atom]) -> list[Var]:
    out = []
    for r in ret:
        v = Var(r.name, subst_type(r.type, mapping))
        mapping[r] = v
        out.append(v)
    return out


def _lambda(s: _Site, expected: Mapping[int, Var] = MappingProxyType({})) -> ir.Lambda:
    """The wrapped function of its active components alone; `expected`: sizes that its results must turn out to have,
    for the cotangents have them."""
    inner = Builder()
    mapping: dict[Var, Atom] = {}
    params = []
    for p in s.active_params():
        q = Var(p.name, subst_type(p.type, mapping))
        mapping[p] = q
        params.append(q)
    args: list[Atom] = [mapping.get(a, a) if isinstance(a, Var) else a for a in s.args]
    results = _call(s, inner, args)
    for i, size in expected.items():
        message = "the cotangent has {} elements where the value has {}"
        inner.add(ir.Stm((), ir.Assert(inner.op("eq", size, results[i]), message, (size, results[i]), None)))
    return ir.Lambda(tuple(params), tuple(inner.stms), tuple(results))


def _emit_jvp(
    s: _Site, b: Builder, args: list[Atom], tangents: list[Atom], many: tuple[Atom, ...] = ()
) -> tuple[list[Var], list[Var]]:
    primal = _instantiate(s.fun.ret, dict(zip(s.fun.body.params, s.args, strict=True)))
    tans = [Var(f"{r.name}_tan", array_of(r.type, *many)) for r in primal]
    b.add(ir.Stm((*primal, *tans), ir.Jvp(_lambda(s), tuple(args), tuple(tangents), many)))
    return primal, tans


def _emit_vjp(
    s: _Site,
    b: Builder,
    seeds: list[Atom],
    many: tuple[Atom, ...] = (),
    expected: Mapping[int, Var] = MappingProxyType({}),
) -> tuple[list[Var], list[Var]]:
    primal = _instantiate(s.fun.ret, dict(zip(s.fun.body.params, s.args, strict=True)))
    active = s.active_params()
    adjoints = [Var(f"{p.name}_bar", array_of(p.type, *many)) for p in active]
    b.add(ir.Stm((*primal, *adjoints), ir.Vjp(_lambda(s, expected), tuple(active), tuple(seeds), many), s.attrs))
    return primal, adjoints


def _one_hot(b: Builder, t: Type, count: Atom, first: Atom, start: Atom) -> Atom:
    """`count` values of type `t`, value i one at the element that has number `first` + i among all, elements of `t`
    being numbered from `start`; zero elsewhere."""
    elem = elem_of(t)

    def hot(c: Builder, k: Atom, mine: Atom) -> Atom:
        return c.op("select", c.op("eq", k, mine), one(elem), zero(elem))

    which = b.let(ir.Iota(count, first, ONE), "which")
    if isinstance(t, Prim):
        return b.zip_with(lambda c, k: hot(c, k, start), which, hint="hot")
    own = b.let(ir.Iota(b.size_mul(t.shape), start, ONE), "own")
    rows = b.zip_with(lambda c, k: c.zip_with(lambda d, mine: hot(d, k, mine), own), which, hint="hot")
    return _reshaped(b, rows, (count, *t.shape))


def _reshaped(b: Builder, value: Atom, shape: tuple[Atom, ...]) -> Atom:
    """`value` under another shape of as many elements."""
    if shape_of(value.type) == shape:
        return value
    if not shape:
        return b.at(value, ZERO, hint="jac")
    return b.let(ir.Reshape(value, shape), "jac")


def _ret(results: Sequence[Atom]) -> tuple[Var, ...]:
    mapping: dict[Var, Atom] = {}
    out = []
    for a in results:
        v = Var(a.name if isinstance(a, Var) else "r", subst_type(a.type, mapping))
        if isinstance(a, Var):
            mapping.setdefault(a, v)
        out.append(v)
    return tuple(out)


def _scalar_result(s: _Site, kind: str) -> Prim:
    t = s.entry.result
    if t.kind == "scalar" and isinstance(t.elem, Prim) and t.elem.is_float:
        return t.elem
    raise UsageError(
        f"{kind} needs an entry with one floating-point number as result; {s.entry.name} returns {t.text}",
        hint="use vjp with a cotangent, or jacfwd or jacrev",
    )


def _inner(fun: ir.Fun) -> ir.Fun:
    """The function no longer as an entry."""
    return ir.Fun(fun.name, fun.body, fun.num_sizes, fun.ret, None, fun.attrs, fun.span)


def _fresh_name(program: ir.Program, base: str) -> str:
    name, i = base, 1
    while name in program.funs:
        i += 1
        name = f"{base}{i}"
    return name


def _doc(kind: str, entry: ir.Entry) -> str:
    names = {
        "jvp": "The value and the directional derivative",
        "vjp": "The adjoints of arguments",
        "jmp": "The value and directional derivatives",
        "mjp": "The adjoints of arguments, for each of many cotangents",
        VMAP: "For each of a batch",
        MOVED: "The batch at other dimensions of the results",
        "grad": "The gradient",
        "value_and_grad": "The value and the gradient",
        "jacfwd": "The Jacobian (by forward mode)",
        "jacrev": "The Jacobian (by reverse mode)",
    }
    return f"{names[kind]} of {entry.name}."


# --- entry types -------------------------------------------------------------------------------------------


def _tuple(*ts: ir.EntryType) -> ir.EntryType:
    text = "(" + ", ".join([t.text for t in ts]) + ")"
    return ir.EntryType("tuple", text, None, (), tuple([(str(i), t) for i, t in enumerate(ts)]))


def _adjoint_type(s: _Site) -> ir.EntryType:
    types = [s.entry.params[i][1] for i in s.active]
    return types[0] if s.single else _tuple(*types)


def lifted(t: ir.EntryType, name: str = DIRECTIONS, axis: int = 0) -> ir.EntryType:
    """The type with one more dimension in each component."""
    return _map_leaves(t, lambda elem, d: _leaf_type(elem, (*d.dims[:axis], name, *d.dims[axis:])))


def _leaf_type(elem: Prim, dims: tuple[str | int | None, ...]) -> ir.EntryType:
    if not dims:
        return ir.EntryType("scalar", elem.name, elem)
    text = "".join(f"[{'' if d is None else d}]" for d in dims) + elem.name
    return ir.EntryType("array", text, elem, dims)


def _map_leaves(
    t: ir.EntryType,
    f: Callable[[Prim, ir.EntryType], ir.EntryType],
    outer: tuple[str | int | None, ...] = (),
) -> ir.EntryType:
    """The structure of `t` with each component (element type, its type) replaced; an array of tuples becomes
    a tuple of arrays, as users see it."""
    if t.kind in ("scalar", "array"):
        dims = outer + t.dims
        if isinstance(t.elem, ir.EntryType):
            return _map_leaves(t.elem, f, dims)
        assert isinstance(t.elem, Prim)
        return f(t.elem, _leaf_type(t.elem, dims))
    fields = tuple([(n, _map_leaves(ft, f, outer)) for n, ft in t.fields])
    if t.kind == "tuple":
        return _tuple(*[ft for _, ft in fields])
    text = "{" + ", ".join([f"{n}: {ft.text}" for n, ft in fields]) + "}"
    return ir.EntryType("record", text, None, (), fields)
