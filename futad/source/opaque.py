"""Abstract types: what an ascription hides from the rest of the program.

An abstract type is a rigid type parameter whose binding knows the type that it stands for (`rep`); one with
parameters is a record that no program can take apart, whose first field is that type parameter.  Inference
does not look through it; consumption and lowering do.
"""

from __future__ import annotations

from futad.source.traversals import set_unique, substitute
from futad.source.types import Binding, Size, SizeVar, SType, TArray, TParam, TRecord, resolve


def abstract_type(b: Binding, params: list[tuple[Binding, str]]) -> SType:
    """The abstract type of `b`; applied to arguments, a record that tells them."""
    if not params:
        return TParam(b)
    fields: list[tuple[str, SType]] = [(f"{b.name}:", TParam(b))]
    for p, kind in params:
        fields.append((f"{p.name}:", TArray(SizeVar(p), TRecord(())) if kind == "size" else TParam(p)))
    return TRecord(tuple(fields))


def is_abstract(t: SType) -> bool:
    """Whether `t` (resolved) is an abstract type, applied to arguments or not."""
    mark: SType = t
    if type(t) is TRecord and t.fields and t.fields[0][0][-1] == ":":
        mark = resolve(t.fields[0][1])
    return type(mark) is TParam and mark.binding.kind == "abstract"


def abstract_at(t: SType, path: str) -> bool:
    """Whether the part of a `t` at `path` (`.a.b`) is inside a value of an abstract type."""
    for name in [*path.split(".")[1:], ""]:
        t = resolve(t)
        if is_abstract(t):
            return True
        if type(t) is not TRecord or not name:
            return False
        t = dict(t.fields)[name]
    return False


def opened(t: SType) -> SType:
    """`t` with solved metas followed and abstract types replaced by what they stand for, at its head."""
    while True:
        t = resolve(t)
        if type(t) is TParam and t.binding.rep is not None:
            inner = t.binding.rep.type
            t = set_unique(inner) if t.unique else inner
            continue
        if type(t) is not TRecord or not t.fields:
            return t
        (name, first), *given_fields = t.fields
        mark = resolve(first)
        if type(mark) is not TParam or mark.binding.rep is None or name != f"{mark.binding.name}:":
            return t
        types: dict[Binding, SType] = {}
        sizes: dict[Binding, Size] = {}
        for (p, kind), (_, given) in zip(mark.binding.rep.params, given_fields, strict=True):
            arg = resolve(given)
            if kind == "size":
                assert type(arg) is TArray
                sizes[p] = arg.size
            else:
                types[p] = arg
        inner = substitute(mark.binding.rep.type, types, sizes)
        t = set_unique(inner) if mark.unique else inner
