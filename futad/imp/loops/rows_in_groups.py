"""Loops along many rows of the same arrays, in several loops along few of them.

    for j: { A[0, i, j] += s * x[j]; ...; A[9, i, j] += t * y[j]; p[j] += s * B[0, i, j]; ...; q[j] += t * B[9, i, j] }
  becomes
    for j: { A[0, i, j] += s * x[j]; p[j] += s * B[0, i, j] }; ...; for j: { A[9, i, j] += t * y[j]; ... }

Rows of one array lie a product of sizes apart.  Where that is a large power of two, they all are in the same set of the
nearest cache, which has room for eight lines: each line is gone before the next of its elements is read.  Fusion makes
such loops of the return sweeps of several products.  (Loop distribution: Allen and Kennedy, "Automatic Translation of
Fortran Programs to Vector Form", 1987; for caches: McKinley, Carr and Tseng, "Improving Data Locality with Loop
Transformations", 1996.)

Each group does its own iterations in order, and groups come in the order of the loop's statements: so each sum in
memory is continued in the same order as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.loops.facts import LoopFacts, cost
from futad.imp.loops.vectorise import annotate
from futad.imp.walk import loads_in, refs
from futad.legality import Legality

LEGAL = Legality(
    "rows-in-groups",
    "a loop along many rows of the same arrays is done in several loops along few of them",
    worth="the gradient of a tree LSTM of 64 states 13.5 to 6.2 ms: `benchmarks/recursion.py --only lstm`",
)
ADDS_ONLY = LEGAL.condition("only added to", "a group reads again what another one has overwritten")

TOGETHER = 8  # rows of the same arrays that one loop goes along: the lines of a set of the nearest cache
GROUP = 4  # those of a group: half of it, as other rows lie anywhere
NEAR = 64  # elements from one place to another that is in the same row
AGAIN = 1.25  # how much more may be computed and loaded

Row = tuple[str, int, Expr]  # a pointer, and about the place of the row's first element


def in_groups(loop: ir.For, reassociate: bool, asked: bool = False) -> list[ir.Stmt] | None:
    """An inner loop, whose iterations are independent, in several loops; None unless it goes along many rows, or it is
    `asked` for."""
    if not loop.independent or loop.partials or loop.step != 1:
        return refused("its iterations are not independent, or fold")
    facts = LoopFacts(loop.var, loop.body)
    stores = [s for s in loop.body if isinstance(s, ir.Store)]
    far = _far(facts, loop.body)
    if len(far) <= TOGETHER and not asked:
        return refused(f"it goes along {len(far)} rows of the same arrays, {TOGETHER} are no harm")
    changed = {s.pointer for s in stores}
    read = {x.pointer for s in loop.body for x in loads_in(s)}
    if not ADDS_ONLY(all(s.op is not None for s in stores) and not read & changed):
        return None
    made = {s.name: s for s in loop.body if isinstance(s, ir.Decl)}
    groups: list[list[ir.Decl | ir.Store]] = []
    rows: set[Row] = set()
    for s in stores:
        own = _needed(s, made)
        more = far & _rows(facts, own)
        if groups and len(rows | more) <= GROUP:
            groups[-1] += [x for x in own if x not in groups[-1]]
            rows |= more
        else:
            groups.append(own)
            rows = more
    if len(groups) <= 1:
        return refused("all that it does is one group")
    if sum(map(cost, groups)) > AGAIN * cost(loop.body) and not asked:
        return refused("its groups would compute too much again")
    out: list[ir.Stmt] = []
    for g in groups:
        # Copies, as groups have declarations in common.
        body: list[ir.Stmt] = [replace(s) for s in sorted(g, key=loop.body.index)]
        part = replace(loop, body=body, independent=False, partials=[], lanes=0)
        annotate(part, reassociate)
        out.append(part)
    return out


def _far(facts: LoopFacts, body: Iterable[ir.Stmt]) -> set[Row]:
    """The rows of arrays of which the loop goes along several."""
    rows = _rows(facts, body)
    by_array = Counter(pointer for pointer, _, _ in rows)
    return {r for r in rows if by_array[r[0]] > 1}


def _rows(facts: LoopFacts, body: Iterable[ir.Stmt]) -> set[Row]:
    """The rows along which statements go."""
    accesses: list[ir.Load | ir.Store] = []
    for s in body:
        accesses += [*loads_in(s), *([s] if isinstance(s, ir.Store) else [])]
    places = [(x.pointer, facts.place(x.index)) for x in accesses]
    return {(pointer, p.constant // NEAR, p.invariant) for pointer, p in places if p is not None and p.scale == 1}


def _needed(s: ir.Decl | ir.Store, made: dict[str, ir.Decl]) -> list[ir.Decl | ir.Store]:
    """A statement after the declarations that it needs."""
    out: list[ir.Decl | ir.Store] = []
    for n in sorted(refs(s) & made.keys()):
        out += [x for x in _needed(made[n], made) if x not in out]
    return [*out, s]


__all__ = ["in_groups"]
