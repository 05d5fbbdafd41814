"""Exact gradients of plain Python code by dual numbers, as an oracle that shares nothing with the compiler.

A `Dual` is a float and the vector of its derivatives by all inputs.  `gradient` runs a function over arrays of them
(NumPy arrays of objects); the rules of +, -, *, / and of the functions below are all there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Dual:
    """A value and its derivatives."""

    __slots__ = ("d", "v")
    __array_ufunc__ = None  # arrays leave the operation to the elements

    def __init__(self, v: float, d: Any) -> None:
        self.v, self.d = v, d

    def __add__(self, o: Any) -> Dual:
        o = lift(o)
        return Dual(self.v + o.v, self.d + o.d)

    def __sub__(self, o: Any) -> Dual:
        o = lift(o)
        return Dual(self.v - o.v, self.d - o.d)

    def __mul__(self, o: Any) -> Dual:
        o = lift(o)
        return Dual(self.v * o.v, self.d * o.v + o.d * self.v)

    def __truediv__(self, o: Any) -> Dual:
        o = lift(o)
        return Dual(self.v / o.v, self.d / o.v - o.d * (self.v / (o.v * o.v)))

    def __rsub__(self, o: Any) -> Dual:
        return lift(o) - self

    def __rtruediv__(self, o: Any) -> Dual:
        return lift(o) / self

    def __neg__(self) -> Dual:
        return Dual(-self.v, -self.d)

    def __lt__(self, o: Any) -> bool:
        return self.v < lift(o).v

    def __gt__(self, o: Any) -> bool:
        return self.v > lift(o).v

    __radd__, __rmul__ = __add__, __mul__


def lift(x: Any) -> Dual:
    return x if isinstance(x, Dual) else Dual(float(x), 0.0)


def _function(f: Callable[[float], float], df: Callable[[float], float]) -> Callable[[Any], Dual]:
    def apply(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            out = np.empty(x.shape, object)
            for i in np.ndindex(*x.shape):
                out[i] = apply(x[i])
            return out
        x = lift(x)
        return Dual(f(x.v), x.d * df(x.v))

    return apply


sin = _function(math.sin, math.cos)
cos = _function(math.cos, lambda x: -math.sin(x))
exp = _function(math.exp, math.exp)
log = _function(math.log, lambda x: 1 / x)
sqrt = _function(math.sqrt, lambda x: 0.5 / math.sqrt(x))
tanh = _function(math.tanh, lambda x: 1 - math.tanh(x) ** 2)
logistic = _function(lambda x: 1 / (1 + math.exp(-x)), lambda x: math.exp(-x) / (1 + math.exp(-x)) ** 2)


def least(*xs: Any) -> Dual:
    """The first of the least."""
    out = lift(xs[0])
    for x in xs[1:]:
        out = lift(x) if lift(x) < out else out
    return out


def greatest(*xs: Any) -> Dual:
    out = lift(xs[0])
    for x in xs[1:]:
        out = lift(x) if lift(x) > out else out
    return out


def softmin(*xs: Any) -> Dual:
    m = min(lift(x).v for x in xs)
    total = lift(0.0)
    for x in xs:
        total = total + exp(m - lift(x))
    return m - log(total)


def zeros(*shape: int) -> Any:
    out = np.empty(shape, object)
    for i in np.ndindex(*shape):
        out[i] = lift(0.0)
    return out


def gradient(f: Callable[..., Any], args: Sequence[Any], cotangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The results of f as arrays of floats, and for each argument the gradient of <cotangents, results>."""
    count = sum(np.size(a) for a in args)
    unit = np.eye(count)
    given, at = [], 0
    for a in args:
        x = np.empty(np.shape(a), object)
        for i in np.ndindex(*np.shape(a)):
            x[i] = Dual(float(np.asarray(a)[i]), unit[at])
            at += 1
        given.append(x if np.ndim(a) else x[()])
    out = f(*given)
    results = [np.asarray(r, object) for r in (out if isinstance(out, tuple) else (out,))]
    total = np.zeros(count)
    for r, c in zip(results, cotangents, strict=True):
        for i in np.ndindex(*r.shape):
            total = total + lift(r[i]).d * float(np.asarray(c)[i])
    values = [np.array([lift(x).v for x in r.flat]).reshape(r.shape) for r in results]
    parts, at = [], 0
    for a in args:
        parts.append(total[at : at + np.size(a)].reshape(np.shape(a)))
        at += np.size(a)
    return values, parts
