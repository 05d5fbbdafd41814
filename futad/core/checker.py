"""The checker of the core IR: scopes, types and consumption; what constructs must be is in `check_rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from futad.core import ir
from futad.core.callgraph import recursive
from futad.core.scalarops import OPS, folded
from futad.core.text import Printer
from futad.core.type_rules import exp_types
from futad.core.types import (
    I64,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    elem_of,
    row_type,
    shape_of,
    subst_type,
)
from futad.errors import InternalError
from futad.registry import registering

_SHOWN = 400  # characters of a statement in a message
# What Python raises where the rules look for what is not there.
MALFORMED = (LookupError, AssertionError, TypeError, ValueError, AttributeError)


class Failure(Exception):
    """A violated rule; `Checker.stm` adds where."""


def fail(message: str) -> NoReturn:
    raise Failure(message)



class Checker:
    def __init__(self, p: ir.Program, pass_name: str | None) -> None:
        self.program = p
        self.pass_name = pass_name
        self.done: dict[str, ir.Fun] = {}
        self.bound: set[Var] = set()  # in this function
        self.elsewhere: set[Var] = set()  # in those before it
        self.called: dict[str, ir.Fun] = {}  # by this function
        self.seen: dict[str, tuple[ir.Fun, set[Var], dict[str, ir.Fun]]] = {}  # what is right, binds and calls
        self.scope: set[Var] = set()
        self.canon: dict[Var, Atom] = {}  # sizes that equal an earlier atom
        self.numbers: dict[tuple[Any, ...], Atom] = {}  # i64 operations seen
        self.accs: set[Var] = set()  # accumulators in scope and not yet used
        self.root: dict[Var, Var] = {}  # views: the array they look into
        self.dead: dict[Var, str] = {}  # roots consumed so far on this path
        self.outer: set[Var] | None = None  # inside a repeated scope: the arrays of outside
        self.where = ""
        self.cycles: frozenset[str] | None = None  # the functions on cycles of calls, once asked for

    # -- scopes

    def known(self, f: ir.Fun, before: Checker) -> bool:
        """Whether `before` has seen the function, and those that it calls; then it is right here, too."""
        seen = before.seen.get(f.name)
        if seen is None or seen[0] is not f or f.name in self.done or not self.elsewhere.isdisjoint(seen[1]):
            return False
        if any(self.program.funs.get(name) is not g for name, g in seen[2].items()):
            return False
        self.elsewhere |= seen[1]
        self.done[f.name], self.seen[f.name] = f, seen
        return True

    def recursive(self, name: str) -> ir.Fun | None:
        """A function that is called before it has been seen: one on a cycle of calls."""
        if self.cycles is None:
            self.cycles = recursive(self.program)
        return self.program.funs[name] if name in self.cycles else None

    def fun(self, f: ir.Fun) -> None:
        self.where = f"function {f.name}"
        self.scope, self.accs, self.dead, self.outer = set(), set(), {}, None
        self.bound, self.called = set(), {}
        try:
            self.bind(f.body.params)
            if len(f.body.params) < f.num_sizes or any(v.type is not I64 for v in f.body.params[: f.num_sizes]):
                fail(f"its first {f.num_sizes} parameters are not i64 sizes")
            before = set(self.scope)
            for v in f.ret:
                self.type_(v.type)
                self.scope.add(v)
            self.scope = before
            self.stms(f.body.stms)
            self.results(f.body)
            self.existential("result", f.ret, f.body.result)
        except Failure as e:
            self.report(f"{e}", None)
        except MALFORMED as e:
            self.report(f"malformed: {type(e).__name__} {e}", None)
        if self.done.get(f.name) is not None or self.program.funs.get(f.name) is not f:
            self.report("it is defined under another name", None)
        self.done[f.name] = f
        self.elsewhere |= self.bound
        self.seen[f.name] = f, self.bound, self.called

    def report(self, message: str, stm: ir.Stm | None) -> NoReturn:
        text = f"after {self.pass_name}, " if self.pass_name else ""
        text += f"{self.where}: {message}"
        if stm is not None:
            shown = Printer().stm(stm)
            text += "\nin  " + (shown if len(shown) <= _SHOWN else shown[:_SHOWN] + " ...")
        raise InternalError(text)

    def stms(self, stms: Iterable[ir.Stm]) -> None:
        for s in stms:
            try:
                self.stm(s)
            except Failure as e:
                self.report(str(e), s)
            except MALFORMED as e:
                self.report(f"malformed: {type(e).__name__} {e}", s)

    def stm(self, s: ir.Stm) -> None:
        e = s.exp
        if s.grid is not None:
            RULES[type(s.grid)](self, s.grid, s)
        rule = RULES.get(type(e))
        if rule is None:
            fail(f"no rule for {type(e).__name__}")
        for a in e.operands():
            self.use(a)
        existential = rule(self, e, s)
        self.consume(e)
        self.bind(s.pat)
        if existential is None:
            types = exp_types(e)
            if len(types) != len(s.pat):
                fail(f"binds {len(s.pat)} variables for {len(types)} results")
            for v, t in zip(s.pat, types, strict=True):
                self.same(v, v.type, t)
        else:
            for results in existential:
                self.existential("result", s.pat, results)
        self.learn(s)

    def lam(self, lam: ir.Lambda, once: bool = False, adds: bool = False) -> None:
        """A nested scope; `once` if it runs at most once.  Any other consumes no array from outside, and uses no
        accumulator unless it `adds`."""
        accs, dead, outer = self.accs, dict(self.dead), self.outer
        before = set(self.accs)
        if not once:
            if not adds:
                self.accs = set()
            self.outer = set()
        self.bind(lam.params)
        self.stms(lam.stms)
        self.results(lam)
        own = {v for v in self.accs if v not in before}
        if own:
            fail(f"accumulator {sorted(map(repr, own))[0]} is not used")
        self.scope.difference_update(lam.params)
        for s in lam.stms:
            self.scope.difference_update(s.pat)
        if not once:
            self.dead = dead
            if not adds:
                self.accs = accs
        self.outer = outer

    def results(self, lam: ir.Lambda) -> None:
        for a in lam.result:
            self.use(a)

    def bind(self, vs: Sequence[Var]) -> None:
        for v in vs:
            if type(v) is not Var:
                fail(f"{v!r} is bound but is not a variable")
            if v in self.bound or v in self.elsewhere:
                fail(f"{v!r} is bound twice")
            self.type_(v.type)
            self.bound.add(v)
            self.scope.add(v)
            if type(v.type) is AccType:
                self.accs.add(v)
            elif type(v.type) is ArrayType and self.outer is not None:
                self.outer.add(v)

    def use(self, a: Atom) -> None:
        if type(a) is Const:
            return
        if type(a) is not Var:
            fail(f"operand {a!r} is not an atom")
        if a not in self.scope:
            fail(f"{a!r} is not in scope")
        t = a.type
        if type(t) is AccType:
            if a not in self.accs:
                fail(f"accumulator {a!r} is used twice, or in a scope that runs more than once")
            self.accs.discard(a)
        elif type(t) is ArrayType and self.dead:
            how = self.dead.get(self.root.get(a, a))
            if how is not None:
                fail(f"{a!r} is used after {how}")

    def type_(self, t: Type) -> None:
        if type(t) is Prim:
            return
        for s in shape_of(t):
            if s.type is not I64:
                fail(f"size {s!r} of type {s.type}, not i64")
            if type(s) is Var and s not in self.scope:
                fail(f"size {s!r} is not in scope")

    # -- consumption and equal sizes

    def consume(self, e: ir.Exp) -> None:
        for a in e.consumes():
            if type(a) is not Var:
                continue
            root = self.root.get(a, a)
            if root in self.dead:
                fail(f"{a!r} is consumed after {self.dead[root]}")
            if self.outer is not None and root not in self.outer:
                fail(f"{a!r} is consumed in a scope that may run more than once")
            self.dead[root] = f"{a!r} was consumed"

    def learn(self, s: ir.Stm) -> None:
        e = s.exp
        for v, src in zip(s.pat, e.views(), strict=False):
            if type(v.type) is ArrayType and type(src) is Var:
                self.root[v] = self.root.get(src, src)
        if len(s.pat) == 1 and s.pat[0].type is I64:
            (v,) = s.pat
            if isinstance(e, ir.Alias):
                self.canon[v] = self.resolve(e.atom)
            elif isinstance(e, ir.Op):
                args = [self.resolve(a) for a in e.args]
                constant = folded(e.op, args)
                if constant is not None:
                    self.canon[v] = constant
                    return
                if OPS[e.op].commutative:
                    args.sort(key=id)
                self.canon[v] = self.numbers.setdefault((e.op, *args), v)

    def resolve(self, a: Atom) -> Atom:
        return self.canon.get(a, a) if type(a) is Var else a

    # -- types

    def equal(self, a: Type, b: Type) -> bool:
        if a is b:
            return True
        if type(a) is not type(b) or type(a) is Prim or elem_of(a) is not elem_of(b):
            return False
        x, y = shape_of(a), shape_of(b)
        return len(x) == len(y) and all(
            [p is q or self.resolve(p) is self.resolve(q) for p, q in zip(x, y, strict=True)]
        )

    def same(self, what: object, got: Type, want: Type) -> None:
        if not self.equal(got, want):
            fail(f"{what} has type {got!r}, not {want!r}")

    def is_a(self, what: str, a: Atom, want: Type) -> None:
        self.same(f"{what} {a!r}", a.type, want)

    def existential(self, what: str, pat: Sequence[Var], values: Sequence[Atom]) -> None:
        """`values` have the types of `pat`, sizes bound by `pat` itself standing for the values."""
        if len(pat) != len(values):
            fail(f"{len(values)} {what}s for {len(pat)}")
        mapping: dict[Var, Atom] = dict(zip(pat, values, strict=True))
        for v, a in zip(pat, values, strict=True):
            self.same(f"{what} {a!r} for {v!r}", a.type, subst_type(v.type, mapping))

    def params(self, lam: ir.Lambda, types: Sequence[Type]) -> None:
        if len(lam.params) != len(types):
            fail(f"a scope of {len(lam.params)} parameters where {len(types)} are passed")
        for v, t in zip(lam.params, types, strict=True):
            self.same(f"parameter {v!r}", v.type, t)

    def returns(self, lam: ir.Lambda, types: Sequence[Type]) -> None:
        if len(lam.result) != len(types):
            fail(f"a scope of {len(lam.result)} results where {len(types)} are expected")
        for a, t in zip(lam.result, types, strict=True):
            self.is_a("result", a, t)

    def rows(self, arrays: Sequence[Atom], width: Atom) -> list[Type]:
        """Row types of arrays of outer size `width`; accumulators as they are."""
        self.is_a("width", width, I64)
        out: list[Type] = []
        for a in arrays:
            if type(a.type) is AccType:
                out.append(a.type)
                continue
            if type(a.type) is not ArrayType:
                fail(f"{a!r} is not an array")
            if self.resolve(a.type.shape[0]) is not self.resolve(width):
                fail(f"{a!r} of type {a.type!r} in a construct of width {width!r}")
            out.append(row_type(a.type))
        return out

    def operator(self, lam: ir.Lambda, neutral: ir.Atoms, rows: Sequence[Type]) -> None:
        """An operator on values of the row types, with neutral elements."""
        if len(neutral) != len(rows):
            fail(f"{len(neutral)} neutral elements for {len(rows)} values")
        for a, t in zip(neutral, rows, strict=True):
            self.is_a("neutral element", a, t)
        self.params(lam, [*rows, *rows])
        self.lam(lam)
        self.returns(lam, rows)


Existential = list[Sequence[Atom]] | None
RULES: dict[type, Callable[[Checker, Any, ir.Stm], Existential]] = {}
rule = registering(RULES)
