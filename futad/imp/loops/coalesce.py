"""Two loops over all elements of matrices, row by row, become one.

    for i < n: { t = 0; for j < m: { y[i * m + j] = f(x[i * m + j]); t += y[i * m + j] }; s += t }
  becomes
    for k < n * m: { y[k] = f(x[k]); s += y[k] }

Rows that are shorter than a vector, or little longer, leave lanes empty: what is left of each is done one by one.
(Loop coalescing: Polychronopoulos, "Loop Coalescing: A Compiler Transformation for Parallel Machines", 1987.)

Both loops only run over places: an iteration's own are i * m + j and what is the same for all.  Arrays that have such
places have n * m elements, so that this is a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from futad.core.scalarops import OPS
from futad.core.types import I64
from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import ZERO, Expr, Num, Ref, add, mul
from futad.imp.loops.places import Places, Sizes
from futad.imp.loops.vectorise import accumulations
from futad.imp.units import unit_of
from futad.imp.walk import has_load, loads_in, parts, refs, rewritten
from futad.legality import Legality
from futad.rewrite.ranges import plus, times

LEGAL = Legality("loop-coalescing", "two loops over all elements of matrices become one, whatever the length of rows")
ROW_BY_ROW = LEGAL.condition("row by row", "an iteration reads or writes at the place of another one")
PLACES_ONLY = LEGAL.condition("places only", "what an iteration computes of its row's number is that of the first row")
FROM_UNIT = LEGAL.condition("sums of rows from nothing", "what each row's sum starts from is not in the whole")

CALL = 15  # the cost of an operation that is a call
LONG = 64  # elements of rows that fill vectors anyway, if their number is known


def coalesced(loop: ir.For, body: list[ir.Stmt], sizes: Sizes, outermost: bool, asked: bool = False) -> ir.For | None:
    """A map's loop (with this body, in which the loop inside is as it was) as one with the loop inside; None if it is
    another nest.  `outermost`: no nest is around it; then sums in less than 64 bits stay sums of rows' sums, which are
    more exact."""
    inner = [s for s in body if isinstance(s, ir.For)]
    if len(inner) != 1 or loop.step != 1:
        return refused("there is not one loop inside")
    (row,) = inner
    if row.step != 1 or row.start != ZERO or not row.map or any(isinstance(s, ir.For) for s in row.body):
        return refused("there are more loops inside, or no map's")
    if isinstance(row.bound, Num) and row.bound.value >= LONG and not asked:
        return refused("its rows are long")
    own = {loop.var, row.var} | {n for s in (*body, *row.body) for n in s.defines()}
    if refs(row.bound) & own:
        return refused("its rows differ in length")
    if any(isinstance(e, ir.Scalar) and OPS[e.op].cost >= CALL for s in row.body for e in parts(s)) and not asked:
        return refused("it calls functions: rows end with a whole vector anyway, or lanes are of the map around")
    line = _line(body, row)
    if line is None:
        return refused("it does something else for each row")
    places = Places(sizes, loop.var, frozenset(own), frozenset())
    counts = {loop.var, row.var}
    made: list[ir.Stmt] = []
    for s in line:
        if isinstance(s, ir.Decl) and s.init is not None and s.type is I64 and not has_load(s.init):
            places.inits[s.name] = s.init
            if refs(s.init) & counts:
                counts.add(s.name)
                continue  # of which only places are made
        made.append(s)
    if any(e.type.bits < 64 for s in made if isinstance(s, ir.Accumulate) for e in s.exprs()) and outermost:
        return refused("sums of rows are more exact")
    indices = [i for s in made for i in _indices(s)]
    moving = [i for i in indices if _outside_loads(i) & counts]
    if not moving or not ROW_BY_ROW(all(_beside(places, i, loop.var, row) for i in moving)):
        return None
    values = [e for s in made for e in ([s.value] if isinstance(s, ir.Store) else s.exprs())]
    if not PLACES_ONLY(not any(_outside_loads(e) & counts for e in values)):
        return None
    inits = {n: e for n, e in places.inits.items() if n in counts}
    flat = [s.map_exprs(lambda e: _at(e, {**inits, loop.var: ZERO})) for s in made]
    bound, start = mul(loop.bound, row.bound), mul(loop.start, row.bound)
    return ir.For(row.var, bound, flat, start, map=True, flat=True)


def _line(body: list[ir.Stmt], row: ir.For) -> list[ir.Stmt] | None:
    """What the loops do for each element, in which what is summed is added to the whole sum at once."""
    k = body.index(row)
    rows: dict[str, ir.Decl] = {}
    out: list[ir.Stmt] = []
    for s in body[:k]:
        if not isinstance(s, ir.Decl) or s.init is None:
            return None
        if s.mutable:
            rows[s.name] = s
        else:
            out.append(s)
    wholes: dict[str, ir.Accumulate] = {}
    for s in body[k + 1 :]:
        if not isinstance(s, ir.Accumulate) or not isinstance(s.value, Ref) or s.value.name not in rows:
            return None
        wholes[s.value.name] = s
    if wholes.keys() != rows.keys() or len(wholes) != len(body) - k - 1:
        return None
    summed = 0
    for s in accumulations(row.body):
        match s:
            case ir.Accumulate(name, op, value) if name in rows and op == wholes[name].op:
                if not FROM_UNIT(rows[name].init == unit_of(op, value.type)):
                    return None
                out.append(ir.Accumulate(wholes[name].name, op, value))
                summed += 1
            case ir.Decl(mutable=False) | ir.Store():
                out.append(s)
            case _:
                return None
    return out if summed == len(rows) else None


def _indices(s: ir.Stmt) -> Iterator[Expr]:
    yield from (x.index for x in loads_in(s))
    if isinstance(s, ir.Store):
        yield s.index


def _outside_loads(e: Expr) -> Set[str]:
    """The variables of an expression, but for those of places that it reads."""
    if isinstance(e, ir.Load):
        return frozenset()
    return {e.name} if isinstance(e, Ref) else {n for x in e.exprs() for n in _outside_loads(x)}


def _beside(places: Places, e: Expr, var: str, row: ir.For) -> bool:
    """Whether a place is that of element `row.var` of row `var`, from somewhere on."""
    at, length = places.poly(e, set()), places.poly(row.bound, set())
    i, j = [places.poly(Ref(v, I64), set()) for v in (var, row.var)]
    if at is None or length is None or i is None or j is None:
        return False
    rest = plus(plus(at, times(i, length), -1), j, -1)
    return not any(v in m for m in rest for v in (*next(iter(i)), *next(iter(j))))


def _at(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """An expression with values for variables, which may be of others of them."""

    def now(x: Expr) -> Expr:
        match x:
            case Ref(name) if name in values:
                return _at(values[name], values)
            case ir.Bin("+", a, b) if x.type is I64:
                return add(a, b)
            case ir.Bin("*", a, b) if x.type is I64:
                return mul(a, b)
        return x

    return rewritten(e, now)


__all__ = ["coalesced"]
