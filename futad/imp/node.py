"""Traversals of the imperative and the kernel IR, generated from the annotations of fields.

A class of statements, of expressions, or of parts of these (`Node`) says by its fields' annotations what each is.  A
field of any other type is a TypeError when the class is made, so no traversal can overlook one.  The traversals below
are written from the kinds of a class's fields, each when it is first called.

    Expr            an expression that is evaluated       Stmt, list[Stmt]    nested statements
    Declared        a name that is declared here          Assigned            a variable or pointer that changes
    Used            a scalar variable that is read        Pointed             a pointer or slot used for its address
    Read, Written, Modified   a pointer whose memory is read, written, both
    Updated         one whose memory is written, and read first if the statement has an `op`
    Text, Static    data that names nothing, as are bools, numbers and element types
    a `Node`        what it has itself

and options, unions, lists, tuples and sets of these.  A name that is empty is none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import is_
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, Union, get_args, get_origin

from futad.core.types import Prim

Declared = Annotated[str, "defines"]
Assigned = Annotated[str, "assigns"]
Used = Annotated[str, "uses"]
Pointed = Annotated[str, "points"]
Read = Annotated[str, "reads"]
Written = Annotated[str, "writes"]
Modified = Annotated[str, "reads", "writes"]
Updated = Annotated[str, "reads with op", "writes"]
Text = Annotated[str, "static"]
Static = Annotated[Any, "static"]
ROLES = {"defines", "assigns", "uses", "points", "reads", "reads with op", "writes"}

# ("name", roles, where in the field), ("expr",), ("part",), ("body",), ("node",), ("static",), ("option", kind),
# ("each", container, kind), ("fixed", kinds) or ("union", ((class, kind), ...)).
Kind = tuple[Any, ...]

_KINDS: dict[tuple[str, str], Kind] = {}  # of the annotations seen, by module: most fields are of a few types


def _kind_of(annotation: str, cls: type, field: str) -> Kind:
    """The kind of a class's field."""
    key = (cls.__module__, annotation)
    if key not in _KINDS:
        _KINDS[key] = _kind(eval(annotation, vars(sys.modules[cls.__module__])), f"{cls.__qualname__}.{field}")
    return _KINDS[key]


def _kind(t: Any, where: str) -> Kind:
    """The kind of a field of type `t`."""
    origin, args = get_origin(t), get_args(t)
    if origin is Annotated:
        base, *roles = args
        if roles == ["static"]:
            return ("static",)
        if ROLES.issuperset(roles):
            return ("name", tuple(roles), "" if base is str else ".name")
    elif origin in (Union, UnionType):
        members = tuple([(_class(a), _kind(a, where)) for a in args if a is not NoneType])
        kind: Kind = members[0][1] if len(members) == 1 else ("union", members)
        return ("option", kind) if len(members) < len(args) else kind
    elif origin is list and isinstance(args[0], type) and issubclass(args[0], Stmt):
        return ("body",)
    elif origin in (list, frozenset) or (origin is tuple and args[1:] == (...,)):
        return ("each", origin.__name__, _kind(args[0], where))
    elif origin is tuple:
        return ("fixed", tuple([_kind(a, where) for a in args]))
    elif isinstance(t, type):
        if issubclass(t, (Prim, int)):
            return ("static",)
        if issubclass(t, Node):
            return ("expr" if issubclass(t, Expr) else "part" if issubclass(t, Stmt) else "node",)
    raise TypeError(f"{where} is of no known kind: {t}")


def _class(t: Any) -> type:
    """What values of a member of a union are instances of."""
    out: type = get_args(t)[0] if get_origin(t) is Annotated else t
    return out


def _written(cls: type[Node], name: str) -> Callable[..., Any]:
    """A traversal of the class."""
    scope: dict[str, Any] = {"only": _only, "same": _same_items}
    if name in _COLLECT:
        lines = [x for f, k in cls.kinds.items() for x in _collect(k, f"self.{f}", "    ", _COLLECT[name], scope)]
        if not lines:
            return _nothing
        made = [f"def {name}(self):", "    out = []", *lines, "    return out"]
    else:
        args = [_mapped(k, f"self.{f}", 0, _MAP[name], scope) for f, k in cls.kinds.items()]
        if args == [f"self.{f}" for f in cls.kinds]:
            return _same
        made = [f"def {name}(self, f):"]
        if issubclass(cls, Expr):
            args = _unless_same(made, args, list(cls.kinds))
        made.append(f"    return self.__class__({', '.join(args)})")
    exec("\n".join(made), scope)
    out: Callable[..., Any] = scope[name]
    return out


def _unless_same(lines: list[str], args: list[str], fields: list[str]) -> list[str]:
    """Names for new values of fields; the lines before give the expression itself, which is immutable, if all are as
    they were."""
    new = {f: x for f, x in zip(fields, args, strict=True) if x != f"self.{f}"}
    lines += [f"    {f} = same({x}, self.{f})" if x.startswith("tuple(") else f"    {f} = {x}" for f, x in new.items()]
    lines += [f"    if {' and '.join([f'{f} is self.{f}' for f in new])}:", "        return self"]
    return [f if f in new else x for f, x in zip(fields, args, strict=True)]


def _same_items(new: tuple[Any, ...], old: tuple[Any, ...]) -> tuple[Any, ...]:
    return old if all(map(is_, new, old)) else new


def _when_called(name: str) -> Callable[..., Any]:
    """What a class has for a traversal until that is written."""

    def first(self: Node, *f: Any) -> Any:
        setattr(self.__class__, name, _written(self.__class__, name))
        return getattr(self, name)(*f)

    return first


def _nothing(self: Node) -> list[Any]:
    return []


def _same(self: Node, f: Any) -> Node:
    return self


def _only(body: list[Stmt]) -> Stmt:
    (one,) = body
    return one


def _collect(kind: Kind, x: str, pad: str, leaf: Callable[[Kind, str], str], scope: dict[str, Any]) -> list[str]:
    """Statements that add to `out` what a traversal finds in `x`; `leaf` gives the one for a kind without others."""
    match kind:
        case ("option", inner):
            lines = _collect(inner, x, pad + "  ", leaf, scope)
            return [f"{pad}if {x} is not None:", *lines] if lines else []
        case ("each", container, inner):
            lines = _collect(inner, f"x{len(pad)}", pad + "  ", leaf, scope)
            all_ = f"sorted({x})" if container == "frozenset" else x
            return [f"{pad}for x{len(pad)} in {all_}:", *lines] if lines else []
        case ("fixed", kinds):
            return [line for i, k in enumerate(kinds) for line in _collect(k, f"{x}[{i}]", pad, leaf, scope)]
        case ("union", members):
            out: list[str] = []
            for t, inner in members:
                scope[t.__name__] = t
                lines = _collect(inner, x, pad + "  ", leaf, scope)
                out += [f"{pad}if isinstance({x}, {t.__name__}):", *lines] if lines else []
            return out
    text = leaf(kind, x)
    return [pad + text] if text else []


def _mapped(kind: Kind, x: str, depth: int, leaf: Callable[[Kind, str], str], scope: dict[str, Any]) -> str:
    """An expression for `x` with `f` of what a traversal finds in it."""
    match kind:
        case ("option", inner):
            text = _mapped(inner, x, depth, leaf, scope)
            return x if text == x else f"(None if {x} is None else {text})"
        case ("each", container, inner):
            text = _mapped(inner, f"x{depth}", depth + 1, leaf, scope)
            return x if text == f"x{depth}" else f"{container}([{text} for x{depth} in {x}])"
        case ("fixed", kinds):
            texts = [_mapped(k, f"{x}[{i}]", depth, leaf, scope) for i, k in enumerate(kinds)]
            return x if texts == [f"{x}[{i}]" for i in range(len(kinds))] else f"({', '.join(texts)},)"
        case ("union", members):
            out = x
            for t, inner in members:
                scope[t.__name__] = t
                text = _mapped(inner, x, depth, leaf, scope)
                out = out if text == x else f"({text} if isinstance({x}, {t.__name__}) else {out})"
            return out
    return leaf(kind, x) or x


def _named(role: str, through: tuple[str, ...]) -> Callable[[Kind, str], str]:
    """Names of a role, and those of kinds that are looked `through`."""

    def leaf(kind: Kind, x: str) -> str:
        if kind[0] == "name" and role in kind[1]:
            return f"if {x}{kind[2]}: out.append({x}{kind[2]})"
        if kind[0] == "name" and f"{role} with op" in kind[1]:
            return f"if self.op is not None: out.append({x})"
        return f"out += {x}.{role}()" if kind[0] in through else ""

    return leaf


def _any_name(name: str, through: dict[str, str]) -> Callable[[Kind, str], str]:
    def leaf(kind: Kind, x: str) -> str:
        if kind[0] == "name":
            return f"if {x}{kind[2]}: out.append({x}{kind[2]})"
        return through.get(kind[0], "").format(x=x)

    return leaf


def _by_kind(**texts: str) -> Callable[[Kind, str], str]:
    return lambda kind, x: texts.get(kind[0], "").format(x=x)


def _renamed(kind: Kind, x: str) -> str:
    if kind[0] == "name":
        return f"{x}.map_names(f)" if kind[2] else f"({x} and f({x}))"
    return f"{x}.map_names(f)" if kind[0] == "node" else ""


_COLLECT = {
    "exprs": _by_kind(expr="out.append({x})", node="out += {x}.exprs()"),
    "bodies": _by_kind(body="out.append({x})", part="out.append([{x}])", node="out += {x}.bodies()"),
    "defines": _named("defines", ("node",)),
    "assigns": _named("assigns", ("node",)),
    "uses": _named("uses", ("node", "expr")),
    "reads": _named("reads", ("node", "expr")),
    "writes": _named("writes", ("node",)),
    "names": _any_name("names", {"node": "out += {x}.names()"}),
    "mentions": _any_name(
        "mentions",
        {
            **dict.fromkeys(("node", "expr", "part"), "out += {x}.mentions()"),
            "body": "[out.extend(s.mentions()) for s in {x}]",
        },
    ),
}
_MAP = {
    "map_exprs": _by_kind(expr="f({x})", node="{x}.map_exprs(f)"),
    "map_bodies": _by_kind(body="f({x})", part="only(f([{x}]))", node="{x}.map_bodies(f)"),
    "map_names": _renamed,
}
_WHEN_CALLED = {name: _when_called(name) for name in (*_COLLECT, *_MAP)}


# --- what has them --------------------------------------------------------------------------------------------


class Node:
    """Base of what has traversals.  Those of a statement do not enter nested statements, those of an expression do
    enter its operands; but `exprs` and `map_exprs` are of one level."""

    __slots__ = ()
    kinds: ClassVar[dict[str, Kind]] = {}

    def __init_subclass__(cls) -> None:
        if "kinds" not in cls.__dict__:  # `dataclass` makes a class with slots once more
            own = {f: _kind_of(t, cls, f) for f, t in cls.__dict__.get("__annotations__", {}).items()}
            cls.kinds = {f: k for f, k in cls.kinds.items() if f not in own} | own
            for name, first in _WHEN_CALLED.items():
                setattr(cls, name, first)

    def exprs(self) -> list[Expr]:
        """The expressions that this evaluates."""
        raise NotImplementedError

    def bodies(self) -> list[list[Stmt]]:
        """The nested statements; a single one as a list of its own."""
        raise NotImplementedError

    def defines(self) -> list[str]:
        """The names that this declares."""
        raise NotImplementedError

    def assigns(self) -> list[str]:
        """The variables and pointers that this changes."""
        raise NotImplementedError

    def uses(self) -> list[str]:
        """The scalar variables that are read, as often as they are."""
        raise NotImplementedError

    def reads(self) -> list[str]:
        """The pointers whose memory is read, by expressions too."""
        raise NotImplementedError

    def writes(self) -> list[str]:
        """The pointers whose memory is written."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """All names in the fields, those in expressions left out."""
        raise NotImplementedError

    def mentions(self) -> list[str]:
        """All names in the order of the fields, those in expressions and nested statements too."""
        raise NotImplementedError

    def map_exprs(self, f: Callable[[Expr], Expr]) -> Self:
        """A copy with `f` of each of its expressions."""
        raise NotImplementedError

    def map_bodies(self, f: Callable[[list[Stmt]], list[Stmt]]) -> Self:
        """A copy with `f` of each of its bodies; of a single statement it has to make a single one."""
        raise NotImplementedError

    def map_names(self, f: Callable[[str], str]) -> Self:
        """A copy with `f` of each of `names`."""
        raise NotImplementedError


class Expr(Node):
    """Base of expressions; each has a `type`.  They are immutable: what is found out of one is kept with it
    (`walk.py`), and one in which `map_exprs` or `map_names` changes nothing is given back."""

    __slots__ = ("parts_", "loads_", "refs_", "cost_")
    type: Prim

    if TYPE_CHECKING:
        parts_: tuple[Expr, ...]
        loads_: tuple[Any, ...]
        refs_: frozenset[str]
        cost_: int


class Stmt(Node):
    """Base of statements."""

    __slots__ = ()


__all__ = [
    "Assigned", "Declared", "Expr", "Modified", "Node", "Pointed", "Read", "Static", "Stmt", "Text", "Updated", "Used",
    "Written",
]  # fmt: skip
