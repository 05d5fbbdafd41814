"""The pass of one-hot tangents: the simplifier with the rules of `rules/hot.py`, for functions that may have such."""

from __future__ import annotations

from futad.core import ir
from futad.core.alias import stale
from futad.core.ir import Fun, Lambda, Program
from futad.core.types import ArrayType, Atom, Var
from futad.rewrite.dce import asserting_functions
from futad.rewrite.rules import ENTER, LEAVE
from futad.rewrite.rules.hot import HOT_SUMS
from futad.rewrite.rules.hot_bins import HOT_BINS, HOT_ENTER
from futad.rewrite.simplify import Schedule, simplify_fun
from futad.rewrite.strategy import Rules, Stats
from futad.rewrite.terms import compares, seeded

SCHEDULE = Schedule(Rules((*ENTER, *HOT_ENTER)), Rules((*LEAVE, *HOT_SUMS, *HOT_BINS)))


class _Look:
    """Where a function sums what may be hot."""

    def __init__(self) -> None:
        self.made: dict[Atom, tuple[ir.Exp, int]] = {}
        self.seeds: dict[Atom, bool] = {}
        self.folds = False

    def maker(self, a: Atom) -> tuple[ir.Exp, int] | None:
        """What binds a variable."""
        return self.made.get(a) if isinstance(a, Var) else None

    def mapped(self, a: Atom) -> bool:
        """Whether a map makes the array, which may be hot."""
        found = self.maker(a)
        return found is not None and isinstance(found[0], ir.Map) and seeded(self, a)

    def scope(self, lam: Lambda) -> int:
        """How many statements of a scope, and of those nested in it, are or have such a sum."""
        found = 0
        for s in lam.stms:
            e = s.exp
            for k, v in enumerate(s.pat):
                self.made[v] = e, k
            found += sum(map(self.scope, e.lambdas()))
            match e:
                case ir.Scan():
                    found += any(seeded(self, a) for a in e.arrays)
                case ir.Reduce() | ir.Hist():
                    if any(seeded(self, a) for a in e.operands()):
                        found += 1
                        self.folds = True
                case ir.For():
                    found += _combines(e) and compares(self, e.body)
                case ir.At():
                    found += self.mapped(e.array)
                case ir.Map():
                    rows = zip(e.arrays, e.lam.params, strict=True)
                    found += any(isinstance(p.type, ArrayType) and self.mapped(a) for a, p in rows)
        return found


def _combines(e: ir.For) -> bool:
    """Whether a variable of the loop is added to, or left alone by a choice."""
    variables = set(e.variables)
    made: dict[Atom, ir.Exp] = {v: s.exp for s in e.body.stms for v in s.pat}
    for r in e.body.result:
        x = made.get(r)
        if isinstance(x, ir.If | ir.Map) or isinstance(x, ir.Op) and not variables.isdisjoint(x.args):
            return True
    return False


def sums_one_hot(f: Fun) -> int:
    """How many statements of the function sum what compares indices, or read one place of an array."""
    return _Look().scope(f.body)


def _worth(f: Fun) -> bool:
    """Whether the rules may apply: there are tangents beside such sums, or sums that are no loops."""
    look = _Look()
    if not look.scope(f.body):
        return False
    return look.folds or any(ir.DERIVED in s.attrs for s in ir.statements(f.body.stms))


def one_hot_tangents(program: Program, stats: Stats | None = None) -> Program:
    """The program with sums of one-hot values as these values."""
    asserting = asserting_functions(program)

    def rewritten(f: Fun) -> Fun:
        return simplify_fun(f, False, asserting, SCHEDULE, stats, written) if f.name in found else f

    found = {f.name for f in program.funs.values() if _worth(f)}
    written = stale(program) if found else set()
    funs = {n: rewritten(f) for n, f in program.funs.items()}
    if all(funs[n] is f for n, f in program.funs.items()):
        return program
    return Program(funs, program.name)


__all__ = ["one_hot_tangents", "sums_one_hot"]
