"""Patterns that must match, and matches that must cover every value.

Coverage is decided at the end of a definition, when all types are known, by specialising the matrix of
patterns constructor by constructor (Maranget, "Warnings for pattern matching", 2007).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from futad.core.types import BOOL
from futad.errors import Span, TypeCheckError, UnsupportedError
from futad.source import ast as A
from futad.source import limits
from futad.source.types import SType, TPrim, TRecord, TSum, resolve

if TYPE_CHECKING:
    from futad.source.check import Checker


def require_irrefutable(ck: Checker, p: A.Pat) -> None:
    """A pattern of `let` or a parameter must match every value."""
    if _can_fail(p):
        ck.later.append(lambda: _irrefutable(p))


def _can_fail(p: A.Pat) -> bool:
    if isinstance(p, (A.PLit, A.PConstr)):
        return True
    if isinstance(p, (A.PAscript, A.PAttr)):
        return _can_fail(p.pat)
    if isinstance(p, A.PTuple):
        return any(_can_fail(q) for q in p.elems)
    if isinstance(p, A.PRecord):
        return any(_can_fail(q) for _, q in p.fields)
    return False


def _irrefutable(p: A.Pat) -> None:
    assert p.type is not None
    missing = uncovered([[p]], [p.type], _Steps(p.span))
    if missing is not None:
        raise TypeCheckError(
            f"this pattern does not match every value, such as {missing[0]}",
            p.span,
            hint="use 'match' here",
            code="E0309",
        )


def check_exhaustive(ck: Checker, e: A.EMatch) -> None:
    """The cases of a match must cover every value."""

    def check() -> None:
        assert e.scrutinee.type is not None
        missing = uncovered([[p] for p, _ in e.cases], [e.scrutinee.type], _Steps(e.span))
        if missing is not None:
            raise TypeCheckError(f"Unmatched cases: there is none for {missing[0]}", e.span, code="E0309")

    ck.later.append(check)


def _peel(p: A.Pat) -> A.Pat | None:
    """The pattern below ascriptions; None for one that matches everything."""
    while isinstance(p, (A.PAscript, A.PAttr)):
        p = p.pat
    return None if isinstance(p, (A.PVar, A.PWild)) else p


class _Steps:
    """How many steps have been taken to find out whether the cases at a place cover every value."""

    def __init__(self, span: Span) -> None:
        self.span, self.taken = span, 0

    def take(self) -> None:
        self.taken += 1
        if self.taken > limits.MOST_CASES:
            said = "it takes too long to find out whether these cases cover every value"
            raise UnsupportedError(said, self.span, hint="add a last one: case _ -> ...", code=limits.CODE)


def uncovered(rows: list[list[Any]], types: list[SType], steps: _Steps) -> list[str] | None:
    """Values, one for each column, that no row matches, as text; None if all are covered."""
    if not types:
        return None if rows else []
    if any(all(p is None or _peel(p) is None for p in row) for row in rows):
        return None
    steps.take()
    t = resolve(types[0])
    firsts = [_peel(row[0]) if row[0] is not None else None for row in rows]
    if type(t) is TRecord:
        names = [n for n, _ in t.fields]
        wide = [_fields(f, names) + row[1:] for f, row in zip(firsts, rows, strict=True)]
        missing = uncovered(wide, [ft for _, ft in t.fields] + types[1:], steps)
        if missing is None:
            return None
        parts = missing[: len(names)]
        if t.is_tuple:
            text = "(" + ", ".join(parts) + ")"
        else:
            text = "{" + ", ".join(f"{n} = {p}" for n, p in zip(names, parts, strict=True)) + "}"
        return [text, *missing[len(names) :]]
    if type(t) is TSum:
        for name, args in t.constrs:
            special = []
            for f, row in zip(firsts, rows, strict=True):
                if f is None:
                    special.append([None] * len(args) + row[1:])
                elif isinstance(f, A.PConstr) and f.name == name:
                    special.append([*f.args, *row[1:]])
            missing = uncovered(special, [*args, *types[1:]], steps)
            if missing is not None:
                inner = " ".join([f"#{name}", *missing[: len(args)]])
                return [f"({inner})" if args else inner, *missing[len(args) :]]
        return None
    anything = [k for k, f in enumerate(firsts) if f is None]
    values: dict[Any, list[int]] = {}  # the rows that match each literal, but for those that match anything
    for k, f in enumerate(firsts):
        if isinstance(f, A.PLit) and isinstance(f.lit, A.ELit):
            values.setdefault(f.lit.value, []).append(k)
    is_bool = type(t) is TPrim and t.prim is BOOL
    tests: list[Any] = [True, False] if is_bool else [*sorted(values), None]
    for v in tests:
        rest = [rows[k][1:] for k in sorted(values.get(v, []) + anything)]
        missing = uncovered(rest, types[1:], steps)
        if missing is not None:
            return [("true" if v else "false") if is_bool else "_" if v is None else str(v), *missing]
    return None


def _fields(p: A.Pat | None, names: list[str]) -> list[Any]:
    if isinstance(p, A.PTuple):
        return list(p.elems)
    if isinstance(p, A.PRecord):
        given = dict(p.fields)
        return [given.get(n) for n in names]
    return [None] * len(names)
