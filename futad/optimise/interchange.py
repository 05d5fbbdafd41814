"""Loops out of maps.

    map (\\x -> loop s = f x for i < t do g s x) xs   -->   loop ss = map f xs for i < t do map2 g ss xs

The points of the map are apart, and all run the same iterations, so an iteration of all of them may come before the
next one of any. (Henriksen et al., "Futhark: Purely Functional GPU-Programming with Nested Parallelism and In-Place
Array Updates", 2017, section 5.)

Done for C where `g` multiplies matrices from outside the map by vectors of its own, before derivatives are taken: the
iterations of all points are matrix products then (`matmul.py`), and so are the adjoints. A recurrent network on a batch
of sequences is that. Devices ask for it where points are few (`flatten/interchange.py`).

Note [Rows written]: an iteration may write the row of its number of an array that no iteration reads, as all states of
the network are for attention. The iteration of all points writes the rows of all: the loop has the array by iterations
first, its points see it by points, a view.

Note [What is kept]: a return sweep needs what the loop carries in all iterations. Inside of a map that is kept by one
point at a time, around it by all points. It is no more than a factor of what there is anyway where each point has
something for each iteration, which is then asked for under reverse mode; or all points have a matrix for each iteration
in common, as the layers of a network are, which are few; or iterations are a known number, and few (`FEW`), as those
towards a fixed point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import cast

from futad.core import ir
from futad.core.budget import ATTRIBUTE, PLACE
from futad.core.ir import Lambda, Program, Stm
from futad.core.operator import divisor
from futad.core.types import I32, I64, AccType, ArrayType, Atom, Const, Prim, Var, array_of, shape_of
from futad.legality import Legality
from futad.optimise.distribution import map_over
from futad.optimise.matmul import Products
from futad.optimise.products import dots
from futad.rewrite.dce import effects

LEGAL = Legality(
    "interchange",
    "a loop in a map becomes a loop around maps",
    worth="a recurrent network's gradient on 32 sequences 4 times as fast; on a device 16 rows of 1,000,000 elements "
    "would be 16 blocks of 132 processors",
)
SAME_ITERATIONS = LEGAL.condition("as many iterations for all", "the points' loops have different iterations")
REGULAR = LEGAL.condition("variables regular", "what a loop carries has a size of its own in each point")
SAME_ROW = LEGAL.condition("row the same for all", "a point reads a row of its own")
THERE = LEGAL.condition("row there without points", "a row that only a point shows to be there is read without any")
UNREAD = LEGAL.condition("written rows unread", "an iteration reads what others have written")
OWN_PLACE = LEGAL.condition("written at its number", "each point writes to a place of its own")
START = LEGAL.condition("rows the same before", "rows that no iteration writes are another point's")
ROOM = LEGAL.condition("room without points", "an array of a size below zero is made where no point would make it")

SMALL = 64  # elements of a matrix, if known: up to here products by it stay in registers
FEW = 64  # iterations, if known, of which a return sweep keeps all points' variables

Body = Callable[[Stm], Sequence[Stm]]  # an iteration of all points, a map: the statements for it


def loop_out(stm: Stm, at: int, body: Body = lambda each: [each], *, rows: bool = False) -> list[Stm] | None:
    """A map around the loop that is its statement `at` as maps before it, a loop around a map, and a map of the rest;
    None if that is not right, or if the loop or the rest overwrite anything (with `rows`: but Note [Rows written])."""
    e = stm.exp
    assert isinstance(e, ir.Map)
    loop, before, after = e.lam.stms[at], e.lam.stms[:at], e.lam.stms[at + 1 :]
    f = loop.exp
    assert isinstance(f, ir.For)
    made = {v for s in before for v in s.pat}
    bound = {*e.lam.params, *made}
    written = _rows_written(stm, f, before, bound) if rows else {}
    writes = {s.pat for s, _ in written.values()}
    stms = [s for s in f.body.stms if s.pat not in writes]
    if any(isinstance(a.type, AccType) for a in e.arrays) or _consumes(stms) or _consumes(after):
        return None
    if not SAME_ITERATIONS(f.bound not in bound):
        return None
    carried = f.body.params[1:]
    rest = Lambda((), after, e.lam.result).free()
    live = [v for v in f.body.free() if v in made]
    kept = [v for s in before for v in s.pat if v in rest]
    own = {*bound, *f.body.params, *loop.pat}
    if any(isinstance(v.type, AccType) for v in (*carried, *live, *kept)):
        return None
    if not REGULAR(not any(set(shape_of(v.type)) & own for v in (*carried, *live, *kept, *loop.pat))):
        return None
    LEGAL.fired()
    width = e.width
    given: dict[Atom, Atom] = dict(zip(e.lam.params, e.arrays, strict=True))
    out: list[Stm] = []
    # What is there before the first iteration.
    plain = [(p, a, r) for p, a, r in zip(carried, f.inits, f.body.result, strict=True) if p not in written]
    computed = list(dict.fromkeys([*[a for _, a, _ in plain if a in made], *live, *kept]))
    if computed or effects(before):
        arrays = tuple([Var("x", array_of(a.type, width)) for a in computed])
        given |= zip(computed, arrays, strict=True)
        start = Lambda(e.lam.params, tuple(before), tuple(computed))
        out.append(Stm(arrays, ir.Map(width, e.arrays, ir.rename(start))))
    for _, a, _ in plain:
        if a not in given:
            every = given[a] = Var("x", array_of(a.type, width))
            out.append(Stm((every,), ir.Replicate((width,), a)))
    starts = []
    for p, (_, make) in written.items():
        out.append(Stm((Var(p.name, _by_iterations(p, width)),), make))
        starts.append(out[-1].pat[0])
    # An iteration.  Its row of an array from outside, such as a layer's weights, is one for all points.
    shared = {s.pat: s for s in stms if _row(s, f, own)}
    states, nexts = [tuple([Var(p.name, array_of(p.type, width)) for p, _, _ in plain]) for _ in range(2)]
    stacks, stacked = [tuple([Var(p.name, _by_iterations(p, width)) for p in written]) for _ in range(2)]
    values = [_write(s).value for s, _ in written.values()]
    parts = tuple([Var("row", array_of(a.type, width)) for a in values])
    remaining = [s for s in stms if s.pat not in shared]
    results = (*[r for _, _, r in plain], *values)
    first_params = tuple([p for p, _, _ in plain])
    used = Lambda((), tuple(stms), results).free()
    inputs = [p for p in (*e.lam.params, *live) if p in used]
    iteration = Lambda((*first_params, *inputs), tuple(remaining), results)
    i = Var(f.body.params[0].name, f.body.params[0].type)
    renamer = ir.Renamer({f.body.params[0]: i})
    first = [renamer.stm(s) for s in shared.values()]
    places = [cast(Atom, _write(s).index[0]) for s, _ in written.values()]
    first += [renamer.stm(s) for s in _needed(places, _counted(f, own))]
    places = [renamer.atom(a) for a in places]
    inner = renamer.lam(iteration)
    each = Stm((*nexts, *parts), ir.Map(width, (*states, *[given[v] for v in inputs]), inner))
    last = [
        Stm((v,), ir.Update(p, (place,), row)) for v, p, place, row in zip(stacked, stacks, places, parts, strict=True)
    ]
    around = Lambda((i, *states, *stacks), (*first, *body(each), *last), (*nexts, *stacked))
    finals, grown = [tuple([Var(v.name, v.type) for v in vs]) for vs in (nexts, stacks)]
    inits = (*[given[a] for _, a, _ in plain], *starts)
    out.append(Stm((*finals, *grown), ir.For(f.bound, inits, around), loop.attrs))
    # What follows it.
    by_points = {p: Var(p.name, array_of(p.type, width)) for p in written}
    out += [Stm((v,), ir.Rearrange(g, _swapped(g))) for v, g in zip(by_points.values(), grown, strict=True)]
    ends = iter(finals)
    known: dict[Atom, Var] = {
        v: by_points[p] if p in written else next(ends) for v, p in zip(loop.pat, carried, strict=True)
    }
    if not after and all(a in known for a in e.lam.result):
        return [*out, *[Stm((v,), ir.Alias(known[a])) for v, a in zip(stm.pat, e.lam.result, strict=True)]]
    have = [(given[p], p) for p in (*e.lam.params, *kept)] + [(v, cast(Var, p)) for p, v in known.items()]
    return [*out, map_over(width, have, after, stm.pat, e.lam.result)]


def _rows_written(stm: Stm, f: ir.For, before: Sequence[Stm], bound: set[Var]) -> dict[Var, tuple[Stm, ir.Exp]]:
    """For variables of a loop that its iterations only write a row of each to, the statement that does, and what makes
    the array of all points before the first iteration."""
    e = stm.exp
    assert isinstance(e, ir.Map)
    makers = {s.pat[0]: s.exp for s in before if len(s.pat) == 1}
    sizes = {d for v in ir.stm_free(stm) for d in shape_of(v.type)}
    counted = {f.body.params[0], *_counted(f, {*bound, *f.body.params})}
    uses = Counter(a for s in f.body.stms for a in ir.stm_free(s))
    results = Counter(f.body.result)
    out: dict[Var, tuple[Stm, ir.Exp]] = {}
    for p, init, r in zip(f.body.params[1:], f.inits, f.body.result, strict=True):
        for s in f.body.stms:
            x = s.exp
            if not (
                isinstance(x, ir.Update) and x.array is p and s.pat[0] is r and x.check is None and len(x.index) == 1
            ):
                continue
            if not UNREAD(uses[p] == 1 and not uses[r] and results[p] == 0 and results[r] == 1):
                break
            if not OWN_PLACE(x.index[0] in counted):
                break
            make = makers.get(init) if isinstance(init, Var) else None
            if not isinstance(make, ir.Replicate) or not START(not bound & set(make.operands())):
                break
            if not ROOM(all(d in sizes if isinstance(d, Var) else d.value >= 0 for d in make.shape)):
                break
            out[p] = s, ir.Replicate((make.shape[0], e.width, *make.shape[1:]), make.value)
    return out


def _write(s: Stm) -> ir.Update:
    assert isinstance(s.exp, ir.Update)
    return s.exp


def _counted(f: ir.For, own: set[Var]) -> dict[Atom, Stm]:
    """Integers that an iteration computes of the loop's number and of what is outside the map, which cannot fail."""
    out: dict[Atom, Stm] = {}
    inside = {*own, *[v for s in f.body.stms for v in s.pat]}
    for s in f.body.stms:
        e = s.exp
        if not isinstance(e, ir.Op) or divisor(e) is not None or s.pat[0].type not in (I32, I64):
            continue
        if all(a is f.body.params[0] or a in out or a not in inside for a in e.args):
            out[s.pat[0]] = s
    return out


def _needed(atoms: Sequence[Atom], made: dict[Atom, Stm]) -> list[Stm]:
    """The statements that compute the atoms, in order."""
    wanted = set(atoms)
    out = []
    for v, s in reversed(made.items()):
        if v in wanted:
            out.append(s)
            wanted.update(s.exp.operands())
    return out[::-1]


def _by_iterations(v: Var, width: Atom) -> ArrayType:
    """The type of an array of all points, its first dimension the one of each point."""
    n, *inner = shape_of(v.type)
    t = v.type
    assert isinstance(t, ArrayType)
    return ArrayType(t.elem, (n, width, *inner))


def _swapped(v: Var) -> tuple[int, ...]:
    return (1, 0, *range(2, len(shape_of(v.type))))


def _row(s: Stm, f: ir.For, own: set[Var]) -> bool:
    """Whether a statement of an iteration views the row of its number of an array outside the map, which has one for
    each iteration.  (A device's host would wait for a number.)"""
    e = s.exp
    if type(e) is not ir.At or e.check is not None or type(s.pat[0].type) is Prim:
        return False
    i = f.body.params[0]
    mine = own | {v for t in f.body.stms for v in t.pat}
    if not SAME_ROW(not any(v in mine for v in ir.stm_free(s) if v is not i and v not in s.pat)):
        return False
    return THERE(e.index == (i,) and shape_of(e.array.type)[0] == f.bound)


def _consumes(stms: Sequence[Stm]) -> bool:
    """Whether statements write to arrays in place, which as rows of a map's input would be copied first."""
    return any(s.exp.consumes() or isinstance(s.exp, ir.Call) for s in ir.statements(stms))


# --- loops with products ----------------------------------------------------------------------------------------------


def loops_out(program: Program) -> Program:
    """Loops with products by matrices from outside out of the maps around them; what has none stays the same object."""
    return ir.map_bodies(program, lambda lam: _scope(lam, False))


def _scope(lam: Lambda, reverse: bool) -> Lambda:
    """The scope and those in it; `reverse`: in what reverse mode is taken of."""
    out: list[Stm] = []
    for s in lam.stms:
        s = _within(s, reverse)  # loops inside first: then they are in the map around their own
        pieces = _pieces(s, reverse)
        out += [s] if pieces is None else [_within(t, reverse) for t in pieces]
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def _within(s: Stm, reverse: bool) -> Stm:
    """The statement with its scopes rewritten; what is under a budget stays, as that is for the loop of a point."""
    if any(a[0] == ATTRIBUTE for a in s.attrs):
        return s
    reverse = reverse or type(s.exp) is ir.Vjp
    return ir.map_scopes(s, lambda inner: _scope(inner, reverse))


def _pieces(s: Stm, reverse: bool) -> list[Stm] | None:
    """A map with such loops, each of them around maps instead; None if it has none."""
    if type(s.exp) is not ir.Map or s.attrs or not any(type(t.exp) is ir.For for t in s.exp.lam.stms):
        return None
    invariant, e = _counts_out(s.exp)
    for at, t in enumerate(e.lam.stms):
        # An attribute is what a user asks of the loop in each point; checks and prints would come in another order.
        if type(t.exp) is not ir.For or any(a[0] != PLACE for a in t.attrs) or effects(t.exp.body.stms):
            continue
        if not any(dots(inner.stms, inner.result) for inner in _scopes(t.exp.body)):
            continue
        if reverse and not _reads(t.exp) and not _few(t.exp):
            continue
        each: list[Stm] = []

        def body(stm: Stm, each: list[Stm] = each) -> list[Stm]:
            each.append(stm)
            return each

        made = loop_out(Stm(s.pat, e), at, body, rows=True)
        if made is not None and (_products(each[0]) or _pieces(each[0], reverse)):
            return [*invariant, *[x for p in made for x in _pieces(p, reverse) or [p]]]
    return None


def _counts_out(e: ir.Map) -> tuple[list[Stm], ir.Map]:
    """The arithmetic of integers from outside the map, which cannot fail, and the map without it."""
    own: set[Var] = set(e.lam.params)
    out: list[Stm] = []
    rest: list[Stm] = []
    for s in e.lam.stms:
        x, t = s.exp, s.pat[0].type if s.pat else None
        integer = type(x) is ir.Op and isinstance(t, Prim) and t.is_integral and divisor(x) is None
        if integer and not own & set(ir.stm_free(s)):
            out.append(s)
        else:
            rest.append(s)
            own.update(s.pat)
    return (out, ir.Map(e.width, e.arrays, Lambda(e.lam.params, tuple(rest), e.lam.result))) if out else ([], e)


def _scopes(lam: Lambda) -> Iterator[Lambda]:
    """A scope and all in it."""
    yield lam
    for s in lam.stms:
        for inner in s.exp.lambdas():
            yield from _scopes(inner)


def _reads(f: ir.For) -> bool:
    """Whether an iteration reads a part of its own of an array from outside the loop (Note [What is kept])."""
    own = {f.body.params[0]} | {v for s in f.body.stms for v in s.pat}
    inside = {*own, *f.body.params}
    return any(
        type(s.exp) is ir.At and s.exp.array not in inside and any(a in own for a in s.exp.operands())
        for s in f.body.stms
    )


def _few(f: ir.For) -> bool:
    """Whether the iterations are a known number, and few (Note [What is kept])."""
    return isinstance(f.bound, Const) and f.bound.value <= FEW


def _products(each: Stm) -> bool:
    """Whether a map is products by matrices that are not known to be small, among others."""
    made = Products(None).root(Lambda((), (each,), each.pat))
    products = [s.exp for inner in _scopes(made) for s in inner.stms if type(s.exp) is ir.MatMul]
    return any(not _small(p.b) for p in products)


def _small(matrix: Atom) -> bool:
    """Whether all sizes are known, and few elements."""
    known = [int(n.value) for n in shape_of(matrix.type) if type(n) is Const]
    return len(known) == len(shape_of(matrix.type)) and prod(known) <= SMALL


__all__ = ["loop_out", "loops_out"]
