"""The forward and the return sweep of a loop, and what is put into them: rows that the one saves and the other reads.

Reverse mode notes which two loops these are (`core/sweeps.py`).  Equal values of their bodies are found by value
numbers (`optimise/values.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from futad.core import ir
from futad.core.alias import Aliases, consumed_roots
from futad.core.compared import Compared
from futad.core.ir import Lambda, Stm
from futad.core.types import I64, ZERO, ArrayType, Atom, Const, Type, Var, array_of, elem_of, shape_of
from futad.optimise.remat.legal import AT_ITERATION, CARRIED, LAST_FIRST, OUTSIDE, READ_ONLY, SAME_ITERATIONS
from futad.optimise.subst import Subst
from futad.optimise.values import Table, Values


class Sweeps:
    """The forward and the return sweep of a loop, and what is put into them."""

    def __init__(
        self,
        first: Stm,
        second: Stm,
        forward: list[Var],
        back: list[Var],
        numbers: type[Values],
        defs: dict[Var, ir.Exp],
        alias: Aliases,
    ) -> None:
        """`forward` and `back`: the numbers of the iterations in both, as i64s; `numbers`: how values are compared;
        `defs` what is defined around them."""
        assert type(first.exp) is ir.For and type(second.exp) is ir.For
        self.first, self.second, self.alias = first, second, alias
        self.f, self.r = first.exp, second.exp
        self.own = [{*e.body.params, *[v for s in e.body.stms for v in s.pat]} for e in (self.f, self.r)]
        table = Table()
        self.forward, self.back = numbers(table, forward, defs), numbers(table, back, defs)
        self.forward.forwards(self.f.body.params[0])
        iteration = _iterations_back(self.r, defs)[0]
        (undone,) = [s for s in self.r.body.stms if iteration in s.pat]
        assert type(undone.exp) is ir.Op
        self.back.backwards(self.r.body.params[0], iteration, undone.exp.args[0])
        self.at, self.index = forward[0], back[0]
        self.rows: list[ArrayType] = []  # of what is saved already, in each iteration
        self.size: Atom | None = None  # of what is saved
        self.before: list[Stm] = []
        self.stms = [[[s] for s in e.body.stms] for e in (self.f, self.r)]
        self.kept: list[tuple[Var, Var, Var, Var]] = []  # start, in an iteration, after it, at the end
        self._note()

    @classmethod
    def of(
        cls, first: Stm, second: Stm, numbers: type[Values], defs: dict[Var, ir.Exp], alias: Aliases
    ) -> Sweeps | None:
        """The two loops, if each iteration of the second has the number of one of the first."""
        f, r = first.exp, second.exp
        if type(f) is not ir.For or type(r) is not ir.For or not SAME_ITERATIONS(f.bound is r.bound):
            return None
        if not set(first.pat) & ir.stm_free(second).keys():
            return None
        forward, back = as_i64(f.body, f.body.params[:1]), as_i64(r.body, _iterations_back(r, defs))
        return cls(first, second, forward, back, numbers, defs, alias) if forward and back else None

    def _note(self) -> None:
        """Number what the sweeps compute; find what the forward sweep saves."""
        f = self.f
        for s in f.body.stms:
            self.forward.note(s)
        for v, p, result in zip(self.first.pat, f.body.params[1:], f.body.result, strict=True):
            for s in f.body.stms:
                e = s.exp
                if type(e) is not ir.Update or e.array is not p or len(e.index) != 1:
                    continue
                here = self.forward.atom(e.index[0]) == self.forward.iteration
                if CARRIED(s.pat[0] is result) and AT_ITERATION(here):
                    self.back.saved[v] = self.forward.atom(e.value)
                    self.size = shape_of(v.type)[0]
                    if isinstance(e.value.type, ArrayType):
                        self.rows.append(e.value.type)
        for s in self.r.body.stms:
            self.back.note(s)

    # -- what is saved

    def room_for(self, t: Type) -> Var:
        """Rows of this type for each iteration, as the forward sweep's body has them."""
        if self.size is None:
            self.size = Var("iterations", I64)
            self.before.append(Stm((self.size,), ir.Op("max", (self.f.bound, ZERO))))
        whole = array_of(t, self.size)
        start, now, then, final = (Var("saved", whole) for _ in range(4))
        self.before.append(Stm((start,), ir.Scratch(elem_of(whole), shape_of(whole))))
        self.kept.append((start, now, then, final))
        return now

    def save(self, at: int, row: Var) -> Var:
        """Save a row that statement `at` of the forward sweep binds; the rows of all iterations."""
        now = self.room_for(row.type)
        *_, then, final = self.kept[-1]
        self.stms[0][at].append(Stm((then,), ir.Update(now, (self.at,), row)))
        return final

    def row(self, v: Var, final: Var) -> Stm:
        """What binds `v` to the row of the return sweep's iteration."""
        return Stm((v,), ir.At(final, (self.index,), None))

    def read(self, v: Var, final: Var, at: int) -> list[Stm]:
        """The same in place of what statement `at` of the return sweep binds."""
        row, root = Var("saved", v.type), self.alias.root(v)
        others = [s.exp for k, s in enumerate(self.r.body.stms) if k != at]
        consumed = v in self.r.body.result or any(root in consumed_roots(e, self.alias) for e in others)
        return [self.row(row, final), Stm((v,), ir.Alias(row) if READ_ONLY(not consumed) else ir.Copy(row))]

    @cached_property
    def compared(self) -> Compared:
        """What the return sweep compares with what it was chosen from."""
        return Compared(self.r.body)

    def outside(self, t: Type) -> bool:
        """Whether the sizes are none that an iteration computes."""
        return OUTSIDE(not any(a in own for own in self.own for a in shape_of(t)))

    def result(self) -> list[Stm]:
        """The statements before the loops, and the loops."""
        f, r = self.f, self.r
        start, now, then, final = zip(*self.kept, strict=True)
        stms = tuple([s for part in self.stms[0] for s in part])
        lam = Lambda((*f.body.params, *now), stms, (*f.body.result, *then))
        first = Stm((*self.first.pat, *final), ir.For(f.bound, (*f.inits, *start), lam), self.first.attrs)
        lam = Lambda(r.body.params, tuple([s for part in self.stms[1] for s in part]), r.body.result)
        return [*self.before, first, Stm(self.second.pat, ir.For(r.bound, r.inits, lam), self.second.attrs)]

    def save_scalar(self, at: int, scalar: Var) -> Var:
        """Let a map of the forward sweep have the scalar as a result; the rows of all iterations."""
        s = self.stms[0][at][0]
        e = s.exp
        assert type(e) is ir.Map
        row = Var(scalar.name, array_of(scalar.type, e.width))
        lam = Lambda(e.lam.params, e.lam.stms, (*e.lam.result, scalar))
        self.stms[0][at][0] = Stm((*s.pat, row), e.over(e.arrays, lam), s.attrs)
        return self.save(at, row)

    def read_scalars(self, at: int, e: ir.Map, known: dict[Var, tuple[Var, Var]]) -> None:
        """Let a map of the return sweep read scalars; a result that is one is read whole."""
        s = self.r.body.stms[at]
        results = [*zip(s.pat, e.lam.result, strict=True)]
        whole = {v: known[a][0] for v, a in results if type(a) is Var and a in known}
        self.stms[1][at] = new = [t for v, final in whole.items() for t in self.read(v, final, at)]
        left = [(v, a) for v, a in results if v not in whole]
        if left:
            rows = [Var("saved", array_of(v.type, e.width)) for v in known]
            new += [self.row(row, final) for row, (final, _) in zip(rows, known.values(), strict=True)]
            inner = Subst({v: element for v, (_, element) in known.items()})
            stms = tuple(inner.stms([t for t in e.lam.stms if t.pat[0] not in known]))
            params = (*e.lam.params, *[element for _, element in known.values()])
            lam = Lambda(params, stms, tuple([inner.atom(a) for _, a in left]))
            new.append(Stm(tuple([v for v, _ in left]), e.over((*e.arrays, *rows), lam), s.attrs))


def _iterations_back(r: ir.For, defs: dict[Var, ir.Exp]) -> list[Var]:
    """The index of the forward sweep's iteration in the return sweep's body: bound - 1 - its own iteration."""
    counter = r.body.params[0]
    out: list[Var] = []
    for s in r.body.stms:
        e = s.exp
        if type(e) is ir.Op and e.op == "sub" and e.args[1] is counter:
            base, more = _plus(e.args[0], defs)
            bound, rest = _plus(r.bound, defs)
            if base is bound and LAST_FIRST(more == rest - 1):
                out.append(s.pat[0])
    return out


def _plus(a: Atom, defs: dict[Var, ir.Exp]) -> tuple[Var | None, int]:
    """The integer as another one, if it is not known, and a constant."""
    more = 0
    while type(a) is Var and type(e := defs.get(a)) is ir.Op and e.op in ("add", "sub") and type(e.args[1]) is Const:
        more += e.args[1].value if e.op == "add" else -e.args[1].value
        a = e.args[0]
    return (None, more + a.value) if type(a) is Const else (a, more)


def as_i64(lam: Lambda, counters: Sequence[Var]) -> list[Var]:
    """What is the i64 of these."""
    if counters and counters[0].type is I64:
        return [*counters]
    conversions = [s for s in lam.stms if type(s.exp) is ir.Op and s.exp.op == "to_i64" and s.exp.args[0] in counters]
    return [s.pat[0] for s in conversions]


__all__ = ["Sweeps", "as_i64"]
