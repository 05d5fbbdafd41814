"""Type and size inference: the checker's state, declarations, and what a checked program is.

The rules for expressions, patterns, functions and type expressions are in the check_* files beside this one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import numpy as np

from futad.errors import Lint, ScopeError, SourceError, Span, TypeCheckError, UnsupportedError
from futad.source import ast as A
from futad.source import hint_types, hints, numeric
from futad.source.causality import check_causality
from futad.source.check_exps import INFER
from futad.source.check_funs import fundef
from futad.source.check_loops import Ranks
from futad.source.check_types import ACCUMULATOR, FAILED_TYPE, PRIM_TYPES, Abbreviation, bind_tparam, texp
from futad.source.lexer import qualified
from futad.source.limits import Limits
from futad.source.modules import Functor, Module, Signature, find, open_into, require
from futad.source.prelude import Prelude, prelude
from futad.source.pretty import show_type
from futad.source.recursion import CODE, Open
from futad.source.traversals import substitute
from futad.source.types import (
    Binding,
    Scheme,
    Size,
    SizeConst,
    SizeMeta,
    SType,
    TFun,
    TMeta,
    TPrim,
    TRecord,
    resolve,
    resolve_size,
)
from futad.source.unify import Mismatch, Unifier


class Abandoned(SourceError):
    """A definition that depends on one with an error cannot be checked; there is nothing to report."""


# What is to be settled at the end of a definition, see `forget`.
_PENDING = (
    "metas",
    "size_metas",
    "soft_sizes",
    "declared",
    "coerced",
    "recast",
    "postponed",
    "sized",
    "local_uses",
    "local_tparams",
    "loop_params",
    "literals",
    "later",
    "made_sizes",
    "any_size",
    "absorbing",
    "absorbed",
)
_Undo = list[tuple[dict[str, Any], str, Any]]


class Checker(Unifier):
    """Inference over one program: names in scope, and the functions checked so far."""

    def __init__(self, root: A.File) -> None:
        super().__init__()
        self.root = root  # the program's own file
        self.path = root.path
        self.limits = Limits()
        self.file = root  # that we are in
        self.names: dict[str, Binding] = {}
        self.types: dict[str, Abbreviation] = {}
        self.mods: dict[str, Module | Functor] = {}
        self.sigs: dict[str, Signature] = {}
        self.exports = Module()  # of the module or file being checked
        self.undo: list[_Undo] = []
        self.funs: list[A.FunDef] = []
        self.prelude: Prelude = prelude()
        self.from_prelude: dict[str, Binding] = {}
        self.metas: list[TMeta] = []
        self.size_metas: list[SizeMeta] = []
        self.declared: list[tuple[str, SizeMeta]] = []  # the sizes of `[]`, and those that `let [n]` binds
        # The sizes of `[]` by their places, while a type is elaborated that will be once more in another scope.
        self.recorded: dict[Span, list[Size]] | None = None
        self.replayed: dict[Span, list[Size]] | None = None
        self.coerced: list[tuple[SizeMeta, Size]] = []  # sizes left open by what changes sizes, and those before
        self.recast: list[tuple[SizeMeta, Size]] = []  # sizes not known where they are coerced, and to what
        self.defining: list[str] = []
        self.open_functions: dict[Binding, Open] = {}  # being checked, or only declared yet
        self.sized: list[A.EVar] = []  # uses of size-polymorphic values
        # Uses of local functions, by the type parameters that they have without declaring them.
        self.local_uses: dict[Binding, list[A.EVar]] = {}
        self.local_tparams: set[Binding] = set()
        self.literals: list[A.ELit] = []  # whose types are to be found
        self.later: list[Callable[[], None]] = []  # checks for the end of the definition
        self.warnings: dict[tuple[int, int, str], Lint] = {}
        self.loop_params: set[Binding] = set()
        self.loops: list[tuple[Span, SType, Ranks]] = []  # those met, what they start from, and what was known of that
        self.loop_ranks: dict[Span, Ranks] = {}  # found in an attempt before, see `check_loops.learn_ranks`
        # Whether names may be missing because what brings them into scope has an error.
        self.incomplete = False
        self.applying = 0  # how many applications of parametric modules we are in
        self.unapplied = 0  # of how many parametric modules we are in the bodies, without arguments
        self.nesting = 0  # how many modules deep we are

    # -- metas, which a definition's end settles

    def meta(self, span: Span | None = None, kind: str | None = None) -> TMeta:
        m = super().meta(span, kind)
        self.metas.append(m)
        return m

    def size_meta(self, span: Span | None = None) -> SizeMeta:
        m = super().size_meta(span)
        self.size_metas.append(m)
        return m

    def anon_meta(self, span: Span) -> Size:
        """The size of a `[]` in a parameter: to be found, but not from a coercion or from what another branch has."""
        made = self.replayed.get(span) if self.replayed is not None else None
        if made:
            return made.pop(0)
        m = self.open_size(span)
        self.soft_sizes[m] = m
        if self.recorded is not None:
            self.recorded.setdefault(span, []).append(m)
        return m

    def open_size(self, span: Span) -> SizeMeta:
        """The size of a `[]` that something must determine."""
        m = self.size_meta(span)
        self.declared.append(("this size", m))
        return m

    def finish_metas(self, fd: A.FunDef) -> None:
        """At the end of a top-level definition: default what is numeric, settle what nothing determines."""
        for m in self.metas:
            if m.ref is None and not self.default(m):
                if m.fields:
                    raise TypeCheckError(
                        f"the type of this cannot be inferred: it has at least {show_type(m)}",
                        m.span,
                        hint="annotate it with its type",
                        code="E0306",
                    )
                if m.constrs:
                    raise TypeCheckError(
                        f"the sum type of this cannot be inferred: it has at least {show_type(m)}",
                        m.span,
                        hint="annotate it with its type",
                        code="E0306",
                    )
                # Nothing depends on it: any type will do.
                m.ref = TRecord(())
        for have, wanted in self.recast:
            if have.ref is None:
                with suppress(Mismatch):  # a function that is never applied may be of any size
                    self.unify_size(have, wanted)
        for e in self.sized:
            for b, size in e.sargs.items():
                if type(resolve_size(size)) is SizeMeta:
                    raise TypeCheckError(
                        f"size '{b.name}' of '{e.name}' cannot be inferred: nothing here determines it",
                        e.span,
                        hint="annotate the result with its size",
                        code="E0402",
                    )
        for what, s in self.declared:
            if s.ref is None:
                raise TypeCheckError(
                    f"{what} cannot be inferred: nothing determines it",
                    s.span,
                    hint="write the size, or make the value with one",
                    code="E0402",
                )
        for s in self.size_metas:
            if s.ref is None:
                s.ref = SizeConst(0)
        for lit in self.literals:
            check_literal(lit)
        if self.made_sizes:
            check_causality(fd.body)
        for check in self.later:
            check()
        self.forget()

    def finish_inference(self) -> None:
        """Before numbers have default types: coercions keep sizes left open, the uses of each local function agree."""
        for wanted, have in self.coerced:
            if wanted.ref is None:
                self.unify_size(wanted, have)
        stands: dict[Binding, SType] = {}
        for p in self.local_tparams:
            if p not in self.local_uses:
                stands[p] = self.meta()
        # Functions are defined before they are used: the last ones' types tell those of the ones that they use.
        for p, uses in reversed(self.local_uses.items()):
            stands[p] = self.one_type(p, uses, stands)

    def one_type(self, p: Binding, uses: list[A.EVar], stands: dict[Binding, SType]) -> SType:
        """The one type, of any sizes, at which a local function that does not declare type parameters is used."""
        first = substitute(uses[0].targs[p], stands, {})
        for e in uses[1:]:
            here = substitute(e.targs[p], stands, {})
            try:
                self.unify_shape(first, here)
            except Mismatch:
                raise TypeCheckError(
                    f"'{e.name}' is used for {show_type(here)} here and for {show_type(first)} at line "
                    f"{uses[0].span.line}, column {uses[0].span.col}",
                    e.span,
                    hint=f"declare a type parameter: let {e.name} 't ...",
                    code="E0301",
                ) from None
        return first

    def forget(self) -> None:
        """Drop what was to be settled at the end of the definition."""
        for name in _PENDING:
            setattr(self, name, type(getattr(self, name))())

    # -- scopes

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """Names bound inside are forgotten afterwards."""
        marks: _Undo = []
        self.undo.append(marks)
        try:
            yield
        finally:
            self.undo.pop()
            for table, name, old in reversed(marks):
                if old is None:
                    del table[name]
                else:
                    table[name] = old

    def bind(self, name: str, b: Binding) -> None:
        if self.undo:
            self.undo[-1].append((self.names, name, self.names.get(name)))
        self.names[name] = b

    def bind_type(self, name: str, t: Abbreviation) -> None:
        if self.undo:
            self.undo[-1].append((self.types, name, self.types.get(name)))
        self.types[name] = t

    def bind_module(self, name: str, m: Module | Functor) -> None:
        if self.undo:
            self.undo[-1].append((self.mods, name, self.mods.get(name)))
        self.mods[name] = m

    def bind_signature(self, name: str, s: Signature) -> None:
        if self.undo:
            self.undo[-1].append((self.sigs, name, self.sigs.get(name)))
        self.sigs[name] = s

    def lookup(self, name: str) -> Binding | None:
        """What a name means here; prelude definitions are checked on first use."""
        b = self.names.get(name)
        if b is not None:
            return b
        module, rest = qualified(name)
        if module and not self.is_intrinsic_name(name):
            shadowed = self.names.get(module.split(".")[0])
            if shadowed is not None and shadowed.kind != "fun":
                return None
            if module not in self.mods and numeric.is_module(module):
                return numeric.member(module, rest)
            m = find(self, module)
            return m.names.get(rest) if isinstance(m, Module) else None
        b = numeric.operator(name)
        if b is not None:
            return b
        b = self.from_prelude.get(name)
        if b is None:
            d = self.prelude.get(name)
            if d is not None:
                b = self.from_prelude[name] = self._prelude_binding(d)
        return b

    def is_intrinsic_name(self, name: str) -> bool:
        """Whether a qualified name is of the module `intrinsics`, and not of one that the program so calls."""
        return name.startswith("intrinsics.") and "intrinsics" not in self.mods and "intrinsics" not in self.names

    def lookup_type(self, name: str) -> Abbreviation | None:
        found = self.types.get(name)
        if found is None and name == "intrinsics.acc" and self.is_intrinsic_name(name):
            return ACCUMULATOR
        if found is None and "." in name:
            module, _, rest = name.rpartition(".")
            m = find(self, module)
            found = m.types.get(rest) if isinstance(m, Module) else None
        if found is FAILED_TYPE:
            self.abandon()
        return found

    def open_module(self, module: str, span: Span) -> None:
        """Bring the members of a module into scope."""
        open_into(self, require(self, module, span), span)

    def _prelude_binding(self, d: A.FunDef | A.ValSpec) -> Binding:
        """Check a prelude definition apart from the names and metas in use here."""
        scope = self.names, self.types, self.mods, self.undo, self.level
        pending = {name: getattr(self, name) for name in _PENDING}
        self.forget()
        self.names, self.types, self.mods, self.undo, self.level = {}, {}, {}, [], 0
        try:
            if isinstance(d, A.FunDef):
                b = fundef(self, d, top=True)
                self.funs.append(d)
                return b
            return self.intrinsic(d)
        finally:
            self.names, self.types, self.mods, self.undo, self.level = scope
            for name, kept in pending.items():
                setattr(self, name, kept)

    def intrinsic(self, d: A.ValSpec) -> Binding:
        """The binding of a `val` in the prelude."""
        quantified: list[Binding] = []
        with self.scoped():
            for tp in d.tparams:
                quantified.append(bind_tparam(self, tp))
            t = texp(self, d.texp, self.anon_meta)
        scheme = Scheme(
            tuple(b for b in quantified if b.kind == "tparam"), tuple(b for b in quantified if b.kind == "size"), t
        )
        d.binding = Binding(d.name, "intrinsic", scheme, d.span)
        return d.binding

    # -- expressions

    def exp(self, e: A.Expr) -> A.Expr:
        """Type an expression; returns it, or the expression that takes its place."""
        e = INFER[type(e)](self, e)
        self.limits.type(e.type, e.span)
        return e

    def fit(
        self,
        actual: SType | None,
        expected: SType,
        span: Span,
        what: str | Callable[[], str],
        value: A.Expr | None = None,
        result: bool = False,
    ) -> None:
        """Require that a value of type `actual` has type `expected`.  Messages tell how to change the expression
        `value`; `result`: it is what a function yields."""
        assert actual is not None

        def report(err: Mismatch | None = None) -> TypeCheckError:
            said = what if isinstance(what, str) else what()
            return self.describe(actual, expected, span, said, err, value, result)

        outer, self.on_postpone = self.on_postpone, (span, report)
        try:
            self.unify(actual, expected)
        except Mismatch as err:
            raise report(err) from None
        finally:
            self.on_postpone = outer

    def mismatch(
        self, actual: SType, expected: SType, span: Span, what: str, err: Mismatch, value: A.Expr | None = None
    ) -> NoReturn:
        raise self.describe(actual, expected, span, what, err, value) from None

    def describe(
        self,
        actual: SType,
        expected: SType,
        span: Span,
        what: str,
        err: Mismatch | None,
        value: A.Expr | None = None,
        result: bool = False,
    ) -> TypeCheckError:
        """The error for two types that do not fit."""
        found, wanted = show_type(actual), show_type(expected)
        reason = f": {err.reason}" if err is not None and err.reason else ""
        hint = hint_types.conversion(self, value, actual, expected)
        if "is not shown to equal" in reason or (err is None and not reason):
            never = err is not None and err.never
            hint = None if never else "if the sizes are equal at run time, say so with ':>'"
            if result:
                hint = hint_types.on_result(actual, never)
        code, notes = ("E0401", ()) if err is None else (err.code, err.notes)
        text = f"{what}: expected {wanted}, found {found}{reason}"
        if wanted == "_" and reason:
            text = f"{what} is a {found}{reason}"
        return TypeCheckError(text, span, hint=hint, code=code, notes=notes)

    def no_functions(self, t: SType, what: str, span: Span) -> None:
        """Require that a value is no function and holds none."""
        try:
            self.no_function(t)
        except Mismatch:
            raise TypeCheckError(f"{what} cannot be a function", span, code="E0305") from None

    def require_data(self, t: SType, span: Span) -> None:
        """Require that a type can be an array's element."""
        try:
            self.element(t)
        except Mismatch as err:
            what = "functions" if type(resolve(t)) is TFun else f"values of type {show_type(t)}"
            reason = "" if type(resolve(t)) is TFun else f": {err.reason}"
            raise TypeCheckError(f"{what} cannot be put into arrays{reason}", span, code=err.code) from None

    # -- names

    def near(self, name: str, known: list[str]) -> str | None:
        found = difflib.get_close_matches(name, known, 1, 0.6)
        return found[0] if found else None

    def abandon(self) -> NoReturn:
        """Give up on a definition without a word: what it needs has an error already."""
        raise Abandoned("")

    def unknown(self, what: str, name: str, span: Span) -> NoReturn:
        """Report an unknown name, with what may have been meant."""
        if self.incomplete:
            self.abandon()
        module, rest = qualified(name)
        if module and numeric.is_module(module):
            near = self.near(rest, [*numeric.module_members(module), *PRIM_TYPES])
            hint = hints.of_member(self, module, rest, span)
            hint = hint or (f"did you mean '{module}.{near}'?" if near else None)
            raise ScopeError(f"module '{module}' has no member '{rest}'", span, hint=hint, code="E0203")
        if module:
            m = find(self, module)
            if isinstance(m, Module):
                near = self.near(rest, [*m.names, *m.types])
                hint = f"did you mean '{module}.{near}'?" if near else None
                raise ScopeError(f"module '{module}' has no {what} '{rest}'", span, hint=hint, code="E0203")
            parts = module.split(".")
            for i in range(1, len(parts) + 1):
                if isinstance(find(self, ".".join(parts[:i])), Functor):
                    raise TypeCheckError(
                        f"'{'.'.join(parts[:i])}' is a parametric module: it has members once it is applied",
                        span,
                        code="E0603",
                    )
            hint = hints.of_package(self, name, span)
            raise ScopeError(f"unknown name '{name.split('.', 1)[0]}' in '{name}'", span, hint=hint, code="E0201")
        if name in self.defining:
            raise UnsupportedError(
                f"'{name}' is used in its own definition, and is no function with parameters",
                span,
                hint="give it parameters",
                code=CODE,
            )
        known = [*self.types, *PRIM_TYPES] if what == "type" else [*self.names, *self.prelude]
        near = self.near(name, known)
        hint = hints.of_type(self, name, span) if what == "type" else hints.of_value(self, name, span)
        hint = hint or (f"did you mean '{near}'?" if near else None)
        raise ScopeError(f"unknown {what if what == 'type' else 'name'} '{name}'", span, hint=hint, code="E0201")

    # -- modules, which ProgramChecker provides

    def declare_all(self, decls: list[Any]) -> None:
        raise NotImplementedError

    def import_file(self, path: str, span: Span) -> Module:
        raise NotImplementedError


def check_literal(e: A.ELit) -> None:
    """A literal must fit its type, now known."""
    t = resolve(e.type) if e.type is not None else None
    if type(t) is not TPrim:
        return
    p = t.prim
    if p.is_integral:
        low, high = (-(1 << (p.bits - 1)), (1 << (p.bits - 1)) - 1) if p.kind == "int" else (0, (1 << p.bits) - 1)
        # A number with a suffix wraps around if it fits in as many bits; so does one written as bits.
        if e.value < 0 and e.suffix is not None and p.kind != "int":
            low = -high
        if not low <= e.value <= ((1 << p.bits) - 1 if e.bits or e.suffix is not None else high):
            what = f"{e.value} is out of bounds: it does not fit in {p}, {low} to {high}"
            raise TypeCheckError(what, e.span, code="E0103")
    elif p.is_float:
        with np.errstate(over="ignore"):
            if not np.isfinite(p.dtype.type(e.value)):
                raise TypeCheckError(f"{e.value} is out of bounds: it does not fit in {p}", e.span, code="E0103")
