"""Types of the core IR: scalars, arrays of scalars with explicit sizes, accumulators; variables and constants.

An atom is a variable or a constant; every operand is one.  A variable carries its type and is hashed
by identity.  An array type names its sizes by `i64` atoms, so a type can mention variables.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from futad.errors import Span


@final
@dataclass(frozen=True, slots=True, eq=False)
class Prim:
    """A scalar type.  `kind` is 'int', 'uint', 'float', 'bool' or 'rec'; `bits` its width."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype[Any]

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integral(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (prim, (self.name,))


def _prim(name: str, kind: str, bits: int, dtype: str) -> Prim:
    return Prim(name, kind, bits, np.dtype(dtype))


I8 = _prim("i8", "int", 8, "int8")
I16 = _prim("i16", "int", 16, "int16")
I32 = _prim("i32", "int", 32, "int32")
I64 = _prim("i64", "int", 64, "int64")
U8 = _prim("u8", "uint", 8, "uint8")
U16 = _prim("u16", "uint", 16, "uint16")
U32 = _prim("u32", "uint", 32, "uint32")
U64 = _prim("u64", "uint", 64, "uint64")
F16 = _prim("f16", "float", 16, "float16")
F32 = _prim("f32", "float", 32, "float32")
F64 = _prim("f64", "float", 64, "float64")
BOOL = _prim("bool", "bool", 8, "bool")

# A record of what a call has done, for its return sweep (`ir.Keep`): 0 is none.  No type of the language.
REC = _prim("rec", "rec", 64, "int64")

PRIMS: dict[str, Prim] = {
    p.name: p for p in (I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64, BOOL)
}


def with_true_as_one(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array from outside; if it is one of bools that has bytes other than 0 and 1, a copy where these are 1.  NumPy
    takes them for true."""
    if a.dtype == np.bool_ and bool((a.view(np.uint8) > 1).any()):
        return a.view(np.uint8) != 0
    return a


def prim(name: str) -> Prim:
    """The scalar type of that name."""
    return REC if name == "rec" else PRIMS[name]


@final
class Const:
    """A scalar constant.  Interned by type and bit pattern, so `is` compares (NaN and -0.0 included).

    `value` is a Python int, float or bool; a float's value is already rounded to the type.
    """

    __slots__ = ("type", "value", "_key", "__weakref__")
    type: Prim
    value: Any
    _key: tuple[str, bytes]
    _table: dict[tuple[str, bytes], Const] = {}

    def __new__(cls, type: Prim, value: Any) -> Const:
        if type.kind == "int" or type.kind == "uint" or type is REC:
            value = int(value) & ((1 << type.bits) - 1)
            if type.kind == "int" and value >> (type.bits - 1):
                value -= 1 << type.bits
            raw = b"%d" % value
        elif type.is_float:
            if type is not F64 or value.__class__ is not float:
                with np.errstate(all="ignore"):
                    value = float(type.dtype.type(value))
            raw = struct.pack("<d", value)
        else:
            value = bool(value)
            raw = b"1" if value else b"0"
        key = (type.name, raw)
        found = cls._table.get(key)
        if found is None:
            found = object.__new__(cls)
            found.type, found.value, found._key = type, value, key
            cls._table[key] = found
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return (Const, (self.type, self.value))

    def __repr__(self) -> str:
        return f"{self.value}{self.type}"


_ids = itertools.count(1)


@final
class Var:
    """A variable: bound exactly once in a program, compared and hashed by identity.

    `at` is the place in the source of what computes it, None where that is not known.
    """

    __slots__ = ("name", "type", "id", "at")

    def __init__(self, name: str, type: Type, at: Span | None = None) -> None:
        self.name = name
        self.type = type
        self.id = next(_ids)
        self.at = at

    def __repr__(self) -> str:
        return f"{self.name}_{self.id}"


Atom = Var | Const


@final
@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of `elem` with one i64 atom per dimension (outermost first; rank at least 1)."""

    elem: Prim
    shape: tuple[Atom, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def unknown_sizes(self) -> Counter[Atom]:
        """The sizes that are no constants."""
        return Counter(a for a in self.shape if type(a) is Var)

    @property
    def known_size(self) -> int:
        """The product of those that are."""
        return math.prod(a.value for a in self.shape if type(a) is Const)

    def __repr__(self) -> str:
        return "".join(f"[{s!r}]" for s in self.shape) + self.elem.name


@final
@dataclass(frozen=True, slots=True)
class AccType:
    """A write-only accumulator over an array of this shape.  It has no run-time value of its own.

    A variable of this type is linear: each is used exactly once, by `UpdateAcc`, as an argument of
    `Map`, `For`, `While`, `If`, `WithAcc` (through their bodies), of `Part`, `Whole` and `Call`, or as a result.
    """

    elem: Prim
    shape: tuple[Atom, ...]

    def __repr__(self) -> str:
        return "acc(" + "".join(f"[{s!r}]" for s in self.shape) + self.elem.name + ")"


Type = Prim | ArrayType | AccType


def i64(value: int) -> Const:
    return Const(I64, value)


TRUE = Const(BOOL, True)
FALSE = Const(BOOL, False)
ZERO = i64(0)
ONE = i64(1)
MOST_SHOWN = 4  # values in an assertion's message: what a compiled program reports of a failure
MOST_SIZE = (1 << 62) - 1  # of an array in memory along any dimension; whoever passes one is asked


def zero(t: Prim) -> Const:
    """The additive unit of a scalar type (False for bool)."""
    return Const(t, 0)


def one(t: Prim) -> Const:
    return Const(t, 1)


def elem_of(t: Type) -> Prim:
    """The scalar type an array, accumulator or scalar is made of."""
    return t if isinstance(t, Prim) else t.elem


def prim_of(a: Atom) -> Prim:
    """The type of a scalar."""
    assert isinstance(a.type, Prim), a.type
    return a.type


def shape_of(t: Type) -> tuple[Atom, ...]:
    """The sizes of an array or accumulator type; empty for a scalar."""
    return () if isinstance(t, Prim) else t.shape


def array_of(elem: Type, *outer: Atom) -> Type:
    """`elem` with outer dimensions added; a scalar with none stays a scalar."""
    if not outer:
        return elem
    if isinstance(elem, Prim):
        return ArrayType(elem, outer)
    assert isinstance(elem, ArrayType), elem
    return ArrayType(elem.elem, outer + elem.shape)


def row_type(t: Type, levels: int = 1) -> Type:
    """The type of an element after peeling `levels` outer dimensions."""
    assert isinstance(t, ArrayType) and t.rank >= levels, t
    return ArrayType(t.elem, t.shape[levels:]) if t.rank > levels else t.elem


def subst_type(t: Type, mapping: dict[Var, Atom]) -> Type:
    """`t` with the variables in its sizes replaced; the same object if none is."""
    if type(t) is Prim:
        return t
    for s in t.shape:
        if s in mapping:
            break
    else:
        return t
    shape = tuple(mapping.get(s, s) if isinstance(s, Var) else s for s in t.shape)
    return type(t)(t.elem, shape)
