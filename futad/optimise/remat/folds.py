"""Folds of rows that a return sweep would compute again, the forward sweep saves.

The return sweep of a loop executes each iteration's statements again. Of a map that folds rows (a log-sum-exp, a
layer's products, a force) it needs the folds, scalars, and what later statements made of them: computing these takes
all elements of all rows, saving them a number for each row.

    loop f for i < n do fs[i] = f; g = map (\\row -> let s = reduce (+) (map2 (.. exp ..) row f) in h s) rows; ..
    loop .. for j < n do let i = n-1-j; f = fs[i]; g = map (\\row -> .. h (reduce ..)) rows
                         map (\\row g' -> let s = reduce (+) (map2 (.. exp ..) row f) in map (.. s ..) row) rows g_bar
      -->
    loop .. for i < n do fs[i] = f; (g, s) = map (..) rows; gs[i] = g; ss[i] = s; ..
    loop .. for j < n do let i = n-1-j; f = fs[i]; g = gs[i]; map (\\row s g' -> map (.. s ..) row) rows ss[i] g_bar

Of values that follow from each other those are saved that what is left of the return sweep reads.  Both sweeps are
still as reverse mode wrote them, before fusion, so equal values are found by their structure (`values.py`); fusion
would put the folds of the two sweeps into different loops.  What is added to accumulators, as by a derivative inside
the loop, is a fold, too.

What pays (`policy.py`): the room is counted in arrays of the same sizes, as those of other sizes may be much larger.
A value's cost is that beside what is left, also where a row whose length is not known has one element. (Products with
rows of unknown length are computed again: they are cheap, and as long as they stand by themselves run in vector lanes
with what is made of them; dear scalars that another map makes of them are saved.)
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence, Set
from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import ArrayType, Atom, Prim, Type, Var, array_of, row_type
from futad.legality import Legality
from futad.optimise.remat.costs import Costs
from futad.optimise.remat.policy import Policy
from futad.optimise.remat.sweeps import Sweeps
from futad.optimise.subst import Subst
from futad.optimise.values import Values

LEGAL = Legality(
    "saved-folds",
    "a return sweep reads the folds of rows that the forward sweep saves for it",
    worth="the gradients of textbook/sinkhorn.fut and hmc.fut in 0.7 and 0.8 of the time; also in hmm and kalman there",
)
SAME_BITS = LEGAL.condition(
    "equal to what is computed again",
    "an extremum is compared with the elements, which have other bits than those it was chosen from: its place is lost",
)
SAME_ROWS = LEGAL.condition("as many rows", "the return sweep's map has other rows than the one whose folds are saved")


@dataclass(frozen=True, slots=True)
class _Fold:
    """Where a value made of folds is: in which statement of an iteration, bound to which variable, in a map of so many
    elements (None: it is a result of the statement, not a scalar of a map there)."""

    at: int
    var: Var
    width: Atom | None


def folds(pair: Sweeps, policy: Policy) -> bool:
    """Folds of rows, and what is made of them."""
    if not policy.more_kinds:
        return False
    made: dict[int, _Fold] = {}
    for k, s in enumerate(pair.f.body.stms):
        if type(s.exp) is ir.Map:  # what the scope of accumulators makes stays in it
            made |= {n: fold for n, fold in _made_of_folds(policy, pair.forward, k, s) if n not in made}
    back = [fold for k, s in enumerate(pair.r.body.stms) for fold in _made_of_folds(policy, pair.back, k, s)]
    pairs = {w.var: (n, made[n], w) for n, w in back if n in made and _matches(pair, made[n], w)}
    pairs = {v: found for v, found in pairs.items() if SAME_BITS(not pair.compared.origins_differ(v))}
    pairs = {v: (n, there, w) for v, (n, there, w) in pairs.items() if _fits(pair, policy, there, policy.dear)}
    needed = _needed(pair.r.body, pairs.keys())
    final: dict[int, Var] = {}
    known: list[dict[Var, Var]] = [{} for _ in pair.r.body.stms]  # a value -> all iterations' rows of it
    for v, (n, there, wanted) in pairs.items():
        if v in needed and (n in final or _fits(pair, policy, there, _cost(pair, policy, wanted, needed - {v}))):
            if n not in final:
                final[n] = _saved(pair, there)
            known[wanted.at][v] = final[n]
    for k, s in enumerate(pair.r.body.stms):
        if known[k]:
            _read_folds(pair, k, s, known[k])
    return bool(final)


def _made_of_folds(
    policy: Policy, values: Values, at: int, s: Stm, outermost: bool = True
) -> Iterator[tuple[int, _Fold]]:
    """What statement `at` of an iteration may compute of folds, by value numbers: results, and scalars of a map's
    elements."""
    e = s.exp
    if type(e) is ir.WithAcc:
        for t in e.lam.stms:
            yield from _made_of_folds(policy, values, at, t, False)
    elif type(e) is ir.Map:
        inside = values.mapped(e)
        yield from [(inside.atom(v), _Fold(at, v, e.width)) for v in _folds(policy, e.lam)]
        if outermost and len(s.pat) == 1 and type(e.lam.result[0].type) is Prim:
            yield values.atom(s.pat[0]), _Fold(at, s.pat[0], None)


def _cost(pair: Sweeps, policy: Policy, wanted: _Fold, needed: Set[Atom]) -> int:
    """What it takes to compute a value in the return sweep, beside what is needed there anyway, 0 if no fold; of a
    map's scalars the dearest: their loops over a row go if all of them do."""
    costs = Costs(needed)
    costs.note_all(pair.r.body.stms[: wanted.at])
    statement = pair.r.body.stms[wanted.at]
    if wanted.width is None:
        costs.note(statement)
        return costs.of[wanted.var] if wanted.var in costs.folded else 0
    (e,) = [x for x in _maps(statement) if any(wanted.var in s.pat for s in x.lam.stms)]
    inside = Costs(set(), costs.of, costs.folded).inner(e.lam, e.arrays)
    return max([inside.of[v] for v in _folds(policy, e.lam) if v in inside.folded], default=0)


def _matches(pair: Sweeps, made: _Fold, wanted: _Fold) -> bool:
    """Whether the one is what the other is, of as many rows."""
    if made.width is None or wanted.width is None:
        return made.width is wanted.width
    return SAME_ROWS(pair.forward.atom(made.width) == pair.back.atom(wanted.width))


def _fits(pair: Sweeps, policy: Policy, made: _Fold, cost: int) -> bool:
    """Whether to save a value of that cost beside those that are saved (the module's text)."""
    t = made.var.type if made.width is None else array_of(made.var.type, made.width)
    assert isinstance(t, ArrayType)
    pairs = zip(pair.f.body.params[1:], pair.first.pat, strict=True)
    carried = [p.type for p, v in pairs if v not in pair.back.saved]
    there = [*pair.rows, *[row_type(now.type) for _, now, _, _ in pair.kept], t]
    return pair.outside(t) and policy.saves(cost, arrays_like(t, there), arrays_like(t, carried))


def _saved(pair: Sweeps, made: _Fold) -> Var:
    """Let the forward sweep save a value; the rows of all iterations."""
    return pair.save(made.at, made.var) if made.width is None else pair.save_scalar(made.at, made.var)


def _read_folds(pair: Sweeps, at: int, s: Stm, known: dict[Var, Var]) -> None:
    """Let a statement of the return sweep read values."""
    if s.pat[0] in known:
        pair.stms[1][at] = pair.read(s.pat[0], known[s.pat[0]], at)
        return
    reads: list[Stm] = []

    def scope(lam: Lambda) -> Lambda:
        return Lambda(lam.params, tuple([stm(t) for t in lam.stms]), lam.result)

    def stm(t: Stm) -> Stm:
        e = t.exp
        if type(e) is ir.WithAcc:
            return ir.map_scopes(t, scope)
        if type(e) is not ir.Map or not (here := [v for u in e.lam.stms for v in u.pat if v in known]):
            return t
        rows = [Var("saved", array_of(v.type, e.width)) for v in here]
        reads.extend([pair.row(row, known[v]) for v, row in zip(here, rows, strict=True)])
        elements = [Var(v.name, v.type) for v in here]
        inner = Subst(dict(zip(here, elements, strict=True)))
        stms = tuple(inner.stms([u for u in e.lam.stms if u.pat[0] not in known]))
        lam = Lambda((*e.lam.params, *elements), stms, tuple([inner.atom(a) for a in e.lam.result]))
        return Stm(t.pat, e.over((*e.arrays, *rows), lam), t.attrs)

    new = stm(s)
    pair.stms[1][at] = [*reads, new]


def arrays_like(t: ArrayType, types: Sequence[Type]) -> int:
    """How many arrays of the sizes of `t` these are, whatever their sizes that are known."""
    sizes = t.unknown_sizes
    return sum(x.known_size for x in types if isinstance(x, ArrayType) and x.unknown_sizes == sizes)


def _folds(policy: Policy, lam: Lambda) -> list[Var]:
    """The folds of a scope, and what is dear in it, as far as they are scalars and nothing else is made beside them."""
    found = [s.pat for s in lam.stms if type(s.exp) is ir.Reduce or policy.costly(s.exp)]
    return [pat[0] for pat in found if len(pat) == 1 and type(pat[0].type) is Prim]


def _maps(s: Stm) -> list[ir.Map]:
    """The maps of a statement, which may be inside the scope of accumulators."""
    if type(s.exp) is ir.WithAcc:
        return [e for t in s.exp.lam.stms for e in _maps(t)]
    return [s.exp] if type(s.exp) is ir.Map else []


def _needed(lam: Lambda, taken: Container[Var]) -> set[Atom]:
    """The variables of a scope and those inside that its results need, if those taken need no others."""
    live: set[Atom] = set(lam.result)
    for s in reversed(lam.stms):
        if not live.isdisjoint(s.pat) and s.pat[0] not in taken:
            inside = {a for inner in s.exp.lambdas() for a in _needed(inner, taken)}
            unread: set[Atom] = set()
            if type(s.exp) is ir.Map:
                pairs = list(zip(s.exp.arrays, s.exp.lam.params, strict=True))
                unread = {a for a, _ in pairs} - {a for a, p in pairs if p in inside}
            live |= inside | {a for a in s.exp.operands() if a not in unread}
    return live


__all__ = ["arrays_like", "folds"]
