"""Types of the source language, as inference works on them.

A size is a constant, a rigid variable (a size parameter, an i64 value in scope, or the unknown size of
one particular result: a skolem), an expression over those, or a unification variable.  Types and sizes
are unified in place: a solved meta variable points to what it stands for (`resolve`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from futad.core.types import Prim
from futad.errors import Span

if TYPE_CHECKING:
    from futad.source.ast import Expr

_uids = itertools.count(1)


@dataclass(slots=True, eq=False)
class Binding:
    """A name's definition; every use points to one.

    kind: 'value' (bound by a pattern), 'fun' (top-level or local function, or constant), 'intrinsic'
    (lowered by a table in lower/), 'size' (a size parameter; an i64 value too), 'skolem' (the unknown size
    of a result), 'tparam' (a rigid type parameter), 'abstract' (a type that a module type hides), 'failed' (its
    definition has an error, already reported).
    """

    name: str
    kind: str
    scheme: Scheme | None = None
    span: Span | None = None
    decl: Any = None  # the FunDef of a 'fun'
    value: Any = None  # the expression that a `let` gives the name
    level: int = 0  # how many functions deep it is bound; a size may not leave its function
    used: bool = False  # whether a name in the program refers to it
    lifted: bool = False  # a type parameter that may stand for arrays of unknown size (`'~t`, `'^t`)
    loose: bool = False  # a skolem that each value of a lifted type has for itself: two of them may differ
    rep: Any = None  # of an 'abstract' type that an ascription made: the abbreviation that it hides
    via: Via | None = None  # if a module type shows it: what it is the view of
    alias: Size | None = None  # the size this i64 value is known to equal (`let m = n * 2`, `let [n] ...`)
    uid: int = field(default_factory=lambda: next(_uids))

    def __repr__(self) -> str:
        return f"{self.name}#{self.uid}"


@dataclass(slots=True, eq=False)
class Via:
    """A value that a module type shows with a type of its own: how that instantiates the value's type."""

    binding: Binding
    types: dict[Binding, SType]
    sizes: dict[Binding, Size]


# --- sizes --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SizeConst:
    value: int


@dataclass(frozen=True, slots=True)
class SizeVar:
    """A size parameter, an i64 value, or a skolem."""

    binding: Binding


@dataclass(frozen=True, slots=True)
class SizeExp:
    """A size expression such as `n * m`; equal by `key`, its normal form over `args`.

    `expr` is the (typed) source expression that computes it.  When a scheme is instantiated the sizes in
    `args` are substituted; lowering evaluates `expr` with the bindings of `params` standing for `args`.
    """

    key: str
    expr: Expr = field(compare=False, hash=False)
    params: tuple[Binding, ...] = ()
    args: tuple[Size, ...] = ()


@dataclass(slots=True, eq=False)
class SizeMeta:
    """A size to be found by unification."""

    ref: Size | None = None
    span: Span | None = None
    level: int = 0
    uid: int = field(default_factory=lambda: next(_uids))


Size = SizeConst | SizeVar | SizeExp | SizeMeta

# --- types --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TPrim:
    prim: Prim


@dataclass(frozen=True, slots=True)
class TArray:
    """One dimension over any non-functional element type; `unique` is `*`."""

    size: Size
    elem: SType
    unique: bool = False


@dataclass(frozen=True, slots=True)
class TRecord:
    """A record, or a tuple (fields '0', '1', ...; the unit type has no fields); in field order."""

    fields: tuple[tuple[str, SType], ...]

    @property
    def is_tuple(self) -> bool:
        return all(n == str(i) for i, (n, _) in enumerate(self.fields))


@dataclass(frozen=True, slots=True)
class TFun:
    """param -> result; `name` is the parameter's name when the result's sizes may mention it.

    `exists` are the sizes that each call makes anew (`?[n].`, or unknown by nature, as filter's).
    """

    param: SType
    result: SType
    name: Binding | None = None
    exists: tuple[Binding, ...] = ()


@dataclass(frozen=True, slots=True)
class TParam:
    """A rigid type parameter (`'t`), or an abstract type; `unique` is `*`."""

    binding: Binding
    unique: bool = False


@dataclass(frozen=True, slots=True)
class TSum:
    """Constructors with their payloads."""

    constrs: tuple[tuple[str, tuple[SType, ...]], ...]


@dataclass(slots=True, eq=False)
class TMeta:
    """A type to be found.  `kind` limits it: None, 'num', 'int', 'float', 'bits' (int or bool),
    'ord' (num or bool), 'eq' (what '==' compares) or 'any' (no function)."""

    ref: SType | None = None
    kind: str | None = None
    span: Span | None = None
    fields: dict[str, SType] | None = None  # fields a projection asked for, while still unknown
    constrs: dict[str, tuple[SType, ...]] | None = None  # constructors used, while still unknown
    level: int = 0
    lifted: bool = False  # it stands for a lifted type parameter
    uid: int = field(default_factory=lambda: next(_uids))


SType = TPrim | TArray | TRecord | TFun | TParam | TSum | TMeta


@dataclass(slots=True)
class Scheme:
    """A type with quantified type parameters and sizes ('tparam' and 'size' bindings)."""

    tparams: tuple[Binding, ...]
    sizes: tuple[Binding, ...]
    type: SType


_LONG = 8


def resolve(t: SType) -> SType:
    """`t` with solved metas followed at its head; a long way is taken once."""
    first, way = t, 0
    while type(t) is TMeta and t.ref is not None:
        t = t.ref
        way += 1
    if way > _LONG:
        while type(first) is TMeta and first.ref is not t and first.ref is not None:
            first.ref, first = t, first.ref
    return t


def resolve_size(s: Size) -> Size:
    """`s` with solved metas and aliases followed at its head."""
    while True:
        if type(s) is SizeMeta and s.ref is not None:
            s = s.ref
        elif type(s) is SizeVar and s.binding.alias is not None:
            s = s.binding.alias
        else:
            return s
