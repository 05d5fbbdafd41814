"""Random instances of a rule's left side: its metavariables become constants, inputs and the results of small programs.

What conditions of rules ask for is made often, and left undone often, so that a condition that a rule lacks is missed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.check import check_program
from futad.core.scalarops import OPS
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Type, Var, elem_of, i64, row_type, shape_of
from futad.errors import InternalError
from futad.rewrite.patterns.infer import USUAL, Cell, NoTypes
from futad.rewrite.patterns.instance import Filling, instance, returning
from futad.rewrite.patterns.syntax import Hole, Scheme, expanded
from futad.testing.rules.values import specials

UNARY = {"float": ("neg", "abs", "sin", "exp"), "int": ("neg", "abs", "not"), "uint": ("not",), "bool": ("not",)}
BINARY = {"float": ("add", "sub", "mul", "div", "max"), "int": ("add", "sub", "mul", "max", "xor"),
          "uint": ("add", "mul", "min", "or"), "bool": ("and", "or", "xor", "eq")}  # fmt: skip


class Random(Filling):
    """Fills in at random; `asked` are the conditions that name each metavariable."""

    def __init__(self, s: Scheme, rng: random.Random) -> None:
        super().__init__(USUAL[0], 0)
        self.rng = rng
        self.asked: dict[str, set[str]] = {}
        self.indices = {getattr(i, "name", "?").lstrip("?"): e.array for t in ir.statements(s.before)
                        for e in [t.exp] if isinstance(e, ir.At | ir.Update) for i in e.index}  # fmt: skip
        for c in s.where:
            for name in c.args:
                self.asked.setdefault(name.lstrip("?"), set()).add(c.name)
        self.operators: dict[str, str] = {}  # of scopes that folds are by, which are associative
        self.starts: dict[str, str] = {}  # of what folds start from, the scope
        for t in ir.statements(s.before):
            if isinstance(t.exp, ir.Reduce | ir.Scan | ir.Hist) and isinstance(t.exp.lam, Hole):
                self.operators[t.exp.lam.name] = ""
                self.starts |= {a.name.lstrip("?"): t.exp.lam.name for a in t.exp.neutral if isinstance(a, Var)}
                for ne in t.exp.neutral:
                    if isinstance(ne, Const):
                        self.operator(t.exp.lam.name, ne.type, ne.value)
        self.made: list[Var] = []
        self.owned: list[Var] = []  # arrays that may be overwritten

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, c: Cell) -> None:
        if c.some:
            c.value = self.rng.choice([t for t in USUAL if t in c.some] or c.some)
        else:
            c.value = () if self.chance(0.75) else (i64(self.rng.choice([2, 2, 3])),)

    def size(self, name: str) -> Atom:
        if self.params and self.chance(0.25):
            return self.rng.choice(self.params)
        if self.chance(0.15):
            return i64(self.rng.choice([0, 1, 2, 7]))
        n = super().size(name)
        assert isinstance(n, Var)
        self.made.append(n)
        return n

    def operator(self, name: str, t: Type, start: object = None) -> str:
        """The operation that a fold is by, chosen when it is first asked; `start` is what the fold starts from."""
        if not isinstance(t, Prim):
            raise NoTypes("folds of rows")
        if not self.operators[name]:
            fit = [n for n, o in OPS.items() if o.associative and t in o.types and (o.unit or o.start)]
            fit = [n for n in fit if start is None or OPS[n].neutral(t) == start]
            if not fit:
                raise NoTypes("no operation starts from that")
            self.operators[name] = self.rng.choice(fit)
        return self.operators[name]

    def value(self, name: str, t: Type, inside: Sequence[Atom]) -> Atom:
        if name in self.starts:
            elem = elem_of(t)
            return Const(elem, OPS[self.operator(self.starts[name], t)].neutral(elem))
        near = [a for a in inside if a.type == t]
        if near and self.chance(0.5):
            return self.rng.choice(near)
        known = [v for v in self.made if v.type == t]
        if known and self.chance(0.2):
            return self.rng.choice(known)
        out = self.array(name, t) if isinstance(t, ArrayType) else self.scalar(name, elem_of(t))
        if isinstance(out, Var):
            self.made.append(out)
        return out

    def scalar(self, name: str, t: Prim) -> Atom:
        asked = self.asked.get(name, set())
        if self.chance(0.7 if "const" in asked else 0.2):
            return Const(t, self.rng.choice(specials(t)))
        x = self.input(name, t)
        sizes = [v for v in self.params if v in self.made]
        if t is I64 and sizes and (name in self.indices or "within" in asked) and self.chance(0.7):
            return self.b.op("mod", x, self.rng.choice(sizes), hint=name)
        if self.chance(0.2):
            return self.b.op(self.rng.choice(UNARY[t.kind]), x, hint=name)
        return x

    def array(self, name: str, t: ArrayType) -> Var:
        b = self.b
        if t.elem is I64 and t.rank == 1 and self.chance(0.8 if "iota" in self.asked.get(name, ()) else 0.25):
            start, step = (ZERO, ONE) if self.chance(0.7) else (i64(self.rng.choice([1, -1, 2])), ONE)
            return b.let(ir.Iota(t.shape[0], start, step), name)
        if self.chance(0.1):
            return b.let(ir.Replicate(t.shape, self.value("v", t.elem, ())), name)
        v = self.input(name, t)
        if self.chance(0.3):
            lam = b.lambda_([("e", row_type(t))], lambda inner, e: [self.step(inner, e, [e])])
            return b.let(ir.Map(t.shape[0], (v,), lam), name)
        if self.chance(0.4):
            v = b.let(ir.Copy(v), name)
            self.owned.append(v)
        return v

    # -- scopes

    def step(self, b: Builder, x: Atom, others: Sequence[Atom]) -> Atom:
        """Something of the type of `x` that is made of it, and of others of its type."""
        if isinstance(x.type, ArrayType):
            if self.chance(0.5):
                return x
            row = row_type(x.type)
            lam = b.lambda_([("e", row)], lambda inner, e: [self.step(inner, e, [e])])
            return b.let(ir.Map(shape_of(x.type)[0], (x,), lam), "r")
        t = elem_of(x.type)
        if self.chance(0.4):
            return b.op(self.rng.choice(UNARY[t.kind]), x)
        like = [a for a in others if a.type is t] + [Const(t, self.rng.choice(specials(t)))]
        made = b.op(self.rng.choice(BINARY[t.kind]), x, self.rng.choice(like))
        return made if made.type is t else x

    def scope(self, name: str, params: Sequence[Type], results: Sequence[Type], inside: Sequence[Atom]) -> ir.Lambda:
        if name in self.operators:
            op = self.operator(name, results[0])
            if len(results) != 1:
                raise NoTypes("folds of several arrays")
            return self.b.lambda_([("x", t) for t in params], lambda b, x, y: [b.op(op, x, y)])
        outside = [v for v in self.made if self.chance(0.5)]

        def body(b: Builder, *xs: Var) -> list[Atom]:
            pool: list[Atom] = [*xs, *xs, *outside, *inside]
            out: list[Atom] = []
            for t in results:
                like = [a for a in pool if a.type == t]
                if not like:
                    scalars = [a for a in xs if isinstance(a.type, Prim)]
                    if isinstance(t, Prim) and scalars:
                        made: Atom = b.convert(t, self.rng.choice(scalars))
                    else:
                        made = b.zeros(t)
                else:
                    made = self.rng.choice(like)
                for _ in range(self.rng.choice([0, 1, 1, 2])):
                    made = self.step(b, made, [a for a in pool if a.type == t])
                out.append(made)
            return out

        return self.b.lambda_([("x", t) for t in params], body)


def random_instance(s: Scheme, rng: random.Random) -> ir.Program | None:
    """A program in which the left side of a rule stands; None if this attempt makes none."""
    f = Random(s, rng)
    try:
        made = instance(expanded(s, rng.choice([1, 2, 2, 3])), f)
    except NoTypes:
        return None
    stms = list(made.stms)
    values: list[Atom] = [v for t in stms for v in t.pat]
    if rng.random() < 0.5:  # what nothing else needs is the rule's to keep or not
        values = list(made.stms[-1].pat)
    # An array that is overwritten before the root, or after it.
    arrays = [v for v in (*f.owned, *made.stms[-1].pat) if isinstance(v.type, ArrayType)]
    if arrays and rng.random() < 0.5:
        a = rng.choice(arrays)
        more, new = overwrite(a, rng)
        at = len(stms) - 1 if a in f.owned and rng.random() < 0.5 else len(stms)
        changed = [*stms[:at], *more, *stms[at:]]
        kept = [new if v is a else v for v in values] if at == len(stms) else [*values, new]
        p = _program(made.params, made.sizes, (*made.before, *changed), kept)
        try:
            check_program(p)
            return p
        except InternalError:
            pass
    return _program(made.params, made.sizes, (*made.before, *stms), values)


def overwrite(a: Var, rng: random.Random) -> tuple[list[ir.Stm], Var]:
    """Statements that overwrite an array's first element, if it has one: the array afterwards."""
    assert isinstance(a.type, ArrayType)
    b = Builder()
    one = Const(a.type.elem, 1)
    t = row_type(a.type)
    n = a.type.shape[0]
    some = b.op("lt", ZERO, n)

    def change(inner: Builder) -> list[Atom]:
        value = inner.let(ir.Replicate(shape_of(t), one)) if isinstance(t, ArrayType) else one
        return [inner.let(ir.Update(a, (ZERO,), value), "up")]

    (new,) = b.emit(ir.If(some, b.body(change), b.body(lambda inner: [a])), "new", types=[a.type])
    return b.stms, new


def _program(params: Sequence[Var], sizes: int, stms: Sequence[ir.Stm], values: Sequence[Atom]) -> ir.Program:
    fun = returning(params, stms, values, sizes)
    return ir.Program({fun.name: fun})


__all__ = ["overwrite", "random_instance"]
