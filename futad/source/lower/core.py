"""Lowering: the typed syntax tree to core IR, as an evaluator over static values.

Evaluating an expression emits core statements and yields a `Value`.  Functions are applied by evaluating
their bodies, either in place or once per instance in a core function of their own (`calls.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from futad.core import ir
from futad.core.types import I64, ZERO, Atom, Const, Var
from futad.errors import NEGATIVE_SIZE, InternalError, Span, UnsupportedError
from futad.registry import registering
from futad.source import ast
from futad.source.lower.free import Facts
from futad.source.lower.scope import Scope
from futad.source.lower.values import Frame, Leaf, Value, leaves, rebuild, scalar
from futad.source.types import SType

TypeAt = tuple[SType, Frame]

Handler = Callable[["Lowerer", Any, Frame], Value]
HANDLERS: dict[type, Handler] = {}
handles = registering(HANDLERS)  # the lowering of classes of expressions


#: by name (and a place for the error that there is none): how many arguments an intrinsic takes, and its lowering
Intrinsics = Callable[["Lowerer", str, Span], tuple[int, Any]]


class Lowerer:
    """The state of lowering one program: `b` is the scope statements go to."""

    def __init__(self, checked: ast.CheckedProgram, intrinsic: Intrinsics) -> None:
        self.checked = checked
        self.intrinsic = intrinsic
        self.top: set[int] = {id(f) for f in checked.funs}
        self.texts = {f.path: f.text for f in checked.files}
        self.facts = Facts()
        self.root = Frame(None)
        self.b = Scope()
        self.fun_scope = self.b
        self.constants: dict[Any, Value] = {}
        self.num_constants = 0
        self.applied = 0  # how many functions have been applied that are not intrinsics
        self.funs: dict[str, ir.Fun] = {}
        self.instances: dict[Any, Any] = {}
        self.names: dict[str, int] = {}
        self.span: Span | None = None
        self.site: Span | None = None  # the application in the user's text that is being lowered
        # Arrays that lie in a `zip` as they are, though its result counts as new.
        self.borrowed: set[Any] = set()
        self.unchecked = 0
        self.not_inlined: ast.FunDef | None = None  # the function that is being applied under `noinline`
        self.known_sizes: set[Var] = set()  # those that are not negative
        self.stored_sizes: set[Atom] = set()  # of what is in memory: arguments, what loops carry

    # -- expressions

    def expr(self, e: ast.Expr, fr: Frame) -> Value:
        return HANDLERS[type(e)](self, e, fr)

    def scalar(self, e: ast.Expr, fr: Frame) -> Atom:
        """A scalar expression's atom."""
        return scalar(self.expr(e, fr))

    def index(self, e: ast.Expr, fr: Frame) -> Atom:
        """An integer expression as an i64 atom."""
        return self.b.convert(I64, self.scalar(e, fr))

    # -- scopes

    @contextmanager
    def within(self, scope: Scope) -> Iterator[Scope]:
        """Emit into `scope` for a while."""
        saved, self.b = self.b, scope
        try:
            yield scope
        finally:
            self.b = saved

    def new_scope(self, params: list[Var] | tuple[Var, ...] = ()) -> Scope:
        return Scope(self.b, params)

    def check_span(self, span: Span) -> Span | None:
        """The place for a run-time check, or None inside `#[unsafe]`."""
        return None if self.unchecked else span

    def require_size(self, n: Atom, span: Span) -> None:
        """Check at run time, with the place, that a number of elements is not negative.

        In a map or loop only if it is made there: checking the same number each time would keep a map alive that
        nobody needs.  Without it what is made finds out, but not where.
        """
        known = type(n) is Var and n in self.known_sizes or type(n) is Const and n.value >= 0
        if self.checked_here(n) and not known and not self.unchecked:
            ok = self.b.scalar("le", ZERO, n)
            self.b.emit(ir.Assert(ok, NEGATIVE_SIZE, (n,), span))
            if self.b is self.fun_scope and type(n) is Var:
                self.known_sizes.add(n)

    def checked_here(self, *sizes: Atom) -> bool:
        """Whether sizes are checked in this scope: in a map or loop only if one is made there."""
        return self.b is self.fun_scope or any(self.b.is_local(n) for n in sizes)

    def owned(self, v: Value) -> Value:
        """`v`, about to be consumed, with copies of arrays that others hold though its type calls it new."""
        if not any(a in self.borrowed for a in leaves(v)):
            return v
        own = [self.b.let(ir.Copy(a), "own") if a in self.borrowed else a for a in leaves(v)]
        return rebuild(v, iter(own))

    # -- the source

    def text_of(self, span: Span) -> str:
        """What the source has at a place, on one line without comments; nothing if its text is not known."""
        lines = self.texts.get(span.file, "").split("\n")[span.line - 1 : span.end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][: span.end_col - 1]
        lines[0] = lines[0][span.col - 1 :]
        return " ".join(" ".join(line.split("--")[0] for line in lines).split())

    # -- errors

    def unsupported_error(self, what: str, span: Span | None = None) -> UnsupportedError:
        return UnsupportedError(f"not supported: {what}", span or self.span)

    def broken(self, what: str, span: Span | None = None) -> InternalError:
        return InternalError(f"lowering: {what}", span or self.span)


def lam_of(scope: Scope, params: list[Var] | tuple[Var, ...], result: Sequence[Atom]) -> ir.Lambda:
    """The lambda of a finished scope."""
    return ir.Lambda(tuple(params), tuple(scope.stms), tuple(result))




__all__ = ["HANDLERS", "Leaf", "Lowerer", "TypeAt", "handles", "lam_of"]
