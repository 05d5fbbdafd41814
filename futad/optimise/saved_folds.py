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

Both sweeps are still as reverse mode wrote them, before fusion, so equal values are found by their structure
(`NestedValues`); fusion would put the folds of the two sweeps into different loops. What is found is saved as `remat`
does, under the conditions there.

What pays: memory grows by no more than `remat.MOST` times what it would take to save the loop's variables of the same
sizes, as arrays of other sizes may be much larger than these; each value costs `remat.DEAR` operations at least, also
where a row whose length is not known has one element. (Products with rows of unknown length are computed again: they
are cheap, and as long as they stand by themselves run in vector lanes with what is made of them.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Program, Stm
from futad.core.scalarops import OPS
from futad.core.types import ArrayType, Atom, Const, Type, Var, array_of, row_type
from futad.legality import Legality
from futad.optimise.remat import Sweeps, is_costly, pays, saved
from futad.optimise.subst import Subst
from futad.optimise.values import NestedValues, Values

LEGAL = Legality("saved-folds", "a return sweep reads the folds of rows that the forward sweep saves for it")
SAME_ROWS = LEGAL.condition("as many rows", "the return sweep's map has other rows than the one whose folds are saved")


def saved_folds(program: Program) -> Program:
    """Let forward sweeps save the folds of rows that their return sweeps need."""
    return ir.map_bodies(program, lambda body: saved(body, True, FoldSweeps))


@dataclass(frozen=True, slots=True)
class _Fold:
    """Where a value made of folds is: in which statement of an iteration, bound to which variable, in a map of so many
    elements (None: it is no scalar of one); its cost, that of the dearest one in the map, whose loops over a row go if
    all of them do."""

    at: int
    var: Var
    width: Atom | None
    cost: int


class FoldSweeps(Sweeps):
    """The sweeps of a loop, and what folds they have in common."""

    legality, numbers = LEGAL, NestedValues

    def rewritten(self, inside: bool, mapped: bool, few: bool) -> list[Stm] | None:
        made: dict[int, _Fold] = {}
        for k, s in enumerate(self.f.body.stms):
            made |= {n: fold for n, fold in self.folds(self.forward, k, s) if n not in made}
        final: dict[int, Var] = {}
        for k, s in enumerate(self.r.body.stms):
            known: dict[Var, Var] = {}  # a value -> all iterations' rows of it
            for n, fold in self.folds(self.back, k, s):
                if n in made and self.matches(made[n], fold) and (n in final or self.pays(made[n])):
                    if n not in final:
                        final[n] = self.saved(made[n])
                    known[fold.var] = final[n]
            if known:
                self.read_folds(k, s, known)
        return self.result() if final else None

    def folds(self, values: Values, at: int, s: Stm, outermost: bool = True) -> Iterator[tuple[int, _Fold]]:
        """What statement `at` of an iteration computes of folds, by value numbers: results, and scalars of a map's
        elements."""
        e = s.exp
        if type(e) is ir.WithAcc:
            for t in e.lam.stms:
                values.note(t)
                yield from self.folds(values, at, t, False)
        elif type(e) is ir.Map:
            inside, costs = values.mapped(e), _Costs(e.lam.stms)
            folds = [t.pat[0] for t in e.lam.stms if type(t.exp) is ir.Reduce or is_costly(t.exp)]
            folds = [v for v in folds if v in costs.folded and type(v.type) is not ArrayType]
            most = max([costs.of[v] for v in folds], default=0)
            yield from [(inside.atom(v), _Fold(at, v, e.width, most)) for v in folds]
            r = e.lam.result[0]
            if outermost and len(s.pat) == 1 and r in costs.folded and type(r.type) is not ArrayType:
                yield values.atom(s.pat[0]), _Fold(at, s.pat[0], None, costs.of[r])

    def matches(self, made: _Fold, wanted: _Fold) -> bool:
        """Whether the one is what the other is, of as many rows."""
        if made.width is None or wanted.width is None:
            return made.width is wanted.width
        return SAME_ROWS(self.forward.atom(made.width) == self.back.atom(wanted.width))

    def pays(self, made: _Fold) -> bool:
        """Whether to save a value beside those that are saved (the module's text)."""
        t = made.var.type if made.width is None else array_of(made.var.type, made.width)
        assert isinstance(t, ArrayType)
        pairs = zip(self.f.body.params[1:], self.first.pat, strict=True)
        carried = [p.type for p, v in pairs if v not in self.back.saved]
        there = [*self.rows, *[row_type(now.type) for _, now, _, _ in self.kept], t]
        return self.outside(t) and pays(made.cost, _arrays_like(t, there), _arrays_like(t, carried))

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


class _Costs:
    """What values of a scope cost, arrays an element, with all that they are made of in it; which are made of folds."""

    def __init__(self, stms: Sequence[Stm], of: dict[Atom, int] | None = None, folded: set[Atom] | None = None) -> None:
        self.of: dict[Atom, int] = {} if of is None else dict(of)
        self.folded: set[Atom] = set() if folded is None else set(folded)
        for s in stms:
            self.note(s)

    def note(self, s: Stm) -> None:
        e, cost = s.exp, self.of.get
        if type(e) is ir.Op:
            self.set(s.pat[0], OPS[e.op].cost + sum([cost(a, 0) for a in e.args]), not self.folded.isdisjoint(e.args))
        elif type(e) is ir.Map:
            elements: dict[Atom, int] = {p: cost(a, 0) for p, a in zip(e.lam.params, e.arrays, strict=True)}
            folded = {p for p, a in zip(e.lam.params, e.arrays, strict=True) if a in self.folded}
            inside = _Costs(e.lam.stms, self.of | elements, self.folded | folded)
            for v, r in zip(s.pat, e.lam.result, strict=True):
                self.set(v, inside.of.get(r, 0), r in inside.folded)
        elif type(e) is ir.Reduce:
            operator = sum([OPS[t.exp.op].cost for t in e.lam.stms if type(t.exp) is ir.Op])
            length = e.width.value if type(e.width) is Const else 1
            for v in s.pat:
                self.set(v, length * (operator + sum([cost(a, 0) for a in e.arrays])), True)
        elif type(e) is ir.At:
            self.set(s.pat[0], cost(e.array, 0), e.array in self.folded)

    def set(self, v: Var, cost: int, folded: bool) -> None:
        self.of[v] = cost
        if folded:
            self.folded.add(v)


__all__ = ["saved_folds"]
