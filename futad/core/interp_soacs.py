"""The interpreter's rules for second-order array constructs and accumulators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.interp_arrays import own_size, target
from futad.core.interp_machine import (
    MAX_BATCH,
    MOST_DEPTH,
    Acc,
    Interpreter,
    Irregular,
    Scope,
    TooBig,
    Value,
    Values,
    handler,
    lift_value,
    rank_of,
)
from futad.core.node import Range
from futad.core.operator import scalar_op
from futad.core.scalarops import OPS, REDUCTIONS
from futad.core.types import AccType, Atom, Const, Prim
from futad.errors import ExecutionError, InternalError

_ALL = slice(None)

def _ufunc_op(lam: ir.Lambda) -> str | None:
    """The name of the operation if `lam` is one on scalars that NumPy reduces with."""
    op = scalar_op(lam)
    return op if op in REDUCTIONS else None


def ufunc_of(name: str, t: Prim) -> np.ufunc:
    return OPS[name].ufunc(t)


def _width(m: Interpreter, e: Any, sc: Scope) -> int:
    n = m.size(e.width, sc)
    if n < 0:
        raise ExecutionError(f"{type(e).__name__.lower()} over negative size {n}")
    for a in e.arrays:
        if not isinstance(a.type, AccType):
            v = m.value(a)
            got = v.shape[v.ndim - rank_of(a.type)]
            if got != n:
                raise InternalError(f"{type(e).__name__} of width {n} over an array of {got}")
    return n


def _row(v: Value, rank: int, i: int) -> Value:
    """Element i of the outer one of the `rank` own dimensions."""
    return v[(_ALL,) * (v.ndim - rank) + (i,)]


def _ranks(atoms: Sequence[Atom]) -> list[int]:
    return [rank_of(a.type) for a in atoms]


# --- map ------------------------------------------------------------


def run_map(m: Interpreter, n: int, args: Sequence[Atom], lam: ir.Lambda, sc: Scope) -> list[Value]:
    """The results of `lam` over n > 0 elements: arrays as values of this scope, accumulators as they are."""
    values = [m.value(a) for a in args]
    key = (id(lam), sc.depth)
    if m.batched and key not in m.one_by_one:
        printed, told, kept = len(m.traces), len(m.told), m.records.mark()
        saved = [(v, v.data.copy()) for v in values if isinstance(v, Acc)]
        counted = m.tally.mark() if m.counting else None
        try:
            return _map_at_once(m, n, args, values, lam, sc)
        except (Irregular, TooBig) as e:
            for acc, data in saved:
                acc.restore(data)
            del m.traces[printed:], m.told[told:]
            m.records.back(kept)
            if counted is not None:
                m.tally.back(counted)
            if isinstance(e, TooBig) and n > 1:
                return _map_halves(m, n, args, values, lam, sc)
            m.one_by_one.add(key)
    return _map_each(m, n, args, values, lam, sc)


def _map_at_once(
    m: Interpreter, n: int, args: Sequence[Atom], values: Values, lam: ir.Lambda, sc: Scope
) -> list[Value]:
    inner = sc.enter(n)
    if inner.depth > 1 and math.prod(inner.batch) > MAX_BATCH:
        raise TooBig
    if inner.depth > MOST_DEPTH:  # recursion by way of maps
        raise Irregular
    params: list[Value] = []
    for a, v in zip(args, values, strict=True):
        if not isinstance(v, Acc):
            v = lift_value(v, rank_of(a.type), sc.depth).view()
            v.flags.writeable = False
        params.append(v)
    out: list[Value] = []
    seen: set[int] = set()
    for r, v in zip(lam.result, m.apply(lam, params, inner), strict=True):
        if not isinstance(v, Acc):
            v = lift_value(v, rank_of(r.type), inner.depth)
            k = sc.depth
            if v.shape[k] != n:
                v = np.broadcast_to(v, v.shape[:k] + (n,) + v.shape[k + 1 :])
            # Results share memory with nothing: not with parameters or free arrays (read-only here), nor
            # with each other.
            if not (v.flags.owndata and v.flags.writeable) or id(v) in seen:
                v = v.copy()
            seen.add(id(v))
        out.append(v)
    return out


def _map_halves(m: Interpreter, n: int, args: Sequence[Atom], values: Values, lam: ir.Lambda, sc: Scope) -> list[Value]:
    parts: list[list[Value]] = []
    half = n // 2
    for part in (slice(0, half), slice(half, n)):
        some = []
        for a, v in zip(args, values, strict=True):
            some.append(v if isinstance(v, Acc) else v[(_ALL,) * (v.ndim - rank_of(a.type)) + (part,)])
        width = part.stop - part.start
        saved = [(v, v.data.copy()) for v in values if isinstance(v, Acc)]
        kept, counted = m.records.mark(), m.tally.mark() if m.counting else None
        try:
            parts.append(_map_at_once(m, width, args, some, lam, sc))
        except TooBig:
            for acc, data in saved:
                acc.restore(data)
            m.records.back(kept)
            if counted is not None:
                m.tally.back(counted)
            if width == 1:
                raise
            parts.append(_map_halves(m, width, args, some, lam, sc))
    out: list[Value] = []
    for r, x, y in zip(lam.result, *parts, strict=True):
        out.append(x if isinstance(x, Acc) else _join([x, y], rank_of(r.type) + 1, sc, np.concatenate))
    return out


def _join(values: list[Value], rank: int, sc: Scope, how: Any) -> np.ndarray:
    """np.stack or np.concatenate along the first own dimension, batch dimensions broadcast."""
    depth = sc.depth if any(v.ndim > rank for v in values) else 0
    lifted = [lift_value(v, rank, depth) for v in values]
    batch = np.broadcast_shapes(*[v.shape[:depth] for v in lifted])
    try:
        return how([np.broadcast_to(v, batch + v.shape[depth:]) for v in lifted], axis=depth)
    except ValueError:
        raise InternalError("a map whose results have different shapes") from None


def _map_each(m: Interpreter, n: int, args: Sequence[Atom], values: Values, lam: ir.Lambda, sc: Scope) -> list[Value]:
    rows: list[list[Value]] = []
    arrays: list[Value] = []
    for v in values:
        if not isinstance(v, Acc):
            v = v.view()
            v.flags.writeable = False
        arrays.append(v)
    for i in range(n):
        rows.append(
            m.apply(
                lam,
                [v if isinstance(v, Acc) else _row(v, rank_of(a.type), i) for a, v in zip(args, arrays, strict=True)],
                sc,
            )
        )
    out: list[Value] = []
    for j, r in enumerate(lam.result):
        column = [row[j] for row in rows]
        out.append(column[-1] if isinstance(column[0], Acc) else _join(column, rank_of(r.type), sc, np.stack))
    return out


@handler(ir.Map)
def _map(m: Interpreter, e: ir.Map, stm: ir.Stm, sc: Scope) -> Values:
    n = _width(m, e, sc)
    _count_elements(m, "map", e.arrays, stm.pat, n, sc)
    if n == 0:
        accs = [m.value(a) for a in e.arrays if isinstance(a.type, AccType)]
        return accs + [m.empty(v.type, sc) for v in stm.pat[len(accs) :]]
    return run_map(m, n, e.arrays, e.lam, sc)


def _count_elements(
    m: Interpreter, kind: str, read: Sequence[Atom], written: Sequence[Atom], n: int, sc: Scope
) -> None:
    """Scalar rows are read and written; array rows are views, counted where they are looked into."""
    if m.counting:
        m.count(kind, read=n * sc.lanes * sum(rank_of(a.type) == 1 for a in read),
                written=n * sc.lanes * sum(rank_of(a.type) == 1 for a in written))  # fmt: skip


# --- reduce and scan ------------------------------------------------------------


def run_reduce(
    m: Interpreter, n: int, arrays: Values, ranks: Sequence[int], lam: ir.Lambda, neutral: ir.Atoms, sc: Scope
) -> list[Value]:
    """Left fold from the neutral elements; `ranks` are the arrays' ranks."""
    state = [m.plain(m.value(a)) for a in neutral]  # neither derivative comes by way of them
    name = _ufunc_op(lam) if n else None
    if name is not None and m.folds(name, arrays):
        (v,), (a,) = arrays, neutral
        assert isinstance(a.type, Prim)
        m.operation(lam, name, a.type, n * sc.lanes)
        total = ufunc_of(name, a.type).reduce(v, axis=v.ndim - 1, dtype=v.dtype)
        total = m.total(name, total, lambda: np.add.reduce(np.abs(v), axis=v.ndim - 1), n)
        first = m.plain(m.lift(a, sc.depth))
        return [_combine(m, name, first, a, lift_value(total, 0, sc.depth) if total.ndim else total)]
    for i in range(n):
        state = m.apply(lam, [*state, *[_row(v, r, i) for v, r in zip(arrays, ranks, strict=True)]], sc)
    # Results are fresh even where the operator returns an operand.
    return [v.copy() if v.ndim else v for v in state]


def _combine(m: Interpreter, name: str, first: Value, atom: Atom, rest: Value) -> Value:
    """first op rest, skipped if `atom` (the first's) is the unit."""
    if type(atom) is Const and (unit := OPS[name].unit) is not None and atom.value == unit(atom.type):
        return rest
    out = m.evaluate(OPS[name], [first, rest])
    return out[()] if out.ndim == 0 else out


def run_scan(
    m: Interpreter, n: int, arrays: Values, ranks: Sequence[int], lam: ir.Lambda, neutral: ir.Atoms, sc: Scope
) -> list[Value]:
    """Inclusive left scan of n > 0 elements."""
    name = _ufunc_op(lam)
    if name is not None and m.folds(name, arrays):
        (v,), (a,) = arrays, neutral
        assert isinstance(a.type, Prim)
        m.operation(lam, name, a.type, n * sc.lanes)
        v = lift_value(v, 1, sc.depth)
        out = ufunc_of(name, a.type).accumulate(v, axis=sc.depth, dtype=v.dtype)
        if name in ("min", "max") and a.type.is_float:
            out = _latest_zeros(v, out, sc.depth)
        out = m.total(name, out, lambda: np.add.accumulate(np.abs(v), axis=sc.depth), n)
        first = m.plain(m.lift(a, sc.depth))
        return [_combine(m, name, first[..., None] if first.ndim else first, a, out)]
    state = [m.plain(m.value(a)) for a in neutral]
    rows: list[list[Value]] = []
    for i in range(n):
        state = m.apply(lam, [*state, *[_row(v, r, i) for v, r in zip(arrays, ranks, strict=True)]], sc)
        rows.append(state)
    return [_join([row[j] for row in rows], rank_of(a.type), sc, np.stack) for j, a in enumerate(neutral)]


def _latest_zeros(v: Value, out: Value, axis: int) -> Value:
    """Running extrema, of which those that are zero are the latest zero, as `min` and `max` have it."""
    places = np.arange(v.shape[axis]).reshape([-1 if d == axis else 1 for d in range(v.ndim)])
    latest = np.maximum.accumulate(np.where(v == 0, places, 0), axis=axis)
    return np.where(out == 0, np.take_along_axis(v, latest, axis), out)


@handler(ir.Reduce)
def _reduce(m: Interpreter, e: ir.Reduce, stm: ir.Stm, sc: Scope) -> Values:
    n = _width(m, e, sc)
    _count_elements(m, "reduce", e.arrays, (), n, sc)
    return run_reduce(m, n, [m.value(a) for a in e.arrays], _ranks(e.arrays), e.lam, e.neutral, sc)


@handler(ir.Scan)
def _scan(m: Interpreter, e: ir.Scan, stm: ir.Stm, sc: Scope) -> Values:
    n = _width(m, e, sc)
    _count_elements(m, "scan", e.arrays, stm.pat, n, sc)
    if n == 0:
        return [m.empty(v.type, sc) for v in stm.pat]
    return run_scan(m, n, [m.value(a) for a in e.arrays], _ranks(e.arrays), e.lam, e.neutral, sc)


@handler(ir.Fused)
def _fused(m: Interpreter, e: ir.Fused, stm: ir.Stm, sc: Scope) -> Values:
    n = _width(m, e, sc)
    _count_elements(m, "fused", e.arrays, stm.pat, n, sc)
    accs = [m.value(a) for a in e.arrays if isinstance(a.type, AccType)]
    pat = list(stm.pat[len(accs) :])
    results = [r for r in e.lam.result if not isinstance(r.type, AccType)]
    mapped = [] if n == 0 else run_map(m, n, e.arrays, e.lam, sc)
    out: list[Value] = mapped[: len(accs)] or accs
    mapped = mapped[len(accs) :]
    at = 0
    for j, fold in enumerate(e.folds):
        lam, neutral, k, is_scan = fold.lam, fold.neutral, len(fold), j < len(e.scans)
        ranks = [rank_of(r.type) + 1 for r in results[at : at + k]]
        if n == 0:
            out += [m.empty(v.type, sc) for v in pat[at : at + k]] if is_scan else [m.value(a) for a in neutral]
        elif is_scan:
            out += run_scan(m, n, mapped[at : at + k], ranks, lam, neutral, sc)
        else:
            out += run_reduce(m, n, mapped[at : at + k], ranks, lam, neutral, sc)
        at += k
    return out + (mapped[at:] if n else [m.empty(v.type, sc) for v in pat[at:]])


# --- writes by index ------------------------------------------------------------


def _hits(
    m: Interpreter, e: ir.Scatter | ir.Hist, n: int, dims: tuple[int, ...], sc: Scope
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Which (iterations..., element) index inside `dims`, and the index arrays, all broadcast."""
    shape = (*sc.batch, n)
    hit = np.broadcast_to(sc.full_mask()[..., None], shape)
    idxs: list[np.ndarray] = []
    for a, size in zip(e.idxs, dims, strict=False):
        i = np.broadcast_to(lift_value(m.plain(m.value(a)), 1, sc.depth), shape)
        hit = hit & (i >= 0) & (i < size)
        idxs.append(i)
    return hit, idxs


@handler(ir.Scatter)
def _scatter(m: Interpreter, e: ir.Scatter, stm: ir.Stm, sc: Scope) -> Values:
    n = m.size(e.width, sc)
    k = sc.depth
    outs: list[Value] = []
    for dest, vals in zip(e.dests, e.values, strict=True):
        out = target(m, dest, stm, sc.batch, sc)
        dims = out.shape[k:]
        values = lift_value(m.value(vals), rank_of(vals.type), k)
        if values.shape[k] != n:
            raise InternalError(f"scatter of width {n} with {values.shape[k]} values")
        hit, idxs = _hits(m, e, n, dims, sc)
        lanes = np.nonzero(hit)
        row = values.shape[k + 1 :]
        at = lanes[:k] + tuple([i[lanes] for i in idxs])
        out = m.store(out, at, np.broadcast_to(values, (*sc.batch, n, *row))[lanes])
        if m.counting:
            moved = len(lanes[0]) * math.prod(row)
            copied = 0 if m.in_place(stm) else sc.lanes * math.prod(dims)
            m.count("scatter", read=moved + copied + n * sc.lanes * len(e.idxs), written=moved + copied)
        outs.append(out)
    return outs


@handler(ir.Hist)
def _hist(m: Interpreter, e: ir.Hist, stm: ir.Stm, sc: Scope) -> Values:
    n = m.size(e.width, sc)
    k = sc.depth
    outs = [target(m, d, stm, sc.batch, sc) for d in e.dests]
    values = [lift_value(m.value(v), rank_of(v.type), k) for v in e.values]
    dims = outs[0].shape[k : k + len(e.idxs)]
    hit, idxs = _hits(m, e, n, dims, sc)
    if m.counting:
        moved = int(np.count_nonzero(hit)) * sum(math.prod(v.shape[k + 1 :]) for v in values)
        copied = 0 if m.in_place(stm) else sc.lanes * sum(own_size(o, k) for o in outs)
        m.count("hist", read=2 * moved + copied + n * sc.lanes * len(e.idxs), written=moved + copied)
    name = _ufunc_op(e.lam)
    elements = isinstance(e.neutral[0].type, Prim) and rank_of(e.dests[0].type) == len(e.idxs)
    if elements and name is not None and m.folds(name, [outs[0], values[0]]):
        lanes = np.nonzero(hit)
        assert isinstance(e.neutral[0].type, Prim)
        m.operation(stm, name, e.neutral[0].type, len(lanes[0]))
        added = np.broadcast_to(values[0], (*sc.batch, n))[lanes]
        added = m.total(name, added, lambda: np.abs(added), n)
        at = lanes[:k] + tuple([i[lanes] for i in idxs])
        return [m.add_at(ufunc_of(name, e.neutral[0].type), outs[0], at, added)]
    ranks = [v.ndim - k for v in values]
    for i in range(n):
        mask = hit[..., i]
        active = int(np.count_nonzero(mask))
        if active == 0:
            continue
        inner = sc if active == sc.lanes else sc.restrict(mask)
        lanes = np.nonzero(mask) if k else ()
        # Every iteration reads some bin (the first, where its own is out of range); only hits are written.
        grid = [np.arange(b).reshape((b,) + (1,) * (k - d - 1)) for d, b in enumerate(sc.batch)]
        bins = [np.where(mask, j[..., i], 0) for j in idxs]
        old = [o[tuple(grid + bins)] for o in outs]
        new = m.apply(e.lam, [*old, *[_row(v, r, i) for v, r in zip(values, ranks, strict=True)]], inner)
        at = lanes[:k] + tuple([b[lanes] for b in bins]) if k else tuple(bins)
        for j, (v, was) in enumerate(zip(new, old, strict=True)):
            v = np.broadcast_to(lift_value(v, was.ndim - k, k), was.shape)
            outs[j] = m.store(outs[j], at, v[lanes] if k else v)
    return outs


# --- accumulators ------------------------------------------------------------


@handler(ir.WithAcc)
def _with_acc(m: Interpreter, e: ir.WithAcc, stm: ir.Stm, sc: Scope) -> Values:
    accs = [Acc(target(m, a, stm, sc.batch, sc), sc.depth, e.op) for a in e.arrays]
    if m.counting and not m.in_place(stm):
        n = sc.lanes * sum(own_size(a.data, a.depth) for a in accs)
        m.count("withacc", read=n, written=n)
    results = m.apply(e.lam, accs, sc)
    return [a.data for a in accs] + results[len(accs) :]


@handler(ir.UpdateAcc)
def _update_acc(m: Interpreter, e: ir.UpdateAcc, stm: ir.Stm, sc: Scope) -> Values:
    acc = m.value(e.acc)
    assert isinstance(acc, Acc)
    dims = acc.data.shape[acc.depth :]
    hit = sc.full_mask()
    idxs: list[np.ndarray] = []
    for a, size in zip(e.index, dims, strict=False):
        i = np.broadcast_to(m.plain(m.lift(a, sc.depth)), sc.batch)
        hit = hit & (i >= 0) & (i < size)
        idxs.append(i)
    row = dims[len(e.index) :]
    value = np.broadcast_to(m.lift(e.value, sc.depth), sc.batch + row)
    ufunc = ufunc_of(acc.op, acc_elem(e.acc))
    if m.counting:
        n = int(np.count_nonzero(hit)) * math.prod(row)
        m.count("updateacc", ops=n, read=n, written=n)
        m.tally.operation(stm, acc.op, acc_elem(e.acc), n)
    if sc.depth == 0:
        if hit:
            acc.data = m.add_at(ufunc, acc.data, tuple(idxs), value)
        return (acc,)
    lanes = np.nonzero(hit)
    at = lanes[: acc.depth] + tuple([i[lanes] for i in idxs])
    added = value[lanes]
    added = m.total(acc.op, added, lambda: np.abs(added), sc.lanes)
    acc.data = m.add_at(ufunc, acc.data, at, added if at else ufunc.reduce(added, axis=0))
    return (acc,)


@handler(ir.Part)
def _part(m: Interpreter, e: ir.Part, stm: ir.Stm, sc: Scope) -> Values:
    acc = m.value(e.acc)
    assert isinstance(acc, Acc)
    at: list[Any] = [_ALL] * acc.depth
    for i in e.index:
        if isinstance(i, Range):
            start, count, stride = m.size(i.start, sc), m.size(i.count, sc), m.size(i.stride, sc)
            last = start + count * stride
            at.append(slice(start, None if last < 0 else last, stride) if count else slice(0, 0))
        else:
            at.append(m.size(i, sc))
    return (Acc(acc.data[tuple(at)], acc.depth, acc.op), acc)


@handler(ir.Whole)
def _whole(m: Interpreter, e: ir.Whole, stm: ir.Stm, sc: Scope) -> Values:
    return (m.value(e.rest),)


def acc_elem(a: Atom) -> Prim:
    """The element type of an accumulator."""
    assert isinstance(a.type, AccType)
    return a.type.elem
