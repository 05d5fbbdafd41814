"""Maps that find by a fold where to add a row become two: one that finds the places, one that adds.

    let acc = map (\\x -> let i = argmin (map (distance x) cs) in acc[i] += g x cs[i]) xs
        -->   let is = map (\\x -> argmin (map (distance x) cs)) xs
              let acc = map (\\x i -> acc[i] += g x cs[i]) xs is

A place is known late in an iteration: all of a fold waits for itself, and what is added waits for the place, longer
than a processor looks ahead.  Iterations that only find places, or only add, overlap.  Nothing reads an
accumulator, of several iterations that fail any may be reported, and elements that the first map overwrites are copies
where the second one reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.ir import Lambda, Program, Stm
from futad.core.scope import uses_in
from futad.core.types import AccType, Prim, Var, array_of
from futad.legality import Legality

LEGAL = Legality(
    "later-additions",
    "a map that finds by a fold where to add a row becomes a map that finds the places and one that adds",
    worth="the gradient of k-means 0.33 to 0.22 ms: `benchmarks/without.py later-additions kmeans`",
)
RESULTS_BEFORE = LEGAL.condition("results before the additions", "a result is made by the map that only adds")
FOLDS = (ir.Reduce, ir.Fused)
PLAIN = (ir.Op, ir.At, ir.Alias, ir.Map, ir.If, ir.UpdateAcc)
MOST = 2  # scalars that an iteration of the one hands to that of the other


def later_additions(program: Program) -> Program:
    """Split such maps that are not in others; the same program if there are none."""
    return ir.map_bodies(program, _scope)


def _scope(lam: Lambda) -> Lambda:
    stms: list[Stm] = []
    for s in lam.stms:
        if isinstance(s.exp, ir.Mapping):
            stms += _split(s, s.exp) or [s]
        else:
            stms.append(ir.map_scopes(s, _scope))
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(stms), lam.result)


def _split(s: Stm, e: ir.Mapping) -> list[Stm] | None:
    accs = [k for k, a in enumerate(e.arrays) if type(a.type) is AccType]
    if not accs or e.scans or not any(isinstance(t.exp, FOLDS) for t in e.lam.stms):
        return None
    adding = {e.lam.params[k] for k in accs}
    late: list[Stm] = []
    for t in e.lam.stms:
        if not adding.isdisjoint(ir.stm_free(t)):
            late.append(t)
            adding.update(t.pat)
    # What only the additions need, and is computed of scalars, goes with them.
    early = [t for t in e.lam.stms if t not in late]
    results = e.lam.result[len(accs) :]
    uses = uses_in(early, results)
    for t in reversed(early.copy()):
        if type(t.exp) is ir.Op and not any(uses[v] for v in t.pat):
            early.remove(t)
            late.insert(0, t)
            uses.subtract(ir.stm_free(t).keys())
    made = {v for t in early for v in t.pat}
    handed = list(dict.fromkeys(v for t in late for v in _in_order(t, made)))
    if not 0 < len(handed) <= MOST or not all(isinstance(v.type, Prim) for v in handed):
        return None
    if not _found_by_fold(early, handed) or not _adds_rows(late, set(handed)) or not all(map(_plain, late)):
        return None
    if not RESULTS_BEFORE(adding.isdisjoint(results)):
        return None
    first = _first(s, e, accs, early, handed)
    lam = ir.rename(Lambda((*e.lam.params, *handed), tuple(late), e.lam.result[: len(accs)]))
    second = ir.Map(e.width, (*e.arrays, *first.pat[-len(handed) :]), lam)
    LEGAL.fired()
    return [first, Stm(s.pat[: len(accs)], second, s.attrs)]


def _first(s: Stm, e: ir.Mapping, accs: Sequence[int], early: Sequence[Stm], handed: Sequence[Var]) -> Stm:
    """The map without its additions, which gives the scalars that these need."""
    keep = [k for k in range(len(e.arrays)) if k not in accs]
    lam = Lambda(tuple([e.lam.params[k] for k in keep]), tuple(early), (*e.lam.result[len(accs) :], *handed))
    pat = (*s.pat[len(accs) :], *[Var(v.name, array_of(v.type, e.width)) for v in handed])
    return Stm(pat, e.over(tuple([e.arrays[k] for k in keep]), lam), s.attrs)


def _in_order(s: Stm, made: set[Var]) -> list[Var]:
    return [v for v in ir.stm_free(s) if v in made]


def _found_by_fold(early: Sequence[Stm], handed: Sequence[Var]) -> bool:
    """Whether one of the scalars is what a fold makes."""
    folds = {v for t in early if isinstance(t.exp, FOLDS) for v in t.pat}
    return not folds.isdisjoint(handed)


def _adds_rows(stms: Sequence[Stm], places: set[Var]) -> bool:
    """Whether some row is added to at one of the places."""
    for t in stms:
        e = t.exp
        if type(e) is ir.UpdateAcc and not isinstance(e.value.type, Prim) and not places.isdisjoint(e.index):
            return True
        if any(_adds_rows(lam.stms, places) for lam in e.lambdas()):
            return True
    return False


def _plain(s: Stm) -> bool:
    """Whether it is made of scalar code, parts of arrays, maps and additions."""
    return isinstance(s.exp, PLAIN) and all(_plain(t) for lam in s.exp.lambdas() for t in lam.stms)


__all__ = ["later_additions"]
