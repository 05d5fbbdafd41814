"""C for loops that sum products and the like, in vectors from side to side.

    for j: s += a[i, j] * x[j]
  becomes, with W lanes,
    v = 0; for j in steps of W: v += a[i, j .. j + W] * x[j .. j + W]; s += the sum of v's lanes

GCC asked for the same by `omp simd reduction` keeps the lanes in memory, adds them one after the other, and does what
no whole vector is left for one by one: for rows of some ten elements that takes longer than the rest.  Here the last
vector ends where the loop does, and the lanes that it has in common with the one before are left out of the sum.  A sum
alone is of several vectors, so that none waits for its last addition.

What the loop adds to a row beside its sums (the adjoint of a row, beside that of what the row is divided by) is added
in the same vectors.  The last one is then computed first, and stored last: it would wait for what others have stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from futad.backend.c_lanes import OPERATORS
from futad.backend.emit import c_type
from futad.core.types import F32, F64, I64, Prim
from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref
from futad.imp.loops.facts import LoopFacts
from futad.imp.walk import loads_in, refs
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

LEGAL = Legality("sums-in-vectors", "an inner loop that sums runs in vectors, of which the last overlaps another")
BESIDE = LEGAL.condition("side by side", "a vector is read or added to where elements do not lie side by side")
ONE_ROW = LEGAL.condition("one row", "the last vector is stored in one of two rows, or has read what others add to")

VECTORS = 4  # registers that sum at the same time
MOST_LANES = 16  # of f32 in a vector
LONGEST = 12  # statements a sum of a body, which is there several times


def possible(loop: ir.For, known: bool = False) -> bool:
    """Whether the loop only sums what it computes by arithmetic in f64, or in f32, and adds to one row at most.  (Loops
    whose length is `known` are as well unrolled by the C compiler, but for those of `emit_lanes`.)"""
    if not loop.independent or not loop.partials or loop.step != 1 or len(loop.body) > LONGEST * added(loop):
        return False
    if isinstance(loop.bound, Num) and isinstance(loop.start, Num) and not known:
        return False
    t = loop.partials[0].type
    if t not in (F64, F32) or any(p.op != "add" or p.type is not t for p in loop.partials):
        return False
    sums, facts = {p.name for p in loop.partials}, LoopFacts(loop.var, loop.body)
    stores = _added_to(loop)
    for s in loop.body:
        match s:
            case ir.Decl(_, kind, init, mutable=False) if init is not None:
                if not (simple(init, t) if kind is t else kind is I64 and facts.place(init) is not None):
                    return False
            case ir.Accumulate(name, "add", value) if name in sums and simple(value, t):
                pass
            case ir.Store(pointer, index, value, "add") if simple(value, t):
                place = facts.place(index)
                read = any(x.pointer == pointer for r in loop.body for x in loads_in(r))
                if not (BESIDE(place is not None and place.scale == 1) and ONE_ROW(stores == [s] and not read)):
                    return False
            case _:
                return False
    moves = [place.scale if (place := facts.place(x.index)) else None for s in loop.body for x in loads_in(s)]
    return 1 in moves and BESIDE(all(m in (0, 1) for m in moves))


def added(loop: ir.For) -> int:
    """How many sums the loop adds to, and rows."""
    return len(loop.partials) + len(_added_to(loop))


def _added_to(loop: ir.For) -> list[ir.Store]:
    return [s for s in loop.body if isinstance(s, ir.Store)]


def simple(e: Expr, t: Prim) -> bool:
    match e:
        case ir.Scalar(op, args):
            return (op in OPERATORS or op == "neg") and all(simple(a, t) for a in args)
    return isinstance(e, (Num, Ref, ir.Load)) and e.type is t


def emit(em: CEmitter, loop: ir.For) -> None:
    """The loop above; one by one if there are fewer iterations than lanes."""
    LEGAL.fired()
    t, i, start, bound = loop.partials[0].type, loop.var, em.expr(loop.start), em.expr(loop.bound)
    lanes, at, names = f"(FUTAD_VECTOR / {t.bits // 8})", f"at_{i}", [p.name for p in loop.partials]
    vectors = max(1, VECTORS // added(loop))
    opening(em, "{")
    em.line(f"int64_t {at} = {start};")
    opening(em, f"if ({bound} - {at} >= {lanes}) {{")
    em.line(f"futad_wide_{t.name} {', '.join(f'{n}_w{u} = {{0}}' for n in names for u in range(vectors))};")
    stores, last = _added_to(loop), f"last_{i}"
    if stores:
        em.line(f"const int64_t over_{i} = ({bound} - {at}) % {lanes};")
        em.line(f"futad_wide_{t.name} {last}, *to_{last};")
        opening(em, f"if (over_{i}) {{")
        _body(em, loop, t, f"{bound} - {lanes}", vectors - 1, f"{lanes} - over_{i}", last)
        closing(em)
    if vectors > 1:
        opening(em, f"for (; {at} <= {bound} - {vectors} * {lanes}; {at} += {vectors} * {lanes}) {{")
        for u in range(vectors):
            _body(em, loop, t, f"{at} + {u} * {lanes}", u)
        closing(em)
    opening(em, f"for (; {at} <= {bound} - {lanes}; {at} += {lanes}) {{")
    _body(em, loop, t, at, 0)
    closing(em)
    if stores:
        em.line(f"if (over_{i}) *to_{last} = {last};")
    else:
        opening(em, f"if ({at} < {bound}) {{")
        _body(em, loop, t, f"{bound} - {lanes}", vectors - 1, f"{lanes} - ({bound} - {at})")
        closing(em)
    em.line(f"{at} = {bound};")
    for n in names:
        em.line(f"{n} += futad_total_{t.name}({' + '.join(f'{n}_w{u}' for u in range(vectors))});")
    closing(em)
    opening(em, f"for (; {at} < {bound}; {at}++) {{")
    em.line(f"const int64_t {i} = {at};")
    em.block(loop.body)
    closing(em)
    closing(em)


def in_lanes(loop: ir.For) -> bool:
    """Whether the loop goes over the lanes of a block, which are whole vectors, and sums f32: the C compiler adds the
    16 lanes of a vector one after the other, which takes twice as long as the 8 of f64."""
    whole = isinstance(loop.bound, Num) and loop.bound.value % MOST_LANES == 0
    return whole and bool(loop.partials) and loop.partials[0].type is F32 and possible(loop, known=True)


def emit_lanes(em: CEmitter, loop: ir.For) -> None:
    """Such a loop."""
    LEGAL.fired()
    lanes, at, names = "(FUTAD_VECTOR / 4)", f"at_{loop.var}", [p.name for p in loop.partials]
    opening(em, "{")
    em.line(f"futad_wide_f32 {', '.join(f'{n}_w0 = {{0}}' for n in names)};")
    opening(em, f"for (int64_t {at} = 0; {at} < {em.expr(loop.bound)}; {at} += {lanes}) {{")
    _body(em, loop, F32, at, 0)
    closing(em)
    for n in names:
        em.line(f"{n} += futad_total_f32({n}_w0);")
    closing(em)


def around(loop: ir.For) -> ir.For:
    """A loop around one of these.  GCC is not told how its variable moves: it would keep a pointer for each row of each
    array, and put them where the sums should be."""
    at = f"at_{loop.var}"
    return replace(loop, var=at, body=[ir.Decl(loop.var, I64, ir.Hidden(Ref(at, I64), I64)), *loop.body])


def opening(em: CEmitter, text: str) -> None:
    em.line(text)
    em.depth += 1


def closing(em: CEmitter) -> None:
    em.depth -= 1
    em.line("}")


def _body(em: CEmitter, loop: ir.For, t: Prim, place: str, vector: int, first: str = "", last: str = "") -> None:
    """A vector of iterations from `place` on, of which those before the `first` are not for the sum.  `last`: what is
    to be stored later."""
    facts, wide = LoopFacts(loop.var, loop.body), set[str]()
    opening(em, "{")
    em.line(f"const int64_t {loop.var} = {place};")
    for s in loop.body:
        if isinstance(s, ir.Decl):
            vector_decl(em, s, facts, wide, f"futad_wide_{t.name}")
        else:
            assert isinstance(s, ir.Accumulate | ir.Store)
            value, _ = vector_text(em, s.value, facts, wide, f"futad_wide_{t.name}")
            to = f"(futad_wide_{t.name} *)({s.pointer} + ({em.expr(s.index)}))" if isinstance(s, ir.Store) else ""
            if to and last:
                em.line(f"to_{last} = {to};")
                em.line(f"{last} = *to_{last} + {value};")
            elif isinstance(s, ir.Store):
                em.line(f"*{to} += {value};")
            else:
                assert isinstance(s, ir.Accumulate)
                if first:
                    value = f"futad_from_{t.name}((futad_wide_{t.name}){{0}} + {value}, {first})"
                em.line(f"{s.name}_w{vector} += {value};")
    closing(em)


def vector_decl(em: CEmitter, s: ir.Decl, facts: LoopFacts, wide: set[str], vector: str) -> None:
    """A variable of an iteration for a vector of these; it becomes one of the `wide` ones if it differs among them."""
    assert s.init is not None
    text, is_wide = vector_text(em, s.init, facts, wide, vector)
    if is_wide:
        wide.add(s.name)
    em.line(f"const {vector if is_wide else c_type(s.type)} {s.name} = {text};")


def vector_text(em: CEmitter, e: Expr, facts: LoopFacts, wide: set[str], vector: str) -> tuple[str, bool]:
    """An expression for a vector of iterations, and whether it is one: scalars stand for vectors of them."""
    match e:
        case ir.Load(p, index) if facts.beside(index):
            return f"*(const {vector} *)({p} + ({em.expr(index)}))", True
        case Ref(name) if name in wide:
            return name, True
        case ir.Scalar(op, args) if e.arg.is_float and refs(e) & facts.own:
            of = [vector_text(em, x, facts, wide, vector) for x in args]
            a, *b = [text for text, _ in of]
            return f"({a} {OPERATORS[op]} {b[0]})" if b else f"(-{a})", any(w for _, w in of)
    return em.expr(e), False
