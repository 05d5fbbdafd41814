"""The class decorator that turns annotated fields into traversals.

A node class lists its fields; each annotation is one of the kinds below, and the decorator writes
`operands`, `lambdas`, `rebuild` and `key` from them.  A new construct therefore needs no traversal code.

    Atom        one operand                    Atoms       tuple of operands
    Index       tuple of operands and `Range`s        Groups      tuple of tuples of operands
    Lambda, Lambdas   nested scopes
    anything else: static data, compared by value
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_OPERANDS = {
    "Atom": "out.append(self.{f})",
    "Atoms": "out.extend(self.{f})",
    "Index": "_index_operands(self.{f}, out)",
    "Groups": "[out.extend(g) for g in self.{f}]",
}
_LAMBDAS = {"Lambda": "out.append(self.{f})", "Lambdas": "out.extend(self.{f})"}
_REBUILD = {
    "Atom": "fa(self.{f})",
    "Atoms": "tuple([fa(a) for a in self.{f}])",
    "Index": "_index_map(self.{f}, fa)",
    "Groups": "tuple([tuple([fa(a) for a in g]) for g in self.{f}])",
    "Lambda": "fl(self.{f})",
    "Lambdas": "tuple([fl(l) for l in self.{f}])",
}


@dataclass(frozen=True, slots=True)
class Range:
    """`count` positions of one dimension: start, start + stride, ...  (stride may be negative or 0)."""

    start: Any
    count: Any
    stride: Any


def _index_operands(index: tuple[Any, ...], out: list[Any]) -> None:
    for i in index:
        if type(i) is Range:
            out += (i.start, i.count, i.stride)
        else:
            out.append(i)


def index_operands(index: tuple[Any, ...]) -> list[Any]:
    """The atoms of an index, those of its ranges included."""
    out: list[Any] = []
    _index_operands(index, out)
    return out


def _index_map(index: tuple[Any, ...], fa: Any) -> tuple[Any, ...]:
    return tuple(
        [
            Range(fa(i.start), fa(i.count), fa(i.stride)) if type(i) is Range else fa(i)
            for i in index
        ]
    )


@dataclass_transform(eq_default=False)
def node(cls: type[T]) -> type[T]:
    """Make `cls` a slotted dataclass with generated traversals (see the module's docstring)."""
    kinds: dict[str, str] = dict(cls.__annotations__)
    made = dataclass(slots=True, eq=False, repr=False)(cls)
    lines = ["def operands(self):", "    out = []"]
    lines += [f"    {_OPERANDS[k].format(f=f)}" for f, k in kinds.items() if k in _OPERANDS]
    lines += ["    return out", "def lambdas(self):", "    out = []"]
    lines += [f"    {_LAMBDAS[k].format(f=f)}" for f, k in kinds.items() if k in _LAMBDAS]
    args = ", ".join(_REBUILD.get(k, "self.{f}").format(f=f) for f, k in kinds.items())
    lines += ["    return out", "def rebuild(self, fa, fl):", f"    return cls({args})"]
    if any(k in _LAMBDAS for k in kinds.values()):
        lines += ["def key(self):", "    return None"]
    else:
        fields = "".join(f"self.{f}, " for f in kinds)
        lines += ["def key(self):", f"    return (cls, {fields})"]
    scope: dict[str, Any] = {
        "cls": made,
        "_index_operands": _index_operands,
        "_index_map": _index_map,
    }
    exec("\n".join(lines), scope)
    for name in ("operands", "lambdas", "rebuild", "key"):
        setattr(made, name, scope[name])
    made.kinds = kinds  # type: ignore[attr-defined]
    return made
