"""Which arguments of an entry a derivative is taken with respect to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from futad.core.entry import Entry, EntryType
from futad.errors import UsageError
from futad.runtime.values import entry_text

Argnums = int | Sequence[int]


def is_single(argnums: Argnums) -> bool:
    """Whether it is one number, and so its adjoint not in a tuple."""
    return not isinstance(argnums, Iterable)


def numbers(entry: Entry, argnums: Argnums) -> tuple[int, ...]:
    """The arguments named, counted from 0; negative numbers count from the end.  Raises UsageError."""
    count = len(entry.params)
    wrong = UsageError(f"argnums must be an int or a sequence of ints, not {argnums!r}")
    try:
        given = tuple(argnums) if isinstance(argnums, Iterable) else (argnums,)
    except TypeError:
        raise wrong from None
    if not given:
        raise UsageError("argnums is empty: there is nothing to differentiate with respect to")
    out = []
    for n in given:
        if not isinstance(n, int | np.integer) or isinstance(n, bool):
            raise wrong
        n = int(n)
        if not -count <= n < count:
            raise UsageError(f"argnums {n} is out of range: {entry.name} has {count} arguments", hint=entry_text(entry))
        out.append(n % count)
    if len(set(out)) != len(out):
        raise UsageError(f"argnums names an argument twice: {argnums!r}")
    return tuple(out)


def with_floats(entry: Entry) -> tuple[int, ...]:
    """The arguments that hold floating-point numbers.  Raises UsageError if there are none."""
    active = tuple([i for i, (_, t) in enumerate(entry.params) if has_floats(t)])
    if not active:
        raise UsageError(
            f"no argument of {entry.name} holds floating-point numbers; name the integers meant with argnums",
            hint=entry_text(entry),
        )
    return active


def has_floats(t: EntryType) -> bool:
    """Whether any component is floating-point."""
    if t.kind in ("tuple", "record"):
        return any(has_floats(ft) for _, ft in t.fields)
    return has_floats(t.elem) if isinstance(t.elem, EntryType) else bool(t.elem and t.elem.is_float)


__all__ = ["Argnums", "has_floats", "is_single", "numbers", "with_floats"]
