"""Type expressions to types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core.types import I64, PRIMS
from futad.errors import ConsumptionError, ScopeError, Span, TypeCheckError, UnsupportedError
from futad.source import ast as A
from futad.source import hints, limits
from futad.source.lints import warn
from futad.source.pretty import show_type
from futad.source.sizes import consumed_name, size_of_expr
from futad.source.traversals import parts, set_unique, sizes_in, substitute
from futad.source.types import (
    Binding,
    Scheme,
    Size,
    SizeVar,
    SType,
    TArray,
    TFun,
    TParam,
    TPrim,
    TRecord,
    TSum,
    resolve,
)
from futad.source.written import written

if TYPE_CHECKING:
    from futad.source.check import Checker

# Constructors are told apart by a byte.
MAX_CONSTRUCTORS = 256

Anon = Callable[[Span], Size]
PRIM_TYPES: dict[str, SType] = {n: TPrim(p) for n, p in PRIMS.items()}


@dataclass(slots=True)
class Abbreviation:
    """A type abbreviation: its parameters and what it stands for; `anonymous` are its `[]` sizes."""

    name: str
    params: list[tuple[Binding, str]]
    type: SType
    anonymous: tuple[Binding, ...] = ()
    lifted: str = ""  # '~' if it may hold arrays of unknown size, '^' if functions


# `intrinsics.acc t`: a record that no program can take apart, so that its array is consumed as arrays are.
_ELEM = Binding("t", "tparam")
ACCUMULATOR = Abbreviation("intrinsics.acc", [(_ELEM, "type")], TRecord((("acc:", TParam(_ELEM)),)), lifted="~")

# What a name means whose definition has an error.
FAILED_TYPE = Abbreviation("", [], TRecord(()))


def texp(ck: Checker, te: A.TypeExp, anon: Anon) -> SType:
    """The type that `te` denotes; `anon` makes the size of a `[]`.  Elaborates size expressions in place."""
    if type(te) is A.TEName:
        return _named(ck, te, anon)
    if type(te) is A.TEArray:
        size: Size
        if te.size is None:
            size = anon(te.span)
        else:
            te.size, size = size_exp(ck, te.size)
        elem = texp(ck, te.elem, anon)
        limits.dimensions(elem, te.span)
        ck.require_data(elem, te.span)
        return TArray(size, elem)
    if type(te) is A.TETuple:
        return TRecord(tuple((str(i), texp(ck, e, anon)) for i, e in enumerate(te.elems)))
    if type(te) is A.TERecord:
        return TRecord(tuple((n, texp(ck, e, anon)) for n, e in te.fields))
    if type(te) is A.TEUnique:
        t = texp(ck, te.elem, anon)
        if not _may_hold_array(t):
            warn(ck, f"declaring {show_type(t)} as unique has no effect", te.span, "it holds no array")
        return set_unique(t)
    if type(te) is A.TEArrow:
        return _arrow(ck, te)
    if type(te) is A.TESum:
        constrs = te.constrs
        names = [n for n, _ in constrs]
        if len(names) > MAX_CONSTRUCTORS:
            raise TypeCheckError(f"a sum type has at most {MAX_CONSTRUCTORS} constructors", te.span, code="E0105")
        for i, n in enumerate(names):
            if n in names[:i]:
                raise TypeCheckError(f"constructor '#{n}' occurs twice", te.span, code="E0104")
        return TSum(tuple(sorted((n, tuple(texp(ck, a, anon) for a in args)) for n, args in constrs)))
    if type(te) is A.TEExists:
        with ck.scoped():
            for n in te.sizes:
                b = Binding(n, "size", Scheme((), (), TPrim(I64)), te.span, level=ck.level)
                s = anon(te.span)
                b.alias = s
                ck.bind(n, b)
            return texp(ck, te.elem, anon)
    raise TypeCheckError("this type cannot be used here", te.span, code="E0311")


def _may_hold_array(t: SType) -> bool:
    t = resolve(t)
    if isinstance(t, (TRecord, TSum)):
        return any(map(_may_hold_array, parts(t)))
    return not isinstance(t, (TPrim, TFun))


def size_exp(ck: Checker, e: A.Expr) -> tuple[A.Expr, Size]:
    """An elaborated size expression and its size."""
    if type(e) is A.EVar and "." not in e.name and ck.lookup(e.name) is None:
        raise ScopeError(
            f"unknown size '{e.name}'",
            e.span,
            hint=f"declare it as a parameter, [{e.name}], or bind it before" if e.name.isidentifier() else None,
            code="E0201",
        )
    if not limits.written(e):
        said = f"a size of more than {limits.MOST_TERMS} terms"
        raise UnsupportedError(said, e.span, hint="give a part of it a name, by 'let' or 'def'", code=limits.CODE)
    e = ck.exp(e)
    ck.fit(e.type, TPrim(I64), e.span, "a size must be an i64", e)
    size = size_of_expr(e)
    if size is None:
        consumed = consumed_name(e)
        if consumed is not None:
            raise ConsumptionError(
                f"this consumes '{consumed.name}', which a size may not do",
                consumed.span,
                hint="compute the size before, and pass it as a parameter",
                code="E0502",
            )
        raise TypeCheckError("a size must be made of names, numbers, arithmetic and calls", e.span, code="E0405")
    return e, size


def _named(ck: Checker, te: A.TEName, anon: Anon) -> SType:
    found = ck.lookup_type(te.name)
    if found is None:
        prim = PRIM_TYPES.get(te.name)
        if prim is None and te.args and te.name in hints.TYPES:
            hint = hints.of_array(te.name, _sizes(ck, te))
            raise ScopeError(f"unknown type '{te.name}'", te.span, hint=hint, code="E0201")
        if prim is None:
            ck.unknown("type", te.name, te.span)
        assert prim is not None
        found = Abbreviation(te.name, [], prim)
    if len(te.args) != len(found.params):
        in_front = not found.params and not any(isinstance(a, A.TypeExp) for a in te.args)
        raise TypeCheckError(
            f"type '{te.name}' takes {len(found.params)} arguments, but {len(te.args)} are given",
            te.span, code="E0311", hint=hints.of_array(te.name, _sizes(ck, te)) if in_front else None,
        )  # fmt: skip
    if not found.params and not found.anonymous:
        return found.type
    types: dict[Binding, SType] = {}
    sizes: dict[Binding, Size] = {b: anon(te.span) for b in found.anonymous}
    for i, ((b, kind), arg) in enumerate(zip(found.params, te.args, strict=True)):
        if kind == "size":
            if arg is None:
                sizes[b] = anon(te.span)
            elif isinstance(arg, A.Expr):
                te.args[i], sizes[b] = size_exp(ck, arg)
            else:
                raise TypeCheckError(
                    f"argument {i + 1} of type '{te.name}' must be a size: [{b.name}]", arg.span, code="E0311"
                )
        elif isinstance(arg, A.TypeExp):
            types[b] = texp(ck, arg, anon)
        else:
            raise TypeCheckError(f"argument {i + 1} of type '{te.name}' must be a type", te.span, code="E0311")
    made = substitute(found.type, types, sizes)
    ck.limits.made(made, te.span)
    return made


def _sizes(ck: Checker, te: A.TEName) -> list[str]:
    """The sizes among the arguments of a type, as the program has them."""
    return [(written(ck, a) or "n") if isinstance(a, A.Expr) else "" for a in te.args]


def _arrow(ck: Checker, te: A.TEArrow) -> SType:
    param = texp(ck, te.param, ck.anon_meta)
    name: Binding | None = None
    exists: list[Binding] = []

    def fresh(span: Span) -> Size:
        b = Binding("n", "skolem", None, span, level=ck.level)
        ck.origin[b] = "the size of a function's result"
        exists.append(b)
        return SizeVar(b)

    with ck.scoped():
        if te.name is not None:
            _names_once(te)
            name = Binding(te.name, "value", Scheme((), (), param), te.span, level=ck.level)
            ck.bind(te.name, name)
        if type(te.result) is A.TEExists:
            for n in te.result.sizes:
                b = Binding(n, "size", Scheme((), (), TPrim(I64)), te.span, level=ck.level)
                ck.bind(n, b)
                ck.origin[b] = "the size of a function's result"
                exists.append(b)
            result = texp(ck, te.result.elem, fresh)
        else:
            result = texp(ck, te.result, fresh if type(te.result) is not A.TEArrow else ck.anon_meta)
    if name is not None and not any(type(s) is SizeVar and s.binding is name for s in sizes_in(result)):
        name = None
    return TFun(param, result, name, tuple(exists))


def _names_once(te: A.TEArrow) -> None:
    """The parameters of a function's type have different names."""
    rest = te.result
    while type(rest) is A.TEArrow:
        if rest.name == te.name:
            raise TypeCheckError(f"parameter '{te.name}' is declared twice", rest.span, code="E0202")
        rest = rest.result


def components(te: A.TypeExp) -> list[A.TypeExp]:
    """The types that a type is made of, directly; of a function none."""
    if isinstance(te, A.TEName):
        return [a for a in te.args if isinstance(a, A.TypeExp)]
    if isinstance(te, (A.TEArray, A.TEUnique, A.TEExists)):
        return [te.elem]
    if isinstance(te, A.TETuple):
        return te.elems
    if isinstance(te, A.TERecord):
        return [t for _, t in te.fields]
    if isinstance(te, A.TESum):
        return [t for _, args in te.constrs for t in args]
    return []


def anonymous_size(te: A.TypeExp, result: bool = False) -> Span | None:
    """Where a type has a size without name (`[]`) that no function yields; in a `result`, that a parameter has."""
    if isinstance(te, A.TEArrow):
        found = anonymous_size(te.param)
        return found if found is not None else anonymous_size(te.result, True)
    if isinstance(te, A.TEArray):
        anonymous = te.size is None
    else:
        anonymous = isinstance(te, A.TEName) and None in te.args
    if anonymous and not result:
        return te.span
    return next((s for t in components(te) if (s := anonymous_size(t, result)) is not None), None)


LIFTED = ["", "~", "^"]


def liftedness(ck: Checker, te: A.TypeExp) -> str:
    """How a type must be declared ('', '~' or '^') that is defined as `te`."""
    own = ""
    if isinstance(te, A.TEName):
        found = ck.lookup_type(te.name)
        own = found.lifted if found is not None else ""
    elif isinstance(te, A.TEArrow):
        own = "^"
    elif isinstance(te, A.TEExists):
        own = "~"
    return max([own, *(liftedness(ck, t) for t in components(te))], key=LIFTED.index)


def distinct_params(tparams: list[A.TypeParam]) -> None:
    seen: set[tuple[bool, str]] = set()
    for tp in tparams:
        if (tp.kind == "size", tp.name) in seen:
            raise TypeCheckError(f"parameter '{tp.name}' is declared twice", tp.span, code="E0202")
        seen.add((tp.kind == "size", tp.name))


def define_type(ck: Checker, d: A.TypeDef) -> Abbreviation:
    """The abbreviation that a type definition makes."""
    anonymous: list[Binding] = []

    def fresh(span: Span) -> Size:
        b = Binding("", "size", Scheme((), (), TPrim(I64)), span)
        anonymous.append(b)
        return SizeVar(b)

    params: list[tuple[Binding, str]] = []
    distinct_params(d.params)
    with ck.scoped():
        for tp in d.params:
            params.append((bind_tparam(ck, tp), "size" if tp.kind == "size" else "type"))
        t = texp(ck, d.texp, fresh)
        ck.limits.made(t, d.span)
        needed = liftedness(ck, d.texp)
        for tp in d.params:
            if tp.kind == "size" and tp.binding is not None and not tp.binding.used:
                what = f"size parameter '{tp.name}' of type '{d.name}'"
                raise TypeCheckError(f"{what} does not occur in it", tp.span, code="E0403")
    hidden = anonymous_size(d.texp, True)
    if hidden is not None:
        raise TypeCheckError(
            f"type '{d.name}' contains a function whose parameter has an unknown size",
            hidden,
            hint=f"give the type a size parameter: type^ {d.name} [n] = ...",
            code="E0406",
        )
    if anonymous and not d.lifted:
        raise TypeCheckError(
            f"type '{d.name}' contains arrays of unknown size",
            d.span,
            hint=f"write 'type~ {d.name}', or give it a size parameter: type {d.name} [n] = ...",
            code="E0406",
        )
    lifted = needed if d.lifted == "?" else d.lifted
    if LIFTED.index(needed) > LIFTED.index(lifted):
        what = "functions" if needed == "^" else "arrays of unknown size"
        raise TypeCheckError(
            f"type '{d.name}' may contain {what}", d.span, hint=f"write 'type{needed} {d.name}'", code="E0313"
        )
    if d.refines is not None:
        lifted = d.refines
    return Abbreviation(d.name, params, t, tuple(anonymous), lifted)


def bind_tparam(ck: Checker, tp: A.TypeParam) -> Binding:
    """Bring a size or type parameter into scope."""
    if tp.kind == "size":
        b = Binding(tp.name, "size", Scheme((), (), TPrim(I64)), tp.span, level=ck.level)
        ck.bind(tp.name, b)
    else:
        b = Binding(tp.name, "tparam", None, tp.span, level=ck.level, lifted=tp.kind in ("lifted", "fullylifted"))
        if tp.kind != "fullylifted":
            ck.kinds[b] = "any" if tp.kind == "lifted" else "data"
        lifted = {"lifted": "~", "fullylifted": "^"}.get(tp.kind, "")
        ck.bind_type(tp.name, Abbreviation(tp.name, [], TParam(b), lifted=lifted))
    tp.binding = b
    return b
