"""Causality: the size of an array is known before a value of its type is made.

Inference finds sizes without regard to the order of evaluation.  `if b then filter p xs else []: [][]t` gives the
empty array a size that only the other branch computes.  Such a program has a type and cannot be run.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from futad.errors import Span, TypeCheckError
from futad.source import ast as A
from futad.source.pretty import show_binding, show_type
from futad.source.traversals import parts, size_names
from futad.source.types import Binding, Size, SType, TArray, TFun, resolve

Known = frozenset[Binding]
NONE: Known = frozenset()


def check_causality(body: A.Expr) -> None:
    """Require that each size that an expression of `body` computes is computed before something has it.

    Raises TypeCheckError (E0407).
    """
    made: dict[Binding, Span] = {}
    _collect(body, made)
    if made:
        _Causality(made).visit(body, NONE)


def _collect(e: Any, made: dict[Binding, Span]) -> None:
    new = getattr(e, "new_sizes", ())
    for b in new:
        made[b] = e.span
    for x in children(e):
        _collect(x, made)


def children(e: A.Expr) -> list[A.Expr]:
    """The expressions directly inside of an expression, but for those in types."""
    out: list[A.Expr] = []
    for f in _PARTS[type(e)]:
        _add(getattr(e, f), out)
    return out


def _add(x: Any, out: list[A.Expr]) -> None:
    kind = type(x)
    if kind in _FORMS:
        for f in _PARTS[kind]:
            _add(getattr(x, f), out)
    elif kind in _PARTS:
        out.append(x)
    elif kind is list or kind is tuple:
        for y in x:
            _add(y, out)
    elif kind is A.FunDef:
        out.append(x.body)


def _parts(cls: type) -> tuple[str, ...]:
    skipped = (
        "span",
        "first",
        "type",
        "binding",
        "sizes",
        "pat",
        "texp",
        "ret",
        "params",
        "name",
        "new_sizes",
        "targs",
        "sargs",
    )
    return tuple(f.name for f in fields(cls) if f.name not in skipped)


_FORMS = (A.ESlice, A.ForIn, A.ForI, A.WhileForm)
_PARTS: dict[type, tuple[str, ...]] = {
    c: _parts(c) for c in vars(A).values() if isinstance(c, type) and (issubclass(c, A.Expr) or c in _FORMS)
}


class _Causality:
    """`made` are the sizes in question, with what computes them."""

    def __init__(self, made: dict[Binding, Span]) -> None:
        self.made = made

    def visit(self, e: A.Expr, known: Known) -> Known:
        """Check an expression that is evaluated when `known` sizes are; those that it computes."""
        new: Known = NONE
        if type(e) is A.EVar:
            for t in e.targs.values():
                self.require(t, known, f"'{e.name}'", e)
            for s in e.sargs.values():
                self.size(s, known, f"'{e.name}'", e, None)
            return NONE
        if type(e) is A.EApp:
            return self.call(e, known)
        if type(e) is A.ELambda:
            for p in e.params:
                self.require(p.type, known, "this function's parameter", e)
            self.visit(e.body, known)
            return NONE
        if type(e) is A.ELetFun:
            self.visit(e.fun.body, known)
            return self.visit(e.body, known)
        if type(e) in (A.EHole, A.EProjSection) or (type(e) is A.EArray and not e.elems):
            what = "an empty array" if type(e) is A.EArray else "this"
            self.require(e.type, known, what, e)
            return NONE
        if type(e) is A.EConstr:
            for x in e.args:
                new |= self.visit(x, known | new)
            self.require(e.type, known | new, f"'#{e.name}'", e)
            return new
        if type(e) is A.ELet:
            new = self.visit(e.rhs, known)
            new |= self.visit(e.body, known | new | frozenset(e.new_sizes))  # these are its own names
        elif type(e) is A.EMatch:
            new = self.visit(e.scrutinee, known)
            for _, body in e.cases:
                self.visit(body, known | new)
        elif type(e) is A.EIf:
            new = self.visit(e.cond, known)
            self.visit(e.then, known | new)
            self.visit(e.orelse, known | new)
        elif type(e) is A.ELoop:
            assert e.init is not None
            new = self.visit(e.init, known)
            for x in children(e):
                if x is not e.init:
                    self.visit(x, known | new)
        else:
            for x in children(e):
                new |= self.visit(x, known)
        made = getattr(e, "new_sizes", ())
        return new.union(made) if made else new

    def call(self, e: A.EApp, known: Known) -> Known:
        """Arguments are evaluated from the right, operands from the left, and the function last."""
        if e.first:
            new = self.visit(e.fun, known)
            return (new | self.visit(e.arg, known | new)).union(e.new_sizes)
        spine: list[A.EApp] = []
        fun: A.Expr = e
        while type(fun) is A.EApp and not fun.first:
            spine.append(fun)
            fun = fun.fun
        new = NONE
        infix = type(fun) is A.EVar and not (fun.name[0].isalpha() or fun.name[0] == "_")
        for node in reversed(spine) if infix else spine:
            new |= self.visit(node.arg, known | new)
        new |= self.visit(fun, known | new)
        return new.union(*[node.new_sizes for node in spine])

    def require(self, t: SType | None, known: Known, what: str, e: A.Expr) -> None:
        """A value of type `t` is made here, so its sizes must be known."""
        whole = t

        def go(t: SType, bound: frozenset[Binding]) -> None:
            t = resolve(t)
            if type(t) is TArray:
                self.size(t.size, known | bound, what, e, whole)
            for x in parts(t):
                go(x, bound)
            if type(t) is TFun:
                if t.name is not None:
                    bound |= {t.name}
                bound |= frozenset(t.exists)
                go(t.param, bound)
                go(t.result, bound)

        if t is not None:
            go(t, NONE)

    def size(self, s: Size, known: Known, what: str, e: A.Expr, t: SType | None) -> None:
        for b in size_names(s):
            if b in self.made and b not in known:
                where = self.made[b]
                shown = f", a {show_type(t)}," if t is not None else ""
                raise TypeCheckError(
                    f"{what}{shown} needs the size {show_binding(b)} before it is computed",
                    e.span,
                    hint="bind what computes it by a 'let' before this",
                    code="E0407",
                    notes=(f"{show_binding(b)} is computed at line {where.line}, column {where.col}",),
                )
