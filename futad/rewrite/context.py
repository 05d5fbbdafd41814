"""What a rule may ask about the place of a statement: definitions, consumption, index ranges."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from futad.core import ir
from futad.core.alias import Aliases
from futad.core.types import I64, AccType, ArrayType, Atom, Const, Prim, Var, subst_type
from futad.legality import Legality
from futad.rewrite.ranges import Ranges

if TYPE_CHECKING:
    from futad.rewrite.strategy import Stats


LEGAL = Legality("map-rows", "a row that a map reads at its own index becomes an input of it", fires=False)
OUTSIDE = LEGAL.condition("array from outside", "before the map there is no such array")
AS_MANY = LEGAL.condition("as many rows", "the map has more iterations than rows, or fewer")


@dataclass(slots=True)
class Frame:
    """A map whose body is being rewritten: where rows of outer arrays can be asked for as inputs."""

    level: int
    width: Atom
    indices: dict[Var, None] = field(default_factory=dict)
    arrays: list[Atom] = field(default_factory=list)
    params: list[Var] = field(default_factory=list)
    known: dict[Atom, Var] = field(default_factory=dict)


class Context:
    """The state of one function's rewriting.

    `subst` maps variables already replaced to final atoms (rules add to it through `replace`); `defs` maps
    variables in scope to the expression that binds them alone, `parts` to one that binds several and which of these
    it is; `level` to the depth of their scope; `solutions` are those that solve an operation for its operand
    (`ir.SOLVES`).
    """

    def __init__(self, aliases: Aliases, differentiates: bool = False, stats: Stats | None = None) -> None:
        self.subst: dict[Var, Atom] = {}
        self.defs: dict[Var, ir.Exp] = {}
        self.solutions: set[Var] = set()
        self.parts: dict[Var, tuple[ir.Exp, int]] = {}
        self.seeds: dict[Atom, bool] = {}  # of `rules/hot.py`
        self.level: dict[Var, int] = {}
        self.depth = 0
        self.function = ""  # its name, for strategies
        self.eager = False  # what a rule replaces is replaced at once, not when the simplifier comes to it
        self.frames: list[Frame] = []
        self.ranges = Ranges(self.defs)
        self.stats = stats
        self.differentiates = differentiates
        self.aliases = aliases
        self.written: set[Var] | None = None
        self.newest = 0
        self.mutable = aliases.mutable
        self._uses: Counter[Atom] | None = None

    # -- questions

    def exp(self, a: Atom) -> ir.Exp | None:
        """The expression that defines `a`, if it is a variable bound alone by a statement in scope."""
        return self.defs.get(a) if type(a) is Var else None

    def maker(self, a: Atom) -> tuple[ir.Exp, int] | None:
        """The expression that binds `a`, alone or beside others, and which of its results `a` is."""
        if type(a) is not Var:
            return None
        e = self.defs.get(a)
        return self.parts.get(a) if e is None else (e, 0)

    def told(self, written: set[Var]) -> None:
        """From here on it is known which of the program's variables may be overwritten (`alias.stale`)."""
        self.written, self.newest = written, Var("newest", I64).id

    def overwritten(self, a: Atom) -> bool:
        """Whether `a` itself may be overwritten, or what it flows to; as `mutable`, where nothing was told."""
        if self.written is None or type(a) is not Var or a.id > self.newest:
            return self.mutable(a)
        return a in self.written

    def fresh(self, a: Atom) -> bool:
        """Whether `a` may share memory with any array equal to it: it is never overwritten nor returned."""
        return not self.aliases.mutable(a) and not self.aliases.escaping(a)

    def uses(self, a: Atom) -> int:
        """How often `a` is used in the function as it was before rewriting, in scopes and as a result."""
        if self._uses is None:
            body = self.aliases.body
            assert body is not None
            stms = list(ir.statements(body.stms))
            self._uses = Counter([x for s in stms for x in s.exp.operands()])
            scopes = [body, *[lam for s in stms for lam in s.exp.lambdas()]]
            self._uses.update([x for lam in scopes for x in lam.result])
        return self._uses[a]

    def shareable(self, a: Atom, b: Atom) -> bool:
        """Whether two equal arrays may become one: neither is ever overwritten, and not both leave the function."""
        out = self.aliases
        return not (out.mutable(a) or out.mutable(b) or out.escaping(a) and out.escaping(b))

    # -- changes

    def replace(self, v: Var, a: Atom) -> None:
        """Every later occurrence of `v` becomes `a`."""
        self.subst[v] = a
        if type(v.type) is not Prim:
            self.aliases.join(v, a)

    def atom(self, a: Atom) -> Atom:
        return self.subst.get(a, a) if type(a) is Var else a

    def bind(self, v: Var) -> Var:
        """`v` as it is bound in the output: itself, or a new variable if its type's sizes changed."""
        t = v.type
        if type(t) is not Prim:
            ranges = self.ranges
            new = subst_type(t, self.subst)
            if new is not t:
                fresh = Var(v.name, new, v.at)
                self.replace(v, fresh)
                v = fresh
                t = new
            assert isinstance(t, ArrayType | AccType)
            for s in t.shape:
                if type(s) is Var:
                    ranges.size(s)
        self.level[v] = self.depth
        return v

    def row(self, array: Atom, index: Atom) -> Var | None:
        """The variable that is `array[index]` as an input of the enclosing map whose index `index` is."""
        if type(index) is not Var or type(array) is not Var or self.mutable(array):
            return None
        for frame in self.frames:
            if index in frame.indices:
                break
        else:
            return None
        t = array.type
        if not isinstance(t, ArrayType) or not OUTSIDE(self.level.get(array, 0) < frame.level):
            return None
        if not AS_MANY(t.shape[0] is frame.width):
            return None
        got = frame.known.get(array)
        if got is None:
            row_type = ArrayType(t.elem, t.shape[1:]) if t.rank > 1 else t.elem
            got = Var(array.name.rstrip("s") or array.name, row_type)
            frame.known[array] = got
            frame.arrays.append(array)
            frame.params.append(got)
            self.level[got] = frame.level
            self.aliases.join(array, got)
        return got


def is_const(a: Atom, value: float) -> bool:
    """Whether `a` is the constant `value` of any type (-0.0 is not 0)."""
    if type(a) is not Const or a.value != value:
        return False
    return value != 0 or not a.type.is_float or math.copysign(1.0, a.value) > 0
