"""Maps as kernels.

Note [Nests]
~~~~~~~~~~~~
A map whose body ends in another map, after cheap statements only, is a nest: its space is the product of both
widths, and each thread does the statements of all levels for its point.  What is left inside the innermost level may
be parallel again (reductions over rows, say).  Then three kernels are made: in one a thread does a point on its own,
in the others a block or a warp does, its threads sharing out the inner work; the host picks by the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.nest import Nest
from futad.core.types import I64, Atom, Const, Var
from futad.flatten import fission, segments
from futad.flatten import kernel as kir
from futad.flatten.all_pairs import all_pairs_of, peeled
from futad.flatten.dispatch import SharedAcc
from futad.flatten.interchange import loop_out
from futad.flatten.kernel_interface import NotInBlock
from futad.flatten.known import known_on_host
from futad.flatten.levels import MOST_LEVELS, levels_of
from futad.flatten.pair_tiles import lower_all_pairs
from futad.flatten.private_histograms import in_shared_memory, rows_in_shared_memory
from futad.flatten.row_scatter import rows_after
from futad.flatten.staging import staged
from futad.imp import ir
from futad.imp.ir import ONE, Expr, Ref, compare, num
from futad.imp.sharing import consumed_vars
from futad.imp.soacs import SoacLoop
from futad.imp.views import Acc, Mem, Value, View, dense_view, is_transposed, permuted

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

UNKNOWN_INNER = 64  # assumed for an inner width that the host does not know
WARP = 32
LONG_ROWS = 32  # times as many elements as a thread does at most make a row worth several blocks
FEW_ROWS = 128  # a number of points up to here that is known is done by blocks at once
LEAST_PART = 16  # elements of a column that a thread reduces at least
LARGE_COLUMNS = 16  # times as many elements as threads make columns worth a launch for their parts
SMALL_INNER = 8  # inner widths up to here are not worth a block


# --- maps -----------------------------------------------------------------------------------------------------


def inner_width(lo: DeviceLowerer, levels: Nest) -> Expr | None:
    """How wide the parallel work in the innermost body is, None if there is none worth a block."""
    known: Expr | None = None
    widest = 0
    for w in fission.widths(levels.body):
        if isinstance(w, Const):
            widest = max(widest, int(w.value))
        elif w in levels.bound or not isinstance(lo.env.get(w), Expr):
            widest = max(widest, UNKNOWN_INNER)
        else:
            e = lo.expr(w)
            known = e if known is None or known == e else ir.Scalar("max", (known, e), I64, I64)
    if known is None:
        return num(widest) if widest > SMALL_INNER else None
    return ir.Scalar("max", (known, num(widest)), I64, I64) if widest > SMALL_INNER else known


def _point(lo: DeviceLowerer, n: SoacLoop, levels: Nest, index: Sequence[Expr]) -> None:
    """Lower one point of the nest's space."""
    for stm, i in zip(levels.inner, index[1:], strict=True):
        lo.given[stm] = i
    n.elements(n.inputs, index[0])
    for stm in levels.inner:
        del lo.given[stm]


def _sizes(lo: DeviceLowerer, n: SoacLoop, levels: Nest) -> list[Expr]:
    return [n.width, *[lo.let(lo.expr(m.width), "n") for m in levels.maps]]


def _what(n: SoacLoop, levels: Nest) -> str:
    names = ", ".join(v.name for v in n.stm.pat)
    dims = "".join(f"[{w!r}]" for w in [n.exp.width, *[m.width for m in levels.maps]])
    return f"map over {dims} for {names}"


def atomic(values: Sequence[Value]) -> list[Value]:
    return [SharedAcc(v.view, v.op) if isinstance(v, Acc) else v for v in values]


def flattening(stm: core.Stm) -> frozenset[str]:
    """What an attribute says about the versions to make: `flattening(no_intra)` and the like."""
    named = ("flattening", "incremental_flattening")
    return frozenset([str(x) for a in stm.attrs if isinstance(a, tuple) and a and a[0] in named for x in a[1:]])


def host_map(lo: DeviceLowerer, n: SoacLoop) -> list[Value]:
    """A map at host level; see Note [Nests]."""
    assert n.lam is not None
    levels = levels_of(n.lam)
    sizes = _sizes(lo, n, levels)
    n.inputs = atomic(n.inputs)
    total = lo.let(ir.product(sizes), "n")
    shared = in_shared_memory(
        lo, n, levels.body, sizes, total, _what(n, levels), lambda index: _point(lo, n, levels, index)
    )
    inner = inner_width(lo, levels) if shared is None and not levels.inner else None
    if inner is not None:
        shared = rows_in_shared_memory(lo, n, inner, _what(n, levels))
    if shared is None:
        return _each_point(lo, n, levels, sizes, total)
    with lo.block() as otherwise:
        values = _each_point(lo, n, levels, sizes, total)
    lo.out.append(ir.If(shared[0], shared[1], otherwise))
    return values


def _each_point(lo: DeviceLowerer, n: SoacLoop, levels: Nest, sizes: list[Expr], total: Expr) -> list[Value]:
    """A map of which each point is done by a thread, a block, or kernel by kernel; the host picks."""
    inner = inner_width(lo, levels)
    if lo.distributed and inner is not None:
        parts = segments.rows_of(n.stm, levels)
        if parts is not None:
            lo.distributed = False
            _in_parts(lo, n, parts, total)
            lo.distributed = True
            return n.results([])
    distributed, least = _distributed(lo, n, levels)
    rows = rows_after(n.stm) if distributed is None and inner is not None and not levels.inner else None
    if rows is not None:
        distributed = _lowered(lo, n, rows)
        least = next(v.view.count() for v in n.inputs if isinstance(v, Acc))
    versions: list[list[ir.Stmt]] = []
    depth = len(lo.scopes)
    alone = inner is None or distributed is not None or n.stm in lo.by_threads
    units = ("thread",) if alone else ("block",) if lo.cut_up else ("thread", "block")
    modes = flattening(n.stm) if inner is not None and not lo.cut_up else frozenset()
    if "no_outer" in modes and distributed is not None:
        lo.out += distributed
        return n.results([])
    if "no_intra" in modes:
        units = ("thread",)
    elif not modes.isdisjoint(("only_intra", "no_outer")):
        units, distributed = ("block", "thread"), None  # the second if the first is not possible
    for unit in units:
        if versions and units[0] == "block":
            break
        inputs = n.inputs
        try:
            with lo.block() as host:
                if unit == "block" and not levels.inner:
                    n.inputs = [rows_in_order(lo, n, k) for k in range(len(inputs))]
                near = columns_near(lo, levels) if unit == "thread" else {}
                before = {a: lo.env[a] for a in near}
                lo.env |= near
                with lo.kernel("thread" if unit == "thread" else "block") as body, lo.space(sizes, unit) as (index, _):
                    _point(lo, n, levels, index)
                if unit == "thread":
                    staged(body, lo.name)
                what = _what(n, levels)
                if inner is None or unit == "thread":
                    lo.launch(body, unit, total, what + (", sequential inside" if inner is not None else ""))
                else:
                    _together(lo, body, total, what, inner)
                lo.env |= before
            versions.append(host)
        except NotInBlock:
            del lo.scopes[depth:]
            for stm in levels.inner:
                lo.given.pop(stm, None)
            lo.kernels = [k for k in lo.kernels if k.body is not body]
            if lo.cut_up:
                raise
        n.inputs = inputs
    if rows is not None:
        # Updates that contend go by way of shared memory, where they are neighbours.
        assert inner is not None and distributed is not None
        bins = ir.mul(num(kir.FEW_BINS), least or ir.ZERO)
        short = compare("&&", compare("<", inner, Ref("BLOCK_INNER", I64)), compare("<=", ir.mul(total, inner), bins))
        lo.out.append(ir.If(short, versions[0], distributed))
    elif distributed is not None:
        many = compare("<", Ref("ENOUGH_THREADS", I64), total)
        if least is not None:
            many = compare("&&", many, compare("<", least, Ref("BLOCK_INNER", I64)))
        lo.out.append(ir.If(many, versions[0], distributed))
    elif len(versions) == 1:
        if inner is not None and not lo.cut_up and units[0] == "thread":
            lo.why.append(f"{lo.function_name}: inner parallelism of {_what(n, levels)} is sequential in each thread")
        lo.out += versions[0]
    else:
        assert inner is not None
        narrow = compare("<", inner, Ref("BLOCK_INNER", I64))
        many, short = compare("<", Ref("ENOUGH_THREADS", I64), total), compare("<", inner, Ref("LONG_INNER", I64))
        wide = compare("&&", many, short)
        together = _cut_up(lo, n, levels, total, inner, versions[1])
        if _long_elements(levels.body):
            narrow = wide  # few points are worth several threads each, even if these are few
        columns = None if modes or lo.cut_up else _by_columns(lo, n, levels, total, inner)
        if columns is not None:
            large = compare("<", ir.mul(Ref("ENOUGH_THREADS", I64), num(LARGE_COLUMNS)), ir.mul(total, inner))
            wide, together = many, [ir.If(large, columns, together)]
        choice: ir.Stmt = ir.If(compare("||", narrow, wide), versions[0], together)
        outside = loop_out(n.stm) if not levels.inner and not modes else None
        if outside is not None:
            # Blocks would be few, and each would have much to do in every iteration.
            few = compare("<", ir.mul(total, num(kir.BLOCK_LIMIT)), Ref("ENOUGH_THREADS", I64))
            long = compare("<", Ref("LONG_INNER", I64), inner)
            choice = ir.If(compare("&&", few, long), _lowered(lo, n, outside), [choice])
        lo.out.append(choice)
    return n.results([])


def _long_elements(lam: core.Lambda) -> bool:
    """Whether something parallel inside has loops of unknown length in each element."""
    return any(
        isinstance(s.exp, core.Soac) and any(fission.looping(f) for f in s.exp.lambdas()) for s in lam.stms
    )  # fmt: skip


def _together(lo: DeviceLowerer, body: list[ir.Stmt], total: Expr, what: str, inner: Expr) -> None:
    """Launch a kernel of whose points each is done by a block, or as it is short by a warp if there are enough."""
    made = lo.launch(body, "block", total, f"{what}, inner parts by the block", inner)
    if lo.cut_up or (isinstance(total, ir.Num) and total.value < FEW_ROWS):
        return
    by_block = lo.out.pop()  # what comes before it, the sizes of memory, is for both
    small = replace(made, name=f"{made.name}_warp", kind="warp", what=f"{what}, inner parts by a warp")
    lo.kernels.append(small)
    short = compare("<", inner, Ref("WARP_INNER", I64))
    many = compare("<", Ref("ENOUGH_THREADS", I64), ir.mul(total, num(WARP)))
    lo.out.append(ir.If(compare("&&", short, many), [kir.Launch(small, total, inner)], [by_block]))


def _cut_up(
    lo: DeviceLowerer, n: SoacLoop, levels: Nest, total: Expr, inner: Expr, whole: list[ir.Stmt]
) -> list[ir.Stmt]:
    """A version with a block a point, or several where points are few and long (`segments.py`), fold by fold."""
    if lo.cut_up or not isinstance(n.stm.exp, core.Map):
        return whole
    rows = segments.rows_of(n.stm, levels)
    stms = _fold_by_fold(n.stm, n.stm.exp) if rows is None and not levels.inner else None
    if rows is None and stms is None:
        return whole
    lo.cut_up, lo.distributed = True, rows is None
    depth, kernels = len(lo.scopes), len(lo.kernels)
    try:
        with lo.block() as body:
            if rows is not None:
                _in_parts(lo, n, rows, total)
            elif stms is not None:
                lo.out += _lowered(lo, n, stms)
    except NotInBlock:
        del lo.scopes[depth:], lo.kernels[kernels:]
        return whole
    finally:
        lo.cut_up = lo.distributed = False
    few = compare("<", total, Ref("ENOUGH_TILES", I64))
    long = compare("<=", ir.mul(Ref("LONG_INNER", I64), num(LONG_ROWS)), inner)
    return [ir.If(compare("&&", few, long), body, whole)]


def _fold_by_fold(stm: core.Stm, e: core.Map) -> list[core.Stm] | None:
    """A map distributed over its body's statements, with the folds apart from what is mapped beside them."""
    stms: list[core.Stm] = []
    for s in e.lam.stms:
        x = s.exp
        beside = isinstance(x, core.Fused) and len(s.pat) > sum(map(len, x.folds))
        stms += fission.map_and_folds(s) if beside else [s]
    lam = core.Lambda(e.lam.params, tuple(stms), e.lam.result)
    return fission.distribute(core.Stm(stm.pat, core.Map(e.width, e.arrays, lam), stm.attrs))


def _in_parts(lo: DeviceLowerer, n: SoacLoop, rows: segments.Rows, total: Expr) -> None:
    """Rows by several blocks each."""
    made = [o for o in n.outs if o is not None]
    outs: list[View | None] = list(made)
    if rows.scans:
        lam = segments.as_one_scan(rows)
        outs = [dense_view(o.base, (o.count(),), o.offset) if o.dense else None for o in made]
    else:
        width, count, size = lo.expr(rows.width), Var("parts", I64), Var("part", I64)
        chunks = Ref(lo.name("chunks"), I64)
        lo.emit(kir.Chunks(chunks.name, width, total))
        lo.bind(count, chunks)
        lo.bind(size, lo.let(ir.Bin("/", ir.sub(ir.add(width, chunks), ONE), chunks), "n"))
        lam = core.Lambda((), tuple(segments.in_parts(rows, count, size)), n.stm.pat)
    lo.forced |= known_on_host(core.Program({"": core.Fun("", lam, 0, ())}))
    for v, out in zip(lo.scope(lam, outs), made, strict=True):
        assert isinstance(v, View)
        lo.copy(out, dense_view(v.base, out.shape, v.offset) if rows.scans else v)


def _by_columns(lo: DeviceLowerer, n: SoacLoop, levels: Nest, total: Expr, inner: Expr) -> list[ir.Stmt] | None:
    """Reductions of columns, which are neighbours in memory, in as many parts as there are threads for; None if the
    map is of anything else."""
    views = [v for v in _innermost(lo, n, levels) if v.rank > 1 and isinstance(v.base, Mem)]
    distributed = [v for v in views if v.strides[0] == ONE and v.strides[1] != ONE]
    rows = segments.rows_of(n.stm, levels) if distributed and len(distributed) == len(views) else None
    if rows is None or rows.scans or len(levels.inner) + 1 == MOST_LEVELS:
        return None
    with lo.block() as body:
        width, count, size = lo.expr(rows.width), Var("parts", I64), Var("part", I64)
        for_all = ir.Bin("/", ir.add(Ref("ENOUGH_THREADS", I64), total), ir.Scalar("max", (total, ONE), I64, I64))
        most = ir.Bin("/", ir.add(width, num(LEAST_PART)), num(LEAST_PART))
        lo.bind(count, lo.let(ir.Scalar("min", (for_all, most), I64, I64), "parts"))
        parts = lo.expr(count)
        lo.bind(size, lo.let(ir.Bin("/", ir.sub(ir.add(width, parts), ONE), parts), "n"))
        stms = segments.in_parts(rows, count, size, columns=True)
        lo.by_threads |= {s: None for s in stms if isinstance(s.exp, core.Map) and s.pat[0] not in n.stm.pat}
        lo.cut_up = True
        lo.out += _lowered(lo, n, stms)
        lo.cut_up = False
    return body


def _innermost(lo: DeviceLowerer, n: SoacLoop, levels: Nest) -> list[View]:
    """The arrays of a nest's innermost map, at some point of the maps around it."""
    assert n.lam is not None
    lam, arrays = n.lam, n.inputs
    for inner in levels.inner:
        rows: dict[Atom, Value] = {
            p: v.row((ir.ZERO,)) for p, v in zip(lam.params, arrays, strict=True) if isinstance(v, View)
        }
        for s in lam.stms:
            if isinstance(s.exp, core.Rearrange) and isinstance(v := rows.get(s.exp.array), View):
                rows[s.pat[0]] = permuted(v, s.exp.perm)
        assert isinstance(inner.exp, core.Map)
        outside = [lo.env.get(a) if isinstance(a, Var) else None for a in inner.exp.arrays]
        arrays = [rows.get(a) or x or ir.ZERO for a, x in zip(inner.exp.arrays, outside, strict=True)]
        lam = inner.exp.lam
    return [v for v in arrays if isinstance(v, View)]


def rows_in_order(lo: DeviceLowerer, n: SoacLoop, k: int) -> Value:
    """An input whose rows the threads of a block read several times: with neighbouring elements as neighbours, a
    transposed copy if they are not."""
    v = n.inputs[k]
    assert n.lam is not None
    if not isinstance(v, View) or v.rank != 2 or not isinstance(v.base, Mem) or not is_transposed(v):
        return v
    p = n.lam.params[k]
    times = sum(list(s.exp.operands()).count(p) for s in n.lam.stms if isinstance(s.exp, core.Soac))
    return lo.materialise(v) if times > 1 else v


def columns_near(lo: DeviceLowerer, levels: Nest) -> dict[Var, Value]:
    """Matrices of which neighbouring threads read the same column of neighbouring rows, at places that a loop computes:
    by columns, so that these are neighbours in memory."""
    if not levels.inner or not fission.looping(levels.body):
        return {}
    e = levels.inner[-1].exp
    assert isinstance(e, core.Map)
    loops = [s for s in levels.body.stms if isinstance(s.exp, core.Loop)]
    out: dict[Var, Value] = {}
    for a, p in zip(e.arrays, e.lam.params, strict=True):
        if not isinstance(a, Var) or a in levels.bound:
            continue
        v = lo.env.get(a)
        if not isinstance(v, View) or v.rank != 2 or not v.dense or not isinstance(v.base, Mem):
            continue
        if any(p in core.stm_free(s) for s in loops):
            permuted = View(v.base, v.offset, (v.strides[1], v.strides[0]), (v.shape[1], v.shape[0]))
            copy = lo.materialise(permuted)
            out[a] = View(copy.base, copy.offset, (copy.strides[1], copy.strides[0]), v.shape)
    return out


def _distributed(lo: DeviceLowerer, n: SoacLoop, levels: Nest) -> tuple[list[ir.Stmt] | None, Expr | None]:
    """The map distributed over its body's statements, None if that is not possible or there is no need; and how many
    elements a point works on in what tiles do, if there is such."""
    if not fission.deep(levels.body) and not _long_elements(levels.body):
        return None, None
    whole = all_pairs_of(n.stm)
    if whole is not None:
        with lo.block() as tiled:
            lower_all_pairs(lo, n.stm, whole, list(n.outs))
        return tiled, ir.mul(lo.expr(whole.inner.width), lo.expr(whole.fold.width))
    peel = peeled(n.stm) if not levels.inner else None
    stms = segments.as_one_sort(n.stm) or fission.distribute(n.stm) if peel is None else peel[0]
    if stms is None:
        return None, None
    body = _lowered(lo, n, stms)
    if peel is None:
        return body, None
    work: Expr = Ref("BLOCK_INNER", I64) if peel[2] else ir.ZERO  # loops are long
    for p in peel[1]:
        work = ir.add(work, ir.mul(lo.expr(p.inner.width), lo.expr(p.fold.width)))
    return body, work


def _lowered(lo: DeviceLowerer, n: SoacLoop, stms: Sequence[core.Stm]) -> list[ir.Stmt]:
    """A nest's statements instead of it, its results in the same places."""
    lam = core.Lambda((), tuple(stms), n.stm.pat)
    alone = core.Program({**lo.program.funs, "": core.Fun("", lam, 0, ())})
    lo.forced |= known_on_host(core.Program({"": alone.funs[""]}))
    lo.consumed |= consumed_vars(alone)
    with lo.block() as body:
        values = lo.scope(lam, list(n.outs))
    for v, out in zip(values, n.outs, strict=True):
        assert isinstance(v, Acc) or (isinstance(v, View) and out is not None and v.same_place(out))
    return body


def block_map(lo: DeviceLowerer, n: SoacLoop) -> list[Value]:
    """A map in block mode: points shared out over the block's threads."""
    assert n.lam is not None
    levels = levels_of(n.lam)
    n.inputs = atomic(n.inputs)
    with lo.shared_out(_sizes(lo, n, levels)) as index:
        _point(lo, n, levels, index)
    return n.results([])
