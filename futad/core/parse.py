"""Reads the text of `text.py` back into a `Program`.

Recursive descent over tokens of one regular expression.  Variables are fresh; those of the text are told
apart by their full `name_id`.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any, NoReturn

from futad.core import ir
from futad.core.grid import Grid, Version
from futad.core.node import NODES, Range
from futad.core.scalarops import OPS
from futad.core.text import node_name, program_text
from futad.core.types import FALSE, PRIMS, REC, TRUE, AccType, ArrayType, Atom, Const, Prim, Type, Var, i64
from futad.errors import ParseError, Span

_PRIM = r"(?:i8|i16|i32|i64|u8|u16|u32|u64|f16|f32|f64|rec)"
TOKEN = re.compile(
    rf"""(?P<const>-?(?:nan(?:0x[0-9a-f]{{16}})?|inf|\d+(?:\.\d+)?(?:e[+-]?\d+)?){_PRIM}\b)
      |(?P<float>-?(?:nan|inf|\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+))\b)
      |(?P<int>-?\d+\b)
      |(?P<var>[A-Za-z_][A-Za-z0-9_']*_\d+\b)
      |(?P<word>[A-Za-z_][A-Za-z0-9_']*)
      |(?P<span>@"(?:[^"\\]|\\.)*")
      |(?P<str>"(?:[^"\\]|\\.)*")
      |(?P<sym>->|[()\[\]{{}},:=\\#])
      |(?P<space>(?:\s+|--[^\n]*)+)
      |(?P<bad>.)""",
    re.VERBOSE,
)
_CONST = re.compile(rf"(.*?)({_PRIM})\Z")
_SPAN = re.compile(r"(.*):(\d+):(\d+)-(\d+):(\d+)\Z", re.DOTALL)
_WORDS: dict[str, Any] = {"True": True, "False": False, "None": None, "true": TRUE, "false": FALSE}


_TYPES = {**PRIMS, REC.name: REC}
_NODES: dict[str, type] = {node_name(c): c for c in NODES}
_RECORDS = {"Grid": Grid, "Version": Version}
_DATA = {"Entry": ir.Entry, "EntryType": ir.EntryType, "Fold": ir.Fold}


class Parser:
    """Reads from the tokens of a text; `rewrite/pattern.py` reads texts with metavariables."""

    token = TOKEN

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.toks = [(m.lastgroup, m.group(), m.start()) for m in self.token.finditer(text) if m.lastgroup != "space"]
        self.toks.append(("end", "", len(text)))
        self.pos = 0
        self.vars: dict[str, Var] = {}
        self.versions = 0  # around what is parsed: these may bind what their statement binds

    # -- tokens

    def fail(self, message: str, pos: int | None = None) -> NoReturn:
        kind, tok, at = self.toks[self.pos if pos is None else pos]
        line, col = self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        source = self.text.splitlines()[line - 1] if tok else None
        raise ParseError(message, Span(self.file, line, col, line, col + len(tok)), source_line=source)

    def peek(self) -> str:
        return self.toks[self.pos][1]

    def next(self) -> tuple[str | None, str]:
        kind, tok, _ = self.toks[self.pos]
        self.pos += 1
        return kind, tok

    def accept(self, tok: str) -> bool:
        if self.toks[self.pos][1] == tok:
            self.pos += 1
            return True
        return False

    def expect(self, tok: str) -> None:
        if not self.accept(tok):
            self.fail(f"expected '{tok}', found '{self.peek() or 'end of text'}'")

    def until(self, close: str, item: Any) -> list[Any]:
        """Comma-separated items up to `close`, which is eaten."""
        out: list[Any] = []
        while not self.accept(close):
            if out:
                self.expect(",")
            out.append(item())
        return out

    # -- values

    def value(self) -> Any:
        """Any field value; see the notation in `text.py`."""
        kind, tok, _ = self.toks[self.pos]
        if tok == "[":
            start = self.pos
            self.pos += 1
            items = tuple(self.until("]", self.value))
            if self.peek() == "[" or self.peek() in _TYPES:  # not a tuple: the sizes of an array type
                self.pos = start
                return self.type_()
            return items
        if tok in ("\\", "{"):
            return self.lam()
        if kind == "word" and (tok in _TYPES or tok == "acc"):
            return self.type_()
        self.pos += 1
        if kind == "var" or kind == "const" or tok in ("true", "false"):
            a = self.atom_of(kind, tok)
            if self.accept(":"):
                count = self.atom()
                self.expect(":")
                return Range(a, count, self.atom())
            return a
        if kind == "int":
            return int(tok)
        if kind == "float":
            return float(tok)
        if kind == "str":
            return json.loads(tok)
        if kind == "span":
            return self.span_of(tok)
        if kind == "word" and tok in _DATA:
            self.expect("(")
            return _DATA[tok](*self.until(")", self.value))
        if kind == "word" and tok in _RECORDS:
            self.expect("(")
            self.versions += 1
            given = dict(self.until(")", self.field))
            self.versions -= 1
            return _RECORDS[tok](**given)
        if tok in _WORDS:
            return _WORDS[tok]
        self.fail(f"expected a value, found '{tok or 'end of text'}'", self.pos - 1)

    def field(self) -> tuple[str, Any]:
        name = self.next()[1]
        self.expect("=")
        return name, self.value()

    def span_of(self, tok: str) -> Span:
        m = _SPAN.match(json.loads(tok[1:]))
        if not m:
            self.fail("expected a place file:line:col-line:col", self.pos - 1)
        return Span(m[1], int(m[2]), int(m[3]), int(m[4]), int(m[5]))

    def atom(self) -> Atom:
        return self.atom_of(*self.next())

    def atom_of(self, kind: str | None, tok: str) -> Atom:
        if kind == "var":
            v = self.vars.get(tok)
            if v is None:
                self.fail(f"unknown variable {tok}", self.pos - 1)
            return v
        if tok in ("true", "false"):
            return TRUE if tok == "true" else FALSE
        m = _CONST.match(tok) if kind == "const" else None
        if not m:
            self.fail(f"expected a variable or constant, found '{tok or 'end of text'}'", self.pos - 1)
        t = _TYPES[m[2]]
        if m[1].startswith("nan0x"):
            return Const(t, struct.unpack("<d", bytes.fromhex(m[1][5:]))[0])
        return Const(t, float(m[1]) if t.is_float else int(m[1]))

    def type_(self) -> Type:
        if self.accept("acc"):
            self.expect("(")
            inner = self.type_()
            self.expect(")")
            return (
                AccType(inner.elem, inner.shape) if isinstance(inner, ArrayType) else AccType(self.prim_of(inner), ())
            )
        shape: list[Atom] = []
        while self.accept("["):
            kind, tok = self.next()
            shape.append(i64(int(tok)) if kind == "int" else self.atom_of(kind, tok))
            self.expect("]")
        if self.peek() not in _TYPES:
            self.fail(f"expected a type, found '{self.peek()}'")
        elem = _TYPES[self.next()[1]]
        return ArrayType(elem, tuple(shape)) if shape else elem

    def prim_of(self, t: Type) -> Prim:
        assert isinstance(t, Prim)
        return t

    # -- scopes

    def binder(self) -> Var:
        kind, tok = self.next()
        if kind != "var":
            self.fail(f"expected a variable name_id, found '{tok}'", self.pos - 1)
        if tok in self.vars and not self.versions:
            self.fail(f"variable {tok} is bound twice", self.pos - 1)
        at = self.pos - 1
        self.expect(":")
        if tok in self.vars:
            self.type_()
            return self.vars[tok]
        v = Var(tok.rpartition("_")[0], self.type_())
        if tok in self.vars:
            self.fail(f"variable {tok} is bound twice", at)
        self.vars[tok] = v
        return v

    def pattern(self) -> tuple[Var, ...]:
        self.expect("(")
        return tuple(self.until(")", self.binder))

    def lam(self) -> ir.Lambda:
        params: tuple[Var, ...] = ()
        if self.accept("\\"):
            params = self.pattern()
            self.expect("->")
        return self.body(params)

    def body(self, params: tuple[Var, ...]) -> ir.Lambda:
        self.expect("{")
        stms: list[ir.Stm] = []
        while not self.accept("in"):
            stms.append(self.stm())
        self.expect("(")
        result = tuple(self.until(")", self.atom))
        self.expect("}")
        return ir.Lambda(params, tuple(stms), result)

    def stm(self) -> ir.Stm:
        if not self.accept("let"):
            return ir.Stm((), self.exp(), *self.attrs())
        # The pattern comes first in the text but its variables are not in scope of the expression; ids
        # differ, so binding them early is harmless.
        pat = self.pattern() if self.peek() == "(" else (self.binder(),)
        self.expect("=")
        return ir.Stm(pat, self.exp(), *self.attrs())

    def attrs(self) -> tuple[tuple[Any, ...], Grid | None]:
        """A statement's attributes, and how a device runs it."""
        attrs, grid = (), None
        while self.accept("#"):
            x = self.value()
            if isinstance(x, Grid):
                grid = x
            else:
                attrs = x
        return attrs, grid

    def exp(self) -> ir.Exp:
        kind, tok = self.next()
        if kind == "word" and self.peek() == "(":
            at = self.pos - 1
            self.pos += 1
            if tok in OPS:
                return ir.Op(tok, tuple(self.until(")", self.atom)), self.place())
            if tok not in _NODES:
                self.fail(f"unknown construct '{tok}'", at)
            return self.fields(_NODES[tok], self.until(")", self.value), at)
        # log_2-like operation names look like variables
        if kind == "var" and tok in OPS and self.accept("("):
            return ir.Op(tok, tuple(self.until(")", self.atom)))
        a = self.atom_of(kind, tok)
        if self.accept("["):
            index = tuple(self.until("]", self.value))
            return ir.At(a, index, self.place())
        return ir.Alias(a)

    def fields(self, cls: Any, values: list[Any], at: int) -> ir.Exp:
        """A construct of these fields, named at a token."""
        if len(values) != len(cls.kinds) - (cls is ir.Assert and len(values) == 4):
            self.fail(f"{node_name(cls)} has {len(cls.kinds)} fields, not {len(values)}", at)
        made: ir.Exp = cls(*values)
        return made

    def place(self) -> Any:
        return self.span_of(self.next()[1]) if self.toks[self.pos][0] == "span" else None

    def fun(self) -> ir.Fun:
        self.expect("fun")
        kind, tok = self.next()
        name = json.loads(tok) if kind == "str" else tok
        sizes: tuple[Var, ...] = ()
        if self.accept("["):
            sizes = tuple(self.until("]", self.binder))
        params = self.pattern()
        self.expect("->")
        ret = self.pattern()
        found: dict[str, Any] = {}
        while not self.accept("="):
            key = self.next()[1]
            if key not in ("entry", "attrs", "at"):
                self.fail(f"expected entry, attrs, at or =, found '{key}'", self.pos - 1)
            found[key] = self.value()
        body = self.body(sizes + params)
        return ir.Fun(name, body, len(sizes), ret, found.get("entry"), found.get("attrs", ()), found.get("at"))

    def program(self) -> ir.Program:
        name = "main"
        if self.accept("program"):
            name = json.loads(self.next()[1])
        funs: dict[str, ir.Fun] = {}
        while self.toks[self.pos][0] != "end":
            f = self.fun()
            if f.name in funs:
                self.fail(f"function {f.name} is defined twice", self.pos - 1)
            funs[f.name] = f
        return ir.Program(funs, name)


def parse_program(text: str, file: str = "<core>") -> ir.Program:
    """The program of a text printed by `program_text`; `--` starts a comment.  Raises ParseError."""
    return Parser(text, file).program()


def alpha_equal(p: ir.Program, q: ir.Program) -> bool:
    """Whether the programs are equal up to the names of variables."""
    return program_text(p, normal=True) == program_text(q, normal=True)
