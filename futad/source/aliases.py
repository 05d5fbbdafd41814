"""Aliases: which arrays a value may share memory with, followed through records field by field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from futad.errors import Span
from futad.source.opaque import opened
from futad.source.traversals import parts
from futad.source.types import SType, TArray, TParam, TPrim, TRecord, TSum


class Token:
    """One array (or closure) that a name holds; `path` names it, `depth` says in which function or loop."""

    __slots__ = ("path", "depth", "why", "span")

    def __init__(self, path: str, depth: int, why: str, span: Span | None) -> None:
        self.path = path
        self.depth = depth
        self.why = why  # why it may not be consumed, or ''
        self.span = span


Set = frozenset[Token]
# Aliases of a value: a set, or a tree of them that follows a record's fields.
Tree = Any
NONE: Set = frozenset()
CONSTANT = "it is a constant"
ABSTRACT_CONSTANT = "it is a constant of an abstract type"
Why = str | Callable[[SType], str]


def flat(t: Tree) -> Set:
    """All tokens of a tree."""
    if isinstance(t, dict):
        out: Set = NONE
        for x in t.values():
            out |= flat(x)
        return out
    return t


def union(a: Tree, b: Tree) -> Tree:
    if isinstance(a, dict) and isinstance(b, dict):
        return {n: union(a[n], b[n]) if n in b else a[n] for n in a}
    if isinstance(a, dict):
        return {n: union(x, b) for n, x in a.items()}
    if isinstance(b, dict):
        return {n: union(a, x) for n, x in b.items()}
    return a | b


def prune(tree: Tree, gone: Set) -> Tree:
    """The tree without some tokens."""
    if isinstance(tree, dict):
        return {n: prune(x, gone) for n, x in tree.items()}
    return tree - gone


def overlap(tree: Tree, t: SType) -> Token | None:
    """A token that a unique part of `tree` shares with another part."""
    leaves: list[tuple[Set, bool]] = []

    def go(tree: Tree, t: SType) -> None:
        t = opened(t)
        if type(t) is TRecord:
            for n, f in t.fields:
                go(tree.get(n, NONE) if isinstance(tree, dict) else tree, f)
        else:
            leaves.append((flat(tree), marked(t)))

    go(tree, t)
    for i, (a, unique) in enumerate(leaves):
        if unique:
            for j, (b, _) in enumerate(leaves):
                if i != j and a & b:
                    return min(a & b, key=lambda x: x.path)
    return None


def has_memory(t: SType) -> bool:
    """Whether values of a type may share memory with others."""
    t = opened(t)
    if type(t) is TSum or type(t) is TRecord:
        return any(has_memory(x) for x in parts(t))
    if type(t) is TParam and t.binding.kind == "abstract":
        # The body of a parametric module is checked again when it is applied, with the types themselves.
        return False
    return type(t) is not TPrim


def shape(t: SType, leaf: Callable[[SType, str], Set], path: str = "") -> Tree:
    """A tree in the form of a type; scalars have no aliases."""
    t = opened(t)
    if type(t) is TPrim:
        return NONE
    if type(t) is TRecord:
        return {n: shape(f, leaf, f"{path}.{n}") for n, f in t.fields}
    return leaf(t, path) if has_memory(t) else NONE


def conform(tree: Tree, t: SType) -> Tree:
    """`tree` in the form of type `t`: scalars drop out, a set spreads over fields."""
    t = opened(t)
    if type(t) is TPrim:
        return NONE
    if type(t) is TRecord:
        if isinstance(tree, dict):
            return {n: conform(tree.get(n, NONE), f) for n, f in t.fields}
        return {n: conform(tree, f) for n, f in t.fields}
    return flat(tree) if has_memory(t) else NONE


def marked(t: SType) -> bool:
    """Whether a part that is not a record is `*` (a sum type is, if its payloads are)."""
    if type(t) is TSum:
        return any(is_unique(a) for _, args in t.constrs for a in args)
    return type(t) is TArray and t.unique


def is_unique(t: SType) -> bool:
    """Whether any part of a parameter's or result's type is `*`."""
    t = opened(t)
    if type(t) is TRecord:
        return any(is_unique(f) for _, f in t.fields)
    return marked(t)


def unique_part(tree: Tree, t: SType, unique: bool = True) -> Set:
    """The tokens in those parts of `tree` that type `t` marks `*` (or, with unique=False, does not)."""
    t = opened(t)
    if type(t) is TRecord:
        out: Set = NONE
        for n, f in t.fields:
            out |= unique_part(tree.get(n, NONE) if isinstance(tree, dict) else tree, f, unique)
        return out
    return flat(tree) if marked(t) == unique else NONE
