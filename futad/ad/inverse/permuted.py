"""Arrays whose elements are read or written in another order, solved for the array in the order before.

| statement with known result | solved for |
|---|---|
| `map (\\k -> xs[p k]) (iota n)` | `xs`, read at the inverse of p |
| `scatter ys (map p (iota n)) xs` of n elements | `xs`, read at p; `ys` is lost |

p is a permutation of 0 .. n - 1 if it is n - 1 - k, or (c k + d) mod n where c is 1 or -1, or a number that has no
factor in common with n, another number.  d is made of numbers and of n, so that nothing wraps around.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from math import gcd

from futad.ad.inverse.places import poly_of
from futad.ad.inverse.solver import LEGAL, ROWS, Solver, is_const
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ONE, ZERO, Atom, Const, Var, i64, shape_of
from futad.rewrite.ranges import Poly, plus

PERMUTES = LEGAL.condition("each place once", "an element that is read twice, or never, is lost")

SMALL = 1 << 31  # factors and sizes whose products do not wrap around


@dataclass(frozen=True, slots=True)
class _Rotation:
    """k -> (factor k + offset) mod n; `offset`: a number, and how many times n."""

    factor: int
    offset: int
    times: int

    def inverse(self, size: int | None) -> _Rotation:
        """`size`: n if that is a number."""
        if abs(self.factor) == 1:
            return _Rotation(self.factor, -self.factor * self.offset, 0)
        size = size or 1
        back = pow(self.factor, -1, size) if gcd(self.factor, size) == 1 else 1
        return _Rotation(back, -back * self.offset % size, 0)

    def emit(self, b: Builder, k: Atom, n: Atom) -> Atom:
        """Code for the place of k."""
        at = k if self.factor == 1 else b.op("mul", i64(self.factor), k)
        return b.op("mod", at if not self.offset else b.op("add", at, i64(self.offset)), n, hint="at")


def gathered(s: Solver, stm: ir.Stm) -> bool:
    """Solve a map that only reads arrays at places; whether it is one."""
    e = stm.exp
    assert isinstance(e, ir.Map)
    width = s.value(e.width)
    found = False
    for v, r in zip(stm.pat, e.lam.result, strict=True):
        at = next((x.exp for x in e.lam.stms if x.pat == (r,)), None)
        if width is None or not isinstance(at, ir.At) or v not in s.known or len(at.index) != 1:
            continue
        x, (index,) = at.array, at.index
        if not isinstance(x, Var) or x in e.lam.params or s.value(x) is not None or not isinstance(index, Var | Const):
            continue
        inside = _inside(s, e.lam)
        if x in inside.made or poly_of(s, shape_of(x.type)[0]) != poly_of(s, e.width):
            continue
        rotation = _rotation(inside, e, index)
        if rotation is not None:
            size = width.value if isinstance(width, Const) else None
            s.learn(x, _read(s.b, s.known[v], width, rotation.inverse(size)))
            found = True
    return found


def _read(b: Builder, a: Atom, n: Atom, rotation: _Rotation) -> Atom:
    """The array with what `a` has at the place of each of n elements."""
    iota = b.let(ir.Iota(n, ZERO, ONE), "k")
    lam = b.lambda_([("k", I64)], lambda c, k: [c.at(a, rotation.emit(c, k, n))])
    return b.let(ir.Map(n, (iota,), lam), "back")


def _reading(b: Builder, a: Atom) -> ir.Lambda:
    return b.lambda_([("at", I64)], lambda c, at: [c.at(a, at)])


def _scatter(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Scatter)
    if len(e.idxs) != 1:
        return
    (index,) = e.idxs
    made = s.made.get(index) or s.outer.get(index) if isinstance(index, Var) else None
    width, places = s.value(e.width), s.value(index)
    if made is None or width is None or places is None:
        return
    inner, n = made.exp, poly_of(s, e.width)
    if isinstance(inner, ir.Map):
        rotation = _rotation(_inside(s, inner.lam), inner, inner.lam.result[made.pat.index(index)])
        once = rotation is not None and poly_of(s, inner.width) == n
    else:
        once = isinstance(inner, ir.Iota) and _counts(s, index) and poly_of(s, inner.count) == n
    if not once:
        return
    for v, x in zip(stm.pat, e.values, strict=True):
        if v in s.known and s.value(x) is None and poly_of(s, shape_of(v.type)[0]) == n:
            r = s.known[v]
            s.learn(x, s.b.let(ir.Map(width, (places,), _reading(s.b, r)), "back"))


def _inside(s: Solver, lam: ir.Lambda) -> Solver:
    """A scope inside, of which definitions are asked."""
    outer = ChainMap(s.made, *s.outer.maps)
    visible = s.visible.union(lam.params)
    return Solver(lam.stms, s.inside, visible, dict(s.known), Builder(), s.rounding, None, outer, s.counts)


def _rotation(inside: Solver, e: ir.Map, index: Atom) -> _Rotation | None:
    """The permutation of 0 .. width - 1 that `index` is in a map over them, if it can be shown to be one."""
    counts = [p for p, a in zip(e.lam.params, e.arrays, strict=True) if _counts(inside, a)]
    n = poly_of(inside, e.width)
    size = n.get((), 0) if not set(n) - {()} else None
    modulo = inside.defined(index, ir.Op)
    whole = isinstance(modulo, ir.Op) and modulo.op == "mod" and poly_of(inside, modulo.args[1]) == n
    at = poly_of(inside, modulo.args[0] if whole and isinstance(modulo, ir.Op) else index)
    for k in counts:
        factor = at.get((k,), 0)
        factor -= 1 << 64 if factor >= 1 << 63 else 0
        rotation = _offset(plus(at, {(k,): at.get((k,), 0)}, -1), n, size, factor)
        if rotation is None:
            continue
        if not whole:
            reversals = _Rotation(-1, -1, 1), _Rotation(-1, (size or 0) - 1, 0)
            ends = rotation == _Rotation(1, 0, 0) or rotation in reversals
            if PERMUTES(ends):
                return _Rotation(factor, rotation.offset, 0)
        elif PERMUTES(abs(factor) == 1 or size is not None and gcd(factor, size) == 1):
            return rotation
    return None


def _counts(s: Solver, a: Atom) -> bool:
    e = s.defined(a, ir.Iota)
    return isinstance(e, ir.Iota) and is_const(e.start, 0) and is_const(e.step, 1)


def _offset(rest: Poly, n: Poly, size: int | None, factor: int) -> _Rotation | None:
    """What is added to factor * k, as a number and a multiple of n; None if it may be large, or anything else."""
    if abs(factor) >= SMALL or size is not None and size >= SMALL:
        return None
    for times in (0, 1, -1) if size is None else (0,):
        left = rest
        for _ in range(abs(times)):
            left = plus(left, n, -1 if times > 0 else 1)
        number = left.get((), 0)
        number -= 1 << 64 if number >= 1 << 63 else 0
        if not set(left) - {()} and abs(number) < SMALL:
            return _Rotation(factor, number, times)
    return None


ROWS.update({ir.Scatter: _scatter})

__all__ = ["gathered"]
