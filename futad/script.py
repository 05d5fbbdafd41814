"""The small expression language of `script input`: entries applied to values.

    EXP  = let NAME = EXP in EXP | let (NAME, ...) = EXP in EXP | NAME ATOM... | ATOM
    ATOM = value | NAME | (EXP, ...) | $loaddata "FILE"

A tuple as result is the list of arguments.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from futad.errors import Error, ParseError, Span, ValueError_
from futad.runtime.inputs import read_data_file
from futad.runtime.textvalues import Reader, Value

if TYPE_CHECKING:
    from futad.api import Function, Program

_NAME = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_']*")
_NUMBER_LIKE = re.compile(r"true\b|false\b|empty\s*\(|f(16|32|64)\.(nan|inf)\b")


def run_script(program: Program, function: Function, text: str, place: Span, path: Path | None = None) -> list[Any]:
    """The core arguments of `function` from a script.  Raises ParseError, and what its calls raise."""
    folder = (path or Path(place.file)).parent
    script = _Script(program, text, place, folder)
    value = script.whole()
    count = len(function.entry.params)
    args = value if isinstance(value, tuple) and count != 1 else (value,)
    try:
        return function.signature.flatten(args)
    except Error as e:
        raise ValueError_(f"script input: {e.message}", place, hint=e.hint) from None


class _Script:
    def __init__(self, program: Program, text: str, place: Span, folder: Path) -> None:
        self.program = program
        self.reader = Reader(text.encode(), place.file, line=place.line, col=place.col + 1)
        self.place = place
        self.folder = folder
        self.names: dict[str, Any] = {}

    def fail(self, message: str) -> ParseError:
        return ParseError(f"script input: {message}", self.reader.place())

    def accept(self, symbol: str) -> bool:
        self.reader.skip()
        at, text = self.reader.pos, self.reader.text
        if not text.startswith(symbol, at):
            return False
        if symbol.isalpha() and re.match(r"[A-Za-z0-9_']", text[at + len(symbol) :]):
            return False
        self.reader.pos += len(symbol)
        return True

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            raise self.fail(f"expected '{symbol}'")

    def name(self) -> str | None:
        self.reader.skip()
        text, at = self.reader.text, self.reader.pos
        if _NUMBER_LIKE.match(text, at):
            return None
        m = _NAME.match(text, at)
        if m is None or m.group() == "in":
            return None
        self.reader.pos = m.end()
        return m.group()

    def whole(self) -> Any:
        value = self.expression()
        if not self.reader.at_end():
            raise self.fail("expected the end of the script")
        return value

    def expression(self) -> Any:
        if self.accept("let"):
            names = self.binders()
            self.expect("=")
            value = self.expression()
            self.expect("in")
            if len(names) == 1:
                self.names[names[0]] = value
            elif isinstance(value, tuple) and len(value) == len(names):
                self.names.update(zip(names, value, strict=True))
            else:
                raise self.fail(f"expected a tuple of {len(names)}")
            return self.expression()
        start = self.reader.pos
        name = self.name()
        if name is None:
            return self.atom()
        if name in self.names:
            return self.names[name]
        if name == "$loaddata":
            return self.load_data()
        function = self.program.entries.get(name)
        if function is None:
            self.reader.pos = start
            self.reader.skip()
            raise self.fail(f"no entry is called '{name}'; there are: {', '.join(self.program.entries)}")
        return function(*[self.atom() for _ in function.entry.params])

    def binders(self) -> list[str]:
        if not self.accept("("):
            name = self.name()
            if name is None:
                raise self.fail("expected a name after 'let'")
            return [name]
        names = []
        while (name := self.name()) is not None:
            names.append(name)
            if not self.accept(","):
                break
        self.expect(")")
        return names

    def atom(self) -> Any:
        if self.accept("("):
            parts = []
            while not self.accept(")"):
                parts.append(self.expression())
                if not self.accept(","):
                    self.expect(")")
                    break
            return parts[0] if len(parts) == 1 else tuple(parts)
        start = self.reader.pos
        name = self.name()
        if name is not None:
            if name in self.names:
                return self.names[name]
            if name == "$loaddata":
                return self.load_data()
            function = self.program.entries.get(name)
            if function is None or function.entry.params:
                self.reader.pos = start
                self.reader.skip()
                raise self.fail(f"'{name}' is not a value")
            return function()
        return user_value(self.reader.value())

    def load_data(self) -> Any:
        word = self.reader.value()
        path = self.folder / bytes(word.data).decode("utf-8", "replace")
        values = [user_value(v) for v in Reader(read_data_file(path), str(path)).all()]
        return values[0] if len(values) == 1 else tuple(values)


def user_value(value: Value) -> Any:
    """A value as a user would pass it: without a suffix, a Python number or nested list."""
    return value.data
