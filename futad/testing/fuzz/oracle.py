"""Whether results are right: equal to the interpreter's, the dot-product identity, central differences.

Derivatives of the interpreter come from the same rules as the compiled ones: hence the other two, and derivatives by
dual numbers (`futad/dual/`), which share no rule with them: equal to the last digits, also where there are ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Arrays = Sequence[Any]
NEAR = {"f8": 1e-8, "f4": 5e-3, "f2": 5e-2}
DOT = {"f8": 1e-9, "f4": 5e-3, "f2": 5e-2}


def equal(got: Arrays, want: Arrays, kind: str) -> str:
    """'' if the results are equal but for rounding, else what differs."""
    tol = NEAR[kind]
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        a, b = np.asarray(g), np.asarray(w)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {k} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        if a.dtype.kind != "f":
            wrong = a != b
        else:
            with np.errstate(all="ignore"):
                scale = 1 + np.max(np.abs(b[np.isfinite(b)]), initial=0)
                near = max(tol, NEAR[a.dtype.str[1:]]) * scale
                wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= near))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"result {k} at {list(at)} is {a[at]!r}, not {b[at]!r} ({int(wrong.sum())} of {wrong.size} differ)"
    return ""


def equal_where_finite(got: Arrays, want: Arrays, kind: str) -> str:
    """As `equal`, of the elements of `want` that are finite: dual numbers take the product of zero and an infinite
    derivative for zero, which is NaN where the transformation multiplies them."""
    masked = []
    for g, w in zip(got, want, strict=True):
        a, b = np.asarray(g), np.asarray(w)
        masked.append(np.where(np.isfinite(b), a, b) if a.shape == b.shape and b.dtype.kind == "f" else a)
    return equal(masked, want, kind)


def equal_where_both_finite(got: Arrays, want: Arrays, kind: str, values: int) -> str:
    """As `equal` of the first `values` results; of the others, derivatives, the elements finite in both: whether
    0 times an infinite derivative is computed at all is left to each way of computing it."""
    a, b = list(got[values:]), list(want[values:])
    swapped = [np.where(np.isfinite(x), w, x) if np.shape(x) == np.shape(w) else w for x, w in zip(a, b, strict=True)]
    return equal(got[:values], want[:values], kind) or equal_where_finite(a, swapped, kind)


def same(got: Arrays, again: Arrays) -> str:
    """'' if the results are the same to the bit."""
    for k, (g, w) in enumerate(zip(got, again, strict=True)):
        if not np.array_equal(np.asarray(g), np.asarray(w), equal_nan=np.asarray(g).dtype.kind == "f"):
            return f"result {k} is another one when called again"
    return ""


def finite(*groups: Arrays) -> bool:
    return all(np.isfinite(np.asarray(x)).all() for xs in groups for x in xs)


def dot(xs: Arrays, ys: Arrays) -> tuple[float, float]:
    """The sum of products, and that of their magnitudes."""
    products = [np.asarray(x, np.float64) * np.asarray(y, np.float64) for x, y in zip(xs, ys, strict=True)]
    return sum(float(p.sum()) for p in products), sum(float(np.abs(p).sum()) for p in products)


def identity(cotangents: Arrays, forward: Arrays, reverse: Arrays, tangents: Arrays, kind: str) -> str:
    """'' if <ybar, J x'> = <J^T ybar, x'>."""
    if not finite(forward, reverse):
        return ""
    (a, size), (b, also) = dot(cotangents, forward), dot(reverse, tangents)
    if abs(a - b) <= DOT[kind] * (size + also + 1e-3):
        return ""
    return f"<ybar, J x'> = {a!r}, but <J^T ybar, x'> = {b!r}"


def differences(f: Callable[[float], Arrays], derivative: Arrays, weights: Arrays | None = None) -> str:
    """'' if `derivative` is that of f at 0, as far as central differences can tell: at one of three steps they are as
    near as their own error and that of rounding allow.  With `weights`, of the weighted sum of results."""

    def at(h: float) -> list[Any]:
        up, down = f(h), f(-h)
        if weights is not None:
            return [np.asarray((dot(weights, up)[0] - dot(weights, down)[0]) / (2 * h))]
        return [(np.asarray(u) - np.asarray(v)) / (2 * h) for u, v in zip(up, down, strict=True)]

    if not finite(derivative):
        return ""
    said = ""
    with np.errstate(all="ignore"):
        for h in (1e-4, 1e-5, 3e-6):
            coarse, fine = at(h), at(h / 2)
            if not finite(coarse, fine):
                return ""
            said = ""
            for k, (u, v, w) in enumerate(zip(coarse, fine, derivative, strict=True)):
                w = np.asarray(w)
                size = 0.1 + np.abs(w).max(initial=0)
                bound = 3 * np.abs(u - v).max(initial=0) + 1e-9 / h * size
                error = np.abs((4 * v - u) / 3 - w)
                if (error > bound).any():
                    where = tuple(int(i) for i in np.argwhere(error > bound)[0])
                    said = f"derivative {k} at {list(where)} is {w[where]!r}, central differences give {v[where]!r}"
            if not said:
                return ""
    return said
