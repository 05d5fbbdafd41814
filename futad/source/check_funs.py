"""Function definitions and lambdas: parameters, results, generalisation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from futad.errors import Span, TypeCheckError
from futad.source import ast as A
from futad.source import limits
from futad.source.ast import type_of
from futad.source.check_match import require_irrefutable
from futad.source.check_pats import bind_pattern
from futad.source.check_types import bind_tparam, distinct_params, texp
from futad.source.lints import warn
from futad.source.opaque import opened
from futad.source.pretty import show_size, show_type
from futad.source.recursion import Open, check_rules
from futad.source.sizes import binary_op, key, poly
from futad.source.traversals import forgotten, mapped, size_names, sizes_in, strip, walk, witnesses
from futad.source.types import (
    Binding,
    Scheme,
    Size,
    SizeExp,
    SizeMeta,
    SizeVar,
    SType,
    TFun,
    TMeta,
    TParam,
    TRecord,
    resolve,
    resolve_size,
)
from futad.source.unify import LOOSE_KINDS

if TYPE_CHECKING:
    from futad.source.check import Checker


def param_binding(p: A.Pat) -> Binding | None:
    """The binding of a parameter that is one name."""
    while isinstance(p, (A.PAscript, A.PAttr)):
        p = p.pat
    return p.binding if isinstance(p, A.PVar) else None


def fundef(ck: Checker, fd: A.FunDef, top: bool, itself: bool = True) -> Binding:
    """Check a function (or constant) definition; the binding it makes, not yet in scope.  `itself`: a function at
    the top is in scope of its body."""
    inside = opened_function(ck, fd) if top and itself and fd.params else None
    limits.functions(ck, fd.span)
    limits.parameters(len(fd.params), fd.span)
    ck.level += 1
    explicit: list[Binding] = []
    with ck.scoped():
        if inside is not None:
            ck.bind(fd.name, inside.binding)
        distinct_params(fd.tparams)
        explicit += [bind_tparam(ck, tp) for tp in fd.tparams]
        seen = {tp.name for tp in fd.tparams if tp.kind == "size"}
        for p in fd.params:
            bind_pattern(ck, p, ck.meta(p.span), "parameter")
            require_irrefutable(ck, p)
            _no_repeats(p, seen)
        # One level more: sizes made in the body cannot become sizes of the parameters.
        ck.level += 1
        declared = texp(ck, fd.ret, ck.anon_meta) if fd.ret is not None else None
        if declared is not None and fd.ret is not None:
            _visible(declared, fd.params, fd.ret.span)
        if inside is not None and not inside.ahead:
            inside.make = lambda: _inside(ck, inside, explicit, declared)
        ck.defining.append(fd.name)
        fd.body = ck.exp(fd.body)
        ck.level -= 1
        ck.defining.pop()
        if declared is not None:
            what = f"the body of '{fd.name}' does not have the declared type"
            ck.fit(fd.body.type, declared, fd.body.span, what, fd.body, result=True)
            result = declared
        else:
            assert fd.body.type is not None
            result = strip(fd.body.type)
            if inside is not None and inside.result is not None:
                what = f"the body of '{fd.name}' does not have the type of its uses"
                ck.fit(result, inside.result, fd.body.span, what)
        ck.retry_postponed(final=top)
        if top:
            ck.finish_inference()
    ck.level -= 1
    params = [type_of(p) for p in fd.params]
    t, implicit = _generalise(ck, fd, params, result, top)
    fd.implicit = tuple(implicit)
    _check_used(fd, params, result)
    quantified = explicit + implicit
    scheme = Scheme(
        tuple(b for b in quantified if b.kind == "tparam"), tuple(b for b in quantified if b.kind != "tparam"), t
    )
    if inside is None:
        fd.binding = Binding(fd.name, "fun", scheme, fd.span, fd, level=ck.level)
    else:
        fd.binding = inside.binding
        check_rules(ck, inside, result)
    if top:
        ck.finish_metas(fd)
    if inside is not None:
        del ck.open_functions[inside.binding]
        inside.close(scheme)
    return fd.binding


def opened_function(ck: Checker, fd: A.FunDef) -> Open:
    """A function as its own body is to see it."""
    known = next((o for o in ck.open_functions.values() if o.fd.name == fd.name and o.fd.span == fd.span), None)
    if known is not None:
        fd.recursive = fd.recursive or known.fd.recursive
        known.fd = known.binding.decl = fd
        return known
    b = Binding(fd.name, "fun", None, fd.span, fd, level=ck.level)
    o = ck.open_functions[b] = Open(fd, b, lambda: Scheme((), (), TRecord(())))
    return o


def _inside(ck: Checker, o: Open, explicit: list[Binding], declared: SType | None) -> Scheme:
    """The scheme by which a function's body uses it: of any sizes that it has parameters for, of the same types."""
    fd = o.fd
    level, ck.level = ck.level, o.binding.level + 2
    if declared is None:
        declared = o.result = ck.meta(fd.span)
    t = _closed(ck, fd.params, declared, explicit, o.binding.level, fd.span)
    ck.level = level
    return Scheme((), tuple(b for b in explicit if b.kind == "size"), t)


def _closed(
    ck: Checker, params: list[A.Pat], result: SType, explicit: list[Binding], level: int, span: Span
) -> SType:
    """A function's type from its declaration; the sizes that its result leaves open are new in each call."""

    def on_size(s: Size) -> Size:
        s = resolve_size(s)
        return SizeVar(ck.skolem("n", span, "computed inside the function")) if type(s) is SizeMeta else s

    result = map_sizes(result, on_size)
    now, ck.level = ck.level, level
    t, _, _ = close(ck, result, [type_of(p) for p in params], [param_binding(p) for p in params], set(explicit), span)
    ck.level = now
    return t


def declare_ahead(ck: Checker, fd: A.FunDef) -> Binding:
    """The binding of a function that declares its type and is used before its definition."""
    tparams, params, ret = copy.deepcopy((fd.tparams, fd.params, fd.ret))
    assert ret is not None
    outer = ck.level
    ck.level += 1
    with ck.scoped():
        explicit = [bind_tparam(ck, tp) for tp in tparams]
        for p in params:
            bind_pattern(ck, p, ck.meta(p.span), "parameter")
        for p in params:
            for s in sizes_in(type_of(p)):
                s = resolve_size(s)
                if type(s) is SizeMeta:
                    explicit.append(Binding("n", "size", None, s.span, level=ck.level))
                    s.ref = SizeVar(explicit[-1])
        ck.level += 1
        result = texp(ck, ret, ck.size_meta)
        t = _closed(ck, params, result, explicit, outer, fd.span)
    ck.level = outer
    scheme = Scheme(
        tuple(b for b in explicit if b.kind == "tparam"), tuple(b for b in explicit if b.kind == "size"), t
    )
    b = Binding(fd.name, "fun", None, fd.span, fd, level=outer)
    ck.open_functions[b] = Open(fd, b, lambda: scheme, ahead=True)
    return b


def _check_used(fd: A.FunDef, params: list[SType], result: SType) -> None:
    """A size parameter must occur where calls can find it: in the types of the parameters or the result."""
    in_params = {b for p in params for s in sizes_in(p) for b in size_names(s)}
    if fd.entry:
        # A caller gives arrays, so each size must be one of theirs; n + 1 does not tell n.
        given = list(params)
        r = resolve(result)
        while type(r) is TFun:
            given.append(r.param)
            r = resolve(r.result)
        in_params = {b for p in given for b in witnesses(p)}
        for b in fd.implicit:
            if b.kind == "size" and b not in in_params:
                raise TypeCheckError(
                    f"the result of entry point '{fd.name}' has a size that nothing determines",
                    fd.span,
                    hint="declare the sizes of the result",
                    code="E0402",
                )
    in_result = {b for s in sizes_in(result) for b in size_names(s)}
    for tp in fd.tparams:
        if tp.kind == "size" and tp.binding not in in_params and (fd.entry or tp.binding not in in_result):
            where = "its parameters" if fd.entry else "the parameters or the result"
            what = f"size parameter '{tp.name}' of '{fd.name}'"
            how = " by itself" if fd.entry else ""
            raise TypeCheckError(f"{what} does not occur{how} in the types of {where}", tp.span, code="E0403")


def dimensions(t: SType) -> list[Size]:
    """The sizes of the arrays in a type of data, without the names inside size expressions."""
    out: list[Size] = []

    def note(s: Size) -> Size:
        out.append(resolve_size(s))
        return s

    map_sizes(t, note)
    return out


def _no_repeats(p: A.Pat, seen: set[str]) -> None:

    for v in A.pattern_names(p):
        if v.name in seen:
            raise TypeCheckError(f"parameter '{v.name}' is declared twice", v.span, code="E0202")
        seen.add(v.name)


def _generalise(
    ck: Checker, fd: A.FunDef, params: list[SType], result: SType, top: bool
) -> tuple[SType, list[Binding]]:
    implicit: list[Binding] = []

    def on_type(t: SType) -> None:
        if type(t) is not TMeta or t.level <= ck.level or t.ref is not None:
            return
        if not top and (t.fields or t.constrs or t.kind not in (None, "any", "data")):
            lower_levels(ck, t)
        elif t.fields or t.constrs:
            shown = show_type(t)
            raise TypeCheckError(
                f"the type of this cannot be inferred: it has at least {shown}",
                t.span or fd.span,
                hint="annotate the parameter with its type",
                code="E0306",
            )
        elif t.kind == "eq":
            raise TypeCheckError(
                "the type of this cannot be inferred, and '==' does not compare values of every type",
                t.span or fd.span,
                hint="annotate the parameter with its type",
                code="E0306",
            )
        elif t.kind not in LOOSE_KINDS:
            if ck.default(t) and top:
                what = f"the type of this is ambiguous: {show_type(t)} is taken"
                warn(ck, what, t.span or fd.span, f"annotate it: {show_type(t)}")
        elif fd.entry and not fd.params and not holds_function(result):  # which is refused as such
            raise TypeCheckError(
                f"the type of the result of entry point '{fd.name}' cannot be inferred",
                t.span or fd.span,
                hint="annotate it with its type",
                code="E0306",
            )
        else:
            b = Binding(_letter(implicit), "tparam", None, t.span, level=ck.level + 1, lifted=t.kind is None)
            if t.kind is not None:
                ck.kinds[b] = t.kind
            t.ref = TParam(b)
            implicit.append(b)
            if not top:
                ck.local_tparams.add(b)

    def on_size(s: Size) -> None:
        s = resolve_size(s)
        if type(s) is SizeMeta and s.level > ck.level:
            b = Binding(_size_name(implicit), "size", None, s.span, level=ck.level + 1)
            s.ref = SizeVar(b)
            implicit.append(b)
        elif type(s) is SizeExp:
            for a in s.args:
                on_size(a)

    for p in params:
        walk(p, on_type, on_size)
    walk(result, on_type, on_size)
    bound = [param_binding(p) for p in fd.params]
    quantified = {*implicit, *(tp.binding for tp in fd.tparams)}
    t, exists, result = close(ck, result, params, bound, quantified, fd.span)
    fd.ret_type = result
    sizes = [b.name for b in quantified if b is not None and b.kind == "size"]
    if exists and sizes and not fd.params:
        raise TypeCheckError(
            f"'{fd.name}' has a size parameter ({sizes[0]}) and a size that is known only when it is computed",
            fd.span,
            hint="make it a function, or declare the sizes of its arrays",
            code="E0402",
        )
    return t, implicit


def _visible(declared: SType, params: list[A.Pat], span: Span) -> None:
    """A declared result mentions parameters, not what patterns take out of them: callers could not tell it."""

    inner = {v.binding for p in params for v in A.pattern_names(p)} - {param_binding(p) for p in params}
    for s in sizes_in(declared) if inner else []:
        for b in size_names(s):
            if b in inner:
                raise TypeCheckError(
                    f"the declared result has size {b.name}, which is only a part of a parameter",
                    span,
                    hint=f"make '{b.name}' a parameter of its own, or leave the size to inference: []",
                    code="E0404",
                )


def holds_function(t: SType) -> bool:
    t = opened(t)
    return type(t) is TFun or (type(t) is TRecord and any(holds_function(f) for _, f in t.fields))


def _letter(taken: list[Binding]) -> str:
    n = sum(b.kind == "tparam" for b in taken)
    return chr(ord("a") + n) if n < 26 else f"a{n}"


def _size_name(taken: list[Binding]) -> str:
    return f"d{sum(b.kind == 'size' for b in taken)}"


def close(
    ck: Checker,
    result: SType,
    params: list[SType],
    bound: list[Binding | None],
    quantified: set[Binding | None],
    span: Span,
) -> tuple[SType, tuple[Binding, ...], SType]:
    """The function type of these parameters and result.

    Sizes of the result that are bound inside the function become existential, unless they are quantified
    or a parameter's own name.  Returns the type, the existential sizes, and the result as the type has it.
    """
    names = {b for b in bound if b is not None}
    exists: dict[Binding, None] = {}
    replaced: dict[str, Binding] = {}

    def outside(b: Binding) -> bool:
        return b.level <= ck.level or b in names or b in quantified

    def known(s: Size) -> bool:
        return all(outside(b) or b in exists for b in size_names(s))

    def unknown(s: Size) -> SizeVar:
        """An existential size in place of one that is computed inside."""
        text = key(poly(s))
        b = replaced.get(text)
        if b is None:
            b = replaced[text] = ck.skolem(show_size(s), span, "computed inside the function")
            b.level = ck.level + 1
            exists[b] = None
        return SizeVar(b)

    def on_size(s: Size) -> Size:
        s = resolve_size(s)
        if type(s) is SizeVar:
            if not outside(s.binding):
                exists[s.binding] = None
            return s
        if type(s) is not SizeExp or known(s):
            return s
        if binary_op(s.expr):
            # `n - k` where some array's size is k: it stays that.
            args = [a if known(a) or key(poly(a)) not in alone else on_size(a) for a in s.args]
            if all(known(a) for a in args):
                return SizeExp(s.key, s.expr, s.params, tuple(args))
        return unknown(s)

    alone = {key(poly(s)) for s in dimensions(result)}
    for i, p in enumerate(params):
        later = {b for b in bound[i:] if b is not None}
        for s in sizes_in(p, arrows=False):
            if type(s) is SizeVar and (s.binding in later or not outside(s.binding)):
                n = s.binding.name
                raise TypeCheckError(
                    f"parameter {i + 1} has type {show_type(p)}, whose size {n} is not known before it",
                    s.binding.span or span,
                    hint=f"make '{n}' an earlier parameter, or declare it a size parameter: [{n}]",
                    code="E0404",
                )
    result = map_sizes(result, on_size)
    result = _close_functions(ck, result, lambda b: outside(b) or b in exists, span)
    if not params:
        # A constant's sizes are computed once, and known wherever it is.
        for b in exists:
            b.level = ck.level
    t = result
    own: tuple[Binding, ...] = tuple(exists)
    for p, own_name in zip(reversed(params), reversed(bound), strict=True):
        name = own_name if own_name is not None and any(own_name in size_names(s) for s in sizes_in(t)) else None
        t = TFun(p, t, name, own)
        own = ()
    return t, tuple(exists), result


def _close_functions(ck: Checker, t: SType, known: Callable[[Binding], bool], span: Span) -> SType:
    """`t` with the functions in it as they look from outside of the one that yields them.

    A size computed inside is unknown in their results, made anew by each call; a parameter cannot have one.
    """

    def go(t: SType, bound: frozenset[Binding]) -> SType:
        t = resolve(t)
        if type(t) is TRecord:
            return TRecord(tuple((n, go(f, bound)) for n, f in t.fields))
        if type(t) is not TFun:
            return t

        def gone(b: Binding) -> bool:
            return not known(b) and b not in bound

        for s in sizes_in(t.param):
            for b in size_names(s):
                if gone(b) and b not in _bound_in(t.param):
                    raise TypeCheckError(
                        f"the result is a function whose parameter has size {show_size(s)}, known only inside",
                        span,
                        hint="let the function that yields it yield an array of that size too, or take it as parameter",
                        code="E0404",
                    )
        bound |= {*t.exists, *([t.name] if t.name is not None else [])}
        made: dict[str, Binding] = {}
        result = t.result
        if type(resolve(result)) is not TFun:
            inner = _bound_in(result)
            make = lambda: ck.skolem("n", span, "computed inside the function")  # noqa: E731
            result = forgotten(result, lambda b: gone(b) and b not in inner, make, made)
            for b in made.values():
                b.level = ck.level + 1
        return TFun(t.param, go(result, bound | set(made.values())), t.name, (*t.exists, *made.values()))

    return go(t, frozenset())


def _bound_in(t: SType) -> set[Binding]:
    """The names and sizes that the function types in `t` bind."""
    out: set[Binding] = set()

    def on_type(t: SType) -> None:
        if type(t) is TFun:
            out.update(t.exists)
            if t.name is not None:
                out.add(t.name)

    walk(t, on_type, lambda _: None)
    return out


def map_sizes(t: SType, f: Callable[[Size], Size]) -> SType:
    """`t` with each size outside function types replaced."""
    t = resolve(t)
    return t if type(t) is TFun else mapped(t, lambda x: map_sizes(x, f), f)


def lower_levels(ck: Checker, t: SType) -> None:
    """Make the metas in `t` belong to the current level."""

    def on_type(t: SType) -> None:
        if type(t) is TMeta:
            t.level = min(t.level, ck.level)

    def on_size(s: Size) -> None:
        s = resolve_size(s)
        if type(s) is SizeMeta:
            s.level = min(s.level, ck.level)
        elif type(s) is SizeExp:
            for a in s.args:
                on_size(a)

    walk(t, on_type, on_size)


def lambda_exp(ck: Checker, e: A.ELambda) -> None:
    """A lambda: monomorphic."""
    limits.functions(ck, e.span)
    limits.parameters(len(e.params), e.span)
    ck.level += 1
    with ck.scoped():
        seen: set[str] = set()
        for p in e.params:
            bind_pattern(ck, p, ck.meta(p.span), "parameter")
            require_irrefutable(ck, p)
            _no_repeats(p, seen)
        ck.level += 1
        declared = texp(ck, e.ret, ck.anon_meta) if e.ret is not None else None
        e.body = ck.exp(e.body)
        ck.level -= 1
        if declared is not None:
            what = "the lambda's body does not have the declared type"
            ck.fit(e.body.type, declared, e.body.span, what, e.body, result=True)
    ck.level -= 1
    assert e.body.type is not None
    result = declared if declared is not None else strip(e.body.type)
    params = [type_of(p) for p in e.params]
    t, _, _ = close(ck, result, params, [param_binding(p) for p in e.params], set(), e.span)
    lower_levels(ck, t)
    e.type = t
    if len(params) > 1:
        ck.later.append(lambda: _own_sizes(ck, e))


def _own_sizes(ck: Checker, e: A.ELambda) -> None:
    """The sizes of a lambda's parameters have names inside of it.

    Where `(k: i64) -> [k]t -> ...` is expected, `\\_ xs -> ...` has no name for the size of xs.
    """
    unnamed = True
    for p in e.params:
        for s in sizes_in(p.type) if unnamed and p.type is not None else []:
            for b in size_names(s):
                if b in ck.bound_by_arrows:
                    raise TypeCheckError(
                        f"this parameter has size {b.name}, an earlier parameter that the lambda does not name",
                        p.span,
                        hint="give that parameter a name",
                        code="E0404",
                    )
        unnamed = unnamed and param_binding(p) is None
