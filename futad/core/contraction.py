"""Contractions: sums of products of elements whose indices are sums of the iterations (convolutions, correlations)."""

from __future__ import annotations

from dataclasses import dataclass

from futad.core.construct import Atoms, Exp
from futad.core.node import node
from futad.core.types import ONE, ZERO, Atom, shape_of

Steps = tuple[tuple[int, ...], ...]
"""By dimension of an array: how its index moves with each axis."""


@node
class Contraction(Exp):
    """Over axes of these `sizes`, of which the first `outs` are the result's dimensions and the others are summed over,

        result[x] = sum over y of a[start of a + steps of a * (x, y)] * b[start of b + steps of b * (x, y)]

    where dimension d of an array is read at its start plus the sum over the axes k of steps[d][k] times the iteration.
    All places are in range.  Made by `optimise/contractions.py`; the order of the sums is the backend's.
    """

    sizes: Atoms
    outs: int
    a: Atom
    a_start: Atoms
    a_steps: Steps
    b: Atom
    b_start: Atoms
    b_steps: Steps
    fresh = True

    @property
    def factors(self) -> tuple[Factor, Factor]:
        """Both arrays, with where they are read."""
        return Factor(self.a, self.a_start, self.a_steps), Factor(self.b, self.b_start, self.b_steps)


@dataclass(frozen=True, slots=True)
class Factor:
    """An array of a contraction and where it is read: dimension d at start[d] + sum of steps[d][k] * axis k."""

    array: Atom
    start: Atoms
    steps: Steps

    def of(self, axis: int) -> list[int]:
        """The dimensions in which an axis occurs."""
        return [d for d, steps in enumerate(self.steps) if steps[axis]]

    def axes(self, dim: int) -> list[int]:
        """The axes that occur in a dimension."""
        return [k for k, step in enumerate(self.steps[dim]) if step]

    def along(self, sizes: Atoms) -> dict[int, int]:
        """The axes that each run over the whole of a dimension, and are nowhere else, with that dimension."""
        out: dict[int, int] = {}
        for d, size in enumerate(shape_of(self.array.type)):
            axes = self.axes(d)
            if len(axes) == 1 and self.start[d] is ZERO and self.steps[d][axes[0]] == ONE.value:
                if sizes[axes[0]] is size and self.of(axes[0]) == [d]:
                    out[axes[0]] = d
        return out


__all__ = ["Contraction", "Factor", "Steps"]
