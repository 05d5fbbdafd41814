"""Along which dimension each array between kernels has its elements side by side.

Note [Layouts]
~~~~~~~~~~~~~~
The threads of a warp access memory fastest where neighbours take neighbouring elements.  A map whose threads make a row
each wants its result by columns, one whose threads make an element each wants it by rows, and so do those that read it.
An array's layout is the order of its dimensions in memory, the last one fastest; as views have any strides it costs
nothing in itself.  What scopes return, what is reshaped and what loops start from is row-major, as the transposed view
that they see.

So for each array that a map makes at host level all uses in its scope are gone through, the map itself first, and the
layout is taken for which they cost the least: first by the copies that uses need which want another layout, for each is
a launch more, then by the sectors of memory that a warp takes.  Row-major is best among equals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.types import AccType, ArrayType, Const, Var, elem_of, shape_of
from futad.flatten import fission
from futad.flatten.device_choices import BY_NAME, permitted
from futad.flatten.levels import levels_of
from futad.rewrite.choices import Nest

SECTOR = 32  # bytes
BY_COLUMNS = "by-columns"

Order = tuple[int, ...]


@dataclass(slots=True)
class _Uses:
    """How an array is accessed: with neighbours along these dimensions, and as an array of which the dimensions have
    this order in memory."""

    array: Var
    along: list[int] = field(default_factory=list)
    dense: list[Order] = field(default_factory=list)

    def cost(self, order: Order) -> tuple[int, float]:
        return sum(o != order for o in self.dense), sum(self.sectors(d, order) for d in self.along)

    def sectors(self, d: int, order: Order) -> float:
        """How many times the fewest sectors a warp takes along a dimension."""
        shape, step = shape_of(self.array.type), 1
        most = SECTOR // elem_of(self.array.type).bytes
        for inner in order[order.index(d) + 1 :]:
            n = shape[inner]
            step *= n.value if isinstance(n, Const) else most
        return float(max(1, min(step, most)))


def layouts(lam: ir.Lambda, asked: Callable[[ir.Stm], Nest | None] = lambda stm: None) -> dict[Var, Order]:
    """The orders of dimensions of arrays of a scope at host level that are not row-major; `asked`: what a schedule asks
    of the statements that make them."""
    made: dict[Var, _Uses] = {}
    makers: dict[Var, ir.Stm] = {}
    views: dict[Var, tuple[Var, Order]] = {}  # what a view is of, and which dimension each of its own is there
    for stm in lam.stms:
        e = stm.exp
        if isinstance(e, (ir.Rearrange, ir.Alias)):
            source = e.array if isinstance(e, ir.Rearrange) else e.atom
            if isinstance(source, Var) and source in views:
                a, dims = views[source]
                perm = e.perm if isinstance(e, ir.Rearrange) else range(len(dims))
                views[stm.pat[0]] = a, tuple([dims[p] for p in perm])
            continue
        for v in dict.fromkeys(ir.stm_free(stm)):
            if v in views:
                a, dims = views[v]
                if a in made and not _use(made[a], stm, v, dims):
                    del made[a]
        if isinstance(e, ir.Map):
            for k, v in enumerate(stm.pat):
                if isinstance(v.type, ArrayType) and v.type.rank > 1:
                    dims = tuple(range(v.type.rank))
                    made[v], views[v], makers[v] = _Uses(v), (v, dims), stm
                    made[v].along.append(_made_along(stm, k))
    for x in lam.result:
        if x in views and views[x][0] in made:
            a, dims = views[x]
            made[a].dense.append(dims)
    out: dict[Var, Order] = {}
    for v, uses in made.items():
        rows = tuple(range(len(shape_of(v.type))))
        nest = asked(makers[v])
        if nest is not None and not permitted(nest, BY_COLUMNS):
            continue
        order = _best(uses, rows)
        if order == rows and nest is not None and any(c.name == BY_COLUMNS for c in nest.forced):
            order = _with_last(rows, uses.along[0])  # as it is made
        if order != rows:
            out[v] = order
        if nest is not None and order != rows:
            nest.was(BY_COLUMNS)
    for s in lam.stms if made else ():
        nest = asked(s)
        if nest is not None and isinstance(s.exp, ir.Map) and not {*s.pat} & {*out}:
            nest.was_not(BY_COLUMNS, BY_NAME[BY_COLUMNS].otherwise)
    return out


def _best(uses: _Uses, rows: Order) -> Order:
    candidates = [rows, *uses.dense, *[_with_last(rows, last) for last in uses.along]]
    return min(candidates, key=uses.cost)


def _with_last(rows: Order, last: int) -> Order:
    """The order with one dimension's elements side by side."""
    return (*[d for d in rows if d != last], last)


def _use(uses: _Uses, stm: ir.Stm, v: Var, dims: Order) -> bool:
    """Note how a statement uses a view of an array; whether the array may have any layout for all that."""
    e = stm.exp
    if isinstance(e, ir.MatMul) and not (e.plus and v in e.plus):
        return True  # tiles are read along either dimension
    if isinstance(e, ir.Reshape) or (isinstance(e, ir.Loop) and v in e.inits):
        uses.dense.append(dims)
    elif isinstance(e, ir.Map) and v not in e.lam.free():
        along = [_read_along(stm, k) for k, a in enumerate(e.arrays) if a is v]
        uses.along += [dims[d] for d in along if d is not None]
    elif isinstance(e, (ir.Map, ir.Concat, ir.Copy, ir.Update)):
        uses.along.append(dims[-1])
    else:
        return False
    return True


def _read_along(stm: ir.Stm, k: int) -> int | None:
    """Along which dimension of argument `k` of a nest of maps neighbouring threads go, None if they stay where they
    are.  Where blocks may share out rows these are to be as they are."""
    assert isinstance(stm.exp, ir.Map)
    levels = levels_of(stm.exp.lam)
    rows = len(shape_of(stm.exp.arrays[k].type)) - 1
    if fission.wide(levels.body):
        return rows
    path = levels.path(k)
    if path is None:
        return rows
    return len(path) - 1 if len(path) == levels.depth else None


def _made_along(stm: ir.Stm, k: int) -> int:
    """Along which dimension of its result `k` neighbouring threads of a nest of maps go."""
    assert isinstance(stm.exp, ir.Map)
    levels = levels_of(stm.exp.lam)
    rows = len(shape_of(stm.pat[k].type)) - 1
    if any(isinstance(a.type, AccType) for a in stm.exp.arrays) or fission.wide(levels.body):
        return rows
    lam, along = stm.exp.lam, 0
    for inner in levels.inner:
        x = lam.result[k]
        literals = {s.pat[0]: s.exp for s in lam.stms if isinstance(s.exp, ir.ArrayLit)}
        along += 1
        if x in literals:  # rows side by side
            x = literals[x].elems[0]
            along += 1
        assert isinstance(inner.exp, ir.Map)
        lam, k = inner.exp.lam, inner.pat.index(x)
    return along


__all__ = ["Order", "layouts"]
