"""Skeletons of real algorithms with random parts: what each file of this folder makes, by family.

`FAMILIES` names them; `program(family, seed)` gives one program.  See `base` for what a program is.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from futad.testing.skeletons import (
    backwards,
    bins,
    borders,
    choices,
    colliding,
    crossed,
    duplicates,
    dynamic,
    forms,
    gradients,
    handover,
    inplace,
    integers,
    learning,
    masks,
    matrices,
    mixed,
    monoids,
    nests,
    onehots,
    physics,
    products,
    recurrent,
    recursion,
    rows,
    smalls,
    sorting,
    specials,
    spectral,
    structures,
    views,
    widths,
    wrap,
)
from futad.testing.skeletons.base import HEAD, Gen, Param, Program, is_float

_FILES = (
    inplace, recurrent, dynamic, matrices, spectral, sorting, structures, physics, learning, onehots, smalls,
    integers, views, gradients, choices, bins, nests,
    recursion, products, backwards, rows, crossed, forms, mixed, colliding, handover,
    masks, borders, monoids, duplicates, widths, specials,
)  # fmt: skip
FAMILIES: dict[str, Callable[[Gen], Program]] = {f.__name__: f for file in _FILES for f in file.FAMILIES}


def program(family: str, seed: int) -> Program:
    """A program of the family; one in five inside a map, or in a loop."""
    g = Gen(random.Random(f"{family} {seed}"))
    return wrap.wrapped(g, FAMILIES[family](g))


__all__ = ["FAMILIES", "HEAD", "Gen", "Param", "Program", "is_float", "program"]
