"""Loops: the types of their parameters, and the sizes that change from iteration to iteration."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from futad.core.types import BOOL, I64
from futad.errors import Span, TypeCheckError
from futad.source import ast as A
from futad.source.ast import type_of
from futad.source.check_pats import bind_pattern, distinct_sizes
from futad.source.check_types import texp
from futad.source.sizes import metas_of, poly
from futad.source.traversals import mapped, sizes_in, strip, substitute
from futad.source.types import (
    Binding,
    Scheme,
    Size,
    SizeMeta,
    SizeVar,
    SType,
    TArray,
    TFun,
    TMeta,
    TPrim,
    TRecord,
    TSum,
    resolve,
    resolve_size,
)
from futad.source.unify import Mismatch

if TYPE_CHECKING:
    from futad.source.check import Checker


def pattern_expr(p: A.Pat) -> A.Expr:
    """The expression that has a pattern's form (`loop (x, y) for ...` starts from x and y)."""
    if isinstance(p, A.PVar):
        return A.EVar(p.span, p.name)
    if isinstance(p, (A.PAscript, A.PAttr)):
        return pattern_expr(p.pat)
    if isinstance(p, A.PTuple):
        return A.ETuple(p.span, [pattern_expr(q) for q in p.elems])
    if isinstance(p, A.PRecord):
        return A.ERecord(p.span, [(n, pattern_expr(q)) for n, q in p.fields])
    raise TypeCheckError("a loop without initial value needs a pattern of names", p.span, code="E0312")


def _annotated(ck: Checker, p: A.Pat, t: SType) -> None:
    """Where nothing is known of an initial value, the pattern's types say what is an array, whose size may change."""
    t = resolve(t)
    if isinstance(p, A.PAscript) and type(t) is TMeta:
        with suppress(Mismatch):  # of which the pattern tells
            ck.unify_shape(t, texp(ck, p.texp, ck.size_meta))
    elif isinstance(p, A.PAscript | A.PAttr):
        _annotated(ck, p.pat, t)
    elif isinstance(p, A.PTuple) and type(t) is TRecord and len(t.fields) == len(p.elems):
        for q, (_, field) in zip(p.elems, t.fields, strict=True):
            _annotated(ck, q, field)


Ranks = int | dict[str, "Ranks"]  # how many dimensions an array has; of a tuple or record, its fields


def _ranks(t: SType) -> Ranks:
    t = resolve(t)
    if type(t) is TRecord:
        return {n: _ranks(f) for n, f in t.fields}
    rank = 0
    while type(t) is TArray:
        rank, t = rank + 1, resolve(t.elem)
    return rank


def learn_ranks(ck: Checker) -> bool:
    """After a definition with an error: whether values that loops start from have turned out to be arrays only after
    their loops' parameters got types, which have sizes that change.  They are known from now on."""
    learnt = False
    for span, t, known in ck.loops:
        ranks = _ranks(t)
        if ranks != known and ranks != ck.loop_ranks.get(span):
            ck.loop_ranks[span] = ranks
            learnt = True
    ck.loops.clear()
    return learnt


def _known(ck: Checker, t: SType, ranks: Ranks) -> None:
    """Give a type the dimensions that an attempt before has found."""
    t = resolve(t)
    if isinstance(ranks, dict):
        for n, f in t.fields if type(t) is TRecord else ():
            _known(ck, f, ranks.get(n, 0))
        return
    while type(t) is TArray:
        ranks, t = ranks - 1, resolve(t.elem)
    if type(t) is TMeta and ranks > 0:
        array: SType = ck.meta()
        for _ in range(ranks):
            array = TArray(ck.size_meta(), array)
        with suppress(Mismatch):
            ck.unify(t, array)


def _freshen(ck: Checker, t: SType, out: list[tuple[SizeMeta, Size]], span: Span) -> SType:
    """`t` with unknown sizes in place of its own."""
    t = resolve(t)
    if type(t) is TArray:
        m = ck.size_meta(span)
        out.append((m, t.size))
        return TArray(m, _freshen(ck, t.elem, out, span))
    return t if type(t) is TFun else mapped(t, lambda x: _freshen(ck, x, out, span))


def _pair_sizes(ck: Checker, p: SType, b: SType, out: list[Size], fresh: set[SizeMeta]) -> None:
    """Unify all but the `fresh` sizes; `out` gets those of `b` in the order of `_freshen`."""
    p, b = resolve(p), resolve(b)
    if type(p) is TArray and type(b) is TArray:
        if p.size in fresh:
            out.append(b.size)
        else:
            ck.unify_size(b.size, p.size)
        _pair_sizes(ck, p.elem, b.elem, out, fresh)
    elif type(p) is TRecord and type(b) is TRecord and dict(p.fields).keys() == dict(b.fields).keys():
        other = dict(b.fields)
        for n, f in p.fields:
            _pair_sizes(ck, f, other[n], out, fresh)
    elif type(p) is TArray and type(b) is TMeta:
        copy = _freshen(ck, p, [], b.span or _nowhere(ck))
        ck.unify(b, copy)
        _pair_sizes(ck, p, copy, out, fresh)
    elif type(p) is TSum and type(b) is TSum and dict(p.constrs).keys() == dict(b.constrs).keys():
        known = dict(b.constrs)
        for n, args in p.constrs:
            for x, y in zip(args, known[n], strict=True):
                _pair_sizes(ck, x, y, out, fresh)
    else:
        ck.unify(b, p)


def _nowhere(ck: Checker) -> Span:
    return Span(ck.path, 1, 1, 1, 1)


def loop_exp(ck: Checker, e: A.ELoop) -> A.Expr:
    """Type a loop; which sizes of its parameters change from iteration to iteration is found from its body."""
    if e.init is None:
        e.init = pattern_expr(e.pat)
    e.init = ck.exp(e.init)
    ck.no_functions(type_of(e.init), "a loop parameter", e.init.span)
    form = e.form
    if isinstance(form, A.ForI):
        form.bound = ck.exp(form.bound)
        ck.fit(form.bound.type, ck.meta(form.span, "int"), form.bound.span, "the bound of 'for'")
    elif isinstance(form, A.ForIn):
        form.array = ck.exp(form.array)
        array = TArray(ck.size_meta(form.span), ck.meta(form.span))
        ck.fit(form.array.type, array, form.array.span, "'for ... in' goes through an array")
    ck.level += 1
    with ck.scoped():
        named: dict[Binding, tuple[Size, Size] | None] = {}
        distinct_sizes(e.sizes, e.pat, e.span)
        for n in e.sizes:
            b = Binding(n, "size", Scheme((), (), TPrim(I64)), e.span, level=ck.level - 1)
            ck.bind(n, b)
            named[b] = None
        e.size_bindings = tuple(named)
        _annotated(ck, e.pat, type_of(e.init))
        _known(ck, type_of(e.init), ck.loop_ranks.get(e.span, 0))
        ck.loops.append((e.span, type_of(e.init), _ranks(type_of(e.init))))
        fresh: list[tuple[SizeMeta, Size]] = []
        t = _freshen(ck, strip(type_of(e.init)), fresh, e.init.span)
        for m, init in fresh:
            m.level = ck.level - 1
            ck.soft_sizes[m] = init
        bind_pattern(ck, e.pat, t, "loop parameter")
        ck.loop_params.update(v.binding for v in A.pattern_names(e.pat) if v.binding is not None)
        if isinstance(form, A.ForI):
            bind_pattern(ck, form.var, type_of(form.bound))
        elif isinstance(form, A.ForIn):
            bind_pattern(ck, form.pat, array.elem)
        else:
            form.cond = ck.exp(form.cond)
            ck.fit(form.cond.type, TPrim(BOOL), form.cond.span, "the condition of 'while'", form.cond)
        e.body = ck.exp(e.body)
        back: list[Size] = []
        try:
            _pair_sizes(ck, t, strip(type_of(e.body)), back, {m for m, _ in fresh})
        except Mismatch as err:
            ck.mismatch(type_of(e.body), t, e.body.span, "the loop's body must yield the loop parameters' type", err)
        for m, _ in fresh:
            del ck.soft_sizes[m]
        made = _resolve_sizes(ck, e, fresh, back, named)
    ck.level -= 1
    e.loop_sizes = tuple(b for b in made if b not in e.size_bindings)
    results: dict[Binding, Size] = {}
    new = []
    for b in made:
        r = ck.skolem(b.name, e.span, "the size of a loop's result")
        new.append(r)
        results[b] = SizeVar(r)
    e.new_sizes = tuple(new)
    e.type = substitute(t, {}, results)
    for s in sizes_in(e.type):
        if type(s) is SizeVar and s.binding.level > ck.level:
            raise TypeCheckError(
                f"the loop's result would have a size that is only known inside the loop ({s.binding.name})",
                e.span,
                code="E0404",
            )
    return e


def keeps_size(ck: Checker, a: Size, b: Size) -> bool:
    """Whether two sizes, of which loop parameters have one, are the same if loops keep the sizes they start with.

    It is supposed then that they do.  If that leads to an error, the definition is checked once more without.
    """
    if not ck.supposes or poly(_initial(ck, a)) != poly(_initial(ck, b)):
        return False
    ck.supposed = True
    return True


def _initial(ck: Checker, s: Size) -> Size:
    """What the loops that we are in give a size to start with: that of the outermost one's initial value."""
    s = resolve_size(s)
    while (start := ck.soft_sizes.get(s)) is not None and resolve_size(start) is not s:
        s = resolve_size(start)
    return s


def _resolve_sizes(
    ck: Checker,
    e: A.ELoop,
    fresh: list[tuple[SizeMeta, Size]],
    back: list[Size],
    named: dict[Binding, tuple[Size, Size] | None],
) -> list[Binding]:
    """Decide for each size of the loop parameters whether it stays or changes; the changing ones."""
    assert e.init is not None

    def differs(have: Size, want: Size, what: str, span: Span) -> None:
        try:
            ck.unify_size(have, want)
        except Mismatch as err:
            raise TypeCheckError(
                f"{what} does not have the loop parameter's size: {err.reason}", span, code="E0401", notes=err.notes
            ) from None

    # Suppose that all sizes stay; those for which that fails change, which may make others fail.
    unsolved: list[tuple[SizeMeta, Size, Size]] = []
    for (m, init), after in zip(fresh, back, strict=True):
        p = resolve_size(m)
        if type(p) is SizeMeta and p not in [u[0] for u in unsolved]:
            unsolved.append((p, init, after))
    own = {p for p, _, _ in unsolved}
    for p, _, after in unsolved:
        b = resolve_size(after)
        if type(b) is SizeMeta and b not in own:
            ck.unify_size(b, p)
    # What the body makes out of the size itself, such as twice as much, changes even if it starts from 0.
    changes: list[tuple[SizeMeta, Size, Size]] = []
    for u in unsolved:
        inside: dict[SizeMeta, None] = {}
        metas_of(u[2], inside)
        if u[0] in inside and poly(u[2]) != poly(u[0]):
            changes.append(u)
    for u in unsolved:
        # The body may have made them one already.
        inside = {}
        metas_of(u[1], inside)
        if u[0] not in inside and u not in changes:
            u[0].ref = u[1]
    failing = True
    while failing:
        failing = False
        for u in unsolved:
            p, init, after = u
            if u not in changes and poly(after) != poly(init):
                if resolve_size(init) in ck.soft_sizes and keeps_size(ck, init, after):
                    ck.unify_size(init, after)
                    continue
                p.ref = None
                changes.append(u)
                failing = True
    changing: dict[Binding, tuple[Size, Size]] = {}
    for p, init, after in changes:
        size = Binding("n", "size", Scheme((), (), TPrim(I64)), e.span, level=ck.level - 1)
        p.ref = SizeVar(size)
        changing[size] = (init, after)
    for (m, init), after in zip(fresh, back, strict=True):
        s = resolve_size(m)
        if type(s) is SizeVar and (s.binding in named or s.binding in changing):
            seen = changing.get(s.binding)
            if seen is None:
                changing[s.binding] = (init, after)
            elif seen[1] is not after:
                differs(init, seen[0], "the initial value", e.init.span)
                differs(after, seen[1], "the body's result", e.body.span)
        else:
            differs(init, s, "the initial value", e.init.span)
            differs(after, s, "the body's result", e.body.span)
    return list(changing)
