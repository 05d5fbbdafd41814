"""A sparse Jacobian or Hessian as a function of the arguments of an entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from futad.api.program import Function
from futad.errors import ShapeError, UsageError
from futad.runtime.values import entry_text
from futad.sparse.blocks import LocalPlan, local
from futad.sparse.colours import Colours, Pattern, column_colours, star_colours
from futad.sparse.pattern import by_values, probed
from futad.sparse.products import BLOCK, Products


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the elements of a pattern are computed: along one direction for each colour of columns, or in reverse of
    rows; element number e of the matrix is then number `places[e]` of the products."""

    pattern: Pattern
    reverse: bool
    colours: Colours
    places: np.ndarray[Any, Any]

    @property
    def report(self) -> str:
        """How the elements are computed."""
        return f"{self.count} colour{'s' * (self.count != 1)}, {'reverse' if self.reverse else 'forward'}"

    @property
    def count(self) -> int:
        """How many colours there are."""
        return int(self.colours.max(initial=-1)) + 1

    def values(self, at: Products) -> np.ndarray[Any, Any]:
        """The elements at a point, in the order of the pattern."""
        apply, size = (at.pull, at.rows) if self.reverse else (at.push, at.columns)
        made = []
        for first in range(0, self.count, BLOCK):
            block = np.arange(first, min(first + BLOCK, self.count))
            made.append(apply((self.colours[None, :] == block[:, None]).astype(np.float64)))
        if not made:
            return np.zeros(0, at.dtype)
        products = np.concatenate(made)
        assert products.shape[0] == self.count and self.colours.size == size
        found: np.ndarray[Any, Any] = products.ravel()[self.places]
        return found.astype(at.dtype, copy=False)


def _jacobian_plan(pattern: Pattern) -> _Plan:
    """Forward mode by colours of columns, or reverse mode by those of rows, if these are less than half as many."""
    rows, columns = pattern.shape
    row = np.repeat(np.arange(rows), np.diff(pattern.indptr))
    column = pattern.indices.astype(np.int64)
    forward = column_colours(pattern)
    count = int(forward.max(initial=-1)) + 1
    fullest_column = int(np.bincount(column, minlength=1).max()) if len(column) else 0
    if 2 * fullest_column < count:
        reverse = column_colours(pattern.T.tocsr())
        if 2 * (int(reverse.max(initial=-1)) + 1) < count:
            return _Plan(pattern, True, reverse, reverse[row] * columns + column)
    return _Plan(pattern, False, forward, forward[column] * rows + row)


def _hessian_plan(pattern: Pattern) -> _Plan:
    """By star colours, or by colours of columns where these are fewer."""
    size = pattern.shape[0]
    row = np.repeat(np.arange(size), np.diff(pattern.indptr))
    column = pattern.indices.astype(np.int64)
    plain = column_colours(pattern)
    star = star_colours(pattern) if plain.max(initial=-1) > 1 else None
    colours = plain if star is None or star.max(initial=-1) >= plain.max(initial=-1) else star
    # Element (i, j) is product j's colour, row i, if no other column of that colour has an element in row i;
    # else it is found as element (j, i).
    count = int(colours.max(initial=-1)) + 1
    keys = row * max(count, 1) + colours[column]
    _, back, often = np.unique(keys, return_inverse=True, return_counts=True)
    own = often[back] == 1 if len(keys) else np.zeros(0, bool)
    places = np.where(own, colours[column] * size + row, colours[row] * size + column)
    return _Plan(pattern, False, colours, places)


class SparseMatrix:
    """What `sparse_jacobian` and `sparse_hessian` give: call it with the arguments of the entry."""

    def __init__(
        self, f: Function, active: tuple[int, ...], symmetric: bool, pattern: Any = None, blocks: bool = True
    ) -> None:
        """Of f's Jacobian with respect to the arguments `active`, or if `symmetric` its Hessian.  `blocks`: whether
        local blocks are looked for."""
        self._blocks = blocks and not symmetric and pattern is None
        self.f, self._active, self._symmetric = f, active, symmetric
        self._of = f.derivative("grad", active) if symmetric else f  # whose Jacobian it is
        self._given = None if pattern is None else _cleaned(pattern)
        if symmetric and self._given is not None and (self._given != self._given.T).nnz:
            raise UsageError("the pattern of a Hessian is symmetric")
        self._kept: tuple[list[Any], _Plan | LocalPlan] | None = None
        self._last: _Plan | LocalPlan | None = None
        self._by_values: bool | None = None
        self.__name__ = f"sparse_{'hessian' if symmetric else 'jacobian'}({f.__name__})"
        self.__doc__ = f"{self.__name__}\n\n{f.__doc__}"
        self.__signature__ = f.__signature__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The matrix at a point, a `scipy.sparse.csr_array` whose indices are sorted; elements of the pattern that are
        zero there are in it.  Matrices of one pattern share the arrays of indices, which are read-only: what changes
        them in place, as `eliminate_zeros` does, takes a `copy()`."""
        leaves = self._leaves(args, kwargs)
        plan = self._plan(leaves)
        p = plan.pattern
        if isinstance(plan, LocalPlan):
            data = plan.values(leaves)
        else:
            data = plan.values(Products(self._of, self._active, leaves))
        made = scipy.sparse.csr_array((data, p.indices, p.indptr), shape=p.shape)
        made.has_sorted_indices = made.has_canonical_format = True
        return made

    def pattern(self, *args: Any, **kwargs: Any) -> Any:
        """The places that can hold something else than zero, as a `scipy.sparse.csr_array` of bools."""
        return self._plan(self._leaves(args, kwargs)).pattern.copy()

    @property
    def report(self) -> str:
        """How the last matrix was computed: "3 colours, forward", and whether its pattern holds at other points."""
        if self._last is None:
            return "not called yet"
        text = self._last.report + " over reverse" * self._symmetric
        if self._given is not None:
            return f"{text}; the pattern was given"
        if self._by_values:
            return f"{text}; the pattern is found at each point: comparisons of numbers decide what is computed"
        return text

    def settle(self) -> None:
        """Wait until what computes the elements is built in full, where a first build runs it meanwhile."""
        plan = self._last
        f = plan.of.values if isinstance(plan, LocalPlan) else None
        if isinstance(plan, _Plan):
            f = self._of.derivative("mjp" if plan.reverse else "jmp", self._active)
        if f is not None:
            f.executable.executor()

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The components of the arguments."""
        if kwargs:
            args = self.f.positional(args, kwargs)
        return self.f.signature.flatten(args)[len(self.f.signature.size_names) :]

    def _plan(self, leaves: list[Any]) -> _Plan | LocalPlan:
        kept = self._kept
        if kept is not None and self._holds(kept[0], leaves):
            self._last = kept[1]
            return kept[1]
        plan = self._new_plan(Products(self._of, self._active, leaves))
        for shared in (plan.pattern.indices, plan.pattern.indptr):
            shared.setflags(write=False)
        self._kept = [np.copy(x) for x in leaves], plan
        self._last = plan
        return plan

    def _new_plan(self, at: Products) -> _Plan | LocalPlan:
        pattern = self._given
        if self._blocks and (blocks := local(self._of, self._active)) is not None:
            self._by_values = blocks.by_values
            return blocks.plan(at.leaves, (at.rows, at.columns))
        if pattern is None:
            pattern = probed(at, self._symmetric)
            pattern.sort_indices()
        elif pattern.shape != (at.rows, at.columns):
            raise ShapeError(f"{self.__name__} has the shape {(at.rows, at.columns)}, but the pattern that was given "
                             f"for it {pattern.shape}")  # fmt: skip
        return _hessian_plan(pattern) if self._symmetric else _jacobian_plan(pattern)

    def _holds(self, before: list[Any], now: list[Any]) -> bool:
        """Whether the pattern at a point is that at another one: shapes are the same, and what decides."""
        if any(np.shape(x) != np.shape(y) for x, y in zip(before, now, strict=True)):
            return False
        if self._given is not None:
            return True
        elems = [leaf.elem for leaf in self._of.signature.params]
        triples = list(zip(elems, before, now, strict=True))
        if not all(np.array_equal(x, y) for elem, x, y in triples if not elem.is_float):
            return False
        if self._by_values is None:  # the first pattern is found without compiling anything to tell this
            self._by_values = by_values(self._of.derivative("jmp", self._active))
        return not self._by_values or all(np.array_equal(x, y) for elem, x, y in triples if elem.is_float)

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseMatrix, (self.f, self._active, self._symmetric, self._given, self._blocks)

    def __repr__(self) -> str:
        return f"<{self.__name__} of {entry_text(self.f.entry)}>"


def _same(x: list[Any], y: list[Any]) -> bool:
    return all(type(a) is type(b) and np.shape(a) == np.shape(b) and np.array_equal(a, b)
               for a, b in zip(x, y, strict=True))  # fmt: skip


def _cleaned(pattern: Any) -> Pattern:
    """A pattern that a caller gives."""
    try:
        made = scipy.sparse.csr_array(pattern, copy=True)
        if made.ndim != 2:
            raise ValueError
    except (TypeError, ValueError):
        kind = type(pattern).__name__
        raise UsageError(f"a pattern is a sparse matrix of SciPy, or a dense one, not {kind}") from None
    made.sum_duplicates()
    made.data = np.ones(made.nnz, bool)
    return made


__all__ = ["SparseMatrix"]
