"""Binding patterns to values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.core.types import I8, TRUE, Atom, Const
from futad.source import ast
from futad.source.lower.values import Arr, Frame, Leaf, Rec, Value, in_order, scalar
from futad.source.types import Binding, SType, TSum, resolve

if TYPE_CHECKING:
    from futad.source.lower.core import Lowerer


def bind(lw: Lowerer, p: ast.Pat, v: Value, fr: Frame) -> None:
    """Bind the names of an irrefutable pattern (or of one that is known to match)."""
    t = type(p)
    if t is ast.PVar:
        assert type(p) is ast.PVar and p.binding is not None
        fr.vals[p.binding] = v
    elif t is ast.PAscript:
        assert type(p) is ast.PAscript
        bind(lw, p.pat, v, fr)
        bind_written_sizes(lw, p.texp, v, fr)
    elif t is ast.PAttr:
        assert type(p) is ast.PAttr
        bind(lw, p.pat, v, fr)
    elif t is ast.PTuple:
        assert type(p) is ast.PTuple and type(v) is Rec
        for i, q in enumerate(p.elems):
            bind(lw, q, v.fields[str(i)], fr)
    elif t is ast.PRecord:
        assert type(p) is ast.PRecord and type(v) is Rec
        for n, q in p.fields:
            bind(lw, q, v.fields[n], fr)
    elif t is ast.PConstr:
        assert type(p) is ast.PConstr and type(v) is Rec
        for i, q in enumerate(p.args):
            bind(lw, q, v.fields[f"#{p.name}.{i}"], fr)


def bind_written_sizes(lw: Lowerer, t: ast.TypeExp, v: Value, fr: Frame) -> None:
    """Bind size names that the type expression introduces and nothing else has bound."""
    if type(t) is ast.TEUnique:
        bind_written_sizes(lw, t.elem, v, fr)
    elif type(t) is ast.TEArray and type(v) is Arr:
        s = t.size
        if type(s) is ast.EVar and s.binding is not None and fr.lookup(s.binding) is None:
            fr.vals[s.binding] = Leaf(v.dims[0])
        rest = Arr(v.dims[1:], v.elem) if len(v.dims) > 1 else v.elem
        bind_written_sizes(lw, t.elem, rest, fr)
    elif type(t) is ast.TETuple and type(v) is Rec:
        for i, e in enumerate(t.elems):
            bind_written_sizes(lw, e, v.fields[str(i)], fr)
    elif type(t) is ast.TERecord and type(v) is Rec:
        for n, e in t.fields:
            bind_written_sizes(lw, e, v.fields[n], fr)


def matches(lw: Lowerer, p: ast.Pat, v: Value, fr: Frame) -> Atom:
    """A bool atom: whether the value has the pattern's form."""
    if type(p) in (ast.PVar, ast.PWild):
        return TRUE
    if type(p) is ast.PAscript or type(p) is ast.PAttr:
        return matches(lw, p.pat, v, fr)
    if type(p) is ast.PLit:
        return lw.b.scalar("eq", scalar(v), lw.scalar(p.lit, fr))
    out: Atom = TRUE
    assert type(v) is Rec, v
    if type(p) is ast.PTuple:
        parts = [(q, v.fields[str(i)]) for i, q in enumerate(p.elems)]
    elif type(p) is ast.PRecord:
        parts = [(q, v.fields[n]) for n, q in p.fields]
    else:
        assert type(p) is ast.PConstr and p.type is not None
        out = lw.b.scalar("eq", scalar(v.fields["#"]), constr_tag(p.type, p.name))
        parts = [(q, v.fields[f"#{p.name}.{i}"]) for i, q in enumerate(p.args)]
    for q, f in parts:
        m = matches(lw, q, f, fr)
        out = m if out is TRUE else out if m is TRUE else lw.b.scalar("and", out, m)
    return out


def constr_tag(t: SType, name: str) -> Const:
    """The tag of a constructor: its place among the names of its type in alphabetical order."""
    t = resolve(t)
    assert type(t) is TSum, t
    return Const(I8, sorted(c for c, _ in t.constrs).index(name))


def pattern_vars(p: ast.Pat) -> list[tuple[ast.PVar, tuple[ast.Attr, ...]]]:
    """The variables of a pattern, left to right, each with the attributes around it."""
    out: list[tuple[ast.PVar, tuple[ast.Attr, ...]]] = []

    def go(q: ast.Pat, attrs: tuple[ast.Attr, ...]) -> None:
        if type(q) is ast.PVar:
            out.append((q, attrs))
        elif type(q) is ast.PAscript:
            go(q.pat, attrs)
        elif type(q) is ast.PAttr:
            go(q.pat, (*attrs, q.attr))
        elif type(q) is ast.PTuple:
            for e in q.elems:
                go(e, attrs)
        elif type(q) is ast.PRecord:
            for _, e in q.fields:
                go(e, attrs)
        elif type(q) is ast.PConstr:
            for e in q.args:
                go(e, attrs)

    go(p, ())
    return out


def pattern_value(p: ast.Pat, fr: Frame) -> Value:
    """The value that a pattern's own names have now (`loop (x, y) for ...` without initial values)."""
    if type(p) is ast.PVar:
        found = _by_name(p, fr)
        assert found is not None, p.name
        return found
    if type(p) is ast.PAscript or type(p) is ast.PAttr:
        return pattern_value(p.pat, fr)
    if type(p) is ast.PTuple:
        return Rec({str(i): pattern_value(q, fr) for i, q in enumerate(p.elems)})
    assert type(p) is ast.PRecord
    return Rec(in_order({n: pattern_value(q, fr) for n, q in p.fields}))


def _by_name(p: ast.PVar, fr: Frame) -> Value | None:
    scope: Frame | None = fr
    while scope is not None:
        hits: list[Binding] = [b for b in scope.vals if b.name == p.name and b is not p.binding]
        if hits:
            return scope.vals[hits[-1]]
        scope = scope.parent
    return None


def hint_of(p: ast.Pat) -> str:
    """A name for the core variables of a parameter."""
    names = [v.name for v, _ in pattern_vars(p)]
    return names[0] if len(names) == 1 else "arg"
