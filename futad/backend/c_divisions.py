"""A quotient and a remainder of the same numbers by one division.

    r = mod(x, y); ... q = div(x, y)   -->   q = div(x, y); r = x - q * y; ...

C compilers find only those next to each other.  By a constant they divide without a division.
"""

from __future__ import annotations

from collections.abc import Collection

from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref

_QUOTIENT = {"mod": "div", "rem": "quot"}


def divided_once(body: list[ir.Stmt], but: Collection[str] = ()) -> list[ir.Stmt]:
    """The statements, with remainders by the quotients that are there as well; the same list if there are none.  `but`:
    types whose division the C compiler sees through."""
    divisions: dict[tuple[str, tuple[Expr, ...]], int] = {}
    for k, s in enumerate(body):
        if isinstance(s, ir.Decl) and isinstance(s.init, ir.Scalar) and not s.mutable and _divides(s.init, but):
            divisions.setdefault((s.init.op, s.init.args), k)
    out: list[ir.Stmt] | None = None
    for (op, args), k in divisions.items():
        at = divisions.get((_QUOTIENT.get(op, ""), args))
        if at is None or any(_may_assign(s, args) for s in body[min(k, at) : max(k, at)]):
            continue
        r, q = body[k], body[at]
        assert isinstance(r, ir.Decl) and isinstance(q, ir.Decl)
        t, (x, y) = q.type, args
        product = ir.Scalar("mul", (Ref(q.name, t), y), t, t)
        remainder = ir.Decl(r.name, t, ir.Scalar("sub", (x, product), t, t))
        out = list(body) if out is None else out
        out[k] = ir.Seq([q, remainder]) if k < at else remainder
        if k < at:
            out[at] = ir.Seq([])
    return body if out is None else out


def _divides(e: ir.Scalar, but: Collection[str]) -> bool:
    """Whether it is a quotient or remainder of integers in variables, by no constant."""
    named = (*_QUOTIENT, *_QUOTIENT.values())
    if (
        e.op not in named
        or not e.type.is_integral
        or e.type.name in but
        or not all(isinstance(a, (Ref, Num)) for a in e.args)
    ):
        return False
    return isinstance(e.args[1], Ref)


def _may_assign(s: ir.Stmt, args: tuple[Expr, ...]) -> bool:
    """Whether the statement may change a variable among `args`."""
    if isinstance(s, (ir.Assign, ir.Accumulate)):
        return any(isinstance(a, Ref) and a.name == s.name for a in args)
    return not isinstance(s, (ir.Decl, ir.Check, ir.Store, ir.Report))


__all__ = ["divided_once"]
