"""Loops whose iterations are independent become maps; nests of loops are interchanged where that makes them so.

    loop l for t < w do l with [t + k, j] = f l t j    -->    l with [k:k + w, j] = tabulate w (\\t -> f l t j)

    loop l for i < n do loop l for j < i + 1 do               loop l for j < n do
      l with [i, j] = if i == j then d l i else f l i j  -->    let l = l with [j, j] = d l j
                                                                in loop l for t < n - j - 1 do
                                                                  l with [j + 1 + t, j] = f l (j + 1 + t) j

Textbooks write factorisations and substitutions element by element.  Each element is a sum over parts of rows and
columns that are there already, but the loop's order makes it wait for the one before.  A map of such sums is a product
of a matrix and a vector to all that follows: lanes and threads share it, and so they do its derivatives.

Interchange and index-set splitting: Allen and Kennedy, "Automatic Translation of Fortran Programs to Vector Form",
1987; the iterations i = j, which the others of that j need, are split off.  A nest may be interchanged if no element is
touched by two iterations that come in the other order then, those of direction (<, >).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from futad.core import ir
from futad.core.budget import ATTRIBUTE, PLACE
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.node import Range
from futad.core.types import FALSE, I64, ONE, TRUE, ZERO, Atom, Const, Prim, Var, i64, shape_of
from futad.legality import Legality
from futad.optimise.total import total
from futad.rewrite.dependence import (
    MAX_PAIRS,
    Facts,
    Given,
    Iterations,
    Step,
    Touch,
    Unclear,
    Uses,
    apart,
    bound_in,
    elements_of,
    iterations_of,
)
from futad.rewrite.ranges import Poly, Ranges, index_in_range, plus

LEGAL = Legality(
    "independent-loops",
    "a loop whose iterations write an element each, and read none that another one writes, is a map",
    worth="LU 1.7 to 0.6 ms: `without.py independent-loops tests/programs/factorisation_lu.fut:factors "
    "--values [200][200]f64`",
)
READS_OLD = LEGAL.condition("others' elements unread", "an iteration reads what another one writes before or after it")
NOT_NEGATIVE = LEGAL.condition("width not negative", "a loop of -1 iterations does nothing, a map fails")
THERE = LEGAL.condition("part there", "a part that only an iteration finds in its array is taken where there is none")

NESTS = Legality(
    "nest-interchange",
    "two loops change places, so that the inner one's iterations are independent",
    worth="a Gaussian process of 200 points 0.51 to 0.28 ms, its gradient 1.56 to 1.17: "
    "`benchmarks/everyday.py --only gaussian_process --threads 1`",
)
SAME_ORDER = NESTS.condition("no dependence turned round", "an iteration comes before the one whose result it reads")

RECTANGLE, TRIANGLE, WITH_DIAGONAL = "j < m", "j < i", "j <= i"
DECIDED = {  # of comparisons of the outer and the inner loop's number: where they are equal, where the first is greater
    ("eq", False): (True, False), ("ne", False): (False, True), ("lt", False): (False, False),
    ("le", False): (True, False), ("eq", True): (True, False), ("ne", True): (False, True),
    ("lt", True): (False, True), ("le", True): (True, True),
}  # fmt: skip


def independent_loops(program: Program) -> Program:
    """Rewrite such loops in every scope; the same program if there are none."""

    def body(lam: Lambda) -> Lambda:
        if not lam.has(ir.For):
            return lam
        facts = Facts()
        facts.note(lam.stms)
        return _scope(lam, facts)

    return ir.map_bodies(program, body)


def _scope(lam: Lambda, facts: Facts) -> Lambda:
    """The scope (and those in it) rewritten; the same object if nothing was."""
    facts.bound(lam.params)
    out: list[Stm] = []
    for s in lam.stms:
        if not any(a[0] == ATTRIBUTE for a in s.attrs):  # a budget is for the loops that there are
            s = _within(s, facts)
        facts.bound(s.pat)
        out += _loop(s, facts) or [s]
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def _within(s: Stm, facts: Facts) -> Stm:
    e = s.exp
    if isinstance(e, ir.If):
        sides = iter((True, False))
        return ir.map_scopes(s, lambda inner: _scope(inner, facts.inside(Given(e.cond, next(sides)))))
    steps: list[Step] = []
    if isinstance(e, ir.Loop):
        steps = [iterations_of(e)]
    elif isinstance(e, ir.Map):
        steps = [*elements_of(e, facts.defs)]
    return ir.map_scopes(s, lambda inner: _scope(inner, facts.inside(*steps))) if e.scoped else s


def _loop(s: Stm, facts: Facts) -> list[Stm] | None:
    """A loop rewritten."""
    if not _plain(s):
        return None
    done = _as_map(s, facts)
    return _interchanged(s, facts) if done is None else done


def _plain(s: Stm) -> bool:
    """Whether it is a loop over one array, of which users ask nothing."""
    e = s.exp
    if type(e) is not ir.For or len(e.inits) != 1 or any(a[0] != PLACE for a in s.attrs):
        return False
    index, x = e.body.params
    return index.type is I64 and not isinstance(x.type, Prim)


# --- loops as maps ----------------------------------------------------------------------------------------------------


def _as_map(s: Stm, facts: Facts) -> list[Stm] | None:
    """A loop as a map and an update, if its iterations are independent and fold arrays (those of scalars alone are
    as fast as a loop)."""
    e = s.exp
    assert type(e) is ir.For
    index, x = e.body.params
    written = _written(e.body.stms, e.body.result[0], x)
    if written is None or not any(type(t.exp) is ir.Reduce for t in ir.statements(written[0])):
        return None
    stms, at, value = written
    if not all(map(total, stms)):
        return None
    inside = bound_in(e.body, set())
    ranges = Ranges(dict(facts.defs), places=True)
    start = _start(at, index, inside, ranges)
    if start is None:
        return None
    loop = iterations_of(e)
    uses = _uses(e, facts, (loop,))
    if uses is None:
        return None
    here = Facts(dict(facts.defs), facts.sizes, facts.path)
    pairs = [(w, r, [(loop, turn)]) for w in uses.writes for r in uses.reads for turn in (1, -1)]
    if not READS_OLD(all(apart(w, r, turns, here, inside) for w, r, turns in pairs)):
        return None
    LEGAL.fired()
    b = Builder()
    width, around = e.bound, _around(facts)
    if not NOT_NEGATIVE(around.nonneg(width)):
        width = b.op("max", width, ZERO)
    numbers = b.let(ir.Iota(width, ZERO, ONE), "is")
    renamer = ir.Renamer({x: e.inits[0]})
    parts = [t for t in stms if _part(t, x, inside - {x}, around)]
    b.extend(renamer.stms(parts))
    each = renamer.lam(Lambda((index,), tuple([t for t in stms if t not in parts]), (value,)))
    (column,) = b.emit(ir.Map(width, (numbers,), each), x.name)
    places = [_number(b, p) for p in start]
    (d,) = [d for d, i in enumerate(at) if index in _variables(ranges.poly(i))]
    to = tuple([Range(p, width, ONE) if k == d else p for k, p in enumerate(places)])
    made = [*b.stms, Stm(s.pat, ir.Update(e.inits[0], to, column))]
    facts.note(made)
    return made


def _written(stms: Sequence[Stm], result: Atom, x: Var) -> tuple[list[Stm], tuple[Atom, ...], Atom] | None:
    """What the one element of `x` that the statements write is computed by, where it is, and what; None if they write
    anything else, or read the array afterwards."""
    if not stms or stms[-1].pat != (result,):
        return None
    *before, last = stms
    e = last.exp
    if isinstance(e, ir.Update):
        at = tuple([i for i in e.index if not isinstance(i, Range)])
        element = e.array is x and e.check is None and isinstance(e.value.type, Prim) and len(at) == len(e.index)
        return ([*before], at, e.value) if element else None
    if not isinstance(e, ir.If):
        return None
    then = _written(e.then.stms, e.then.result[0], x)
    orelse = _written(e.orelse.stms, e.orelse.result[0], x)
    if then is None or orelse is None or then[1] != orelse[1]:
        return None
    sides = [Lambda((), tuple(stms), (value,)) for stms, _, value in (then, orelse)]
    value = Var(x.name, then[2].type)
    return [*before, Stm((value,), ir.If(e.cond, *sides))], then[1], value


def _start(at: Sequence[Atom], index: Var, inside: set[Var], ranges: Ranges) -> list[Poly] | None:
    """The first iteration's place; None unless one of its numbers goes up by 1 in each iteration, and no other one
    differs."""
    start: list[Poly] = []
    moved = 0
    for a in at:
        if a.type is not I64:
            return None
        p = ranges.poly(a)
        if index in _variables(p):
            p = plus(p, {(index,): 1}, -1)
            moved += 1
        if not _from_outside(p, inside):
            return None
        start.append(p)
    return start if moved == 1 else None


def _variables(p: Poly) -> set[Var]:
    return {v for m in p for v in m}


def _from_outside(p: Poly, inside: set[Var]) -> bool:
    """Whether a polynomial can be computed where those variables are not there."""
    return all(v.type is I64 and v not in inside for v in _variables(p))


def _number(b: Builder, p: Poly) -> Atom:
    """Emit a polynomial."""
    out: Atom = i64(p.get((), 0))
    for m, c in p.items():
        if m:
            term = b.size_mul([*([i64(c)] if c != 1 else []), *m])
            out = term if out == ZERO else b.op("add", out, term)
    return out


def _part(s: Stm, x: Var, inside: set[Var], around: Ranges) -> bool:
    """Whether a statement takes a part of the array that is the same, and there, for all iterations and none: outside
    of the map, its adjoint is a sum over the map, apart from those of other elements."""
    e = s.exp
    if not isinstance(e, ir.At) or e.array is not x or isinstance(s.pat[0].type, Prim):
        return False
    if inside & {*ir.stm_free(s)} - {*s.pat}:
        return False
    return THERE(index_in_range(around, shape_of(e.array.type), e.index))


def _around(facts: Facts) -> Ranges:
    """What is known of integers where a loop stands."""
    ranges = Ranges(dict(facts.defs))
    ranges.sizes = facts.sizes
    for p in facts.path:
        if isinstance(p, Iterations) and p.bound is not None and p.bound.type is I64:
            ranges.index(p.index, p.bound)
        elif isinstance(p, Given):
            ranges.assume(p.cond, p.holds)
    return ranges


def _uses(e: ir.For, facts: Facts, path: tuple[Iterations, ...]) -> Uses | None:
    """What a loop does to its array; None if that is not clear, or too much."""
    x = e.body.params[1]
    uses = Uses(len(shape_of(x.type)), facts.defs)
    start = uses.fresh(path)
    views = {x: start}
    try:
        end = uses.scope(e.body.stms, views, start, path)
        uses.newest(e.body.result[0], views, end)
    except Unclear:
        return None
    pairs = len(uses.writes) * (len(uses.reads) + len(uses.writes))
    return uses if uses.writes and pairs <= MAX_PAIRS else None


# --- nests ------------------------------------------------------------------------------------------------------------


def _interchanged(s: Stm, facts: Facts) -> list[Stm] | None:
    """A nest of two loops with the inner one around the other; None if that is wrong, or makes no map."""
    e = s.exp
    assert type(e) is ir.For
    nest = _perfect(e, facts)
    if nest is None:
        return None
    shape, e = nest
    triangle = shape != RECTANGLE
    (i, x), inner = e.body.params, e.body.stms[-1].exp
    assert type(inner) is ir.For
    outer = iterations_of(e)
    uses = _uses(e, facts, (outer,))
    if uses is None:
        return None
    inside = bound_in(e.body, set())
    here = Facts(dict(facts.defs), facts.sizes, facts.path)

    def order_stays(w: Touch, r: Touch) -> bool:
        loops = [p for t in (w, r) for p in t.path if isinstance(p, Iterations) and p.index is inner.body.params[0]]
        turned = [[(outer, k), *[(p, -k) for p in dict.fromkeys(loops)]] for k in (1, -1)]
        return all(apart(w, r, turns, here, inside) for turns in turned)

    if not SAME_ORDER(all(order_stays(w, t) for w in uses.writes for t in (*uses.reads, *uses.writes))):
        return None
    j = Var(inner.body.params[0].name, I64)
    y = Var(x.name, x.type)
    b = Builder()
    now: Atom = y
    if shape == WITH_DIAGONAL:
        now = _iteration(b, e, inner, j, j, now, 0)
    first = b.op("add", j, ONE) if triangle else ZERO
    width = b.op("sub", e.bound, first) if triangle else e.bound
    t, z = Var(i.name, I64), Var(x.name, x.type)
    c = Builder()
    result = _iteration(c, e, inner, c.op("add", first, t) if triangle else t, j, z, 1 if triangle else None)
    row = Stm((Var(x.name, x.type),), ir.For(width, (now,), Lambda((t, z), tuple(c.stms), (result,))), s.attrs)
    before = Builder()
    times = e.bound if triangle else _number(before, Ranges(here.defs, places=True).poly(inner.bound))
    around = ir.For(times, e.inits, Lambda((j, y), (*b.stms, row), row.pat))
    facts.note(around.body.stms)
    made = _as_map(row, facts.inside(iterations_of(around)))
    if made is None:
        return None
    NESTS.fired()
    return [*before.stms, Stm(s.pat, around.remade(e.inits, Lambda((j, y), (*b.stms, *made), row.pat)), s.attrs)]


def _perfect(e: ir.For, facts: Facts) -> tuple[str, ir.For] | None:
    """The nest that a loop is, with all that it does to its array in the inner loop, and the shape of its iterations;
    None if it is none.  What follows `for j < i` is its iteration i."""
    i, x = e.body.params
    at = next((k for k, t in enumerate(e.body.stms) if _plain(t) and t.exp.operands()[-1] is x), None)
    if at is None:
        return None
    before, loop, after = e.body.stms[:at], e.body.stms[at], e.body.stms[at + 1 :]
    inner = loop.exp
    assert type(inner) is ir.For
    j, y = inner.body.params
    if not _scalars(before, x) or not all(total(t) for t in (*inner.body.stms, *after)):
        return None
    ranges = Ranges(dict(facts.defs), places=True)
    bound = ranges.poly(inner.bound)
    own = bound_in(e.body, set())
    if not after and e.body.result == loop.pat:
        if _from_outside(bound, own):
            return RECTANGLE, e
        if bound == {(i,): 1}:
            return TRIANGLE, e
        return (WITH_DIAGONAL, e) if bound == {(i,): 1, (): 1} else None
    if bound != {(i,): 1}:
        return None
    b = Builder()
    b.extend(before)
    width = b.op("add", i, ONE)
    last, value = Var(j.name, I64), Var(y.name, y.type)
    c = Builder()
    test = c.op("eq", i, last)
    final = ir.Renamer({loop.pat[0]: value})
    then = Lambda((), tuple(final.stms(after)), (final.atom(e.body.result[0]),))
    orelse = Lambda((), *_renamed(inner.body, {j: last, y: value}))
    (out,) = c.emit(ir.If(test, then, orelse), y.name, types=(y.type,))
    made = Stm((Var(y.name, y.type),), ir.For(width, inner.inits, Lambda((last, value), tuple(c.stms), (out,))))
    b.add(made)
    facts.note(b.stms)
    return WITH_DIAGONAL, e.remade(e.inits, Lambda(e.body.params, tuple(b.stms), made.pat))


def _renamed(lam: Lambda, mapping: dict[Var, Atom]) -> tuple[tuple[Stm, ...], tuple[Atom, ...]]:
    r = ir.Renamer(mapping)
    return tuple(r.stms(lam.stms)), tuple([r.atom(a) for a in lam.result])


def _scalars(stms: Iterable[Stm], x: Var) -> bool:
    """Whether statements compute scalars alone, which each iteration may do again, and not from the array."""
    return all(
        isinstance(s.exp, ir.Op | ir.At) and total(s) and isinstance(s.pat[0].type, Prim) and x not in ir.stm_free(s)
        for s in stms
    )


def _iteration(b: Builder, e: ir.For, inner: ir.For, i: Atom, j: Atom, x: Atom, order: int | None) -> Atom:
    """Emit an iteration of a nest; the array after it.  `order`: 0 where both loops' numbers are equal, 1 where the
    outer one's is greater, None where that is not known."""
    a, c = e.body.params[0], inner.body.params[0]
    r = ir.Renamer({a: i, c: j, e.body.params[1]: x, inner.body.params[1]: x})
    known: dict[Atom, Const] = {}

    def emit(stms: Iterable[Stm]) -> None:
        for s in stms:
            t = s.exp
            if order is not None and isinstance(t, ir.Op) and (t.op, t.args[0] is c) in DECIDED and {*t.args} == {a, c}:
                known[s.pat[0]] = r.mapping[s.pat[0]] = TRUE if DECIDED[t.op, t.args[0] is c][order] else FALSE
            elif isinstance(t, ir.If) and t.cond in known:
                side = t.then if known[t.cond] == TRUE else t.orelse
                emit(side.stms)
                r.mapping.update((v, r.atom(y)) for v, y in zip(s.pat, side.result, strict=True))
            else:
                b.add(r.stm(s))

    emit((*e.body.stms[:-1], *inner.body.stms))
    return r.atom(inner.body.result[0])


__all__ = ["independent_loops"]
