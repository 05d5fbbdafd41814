"""Walking over types and sizes: substitution, what they mention."""

from __future__ import annotations

from collections.abc import Callable

from futad.source.sizes import free_names, key, poly
from futad.source.types import (
    Binding,
    Size,
    SizeExp,
    SizeVar,
    SType,
    TArray,
    TFun,
    TMeta,
    TParam,
    TRecord,
    TSum,
    resolve,
    resolve_size,
)

UNIT = TRecord(())


def size_names(s: Size) -> list[Binding]:
    """The names in a size."""
    s = resolve_size(s)
    if type(s) is SizeVar:
        return [s.binding]
    if type(s) is SizeExp:
        inner: dict[Binding, None] = {}
        free_names(s.expr, inner)
        return [b for b in inner if b not in s.params] + [b for a in s.args for b in size_names(a)]
    return []


def mapped(t: SType, f: Callable[[SType], SType], size: Callable[[Size], Size] = lambda s: s) -> SType:
    """A resolved type with `f` of the types right inside it, `size` of an array's."""
    if type(t) is TArray:
        at, elem = size(t.size), f(t.elem)
        return t if at is t.size and elem is t.elem else TArray(at, elem, t.unique)
    if type(t) is TRecord:
        return TRecord(tuple((n, f(x)) for n, x in t.fields))
    if type(t) is TSum:
        return TSum(tuple((n, tuple(f(a) for a in args)) for n, args in t.constrs))
    return TFun(f(t.param), f(t.result), t.name, t.exists) if type(t) is TFun else t


def parts(t: SType) -> list[SType]:
    """The types right inside a resolved type; of a function none."""
    if type(t) is TArray:
        return [t.elem]
    if type(t) is TRecord:
        return [x for _, x in t.fields]
    return [a for _, args in t.constrs for a in args] if type(t) is TSum else []


def set_unique(t: SType) -> SType:
    """`*t`"""
    t = resolve(t)
    if type(t) is TArray:
        return TArray(t.size, t.elem, True)
    if type(t) is TParam:
        return TParam(t.binding, True)
    return t if type(t) is TFun else mapped(t, set_unique)


def strip(t: SType) -> SType:
    """`t` without uniqueness (a value's own; parameters and results of functions keep theirs)."""
    t = resolve(t)
    if type(t) is TArray:
        elem = strip(t.elem)
        return TArray(t.size, elem) if t.unique or elem is not t.elem else t
    if type(t) is TRecord:
        fields = tuple((n, strip(f)) for n, f in t.fields)
        if any(f is not g for (_, f), (_, g) in zip(fields, t.fields, strict=True)):
            return TRecord(fields)
    if type(t) is TParam and t.unique:
        return TParam(t.binding)
    return t


def substitute_size(s: Size, sizes: dict[Binding, Size]) -> Size:
    s = resolve_size(s)
    if type(s) is SizeVar:
        return sizes.get(s.binding, s)
    if type(s) is SizeExp:
        args = tuple(substitute_size(a, sizes) for a in s.args)
        if all(x is y for x, y in zip(args, s.args, strict=True)):
            return s
        return SizeExp(s.key, s.expr, s.params, args)
    return s


def substitute(t: SType, types: dict[Binding, SType], sizes: dict[Binding, Size]) -> SType:
    """`t` with type parameters and sizes replaced."""
    t = resolve(t)
    if type(t) is TParam:
        found = types.get(t.binding, t)
        return set_unique(found) if t.unique and found is not t else found
    return mapped(t, lambda x: substitute(x, types, sizes), lambda s: substitute_size(s, sizes))


def forgotten(
    t: SType, gone: Callable[[Binding], bool], make: Callable[[], Binding], made: dict[str, Binding]
) -> SType:
    """`t` with each size that mentions a name that is `gone` replaced by one that is not known.

    `made` maps the normal form of a size to the binding that stands for it now.
    """

    def size(s: Size) -> Size:
        if not any(gone(b) for b in size_names(s)):
            return s
        text = key(poly(s))
        if text not in made:
            made[text] = make()
        return SizeVar(made[text])

    def go(t: SType) -> SType:
        return mapped(resolve(t), go, size)

    return go(t)


def inputs(t: SType) -> set[Binding]:
    """The type parameters of a function's type that are not only what its functional arguments and itself yield."""
    out: set[Binding] = set()

    def taken(t: SType) -> None:
        def on_type(x: SType) -> None:
            if type(x) is TParam:
                out.add(x.binding)

        walk(t, on_type, lambda _: None)

    def yielded(t: SType) -> None:
        t = resolve(t)
        if type(t) is TFun:
            (yielded if type(resolve(t.param)) is TFun else taken)(t.param)
            yielded(t.result)
        elif type(t) is TRecord:
            for _, f in t.fields:
                yielded(f)

    t = resolve(t)
    while type(t) is TFun:
        param = resolve(t.param)
        if type(param) is TFun:
            yielded(param)
        else:
            taken(param)
        t = resolve(t.result)
    yielded(t)
    return out


def witnesses(t: SType) -> set[Binding]:
    """The sizes that a value of this type tells: those of its arrays.

    What a function takes or yields is no array that is there, nor is what an abstract type was applied to; a size
    argument of an abstract type is (only types that hold such an array become abstract).
    """
    out: set[Binding] = set()

    def go(t: SType) -> None:
        t = resolve(t)
        if type(t) is TArray:
            if type(t.size) is SizeVar:
                out.add(t.size.binding)
            s = resolve_size(t.size)
            if type(s) is SizeVar:
                out.add(s.binding)
            go(t.elem)
        elif type(t) is TRecord:
            hidden = bool(t.fields) and t.fields[0][0][-1] == ":"
            for _, f in t.fields:
                f = resolve(f)
                if not hidden or (type(f) is TArray and resolve(f.elem) == UNIT):
                    go(f)
        else:
            for a in parts(t):
                go(a)

    go(t)
    return out


def walk(t: SType, on_type: Callable[[SType], None], on_size: Callable[[Size], None]) -> None:
    """Visit all (resolved) types and sizes in `t`."""
    t = resolve(t)
    on_type(t)
    if type(t) is TArray:
        on_size(resolve_size(t.size))
    inside = parts(t)
    if type(t) is TFun:
        inside = [t.param, t.result]
    elif type(t) is TMeta and t.fields:
        inside = [*t.fields.values()]
    for x in inside:
        walk(x, on_type, on_size)


def sizes_in(t: SType, arrows: bool = True) -> list[Size]:
    """The resolved sizes of a type, outermost first, those inside size expressions too; optionally only
    those outside function types."""
    out: list[Size] = []

    def on_size(s: Size) -> None:
        s = resolve_size(s)
        out.append(s)
        if type(s) is SizeExp:
            for a in s.args:
                on_size(a)

    def go(t: SType) -> None:
        t = resolve(t)
        if type(t) is TArray:
            on_size(t.size)
        for x in parts(t):
            go(x)

    if arrows:
        walk(t, lambda _: None, on_size)
    else:
        go(t)
    return out
