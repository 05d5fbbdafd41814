"""Random core programs that are mostly loops: in one another, after one another, in branches, of lengths that depend on
data, with updates and arrays that grow."""

from __future__ import annotations

from futad.core import ir
from futad.core.types import I64, Atom, i64
from futad.testing.programs.core import Gen, Sample, arguments
from futad.testing.programs.core_base import Scope


class Loops(Gen):
    """Half of the statements are loops."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, smooth=True, zero=seed % 5 == 0)
        self.budget = self.rng.randint(8, 20)
        several = [self.loop, self.loop, self.loop, self.while_, self.while_, self.branch, self.branch, self.growing]
        quiet = [self.scalars, self.map, self.reduce, self.layout, self.unknown_size, self.accumulate]
        self.kinds = [*several, *several, *quiet, *([] if self.zero else [self.update, self.update, self.slice])]

    def few(self, sc: Scope) -> Atom:
        return self.op(sc, "mod", self.atom(sc, I64), i64(4))


def loops(seed: int) -> Sample:
    """A random program of loops, of smooth f64 code with integers on the side; results are all f64."""
    gen = Loops(seed)
    fun = gen.main()
    return Sample(seed, ir.Program({fun.name: fun}), arguments(seed, fun, gen.zero))
