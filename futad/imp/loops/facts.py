"""What transformations of loops ask of one: what iterations declare, move and fold, and how much they compute."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from futad.core.scalarops import OPS
from futad.core.types import I64
from futad.imp import ir
from futad.imp.ir import ZERO, Expr, Num, Ref, add, mul, num, sub
from futad.imp.units import unit_of
from futad.imp.walk import has_load, loads_in, parts, refs, statements

HEAVY = 60  # scalar operations of a straight-line body that is vectorised whatever the C compiler thinks of it
EACH = 16  # such operations that are worth a buffer, through which an element goes to lanes or from there
LANES_COST = 200  # branches of at most this cost are computed on both sides where that keeps a map in vector lanes


class Affine(NamedTuple):
    """scale * (the loop's variable) + constant + invariant"""

    scale: int
    constant: int
    invariant: Expr = ZERO


class LoopFacts:
    """Of a loop with this variable and some statements of its body.

    `inits`: what they declare, with its value, None where that changes or is not known, as it is not of `others`;
    `own`: all variables that may differ between iterations; `inner`: the loops among the statements.
    """

    def __init__(self, var: str, body: Iterable[ir.Stmt], others: Iterable[str] = ()) -> None:
        self.var, self.body = var, list(body)
        self.inits: dict[str, Expr | None] = dict.fromkeys(others)
        self.inits |= {s.name: None if s.mutable else s.init for s in self.body if isinstance(s, ir.Decl)}
        self.own = {var, *self.inits}
        self.inner = [s for s in self.body if isinstance(s, ir.For)]

    def invariant(self, *exprs: Expr | ir.Stmt) -> bool:
        """Whether expressions, or those of statements, are of no variable that differs between iterations."""
        return not any(self.own & refs(e) for e in exprs)

    def place(self, e: Expr) -> Affine | None:
        """An index by how it moves with the loop's variable, None if it does otherwise."""
        match e:
            case Num(value):
                return Affine(0, int(value))
            case Ref(name) if name == self.var:
                return Affine(1, 0)
            case Ref(name) if (init := self.inits.get(name)) is not None:
                return self.place(init)
            case ir.Bin("+" | "*" as op, a, b):
                return self._combined("add" if op == "+" else "mul", a, b)
            case ir.Scalar("add" | "sub" | "mul" as op, (a, b), t) if t is I64 and self.own & refs(e):
                return self._combined(op, a, b)
        return Affine(0, 0, e) if self.invariant(e) and not has_load(e) else None

    def _combined(self, op: str, a: Expr, b: Expr) -> Affine | None:
        x, y = self.place(a), self.place(b)
        if x is None or y is None:
            return None
        if op == "add":
            return Affine(x.scale + y.scale, x.constant + y.constant, add(x.invariant, y.invariant))
        if op == "sub":
            rest = x.invariant if y.invariant == ZERO else sub(x.invariant, y.invariant)
            return Affine(x.scale - y.scale, x.constant - y.constant, rest)
        for factor, term in ((y, x), (x, y)):
            if not factor.scale and factor.invariant == ZERO:
                k = factor.constant
                return Affine(term.scale * k, term.constant * k, mul(term.invariant, num(k)))
        return Affine(0, 0, ir.Bin("*", a, b)) if self.invariant(a, b) and not has_load(a) and not has_load(b) else None

    def beside(self, e: Expr) -> bool:
        """Whether neighbouring iterations have neighbouring places."""
        place = self.place(e)
        return place is not None and place.scale == 1

    def partials(self) -> list[ir.Partial]:
        """The folds of scalars that the iterations continue, each once however often an iteration adds to it."""
        folds = [s for s in self.body if isinstance(s, ir.Accumulate) and s.name not in self.own]
        once = dict.fromkeys((s.name, s.value.type, s.op) for s in folds)
        return [ir.Partial(name, t, op, unit_of(op, t)) for name, t, op in once]


def cost(body: Iterable[ir.Stmt]) -> int:
    """The scalar operations and loads of statements, those nested in them left out."""
    return sum([_cost(e) for s in body for e in s.exprs()])


def _cost(e: Expr) -> int:
    try:
        return e.cost_
    except AttributeError:
        every = parts(e)
        e.cost_ = sum([OPS[x.op].cost if isinstance(x, ir.Scalar) else isinstance(x, ir.Load) for x in every])
        return e.cost_


def bisects(body: list[ir.Stmt]) -> bool:
    """Whether a loop with this body reads in the middle of what its earlier reads have left of an interval.

    Such a search computes little, but each step waits for a read, and a processor guesses half of its branches wrong.
    It takes the logarithm of the interval's length, nearly the same for all searches."""
    every = list(statements(body))
    read: set[str] = set()  # what is computed from reads, or under conditions that are
    before = -1
    while before != len(read):
        before = len(read)
        for s in every:
            if has_load(s) or refs(s) & read:
                read |= {n for t in statements([s]) for n in (*t.defines(), *t.assigns())}
    left = {n for s in every for n in s.assigns()} & read
    halved: set[str] = set()
    for s in every:
        if isinstance(s, ir.Decl) and not s.type.is_bool and not has_load(s) and refs(s) & left:
            left.add(s.name)
            if refs(s) & halved or any(map(_divides, parts(s))):
                halved.add(s.name)
    return any(refs(x.index) & halved for s in every for x in loads_in(s))


def _divides(e: Expr) -> bool:
    return isinstance(e, ir.Scalar) and e.op in ("div", "quot", "shr") and isinstance(e.args[-1], Num)


def rows_apart(s: ir.Store, t: ir.Store) -> bool:
    """Whether two statements add to different rows of one accumulator."""
    if s.row is None or t.row is None or s.row[0] is not t.row[0]:
        return False
    return any(x != y for x, y in zip(s.row[1], t.row[1], strict=False))


__all__ = ["EACH", "HEAVY", "LANES_COST", "Affine", "LoopFacts", "bisects", "cost", "rows_apart"]
