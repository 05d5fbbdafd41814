"""What becomes of each construct that has values split along the size; see `split.py`.

A construct without a rule here does not split.
"""

from __future__ import annotations

from collections.abc import Callable

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.operator import operators_of
from futad.core.types import ONE, ZERO, AccType, Atom, Var, elem_of, prim_of, shape_of, zero
from futad.distributed.classes import (
    ADDED_IN_PARTS,
    COMBINED_BEFORE,
    NO_ORDER,
    OWN_ROWS,
    SIZE_KEPT,
    Accumulator,
    Class,
    How,
    Partial,
    Replicated,
    Sharded,
    adding,
)
from futad.distributed.places import name_of
from futad.distributed.split import RULES, Item, Rule, Splitter
from futad.errors import UnsupportedError

# Operations that a fold may be made of, each component on its own, and that partial values are combined by.
_FOLDED = ("add", "mul", "min", "max", "and", "or", "xor")


def rule(*constructs: type[ir.Exp]) -> Callable[[Rule], Rule]:
    def declare(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(constructs, f))
        return f

    return declare


# --- arrays -------------------------------------------------------------------------------------------------


def _moved(sp: Splitter, s: ir.Stm, array: Atom, dim: int, *others: Atom) -> list[Item]:
    """The statement, whose result is the shard's part along `dim`."""
    return sp.sharded(s, sp.known(array, *others), [Sharded(0, dim)])


def _is_split(sp: Splitter, s: ir.Stm, a: Atom) -> Sharded:
    """The class of an array that has to be split along the size."""
    c = sp.of(a)
    there = isinstance(c, Sharded)
    sp.demand(OWN_ROWS, there, "an array of this size is not split", s)
    return c if isinstance(c, Sharded) else Sharded(c.level, 0)


@rule(ir.Iota)
def _iota(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Iota)
    b = Builder()
    t = prim_of(e.start)
    offset = b.convert(t, sp.offset)
    passed = offset if e.step.type is t and getattr(e.step, "value", None) == 1 else b.op("mul", offset, e.step)
    start = passed if getattr(e.start, "value", None) == 0 else b.op("add", e.start, passed)
    return sp.sharded(ir.Stm(s.pat, ir.Iota(e.count, start, e.step), s.attrs), sp.known(e.start, e.step),
                      [Sharded(0, 0)], b.stms)  # fmt: skip


@rule(ir.Replicate, ir.Scratch)
def _replicate(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Replicate | ir.Scratch)
    dim = sp.dim_of(s.pat[0].type, s)
    if isinstance(e, ir.Replicate):
        sp.filled[s.pat[0]] = e.value
    level = sp.known(*[a for a in e.operands() if a is not sp.n])
    return sp.sharded(s, level, [Sharded(0, dim or 0)])


@rule(ir.Alias, ir.Copy)
def _copy(sp: Splitter, s: ir.Stm) -> list[Item]:
    (a,) = s.exp.operands()
    return _moved(sp, s, a, _is_split(sp, s, a).dim)


@rule(ir.Rearrange)
def _rearrange(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Rearrange)
    c = _is_split(sp, s, e.array)
    return _moved(sp, s, e.array, e.perm.index(c.dim) if c.dim in e.perm else c.dim)


@rule(ir.Reshape)
def _reshape(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Reshape)
    c = _is_split(sp, s, e.array)
    dim = sp.dim_of(s.pat[0].type, s)
    same = dim is not None and shape_of(e.array.type)[: c.dim] == e.shape[:dim]
    sp.demand(SIZE_KEPT, same, "a reshape merges the size with others", s)
    return _moved(sp, s, e.array, dim or 0, *[a for a in e.shape if a is not sp.n])


def _through(sp: Splitter, s: ir.Stm, array: Atom, index: ir.Index, dim: int) -> int:
    """The dimension that is split of what an index leaves, where `dim` is that of the array."""
    if dim < len(index):
        i = index[dim]
        whole = isinstance(i, Range) and i.start is ZERO and i.stride is ONE and i.count is sp.n
        sp.demand(OWN_ROWS, whole, f"some of the rows of '{name_of(array)}' are taken", s)
    return dim - sum([not isinstance(i, Range) for i in index[:dim]])


@rule(ir.At)
def _at(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.At)
    dim = _through(sp, s, e.array, e.index, _is_split(sp, s, e.array).dim)
    return _moved(sp, s, e.array, dim, *[a for a in e.operands() if a is not sp.n])


@rule(ir.Update)
def _update(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Update)
    c = _is_split(sp, s, e.array)
    _through(sp, s, e.array, e.index, c.dim)
    return _moved(sp, s, e.array, c.dim, *[a for a in e.operands() if a is not sp.n])


@rule(ir.ArrayLit)
def _literal(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.ArrayLit)
    dims = {_is_split(sp, s, a).dim for a in e.elems}
    return sp.sharded(s, sp.known(*e.elems), [Sharded(0, max(dims) + 1)])


@rule(ir.Concat)
def _concat(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Concat)
    dims = {_is_split(sp, s, a).dim for a in e.arrays}
    sp.demand(SIZE_KEPT, 0 not in dims, "arrays are put one after another along the size", s)
    return sp.sharded(s, sp.known(*e.arrays), [Sharded(0, max(dims))])


@rule(ir.Assert)
def _assert(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Assert)
    return sp.sharded(s, sp.known(*[a for a in e.operands() if a is not sp.n]), [sp.of(a) for a in e.of])


# --- maps and folds -------------------------------------------------------------------------------------------


def _rows(sp: Splitter, s: ir.Stm, arrays: tuple[Atom, ...]) -> int:
    """The phase of arrays that are all split along dimension 0."""
    for a in arrays:
        if not isinstance(a.type, AccType):
            sp.demand(OWN_ROWS, _is_split(sp, s, a).dim == 0, "columns are looked at as rows", s)
    return sp.known(*arrays)


@rule(ir.Map)
def _map(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Map)
    if e.width is not sp.n:
        return sp.nest(s)
    level = max(_rows(sp, s, e.arrays), sp.pointwise(s, e.lam))
    mapped: list[Class] = [Sharded(level, 0)] * (len(s.pat) - e.accs)
    return sp.sharded(s, level, [*[Accumulator(level)] * e.accs, *mapped])


@rule(ir.Fused)
def _fused(sp: Splitter, s: ir.Stm) -> list[Item]:
    return sp.scope(ir.unfused(s))


def _hows(lam: ir.Lambda, fold: ir.Fold, group: tuple[Var, ...]) -> list[How]:
    """How the parts of a fold's results are combined."""
    found = operators_of(lam)
    if found is not None and all(o.op in _FOLDED for o in found):
        return [How(o.op) for o in found]
    return [How(fold=fold, group=group, index=i) for i in range(len(group))]


@rule(ir.Reduce, ir.Scan)
def _fold(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Reduce | ir.Scan)
    if e.width is sp.n:
        sp.demand(NO_ORDER, isinstance(e, ir.Reduce), "a scan over the data", s)
        level = max(_rows(sp, s, e.arrays), sp.pointwise(s, e.lam), sp.known(*e.neutral))
        hows = _hows(e.lam, ir.Fold(e.lam, e.neutral), s.pat)
        return sp.sharded(s, level, [Partial(level, how) for how in hows])
    rows = [sp.row(a) for a in e.arrays]
    for p, c in zip(e.lam.params, [*rows, *rows], strict=True):
        sp.classes[p] = c
    lam, level = sp.body(s, e.lam)
    level = max(level, *[sp.known(a) for a in (*e.arrays, *e.neutral) if a is not sp.n])
    kinds = [sp.of(a) for a in lam.result]
    same = all(_alike(a, c) for a, c in zip(kinds, rows, strict=True))
    sp.demand(OWN_ROWS, same, "a fold mixes values of which each shard has a part with others", s)
    outer = isinstance(e, ir.Scan)
    made: ir.Exp = ir.Scan(e.width, e.arrays, lam, e.neutral) if outer else ir.Reduce(
        e.width, e.arrays, lam, e.neutral, getattr(e, "comm", False))  # fmt: skip
    return sp.sharded(ir.Stm(s.pat, made, s.attrs), level, [sp.result(c, int(outer)) for c in lam.result])


@rule(ir.Hist)
def _hist(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.Hist)
    whole = not any(isinstance(sp.of(a), Sharded) for a in e.dests)
    sp.demand(OWN_ROWS, whole, "what is written at computed places belongs to shards", s)
    sp.demand(OWN_ROWS, e.width is sp.n, "places are not split", s)
    level = max(_rows(sp, s, (*e.idxs, *e.values)), sp.pointwise(s, e.lam), sp.known(*e.neutral))
    b = Builder()
    dests = tuple([sp.masked(b, a, neutral) for a, neutral in zip(e.dests, e.neutral, strict=True)])
    level = max(level, sp.known(*e.dests))
    found = _hows(e.lam, ir.Fold(e.lam, e.neutral), s.pat)
    hows = [How(fold=h.fold, group=h.group, index=h.index, depth=len(e.idxs)) if h.fold else h for h in found]
    made = ir.Hist(e.width, dests, e.idxs, e.values, e.lam, e.neutral)
    return sp.sharded(ir.Stm(s.pat, made, s.attrs), level, [Partial(level, h) for h in hows], b.stms)


@rule(ir.Scatter, ir.ArgSort)
def _order(sp: Splitter, s: ir.Stm) -> list[Item]:
    what = "a sort of the data" if isinstance(s.exp, ir.ArgSort) else "a scatter to computed places"
    sp.demand(NO_ORDER, False, what, s)
    return sp.sharded(s, sp.known(*[v for v in ir.stm_free(s) if v is not sp.n]), [Sharded(0, 0)] * len(s.pat))


# --- accumulators -----------------------------------------------------------------------------------------------


@rule(ir.WithAcc)
def _with_acc(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.WithAcc)
    inside = set(e.lam.params)  # what needs the accumulators; the others are computed before
    out: list[Item] = []
    stms = []
    for t in e.lam.stms:
        if inside & ir.stm_free(t).keys():
            inside.update(t.pat)
            stms.append(t)
        else:
            out += sp.statement(t)
    for a in e.arrays:
        shared = not isinstance(sp.of(a), Sharded)
        sp.demand(OWN_ROWS, shared, "derivatives are added to computed rows", s)
    sp.set(e.lam.params, Accumulator(0))
    lam, level = sp.body(s, ir.Lambda(e.lam.params, tuple(stms), e.lam.result))
    b = Builder()
    inits: list[Atom] = []
    for a in e.arrays:
        c = sp.of(a)
        part = isinstance(c, Partial) and c.level == level and c.how == adding(a.type)
        level = level if part else max(level, sp.known(a))
        inits.append(a)
    inits = [
        a if isinstance(c := sp.of(a), Partial) and c.level == level and c.how == adding(a.type)
        else sp.masked(b, a, zero(elem_of(a.type)))
        for a in inits
    ]  # fmt: skip
    k = len(e.arrays)
    classes: list[Class] = [Partial(level, adding(a.type)) for a in e.arrays]
    classes += [sp.result(a) for a in lam.result[k:]]
    made = ir.Stm(s.pat, ir.WithAcc(tuple(inits), e.op, lam), s.attrs)
    return out + sp.sharded(made, level, classes, b.stms)


@rule(ir.UpdateAcc)
def _update_acc(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.UpdateAcc)
    b = Builder()
    c = sp.of(e.value)
    sp.demand(ADDED_IN_PARTS, not isinstance(c, Sharded), "rows are added as a whole", s)
    value = sp.as_partial(b, e.value, adding(e.value.type), s)
    level = max(sp.known(*e.index), sp.of(e.acc).level, c.level)
    made = ir.Stm(s.pat, ir.UpdateAcc(e.acc, e.index, value), s.attrs)
    return sp.sharded(made, level, [Accumulator(level)], b.stms)


def _alike(x: Class, y: Class) -> bool:
    """Whether values are split in the same way."""
    return type(x) is type(y) and getattr(x, "dim", 0) == getattr(y, "dim", 0)


# --- branches and loops -------------------------------------------------------------------------------------------


@rule(ir.If)
def _if(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.If)
    level = sp.known(e.cond)
    (then, first), (orelse, second) = sp.body(s, e.then), sp.body(s, e.orelse)
    level = max(level, first, second)
    classes: list[Class] = []
    lasts: tuple[list[Atom], list[Atom]] = ([], [])
    builders = Builder(), Builder()
    for x, y in zip(then.result, orelse.result, strict=True):
        parts = [c for c in (sp.of(x), sp.of(y)) if isinstance(c, Partial)]
        if parts:
            x, y = [sp.as_partial(b, a, parts[0].how, s) for b, a in zip(builders, (x, y), strict=True)]
        lasts[0].append(x)
        lasts[1].append(y)
        classes.append(Partial(level, parts[0].how) if parts else sp.result(x))
        alike = parts or _alike(sp.of(x), sp.of(y))
        sp.demand(OWN_ROWS, alike, "branches yield values split in two ways", s)
    bodies = [ir.Lambda((), (*lam.stms, *b.stms), tuple(last))
              for lam, b, last in zip((then, orelse), builders, lasts, strict=True)]  # fmt: skip
    return sp.sharded(ir.Stm(s.pat, ir.If(e.cond, *bodies), s.attrs), level, classes)


@rule(ir.For, ir.While)
def _loop(sp: Splitter, s: ir.Stm) -> list[Item]:
    e = s.exp
    assert isinstance(e, ir.For | ir.While)
    before = dict(sp.combined)
    try:
        return _loop_of(sp, s, e, [sp.of(a) for a in e.inits])
    except UnsupportedError:
        if not (sums := _sums(sp, e)):
            raise
        sp.combined = before
        return _loop_of(sp, s, e, [sums.get(v, sp.of(a)) for v, a in zip(e.variables, e.inits, strict=True)])


def _sums(sp: Splitter, e: ir.For | ir.While) -> dict[Var, Class]:
    """The variables of a loop that each iteration adds to, as partial values."""
    made = {v: t.exp for t in e.body.stms for v in t.pat}
    out: dict[Var, Class] = {}
    for v, init, a in zip(e.variables, e.inits, e.body.result, strict=True):
        exp = made.get(a) if isinstance(a, Var) else None
        if isinstance(exp, ir.Op) and exp.op == "add" and v in exp.args and isinstance(sp.of(init), Replicated):
            out[v] = Partial(0, adding(v.type))
    return out


def _loop_of(sp: Splitter, s: ir.Stm, e: ir.For | ir.While, classes: list[Class]) -> list[Item]:
    bound = sp.known(e.bound) if isinstance(e, ir.For) else 0
    sp.set(e.body.params, Replicated(bound))
    while True:
        for v, c in zip(e.variables, classes, strict=True):
            sp.classes[v] = c
        lam, level = sp.body(s, e.body)
        found = [sp.of(a) for a in lam.result]
        joined: list[Class] = [r if isinstance(c, Replicated) and isinstance(r, Partial) else c
                               for c, r in zip(classes, found, strict=True)]  # fmt: skip
        if [type(c) for c in joined] == [type(c) for c in classes]:
            break
        classes = joined
    level = max(bound, level, *[c.level for c in classes])
    b, last = Builder(), Builder()
    inits, results = list(e.inits), list(lam.result)
    for i, c in enumerate(classes):
        alike = _alike(found[i], c)
        if isinstance(c, Partial):
            inits[i], results[i] = sp.as_partial(b, inits[i], c.how, s), sp.as_partial(last, results[i], c.how, s)
        sp.demand(OWN_ROWS, alike or isinstance(c, Partial), "a loop splits its variable in two ways", s)
    if isinstance(e, ir.While):
        whole = isinstance(classes[0], Replicated)
        sp.demand(COMBINED_BEFORE, whole, "how long a loop runs depends on the data", s)
    body = ir.Lambda(lam.params, (*lam.stms, *last.stms), tuple(results))
    made = ir.Stm(s.pat, e.remade(tuple(inits), body), s.attrs)
    outs = [sp.result(v) if not isinstance(c, Partial) else c for v, c in zip(e.variables, classes, strict=True)]
    return sp.sharded(made, level, outs, b.stms)
