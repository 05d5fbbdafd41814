"""Traversals of the imperative and the kernel IR agree with the annotations that they are generated from."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest

from futad.core.types import F64, I64, Prim
from futad.flatten import kernel as kir
from futad.imp import claims, ir, views
from futad.imp.ir import Expr, Num, Ref
from futad.imp.node import Declared, Node, Static, Stmt, Text
from futad.imp.walk import blocks, has_load, loads_in, parts, refs, rewritten, statements, substitute

ROLES = ("defines", "assigns", "uses", "reads", "writes")
MODULES = (ir, kir, claims, views)


def classes(base: type[Node]) -> Iterator[type[Node]]:
    for c in base.__subclasses__():
        yield from classes(c)
        if getattr(sys.modules[c.__module__], c.__name__, None) is c and c not in (Expr, Stmt):
            yield c


NODES = {f"{c.__module__}.{c.__name__}": c for c in classes(Node) if sys.modules[c.__module__] in MODULES}


class Made:
    """Instances made from annotations, with names that are all different.  `member`: which of a union's classes."""

    def __init__(self, member: int) -> None:
        self.member = member
        self.number = 0

    def name(self, word: str) -> str:
        self.number += 1
        return f"{word}{self.number}"

    def node(self, c: type[Any]) -> Any:
        hints = get_type_hints(c, include_extras=True)
        return c(**{f.name: self.field(hints[f.name]) for f in fields(c)})

    def field(self, t: Any) -> Any:
        origin, args = get_origin(t), get_args(t)
        if origin is Annotated:
            if args[0] is str:
                return self.name("name")
            return Ref(self.name("param"), I64) if args[0] is Ref else Known(args[0])
        if origin in (Union, UnionType):
            members = [a for a in args if a is not NoneType]
            return None if self.member < 0 and NoneType in args else self.field(members[self.member % len(members)])
        if origin in (list, frozenset) or args[1:] == (...,):
            return origin([self.field(args[0]) for _ in range(2)])
        if origin is tuple:
            return tuple([self.field(a) for a in args])
        if t is Prim:
            return F64
        if t is Stmt:
            return ir.Assign(self.name("inside"), self.field(Expr))
        if t is Expr:
            return ir.Load(self.name("array"), Ref(self.name("index"), I64), F64)
        if isinstance(t, type) and issubclass(t, Node):
            return self.node(t)
        assert t in (int, bool)
        return 1


@dataclass(frozen=True)
class Known:
    """Stands for data that names nothing."""

    of: Any


def reflected(x: Any, t: Any, op: bool = True) -> Counter[tuple[str, Any]]:
    """What a field's value of type `t` has: by role names, by `exprs` and `bodies` texts."""
    out: Counter[tuple[str, Any]] = Counter()
    origin, args = get_origin(t), get_args(t)
    if origin is Annotated:
        name = x.name if isinstance(x, Ref) else x
        given = [r for r in args[1:] if r != "reads with op"] + (["reads"] if "reads with op" in args and op else [])
        if args[1:] != ("static",):
            out.update((r, name) for r in (*given, "names"))
    elif isinstance(x, Expr):
        out["exprs", repr(x)] += 1
        out.update(e for e in of_node(x).elements() if e[0] in ROLES)
    elif isinstance(x, Stmt):
        out["bodies", repr([x])] += 1
    elif isinstance(x, Node):
        out += of_node(x)
    elif origin in (Union, UnionType):
        for a in args:
            bare = get_args(a)[0] if get_origin(a) is Annotated else a
            if a is not NoneType and isinstance(x, get_origin(bare) or bare):
                out += reflected(x, a, op)
    elif origin is list and isinstance(args[0], type) and issubclass(args[0], Stmt):
        out["bodies", repr(x)] += 1
    elif isinstance(x, (list, tuple, frozenset)):
        for k, y in enumerate(x):
            out += reflected(y, args[k] if origin is tuple and args[1:] != (...,) else args[0], op)
    return out


def of_node(x: Any) -> Counter[tuple[str, Any]]:
    hints = get_type_hints(type(x), include_extras=True)
    out: Counter[tuple[str, Any]] = Counter()
    for f in fields(x):
        found = reflected(getattr(x, f.name), hints[f.name], getattr(x, "op", None) is not None)
        if isinstance(x, Expr):  # an operand is one of its expressions, and has roles of its own
            found = Counter({k: n for k, n in found.items() if k[0] != "bodies"})
        out += found
    return out


def generated(x: Node) -> Counter[tuple[str, Any]]:
    out = Counter((r, n) for r in (*ROLES, "names") for n in getattr(x, r)())
    out.update(("exprs", repr(e)) for e in x.exprs())
    out.update(("bodies", repr(b)) for b in x.bodies())
    return out


def text(x: Any) -> str:
    """What an instance has, sets in order."""
    return re.sub(r"frozenset\(\{(.*?)\}\)", lambda m: f"{{{', '.join(sorted(m[1].split(', ')))}}}", repr(x))


def members(c: type[Node]) -> tuple[int, ...]:
    """Which instances of a class differ."""
    texts = {k: text(Made(k).node(c)) for k in (-1, 0, 1)}
    return tuple([k for k in texts if texts[k] not in [texts[j] for j in range(-1, k)]])


INSTANCES = [pytest.param(Made(k).node(c), id=f"{n}-{k}") for n, c in sorted(NODES.items()) for k in members(c)]


@pytest.mark.parametrize("x", INSTANCES)
class TestGenerated:
    def test_collects_what_fields_have(self, x: Any) -> None:
        assert generated(x) == Counter({k: n for k, n in of_node(x).items() if k[0] != "points"})

    def test_identity_changes_nothing(self, x: Any) -> None:
        for y in (x.map_exprs(lambda e: e), x.map_bodies(lambda b: b), x.map_names(lambda n: n)):
            assert type(y) is type(x)
            assert text(y) == text(x)

    def test_replaces_all_expressions(self, x: Any) -> None:
        y = x.map_exprs(lambda e: Num(repr(e), I64))
        assert [e.value for e in y.exprs()] == [repr(e) for e in x.exprs()]
        assert (y.names(), repr(y.bodies())) == (x.names(), repr(x.bodies()))

    def test_replaces_all_bodies(self, x: Any) -> None:
        had = [s for b in x.bodies() for s in b]
        y = x.map_bodies(lambda b: [s.map_names(lambda n: n + "_") for s in b])
        assert [n for b in y.bodies() for s in b for n in s.names()] == [n + "_" for s in had for n in s.names()]
        assert (y.names(), repr(y.exprs())) == (x.names(), repr(x.exprs()))

    def test_replaces_all_names(self, x: Any) -> None:
        y = x.map_names(lambda n: n + "_")
        assert y.names() == [n + "_" for n in x.names()]
        assert (repr(y.exprs()), repr(y.bodies())) == (repr(x.exprs()), repr(x.bodies()))

    def test_mentions_every_name(self, x: Any) -> None:
        inside = [n for e in parts(x) if e is not x for n in e.names()]
        nested = [n for b in x.bodies() for s in b for n in s.mentions()]
        assert Counter(x.mentions()) == Counter([*x.names(), *inside, *nested])


def test_all_are_there() -> None:
    assert {ir.Store, ir.Load, ir.Result, kir.Tile, kir.Matrix, claims.Claim, views.Mem} <= set(NODES.values())


@pytest.mark.parametrize("t", ["str", "dict[str, int]", "object", "list[str]", "tuple[int, str]", "int | str"])
def test_field_of_no_kind(t: str) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.field is of no known kind"):
        type("Wrong", (Stmt,), {"__annotations__": {"field": t}, "__module__": __name__})


def test_fields_of_a_kind() -> None:
    @dataclass(slots=True, eq=False)
    class Right(Stmt):
        name: Declared
        text: Text
        data: Static
        value: Expr

    x = Right("x", "text", {}, Ref("y", I64))
    assert (x.defines(), x.names(), x.uses(), x.mentions()) == (["x"], ["x"], ["y"], ["x", "y"])


# --- walks --------------------------------------------------------------------------------------------------

i, j = Ref("i", I64), Ref("j", I64)
LOAD = ir.Load("a", ir.add(i, ir.Load("b", j, I64)), F64)
STORE = ir.Store("c", i, LOAD)
LOOP = ir.For("i", j, [ir.If(ir.TRUE, [STORE], []), ir.Seq([])])


def test_statements() -> None:
    (branch, rest) = LOOP.body
    assert [*statements([LOOP])] == [LOOP, branch, STORE, rest]
    assert [len(b) for b in blocks([LOOP])] == [1, 2, 1, 0, 0]


def test_statement_of_one() -> None:
    across = ir.VectorisedFor(ir.For("k", j, [LOOP]), [])
    assert [*statements([across])][:2] == [across, across.loop]
    assert across.fold is LOOP
    renamed = across.map_bodies(lambda body: [s.map_names(str.upper) for s in body])
    assert (renamed.loop.var, renamed.fold.var) == ("K", "i")


def test_parts() -> None:
    assert [*parts(STORE)] == [i, *parts(LOAD)]
    assert [x.pointer for x in loads_in(STORE)] == ["a", "b"]
    assert (has_load(STORE), has_load(i)) == (True, False)
    assert refs(STORE) == {"i", "j"}
    assert refs(LOOP) == {"j"}


def test_rewritten() -> None:
    assert substitute(LOAD, {"j": i, "k": j}) == ir.Load("a", ir.add(i, ir.Load("b", i, I64)), F64)
    renamed = rewritten(LOAD, lambda e: e.map_names(str.upper))
    assert [n for x in parts(renamed) for n in x.names()] == ["A", "I", "B", "J"]


def test_origin_stays() -> None:
    load = ir.Load("a", i, F64, ir.Origin(3, "since"))
    assert substitute(load, {"i": j}).map_names(lambda n: n).mentions() == ["a", "j", "since"]
    assert load.uses() == ["i", "since"]
