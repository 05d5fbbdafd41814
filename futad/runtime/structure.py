"""The structure of users' values: tuples, records, sums and arrays of these, as flat components and back.

The components' own dtypes and shapes are the business of `values.py`, which says what may be passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from futad.core.entry import EntryType
from futad.core.types import Prim
from futad.errors import DtypeError, InputError, ShapeError
from futad.imports import when_imported


class Record(dict[str, Any]):
    """A record result: a dict whose items can also be read as attributes (`r.x` is `r["x"]`); to JAX a pytree."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the record has no field {name!r}; it has {', '.join(self)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        return "Record(" + ", ".join(f"{k}={v!r}" for k, v in self.items()) + ")"


def _as_pytree() -> None:
    """Make records pytrees of JAX, whose components are named as those of a dict, in the record's own order."""
    from jax.tree_util import DictKey, register_pytree_with_keys

    def fields(r: Record) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        return [(DictKey(name), value) for name, value in r.items()], tuple(r)

    def record(names: tuple[str, ...], values: Iterable[Any]) -> Record:
        return Record(zip(names, values, strict=True))

    register_pytree_with_keys(Record, fields, record)


when_imported("jax", _as_pytree)


class Empty:
    """An array of zeros (or of nothing) of which only the leading sizes are known; other arguments give the rest."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def leaf_types(t: EntryType) -> Iterator[tuple[str, int]]:
    """(suffix of the path, number of outer dimensions) of each flat component."""
    if t.kind == "scalar":
        yield "", 0
    elif t.kind == "array":
        if isinstance(t.elem, EntryType):
            for suffix, rank in leaf_types(t.elem):
                yield suffix, rank + len(t.dims)
        else:
            yield "", len(t.dims)
    else:
        for name, f in t.fields:
            for suffix, rank in leaf_types(f):
                yield f".{name}{suffix}", rank


def leaf_paths(t: EntryType, name: str) -> list[str]:
    """How messages call each flat component of a parameter."""
    return [name + suffix for suffix, _ in leaf_types(t)]


def count_leaves(t: EntryType) -> int:
    return sum(1 for _ in leaf_types(t))


def flatten_value(t: EntryType, value: Any, path: str, entry: str) -> list[Any]:
    """The components of a user's value, not yet converted."""
    if t.kind == "scalar":
        return [value]
    if t.constructors and isinstance(value, str | tuple):
        return _sum_leaves(t, value, path, entry)
    if t.kind == "array":
        elem, rank = t.elem, len(t.dims)
        while isinstance(elem, EntryType) and elem.kind == "array":  # a field of array type, lifted
            rank += len(elem.dims)
            elem = elem.elem
        if not isinstance(elem, EntryType) or elem.kind == "scalar":
            return [value]
        return _flatten_array(elem, rank, value, path, entry)
    return [
        leaf
        for (name, ft), part in zip(t.fields, _parts(t, value, path, entry), strict=True)
        for leaf in flatten_value(ft, part, f"{path}.{name}", entry)
    ]


def _flatten_array(elem: EntryType, rank: int, value: Any, path: str, entry: str) -> list[Any]:
    """The component arrays of an array of tuples or records."""
    if isinstance(value, np.ndarray) and value.dtype.names:
        if len(value.dtype.names) != len(elem.fields):
            raise DtypeError(
                f"argument '{path}' of {entry}: expected fields {_field_names(elem)}, "
                f"got a structured array with {', '.join(value.dtype.names)}"
            )
        record = elem.kind == "record"
        columns = [value[n if record else value.dtype.names[i]] for i, (n, _) in enumerate(elem.fields)]
        return [
            leaf
            for (name, ft), column in zip(elem.fields, columns, strict=True)
            for leaf in flatten_value(_lifted(ft, rank), column, f"{path}.{name}", entry)
        ]
    if isinstance(value, list) or (elem.constructors and isinstance(value, tuple)):
        return _transpose_rows(elem, rank, value, path, entry)
    return [
        leaf
        for (name, ft), part in zip(elem.fields, _parts(elem, value, path, entry), strict=True)
        for leaf in flatten_value(_lifted(ft, rank), part, f"{path}.{name}", entry)
    ]


def _lifted(t: EntryType, rank: int) -> EntryType:
    """`t` under `rank` more outer dimensions (only the structure matters here)."""
    return EntryType("array", t.text, t, (None,) * rank)


def _transpose_rows(elem: EntryType, rank: int, rows: Sequence[Any], path: str, entry: str) -> list[Any]:
    inner = elem if rank == 1 else EntryType("array", elem.text, elem, (None,) * (rank - 1))
    columns: list[list[Any]] = [[] for _ in range(count_leaves(elem))]
    for i, row in enumerate(rows):
        for column, leaf in zip(columns, flatten_value(inner, row, f"{path}[{i}]", entry), strict=True):
            column.append(leaf)
    return [_column(c) for c in columns] if elem.constructors else list(columns)


def _parts(t: EntryType, value: Any, path: str, entry: str) -> list[Any]:
    if t.kind == "record":
        if isinstance(value, Mapping):
            unknown = [k for k in value if k not in dict(t.fields)]
            missing = [n for n, _ in t.fields if n not in value]
            if unknown or missing:
                what = f"field {missing[0]!r} is missing" if missing else f"there is no field {unknown[0]!r}"
                raise InputError(f"argument '{path}' of {entry}: {what}; the fields are {_field_names(t)}")
            if t.constructors:
                _check_tags(t, value["#"], path, entry)
            return [value[n] for n, _ in t.fields]
        if all(hasattr(value, n) for n, _ in t.fields):
            return [getattr(value, n) for n, _ in t.fields]
        if t.constructors:
            hint = "write " + " or ".join([_constructor_text(t, n) for n, _ in t.constructors])
            raise DtypeError(f"argument '{path}' of {entry}: expected {t.text}, got {describe(value)}", hint=hint)
        raise DtypeError(
            f"argument '{path}' of {entry}: expected a record with {_field_names(t)} (a dict, or an object "
            f"with these attributes), got {describe(value)}"
        )
    if isinstance(value, tuple | list):
        if len(value) != len(t.fields):
            raise ShapeError(f"argument '{path}' of {entry}: expected a tuple of {len(t.fields)}, got {len(value)}")
        return list(value)
    raise DtypeError(f"argument '{path}' of {entry}: expected a tuple {t.text}, got {describe(value)}")


def _field_names(t: EntryType) -> str:
    return ", ".join(n for n, _ in t.fields)


def build_value(t: EntryType, leaves: Iterator[Any]) -> Any:
    """The user's view of flat components, in order."""
    if t.kind == "scalar":
        return next(leaves)
    if t.kind == "array":
        if isinstance(t.elem, EntryType) and t.elem.kind != "scalar":
            return build_value(t.elem, leaves)
        return next(leaves)
    parts = [(name, build_value(ft, leaves)) for name, ft in t.fields]
    if t.constructors:
        return _sum_value(t, parts)
    if t.kind == "record":
        return Record(parts)
    return tuple([v for _, v in parts])


# --- sums -----------------------------------------------------------------------------------------------
#
# A sum type is a record of the tag '#' and the arguments of all constructors (`EntryType`).  Users see a constructor's
# name and its arguments, ("rbf", 1.3); the arguments of the others are zeros.


def _sum_leaves(t: EntryType, value: str | tuple[Any, ...], path: str, entry: str) -> list[Any]:
    """The components of a constructor with its arguments; a name alone is one without any."""
    name, *given = (value,) if isinstance(value, str) else value or ("",)
    counts = dict(t.constructors)
    if not isinstance(name, str) or name not in counts:
        message = f"argument '{path}' of {entry}: {describe(name)} is no constructor of {t.text}"
        raise InputError(message, hint="write " + " or ".join([_constructor_text(t, n) for n in counts]))
    if len(given) != counts[name]:
        message = f"argument '{path}' of {entry}: {name!r} has {count_text(counts[name], 'argument')}, not {len(given)}"
        raise ShapeError(message, hint=f"write {_constructor_text(t, name)}")
    own = {f"#{name}.{i}": v for i, v in enumerate(given)}
    own["#"] = list(counts).index(name)
    return [
        leaf
        for n, ft in t.fields
        for leaf in (flatten_value(ft, own[n], f"{path}.{n}", entry) if n in own else _nothing(ft))
    ]


def _check_tags(t: EntryType, tags: Any, path: str, entry: str) -> None:
    """That each tag is a constructor's.  What another library traces is not looked at."""
    if isinstance(tags, int | list | np.ndarray | np.generic):
        array = np.asarray(tags)
        if array.dtype.kind in "iu" and len(bad := array[(array < 0) | (array >= len(t.constructors))]):
            names = ", ".join([f"{i} {name!r}" for i, (name, _) in enumerate(t.constructors)])
            message = f"argument '{path}.#' of {entry}: {bad.flat[0]} is no constructor of {t.text}"
            raise InputError(message, hint=f"the constructors are {names}")


def _constructor_text(t: EntryType, name: str) -> str:
    """`("poly", f64, i64)`."""
    args = [ft.text for n, ft in t.fields if n.startswith(f"#{name}.")]
    return f"({', '.join([repr(name), *args])}{'' if args else ','})"


def _nothing(t: EntryType, rank: int = 0) -> list[Any]:
    """Zeros for the components of a type; arrays have the sizes that other arguments tell."""
    if isinstance(t.elem, EntryType):
        return _nothing(t.elem, rank + len(t.dims))
    if isinstance(t.elem, Prim):
        zero: Any = False if t.elem.is_bool else 0 if t.elem.is_integral else 0.0
        return [Empty(()) if rank or t.dims else zero]
    return [leaf for _, ft in t.fields for leaf in _nothing(ft, rank)]


def _sum_value(t: EntryType, parts: list[tuple[str, Any]]) -> Any:
    """The constructor with its arguments, if the tag is a known number; else, as in an array of sums or where another
    library traces, the record of all parts."""
    tag = parts[0][1]
    if not isinstance(tag, np.integer):
        return Record(parts)
    name = t.constructors[int(tag)][0]
    return (name, *[v for n, v in parts if n.startswith(f"#{name}.")])


def parts_of_sum(t: EntryType, value: Any) -> Any:
    """The record of all parts of a sum, given as a constructor with its arguments or as that record."""
    if not isinstance(value, str | tuple):
        return value
    leaves = iter(_sum_leaves(t, value, "", ""))
    return Record([(n, build_value(ft, leaves)) for n, ft in t.fields])


def _column(leaves: list[Any]) -> Any:
    """One component of rows that are sums: zeros of its rows' dtype and shape in those of other constructors."""
    like = next((v for v in leaves if isinstance(v, np.generic)), None)
    if like is not None:
        return [type(like)(0) if type(v) in (bool, int, float) and not v else v for v in leaves]
    if not any(isinstance(v, Empty) for v in leaves):
        return leaves
    there = [v for v in leaves if not isinstance(v, Empty)]
    if not there:
        return Empty((len(leaves),))
    zeros = np.zeros_like(np.asarray(there[0]))
    filler = zeros if any(isinstance(v, np.ndarray) for v in there) else zeros.tolist()  # arrays' dtype counts
    return [filler if isinstance(v, Empty) else v for v in leaves]


# --- texts ------------------------------------------------------------------------------------------------


def describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, bool | int | float | str):
        text = repr(value)
        return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
    return f"a value of type {type(value).__name__}"


def count_text(n: int, what: str) -> str:
    """`1 value`, `2 values`."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


__all__ = [
    "Empty", "Record", "build_value", "count_leaves", "count_text", "describe", "flatten_value", "leaf_paths",
    "leaf_types", "parts_of_sum",
]  # fmt: skip
