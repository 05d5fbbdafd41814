"""Reading Futhark's test blocks: from a line that begins `-- ==` to the first that does not begin `--`.

    [tags {word...}]
    error: REGEX                                              the program must not compile
  | [entry: NAME...] CASE...  then  structure ... {...}  and  warning: REGEX

    CASE = ["name"] [tag...] input {VALUES} | input @FILE | random input {TYPES} | script input {EXP}
           [output {VALUES} | output @FILE | auto output | error: REGEX]

Paths are relative to the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from futad.errors import FileError, InputError, ParseError, Span, file_error
from futad.runtime.textvalues import Reader, Value
from futad.testing.compare import text_of

_WORD = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"[^\s}]+")
_TYPE = re.compile(r"((?:\[\s*[0-9]+\s*\]\s*)*)(i8|i16|i32|i64|u8|u16|u32|u64|f16|f32|f64|bool)\b")
_STRUCTURE = re.compile(r"([A-Za-z/_]+)\s+([0-9]+)")
_PIPELINES = ("gpu-mem", "gpu", "mc-mem", "mc", "seq-mem", "seq", "internalised")


@dataclass(frozen=True, slots=True)
class RandomType:
    """A random value to make: element type and sizes."""

    elem: str
    dims: tuple[int, ...]


@dataclass(slots=True)
class Data:
    """Where values come from: `kind` is 'values', 'file', 'random' or 'script'."""

    kind: str
    place: Span
    values: list[Value] = field(default_factory=list)
    path: Path | None = None
    random: list[RandomType | Value] = field(default_factory=list)
    script: str = ""


@dataclass(slots=True)
class Case:
    """One run of one entry.  `expected` is 'output', 'auto', 'error' or 'success'."""

    entry: str
    name: str
    tags: frozenset[str]
    input: Data
    expected: str
    output: Data | None
    error: str
    place: Span


@dataclass(slots=True)
class Structure:
    """How often constructs occur in the program after a pipeline."""

    pipeline: str
    counts: dict[str, int]
    place: Span


@dataclass(slots=True)
class TestFile:
    """All that the blocks of one program say.  `error` is the regular expression of a program that must not
    compile ('' for any error), or None."""

    __test__ = False  # not a test class, whatever its name looks like to pytest

    path: Path
    tags: set[str] = field(default_factory=set)
    error: str | None = None
    cases: list[Case] = field(default_factory=list)
    structures: list[Structure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    properties: list[str] = field(default_factory=list)


def read_test_file(path: Path) -> TestFile:
    """The test blocks of a program.  Raises FileError, ParseError (a malformed block), InputError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as e:
        raise file_error("read", path, e) from None
    except UnicodeDecodeError as e:
        raise FileError(f"{path} is not UTF-8 text (byte {e.start})") from None
    return parse_test_blocks(text, path)


def parse_test_blocks(text: str, path: Path) -> TestFile:
    """The test blocks in a program's text; `path` names it in messages and is where data files are sought."""
    spec = TestFile(path)
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        if not lines[i].startswith("-- =="):
            i += 1
            continue
        end = i + 1
        while end < len(lines) and lines[end].startswith("--"):
            end += 1
        # Blanks in place of the comment marks keep every column where it is in the file.
        block = "\n".join("  " + line[2:] for line in lines[i + 1 : end])
        _Block(block, spec, i + 2).parse()
        i = end
    return spec


class _Block:
    """A parser of one block over a `Reader`, which reads the values in it and knows the places."""

    def __init__(self, text: str, spec: TestFile, line: int) -> None:
        self.reader = Reader(text.encode(), str(spec.path), line=line, wraps=True)
        self.spec = spec

    def parse(self) -> None:
        if self.word("tags"):
            self.spec.tags.update(self.braced_words())
        if self.word("error:"):
            self.spec.error = self.regex()
            self.finish()
            return
        if self.ahead("property:"):
            while self.word("property:"):
                self.spec.properties += self.names_on_line()
            self.finish()
            return
        entries = self.names_on_line() if self.word("entry:") else ["main"]
        count = 0
        while not self.reader.at_end() and not self.ahead("structure") and not self.ahead("warning:"):
            for case in self.case(entries, count):
                self.spec.cases.append(case)
            count += 1
        while self.word("structure"):
            self.structure()
        while self.word("warning:"):
            self.spec.warnings.append(self.regex())
        self.finish()

    def finish(self) -> None:
        if not self.reader.at_end():
            self.fail("expected the end of the test block")

    # -- pieces

    def fail(self, message: str) -> NoReturn:
        e = self.reader.error(message)
        raise ParseError(f"test block: {e.message}", e.span, source_line=e.source_line)

    def ahead(self, word: str) -> bool:
        self.reader.skip()
        at = self.reader.pos
        if not self.reader.text.startswith(word, at):
            return False
        after = self.reader.text[at + len(word) : at + len(word) + 1]
        return not (word[-1].isalnum() and (after.isalnum() or after in ("_", "-")))

    def word(self, word: str) -> bool:
        if not self.ahead(word):
            return False
        self.reader.pos += len(word)
        return True

    def expect(self, symbol: str) -> None:
        self.reader.skip()
        if not self.reader.text.startswith(symbol, self.reader.pos):
            self.fail(f"expected '{symbol}'")
        self.reader.pos += len(symbol)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        m = pattern.match(self.reader.text, self.reader.pos)
        if m:
            self.reader.pos = m.end()
        return m

    def utf8(self, start: int, end: int) -> str:
        return self.reader.data[start:end].decode("utf-8", "replace")

    def rest_of_line(self) -> str:
        start = self.reader.pos
        end = self.reader.text.find("\n", start)
        self.reader.pos = end if end >= 0 else len(self.reader.text)
        return self.utf8(start, self.reader.pos).strip()

    def names_on_line(self) -> list[str]:
        start = self.reader.pos
        names = self.rest_of_line().split()
        if not names:
            self.reader.pos = start
            self.fail("expected the name of an entry")
        return names

    def regex(self) -> str:
        while self.reader.text.startswith(" ", self.reader.pos):
            self.reader.pos += 1
        start = self.reader.pos
        text = self.rest_of_line()
        try:
            re.compile(text)
        except re.error as e:
            self.reader.pos = start
            self.fail(f"not a regular expression: {e}")
        return text

    def braced_words(self) -> list[str]:
        self.expect("{")
        out = []
        self.reader.skip()
        while m := self.match(_WORD):
            out.append(m.group())
            self.reader.skip()
        self.expect("}")
        return out

    # -- cases

    def case(self, entries: list[str], index: int) -> list[Case]:
        self.reader.skip()
        place = self.reader.place()
        name = ""
        if self.reader.text.startswith('"', self.reader.pos):
            raw = self.reader.value()
            name = bytes(raw.data).decode("utf-8", "replace")
        tags = []
        while not self.ahead("input"):
            m = self.match(_WORD)
            if m is None:
                self.fail("expected a test case: input, random input or script input")
            tags.append(m.group())
            self.reader.skip()
        self.word("input")
        given = self.data(tags)
        expected, output, error = "success", None, ""
        if self.word("auto"):
            if not self.word("output"):
                self.fail("expected 'output' after 'auto'")
            expected = "auto"
        elif self.word("output"):
            expected, output = "output", self.data([])
        elif self.word("error:"):
            expected, error = "error", self.regex()
        name = name or _description(given, index)
        return [Case(e, name, frozenset(tags), given, expected, output, error, place) for e in entries]

    def data(self, tags: list[str]) -> Data:
        self.reader.skip()
        place = self.reader.place()
        if self.reader.text.startswith("@", self.reader.pos):
            if "random" in tags:
                self.fail("random input takes types in braces, not a file")
            self.reader.pos += 1
            self.reader.skip()
            m = self.match(_NAME)
            if m is None:
                self.fail("expected the name of a file after '@'")
            path = self.spec.path.parent / self.utf8(m.start(), m.end())
            return Data("script-file" if "script" in tags else "file", place, path=path)
        self.expect("{")
        if "script" in tags:
            return Data("script", place, script=self.balanced())
        data = Data("random" if "random" in tags else "values", place)
        while True:
            self.reader.skip()
            if self.reader.pos >= len(self.reader.text):
                self.fail("expected '}', found the end of the block")
            if self.reader.text[self.reader.pos] == "}":
                self.reader.pos += 1
                return data
            if data.kind == "random" and (m := self.match(_TYPE)):
                dims = tuple([int(d) for d in re.findall(r"[0-9]+", m.group(1))])
                data.random.append(RandomType(m.group(2), dims))
                continue
            try:
                value = self.reader.value()
            except InputError as e:
                raise ParseError(f"test block: {e.message}", e.span, source_line=e.source_line) from None
            (data.values if data.kind == "values" else data.random).append(value)

    def balanced(self) -> str:
        """The text up to the brace that closes one already read."""
        start, depth = self.reader.pos, 1
        for m in re.compile(r'[{}]|"(?:[^"\\]|\\.)*"').finditer(self.reader.text, start):
            depth += {"{": 1, "}": -1}.get(m.group(), 0)
            if depth == 0:
                self.reader.pos = m.end()
                return self.utf8(start, m.start()).rstrip()
        self.fail("expected '}', found the end of the block")

    def structure(self) -> None:
        self.reader.skip()
        place = self.reader.place()
        pipeline = next((p for p in _PIPELINES if self.word(p)), "")
        self.expect("{")
        counts = {}
        self.reader.skip()
        while m := self.match(_STRUCTURE):
            counts[m.group(1)] = int(m.group(2))
            self.reader.skip()
        self.expect("}")
        self.spec.structures.append(Structure(pipeline, counts, place))


def _description(data: Data, index: int) -> str:
    """How a case without a name is called."""
    if data.path is not None:
        name = str(data.path.name)
        return name.removesuffix(".gz")
    if data.kind == "random":
        return " ".join(
            "".join(f"[{d}]" for d in r.dims) + r.elem if isinstance(r, RandomType) else str(r.plain())
            for r in data.random
        )
    if data.kind == "script":
        return data.script.strip()
    texts = " ".join(_short(v) for v in data.values)
    return f'#{index} ("{texts if len(texts) <= 50 else texts[:50] + "..."}")'


def _short(value: Value) -> str:
    return str(value.plain()) if value.type is None else text_of(value.data)
