"""Source files: reading them, and their imports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import futad.library as library
from futad.errors import Error, FileError, FileNotFound, ParseError, ScopeError, Span, file_error
from futad.source import ast as A
from futad.source import modast as M
from futad.source.parse import parse


def read_source(path: Path, where: Span | None = None) -> str:
    """The text of a source file.  Raises FileError, at the import `where` if there is one."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        hint = "packages lie in lib/, beside the program that imports them" if where and "lib" in path.parts else None
        raise FileNotFound(f"no such file: {path}", where, code="E0901", hint=hint) from None
    except IsADirectoryError:
        raise FileError(f"{path} is a folder, not a file", where, code="E0901") from None
    except (OSError, ValueError) as err:
        raise file_error("read", path, err, where, code="E0901") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        good = raw[: err.start].decode("utf-8")
        line = good.count("\n") + 1
        col = len(good) - (good.rfind("\n") + 1) + 1
        raise FileError("the file is not UTF-8 text", Span(str(path), line, col, line, col + 1), code="E0902") from None


class Loader:
    """Loads files with their imports, each once; `texts` keeps them for messages."""

    def __init__(self) -> None:
        self.files: dict[Path, A.File] = {}
        self.texts: dict[str, str] = {}
        self.loading: list[Path] = []

    def real(self, path: Path, shown: str, where: Span | None = None) -> Path:
        """The one name of a file that has several."""
        try:
            return library.place(path).resolve()
        except (OSError, RuntimeError, ValueError):  # links that form a cycle, a name that no file can have
            raise FileError(f"cannot read {shown!r}: it is not the name of a file", where, code="E0901") from None

    def read(self, path: Path, where: Span | None = None) -> str:
        """The text of a file."""
        return read_source(library.place(path), where)

    def is_there(self, path: Path) -> bool:
        """Whether there is that file."""
        return os.path.isfile(library.place(path))

    def target(self, folder: Path, path: str, where: Span) -> str:
        """The name of the file that an import in a file of that folder reads.  Raises FileError."""
        if path.startswith("/"):
            raise FileError(f'import "{path}" must be relative to the file', where, code="E0901")
        near = folder / f"{path}.fut"
        if not path.startswith(library.PREFIX) or self.is_there(near):
            return str(near)
        shipped = library.shown(path)
        if not self.is_there(Path(shipped)):
            hint = f"there are {', '.join(library.names())}; a file {near} would be imported, too"
            raise FileNotFound(f'futad comes without "{path}"', where, code="E0901", hint=hint)
        return shipped

    def load(self, path: Path, shown: str, where: Span | None = None) -> A.File:
        real = self.real(path, shown, where)
        if real in self.files:
            return self.files[real]
        if real in self.loading:
            cycle = [p.name for p in self.loading[self.loading.index(real) :]] + [real.name]
            raise ScopeError(f"imports form a cycle: {' -> '.join(cycle)}", where, code="E0901")
        return self.add(self.read(path, where), real, shown)

    def add(self, text: str, real: Path, shown: str) -> A.File:
        """Parse a text that stands for the file `real`, and load what it imports."""
        self.texts[shown] = text
        try:
            text.encode()
        except UnicodeEncodeError as e:
            before = text[: e.start].split("\n")
            line, col = len(before), len(before[-1]) + 1
            what = "this is half of a pair of UTF-16, no character"
            raise ParseError(what, Span(shown, line, col, line, col + 1), code="E0102") from None
        self.loading.append(real)
        file = parse(text, shown)
        folder = Path(shown).parent
        for d in imports_of(file.decls):
            target = self.target(folder, d.path, d.span)
            file.imports[d.path] = self.load(Path(target), target, d.span)
        self.loading.pop()
        self.files[real] = file
        return file

    def locate(self, err: Error) -> None:
        """Give an error the text of its line."""
        err.locate(self.texts)


class KeptLoader(Loader):
    """Loads files from the `texts` of another loader, wherever those files were."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        super().__init__()
        self.kept = {self.real(Path(shown), shown): text for shown, text in kept.items()}

    def real(self, path: Path, shown: str, where: Span | None = None) -> Path:
        return Path(os.path.normpath(path))

    def read(self, path: Path, where: Span | None = None) -> str:
        text = self.kept.get(self.real(path, str(path)))
        if text is None:
            raise FileNotFound(f"the program was kept without {path}", where, code="E0901")
        return text

    def is_there(self, path: Path) -> bool:
        return self.real(path, str(path)) in self.kept


def imports_of(decls: list[Any]) -> list[A.ImportDecl | M.MImport]:
    """All imports of a file, those inside modules too."""
    out: list[A.ImportDecl | M.MImport] = []

    def module(m: Any) -> None:
        if isinstance(m, M.MImport):
            out.append(m)
        elif isinstance(m, M.MStruct):
            out.extend(imports_of(m.decls))
        elif isinstance(m, M.MApply):
            module(m.fun)
            module(m.arg)
        elif isinstance(m, M.MAscript):
            module(m.mod)
        elif isinstance(m, M.MLambda):
            module(m.body)

    for d in decls:
        if isinstance(d, A.LocalDecl):
            out.extend(imports_of([d.decl]))
        elif isinstance(d, A.ImportDecl):
            out.append(d)
        elif isinstance(d, A.OpenDecl):
            module(d.mod)
        elif isinstance(d, A.ModDecl) and isinstance(d.body, M.ModBody):
            module(d.body.mod)
    return out
