"""Structures of values: tuples, dicts, dataclasses and named tuples, as the parts of arguments and results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from futad.python.place import fail


@dataclass(frozen=True, slots=True)
class Tree:
    """The structure of a value: a leaf, or what its parts are called and how they are put together."""

    kind: str = "leaf"  # "tuple", "record"
    names: tuple[str, ...] = ()
    parts: tuple[Tree, ...] = ()
    make: Callable[[Sequence[Any]], Any] | None = dataclasses.field(default=None, compare=False)

    @property
    def leaves(self) -> int:
        """How many there are."""
        return 1 if self.kind == "leaf" else sum(p.leaves for p in self.parts)

    def build(self, leaves: Iterator[Any]) -> Any:
        """The value with these leaves."""
        if self.kind == "leaf":
            return next(leaves)
        assert self.make is not None
        return self.make([p.build(leaves) for p in self.parts])

    def paths(self, path: str) -> list[str]:
        """What the leaves of a value are called that is called `path`."""
        if self.kind == "leaf":
            return [path]
        return [x for n, p in zip(self.names, self.parts, strict=True) for x in p.paths(f"{path}.{n}")]


LEAF = Tree()


def parts_of(value: Any) -> tuple[str, tuple[str, ...], list[Any], Callable[[Sequence[Any]], Any]] | None:
    """The kind of a structure, the names of its parts, these, and what makes one of parts; None of a leaf."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        kind = type(value)
        return "record", tuple(value._fields), list(value), lambda parts: kind(*parts)
    if isinstance(value, tuple):
        return "tuple", tuple(map(str, range(len(value)))), list(value), tuple
    if isinstance(value, Mapping):
        names = tuple(value)
        if bad := [n for n in names if not isinstance(n, str) or not n.isidentifier()]:
            fail(f"{bad[0]!r} is not the name of a record's field", "keys are names such as 'weights'")
        return "record", names, [value[n] for n in names], lambda parts: dict(zip(names, parts, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple([f.name for f in dataclasses.fields(value)])
        of = type(value)
        return "record", names, [getattr(value, n) for n in names], lambda p: of(**dict(zip(names, p, strict=True)))
    return None


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """The leaves of a value, and its structure.  Raises TraceError."""
    found = parts_of(value)
    if found is None:
        return [value], LEAF
    kind, names, parts, make = found
    if len(parts) == 0 or (kind == "tuple" and len(parts) == 1):
        fail(f"a {kind} of {len(parts)} parts", "give the value itself, or a dict that names it")
    made = [flatten(p) for p in parts]
    return [x for leaves, _ in made for x in leaves], Tree(kind, names, tuple([t for _, t in made]), make)


__all__ = ["LEAF", "Tree", "flatten", "parts_of"]
