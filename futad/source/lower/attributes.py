"""Lowering of attributes on expressions: what they change about the code of the expression, never its value."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.types import AccType, Const
from futad.source import ast
from futad.source.lower.control import loop
from futad.source.lower.core import Lowerer, handles
from futad.source.lower.values import Arr, Frame, Leaf, Rec, Value, is_accumulator


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
    attr = (a.name, *[_attr_arg(x, fr) for x in a.args])
    if type(e.expr) is ast.ELoop:
        return loop(lw, e.expr, fr, (attr,))
    before = len(lw.b.stms)
    v = lw.expr(e.expr, fr)
    last = next((s for s in reversed(lw.b.stms[before:]) if s.exp.lambdas() or type(s.exp) is ir.Call), None)
    if last is not None:
        last.attrs = (*last.attrs, attr)
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
