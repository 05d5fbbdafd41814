"""The builder that lowering emits into: nested scopes, with size arithmetic shared.

Equal i64 and bool operations in nested scopes are emitted once, so that a size such as `n + 1` is one
variable wherever it is computed; operations on constants fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from futad.core import ir
from futad.core.builder import Builder
from futad.core.scalarops import OPS, folded
from futad.core.types import BOOL, I64, Atom, Const, Type, Var, prim_of


class Scope(Builder):
    """The statements of one scope; `defs` maps what it binds to the defining expression."""

    def __init__(self, parent: Scope | None = None, params: Sequence[Var] = ()) -> None:
        super().__init__()
        self.parent = parent
        self.defs: dict[Var, ir.Exp | None] = dict.fromkeys(params)
        self.shared: dict[tuple[Any, ...], Atom] = {}

    def emit(
        self, exp: ir.Exp, *names: str, types: Sequence[Type] | None = None, attrs: tuple[Any, ...] = ()
    ) -> tuple[Var, ...]:
        pat = super().emit(exp, *names, types=types, attrs=attrs)
        for v in pat:
            self.defs[v] = exp
        return pat

    def emit_pat(self, pat: tuple[Var, ...], exp: ir.Exp, attrs: tuple[Any, ...] = ()) -> None:
        """Bind a pattern made by the caller (results of unknown size)."""
        self.stms.append(ir.Stm(pat, exp, attrs))
        for v in pat:
            self.defs[v] = exp

    def scalar(self, name: str, *args: Atom, hint: str = "t", place: Any = None) -> Atom:
        """A scalar operation, folded or shared if it can be; `place` is where it stands in the source."""
        record = OPS[name]
        last = args[-1]
        if not record.can_fail or not prim_of(last).is_integral or (type(last) is Const and last.value > 0):
            place = None
        constant = folded(name, args)
        if constant is not None:
            return constant
        first = args[0].type
        if first is not I64 and first is not BOOL:
            return self.op(name, *args, hint=hint, place=place)
        small = _identity(name, args)
        if small is not None:
            return small
        if record.commutative and type(args[0]) is Const:
            args = (args[1], args[0])
        key = (name, *args)
        found = self.find_shared(key)
        if found is not None:
            return found
        v = self.op(name, *args, hint=hint, place=place)
        self.shared[key] = v
        return v

    def find_shared(self, key: tuple[Any, ...]) -> Atom | None:
        """What was computed for `key` in this scope or one around it."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.shared.get(key)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def convert(self, to: Any, a: Atom) -> Atom:
        return a if a.type is to else self.scalar(f"to_{to.name}", a)

    def definition(self, a: Atom) -> ir.Exp | None:
        """What defines `a` in this scope or one around it; None for a parameter or a constant."""
        scope: Scope | None = self
        while scope is not None and a not in scope.defs:
            scope = scope.parent
        return scope.defs[a] if scope is not None and isinstance(a, Var) else None

    def is_local(self, a: Atom) -> TypeGuard[Var]:
        return type(a) is Var and a in self.defs





def _identity(name: str, args: tuple[Atom, ...]) -> Atom | None:
    if len(args) != 2 or args[0].type is not I64:
        return None
    x, y = args
    if type(y) is Const:
        if y.value == 0 and name in ("add", "sub"):
            return x
        if y.value == 1 and name in ("mul", "div", "quot"):
            return x
    if type(x) is Const:
        if x.value == 0 and name == "add":
            return y
        if x.value == 1 and name == "mul":
            return y
    if x is y and name == "sub":
        return Const(I64, 0)
    return None
