"""Solving the statements of a scope for what went into them, given what came out.

Known are constants, variables from outside, indices, and the results of the scope.  A statement whose operands are all
known is computed again; one whose result is known may be solved for an operand (`rows.py`, `nests.py`); both in turn
until nothing is found any more.  So "x + f(y), y unchanged" is no pattern: y is solved first, f(y) is then known.

Note [Exact]
Without `rounding` nothing is emitted that rounds: what is found is bitwise what the iteration began with, as integers
wrap around, and permutations move.  Floats are moved and compared, but no sum or product of them is computed again: a
compiler may contract it in one place and not in another, and an integer that hangs on it would be off by one.

Note [Assumptions]
`select(c, x + 1, x - 1)` does not say what x is without c.  The statements are solved once under the assumption that c
holds, and once that it does not; where both find x it is the one or the other by c.  What is computed of a wrong
assumption must not fail: only scalar operations that cannot are done there.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from futad.ad.emit import coerce
from futad.core import ir
from futad.core.builder import Builder
from futad.core.scalarops import OPS
from futad.core.types import I64, AccType, ArrayType, Atom, Const, Prim, Var, elem_of
from futad.legality import Legality

LEGAL = Legality(
    "inverse",
    "what an iteration of a loop begins with is computed of what it ends with",
    worth="of a variable that m iterations change nothing is saved, in place of m values",
)
EXACT = LEGAL.condition("no rounding", "what comes back differs from what was, the more the longer the loop")
OWN_ROWS = LEGAL.condition("no inverse of the program's own", "one that is wrong makes a wrong derivative in silence")
FIXED_BY_ASSUMPTION = LEGAL.condition("cannot fail where assumed", "a division by what was assumed wrongly fails")

NOT_WHOLE = -(1 << 30)  # operands, where a statement was solved before all of its results were known
MAX_ASSUMED = 3  # conditions that are assumed within one another

# Operations of floats that give the same bits wherever they are computed.
_SAME_BITS = frozenset(
    "select eq ne lt le min max neg abs sgn floor ceil round trunc copysign isnan isinf signbit".split()
    + [f"{way}_{t}" for way in ("bits", "from_bits") for t in ("f16", "f32", "f64")]
)


def rounds(s: ir.Stm) -> bool:
    """Whether the statement does arithmetic of floats, or is to be undone by some."""
    e = s.exp
    if isinstance(e, ir.WithInverse) and any(elem_of(a.type).is_float for a in (*s.pat, *e.args)):
        return True
    if isinstance(e, ir.Op):
        floats = any(isinstance(t, Prim) and t.is_float for t in (s.pat[0].type, *[a.type for a in e.args]))
        return floats and e.op not in _SAME_BITS and not e.op.startswith("to_")
    if isinstance(e, ir.MatMul | ir.Contraction) or (isinstance(e, ir.UpdateAcc) and elem_of(e.acc.type).is_float):
        return True
    return any(rounds(inner) for lam in e.lambdas() for inner in lam.stms)


def bound_in(lam: ir.Lambda, out: set[Var] | None = None) -> set[Var]:
    """The variables bound in a scope, those of scopes inside included."""
    out = set() if out is None else out
    out.update(lam.params)
    for s in lam.stms:
        out.update(s.pat)
        for inner in s.exp.lambdas():
            bound_in(inner, out)
    return out


def believed(s: ir.Stm) -> bool:
    """Whether the statement is right only if an inverse is that the program gives."""
    given = isinstance(s.exp, ir.WithInverse) or any(lam.has(ir.WithInverse) for lam in s.exp.lambdas())
    return not OWN_ROWS(not given)


Row = Callable[["Solver", ir.Stm], None]
ROWS: dict[type[ir.Exp], Row] = {}  # how a statement of each construct is solved
STUCK: list[Callable[[Solver], bool]] = []  # what solves several statements together, where none can be by itself


class Solver:
    """One scope while it is solved.

    `inside`: all variables bound in the iteration; `known`: those of them that are known, and as what; `visible`: those
    of this scope and the ones around it; `outer`: what makes those of the latter, as far as that is known.  `counts`:
    the numbers of iterations of `while` loops that may be kept, by the first variable that a loop binds.  Code goes to
    `b`.
    """

    def __init__(
        self,
        stms: Iterable[ir.Stm],
        inside: set[Var],
        visible: set[Var],
        known: dict[Var, Atom],
        b: Builder,
        rounding: bool,
        assumed: dict[Var, bool] | None = None,
        outer: ChainMap[Var, ir.Stm] | None = None,
        counts: dict[Var, Var] | None = None,
    ) -> None:
        self.stms = [s for s in stms if not s.exp.effect]
        self.inside = inside
        self.visible = visible.union(*[s.pat for s in self.stms])
        self.renamer = ir.Renamer(known)
        self.known = self.renamer.mapping
        self.b = b
        self.rounding = rounding
        self.assumed = assumed or {}
        self.made = {v: s for s in self.stms for v in s.pat}
        self.outer = outer or ChainMap()
        self.counts = {} if counts is None else counts
        self.within: dict[Var, list[Var]] = {}  # unknown conditions in branches, by the first result of the `if`
        self.given = len(self.known)
        self.open: set[Var] = set()  # of a function of elements, or of an iteration: the parameters to be found
        self.forwards: set[ir.Stm] = set()  # statements that are computed again
        self.solved: dict[ir.Stm, int] = {}  # those solved for operands, and for how many
        self.parts: dict[ir.Stm, list[Solver]] = {}  # the scopes inside, as they were solved last
        self.inner: list[Solver] = []

    def child(self, stms: Iterable[ir.Stm], b: Builder, params: Sequence[Var] = ()) -> Solver:
        """A scope inside this one."""
        outer = ChainMap(self.made, *self.outer.maps)
        visible = self.visible.union(params)
        inner = Solver(stms, self.inside, visible, self.known, b, self.rounding, None, outer, self.counts)
        self.inner.append(inner)
        return inner

    def found(self) -> list[Var]:
        """The variables that were not known at first."""
        return list(self.known)[self.given :]

    def also(self, s: ir.Stm, operands: int = 1) -> None:
        """A statement was solved together with another one."""
        self.solved[s] = self.solved.get(s, 0) + operands

    @cached_property
    def users(self) -> dict[Var, list[ir.Stm]]:
        """The statements that have an array as an operand."""
        out: dict[Var, list[ir.Stm]] = {}
        for s in self.stms:
            for a in dict.fromkeys(s.exp.operands()):
                if isinstance(a, Var) and isinstance(a.type, ArrayType):
                    out.setdefault(a, []).append(s)
        return out

    # -- what is known

    def value(self, a: Atom) -> Atom | None:
        """What the atom is, None if that is not known."""
        return self.known.get(a) if isinstance(a, Var) and a in self.inside else a

    def values(self, atoms: Iterable[Atom]) -> list[Atom] | None:
        """What all of them are, None if that is not known."""
        out: list[Atom] = []
        for a in atoms:
            found = self.value(a)
            if found is None:
                return None
            out.append(found)
        return out

    def learn(self, a: Atom, value: Atom) -> None:
        """`a` is `value`, whose type may name the sizes by other atoms."""
        if isinstance(a, Var) and a in self.inside and a not in self.known:
            shape = self.values(a.type.shape) if isinstance(a.type, ArrayType) else None
            self.known[a] = value if shape is None else coerce(self.b, value, ArrayType(elem_of(a.type), tuple(shape)))

    def defined(self, a: Atom, cls: type[ir.Exp]) -> ir.Exp | None:
        """The expression of that class that makes `a` in this scope or around it."""
        s = self.made.get(a) or self.outer.get(a) if isinstance(a, Var) else None
        return s.exp if s is not None and isinstance(s.exp, cls) else None

    def count(self, s: ir.Stm) -> Atom | None:
        """How many iterations a `while` loop had, if that was kept."""
        v = self.counts.get(s.pat[0])
        return None if v is None else self.known.get(v)

    def unknown_conditions(self, nested: bool = True) -> list[Var]:
        """Conditions of statements that are stuck because nothing tells which side was taken, and the numbers of
        iterations of `while` loops; in branches too, if `nested`."""
        out: dict[Var, None] = {}
        for s in self.stms:
            if not any(v in self.known for v in s.pat):
                continue
            e = s.exp
            cond = e.cond if isinstance(e, ir.If) else e.args[0] if isinstance(e, ir.Op) and e.op == "select" else None
            if isinstance(cond, Var) and self.value(cond) is None:
                out[cond] = None
            if isinstance(e, ir.While) and self.count(s) is None and any(self.value(a) is None for a in e.inits[1:]):
                out[self.counts.setdefault(s.pat[0], Var("count", I64))] = None
            if nested:
                out |= dict.fromkeys(self.within.get(s.pat[0], ()))
        return list(out)

    # -- the two directions

    def run(self) -> None:
        """Find all that can be found."""
        while True:
            before = len(self.known)
            for s in self.stms:
                self._again(s)
            for s in reversed(self.stms):
                self._solve(s)
            if len(self.known) == before and not any(solve(self) for solve in STUCK):
                self._assume()
            if len(self.known) == before:
                return

    def _solve(self, s: ir.Stm) -> None:
        """Solve a statement for what goes into it."""
        row = ROWS.get(type(s.exp))
        if row is None:
            return
        known, self.inner = len(self.known), []
        whole = all(v in self.known for v in s.pat)
        row(self, s)
        found = len(self.known) - known
        if self.inner and (found or s not in self.solved):
            self.parts[s] = self.inner
        if found:
            self.solved[s] = self.solved.get(s, 0) + (found if whole else NOT_WHOLE)

    def _again(self, s: ir.Stm) -> None:
        """Compute a statement again."""
        if all(v in self.known for v in s.pat) or any(isinstance(v.type, AccType) for v in s.pat):
            return
        e = s.exp
        if isinstance(e, ir.Op) and e.op == "select" and e.args[0] in self.assumed:
            side = self.value(e.args[1 if self.assumed[e.args[0]] else 2])
            if side is not None:
                self.learn(s.pat[0], side)
            return
        if any(v in self.inside and v not in self.known for v in ir.stm_free(s)):
            return
        if self.assumed and not FIXED_BY_ASSUMPTION(isinstance(e, ir.Op) and not OPS[e.op].can_fail):
            return
        if not EXACT(self.rounding or not rounds(s)):
            return
        had = {v: self.known[v] for v in s.pat if v in self.known}
        self.b.add(self.renamer.stm(s))
        self.known.update(had)
        if not had:
            self.forwards.add(s)

    # -- assumptions

    def _assume(self) -> None:
        """See Note [Assumptions]."""
        if len(self.assumed) >= MAX_ASSUMED:
            return
        tried: set[Var] = set(self.assumed)
        for s in self.stms:
            e = s.exp
            if not isinstance(e, ir.Op) or e.op != "select" or s.pat[0] not in self.known:
                continue
            c = e.args[0]
            if not isinstance(c, Var) or c in tried or all(self.value(a) is not None for a in e.args[1:]):
                continue
            tried.add(c)
            cond = self.value(c)
            if cond is not None and self._by(c, cond):
                return

    def _by(self, c: Var, cond: Atom) -> bool:
        """What is found whether the condition `c` holds or not, which `cond` tells."""
        sides = []
        for holds in (True, False):
            assumed = {**self.assumed, c: holds}
            scope = self.stms, self.inside, self.visible
            side = Solver(*scope, self.known, self.b, self.rounding, assumed, self.outer, self.counts)
            side.run()
            sides.append(side.known)
        found = [v for v in self.visible if v in sides[0] and v not in self.known and isinstance(v.type, Prim)]
        found = sorted([v for v in found if v in sides[1]], key=lambda v: v.id)
        for v in found:
            x, y = sides[0][v], sides[1][v]
            self.known[v] = x if x is y else self.b.op("select", cond, x, y, hint=v.name)
        return bool(found)


def is_const(a: Atom, value: int) -> bool:
    """Whether the atom is that constant."""
    return isinstance(a, Const) and a.value == value
