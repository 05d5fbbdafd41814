"""The textual form of the core IR; `parse.py` reads the same text back.

An expression prints as `class(field, field, ...)` with the class name in lower case, its fields printed by
what they hold; an operation prints as `add(x, y)`, an index as `xs[i]@"place"`, an alias as the bare atom.
A new node class therefore needs nothing here.  Notation:

    x_1  2.0f64  true                variable (name_id) and constants      [n_1][3]f64   types
    a:n:s                            a `Range` (start, count, stride)      [x, y]        a tuple
    \\(x_1: f64) -> { ... in (r) }    a scope; without parameters { ... in (r) }
    True None 3 "text"               static data                           @"f.fut:1:2-1:5"   a `Span`
    let x_1: f64 = exp #["attr"]     a statement with attributes
    let x_1: f64 = exp #Grid(template="map", space=[n_2])    and with how a device runs it
"""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import fields
from typing import Any

from futad.core import ir
from futad.core.construct import SHOW
from futad.core.grid import Grid, Version
from futad.core.node import Range
from futad.core.types import AccType, ArrayType, Const, Prim, Var
from futad.errors import Span

_NOT_WORD = re.compile(r"[^A-Za-z0-9_']")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_']*\Z")
_NAN = struct.pack("<d", math.nan)
_INLINE = 80  # a scope of at most one statement shorter than this prints on one line


class Printer:
    """Prints IR objects.  With `normal`, variables are numbered in order of first appearance and lose their
    names, constants and everything else as they are: two alpha-equal programs print the same.  With `counted`, they are
    numbered so and keep their names."""

    def __init__(self, normal: bool = False, counted: bool = False) -> None:
        self.normal, self.counted = normal, counted
        self._numbers: dict[Var, int] = {}

    def var(self, v: Var) -> str:
        if self.normal:
            return f"v_{self._numbers.setdefault(v, len(self._numbers) + 1)}"
        name = _NOT_WORD.sub("_", v.name)
        if not name or not (name[0].isalpha() or name[0] == "_"):
            name = "v" + name
        return f"{name}_{self._numbers.setdefault(v, len(self._numbers) + 1) if self.counted else v.id}"

    def binder(self, v: Var) -> str:
        return f"{self.var(v)}: {self.data(v.type)}"

    def data(self, x: Any, indent: str = "") -> str:
        """Any field value of a node: atoms, tuples, scopes, types, static data."""
        t = type(x)
        if t is Var:
            return self.var(x)
        if t is Const:
            return const_text(x)
        if t is tuple or t is list:
            return "[" + ", ".join([self.data(i, indent) for i in x]) + "]"
        if t is ir.Lambda:
            return self.lam(x, indent)
        if t is Range:
            return ":".join([self.data(i) for i in (x.start, x.count, x.stride)])
        if t is ArrayType:
            return "".join([f"[{self._size(s)}]" for s in x.shape]) + x.elem.name
        if t is AccType:
            return "acc(" + "".join([f"[{self._size(s)}]" for s in x.shape]) + x.elem.name + ")"
        if t is Prim:
            return x.name
        if t is str:
            return json.dumps(x)
        if t is Span:
            return "@" + json.dumps(f"{x.file}:{x.line}:{x.col}-{x.end_line}:{x.end_col}")
        if x is None or t in (bool, int, float):
            return repr(x)
        if t in (ir.Entry, ir.EntryType, ir.Fold):
            return f"{t.__name__}(" + ", ".join([self.data(getattr(x, f.name)) for f in fields(x)]) + ")"
        if t in (Grid, Version):
            given = [(f.name, getattr(x, f.name)) for f in fields(x) if getattr(x, f.name) != f.default]
            return f"{t.__name__}(" + ", ".join([f"{name}={self.data(v, indent)}" for name, v in given]) + ")"
        raise TypeError(f"no text for a {t.__name__}")

    def _size(self, s: Any) -> str:
        return str(s.value) if type(s) is Const else self.data(s)

    def exp(self, e: ir.Exp, indent: str = "") -> str:
        t = type(e)
        if isinstance(e, ir.Op):
            place = "" if e.place is None else self.data(e.place)
            return e.op + "(" + ", ".join([self.data(a) for a in e.args]) + ")" + place
        if isinstance(e, ir.Alias):
            return self.data(e.atom)
        if isinstance(e, ir.At):
            return self.data(e.array) + self.data(e.index) + ("" if e.check is None else self.data(e.check))
        shown = list(t.kinds)
        if isinstance(e, ir.Assert) and not e.of:
            shown.pop()
        return node_name(t) + "(" + ", ".join([self.data(getattr(e, f), indent) for f in shown]) + ")"

    def pattern(self, vs: tuple[Var, ...]) -> str:
        return "(" + ", ".join([self.binder(v) for v in vs]) + ")"

    def stm(self, s: ir.Stm, indent: str = "") -> str:
        out = self.exp(s.exp, indent)
        if len(s.pat) == 1:
            out = f"let {self.binder(s.pat[0])} = {out}"
        elif s.pat:
            out = f"let {self.pattern(s.pat)} = {out}"
        return out + "".join([f" #{self.data(x, indent)}" for x in (s.attrs, s.grid) if x])

    def lam(self, scope: ir.Lambda, indent: str = "") -> str:
        head = f"\\{self.pattern(scope.params)} -> " if scope.params else ""
        return head + self.body(scope, indent)

    def body(self, scope: ir.Lambda, indent: str = "", inline: bool = True) -> str:
        inner = indent + "  "
        stms = [self.stm(s, inner) for s in scope.stms]
        result = "in (" + ", ".join([self.data(a) for a in scope.result]) + ")"
        short = " ".join([*stms, result])
        if inline and len(stms) <= 1 and len(short) < _INLINE and "\n" not in short:
            return "{ " + short + " }"
        return "{\n" + "".join([f"{inner}{s}\n" for s in [*stms, result]]) + indent + "}"

    def fun(self, f: ir.Fun) -> str:
        name = f.name if _PLAIN.match(f.name) else json.dumps(f.name)
        sizes, params = f.body.params[: f.num_sizes], f.body.params[f.num_sizes :]
        head = f"fun {name} "
        if sizes:
            head += "[" + ", ".join([self.binder(v) for v in sizes]) + "] "
        head += f"{self.pattern(params)} -> {self.pattern(f.ret)}"
        for key, value in (("entry", f.entry), ("attrs", f.attrs), ("at", f.span)):
            if value:
                head += f"\n  {key} {self.data(value)}"
        return head + " = " + self.body(f.body, inline=False)

    def program(self, p: ir.Program) -> str:
        return f"program {json.dumps(p.name)}\n\n" + "\n\n".join([self.fun(f) for f in p.funs.values()]) + "\n"


def node_name(cls: type) -> str:
    """The keyword of a node class."""
    return cls.__name__.lower()


def const_text(c: Const) -> str:
    """A constant; every bit pattern has a text of its own (`nan` with a payload as nan0xHEX)."""
    if c.type.is_bool:
        return "true" if c.value else "false"
    if c.type.is_float and c.value != c.value:
        raw = struct.pack("<d", c.value)
        return f"nan{'' if raw == _NAN else '0x' + raw.hex()}{c.type.name}"
    return f"{c.value}{c.type.name}"


def exp_text(e: ir.Exp) -> str:
    """One expression, on one or more lines."""
    return Printer().exp(e)


def lambda_text(scope: ir.Lambda) -> str:
    """One scope."""
    return Printer().lam(scope)


def stm_text(s: ir.Stm) -> str:
    """One statement."""
    return Printer().stm(s)


def program_text(p: ir.Program, normal: bool = False) -> str:
    """A whole program.  `normal` numbers variables from 1 and drops their names (see `Printer`)."""
    return Printer(normal).program(p)


SHOW.update({ir.Exp: exp_text, ir.Lambda: lambda_text, ir.Stm: stm_text, ir.Program: program_text})
