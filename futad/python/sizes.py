"""Sizes of traced arrays: polynomials over names and over values that only running the program tells.

Two sizes are the same where their polynomials are.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from futad.errors import UsageError

# An atom is a name of the function's, or an object that is known by its identity (a value of the trace).
Atom = Any
Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """A sum of products of atoms; `terms` maps each product, its atoms in order, to its factor, which is not 0."""

    terms: Mapping[Monomial, int]

    @property
    def known(self) -> int | None:
        """The number, where there are no atoms."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def atom(self) -> Atom | None:
        """The atom that it is, if it is one."""
        if len(self.terms) != 1:
            return None
        (mono, factor), = self.terms.items()
        return mono[0] if factor == 1 and len(mono) == 1 else None

    def atoms(self) -> list[Atom]:
        """All of its atoms, each once; of quotients those that they are made of."""
        out = []
        for mono in self.terms:
            for a in mono:
                out += [*a.over.atoms(), *a.by.atoms()] if isinstance(a, Quotient) else [a]
        return list({a if isinstance(a, str) else id(a): a for a in out}.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __add__(self, other: Size | int) -> Size:
        return _made(self.terms, size(other).terms, 1)

    def __sub__(self, other: Size | int) -> Size:
        return _made(self.terms, size(other).terms, -1)

    def __mul__(self, other: Size | int) -> Size:
        out: Mapping[Monomial, int] = {}
        for m1, c1 in self.terms.items():
            for m2, c2 in size(other).terms.items():
                out = _made(out, {tuple(sorted(m1 + m2, key=_order)): c1 * c2}, 1).terms
        return Size(out)

    def divided(self, by: Size | int) -> Size:
        """Its quotient by another one, rounded down; exact where that is shown."""
        other = size(by)
        if (n := self.known) is not None and (d := other.known):
            return size(n // d)
        if other.known == 1:
            return self
        if len(other.terms) == 1 and self.terms:
            (mono, factor), = other.terms.items()
            left = [(_without(m, mono), f) for m, f in self.terms.items()]
            if all(m is not None and f % factor == 0 for m, f in left):
                return Size({m: f // factor for m, f in left if m is not None})
        return size(Quotient(self, other))

    def replaced(self, by: Mapping[Atom, Size]) -> Size:
        """With sizes in the places of atoms."""
        out = Size({})
        for mono, factor in self.terms.items():
            term = size(factor)
            for a in mono:
                if isinstance(a, Quotient):
                    term = term * a.over.replaced(by).divided(a.by.replaced(by))
                else:
                    term = term * by.get(a, size(a))
            out = out + term
        return out

    def text(self, name: Any = str) -> str:
        """As Futhark writes it; `name` says how an atom is written."""
        if not self.terms:
            return "0"
        out = ""
        for mono, factor in sorted(self.terms.items(), key=lambda t: (not t[0], t[1] < 0)):
            parts = [a.text(name) if isinstance(a, Quotient) else name(a) for a in mono]
            if abs(factor) != 1 or not parts:
                parts.insert(0, str(abs(factor)))
            term = " * ".join(parts)
            if out:
                out += f" - {term}" if factor < 0 else f" + {term}"
            else:
                out = f"-{term}" if factor < 0 else term
        return out

    def __str__(self) -> str:
        return self.text(lambda a: a if isinstance(a, str) else getattr(a, "name", None) or "?")


@dataclass(frozen=True, slots=True)
class Quotient:
    """A size divided by another one, rounded down."""

    over: Size
    by: Size

    def text(self, name: Any) -> str:
        """As Futhark writes it."""
        return f"({_atomic(self.over.text(name))} / {_atomic(self.by.text(name))})"


def _atomic(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _without(mono: Monomial, factors: Monomial) -> Monomial | None:
    """A product without some of its factors; None if it lacks one."""
    left = list(mono)
    for f in factors:
        at = next((i for i, a in enumerate(left) if a is f or (isinstance(a, str | Quotient) and a == f)), None)
        if at is None:
            return None
        del left[at]
    return tuple(left)


def _order(atom: Atom) -> tuple[int, Any]:
    if isinstance(atom, str):
        return 0, atom
    return (1, hash(atom)) if isinstance(atom, Quotient) else (2, id(atom))


def _made(a: Mapping[Monomial, int], b: Mapping[Monomial, int], sign: int) -> Size:
    out = dict(a)
    for mono, factor in b.items():
        if new := out.pop(mono, 0) + sign * factor:
            out[mono] = new
    return Size(out)


def size(x: Size | int | Atom) -> Size:
    """A number or an atom as a size."""
    if isinstance(x, Size):
        return x
    if isinstance(x, int):
        return Size({(): x}) if x else Size({})
    return Size({(x,): 1})


def parse_size(text: str | int) -> Size:
    """`"n"`, `"n - 1"`, `"2 * n * d"`, 3.  Raises UsageError."""
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise UsageError(f"a size is not negative, but {text} is")
        return size(text)
    try:
        return _of(ast.parse(str(text), mode="eval").body)
    except (SyntaxError, ValueError, TypeError):
        hint = 'names, whole numbers, and + - * of them, such as f64["n", "d + 1", 3]'
        raise UsageError(f"{text!r} is not a size", hint=hint) from None


def _of(e: ast.expr) -> Size:
    match e:
        case ast.Name(id=name):
            return size(name)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return size(value)
        case ast.BinOp(left=a, op=ast.Add(), right=b):
            return _of(a) + _of(b)
        case ast.BinOp(left=a, op=ast.Sub(), right=b):
            return _of(a) - _of(b)
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            return _of(a) * _of(b)
    raise ValueError


__all__ = ["Atom", "Size", "parse_size", "size"]
