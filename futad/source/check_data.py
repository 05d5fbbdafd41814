"""Expressions over arrays and records: ranges, indexing, updates, ascriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.errors import Span, TypeCheckError
from futad.source import ast as A
from futad.source import hints
from futad.source.ast import type_of
from futad.source.check_rules import T_I64, infers
from futad.source.check_types import texp
from futad.source.lints import BIND_BEFORE, WITH_BINDING, copied_update, has_binding, negative_indices, warn
from futad.source.pretty import show_type
from futad.source.sizes import arith, is_i64, size_of_expr
from futad.source.traversals import strip
from futad.source.types import (
    Binding,
    Size,
    SizeConst,
    SizeMeta,
    SizeVar,
    SType,
    TArray,
    TMeta,
    TRecord,
    TSum,
    resolve,
    resolve_size,
)
from futad.source.unify import LOOSE_KINDS, Mismatch

if TYPE_CHECKING:
    from futad.source.check import Checker


def _const(e: A.Expr | None) -> int | None:
    return e.value if type(e) is A.ELit and type(e.value) is int else None


def _bound(e: A.Expr) -> Size | None:
    """A range's bound as a size; of other types than i64 only literals are one."""
    return size_of_expr(e) if _const(e) is not None or is_i64(e) else None


@infers(A.ERange)
def _range(ck: Checker, e: A.ERange) -> A.Expr:
    t = ck.meta(e.span, "int")
    e.start = ck.exp(e.start)
    ck.fit(e.start.type, t, e.start.span, "a range is of integers")
    if e.second is not None:
        e.second = ck.exp(e.second)
        ck.fit(e.second.type, t, e.second.span, "a range is of integers of one type")
    e.end = ck.exp(e.end)
    ck.fit(e.end.type, t, e.end.span, "a range is of integers of one type")
    size: Size | None = None
    inclusive = e.kind == "..."
    # With a step only 0..1..<n and 1..2...n have a size that the range says.
    plain = e.second is None or (_const(e.start), _const(e.second)) == (int(inclusive), int(inclusive) + 1)
    if plain and e.kind != "..>":
        start, end = _bound(e.start), _bound(e.end)
        if isinstance(start, SizeConst) and isinstance(end, SizeConst):
            size = SizeConst(max(0, end.value - start.value + inclusive))
        elif start is not None and end is not None:
            size = arith("-", end, arith("-", start, SizeConst(int(inclusive)), e.span), e.span)
    if size is None:
        b = ck.skolem("n", e.span, "the length of a range")
        e.new_sizes = (b,)
        size = SizeVar(b)
    e.type = TArray(size, t)
    return e


# --- records, arrays -------------------------------------------------------------------------------------------


def project(ck: Checker, t: SType, name: str, span: Span) -> SType:
    """The type of field `name` of a value of type `t`."""
    r = resolve(t)
    if type(r) is TMeta:
        if r.fields is None:
            r.fields = {}
        if r.kind not in LOOSE_KINDS:
            raise TypeCheckError(f"{show_type(r)} has no fields", span, code="E0303")
        if name not in r.fields:
            m = ck.meta(span)
            m.level = r.level
            r.fields[name] = m
        return r.fields[name]
    if type(r) is TRecord:
        for n, ft in r.fields:
            if n == name:
                return ft
        near = ck.near(name, [n for n, _ in r.fields])
        raise TypeCheckError(
            f"{show_type(r)} has no field '{name}'",
            span,
            hint=f"did you mean '{near}'?" if near else None,
            code="E0303",
        )
    raise TypeCheckError(f"a {show_type(r)} has no fields, so no '{name}'", span, code="E0303")


@infers(A.EProject)
def _project(ck: Checker, e: A.EProject) -> A.Expr:
    e.record = ck.exp(e.record)
    try:
        e.type = project(ck, type_of(e.record), e.field_name, e.span)
    except TypeCheckError as err:
        err.hint = err.hint or hints.of_field(ck, e.record, e.field_name, e.span)
        raise
    return e


def index_type(
    ck: Checker, t: SType, index: list[A.Expr | A.ESlice], span: Span, update: bool
) -> tuple[SType, tuple[Binding, ...]]:
    """Check an index into an array of type `t`; the type of what it selects, and new sizes of slices."""
    new: list[Binding] = []
    kept: list[Size] = []
    for i, ix in enumerate(index):
        r = resolve(t)
        if type(r) is TMeta:
            r = TArray(ck.size_meta(span), ck.meta(span, "data"))
            ck.fit(t, r, span, "what is indexed is an array")
        if type(r) is not TArray:
            if i == 0:
                raise TypeCheckError(f"only arrays can be indexed, and this is a {show_type(r)}", span, code="E0304")
            raise TypeCheckError(
                f"{len(index)} indices, but the array has only {i} dimension{'s' * (i != 1)}", span, code="E0304"
            )
        if isinstance(ix, A.ESlice):
            kept.append(_slice_size(ck, ix, r.size, new, update))
        else:
            index[i] = x = ck.exp(ix)
            ck.fit(x.type, ck.meta(x.span, "int"), x.span, "an index")
        t = r.elem
    t = resolve(t)
    for s in reversed(kept):
        t = TArray(s, t)
    return t, tuple(new)


def _slice_size(ck: Checker, sl: A.ESlice, dim: Size, new: list[Binding], update: bool) -> Size:
    for name in ("start", "end", "stride"):
        x = getattr(sl, name)
        if x is not None:
            x = ck.exp(x)
            setattr(sl, name, x)
            # Bounds of any integer type will do; one not yet known is an i64, so that it can be a size.
            t = ck.meta(x.span, "int")
            ck.fit(x.type, t, x.span, "a slice's bound")
            if type(resolve(t)) is TMeta and _const(x) is None:
                ck.unify(t, T_I64)
    if update:
        return ck.size_meta(sl.span)
    step = _const(sl.stride)
    if sl.start is None and sl.end is None and (sl.stride is None or step in (1, -1)):
        return dim
    if sl.stride is None or step == 1:
        start = SizeConst(0) if sl.start is None else _slice_bound(sl.start)
        end = dim if sl.end is None else _slice_bound(sl.end)
        if start is not None and end is not None:
            out = arith("-", end, start, sl.span)
            if not (isinstance(out, SizeConst) and out.value < 0):
                return out
    if any(map(has_binding, (sl.start, sl.end, sl.stride))):
        warn(ck, WITH_BINDING, sl.span, BIND_BEFORE)
    b = ck.skolem("n", sl.span, "the length of a slice")
    new.append(b)
    return SizeVar(b)


def _slice_bound(e: A.Expr) -> Size | None:
    c = _const(e)
    if c is not None:
        return SizeConst(c) if c >= 0 else None
    return size_of_expr(e) if is_i64(e) else None


@infers(A.EIndex)
def _index(ck: Checker, e: A.EIndex) -> A.Expr:
    e.array = ck.exp(e.array)
    e.type, e.new_sizes = index_type(ck, type_of(e.array), e.index, e.span, update=False)
    negative_indices(ck, e)
    return e


@infers(A.EUpdate)
def _update(ck: Checker, e: A.EUpdate) -> A.Expr:
    e.array = ck.exp(e.array)
    t, _ = index_type(ck, type_of(e.array), e.index, e.array.span, update=True)
    e.value = ck.exp(e.value)
    ck.fit(e.value.type, t, e.value.span, "the new value does not fit the array's elements", e.value)
    copied_update(ck, e)
    negative_indices(ck, e)
    e.type = strip(type_of(e.array))
    return e


@infers(A.ERecordUpdate)
def _record_update(ck: Checker, e: A.ERecordUpdate) -> A.Expr:
    e.record = ck.exp(e.record)
    t = type_of(e.record)
    for f in e.path:
        t = project(ck, t, f, e.span)
    e.value = ck.exp(e.value)
    try:
        same_shape(ck, type_of(e.value), t, None)
    except Mismatch as err:
        ck.mismatch(type_of(e.value), t, e.value.span, f"the new value of field '{'.'.join(e.path)}'", err, e.value)
    e.type = replaced(type_of(e.record), e.path, strip(type_of(e.value)))
    return e


def replaced(t: SType, path: list[str], new: SType) -> SType:
    """The record type `t` with the type of the field at `path` replaced (its sizes may be others)."""
    t = resolve(t)
    if not path:
        return new
    if type(t) is not TRecord:
        return t
    return TRecord(tuple((n, replaced(f, path[1:], new) if n == path[0] else f) for n, f in t.fields))


# --- ascription ------------------------------------------------------------------------------------------------


@infers(A.EAscript)
def _ascript(ck: Checker, e: A.EAscript) -> A.Expr:
    t = texp(ck, e.texp, ck.open_size)
    e.expr = ck.exp(e.expr)
    ck.fit(e.expr.type, t, e.expr.span, "this is ascribed another type", e.expr)
    e.type = strip(t)
    return e


@infers(A.ECoerce)
def _coerce(ck: Checker, e: A.ECoerce) -> A.Expr:
    before = len(ck.size_metas)
    t = texp(ck, e.texp, ck.open_size)
    left_open = ck.size_metas[before:]
    e.expr = ck.exp(e.expr)
    try:
        same_shape(ck, type_of(e.expr), t, left_open)
    except Mismatch as err:
        ck.mismatch(type_of(e.expr), t, e.expr.span, "':>' changes sizes only", err)
    e.type = strip(t)
    return e


def same_shape(ck: Checker, a: SType, b: SType, left_open: list[SizeMeta] | None, inside: bool = False) -> None:
    """Unify all but sizes, and those that `b` leaves open: none if a value of type `b` is replaced (None).

    Sizes of `a` that are not known yet are left to the rest of the definition, which may say that they are others.

    The unknown sizes `inside` of a sum type are left to the rest of the definition: another constructor may have them.
    """
    a, b = resolve(a), resolve(b)
    if type(a) is TArray and type(b) is TArray:
        same_shape(ck, a.elem, b.elem, left_open, inside)
        have, wanted = resolve_size(a.size), resolve_size(b.size)
        if type(wanted) is SizeMeta and wanted in (left_open or ()):
            if inside:
                ck.coerced.append((wanted, have))
            else:
                ck.unify_size(have, wanted)
        elif type(have) is SizeMeta and have not in ck.soft_sizes:
            if left_open is None:
                ck.coerced.append((have, wanted))
            else:
                ck.recast.append((have, wanted))
    elif type(a) is TRecord and type(b) is TRecord and dict(a.fields).keys() == dict(b.fields).keys():
        other = dict(b.fields)
        for n, x in a.fields:
            same_shape(ck, x, other[n], left_open, inside)
    elif type(a) is TSum and type(b) is TSum and dict(a.constrs).keys() == dict(b.constrs).keys():
        known = dict(b.constrs)
        for n, args in a.constrs:
            if len(args) != len(known[n]):
                ck.unify(a, b)
            for x, y in zip(args, known[n], strict=True):
                same_shape(ck, x, y, left_open, True)
    elif type(a) is TMeta and type(b) is not TMeta:
        ck.unify(a, ck.sized_anew(b))
        same_shape(ck, a, b, left_open, inside)
    else:
        ck.unify(a, b)
