"""Branches, maps and loops solved for what goes into them.

| statement with known result | solved for |
|---|---|
| `if` with known condition | what both branches can be solved for |
| `map` | the arrays whose elements its function can be solved for, or that it reads in another order (`permuted.py`) |
| `for` with known count, `while` whose count was kept | initial values, where iterations can be undone for them |
| a function with an inverse of its own | its arguments, by that inverse |
| the inverse of a function | its arguments, by that function |
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.ad.inverse.permuted import gathered
from futad.ad.inverse.solver import EXACT, ROWS, Solver, rounds
from futad.ad.tidy.live import live
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import TRUE, AccType, ArrayType, Atom, Const, Prim, Var, shape_of, subst_type


def _if(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.If)
    cond = s.value(e.cond)
    if cond is None or not any(v in s.known for v in stm.pat):
        return
    sides: list[Solver] = []
    for lam in (e.then, e.orelse):
        side = s.child(lam.stms, Builder())
        for v, a in zip(stm.pat, lam.result, strict=True):
            if v in s.known:
                side.learn(a, s.known[v])
        side.run()
        sides.append(side)
    s.within[stm.pat[0]] = [c for side in sides for c in side.unknown_conditions()]
    both = sides[0].known.keys() & sides[1].known.keys() & s.visible
    solved = sorted([v for v in both if v not in s.known and not isinstance(v.type, AccType)], key=lambda v: v.id)
    if not solved:
        return
    types = [subst_type(v.type, s.known) for v in solved]
    lams = [_pruned((), side.b, [side.known[v] for v in solved]) for side in sides]
    pat = s.b.emit(ir.If(cond, *lams), *[v.name for v in solved], types=types)
    for v, new in zip(solved, pat, strict=True):
        s.learn(v, new)


def _pruned(params: Sequence[Var], b: Builder, result: Sequence[Atom]) -> ir.Lambda:
    return ir.Lambda(tuple(params), tuple(live(b.stms, result)[0]), tuple(result))


def _map(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Map)
    if any(isinstance(a.type, AccType) for a in e.arrays) or not any(v in s.known for v in stm.pat):
        return
    if gathered(s, stm):
        return
    unknown = [(p, a) for p, a in zip(e.lam.params, e.arrays, strict=True) if s.value(a) is None]
    width = s.value(e.width)
    if width is None or not unknown:
        return
    b = Builder()
    inner = s.child(e.lam.stms, b, e.lam.params)
    params: list[Var] = []
    arrays: list[Atom] = []
    inner.open = {p for p, _ in unknown}
    updates = e.lam.has(ir.Update)

    def given(v: Var, array: Atom) -> Atom:
        p = Var(v.name, subst_type(v.type, s.known))
        params.append(p)
        arrays.append(array)
        return b.let(ir.Copy(p), v.name) if updates and isinstance(p.type, ArrayType) else p

    for p, a in zip(e.lam.params, e.arrays, strict=True):
        array = s.value(a)
        if array is not None:
            inner.learn(p, given(p, array))
    for v, r in zip(stm.pat, e.lam.result, strict=True):
        if v in s.known and isinstance(r, Var) and inner.value(r) is None:
            inner.learn(r, given(r, s.known[v]))
    inner.run()
    solved = [(p, a) for p, a in unknown if p in inner.known]
    if not solved or not arrays:
        return
    lam = _pruned(params, b, [inner.known[p] for p, _ in solved])
    pat = s.b.emit(ir.Map(width, tuple(arrays), lam), *[a.name for _, a in solved if isinstance(a, Var)])
    for (_, a), new in zip(solved, pat, strict=True):
        s.learn(a, new)


def sizes_vary(x: Var, own: Sequence[Var]) -> bool:
    """Whether a loop's variable has a size that is another variable of the loop."""
    return any(n in own for n in shape_of(x.type))


def _for(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.For)
    bound = s.value(e.bound)
    if bound is not None:
        _iterations(s, stm, e, bound)


def _while(s: Solver, stm: ir.Stm) -> None:
    """As a `for` loop of as many iterations, where these were counted."""
    e = stm.exp
    assert isinstance(e, ir.While)
    bound = s.count(stm)
    if bound is not None:
        _iterations(s, stm, e, bound)


def _iterations(s: Solver, stm: ir.Stm, e: ir.For | ir.While, bound: Atom) -> None:
    """Solve a loop of `bound` iterations for what its variables begin with."""
    t = bound.type
    assert isinstance(t, Prim)
    own = e.variables
    goes = 1 if isinstance(e, ir.While) else 0  # the variables that say whether it goes on: true before iterations
    wanted = [q for q, a in enumerate(e.inits) if q >= goes and s.value(a) is None and stm.pat[q] in s.known]
    open_ = [
        q for q, v in enumerate(stm.pat)
        if q >= goes and v in s.known and not isinstance(v.type, AccType) and not sizes_vary(own[q], own)
    ]
    while wanted:
        b = Builder()
        inner = s.child(e.body.stms, b, e.body.params)
        inner.open = {own[q] for q in open_}
        j = Var("j", t)
        before = TRUE if goes else b.op("sub", b.op("sub", bound, j), Const(t, 1), hint="i")
        inner.learn(e.body.params[0], before)
        after = {q: Var(own[q].name, subst_type(own[q].type, s.known)) for q in open_}
        for q, v in after.items():
            inner.learn(e.body.result[q], v)
        inner.run()
        solved = [q for q in open_ if own[q] in inner.known]
        if len(solved) == len(open_):
            break
        open_, wanted = solved, [q for q in wanted if q in solved]
    if not wanted:
        return
    group = carried(b, {q: (after[q], inner.known[own[q]]) for q in open_}, wanted)
    lam = _pruned((j, *[after[q] for q in group]), b, [inner.known[own[q]] for q in group])
    starts = tuple([s.known[stm.pat[q]] for q in group])
    pat = s.b.emit(ir.For(bound, starts, lam), *[own[q].name for q in group], types=[a.type for a in starts])
    for q, v in zip(group, pat, strict=True):
        s.learn(e.inits[q], v)


def _with_inverse(s: Solver, stm: ir.Stm) -> None:
    """The arguments by the inverse that the program gives, its own inverse being the function."""
    e = stm.exp
    assert isinstance(e, ir.WithInverse)
    results = s.values(stm.pat)
    unknown = [(k, a) for k, a in enumerate(e.args) if s.value(a) is None]
    if results is None or not unknown or not EXACT(s.rounding or not rounds(stm)):
        return
    if s.assumed or any(v in s.inside and v not in s.known for lam in e.lambdas() for v in lam.free()):
        return
    names = ir.Renamer(dict(s.known))
    back, lam = names.lam(e.back), names.lam(e.lam)
    pat = s.b.emit(ir.WithInverse(back, lam, tuple(results)), *[f"x{k}" for k in range(len(e.args))])
    for k, a in unknown:
        s.learn(a, pat[k])


def _invert(s: Solver, stm: ir.Stm) -> None:
    """What a function gave, by that function, of what its inverse gave."""
    e = stm.exp
    assert isinstance(e, ir.Invert)
    results = s.values(stm.pat)
    if results is None or s.assumed or not EXACT(s.rounding or not rounds(stm)):
        return
    if any(v in s.inside and v not in s.known for v in e.lam.free()):
        return
    names = ir.Renamer(dict(s.known))
    for a, y in zip(e.args, s.b.inline(names.lam(e.lam), results), strict=True):
        s.learn(a, y)


def carried(b: Builder, solved: dict[int, tuple[Var, Atom]], wanted: Sequence[int]) -> list[int]:
    """The variables that are carried backwards to have the `wanted` ones; `solved` has what each is after an iteration
    and before it."""
    group = list(wanted)
    while True:
        used = live(b.stms, [solved[q][1] for q in group])[1]
        more = [q for q, (after, _) in solved.items() if after in used and q not in group]
        if not more:
            return sorted(group)
        group += more


ROWS.update({
    ir.If: _if, ir.Map: _map, ir.For: _for, ir.While: _while, ir.WithInverse: _with_inverse, ir.Invert: _invert,
})  # fmt: skip
