"""Maps that read one of two rows of an array, by a condition that all iterations share.

    for j: { if i == 0: b = x[i, j] else: b = x[i - 1, j]; y[i, j] = f(b) }
  becomes
    for j: { b = x[(i == 0 ? i : i - 1), j]; y[i, j] = f(b) }

so that the first and the last row of a grid, where a neighbour is missing and the cell itself stands for it, run in
vector lanes as others do.  Masks would be made anew in each vector, for each of a cell's neighbours.
"""

from __future__ import annotations

from dataclasses import replace

from futad.core.types import I64
from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import Expr, Load, Ref, Stmt, add, num
from futad.imp.loops.facts import Affine, LoopFacts
from futad.imp.walk import has_load
from futad.legality import Legality

LEGAL = Legality(
    "rows-chosen",
    "a map reads one of two rows of an array, whichever all its iterations are to read",
    worth="a step of the heat equation in a block of cells 0.031 to 0.027 ms, its gradient 0.054 to 0.049:"
    " `benchmarks/without.py rows-chosen tests/programs/held_cells.fut:warmed --values '[24][24][24]f64' i64`",
)
ONE_ARRAY = LEGAL.condition("one array", "a row of one array is read in the memory of another one")


def rows_chosen(loop: ir.For) -> ir.For | None:
    """The map's loop with a place that is chosen for each such branch; None if it has none."""
    if not any(isinstance(s, ir.If) for s in loop.body):
        return refused("it has no branches")
    facts = LoopFacts(loop.var, loop.body)
    given: dict[str, Load] = {}
    body: list[Stmt] = []
    for s in loop.body:
        if not isinstance(s, ir.Decl | ir.If):
            break  # what is stored may be what was read before
        if isinstance(s, ir.If) and (found := _chosen(s, facts)) is not None:
            name, load = found
            given[name] = load
            body.append(ir.Decl(name, load.type, load))
        else:
            body.append(s)
    if not given:
        return refused("no branch of it reads one of two rows of an array")
    body += loop.body[len(body) :]
    return replace(loop, body=[s for s in body if not (isinstance(s, ir.Decl) and s.init is None and s.name in given)])


def _chosen(s: ir.If, facts: LoopFacts) -> tuple[str, Load] | None:
    """The variable to which both sides of the branch give an element, and where that is."""
    if not facts.invariant(s.cond) or has_load(s.cond):
        return None
    then, orelse = _given(s.then, facts), _given(s.orelse, facts)
    if then is None or orelse is None:
        return None
    (name, a), (other, b) = then, orelse
    p, q = facts.place(a.index), facts.place(b.index)
    if name != other or p is None or q is None or p.scale != 1 or q.scale != 1 or a.type is not b.type:
        return None
    if not ONE_ARRAY(a.pointer == b.pointer):
        return None
    row = ir.Scalar("select", (s.cond, _rest(p), _rest(q)), I64, I64)
    return name, replace(b, index=add(Ref(facts.var, I64), row))


def _given(side: list[Stmt], facts: LoopFacts) -> tuple[str, Load] | None:
    """What a side of a branch gives a variable, if it does nothing else and that is an element of an array."""
    inits = dict(facts.inits)
    match side:
        case [ir.Assign(name, value)]:
            pass
        case [ir.Decl(read, _, init, mutable=False), ir.Assign(name, value)]:
            inits[read] = init
        case _:
            return None
    value = inits.get(value.name) or value if isinstance(value, Ref) else value
    return (name, value) if isinstance(value, Load) else None


def _rest(place: Affine) -> Expr:
    return add(place.invariant, num(place.constant))


__all__ = ["rows_chosen"]
