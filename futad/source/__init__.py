"""The source language: text to checked syntax, and to core IR.

    check_file(path), check_text(text)      syntax, types, sizes and consumption
    load_program(path), compile_text(text)  the same, then lowered to a core Program
    compile_expression(text, path)          the same for an expression, in the scope of a file

All raise `futad.errors.Error` subclasses that carry the place and the line's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from futad.core.ir import Program
from futad.deep import deep
from futad.errors import Error, Lint, UnsupportedError, line_of
from futad.source.ast import CheckedProgram, File
from futad.source.files import Loader

T = TypeVar("T")


def check_file(path: str | Path) -> CheckedProgram:
    """Check the program in a file.  Raises FileError if it or an import cannot be read."""
    return _check(lambda loader: loader.load(Path(path), str(path)), lambda p: p)


def check_text(text: str, name: str = "main") -> CheckedProgram:
    """Check a program given as text; imports are relative to the current folder."""
    return _check(lambda loader: loader.add(text, Path(name).resolve(), name), lambda p: p)


def load_program(
    path: str | Path, warned: Callable[[Lint], None] | None = None, texts: dict[str, str] | None = None
) -> Program:
    """The core program of a file; `warned` is told of what is probably not meant, `texts` gets what was read: the texts
    of the file and its imports by the names that messages show."""
    from futad.source.lower import lower

    return _check(lambda loader: loader.load(Path(path), str(path)), lower, warned, texts)


def compile_text(text: str, name: str = "main", texts: dict[str, str] | None = None) -> Program:
    """The core program of a text; `name` stands for its file in messages.  `texts`: as of `load_program`."""
    from futad.source.lower import lower

    return _check(lambda loader: loader.add(text, Path(name).resolve(), name), lower, texts=texts)


def compile_texts(kept: Mapping[str, str], main: str) -> Program:
    """The core program of the file `main` among texts that `load_program` or `compile_text` have read."""
    from futad.source.files import KeptLoader
    from futad.source.lower import lower

    return _check(lambda loader: loader.load(Path(main), main), lower, loader=KeptLoader(kept))


EXPRESSION = "<expression>"  # the file, and the entry, of an expression


def compile_expression(text: str, path: str | Path | None = None) -> Program:
    """The core program whose entry `EXPRESSION` is the value of an expression, in the scope of a file if there is one.

    Raises Error, with places in the expression under the file name `EXPRESSION`.
    """
    from futad.source.lower import lower

    def load(loader: Loader) -> File:
        from futad.source.ast import FunDef
        from futad.source.parse import parse_expression

        file = loader.add("", Path(EXPRESSION), EXPRESSION) if path is None else loader.load(Path(path), str(path))
        loader.texts[EXPRESSION] = text
        if path is None:
            file.text = text
        for d in file.decls:
            if isinstance(d, FunDef):
                d.entry = False  # or it would be compiled too
        file.decls.append(parse_expression(text, EXPRESSION, EXPRESSION))
        return file

    return _check(load, lower)


@deep
def _check(
    load: Callable[[Loader], File],
    then: Callable[[CheckedProgram], T],
    warned: Callable[[Lint], None] | None = None,
    texts: dict[str, str] | None = None,
    loader: Loader | None = None,
) -> T:
    from futad.source.program import check_program

    loader = loader or Loader()
    try:
        checked = check_program(load(loader))
        if warned is not None:
            for w in checked.warnings:
                w.source_line = line_of(loader.texts, w.span)
                warned(w)
        if texts is not None:
            texts.update(loader.texts)
        return then(checked)
    except Error as err:
        loader.locate(err)
        raise
    except RecursionError:
        from futad.source.nesting import deepest

        hint = "name parts of it with 'let' or 'def'"
        where = deepest(loader.files.values())
        error = UnsupportedError("the program is nested too deeply", where, hint=hint, code="E0803")
        loader.locate(error)
        raise error from None


__all__ = [
    "EXPRESSION", "check_file", "check_text", "compile_expression", "compile_text", "compile_texts", "load_program",
]  # fmt: skip
