"""A few results that are sums of products of as many unknowns with what is known: solved by Cramer's rule.

A rotation by a known angle, a Givens step, a shear: x' = c x - s y, y' = s x + c y.  Where the determinant is 0 the
values are infinite, or no numbers, and the check of what comes back fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from futad.ad.inverse.solver import STUCK, Solver
from futad.core import ir
from futad.core.builder import Builder, Ex
from futad.core.types import Atom, Const, Prim, Var, zero

MOST = 3  # unknowns of a system
DEPTHS = (12, 5, 4, 3, 2, 1)  # operations that are looked through; what is then left is an unknown


@dataclass(slots=True)
class Form:
    """The sum of a constant and of products of unknowns with factors; None for 0."""

    constant: Ex | None
    factors: dict[Var, Ex]

    @property
    def tells(self) -> bool:
        """Whether no unknown has the factor 0: `x + 1 * (y - x)` tells nothing of x."""
        return all(c.atom is not zero(c.type) for c in self.factors.values())

    def plus(self, other: Form, minus: bool = False) -> Form:
        factors = dict(self.factors)
        for v, c in other.factors.items():
            total = _sum(factors.get(v), c, minus)
            assert total is not None
            factors[v] = total
        return Form(_sum(self.constant, other.constant, minus), factors)

    def scaled(self, by: Ex, divide: bool = False) -> Form:
        def of(c: Ex) -> Ex:
            return c / by if divide else c * by

        return Form(None if self.constant is None else of(self.constant), {v: of(c) for v, c in self.factors.items()})


def _sum(x: Ex | None, y: Ex | None, minus: bool) -> Ex | None:
    if y is None:
        return x
    if minus and type(y.atom) is Const:
        y, minus = Ex(y.b, Const(y.type, -y.atom.value)), False
    if x is None:
        return -y if minus else y
    if type(x.atom) is Const and type(y.atom) is Const and x.atom.value == -y.atom.value:
        return Ex(x.b, zero(x.type))
    return x - y if minus else x + y


def _form(s: Solver, b: Builder, a: Atom, depth: int) -> Form:
    known = s.value(a)
    if known is not None:
        return Form(Ex(b, known), {})
    assert isinstance(a, Var)
    e = s.made[a].exp if a in s.made else None  # what scopes around make is an unknown, or known
    if isinstance(e, ir.Op) and depth and e.op in ("add", "sub", "mul", "div", "neg"):
        parts = [_form(s, b, x, depth - 1) for x in e.args]
        if e.op in ("add", "sub"):
            return parts[0].plus(parts[1], e.op == "sub")
        if e.op == "neg":
            return Form(None, {}).plus(parts[0], True)
        for k, (x, y) in enumerate((parts, parts[::-1])):
            if not y.factors and y.constant is not None and (e.op == "mul" or k == 0):
                return x.scaled(y.constant, e.op == "div")
    return Form(None, {a: Ex(b, Const(_prim(a), 1))})


def _prim(a: Atom) -> Prim:
    assert isinstance(a.type, Prim)
    return a.type


def _systems(s: Solver) -> bool:
    """Solve one system of floats, if there is one; whether there was."""
    return s.rounding and any(_system(s, depth) for depth in DEPTHS)


def _system(s: Solver, depth: int) -> bool:
    equations: list[tuple[Form, Atom, ir.Stm]] = []
    for stm in s.stms:
        e = stm.exp
        r = s.known.get(stm.pat[0]) if stm.pat else None
        if r is None or not isinstance(e, ir.Op) or not isinstance(r.type, Prim) or not r.type.is_float:
            continue
        if e.op in ("add", "sub", "mul", "div", "neg") and any(s.value(a) is None for a in e.args):
            form = _of(s, e, depth)
            if form is not None and 0 < len(form.factors) <= MOST and form.tells:
                equations.append((form, r, stm))
    for form, _, _ in equations:
        unknowns = list(form.factors)
        mine = [q for q in equations if set(q[0].factors) <= set(unknowns)][: len(unknowns)]
        if len(mine) == len(unknowns):
            _cramer(s, unknowns, mine)
            return True
    return False


def _of(s: Solver, e: ir.Op, depth: int) -> Form | None:
    """The form of a statement's expression, whose own result is known."""
    b = Builder()
    v = b.op(e.op, *e.args)
    s.made[v] = b.stms[0]
    s.inside.add(v)
    form = _form(s, s.b, v, depth)
    del s.made[v]
    s.inside.discard(v)
    return None if v in form.factors else form


def _cramer(s: Solver, unknowns: list[Var], equations: list[tuple[Form, Atom, ir.Stm]]) -> None:
    t = _prim(unknowns[0])
    zero = Ex(s.b, Const(t, 0))
    rows = [[f.factors.get(v, zero) for v in unknowns] for f, _, _ in equations]
    right = [Ex(s.b, r) if f.constant is None else Ex(s.b, r) - f.constant for f, r, _ in equations]
    whole = _determinant(rows)
    for k, v in enumerate(unknowns):
        with_right = [[*row[:k], c, *row[k + 1 :]] for row, c in zip(rows, right, strict=True)]
        s.learn(v, (_determinant(with_right) / whole).atom)
    for _, _, stm in equations:
        s.also(stm)


def _determinant(m: list[list[Ex]]) -> Ex:
    if len(m) == 1:
        return m[0][0]
    total = m[0][0] * _determinant([row[1:] for row in m[1:]])
    for k in range(1, len(m)):
        part = m[0][k] * _determinant([[*row[:k], *row[k + 1 :]] for row in m[1:]])
        total = total - part if k % 2 else total + part
    return total


STUCK.append(_systems)
