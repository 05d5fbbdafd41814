"""Traces as Futhark text.

A value is written where it is used, if that is once, in the scope that computes it, and the user has no name for it.
Others are bound by `let`, by the name of the user's variable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from futad.core.types import PRIMS
from futad.python.layout import (
    ATOM,
    HARD,
    LET,
    SPACE,
    SUM,
    Doc,
    Group,
    Mark,
    Nest,
    Written,
    enclosed,
)
from futad.python.sizes import Quotient, Size
from futad.python.values import LengthOf, Scope, Stm, Value, identical
from futad.source import prelude

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEYWORDS = """and assert acc case def do else entry false for if import in include let local loop match module open
    sig then true type val where while with"""


@cache
def reserved() -> frozenset[str]:
    """Names that text must not bind: keywords, and what the prelude calls something."""
    return frozenset([*_KEYWORDS.split(), *prelude.prelude(), *PRIMS, "intrinsics"])


def identifier(name: str) -> str:
    """A name of Python's as Futhark may write it."""
    plain = re.sub(r"[^A-Za-z0-9_]", lambda m: f"u{ord(m[0]):x}", name).lstrip("_")
    return plain if plain and not plain[0].isdigit() else f"v{plain}"


class Uses:
    """Which values of a scope are needed, how often, and which of them have to be bound by a name."""

    def __init__(self, scope: Scope) -> None:
        self.count: Counter[Value] = Counter()
        self.bound: set[Value] = set()
        self.tails: set[Stm] = set()
        self._scope(scope)

    def _scope(self, scope: Scope) -> None:
        for v in scope.results:
            self._touch(v, scope)
        last = scope.results[0].stm if scope.results else None
        if last is not None and last.scope is scope and identical(last.results, scope.results):
            self.tails.add(last)
        for stm in reversed(scope.stms):
            if not any(v in self.count for v in stm.results):
                continue
            for v in stm.exp.operands():
                self._touch(v, scope)
            for v in stm.exp.inner():
                self._touch(v, scope)
                self.bound.add(v)
            for inner in stm.exp.scopes():
                self._scope(inner)

    def _touch(self, v: Value, scope: Scope) -> None:
        self.count[v] += 1
        if v.scope is not scope:
            self.bound.add(v)

    def needed(self, stm: Stm) -> bool:
        """Whether any of its values is used."""
        return any(v in self.count for v in stm.results)

    def is_tail(self, stm: Stm) -> bool:
        """Whether it is all that its scope returns, and nothing else uses its values."""
        once = all(self.count[v] == 1 and v not in self.bound for v in stm.results)
        return stm in self.tails and stm.exp.flat and once

    def inline(self, v: Value) -> bool:
        """Whether the value is written where it is used."""
        stm = v.stm
        if stm is None:
            return False
        if stm.exp.trivial:
            return True
        if self.is_tail(stm) and len(stm.results) == 1:
            return True
        return len(stm.results) == 1 and self.count[v] <= 1 and v not in self.bound and v.name is None


class Writer:
    """Writes a definition."""

    def __init__(self, uses: Uses, taken: Iterable[str]) -> None:
        self.uses = uses
        self.names: dict[Value, str] = {}
        self._taken = [set(taken)]

    @contextmanager
    def block(self) -> Iterator[None]:
        """Names that are bound inside are free again afterwards."""
        self._taken.append(set(self._taken[-1]))
        try:
            yield
        finally:
            self._taken.pop()

    def fresh(self, name: str) -> str:
        """A name that is not taken, this one or one like it."""
        base = identifier(name)
        base = made = f"{base}_" if base in reserved() else base
        k = 1
        while made in self._taken[-1] or made in reserved():
            made, k = f"{base}{k}", k + 1
        self._taken[-1].add(made)
        return made

    def letter(self) -> str:
        """A short name for an element."""
        free = [c for c in "abcdefghijklmnopqrstuvwxyz" if c not in self._taken[-1]]
        return self.fresh(free[0] if free else "a")

    def name(self, v: Value, hint: str = "x") -> str:
        """The name that the value has from now on."""
        made = self.names[v] = self.fresh(v.name or hint)
        return made

    def written(self, v: Value) -> Written:
        """What stands for the value, and how tightly it binds."""
        if v in self.names:
            return self.names[v], ATOM
        assert v.stm is not None, "a parameter has no name"
        doc, level = v.stm.exp.doc(self)
        return (Mark(v.stm.place), doc) if v.stm.place is not None else doc, level

    def use(self, v: Value, level: int = ATOM) -> Doc:
        """What stands for the value, as an operand of something that binds as tightly as `level`."""
        return parenthesised(*self.written(v), level)

    def inline(self, v: Value) -> bool:
        """Whether the value is written where it is used."""
        return v not in self.names and self.uses.inline(v)

    def atom_name(self, atom: object) -> str:
        """An atom of a size."""
        if isinstance(atom, str):
            return atom
        v = atom.array if isinstance(atom, LengthOf) else atom
        assert isinstance(v, Value) and v in self.names, "a size that has no name"
        return f"length {self.names[v]}" if isinstance(atom, LengthOf) else self.names[v]

    def size(self, s: Size) -> Written:
        """A size as an expression."""
        text = s.text(self.atom_name)
        single = s.known is not None or isinstance(s.atom, str | Value | Quotient)
        return text, LET if text.startswith("-") else ATOM if single else SUM

    def size_atom(self, s: Size) -> Doc:
        """A size as an argument."""
        return parenthesised(*self.size(s), ATOM)

    def type(self, elem: str, dims: Sequence[Size]) -> str:
        """A type."""
        return "".join([f"[{d.text(self.atom_name)}]" for d in dims]) + elem

    def params(self, scope: Scope, hints: Sequence[str] = ()) -> list[str]:
        """Names for the parameters of a lambda."""
        return [self.name(v, h) for v, h in zip(scope.params, [*hints, *["x"] * len(scope.params)], strict=False)]

    def body(self, scope: Scope, result: Callable[[], Doc] | None = None) -> Doc:
        """The statements of a scope and its results; what `result` makes is written instead of these."""
        lets: list[Doc] = []
        tail: Doc | None = None
        for stm in scope.stms:
            if not self.uses.needed(stm) or all(self.inline(v) for v in stm.results):
                continue
            if result is None and self.uses.is_tail(stm):
                tail = (Mark(stm.place), stm.exp.doc(self)[0])
                continue
            doc = stm.exp.doc(self)[0]
            names = [self.name(v, stm.exp.hint) if v in self.uses.count else "_" for v in stm.results]
            pattern = names[0] if len(names) == 1 else stm.exp.pattern(names)
            place: Doc = Mark(stm.place) if stm.place is not None else ""
            lets.append((place, f"let {pattern} =", Group(Nest(2, (SPACE, doc))), HARD))
        if tail is None:
            tail = result() if result is not None else self.results(scope)
        return (*lets, "in ", tail) if lets else tail

    def results(self, scope: Scope) -> Doc:
        """The values that a scope returns."""
        if len(scope.results) == 1:
            return self.use(scope.results[0], LET)
        return enclosed([self.use(v, LET) for v in scope.results])

    def function(self, scope: Scope, patterns: Sequence[Sequence[int]] | None = None, packed: bool = False) -> Doc:
        """A lambda as an atom; `patterns`: which parameters are one tuple, by their numbers.  `packed`: of more than
        five parameters or results the fifth is a tuple of the others, as in arrays that are zipped."""
        with self.block():
            names = self.params(scope)
            groups = patterns if patterns is not None else [[i] for i in range(len(names))]
            if (short := self._known(scope)) is not None and all(len(g) == 1 for g in groups):
                return short
            heads = [names[g[0]] if len(g) == 1 else in_groups([names[i] for i in g], packed) for g in groups]
            used = tuple([x for h in heads for x in (" ", h)])[1:]
            many = packed and len(scope.results) > 5

            def grouped() -> Doc:
                return in_groups([self.use(v, LET) for v in scope.results], True)

            body = self.body(scope, grouped if many else None)
            return Group(("(\\", used, " ->", Nest(2, (SPACE, body)), ")"))

    def _known(self, scope: Scope) -> Doc | None:
        """A lambda that only applies a function to its parameters, as that function."""
        if len(scope.results) != 1:
            return None
        v = scope.results[0]
        stm = v.stm
        if stm is None or stm.scope is not scope or not self.uses.inline(v):
            return None
        return stm.exp.applied(self, scope.params)


def in_groups(docs: Sequence[Doc], packed: bool) -> Doc:
    """A tuple; `packed`: of more than five parts the fifth is a tuple of the others."""
    if packed and len(docs) > 5:
        docs = [*docs[:4], in_groups(docs[4:], True)]
    return enclosed(list(docs))


def parenthesised(doc: Doc, level: int, wanted: int) -> Doc:
    """The document where something binds as tightly as `wanted`."""
    return doc if level >= wanted else ("(", Nest(1, doc), ")")


__all__ = ["Uses", "Writer", "identifier", "parenthesised", "reserved"]
