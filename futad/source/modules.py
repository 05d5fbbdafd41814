"""Modules: namespaces of checked definitions; parametric modules are checked anew at each application.

Module types are in modtypes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from futad.core.types import PRIMS
from futad.errors import ScopeError, Span, TypeCheckError, UnsupportedError
from futad.source import modast as M
from futad.source import numeric
from futad.source.check_types import PRIM_TYPES, Abbreviation
from futad.source.fresh import fresh
from futad.source.limits import CODE, MOST_MODULES
from futad.source.modtypes import abstract, restrict
from futad.source.namespace import FAILED_MODULE, FAILED_SIGNATURE, Functor, Module, Signature, scope_of

if TYPE_CHECKING:
    from futad.source.check import Checker

T = TypeVar("T")


def numeric_module(name: str) -> Module:
    """The module of a scalar type."""
    names = {n: numeric.member(name, n) for n in [*numeric.module_members(name), *PRIMS]}
    types = {"t": Abbreviation(f"{name}.t", [], PRIM_TYPES[name])}
    bits = {"f16": "u16", "f32": "u32", "f64": "u64"}.get(name)
    if bits is not None:
        types["int_t"] = Abbreviation(f"{name}.int_t", [], PRIM_TYPES[bits])
    return Module({n: b for n, b in names.items() if b is not None}, types)


def find(ck: Checker, name: str) -> Module | Functor | None:
    """The module of a (qualified) name."""
    first, *rest = name.split(".")
    m = ck.mods.get(first)
    if m is None and numeric.is_module(first):
        m = numeric_module(first)
    for part in rest:
        if not isinstance(m, Module):
            return None
        m = m.mods.get(part)
    if m is FAILED_MODULE:
        ck.abandon()
    return m


def require(ck: Checker, name: str, span: Span) -> Module | Functor:
    m = find(ck, name)
    if m is None and ck.incomplete:
        ck.abandon()
    if m is None:
        near = ck.near(name, [*ck.mods, *PRIMS])
        raise ScopeError(
            f"unknown module '{name}'", span, hint=f"did you mean '{near}'?" if near else None, code="E0201"
        )
    return m


def _put(table: dict[str, T], put: Callable[[str, T], None]) -> None:
    for name, x in table.items():
        put(name, x)


def open_into(ck: Checker, m: Module | Functor, span: Span, export: bool = False) -> None:
    """Bring a module's names into scope."""
    if isinstance(m, Functor):
        raise TypeCheckError("a parametric module must be applied before it is opened", span, code="E0603")
    _put(m.names, ck.bind)
    _put(m.types, ck.bind_type)
    _put(m.mods, ck.bind_module)
    _put(m.sigs, ck.bind_signature)
    if export:
        out = ck.exports
        out.opened |= {("value", n) for n in m.names if n not in out.names}
        out.opened |= {("type", n) for n in m.types if n not in out.types}
        out.opened |= {("module", n) for n in m.mods if n not in out.mods}
        out.names.update(m.names)
        out.types.update(m.types)
        out.mods.update(m.mods)
        out.sigs.update(m.sigs)


# --- module expressions ----------------------------------------------------------------------------------------


def define(ck: Checker, name: str, body: M.ModBody, span: Span) -> None:
    """`module name params : sig = mod`"""
    if len(body.params) > MOST_MODULES:
        raise UnsupportedError(f"a module of more than {MOST_MODULES} parameters", span, code=CODE)
    if body.params:
        first, *rest = body.params
        inner: M.ModExp = body.mod
        ret = body.sig
        for p in reversed(rest):
            inner, ret = M.MLambda(span, p, ret, inner), None
        value: Module | Functor = functor(ck, first, ret, inner)
    else:
        value = evaluate(ck, body.mod)
        if body.sig is not None:
            value = restrict(ck, value, Signature(body.sig, scope_of(ck)), span)
    ck.bind_module(name, value)
    ck.exports.mods[name] = value


def evaluate(ck: Checker, m: M.ModExp) -> Module | Functor:
    """The module that a module expression denotes; its definitions are checked on the way."""
    if isinstance(m, M.MName):
        return require(ck, m.name, m.span)
    if isinstance(m, M.MStruct):
        return structure(ck, m.decls)
    if isinstance(m, M.MAscript):
        return restrict(ck, evaluate(ck, m.mod), Signature(m.sig, scope_of(ck)), m.span)
    if isinstance(m, M.MLambda):
        return functor(ck, m.param, m.ret, m.body)
    if isinstance(m, M.MImport):
        return ck.import_file(m.path, m.span)
    assert isinstance(m, M.MApply)
    fun = evaluate(ck, m.fun)
    arg = evaluate(ck, m.arg)
    if isinstance(fun, Module):
        raise TypeCheckError("this module takes no parameter", m.fun.span, code="E0603")
    return apply(ck, fun, arg, m.span)


def functor(ck: Checker, param: M.ModParam, ret: M.ModType | None, body: M.ModExp) -> Functor:
    """A parametric module.  Its body is checked once with a parameter of which only its module type is known; what it
    defines then is no part of the program."""
    made = Functor(param, ret, body, scope_of(ck), ck.file)
    arg = None if ck.applying else abstract(ck, Signature(param.sig, made.scope))
    if arg is not None:
        if ck.unapplied > MOST_MODULES:
            said = f"more than {MOST_MODULES} parametric modules inside each other"
            raise UnsupportedError(said, body.span, code=CODE)
        ck.unapplied += 1
        try:
            with ck.scoped():
                ck.bind_module(param.name, arg)
                out = evaluate(ck, fresh(body))
                if ret is not None:
                    restrict(ck, out, Signature(ret, scope_of(ck)), body.span)
        finally:
            ck.unapplied -= 1
    return made


def structure(ck: Checker, decls: list[Any]) -> Module:
    """The module that a list of declarations makes."""
    outer, ck.exports = ck.exports, Module()
    ck.nesting += 1
    try:
        with ck.scoped():
            ck.declare_all(decls)
        return ck.exports
    finally:
        ck.exports = outer
        ck.nesting -= 1


def apply(ck: Checker, fun: Functor, arg: Module | Functor, span: Span) -> Module | Functor:
    """The body of a parametric module, checked for this argument."""
    ck.limits.module(span, 16)
    saved = ck.names, ck.types, ck.mods, ck.sigs, ck.file
    s, ck.file = fun.scope, fun.file
    ck.names, ck.types, ck.mods, ck.sigs = dict(s.names), dict(s.types), dict(s.mods), dict(s.sigs)
    ck.applying += 1
    try:
        arg = restrict(ck, arg, Signature(fun.param.sig, s), span, hide=False)
        with ck.scoped():
            ck.bind_module(fun.param.name, arg)
            out = evaluate(ck, fresh(fun.body))
            if fun.ret is not None:
                out = restrict(ck, out, Signature(fun.ret, scope_of(ck)), span)
        return out
    finally:
        ck.applying -= 1
        ck.names, ck.types, ck.mods, ck.sigs, ck.file = saved


__all__ = [
    "FAILED_MODULE",
    "FAILED_SIGNATURE",
    "Functor",
    "Module",
    "Signature",
    "abstract",
    "define",
    "evaluate",
    "find",
    "open_into",
    "require",
    "restrict",
    "scope_of",
]
