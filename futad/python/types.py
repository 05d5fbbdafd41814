"""Types as annotations: `f64`, `f64["n", "d"]`, jaxtyping's spelling, and structures of these.

Sizes are names, whole numbers, and `+ - *` of them.  What names the same size in several arguments is the same size.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.core.types import PRIMS
from futad.errors import UsageError
from futad.python.place import misuse
from futad.python.sizes import Size, parse_size
from futad.python.trees import LEAF, Tree


@dataclass(frozen=True, slots=True)
class Type:
    """A number (no `dims`) or an array."""

    elem: str
    dims: tuple[Size, ...] = ()

    def __str__(self) -> str:
        return self.elem + (f"[{', '.join(repr(str(d)) for d in self.dims)}]" if self.dims else "")


class Elem:
    """A type of elements: as an annotation a number's, and with sizes in brackets an array's."""

    def __init__(self, elem: str) -> None:
        self.elem = elem

    def __getitem__(self, sizes: Any) -> Type:
        return Type(self.elem, tuple([parse_size(s) for s in (sizes if isinstance(sizes, tuple) else (sizes,))]))

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's."""
        return PRIMS[self.elem].dtype

    def __repr__(self) -> str:
        return self.elem

    def __call__(self, *_: Any) -> Any:  # so that typing takes it for a type
        misuse(f"{self.elem} is a type", f"x.astype({self.elem}) converts a value")


class Jaxtyped:
    """`Float64[Array, "n d"]`, as jaxtyping spells the types of arrays."""

    def __init__(self, elem: str) -> None:
        self.elem = elem

    def __getitem__(self, given: tuple[Any, str]) -> Type:
        sizes = given[1] if isinstance(given, tuple) and len(given) == 2 else None
        if not isinstance(sizes, str):
            misuse(f'an array and its sizes stand in the brackets, such as [Array, "n d"], not {given!r}')
        return jaxtyped(self.elem, sizes)


def jaxtyped(elem: str, sizes: str) -> Type:
    """The type of sizes that a blank separates."""
    return Type(elem, tuple([parse_size(s) for s in sizes.split()]))


_PYTHON: dict[Any, str] = {float: "f64", int: "i64", bool: "bool", **{p.dtype.type: str(p) for p in PRIMS.values()}}


def read(annotation: Any, what: str) -> tuple[list[Type], Tree]:
    """The types of the leaves that an annotation describes, and the structure of the value.  Raises UsageError."""
    if isinstance(annotation, Type):
        return [annotation], LEAF
    if isinstance(annotation, Elem):
        return [Type(annotation.elem)], LEAF
    if isinstance(annotation, type | type(np.float64)) and annotation in _PYTHON:
        return [Type(_PYTHON[annotation])], LEAF
    if typing.get_origin(annotation) is typing.Annotated:
        inside = [a for a in annotation.__metadata__ if isinstance(a, Type | Elem)]
        return read(inside[0] if inside else annotation.__origin__, what)
    if hasattr(annotation, "dim_str") and hasattr(annotation, "dtypes"):  # jaxtyping's own
        elems = [e for e in PRIMS if PRIMS[e].dtype.name in annotation.dtypes]
        if len(elems) != 1:
            misuse(f"{what}: {annotation} allows several element types", "name one, such as Float64")
        return [jaxtyped(elems[0], annotation.dim_str)], LEAF
    found = _structure(annotation)
    if found is None:
        misuse(f"{what} has no type of futad's: {_shown(annotation)}",
               'such as f64, f64["n", "d"], i64["n"]; a Python argument is named in static=')  # fmt: skip
    kind, names, parts, make = found
    if not parts or (kind == "tuple" and len(parts) == 1):
        misuse(f"{what}: a {kind} of {len(parts)} parts", "give the value itself, or a dict that names it")
    made = [read(p, f"{what}.{n}") for n, p in zip(names, parts, strict=True)]
    return [t for ts, _ in made for t in ts], Tree(kind, tuple(names), tuple([t for _, t in made]), make)


def _structure(annotation: Any) -> tuple[str, Sequence[str], list[Any], Callable[[Sequence[Any]], Any]] | None:
    if isinstance(annotation, dict):
        keys = list(annotation)
        return "record", keys, list(annotation.values()), lambda parts: dict(zip(keys, parts, strict=True))
    if isinstance(annotation, tuple):
        return "tuple", list(map(str, range(len(annotation)))), list(annotation), tuple
    if typing.get_origin(annotation) is tuple:
        parts = list(typing.get_args(annotation))
        return None if Ellipsis in parts else ("tuple", list(map(str, range(len(parts)))), parts, tuple)
    if not isinstance(annotation, type) or not hasattr(annotation, "__annotations__"):
        return None
    hints = {n: t for base in reversed(annotation.__mro__[:-1]) if "__annotations__" in vars(base)
             for n, t in hints_of(base).items()}  # fmt: skip
    if dataclasses.is_dataclass(annotation):
        names = [f.name for f in dataclasses.fields(annotation)]
        return "record", names, [hints[n] for n in names], lambda p: annotation(**dict(zip(names, p, strict=True)))
    if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        names = list(annotation._fields)
        return "record", names, [hints[n] for n in names], lambda p: annotation(*p)
    if typing.is_typeddict(annotation):
        names = list(hints)
        return "record", names, list(hints.values()), lambda p: dict(zip(names, p, strict=True))
    return None


def hints_of(of: Any) -> dict[str, Any]:
    """The annotations of a function or class, evaluated where they are text.  Raises UsageError."""
    names = dict(vars(sys.modules.get(of.__module__, typing)))
    if isinstance(of, types.FunctionType):
        names = {**of.__globals__, **inspect.getclosurevars(of).nonlocals}
    found = {n: a.__forward_arg__ if isinstance(a, typing.ForwardRef) else a for n, a in of.__annotations__.items()}
    try:
        return {n: eval(a, names) if isinstance(a, str) else a for n, a in found.items()}
    except (NameError, AttributeError, SyntaxError) as e:
        raise UsageError(f"{of.__qualname__}: an annotation cannot be evaluated: {e}",
                         hint="import its names at the top of the file") from None  # fmt: skip


def _shown(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "it has no annotation"
    if isinstance(annotation, type) or typing.get_origin(annotation) is collections.abc.Callable:
        return str(getattr(annotation, "__name__", annotation))
    return repr(annotation)


__all__ = ["Elem", "Jaxtyped", "Type", "hints_of", "read"]
