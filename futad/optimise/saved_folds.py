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
still as reverse mode wrote them, before fusion, so equal values are found by their structure
(`NestedValues`); fusion would put the folds of the two sweeps into different loops. What is found is saved as `remat`
does, under the conditions there.  What is added to accumulators, as by a derivative inside the loop, is a fold, too.

What pays: memory grows by no more than `remat.MOST` times what it would take to save the loop's variables of the same
sizes, as arrays of other sizes may be much larger than these; each value costs `remat.DEAR` operations at least beside
what is left, also where a row whose length is not known has one element. (Products with rows of unknown length are
computed again: they are cheap, and as long as they stand by themselves run in vector lanes with what is made of them.)
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence, Set
from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Program, Stm
from futad.core.scalarops import OPS
from futad.core.types import AccType, ArrayType, Atom, Const, Prim, Type, Var, array_of, row_type
from futad.legality import Legality
from futad.optimise.remat import DEAR, Sweeps, is_costly, pays, saved
from futad.optimise.subst import Subst
from futad.optimise.values import NestedValues, Values

LEGAL = Legality(
    "saved-folds",
    "a return sweep reads the folds of rows that the forward sweep saves for it",
    worth="the gradients of textbook/sinkhorn.fut and hmc.fut in 0.7 and 0.8 of the time; also in hmm and kalman there",
)
SAME_ROWS = LEGAL.condition("as many rows", "the return sweep's map has other rows than the one whose folds are saved")


def saved_folds(program: Program) -> Program:
    """Let forward sweeps save the folds of rows that their return sweeps need."""
    return ir.map_bodies(program, lambda body: saved(body, True, FoldSweeps))


@dataclass(frozen=True, slots=True)
class _Fold:
    """Where a value made of folds is: in which statement of an iteration, bound to which variable, in a map of so many
    elements (None: it is a result of the statement, not a scalar of a map there)."""

    at: int
    var: Var
    width: Atom | None


class FoldSweeps(Sweeps):
    """The sweeps of a loop, and what folds they have in common."""

    numbers = NestedValues

    def said(self) -> None:
        LEGAL.fired()

    def rewritten(self, inside: bool, mapped: bool, few: bool) -> list[Stm] | None:
        made: dict[int, _Fold] = {}
        for k, s in enumerate(self.f.body.stms):
            made |= {n: fold for n, fold in self.folds(self.forward, k, s) if n not in made}
        back = [fold for k, s in enumerate(self.r.body.stms) for fold in self.folds(self.back, k, s)]
        pairs = {w.var: (n, made[n], w) for n, w in back if n in made and self.matches(made[n], w)}
        pairs = {v: (n, there, w) for v, (n, there, w) in pairs.items() if self.fits(there)}
        needed = _needed(self.r.body, pairs.keys())
        final: dict[int, Var] = {}
        known: list[dict[Var, Var]] = [{} for _ in self.r.body.stms]  # a value -> all iterations' rows of it
        for v, (n, there, wanted) in pairs.items():
            if v in needed and (n in final or self.fits(there, self.cost(wanted, needed - {v}))):
                if n not in final:
                    final[n] = self.saved(there)
                known[wanted.at][v] = final[n]
        for k, s in enumerate(self.r.body.stms):
            if known[k]:
                self.read_folds(k, s, known[k])
        return self.result() if final else None

    def folds(self, values: Values, at: int, s: Stm, outermost: bool = True) -> Iterator[tuple[int, _Fold]]:
        """What statement `at` of an iteration may compute of folds, by value numbers: results, and scalars of a map's
        elements."""
        e = s.exp
        if type(e) is ir.WithAcc:
            for t in e.lam.stms:
                yield from self.folds(values, at, t, False)
        elif type(e) is ir.Map:
            inside = values.mapped(e)
            yield from [(inside.atom(v), _Fold(at, v, e.width)) for v in _folds(e.lam)]
            if outermost and len(s.pat) == 1 and type(e.lam.result[0].type) is Prim:
                yield values.atom(s.pat[0]), _Fold(at, s.pat[0], None)

    def cost(self, wanted: _Fold, needed: Set[Atom]) -> int:
        """What it takes to compute a value in the return sweep, beside what is needed there anyway, 0 if no fold; of a
        map's scalars the dearest: their loops over a row go if all of them do."""
        costs = _Costs(needed)
        costs.note_all(self.r.body.stms[: wanted.at + 1])
        if wanted.width is None:
            return costs.of[wanted.var] if wanted.var in costs.folded else 0
        (lam,) = [x for x in _maps(self.r.body.stms[wanted.at]) if any(wanted.var in s.pat for s in x.stms)]
        costs = _Costs(set())
        costs.note_all(lam.stms)
        return max([costs.of[v] for v in _folds(lam) if v in costs.folded], default=0)

    def matches(self, made: _Fold, wanted: _Fold) -> bool:
        """Whether the one is what the other is, of as many rows."""
        if made.width is None or wanted.width is None:
            return made.width is wanted.width
        return SAME_ROWS(self.forward.atom(made.width) == self.back.atom(wanted.width))

    def fits(self, made: _Fold, cost: int = DEAR) -> bool:
        """Whether to save a value of that cost beside those that are saved (the module's text)."""
        t = made.var.type if made.width is None else array_of(made.var.type, made.width)
        assert isinstance(t, ArrayType)
        pairs = zip(self.f.body.params[1:], self.first.pat, strict=True)
        carried = [p.type for p, v in pairs if v not in self.back.saved]
        there = [*self.rows, *[row_type(now.type) for _, now, _, _ in self.kept], t]
        return self.outside(t) and pays(cost, _arrays_like(t, there), _arrays_like(t, carried))

    def saved(self, made: _Fold) -> Var:
        """Let the forward sweep save a value; the rows of all iterations."""
        return self.save(made.at, made.var) if made.width is None else self.save_scalar(made.at, made.var)

    def read_folds(self, at: int, s: Stm, known: dict[Var, Var]) -> None:
        """Let a statement of the return sweep read values."""
        if s.pat[0] in known:
            self.stms[1][at] = self.read(s.pat[0], known[s.pat[0]], at)
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
            reads.extend([self.row(row, known[v]) for v, row in zip(here, rows, strict=True)])
            elements = [Var(v.name, v.type) for v in here]
            inner = Subst(dict(zip(here, elements, strict=True)))
            stms = tuple(inner.stms([u for u in e.lam.stms if u.pat[0] not in known]))
            lam = Lambda((*e.lam.params, *elements), stms, tuple([inner.atom(a) for a in e.lam.result]))
            return Stm(t.pat, e.over((*e.arrays, *rows), lam), t.attrs)

        new = stm(s)
        self.stms[1][at] = [*reads, new]


def _arrays_like(t: ArrayType, types: Sequence[Type]) -> int:
    """How many arrays of the sizes of `t` these are, whatever their sizes that are known."""
    sizes = t.unknown_sizes
    return sum(x.known_size for x in types if isinstance(x, ArrayType) and x.unknown_sizes == sizes)


def _folds(lam: Lambda) -> list[Var]:
    """The folds of a scope, and what is dear in it, as far as they are scalars."""
    found = [s.pat[0] for s in lam.stms if type(s.exp) is ir.Reduce or is_costly(s.exp)]
    return [v for v in found if type(v.type) is Prim]


def _maps(s: Stm) -> list[Lambda]:
    """The maps of a statement, which may be inside the scope of accumulators."""
    if type(s.exp) is ir.WithAcc:
        return [lam for t in s.exp.lam.stms for lam in _maps(t)]
    return [s.exp.lam] if type(s.exp) is ir.Map else []


def _needed(lam: Lambda, taken: Container[Var]) -> set[Atom]:
    """The variables of a scope and those inside that its results need, if those taken need no others."""
    live: set[Atom] = set(lam.result)
    for s in reversed(lam.stms):
        if not live.isdisjoint(s.pat) and s.pat[0] not in taken:
            live.update(s.exp.operands())
            for inner in s.exp.lambdas():
                live |= _needed(inner, taken)
    return live


class _Costs:
    """What values of a scope cost, arrays an element, with all that they are made of in it; which are made of folds.
    Those that are known cost nothing."""

    def __init__(self, known: Set[Atom], of: dict[Atom, int] | None = None, folded: Set[Atom] = frozenset()) -> None:
        self.known = known
        self.of: dict[Atom, int] = {} if of is None else dict(of)
        self.folded: set[Atom] = set(folded)

    def note_all(self, stms: Sequence[Stm]) -> None:
        for s in stms:
            self.note(s)

    def inner(self, lam: Lambda, arrays: Sequence[Atom]) -> _Costs:
        """Of a scope inside, whose parameters are elements of these."""
        pairs = [*zip(lam.params, arrays, strict=True)]
        elements: dict[Atom, int] = {p: self.of.get(a, 0) for p, a in pairs}
        inside = _Costs(self.known, self.of | elements, self.folded | {p for p, a in pairs if a in self.folded})
        inside.note_all(lam.stms)
        return inside

    def note(self, s: Stm) -> None:
        e, cost = s.exp, self.of.get
        if type(e) is ir.Op:
            self.set(s.pat[0], OPS[e.op].cost + sum([cost(a, 0) for a in e.args]), not self.folded.isdisjoint(e.args))
        elif type(e) is ir.Map:
            inside = self.inner(e.lam, e.arrays)
            for v, r in zip(s.pat, e.lam.result, strict=True):
                self.set(v, inside.of.get(r, 0), r in inside.folded)
        elif type(e) is ir.Reduce:
            operator = sum([OPS[t.exp.op].cost for t in e.lam.stms if type(t.exp) is ir.Op])
            length = e.width.value if type(e.width) is Const else 1
            for v in s.pat:
                self.set(v, length * (operator + sum([cost(a, 0) for a in e.arrays])), True)
        elif type(e) is ir.WithAcc:
            inside = self.inner(e.lam, e.arrays)
            for v, r in zip(s.pat, e.lam.result, strict=True):
                self.set(v, inside.of.get(r, 0), r in inside.folded or type(r.type) is AccType)
        elif type(e) is ir.UpdateAcc:
            self.set(s.pat[0], cost(e.acc, 0) + cost(e.value, 0), True)
        elif type(e) is ir.At:
            self.set(s.pat[0], cost(e.array, 0), e.array in self.folded)

    def set(self, v: Var, cost: int, folded: bool) -> None:
        self.of[v] = 0 if v in self.known else cost
        if folded and v not in self.known:
            self.folded.add(v)


__all__ = ["saved_folds"]
