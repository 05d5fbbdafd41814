"""Sizes while lowering: reading them from types, binding them from values, making two of them one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from futad.core import ir
from futad.core.operator import may_fail
from futad.core.types import F64, I8, I64, MOST_SHOWN, TRUE, AccType, Atom, Const, elem_of, i64, shape_of, zero
from futad.errors import Span
from futad.source import ast
from futad.source.lower.scope import Scope
from futad.source.lower.values import (
    MISSING,
    Arr,
    Fn,
    Frame,
    Leaf,
    Rec,
    Value,
    dims_of,
    in_order,
    leaves,
    rebuild,
    walk_shapes,
)
from futad.source.opaque import opened
from futad.source.sizes import binary_op, free_names, key, poly, size_of_expr
from futad.source.traversals import size_names
from futad.source.types import (
    Binding,
    Size,
    SizeConst,
    SizeExp,
    SizeVar,
    SType,
    TArray,
    TFun,
    TParam,
    TPrim,
    TRecord,
    TSum,
    resolve_size,
)

if TYPE_CHECKING:
    from futad.source.lower.core import Lowerer

Placed = tuple[Size, Frame] | None


def head(t: SType, fr: Frame) -> tuple[SType, Frame]:
    """`t` with solved metas, abstract types and type parameters looked up at its head, and the frame it is read in."""
    while True:
        t = opened(t)
        if type(t) is not TParam:
            return t, fr
        found = fr.lookup_type(t.binding)
        if found is None:
            return t, fr
        t, fr = found


def placed_sizes(
    t: SType, v: Value, fr: Frame, out: list[Placed] | None = None, own: list[Binding] | None = None
) -> list[Placed]:
    """For each size in `dims_of(v)`, the size that type `t` gives there (None where the type is silent); those that
    each value has for itself are new names in `own`, if that is given."""
    if out is None:
        out = []
    t, fr = head(t, fr)
    if type(v) is Arr:
        for _ in v.dims:
            if type(t) is TArray:
                s = resolve_size(t.size)
                if type(s) is SizeVar and s.binding.loose:
                    if own is None:
                        out.append(None)
                    else:
                        own.append(Binding(s.binding.name, "size", None, s.binding.span))
                        out.append((SizeVar(own[-1]), fr))
                else:
                    out.append((s, fr))
                t, fr = head(t.elem, fr)
            else:
                out.append(None)
        placed_sizes(t, v.elem, fr, out, own)
    elif type(v) is Rec:
        parts = fields_of(t)
        for n, f in v.fields.items():
            placed_sizes(parts.get(n, TRecord(())), f, fr, out, own)
    return out


def fields_of(t: SType) -> dict[str, SType]:
    """The components of a record or sum type, named as in a `Rec`."""
    if type(t) is TRecord:
        return dict(t.fields)
    if type(t) is TSum:
        rows = sorted(t.constrs, key=lambda row: row[0])
        return {payload_name(c, i): a for c, args in rows for i, a in enumerate(args)}
    return {}


def payload_name(constr: str, i: int) -> str:
    """The field of a sum value's record that holds argument `i` of a constructor; '#' holds the tag."""
    return f"#{constr}.{i}"


def size_atom(lw: Lowerer, s: Size, fr: Frame) -> Atom | None:
    """The i64 atom a size stands for; None if it is not known here."""
    v = size_value(lw, s, fr)
    return lw.b.convert(I64, v.atom) if type(v) is Leaf else None


def size_value(lw: Lowerer, s: Size, fr: Frame) -> Value | None:
    """The value of a size, or of what a size expression mentions (an array, a function)."""
    s = resolve_size(s)
    if type(s) is SizeConst:
        return Leaf(i64(s.value))
    if type(s) is SizeVar:
        return None if s.binding.loose else fr.lookup(s.binding)
    if type(s) is SizeExp:
        if not s.params:
            inside = fr
        else:
            inside = Frame(fr)
            for p, a in zip(s.params, s.args, strict=True):
                v = size_value(lw, a, fr)
                if v is None:
                    return None
                inside.vals[p] = v
        if not computable(lw, s.expr, inside):
            return None
        where = memo_key(lw, s, fr)
        known = lw.b.find_shared(where) if where is not None else None
        if known is not None:
            return Leaf(known)
        v = lw.expr(s.expr, inside)
        if where is not None and type(v) is Leaf:
            lw.b.shared[where] = v.atom
        return v
    return None


def computable(lw: Lowerer, e: ast.Expr, fr: Frame) -> bool:
    """Whether all local names in a size expression have values; the sizes of functions in it need none."""
    names: dict[Binding, None] = {}
    free_names(e, names)
    functions = [b for b in lw.facts.of(e).found if b.kind == "fun" and id(b.decl) not in lw.top]
    return all(fr.lookup(b) is not None for b in [*names, *functions])


def memo_key(lw: Lowerer, s: SizeExp, fr: Frame) -> tuple[Any, ...] | None:
    """A key equal for sizes that are calls of the same function with the same arguments; None for arithmetic."""
    if type(s.expr) is not ast.EApp or binary_op(s.expr):
        return None
    values = [fr.lookup(b) for b in dict.fromkeys(size_names(s))]
    return ("size", key(poly(s)), *[_identity(v) if v is not None else None for v in values])


def _identity(v: Value) -> tuple[Any, ...]:
    """Equal for values that are the same."""
    if type(v) is Rec:
        return tuple([_identity(f) for f in v.fields.values()])
    return (v,) if type(v) is Fn else tuple(leaves(v))


def remember_size(lw: Lowerer, e: ast.EApp, v: Value, fr: Frame) -> None:
    """Note the value of a call that may occur in sizes, so that it is not computed again for them."""
    if type(v) is not Leaf or v.atom.type is not I64 or binary_op(e):
        return
    s = size_of_expr(e)
    where = memo_key(lw, s, fr) if type(s) is SizeExp else None
    if where is not None:
        lw.b.shared.setdefault(where, v.atom)


def bind_sizes(t: SType, v: Value, fr: Frame) -> None:
    """Bind the size variables of `t` that have no value yet to the sizes of `v`."""
    for place, d in zip(placed_sizes(t, v, fr), dims_of(v), strict=True):
        if place is not None and type(place[0]) is SizeVar and place[1].lookup(place[0].binding) is None:
            place[1].vals[place[0].binding] = Leaf(d)


def fit(lw: Lowerer, t: SType, v: Value, fr: Frame, check: Span | None = None) -> Value:
    """`v` with the sizes that `t` gives it; unbound size variables are bound to the value's sizes.

    With `check`, sizes that are not evidently equal are compared at run time.
    """
    have = dims_of(v)
    if not have:
        return v
    want: list[Atom] = []
    for place, d in zip(placed_sizes(t, v, fr), have, strict=True):
        atom: Atom | None = None
        if place is not None:
            s, where = place
            if type(s) is SizeVar and where.lookup(s.binding) is None:
                where.vals[s.binding] = Leaf(d)
                atom = d
            else:
                atom = size_atom(lw, s, where)
        want.append(d if atom is None else atom)
    return recast(lw, v, want, check)


def recast(lw: Lowerer, v: Value, want: list[Atom], check: Span | None = None) -> Value:
    """`v` with its sizes replaced by equal ones: a free reshape of each array that changes."""
    have = dims_of(v)
    if all(w is d for w, d in zip(want, have, strict=True)):
        return v
    if check is not None:
        _require_equal(lw, v, have, want, check)
        for w, d in zip(want, have, strict=True):
            if w is not d:
                require_product(lw, w, check)
    shaped = rebuild(v, iter(leaves(v)), iter(want))
    out: list[Atom] = []
    for atom, shape in walk_shapes(shaped):
        same = type(atom.type) is AccType or all(a is b for a, b in zip(shape_of(atom.type), shape, strict=True))
        out.append(atom if same else lw.b.let(ir.Reshape(atom, shape), "sized"))
    return rebuild(shaped, iter(out))


def _require_equal(lw: Lowerer, v: Value, have: list[Atom], want: list[Atom], span: Span) -> None:
    pairs = [(k, lw.b.scalar("eq", d, w), d, w) for k, (d, w) in enumerate(zip(have, want, strict=True)) if w is not d]
    if 2 * len(have) > MOST_SHOWN:
        for k, equal, d, w in pairs:
            message = f"Dimension {k} of a value is {{}}, which cannot match the {{}} of its type."
            lw.b.emit(ir.Assert(equal, message, (d, w), span))
        return
    ok = pairs[0][1]
    for _, equal, _, _ in pairs[1:]:
        ok = lw.b.scalar("and", ok, equal)
    elem = elem_of(leaves(v)[0].type).name if type(v) is Arr and type(v.elem) is Leaf else ""
    dims = "[{}]" * len(have)
    message = f'Value of (desugared) shape {dims} cannot match shape of type "{dims}{elem}".'
    lw.b.emit(ir.Assert(ok, message, (*have, *want), span))


def like(lw: Lowerer, v: Value, other: Value, check: Span | None = None) -> Value:
    """`v` with the sizes of `other`, which has the same structure."""
    return recast(lw, v, dims_of(other), check)


MOST_ELEMENTS = 1 << 60


def require_room(lw: Lowerer, sizes: Sequence[Atom], span: Span) -> None:
    """Check at run time that so many elements have room in the address space, so that their number is one of i64."""
    count: Atom = Const(F64, 1.0)
    for d in sizes:
        count = lw.b.scalar("mul", count, lw.b.convert(F64, d))
    fits = lw.b.scalar("lt", count, Const(F64, float(MOST_ELEMENTS)))
    if fits is not TRUE:
        shown = tuple(sizes[: MOST_SHOWN])
        more = "" if len(shown) == len(sizes) else " times more"
        message = f"an array of {' times '.join(['{}'] * len(shown))}{more} elements exceeds the address space"
        lw.b.emit(ir.Assert(fits, message, shown, span))


def require_product(lw: Lowerer, n: Atom, span: Span) -> None:
    """Check of a size that an array is said to have: if it is a product, that has not wrapped around."""

    def factors(a: Atom) -> list[Atom]:
        match lw.b.definition(a):
            case ir.Op("mul", (x, y)):
                return factors(x) + factors(y)
        return [a]

    sizes = factors(n)
    if len(sizes) > 1 and lw.checked_here(n):
        require_room(lw, sizes, span)


def hoist_size(lw: Lowerer, a: Atom, scope: Scope) -> Atom | None:
    """`a`, computed in `scope`, as an atom of the current (enclosing) scope, if scalar operations suffice."""
    if not scope.is_local(a):
        return a
    exp = scope.defs[a]
    if type(exp) is not ir.Op or may_fail(exp):
        return None
    args = [hoist_size(lw, x, scope) for x in exp.args]
    known = [x for x in args if x is not None]
    if len(known) < len(args):
        return None
    return lw.b.scalar(exp.op, *known, hint="size")


def outer_sizes(lw: Lowerer, v: Value, scope: Scope, rt: tuple[SType, Frame] | None) -> list[Atom | None]:
    """The sizes of `v`, made in `scope`, as atoms of the current scope; None where unknown there."""
    places = placed_sizes(rt[0], v, rt[1]) if rt is not None else [None] * len(dims_of(v))
    out: list[Atom | None] = []
    for place, d in zip(places, dims_of(v), strict=True):
        atom = hoist_size(lw, d, scope)
        if atom is None and place is not None:
            atom = size_atom(lw, *place)
        out.append(atom)
    return out


def zero_value(lw: Lowerer, t: SType, fr: Frame, dims: tuple[Atom, ...] = ()) -> Value:
    """A value of type `t`, filled with zeros, with outer dimensions `dims`; unknown sizes are 0."""
    t, fr = head(t, fr)
    if type(t) is TPrim:
        z = zero(t.prim)
        return Leaf(lw.b.let(ir.Replicate(dims, z), "zeros") if dims else z)
    if type(t) is TArray:
        own: list[Atom] = []
        while type(t) is TArray:
            own.append(size_atom(lw, t.size, fr) or i64(0))
            t, fr = head(t.elem, fr)
        return Arr(tuple(own), zero_value(lw, t, fr, dims + tuple(own)))
    if type(t) is TRecord:
        return Rec(in_order({n: zero_value(lw, f, fr, dims) for n, f in t.fields}))
    if type(t) is TSum:
        payloads = {n: zero_value(lw, f, fr, dims) for n, f in fields_of(t).items()}
        return Rec({"#": zero_value(lw, TPrim(I8), fr, dims)} | payloads)
    # A function in a sum type: it stands where another constructor is meant, and is never applied.
    return MISSING


def contains_function(t: SType) -> bool:
    t = opened(t)
    if type(t) is TFun:
        return True
    if type(t) is TRecord:
        return any(contains_function(f) for _, f in t.fields)
    return type(t) is TSum and any(contains_function(a) for _, args in t.constrs for a in args)


def type_key(t: SType, fr: Frame) -> str:
    """A type's structure without its sizes, for keys of instances."""
    t, fr = head(t, fr)
    if type(t) is TPrim:
        return t.prim.name
    if type(t) is TArray:
        return "[]" + type_key(t.elem, fr)
    if type(t) is TRecord:
        return "{" + ",".join(f"{n}:{type_key(f, fr)}" for n, f in t.fields) + "}"
    if type(t) is TFun:
        return f"({type_key(t.param, fr)}->{type_key(t.result, fr)})"
    if type(t) is TSum:
        rows = [f"{c}({','.join([type_key(a, fr) for a in args])})" for c, args in t.constrs]
        return "<" + "|".join(rows) + ">"
    return "?"

