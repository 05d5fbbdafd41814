"""Maps around loops that turn out to be short, a block of iterations at a time.

    for i: { s = 0; for j: s += a[i, j] * x[j]; y[i] = exp(s) }

Loops inside that carry nothing run in vector lanes by themselves.  Where they are short (the features of a sample, the
components of a mixture, classes), they leave most of a vector empty, and the map is what fills the lanes, as in
`outer_vectorise.py`.  In nests that is the outermost map, or else the one around the innermost loops (the cells of a
lattice).  So it is however long loops are whose own lanes would gather from long records that are the same for all
iterations of the map (the corners of triangles, for each pixel).  Checks, such as whether a label is a class, are made
before, if no loop inside decides them.

How long the loops are is known when the program runs: so there are both loops, the second of which begins where the
first one ended, or if that does not run, with the first iteration.
"""

from __future__ import annotations

from collections.abc import Set
from functools import reduce

from futad.core.types import BOOL
from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import TRUE, Expr, num, sub
from futad.imp.loops.facts import LoopFacts, cost
from futad.imp.loops.if_conversion import if_converted
from futad.imp.loops.outer_vectorise import Shape, in_blocks, places_in
from futad.imp.loops.places import NO_SIZES, Sizes
from futad.imp.walk import loads_in, refs, statements
from futad.legality import Legality

LEGAL = Legality(
    "short-inner-loops",
    "iterations of a map around loops of a few iterations run together, each in a lane (see outer-loop-vectorisation)",
    worth="a mixture 1.12 to 0.20 ms, its gradient 2.7 to 0.45: `without.py 'no short-inner-loops' mixture`",
)
LENGTHS_OUTSIDE = LEGAL.condition("lengths known outside", "which of both loops runs is decided before either")

SHORT = 64  # bytes of the elements that a loop inside goes through, which are one vector or leave most of it empty
SHUFFLED = 4  # elements of records that C compilers take apart in vectors without gathering them
ENOUGH = 16  # iterations of the map around it
DEAR = 20  # the cost of such a body that is worth lanes


def short_inside(
    loop: ir.For, body: list[ir.Stmt], folds: Set[str], asked: bool = False, sizes: Sizes = NO_SIZES
) -> tuple[ir.Blocks, Expr] | None:
    """A map's loop (with this body) in blocks, and when that pays: where its innermost loops are short.  None where it
    is not possible, as in `outer_vectorised`, or they are known to be long, or have too little to compute; `asked`:
    whether it pays or not; `sizes`: what is known of arrays."""
    every = list(statements(body))
    inside = [s for s in every if isinstance(s, ir.For)]
    if loop.step != 1 or not inside:
        return refused("there is no loop inside")
    if cost(s for s in every if s not in inside) < DEAR and not asked:
        return refused("there is too little to compute")
    body = if_converted(body, folds)
    shape = Shape(loop.var, folds, {loop.var}, places_in(loop, body, sizes))
    if not shape.takes(body, inner=False):
        return refused("iterations differ in more than scalars and places in memory")
    innermost = [s for s in inside if not any(isinstance(t, ir.For) for t in statements(s.body))]
    lengths = [sub(s.bound, s.start) for s in innermost]
    floats = [e.type.bits // 8 for s in innermost for t in s.body for e in t.exprs() if e.type.is_float]
    width = max(floats, default=8)
    most = SHORT // width - (width < 8)  # a whole vector of f32 is one read of a sum, and 16 of lanes of the map
    records = {sub(s.bound, s.start) for s in innermost if _reads_records(s, shape.varying)}
    limited = [n for n in lengths if n not in records]
    if any(isinstance(n, ir.Num) and n.value > most for n in limited) and not asked:
        return refused("its inner loops are long")
    if any(n == sub(loop.bound, loop.start) for n in lengths) and not asked:
        return refused("a loop inside is as long as the map")
    if not LENGTHS_OUTSIDE(not any(refs(n) & shape.made for n in lengths)):
        return None
    blocks = in_blocks(loop, body, shape)
    if blocks is None:
        return None
    unknown = [n for n in limited if not isinstance(n, ir.Num)]
    limits = [(num(ENOUGH), sub(loop.bound, loop.start)), *[(n, num(most)) for n in unknown]]
    known = [ir.Bin("<=", a, b, BOOL) for a, b in dict.fromkeys(limits)]
    short: list[Expr] = [e for e in known if not _true(e)]
    return blocks, reduce(lambda a, b: ir.Bin("&&", a, b, BOOL), short) if short else TRUE


def _reads_records(loop: ir.For, varying: Set[str]) -> bool:
    """Whether a loop inside goes through nothing but long records that all iterations of the map around read alike: its
    own lanes would gather what is one number for those of the map."""
    facts = LoopFacts(loop.var, loop.body)
    moving = [x.index for s in loop.body for x in loads_in(s) if not facts.invariant(x.index)]
    places = [facts.place(index) for index in moving]
    apart = all(p is None or abs(p.scale) > SHUFFLED for p in places)
    return bool(moving) and apart and not any(refs(index) & varying for index in moving)


def _true(e: ir.Bin) -> bool:
    """Whether one constant is at most another one."""
    return isinstance(e.left, ir.Num) and isinstance(e.right, ir.Num) and bool(e.left.value <= e.right.value)


__all__ = ["short_inside"]
