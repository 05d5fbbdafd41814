"""Statements solved for an operand: scalar operations, permutations, slices, updates.

| statement with known result | solved for |
|---|---|
| `add`, `sub`, `xor`, `not`, `neg`, of bools `eq` and `ne` | the one unknown operand |
| a product of integers with an odd constant | by its inverse modulo 2^bits |
| `x ^ (x >> k)`, `x ^ (x << k)`, `x << k | x >> bits - k` | by doubled steps; by the rotation back |
| a wider integer or float | by the conversion back |
| of floats `add`, `sub`, `mul`, `div`, with rounding | the one unknown operand |
| `reshape`, `rearrange`, `concat`, copies; slices that cover an array | by the same the other way |
| `update` with a value that has the old element as a part | the old element, then the old array |
| a swap of two elements | by a swap |

Source: the statements of a reversible language, Lutz, "Janus: a time-reversible language", 1986, and what compilers of
hashes and generators undo by hand (Jim Kent's xor shift).
"""

from __future__ import annotations

from collections.abc import Callable

from futad.ad.inverse.solver import EXACT, LEGAL, ROWS, Solver, is_const
from futad.core import ir
from futad.core.node import Range
from futad.core.types import BOOL, I64, ONE, ArrayType, Atom, Const, Prim, Var, i64, shape_of
from futad.rewrite.ranges import Poly, constant, plus, times

ODD = LEGAL.condition("odd factor", "an even factor shifts bits out")
ZEROS_IN = LEGAL.condition("zeros shifted in", "a shift that repeats the sign leaves nothing of it in x ^ (x >> k)")
WHOLE_TURN = LEGAL.condition("rotated by all bits", "the two parts of a rotation overlap, or leave bits out")
COVERS = LEGAL.condition("slices cover", "elements between slices, or after them, are lost")
SAME_PLACE = LEGAL.condition("element of that place", "the old value of another element is put back")
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


def _shape(s: Solver, a: Atom) -> list[Atom] | None:
    return s.values(shape_of(a.type))


def _reshape(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Reshape)
    r, shape = s.known.get(stm.pat[0]), _shape(s, e.array)
    if r is not None and shape is not None and s.value(e.array) is None:
        s.learn(e.array, s.b.let(ir.Reshape(r, tuple(shape)), "view"))


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


# A slice or an element of an array: the first position, how many, the statement, whether from the last to the first.
_Piece = tuple[Poly, Poly, ir.Stm, bool]


def _at(s: Solver, stm: ir.Stm) -> None:
    """Slices that cover an array, or all of its elements one by one."""
    e = stm.exp
    assert isinstance(e, ir.At)
    x = e.array
    if not isinstance(x, Var) or s.value(x) is not None or stm.pat[0] not in s.known:
        return
    shape = _shape(s, x)
    if shape is None:
        return
    pieces: list[_Piece] = []
    for p in s.stms:
        a = p.exp
        if not isinstance(a, ir.At) or a.array is not x or len(a.index) != 1 or p.pat[0] not in s.known:
            continue
        (i,) = a.index
        if not isinstance(i, Range):
            pieces.append((_poly(s, i), constant(1), p, False))
        elif isinstance(i.stride, Const) and i.stride.value in (1, -1):
            start, count = _poly(s, i.start), _poly(s, i.count)
            if i.stride.value < 0:
                start = plus(plus(start, count, -1), constant(1))
            pieces.append((start, count, p, i.stride.value < 0))
    taken = _in_order(pieces, _poly(s, shape_of(x.type)[0]))
    if taken is None:
        return
    parts: list[Atom] = []
    for _, _, p, backwards in taken:
        part = s.known[p.pat[0]]
        assert isinstance(p.exp, ir.At)
        if not isinstance(p.exp.index[0], Range):
            part = s.b.let(ir.Replicate((ONE,), part), "part")
        elif backwards:
            n = s.value(p.exp.index[0].count)
            assert n is not None
            part = s.b.let(ir.At(part, (Range(s.b.op("sub", n, ONE), n, Const(I64, -1)),)), "part")
        parts.append(part)
    s.learn(x, parts[0] if len(parts) == 1 else s.b.let(ir.Concat(tuple(parts), shape[0]), x.name))


def _in_order(pieces: list[_Piece], size: Poly) -> list[_Piece] | None:
    """Pieces that follow one another from the first element to the last."""
    at: Poly = {}
    out: list[_Piece] = []
    while at != size:
        found = next((p for p in pieces if p[0] == at and p not in out), None)
        if found is None:
            return out if out and COVERS(False) else None
        out.append(found)
        at = plus(at, found[1])
    return out


def _poly(s: Solver, a: Atom) -> Poly:
    """An i64 as a polynomial of variables, modulo 2^64."""
    if isinstance(a, Const):
        return constant(a.value)
    e = s.defined(a, ir.Op)
    if isinstance(e, ir.Op) and a.type is I64 and e.op in ("add", "sub", "mul"):
        x, y = _poly(s, e.args[0]), _poly(s, e.args[1])
        return times(x, y) if e.op == "mul" else plus(x, y, 1 if e.op == "add" else -1)
    assert isinstance(a, Var)
    return {(a,): 1}


def _update(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Update)
    r = s.known.get(stm.pat[0])
    index = _index(s, e.index)
    if r is None or index is None:
        return
    if _swap(s, e, r, index):
        return
    if s.value(e.value) is None:
        part = s.b.let(ir.At(r, index), "new")
        s.learn(e.value, part if not isinstance(part.type, ArrayType) else s.b.let(ir.Copy(part), "new"))
    if s.value(e.array) is not None:
        return
    for p in s.stms:
        a = p.exp
        if isinstance(a, ir.At) and a.array is _source(s, e.array) and p.pat[0] in s.known:
            if len(a.index) == len(e.index) and SAME_PLACE(_same(a.index, e.index)):
                s.learn(e.array, s.b.let(ir.Update(r, index, s.known[p.pat[0]]), "old"))
                return


def _same(a: ir.Index, b: ir.Index) -> bool:
    return all(x is y or (isinstance(x, Range) and x == y) for x, y in zip(a, b, strict=True))


def _source(s: Solver, a: Atom) -> Atom:
    """The array that `a` is a copy of."""
    while True:
        e = s.defined(a, ir.Copy) or s.defined(a, ir.Alias)
        if e is None:
            return a
        (a,) = e.operands()


def _index(s: Solver, index: ir.Index) -> ir.Index | None:
    out: list[Atom | Range] = []
    for i in index:
        found = s.values([i.start, i.count, i.stride] if isinstance(i, Range) else [i])
        if found is None:
            return None
        out.append(Range(*found) if isinstance(i, Range) else found[0])
    return tuple(out)


def _swap(s: Solver, e: ir.Update, r: Atom, index: ir.Index) -> bool:
    """`x` with x[j] at i and x[i] at j: the same again undoes it."""
    first = s.defined(_source(s, e.array), ir.Update)
    if not isinstance(first, ir.Update) or s.value(first.array) is not None:
        return False
    x = _source(s, first.array)
    old, new = s.defined(e.value, ir.At), s.defined(first.value, ir.At)
    if not isinstance(old, ir.At) or not isinstance(new, ir.At) or old.array is not x or new.array is not x:
        return False
    other = _index(s, first.index)
    fixed = not any(isinstance(i, Range) for i in (*e.index, *first.index))
    if other is None or not fixed or old.index != first.index or not SAME_PLACE(new.index == e.index):
        return False
    here, there = s.b.let(ir.At(r, index), "here"), s.b.let(ir.At(r, other), "there")
    if isinstance(here.type, ArrayType):
        here, there = s.b.let(ir.Copy(here), "here"), s.b.let(ir.Copy(there), "there")
    back = s.b.let(ir.Update(r, other, here), "swapped")
    s.learn(first.array, s.b.let(ir.Update(back, index, there), "swapped"))
    return True


ROWS.update({
    ir.Op: _op, ir.Alias: _alias, ir.Copy: _alias, ir.Reshape: _reshape, ir.Rearrange: _rearrange,
    ir.Concat: _concat, ir.ArrayLit: _literal, ir.At: _at, ir.Update: _update,
})  # fmt: skip
