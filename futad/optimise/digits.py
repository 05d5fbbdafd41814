"""Iterations of a product of sizes that are read by quotient and remainder: axes of their own.

    map (\\s -> .. x[s / w, s % w] ..) (iota (h * w))

has the axes y < h and z < w; s / w is y, and s % w is z.  So are s / (h * w), s / w % h and s % w of n * h * w.

Numbers of iterations may be products of two negative sizes, or have wrapped around.  So what uses the axes asks before
whether all `sizes` that the product is made of are positive, and how large it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import F64, I64, ONE, TRUE, ZERO, Atom, Const, Var, i64
from futad.legality import Legality

LEGAL = Legality("digits", "quotients and remainders of iterations by parts of a product are axes", fires=False)
WHOLE_PARTS = LEGAL.condition("digits of the product", "iterations are axes of another size, or one is missing")
SIZES_POSITIVE = LEGAL.condition("sizes positive", "two negative sizes have iterations, and a product may wrap around")

Products = dict[Var, tuple[Atom, Atom]]
"""The factors of integers that are products."""

LARGEST = float(1 << 62)


@dataclass(frozen=True, slots=True)
class Size:
    """A number times the product of variables, which are in order of their identity."""

    number: int = 1
    of: tuple[Var, ...] = ()

    def times(self, other: Size) -> Size:
        """The product of two."""
        return Size(self.number * other.number, tuple(sorted((*self.of, *other.of), key=lambda v: v.id)))

    def over(self, other: Size) -> Size | None:
        """The quotient, of numbers rounded down; None if variables are not among these."""
        more = Counter(self.of)
        more.subtract(other.of)
        if any(k < 0 for k in more.values()):
            return None
        return Size(self.number // other.number, tuple(sorted(more.elements(), key=lambda v: v.id)))

    def atom(self, b: Builder) -> Atom:
        """It as an atom."""
        out: Atom = i64(self.number)
        for v in self.of:
            out = v if out == ONE else b.op("mul", out, v)
        return out


@dataclass(slots=True)
class Digits:
    """The axes that an iteration is: their sizes, the last one moving fastest, and which variables are one of these."""

    sizes: list[Size]
    parts: dict[Var, int]
    whole: Size


def products(stms: Iterable[ir.Stm]) -> Products:
    """The products among statements."""
    made = [(s.pat[0], s.exp) for s in stms if type(s.exp) is ir.Op and s.exp.op == "mul" and s.pat[0].type is I64]
    return {v: (e.args[0], e.args[1]) for v, e in made}


def digits_of(m: ir.Map, param: Var, known: Products) -> Digits | None:
    """The digits of the iteration that a parameter of a map counts, if it is divided by parts of what is known to be
    a product."""
    whole = _size(m.width, known)
    if whole is None or len(whole.of) + (whole.number > 1) < 1 + (whole.number == 1):
        return None  # no product
    reach = {param: (Size(), whole)}  # what is below each variable's digits, and up to where they go
    cuts = {Size(), whole}
    for v, e in _divisions(m.lam):
        x, by = e.args
        d = _size(by, known)
        if not isinstance(x, Var) or x not in reach or d is None:
            continue
        low, high = reach[x]
        cut = low.times(d)
        above = high.over(cut)
        if above is not None and WHOLE_PARTS(above.times(cut) == high):
            reach[v] = (cut, high) if e.op in ("div", "quot") else (low, cut)
            cuts.add(cut)
    if len(cuts) < 3:
        return None
    ordered = sorted(cuts, key=lambda s: (len(s.of), s.number), reverse=True)
    ends = list(zip(ordered[1:], ordered, strict=False))
    sizes = []
    for low, high in ends:
        size = high.over(low)
        if size is None or not WHOLE_PARTS(size.times(low) == high):
            return None
        sizes.append(size)
    return Digits(sizes, {v: ends.index(r) for v, r in reach.items() if r in ends}, whole)


def _size(a: Atom, known: Products) -> Size | None:
    """An integer as a product; None if it is a number that is not positive."""
    if isinstance(a, Const):
        return Size(int(a.value)) if a.type is I64 and a.value > 0 else None
    if a not in known:
        return Size(1, (a,))
    x, y = [_size(f, known) for f in known[a]]
    return None if x is None or y is None else x.times(y)


def _divisions(lam: ir.Lambda) -> Iterator[tuple[Var, ir.Op]]:
    for s in lam.stms:
        if type(s.exp) is ir.Op and s.exp.op in ("div", "mod", "quot", "rem") and s.pat[0].type is I64:
            yield s.pat[0], s.exp
        for inner in s.exp.lambdas():
            yield from _divisions(inner)


def as_they_are(b: Builder, sizes: Iterable[Size]) -> Atom:
    """Whether iterations of these products are those of their digits."""
    out: Atom = TRUE
    for size in sizes:
        if SIZES_POSITIVE(not size.of):
            continue
        reach: Atom = Const(F64, float(size.number))
        for v in size.of:
            positive = b.op("lt", ZERO, v)
            out = positive if out is TRUE else b.op("and", out, positive)
            reach = b.op("mul", reach, b.op("to_f64", v))
        out = b.op("and", out, b.op("lt", reach, Const(F64, LARGEST)))
    return out


__all__ = ["Digits", "Products", "Size", "as_they_are", "digits_of", "products"]
