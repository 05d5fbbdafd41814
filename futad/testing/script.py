"""The small expression language of `script input`: entries applied to values.

    EXP  = let NAME = EXP in EXP | let (NAME, ...) = EXP in EXP | NAME ATOM... | ATOM
    ATOM = (value | NAME | NAME[EXP, ...] | (EXP, ...) | [EXP, ...] | {NAME = EXP, ...}
           | $loaddata "FILE" | $loadbytes "FILE") {.FIELD}

A tuple as result is the list of arguments.  Files are sought beside the program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.errors import OUT_OF_BOUNDS, Error, InputError, ParseError, Span
from futad.runtime.inputs import read_data_file
from futad.runtime.textvalues import Reader

if TYPE_CHECKING:
    from futad.api.program import Function, Program

_NAME = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_']*")
_FIELD = re.compile(r"\.([A-Za-z0-9_']+)")
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
        raise InputError(f"script input: {e.message}", place, hint=e.hint) from None


class _Script:
    def __init__(self, program: Program, text: str, place: Span, folder: Path) -> None:
        self.program = program
        self.reader = Reader(text.encode(), place.file, line=place.line, col=place.col + 1, wraps=True)
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
                bound = {names[0]: value}
            elif isinstance(value, tuple) and len(value) == len(names):
                bound = dict(zip(names, value, strict=True))
            else:
                raise self.fail(f"expected a tuple of {len(names)}")
            outer, self.names = self.names, {**self.names, **bound}
            result = self.expression()
            self.names = outer
            return result
        start = self.reader.pos
        name = self.name()
        if name is None or name in self.names or name.startswith("$"):
            self.reader.pos = start
            return self.atom()
        function = self.program.entries.get(name)
        if function is None:
            self.reader.pos = start
            self.reader.skip()
            raise self.fail(f"no entry is called '{name}'; there are: {', '.join(self.program.entries)}")
        if not function.entry.params:
            return self.projected(function())
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
        return self.projected(self.simple())

    def projected(self, value: Any) -> Any:
        """`value`, or the field of it that follows: no blank stands before the dot."""
        while m := _FIELD.match(self.reader.text, self.reader.pos):
            fields = value if isinstance(value, Mapping) else dict(enumerate(value)) if type(value) is tuple else {}
            key = int(m.group(1)) if type(value) is tuple and m.group(1).isdigit() else m.group(1)
            if key not in fields:
                raise self.fail(f"there is no field '{m.group(1)}' here")
            self.reader.pos = m.end()
            value = fields[key]
        return value

    def simple(self) -> Any:
        if self.accept("("):
            parts = self.items(")")
            return parts[0] if len(parts) == 1 else tuple(parts)
        if self.accept("{"):
            return self.record()
        start = self.reader.pos
        name = self.name()
        if name is None:
            return self.literal()
        if name in ("$loaddata", "$loadbytes"):
            return self.load(name)
        if name in self.names:
            value = self.names[name]
            if self.reader.text.startswith("[", self.reader.pos):
                self.reader.pos += 1
                return self.element(value, self.items("]"))
            return value
        function = self.program.entries.get(name)
        if function is None or function.entry.params:
            self.reader.pos = start
            self.reader.skip()
            raise self.fail(f"'{name}' is not a value")
        return function()

    def items(self, end: str) -> list[Any]:
        """Expressions between commas, up to and with the bracket that ends them."""
        parts: list[Any] = []
        while not self.accept(end):
            parts.append(self.expression())
            if not self.accept(","):
                self.expect(end)
                break
        return parts

    def record(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while not self.accept("}"):
            name = self.name()
            if name is None:
                raise self.fail("expected the name of a field")
            self.expect("=")
            fields[name] = self.expression()
            if not self.accept(","):
                self.expect("}")
                break
        return fields

    def literal(self) -> Any:
        """A value in text format, or an array of expressions."""
        start = self.reader.pos
        try:
            return self.reader.value().plain()
        except InputError:
            self.reader.pos = start
            if not self.accept("["):
                raise
        return self.items("]")

    def element(self, value: Any, indices: list[Any]) -> Any:
        """An element of an array; of an array of tuples or records, one of each of the arrays it consists of."""
        if isinstance(value, Mapping):
            return {n: self.element(v, indices) for n, v in value.items()}
        if isinstance(value, tuple):
            return tuple([self.element(v, indices) for v in value])
        shape = np.shape(value)
        if len(indices) > len(shape) or not all(isinstance(i, int | np.integer) for i in indices):
            raise self.fail(f"an array of rank {len(shape)} cannot be indexed so")
        for i, n in zip(indices, shape, strict=False):
            if not 0 <= i < n:
                raise self.fail(OUT_OF_BOUNDS.replace("{}", str(i), 1).replace("{}", str(n)))
        return np.asarray(value)[tuple(indices)]

    def load(self, name: str) -> Any:
        """The values of a file, or its bytes."""
        word = self.reader.value()
        path = self.folder / bytes(word.data).decode("utf-8", "replace")
        data = read_data_file(path)
        if name == "$loadbytes":
            return np.frombuffer(data, np.uint8)
        values = [v.plain() for v in Reader(data, str(path), wraps=True).all()]
        return values[0] if len(values) == 1 else tuple(values)
