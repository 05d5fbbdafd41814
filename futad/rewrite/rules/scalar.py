"""Rules on scalar operations.

Floats keep their meaning, NaN and infinities included: `x * 0.0` and `x - x` stay.  One exception: `x + 0.0`
becomes `x`, which differs only when x is -0.0 (the sum is +0.0); differentiated programs add to zero
everywhere, and no derivative depends on the sign of a zero adjoint.
"""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.ir import Stm
from futad.core.scalarops import OPS, folded
from futad.core.types import BOOL, FALSE, I64, TRUE, Atom, Const, Var, one, prim_of, zero
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.strategy import Result, op_rule, rule

LEGAL = Legality("solved", "what an operation was solved for is not computed again", fires=False)
MARKED = LEGAL.condition("marked as solution", "x - c + c differs from x by round-off")
_OPPOSITE = {"add": "sub", "sub": "add", "mul": "div", "div": "mul"}


def alias(stm: Stm, a: Atom) -> list[Stm]:
    """The single variable of `stm` becomes `a`."""
    return [Stm(stm.pat, ir.Alias(a))]


def becomes(stm: Stm, op: str, *args: Atom) -> list[Stm]:
    """The single variable of `stm` becomes another operation."""
    return [Stm(stm.pat, ir.Op(op, args), stm.attrs)]


def op_of(ctx: Context, a: Atom) -> ir.Op | None:
    """The scalar operation that defines `a`, if one does."""
    e = ctx.exp(a)
    return e if type(e) is ir.Op else None








@rule(ir.Op, constant=True)
def fold(stm: Stm, ctx: Context) -> Result:
    """`add 1 2` -> `3`; a division by a constant zero stays."""
    e = stm.exp
    assert type(e) is ir.Op
    c = folded(e.op, e.args)
    return None if c is None else alias(stm, c)


@op_rule(*[name for name, record in OPS.items() if record.unit], changes=("zeros",), constant=True)
def unit(stm: Stm, ctx: Context) -> Result:
    """`x + 0` -> `x`, `x * 1` -> `x`, `x or false` -> `x`, `x and true` -> `x`, `x & -1` -> `x` (either side)."""
    e: Any = stm.exp
    value = OPS[e.op].unit
    assert value is not None
    x, y = e.args
    if type(y) is Const and y.value == value(y.type):
        return alias(stm, x)
    return alias(stm, y) if type(x) is Const and x.value == value(x.type) else None


@op_rule(*[name for name, record in OPS.items() if record.absorber], constant=True)
def absorb(stm: Stm, ctx: Context) -> Result:
    """`x * 0` -> `0` on integers (a float x may be NaN), `x and false` -> `false`, `x or true` -> `true`,
    `x | -1` -> `-1`."""
    e: Any = stm.exp
    value = OPS[e.op].absorber
    assert value is not None
    for y in e.args:
        if type(y) is Const and not y.type.is_float and y.value == value(y.type):
            return alias(stm, y)
    return None


@op_rule("sub", "div", "quot", "pow", "mod", "rem", "shl", "shr", "ushr", constant=True)
def right_unit(stm: Stm, ctx: Context) -> Result:
    """`x - 0` -> `x`, `x / 1` -> `x`, `x ** 1` -> `x`, `x ** 2` -> `x * x`, `x << 0` -> `x`, `x % 1` -> `0`,
    `0 - x` -> `-x` (floats: `-0.0 - x`)."""
    e: Any = stm.exp
    x, y = e.args
    if e.op == "sub" and type(x) is Const and x.value == 0 and (not x.type.is_float or str(x.value)[0] == "-"):
        return becomes(stm, "neg", y)
    if type(y) is not Const:
        return None
    if e.op in ("sub", "shl", "shr", "ushr"):
        return alias(stm, x) if is_const(y, 0) else None
    if not is_const(y, 1):
        return becomes(stm, "mul", x, x) if e.op == "pow" and is_const(y, 2) else None
    if e.op in ("mod", "rem"):
        return alias(stm, zero(y.type)) if y.type.is_integral else None
    return alias(stm, x)


@op_rule("sub", "xor", "and", "or", "min", "max", "eq", "ne", "le", "lt")
def same(stm: Stm, ctx: Context) -> Result:
    """`x - x` -> `0` (not on floats), `x and x` -> `x`, `min x x` -> `x`, `x == x` -> `true` (not on floats)."""
    e: Any = stm.exp
    x, y = e.args
    if x is not y:
        return None
    if e.op in ("and", "or", "min", "max"):
        return alias(stm, x)
    if e.op == "lt":
        return alias(stm, FALSE)
    if prim_of(x).is_float:
        return None
    if e.op in ("sub", "xor"):
        return alias(stm, zero(prim_of(x)))
    return alias(stm, FALSE if e.op == "ne" else TRUE)


@op_rule("neg", "not")
def involution(stm: Stm, ctx: Context) -> Result:
    """`-(-x)` -> `x`, `not (not x)` -> `x`, `not (a == b)` -> `a != b`, `not (a < b)` -> `b <= a` (not on floats)."""
    e: Any = stm.exp
    inner = op_of(ctx, e.args[0])
    if inner is None:
        return None
    if inner.op == e.op:
        return alias(stm, inner.args[0])
    if e.op == "not" and prim_of(e.args[0]) is BOOL:
        if inner.op in ("eq", "ne"):
            return becomes(stm, "ne" if inner.op == "eq" else "eq", *inner.args)
        if inner.op in ("lt", "le") and not prim_of(inner.args[0]).is_float:
            return becomes(stm, "le" if inner.op == "lt" else "lt", *inner.args[::-1])
    if e.op == "neg" and inner.op == "sub" and prim_of(e.args[0]).is_integral:
        return becomes(stm, "sub", *inner.args[::-1])
    return None


@op_rule("add", "sub", "mul", "div")
def signs(stm: Stm, ctx: Context) -> Result:
    """`x + (-y)` -> `x - y`, `x - (-y)` -> `x + y`, `x * -1` -> `-x`, `(-x) * (-y)` -> `x * y`,
    `(-x) / (-y)` -> `x / y`."""
    e: Any = stm.exp
    x, y = e.args
    if e.op == "mul":
        for u, v in ((x, y), (y, x)):
            if is_const(v, -1):
                return becomes(stm, "neg", u)
    ny, nx = op_of(ctx, y), op_of(ctx, x)
    if ny is not None and ny.op == "neg":
        if e.op in ("add", "sub"):
            return becomes(stm, "sub" if e.op == "add" else "add", x, ny.args[0])
        if nx is not None and nx.op == "neg" and (e.op == "mul" or prim_of(x).is_float):
            return becomes(stm, e.op, nx.args[0], ny.args[0])
    if e.op == "add" and nx is not None and nx.op == "neg":
        return becomes(stm, "sub", y, nx.args[0])
    return None


@op_rule("add", "sub")
def collect(stm: Stm, ctx: Context) -> Result:
    """Integers: `(x + 1) + 2` -> `x + 3`, `(x + y) - y` -> `x`, `(x - y) + y` -> `x`, `x - (x - y)` -> `y`."""
    e: Any = stm.exp
    if not prim_of(e.args[0]).is_integral:
        return None
    x, y = e.args
    if e.op == "add" and type(x) is Const:
        x, y = y, x
    inner = op_of(ctx, x)
    if inner is not None and inner.op in ("add", "sub"):
        p, q = inner.args
        if type(y) is Const:
            outer = y.value if e.op == "add" else -y.value
            if type(q) is Const:
                return _offset(stm, p, outer + (q.value if inner.op == "add" else -q.value))
            if type(p) is Const and inner.op == "add":
                return _offset(stm, q, outer + p.value)
            if type(p) is Const:
                return becomes(stm, "sub", Const(p.type, p.value + outer), q)
        elif e.op == "sub" and inner.op == "add":
            if q is y:
                return alias(stm, p)
            if p is y:
                return alias(stm, q)
        elif e.op == "add" and inner.op == "sub" and q is y:
            return alias(stm, p)
        elif e.op == "sub" and inner.op == "sub" and p is y:
            return becomes(stm, "neg", q)
    right = op_of(ctx, y)
    if right is not None:
        if e.op == "add" and right.op == "sub" and right.args[1] is x:
            return alias(stm, right.args[0])
        if e.op == "sub" and right.op == "sub" and right.args[0] is x:
            return alias(stm, right.args[1])
        if e.op == "sub" and right.op == "add":
            for i in (0, 1):
                if right.args[i] is x:
                    return becomes(stm, "neg", right.args[1 - i])
    return None


@op_rule(*_OPPOSITE, changes=("rounding", "nan"))
def solved(stm: Stm, ctx: Context) -> Result:
    """`x + c` -> `r` where `x = r - c` was solved for; `x - c`, `c - x` and products likewise: up to round-off the
    equation holds."""
    e: Any = stm.exp
    falls = e.op in ("sub", "div")
    for k, (x, c) in enumerate((e.args, e.args[::-1])):
        d = op_of(ctx, x)
        if d is None or d.op not in _OPPOSITE:
            continue
        u, v = d.args
        found: Atom | None = None
        if d.op == _OPPOSITE[e.op] and not (falls and k):
            found = u if v is c else v if falls and u is c else None
        elif d.op == e.op and falls and k and u is c:
            found = v
        if found is not None and MARKED(x in ctx.solutions):
            return alias(stm, found)
    return None


def _offset(stm: Stm, x: Atom, k: int) -> list[Stm]:
    c = Const(prim_of(x), k)
    if c.value == 0:
        return alias(stm, x)
    if c.type.kind == "int" and c.value < 0 and -c.value < 1 << (c.type.bits - 1):
        return becomes(stm, "sub", x, Const(c.type, -c.value))
    return becomes(stm, "add", x, c)


@op_rule("select")
def choose(stm: Stm, ctx: Context) -> Result:
    """`select true x y` -> `x`, `select c x x` -> `x`, `select (not c) x y` -> `select c y x`,
    `select c true false` -> `c`."""
    e: Any = stm.exp
    c, x, y = e.args
    if type(c) is Const:
        return alias(stm, x if c.value else y)
    if x is y:
        return alias(stm, x)
    if x is TRUE and y is FALSE:
        return alias(stm, c)
    if x is FALSE and y is TRUE:
        return becomes(stm, "not", c)
    if prim_of(x) is BOOL:
        if y is FALSE:
            return becomes(stm, "and", c, x)
        if x is TRUE:
            return becomes(stm, "or", c, y)
    inner = op_of(ctx, c)
    if inner is not None and inner.op == "not":
        return becomes(stm, "select", inner.args[0], y, x)
    return None


@op_rule(*[n for n in OPS if n.startswith("to_")])
def conversion(stm: Stm, ctx: Context) -> Result:
    """`to_f64 (x: f64)` -> `x`; `to_bool (to_i64 b)` -> `b`; `to_i32 (to_i64 (x: i32))` -> `x`."""
    e: Any = stm.exp
    x = e.args[0]
    to = prim_of(stm.pat[0])
    if x.type is to:
        return alias(stm, x)
    inner = op_of(ctx, x)
    if inner is not None and inner.op.startswith("to_"):
        src, mid = prim_of(inner.args[0]), prim_of(x)
        if src is to and (to is BOOL or to.kind == mid.kind and mid.bits >= to.bits):
            return alias(stm, inner.args[0])
    return None


@op_rule("eq", "ne", "lt", "le", constant=True)
def compared_bool(stm: Stm, ctx: Context) -> Result:
    """`to_i32 b <= 0` -> `not b`, `to_i32 b == 1` -> `b`, `to_f64 b < 2` -> `true`: of 0 and 1 all is known."""
    e: Any = stm.exp
    for k, x in enumerate(e.args):
        inner = op_of(ctx, x)
        if inner is None or not inner.op.startswith("to_") or prim_of(inner.args[0]) is not BOOL:
            continue
        args = [[Const(prim_of(x), v) if i == k else a for i, a in enumerate(e.args)] for v in (0, 1)]
        no, yes = [folded(e.op, tuple(of)) for of in args]
        if no is None or yes is None:
            return None
        if no.value == yes.value:
            return alias(stm, yes)
        return alias(stm, inner.args[0]) if yes.value else becomes(stm, "not", inner.args[0])
    return None


_HUGE = (1 << 63) - 2  # numbers of elements are compared with it where they might be too many


@op_rule("lt", "le", "eq", "ne", "min", "max")
def decided(stm: Stm, ctx: Context) -> Result:
    """`i < n` -> `true` inside `for i < n`; `min i (n-1)` -> `i`; `max i 0` -> `i`: where ranges decide."""
    e: Any = stm.exp
    x, y = e.args
    r = ctx.ranges
    op = e.op
    if x.type is not I64:
        if op in ("eq", "ne") and x.type is BOOL:
            return _bool_eq(stm, e)
        d = ctx.exp(x)
        if op == "le" and type(d) is ir.Op and d.op == "to_u64" and type(y) is Const and y.value >= _HUGE:
            return alias(stm, TRUE) if d.args[0].type is I64 and r.modest(d.args[0]) else None
        return None
    if op == "lt":
        return alias(stm, TRUE) if r.less(x, y) else alias(stm, FALSE) if r.at_most(y, x) else None
    if op == "le":
        return alias(stm, TRUE) if r.at_most(x, y) else alias(stm, FALSE) if r.less(y, x) else None
    if op in ("min", "max"):
        if r.at_most(x, y):
            return alias(stm, x if op == "min" else y)
        return alias(stm, y if op == "min" else x) if r.at_most(y, x) else None
    if r.less(x, y) or r.less(y, x):
        return alias(stm, FALSE if op == "eq" else TRUE)
    if r.poly(x) == r.poly(y):
        return alias(stm, TRUE if op == "eq" else FALSE)
    return None


def _bool_eq(stm: Stm, e: ir.Op) -> Result:
    for x, y in (e.args, e.args[::-1]):
        if y is TRUE or y is FALSE:
            keep = (y is TRUE) == (e.op == "eq")
            return alias(stm, x) if keep else becomes(stm, "not", x)
    return None


@op_rule("mod", "rem", "div", "quot")
def divides(stm: Stm, ctx: Context) -> Result:
    """`i % n` -> `i` and `i / n` -> `0` where 0 <= i < n is known; `x / 2.0` -> `x * 0.5` (exact reciprocals)."""
    e: Any = stm.exp
    x, y = e.args
    if x.type is I64 and ctx.ranges.in_range(x, y):
        return alias(stm, x if e.op in ("mod", "rem") else zero(I64))
    if e.op == "div" and type(y) is Const and y.type.is_float and y.value and abs(y.value) in _POWERS:
        return becomes(stm, "mul", x, Const(y.type, 1 / y.value))
    return None


_POWERS = frozenset(2.0**k for k in range(-8, 9))


@op_rule("fma", constant=True)
def fma_unit(stm: Stm, ctx: Context) -> Result:
    """`fma x 1 z` -> `x + z`; `fma 1 y z` -> `y + z`."""
    e: Any = stm.exp
    x, y, z = e.args
    for u, v in ((x, y), (y, x)):
        if is_const(v, 1):
            return becomes(stm, "add", u, z)
    return None


SCALAR_RULES = (
    fold, unit, absorb, right_unit, same, involution, signs, collect, solved, choose, conversion, compared_bool,
    decided, divides, fma_unit,
)  # fmt: skip

__all__ = ["SCALAR_RULES", "Var", "alias", "becomes", "one", "op_of"]
