"""Modules: namespaces of checked definitions; parametric modules are checked anew at each application.

A module type restricts what a module shows, and what it shows is compared with the specification.
Abstract types stay what they are: an ascription hides names, not representations.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from futad.core.types import PRIMS
from futad.errors import NameError_, Span, TypeError_
from futad.source import ast as A
from futad.source import modast as M
from futad.source import numeric
from futad.source.check_types import PRIM_TYPES, Abbreviation, bind_tparam, define_type, texp
from futad.source.show import show_type
from futad.source.stypes import Binding
from futad.source.unify import Mismatch

if TYPE_CHECKING:
    from futad.source.check import Checker


@dataclass(slots=True, eq=False)
class Module:
    """What a module exports."""

    names: dict[str, Binding] = field(default_factory=dict)
    types: dict[str, Abbreviation] = field(default_factory=dict)
    mods: dict[str, Module | Functor] = field(default_factory=dict)
    sigs: dict[str, Signature] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Functor:
    """A parametric module: a parameter, and a body in the scope of its definition."""

    param: M.ModParam
    ret: M.ModType | None
    body: M.ModExp
    scope: Module


@dataclass(slots=True, eq=False)
class Signature:
    """A module type with the scope of its definition."""

    sig: M.ModType
    scope: Module


# What names mean whose definitions have errors.
FAILED_MODULE = Module()
FAILED_SIGNATURE = Signature(M.ModType(Span("", 1, 1, 1, 1)), FAILED_MODULE)

# Module types of the prelude restrict nothing: only the numeric modules have them.
BUILTIN_SIGS = {"from_prim", "numeric", "integral", "size", "real", "float"}


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
        raise NameError_(
            f"unknown module '{name}'", span, hint=f"did you mean '{near}'?" if near else None, code="E0201"
        )
    return m


def open_into(ck: Checker, m: Module | Functor, span: Span, export: bool = False) -> None:
    """Bring a module's names into scope."""
    if isinstance(m, Functor):
        raise TypeError_("a parametric module must be applied before it is opened", span, code="E0603")
    for table, put in (
        (m.names, ck.bind),
        (m.types, ck.bind_type),
        (m.mods, ck.bind_module),
        (m.sigs, ck.bind_signature),
    ):
        for n, x in table.items():
            put(n, x)  # type: ignore[arg-type]
    if export:
        out = ck.exports
        out.names.update(m.names)
        out.types.update(m.types)
        out.mods.update(m.mods)
        out.sigs.update(m.sigs)


def scope_of(ck: Checker) -> Module:
    """All that is in scope now."""
    return Module(dict(ck.names), dict(ck.types), dict(ck.mods), dict(ck.sigs))


# --- module expressions ----------------------------------------------------------------------------------------


def define(ck: Checker, name: str, body: M.ModBody, span: Span) -> None:
    """`module name params : sig = mod`"""
    if body.params:
        first, *rest = body.params
        inner: M.ModExp = body.mod
        ret = body.sig
        for p in reversed(rest):
            inner, ret = M.MLambda(span, p, ret, inner), None
        value: Module | Functor = Functor(first, ret, inner, scope_of(ck))
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
        return Functor(m.param, m.ret, m.body, scope_of(ck))
    if isinstance(m, M.MImport):
        return ck.import_file(m.path, m.span)
    assert isinstance(m, M.MApply)
    fun = evaluate(ck, m.fun)
    arg = evaluate(ck, m.arg)
    if isinstance(fun, Module):
        raise TypeError_("this module takes no parameter", m.fun.span, code="E0603")
    return apply(ck, fun, arg, m.span)


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
    saved = ck.names, ck.types, ck.mods, ck.sigs
    s = fun.scope
    ck.names, ck.types, ck.mods, ck.sigs = dict(s.names), dict(s.types), dict(s.mods), dict(s.sigs)
    try:
        arg = restrict(ck, arg, Signature(fun.param.sig, s), span)
        with ck.scoped():
            ck.bind_module(fun.param.name, arg)
            out = evaluate(ck, copy.deepcopy(fun.body))
            if fun.ret is not None:
                out = restrict(ck, out, Signature(fun.ret, scope_of(ck)), span)
        return out
    finally:
        ck.names, ck.types, ck.mods, ck.sigs = saved


# --- module types ------------------------------------------------------------------------------------------------


def specs_of(ck: Checker, s: Signature) -> tuple[list[Any], Module] | None:
    """The specifications of a module type and the scope they are in; None if it restricts nothing."""
    sig = s.sig
    if isinstance(sig, M.SSpecs):
        out: list[Any] = []
        for spec in sig.specs:
            if isinstance(spec, M.IncludeSpec):
                inner = specs_of(ck, Signature(spec.sig, s.scope))
                if inner is None:
                    return None
                out += inner[0]
            else:
                out.append(spec)
        return out, s.scope
    if isinstance(sig, M.SWith):
        return specs_of(ck, Signature(sig.sig, s.scope))
    if isinstance(sig, M.SName):
        found = s.scope.sigs.get(sig.name)
        if found is None and "." in sig.name:
            path, _, last = sig.name.rpartition(".")
            m: Any = s.scope.mods.get(path.split(".")[0])
            for part in path.split(".")[1:]:
                m = m.mods.get(part) if isinstance(m, Module) else None
            found = m.sigs.get(last) if isinstance(m, Module) else None
        if found is FAILED_SIGNATURE or (found is None and ck.incomplete):
            ck.abandon()
        if found is not None:
            return specs_of(ck, found)
        if sig.name in BUILTIN_SIGS:
            return None
        near = ck.near(sig.name, [*s.scope.sigs, *BUILTIN_SIGS])
        raise NameError_(
            f"unknown module type '{sig.name}'",
            sig.span,
            hint=f"did you mean '{near}'?" if near else None,
            code="E0201",
        )
    return None


def restrict(ck: Checker, m: Module | Functor, s: Signature, span: Span) -> Module | Functor:
    """The part of a module that a module type shows.  Raises TypeError_ if the module lacks something."""
    found = specs_of(ck, s)
    if isinstance(m, Functor):
        return m
    if found is None:
        return m
    specs, scope = found
    out = Module()
    saved = ck.names, ck.types, ck.mods, ck.sigs
    ck.names, ck.types, ck.mods, ck.sigs = dict(scope.names), dict(scope.types), dict(scope.mods), dict(scope.sigs)
    try:
        for spec in specs:
            _show(ck, m, spec, out, span, scope)
    finally:
        ck.names, ck.types, ck.mods, ck.sigs = saved
    return out


def _show(ck: Checker, m: Module, spec: Any, out: Module, span: Span, scope: Module) -> None:
    if isinstance(spec, M.TypeSpec):
        t = m.types.get(spec.name)
        if t is None:
            raise TypeError_(f"the module lacks type '{spec.name}' of its module type", span, code="E0601")
        if len(t.params) != len(spec.params):
            raise TypeError_(
                f"type '{spec.name}' takes {len(t.params)} parameters, not {len(spec.params)}", span, code="E0601"
            )
        out.types[spec.name] = t
        ck.bind_type(spec.name, t)
    elif isinstance(spec, A.TypeDef):
        t = define_type(ck, copy.deepcopy(spec))
        out.types[spec.name] = t
        ck.bind_type(spec.name, t)
    elif isinstance(spec, M.ModSpec):
        inner = m.mods.get(spec.name)
        if inner is None:
            raise TypeError_(f"the module lacks module '{spec.name}' of its module type", span, code="E0601")
        out.mods[spec.name] = restrict(ck, inner, Signature(spec.sig, scope_of(ck)), span)
        ck.bind_module(spec.name, out.mods[spec.name])
    elif isinstance(spec, A.ValSpec):
        b = m.names.get(spec.name)
        if b is None:
            raise TypeError_(f"the module lacks '{spec.name}' of its module type", span, code="E0601")
        _check_value(ck, b, copy.deepcopy(spec), span)
        ck.bind(spec.name, b)
        out.names[spec.name] = b


def _check_value(ck: Checker, b: Binding, spec: A.ValSpec, span: Span) -> None:
    """A module's value must be as general as its specification."""
    assert b.scheme is not None
    with ck.scoped():
        ck.level += 1
        for tp in spec.tparams:
            bind_tparam(ck, tp)
        wanted = texp(ck, spec.texp, ck.anon_meta)
        actual, _, _ = ck.instantiate(b.scheme, span)
        try:
            ck.unify(actual, wanted)
        except Mismatch as err:
            reason = f": {err.reason}" if err.reason else ""
            raise TypeError_(
                f"'{spec.name}' has type {show_type(b.scheme.type)}, but its module type says "
                f"{show_type(wanted)}{reason}",
                span,
                code="E0602",
            ) from None
        finally:
            ck.level -= 1
