"""Scalar operations: both modes multiply by the partial derivatives of the operation table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from futad.ad.activity import carries
from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.builder import Builder, Ex
from futad.core.scalarops import FINITE, OPS, STEEP
from futad.core.types import BOOL, Atom, Const, prim_of

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope


def _choice(cond: Ex, seed: Ex, taken: bool) -> Ex:
    """The seed where `cond == taken`, else zero: no 0 * inf for the branch not taken."""
    zero = seed.lift(0)
    return cond.select(seed, zero) if taken else cond.select(zero, seed)


def reinterprets(op: str) -> str | None:
    """The inverse of an operation that only reads a value's bits as another type, None for any other operation.

    These carry derivatives over as they carry values over, so that a program that takes a float apart as an integer
    and puts it together again keeps its derivative.
    """
    if op.startswith("bits_"):
        return f"from_{op}"
    return op.removeprefix("from_") if op.startswith("from_bits_") else None


def _reciprocal(a: Atom) -> float | None:
    """1 / a of a float constant, where neither of the two is zero, infinite or less precise than others."""
    if type(a) is not Const or not a.value:
        return None
    range_ = np.finfo(a.type.dtype)
    usual = all(range_.tiny <= abs(x) <= range_.max for x in (a.value, 1 / a.value))
    return 1 / a.value if usual else None


def scaled(name: str, i: int, args: list[Ex], result: Ex, seed: Ex) -> Ex | None:
    """seed * (partial of operation `name` in argument i), None if that is identically zero.

    Products with a choice, and quotients, are written directly: they are cheaper and do not turn an
    infinite seed into NaN where the partial is zero.  By a constant a seed is multiplied by its reciprocal, rounded,
    and by a reciprocal that the program computes in place of dividing once more.
    """
    if name == "select":
        return None if i == 0 else _choice(args[0], seed, i == 1)
    if name in ("min", "max"):
        return _choice(result.eq(args[0]), seed, i == 0)
    if seed.type.is_float and name == "div":
        if i == 0 and (reciprocal := _reciprocal(args[1].atom)) is not None:
            return seed * reciprocal
        if i == 1 and type(args[0].atom) is Const and args[0].atom.value == 1:
            return -(result * (seed * result))
        return seed / args[1] if i == 0 else -(result * (seed / args[1]))
    if name == "log":
        return seed / args[0]
    p: Any = OPS[name].partial(i, args, result)
    if not isinstance(p, Ex):
        if p == 0:
            return None
        p = result.lift(p)
    if seed.type is BOOL:
        return seed if p.atom == Ex(seed.b, seed.atom).lift(True).atom else seed & p
    return seed * p


def _handles(b: Builder, stm: ir.Stm) -> tuple[list[Ex], Ex]:
    assert isinstance(stm.exp, ir.Op)
    return [b.ex(a) for a in stm.exp.args], b.ex(stm.pat[0])


def _vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Op)
    seed = s.take(stm.pat[0])
    if seed is None:
        return
    if carries(e):
        t, inverse = prim_of(e.args[0]), reinterprets(e.op)
        s.add(e.args[0], s.b.op(inverse, seed) if inverse else s.b.convert(t, seed))
        return
    args, result = _handles(s.b, stm)
    for i, a in enumerate(e.args):
        if s.is_active(a):
            c = scaled(e.op, i, args, result, s.b.ex(seed))
            if c is not None:
                s.add(a, c.atom)


def _jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Op)
    t.b.add(stm)
    if carries(e):
        d = t.of(e.args[0])
        if d is not None:
            t.set(stm.pat[0], t.b.op(e.op, d))
        return
    if OPS[e.op].partials is None:
        return
    if e.op in STEEP:
        t.steep.add(stm.pat[0])
    args, result = _handles(t.b, stm)
    start = len(t.b.stms)
    total: Atom | None = None
    for i, a in enumerate(e.args):
        d = t.of(a)
        if d is None:
            continue
        c = scaled(e.op, i, args, result, t.b.ex(d))
        if c is not None:
            if _singular(t, e, i) and type(d) is not Const:
                c = t.b.ex(d).op("unless_zero", c)
            total = c.atom if total is None else t.b.plus(total, c.atom)
    if total is not None:
        t.set(stm.pat[0], total)
        tangents = {d for a in e.args if (d := t.of(a)) is not None}
        for s in t.b.stms[start:]:
            if isinstance(s.exp, ir.Op) and not tangents.isdisjoint(s.exp.args):
                s.attrs = (ir.DERIVED,)
                tangents.update(s.pat)


def _singular(t: Tangents, e: ir.Op, i: int) -> bool:
    """Whether the derivative by an argument may be infinite where the arguments are finite: a tangent of zero is
    looked for then, as reverse mode has no adjoint where nothing is read.  Not of quotients, which take half as long
    again with it: by zero these are infinite themselves."""
    if not prim_of(e.args[i]).is_float:
        return False
    if e.op == "mul":
        return e.args[1 - i] in t.steep
    return e.op not in FINITE and e.op not in ("div", "mod")


RULES[ir.Op] = Rule(_jvp, _vjp)
