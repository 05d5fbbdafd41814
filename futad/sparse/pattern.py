"""Which elements of a Jacobian can be different from zero.

Note [Probing by NaN]
~~~~~~~~~~~~~~~~~~~~~
A product with the Jacobian is computed from the direction by additions and by multiplications with coefficients that do
not depend on it, along a path that does not either: that is what forward and reverse mode emit.  NaN plus anything, and
NaN times anything, zero included, is NaN.  So with NaN for some elements of the direction and 0 for the others, each
element of the product that has one of them with a coefficient is NaN, whatever the coefficients are; the others are
sums of zeros, if no coefficient is infinite.  An element of the product that is not NaN does not depend on these
elements of the direction: its derivative by them is zero.  The pattern is therefore never too small at the point where
it is probed.  It may be too large, as where the program subtracts what it has added.

The columns are probed in groups, and the groups divided: first few large ones, then the parts of those that meet no
row in common at the same time, for a row that becomes NaN tells then of which group the part is.  With g parts a group
and c colours it takes about g c log_g(n) directions for n columns, not n.  By rows the same, with reverse mode.

Where a comparison of floating-point numbers chooses what is computed, the pattern at another point can be another one:
`by_values` says whether there is such a comparison.  Integers are the other thing that it can depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from futad.api.program import Function
from futad.core import ir
from futad.core.types import Prim
from futad.errors import InternalError
from futad.sparse.colours import Pattern, column_colours
from futad.sparse.products import BLOCK, Matrix, Products

PARTS = 64  # of a group
FEW = 8  # colours of the first groups, up to which the other mode is not tried

Apply = Callable[[Matrix], Matrix]


def probed(at: Products, symmetric: bool = False) -> Pattern:
    """The pattern at a point; of a symmetric matrix by forward mode alone."""
    rows, columns = at.rows, at.columns
    size = _first_size(columns)
    by_columns = _groups(at.push, columns, rows, size)
    if symmetric:
        found = _divided(at.push, by_columns, columns, rows, size)
        return found.multiply(found.T).tocsr()  # each of the two holds all that are not zero
    colours = column_colours(by_columns)
    forward = int(colours.max(initial=-1)) + 1
    if size == 1 or forward <= FEW or not rows:
        return _divided(at.push, by_columns, columns, rows, size)
    other = _first_size(rows)
    by_rows = _groups(at.pull, rows, columns, other)
    reverse = int(column_colours(by_rows).max(initial=-1)) + 1
    if 2 * reverse < forward:
        return _divided(at.pull, by_rows, rows, columns, other).T.tocsr()
    return _divided(at.push, by_columns, columns, rows, size)


def _first_size(count: int) -> int:
    size = 1
    while size * PARTS < count:
        size *= PARTS
    return size


def _groups(apply: Apply, count: int, results: int, size: int) -> Pattern:
    """Which results depend on which groups of `size` of `count` elements: the pattern, results by groups."""
    groups = -(-count // size)
    direction, result = _hits(apply, np.arange(count) // size, groups)
    return _pattern(result, direction, (results, groups))


def _divided(apply: Apply, found: Pattern, count: int, results: int, size: int) -> Pattern:
    """The pattern of single elements, from that of groups."""
    while size > 1:
        colours = column_colours(found)
        number = int(colours.max(initial=-1)) + 1
        part = size // PARTS
        element = np.arange(count)
        direction, result = _hits(apply, colours[element // size] * PARTS + element % size // part, number * PARTS)
        # In a row a colour belongs to one group.
        row = np.repeat(np.arange(results), np.diff(found.indptr))
        keys = row * number + colours[found.indices]
        order = np.argsort(keys)
        wanted = result * number + direction // PARTS
        place = np.searchsorted(keys, wanted, sorter=order)
        if len(wanted) and (place.max() >= len(order) or (keys[order[place]] != wanted).any()):
            raise InternalError("a derivative depends on a part of what it does not depend on as a whole")
        group = found.indices[order[place]].astype(np.int64)
        found = _pattern(result, group * PARTS + direction % PARTS, (results, -(-count // part)))
        size = part
    return found


def _hits(apply: Apply, direction: np.ndarray[Any, Any], count: int) -> tuple[Any, Any]:
    """Pairs of a direction and a result that depends on it; `direction`: of `count`, that of each element."""
    directions: list[Any] = []
    results: list[Any] = []
    used = np.unique(direction)
    for first in range(0, len(used), BLOCK):
        block = used[first : first + BLOCK]
        seeds = np.where(direction[None, :] == block[:, None], np.nan, 0.0)
        which, result = np.nonzero(np.isnan(apply(seeds)))
        directions.append(block[which])
        results.append(result)
    if not directions:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(directions), np.concatenate(results)


def _pattern(rows: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    return scipy.sparse.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)


def by_values(f: Function) -> bool:
    """Whether floating-point numbers can decide what a derivative of f computes: if its code, f being a derivative with
    directions, makes an integer or a bool of one, or calls functions that may."""
    from futad.pipeline import compile_program

    def decides(stm: ir.Stm) -> bool:
        e = stm.exp
        if isinstance(e, ir.Call):
            return True
        return isinstance(e, ir.Op) and not _is_float(stm.pat[0].type) and any(_is_float(a.type) for a in e.args)

    expanded = compile_program(f.executable.core, stop_after="simplify-ad")
    return any(decides(s) for fun in expanded.funs.values() for s in ir.statements(fun.body.stms))


def _is_float(t: Any) -> bool:
    return isinstance(t, Prim) and t.is_float


__all__ = ["by_values", "probed"]
