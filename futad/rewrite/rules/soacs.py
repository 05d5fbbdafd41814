"""Rules on second-order array constructs."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.operator import scalar_op
from futad.core.scalarops import OPS
from futad.core.types import I64, ONE, ZERO, AccType, ArrayType, Atom, Const, Prim, Var, array_of, row_type, shape_of
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.ranges import is_index
from futad.rewrite.rules.arrays import Emit
from futad.rewrite.rules.control import aliases_of
from futad.rewrite.strategy import Result, rule

LEGAL = Legality(
    "map-rules", "inputs and results of maps that are known, or equal, go; folds of neutral elements too", fires=False
)
REPEATED_CONSTANT = LEGAL.condition("value not overwritten", "what is repeated is overwritten meanwhile")
NEUTRAL = LEGAL.condition("neutral elements", "a fold of other values is something else")
RESULT_OUTSIDE = LEGAL.condition("result from outside", "each iteration has a result of its own")
RESULTS_SHARED = LEGAL.condition("results shared", "one of two equal arrays is overwritten, or both are returned")


@rule(ir.Map, ir.Fused)
def map_inputs(stm: Stm, ctx: Context) -> Result:
    """`map (\\x y -> ..) xs xs` -> one input; over `replicate n v` -> v itself, a free variable; over columns of it ->
    over `v`, each element repeated in the body; over `iota` with a start or step -> over `iota n`, the element computed
    in the body."""
    e: Any = stm.exp
    seen: dict[Atom, Var] = {}
    arrays: list[Atom] = []
    params: list[Var] = []
    before: list[Stm] = []
    head: list[Stm] = []
    index: Var | None = None
    changed = False
    for a, p in zip(e.arrays, e.lam.params, strict=True):
        if type(a.type) is AccType:
            arrays.append(a)
            params.append(p)
            continue
        d = ctx.exp(a)
        if a in seen and seen[a].type == p.type and not ctx.mutable(p):
            # Not `replace`: the other one may itself be replaced, by one with other names of sizes, when it is bound.
            head.append(Stm((p,), ir.Alias(seen[a])))
        elif type(d) is ir.Replicate and not ctx.mutable(p) and (
            isinstance(d.value.type, Prim) or REPEATED_CONSTANT(not ctx.mutable(d.value))
        ):
            if len(d.shape) == 1:
                row: Atom = d.value
            else:
                # Not `replace`: the new variable may itself be replaced, by an equal one, when it is reached.
                row = Var(p.name, p.type)
                before.append(Stm((row,), ir.Replicate(d.shape[1:], d.value)))
                head.append(Stm((p,), ir.Alias(row)))
                changed = True
                continue
            if row.type != p.type:
                arrays.append(a)
                params.append(p)
                continue
            ctx.replace(p, row)
        elif not ctx.mutable(p) and (columns := _columns(d, ctx)) is not None and (
            REPEATED_CONSTANT(not ctx.mutable(columns[1]))
        ):
            shape, value = columns
            element = Var(p.name, row_type(value.type))
            arrays.append(value)
            params.append(element)
            head.append(Stm((p,), ir.Replicate(shape, element)))
        elif type(d) is ir.Iota and isinstance(p.type, Prim) and (not is_index(d) or index is not None):
            if index is None:
                iota = Var("iota", ArrayType(I64, (e.width,)))
                before.append(Stm((iota,), ir.Iota(e.width, ZERO, ONE)))
                index = Var("i", I64)
                arrays.append(iota)
                params.append(index)
            out = Emit()
            i: Atom = index
            if p.type is not I64:
                i = out.let(ir.Op(f"to_{p.type.name}", (i,)), p.type, "i")
            r = out.op("add", d.start, out.op("mul", i, d.step))
            head += [*out.stms, Stm((p,), ir.Alias(r))]
        else:
            if is_index(d):
                index = p
            seen[a] = p
            arrays.append(a)
            params.append(p)
            continue
        changed = True
    if not changed:
        return None
    lam = Lambda(tuple(params), (*head, *e.lam.stms), e.lam.result)
    return [*before, Stm(stm.pat, e.over(tuple(arrays), lam), stm.attrs)]


def _columns(d: ir.Exp | None, ctx: Context) -> tuple[tuple[Atom, ...], Atom] | None:
    """The sizes and the array, if this is the array repeated so often, of which the sizes come after its first."""
    if type(d) is not ir.Rearrange or type(r := ctx.exp(d.array)) is not ir.Replicate:
        return None
    k = len(r.shape)
    turned = isinstance(r.value.type, ArrayType) and d.perm == (k, *[x for x in range(len(d.perm)) if x != k])
    return (r.shape, r.value) if turned else None


@rule(ir.Reduce, ir.Scan)
def reduce_trivial(stm: Stm, ctx: Context) -> Result:
    """`reduce op ne` of nothing, or of `replicate n ne` -> `ne`; `scan` of it -> `replicate n ne`."""
    e: Any = stm.exp
    is_reduce = type(e) is ir.Reduce
    if is_reduce and is_const(e.width, 0):
        return aliases_of(stm.pat, e.neutral)
    for a, ne in zip(e.arrays, e.neutral, strict=True):
        d = ctx.exp(a)
        if type(d) is not ir.Replicate or len(d.shape) != 1 or type(ne) is not Const or not NEUTRAL(d.value is ne):
            return None
    if is_reduce:
        return aliases_of(stm.pat, e.neutral)
    return [Stm((v,), ir.Replicate((e.width,), ne)) for v, ne in zip(stm.pat, e.neutral, strict=True)]


@rule(ir.Scatter, ir.Hist)
def scatter_nothing(stm: Stm, ctx: Context) -> Result:
    """`scatter` or `reduce_by_index` of no elements -> the destination."""
    e: Any = stm.exp
    return aliases_of(stm.pat, e.dests) if is_const(e.width, 0) else None


def inside(ctx: Context, a: Atom) -> bool:
    """Whether `a` is bound in a scope nested in the present one."""
    return type(a) is Var and ctx.level.get(a, 0) > ctx.depth


@rule(ir.Map, ir.Fused)
def map_results(stm: Stm, ctx: Context) -> Result:
    """`map (\\x -> x) xs` -> `xs`; `map (\\x -> v) xs` -> `replicate n v`; equal results -> one;
    `map (\\x -> replicate m (f x)) xs` -> `transpose (replicate m (map f xs))`."""
    e: Any = stm.exp
    of_param = dict(zip(e.lam.params, e.arrays, strict=True))
    out: list[Stm] = []
    keep: list[int] = []
    more: list[tuple[Var, Atom]] = []
    seen: dict[Atom, int] = {}
    first = e.first_mapped
    for at, (v, r) in enumerate(zip(stm.pat, e.lam.result, strict=True)):
        if at < first:
            keep.append(at)
            continue
        row = d.array if type(r) is Var and type(d := ctx.exp(r)) is ir.Copy else r  # whose copy is made is the same
        array = of_param.get(row) if type(row) is Var else None
        if array is not None and array.type == v.type:
            plain = RESULTS_SHARED(ctx.shareable(v, array))
            out.append(Stm((v,), ir.Alias(array) if plain else ir.Copy(array)))
        elif RESULT_OUTSIDE(not inside(ctx, r)) and (isinstance(r.type, Prim) or REPEATED_CONSTANT(not ctx.mutable(r))):
            out.append(Stm((v,), ir.Replicate((e.width,), r)))
        elif r in seen and RESULTS_SHARED(ctx.shareable(v, stm.pat[seen[r]])):
            out.append(Stm((v,), ir.Alias(stm.pat[seen[r]])))
        elif (found := _repeats(v, r, ctx)) is not None:
            d, perm = found
            k = len(d.shape)
            values = Var(v.name, array_of(d.value.type, e.width))
            times = tuple([shape_of(v.type)[1 + perm.index(t)] for t in range(k)])
            rep = Var(v.name, array_of(values.type, *times))
            more.append((values, d.value))
            perm = (k, *[x + (x >= k) for x in perm])
            out += [Stm((rep,), ir.Replicate(times, values)), Stm((v,), ir.Rearrange(rep, perm))]
        else:
            seen[r] = at
            keep.append(at)
    if not out:
        return None
    if not keep and not more and not e.lam.stms:
        return out
    lam = Lambda(e.lam.params, e.lam.stms, (*[e.lam.result[k] for k in keep], *[a for _, a in more]))
    # The map keeps its place: what it leaves behind may alias its first results.
    pat = (*[stm.pat[k] for k in keep], *[v for v, _ in more])
    return [Stm(pat, e.over(e.arrays, lam), stm.attrs), *out]


def _repeats(v: Var, r: Atom, ctx: Context) -> tuple[ir.Replicate, tuple[int, ...]] | None:
    """The statement of a map's result `r`, if that is one value so many times, and the order of its dimensions in `r`;
    where the array `v` of all results is only read."""
    d = ctx.exp(r)
    perm = d.perm if type(d) is ir.Rearrange else tuple(range(len(shape_of(r.type))))
    if type(d) is ir.Rearrange:
        d = ctx.exp(d.array)
    if type(d) is not ir.Replicate or not inside(ctx, d.value) or not ctx.fresh(v):
        return None
    return (d, perm) if isinstance(d.value.type, Prim) or REPEATED_CONSTANT(not ctx.mutable(d.value)) else None


@rule(ir.Fused)
def equal_reductions(stm: Stm, ctx: Context) -> Result:
    """Two reductions of one value by one operation -> one."""
    e: Any = stm.exp
    seen: dict[Any, Var] = {}
    kept: list[ir.Fold] = []
    out: list[Stm] = []
    for f, (v, *_), (r, *_) in zip(e.reduces, e.parts(stm.pat).reduces, e.parts(e.lam.result).reduces, strict=True):
        op = scalar_op(f.lam)
        old = v if op is None or not OPS[op].commutative else seen.setdefault((op, f.neutral, r), v)
        if old is not v:
            out.append(Stm((v,), ir.Alias(old)))
        else:
            kept.append(f)
    if not out:
        return None
    lost = {s.pat[0] for s in out}
    keep = [k for k, v in enumerate(stm.pat) if v not in lost]
    lam = Lambda(e.lam.params, e.lam.stms, tuple([e.lam.result[k] for k in keep]))
    new = ir.Fused(e.width, e.arrays, lam, e.scans, tuple(kept))
    return [Stm(tuple([stm.pat[k] for k in keep]), new, stm.attrs), *out]


SOAC_ENTER = (map_inputs, reduce_trivial, scatter_nothing)
SOAC_LEAVE = (map_results, equal_reductions)

__all__ = ["SOAC_ENTER", "SOAC_LEAVE", "inside"]
