"""Maps as kernels.

Note [Nests]
~~~~~~~~~~~~
A map whose body ends in another map, after cheap statements only, is a nest: its space is the product of both
widths, and each thread does the statements of all levels for its point.  What is left inside the innermost level may
be parallel again (reductions over rows, say).  Then three kernels are made: in one a thread does a point on its own,
in the others a block or a warp does, its threads sharing out the inner work; the host picks by the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.grid import Grid, Version
from futad.core.nest import Nest
from futad.core.types import I64, Atom, Const, Var
from futad.flatten import fission
from futad.flatten import kernel as kir
from futad.flatten.conditions import condition
from futad.flatten.device_choices import ways
from futad.flatten.dispatch import SharedAcc
from futad.flatten.kernel_interface import NotInBlock
from futad.flatten.levels import levels_of
from futad.flatten.map_versions import bound_in
from futad.flatten.narrow_loops import FEW, by_warps
from futad.flatten.pair_tiles import lower_all_pairs
from futad.flatten.private_histograms import ROWS_SHARED, SHARED, in_shared_memory, rows_in_shared_memory
from futad.flatten.staging import ROWS_OUT, staged
from futad.imp import ir
from futad.imp.ir import ONE, Expr, Ref, num
from futad.imp.sharing import consumed_vars
from futad.imp.soacs import SoacLoop
from futad.imp.views import Acc, Mem, Value, View, dense_view, is_transposed, permuted

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

SHUFFLES = 6  # elements a thread that a fold of a warp's values, and the barriers around, take as long as
LEAST_PART = 16  # elements of a column that a thread reduces at least
ORDER = ("distributed", "tiles", "thread", "block", "parts", "one-scan", "folds", "columns", "loop")  # of lowering
PARTED = ("parts", "one-scan", "folds")
COPIES = "transposed-copies"


# --- maps -----------------------------------------------------------------------------------------------------


def inner_width(lo: DeviceLowerer, grid: Grid) -> Expr | None:
    """How wide the parallel work in a point is, None if there is none worth a block."""
    known: Expr | None = None
    for w in grid.inner:
        e = lo.expr(w)
        known = e if known is None or known == e else ir.Scalar("max", (known, e), I64, I64)
    if known is None:
        return num(grid.least) if grid.least else None
    return ir.Scalar("max", (known, num(grid.least)), I64, I64) if grid.least else known


def nest_width(lo: DeviceLowerer, levels: Nest, inner: Expr) -> Expr:
    """How many points the widest nest inside has whose sizes are known outside, or `inner` of what is no nest."""
    inside = {*levels.bound, *bound_in(levels.body)}
    widest, seen = inner, set[tuple[Atom, ...]]()
    todo = list(levels.body.stms)
    while todo:
        e = todo.pop().exp
        if isinstance(e, core.Control):
            todo += [s for f in e.lambdas() for s in f.stms]
        if not isinstance(e, core.Map):
            continue
        sizes = (e.width, *[m.width for m in levels_of(e.lam).maps])
        if len(sizes) > 1 and sizes not in seen and inside.isdisjoint(sizes):
            seen.add(sizes)
            widest = ir.Scalar("max", (widest, ir.product([lo.expr(a) for a in sizes])), I64, I64)
    return widest


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


def host_map(lo: DeviceLowerer, n: SoacLoop, grid: Grid) -> list[Value]:
    """A map at host level; see Note [Nests]."""
    assert n.lam is not None
    levels = levels_of(n.lam)
    sizes = _sizes(lo, n, levels)
    total = lo.let(ir.product(sizes), "n")
    what, point = _what(n, levels), lambda index: _point(lo, n, levels, index)
    ways_there = {v.level for v in grid.versions}
    sure = lo.asked is not None and bool(ways(lo.asked)) and not ways(lo.asked) & ways_there
    shared = lo.tried(SHARED.name, lambda: in_shared_memory(lo, n, levels.body, sizes, total, what, point, sure))
    inner = inner_width(lo, grid) if shared is None and not levels.inner else None
    if inner is not None:
        width = inner
        shared = lo.tried(ROWS_SHARED.name, lambda: rows_in_shared_memory(lo, n, width, what, sure))
    if shared is None:
        return _Versions(lo, n, grid, levels, sizes, total).lowered()
    with lo.block() as otherwise:
        values = _Versions(lo, n, grid, levels, sizes, total).lowered()
    lo.out.append(ir.If(shared[0], shared[1], otherwise))
    return values


class _Versions:
    """The versions of a map, of which the host picks one."""

    def __init__(
        self, lo: DeviceLowerer, n: SoacLoop, grid: Grid, levels: Nest, sizes: list[Expr], total: Expr
    ) -> None:
        self.lo, self.n, self.levels, self.sizes, self.total = lo, n, levels, sizes, total
        self.grid, self.inner = grid, inner_width(lo, grid)
        work = [ir.product([lo.expr(a) for a in term]) for term in grid.work]
        self.quantities = {"points": [total], "inner": [self.inner or ir.ZERO], "work": work}

    def lowered(self) -> list[Value]:
        """Lower all of them, and what the host picks by.  If the threads of a block would share what each needs, the
        version by threads alone is left."""
        lo = self.lo
        chosen = {v.level: v for v in self.grid.versions}
        warp = chosen.pop("warp", None)
        made: dict[str, list[ir.Stmt]] = {}
        for level in [level for level in ORDER if level in chosen]:
            if level == "columns" and not _columns(lo, self.n, self.levels):
                chosen = {v.level: replace(v, when=v.spare or v.when) for v in chosen.values() if v.level != level}
                continue
            try:
                made[level] = self.version(chosen[level], warp)
            except NotInBlock:
                if level in PARTED:
                    continue
                if level != "block" or not ("thread" in made or self.grid.otherwise):
                    raise
                made = {"thread": made["thread"] if "thread" in made else self.version(Version("thread"), None)}
                break
        picked = [v for v in chosen.values() if v.level in made]
        self.told(chosen, made, warp)
        out = made[picked[-1].level] if picked else made["thread"]
        for v in reversed(picked[:-1]):
            out = [ir.If(condition(v.when, self.quantities), made[v.level], out)]
        if list(made) == ["thread"] and self.inner is not None and "thread" in chosen and not self.grid.why:
            what = _what(self.n, self.levels)
            lo.why.append(f"{lo.function_name}: inner parallelism of {what} is sequential in each thread")
        lo.out += out
        return self.n.results([])

    def told(self, chosen: Mapping[str, Version], made: Mapping[str, object], warp: Version | None) -> None:
        """Tell the nest which versions are made."""
        nest = self.lo.asked
        if nest is None:
            return
        for v in self.grid.versions:
            with_blocks = v.level == "warp" and v is warp and "block" in made
            if v.level in made or with_blocks:
                nest.was(v.level)
            elif v.level == "columns" and v.level not in chosen:
                nest.was_not(v.level, "its rows are no columns in memory")
            else:
                nest.was_not(v.level, "the threads of a block would share what each needs")
        if not any(v.level in made for v in self.grid.versions):
            nest.was("thread")

    def version(self, v: Version, warp: Version | None) -> list[ir.Stmt]:
        """The statements of a version.  Raises NotInBlock."""
        lo, n = self.lo, self.n
        inputs, depth, kernels = n.inputs, len(lo.scopes), len(lo.kernels)
        try:
            with lo.block() as body:
                if v.level in ("thread", "block"):
                    self.points(v.level, warp)
                elif v.level == "tiles":
                    lower_all_pairs(lo, n.stm, list(n.outs))
                else:
                    self.instead(v)
        except NotInBlock:
            del lo.scopes[depth:], lo.kernels[kernels:]
            for stm in self.levels.inner:
                lo.given.pop(stm, None)
            raise
        finally:
            n.inputs = inputs
        return body

    def points(self, unit: str, warp: Version | None) -> None:
        """A kernel in which a thread, or a block, does a point."""
        lo, n, levels, inner = self.lo, self.n, self.levels, self.inner
        if unit == "block" and not levels.inner:
            made = lo.tried(COPIES, lambda: rows_in_order(lo, n))
            n.inputs = n.inputs if made is None else made
        near = (lo.tried(COPIES, lambda: columns_near(lo, levels) or None) or {}) if unit == "thread" else {}
        before = {a: lo.env[a] for a in near}
        lo.env |= near
        lo.turned = (lo.tried(COPIES, lambda: rows_again(lo, levels) or None) or {}) if unit == "block" else {}
        with lo.kernel("thread" if unit == "thread" else "block") as body, lo.space(self.sizes, unit) as (index, _):
            _point(lo, n, levels, index)
        what = _what(n, levels)
        if unit == "thread":
            lo.tried(ROWS_OUT.name, lambda: staged(body, lo.name) or None)
            lo.launch(body, unit, self.total, what + (", sequential inside" if inner is not None else ""))
        else:
            assert inner is not None
            self.together(body, what, inner, warp)
        lo.env |= before

    def together(self, body: list[ir.Stmt], what: str, inner: Expr, warp: Version | None) -> None:
        """Launch a kernel of whose points each is done by a block, or by a warp."""
        lo = self.lo
        made = lo.launch(body, "block", self.total, f"{what}, inner parts by the block", inner)
        if (widest := nest_width(lo, self.levels, inner)) is not inner:
            # Few points leave processors idle: then a block has a thread for each point of the nests inside.
            last = lo.out.pop()
            few: list[ir.Stmt] = [kir.Launch(made, self.total, widest)]
            lo.out.append(ir.If(condition("points < ENOUGH_TILES", self.quantities), few, [last]))
        if warp is None:
            return
        by_block = lo.out.pop()  # what comes before it, the sizes of memory, is for both
        small = replace(made, name=f"{made.name}_warp", kind="warp", what=f"{what}, inner parts by a warp")
        lo.kernels.append(small)
        lo.out.append(ir.If(condition(warp.when, self.quantities), [kir.Launch(small, self.total, inner)], [by_block]))

    def instead(self, v: Version) -> None:
        """Other statements, their results in the same places."""
        lo, n, body = self.lo, self.n, v.body
        assert body is not None
        made = [o for o in n.outs if o is not None]
        outs = list(n.outs)
        if v.level == "one-scan":
            outs = [dense_view(o.base, (o.count(),), o.offset) if o.dense else None for o in made]
        elif body.params:
            (count, size), width = body.params, self.inner
            assert width is not None
            if v.level == "parts":
                chunks = Ref(lo.name("chunks"), I64)
                lo.emit(kir.Chunks(chunks.name, width, self.total, ONE))
                lo.bind(count, chunks)
            else:
                some = ir.Scalar("max", (self.total, ONE), I64, I64)
                for_all = ir.Bin("/", ir.add(Ref("ENOUGH_THREADS", I64), self.total), some)
                most = ir.Bin("/", ir.add(width, num(LEAST_PART)), num(LEAST_PART))
                lo.bind(count, lo.let(ir.Scalar("min", (for_all, most), I64, I64), "parts"))
            parts = lo.expr(count)
            lo.bind(size, lo.let(ir.Bin("/", ir.sub(ir.add(width, parts), ONE), parts), "n"))
        if v.level not in ("parts", "one-scan"):
            self.in_place(body)
            return
        values = [x for x in lo.on_host(body, outs) if not isinstance(x, Acc)]
        for x, out in zip(values, made, strict=True):
            assert isinstance(x, View)
            lo.copy(out, dense_view(x.base, out.shape, x.offset) if v.level == "one-scan" else x)

    def in_place(self, body: core.Lambda) -> None:
        """Other statements, whose results are in the same places at once."""
        lo, n = self.lo, self.n
        lo.consumed |= consumed_vars(core.Program({**lo.program.funs, "": core.Fun("", body, 0, ())}))
        for v, out in zip(lo.on_host(body, list(n.outs)), n.outs, strict=True):
            assert isinstance(v, Acc) or (isinstance(v, View) and out is not None and v.same_place(out))


def _columns(lo: DeviceLowerer, n: SoacLoop, levels: Nest) -> bool:
    """Whether the rows of a nest's innermost map are columns of matrices, neighbours in memory."""
    views = [v for v in _innermost(lo, n, levels) if v.rank > 1 and isinstance(v.base, Mem)]
    return bool(views) and all(v.strides[0] == ONE and v.strides[1] != ONE for v in views)


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


def rows_in_order(lo: DeviceLowerer, n: SoacLoop) -> list[Value] | None:
    """The inputs, with transposed copies of some; None if there is no need."""
    made = [_row_in_order(lo, n, k) for k in range(len(n.inputs))]
    return None if all(x is v for x, v in zip(made, n.inputs, strict=True)) else made


def _row_in_order(lo: DeviceLowerer, n: SoacLoop, k: int) -> Value:
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


def rows_again(lo: DeviceLowerer, levels: Nest) -> dict[Atom, View]:
    """Matrices of which each thread of a block folds a row in every iteration of a loop: by columns, so that neighbours
    read neighbouring elements."""
    inside = {*levels.bound, *bound_in(levels.body)}
    out: dict[Atom, View] = {}
    todo = [t for s in levels.body.stms if isinstance(s.exp, core.Loop) for f in s.exp.lambdas() for t in f.stms]
    while todo:
        e = todo.pop().exp
        if isinstance(e, core.Control):
            todo += [t for f in e.lambdas() for t in f.stms]
        for k in folded_rows(e):
            assert isinstance(e, core.Map)
            a = e.arrays[k]
            v = lo.env.get(a) if isinstance(a, Var) and a not in inside | out.keys() else None
            if isinstance(v, View) and v.rank == 2 and v.dense and isinstance(v.base, Mem):
                out[a] = permuted(lo.materialise(permuted(v, (1, 0))), (1, 0))
    return out


def folded_rows(e: core.Exp) -> list[int]:
    """Which inputs of a map have rows that a thread folds, as it does each point."""
    if not isinstance(e, core.Map) or levels_of(e.lam).inner:
        return []
    folds = [s.exp for s in e.lam.stms if isinstance(s.exp, core.Screma) and s.exp.folds]
    folded = {a for f in folds if not isinstance(f.width, Const) or f.width.value > FEW for a in f.arrays}
    return [k for k, p in enumerate(e.lam.params) if p in folded]


def block_map(lo: DeviceLowerer, n: SoacLoop) -> list[Value]:
    """A map in block mode: points shared out over the block's threads."""
    assert n.lam is not None
    levels = levels_of(n.lam)
    n.inputs = atomic(n.inputs)
    sizes = _sizes(lo, n, levels)
    warps = _by_warps(lo, n, levels, sizes)
    with lo.block() as by_threads, lo.shared_out(sizes) as index:
        _point(lo, n, levels, index)
    if warps is not None:
        by_threads = [s for s in by_threads if not isinstance(s, kir.Sync)]
        by_threads = [kir.Sync(), ir.If(warps[0], warps[1], by_threads), kir.Sync()]
    lo.out += by_threads
    return n.results([])


def _by_warps(
    lo: DeviceLowerer, n: SoacLoop, levels: Nest, sizes: Sequence[Expr]
) -> tuple[Expr, list[ir.Stmt]] | None:
    """In a block that runs a loop: a warp a point, and when that is better than a thread; None if it never is."""
    if lo.alone is None or not by_warps(levels.body):
        return None
    width = next(s.exp.width for s in levels.body.stms if isinstance(s.exp, core.Soac))
    if width in levels.bound:
        return None
    depth, inputs, first = len(lo.scopes), n.inputs, lo.slots
    var, total = lo.name("p"), ir.product([*sizes])
    try:
        with lo.block() as body, lo.inside("block"), lo.guarded():
            _point(lo, n, levels, lo.unflatten(Ref(var, I64), sizes))
    except NotInBlock:
        del lo.scopes[depth:]
        for stm in levels.inner:
            lo.given.pop(stm, None)
        return None
    finally:
        n.inputs = inputs
    lo.warp_slots.update(range(first, lo.slots))
    row = lo.expr(width)
    threads = Ref("futad_width", I64)
    better = ir.compare("<", ir.mul(total, ir.add(row, num(SHUFFLES * kir.WARP))), ir.mul(threads, row))
    return better, [kir.ByWarps(var, total, body)]
