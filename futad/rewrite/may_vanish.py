"""A quick look at a function: whether a sum in it may be of what vanishes but at few places.

One scan, without places: a value may vanish where it is zero, is true if two indices are equal, or is made of such ones
by what keeps zeros.  That is all that `rewrite/zeros.py` can find on the code that the rules of `rules/hot.py` make of
a sum, or more.  So where nothing is found here, none of them applies, and they need not be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from futad.core import ir
from futad.core.ir import Fun, Lambda, Stm
from futad.core.operator import SUM, VECTOR_SUM, operator_of
from futad.core.scalarops import folded
from futad.core.types import I64, ONE, ArrayType, Atom, Const, Prim, Var, elem_of, zero

ZERO, HOT = 1, 2  # what is zero, and what may be elsewhere


class _Found(Exception):
    """There is a sum that may be of few places."""


class _Look:
    """The values of a function that may vanish, as far as scopes were gone through."""

    def __init__(self, tangents: bool) -> None:
        self.known: dict[Atom, int] = {}
        self.unequal: set[Atom] = set()
        self.mapped: dict[Atom, int] = {}  # what maps make, by depth
        self.depth = 0
        self.tangents = tangents

    def of(self, a: Atom) -> int:
        """ZERO, HOT, or 0 where nothing vanishes."""
        return (ZERO if a.value == 0 else 0) if type(a) is Const else self.known.get(a, 0)

    def every(self, atoms: Iterable[Atom]) -> int:
        """Of what is zero where all of them are."""
        out = ZERO
        for a in atoms:
            found = self.of(a)
            if not found:
                return 0
            out = max(out, found)
        return out

    def scope(self, lam: Lambda) -> None:
        """Go through a scope; raises _Found."""
        known, cases = self.known, _CASES
        self.depth += 1
        for s in lam.stms:
            e = s.exp
            case = cases.get(type(e))
            if case is None:
                for inner in e.lambdas():
                    self.scope(inner)
            elif found := case(self, e, s):
                known[s.pat[0]] = found
        self.depth -= 1

    def given(self, lam: Lambda, values: Iterable[int]) -> list[int]:
        """The results of a scope, from its parameters."""
        for p, found in zip(lam.params, values, strict=True):
            if found:
                self.known[p] = found
        self.scope(lam)
        return [self.of(r) for r in lam.result]

    def told(self, s: Stm, found: Iterable[int]) -> int:
        """Several results."""
        for v, x in zip(s.pat, found, strict=False):
            if x:
                self.known[v] = x
        return 0

    # -- operations

    def op(self, e: ir.Op, s: Stm) -> int:
        op, args = e.op, e.args
        if op in ("eq", "ne") and args[0].type is I64:
            if op == "eq":
                return HOT
            self.unequal.add(s.pat[0])
        elif op == "select":
            a, b = self.of(args[1]), self.of(args[2])
            if args[0] in self.unequal and a:
                return HOT
            return max(a, b) if a and b else HOT if b and self.of(args[0]) else 0
        elif op == "and":
            return max(map(self.of, args))
        elif op in ("mul", "div"):
            return self.product(e, s)
        elif op == "fma":
            p, q, c = map(self.of, args)
            return max(p, q, c) if c and (p or q) and ir.DERIVED in s.attrs else 0
        found = self.every([a for a in args if type(a) is Var])
        if found < HOT or any(type(a.type) is not Prim for a in args):
            return 0
        value = folded(op, [zero(elem_of(a.type)) if type(a) is Var else a for a in args])
        return found if value is not None and value.value == 0 else 0

    def product(self, e: ir.Op, s: Stm) -> int:
        x, y = e.args
        a, b = self.of(x), self.of(y) if e.op == "mul" else 0
        if not a and not b:
            return 0
        if ir.DERIVED in s.attrs or e.op == "mul" and not elem_of(x.type).is_float:
            return max(a, b)
        return max(a if type(y) is Const else 0, b if type(x) is Const else 0)

    # -- arrays

    def first(self, e: Any, s: Stm) -> int:
        """Of an array or value, moved or repeated."""
        return self.of(e.operands()[0])

    def replicate(self, e: ir.Replicate, s: Stm) -> int:
        return self.of(e.value)

    def read(self, e: ir.At, s: Stm) -> int:
        found = self.of(e.array)
        if found == HOT and self.tangents and e.check is None and type(s.pat[0].type) is Prim:
            if self.mapped.get(e.array) == self.depth:
                raise _Found
        return found

    def literal(self, e: ir.ArrayLit, s: Stm) -> int:
        return self.every(e.elems)

    def concat(self, e: ir.Concat, s: Stm) -> int:
        """Pieces of one element are places."""
        sizes = [x.type.shape[0] if type(x.type) is ArrayType else None for x in e.arrays]
        rest = [x for x, n in zip(e.arrays, sizes, strict=True) if n is not ONE]
        return HOT if self.every(rest) else 0

    def update(self, e: ir.Update, s: Stm) -> int:
        return HOT if self.of(e.array) else 0

    def scatter(self, e: ir.Scatter, s: Stm) -> int:
        if e.width is ONE:
            return self.told(s, [HOT if self.of(d) else 0 for d in e.dests])
        return self.told(s, [self.every(x) for x in zip(e.dests, e.values, strict=True)])

    def map(self, e: ir.Map, s: Stm) -> int:
        values = [self.of(a) for a in e.arrays]
        if HOT in values and self.tangents:
            for a, found, p in zip(e.arrays, values, e.lam.params, strict=True):
                if found == HOT and a in self.mapped and type(p.type) is ArrayType and p.type.rank == 1:
                    raise _Found
        self.mapped.update((v, self.depth) for v in s.pat)
        return self.told(s, self.given(e.lam, values))

    # -- sums

    def reduce(self, e: ir.Reduce, s: Stm) -> int:
        self.scope(e.lam)
        found = self.of(e.arrays[0]) if len(e.arrays) == 1 else 0
        operator = operator_of(e.lam) if found else None
        if operator is None or operator.op != "add":
            return 0
        if found == HOT and operator in (SUM, VECTOR_SUM):
            raise _Found
        return found

    def scan(self, e: ir.Scan, s: Stm) -> int:
        self.scope(e.lam)
        found = self.of(e.arrays[0]) if len(e.arrays) == 1 else 0
        operator = operator_of(e.lam) if found else None
        return found if operator is not None and operator.op == "add" else 0

    def hist(self, e: ir.Hist, s: Stm) -> int:
        self.scope(e.lam)
        if len(e.dests) != 1:
            return 0
        found = self.of(e.values[0])
        operator = operator_of(e.lam) if found else None
        if operator is None or operator.op != "add":
            return 0
        if found == HOT and operator == SUM:
            raise _Found
        return self.every((*e.dests, *e.values))

    def loop(self, e: ir.For, s: Stm) -> int:
        inits = [self.of(a) for a in e.inits]
        results = self.given(e.body, [0, *inits])
        if self.tangents and self.combines(e.body):
            raise _Found
        return self.told(s, [max(a, r) if a and r else 0 for a, r in zip(inits, results, strict=True)])

    def combines(self, body: Lambda) -> bool:
        """Whether a variable of the loop is added to, or left alone by a choice, by what may vanish."""
        made = {v: s.exp for s in body.stms for v in s.pat}
        for p, r in zip(body.params[1:], body.result, strict=True):
            e = made.get(r) if type(r) is Var else None
            match e:
                case ir.Op("add", (x, y)):
                    if p in (x, y) and self.of(y if x is p else x):
                        return True
                case ir.Op("select", (test, _, _)) | ir.If(test):
                    if self.of(test) == HOT:
                        return True
                case ir.Map() if p in e.arrays:
                    q = e.lam.params[e.arrays.index(p)]
                    last = next((x.exp for x in e.lam.stms if x.pat == e.lam.result), None)
                    if isinstance(last, ir.Op) and last.op == "add" and q in last.args:
                        if self.of(last.args[1] if last.args[0] is q else last.args[0]):
                            return True
        return False

    def branch(self, e: ir.If, s: Stm) -> int:
        when = self.of(e.cond)
        then, orelse = self.given(e.then, ()), self.given(e.orelse, ())
        return self.told(s, [max(a or when, b) if (a or when) and b else 0 for a, b in zip(then, orelse, strict=True)])


_CASES: dict[type, Callable[[_Look, Any, Stm], int]] = {
    ir.Op: _Look.op, ir.Alias: _Look.first, ir.Copy: _Look.first, ir.Rearrange: _Look.first, ir.Reshape: _Look.first,
    ir.At: _Look.read, ir.Replicate: _Look.replicate, ir.ArrayLit: _Look.literal, ir.Concat: _Look.concat,
    ir.Update: _Look.update, ir.Scatter: _Look.scatter, ir.Map: _Look.map, ir.Reduce: _Look.reduce,
    ir.Scan: _Look.scan, ir.Hist: _Look.hist, ir.For: _Look.loop, ir.If: _Look.branch,
}  # fmt: skip


def _begins(e: ir.Exp) -> bool:
    """Whether what vanishes but at some places may begin with the expression."""
    if type(e) is ir.Op:
        return e.op in ("eq", "ne") and e.args[0].type is I64
    return type(e) in (ir.Update, ir.Concat) or type(e) is ir.Scatter and e.width is ONE


def may_sum_one_hot(f: Fun) -> bool:
    """Whether a rule of `HOT_SUMS` and `HOT_BINS` may apply; elements and rows, and loops, count where there are
    tangents (`ir.DERIVED`)."""
    begins = tangents = False
    for s in ir.statements(f.body.stms):
        tangents = tangents or ir.DERIVED in s.attrs
        begins = begins or _begins(s.exp)
        if begins and tangents:
            break
    if not begins:
        return False
    try:
        _Look(tangents).scope(f.body)
    except _Found:
        return True
    return False


__all__ = ["may_sum_one_hot"]
