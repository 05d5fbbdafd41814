"""Declarations, files and whole programs."""

from __future__ import annotations

import sys
from typing import Any

from futad.errors import FileError, NameError_, Span, TypeError_
from futad.source import ast as A
from futad.source import modast as M
from futad.source import modules
from futad.source.check import Checker
from futad.source.check_exps import applied
from futad.source.check_funs import fundef, holds_function
from futad.source.check_types import define_type
from futad.source.stypes import Binding, Scheme, TFun, resolve
from futad.source.unify import strip
from futad.source.unique import Consumption


class ProgramChecker(Checker):
    """The checker with what a whole program adds: files, modules, entry points."""

    def __init__(self, file: A.File) -> None:
        super().__init__(file.path)
        self.root = self.file = file
        self.files: list[A.File] = []
        self.entries: list[A.FunDef] = []
        self.loaded: dict[str, modules.Module] = {}
        self.consumption = Consumption()

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
                self.bind_signature(d.name, s)
                self.exports.sigs[d.name] = s
            else:
                self.refuse_twice(d.name, self.exports.mods, "module", d.span)
                modules.define(self, d.name, d.body, d.span)
        else:
            raise TypeError_("'val' belongs in module types", d.span, hint="write 'def' to define a value")

    def refuse_twice(self, name: str, known: dict[str, Any], what: str, span: Span) -> None:
        if name in known:
            raise NameError_(f"{what} '{name}' is defined twice", span)

    def define_function(self, d: A.FunDef) -> None:
        self.refuse_twice(d.name, self.exports.names, "'entry'" if d.entry else "value", d.span)
        b = fundef(self, d, top=True)
        self.consumption.top(d)
        if d.entry:
            eta_expand(self, d)
            check_entry(d)
            # Only the program's own file has entry points; those of imports are functions.
            if self.file is self.root:
                self.entries.append(d)
        self.funs.append(d)
        self.bind(d.name, b)
        self.exports.names[d.name] = b

    def import_file(self, path: str, span: Span) -> modules.Module:
        """The exports of an imported file, checked on first use."""
        file = self.file.imports.get(path)
        if file is None:
            raise FileError(f'import "{path}" was not loaded', span)
        return self.check_file(file)

    def check_file(self, file: A.File) -> modules.Module:
        """Check a file in an empty scope."""
        if file.path in self.loaded:
            return self.loaded[file.path]
        saved = self.names, self.types, self.mods, self.sigs, self.undo, self.exports, self.file
        self.names, self.types, self.mods, self.sigs, self.undo = {}, {}, {}, {}, []
        self.exports, self.file = modules.Module(), file
        try:
            for d in file.decls:
                self.declare(d)
            self.loaded[file.path] = self.exports
            self.files.append(file)
            return self.exports
        finally:
            self.names, self.types, self.mods, self.sigs, self.undo, self.exports, self.file = saved


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
    """Entry points take and return data of known types."""
    assert fd.binding is not None and fd.binding.scheme is not None
    if fd.binding.scheme.tparams:
        names = ", ".join(f"'{b.name}" for b in fd.binding.scheme.tparams)
        raise TypeError_(
            f"entry point '{fd.name}' is polymorphic in {names}", fd.span, hint="give its parameters concrete types"
        )

    for p in fd.params:
        assert p.type is not None
        if holds_function(p.type):
            raise TypeError_(f"entry point '{fd.name}' takes a function, which no caller can give it", p.span)
    if fd.ret_type is not None and holds_function(fd.ret_type):
        raise TypeError_(f"entry point '{fd.name}' returns a function", fd.span)


def check_program(file: A.File) -> A.CheckedProgram:
    """Infer types and sizes, and check consumption, of a parsed file and its loaded imports."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20000))
    try:
        ck = ProgramChecker(file)
        ck.check_file(file)
        return A.CheckedProgram(ck.funs, ck.entries, ck.files)
    finally:
        sys.setrecursionlimit(limit)
