"""The class decorator that turns annotated fields into traversals.

A node class lists its fields; each annotation is one of the kinds below, and the decorator writes
`operands`, `lambdas`, `rebuild` and `key` from them.  A new construct therefore needs no traversal code.

    Atom        one operand                    Atoms       tuple of operands
    Index       tuple of operands and `Range`s        Lambda      a nested scope
    Folds       operators (scopes) with their neutral elements (operands)
    Type        a type, whose sizes count as used
    anything else: static data, compared by value

A role around a kind says what the construct does with the field; `consumes`, `views` and `repeats` come from these.

    Consumed[Atom], Consumed[Atoms]     arrays that it overwrites; its first results lie where they did
    Viewed[Atom], Viewed[Atoms]         arrays that its results share memory with, in order
    Repeated[Lambda], Repeated[Folds]       scopes that may run any number of times; others run once at most
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, dataclass_transform, final

T = TypeVar("T")
Consumed = Annotated[T, "consumed"]
Viewed = Annotated[T, "viewed"]
Repeated = Annotated[T, "repeated"]

NODES: list[type] = []  # every construct, in the order of definition

_ROLE = re.compile(r"(Consumed|Viewed|Repeated)\[(\w+)\]")
_PARTS = {"Atom": "self.{f}", "Lambda": "self.{f}", "Atoms": "*self.{f}", "Folds": "*[g.lam for g in self.{f}]"}
_ROLES = {"Consumed": "consumes", "Viewed": "views", "Repeated": "repeats"}  # the method that tells of each

_OPERANDS = {
    "Atom": "self.{f}",
    "Atoms": "*self.{f}",
    "Index": "*index_operands(self.{f})",
    "Folds": "*[a for g in self.{f} for a in g.neutral]",
}
_LAMBDAS = {"Lambda": "self.{f}", "Folds": "*[g.lam for g in self.{f}]"}
_REBUILD = {
    "Atom": "fa(self.{f})",
    "Atoms": "tuple([fa(a) for a in self.{f}])",
    "Index": "_index_map(self.{f}, fa)",
    "Lambda": "fl(self.{f})",
    "Folds": "tuple([type(g)(fl(g.lam), tuple([fa(a) for a in g.neutral]), g.comm) for g in self.{f}])",
}


@final
@dataclass(frozen=True, slots=True)
class Range:
    """`count` positions of one dimension: start, start + stride, ...  (stride may be negative or 0)."""

    start: Any
    count: Any
    stride: Any


def index_operands(index: tuple[Any, ...]) -> list[Any]:
    """The atoms of an index, those of its ranges included."""
    out: list[Any] = []
    for i in index:
        if type(i) is Range:
            out += (i.start, i.count, i.stride)
        else:
            out.append(i)
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
    kinds: dict[str, str] = {f: k.replace("ir.", "") for f, k in cls.__annotations__.items()}
    roles: dict[str, list[str]] = {}
    consumed: list[str] = []
    for f, k in kinds.items():
        if m := _ROLE.fullmatch(k):
            kinds[f] = m[2]
            consumed += [f] if m[1] == "Consumed" else []
            roles.setdefault(_ROLES[m[1]], []).append(_PARTS[m[2]].format(f=f))
        elif k.startswith(tuple(_ROLES)):
            raise TypeError(f"{cls.__name__}.{f}: no field can be {k}")
    made = dataclass(slots=True, eq=False, repr=False)(cls)
    lines: list[str] = []
    for name, texts in (("operands", _OPERANDS), ("lambdas", _LAMBDAS)):
        found = ", ".join(texts[k].format(f=f) for f, k in kinds.items() if k in texts)
        lines += [f"def {name}(self):", f"    return [{found}]"]
    args = ", ".join(_REBUILD.get(k, "self.{f}").format(f=f) for f, k in kinds.items())
    lines += ["def rebuild(self, fa, fl):", f"    return cls({args})"]
    scoped = any(k in _LAMBDAS for k in kinds.values())
    if scoped:
        lines += ["def key(self):", "    return None"]
    else:
        fields = "".join(f"self.{f}, " for f in kinds)
        lines += ["def key(self):", f"    return (cls, {fields})"]
    if types := [f for f, k in kinds.items() if k == "Type"]:
        roles["types"] = [f"self.{f}" for f in types]
    for name, fields_ in roles.items():
        lines += [f"def {name}(self):", f"    return ({', '.join(fields_)},)"]
    scope: dict[str, Any] = {
        "cls": made,
        "index_operands": index_operands,
        "_index_map": _index_map,
    }
    exec("\n".join(lines), scope)
    for name in ("operands", "lambdas", "rebuild", "key", *roles):
        setattr(made, name, scope[name])
    facts: dict[str, object] = {"kinds": kinds, "scoped": scoped}
    if "consumes" in roles or "views" in roles or scoped:
        facts["inert"] = False
    if "consumes" in roles:
        facts["pure"] = False
        swapped = {f: _REBUILD[kinds[f]].format(f=f) for f in consumed}
        args = ", ".join(swapped.get(f, f"self.{f}") for f in kinds)
        exec(f"def consuming(self, fa):\n    return cls({args})", scope)
        facts["consuming"] = scope["consuming"]
    for name, fact in facts.items():
        setattr(made, name, fact)
    NODES.append(made)
    return made
