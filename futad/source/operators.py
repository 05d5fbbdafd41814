"""Recognising operators in typed programs: functions that combine two values by one scalar operation in each component,
element by element on arrays.

What `core/operator.py` says of a lambda is said here before lowering, of an expression, whether or not an entry point
uses it.  Beside the forms there, an operator may have a name, be made by applying another one (`map2 f`), and combine
tuples and records:

    (+)     \\x y -> y + x     map2 (+)     def f x y = let s = x + y in s     \\(a, i) (b, j) -> (a * b, i + j)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from futad.core.operator import Operator
from futad.core.scalarops import OPS
from futad.core.types import Prim
from futad.source import ast as A
from futad.source.opaque import opened
from futad.source.sizes import is_intrinsic
from futad.source.types import Binding, SType, TFun, TPrim

Path = tuple[str, ...]  # the names of fields, outermost first


@dataclass(frozen=True, slots=True)
class Component:
    """The operation of one component of an operator, on numbers of this type."""

    operator: Operator
    prim: Prim


@dataclass(frozen=True, slots=True)
class _Part:
    """A component of the left value (side 0) or the right one (1)."""

    side: int
    path: Path = ()


@dataclass(frozen=True, slots=True)
class _Applied:
    what: Component
    left: _Part
    right: _Part


@dataclass(frozen=True, slots=True)
class _Fields:
    of: dict[str, _Value]


_Value = _Part | _Applied | _Fields | None  # None: anything else
_Env = Mapping[Binding, _Value]

DEEP = 20  # functions that are looked into


def components(f: A.Expr, named: Mapping[Binding, A.Expr]) -> dict[Path, Component]:
    """The components of an operator that are one operation of their own two values; `named`: what local names stand
    for."""
    found: dict[Path, Component] = {}
    stack: list[tuple[Path, _Value]] = [((), _Reader(named).applied(f, [_Part(0), _Part(1)], {}, DEEP))]
    while stack:
        path, v = stack.pop()
        if type(v) is _Fields:
            stack += [((*path, name), x) for name, x in v.of.items()]
        elif type(v) is _Applied and v.left.path == v.right.path == path and v.left.side != v.right.side:
            if v.left.side == 0 or OPS[v.what.operator.op].commutative:
                found[path] = v.what
    return found


@dataclass(slots=True)
class _Reader:
    named: Mapping[Binding, A.Expr]

    def applied(self, f: A.Expr, args: Sequence[_Value], env: _Env, deep: int) -> _Value:
        """The value of a function applied to values."""
        f = plain(f)
        if deep == 0:
            return None
        if type(f) is A.EApp:
            if len(args) == 2 and _is(f.fun, "map2"):
                return _mapped(self.applied(f.arg, args, env, deep - 1))
            return self.applied(f.fun, [self.value(f.arg, env, deep - 1), *args], env, deep - 1)
        if type(f) is A.ELambda:
            return self.body(f.params, f.body, args, env, deep)
        if type(f) is not A.EVar or f.binding is None:
            return None
        if is_intrinsic(f):
            return _operation(f, args)
        if f.binding in self.named:
            return self.applied(self.named[f.binding], args, env, deep - 1)
        fd = f.binding.decl
        return self.body(fd.params, fd.body, args, env, deep) if type(fd) is A.FunDef else None

    def body(self, params: list[A.Pat], body: A.Expr, args: Sequence[_Value], env: _Env, deep: int) -> _Value:
        if len(params) > len(args):
            return None
        inside = dict(env)
        for p, x in zip(params, args, strict=False):
            _bind(p, x, inside)
        rest = args[len(params) :]
        return self.applied(body, rest, inside, deep - 1) if rest else self.value(body, inside, deep - 1)

    def value(self, e: A.Expr, env: _Env, deep: int) -> _Value:
        e = plain(e)
        if deep == 0:
            return None
        if type(e) is A.EVar and e.binding is not None:
            return env.get(e.binding)
        if type(e) is A.ETuple:
            return _Fields({str(i): self.value(x, env, deep - 1) for i, x in enumerate(e.elems)})
        if type(e) is A.ERecord:
            return _Fields({name: self.value(x, env, deep - 1) for name, x in e.fields})
        if type(e) is A.EProject:
            return _component(self.value(e.record, env, deep - 1), e.field_name)
        if type(e) is A.ELet:
            inside = dict(env)
            _bind(e.pat, self.value(e.rhs, env, deep - 1), inside)
            return self.value(e.body, inside, deep - 1)
        if type(e) is A.EApp:
            if _is(e.fun, "copy"):
                return self.value(e.arg, env, deep - 1)
            args: list[_Value] = []
            f: A.Expr = e
            while type(f) is A.EApp and not (args and len(args) == 2 and _is(f.fun, "map2")):
                args.insert(0, self.value(f.arg, env, deep - 1))
                f = plain(f.fun)
            return self.applied(f, args, env, deep - 1)
        return None


def plain(e: A.Expr) -> A.Expr:
    """The expression without attributes and types."""
    while type(e) is A.EAttr or type(e) is A.EAscript or type(e) is A.ECoerce:
        e = e.expr
    return e


def _is(f: A.Expr, name: str) -> bool:
    f = plain(f)
    return type(f) is A.EVar and f.name == name and is_intrinsic(f)


def _operation(f: A.EVar, args: Sequence[_Value]) -> _Value:
    """An intrinsic operation of two numbers."""
    prim = _number(f.type)
    left, right = args if len(args) == 2 else (None, None)
    if type(left) is not _Part or type(right) is not _Part or f.binding is None or prim is None:
        return None
    name = f.binding.name.rpartition(".")[2]
    for o in OPS.values():
        if o.arity == 2 and (name, False) in o.names(prim):
            return _Applied(Component(Operator(o.name), prim), left, right)
    return None


def _number(t: SType | None) -> Prim | None:
    """The type of the numbers that a function takes."""
    f = opened(t) if t is not None else None
    p = opened(f.param) if type(f) is TFun else None
    return p.prim if type(p) is TPrim else None


def _mapped(v: _Value) -> _Value:
    """The value where a function of one element has this one."""
    if type(v) is _Fields:
        return _Fields({name: _mapped(x) for name, x in v.of.items()})
    if type(v) is not _Applied:
        return v
    operator = v.what.operator
    return replace(v, what=replace(v.what, operator=replace(operator, rank=operator.rank + 1)))


def _component(v: _Value, name: str) -> _Value:
    if type(v) is _Part:
        return replace(v, path=(*v.path, name))
    return v.of.get(name) if type(v) is _Fields else None


def _bind(p: A.Pat, v: _Value, env: dict[Binding, _Value]) -> None:
    if isinstance(p, A.PVar) and p.binding is not None:
        env[p.binding] = v
    elif isinstance(p, (A.PAscript, A.PAttr)):
        _bind(p.pat, v, env)
    elif isinstance(p, A.PTuple):
        for i, q in enumerate(p.elems):
            _bind(q, _component(v, str(i)), env)
    elif isinstance(p, A.PRecord):
        for name, q in p.fields:
            _bind(q, _component(v, name), env)


__all__ = ["Component", "Path", "components", "plain"]
