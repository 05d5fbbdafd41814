"""Futhark's value formats, text and binary.

Text: scalars with an optional type suffix (`1`, `-2i64`, `0x1f`, `1.5f32`, `f64.nan`, `true`), nested arrays
`[[1, 2], [3, 4]]`, `empty([0][2]f64)`, strings `"abc"` (arrays of u8, with the escapes of the language),
`-- comments`.  A literal without a suffix takes the type that is wanted if it is exact there, else i32 or f64.
Integers have to fit their type, but those of test blocks wrap around, as Futhark's reader has it.

Binary: `b`, version 2, rank, a four-character type name, one little-endian u64 a dimension, the data.  A bool is a
byte: false is 0, true is written as 1 and read from any other.

The two may follow one another in one stream.  Errors carry the place in the input.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from futad.core.literals import integer, unescaped
from futad.core.showvalue import prim_of
from futad.core.types import F64, I32, MOST_SIZE, PRIMS, Prim, with_true_as_one
from futad.errors import InputError, Span

_SUFFIX = "i8|i16|i32|i64|u8|u16|u32|u64|f16|f32|f64"
_BLANK = re.compile(rb"(?:\s+|--[^\n]*)*")
_TOKEN = re.compile(
    rf"""
    (?P<special>[+-]?(?:f16|f32|f64)\.(?:nan|inf))
  | (?P<hexfloat>[+-]?0[xX][0-9a-fA-F_]+(?:\.[0-9a-fA-F_]*)?[pP][+-]?[0-9_]+)(?P<hf>f16|f32|f64)?
  | (?P<based>[+-]?0(?:[xX][0-9a-fA-F][0-9a-fA-F_]*?|[bB][01][01_]*))
    (?P<bs>(?:i|u)(?:8|16|32|64))?(?![0-9a-zA-Z_.])
  | (?P<float>[+-]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eE]))(?:[eE][+-]?[0-9_]+)?)
    (?P<fs>f16|f32|f64)?
  | (?P<int>[+-]?[0-9][0-9_]*)(?P<is>{_SUFFIX})?
  | (?P<bool>true|false)\b
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<punct>[\[\],])
    """,
    re.VERBOSE,
)
_EMPTY = re.compile(rf"empty\s*\(\s*((?:\[\s*-?[0-9]+\s*\]\s*)+)({_SUFFIX}|bool)\s*\)")
_WORD = re.compile(r"[^\s,\[\](){}]+|.", re.DOTALL)
_BRACKET = re.compile(r'[\[\]"]')
_PLAIN = re.compile(r"[\[\]0-9\s,.eE+-]*\Z")
_BINARY_NAMES = {p.name.rjust(4).encode(): p for p in PRIMS.values()}


@dataclass(slots=True)
class Value:
    """One value as read.  `type` is None for literals without suffix; then `kind` is 'int' or 'float' and `data` one
    number, nested lists, or an array of them as NumPy chooses its type; otherwise `data` is a NumPy scalar or array."""

    type: Prim | None
    kind: str
    data: Any
    shape: tuple[int, ...]
    place: Span
    wraps: bool = False  # integers beyond the type that is wanted

    def plain(self) -> Any:
        """The data as a user would pass it: without a suffix, a Python number or nested list."""
        return self.data.tolist() if self.type is None and isinstance(self.data, np.ndarray) else self.data

    def text(self) -> str:
        """The type as messages show it."""
        elem = self.type.name if self.type else {"int": "integers", "float": "decimals"}[self.kind]
        return "".join(f"[{d}]" for d in self.shape) + elem

    def own_array(self) -> np.ndarray[Any, Any]:
        """The data at the value's own type (i32 and f64 without a suffix)."""
        return self.at_type(self.type or (I32 if self.kind == "int" else F64))

    def at_type(self, want: Prim) -> np.ndarray[Any, Any]:
        """The data as an array (rank 0 for a scalar) of `want`.  Raises InputError if it is not exact."""
        if self.type is not None:
            if self.type is not want:
                raise InputError(f"expected {want}, got {self.text()}", self.place)
            return np.asarray(self.data, want.dtype)
        if want.is_bool or (want.is_integral and self.kind == "float"):
            raise InputError(f"expected {want}, got {self.text()}", self.place)
        if want.is_float:
            with np.errstate(all="ignore"):
                made = np.asarray(self.data, np.float64)
                out = made.astype(want.dtype)
            if self.kind == "int" and not bool(np.all(out == np.asarray(self.data, object))):
                raise InputError(f"an integer here is not exact in {want}", self.place)
            return out
        try:
            return integers(self.data, want, self.wraps)
        except OverflowError:
            raise InputError(f"an integer here does not fit {want}", self.place) from None


def integers(data: Any, prim: Prim, wraps: bool) -> np.ndarray[Any, Any]:
    """Python's integers, or an array of NumPy's, as an array of an integer type.  Raises OverflowError if one does not
    fit, unless they wrap around."""
    given = data if isinstance(data, np.ndarray) else np.array(data, object)
    info = np.iinfo(prim.dtype)
    if not given.size or info.min <= int(given.min()) and int(given.max()) <= info.max:
        return given.astype(prim.dtype)
    if not wraps:
        raise OverflowError
    unsigned = np.array(given.astype(object) & ((1 << prim.bits) - 1), f"u{prim.bytes}")
    return unsigned.view(prim.dtype)


MOST_RANK = 32  # of a value; where it is nested more deeply, brackets are missing


class Reader:
    """Reads values one after another from the bytes of an input called `name` (a file, or `<stdin>`).  `wraps`:
    integers beyond their type wrap around."""

    def __init__(self, data: bytes, name: str, *, line: int = 1, col: int = 1, wraps: bool = False) -> None:
        self.data = data
        self.wraps = wraps
        self.name = name
        self.pos = 0
        self.first = (line, col)
        self._known = (0, line, col)  # a byte, and its place: the next to be asked for mostly follows it

    @cached_property
    def text(self) -> str:
        """The input with one character a byte, so that text and binary values can follow each other; binary values
        alone do without."""
        return self.data.decode("latin-1")

    def place(self, pos: int | None = None) -> Span:
        """The place of a byte, counted in characters of UTF-8 text."""
        at = self.pos if pos is None else pos
        known, line, col = self._known if at >= self._known[0] else (0, *self.first)
        start = self.data.rfind(b"\n", known, at) + 1
        if start:
            line, col = line + self.data.count(b"\n", known, start), 1
        col += len(self.data[start or known : at].decode("utf-8", "replace"))
        self._known = (at, line, col)
        return Span(self.name, line, col, line, col + 1)

    def error(self, message: str, pos: int | None = None) -> InputError:
        at = self.pos if pos is None else pos
        place = self.place(at)
        return InputError(message, place, source_line=self.line(place.line))

    def line(self, number: int) -> str | None:
        """A line of the input as messages show it; None if it is too long, binary, or not wholly here."""
        index = number - self.first[0]
        if index == 0 and self.first[1] != 1:
            return None
        start = 0
        for _ in range(index):
            start = self.data.find(b"\n", start) + 1
        end = self.data.find(b"\n", start)
        raw = self.data[start : end if end >= 0 else len(self.data)]
        shown = raw[:1000].decode("utf-8", "replace").rstrip("\r")
        return shown if len(shown) <= 200 and shown.replace("\t", " ").isprintable() else None

    def skip(self) -> None:
        m = _BLANK.match(self.data, self.pos)
        assert m is not None
        self.pos = m.end()

    def at_end(self) -> bool:
        self.skip()
        return self.pos >= len(self.data)

    def all(self) -> list[Value]:
        """Every value up to the end of the input."""
        out = []
        while not self.at_end():
            out.append(self.value())
        return out

    def value(self) -> Value:
        """The next value.  Raises InputError at the place where the input is not one."""
        self.skip()
        if self.pos >= len(self.data):
            raise self.error("expected a value, found the end of the input")
        head, version = self.data[self.pos : self.pos + 1], self.data[self.pos + 1 : self.pos + 2]
        if head == b"b" and not version.decode("latin-1").isprintable():
            return self._binary()
        m = _EMPTY.match(self.text, self.pos)
        if m:
            return self._empty(m)
        start = self.pos
        if self.text[start] == "[":
            fast = self._fast_array()
            if fast is not None:
                return fast
        place = self.place()
        tag: list[tuple[str, Prim | None]] = []
        data, shape = self._nested(tag)
        if not tag:
            raise self.error("an empty array must be written with its type: empty([0]i32)", start)
        kind, prim = tag[0]
        if prim is not None:
            try:
                with np.errstate(over="ignore"):  # a number too large for the type is infinite there
                    made = integers(data, prim, self.wraps) if prim.is_integral else np.array(data, prim.dtype)
            except OverflowError:
                raise self.error(f"a number does not fit {prim}", start) from None
            data = made if shape else made[()]
        return Value(prim, kind, data, shape, place, self.wraps)

    # -- text

    def _empty(self, m: re.Match[str]) -> Value:
        sizes = [integer(d) for d in re.findall(r"-?[0-9]+", m.group(1))]
        dims = tuple([MOST_SIZE + 1 if d is None else d for d in sizes])
        if any(d < 0 for d in dims):
            raise self.error("a size is negative")
        if 0 not in dims:
            raise self.error("an empty array needs a dimension of size 0")
        prim = PRIMS[m.group(2)]
        if max(dims) > MOST_SIZE:
            raise self.error("a size is too large")
        place = self.place()
        self.pos = m.end()
        return Value(prim, "", np.zeros(dims, prim.dtype), dims, place)

    def _fast_array(self) -> Value | None:
        """An array of plain decimal numbers, by the JSON reader; None where only the full grammar will do."""
        depth, end = 0, -1
        for m in _BRACKET.finditer(self.text, self.pos):
            c = m.group()
            if c == '"':
                return None
            depth += 1 if c == "[" else -1
            if depth == 0:
                end = m.end()
                break
        if end < 0:
            return None
        chunk = self.text[self.pos : end]
        suffix = re.search(rf"[0-9](?:{_SUFFIX})\b", chunk[:200])
        prim = PRIMS[suffix.group()[1:]] if suffix else None
        if prim is not None:
            chunk = re.sub(rf"(?<=[0-9]){prim.name}\b", "", chunk)
        if not _PLAIN.match(chunk):
            return None
        try:
            data = json.loads(chunk)
            array = np.array(data)
        except (ValueError, OverflowError, RecursionError):
            return None
        if array.dtype.kind not in "iuf" or array.size == 0:
            return None
        # The kind of a literal shows in its text; only an all-integer text makes an integer array.
        kind = "float" if array.dtype.kind == "f" else "int"
        if kind == "float" and not re.fullmatch(r"[\[\]\s,+-]*[0-9]+[.eE].*", chunk, re.DOTALL):
            return None
        if prim is not None:
            if prim.is_integral and kind != "int":
                return None
            try:
                with np.errstate(over="ignore"):
                    array = integers(array, prim, False) if prim.is_integral else np.array(data, prim.dtype)
            except OverflowError:
                return None
        place = self.place()
        self.pos = end
        return Value(prim, kind, array, array.shape, place, self.wraps)

    def _token(self) -> re.Match[str]:
        self.skip()
        m = _TOKEN.match(self.text, self.pos)
        if m is None:
            raise self._not_a_value(self.pos)
        self.pos = m.end()
        return m

    def _not_a_value(self, pos: int) -> InputError:
        if pos >= len(self.text):
            return self.error("expected a value, found the end of the input", pos)
        word = _WORD.match(self.text, pos)
        found = self.data[pos : word.end() if word else pos + 1].decode("utf-8", "replace")
        return self.error(f"expected a value, found {found!r}", pos)

    def _nested(self, tag: list[tuple[str, Prim | None]], depth: int = 0) -> tuple[Any, tuple[int, ...]]:
        """A number or array, with its shape; `tag` records the literal kind of the first element."""
        m = self._token()
        if m.lastgroup == "string" or m.group("string"):
            return self._string(m, tag)
        if m.group() != "[":
            return self._scalar(m, tag), ()
        if depth == MOST_RANK:
            raise self.error(f"an array of more than {MOST_RANK} dimensions", m.start())
        rows: list[Any] = []
        shape: tuple[int, ...] | None = None
        self.skip()
        while not self.text.startswith("]", self.pos):
            if rows:
                if not self.text.startswith(",", self.pos):
                    raise self.error("expected ',' or ']' in an array")
                self.pos += 1
                self.skip()
            start = self.pos
            row, row_shape = self._nested(tag, depth + 1)
            if shape is not None and row_shape != shape:
                raise self.error("the rows of an array differ in shape", start)
            shape = row_shape
            rows.append(row)
            self.skip()
            if self.pos >= len(self.text):
                raise self.error("expected ',' or ']' in an array, found the end of the input")
        self.pos += 1
        return rows, (len(rows), *(shape or ()))

    def _string(self, m: re.Match[str], tag: list[tuple[str, Prim | None]]) -> tuple[Any, tuple[int, ...]]:
        self._note(tag, "int", PRIMS["u8"], m.start())
        raw = self.data[m.start() + 1 : m.end() - 1]
        try:
            out = unescaped(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        except ValueError as e:
            raise self.error(str(e), m.start()) from None
        return list(out), (len(out),)

    def _note(self, tag: list[tuple[str, Prim | None]], kind: str, prim: Prim | None, pos: int) -> None:
        if not tag:
            tag.append((kind, prim))
            return
        first_kind, first = tag[0]
        if first is None and prim is not None and (prim.is_float or prim.is_integral and first_kind == "int"):
            tag[0] = (kind, prim)
            return
        if prim is not None and prim is not first:
            raise self.error(f"an element of type {prim} in an array of {first or first_kind}", pos)
        fits = first is None or not (first.is_integral and kind == "float")
        if kind == "bool" and first_kind != "bool" or kind != "bool" and first_kind == "bool" or not fits:
            raise self.error(f"a {kind} element in an array of {first or first_kind}s", pos)
        if first is None and kind == "float":
            tag[0] = ("float", None)

    def _scalar(self, m: re.Match[str], tag: list[tuple[str, Prim | None]]) -> Any:
        start, word = m.start(), m.group()
        follow = self.text[m.end() : m.end() + 1]
        if m.group("punct") or follow.isalnum() or follow in ("_", "."):
            raise self._not_a_value(start)
        if m.group("bool"):
            self._note(tag, "bool", PRIMS["bool"], start)
            return word == "true"
        if m.group("special"):
            sign = -1.0 if word[0] == "-" else 1.0
            name, what = word.lstrip("+-").split(".")
            self._note(tag, "float", PRIMS[name], start)
            return sign * float(what)
        for group, suffix in (("hexfloat", "hf"), ("based", "bs"), ("float", "fs"), ("int", "is")):
            digits = m.group(group)
            if not digits:
                continue
            digits = digits.replace("_", "")
            prim = PRIMS[m.group(suffix)] if m.group(suffix) else None
            floating = group in ("hexfloat", "float") or (prim is not None and prim.is_float)
            self._note(tag, "float" if floating else "int", prim, start)
            if group == "hexfloat":
                return float.fromhex(digits)
            if floating:
                return float(digits)
            number = integer(digits)
            if number is None:
                raise self.error(f"a number of {len(digits)} digits does not fit any type", start)
            if prim is not None:
                try:
                    number = int(integers(number, prim, self.wraps))
                except OverflowError:
                    raise self.error(f"{number} does not fit {prim}", start) from None
            return number
        raise self._not_a_value(start)

    # -- binary

    def _binary(self) -> Value:
        start, data = self.pos, self.data
        if data[start + 1] != 2:
            raise self.error(f"binary format version {data[start + 1]} is not known; it should be 2")
        if len(data) < start + 7:
            raise self.error("a binary value is cut off in its header")
        rank = data[start + 2]
        prim = _BINARY_NAMES.get(data[start + 3 : start + 7])
        if prim is None:
            raise self.error(f"{data[start + 3 : start + 7]!r} is not a type of the binary format")
        body = start + 7 + 8 * rank
        if len(data) < body:
            raise self.error("a binary value is cut off in its header")
        dims = tuple([int(d) for d in np.frombuffer(data, "<u8", rank, start + 7)])
        count = 1
        for d in dims:
            count *= d
        if count * prim.bytes > MOST_SIZE or max(dims, default=0) > MOST_SIZE:
            raise self.error(f"the sizes {list(dims)} of a binary value are too large")
        if len(data) < body + count * prim.bytes:
            raise self.error(
                f"a binary value of type {''.join(f'[{d}]' for d in dims)}{prim} needs "
                f"{count * prim.bytes} bytes, but only {len(data) - body} follow"
            )
        flat = with_true_as_one(np.frombuffer(data, prim.dtype.newbyteorder("<"), count, body))
        place = self.place()
        self.pos = body + count * prim.bytes
        array = flat.astype(prim.dtype).reshape(dims)
        return Value(prim, "", array if dims else array[()], dims, place)


# --- writing ------------------------------------------------------------------------------------------------


def binary_bytes(value: Any) -> bytes:
    """A NumPy scalar or array in binary format."""
    array = np.asarray(value)
    prim = prim_of(array.dtype)
    head = b"b" + bytes([2, array.ndim]) + prim.name.rjust(4).encode()
    dims = np.array(array.shape, "<u8").tobytes()
    return head + dims + np.ascontiguousarray(array).astype(prim.dtype.newbyteorder("<")).tobytes()
