"""Which bindings a piece of syntax mentions, in expressions and in types, and how big it is; both cached."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from futad.errors import Span
from futad.source import ast
from futad.source.types import (
    Binding,
    SizeExp,
    SizeMeta,
    SizeVar,
    TArray,
    TFun,
    TMeta,
    TParam,
    TRecord,
    TSum,
)

_SKIP = (str, int, float, bool, Span, type(None))


_FIELDS: dict[type, tuple[str, ...]] = {}


def _field_names(cls: type) -> tuple[str, ...]:
    names = _FIELDS.get(cls)
    if names is None:
        own = fields(cls) if is_dataclass(cls) else ()
        names = _FIELDS[cls] = tuple([f.name for f in own if f.name not in ("span", "decl")])
    return names


class Mentions:
    """Collects bindings; each type object is looked into once."""

    def __init__(self) -> None:
        self.found: dict[Binding, None] = {}
        self.seen: set[int] = set()

    def walk(self, x: Any) -> None:
        t = type(x)
        if t in _SKIP:
            return
        if t is list or t is tuple:
            for y in x:
                self.walk(y)
            return
        if t is dict:
            for y in x.values():
                self.type(y)
            return
        if t is Binding:
            self.binding(x)
            return
        if isinstance(x, ast.TypeExp):
            return
        for name in _field_names(t):
            y = getattr(x, name)
            if name == "type" or name == "ret_type":
                self.type(y)
            elif name != "implicit" and name != "tparams":
                self.walk(y)

    def binding(self, b: Binding) -> None:
        if b not in self.found:
            self.found[b] = None
            if b.alias is not None:
                self.type(b.alias)

    def type(self, t: Any) -> None:
        """Bindings in a type or a size."""
        if t is None or id(t) in self.seen:
            return
        self.seen.add(id(t))
        cls = type(t)
        if cls is TMeta or cls is SizeMeta:
            self.type(t.ref)
        elif cls is TArray:
            self.type(t.size)
            self.type(t.elem)
        elif cls is TRecord:
            for _, f in t.fields:
                self.type(f)
        elif cls is TFun:
            self.type(t.param)
            self.type(t.result)
        elif cls is TParam or cls is SizeVar:
            self.binding(t.binding)
        elif cls is SizeExp:
            for a in t.args:
                self.type(a)
            self.walk(t.expr)
        elif cls is TSum:
            for _, args in t.constrs:
                for a in args:
                    self.type(a)


def count(x: Any, limit: int) -> int:
    """The number of expressions in a piece of syntax; counting stops beyond the limit."""
    t = type(x)
    if t is list or t is tuple:
        n = 0
        for y in x:
            n += count(y, limit - n)
            if n > limit:
                break
        return n
    if t in _SKIP or t is dict or t is Binding or isinstance(x, ast.TypeExp):
        return 0
    n = int(isinstance(x, ast.Expr))
    for name in _field_names(t):
        if n > limit:
            break
        if name not in ("type", "ret_type", "binding"):
            n += count(getattr(x, name), limit - n)
    return n


class Facts:
    """Mentions and sizes of syntax nodes, computed once a node."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Mentions]] = {}
        self._sizes: dict[int, tuple[Any, int]] = {}

    def of(self, node: Any) -> Mentions:
        hit = self._known.get(id(node))
        if hit is None:
            m = Mentions()
            m.walk(node)
            hit = self._known[id(node)] = (node, m)
        return hit[1]

    def size(self, node: Any, limit: int) -> int:
        """Expressions in a node, up to the limit (the same one for all calls about a node)."""
        hit = self._sizes.get(id(node))
        if hit is None:
            hit = self._sizes[id(node)] = (node, count(node, limit))
        return hit[1]
