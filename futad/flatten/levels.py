"""Nests of maps: how deep the maps inside a map are nested perfectly (Note [Nests] in `nests.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir as core
from futad.core.builder import Builder
from futad.core.nest import Nest, nest_in
from futad.core.scalarops import OPS
from futad.core.types import Atom
from futad.legality import Legality
from futad.rewrite.dce import effects

LEGAL = Legality("nests", "maps nested perfectly are one, over the product of their widths", fires=False)
NO_ASSERTION = LEGAL.condition("no assertion between", "it is not asked where the map inside has no elements")

MOST_LEVELS = 8
CHEAP = 60  # cost of the statements between two maps that every inner point repeats


def _cheap(stm: core.Stm) -> int | None:
    """The cost of a statement that may be repeated, None if it may not."""
    match stm.exp:
        case core.Op(op):
            return OPS[op].cost
        case core.At() | core.Rearrange() | core.Alias() | core.Iota():
            return 1
        case core.Replicate() | core.Assert():  # an assertion: where a mutant allows it
            return 1
    return None


def repeated(stms: Sequence[core.Stm]) -> bool:
    """Whether statements are so cheap that every inner point may repeat them."""
    if not NO_ASSERTION(not effects(stms)):
        return False
    costs = [_cheap(s) for s in stms]
    return None not in costs and sum(c for c in costs if c is not None) <= CHEAP


def levels_of(lam: core.Lambda) -> Nest:
    """How deep maps are nested in the lambda of a map: their results may be rows of literals, too."""
    return nest_in(lam, MOST_LEVELS, repeated, rows=True)


def unravelled(b: Builder, at: Atom, widths: Sequence[Atom]) -> list[Atom]:
    """The place of each level of a point that is number `at` of a nest of these widths, the last of which runs
    fastest."""
    out: list[Atom] = []
    for n in reversed(widths[1:]):
        above = b.op("quot", at, n)
        out.append(b.op("sub", at, b.op("mul", above, n)))
        at = above
    return [at, *reversed(out)]
