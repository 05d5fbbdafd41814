"""Declarations, files and whole programs."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

from futad.errors import FileError, ScopeError, SourceError, Span, TypeCheckError
from futad.source import ast as A
from futad.source import modast as M
from futad.source import modules
from futad.source.check import Abandoned, Checker
from futad.source.check_exps import applied
from futad.source.check_funs import declare_ahead, fundef, holds_function
from futad.source.check_loops import learn_ranks
from futad.source.check_types import FAILED_TYPE, define_type
from futad.source.lints import (
    DERIVATIVES,
    FOLDS,
    derivatives_of_integers,
    elsewhere,
    never_unrolled,
    of_uses,
    shadows,
    starts_of_folds,
    warn,
)
from futad.source.parse import parse
from futad.source.recursion import Groups, declared, mentions_itself, undeclared
from futad.source.traversals import strip
from futad.source.types import Binding, Scheme, TFun, resolve
from futad.source.unique import Consumption

# More errors than this are not shown: after so many, most follow from others.
MAX_ERRORS = 20
ATTEMPTS = 9  # more loops inside each other, of which each tells what the next starts from, are not understood


class ProgramChecker(Checker):
    """The checker with what a whole program adds: files, modules, entry points."""

    def __init__(self, file: A.File) -> None:
        super().__init__(file)
        self.files: list[A.File] = []
        self.entries: list[A.FunDef] = []
        self.loaded: dict[str, modules.Module] = {}
        self.consumption = Consumption()
        self.errors: list[SourceError] = []
        self.groups = Groups(())

    def declare_all(self, decls: list[Any]) -> None:
        """Check declarations one by one; one with an error is noted, and the next are checked all the same."""
        level = self.level
        groups = Groups(decls)
        for k, d in enumerate(decls):
            exports = self.exports
            self.groups = groups
            self.supposed = False
            try:
                self.declare(d)
            except SourceError as err:
                if not self.declared_again(decls, k, exports, level):
                    self.report(err)
                    self.restore(exports, level)
                    self.fail(d)
            self.loops.clear()
            self.loop_ranks.clear()

    def restore(self, exports: modules.Module, level: int) -> None:
        """The state before a declaration that has an error."""
        self.exports = exports
        self.level, self.on_postpone = level, None
        self.defining.clear()
        self.open_functions = {b: o for b, o in self.open_functions.items() if o.ahead}
        self.postponed.clear()
        self.forget()

    def declared_again(self, decls: list[Any], k: int, exports: modules.Module, level: int) -> bool:
        """Whether a declaration with an error has none if what loops start from is known to be arrays where the last
        attempt found it too late (`check_loops.learn_ranks`), or if nothing is supposed (`check_loops.keeps_size`)."""
        if decls is not self.file.decls or decls[k].span.file != self.file.path:
            return False
        try:
            for _ in range(ATTEMPTS):
                learnt = learn_ranks(self)
                if not learnt and not (self.supposed and self.supposes):
                    break
                self.supposes, self.supposed = learnt, False
                self.restore(exports, level)
                again = parse(self.file.text, self.file.path).decls[k]
                if isinstance(again, A.FunDef):
                    again.entry = decls[k].entry
                with suppress(SourceError):
                    self.declare(again)
                    return True
            return False
        finally:
            self.supposes = True

    def report(self, err: SourceError) -> None:
        if err.code == "E0305" and err.hint is None:
            err.hint = "functional values exist only while the program is compiled"
        known = [(e.span, e.message) for e in self.errors]
        if type(err) is not Abandoned and (err.span, err.message) not in known:
            self.errors.append(err)

    def fail(self, d: Any) -> None:
        """Give the names that a declaration with an error would define a meaning that asks for silence."""
        if isinstance(d, A.LocalDecl):
            exports, self.exports = self.exports, modules.Module()
            self.fail(d.decl)
            self.exports = exports
        elif isinstance(d, A.FunDef):
            if d.name not in self.exports.names:
                self.bind(d.name, Binding(d.name, "failed"))
                self.exports.names[d.name] = Binding(d.name, "failed")
        elif isinstance(d, A.TypeDef):
            if d.name not in self.exports.types:
                self.bind_type(d.name, FAILED_TYPE)
                self.exports.types[d.name] = FAILED_TYPE
        elif isinstance(d, A.ModDecl) and isinstance(d.body, M.ModTypeBody):
            self.bind_signature(d.name, modules.FAILED_SIGNATURE)
            self.exports.sigs[d.name] = modules.FAILED_SIGNATURE
        elif isinstance(d, A.ModDecl):
            if d.name not in self.exports.mods:
                self.bind_module(d.name, modules.FAILED_MODULE)
                self.exports.mods[d.name] = modules.FAILED_MODULE
        else:
            self.incomplete = True

    def declare(self, d: Any) -> None:
        """Check one declaration and add what it defines to the scope and the exports."""
        if isinstance(d, A.LocalDecl):
            kept, self.exports = self.exports, modules.Module()
            self.declare(d.decl)
            self.exports = kept
        elif isinstance(d, A.FunDef):
            self.define_function(d)
        elif isinstance(d, A.TypeDef):
            self.refuse_twice(d.name, self.exports.types, "type", d.span)
            t = define_type(self, d)
            self.bind_type(d.name, t)
            self.exports.types[d.name] = t
        elif isinstance(d, A.ImportDecl):
            m = self.import_file(d.path, d.span)
            if d.name is None:
                modules.open_into(self, m, d.span)
            else:
                self.bind_module(d.name, m)
                self.exports.mods[d.name] = m
        elif isinstance(d, A.OpenDecl):
            modules.open_into(self, modules.evaluate(self, d.mod), d.span, export=True)
        elif isinstance(d, A.ModDecl):
            if isinstance(d.body, M.ModTypeBody):
                s = modules.Signature(d.body.sig, modules.scope_of(self))
                modules.abstract(self, s)
                self.bind_signature(d.name, s)
                self.exports.sigs[d.name] = s
            else:
                self.refuse_twice(d.name, self.exports.mods, "module", d.span)
                modules.define(self, d.name, d.body, d.span)
        else:
            raise TypeCheckError(
                "'val' belongs in module types", d.span, hint="write 'def' to define a value", code="E0204"
            )

    def refuse_twice(self, name: str, known: dict[str, Any], what: str, span: Span) -> None:
        kind = "value" if what == "'entry'" else what
        if (kind, name) in self.exports.opened:
            self.exports.opened.remove((kind, name))
        elif name in known:
            raise ScopeError(f"{what} '{name}' is defined twice", span, code="E0202")

    def define_function(self, d: A.FunDef) -> None:
        if d.name == "main" and self.file is self.root and not self.nesting:
            d.entry = True  # whether it says so or not
        self.refuse_twice(d.name, self.exports.names, "'entry'" if d.entry else "value", d.span)
        if d.entry and self.nesting:
            raise TypeCheckError(
                f"entry point '{d.name}' is inside a module", d.span, hint="define it outside of modules", code="E0703"
            )
        if d.name in ("&&", "||"):
            raise ScopeError(
                f"'{d.name}' evaluates its right operand last, and cannot be redefined", d.span, code="E0202"
            )
        if not self.nesting:  # a module's members are named with it
            shadows(self, d.name, d.span)
        elsewhere(self, d.attrs)
        for later, span in self.groups.ahead(d):
            if self.lookup(later.name) is None:
                if not declared(later):
                    raise undeclared(later, d, span)
                self.bind(later.name, declare_ahead(self, later))
        b = self.checked(d)
        self.bind(d.name, b)
        self.exports.names[d.name] = b
        try:
            self.consumption.again = self.applying > 0
            self.consumption.top(d)
            if d.entry:
                eta_expand(self, d)
                check_entry(d)
        except SourceError as err:
            # The definition has a type, so those that use it can be checked.
            self.report(err)
            self.consumption.reset()
        # Only the program's own file has entry points; those of imports are functions.
        if d.entry and self.file is self.root:
            self.entries.append(d)
        if not self.unapplied:
            self.funs.append(d)

    def checked(self, d: A.FunDef) -> Binding:
        """A function's binding.  Where one that mentions its own name does not type, but does if that is the name of
        what stands outside, it is: so it was before Futhark 0.27, and libraries have such."""
        if not mentions_itself(d) or self.lookup(d.name) is None:
            return fundef(self, d, top=True)
        parts, level = copy.deepcopy((d.tparams, d.params, d.ret, d.body)), self.level
        try:
            return fundef(self, d, top=True)
        except SourceError:
            if not d.recursive:
                raise
            self.restore(self.exports, level)
            d.tparams, d.params, d.ret, d.body = parts
            d.recursive = False
            try:
                b = fundef(self, d, top=True, itself=False)
            except SourceError:
                b = None
            if b is None:
                raise
            what = f"'{d.name}' is the function outside of this definition here, since this one itself does not fit"
            warn(self, what, d.span, f"before Futhark 0.27 it always was; write 'def outer_{d.name} = {d.name}' before")
            return b

    def import_file(self, path: str, span: Span) -> modules.Module:
        """The exports of an imported file, checked on first use."""
        file = self.file.imports.get(path)
        if file is None:
            raise FileError(f'import "{path}" was not loaded', span, code="E0901")
        return self.check_file(file)

    def check_file(self, file: A.File) -> modules.Module:
        """Check a file in an empty scope."""
        if file.path in self.loaded:
            return self.loaded[file.path]
        saved = self.names, self.types, self.mods, self.sigs, self.undo, self.exports, self.file
        depth = self.nesting, self.applying, self.unapplied
        self.nesting = self.applying = self.unapplied = 0
        self.names, self.types, self.mods, self.sigs, self.undo = {}, {}, {}, {}, []
        self.exports, self.file = modules.Module(), file
        try:
            self.declare_all(file.decls)
            self.loaded[file.path] = self.exports
            self.files.append(file)
            return self.exports
        finally:
            self.names, self.types, self.mods, self.sigs, self.undo, self.exports, self.file = saved
            self.nesting, self.applying, self.unapplied = depth


def eta_expand(ck: Checker, fd: A.FunDef) -> None:
    """Give an entry point that yields a function (`entry g = vjp f`) the parameters it lacks."""
    while fd.ret_type is not None and type(fun := resolve(fd.ret_type)) is TFun:
        name = f"x{len(fd.params)}"
        p = A.PVar(fd.span, name)
        p.type = fun.param
        p.binding = Binding(name, "value", Scheme((), (), strip(fun.param)), fd.span, level=1)
        arg = A.EVar(fd.span, name)
        arg.binding, arg.type = p.binding, strip(fun.param)
        app = A.EApp(fd.body.span, fd.body, arg)
        app.type = applied(ck, app, fun)
        fd.params.append(p)
        fd.body = app
        fd.ret_type = app.type
        fd.ret = fd.ret.result if isinstance(fd.ret, A.TEArrow) else None


def check_entry(fd: A.FunDef) -> None:
    """Entry points take and return data of known types; a result that is a function takes more parameters."""
    assert fd.binding is not None and fd.binding.scheme is not None
    if fd.binding.scheme.tparams:
        names = ", ".join(f"'{b.name}" for b in fd.binding.scheme.tparams)
        raise TypeCheckError(
            f"entry point '{fd.name}' is polymorphic in {names}",
            fd.span,
            hint="give its parameters concrete types",
            code="E0701",
        )

    for p in fd.params:
        assert p.type is not None
        if holds_function(p.type):
            raise TypeCheckError(
                f"entry point '{fd.name}' takes a function, which no caller can give it", p.span, code="E0702"
            )
    result = resolve(fd.ret_type) if fd.ret_type is not None else None
    while type(result) is TFun:
        result = resolve(result.result)
    if result is not None and holds_function(result):
        raise TypeCheckError(f"entry point '{fd.name}' returns a function", fd.span, code="E0702")


def _place(err: SourceError) -> tuple[str, int, int]:
    return (err.span.file, err.span.line, err.span.col) if err.span else ("", 0, 0)


def check_program(file: A.File) -> A.CheckedProgram:
    """Infer types and sizes, and check consumption, of a parsed file and its loaded imports.

    Raises the first error, in the order of the text; `more` of it holds the others.
    """
    ck = ProgramChecker(file)
    ck.check_file(file)
    if ck.errors:
        ck.errors.sort(key=lambda e: (e.span is not None and e.span.file == file.path, _place(e)))
        first, *rest = ck.errors[:MAX_ERRORS]
        first.more = list(rest)
        raise first
    for d in ck.entries:
        if d.binding is not None and not d.binding.used:  # no other function gives it constants
            sizes = {tp.binding for tp in d.tparams if tp.binding is not None}
            values = {v.binding for p in d.params for v in A.pattern_names(p) if v.binding is not None}
            never_unrolled(ck, d.body, {*sizes, *d.implicit, *values})
    if any(name in file.text for name in DERIVATIVES):
        for d in ck.funs:
            derivatives_of_integers(ck, d.body)
    if any(name in file.text for name in ("==", "!=", "safety_checks")):
        for d in ck.funs:
            of_uses(ck, d.body)
    if any(name in file.text for name in FOLDS):
        for d in ck.funs:
            starts_of_folds(ck, d)
    return A.CheckedProgram(ck.funs, ck.entries, ck.files, [w for _, w in sorted(ck.warnings.items())])
