# ruff: noqa: E501 (programs read better unbroken)
"""What skeletons are made with: random choices, scalar functions, indices in range, the program itself.

A skeleton is a function from a `Gen` to a `Program`: the source of one function `f@` (every top-level name ends in
`@`, which the user replaces, so that many programs fit into one file) over the type `t` of the module `t`, and the
shapes of its parameters and results.  Values stay moderate, decisions compare values that are equal with probability
0, and every index is in range for all sizes from the program's `least` on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from futad.core.types import PRIMS

T = TypeVar("T")
Dim = str | int

# In front of every file of programs; `{t}` is f64 or f32.
HEAD = """module t = {t}
type t = {t}
def small (x: t) : t = x / (1 + x * x)
def logistic (x: t) : t = 1 / (1 + t.exp (-x))
def half (x: t) : f16 = f16.{t} x
def single (x: t) : f32 = f32.{t} x
def double (x: t) : f64 = f64.{t} x
def softmin (a: t) (b: t) : t = let m = t.min a b in m - t.log (t.exp (m - a) + t.exp (m - b))
def softmax (a: t) (b: t) : t = let m = t.max a b in m + t.log (t.exp (a - m) + t.exp (b - m))
"""


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: floats, or (where `bound` is given) i64 from 0 to below it, or any numbers of the type `elem`."""

    name: str
    shape: tuple[Dim, ...] = ()
    bound: Dim | None = None
    elem: str = ""

    @property
    def type(self) -> str:
        return shape_type(self.shape, self.elem or ("t" if self.bound is None else "i64"))

    @property
    def is_float(self) -> bool:
        return self.bound is None and is_float(self.elem)


@dataclass(slots=True)
class Program:
    """One random program: definitions, and what `f@` takes and gives."""

    family: str
    text: str
    sizes: tuple[str, ...]
    params: tuple[Param, ...]
    results: tuple[tuple[Dim, ...], ...]
    smooth: bool = True
    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    precision: str = "f8"  # by which tolerances results are compared where t is f64: it computes in f32 or f16
    outs: tuple[str, ...] = ()  # element types of the results; none: all are t
    around: bool = False  # sizes are tried around those of vectors
    special: bool = False  # inputs have NaN, infinities and zeros in them

    @property
    def floats(self) -> list[Param]:
        return [p for p in self.params if p.is_float]

    @property
    def result_types(self) -> list[str]:
        return [shape_type(r, e or "t") for r, e in zip(self.results, self.outs or ("",) * len(self.results), strict=True)]


def shape_type(shape: Sequence[Dim], elem: str = "t") -> str:
    return "".join(f"[{d}]" for d in shape) + elem


def is_float(elem: str) -> bool:
    return elem in ("", "t", "f16", "f32", "f64")


class Gen:
    """Random choices, and pieces of source text."""

    def __init__(self, rng: random.Random) -> None:
        self.r = rng
        self.smooth = True
        self.count = 0

    # -- choices

    def c(self, *xs: T) -> T:
        return xs[self.r.randrange(len(xs))]

    def p(self, chance: float) -> bool:
        return self.r.random() < chance

    def shuffled(self, xs: Sequence[T]) -> list[T]:
        out = list(xs)
        self.r.shuffle(out)
        return out

    def name(self, stem: str = "v") -> str:
        self.count += 1
        out = f"{stem}{self.count}"
        return self.name(stem) if out in PRIMS else out

    def number(self) -> str:
        return self.c("0.5", "0.3", "0.7", "1.1", "0.25", "0.9", "(-0.4)", "(-0.8)", "1.3")

    # -- scalars

    def mix(self, *args: str, depth: int = 1, sharp: float = 0.15) -> str:
        """A moderate function of the scalars that mostly uses all of them; `sharp`: how often it has a kink."""
        xs = self.shuffled(args)
        out = self.one(xs[0]) if self.p(0.3) else xs[0]
        for x in xs[1:]:
            out = self.two(out, self.one(x) if self.p(0.25) else x, sharp)
        if len(xs) == 1 or (depth > 0 and self.p(0.35)):
            out = self.one(out)
        return f"({out})"

    def one(self, x: str) -> str:
        k = self.number()
        return self.c(
            f"t.sin {par(x)}", f"t.tanh {par(x)}", f"logistic {par(x)}", f"small {par(x)}", f"{k} * {par(x)}",
            f"t.cos ({x} + {k})", f"t.sqrt (1.5 + {par(x)} * {par(x)}) - 1", f"t.exp (-(t.sqrt (0.1 + {par(x)} * {par(x)})))",
            f"t.log (1.2 + {par(x)} * {par(x)})", f"t.atan {par(x)}",
        )  # fmt: skip

    def two(self, x: str, y: str, sharp: float = 0.15) -> str:
        k, e = self.number(), self.number()
        if self.p(sharp):
            self.smooth = False
            return self.c(
                f"t.min {par(x)} {par(y)}", f"t.max {par(x)} {par(y)}", f"t.abs ({x} - {par(y)})",
                f"(if {x} < {par(y)} then {self.one(x)} else {self.one(y)})", f"(if {x} > {k} then {y} else {e} * {par(x)})",
            )  # fmt: skip
        return self.c(
            f"{k} * {par(x)} + {e} * {par(y)}", f"t.tanh ({x} + {k} * {par(y)})", f"{par(x)} * t.sin {par(y)}",
            f"small ({x} + {par(y)})", f"logistic {par(x)} * {par(y)}", f"t.sin ({x} + {par(y)})", f"small ({par(x)} * {par(y)} + {k})",
            f"{par(x)} / (1.2 + {par(y)} * {par(y)})", f"{par(y)} - {k} * t.cos {par(x)}",
        )  # fmt: skip

    def cheap(self, *args: str, sharp: float = 0.2) -> str:
        """As `mix`, of operations that take the C compiler little time."""
        xs = self.shuffled(args)
        out = xs[0]
        for x in xs[1:]:
            k, e = self.number(), self.number()
            if self.p(sharp):
                self.smooth = False
                out = self.c(f"t.min {par(out)} {par(x)}", f"t.max {par(out)} {par(x)}", f"t.abs ({out} - {par(x)})", f"(if {out} < {par(x)} then {k} * {par(out)} else {x})")
            else:
                out = self.c(f"{k} * {par(out)} + {e} * {par(x)}", f"{par(out)} * {par(x)}", f"{par(out)} - {k} * {par(x)}", f"{par(out)} / (1.2 + {par(x)} * {par(x)})")
        if len(xs) == 1 or self.p(0.3):
            k = self.number()
            out = self.c(f"small {par(out)}", f"{k} * {par(out)}", f"{par(out)} + {k}", f"t.sqrt (1.5 + {par(out)} * {par(out)})", f"small {par(out)}")
        return f"({out})"

    def pick(self, *xs: str) -> str:
        """The least or greatest of some scalars, or a smooth one."""
        kind = self.c("t.min", "t.max", "softmin", "softmax")
        if kind.startswith("t."):
            self.smooth = False
        out = xs[0]
        for x in xs[1:]:
            out = f"{kind} ({out}) ({x})"
        return out

    # -- arrays and indices

    def at(self, i: str, n: Dim) -> str:
        """An index into n places from a loop's counter i of n iterations (then n is not 0)."""
        return self.c(i, i, i, f"{n} - 1 - {i}", f"({i} + 1) % {n}", f"({i} * {self.c(2, 3, 5)} + 1) % {n}",
                      f"({i} + {n} - 1) % {n}")  # fmt: skip

    def other(self, n: Dim, *names: str) -> str:
        """Any index into n places (n is not 0)."""
        i = self.c(*names) if names else "0"
        return self.c(f"({i} + {self.r.randint(0, 4)}) % {n}", f"({i} * {self.r.randint(0, 3)} + {self.r.randint(0, 3)}) % {n}", "0", f"{n} - 1")

    def copied(self, x: str, always: bool = False) -> str:
        """x, or a copy of it."""
        return f"copy {par(x)}" if always or self.p(0.4) else x

    def counted(self, i: str, iterations: Dim, back: float = 0.25) -> tuple[str, str]:
        """A `for` over i upwards or downwards: its head, and what must stand first in its body."""
        if self.p(back):
            q = self.name("q")
            return f"for {q} < {iterations} do", f"let {i} = {iterations} - 1 - {q} in "
        return f"for {i} < {iterations} do", ""

    def saved(self, i: str, n: Dim) -> str:
        """Where a history of n places is written in iteration i of n: i, from behind, or around."""
        return self.c(i, i, f"{n} - 1 - {i}", f"({i} + 1) % {n}", f"({i} * 2) % {n}")

    def program(
        self,
        family: str,
        params: Sequence[Param],
        results: Sequence[tuple[Dim, ...]],
        body: str,
        helpers: str = "",
        least: dict[str, int] | None = None,
        most: dict[str, int] | None = None,
        outs: tuple[str, ...] = (),
    ) -> Program:
        """The program of that body; its size parameters are the names in the shapes."""
        dims = [d for p in params for d in p.shape]
        sizes = tuple(dict.fromkeys(d for d in dims if isinstance(d, str)))
        head = " ".join(f"({p.name}: {p.type})" for p in params)
        made = Program(family, "", sizes, tuple(params), tuple(results), self.smooth, least or {}, most or {}, outs=outs)
        types = made.result_types
        ret = types[0] if len(types) == 1 else f"({', '.join(types)})"
        implicit = "".join(f" [{s}]" for s in sizes)
        made.text = f"{helpers}def f@{implicit} {head} : {ret} =\n{body}\n"
        return made


def par(x: str) -> str:
    """x as an operand or argument."""
    if x.replace("_", "a").isalnum() or _closed(x):
        return x
    return f"({x})"


def _closed(x: str) -> bool:
    """Whether x is one pair of parentheses, or a name indexed."""
    if not x or x[-1] not in ")]":
        return False
    start = 0
    if x[0] != "(":
        start = x.find("[")
        if start <= 0 or not x[:start].replace("_", "a").isalnum():
            return False
    depth = 0
    for i, ch in enumerate(x[start:], start):
        depth += ch in "(["
        depth -= ch in ")]"
        if depth == 0 and i < len(x) - 1:
            return False
    return True
