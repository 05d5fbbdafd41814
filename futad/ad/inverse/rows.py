"""Statements solved for an operand: scalar operations, permutations.

| statement with known result | solved for |
|---|---|
| `add`, `sub`, `xor`, `not`, `neg`, of bools `eq` and `ne` | the one unknown operand |
| a product of integers with an odd constant | by its inverse modulo 2^bits |
| `x ^ (x >> k)`, `x ^ (x << k)`, `x << k | x >> bits - k` | by doubled steps; by the rotation back |
| a wider integer or float | by the conversion back |
| of floats `add`, `sub`, `mul`, `div`, with rounding | the one unknown operand |
| `reshape`, `rearrange`, `concat`, copies | by the same the other way |

Elements and slices are in `places.py`.

Source: the statements of a reversible language, Lutz, "Janus: a time-reversible language", 1986, and what compilers of
hashes and generators undo by hand (Jim Kent's xor shift).
"""

from __future__ import annotations

from collections.abc import Callable

from futad.ad.inverse.solver import EXACT, LEGAL, ROWS, Solver, is_const
from futad.core import ir
from futad.core.node import Range
from futad.core.types import BOOL, ONE, Atom, Const, Prim, Var, i64, shape_of

ODD = LEGAL.condition("odd factor", "an even factor shifts bits out")
ZEROS_IN = LEGAL.condition("zeros shifted in", "a shift that repeats the sign leaves nothing of it in x ^ (x >> k)")
WHOLE_TURN = LEGAL.condition("rotated by all bits", "the two parts of a rotation overlap, or leave bits out")
WIDER = LEGAL.condition("wider type", "a conversion to fewer bits loses the others")

# --- scalars ---------------------------------------------------------------------------------------------------------


def _add(s: Solver, e: ir.Op, k: int, r: Atom, x: Atom) -> Atom | None:
    return s.b.op("sub", r, x)


def _sub(s: Solver, e: ir.Op, k: int, r: Atom, x: Atom) -> Atom | None:
    return s.b.op("add", r, x) if k == 0 else s.b.op("sub", x, r)


def _xor(s: Solver, e: ir.Op, k: int, r: Atom, x: Atom) -> Atom | None:
    return s.b.op("xor", r, x)


def _ne(s: Solver, e: ir.Op, k: int, r: Atom, x: Atom) -> Atom | None:
    return s.b.op("xor", r, x) if x.type is BOOL else None


def _eq(s: Solver, e: ir.Op, k: int, r: Atom, x: Atom) -> Atom | None:
    return s.b.op("eq", r, x) if x.type is BOOL else None


def _mul(s: Solver, e: ir.Op, k: int, r: Atom, x: Atom) -> Atom | None:
    t = r.type
    assert isinstance(t, Prim)
    if t.is_float:
        return s.b.op("div", r, x)
    if not isinstance(x, Const) or not ODD(x.value % 2):
        return None
    return s.b.op("mul", r, Const(t, pow(x.value | 1, -1, 1 << t.bits)))


def _div(s: Solver, e: ir.Op, k: int, r: Atom, x: Atom) -> Atom | None:
    t = r.type
    assert isinstance(t, Prim)
    if not t.is_float:
        return None
    return s.b.op("mul", r, x) if k == 0 else s.b.op("div", x, r)


_OPERANDS: dict[str, Callable[[Solver, ir.Op, int, Atom, Atom], Atom | None]] = {
    "add": _add, "sub": _sub, "xor": _xor, "ne": _ne, "eq": _eq, "mul": _mul, "div": _div,
}


def _op(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Op)
    r = s.known.get(stm.pat[0])
    if r is None:
        return
    if e.op == "select":
        _select(s, e, r)
        return
    unknown = [k for k, a in enumerate(e.args) if s.value(a) is None]
    if not unknown or not EXACT(s.rounding or not _float(r) or len(e.args) == 1):
        return
    found: Atom | None = None
    if len(e.args) == 1:
        found = _unary(s, e, r)
    elif len(unknown) == 1 and e.op in _OPERANDS:
        x = s.value(e.args[1 - unknown[0]])
        assert x is not None
        found = _OPERANDS[e.op](s, e, unknown[0], r, x)
        if _float(r):
            s.b.stms[-1] = ir.Stm(s.b.stms[-1].pat, s.b.stms[-1].exp, (ir.SOLVES,))
    elif len(unknown) == 2:
        _shifted(s, e, r)
    if found is not None:
        s.learn(e.args[unknown[0]], found)


def _float(a: Atom) -> bool:
    return isinstance(a.type, Prim) and a.type.is_float


def _unary(s: Solver, e: ir.Op, r: Atom) -> Atom | None:
    if e.op in ("not", "neg"):
        return s.b.op(e.op, r)
    old, new = e.args[0].type, r.type
    assert isinstance(old, Prim) and isinstance(new, Prim)
    if not e.op.startswith("to_") or old.is_bool or new.is_bool or old.is_float != new.is_float:
        return None
    return s.b.convert(old, r) if WIDER(new.bits >= old.bits) else None


def _select(s: Solver, e: ir.Op, r: Atom) -> None:
    c = e.args[0]
    if isinstance(c, Var) and c in s.assumed:
        s.learn(e.args[1 if s.assumed[c] else 2], r)


def _shifted(s: Solver, e: ir.Op, r: Atom) -> None:
    """Both operands are made of one x by shifts: x ^ (x >> k), or a rotation."""
    parts = [s.defined(a, ir.Op) for a in e.args]
    shifts = [p if isinstance(p, ir.Op) and p.op in ("shl", "shr", "ushr") else None for p in parts]
    t = r.type
    assert isinstance(t, Prim)
    if not t.is_integral:
        return
    one, two = shifts
    if one is not None and two is not None and one.args[0] is two.args[0] and e.op in ("or", "xor", "add"):
        left, right = (one, two) if one.op == "shl" else (two, one)
        k, m = left.args[1], right.args[1]
        if left.op != "shl" or right.op == "shl" or not isinstance(k, Const) or not isinstance(m, Const):
            return
        if 0 < k.value < t.bits and WHOLE_TURN(k.value + m.value == t.bits) and ZEROS_IN(_zeros_in(right, t)):
            back = s.b.op("ushr", r, k), s.b.op("shl", r, Const(t, t.bits - k.value))
            s.learn(left.args[0], s.b.op("or", *back))
        return
    for x, shift in zip(e.args, reversed(shifts), strict=True):
        if e.op != "xor" or shift is None or shift.args[0] is not x:
            continue
        k = shift.args[1]
        if isinstance(k, Const) and 0 < k.value < t.bits and ZEROS_IN(_zeros_in(shift, t)):
            op = "shl" if shift.op == "shl" else "ushr"
            step = k.value
            while step < t.bits:
                r = s.b.op("xor", r, s.b.op(op, r, Const(t, step)))
                step *= 2
            s.learn(x, r)


def _zeros_in(shift: ir.Op, t: Prim) -> bool:
    return shift.op != "shr" or t.kind == "uint"


# --- arrays ----------------------------------------------------------------------------------------------------------


def _alias(s: Solver, stm: ir.Stm) -> None:
    (a,) = stm.exp.operands()
    r = s.known.get(stm.pat[0])
    if r is not None:
        s.learn(a, r)


def _reshape(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Reshape)
    r = s.known.get(stm.pat[0])
    if r is not None and s.values(shape_of(e.array.type)) is not None:
        s.learn(e.array, r)


def _rearrange(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Rearrange)
    r = s.known.get(stm.pat[0])
    if r is not None and s.value(e.array) is None:
        back = tuple([e.perm.index(d) for d in range(len(e.perm))])
        s.learn(e.array, s.b.let(ir.Rearrange(r, back), "view"))


def _concat(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Concat)
    r = s.known.get(stm.pat[0])
    if r is None:
        return
    start: Atom = i64(0)
    for a in e.arrays:
        n = s.value(shape_of(a.type)[0])
        if n is None:
            return
        if s.value(a) is None:
            s.learn(a, s.b.let(ir.At(r, (Range(start, n, ONE),)), "part"))
        start = n if is_const(start, 0) else s.b.op("add", start, n)


def _literal(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.ArrayLit)
    r = s.known.get(stm.pat[0])
    if r is None:
        return
    for k, a in enumerate(e.elems):
        if s.value(a) is None:
            s.learn(a, s.b.let(ir.At(r, (i64(k),)), "e"))


ROWS.update({
    ir.Op: _op, ir.Alias: _alias, ir.Copy: _alias, ir.Reshape: _reshape, ir.Rearrange: _rearrange,
    ir.Concat: _concat, ir.ArrayLit: _literal,
})  # fmt: skip
