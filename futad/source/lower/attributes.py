"""Lowering of attributes on expressions: what they change about the code of the expression, never its value."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.types import AccType, ArrayType, Atom, Const, zero
from futad.errors import TypeCheckError
from futad.source import ast, budgets
from futad.source.lower.control import loop
from futad.source.lower.core import Lowerer, handles
from futad.source.lower.values import Arr, Frame, Leaf, Rec, Value, is_accumulator, rebuild, walk_shapes


@handles(ast.EAttr)
def lower_attr(lw: Lowerer, e: ast.EAttr, fr: Frame) -> Value:
    """Attributes go to the statement that computes the expression; `unsafe` drops checks inside."""
    a = e.attr
    if a.name == "unsafe":
        lw.unchecked += 1
        v = lw.expr(e.expr, fr)
        lw.unchecked -= 1
        return v
    if a.name == "trace":
        v = lw.expr(e.expr, fr)
        trace(lw, v, str(a.args[0]) if a.args else str(e.span))
        return v
    if a.name in ("scratch", "blank"):
        return _any_value(lw, e.expr, fr, a.name == "scratch")
    if a.name == "noinline":
        return _noinline(lw, e.expr, fr)
    if a.name in budgets.NAMES:
        return _budgeted(lw, e, fr)
    attr = (a.name, *[_attr_arg(x, fr) for x in a.args])
    if type(e.expr) is ast.ELoop:
        return loop(lw, e.expr, fr, (attr,))
    before = len(lw.b.stms)
    v = lw.expr(e.expr, fr)
    last = next((s for s in reversed(lw.b.stms[before:]) if s.exp.lambdas() or type(s.exp) is ir.Call), None)
    if last is not None:
        last.attrs = (*last.attrs, attr)
    return v


def _budgeted(lw: Lowerer, e: ast.EAttr, fr: Frame) -> Value:
    """A loop, or a derivative, with the budget that all attributes before it say together."""
    attrs, rest = budgets.attributes_of(e)
    attribute = budgets.budget(attrs, lambda name, a: _constant(name, a, fr)).attribute()
    before = len(lw.b.stms)
    v = loop(lw, rest, fr, (attribute,)) if type(rest) is ast.ELoop else lw.expr(rest, fr)
    if type(rest) is not ast.ELoop:
        made = [s for s in lw.b.stms[before:] if isinstance(s.exp, ir.Loop | ir.Vjp)]
        if made and budgets.takes_one(rest):
            made[-1].attrs = (*made[-1].attrs, attribute)
    return v


def _constant(name: str, a: ast.Attr, fr: Frame) -> Any:
    """The value of a constant in an attribute.  Raises TypeCheckError if it is none."""
    x = _attr_arg(name, fr)
    if x is name:
        raise TypeCheckError(f"'{name}' is no constant", a.span, hint="give the number itself", code=budgets.WRONG)
    return x


def _any_value(lw: Lowerer, e: ast.Expr, fr: Frame, scratch: bool) -> Value:
    """A value of the same shape: `scratch` ones with unspecified elements, others with zeros.  What the expression
    itself computes is not used but for its shape."""
    lw.unchecked += 1
    v = lw.expr(e, fr)
    lw.unchecked -= 1
    parts: list[Atom] = []
    for a, shape in walk_shapes(v):
        if type(a.type) is not ArrayType:
            parts.append(a)
        elif scratch:
            parts.append(lw.b.let(ir.Scratch(a.type.elem, shape), "scratch"))
        else:
            parts.append(lw.b.let(ir.Replicate(shape, zero(a.type.elem)), "blank"))
    return rebuild(v, iter(parts))


def _noinline(lw: Lowerer, e: ast.Expr, fr: Frame) -> Value:
    """An application whose function is called, whatever its size."""
    f = e
    while type(f) is ast.EApp:
        f = f.fun
    fd = f.binding.decl if type(f) is ast.EVar and f.binding is not None else None
    outside, before = lw.not_inlined, len(lw.b.stms)
    lw.not_inlined = fd if type(fd) is ast.FunDef else None
    v = lw.expr(e, fr)
    lw.not_inlined = outside
    called = [s.exp.name for s in lw.b.stms[before:] if type(s.exp) is ir.Call]
    if called and called[-1] in lw.funs and ("noinline",) not in lw.funs[called[-1]].attrs:
        lw.funs[called[-1]].attrs = (*lw.funs[called[-1]].attrs, ("noinline",))
    return v


def _attr_arg(x: Any, fr: Frame) -> Any:
    """A name in an attribute that is a known constant stands for its value."""
    if type(x) is not str:
        return x
    scope: Frame | None = fr
    while scope is not None:
        for b, v in scope.vals.items():
            if b.name == x and type(v) is Leaf and type(v.atom) is Const:
                return v.atom.value
        scope = scope.parent
    return x


def trace(lw: Lowerer, v: Value, tag: str) -> None:
    """Print the scalars and arrays that a value consists of, each as `tag: value`, components with their path."""
    while type(v) is Arr:
        v = v.elem
    if type(v) is Leaf:
        if type(v.atom.type) is not AccType:
            lw.b.emit(ir.Trace(v.atom, tag))
    elif type(v) is Rec and not is_accumulator(v):
        for name, f in v.fields.items():
            trace(lw, f, f"{tag}.{name}")
