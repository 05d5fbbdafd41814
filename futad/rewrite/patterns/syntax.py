"""The syntax of rules: core text (`core/text.py`) with metavariables.

    rule NAME:
      STATEMENTS          the last is the root, the others define what it uses
      =>
      STATEMENTS          that bind what the root binds
      where CONDITION, ...
      changes nan, ...    what it does not keep (`CHANGES` in `strategy.py`)

    ?x              an atom; also a size, a variable that is bound, a parameter
    ?x: [?n]f64     one of this type, where it is bound
    ??xs            any number of atoms
    \\?f             a scope; ?f(?a, ??bs) on the right is a copy of its statements
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NoReturn

from futad.core import ir
from futad.core.construct import SHOW
from futad.core.node import Range
from futad.core.parse import TOKEN, Parser
from futad.core.types import BOOL, ArrayType, Atom, Var
from futad.errors import ParseError, RuleError, Span
from futad.rewrite.strategy import CHANGES

_TOKEN = re.compile(r"(?P<many>\?\?[A-Za-z_]\w*)|(?P<meta>\?[A-Za-z_]\w*)|(?P<new>=>|<)|" + TOKEN.pattern, re.VERBOSE)
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
ANY: Any = "any"  # a field that a pattern leaves out


class Hole(ir.Lambda):
    """`\\?f`: any scope."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__((), (), ())
        self.name = name


@dataclass(slots=True, eq=False, repr=False)
class Apply(ir.Exp):
    """`?f(atoms)`: the statements of a scope on these arguments."""

    kinds: ClassVar[dict[str, str]] = {"name": "str", "args": "Atoms"}
    name: str
    args: ir.Atoms

    def operands(self) -> list[Atom]:
        return list(self.args)

    def lambdas(self) -> list[ir.Lambda]:
        return []


SHOW[Apply] = lambda e: f"?{e.name}({', '.join(a.name for a in e.args)})"


@dataclass(frozen=True, slots=True)
class Condition:
    """`name(args)`, or `name(args) < limit`."""

    name: str
    args: tuple[str, ...]  # names of metavariables and scopes
    limit: int | None
    line: int


@dataclass(slots=True)
class Scheme:
    """A rule's text taken apart.  Metavariables are variables, of which the names alone count ('?x', '??xs') and
    `given` has the types that are written."""

    name: str
    text: str
    file: str
    line: int
    before: tuple[ir.Stm, ...]
    after: tuple[ir.Stm, ...]
    where: tuple[Condition, ...]
    changes: tuple[str, ...]
    given: dict[Var, ir.Type]
    lines: dict[int, int]  # of statements, by identity

    @property
    def root(self) -> ir.Stm:
        return self.before[-1]

    def fail(self, message: str, at: ir.Stm | int | None = None) -> NoReturn:
        """Raise a RuleError of this rule, at a statement or line."""
        line = self.lines.get(id(at), self.line) if not isinstance(at, int) else at
        source = self.text.splitlines()[line - self.line] if 0 <= line - self.line < self.text.count("\n") + 1 else None
        col = len(source) - len(source.lstrip()) + 1 if source else 1
        end = len(source) + 1 if source else 2
        raise RuleError(f"rule {self.name}: {message}", Span(self.file, line, col, line, end), source_line=source)


def is_many(v: object) -> bool:
    """Whether it stands for any number of atoms."""
    return type(v) is Var and v.name.startswith("??")


def atoms_in(x: Any) -> Iterator[Var]:
    """The metavariables in a part of a pattern, those that are bound and those in scopes included."""
    if type(x) is Var:
        yield x
    elif isinstance(x, tuple | list):
        for y in x:
            yield from atoms_in(y)
    elif isinstance(x, Range):
        yield from atoms_in((x.start, x.count, x.stride))
    elif isinstance(x, ArrayType):
        yield from atoms_in(x.shape)
    elif isinstance(x, ir.Stm):
        yield from atoms_in(x.exp)
        yield from atoms_in(x.pat)
    elif isinstance(x, ir.Lambda):
        yield from atoms_in((x.params, x.stms, x.result))
    elif isinstance(x, ir.Fold):
        yield from atoms_in((x.lam, x.neutral))
    elif isinstance(x, ir.Exp):
        yield from atoms_in([getattr(x, f) for f in type(x).kinds])


def holes_in(x: Any) -> Iterator[str]:
    """The names of scopes that a part of a pattern leaves open, or applies."""
    if isinstance(x, Hole):
        yield x.name
    elif isinstance(x, Apply):
        yield x.name
    elif isinstance(x, ir.Exp):
        for lam in x.lambdas():
            yield from holes_in(lam)
    elif isinstance(x, ir.Lambda):
        yield from holes_in(x.stms)
    elif isinstance(x, tuple):
        for s in x:
            yield from holes_in(s.exp)


def map_atoms(x: Any, f: Any) -> Any:
    """A part of a pattern with `f` in place of each atom; where it is one of several, `f` gives a tuple."""
    if type(x) is tuple:
        out: list[Any] = []
        for y in x:
            new = map_atoms(y, f)
            out += new if is_many(y) else [new]
        return tuple(out)
    if type(x) is Var:
        return f(x)
    if isinstance(x, Range):
        return Range(f(x.start), f(x.count), f(x.stride))
    if isinstance(x, ArrayType):
        return ArrayType(x.elem, map_atoms(x.shape, f))
    if isinstance(x, Hole):
        return x
    if isinstance(x, ir.Lambda):
        return ir.Lambda(*[map_atoms(y, f) for y in (x.params, x.stms, x.result)])
    if isinstance(x, ir.Fold):
        return ir.Fold(map_atoms(x.lam, f), map_atoms(x.neutral, f), x.comm)
    if isinstance(x, ir.Stm):
        return ir.Stm(map_atoms(x.pat, f), map_atoms(x.exp, f), x.attrs)
    if isinstance(x, ir.Exp):
        return type(x)(*[map_atoms(getattr(x, k), f) for k in type(x).kinds])
    return x


class _Rules(Parser):
    token = _TOKEN

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.given: dict[Var, ir.Type] = {}
        self.lines: dict[int, int] = {}
        self.left = True

    # -- metavariables

    def line(self) -> int:
        return self.text.count("\n", 0, self.toks[self.pos][2]) + 1

    def meta(self, tok: str) -> Var:
        v = self.vars.get(tok)
        if v is None:
            v = self.vars[tok] = Var(tok, BOOL)
        return v

    def atom_of(self, kind: str | None, tok: str) -> Atom:
        return self.meta(tok) if kind in ("meta", "many") else super().atom_of(kind, tok)

    def value(self) -> Any:
        kind, tok, _ = self.toks[self.pos]
        if kind not in ("meta", "many"):
            return super().value()
        self.pos += 1
        a = self.meta(tok)
        if self.accept(":"):
            count = self.atom()
            self.expect(":")
            return Range(a, count, self.atom())
        return a

    def binder(self) -> Var:
        kind, tok = self.next()
        if kind not in ("meta", "many"):
            self.fail(f"expected a metavariable, found '{tok or 'end of text'}'", self.pos - 1)
        v = self.meta(tok)
        if self.accept(":"):
            self.given[v] = self.type_()
        return v

    def lam(self) -> ir.Lambda:
        if self.peek() == "\\" and self.toks[self.pos + 1][0] == "meta":
            self.pos += 2
            return Hole(self.toks[self.pos - 1][1][1:])
        return super().lam()

    def stm(self) -> ir.Stm:
        line = self.line()
        out = super().stm()
        self.lines[id(out)] = line
        return out

    def exp(self) -> ir.Exp:
        kind, tok, _ = self.toks[self.pos]
        if kind == "meta" and self.toks[self.pos + 1][1] == "(":
            if self.left:
                self.fail("a scope is applied on the right side only")
            self.pos += 2
            return Apply(tok[1:], tuple(self.until(")", self.atom)))
        return super().exp()

    def fields(self, cls: Any, values: list[Any], at: int) -> ir.Exp:
        """A construct of which a pattern may leave out the last fields: any on the left, defaults on the right."""
        own = [f for f in fields(cls) if f.name in cls.kinds]
        missing = own[len(values) :]
        if len(values) > len(own) or any(f.default is f.default_factory for f in missing):
            return super().fields(cls, values, at)
        # A read or a write is one without a check where a pattern does not say.
        return cls(*values, *([None if f.name == "check" else ANY for f in missing] if self.left else []))

    # -- rules

    def condition(self) -> Condition:
        line = self.line()
        name = self.next()[1]
        self.expect("(")
        args: list[str] = []
        while not self.accept(")"):
            if args:
                self.expect(",")
            self.accept("\\")
            kind, tok = self.next()
            if kind not in ("meta", "many"):
                self.fail(f"expected a metavariable, found '{tok}'", self.pos - 1)
            args.append(tok)
        limit = None
        if self.accept("<"):
            kind, tok = self.next()
            if kind != "int":
                self.fail(f"expected a number, found '{tok}'", self.pos - 1)
            limit = int(tok)
        return Condition(name, tuple(args), limit, line)

    def rule(self) -> Scheme:
        first = self.line()
        start = self.toks[self.pos][2]
        self.expect("rule")
        name = self.next()[1]
        if not _NAME.match(name):
            self.fail(f"expected a rule's name, found '{name}'", self.pos - 1)
        self.expect(":")
        self.vars, self.given, self.lines = {}, {}, {}
        self.left = True
        before = self.side(("=>",))
        self.expect("=>")
        self.left = False
        after = self.side(("where", "changes", "rule", ""))
        where = self.clause("where", self.condition)
        changes = self.clause("changes", self.change)
        text = self.text[start : self.toks[self.pos][2]].rstrip()
        return Scheme(name, text, self.file, first, before, after, where, changes, self.given, self.lines)

    def clause(self, word: str, item: Any) -> tuple[Any, ...]:
        out: list[Any] = []
        while self.accept("," if out else word):
            out.append(item())
        return tuple(out)

    def change(self) -> str:
        if self.peek() not in CHANGES:
            self.fail(f"expected one of {', '.join(CHANGES)}, found '{self.peek()}'")
        return self.next()[1]

    def side(self, ends: tuple[str, ...]) -> tuple[ir.Stm, ...]:
        out: list[ir.Stm] = []
        while self.peek() not in ends:
            if self.peek() == "where":
                self.fail("conditions stand after the right side")
            out.append(self.stm())
        return tuple(out)

    def all(self) -> list[Scheme]:
        out: list[Scheme] = []
        while self.toks[self.pos][0] != "end":
            out.append(self.rule())
        return out


def parse(text: str, file: str) -> list[Scheme]:
    """The rules of a text.  Raises RuleError."""
    try:
        return _Rules(text, file).all()
    except ParseError as e:
        raise RuleError(e.message, e.span, source_line=e.source_line) from None


def expanded(s: Scheme, count: int) -> Scheme:
    """The scheme with `count` metavariables for each that stands for any number."""
    made: dict[Var, tuple[Var, ...]] = {}

    def f(v: Var) -> Any:
        if not is_many(v):
            return v
        if v not in made:
            made[v] = tuple([Var(f"{v.name[1:]}.{k}", BOOL) for k in range(count)])
        return made[v]

    before, after = map_atoms(s.before, f), map_atoms(s.after, f)
    lines = {id(b): s.lines[id(a)] for a, b in zip(s.before + s.after, before + after, strict=True)}
    return replace(s, before=before, after=after, lines=s.lines | lines)


__all__ = ["ANY", "Apply", "Condition", "Hole", "Scheme", "atoms_in", "expanded", "holes_in", "is_many",
           "map_atoms", "parse"]  # fmt: skip
