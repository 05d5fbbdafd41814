# ruff: noqa: E501 (programs read better unbroken)
"""The ground of `source.py`: what programs start with, scopes, expressions."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

HEAD = """
type shape = #none | #disc t | #box t t
type pair = {a: t, b: t}
def put [n] (xs: *[n]t) (i: i64) (x: t) : *[n]t = xs with [i] = x
def add_to [n] (xs: *[n]t) (is: []i64) (x: t) : *[n]t =
  loop xs for i in is do if i >= 0 && i < n then xs with [i] = xs[i] + x else xs
def twice f x = f (f x)
def lin ((a, b): (t, t)) ((c, d): (t, t)) : (t, t) = (a * c, b * c + d)
def mm ((a, b, c, d): (t, t, t, t)) ((e, f, g, h): (t, t, t, t)) : (t, t, t, t) =
  (a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h)
def mm2 (x: [2][2]t) (y: [2][2]t) : [2][2]t =
  map (\\r -> map (\\c -> t.sum (map2 (*) r c)) (transpose y)) x
def area (q: shape) : t = match q case #none -> 0.25 case #disc r -> r * r case #box a b -> a * b
"""

FLOATS = """
def small (x: t) : t = x / (1 + x * x)
def wave (x: t) : t = t.sin x
def bump (x: t) : t = t.exp (- (x * x))
def unit (x: t) : t = 0.5 * t.cos x
def low : t = -10000
def high : t = 10000
"""

INTEGERS = """
def small (x: t) : t = x * x + 3
def wave (x: t) : t = x * 5 - x * x
def bump (x: t) : t = t.max x (x * 2)
def unit (x: t) : t = x * 3
def low : t = 0 - 100
def high : t = 100
"""


@dataclass
class Env:
    """Names in scope by type; `fresh` arrays alias nothing and may be consumed."""

    s: list[str] = field(default_factory=list)
    i: list[str] = field(default_factory=list)
    v: list[str] = field(default_factory=list)  # [n]
    w: list[str] = field(default_factory=list)  # [k]
    m: list[str] = field(default_factory=list)  # [n][k]
    u: list[str] = field(default_factory=list)  # sizes unknown
    fresh: set[str] = field(default_factory=set)

    def inside(self) -> Env:
        return Env(list(self.s), list(self.i), list(self.v), list(self.w), list(self.m), list(self.u))


class Base:
    """Random choices, expressions and scopes."""

    def __init__(self, seed: int, size: int, smooth: bool) -> None:
        self.r = random.Random(seed)
        self.count = 0
        self.budget = self.r.randint(3, size)
        self.smooth = smooth
        self.dups = False  # whether a scatter has several values for one place

    def name(self, p: str) -> str:
        self.count += 1
        return f"{p}{self.count}"

    def p(self, x: float) -> bool:
        return self.r.random() < x

    def c(self, xs: Sequence[T]) -> T:
        return xs[self.r.randrange(len(xs))]

    def stm(self, e: Env, depth: int) -> str:
        """One or more lets, without the last `in`."""
        raise NotImplementedError

    # -- expressions

    def const(self) -> str:
        return self.c(["0.5", "(-0.75)", "0.3125", "1.25", "(-1.125)", "0.8"])

    def iexp(self, e: Env) -> str:
        a = self.c(e.i + ["n", "k"])
        return self.c([a, f"({a} + {self.r.randint(1, 3)})", f"({a} * {self.r.randint(2, 3)} + 1)", str(self.r.randint(0, 4))])

    def at(self, e: Env, size: str) -> str:
        """An index in range where `size` is positive."""
        a = self.iexp(e)
        return self.c([f"({a} % {size})", f"({size} - 1 - {a} % {size})", f"(({a} * 7 + 3) % {size})"])

    def cond(self, e: Env) -> str:
        if self.p(0.3):
            return f"{self.sx(e, 1)} < {self.c(['0.1234567', '0.4321987', '(-0.3456789)'])}"
        return f"{self.iexp(e)} % {self.r.randint(2, 3)} {self.c(['==', '<', '!='])} {self.r.randint(0, 2)}"

    def sx(self, e: Env, d: int = 2) -> str:
        if d == 0 or self.p(0.15):
            if e.s and self.p(0.85):
                return self.c(e.s)
            if e.i and self.p(0.3):
                return f"unit (t.i64 ({self.c(e.i)} % 5))"
            return self.const()

        def x() -> str:
            return self.sx(e, d - 1)

        match self.r.randrange(13):
            case 0:
                return f"wave ({x()})"
            case 1:
                return f"small ({x()} * {x()})"
            case 2:
                return f"({x()} + {x()}) * 0.5"
            case 3:
                return f"{x()} * wave ({x()})"
            case 4:
                return f"bump ({x()})"
            case 5:
                return f"(if {self.cond(e)} then {x()} else {x()})"
            case 6 if e.v:
                return f"(if n > 0 then {self.c(e.v)}[{self.at(e, 'n')}] else {x()})"
            case 7 if e.m:
                return f"(if n > 0 && k > 0 then {self.c(e.m)}[{self.at(e, 'n')}, {self.at(e, 'k')}] else {x()})"
            case 8 if e.w:
                return f"(if k > 0 then {self.c(e.w)}[{self.at(e, 'k')}] else 0.5)"
            case 9:
                return self.c([f"t.max ({x()}) ({x()})", f"t.min ({x()}) ({x()})", f"t.abs ({x()})"])
            case 10:
                return f"small ({x()}) - {x()}"
            case 11:
                return f"(let q = {x()} in q * unit q)"
            case _:
                return f"unit ({x()}) * {x()}"

    def lam(self, e: Env, kinds: str, depth: int, result: Callable[[Env], str]) -> str:
        """\\ps -> lets in result(inner)."""
        inner = e.inside()
        names = []
        for kind in kinds:
            nm = self.name({"s": "x", "i": "j", "w": "row", "v": "col"}[kind])
            getattr(inner, kind).append(nm)
            names.append(f"({nm}: [{'k' if kind == 'w' else 'n'}]t)" if kind in "wv" else nm)
        body = self.block(inner, depth + 1, result)
        return "\\" + " ".join(names) + " -> " + body

    def block(self, e: Env, depth: int, result: Callable[[Env], str]) -> str:
        lets = []
        if depth < 4:
            for _ in range(self.c([0, 0, 1, 1, 2])):
                if self.budget > 0:
                    self.budget -= 1
                    lets.append(self.stm(e, depth))
        return " ".join(["(", *[x + " in" for x in lets], result(e), ")"])

    def arr(self, e: Env, kind: str) -> str:
        """An array to read."""
        have = getattr(e, kind)
        if have and self.p(0.9):
            return self.c(have[-4:] if self.p(0.5) else have)
        return {"v": f"(replicate n ({self.sx(e, 1)}))", "w": f"(replicate k ({self.sx(e, 1)}))",
                "m": f"(replicate n (replicate k ({self.sx(e, 1)})))"}[kind]

    def own(self, e: Env, kind: str) -> str:
        """An array to consume."""
        have = [x for x in getattr(e, kind) if x in e.fresh]
        if have and self.p(0.6):
            x = self.c(have)
            getattr(e, kind).remove(x)
            return x
        return f"(copy {self.arr(e, kind)})"

    def bind(self, e: Env, kind: str, exp: str, fresh: bool = True) -> str:
        nm = self.name(kind)
        getattr(e, kind).append(nm)
        if fresh and kind in "vwm":
            e.fresh.add(nm)
        elif kind in "vwm":  # it may be a view of what it is made from
            e.fresh -= set(re.findall(r"\w+", exp))
        ty = {"s": "t", "i": "i64", "v": "[n]t", "w": "[k]t", "m": "[n][k]t"}.get(kind)
        return f"let {nm}{': ' + ty if ty else ''} = {exp}"
