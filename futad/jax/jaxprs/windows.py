"""Rules of what slides a window over axes: reductions of windows, convolutions.

What is outside the array, and between its elements where it is dilated, is the fold's neutral element.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from jax import lax
from jax import numpy as jnp

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import BOOL, ONE, ZERO, Atom, Const, Prim, i64, row_type, shape_of, zero
from futad.jax.jaxprs.folds import extreme, folded_from, unit_of
from futad.jax.jaxprs.lifted import Shape, Value, dense, operator, transposed, whole
from futad.jax.jaxprs.shapes import padded
from futad.jax.jaxprs.table import Site, Unsupported, full_precision, is_one_of, rule

WINDOWS = "window_dimensions window_strides padding base_dilation window_dilation"
Fold = Callable[[Builder, Atom], Atom]
Places = tuple[Atom, ...]


def scaled(b: Builder, at: Atom, step: int) -> Atom:
    return at if step == 1 else b.op("mul", at, i64(step))


def over_places(b: Builder, shape: Shape, f: Callable[[Builder, Places], Atom], at: Places = ()) -> Atom:
    """`f(builder, place)` for all places of a shape."""
    if len(at) == len(shape):
        return f(b, at)
    places = b.let(ir.Iota(shape[len(at)], ZERO, ONE))
    return b.zip_with(lambda c, i: over_places(c, shape, f, (*at, i)), places)


def windows(s: Site, x: Value, filling: Atom, fold: Fold) -> Value:
    """The fold of each window."""
    p = s.params
    config = [(low, high, k - 1) for (low, high), k in zip(p["padding"], p["base_dilation"], strict=True)]
    full = dense(s.b, padded(s, x, filling, config))
    sizes, strides, dilation = s.sizes(p["window_dimensions"]), p["window_strides"], p["window_dilation"]

    def window(c: Builder, at: tuple[Atom, ...]) -> Atom:
        index = [Range(scaled(c, i, k), n, i64(m)) for i, n, k, m in zip(at, sizes, strides, dilation, strict=True)]
        return fold(c, c.at(full, *index))

    return whole(over_places(s.b, s.shape(), window))


def fold_by(f: Callable[[Builder, Atom, Atom], Atom], neutral: Const) -> Fold:
    """All elements of an array by an operator."""

    def fold(b: Builder, a: Atom) -> Atom:
        if not isinstance(row_type(a.type), Prim):
            a = b.zip_with(fold, a)
        lam = operator(b, neutral.type, f)
        return b.emit(ir.Reduce(shape_of(a.type)[0], (a,), lam, (neutral,), True))[0]

    return fold


def with_nan(op: str) -> Callable[[Builder, Atom, Atom], Atom]:
    """The larger (smaller) of two, NaN if one is."""

    def f(b: Builder, x: Atom, y: Atom) -> Atom:
        p, q = b.ex(x), b.ex(y)
        if not p.type.is_float:
            return p.op(op, q).atom
        first = (q.op("lt", p) if op == "max" else p.op("lt", q)).op("or", p.op("isnan"))
        return first.select(p, q).atom

    return f


@rule("reduce_window_sum", reads=WINDOWS)
def _window_sum(s: Site, x: Value) -> Value:
    name = "or" if x.elem is BOOL else "add"
    return windows(s, x, zero(x.elem), fold_by(lambda b, p, q: b.op(name, p, q), zero(x.elem)))


@rule("reduce_window_max", "reduce_window_min", reads=WINDOWS)
def _window_extreme(s: Site, x: Value) -> Value:
    name = s.name.removeprefix("reduce_window_")
    op = {"max": "or", "min": "and"}[name] if x.elem is BOOL else name
    neutral = extreme(x.elem, name)
    return windows(s, x, neutral, fold_by(with_nan(op), neutral))


@rule("reduce_window", reads=f"{WINDOWS} jaxpr", only={"consts": is_one_of(())})
def _window(s: Site, x: Value, *rest: Value) -> Value:
    if len(rest) != 1:
        raise Unsupported("of several arrays")
    init, unit = rest[0].atom, unit_of(s.params["jaxpr"], x.elem)

    def f(b: Builder, p: Atom, q: Atom) -> list[Atom]:
        return [s.importer.run(b, s.params["jaxpr"], [whole(p), whole(q)])[0].atom]

    return windows(s, x, unit or init, lambda b, a: folded_from(b, f, [unit], [init], [a])[0])


def chosen(s: Site, x: Any, carried: Any) -> Any:
    """In JAX: of each window of x, padded by what is never chosen, what is `carried` along with its largest (least)
    element, the first one of several; as in XLA, where an element replaces one that is not >= (<=) it."""
    p = s.params
    ge = p["select_prim"].name == "ge"
    dims, strides = p["window_dimensions"], p["window_strides"]
    base, dilation = (p.get(name, (1,) * len(dims)) for name in ("base_dilation", "window_dilation"))
    config = [(low, high, k - 1) for (low, high), k in zip(p["padding"], base, strict=True)]
    floats = jnp.issubdtype(x.dtype, jnp.floating)
    ends = (-jnp.inf, jnp.inf) if floats else (jnp.iinfo(x.dtype).min, jnp.iinfo(x.dtype).max)
    full = lax.pad(x, jnp.asarray(ends[0 if ge else 1], x.dtype), config)
    along = lax.pad(carried, jnp.zeros((), carried.dtype), config)
    spans = zip(full.shape, dims, dilation, strides, strict=True)
    ends_at = [size - (n - 1) * k for size, n, k, _ in spans]  # of the places where windows begin

    def at(a: Any, place: tuple[int, ...]) -> Any:
        first = [i * k for i, k in zip(place, dilation, strict=True)]
        return lax.slice(a, first, [i + n for i, n in zip(first, ends_at, strict=True)], strides)

    places = list(itertools.product(*[range(n) for n in dims]))
    best, made = at(full, places[0]), at(along, places[0])
    for place in places[1:]:
        new = at(full, place)
        kept = best >= new if ge else best <= new
        best, made = jnp.where(kept, best, new), jnp.where(kept, made, at(along, place))
    return made


@rule("select_and_gather_add", reads=f"{WINDOWS} select_prim")
def _chosen_tangents(s: Site, tangents: Value, x: Value) -> Value:
    """The tangents of the largest (least) elements of windows."""
    avals = [v.aval for v in s.eqn.invars]
    return s.importer.traced(s.b, lambda t, x: chosen(s, x, t), avals, [tangents, x])[0]


@rule("select_and_scatter_add", reads=f"{WINDOWS} select_prim")
def _chosen_adjoints(s: Site, adjoints: Value, x: Value) -> Value:
    """The adjoint of each window, at its largest (least) element."""

    def added(g: Any, x: Any) -> Any:
        count = math.prod(x.shape)
        at = chosen(s, x, jnp.arange(1, count + 1).reshape(x.shape))  # 0 is of the padding
        return jnp.zeros(count + 1, g.dtype).at[at.ravel()].add(g.ravel())[1:].reshape(x.shape)

    return s.importer.traced(s.b, added, [v.aval for v in s.eqn.invars], [adjoints, x])[0]


@rule("conv_general_dilated", result="preferred_element_type", hints="out_sharding",
      reads="dimension_numbers padding lhs_dilation rhs_dilation window_strides feature_group_count batch_group_count",
      only={"precision": full_precision})  # fmt: skip
def _convolution(s: Site, x: Value, kernel: Value) -> Value:
    """For each output the sum over the kernel's places and the channels of a group."""
    b, p, elem = s.b, s.params, s.elem()
    numbers = p["dimension_numbers"]
    image, weights = transposed(b, x, numbers.lhs_spec), transposed(b, kernel, numbers.rhs_spec)
    config: list[tuple[Any, Any, int]] = [(0, 0, 0), (0, 0, 0)]
    config += [(low, high, k - 1) for (low, high), k in zip(p["padding"], p["lhs_dilation"], strict=True)]
    full, filters = dense(b, padded(s, image, zero(x.elem), config)), dense(b, weights)
    strides, dilation = p["window_strides"], p["rhs_dilation"]
    channels, sizes = weights.shape[1], weights.shape[2:]
    out = tuple([s.shape()[d] for d in numbers.out_spec])
    # Groups of features read channels, groups of the batch pictures, of their own.
    groups, batches = p["feature_group_count"], p["batch_group_count"]
    per_group = share(weights.shape[0], groups * batches)

    def total(c: Builder, at: tuple[Atom, ...]) -> Atom:
        picture, feature = at[:2]
        group = c.op("quot", feature, per_group) if groups * batches > 1 else ZERO
        first = c.op("mul", group, channels) if groups > 1 else ZERO
        if batches > 1:
            picture = c.op("add", c.op("mul", group, out[0]), picture)
        index: list[Any] = [picture, Range(first, channels, ONE)]
        for i, n, k, m in zip(at[2:], sizes, strides, dilation, strict=True):
            index.append(Range(scaled(c, i, k), n, i64(m)))
        return product_sum(c, c.at(full, *index), c.at(filters, feature), elem)

    made = whole(over_places(b, out, total))
    return transposed(b, made, [list(numbers.out_spec).index(d) for d in range(len(out))])


def share(n: Atom, parts: int) -> Atom:
    if parts == 1:
        return n
    if not isinstance(n, Const):
        raise Unsupported("in groups of a number of features that is no constant")
    return i64(n.value // parts)


def product_sum(b: Builder, x: Atom, y: Atom, elem: Prim) -> Atom:
    """The sum of the products of the elements of two arrays of one shape."""

    def product(c: Builder, p: Atom, q: Atom) -> Atom:
        return c.op("mul", c.convert(elem, p), c.convert(elem, q))

    def inner(c: Builder, p: Atom, q: Atom) -> Atom:
        return product_sum(c, p, q, elem)

    terms = b.zip_with(product if len(shape_of(x.type)) == 1 else inner, x, y)
    return b.emit(ir.Reduce(shape_of(x.type)[0], (terms,), b.plus_lambda(elem), (zero(elem),), True))[0]

