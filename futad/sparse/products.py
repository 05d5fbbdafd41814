"""An entry at a point as a function of vectors: its Jacobian times many vectors at once, and its transpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from futad.api.program import Function
from futad.runtime.structure import count_leaves

Matrix = np.ndarray[Any, Any]
BLOCK = 16  # directions at a time: the memory for derivatives grows with it


class Products:
    """The Jacobian of f at `leaves`, the components of its arguments: of the floating-point components of its result
    (rows) by those of its arguments `active` (columns), both in the order of the types."""

    def __init__(self, f: Function, active: tuple[int, ...], leaves: Sequence[Any]) -> None:
        self.f, self.active, self.leaves = f, active, leaves
        owners = [i for i, (_, t) in enumerate(f.entry.params) for _ in range(count_leaves(t))]
        self._own = [k for k, i in enumerate(owners) if i < len(f.entry.unique) and f.entry.unique[i]]
        every = [k for i in active for k, owner in enumerate(owners) if owner == i]
        self.given = [(np.shape(self.leaves[k]), f.signature.params[k].elem) for k in every]
        self.results = [leaf.elem for leaf in f.signature.results]
        self._shapes: list[tuple[int, ...]] | None = None
        self.columns = sum([_size(s) for s, elem in self.given if elem.is_float])

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each component of the result."""
        if self._shapes is None:
            self._shapes = [np.shape(x) for x in self.f.call_leaves(self._arguments())]
        return self._shapes

    @property
    def rows(self) -> int:
        """How many rows the Jacobian has."""
        return sum([_size(s) for s, elem in zip(self.shapes, self.results, strict=True) if elem.is_float])

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of products along columns: of the result."""
        return np.result_type(*[elem.dtype for elem in self.results if elem.is_float])

    def push(self, directions: Matrix) -> Matrix:
        """For each row of `directions` the Jacobian times it."""
        along = self.f.derivative("jmp", self.active)
        made = along.call_leaves([*self._arguments(), *_parts(directions, self.given)])
        primal, tangents = made[: len(self.results)], made[len(self.results) :]
        if self._shapes is None:
            self._shapes = [np.shape(x) for x in primal]
        floats = [np.asarray(t) for t, elem in zip(tangents, self.results, strict=True) if elem.is_float]
        return np.concatenate([t.reshape(len(directions), -1) for t in floats], axis=1)

    def pull(self, directions: Matrix) -> Matrix:
        """For each row of `directions` the Jacobian's transpose times it."""
        back = self.f.derivative("mjp", self.active)
        given = list(zip(self.shapes, self.results, strict=True))
        made = back.call_leaves([*self._arguments(), *_parts(directions, given)])
        floats = [np.asarray(t) for t, (_, elem) in zip(made, self.given, strict=True) if elem.is_float]
        return np.concatenate([t.reshape(len(directions), -1) for t in floats], axis=1)

    def _arguments(self) -> list[Any]:
        """The components of the arguments; those that f may overwrite are copies."""
        return [np.copy(x) if k in self._own else x for k, x in enumerate(self.leaves)]


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _parts(directions: Matrix, components: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """The rows of a matrix as arrays of components with one more dimension, zeros for those of integers and bools."""
    count, start, out = len(directions), 0, []
    for shape, elem in components:
        if not elem.is_float:
            out.append(np.zeros((count, *shape), elem.dtype))
            continue
        part = directions[:, start : start + _size(shape)]
        out.append(np.ascontiguousarray(part, elem.dtype).reshape(count, *shape))
        start += _size(shape)
    return out


__all__ = ["BLOCK", "Matrix", "Products"]
