"""Rules on indexing and on the constructs that only move data.

Where an array is a view (`At`, `Reshape`, `Rearrange`) a rule may read what it is a view of instead: while the
view may still be read, nothing it shares memory with has been overwritten.  Where it is a new array (`Copy`,
`Replicate`, ...) its source may be gone, so the source must never be overwritten at all.  A view may always become a
new array of equal elements: what it is a view of is not read any more once the view was overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.core import ir
from futad.core.ir import Stm
from futad.core.node import Range
from futad.core.scalarops import folded
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Var, i64, prim_of, row_type, shape_of, zero
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.ranges import index_in_range
from futad.rewrite.rules.scalar import alias
from futad.rewrite.strategy import Result, rule

LEGAL = Legality("array-rules", "indexing and moving of data is resolved to what the data come from", fires=False)
AT_IN_RANGE = LEGAL.condition("read in range", "a read beyond the array is no longer reported")
UPDATE_IN_RANGE = LEGAL.condition("update in range", "a write beyond the array is no longer reported")
CHECK_DONE = LEGAL.condition("no check left", "an index out of range is no longer reported")
CONSTANT = LEGAL.condition("source never overwritten", "a new array's source may have been overwritten since")
COPIED_CONSTANT = LEGAL.condition("copied never overwritten", "the copy is of what the array was before")
NO_VIEW = LEGAL.condition("never overwritten nor returned", "a part of a copy becomes a view of what was copied")
IN_ORDER = LEGAL.condition("dimensions in order", "a slice of the source has its dimensions in another order")
ELSEWHERE = LEGAL.condition("written elsewhere", "the element that is read was written since")
THE_PLACE = LEGAL.condition("written there", "what was written is not what is read")
WRITE_FAILS_NOT = LEGAL.condition("write fails not", "a write that fails goes with the read that needed it")
IN_THE_FIRST = LEGAL.condition("in the first piece", "the element is one of another piece")
ALL_ROWS = LEGAL.condition("all rows in order", "a part, or a reversed array, is not the whole")
FIRST_ORDER = LEGAL.condition("elements in first order", "the transposition is not undone")
COPY_SHARED = LEGAL.condition("copy shared", "a copy is there because one of the two is overwritten, or both returned")
ITS_OWN = LEGAL.condition("its own element", "another array's element is written")
EVERY_ROW = LEGAL.condition("every row written", "a row that is not written is zero, or what it was")
VALUE_KEPT = LEGAL.condition("written values kept", "a value is overwritten after it was written into the array")

MOST_ROWS = 16  # of an array that is written row by row


class Emit:
    """Statements put before the one a rule rewrites; constants fold on the way."""

    def __init__(self) -> None:
        self.stms: list[Stm] = []

    def let(self, exp: ir.Exp, t: Any, name: str) -> Var:
        v = Var(name, t)
        self.stms.append(Stm((v,), exp))
        return v

    def op(self, name: str, *args: Atom, hint: str = "i") -> Atom:
        """A scalar operation whose result has the type of its first argument."""
        c = folded(name, args)
        if c is not None:
            return c
        if name == "add" and is_const(args[0], 0) or name == "mul" and is_const(args[0], 1):
            return args[1]
        if name == "add" and is_const(args[1], 0) or name == "mul" and is_const(args[1], 1):
            return args[0]
        if name == "mul" and (is_const(args[0], 0) or is_const(args[1], 0)):
            return zero(prim_of(args[0]))
        return self.let(ir.Op(name, args), args[0].type, hint)

    def step(self, r: Range, i: Any) -> Atom:
        """Position i of a range."""
        return self.op("add", r.start, self.op("mul", i, r.stride))


@rule(ir.At)
def at_checked(stm: Stm, ctx: Context) -> Result:
    """`xs[i]` with a bounds check -> without, where `0 <= i < n` is known."""
    e: Any = stm.exp
    if e.check is None or not AT_IN_RANGE(index_in_range(ctx.ranges, shape_of(e.array.type), e.index)):
        return None
    return [Stm(stm.pat, ir.At(e.array, e.index, None), stm.attrs)]


@rule(ir.Update)
def update_checked(stm: Stm, ctx: Context) -> Result:
    """`xs with [i] = v` with a bounds check -> without, where `0 <= i < n` is known."""
    e: Any = stm.exp
    if e.check is None or not UPDATE_IN_RANGE(index_in_range(ctx.ranges, shape_of(e.array.type), e.index)):
        return None
    return [Stm(stm.pat, ir.Update(e.array, e.index, e.value, None), stm.attrs)]


@rule(ir.At)
def at_of(stm: Stm, ctx: Context) -> Result:
    """Indexing what is known: `(iota n)[i]` -> `i`, `(replicate n v)[i]` -> `v`, `[a, b][0]` -> `a`,
    `(transpose xs)[i, j]` -> `xs[j, i]`, `xs[i][j]` -> `xs[i, j]`, `(copy xs)[i]` -> `xs[i]`,
    `(xs with [i] = v)[i]` -> `v`."""
    e: Any = stm.exp
    if type(e.array) is not Var:
        return None
    d = ctx.defs.get(e.array)
    if d is None:
        return None
    resolve = _AT.get(type(d))
    return None if resolve is None else resolve(stm, e, d, ctx)


def _at_iota(stm: Stm, e: ir.At, d: ir.Iota, ctx: Context) -> Result:
    if not CHECK_DONE(e.check is None):
        return None
    out = Emit()
    i = e.index[0]
    t: Any = d.start.type
    if type(i) is Range:
        start = _convert(out, i.start, t)
        stride = _convert(out, i.stride, t)
        first = out.op("add", d.start, out.op("mul", start, d.step))
        return [*out.stms, Stm(stm.pat, ir.Iota(i.count, first, out.op("mul", stride, d.step)))]
    a = out.op("add", d.start, out.op("mul", _convert(out, i, t), d.step))
    return [*out.stms, *alias(stm, a)]


def _convert(out: Emit, a: Any, t: Prim) -> Atom:
    if t is I64:
        return a
    if type(a) is Const:
        return Const(t, a.value)
    return out.let(ir.Op(f"to_{t.name}", (a,)), t, "i")


def _at_replicate(stm: Stm, e: ir.At, d: ir.Replicate, ctx: Context) -> Result:
    if not CHECK_DONE(e.check is None or ir.DERIVED in stm.attrs):
        return None
    k = len(d.shape)
    kept = tuple([i.count for i in e.index[:k] if type(i) is Range]) + d.shape[len(e.index) :]
    rest = e.index[k:]
    if rest:
        if kept or not CONSTANT(not ctx.mutable(d.value)):
            return None
        return [Stm(stm.pat, ir.At(d.value, rest, e.check), stm.attrs)]
    if kept:
        if not isinstance(d.value.type, Prim) and not CONSTANT(not ctx.mutable(d.value)):
            return None
        return [Stm(stm.pat, ir.Replicate(kept, d.value))]
    if isinstance(d.value.type, Prim) or CONSTANT(not (ctx.mutable(d.value) or ctx.mutable(stm.pat[0]))):
        return alias(stm, d.value)
    return None


def _at_literal(stm: Stm, e: ir.At, d: ir.ArrayLit, ctx: Context) -> Result:
    i = e.index[0]
    if type(i) is not Const or not 0 <= i.value < len(d.elems):
        return None  # what fails is left to fail
    elem = d.elems[i.value]
    if isinstance(elem.type, Prim):
        return alias(stm, elem)
    if not CONSTANT(not ctx.mutable(elem) and not ctx.mutable(stm.pat[0])):
        return None
    return [Stm(stm.pat, ir.At(elem, e.index[1:], e.check))] if len(e.index) > 1 else alias(stm, elem)


def _at_rearrange(stm: Stm, e: ir.At, d: ir.Rearrange, ctx: Context) -> Result:
    rank = len(d.perm)
    shape = shape_of(e.array.type)
    full = e.index + tuple([Range(ZERO, n, ONE) for n in shape[len(e.index) :]])
    index: list[Any] = [None] * rank
    for k, p in enumerate(d.perm):
        index[p] = full[k]
    kept = [d.perm.index(p) for p in range(rank) if type(index[p]) is Range]
    if not IN_ORDER(kept == sorted(kept)):
        return None
    if e.check is None:
        source = shape_of(d.array.type)
        while len(index) > 1 and index[-1] == Range(ZERO, source[len(index) - 1], ONE):
            index.pop()
    return [Stm(stm.pat, ir.At(d.array, tuple(index), e.check))]


def _at_at(stm: Stm, e: ir.At, d: ir.At, ctx: Context) -> Result:
    out = Emit()
    index: list[Any] = []
    rest = list(e.index)
    for i in d.index:
        if type(i) is not Range or not rest:
            index.append(i)
            continue
        if not CHECK_DONE(e.check is None):
            return None
        j = rest.pop(0)
        if type(j) is Range:
            index.append(Range(out.step(i, j.start), j.count, out.op("mul", i.stride, j.stride)))
        else:
            index.append(out.step(i, j))
    check = e.check or d.check
    return [*out.stms, Stm(stm.pat, ir.At(d.array, tuple(index + rest), check))]


def _at_copy(stm: Stm, e: ir.At, d: ir.Copy, ctx: Context) -> Result:
    if not COPIED_CONSTANT(not ctx.mutable(d.array)) or not NO_VIEW(ctx.fresh(stm.pat[0])):
        return None
    return [Stm(stm.pat, ir.At(d.array, e.index, e.check))]


def _at_update(stm: Stm, e: ir.At, d: ir.Update, ctx: Context) -> Result:
    """`(xs with [i] = v)[i]` -> `v`; `((replicate n x) with [1] = v)[2]` -> `x`."""
    i, j = e.index[0], d.index[0]
    if type(i) is Const and type(j) is Const and i is not j and CHECK_DONE(e.check is None):
        source = ctx.exp(d.array)
        while type(source) is ir.Update and type(k := source.index[0]) is Const and ELSEWHERE(k is not i):
            source = ctx.exp(source.array)
        if type(source) is not ir.Replicate or not isinstance(source.value.type, Prim):
            return None
        kept = shape_of(stm.pat[0].type)
        return [Stm(stm.pat, ir.Replicate(kept, source.value))] if kept else alias(stm, source.value)
    if not THE_PLACE(e.index == d.index) or any(type(i) is Range for i in d.index):
        return None
    if not WRITE_FAILS_NOT(d.check is None):
        return None
    return alias(stm, d.value) if isinstance(d.value.type, Prim) else None


def _at_concat(stm: Stm, e: ir.At, d: ir.Concat, ctx: Context) -> Result:
    i: Any = e.index[0]
    first = d.arrays[0]
    if type(i) is Range or not CONSTANT(not ctx.mutable(first)):
        return None
    if IN_THE_FIRST(ctx.ranges.in_range(i, shape_of(first.type)[0])):
        return [Stm(stm.pat, ir.At(first, e.index, e.check))]
    return None


def _at_reshape(stm: Stm, e: ir.At, d: ir.Reshape, ctx: Context) -> Result:
    """`(unflatten n m xs)[i, j]` -> `xs[i * m + j]`; `(unflatten n m xs)[i]` -> `xs[i * m : (i+1) * m]`."""
    src = shape_of(d.array.type)
    if len(src) != 1 or any(type(i) is Range for i in e.index) or not CHECK_DONE(e.check is None):
        return None
    out = Emit()
    flat: Atom = ZERO
    for k, n in enumerate(d.shape):
        i: Any = e.index[k] if k < len(e.index) else ZERO
        flat = out.op("add", out.op("mul", flat, n), i)
    rest = d.shape[len(e.index) :]
    if not rest:
        return [*out.stms, Stm(stm.pat, ir.At(d.array, (flat,), None))]
    if len(rest) > 1:
        return None
    return [*out.stms, Stm(stm.pat, ir.At(d.array, (Range(flat, rest[0], ONE),), None))]


_AT: dict[type, Any] = {
    ir.Iota: _at_iota,
    ir.Replicate: _at_replicate,
    ir.ArrayLit: _at_literal,
    ir.Rearrange: _at_rearrange,
    ir.At: _at_at,
    ir.Copy: _at_copy,
    ir.Update: _at_update,
    ir.Concat: _at_concat,
    ir.Reshape: _at_reshape,
}


@rule(ir.At)
def at_row(stm: Stm, ctx: Context) -> Result:
    """`map (\\i -> .. xs[i] ..) (iota n)` -> `map (\\i x -> .. x ..) (iota n) xs`, at any depth of the body."""
    e: Any = stm.exp
    if not ctx.frames:
        return None
    i = e.index[0]
    if type(i) is Range:
        return None
    row = ctx.row(e.array, i)
    if row is None:
        return None
    if len(e.index) == 1:
        return alias(stm, row)
    return [Stm(stm.pat, ir.At(row, e.index[1:], e.check))]


@rule(ir.At)
def at_whole(stm: Stm, ctx: Context) -> Result:
    """`xs[0:n]` -> `xs` where n is its size."""
    e: Any = stm.exp
    shape = shape_of(e.array.type)
    for i, n in zip(e.index, shape, strict=False):
        if type(i) is not Range or not ALL_ROWS(i.count is n and is_const(i.start, 0) and is_const(i.stride, 1)):
            return None
    return alias(stm, e.array)


@rule(ir.Reshape)
def reshape(stm: Stm, ctx: Context) -> Result:
    """A reshape to the same shape -> its array; of a reshape -> one; of a replicated scalar, a replicate."""
    e: Any = stm.exp
    if e.shape == shape_of(e.array.type):
        return alias(stm, e.array)
    d = ctx.exp(e.array)
    if type(d) is ir.Reshape:
        return [Stm(stm.pat, ir.Reshape(d.array, e.shape))]
    if type(d) is ir.Replicate and isinstance(d.value.type, Prim):
        return [Stm(stm.pat, ir.Replicate(e.shape, d.value))]
    return None


@rule(ir.Rearrange)
def rearrange(stm: Stm, ctx: Context) -> Result:
    """The identity permutation -> its array; of a rearrange -> one; of a replicated scalar, a replicate; of a reshape
    of a rearrange, a reshape, where all elements are in their first order again."""
    e: Any = stm.exp
    if e.perm == tuple(range(len(e.perm))):
        return alias(stm, e.array)
    d = ctx.exp(e.array)
    if type(d) is ir.Rearrange:
        return [Stm(stm.pat, ir.Rearrange(d.array, tuple([d.perm[p] for p in e.perm])))]
    if type(d) is ir.Replicate and isinstance(d.value.type, Prim):
        return [Stm(stm.pat, ir.Replicate(tuple([shape_of(e.array.type)[p] for p in e.perm]), d.value))]
    if type(d) is ir.Reshape and type(r := ctx.exp(d.array)) is ir.Rearrange:
        joined = _joined_dims(shape_of(d.array.type), d.shape)
        if joined is not None and FIRST_ORDER([r.perm[k] for p in e.perm for k in joined[p]] == sorted(r.perm)):
            return [Stm(stm.pat, ir.Reshape(r.array, tuple([d.shape[p] for p in e.perm])))]
    return None


def _joined_dims(shape: Sequence[Atom], joined: Sequence[Atom]) -> list[range] | None:
    """Which dimensions of `shape` make one of `joined`, neighbours all of them; None if it is not known."""
    out: list[range] = []
    at = 0
    for n in joined:
        start, size = at, 1
        if type(n) is not Const:
            at += 1
            if shape[start : at] != (n,):
                return None
        while type(n) is Const and size < n.value and at < len(shape):
            if type(k := shape[at]) is not Const or k.value < 1:
                return None
            size, at = size * k.value, at + 1
        if type(n) is Const and size != n.value:
            return None
        out.append(range(start, at))
    return out if at == len(shape) else None


@rule(ir.Replicate)
def replicate(stm: Stm, ctx: Context) -> Result:
    """`replicate n (replicate m v)` -> `replicate [n, m] v`; over no dimensions -> the value."""
    e: Any = stm.exp
    if not e.shape:
        return alias(stm, e.value) if isinstance(e.value.type, Prim) else [Stm(stm.pat, ir.Copy(e.value))]
    d = ctx.exp(e.value)
    if type(d) is ir.Replicate and (isinstance(d.value.type, Prim) or CONSTANT(not ctx.mutable(d.value))):
        return [Stm(stm.pat, ir.Replicate(e.shape + d.shape, d.value))]
    return None


@rule(ir.Copy)
def copy(stm: Stm, ctx: Context) -> Result:
    """`copy xs` -> `xs` where neither is ever overwritten and not both leave the function;
    `copy (replicate n v)` -> a new one."""
    e: Any = stm.exp
    x, y = stm.pat[0], e.array
    if isinstance(y.type, Prim) or COPY_SHARED(ctx.shareable(x, y)):
        return alias(stm, y)
    d = ctx.exp(y)
    if type(d) is ir.Replicate and isinstance(d.value.type, Prim) or type(d) is ir.Iota:
        return [Stm(stm.pat, d)]
    return None


@rule(ir.Concat)
def concat(stm: Stm, ctx: Context) -> Result:
    """`concat xs` -> `xs`; empty arrays go; nested concats join."""
    e: Any = stm.exp
    arrays = tuple([a for a in e.arrays if not is_const(shape_of(a.type)[0], 0)]) or e.arrays[:1]
    if len(arrays) == 1 and shape_of(arrays[0].type)[0] is e.size:
        return [Stm(stm.pat, ir.Copy(arrays[0]))]
    if any(type(d := ctx.exp(a)) is ir.Concat and CONSTANT(not any(map(ctx.mutable, d.arrays))) for a in arrays):
        flat: list[Atom] = []
        for a in arrays:
            d = ctx.exp(a)
            if type(d) is ir.Concat and CONSTANT(not any(map(ctx.mutable, d.arrays))):
                flat += d.arrays
            else:
                flat.append(a)
        return [Stm(stm.pat, ir.Concat(tuple(flat), e.size))]
    if len(arrays) < len(e.arrays):
        return [Stm(stm.pat, ir.Concat(arrays, e.size))]
    return None


@rule(ir.ArrayLit)
def literal(stm: Stm, ctx: Context) -> Result:
    """`[v, v, v]` -> `replicate 3 v`."""
    e: Any = stm.exp
    if len(e.elems) > 1 and isinstance(e.type, Prim) and all(x is e.elems[0] for x in e.elems):
        return [Stm(stm.pat, ir.Replicate((i64(len(e.elems)),), e.elems[0]))]
    return None


@rule(ir.Update)
def update(stm: Stm, ctx: Context) -> Result:
    """`xs with [i] = xs[i]` -> `xs` (also of a copy); the whole array overwritten -> a copy of the value."""
    e: Any = stm.exp
    shape = shape_of(e.array.type)
    v = ctx.exp(e.value)
    if type(v) is ir.At and v.index == e.index and isinstance(e.value.type, Prim):
        source = ctx.exp(e.array)
        if ITS_OWN(v.array is e.array or type(source) is ir.Copy and source.array is v.array):
            return alias(stm, e.array)
    if isinstance(e.value.type, ArrayType) and all(
        type(i) is Range and ALL_ROWS(i.count is n and is_const(i.start, 0) and is_const(i.stride, 1))
        for i, n in zip(e.index, shape, strict=False)
    ):
        if len(e.index) <= len(shape) and e.value.type == e.array.type:
            return [Stm(stm.pat, ir.Copy(e.value))]
    return None


@rule(ir.Update)
def rows_written(stm: Stm, ctx: Context) -> Result:
    """`(replicate 2 x) with [1] = u with [0] = v` -> `[v, u]`."""
    e: Any = stm.exp
    rows = shape_of(e.array.type)[0]
    if type(rows) is not Const or not 0 < rows.value <= MOST_ROWS:
        return None
    values: dict[int, Atom] = {}
    source: ir.Exp | None = e
    alone = True
    while alone and type(source) is ir.Update and len(source.index) == 1 and type(i := source.index[0]) is Const:
        if not CHECK_DONE(source.check is None):
            return None
        values.setdefault(i.value, source.value)
        alone = ctx.uses(source.array) == 1
        source = ctx.exp(source.array)
    if type(source) is not ir.Replicate or not EVERY_ROW(values.keys() == set(range(rows.value))):
        return None
    if not VALUE_KEPT(not any(ctx.mutable(v) for v in values.values())):
        return None
    return [Stm(stm.pat, ir.ArrayLit(tuple([values[i] for i in range(rows.value)]), row_type(e.array.type)), stm.attrs)]


ARRAY_RULES = (
    at_whole, at_row, at_of, at_checked, update_checked, reshape, rearrange, replicate, copy, concat, literal, update,
    rows_written,
)  # fmt: skip

__all__ = ["ARRAY_RULES", "Emit"]
