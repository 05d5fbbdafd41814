"""Contractions: sums of products of elements whose indices are sums of the iterations (convolutions, correlations)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.core.construct import Atoms, Exp
from futad.core.node import node
from futad.core.types import ONE, ZERO, Atom, i64, shape_of

Steps = tuple[Atoms, ...]
"""By dimension of an array: how its index moves with each axis."""


@node
class Contraction(Exp):
    """Over axes of these `sizes`, of which the first `outs` are the result's dimensions and the others are summed over,

        result[x] = sum over y of a[start of a + steps of a * (x, y)] * b[start of b + steps of b * (x, y)]

    where dimension d of an array is read at its start plus the sum over the axes k of its step times the iteration; the
    steps are those of dimension 0 by axis, then of dimension 1, and so on.  All places are in range, but of a factor
    that is `open`: what it has out of range has no term.  Made by `optimise/contractions.py`; the order of the sums is
    the backend's.
    """

    sizes: Atoms
    outs: int
    a: Atom
    a_start: Atoms
    a_steps: Atoms
    b: Atom
    b_start: Atoms
    b_steps: Atoms
    open: tuple[bool, bool]
    fresh = True

    @property
    def factors(self) -> tuple[Factor, Factor]:
        """Both arrays, with where they are read."""
        return (
            Factor(self.a, self.a_start, self._rows(self.a_steps), self.open[0]),
            Factor(self.b, self.b_start, self._rows(self.b_steps), self.open[1]),
        )

    def _rows(self, steps: Atoms) -> Steps:
        n = len(self.sizes)
        return tuple([steps[k : k + n] for k in range(0, len(steps), n)])


@dataclass(frozen=True, slots=True)
class Factor:
    """An array of a contraction and where it is read: dimension d at start[d] + sum of steps[d][k] * axis k.  `open`:
    what is out of range has no term."""

    array: Atom
    start: Atoms
    steps: Steps
    open: bool = False

    def of(self, axis: int) -> list[int]:
        """The dimensions in which an axis occurs."""
        return [d for d, steps in enumerate(self.steps) if steps[axis] is not ZERO]

    def axes(self, dim: int) -> list[int]:
        """The axes that occur in a dimension."""
        return [k for k, step in enumerate(self.steps[dim]) if step is not ZERO]

    def along(self, sizes: Atoms) -> dict[int, int]:
        """The axes that each run over the whole of a dimension, and are nowhere else, with that dimension."""
        out: dict[int, int] = {}
        for d, size in enumerate(shape_of(self.array.type)):
            axes = self.axes(d)
            if len(axes) == 1 and self.start[d] is ZERO and self.steps[d][axes[0]] is ONE:
                if sizes[axes[0]] is size and self.of(axes[0]) == [d]:
                    out[axes[0]] = d
        return out


def contraction(sizes: Atoms, outs: int, x: Factor, y: Factor) -> Contraction:
    """The contraction of two factors."""
    flat = [tuple([step for row in f.steps for step in row]) for f in (x, y)]
    return Contraction(sizes, outs, x.array, x.start, flat[0], y.array, y.start, flat[1], (x.open, y.open))


def fixed(steps: Sequence[Sequence[int]]) -> Steps:
    """Steps that are known numbers."""
    return tuple([tuple([i64(n) for n in row]) for row in steps])


__all__ = ["Contraction", "Factor", "Steps", "contraction", "fixed"]
