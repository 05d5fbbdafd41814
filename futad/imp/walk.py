"""Walks over statements and expressions of the imperative IR, and of the kernel IR, which adds to it.

Each is a few lines over the traversals that a node has by itself (`node.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from futad.imp import ir
from futad.imp.ir import Expr, Ref, Stmt
from futad.imp.node import Node


def blocks(body: list[Stmt]) -> Iterator[list[Stmt]]:
    """The list of statements and all that are nested in it, outer ones first."""
    yield body
    for s in body:
        for inner in s.bodies():
            yield from blocks(inner)


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, outer ones first."""
    todo = list(body)[::-1]
    while todo:
        s = todo.pop()
        yield s
        if bodies := s.bodies():
            for inner in reversed(bodies):
                todo += reversed(inner)


def parts(x: Node) -> Sequence[Expr]:
    """An expression and all inside it, outer ones first; of a statement those of the expressions that it evaluates."""
    if not isinstance(x, Expr):
        return [p for e in x.exprs() for p in parts(e)]
    try:
        return x.parts_
    except AttributeError:
        x.parts_ = (x, *[p for e in x.exprs() for p in parts(e)])
        return x.parts_


def loads_in(x: Node) -> Sequence[ir.Load]:
    """The loads of an expression or a statement, those in their indices included."""
    if not isinstance(x, Expr):
        return [p for e in x.exprs() for p in loads_in(e)]
    try:
        return x.loads_
    except AttributeError:
        x.loads_ = tuple([p for p in parts(x) if isinstance(p, ir.Load)])
        return x.loads_


def has_load(x: Node) -> bool:
    """Whether an expression or a statement's expressions read memory."""
    return bool(loads_in(x))


def refs(x: Node) -> Set[str]:
    """The scalar variables of an expression or a statement's expressions."""
    if not isinstance(x, Expr):
        return set(x.uses())
    try:
        return x.refs_
    except AttributeError:
        x.refs_ = frozenset(x.uses())
        return x.refs_


def rewritten(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The expression with `f` of each part, of the innermost ones first."""
    return f(e.map_exprs(lambda x: rewritten(x, f)))


def substitute(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with values for some variables."""
    return rewritten(e, lambda x: values.get(x.name, x) if isinstance(x, Ref) else x)


def used(body: list[Stmt]) -> list[Stmt]:
    """The statements without variables that nothing uses."""
    uses: set[str] = set()
    out: list[Stmt] = []
    for s in reversed(body):
        if isinstance(s, ir.Decl) and not s.mutable and s.name not in uses:
            continue
        uses |= {n for t in statements([s]) for n in t.uses()}
        out.append(s)
    return out[::-1]


def needed(body: list[Stmt], by: Iterable[Node]) -> list[Stmt]:
    """The declarations of a body that statements, or expressions, need."""
    names = {n for x in by for y in (statements([x]) if isinstance(x, Stmt) else [x]) for n in y.uses()}
    out: list[Stmt] = []
    for s in reversed(body):
        if isinstance(s, ir.Decl) and s.name in names:
            out.append(s)
            names |= refs(s)
    return out[::-1]


__all__ = [
    "blocks", "has_load", "loads_in", "needed", "parts", "refs", "rewritten", "statements", "substitute", "used",
]  # fmt: skip
