"""Reports of what the program binds outside of maps, for runs whose values are checked (docs/checking.md).

A lowering that has a `Reports` emits an `ir.Report` after each statement outside of maps for each scalar and array that
it binds, and at the start of a loop's iteration for what the loop carries.  A report is no use of a variable: liveness,
placement and fusion do not see it, so the code is the code that runs unchecked, with reports added.  Hence it is made
at once, where the value is there; a value that is nowhere (an array that its readers compute) is not made for it but
counted as skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.callgraph import recursive
from futad.core.interp_steps import Plan
from futad.core.types import AccType, Atom, Var
from futad.imp import ir
from futad.imp.views import Acc, Fill, Mem, Sequence_, Value, View

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer, Scope


@dataclass(slots=True, eq=False)
class Reports:
    """What a lowering reports.  `numbers`: the variable of each report; `sequences`: those of
    arrays that count; `orders`: the statements of scopes as they are
    lowered; `stepped` and `whole`: statements with scopes of which what is inside is reported, and is not; `skipped`:
    variables that are not reported, and why."""

    numbers: list[Var] = field(default_factory=list)
    sequences: set[int] = field(default_factory=set)
    orders: dict[core.Lambda, tuple[core.Stm, ...]] = field(default_factory=dict)
    stepped: dict[core.Stm, None] = field(default_factory=dict)
    whole: dict[core.Stm, None] = field(default_factory=dict)
    skipped: dict[Var, str] = field(default_factory=dict)
    program: core.Program | None = None
    functions: set[str] = field(default_factory=set)  # C functions of which what is inside is reported
    entry: core.Lambda | None = None  # the function about to be lowered
    opened: set[core.Lambda] = field(default_factory=set)

    # -- while lowering

    def begin(self, lo: Lowerer, fun: core.Fun, local: bool) -> None:
        """A function is about to be lowered."""
        if self.program is None:
            self.program = lo.program
            self.functions = lo.separate & outside_only(lo.program)
        if not local or fun.name in self.functions:
            self.entry = fun.body

    def open(self, lo: Lowerer, lam: core.Lambda, stms: tuple[core.Stm, ...]) -> None:
        """A scope begins.  If it is outside of maps what it binds is reported; what a loop carries is so at once."""
        around = lo.scopes[-2]
        lo.scopes[-1].reports = lam is self.entry or (around.reports and self._outside(lo, around, lam))
        if not lo.scopes[-1].reports:
            return
        self.orders[lam] = stms
        self.opened.add(lam)
        if lam is self.entry:
            self.entry = None
        elif isinstance(around.lam.stms[around.index].exp, core.Loop):
            for p in lam.params:
                self.bound(lo, p, lo.env[p])

    def _outside(self, lo: Lowerer, around: Scope, lam: core.Lambda) -> bool:
        e = around.lam.stms[around.index].exp
        if isinstance(e, core.Call):
            return lam is lo.program.funs[e.name].body
        return isinstance(e, core.Control) and any(lam is inner for inner in e.lambdas())

    def done(self, lo: Lowerer, stm: core.Stm) -> None:
        """A statement outside of maps has been lowered, and what it binds is bound."""
        e = stm.exp
        inside = False
        if isinstance(e, core.Call):
            body = lo.program.funs[e.name].body
            inside = body in self.opened if e.name not in lo.separate else e.name in self.functions
            self.opened.discard(body)
        elif isinstance(e, core.Control):
            inside = any(lam in self.opened for lam in e.lambdas())
            self.opened.difference_update(e.lambdas())
        (self.stepped if inside else self.whole)[stm] = None
        for v in stm.pat:
            self.bound(lo, v, lo.env[v])

    def bound(self, lo: Lowerer, var: Var, value: Value) -> None:
        """Report a variable's value, if it has one of its own."""
        if isinstance(value, Acc) or isinstance(var.type, AccType):
            return
        if var in lo.scopes[-1].deferred:
            self.skip(var, "a product that is made by the map that reads it")
            return
        number = len(self.numbers)
        if not isinstance(value, View):
            made = ir.Report(number, value.type, value)
        else:
            base = value.base
            if isinstance(base, Mem) and _ahead(lo, var, value):
                self.skip(var, "an array that the next statements update, and whose memory has that already")
                return
            if isinstance(base, Mem):
                made = ir.Report(number, base.elem, None, base.pointer, value.offset, value.shape, value.strides)
            elif isinstance(base, Fill):
                made = ir.Report(number, base.elem, base.value, shape=value.shape, strides=(ir.ZERO,) * value.rank)
            elif isinstance(base, Sequence_):
                made = ir.Report(
                    number, base.elem, base.start, "", value.offset, value.shape, value.strides, base.step
                )
                self.sequences.add(number)
            else:
                self.skip(var, "an array that is computed where it is read")
                return
        self.numbers.append(var)
        lo.out.append(made)

    def skip(self, var: Var, why: str) -> None:
        """Report a variable nowhere."""
        self.skipped.setdefault(var, why)

    # -- afterwards

    def plan(self) -> Plan:
        """How the interpreter follows the reports, once all is lowered.  A statement that is lowered in several places
        is taken apart in all of them or in none."""
        for stm in [s for s in self.whole if s in self.stepped]:
            assert self.program is not None
            for lam in _inside(self.program, stm):
                for v in (*lam.params, *[v for s in lam.stms for v in s.pat]):
                    self.skip(v, "lowered in several ways")
        stops = frozenset(self.numbers).difference(self.skipped)
        whole = frozenset(self.whole)
        return Plan(tuple(self.numbers), frozenset(self.sequences), stops, self.orders, whole, dict(self.skipped))

    def wanted(self, number: int) -> bool:
        """Whether a report is one of a variable that is reported wherever it is bound."""
        return self.numbers[number] not in self.skipped


class _NoReports(Reports):
    """Nothing is reported."""

    def begin(self, lo: Lowerer, fun: core.Fun, local: bool) -> None:
        pass

    def open(self, lo: Lowerer, lam: core.Lambda, stms: tuple[core.Stm, ...]) -> None:
        pass

    def skip(self, var: Var, why: str) -> None:
        pass


NO_REPORTS = _NoReports()


@contextmanager
def unreported(sc: Scope) -> Iterator[None]:
    """What the scopes lowered inside bind is not computed where the program binds it, and so not reported."""
    before, sc.reports = sc.reports, False
    yield
    sc.reports = before


def outside_only(program: core.Program) -> frozenset[str]:
    """The functions that are called outside of maps alone, and are not recursive."""
    inside = set(recursive(program))
    calls: dict[str, set[str]] = {}

    def walk(lam: core.Lambda, caller: str, outside: bool) -> None:
        for s in lam.stms:
            if isinstance(s.exp, core.Call):
                calls[caller].add(s.exp.name)
                if not outside:
                    inside.add(s.exp.name)
            for inner in s.exp.lambdas():
                walk(inner, caller, outside and isinstance(s.exp, core.Control))

    for f in program.funs.values():
        calls[f.name] = set()
        walk(f.body, f.name, True)
    todo = list(inside)
    while todo:
        new = calls.get(todo.pop(), set()) - inside
        inside |= new
        todo += new
    return frozenset(program.funs).difference(inside)


def _ahead(lo: Lowerer, var: Var, value: View) -> bool:
    """Whether the memory of an array has what later statements write into it: a value that was computed in place."""
    from futad.imp.regions import Regions

    known = Regions(lo)
    for sc in lo.scopes:
        for s in sc.lam.stms[sc.index + 1 :]:
            if s.pat and s.pat[0] in sc.placed:
                dst, target = sc.placed[s.pat[0]]
                names = _names(sc, s.exp)
                if any(v in lo.env for v in names) and var not in names and dst.roots & value.roots:
                    if not known.disjoint(value, target, dst.strides):
                        return True
    return False


def _names(sc: Scope, e: core.Exp) -> list[Var]:
    """The value of an update, and what it is by other names."""
    assert isinstance(e, core.Update)
    out: list[Var] = []
    made = {s.pat[0]: s.exp for s in sc.lam.stms if isinstance(s.exp, core.Alias | core.Reshape)}
    v: Atom | None = e.value
    while isinstance(v, Var):
        out.append(v)
        v = made[v].operands()[0] if v in made else None
    return out


def _inside(program: core.Program, stm: core.Stm) -> list[core.Lambda]:
    """The scopes outside of maps of a statement, and those in them."""
    e = stm.exp
    called = isinstance(e, core.Call) and e.name not in recursive(program)
    found = [program.funs[e.name].body] if called and isinstance(e, core.Call) else []
    found += e.lambdas() if isinstance(e, core.Control) else []
    return [*found, *[x for lam in found for s in lam.stms for x in _inside(program, s)]]
