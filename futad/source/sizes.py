"""Size expressions: their normal form as polynomials, and which source expressions can be sizes.

Two sizes are equal when their polynomials over what cannot be taken apart (variables, calls) are equal.
"""

from __future__ import annotations

from typing import Any

from futad.core.types import I64
from futad.errors import Span
from futad.registry import once
from futad.source import ast as A
from futad.source import limits
from futad.source.types import (
    Binding,
    Size,
    SizeConst,
    SizeExp,
    SizeMeta,
    SizeVar,
    TArray,
    TFun,
    TMeta,
    TPrim,
    resolve,
    resolve_size,
)

# A polynomial maps a monomial (a sorted tuple of atoms) to its coefficient; an atom is a key with uid first.
Atom = tuple[Any, ...]
Poly = dict[tuple[Atom, ...], int]

_RING = {"+", "-", "*"}
# Operations a size expression may use besides the ring's; they stay opaque.
_OPAQUE = {"/", "%", "//", "%%", "**"}


def const(value: int) -> Poly:
    return {(): value} if value else {}


def add(a: Poly, b: Poly, sign: int = 1) -> Poly:
    out = dict(a)
    for mono, c in b.items():
        new = out.get(mono, 0) + sign * c
        if new:
            out[mono] = new
        else:
            out.pop(mono, None)
    return out


# Products of more terms than this are not multiplied out.
MAX_TERMS = 200
# A name stands for the size it is bound to only if that is no bigger than this (in nodes).
MAX_WEIGHT = 24


def mul(a: Poly, b: Poly) -> Poly:
    if len(a) * len(b) > MAX_TERMS:
        return {(("op", "*", *sorted((key(a), key(b)))),): 1}
    out: Poly = {}
    for m1, c1 in a.items():
        for m2, c2 in b.items():
            mono = tuple(sorted(m1 + m2, key=repr))
            new = out.get(mono, 0) + c1 * c2
            if new:
                out[mono] = new
            else:
                out.pop(mono, None)
    return out


def key(p: Poly) -> str:
    """A text equal for equal polynomials."""
    return repr(sorted(p.items(), key=repr))


def poly(s: Size) -> Poly:
    """The polynomial of a size, with solved metas followed."""
    s = resolve_size(s)
    if type(s) is SizeConst:
        return const(s.value)
    if type(s) is SizeVar:
        return {(("v", s.binding.uid),): 1}
    if type(s) is SizeMeta:
        return {(("m", s.uid),): 1}
    assert type(s) is SizeExp
    return expr_poly(s.expr, dict(zip(s.params, s.args, strict=True)))


def expr_poly(e: A.Expr, env: dict[Binding, Size]) -> Poly:
    """The polynomial of a size expression whose parameters stand for the sizes in `env`."""
    if type(e) is A.ELit:
        return const(e.value)
    if type(e) is A.EVar:
        b = e.binding
        assert b is not None
        if b in env:
            return poly(env[b])
        return poly(SizeVar(b))
    if type(e) is A.EAscript:
        return expr_poly(e.expr, env)
    if type(e) is A.ENeg:
        return add({}, expr_poly(e.arg, env), -1)
    if type(e) is A.EApp:
        op = binary_op(e)
        if type(e.fun) is A.EApp and (op in _RING or op in _OPAQUE):
            left, right = expr_poly(e.fun.arg, env), expr_poly(e.arg, env)
            if op in _RING:
                return mul(left, right) if op == "*" else add(left, right, 1 if op == "+" else -1)
            if op in ("/", "//") and set(left) <= {()} and set(right) <= {()} and right:
                return const(left.get((), 0) // right[()])
            return {(("op", op, key(left), key(right)),): 1}
        return {(("call", key(expr_poly(e.fun, env)), key(expr_poly(e.arg, env))),): 1}
    if type(e) is A.EProject:
        return {(("field", e.field_name, key(expr_poly(e.record, env))),): 1}
    if type(e) is A.EIndex:
        parts = [e.array, *[x for x in e.index if isinstance(x, A.Expr)]]
        return {(("index", *[key(expr_poly(x, env)) for x in parts]),): 1}
    return {(("expr", id(e)),): 1}


def is_intrinsic(v: A.EVar) -> bool:
    return v.binding is not None and v.binding.kind == "intrinsic"


def expressible(e: A.Expr, data: bool = True) -> bool:
    """Whether an (already typed) expression may be a size: names, numbers, arithmetic, indexing, calls of functions.

    Without `data` no array, record or function that a name holds may occur in it.
    """
    if type(e) is A.ELit:
        return type(e.value) is int
    if type(e) is A.EVar:
        return e.binding is not None and (e.binding.kind not in _LOCAL or data or is_scalar(e))
    if type(e) is A.EAscript:
        return expressible(e.expr, data)
    if type(e) is A.EApp:
        fun = resolve(e.fun.type) if e.fun.type is not None else None
        param = resolve(fun.param) if type(fun) is TFun else None
        if type(param) is TArray and param.unique and not _made_here(e.arg):
            return False
        return not e.new_sizes and expressible(e.fun, data) and expressible(e.arg, data)
    if type(e) is A.EProject:
        return is_scalar(e) and (type(e.record) is A.EVar or expressible(e.record, data))
    if type(e) is A.EIndex:
        parts = [isinstance(x, A.Expr) and expressible(x, data) for x in e.index]
        return data and expressible(e.array) and all(parts)
    return False


def _made_here(e: A.Expr) -> bool:
    """Whether the value of an argument is new, so that a size may consume it: made of numbers by a prelude function."""
    if type(e) is A.EApp:
        return _made_here(e.fun) and _made_here(e.arg)
    return is_scalar(e) or (type(e) is A.EVar and is_intrinsic(e))


def consumed_name(e: A.Expr) -> A.EVar | None:
    """The name that a size expression hands over to be consumed, if there is one."""
    if type(e) is not A.EApp:
        return None
    fun = resolve(e.fun.type) if e.fun.type is not None else None
    param = resolve(fun.param) if type(fun) is TFun else None
    if type(e.arg) is A.EVar and type(param) is TArray and param.unique:
        return e.arg
    return consumed_name(e.fun) or consumed_name(e.arg)


def size_of_expr(e: A.Expr, data: bool = True) -> Size | None:
    """The size that an i64 expression denotes; None if it cannot be one.  `data` as in `expressible`."""
    return _size_of(e, data) if limits.written(e) else None


def _size_of(e: A.Expr, data: bool) -> Size | None:
    if type(e) is A.ELit:
        return SizeConst(e.value) if type(e.value) is int else None
    if type(e) is A.EAscript or type(e) is A.EAttr or type(e) is A.EAssert:
        return _size_of(e.expr, data)
    if type(e) is A.EVar and e.binding is not None and is_i64(e):
        return SizeVar(e.binding) if e.binding.kind in _LOCAL else _opaque(e)
    if type(e) is A.EApp:
        op = binary_op(e)
        if op in _RING or op in _OPAQUE:
            assert type(e.fun) is A.EApp
            left, right = _size_of(e.fun.arg, data), _size_of(e.arg, data)
            return compose(op, left, right, e.span) if left is not None and right is not None else None
    return _opaque(e) if expressible(e, data) else None


def value_of_expr(e: A.Expr) -> Size | None:
    """What stands for an argument of any type in the sizes that mention it; None if they cannot."""
    if is_i64(e):
        return size_of_expr(e)
    if type(e) is A.EVar and e.binding is not None and e.binding.kind in _LOCAL:
        return SizeVar(e.binding)
    return _opaque(e) if expressible(e) else None


def binary_op(e: A.Expr) -> str:
    """The intrinsic operator that `e` applies to two operands, or ''."""
    if type(e) is A.EApp and type(e.fun) is A.EApp and type(e.fun.fun) is A.EVar and is_intrinsic(e.fun.fun):
        return e.fun.fun.name
    return ""


_LOCAL = ("value", "size", "skolem")


def _opaque(e: A.Expr) -> Size:
    names: dict[Binding, None] = {}
    free_names(e, names)
    params = tuple(names)
    return SizeExp(key(expr_poly(e, {})), e, params, tuple(SizeVar(b) for b in params))


def free_names(e: A.Expr, out: dict[Binding, None]) -> None:
    """All local names a size expression mentions, of any type."""
    if type(e) is A.EVar:
        b = e.binding
        if b is not None and b.kind in _LOCAL:
            out[b] = None
    elif type(e) is A.EApp:
        free_names(e.fun, out)
        free_names(e.arg, out)
    elif type(e) is A.EAscript:
        free_names(e.expr, out)
    elif type(e) is A.EProject:
        free_names(e.record, out)
    elif type(e) is A.EIndex:
        free_names(e.array, out)
        for x in e.index:
            if isinstance(x, A.Expr):
                free_names(x, out)


def is_scalar(e: A.Expr) -> bool:
    return e.type is not None and type(resolve(e.type)) in (TPrim, TMeta)


def is_i64(e: A.Expr) -> bool:
    t = resolve(e.type) if e.type is not None else None
    return type(t) is TPrim and t.prim is I64


# --- building sizes ------------------------------------------------------------------------------------------

_I64 = TPrim(I64)


@once
def op_binding(name: str) -> Binding:
    """The intrinsic of an operator in expressions that inference makes itself."""
    return Binding(name, "intrinsic")


def size_to_expr(s: Size, span: Span, params: dict[Binding, Size]) -> A.Expr:
    """An i64 expression for a size; what is not a name becomes a parameter of the expression."""
    s = resolve_size(s)
    e: A.Expr
    if type(s) is SizeConst:
        e = A.ELit(span, s.value, I64)
    else:
        b: Binding | None = None
        if type(s) is SizeVar:
            b = s.binding
            params[b] = s
        else:
            for known, size in params.items():
                if size is s:
                    b = known
            if b is None:
                b = Binding("size", "size")
                params[b] = s
        e = A.EVar(span, b.name)
        e.binding = b
    e.type = _I64
    return e


def arith(op: str, a: Size, b: Size, span: Span) -> Size:
    """The size `a op b`, for + - *; constants fold and trivial terms vanish."""
    pa, pb = poly(a), poly(b)
    p = mul(pa, pb) if op == "*" else add(pa, pb, 1 if op == "+" else -1)
    if set(p) <= {()}:
        return SizeConst(p.get((), 0))
    for candidate, pc in ((a, pa), (b, pb)):
        if p == pc:
            return resolve_size(candidate)
    return compose(op, a, b, span)


def compose(op: str, a: Size, b: Size, span: Span) -> SizeExp:
    """The size expression `a op b` as written: its form matters when an unknown `n * m` is matched."""
    params: dict[Binding, Size] = {}
    left, right = size_to_expr(a, span, params), size_to_expr(b, span, params)
    var = A.EVar(span, op)
    var.binding = op_binding(op)
    var.type = _I64
    inner = A.EApp(span, var, left)
    inner.type = _I64
    e = A.EApp(span, inner, right)
    e.type = _I64
    return SizeExp(key(expr_poly(e, params)), e, tuple(params), tuple(params.values()))


def find_atom(s: Size, atom: Atom) -> Size | None:
    """The size inside `s` whose polynomial is this single atom."""
    s = resolve_size(s)
    if poly(s) == {(atom,): 1}:
        return s
    if type(s) is SizeExp:
        for a in s.args:
            found = find_atom(a, atom)
            if found is not None:
                return found
    return None


def from_poly(p: Poly, sources: tuple[Size, ...], span: Span) -> Size | None:
    """A size with this polynomial, its atoms taken from `sources`; None if one is not there."""
    total: Size = SizeConst(0)
    for mono, c in sorted(p.items(), key=repr):
        term: Size = SizeConst(abs(c))
        for atom in mono:
            part = next((f for s in sources if (f := find_atom(s, atom)) is not None), None)
            if part is None:
                return None
            term = arith("*", term, part, span)
        total = arith("+" if c > 0 else "-", total, term, span)
    return total


def weight(s: Size) -> int:
    """How big a size is, written out in names and numbers."""
    s = resolve_size(s)
    return _nodes(s.expr) + sum(weight(a) for a in s.args) if type(s) is SizeExp else 1


def _nodes(e: A.Expr) -> int:
    if type(e) is A.EApp:
        return 1 + _nodes(e.fun) + _nodes(e.arg)
    return 1


def metas_of(s: Size, out: dict[SizeMeta, None]) -> None:
    """The unsolved metas in a size."""
    s = resolve_size(s)
    if type(s) is SizeMeta:
        out[s] = None
    elif type(s) is SizeExp:
        for a in s.args:
            metas_of(a, out)
