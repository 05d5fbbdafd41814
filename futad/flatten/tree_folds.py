"""Reductions and scans of arrays whose operator is no map over them, such as matrix products: iterations of maps.

    reduce op ne xs   -->   neighbours combined, until one is left: loop xs while length xs > 1 do
                              map2 op xs[::2] xs[1::2] ++ (the last one, if their number is odd)
    scan op ne xs     -->   loop xs for d = 1, 2, 4, .. while 2 d <= n do       -- sums of blocks of 2 d
                              xs with [2 d - 1 :: 2 d] = map2 op xs[d - 1 :: 2 d] xs[2 d - 1 :: 2 d]
                            loop xs for d = .., 4, 2, 1 do                      -- of what lies between their ends
                              xs with [3 d - 1 :: 2 d] = map2 op xs[2 d - 1 :: 2 d] xs[3 d - 1 :: 2 d]

Each element is combined once or twice, in 1 or 2 log2 n iterations.  (Brent and Kung, "A Regular Layout for Parallel
Adders", 1982.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.node import Range
from futad.core.types import BOOL, I64, Atom, Type, Var, array_of, i64
from futad.fires import Transformation

ZERO, ONE, TWO = i64(0), i64(1), i64(2)
Step = Callable[[Builder, Atom, Sequence[Var]], tuple[Atom, Sequence[Atom]]]


LOGARITHMIC = Transformation(
    "folds-of-arrays",
    "a fold of arrays becomes log2 n maps over pairs",
    worth="no kernel folds arrays: a product of 1,000,000 matrices is 45 launches, or 1,000,000 steps of one thread",
)


def in_iterations(stm: Stm) -> list[Stm]:
    """What a `Reduce` or `Scan` becomes."""
    e = stm.exp
    assert isinstance(e, (ir.Reduce, ir.Scan))
    LOGARITHMIC.fired()
    b = Builder()
    if isinstance(e, ir.Reduce):
        _reduce(b, stm, e)
    else:
        _scan(b, stm, e)
    return b.stms


def _reduce(b: Builder, stm: Stm, e: ir.Reduce) -> None:
    elements = [a.type for a in e.neutral]

    def halve(inner: Builder, n: Atom, xs: Sequence[Var]) -> tuple[Atom, Sequence[Atom]]:
        pairs = inner.op("quot", n, TWO)
        rest = inner.op("sub", n, inner.op("mul", TWO, pairs))
        combined = _combined(inner, e.lam, pairs, xs, (ZERO, ONE), TWO)
        last = [_part(inner, x, inner.op("sub", n, rest), rest, ONE) for x in xs]
        left = inner.op("add", pairs, rest, hint="n")
        return left, [inner.let(ir.Concat((c, x), left), "xs") for c, x in zip(combined, last, strict=True)]

    # The number of those left is a loop variable, and in the types of the arrays.
    n, more, next_ = Var("n", I64), Var("more", BOOL), Builder()
    xs = [Var("xs", array_of(t, n)) for t in elements]
    left, made = halve(next_, n, xs)
    result = (next_.op("lt", ONE, left), left, *made)
    body = Lambda((more, n, *xs), tuple(next_.stms), result)
    count = Var("n", I64)
    pat = (Var("more", BOOL), count, *[Var("xs", array_of(t, count)) for t in elements])
    b.add(Stm(pat, ir.While((b.op("lt", ONE, e.width), e.width, *e.arrays), body)))
    first = b.body(lambda inner: [inner.at(x, ZERO) for x in pat[2:]])
    none = Lambda((), (), e.neutral)
    b.add(Stm(stm.pat, ir.If(b.op("eq", e.width, ZERO), none, first), stm.attrs))


def _scan(b: Builder, stm: Stm, e: ir.Scan) -> None:
    elements = [array_of(a.type, e.width) for a in e.neutral]

    def up(inner: Builder, d: Atom, xs: Sequence[Var]) -> tuple[Atom, Sequence[Atom]]:
        twice = inner.op("mul", TWO, d)
        count = inner.op("quot", e.width, twice)
        at = inner.op("sub", d, ONE), inner.op("sub", twice, ONE)
        return twice, _updated(inner, e.lam, count, xs, at, twice)

    def down(inner: Builder, d: Atom, xs: Sequence[Var]) -> tuple[Atom, Sequence[Atom]]:
        twice = inner.op("mul", TWO, d)
        count = inner.op("quot", inner.op("sub", e.width, d), twice)
        at = inner.op("sub", twice, ONE), inner.op("sub", inner.op("add", twice, d), ONE)
        return inner.op("quot", d, TWO), _updated(inner, e.lam, count, xs, at, twice)

    def enough(inner: Builder, d: Atom) -> Var:
        return inner.op("le", inner.op("mul", TWO, d), e.width)

    copies = [b.let(ir.Copy(a), "xs") for a in e.arrays]
    d, *xs = _loop(b, up, enough, ONE, copies, elements)
    half = b.op("quot", d, TWO)
    _, *out = _loop(b, down, lambda inner, d: inner.op("lt", ZERO, d), half, xs, elements)
    for v, x in zip(stm.pat, out, strict=True):
        b.add(Stm((v,), ir.Alias(x), stm.attrs))


def _loop(
    b: Builder, step: Step, enough: Callable[[Builder, Atom], Var], start: Atom, xs: Sequence[Atom], types: list[Type]
) -> list[Var]:
    """A loop over a distance and arrays; their values after it."""
    inner = Builder()
    more, d = Var("more", BOOL), Var("d", I64)
    arrays = [Var("xs", t) for t in types]
    then, made = step(inner, d, arrays)
    result = (enough(inner, then), then, *made)
    body = Lambda((more, d, *arrays), tuple(inner.stms), result)
    _, *out = b.emit(ir.While((enough(b, start), start, *xs), body), "more", "d", "xs")
    return out


def _part(b: Builder, x: Var, start: Atom, count: Atom, stride: Atom) -> Var:
    return b.at(x, Range(start, count, stride), hint="part")


def _combined(
    b: Builder, op: Lambda, count: Atom, xs: Sequence[Var], at: tuple[Atom, Atom], stride: Atom
) -> tuple[Var, ...]:
    """`op` on each of `count` pairs of elements, the first ones at `at`, the next `stride` further."""
    parts = [_part(b, x, start, count, stride) for start in at for x in xs]
    return b.emit(ir.Map(count, tuple(parts), ir.rename(op)), "combined")


def _updated(
    b: Builder, op: Lambda, count: Atom, xs: Sequence[Var], at: tuple[Atom, Atom], stride: Atom
) -> list[Var]:
    """The arrays with each of these pairs in the place of its second element."""
    new = _combined(b, op, count, xs, at, stride)
    place = (Range(at[1], count, stride),)
    return [b.let(ir.Update(x, place, c), "xs") for x, c in zip(xs, new, strict=True)]


__all__ = ["in_iterations"]
