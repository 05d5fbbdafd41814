"""How a device runs a statement that the host meets: a record beside the statement, which the pass `grids` decides, the
checker checks, and lowering carries out.

    let s_6: f64 = reduce(n_1, [ys_3], \\(...) -> ..., [0.0f64]) #Grid(template="reduce", space=[n_1])

A statement without one is lowered in the only way there is.  Statements inside a kernel have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from futad.core.construct import Atoms, Lambda
from futad.core.types import Atom

SHARED_BYTES = 48 << 10  # of a block's shared memory, if a kernel asks for no more than every device has

TEMPLATES: dict[str, str] = {
    "reduce": "chunks, one a block; the last block combines them (`space`: elements)",
    "scan": "one pass by decoupled look-back, with tiles of `shared` bytes (`space`: elements)",
    "scan-in-chunks": "a kernel scans chunks, one their results, one adds these (`space`: elements)",
    "map": "a unit of work a point of `space`, in one of several versions",
    "tiles": "folds of pairs of rows in tiles (`space`: rows on the left, on the right, elements of a row)",
    "product": "matrix products in tiles, if the operands lie in memory or are computed element by element",
    "elements": "a matrix product, a thread an element",
    "sort": "a radix sort",
    "scope": "other statements in place of this one",
    "histogram": "updates of bins, in one of several versions (`space`: updates, elements of each; `work`: bins)",
    "one-thread": "a loop in which nothing is parallel, or a sort",
    "loop": "a loop with something parallel, by one block or by the host (`work`: of an iteration)",
}
QUANTITIES = ("points", "inner", "work")
"""What conditions compare with thresholds: the points of `space`, the width of the parallel work in each, `work`."""


@dataclass(slots=True, eq=False)
class Version:
    """One way to run a statement, at a `level`: 'thread' or 'block' (a unit of work is one's), or the name of a
    template's part.  `when` it is taken, always if that is empty.  `spare`: when it is, if that differs, where the
    version 'columns' is left out because rows are no columns in memory.  `body`: other statements, of which the
    results are the statement's; they may bind the variables that it binds, for only one version runs."""

    level: str
    when: str = ""
    body: Lambda | None = None
    spare: str = ""


@dataclass(slots=True, eq=False)
class Grid:
    """The template, and what it is given.

    `space`: sizes, outermost first.  `inner` (sizes known outside) and `least`: the parallel work in a point is as wide
    as the largest of these.  `work`: a sum of products of sizes.  `shared`: bytes of shared memory of a block.
    `versions`: the host takes the first whose condition holds.  `otherwise`: instead, where the template says so.
    `why`: the reason, for the reader.
    """

    template: str
    space: Atoms = ()
    inner: Atoms = ()
    least: int = 0
    work: tuple[Atoms, ...] = ()
    shared: int = 0
    versions: tuple[Version, ...] = ()
    otherwise: Grid | None = None
    why: str = ""

    def rebuild(self, fa: Callable[[Atom], Atom], fl: Callable[[Lambda], Lambda]) -> Grid:
        """The same over mapped atoms and scopes."""
        atoms = [tuple([fa(a) for a in group]) for group in (self.space, self.inner, *self.work)]
        ways = [replace(v, body=fl(v.body) if v.body is not None else None) for v in self.versions]
        other = self.otherwise.rebuild(fa, fl) if self.otherwise is not None else None
        space, inner, *work = atoms
        return Grid(self.template, space, inner, self.least, tuple(work), self.shared, tuple(ways), other, self.why)


Sum = list[list[str]]
_TEST = re.compile(r"(.+) (<=?) (.+)")


def comparisons(when: str) -> list[list[tuple[Sum, str, Sum]]]:
    """A condition as alternatives, each of which is comparisons that all hold, of sums of products of names and
    numbers: `"inner < BLOCK_INNER || points*32 <= ENOUGH_THREADS + work"`.  Raises ValueError for anything else."""
    out: list[list[tuple[Sum, str, Sum]]] = []
    for alternative in when.split(" || "):
        out.append([])
        for test in alternative.split(" && "):
            m = _TEST.fullmatch(test)
            if m is None:
                raise ValueError(f"no comparison: {test!r}")
            out[-1].append((_sum(m[1]), m[2], _sum(m[3])))
    return out


def _sum(text: str) -> Sum:
    return [term.split("*") for term in text.split(" + ")]


__all__ = ["QUANTITIES", "SHARED_BYTES", "TEMPLATES", "Grid", "Version", "comparisons"]
