"""Patterns: their types, and the names they bind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.errors import ScopeError, Span, TypeCheckError
from futad.source import ast as A
from futad.source.check_types import texp
from futad.source.lints import elsewhere
from futad.source.pretty import show_type
from futad.source.traversals import strip
from futad.source.types import Binding, Scheme, SType, TMeta, TRecord, TSum, resolve
from futad.source.unify import Mismatch

if TYPE_CHECKING:
    from futad.source.check import Checker


def bind_pattern(ck: Checker, p: A.Pat, t: SType, what: str = "pattern") -> None:
    """Check `p` against a value of type `t` and bring its names into scope."""
    _distinct(p)
    _pat(ck, p, t, what)


def _distinct(p: A.Pat) -> None:
    if type(p) is A.PVar or type(p) is A.PWild:
        return
    seen: set[str] = set()
    for v in A.pattern_names(p):
        if v.name in seen:
            raise ScopeError(f"'{v.name}' is bound twice in one pattern", v.span, code="E0202")
        seen.add(v.name)


def distinct_sizes(sizes: list[str], p: A.Pat, span: Span) -> None:
    """The sizes that `let [n] p` or `loop [n] p` binds have names of their own."""
    names = [v.name for v in A.pattern_names(p)] if sizes else []
    for i, n in enumerate(sizes):
        if n in sizes[:i] or n in names:
            raise ScopeError(f"'{n}' is bound twice in one pattern", span, code="E0202")


def _pat(ck: Checker, p: A.Pat, t: SType, what: str) -> None:
    p.type = t
    if type(p) is A.PVar:
        b = Binding(p.name, "value", Scheme((), (), strip(t)), p.span, level=ck.level)
        p.binding = b
        ck.bind(p.name, b)
    elif type(p) is A.PWild:
        pass
    elif type(p) is A.PAscript:
        declared = texp(ck, p.texp, ck.open_size if what == "pattern" else ck.anon_meta)
        ck.fit(t, declared, p.span, f"this {what} is declared with another type")
        p.type = declared
        _pat(ck, p.pat, declared, what)
    elif type(p) is A.PTuple:
        r = resolve(t)
        if type(r) is TMeta:
            r = TRecord(tuple((str(i), ck.meta(q.span)) for i, q in enumerate(p.elems)))
            ck.fit(t, r, p.span, "a tuple pattern")
        if type(r) is not TRecord or not r.is_tuple or len(r.fields) != len(p.elems):
            found = show_type(r)
            raise TypeCheckError(
                f"this pattern is for a tuple of {len(p.elems)}, but the value is a {found}", p.span, code="E0307"
            )
        for q, (_, ft) in zip(p.elems, r.fields, strict=True):
            _pat(ck, q, ft, what)
        p.type = TRecord(tuple((n, q.type or ft) for q, (n, ft) in zip(p.elems, r.fields, strict=True)))
    elif type(p) is A.PRecord:
        r = resolve(t)
        if type(r) is TMeta:
            r = TRecord(tuple((n, ck.meta(q.span)) for n, q in p.fields))
            ck.fit(t, r, p.span, "a record pattern")
        if type(r) is not TRecord:
            problem = f"this pattern is for a record, but the value is a {show_type(r)}"
            raise TypeCheckError(problem, p.span, code="E0307")
        have = dict(r.fields)
        for n, q in p.fields:
            if n not in have:
                raise TypeCheckError(f"{show_type(r)} has no field '{n}'", q.span, code="E0303")
            _pat(ck, q, have[n], what)
        ascribed = {n: q.type for n, q in p.fields}
        p.type = TRecord(tuple((n, ascribed.get(n) or ft) for n, ft in r.fields))
        for n in have:
            if n not in dict(p.fields):
                raise TypeCheckError(
                    f"this pattern lacks field '{n}' of {show_type(r)}", p.span, hint=f"add '{n} = _'", code="E0307"
                )
    elif type(p) is A.PLit:
        p.lit = ck.exp(p.lit)
        ck.fit(p.lit.type, t, p.span, "a literal pattern")
    elif type(p) is A.PAttr:
        elsewhere(ck, [p.attr])
        _pat(ck, p.pat, t, what)
        p.type = p.pat.type
    elif type(p) is A.PConstr:
        args = tuple(ck.meta(q.span) for q in p.args)
        require_constr(ck, t, p.name, args, p)
        for q, at in zip(p.args, args, strict=True):
            _pat(ck, q, at, what)


def require_constr(ck: Checker, t: SType, name: str, args: tuple[SType, ...], at: A.Pat | A.Expr) -> None:
    """Require that `t` is a sum type with this constructor."""
    r = resolve(t)
    if type(r) is TMeta:
        m = ck.meta(at.span)
        m.constrs = {name: args}
        try:
            ck.unify(m, r)
        except Mismatch as err:
            raise TypeCheckError(f"constructor '#{name}' does not fit: {err.reason}", at.span, code="E0308") from None
        return
    if type(r) is not TSum:
        problem = f"'#{name}' is of a sum type, but a {show_type(r)} is expected here"
        raise TypeCheckError(problem, at.span, code="E0308")
    known = dict(r.constrs)
    if name not in known:
        raise TypeCheckError(f"{show_type(r)} has no constructor '#{name}'", at.span, code="E0308")
    if len(known[name]) != len(args):
        raise TypeCheckError(
            f"constructor '#{name}' takes {len(known[name])} values, not {len(args)}", at.span, code="E0308"
        )
    for a, b in zip(args, known[name], strict=True):
        ck.fit(a, b, at.span, f"a value of '#{name}'")
