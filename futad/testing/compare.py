"""Comparing results with what a test expects, with upstream's tolerances.

Two floats agree if both are NaN, both the same infinity, or they differ by at most 0.002 times the larger of
1 and the largest finite expected element of that value (the rule of `futhark test`).  Everything else must
be equal.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from futad.core.showvalue import prim_of, write_text
from futad.errors import InputError
from futad.runtime.structure import count_text
from futad.runtime.textvalues import Value

TOLERANCE = 0.002
PIECE = 1 << 16  # elements that are compared at a time


def text_of(value: Any, limit: int = 200) -> str:
    """A value in text format, cut after `limit` characters; an array of more elements by its type."""
    array = np.asarray(value)
    if array.size > limit:
        return f"an array of type {type_text(array)}"
    out = io.StringIO()
    write_text(value, out)
    text = out.getvalue()
    return text if len(text) <= limit else text[: limit - 3] + "..."


def type_text(array: np.ndarray[Any, Any]) -> str:
    """The type of an array as the language writes it: `[3]f64`."""
    return "".join(f"[{d}]" for d in array.shape) + prim_of(array.dtype).name


def expected_arrays(results: Sequence[Any], expected: Sequence[Value]) -> list[np.ndarray[Any, Any]] | str:
    """The expected values at the types of the results, or what does not fit."""
    if len(results) != len(expected):
        return f"expected {count_text(len(expected), 'value')}, got {len(results)}"
    out = []
    for i, (result, value) in enumerate(zip(results, expected, strict=True)):
        array = np.asarray(result)
        try:
            out.append(value.at_type(prim_of(array.dtype)))
        except InputError:
            return f"value #{i}: expected type {value.text()}, got {type_text(array)}"
    return out


def mismatch(results: Sequence[Any], expected: Sequence[Any], tolerance: float = TOLERANCE) -> str | None:
    """The first difference in words, or None if all agree."""
    if len(results) != len(expected):
        return f"expected {count_text(len(expected), 'value')}, got {len(results)}"
    for i, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        got, want = np.asarray(result), np.asarray(wanted)
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"value #{i}: expected type {type_text(want)}, got {type_text(got)}"
        if got.size > PIECE and _agree(got, want, tolerance):
            continue
        bad = _differs(got, want, tolerance, _scale(want))
        if bad.any():
            at = np.unravel_index(int(np.argmax(bad)), bad.shape) if bad.ndim else ()
            index = f" at index [{', '.join(str(int(j)) for j in at)}]" if at else ""
            count = int(bad.sum())
            more = f" ({count} of {bad.size} elements differ)" if count > 1 else ""
            return f"value #{i}{index}: expected {text_of(want[at])}, got {text_of(got[at])}{more}"
    return None


def _agree(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], tolerance: float) -> bool:
    """Whether no elements differ: a piece at a time, which needs little memory."""
    scale = _scale(want)
    rows = max(1, PIECE * len(got) // got.size)
    return not any(
        _differs(got[i : i + rows], want[i : i + rows], tolerance, scale).any() for i in range(0, len(got), rows)
    )


def _scale(want: np.ndarray[Any, Any]) -> float:
    """What the tolerance is relative to."""
    if want.dtype.kind != "f" or not want.size:
        return 1.0
    with np.errstate(all="ignore"):
        largest = float(want.max())
    if not np.isfinite(largest):
        largest = float(np.max(want, initial=1.0, where=np.isfinite(want)))
    return max(1.0, largest)


def _differs(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], tolerance: float, scale: float
) -> np.ndarray[Any, Any]:
    if got.dtype.kind != "f":
        return np.asarray(got != want)
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(wide_got - wide_want) <= tolerance * scale
    same = (wide_got == wide_want) | (np.isnan(wide_got) & np.isnan(wide_want))
    return np.asarray(~(near | same))
