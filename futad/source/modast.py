"""Syntax of modules: module expressions, module types, and their declarations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from futad.errors import Span
from futad.source.ast import TypeExp, TypeParam


@dataclass(slots=True, eq=False, repr=False)
class ModParam:
    """`(name: sig)`"""

    span: Span
    name: str
    sig: ModType


@dataclass(slots=True, eq=False, repr=False)
class ModExp:
    span: Span


@dataclass(slots=True, eq=False, repr=False)
class MName(ModExp):
    name: str


@dataclass(slots=True, eq=False, repr=False)
class MStruct(ModExp):
    decls: list[Any]


@dataclass(slots=True, eq=False, repr=False)
class MApply(ModExp):
    fun: ModExp
    arg: ModExp


@dataclass(slots=True, eq=False, repr=False)
class MAscript(ModExp):
    mod: ModExp
    sig: ModType


@dataclass(slots=True, eq=False, repr=False)
class MLambda(ModExp):
    param: ModParam
    ret: ModType | None
    body: ModExp


@dataclass(slots=True, eq=False, repr=False)
class MImport(ModExp):
    path: str


@dataclass(slots=True, eq=False, repr=False)
class ModType:
    span: Span


@dataclass(slots=True, eq=False, repr=False)
class SName(ModType):
    name: str


@dataclass(slots=True, eq=False, repr=False)
class SSpecs(ModType):
    specs: list[Any]


@dataclass(slots=True, eq=False, repr=False)
class SArrow(ModType):
    name: str | None
    param: ModType
    result: ModType


@dataclass(slots=True, eq=False, repr=False)
class SWith(ModType):
    """`sig with type = t`; `scope` is where `t` is read, if that is not where `sig` is."""

    sig: ModType
    name: str
    tparams: list[TypeParam]
    texp: TypeExp
    scope: Any = None


@dataclass(slots=True, eq=False, repr=False)
class TypeSpec:
    """`type t` without a definition, in a module type."""

    span: Span
    name: str
    params: list[TypeParam]
    lifted: str


@dataclass(slots=True, eq=False, repr=False)
class ModSpec:
    """`module m: sig` in a module type."""

    span: Span
    name: str
    sig: ModType


@dataclass(slots=True, eq=False, repr=False)
class IncludeSpec:
    """`include sig`"""

    span: Span
    sig: ModType


@dataclass(slots=True, eq=False, repr=False)
class ModBody:
    """What `module name params : sig = mod` binds: the body of an `ast.ModDecl`."""

    params: list[ModParam]
    sig: ModType | None
    mod: ModExp


@dataclass(slots=True, eq=False, repr=False)
class ModTypeBody:
    """What `module type name = sig` binds: the body of an `ast.ModDecl`."""

    sig: ModType
