"""The interpreter's rules for arrays: indexing, updates, construction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.interp_machine import (
    MAX_BATCH,
    Interpreter,
    Irregular,
    Scope,
    TooBig,
    Values,
    at_lane,
    handler,
    lift_value,
    rank_of,
    select_lanes,
)
from futad.core.node import Range
from futad.core.types import ArrayType, elem_of
from futad.core.work import MULTIPLY_ADD
from futad.errors import (
    EXCEEDS,
    OUT_OF_BOUNDS,
    SLICE_OUT_OF_BOUNDS,
    ExecutionError,
    InternalError,
    OutOfMemory,
    Span,
    failed_check,
)

_ALL = slice(None)


def _check(sc: Scope, bad: Any, index: Any, size: int, place: Span | None, count: int | None = None) -> None:
    """Fails if `bad` (batched bool) holds in an active iteration, naming the index there, or the range of `count`."""
    failed = select_lanes(sc, bad)
    if failed is False:
        return
    lane: tuple[int, ...] = ()
    if sc.depth:
        where = sc.full_mask() if failed is True else failed
        lane = tuple([int(c[0]) for c in np.nonzero(where)])
    at = int(at_lane(lift_value(index, 0, sc.depth) if index.ndim else index, lane))
    shown = [at, size] if count is None else [at, at + count, size]
    template = message = OUT_OF_BOUNDS if count is None else SLICE_OUT_OF_BOUNDS
    for value in shown:
        message = message.replace("{}", str(value), 1)
    if place is None:
        raise InternalError(f"unchecked: {message}")
    raise failed_check(template, message, place)


class _Positions:
    """A checked index: per dimension either a batched scalar, or start, count and stride of a range.

    `varies`: whether any part differs between iterations.
    """

    def __init__(self, m: Interpreter, index: ir.Index, dims: tuple[int, ...], check: Span | None, sc: Scope) -> None:
        self.parts: list[Any] = []
        self.counts: list[int] = []
        self.varies = False
        for i, n in zip(index, dims, strict=False):
            if isinstance(i, Range):
                count = m.size(i.count, sc)
                start, stride = (m.plain(m.lift(a, sc.depth)) for a in (i.start, i.stride))
                dense = bool((stride == 1).all())
                if count != 0:
                    _check(sc, (start < 0) | (start >= n), start, n, check, count if dense else None)
                if count < 0:
                    raise ExecutionError(f"slice of negative size {count}", check)
                if count > 0:
                    with np.errstate(over="ignore"):
                        last = start + stride * np.int64(count - 1)
                    shown = (start, n, check, count) if dense else (last, n, check)
                    _check(sc, (last < 0) | (last >= n), *shown)
                self.counts.append(count)
                parts = [start, stride]
                part: Any = (start, count, stride)
            else:
                part = m.plain(m.lift(i, sc.depth))
                _check(sc, (part < 0) | (part >= n), part, n, check)
                parts = [part]
            self.parts.append(part)
            self.varies = self.varies or any(p.size > 1 for p in parts)

    def basic(self) -> tuple[Any, ...]:
        """As a tuple of ints and slices; nothing varies."""
        out: list[Any] = []
        for p in self.parts:
            if type(p) is tuple:
                start, count, stride = p[0].item(), p[1], p[2].item()
                if count == 0:
                    out.append(slice(0, 0))
                elif stride == 0:
                    out.append(np.full(count, start))
                else:
                    stop = start + stride * count
                    out.append(slice(start, stop if stop >= 0 else None, stride))
            else:
                out.append(p.item())
        return tuple(out)

    def arrays(self, pick: Any, lead: int) -> list[np.ndarray]:
        """As index arrays of `lead` leading dimensions followed by one per range; `pick` turns a batched
        scalar into an array of the leading dimensions."""
        ranges = len(self.counts)
        out: list[np.ndarray] = []
        seen = 0
        for p in self.parts:
            if type(p) is tuple:
                start, count, stride = pick(p[0]), p[1], pick(p[2])
                step = np.arange(count).reshape((count,) + (1,) * (ranges - seen - 1))
                tail = (1,) * (ranges - seen)
                a = start.reshape(start.shape + tail) + stride.reshape(stride.shape + tail) * step
                out.append(a.reshape(a.shape[:lead] + (1,) * seen + a.shape[lead:]))
                seen += 1
            else:
                v = pick(p)
                out.append(v.reshape(v.shape + (1,) * ranges))
        return out


def gather(m: Interpreter, array: np.ndarray, pos: _Positions, sc: Scope) -> np.ndarray:
    """`array` (all batch dimensions present) at varying positions, inactive iterations anywhere."""
    k = sc.depth
    own = array.shape[k : k + len(pos.parts)]
    kept = tuple(pos.counts) + array.shape[k + len(pos.parts) :]
    if 0 in own or 0 in pos.counts:
        return np.zeros((1,) * k + kept, array.dtype)
    ranges = len(pos.counts)
    where: list[Any] = []
    for d in range(k):
        n = array.shape[d]
        where.append(np.arange(n).reshape((1,) * d + (n,) + (1,) * (k - d - 1 + ranges)))
    for i, n in zip(pos.arrays(lambda v: lift_value(v, 0, k), k), own, strict=True):
        where.append(i if sc.mask is None else np.clip(i, 0, n - 1))
    batch = np.broadcast_shapes(*[w.shape for w in where])
    if math.prod(batch) * math.prod(array.shape[k + len(pos.parts) :]) > MAX_BATCH * 4:
        raise TooBig
    return array[tuple(where)]


@handler(ir.At)
def _at(m: Interpreter, e: ir.At, stm: ir.Stm, sc: Scope) -> Values:
    array = m.value(e.array)
    d = array.ndim - rank_of(e.array.type)
    pos = _Positions(m, e.index, array.shape[d:], e.check, sc)
    scalar = rank_of(stm.pat[0].type) == 0
    if scalar:
        m.count("at", read=sc.lanes)
    if not pos.varies and (sc.mask is None or _inside(pos, array.shape[d:])):
        index = pos.basic()
        if any(isinstance(i, np.ndarray) for i in index):  # stride 0: advanced indexing, one axis at a time
            out = array
            for axis, i in reversed(list(enumerate(index))):
                out = out[(_ALL,) * (d + axis) + (i,)]
        else:
            out = array[(_ALL,) * d + index]
        if scalar and out.ndim:  # a scalar keeps its value when the array is overwritten
            out = out.copy()
    else:
        out = gather(m, lift_value(array, rank_of(e.array.type), sc.depth), pos, sc)
    return (out,)


def _inside(pos: _Positions, dims: tuple[int, ...]) -> bool:
    """Whether uniform positions are in range even though no active iteration vouched for them."""
    for p, n in zip(pos.parts, dims, strict=False):
        if type(p) is tuple:
            start, count, stride = p[0].item(), p[1], p[2].item()
            if count and not (0 <= start < n and 0 <= start + stride * (count - 1) < n):
                return False
        elif not 0 <= p.item() < n:
            return False
    return True


def target(m: Interpreter, a: ir.Atom, stm: ir.Stm, batch: tuple[int, ...], sc: Scope) -> np.ndarray:
    """The array `a` to be overwritten by `stm`, with the given batch dimensions: itself or a copy."""
    array = m.value(a)
    if not batch and array.ndim == rank_of(a.type):
        return m.mutable(array, stm)
    array = lift_value(array, rank_of(a.type), sc.depth)
    batch = np.broadcast_shapes(batch, array.shape[: sc.depth])
    if batch == array.shape[: sc.depth]:
        return m.mutable(array, stm)
    return np.broadcast_to(array, batch + array.shape[sc.depth :]).copy()


def own_size(array: np.ndarray, depth: int) -> int:
    """Elements per iteration."""
    return math.prod(array.shape[depth:])


@handler(ir.Update)
def _update(m: Interpreter, e: ir.Update, stm: ir.Stm, sc: Scope) -> Values:
    k = sc.depth
    r = rank_of(e.array.type)
    array = m.value(e.array)
    dims = array.shape[array.ndim - r :]
    pos = _Positions(m, e.index, dims, e.check, sc)
    kept = tuple(pos.counts) + dims[len(e.index) :]
    if m.counting:
        n = math.prod(kept)
        copied = 0 if m.in_place(stm) else math.prod(dims)
        m.count("update", read=sc.lanes * ((n if kept else 0) + copied), written=sc.lanes * (n + copied))
    value = m.value(e.value)
    own_value = value.shape[value.ndim - len(kept) :]
    if own_value != kept:
        raise InternalError(f"an update of shape {own_value} at positions of shape {kept}")
    value = m.lift(e.value, k)
    if not pos.varies and sc.mask is None:
        batch = value.shape[: value.ndim - len(kept)]
        out = target(m, e.array, stm, batch, sc)
        lead = out.ndim - r
        index = pos.basic()
        if 0 not in kept:
            last = [i[-1] if isinstance(i, np.ndarray) else i for i in index]  # stride 0: the last value wins
            vals = value
            for axis, i in enumerate(j for j in index if not isinstance(j, int)):
                if isinstance(i, np.ndarray):
                    vals = np.take(vals, [-1], axis=vals.ndim - len(kept) + axis)
            sl = [slice(s, s + 1) if isinstance(i, np.ndarray) else s for s, i in zip(last, index, strict=True)]
            if lead == 0 and vals.ndim > len(kept):
                vals = vals.reshape(vals.shape[vals.ndim - len(kept) :])
            out = m.store(out, (_ALL,) * lead + tuple(sl), vals)
        return (out,)
    out = target(m, e.array, stm, sc.batch, sc)
    lanes = np.nonzero(sc.full_mask())
    if 0 not in kept:
        ranges = len(pos.counts)
        where = [c.reshape(c.shape + (1,) * ranges) for c in lanes]
        where += pos.arrays(lambda v: np.broadcast_to(v, sc.batch)[lanes], 1)
        out = m.store(out, tuple(where), np.broadcast_to(value, sc.batch + kept)[lanes])
    return (out,)


@handler(ir.Iota)
def _iota(m: Interpreter, e: ir.Iota, stm: ir.Stm, sc: Scope) -> Values:
    (n,) = m.sizes((e.count,), sc)  # no work: backends store no such array until something needs it in memory
    start, step = m.lift(e.start, sc.depth), m.lift(e.step, sc.depth)
    base = np.arange(n).astype(start.dtype)
    return (start[..., None] + base * step[..., None],)


@handler(ir.Replicate)
def _replicate(m: Interpreter, e: ir.Replicate, stm: ir.Stm, sc: Scope) -> Values:
    shape = m.sizes(e.shape, sc)
    v = m.value(e.value)
    d = v.ndim - rank_of(e.value.type)
    m.count("replicate", written=math.prod(shape) * own_size(v, d) * sc.lanes)
    if v.ndim > d:  # fresh memory: the value may be overwritten later
        v = v.copy()
    v = v[(_ALL,) * d + (None,) * len(shape)]
    return (np.broadcast_to(v, v.shape[:d] + shape + v.shape[d + len(shape) :]),)


@handler(ir.ArrayLit)
def _array_lit(m: Interpreter, e: ir.ArrayLit, stm: ir.Stm, sc: Scope) -> Values:
    if not e.elems:
        return (m.empty(stm.pat[0].type, sc),)
    depth, elems = m.common(e.elems, sc)
    _same_shapes([v.shape[depth:] for v in elems])
    out = np.stack(elems, axis=depth)
    m.count("arraylit", written=own_size(out, depth) * sc.lanes)
    return (out,)


def _same_shapes(shapes: list[tuple[int, ...]]) -> None:
    if any(s != shapes[0] for s in shapes):
        raise InternalError(f"arrays of different shapes {shapes} where equal ones are expected")


@handler(ir.Concat)
def _concat(m: Interpreter, e: ir.Concat, stm: ir.Stm, sc: Scope) -> Values:
    depth, arrays = m.common(e.arrays, sc)
    _same_shapes([v.shape[depth + 1 :] for v in arrays])
    out = np.concatenate(arrays, axis=depth)
    if out.shape[depth] != m.size(e.size, sc):
        raise InternalError(f"concat of size {out.shape[depth]}, declared {m.size(e.size, sc)}")
    n = own_size(out, depth) * sc.lanes
    m.count("concat", read=n, written=n)
    return (out,)


@handler(ir.Reshape)
def _reshape(m: Interpreter, e: ir.Reshape, stm: ir.Stm, sc: Scope) -> Values:
    v = m.value(e.array)
    d = v.ndim - rank_of(e.array.type)
    shape = m.sizes(e.shape, sc)
    if math.prod(shape) != own_size(v, d):
        raise InternalError(f"reshape of {v.shape[d:]} to {shape}")
    try:
        return (v.reshape(v.shape[:d] + shape),)
    except ValueError:  # of an array without elements
        raise OutOfMemory(EXCEEDS) from None


@handler(ir.Rearrange)
def _rearrange(m: Interpreter, e: ir.Rearrange, stm: ir.Stm, sc: Scope) -> Values:
    v = m.value(e.array)
    d = v.ndim - rank_of(e.array.type)
    return (v.transpose(tuple(range(d)) + tuple([d + p for p in e.perm])),)


@handler(ir.ArgSort)
def _argsort(m: Interpreter, e: ir.ArgSort, stm: ir.Stm, sc: Scope) -> Values:
    keys = m.plain(m.value(e.keys))
    m.count("argsort", read=keys.shape[-1] * sc.lanes, written=keys.shape[-1] * sc.lanes)
    return (np.argsort(keys, axis=-1, kind="stable"),)


@handler(ir.MatMul)
def _matmul(m: Interpreter, e: ir.MatMul, stm: ir.Stm, sc: Scope) -> Values:
    _, (a, b) = m.common((e.a, e.b), sc)
    rows, inner = a.shape[-2:]
    columns = b.shape[-1]
    products = rows * inner * columns * sc.lanes
    m.count(
        "matmul",
        ops=2 * products,
        read=(rows + columns) * inner * sc.lanes,
        written=rows * columns * sc.lanes,
    )
    _multiply_adds(m, stm, e.a, products)
    if m.counting and e.plus:
        m.tally.operation(stm, "add", elem_of(e.a.type), rows * columns * sc.lanes)
    with np.errstate(all="ignore"):
        out = m.total("add", np.matmul(a, b), lambda: np.matmul(np.abs(a), np.abs(b)), inner)
        return (out + m.common(e.plus, sc)[1][0] if e.plus else out,)


def _multiply_adds(m: Interpreter, stm: ir.Stm, factor: ir.Atom, times: int) -> None:
    if m.counting:
        m.tally.operation(stm, MULTIPLY_ADD, elem_of(factor.type), times)


@handler(ir.Contraction)
def _contraction(m: Interpreter, e: ir.Contraction, stm: ir.Stm, sc: Scope) -> Values:
    sizes = m.sizes(e.sizes, sc)
    outs, summed = sizes[: e.outs], math.prod(sizes[e.outs :])
    depth, arrays = m.common((e.a, e.b), sc)
    batch = arrays[0].shape[:depth]
    products = math.prod(sizes) * sc.lanes
    m.count("contraction", ops=2 * products, read=2 * products, written=math.prod(outs) * sc.lanes)
    _multiply_adds(m, stm, e.a, products)
    if not math.prod(sizes):
        return (np.zeros(batch + outs, arrays[0].dtype),)
    terms: list[np.ndarray] = []
    there = np.full(sizes, True)
    for f, v in zip(e.factors, arrays, strict=True):
        index = [np.full(sizes, m.size(start, sc)) for start in f.start]
        for d, steps in enumerate(f.steps):
            for step, along in zip(steps, np.indices(sizes, sparse=True), strict=True):
                index[d] += m.size(step, sc) * along
        for d, n in enumerate(v.shape[depth:]):
            within = (index[d] >= 0) & (index[d] < n)
            if not f.open and not within.all():
                raise InternalError("a contraction reads out of range")
            there &= within
            index[d] = np.where(within, index[d], 0)
        if not v.size:
            return (np.zeros(batch + outs, v.dtype),)
        at: tuple[Any, ...] = (..., *index)
        terms.append(v[at] if index else v[(..., *(None,) * len(sizes))])
    axes = tuple(range(depth + e.outs, depth + len(sizes)))
    with np.errstate(all="ignore"):
        nothing = arrays[0].dtype.type(0)
        product = np.broadcast_to(np.where(there, terms[0] * terms[1], nothing), batch + sizes)
        out = np.add.reduce(product, axis=axes, dtype=product.dtype)
        return (m.total("add", out, lambda: np.abs(product).sum(axis=axes), summed),)


@handler(ir.Copy)
def _copy(m: Interpreter, e: ir.Copy, stm: ir.Stm, sc: Scope) -> Values:
    v = m.value(e.array)
    n = own_size(v, v.ndim - rank_of(e.array.type)) * sc.lanes
    m.count("copy", read=n, written=n)
    return (v.copy(),)


@handler(ir.Scratch)
def _scratch(m: Interpreter, e: ir.Scratch, stm: ir.Stm, sc: Scope) -> Values:
    return (m.unwritten(m.sizes(e.shape, sc), e.elem),)


__all__ = ["ArrayType", "Irregular", "gather", "own_size", "target"]
