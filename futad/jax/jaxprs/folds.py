"""Rules of reductions and running reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.builder import Builder, Ex
from futad.core.types import BOOL, I64, TRUE, Atom, Const, Prim, i64, one, shape_of, zero
from futad.jax.jaxprs.lifted import (
    Value,
    along,
    folded,
    iota,
    op_at,
    operator,
    pointwise,
    reversed_,
    swept_back,
    whole,
)
from futad.jax.jaxprs.table import Site, rule

Operator = Callable[[Builder, Atom, Atom], Atom]


def extreme(elem: Prim, name: str) -> Const:
    """What `max` or `min` of nothing is."""
    if elem is BOOL:
        return Const(elem, name == "min")
    sign = -1 if name == "max" else 1
    if elem.is_float:
        return Const(elem, sign * math.inf)
    info = np.iinfo(elem.dtype)
    return Const(elem, int(info.min if name == "max" else info.max))


def reduced(b: Builder, x: Value, axes: Sequence[int], name: str, neutral: Const) -> Value:
    """All elements along axes combined by a commutative scalar operation."""
    if not axes:
        return x
    return along(b, lambda c, row: [folded(c, name, neutral, row)], [x], axes)[0]


def summed(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The sum along axes; along those where x repeats, a multiple."""
    repeated = [d for d in axes if d not in x.axes]
    own = [d for d in axes if d in x.axes]
    if repeated and x.elem is not BOOL:
        left = tuple([x.shape[d] for d in range(x.rank) if d not in repeated])
        times = b.convert(x.elem, b.size_mul([x.shape[d] for d in repeated]))
        renamed = tuple([d - sum(k < d for k in repeated) for d in x.axes])
        x = op_at(b, "mul", Value(x.atom, renamed, left), whole(times))
        own = [d - sum(k < d for k in repeated) for d in own]
        return reduced(b, x, own, "add", zero(x.elem))
    return reduced(b, x, list(axes), "add", zero(x.elem))


@rule("reduce_sum", reads="axes", hints="out_sharding")
def _sum(s: Site, x: Value) -> Value:
    return summed(s.b, x, s.params["axes"])


def _plain(name: str, op: str, unit: Callable[[Prim], Const]) -> None:
    @rule(name, reads="axes", hints="out_sharding")
    def _reduce(s: Site, x: Value) -> Value:
        return reduced(s.b, x, s.params["axes"], op, unit(x.elem))


def _all_ones(t: Prim) -> Const:
    return TRUE if t is BOOL else Const(t, -1 if t.kind == "int" else (1 << t.bits) - 1)


_plain("reduce_prod", "mul", one)
_plain("reduce_and", "and", _all_ones)
_plain("reduce_or", "or", zero)
_plain("reduce_xor", "xor", zero)


@rule("reduce_max", "reduce_min", reads="axes", hints="out_sharding")
def _extreme(s: Site, x: Value) -> Value:
    """NaN if an element is: the core's `max` would leave it out.  A sum of the NaNs is of the elements' type, so that
    lanes need no bools."""
    name = s.name.removeprefix("reduce_")
    axes = s.params["axes"]
    if x.elem is BOOL:
        return reduced(s.b, x, axes, "or" if name == "max" else "and", extreme(BOOL, name))
    most = reduced(s.b, x, axes, name, extreme(x.elem, name))
    if not x.elem.is_float:
        return most

    def if_nan(c: Builder, y: Atom) -> list[Atom]:
        return [c.op("select", c.op("isnan", y), c.op("stop_gradient", y), zero(x.elem))]

    nans = reduced(s.b, pointwise(s.b, if_nan, [x], x.shape)[0], axes, "add", zero(x.elem))
    return op_at(s.b, "select", op_at(s.b, "isnan", nans), whole_like(most, Const(x.elem, math.nan)), most)


def whole_like(v: Value, c: Const) -> Value:
    return Value(c, (), v.shape)


@rule("argmax", "argmin", reads="axes", result="index_dtype")
def _arg(s: Site, x: Value) -> Value:
    """The first place of an extreme element, or of a NaN."""
    (axis,) = s.params["axes"]
    name = "max" if s.name == "argmax" else "min"
    to = s.elem()
    most = extreme(x.elem, name)

    def better(x: Ex, y: Ex) -> Ex:
        """Whether x comes before y whatever their places."""
        if x.type is BOOL:
            return x & ~y if name == "max" else ~x & y
        beats = y.op("lt", x) if name == "max" else x.op("lt", y)
        return beats.op("or", x.op("isnan") & ~y.op("isnan")) if x.type.is_float else beats

    def choose(c: Builder, x: Atom, i: Atom, y: Atom, j: Atom) -> list[Atom]:
        a, p, q = c.ex(x), c.ex(i), c.ex(j)
        d = c.ex(y)
        first = better(a, d).op("or", ~better(d, a) & p.op("lt", q)).atom
        return [c.op("select", first, x, y), c.op("select", first, i, j)]

    def of_row(c: Builder, row: Atom) -> list[Atom]:
        n = shape_of(row.type)[0]
        lam = c.lambda_([("x", x.elem), ("i", I64), ("y", x.elem), ("j", I64)], choose)
        places = iota(c, n, I64)
        far = i64((1 << 63) - 1)
        found = c.emit(ir.Reduce(n, (row, places), lam, (most, far), True))
        return [c.convert(to, found[1])]

    return along(s.b, of_row, [x], [axis])[0]


_UNITS: dict[str, Callable[[Prim], Const]] = {
    "add": zero, "mul": one, "and": _all_ones, "or": zero, "xor": zero,
    "max": lambda t: extreme(t, "max"), "min": lambda t: extreme(t, "min"),
}  # fmt: skip


def unit_of(closed: Any, elem: Prim) -> Const | None:
    """The neutral element of an operator that is one primitive; None for others."""
    jaxpr = getattr(closed, "jaxpr", closed)
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2 or elem is BOOL:
        return None
    (eqn,) = jaxpr.eqns
    if set(eqn.invars) != set(jaxpr.invars) or list(eqn.outvars) != list(jaxpr.outvars):
        return None
    if eqn.primitive.name in ("jit", "pjit"):
        return unit_of(eqn.params["jaxpr"], elem)
    unit = _UNITS.get(eqn.primitive.name)
    return unit(elem) if unit is not None else None


def folded_from(
    b: Builder, f: Callable[..., list[Atom]], units: Sequence[Const | None], inits: Sequence[Atom], rows: Sequence[Atom]
) -> list[Atom]:
    """All elements of arrays, and `inits` once, combined by an operator f of so many pairs, which is associative and
    commutative.  Where its neutral elements are not known (`units`) they are `inits`, as XLA demands."""
    types = [i.type for i in inits]
    known = [u for u in units if u is not None]
    neutral = tuple(known) if len(known) == len(units) else tuple(inits)

    def fold(c: Builder, *arrays: Atom) -> list[Atom]:
        shape = shape_of(arrays[0].type)
        if len(shape) > 1 and not known:
            arrays = tuple([c.let(ir.Reshape(a, (c.size_mul(shape),))) for a in arrays])
        elif len(shape) > 1:
            arrays = tuple(c.map_(fold, *arrays))
        lam = c.lambda_([("x", t) for t in types] + [("y", t) for t in types], f)
        return list(c.emit(ir.Reduce(shape_of(arrays[0].type)[0], arrays, lam, neutral, True)))

    made = fold(b, *rows)
    return made if neutral == tuple(inits) else f(b, *inits, *made)


@rule("reduce", reads="jaxpr dimensions", hints="computation out_sharding")
def _reduce(s: Site, *operands: Value) -> list[Value]:
    """By an operator that the program gives; XLA takes it to be associative and commutative."""
    k = len(operands) // 2
    arrays, inits = operands[:k], [v.atom for v in operands[k:]]
    closed, axes = s.params["jaxpr"], sorted(s.params["dimensions"])

    def f(b: Builder, *xs: Atom) -> list[Atom]:
        return [v.atom for v in s.importer.run(b, closed, [whole(x) for x in xs])]

    units = [unit_of(closed, arrays[0].elem)] if k == 1 else [None] * k
    return along(s.b, lambda c, *rows: folded_from(c, f, units, inits, rows), arrays, axes)


# --- running reductions -----------------------------------------------------------------------------------


def scanned(s: Site, x: Value, axis: int, f: Operator, neutral: Const, back: bool) -> Value:
    """The running combination along an axis by an associative operator."""
    b = s.b
    if back:
        x = reversed_(b, x, [axis])

    def of_row(c: Builder, row: Atom) -> list[Atom]:
        return list(c.emit(ir.Scan(shape_of(row.type)[0], (row,), operator(c, x.elem, f), (neutral,))))

    made = swept_back(b, along(b, of_row, [x], [axis])[0], [axis])
    return reversed_(b, made, [axis]) if back else made


def _running(name: str, f: Operator, unit: Callable[[Prim], Const]) -> None:
    @rule(name, reads="axis reverse")
    def _cumulative(s: Site, x: Value) -> Value:
        return scanned(s, x, s.params["axis"], f, unit(x.elem), bool(s.params["reverse"]))


def running_extreme(s: Site, x: Value, axis: int, name: str, back: bool) -> Value:
    """NaN from the first NaN on."""
    made = scanned(s, x, axis, lambda c, p, q: c.op(name, p, q), extreme(x.elem, name), back)
    if not x.elem.is_float:
        return made
    nan = op_at(s.b, "isnan", x)
    met = scanned(s, nan, axis, lambda c, p, q: c.op("or", p, q), zero(BOOL), back)
    return op_at(s.b, "select", met, whole_like(made, Const(x.elem, math.nan)), made)


@rule("cummax", "cummin", reads="axis reverse")
def _cumulative_extreme(s: Site, x: Value) -> Value:
    return running_extreme(s, x, s.params["axis"], s.name.removeprefix("cum"), bool(s.params["reverse"]))


def log_add_exp(b: Builder, x: Atom, y: Atom) -> Atom:
    """log(e^x + e^y), shifted by the larger one."""
    p, q = b.ex(x), b.ex(y)
    top = p.op("max", q)
    shift = (top.op("abs").op("lt", math.inf)).select(top, 0.0)
    return (((p - shift).exp() + (q - shift).exp()).log() + shift).atom


_running("cumsum", lambda c, p, q: c.op("add", p, q), zero)
_running("cumprod", lambda c, p, q: c.op("mul", p, q), one)
_running("cumlogsumexp", log_add_exp, lambda t: Const(t, -math.inf))

