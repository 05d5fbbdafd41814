"""Maps that add rows to accumulators at places that they compute: the places first, then a nest over all elements.

    map (\\x -> let i = f x in if c i then map (\\y j -> acc[i, j] += g y) x js else acc) xs
        -->   let is = map f xs
              in map (\\x i -> map (\\y j -> if c i then acc[i, j] += g y else acc) x js) xs is

Neighbouring threads then have neighbouring elements, and the updates may go by way of shared memory
(`private_histograms.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import I64, ONE, ZERO, AccType, ArrayType, Atom, Prim, Var, array_of
from futad.fires import Transformation
from futad.flatten.fission import CHEAP
from futad.flatten.levels import repeated
from futad.legality import Legality

LEGAL = Legality(
    "row-updates",
    "places of rows are computed first, then all elements of the rows are added",
    worth="the gradient of k-means on a device (`futad dev benchmarks/programs/kmeans.fut --cost -e gradient --size "
    "n=100000,k=1024,d=16`): traffic 490 MB in place of 668, no updates at once in place of 1.6 million: "
    "FUTAD_MUTANT=row-updates",
)
SAME_WIDTH = LEGAL.condition("rows of one width", "the points add rows of different widths")


@dataclass(slots=True)
class RowUpdates:
    """A map that updates accumulators by rows once each point: its accumulators and other inputs (parameters with their
    arrays), the statements before the updates, the scalars of these that the updates need and the views, and what is
    done with element i of the `width`: a lambda of the accumulators and i."""

    accs: dict[Var, Atom]
    inputs: dict[Var, Atom]
    before: list[Stm]
    live: list[Var]
    views: list[Stm]
    width: Atom
    element: Lambda
    tail: Stm

    @property
    def heavy(self) -> bool:
        """Whether what comes before the updates is more than a thread should repeat for each element."""
        return not repeated(self.before)


def row_updates(stm: Stm) -> RowUpdates | None:
    """The updates that a map makes so; None if it is no such map."""
    e = stm.exp
    if not isinstance(e, ir.Map):
        return None
    lam = e.lam
    accs = [p for p in lam.params if isinstance(p.type, AccType)]
    users = [s for s in lam.stms if any(p in ir.stm_free(s) for p in accs)]
    tail = _side_by_side(users, accs)
    if tail is None:
        return None
    if list(lam.result[: len(accs)]) != list(tail.pat) or not all(isinstance(v.type, AccType) for v in tail.pat):
        return None
    body = _nest(tail, accs)
    own = {v for s in lam.stms for v in s.pat}
    if body is None or not SAME_WIDTH(body.width not in own and body.width not in lam.params):
        return None
    before = [s for s in lam.stms if s not in users]
    found = _needed(tail, before)
    if found is None:
        return None
    given = dict(zip(lam.params, e.arrays, strict=True))
    inputs = {p: a for p, a in given.items() if p not in accs}
    return RowUpdates({p: given[p] for p in accs}, inputs, before, *found, body.width, body.lam, tail)


def rows_after(stm: Stm) -> list[Stm] | None:
    """The statements that such a map becomes; None if it is no such map, or if what a view is of cannot be repeated."""
    u = row_updates(stm)
    if u is None or not repeated(u.views):
        return None  # the last one would be a map like this again
    LEGAL.fired()
    e = stm.exp
    assert isinstance(e, ir.Map)
    others = list(e.lam.result[len(u.accs) :])
    out: list[Stm] = []
    made: dict[Var, Var] = {}
    before = u.before
    if others or u.heavy:
        kept = list(dict.fromkeys([*u.live, *others]))
        made = {v: Var(v.name, array_of(v.type, e.width)) for v in u.live}
        pat = [*made.values(), *[Var("x", array_of(a.type, e.width)) for a in kept[len(made) :]]]
        first = ir.rename(Lambda(tuple(u.inputs), tuple(before), tuple(kept)))
        out.append(Stm(tuple(pat), ir.Map(e.width, tuple(u.inputs.values()), first)))
        names = dict(zip(kept, pat, strict=True))
        out += [Stm((v,), ir.Alias(names[a])) for v, a in zip(stm.pat[len(u.accs) :], others, strict=True)]
        before = u.views
    places = Var("is", ArrayType(I64, (u.width,)))
    out.append(Stm((places,), ir.Iota(u.width, ZERO, ONE)))
    inner = Stm(u.tail.pat, ir.Map(u.width, (*u.accs, places), u.element))
    params = [*u.accs, *u.inputs, *made]
    arrays = [*u.accs.values(), *u.inputs.values(), *made.values()]
    rest = ir.rename(Lambda(tuple(params), (*before, inner), u.tail.pat))
    out.append(Stm(stm.pat[: len(u.accs)], ir.Map(e.width, tuple(arrays), rest), stm.attrs))
    return out


def _needed(tail: Stm, before: Sequence[Stm]) -> tuple[list[Var], list[Stm]] | None:
    """The scalars that a statement uses of what others make, and the views among those, which are made again."""
    made = {v: s for s in before for v in s.pat}
    live: dict[Var, None] = {}
    views: dict[Stm, None] = {}
    todo = list(ir.stm_free(tail))
    while todo:
        v = todo.pop()
        if v not in made:
            continue
        if isinstance(v.type, Prim):
            live[v] = None
        elif isinstance(made[v].exp, CHEAP):
            views[made[v]] = None
            todo += ir.stm_free(made[v])
        else:
            return None
    return list(live), [s for s in before if s in views]


LOOPS = Transformation("loops-that-add", "a loop that only updates accumulators becomes a map")


def loops_that_add(lam: Lambda) -> Lambda:
    """The scope, and those in it, with loops that do nothing but update accumulators as maps: the order is free."""
    stms: list[Stm] = []
    for whole in lam.stms:
        s = ir.map_scopes(whole, loops_that_add)
        e = s.exp
        if not isinstance(e, ir.For) or not all(isinstance(v.type, AccType) for v in s.pat):
            stms.append(s)
            continue
        if e.body.params[0].type is not I64 or not light_updates(e.body):
            stms.append(s)
            continue
        LOOPS.fired()
        iterations = Var("iterations", I64)
        places = Var("is", ArrayType(I64, (iterations,)))
        stms.append(Stm((iterations,), ir.Op("max", (e.bound, ZERO))))
        stms.append(Stm((places,), ir.Iota(iterations, ZERO, ONE)))
        i, *accs = e.body.params
        body = Lambda((*accs, i), e.body.stms, e.body.result)
        stms.append(Stm(s.pat, ir.Map(iterations, (*e.inits, places), body), s.attrs))
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(stms), lam.result)


class _Elements:
    """A nest's width, and what it does with element i: a lambda of the accumulators and i."""

    def __init__(self, width: Atom, lam: Lambda) -> None:
        self.width, self.lam = width, lam


def _nest(tail: Stm, accs: Sequence[Var]) -> _Elements | None:
    """The updates of rows that a statement makes, element by element; None if it does anything else."""
    e = tail.exp
    if isinstance(e, ir.Map):
        return _elements(tail, accs, [])
    if not isinstance(e, ir.If) or e.orelse.stms or list(e.orelse.result) != list(accs):
        return None
    users = [s for s in e.then.stms if any(p in ir.stm_free(s) for p in accs)]
    whole = _side_by_side(users, accs)
    if whole is None or list(e.then.result) != list(whole.pat):
        return None
    views = [s for s in e.then.stms if s not in users]
    if not all(isinstance(s.exp, CHEAP) for s in views):
        return None
    inside = _elements(whole, accs, views)
    if inside is None:
        return None
    then = Lambda((), inside.lam.stms, inside.lam.result)
    new = tuple([Var(p.name, p.type) for p in accs])
    mine = inside.lam.params
    branch = Stm(new, ir.If(e.cond, then, Lambda((), (), mine[: len(accs)])))
    return _Elements(inside.width, Lambda(mine, (branch,), new))


def _side_by_side(users: Sequence[Stm], accs: Sequence[Var]) -> Stm | None:
    """The only statement that updates the accumulators, or maps of one width that update one each as a single map."""
    if len(users) < 2:
        return users[0] if users else None
    mine = {a: s for s in users for a in accs if a in ir.stm_free(s)}
    ordered = [mine[a] for a in accs if a in mine]
    maps = [s.exp for s in ordered if isinstance(s.exp, ir.Map) and len(s.pat) == 1]
    if len(maps) != len(accs) or len(set(ordered)) != len(accs) or len(set(users)) != len(accs):
        return None
    width = maps[0].width
    if any(m.width != width for m in maps):
        return None
    lams = [ir.rename(m.lam) for m in maps]
    lam = Lambda(
        tuple([p for f in lams for p in f.params]), tuple([s for f in lams for s in f.stms]),
        tuple([r for f in lams for r in f.result]),
    )  # fmt: skip
    arrays = tuple([a for m in maps for a in m.arrays])
    return Stm(tuple([s.pat[0] for s in ordered]), ir.Map(width, arrays, lam))


def _elements(s: Stm, accs: Sequence[Var], views: Sequence[Stm]) -> _Elements | None:
    m = s.exp
    if not isinstance(m, ir.Map) or not light_updates(m.lam) or len(s.pat) != len(accs):
        return None
    known = {v for x in views for v in x.pat}
    if [a for a in m.arrays if isinstance(a.type, AccType)] != list(accs) or m.width in known:
        return None
    params = [p for p in m.lam.params if isinstance(p.type, AccType)]
    i = Var("i", I64)
    reads = [
        Stm((p,), ir.At(a, (i,), None))
        for p, a in zip(m.lam.params, m.arrays, strict=True)
        if not isinstance(p.type, AccType)
    ]
    return _Elements(m.width, Lambda((*params, i), (*views, *reads, *m.lam.stms), m.lam.result))


def light_updates(lam: Lambda) -> int | None:
    """How many scalar updates of accumulators a scope has, those in branches included; None if it has loops or anything
    parallel, or updates by rows."""
    count = 0
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.UpdateAcc):
            if not isinstance(e.value.type, Prim):
                return None
            count += 1
        elif isinstance(e, ir.If):
            for inner in e.lambdas():
                more = light_updates(inner)
                if more is None:
                    return None
                count += more
        elif e.lambdas() or isinstance(e, (ir.Call, ir.MatMul)):
            return None
    return count


__all__ = ["RowUpdates", "light_updates", "loops_that_add", "row_updates", "rows_after"]
