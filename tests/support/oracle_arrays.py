"""Functions of arrays held against formulas of many digits, along a direction: values, first and second derivatives.

A function takes the numbers of all its arguments as one vector, and makes a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np
from mpmath import mpf

from tests.support.oracle import STEP, exact

Vector = tuple[float, ...]
TINY = 1e-60  # what differences make of 0
# The values, and the gradient of their sum; None: nothing is expected.
Stated = tuple[Sequence[float | None], Sequence[float | None]]


@dataclass(frozen=True)
class ArrayCase:
    """`text`: a function of a vector of `@`.  `within`: units in the last place of the largest number that goes in or
    comes out, of values, first and second derivatives."""

    name: str
    text: str
    oracle: Callable[..., Any]
    points: Sequence[Vector]
    at: dict[Vector, Stated] = field(default_factory=dict)
    within: tuple[float, float, float] = (64, 256, 2048)
    digits: int = 120
    types: tuple[str, ...] = ("f64", "f32")


def entry(case: ArrayCase, t: str, name: str) -> str:
    """Values, jvp and jvp of jvp by d; and vjp of weights w, and its jvp by d."""
    text = case.text.replace("@", t)
    f = f"let f (v: [n]{t}): [m]{t} = ({text}) v :> [m]{t}"
    heads = f"[n] [m] (v: [n]{t}) (d: [n]{t}) (w: [m]{t})"
    return (
        f"entry {name} {heads} = {f} in (f v, jvp f v d, jvp (\\q -> jvp f q d) v d)\n"
        f"entry {name}_back {heads} = {f} in (vjp f v w, jvp (\\q -> vjp f q w) v d)"
    )


def direction(n: int, seed: int) -> np.ndarray:
    """Numbers with few bits, all different from 0."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, 9, n) / 8 * rng.choice([-1, 1], n)


def along(case: ArrayCase, point: Vector, d: np.ndarray) -> list[np.ndarray]:
    """The oracle's values, first and second derivatives."""
    with mpmath.workdps(case.digits):
        size = max([abs(x) for x in point if x] or [1.0])
        h = STEP * (size if size < 1 else 1)
        v, e = [exact(x) for x in point], [exact(x) * h for x in d]

        def f(k: int) -> list[Any]:
            return [mpf(x) for x in case.oracle([a + k * b for a, b in zip(v, e, strict=True)])]

        zero, up, down, up2, down2 = f(0), f(1), f(-1), f(2), f(-2)
        first = [(8 * (a - b) - p + q) / (12 * h) for a, b, p, q in zip(up, down, up2, down2, strict=True)]
        second = [
            (16 * (a + b) - p - q - 30 * c) / (12 * h * h)
            for a, b, c, p, q in zip(up, down, zero, up2, down2, strict=True)
        ]
        return [np.array([float(x) for x in part]) for part in (zero, first, second)]


def run(case: ArrayCase, t: str, entries: Mapping[str, Callable[..., Any]], name: str) -> list[str]:
    """What is wrong with the results of these entries."""

    def f(*args: Any) -> tuple[Any, ...]:
        return (*entries[name](*args), *entries[f"{name}_back"](*args))

    kind = np.dtype(t.replace("f", "float")).type
    eps = float(np.finfo(kind).eps)
    out: list[str] = []

    def check(what: str, got: Any, want: Any, slack: float) -> None:
        got, want = np.asarray(got, float), np.array([math.nan if x is None else x for x in want], float)
        with np.errstate(invalid="ignore"):
            good = (got == want) | (abs(got - want) <= slack + TINY) | np.isnan(want)
        if not good.all():
            out.append(f"{case.name} {t} {point}: {what} is {got.tolist()}, not {want.tolist()} (+- {slack:.2g})")

    for k, point in enumerate([*case.points, *case.at]):
        with np.errstate(all="ignore"):
            v = np.array(point, kind)
        if not np.array_equal(np.isinf(v), np.isinf(point)):
            continue
        d = direction(len(point), k).astype(kind)
        if point in case.at:
            values, gradient = case.at[point]
            with np.errstate(all="ignore"):
                got = f(v, d, np.ones(len(values), kind))
            big = max([abs(x) for x in (*values, *gradient) if x is not None and math.isfinite(x)] or [1.0])
            check("value", got[0], values, case.within[0] * eps * big)
            check("vjp", got[3], gradient, case.within[1] * eps * big)
            continue
        w0, w1, w2 = along(case, tuple(v.tolist()), d)
        w = direction(len(w0), k + 100).astype(kind)
        got = f(v, d, w)
        big = [max([*abs(x), 0.0]) for x in (w0, w1, w2)]
        check("value", got[0], w0, case.within[0] * eps * big[0])
        check("jvp", got[1], w1, case.within[1] * eps * max(big[1], big[0]))
        check("jvp of jvp", got[2], w2, case.within[2] * eps * max(big))
        for what, g, want, k2 in (("vjp", got[3], w1, 1), ("jvp of vjp", got[4], w2, 2)):
            g = np.asarray(g, float)
            check(what, [g @ d], [want @ w], case.within[k2] * eps * (max(big[: k2 + 1]) * len(w0) + abs(g) @ abs(d)))
    return out
