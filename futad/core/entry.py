"""What callers see of an entry: its name and its source types.

Apart from the IR, so that a program compiled before is called without it being imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from futad.core.types import Prim


@dataclass(slots=True)
class EntryType:
    """A source type as an entry shows it: `kind` is 'scalar', 'array', 'tuple' or 'record'.

    scalar: `elem`.  array: `elem` (an EntryType that is not an array) and `dims`, each the name of a
    size parameter, an int, or None where the size is the result's own.  tuple, record: `fields`
    (name, type); a tuple's names are '0', '1', ...  Flattened left to right to core values; an array of
    tuples is one core array per component.  A sum type is a record of the tag '#' and the payloads, '#NAME.0', ...;
    `constructors` are its (name, number of payloads), the tag's values in order.
    """

    kind: str
    text: str
    elem: Prim | EntryType | None = None
    dims: tuple[str | int | None, ...] = ()
    fields: tuple[tuple[str, EntryType], ...] = ()
    constructors: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Entry:
    """What the outside sees of an entry function."""

    name: str
    params: tuple[tuple[str, EntryType], ...]
    result: EntryType
    unique: tuple[bool, ...] = ()
    doc: str = ""
