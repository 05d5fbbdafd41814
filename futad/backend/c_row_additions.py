"""C for inner loops that add a row to another one, in vectors from side to side.

    for j: a[i, j] += b[k, j]

runs for as many elements as a row has, which is often less than a vector, or some more than one.  The C compiler, which
does not know the length, does what no whole vector is left for one by one.  Here the last vector ends where the row
does, and is computed before the others are stored; shorter rows are two halves of a vector, or two quarters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.backend.c_sums import closing, opening, simple, vector_decl, vector_text
from futad.backend.emit import c_type
from futad.core.types import F32, F64, I64
from futad.imp import ir
from futad.imp.ir import Num
from futad.imp.loops.facts import LoopFacts
from futad.imp.walk import loads_in
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

LEGAL = Legality("rows-in-vectors", "a row is added to another one in vectors, of which the last overlaps another")
BESIDE = LEGAL.condition("side by side", "a vector is read or added to where elements do not lie side by side")

LONGEST = 8  # statements of a body, which is there seven times
WIDTHS = ("wide", "half", "quarter")


def possible(loop: ir.For) -> bool:
    """Whether the loop only adds what it computes by arithmetic to elements of one array."""
    if not loop.independent or loop.partials or loop.step != 1 or len(loop.body) > LONGEST:
        return False
    if isinstance(loop.bound, Num) and isinstance(loop.start, Num):
        return False
    facts = LoopFacts(loop.var, loop.body)
    match loop.body:
        case [*before, ir.Store(_, index, value, "add")] if value.type in (F64, F32) and simple(value, value.type):
            t = value.type
        case _:
            return False
    for s in before:
        if not isinstance(s, ir.Decl) or s.mutable or s.init is None:
            return False
        if not (simple(s.init, t) if s.type is t else s.type is I64 and facts.place(s.init) is not None):
            return False
    to = facts.place(index)
    moves = [place.scale if (place := facts.place(x.index)) else None for s in loop.body for x in loads_in(s)]
    return BESIDE(to is not None and to.scale == 1 and all(m in (0, 1) for m in moves))


def emit(em: CEmitter, loop: ir.For) -> None:
    """The loop above, by its length."""
    LEGAL.fired()
    i, start, bound, t = loop.var, em.expr(loop.start), em.expr(loop.bound), _added(loop).value.type
    for n, width in enumerate(WIDTHS):
        vector = f"futad_{width}_{t.name}"
        lanes = f"(int64_t)(sizeof({vector}) / sizeof({c_type(t)}))"
        opening(em, f"{'} else ' if n else ''}if ({bound} - {start} >= {lanes}) {{")
        em.line(f"{vector} first_{i}, last_{i};")
        em.line(f"{c_type(t)} *to_first_{i}, *to_last_{i};")
        if n:  # two of them are enough
            _sums(em, loop, vector, "first", start)
        else:
            opening(em, f"if (({bound} - {start}) % {lanes}) {{")
        _sums(em, loop, vector, "last", f"{bound} - {lanes}")
        if not n:
            closing(em)
            opening(em, f"for (int64_t at_{i} = {start}; at_{i} <= {bound} - {lanes}; at_{i} += {lanes}) {{")
            _sums(em, loop, vector, "first", f"at_{i}")
        em.line(f"*({vector} *)to_first_{i} = first_{i};")
        if not n:
            closing(em)
        last = f"*({vector} *)to_last_{i} = last_{i};"
        em.line(last if n else f"if (({bound} - {start}) % {lanes}) {last}")
        em.depth -= 1
    opening(em, "} else {")
    em.line("FUTAD_INDEPENDENT")
    opening(em, f"for (int64_t {i} = {start}; {i} < {bound}; {i}++) {{")
    em.block(loop.body)
    closing(em)
    closing(em)


def _added(loop: ir.For) -> ir.Store:
    store = loop.body[-1]
    assert isinstance(store, ir.Store)
    return store


def _sums(em: CEmitter, loop: ir.For, vector: str, name: str, place: str) -> None:
    """What a vector of iterations from `place` on is to store, and where."""
    store, facts, wide = _added(loop), LoopFacts(loop.var, loop.body), set[str]()
    opening(em, "{")
    em.line(f"const int64_t {loop.var} = {place};")
    for s in loop.body[:-1]:
        assert isinstance(s, ir.Decl)
        vector_decl(em, s, facts, wide, vector)
    value, _ = vector_text(em, store.value, facts, wide, vector)
    to = f"to_{name}_{loop.var}"
    em.line(f"{to} = {store.pointer} + ({em.expr(store.index)});")
    em.line(f"{name}_{loop.var} = *({vector} *){to} + {value};")
    closing(em)
