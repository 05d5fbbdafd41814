"""Lowering of operators and of the numeric modules' members, by table."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from futad.core import ir
from futad.core.scalarops import OPS
from futad.core.types import FALSE, I32, PRIMS, TRUE, Atom, Const, Prim, shape_of
from futad.source.lower.calls import Use
from futad.source.lower.core import Lowerer
from futad.source.lower.sizes import recast
from futad.source.lower.soacs import reduce_with
from futad.source.lower.values import Arr, Leaf, Rec, Value, dims_of, leaves, scalar

Args = tuple[Value, ...]
Handler = Callable[[Lowerer, Args, Use], Value]
Entry = tuple[int, Handler]

def op(name: str, arity: int, swap: bool = False) -> Entry:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        atoms = [scalar(a) for a in args]
        if swap:
            atoms.reverse()
        return Leaf(lw.b.scalar(name, *atoms, place=use.span))

    return arity, go


def do_power(lw: Lowerer, args: Args, use: Use) -> Value:
    """`x ** y`; a negative power of an integer is an error."""
    x, y = (scalar(a) for a in args)
    t = y.type
    assert isinstance(t, Prim)
    if t.kind == "int" and lw.check_span(use.span) is not None and not (type(y) is Const and y.value >= 0):
        shown = lw.b.convert(PRIMS["i64"], y)
        ok = lw.b.scalar("le", Const(t, 0), y)
        lw.b.emit(ir.Assert(ok, "an integer has no power {}: the exponent is negative", (shown,), use.span))
    return Leaf(lw.b.scalar("pow", x, y, place=use.span))


def equal(lw: Lowerer, x: Value, y: Value) -> Atom:
    """Structural equality of two values of one type."""
    if type(x) is Leaf and type(y) is Leaf:
        return lw.b.scalar("eq", x.atom, y.atom)
    out: Atom = TRUE
    if type(x) is Rec and type(y) is Rec:
        for n, f in x.fields.items():
            e = equal(lw, f, y.fields[n])
            out = e if out is TRUE else lw.b.scalar("and", out, e)
        return out
    dims = list(zip(dims_of(x), dims_of(y), strict=True))
    for a, c in dims:
        same = lw.b.scalar("eq", a, c) if a is not c else TRUE
        out = same if out is TRUE else out if same is TRUE else lw.b.scalar("and", out, same)
    if out is TRUE:
        return equal_arrays(lw, x, y)
    # Only arrays of equal sizes are compared element by element.
    scope = lw.new_scope()
    with lw.within(scope):
        r = equal_arrays(lw, x, recast(lw, y, [a for a, _ in dims]))
    then = ir.Lambda((), tuple(scope.stms), (r,))
    return lw.b.let(ir.If(out, then, ir.Lambda((), (), (FALSE,))), "same")


def equal_arrays(lw: Lowerer, x: Value, y: Value) -> Atom:
    out: Atom = TRUE
    for a, c in zip(leaves(x), leaves(y), strict=True):
        rank = len(shape_of(a.type))
        if rank > 1:
            n = lw.b.size_mul(shape_of(a.type))
            a, c = (lw.b.let(ir.Reshape(z, (n,)), "flat") for z in (a, c))
        flags = lw.b.zip_with(lambda b, u, v: b.op("eq", u, v), a, c)
        e = scalar(reduce_with(lw, "and", flags, TRUE))
        out = e if out is TRUE else lw.b.scalar("and", out, e)
    return out


def do_equal(negated: bool) -> Entry:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        e = equal(lw, *args)
        return Leaf(lw.b.scalar("not", e) if negated else e)

    return 2, go


def const(value: object, t: Prim) -> Entry:
    c = Const(t, value)
    return 0, lambda lw, args, use: Leaf(c)


def bounds(t: Prim) -> tuple[Const, Const]:
    """lowest and highest: infinite for floats, as in the language's prelude."""
    if t.is_float:
        return Const(t, -math.inf), Const(t, math.inf)
    info = np.iinfo(t.dtype)
    return Const(t, int(info.min)), Const(t, int(info.max))


def folding(name: str, neutral: Const) -> Entry:
    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        assert type(args[0]) is Arr
        return reduce_with(lw, name, leaves(args[0])[0], neutral)

    return 1, go


def convert_to(t: Prim) -> Entry:
    return 1, lambda lw, args, use: Leaf(lw.b.convert(t, scalar(args[0])))


def from_member(t: Prim, source: Prim) -> Entry:
    """`t.source`: a signed integer becomes a wider unsigned one by zero extension, as in the language's prelude."""
    if t.kind == "uint" and source.kind == "int" and source.bits < t.bits:
        same = PRIMS[f"u{source.bits}"]
        return formula(1, lambda b, x: b.convert(t, b.convert(same, x)))
    return convert_to(t)


def get_bit(t: Prim) -> Entry:
    """get_bit bit x: that bit, as i32."""

    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        b = lw.b
        x, u = to_bits(lw, scalar(args[1]))
        shifted = b.scalar("ushr", x, b.convert(u, scalar(args[0])))
        return Leaf(b.convert(I32, b.scalar("and", shifted, Const(u, 1))))

    return 2, go


def set_bit(t: Prim) -> Entry:
    """set_bit bit x b: x with that bit equal to b."""

    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        b = lw.b
        x, u = to_bits(lw, scalar(args[1]))
        at = b.convert(u, scalar(args[0]))
        mask = b.scalar("not", b.scalar("shl", Const(u, 1), at))
        new = b.scalar("shl", b.convert(u, scalar(args[2])), at)
        out = b.scalar("or", b.scalar("and", x, mask), new)
        return Leaf(b.scalar(f"from_bits_{t.name}", out) if t.is_float else out)

    return 3, go


def to_bits(lw: Lowerer, x: Atom) -> tuple[Atom, Prim]:
    t = x.type
    assert isinstance(t, Prim)
    if t.is_float:
        return lw.b.scalar(f"bits_{t.name}", x), PRIMS[f"u{t.bits}"]
    return x, t


def formula(arity: int, f: Callable[..., Atom]) -> Entry:
    """A member computed from scalars: f(builder, *atoms)."""

    def go(lw: Lowerer, args: Args, use: Use) -> Value:
        return Leaf(f(lw.b, *[scalar(a) for a in args]))

    return arity, go


def special(t: Prim, name: str) -> Entry | None:
    """Members that are not one operation of the same name."""
    low, high = bounds(t) if not t.is_bool else (FALSE, TRUE)
    if name in PRIMS:
        return from_member(t, PRIMS[name])
    if name.startswith("to_") and name[3:] in PRIMS:
        return convert_to(PRIMS[name[3:]])
    if name == "highest":
        return const(high.value, t)
    if name == "lowest":
        return const(low.value, t)
    if name == "sum":
        return folding("or" if t.is_bool else "add", Const(t, 0))
    if name == "product":
        return folding("and" if t.is_bool else "mul", Const(t, 1))
    if name == "maximum":
        return folding("max", low)
    if name == "minimum":
        return folding("min", high)
    if name == "num_bits":
        return const(t.bits, I32)
    if name == "get_bit":
        return get_bit(t)
    if name == "set_bit":
        return set_bit(t)
    if name in ("sign", "unsign"):
        return convert_to(PRIMS[("i" if name == "sign" else "u") + str(t.bits)])
    if name in ("mad_hi",):
        return formula(3, lambda b, x, y, z: b.scalar("add", b.scalar("mul_hi", x, y), z))
    return special_float(t, name) if t.is_float else None


def special_float(t: Prim, name: str) -> Entry | None:
    one = Const(t, 1)
    constants = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e}
    if name in constants:
        return const(constants[name], t)
    if name == "epsilon":
        return const(float(np.finfo(t.dtype).eps), t)
    if name == "recip":
        return formula(1, lambda b, x: b.scalar("div", one, x))
    if name == "mad":
        return formula(3, lambda b, x, y, z: b.scalar("add", b.scalar("mul", x, y), z))
    if name == "lerp":
        return formula(
            3, lambda b, x, y, s: b.scalar("add", x, b.scalar("mul", b.scalar("sub", y, x), s))
        )
    if name == "from_fraction":
        return formula(2, lambda b, x, y: b.scalar("div", b.convert(t, x), b.convert(t, y)))
    if name == "to_bits":
        return formula(1, lambda b, x: b.scalar(f"bits_{t.name}", x))
    if name == "from_bits":
        return formula(1, lambda b, x: b.scalar(f"from_bits_{t.name}", x))
    return None


def member(module: str, name: str) -> Entry | None:
    """The lowering of `module.name` of a numeric module."""
    t = PRIMS.get(module)
    if t is None:
        return None
    found = special(t, name)
    if found is not None:
        return found
    return operator_entry(name, t)


def operator_entry(name: str, t: Prim | None = None) -> Entry | None:
    """The lowering of an operator, or of a member of a numeric module that is one operation of type `t`."""
    if name == "**":
        return 2, do_power
    if name in ("==", "!="):
        return do_equal(name == "!=")
    if name == "~":
        return op("not", 1)
    for record in OPS.values():
        for p in record.types if t is None else (t,):
            for own, swapped in record.names(p):
                if own == name:
                    return op(record.name, record.arity, swapped)
    return None
