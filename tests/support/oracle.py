"""Functions of numbers held against formulas of 150 digits: values, first and second derivatives, in all modes.

A case has its own oracle, a function of mpmath's numbers; derivatives are differences of it, of steps so small that
they are exact to far more digits than floats have.  Where differences say nothing (infinities, ends of a domain), the
case states what is expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np
from mpmath import mpf

Point = tuple[float, ...]
# Value, first derivatives, second ones (rows); None: nothing is expected.
Expected = tuple[float, Sequence[float | None], Sequence[Sequence[float | None]] | None]
DIGITS, STEP = 150, mpf(10) ** -25


@dataclass(frozen=True)
class Case:
    """`text`: a function of the language over curried floats of the type `@`; its first `by` arguments
    are differentiated.  `within`: units in the last place, of values, first and second derivatives, beside what
    rounding the arguments makes."""

    name: str
    text: str
    oracle: Callable[..., Any]
    points: Sequence[Point]
    at: dict[Point, Expected] = field(default_factory=dict)
    by: int = 0
    within: tuple[float, float, float] = (8, 32, 256)
    digits: int = DIGITS
    types: tuple[str, ...] = ("f64", "f32")
    terms: Callable[..., Any] | None = None  # the largest term of the sum that the function is, where terms cancel

    @property
    def arity(self) -> int:
        return len((*self.points, *self.at)[0])

    @property
    def active(self) -> int:
        return self.by or self.arity


def entry(case: Case, t: str, name: str) -> str:
    """An entry over arrays of points: rows of the value, then by argument jvp, vjp, and of both the derivatives by each
    argument of the forward mode of vjp and of jvp."""
    n, k = case.arity, case.active
    xs = [f"x{i}" for i in range(n)]
    free, fixed = xs[:k], " ".join(xs[k:])
    pattern = free[0] if k == 1 else f"({', '.join(free)})"
    unit = [", ".join(["1" if i == j else "0" for j in range(k)]) for i in range(k)]
    unit = [u if k == 1 else f"({u})" for u in unit]
    parts = ["f p"] + [f"jvp f p {u}" for u in unit]
    bars = [f"b{i}" for i in range(k)]
    lets = [f"let {bars[0] if k == 1 else '(' + ', '.join(bars) + ')'} = vjp f p 1"]
    parts += bars
    for i, u in enumerate(unit):
        rows = [f"h{i}_{j}" for j in range(k)]
        lets.append(f"let {rows[0] if k == 1 else '(' + ', '.join(rows) + ')'} = jvp (\\q -> vjp f q 1) p {u}")
        parts += rows
    parts += [f"jvp (\\q -> jvp f q {u}) p {v}" for u in unit for v in unit]
    heads = " ".join([f"(a{i}: []{t})" for i in range(n)])
    arrays = " ".join([f"a{i}" for i in range(n)])
    text = case.text.replace("@", t)
    body = f"let f {pattern} = ({text}) {' '.join(free)} {fixed} let p = {pattern} "
    body += f"{' '.join(lets)} in [{', '.join(parts)}]"
    return f"entry {name} {heads} = map{n if n > 1 else ''} (\\{' '.join(xs)} -> {body}) {arrays}"


def exact(x: float) -> Any:
    return mpf(float(x)) if math.isfinite(x) else (mpmath.nan if x != x else mpmath.inf * (1 if x > 0 else -1))


def derivatives(case: Case, point: Point, digits: int) -> tuple[Any, list[Any], list[list[Any]], list[Any]]:
    """The oracle's value, gradient, Hessian and third derivatives by one argument, at a point."""
    k = case.active
    with mpmath.workdps(digits):
        at = [exact(x) for x in point]
        step = [abs(x) * STEP if x else STEP for x in at]

        def f(moves: dict[int, int]) -> Any:
            return mpf(case.oracle(*[x + moves.get(i, 0) * step[i] for i, x in enumerate(at)]))

        zero = f({})
        line = [{m: f({i: m}) for m in (-2, -1, 1, 2)} for i in range(k)]
        first = [(8 * (v[1] - v[-1]) - v[2] + v[-2]) / (12 * h) for v, h in zip(line, step, strict=False)]
        third = [(v[2] - 2 * v[1] + 2 * v[-1] - v[-2]) / (2 * h**3) for v, h in zip(line, step, strict=False)]
        second = [[mpf(0)] * k for _ in range(k)]
        for i in range(k):
            v, h = line[i], step[i]
            second[i][i] = (16 * (v[1] + v[-1]) - v[2] - v[-2] - 30 * zero) / (12 * h**2)
            for j in range(i):
                cross = f({i: 1, j: 1}) - f({i: 1, j: -1}) - f({i: -1, j: 1}) + f({i: -1, j: -1})
                second[i][j] = second[j][i] = cross / (4 * step[i] * step[j])
        return zero, first, second, third


@dataclass
class Wanted:
    """What is expected at a point, and how far off it may be: NaN where nothing is."""

    values: np.ndarray
    slack: np.ndarray


def wanted(case: Case, point: Point, t: str) -> Wanted:
    """In the layout of `entry`'s rows."""
    k, eps = case.active, float(np.finfo(t.replace("f", "float")).eps)
    if point in case.at:
        value, first, second = case.at[point]
        none = [[None] * k] * k
        rows = [value, *first, *first, *[x for row in (second or none) for x in row] * 2]
        values = np.array([math.nan if x is None else x for x in rows], float)
        return Wanted(
            values, np.array([case.within[0]] * (1 + 2 * k) + [case.within[2]] * (2 * k * k)) * eps * abs(values)
        )
    size = [abs(x) for x in point[:k]]
    for digits in (case.digits, 400, 1000):  # until what digits leave of differences is nothing
        value, first, second, third = derivatives(case, point, digits)
        largest = max(1, *map(abs, first), *[abs(x) for row in second for x in row])
        noise = [mpf(10) ** (20 - digits) * abs(value) / (STEP * (x or 1)) ** 2 for x in map(mpf, size)]
        if (lost := max(noise)) < largest * mpf(10) ** -40:
            break
    else:
        raise AssertionError(f"{case.name} {point}: more digits are needed")
    with mpmath.workdps(30):
        term = mpf(case.terms(*map(exact, point)) if case.terms is not None else 0)
        off = case.within[0] * (abs(value) + term + sum(abs(d) * x for d, x in zip(first, size, strict=True)))
        ones, twos = [], []
        for i in range(k):
            spread = sum(abs(second[i][j]) * size[j] for j in range(k))
            ones.append(case.within[1] * (abs(first[i]) + spread + (term / size[i] if term and size[i] else 0)))
            for j in range(k):
                more = abs(third[i]) * size[i] + abs(third[j]) * size[j]
                twos.append(case.within[2] * (abs(second[i][j]) + more) + 2 * (abs(first[i]) + abs(first[j])))
        flat = [value, *first, *first, *[x for row in second for x in row] * 2]
        slack = [off * eps, *[x * eps + lost for x in ones] * 2, *[x * eps + lost for x in twos] * 2]
        return Wanted(np.array([_float(x) for x in flat]), np.array([_float(x) for x in slack]))


def _float(x: Any) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def columns(case: Case) -> list[str]:
    """What the rows of `entry` are, for messages."""
    k = case.active
    out = ["value", *[f"jvp {i}" for i in range(k)], *[f"vjp {i}" for i in range(k)]]
    for kind in ("jvp of vjp", "jvp of jvp"):
        out += [f"{kind} {i} {j}" for i in range(k) for j in range(k)]
    return out


def faults(case: Case, t: str, found: np.ndarray, points: Sequence[Point]) -> list[str]:
    """What is wrong in the rows that a program made."""
    out = []
    info = np.finfo(t.replace("f", "float"))
    for point, row in zip(points, found, strict=True):
        w = wanted(case, point, t)
        for what, got, want, slack in zip(columns(case), row.astype(float), w.values, w.slack, strict=True):
            if want != want:
                continue
            big = abs(want) >= float(info.max) * (1 - float(info.eps))
            if math.isinf(want) or big:
                good = got == want or (big and abs(got) >= float(info.max) / 2 and (got > 0) == (want > 0))
            else:
                good = abs(got - want) <= slack + float(info.tiny)
            if not good:
                out.append(f"{case.name} {t} {point}: {what} is {got!r}, not {want!r} (+- {slack:.2g})")
    return out


def rounded(case: Case, t: str) -> list[Point]:
    """The points as floats of the type: those that it has."""
    kind = np.dtype(t.replace("f", "float")).type
    out = []
    for p in (*case.points, *case.at):
        with np.errstate(all="ignore"):
            q = tuple([float(kind(x)) for x in p])
        if p in case.at and q != p:
            continue
        if all(math.isinf(a) == math.isinf(b) and (a == 0) == (b == 0) for a, b in zip(p, q, strict=True)):
            out.append(q)
    return out


def run(case: Case, t: str, entries: Mapping[str, Callable[..., Any]], name: str) -> list[str]:
    """What is wrong with the results of these entries."""
    points = rounded(case, t)
    kind = np.dtype(t.replace("f", "float"))
    with np.errstate(all="ignore"):
        rows = np.asarray(entries[name](*[np.array(x, kind) for x in zip(*points, strict=True)]))
    return faults(case, t, rows, points)
