"""Values that are compared with what they were chosen from, as an extremum is with each element to find its place.

Such a comparison is true only while both sides have the same bits.  One and the same value has; the same computation
done twice may not: a C compiler contracts a product and a sum in one loop and not in another one, a library's function
for vector lanes is another one than that for scalars, and a sum depends on its order.

Note [Compared]
A value is *chosen* if it is one of several others as it is: by `min`, `max`, `select`, a branch, a fold of these.
Where floats are compared of which one was chosen, both, and what they are as they are (arguments of what chooses,
elements of arrays, variables of loops) are compared.  Too many are: what is not looked into is all its operands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import Atom, Type, Var, elem_of

# Operations of floats that give the same bits wherever they are computed; products unless they contract with a sum.
CHOICES = frozenset(("min", "max", "select"))
MOVES = CHOICES | frozenset("neg abs sgn floor ceil round trunc copysign stop_gradient".split())
EXACT = MOVES | frozenset("add sub mul rounded_mul div mod sqrt fma eq ne lt le isnan isinf signbit".split())
COMPARISONS = frozenset("eq ne lt le".split())


class Compared:
    """What a scope, those inside included, compares (Note [Compared])."""

    def __init__(self, lam: Lambda) -> None:
        self.same: defaultdict[Var, list[Atom]] = defaultdict(list)  # what a value is as it is, if it is one of these
        self.of: defaultdict[Var, list[Atom]] = defaultdict(list)  # what it is computed from
        self.ops: dict[Var, Stm] = {}
        self.chosen: set[Var] = set()
        self.varies: set[Var] = set()  # of which the bits depend on where they are computed
        self.comparisons: list[tuple[Var, Var]] = []
        if any(map(_compares, ir.statements(lam.stms))):
            self._scope(lam)

    @cached_property
    def values(self) -> set[Var]:
        """The values that are compared."""
        pairs = [(self.closure([a]), self.closure([b])) for a, b in self.comparisons]
        return {v for x, y in pairs if not self.chosen.isdisjoint(x | y) for v in x | y}

    def closure(self, atoms: Iterable[Atom]) -> set[Var]:
        """The variables, and those that they are as they are."""
        return _reached(atoms, self.same)

    def differs(self, v: Var) -> bool:
        """Whether `v` is compared, and may have other bits where it is computed again."""
        return v in self.values and not self.varies.isdisjoint(_reached([v], self.same, self.of))

    def origins_differ(self, v: Var) -> bool:
        """Whether `v` is compared, and what it was chosen from may have other bits where it is computed again."""
        if v not in self.values:
            return False
        origins = [u for u in self.closure([v]) if u is not v and u not in self.same]
        return not self.varies.isdisjoint(_reached(origins, self.same, self.of))

    def products(self) -> set[Var]:
        """The products that a sum adds of which compared values are computed by scalar operations."""
        found: set[Var] = set()
        todo, seen = [*self.values], set[Var]()
        while todo:
            v = todo.pop()
            if v in seen or v not in self.ops:
                continue
            seen.add(v)
            e = self.ops[v].exp
            todo += [a for a in e.operands() if type(a) is Var]
            if type(e) is ir.Op and e.op in ("add", "sub") and _float(v.type):
                found |= {u for u in self.closure(e.args) if u in self.ops and _is_product(self.ops[u])}
        return found

    # -- what the statements say

    def _scope(self, lam: Lambda) -> None:
        for s in lam.stms:
            self._statement(s)
            for inner in s.exp.lambdas():
                self._scope(inner)

    def _statement(self, s: Stm) -> None:
        e = s.exp
        match e:
            case ir.Op(op, args):
                self._operation(s, op, args)
            case ir.Screma():
                self._screma(s, e)
            case ir.For(_, inits, body):
                self._loop(s, inits, body.params[1:], body.result)
            case ir.While(inits, body):
                self._loop(s, inits, body.params, body.result)
            case ir.If(_, then, orelse):
                for v, a, b in zip(s.pat, then.result, orelse.result, strict=True):
                    self._is(v, a, b)
                    self.chosen.add(v)
            case ir.MatMul() | ir.Contraction():
                self._of(s.pat, e.operands())
                self.varies.update(s.pat)
            case _:
                inner = [r for lam in e.lambdas() for r in lam.result]
                for v in s.pat:
                    self._is(v, *e.operands(), *inner)
                for lam in e.lambdas():
                    for p in lam.params:
                        self._is(p, *e.operands())

    def _operation(self, s: Stm, op: str, args: tuple[Atom, ...]) -> None:
        (v,) = s.pat
        self.ops[v] = s
        self._of(s.pat, args)
        if op in MOVES:
            self._is(v, *(args[1:] if op == "select" else args))
        if op in CHOICES:
            self.chosen.add(v)
        if op not in EXACT and _float(v.type) and not op.startswith(("to_", "from_bits", "bits_")):
            self.varies.add(v)
        if _compares(s):
            x, y = args
            assert isinstance(x, Var) and isinstance(y, Var)
            self.comparisons.append((x, y))

    def _screma(self, s: Stm, e: ir.Screma) -> None:
        lam = e.mapper
        if lam is not None:
            for p, a in zip(lam.params, e.arrays, strict=True):
                self._is(p, a)
        pat, inputs = e.parts(s.pat), e.parts(e.arrays if lam is None else lam.result)
        for v, a in zip((*pat.accs, *pat.mapped), (*inputs.accs, *inputs.mapped), strict=True):
            self._is(v, a)
        for f, vs, arrays in zip(e.folds, pat.scans + pat.reduces, inputs.scans + inputs.reduces, strict=True):
            if _chooses(f.lam):
                k = len(f)
                for j, v in enumerate(vs):
                    self._is(v, arrays[j], f.neutral[j], f.lam.result[j])
                    self._is(f.lam.params[j], arrays[j], f.neutral[j], f.lam.result[j])
                    self._is(f.lam.params[k + j], arrays[j])
            else:
                self._of(vs, (*arrays, *f.neutral))
                self.varies.update(vs)

    def _loop(self, s: Stm, inits: tuple[Atom, ...], params: tuple[Var, ...], results: tuple[Atom, ...]) -> None:
        for v, p, a, r in zip(s.pat, params, inits, results, strict=True):
            self._is(v, a, r)
            self._is(p, a, r)

    def _is(self, v: Var, *atoms: Atom) -> None:
        if _float(v.type):
            self.same[v] += [a for a in atoms if type(a) is Var and _float(a.type)]

    def _of(self, pat: Iterable[Var], atoms: Iterable[Atom]) -> None:
        for v in pat:
            if _float(v.type):
                self.of[v] += [a for a in atoms if type(a) is Var and _float(a.type)]


def _compares(s: Stm) -> bool:
    """Whether two floats are compared, neither of them a constant."""
    e = s.exp
    if type(e) is not ir.Op or e.op not in COMPARISONS:
        return False
    return type(e.args[0]) is Var and type(e.args[1]) is Var and _float(e.args[0].type)


def _is_product(s: Stm) -> bool:
    return type(s.exp) is ir.Op and s.exp.op == "mul"


def _chooses(lam: Lambda) -> bool:
    """Whether an operator makes no floats but by choosing.  An assertion in it makes nothing."""
    made = [s for s in lam.stms if s.pat]
    return all(type(s.exp) is ir.Op and (s.exp.op in MOVES or not _float(s.pat[0].type)) for s in made)


def _reached(atoms: Iterable[Atom], *edges: dict[Var, list[Atom]]) -> set[Var]:
    out: set[Var] = set()
    todo = [a for a in atoms if type(a) is Var]
    while todo:
        v = todo.pop()
        if v not in out:
            out.add(v)
            todo += [a for way in edges for a in way.get(v, ()) if type(a) is Var]
    return out


def _float(t: Type) -> bool:
    return elem_of(t).is_float


__all__ = ["Compared"]
