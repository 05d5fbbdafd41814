"""Module types: what they specify, and comparing modules with it.

A module type restricts what a module shows, and what it shows is compared with the specification.  Types of which
it says only that they exist are abstract outside (`opaque.py`); in the body of a parametric module that is
applied they are those of the argument.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from futad.errors import ScopeError, Span, TypeCheckError
from futad.source import ast as A
from futad.source import modast as M
from futad.source.aliases import is_unique
from futad.source.check_types import (
    FAILED_TYPE,
    LIFTED,
    Abbreviation,
    anonymous_size,
    bind_tparam,
    define_type,
    distinct_params,
    texp,
)
from futad.source.lints import included
from futad.source.namespace import BUILTIN_SIGS, FAILED_MODULE, FAILED_SIGNATURE, Functor, Module, Signature, scope_of
from futad.source.opaque import abstract_type
from futad.source.pretty import show_type
from futad.source.traversals import size_names, sizes_in, walk, witnesses
from futad.source.types import (
    Binding,
    Scheme,
    SizeConst,
    SizeMeta,
    SizeVar,
    SType,
    TArray,
    TFun,
    TMeta,
    TParam,
    TRecord,
    Via,
    resolve,
    resolve_size,
)
from futad.source.unify import Mismatch

if TYPE_CHECKING:
    from futad.source.check import Checker

KINDS = ["size", "type", "lifted", "fullylifted"]  # of parameters of types, each for more than the one before
_KIND_NAMES = {
    "size": "size ([n])",
    "type": "type ('t)",
    "lifted": "lifted type ('~t)",
    "fullylifted": "lifted type ('^t)",
}

Specs = list[tuple[Any, Module]]


def _types(specs: Specs) -> list[str]:
    return [spec.name for spec, _ in specs if isinstance(spec, M.TypeSpec)]


def specs_of(ck: Checker, s: Signature) -> Specs | None:
    """The specifications of a module type, each with the scope it is in; None if it restricts nothing."""
    ck.limits.module(s.sig.span)
    sig = s.sig
    if isinstance(sig, M.SSpecs):
        out: Specs = []
        for spec in sig.specs:
            if isinstance(spec, M.IncludeSpec):
                inner = specs_of(ck, Signature(spec.sig, s.scope))
                if inner is None:
                    return None
                included(ck, spec, _types(out), _types(inner))
                out += inner
            else:
                out.append((spec, s.scope))
        return out
    if isinstance(sig, M.SWith):
        specs = specs_of(ck, Signature(sig.sig, s.scope))
        return None if specs is None else _refine(specs, sig, sig.scope or s.scope)
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
        raise ScopeError(
            f"unknown module type '{sig.name}'",
            sig.span,
            hint=f"did you mean '{near}'?" if near else None,
            code="E0201",
        )
    return None


def _refine(specs: Specs, sig: M.SWith, scope: Module) -> Specs:
    """`sig with name = type`: the specification of a type is replaced by its definition."""
    if "." in sig.name:
        first, _, rest = sig.name.partition(".")
        if not any(isinstance(spec, M.ModSpec) and spec.name == first for spec, _ in specs):
            raise ScopeError(f"this module type has no module '{first}'", sig.span, code="E0604")
        return [
            (M.ModSpec(spec.span, spec.name, M.SWith(sig.span, spec.sig, rest, sig.tparams, sig.texp, scope)), where)
            if isinstance(spec, M.ModSpec) and spec.name == first
            else (spec, where)
            for spec, where in specs
        ]
    named = [spec for spec, _ in specs if isinstance(spec, (M.TypeSpec, A.TypeDef)) and spec.name == sig.name]
    if not named:
        raise ScopeError(f"this module type has no type '{sig.name}'", sig.span, code="E0604")
    open_ = [spec for spec in named if isinstance(spec, M.TypeSpec)]
    if not open_:
        raise TypeCheckError(f"type '{sig.name}' of this module type is not abstract", sig.span, code="E0604")
    for spec in open_:
        if len(spec.params) != len(sig.tparams):
            n = len(spec.params)
            problem = f"type '{sig.name}' takes {n} parameters, not {len(sig.tparams)}"
            raise TypeCheckError(problem, sig.span, code="E0604")
        for own, new in zip(spec.params, sig.tparams, strict=True):
            if own.kind != new.kind and (own.kind == "size" or KINDS.index(own.kind) > KINDS.index(new.kind)):
                raise TypeCheckError(
                    f"parameter '{own.name}' of type '{sig.name}' is a {_KIND_NAMES[own.kind]}, and may stand for more "
                    f"than '{new.name}', a {_KIND_NAMES[new.kind]}",
                    new.span,
                    code="E0604",
                )
    made = A.TypeDef(sig.span, sig.name, sig.tparams, sig.texp, "?", open_[0].lifted)
    return [(made, scope) if spec in open_ else (spec, where) for spec, where in specs]


@contextmanager
def _inside(ck: Checker, scope: Module, out: Module) -> Iterator[None]:
    """A specification sees its scope, and what stands before it."""
    saved = ck.names, ck.types, ck.mods, ck.sigs
    ck.names, ck.types = scope.names | out.names, scope.types | out.types
    ck.mods, ck.sigs = scope.mods | out.mods, scope.sigs | out.sigs
    try:
        yield
    finally:
        ck.names, ck.types, ck.mods, ck.sigs = saved


def abstract(ck: Checker, s: Signature) -> Module | None:
    """A module of which only this is known; None where a module type of the prelude is involved."""
    specs = specs_of(ck, s)
    if specs is None:
        return None
    out = Module()
    for spec, scope in specs:
        with _inside(ck, scope, out):
            if isinstance(spec, M.TypeSpec):
                distinct_params(spec.params)
                b = Binding(spec.name, "abstract", None, spec.span)
                if spec.lifted != "^":
                    ck.kinds[b] = "any" if spec.lifted else "data"
                with ck.scoped():
                    params = [(bind_tparam(ck, tp), "size" if tp.kind == "size" else "type") for tp in spec.params]
                out.types[spec.name] = Abbreviation(spec.name, params, abstract_type(b, params), lifted=spec.lifted)
            elif isinstance(spec, A.TypeDef):
                out.types[spec.name] = define_type(ck, copy.deepcopy(spec))
            elif isinstance(spec, M.ModSpec):
                inner = abstract(ck, Signature(spec.sig, scope_of(ck)))
                if inner is None:
                    return None
                out.mods[spec.name] = inner
            elif isinstance(spec, A.ValSpec):
                out.names[spec.name] = _unknown_value(ck, copy.deepcopy(spec))
    return out


def _unknown_value(ck: Checker, spec: A.ValSpec) -> Binding:
    _sizes_named(spec)
    b = ck.intrinsic(spec)
    assert b.scheme is not None
    sizes = (*b.scheme.sizes, *_quantified(b.scheme.type, spec.span))
    return Binding(spec.name, "intrinsic", Scheme(b.scheme.tparams, sizes, b.scheme.type), spec.span)


def _sizes_named(spec: A.ValSpec) -> None:
    where = anonymous_size(spec.texp)
    if where is not None:
        raise TypeCheckError(
            f"'{spec.name}' has an array of which the module type does not name the size",
            where,
            hint=f"declare it: val {spec.name} [n] : [n]t -> ...",
            code="E0406",
        )


def _quantified(t: SType, span: Span) -> list[Binding]:
    """Size parameters in place of the sizes of `t` that are not known (those of `[]`)."""
    sizes: list[Binding] = []

    def on_size(s: object) -> None:
        if type(s) is SizeMeta and s.ref is None:
            sizes.append(Binding("n", "size", None, span))
            s.ref = SizeVar(sizes[-1])

    walk(t, lambda _: None, on_size)
    return sizes


def restrict(ck: Checker, m: Module | Functor, s: Signature, span: Span, hide: bool = True) -> Module | Functor:
    """The part of a module that a module type shows.  Raises TypeCheckError if the module lacks something.

    With `hide` the types of which the module type says no more than that they exist are new ones.
    """
    return _views(ck, m, s, s if hide else None, span)[1]


def _views(
    ck: Checker, m: Module | Functor, s: Signature, veiled: Signature | None, span: Span
) -> tuple[Module | Functor, Module | Functor]:
    """What `s` shows of a module: with the types as they are, and as the rest of the program sees them.

    `veiled` is `s` in a scope of types so seen; without it nothing is hidden, and the two are one.
    """
    specs = specs_of(ck, s)
    if isinstance(m, Functor) or specs is None:
        return m, m
    others = specs if veiled is None else specs_of(ck, veiled)
    assert others is not None
    seen = Module()
    out = seen if veiled is None else Module()
    for (spec, scope), (_, other) in zip(specs, others, strict=True):
        _show(ck, m, spec, scope, other, seen, out, span)
    return seen, out


def _show(
    ck: Checker, m: Module, spec: Any, scope: Module, other: Module, seen: Module, out: Module, span: Span
) -> None:
    """Add what `spec` (in `scope`) shows of `m` to `seen`, and (in the scope `other`) to `out`."""
    if isinstance(spec, M.TypeSpec):
        t = seen.types[spec.name] = _shown_type(ck, m, spec.name, len(spec.params), span)
        if LIFTED.index(t.lifted) > LIFTED.index(spec.lifted):
            raise TypeCheckError(
                f"type '{spec.name}' is declared 'type{t.lifted}', but its module type says 'type{spec.lifted}'",
                span,
                code="E0602",
            )
        if out is not seen:
            out.types[spec.name] = _hidden(ck, spec, t, span)
    elif isinstance(spec, A.TypeDef):
        with _inside(ck, scope, seen):
            t = define_type(ck, copy.deepcopy(spec))
        mine = _shown_type(ck, m, spec.name, len(spec.params), span)
        if not t.params and not t.anonymous and not mine.anonymous:
            try:
                ck.unify(mine.type, t.type)
            except Mismatch:
                raise TypeCheckError(
                    f"type '{spec.name}' is {show_type(mine.type)}, but its module type says {show_type(t.type)}",
                    span,
                    code="E0602",
                ) from None
        seen.types[spec.name] = t
        if out is not seen:
            with _inside(ck, other, out):
                out.types[spec.name] = define_type(ck, copy.deepcopy(spec))
    elif isinstance(spec, M.ModSpec):
        inner = m.mods.get(spec.name)
        if inner is None:
            raise TypeCheckError(f"the module lacks module '{spec.name}' of its module type", span, code="E0601")
        if inner is FAILED_MODULE:
            ck.abandon()
        with _inside(ck, scope, seen):
            mine_is = Signature(spec.sig, scope_of(ck))
        with _inside(ck, other, out):
            seen_as = Signature(spec.sig, scope_of(ck)) if out is not seen else None
        seen.mods[spec.name], out.mods[spec.name] = _views(ck, inner, mine_is, seen_as, span)
    elif isinstance(spec, A.ValSpec):
        b = m.names.get(spec.name)
        if b is None:
            raise TypeCheckError(f"the module lacks '{spec.name}' of its module type", span, code="E0601")
        if b.kind == "failed":
            ck.abandon()
        with _inside(ck, scope, seen):
            shown = _shown_value(ck, b, copy.deepcopy(spec), span)
        seen.names[spec.name] = shown
        if out is not seen:
            with _inside(ck, other, out):
                out.names[spec.name] = _veiled(ck, shown, copy.deepcopy(spec))


def _shown_type(ck: Checker, m: Module, name: str, params: int, span: Span) -> Abbreviation:
    t = m.types.get(name)
    if t is None:
        raise TypeCheckError(f"the module lacks type '{name}' of its module type", span, code="E0601")
    if t is FAILED_TYPE:
        ck.abandon()
    if len(t.params) != params:
        raise TypeCheckError(f"type '{name}' takes {len(t.params)} parameters, not {params}", span, code="E0601")
    return t


def _hidden(ck: Checker, spec: M.TypeSpec, t: Abbreviation, span: Span) -> Abbreviation:
    """A new abstract type that stands for `t`."""
    for a in t.anonymous:
        a.loose = True
    b = Binding(spec.name, "abstract", None, spec.span, rep=t)
    if spec.lifted != "^":
        ck.kinds[b] = "any" if spec.lifted else "data"
    for p, kind in t.params:
        if kind == "size" and p not in witnesses(t.type):
            raise TypeCheckError(
                f"type '{spec.name}' cannot be abstract: its size parameter '{p.name}' is not that of an array in it",
                span,
                hint=f"let the type hold an array of that size, such as [{p.name}]()",
                code="E0403",
            )
    with ck.scoped():
        params = [(bind_tparam(ck, tp), "size" if tp.kind == "size" else "type") for tp in spec.params]
    return Abbreviation(spec.name, params, abstract_type(b, params), lifted=spec.lifted)


def _shown_value(ck: Checker, b: Binding, spec: A.ValSpec, span: Span) -> Binding:
    """A module's value with the type of its specification.  The value must be as general as that."""
    assert b.scheme is not None
    _sizes_named(spec)
    ck.recorded = {}
    with ck.scoped():
        ck.level += 1
        params = [bind_tparam(ck, tp) for tp in spec.tparams]
        wanted = texp(ck, spec.texp, ck.anon_meta)
        if any(type(s) is SizeMeta for s in sizes_in(wanted, arrows=False)):
            raise TypeCheckError(
                f"'{spec.name}' has an array of which its type does not tell the size, and is no function",
                span,
                hint=f"make '{spec.name}' a function: () -> ...",
                code="E0406",
            )
        actual, targs, sargs = ck.instantiate(b.scheme, span)
        try:
            ck.unify(actual, wanted)
            _same_consumption(ck, b, actual, wanted)
        except Mismatch as err:
            reason = f": {err.reason}" if err.reason else ""
            raise TypeCheckError(
                f"'{spec.name}' has type {show_type(b.scheme.type)}, but its module type says "
                f"{show_type(wanted)}{reason}",
                span,
                code="E0602",
            ) from None
        finally:
            ck.level -= 1
            ck.replayed, ck.recorded = ck.recorded, None
    params += _quantified(wanted, spec.span)
    for m in targs.values():
        if type(r := resolve(m)) is TMeta and not ck.default(r):
            r.ref = TRecord(())
    for s in sargs.values():
        if type(z := resolve_size(s)) is SizeMeta:
            z.ref = SizeConst(0)
    types = tuple(p for p in params if p.kind == "tparam")
    scheme = Scheme(types, tuple(p for p in params if p.kind != "tparam"), wanted)
    return Binding(spec.name, b.kind, scheme, b.span, b.decl, via=Via(b, targs, sargs))


def _veiled(ck: Checker, shown: Binding, spec: A.ValSpec) -> Binding:
    """A value just shown, with the type of its specification where abstract types are so."""
    assert shown.scheme is not None
    named: dict[str, Binding] = {}
    for p in (*shown.scheme.tparams, *shown.scheme.sizes):
        named.setdefault(p.name, p)
    with ck.scoped():
        ck.level += 1
        for tp in spec.tparams:
            own = named[tp.name]
            if tp.kind == "size":
                ck.bind(tp.name, own)
            else:
                ck.bind_type(tp.name, Abbreviation(tp.name, [], TParam(own), lifted="~" if own.lifted else ""))
        t = texp(ck, spec.texp, ck.anon_meta)
        ck.level -= 1
    ck.replayed = None
    more = _quantified(t, spec.span)
    # Sizes inside abstract types are nobody's business: calls find them in their arguments.
    told = {b for s in sizes_in(t) for b in size_names(s)}
    scheme = Scheme(shown.scheme.tparams, (*[b for b in shown.scheme.sizes if b in told], *more), t)
    return Binding(spec.name, shown.kind, scheme, shown.span, shown.decl, via=shown.via)


def _same_consumption(ck: Checker, b: Binding, actual: SType, wanted: SType) -> None:
    """A value may not consume what its specification does not say, and its result must be as unique."""
    actual, wanted = resolve(actual), resolve(wanted)
    while type(actual) is TFun and type(wanted) is TFun:
        if is_unique(actual.param) and not is_unique(wanted.param):
            raise Mismatch("it consumes its argument")
        actual, wanted = resolve(actual.result), resolve(wanted.result)
    declared = isinstance(b.decl, A.FunDef) and b.decl.ret is not None
    if declared and type(actual) is TArray and type(wanted) is TArray and wanted.unique and not actual.unique:
        raise Mismatch("its result is not unique")
