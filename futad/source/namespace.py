"""Modules as namespaces: what they export, and the scope at a place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from futad.errors import Span
from futad.source import ast as A
from futad.source import modast as M
from futad.source.check_types import Abbreviation
from futad.source.types import Binding

if TYPE_CHECKING:
    from futad.source.check import Checker


@dataclass(slots=True, eq=False)
class Module:
    """What a module exports."""

    names: dict[str, Binding] = field(default_factory=dict)
    types: dict[str, Abbreviation] = field(default_factory=dict)
    mods: dict[str, Module | Functor] = field(default_factory=dict)
    sigs: dict[str, Signature] = field(default_factory=dict)
    opened: set[tuple[str, str]] = field(default_factory=set)  # kinds and names that `open` brought, not a definition


@dataclass(slots=True, eq=False)
class Functor:
    """A parametric module: a parameter, and a body in the scope and the file of its definition."""

    param: M.ModParam
    ret: M.ModType | None
    body: M.ModExp
    scope: Module
    file: A.File  # imports in the body are relative to it


@dataclass(slots=True, eq=False)
class Signature:
    """A module type with the scope of its definition."""

    sig: M.ModType
    scope: Module


# What names mean whose definitions have errors.
FAILED_MODULE = Module()
FAILED_SIGNATURE = Signature(M.ModType(Span("", 1, 1, 1, 1)), FAILED_MODULE)

# Module types of the prelude restrict nothing: only the numeric modules have them.
BUILTIN_SIGS = {"from_prim", "numeric", "integral", "size", "real", "float"}


def scope_of(ck: Checker) -> Module:
    """All that is in scope now."""
    return Module(dict(ck.names), dict(ck.types), dict(ck.mods), dict(ck.sigs))
