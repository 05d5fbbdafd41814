"""C for counts of lanes: how many of a block's iterations have not ended yet.

    for lane: { ...; left += go ? 1 : 0 }
  becomes
    for lane: { ...; counted[lane] = go ? 1 : 0 }; left += how many of these are not 0

A processor with masks tells that by a test and a count of bits.  A sum of lanes takes several additions, one
after the other, for which the next step of the loop around waits.  A count is exact: this is always right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from futad.core.types import I64
from futad.fires import Transformation
from futad.imp import ir
from futad.imp.ir import Num, Ref

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

COUNTED = Transformation(
    "counted-lanes",
    "lanes that go on are counted by masks",
    worth="a barrier option 1.9 to 1.7 ms, its gradient 7.8 to 6.0: benchmarks/textbook, with `counts` giving nothing",
)

def counts(loop: ir.For) -> list[ir.Accumulate]:
    """The counts that the lanes of a whole number of vectors make."""
    if not (loop.independent and loop.lanes and loop.start == ir.ZERO and isinstance(loop.bound, Num)):
        return []
    sums = {p.name for p in loop.partials if p.type is I64 and p.op == "add"}
    made = [s for s in loop.body if isinstance(s, ir.Accumulate) and s.name in sums and _is_count(s.value)]
    return made if loop.bound.value % 8 == 0 and len({s.name for s in made}) == len(made) else []


def _is_count(e: ir.Expr) -> bool:
    match e:
        case ir.Scalar("select", (_, Num(1), Num(0))):
            return True
    return False


def emit(em: CEmitter, loop: ir.For, made: list[ir.Accumulate]) -> None:
    """The loop above."""
    COUNTED.fired()
    names = [s.name for s in made]
    em.line("{")
    em.depth += 1
    for name in names:
        em.line(f"int64_t counted_{name}[{em.expr(loop.bound)}];")
    body = [ir.Store(f"counted_{s.name}", Ref(loop.var, I64), s.value) if s in made else s for s in loop.body]
    em.plain_for(replace(loop, body=body, partials=[p for p in loop.partials if p.name not in names]))
    for name in names:
        em.line(f"{name} += futad_count(counted_{name}, {em.expr(loop.bound)});")
    em.depth -= 1
    em.line("}")
