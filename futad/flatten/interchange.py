"""Loops out of maps.

    map (\\x -> loop s = f x for i < t do g s x) xs   -->   loop ss = map f xs for i < t do map2 g ss xs

A block a point is few blocks where points are few; where what is parallel in an iteration is wide, a launch an
iteration is better. (Henriksen et al., "Futhark: Purely Functional GPU-Programming with Nested Parallelism and In-Place
Array Updates", 2017, section 5.)
"""

from __future__ import annotations

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import AccType, Atom, Var, array_of, shape_of
from futad.flatten.fission import distribute, wide
from futad.legality import Legality
from futad.rewrite.dce import effects

LEGAL = Legality(
    "interchange",
    "a loop in a map becomes a loop around maps",
    worth="16 rows of 1,000,000 elements would be 16 blocks, on a card of 132 processors",
)
SAME_ITERATIONS = LEGAL.condition("as many iterations for all", "the points' loops have different iterations")
ALL_OF_IT = LEGAL.condition("results are the loop's", "what the map returns beside is known before the loop only")
REGULAR = LEGAL.condition("variables regular", "what a loop carries has a size of its own in each point")


def loop_out(stm: Stm) -> list[Stm] | None:
    """A map around a loop as a loop around a map; None if the loop is not the same for all points, is not all that the
    map does, or has nothing wide inside."""
    e = stm.exp
    if not isinstance(e, ir.Map) or any(isinstance(a.type, AccType) for a in e.arrays):
        return None
    loops = [s for s in e.lam.stms if isinstance(s.exp, ir.For)]
    if len(loops) != 1 or e.lam.stms[-1] is not loops[0]:
        return None
    (loop,), before = loops, e.lam.stms[:-1]
    f = loop.exp
    assert isinstance(f, ir.For)
    made = {v for s in before for v in s.pat}
    bound = {*e.lam.params, *made}
    if (
        not SAME_ITERATIONS(f.bound not in bound)
        or not wide(f.body)
        or not ALL_OF_IT(all(a in loop.pat for a in e.lam.result))
    ):
        return None
    carried = f.body.params[1:]
    live = [v for v in f.body.free() if v in made]
    own = {*bound, *f.body.params}
    if any(isinstance(v.type, AccType) for v in (*carried, *live)) or _consumes(f.body):
        return None
    if not REGULAR(not any(set(shape_of(v.type)) & own for v in (*carried, *live))):
        return None
    LEGAL.fired()
    width = e.width
    given: dict[Atom, Atom] = dict(zip(e.lam.params, e.arrays, strict=True))
    # What is there before the first iteration.
    out: list[Stm] = []
    computed = list(dict.fromkeys([*[a for a in f.inits if a in made], *live]))
    if computed or effects(before):
        arrays = tuple([Var("x", array_of(a.type, width)) for a in computed])
        given |= zip(computed, arrays, strict=True)
        start = Lambda(e.lam.params, tuple(before), tuple(computed))
        out.append(Stm(arrays, ir.Map(width, e.arrays, ir.rename(start))))
    for a in f.inits:
        if a not in given:
            rows = given[a] = Var("x", array_of(a.type, width))
            out.append(Stm((rows,), ir.Replicate((width,), a)))
    # An iteration.
    states, nexts, finals = [tuple([Var(p.name, array_of(p.type, width)) for p in carried]) for _ in range(3)]
    inputs = [p for p in (*e.lam.params, *live) if p in f.body.free()]
    iteration = Lambda((*carried, *inputs), f.body.stms, f.body.result)
    i = Var(f.body.params[0].name, f.body.params[0].type)
    inner = ir.Renamer({f.body.params[0]: i}).lam(iteration)
    each = Stm(nexts, ir.Map(width, (*states, *[given[v] for v in inputs]), inner))
    body = Lambda((i, *states), tuple(distribute(each) or [each]), nexts)
    out.append(Stm(finals, ir.For(f.bound, tuple([given[a] for a in f.inits]), body), loop.attrs))
    known: dict[Atom, Var] = dict(zip(loop.pat, finals, strict=True))
    return [*out, *[Stm((v,), ir.Alias(known[a])) for v, a in zip(stm.pat, e.lam.result, strict=True)]]


def _consumes(lam: Lambda) -> bool:
    """Whether a scope writes to arrays in place, which as rows of a map's input would be copied first."""
    return any(s.exp.consumes() or isinstance(s.exp, ir.Call) for s in ir.statements(lam.stms))


__all__ = ["loop_out"]
