"""Whether two affine views of one piece of memory overlap: proofs with symbolic sizes.

A `View` is a linear memory access descriptor (LMAD): the places `offset + sum of i_d * stride_d` for `0 <= i_d < n_d`.
Offsets, strides and sizes become polynomials over the variables of the emitted code, as far as their definitions are
known; the bounds of loop variables, the sizes of arrays and the checks that have been passed are what is known of them.
Two views of the same pointer are disjoint if

* one ends before the other begins, or
* there is a stride s such that, with each offset split into `q * s + r`, both views stay within `[0, s)` in what is
  left without s, and either the positions along s or what is left are disjoint.

The second is the theorem of "Memory Optimizations in an Array Language" (Munksgaard et al., SC 2022), section V.
Nothing is assumed of pointers with different names: if their roots meet, the views may.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from futad.core.types import I64, Var
from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref
from futad.imp.views import Joined, Mem, View
from futad.rewrite.ranges import Mono, Poly, Ranges, constant, plus, times

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

Dim = tuple[Poly, Poly]
"""Size and stride."""

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul"}
_LONGEST = 24  # terms of a polynomial


class Regions:
    """What is known, at one point of lowering, of the numbers in offsets and sizes."""

    def __init__(self, lo: Lowerer) -> None:
        self.lo = lo
        self.facts = Ranges({})
        self.vars: dict[Expr, Var] = {}
        self.polys: dict[Expr, Poly] = {}
        for index, size in lo.checked:
            if size.type is I64:
                after = plus(self.poly(size), self.poly(index), -1)
                self.facts.not_negative(self.poly(index))
                self.facts.not_negative(plus(after, {(): -1}))

    # -- proofs

    def disjoint(self, a: View, b: View, strides: Iterable[Expr] = ()) -> bool:
        """Whether the two views surely have no element in common; `strides`: others worth splitting by, those of an
        array that both are parts of, say."""
        if not a.roots & b.roots:
            return True
        for x, y in ((a, b), (b, a)):
            if isinstance(x.base, Joined):
                return all(self.disjoint(part, y, strides) for part in x.base.views)
        if not (isinstance(a.base, Mem) and isinstance(b.base, Mem)) or a.base.pointer != b.base.pointer:
            return False
        first, second = self.region(a), self.region(b)
        if first is None or second is None:
            return False
        (p, dims), (q, others) = first, second
        steps: list[Poly] = []
        for s in (*[s for _, s in (*dims, *others)], *map(self.poly, strides)):
            if s and s not in steps:
                steps.append(s)
        return self._disjoint(p, dims, q, others, steps)

    def same(self, a: View, b: View) -> bool:
        """Whether both views surely cover the same elements in the same order."""
        if a.same_place(b) and a.rank == b.rank:
            return True
        if not (isinstance(a.base, Mem) and isinstance(b.base, Mem)) or a.base.pointer != b.base.pointer:
            return False
        pairs = [(a.offset, b.offset), *zip(a.shape, b.shape, strict=False), *zip(a.strides, b.strides, strict=False)]
        return a.rank == b.rank and all(x == y or self._equal(x, y) for x, y in pairs)

    def _equal(self, x: Expr, y: Expr) -> bool:
        return self.poly(x) == self.poly(y)

    def _disjoint(self, p: Poly, dims: list[Dim], q: Poly, others: list[Dim], steps: list[Poly]) -> bool:
        gap, back = plus(q, p, -1), plus(p, q, -1)
        if self._after(gap, self._extent(dims)) or self._after(back, self._extent(others)):
            return True
        for k, s in enumerate(steps):
            (mono, c), *more = s.items()
            if more or c < 1 or (mono == () and c == 1):
                continue
            one = _along(dims, s)
            two = _along(others, s)
            if one is None or two is None:
                continue
            (n, inner), (m, within) = one, two
            p_along, p_rest = split(p, mono, c)
            q_along, q_rest = split(q, mono, c)
            if not self._within(p_rest, inner, s) or not self._within(q_rest, within, s):
                continue
            gap = plus(q_along, p_along, -1)
            if self.facts.prove(plus(gap, n, -1)) or self.facts.prove(plus(constant(0), plus(gap, m), -1)):
                return True
            if self._disjoint(p_rest, inner, q_rest, within, steps[:k] + steps[k + 1 :]):
                return True
        return False

    def _after(self, gap: Poly, extent: Poly) -> bool:
        """Whether something that begins `gap` later begins after the last of `extent` more places."""
        return self.facts.prove(plus(plus(gap, extent, -1), {(): -1}))

    def _within(self, offset: Poly, dims: list[Dim], step: Poly) -> bool:
        """Whether all places are in [0, step)."""
        return self.facts.prove(offset) and self._after(plus(step, offset, -1), self._extent(dims))

    def _extent(self, dims: list[Dim]) -> Poly:
        """How far the last place is from the first; of an empty view that does not matter."""
        out: Poly = {}
        for n, s in dims:
            out = plus(out, times(plus(n, {(): -1}), s))
        return out

    # -- polynomials

    def region(self, v: View) -> tuple[Poly, list[Dim]] | None:
        """Offset and dimensions; None if a stride may be negative, or an offset is read from memory."""
        if _reads(v.offset):
            return None
        offset = self.poly(v.offset)
        dims: list[Dim] = []
        for n, s in zip(v.shape, v.strides, strict=True):
            if _reads(n) or _reads(s):
                return None
            size, step = self.poly(n), self.poly(s)
            if size != {(): 1}:
                self.facts.not_negative(size)
                dims.append((size, step))
        if len(offset) > _LONGEST or not all(self.facts.prove(s) for _, s in dims):
            return None
        return offset, dims

    def poly(self, e: Expr) -> Poly:
        """An i64 expression as a polynomial over variables that stand for the rest."""
        got = self.polys.get(e)
        if got is None:
            got = self._expand(e)
            if len(got) > _LONGEST:
                got = {(self.var(e),): 1}
            self.polys[e] = got
        return got

    def _expand(self, e: Expr) -> Poly:
        if isinstance(e, Num):
            return constant(e.value)
        if isinstance(e, Ref):
            init = self.lo.lets.get(e.name)
            return {(self.var(e),): 1} if init is None or e.type is not I64 or _reads(init) else self.poly(init)
        if isinstance(e, ir.Bin) and e.op in ARITHMETIC:
            return self._combine(ARITHMETIC[e.op], e.left, e.right)
        if isinstance(e, ir.Scalar) and e.op in ARITHMETIC.values() and e.type is I64:
            return self._combine(e.op, *e.args)
        return {(self.var(e),): 1}

    def _combine(self, op: str, a: Expr, b: Expr) -> Poly:
        p, q = self.poly(a), self.poly(b)
        return times(p, q) if op == "mul" else plus(p, q, 1 if op == "add" else -1)

    def var(self, e: Expr) -> Var:
        """The variable that stands for an expression, with what is known of it."""
        got = self.vars.get(e)
        if got is not None:
            return got
        v = self.vars[e] = Var("x", I64)
        if e in self.lo.sizes:
            self.facts.sizes.add(v)
        if isinstance(e, Ref) and e.name in self.lo.ranges:
            self.facts.between(v, self.poly(self.lo.ranges[e.name]))
        return v


def _reads(e: Expr) -> bool:
    """Whether the value depends on memory, so that equal expressions need not be equal numbers."""
    match e:
        case ir.Load():
            return True
        case ir.Bin(_, left, right):
            return _reads(left) or _reads(right)
        case ir.Scalar(_, args):
            return any(map(_reads, args))
    return False


def _along(dims: list[Dim], step: Poly) -> tuple[Poly, list[Dim]] | None:
    """The size of the dimension with this stride (1 if there is none) and the other dimensions; None if several."""
    sizes = [n for n, s in dims if s == step]
    if len(sizes) > 1:
        return None
    return (sizes[0] if sizes else constant(1)), [d for d in dims if d[1] != step]


def split(p: Poly, mono: Mono, c: int) -> tuple[Poly, Poly]:
    """`p` as q * (c * mono) + r."""
    q: Poly = {}
    r: Poly = {}
    for m, k in p.items():
        rest = list(m)
        for v in mono:
            if v not in rest:
                r[m] = k
                break
            rest.remove(v)
        else:
            if k % c:
                r[m] = k % c
            if k // c:
                q[tuple(rest)] = k // c
    return q, r


__all__ = ["ARITHMETIC", "Regions", "split"]
