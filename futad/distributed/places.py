"""Where in the source the statements of core IR come from, for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from futad.core import ir
from futad.core.types import Atom, Var
from futad.errors import Span


def place_of(s: ir.Stm) -> Span | None:
    """Where in the source a statement comes from, or else what is inside it."""
    for inner in ir.statements([s]):
        e = inner.exp
        for found in [getattr(e, "check", None), getattr(e, "place", None), *[v.at for v in inner.pat]]:
            if isinstance(found, Span):
                return found
    return None


def name_of(a: Atom) -> str:
    """What messages call a value."""
    return a.name if isinstance(a, Var) else str(a)


class Places:
    """The places of a function's statements.  A statement that has none (its check was proved, its value has no name)
    has that of the nearest one that uses what it makes, or else that made what it uses, or else the function's."""

    def __init__(self, fun: ir.Fun) -> None:
        self.fun = fun
        self.made: dict[Var, ir.Stm] = {}
        self.users: dict[Var, list[ir.Stm]] = {}
        for s in ir.statements(fun.body.stms):
            self.made.update(dict.fromkeys(s.pat, s))
            for v in ir.stm_free(s):
                self.users.setdefault(v, []).append(s)

    def of(self, s: ir.Stm) -> Span | None:
        if (found := place_of(s)) is not None:
            return found
        operands = [v.at for v in s.exp.operands() if isinstance(v, Var) and v.at is not None]
        return (self._nearest(s, self._using) or next(iter(operands), None) or self._nearest(s, self._making)
                or self.fun.span)  # fmt: skip

    def _using(self, s: ir.Stm) -> list[ir.Stm]:
        return [t for v in s.pat for t in self.users.get(v, ())]

    def _making(self, s: ir.Stm) -> list[ir.Stm]:
        return [self.made[v] for v in ir.stm_free(s) if v in self.made]

    def _nearest(self, s: ir.Stm, beside: Callable[[ir.Stm], Iterable[ir.Stm]]) -> Span | None:
        """The place of the first statement that has one, of those beside it, those beside these, and so on."""
        seen, ring = {id(s)}, [s]
        while ring:
            ring = [t for u in ring for t in beside(u) if id(t) not in seen]
            seen.update(map(id, ring))
            for t in ring:
                if (found := place_of(t)) is not None:
                    return found
        return None


__all__ = ["Places", "name_of", "place_of"]
