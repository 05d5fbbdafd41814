"""Lowering of second-order array constructs to loops."""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir as core
from futad.core.types import ArrayType, Var
from futad.imp import ir
from futad.imp.carried import Carried, elementwise
from futad.imp.ir import Expr, compare
from futad.imp.lower import Lowerer, Want, handles
from futad.imp.vectorise import annotate
from futad.imp.views import Acc, Mem, Root, Value, View


def bind_elements(lo: Lowerer, lam: core.Lambda, params: Sequence[Var], values: Sequence[Value], i: Expr) -> None:
    """Bind the parameters of a map's lambda for iteration i: loads, rows, accumulators."""
    inside = core.Lambda((), lam.stms, lam.result).free()
    for k, (p, v) in enumerate(zip(params, values, strict=True)):
        if isinstance(v, Acc):
            lo.bind(p, v)
        elif isinstance(v, View) and p in inside:
            x = element(lo, v, i, p.name)
            if isinstance(x, View) and (not v.injective or _shared(lo, lam, values, k)):
                x = guarded(x)
            lo.bind(p, x)


def _shared(lo: Lowerer, lam: core.Lambda, values: Sequence[Value], k: int) -> bool:
    """Whether other iterations may read the memory of argument k's row."""
    roots = _roots(values[k])
    others = [v for j, v in enumerate(values) if j != k] + [lo.env[v] for v in lam.free() if v in lo.env]
    return any(roots & _roots(v) for v in others)


def _roots(v: Value) -> frozenset[Root]:
    if isinstance(v, Acc):
        v = v.view
    return v.roots if isinstance(v, View) else frozenset()


def guarded(v: Value) -> Value:
    """An array that must not be overwritten even if it looks dead: others read the same memory."""
    if not isinstance(v, View) or not isinstance(v.base, Mem):
        return v
    base = Mem(v.base.pointer, v.elem, v.base.roots | {Root(None, False, v.elem)})
    return View(base, v.offset, v.strides, v.shape, v.dense, v.injective)


def element(lo: Lowerer, v: View, i: Expr, hint: str) -> Value:
    """Element i of an array: a scalar in a variable, or a view of the row."""
    if v.rank == 1:
        return lo.let(v.load((i,)), hint)
    row = v.row((i,))
    return View(row.base, lo.let(row.offset, "o"), row.strides, row.shape, row.dense, row.injective)


@handles(core.Map)
def _map(lo: Lowerer, stm: core.Stm, e: core.Map, wants: list[Want]) -> Sequence[Value]:
    return screma(lo, stm, e.width, e.arrays, e.lam, [], [], wants)


@handles(core.Reduce)
def _reduce(lo: Lowerer, stm: core.Stm, e: core.Reduce, wants: list[Want]) -> Sequence[Value]:
    return screma(lo, stm, e.width, e.arrays, None, [], [(e.lam, e.neutral)], wants)


@handles(core.Scan)
def _scan(lo: Lowerer, stm: core.Stm, e: core.Scan, wants: list[Want]) -> Sequence[Value]:
    return screma(lo, stm, e.width, e.arrays, None, [(e.lam, e.neutral)], [], wants)


@handles(core.Fused)
def _fused(lo: Lowerer, stm: core.Stm, e: core.Fused, wants: list[Want]) -> Sequence[Value]:
    scans = list(zip(e.scan_lams, e.scan_neutrals, strict=True))
    reds = list(zip(e.red_lams, e.red_neutrals, strict=True))
    return screma(lo, stm, e.width, e.arrays, e.lam, scans, reds, wants)


Fold = tuple[core.Lambda, core.Atoms]


def screma(
    lo: Lowerer, stm: core.Stm, width_atom: core.Atom, arrays: core.Atoms, lam: core.Lambda | None,
    scans: list[Fold], reds: list[Fold], wants: list[Want],
) -> list[Value]:
    """One loop that maps (`lam`, or the identity), scans and reduces; results in the order of `core.Fused`."""
    width = lo.let(lo.expr(width_atom), "n")
    inputs = [lo.value(a) for a in arrays]
    accs = [v for v in inputs if isinstance(v, Acc)]
    n_accs = len(accs)
    n_scan = sum(len(n) for _, n in scans)
    n_red = sum(len(n) for _, n in reds)
    pat = stm.pat
    # Where whole-array results go.
    outs: list[View | None] = []
    for k, v in enumerate(pat):
        mapped = n_accs <= k < n_accs + n_scan or k >= n_accs + n_scan + n_red
        if mapped:
            assert isinstance(v.type, ArrayType)
            outs.append(lo.alloc(v.type.elem, (width, *lo.shape(v.type)[1:]), wants[k], v.name))
        else:
            outs.append(None)
    folds: list[Carried] = []
    at = n_accs
    for f, neutral in scans + reds:
        k = len(neutral)
        fold_wants = wants[at : at + k] if len(folds) >= len(scans) else []
        folds.append(Carried(lo, f.params[:k], [lo.value(a) for a in neutral], f, fold_wants))
        at += k
    with lo.loop(width) as (i, loop):
        first_map = n_accs + n_scan + n_red
        if lam is None:
            values: list[Value] = [element(lo, v, i, "x") for v in inputs if isinstance(v, View)]
        else:
            bind_elements(lo, lam, lam.params, inputs, i)
            inner: list[Want] = []
            for k in range(len(pat)):
                out = outs[k]
                inner.append(out.row((i,)) if out is not None and k >= first_map and out.rank > 1 else None)
            inner = [
                View(w.base, lo.let(w.offset, "o"), w.strides, w.shape, w.dense) if isinstance(w, View) else w for w in inner
            ]
            values = lo.scope(lam, inner, repeats=True)
            for k in range(first_map, len(pat)):
                v, out = values[k], outs[k]
                if isinstance(v, Expr):
                    assert out is not None
                    lo.store(out, (i,), v)
            values = values[n_accs:]
        at = 0
        for carried, (f, neutral) in zip(folds, scans + reds, strict=True):
            k = len(neutral)
            for p, v in zip(f.params[k:], values[at : at + k], strict=True):
                lo.bind(p, guarded(v))
            results = lo.scope(f, carried.wants(), repeats=True)
            if at < n_scan:
                for j, v in enumerate(results):
                    out = outs[n_accs + at + j]
                    assert out is not None
                    if isinstance(v, View):
                        lo.copy(out.row((i,)), v)
                    else:
                        assert isinstance(v, Expr)
                        lo.store(out, (i,), v)
            carried.commit(results)
            at += k
    annotate(loop, bool(reds) and lo.reassociate)
    final: list[Value] = list(accs)
    for k, carried in enumerate(folds):
        values = carried.finish()
        if k < len(scans):
            base = n_accs + sum(len(n) for _, n in scans[:k])
            final += [o for o in outs[base : base + len(values)] if o is not None]
        else:
            final += values
    final += [o for o in outs[n_accs + n_scan + n_red :] if o is not None]
    return final


# --- writes at computed places ------------------------------------------------------------------------------


def _targets(lo: Lowerer, dests: core.Atoms, others: Sequence[core.Atom], wants: list[Want]) -> list[View]:
    """The destinations, copied unless they may be overwritten."""
    out = []
    for j, a in enumerate(dests):
        v = lo.view(a)
        rest = [d for k, d in enumerate(dests) if k != j]
        if not lo.can_overwrite(v, [*others, *rest]):
            v = lo.materialise(v, wants[j])
        out.append(v)
    return out


def _guarded(lo: Lowerer, index: Sequence[Expr], shape: Sequence[Expr], body: list[ir.Stmt]) -> None:
    """Emit the body if the index is within the shape."""
    guard: Expr | None = None
    for i, n in zip(index, shape, strict=False):
        if not lo.in_range(i, n):
            inside = ir.Bin("<u", i, n, ir.TRUE.type)
            guard = inside if guard is None else compare("&&", guard, inside)
    if guard is None:
        lo.out += body
    else:
        lo.emit(ir.If(guard, body, []))


@handles(core.Scatter)
def _scatter(lo: Lowerer, stm: core.Stm, e: core.Scatter, wants: list[Want]) -> Sequence[Value]:
    targets = _targets(lo, e.dests, [*e.idxs, *e.values], wants)
    idxs = [lo.view(a) for a in e.idxs]
    values = [lo.view(a) for a in e.values]
    with lo.loop(lo.let(lo.expr(e.width), "n")) as (i, _loop):
        index = [lo.let(v.load((i,)), "ix") for v in idxs]
        with lo.block() as body:
            for target, v in zip(targets, values, strict=True):
                if v.rank == 1:
                    lo.store(target, index, v.load((i,)))
                else:
                    lo.copy(target.row(index), v.row((i,)))
        _guarded(lo, index, targets[0].shape, body)
    return targets


@handles(core.Hist)
def _hist(lo: Lowerer, stm: core.Stm, e: core.Hist, wants: list[Want]) -> Sequence[Value]:
    k = len(e.dests)
    targets = _targets(lo, e.dests, [*e.idxs, *e.values, *e.lam.free()], wants)
    idxs = [lo.view(a) for a in e.idxs]
    values = [lo.view(a) for a in e.values]
    with lo.loop(lo.let(lo.expr(e.width), "n")) as (i, _loop):
        index = [lo.let(v.load((i,)), "ix") for v in idxs]
        with lo.block() as body:
            rows = [t.row(index) for t in targets]
            inner: list[Want] = []
            for p, row, r in zip(e.lam.params[:k], rows, e.lam.result, strict=True):
                lo.bind(p, row if row.rank else lo.let(row.load(()), p.name))
                inner.append(row if row.rank and elementwise(e.lam, p, r) else None)
            bind_elements(lo, e.lam, e.lam.params[k:], [guarded(v) for v in values], i)
            results = lo.scope(e.lam, inner, repeats=True)
            results = [
                lo.materialise(v) if isinstance(v, View) and k > 1 and not v.same_place(row) else v
                for v, row in zip(results, rows, strict=True)
            ]
            for t, row, v in zip(targets, rows, results, strict=True):
                if isinstance(v, View):
                    lo.copy(row, v)
                else:
                    assert isinstance(v, Expr)
                    lo.store(t, index, v)
        _guarded(lo, index, targets[0].shape, body)
    return targets
