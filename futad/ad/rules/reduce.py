"""Reverse rules of reductions, and what those of scans share with them.

Source: Schenck et al., SC 2022, section 5.1.  The general reduction here differs in
one point: with prefixes p_k = f(p_{k-1}, x_k) and r_k the reduction of what follows k, the adjoint of p_k is
that of the first argument of f(p_k, r_k), and x_k and the operator's free variables get theirs from
f(p_{k-1}, x_k).  So free variables of the operator are differentiated too.  Neutral elements are constants:
no adjoint flows to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.ad.emit import reexecution
from futad.ad.operators import ruled
from futad.ad.reverse import Context, Scope
from futad.ad.rules.map_adjoint import MapSweep
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.operator import row_operator
from futad.core.types import (
    BOOL,
    I64,
    ONE,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Prim,
    Var,
    elem_of,
    i64,
    one,
    row_type,
    shape_of,
    zero,
)


@dataclass(slots=True)
class Fold:
    """A reduction or scan with what its return sweep knows: results and their adjoints (None: zero)."""

    width: Atom
    arrays: ir.Atoms
    lam: ir.Lambda
    neutral: ir.Atoms
    results: tuple[Var, ...]
    seeds: tuple[Atom | None, ...]

    @property
    def scalar(self) -> bool:
        return all(isinstance(n.type, Prim) for n in self.neutral)


def isolated(b: Builder) -> Scope:
    """A scope in which only what it is told is active: for derivatives of an operator at a point."""
    return Scope("root", None, Context(), b)


def reverse(b: Builder, n: Atom, array: Atom) -> Var:
    """The array backwards along dimension 0."""
    last = b.op("sub", n, ONE, hint="last")
    return b.let(ir.At(array, (Range(last, n, i64(-1)),)), "rev")


def along_rows(s: Scope, f: Fold, row: ir.Lambda, scan: bool) -> None:
    """A vectorised operator: the scalar fold of every column."""
    b = s.b
    m = shape_of(f.neutral[0].type)[0]

    cols = [Var("col", _column(a.type, f.width)) for a in f.arrays]
    units = [Var("ne", row_type(n.type)) for n in f.neutral]
    inner = Builder()
    op = reexecution(row)
    exp: ir.Exp = (
        ir.Scan(f.width, tuple(cols), op, tuple(units))
        if scan
        else ir.Reduce(f.width, tuple(cols), op, tuple(units))
    )
    outs = inner.emit(exp, "y")
    outer = Builder()
    flipped = []
    for a in f.arrays:
        rank = len(shape_of(a.type))
        flipped.append(outer.let(ir.Rearrange(a, (1, 0, *range(2, rank))), "cols"))
    lam = ir.Lambda((*cols, *units), tuple(inner.stms), outs)
    ys = outer.emit(ir.Map(m, (*flipped, *f.neutral), lam), "ys")
    swept = s.forward(outer.stms)
    for y, seed in zip(ys, f.seeds, strict=True):
        if seed is not None:
            if scan:
                rank = len(shape_of(seed.type))
                seed = b.let(ir.Rearrange(seed, (1, 0, *range(2, rank))), "cols")
            s.add(y, seed)
    s.back(swept)


def _column(t: object, width: Atom) -> ArrayType:
    assert isinstance(t, ArrayType)
    return ArrayType(t.elem, (width, *t.shape[2:]))


# --- reduce -------------------------------------------------------------------------------------------------


def reduce_part(s: Scope, f: Fold) -> None:
    """Adjoints of one independent part of a reduction."""
    op = ruled(f.lam)
    seed = f.seeds[0]
    t = f.neutral[0].type
    if (row := row_operator(f.lam)) is not None and op != "add":
        along_rows(s, f, row.lam, scan=False)
        return
    if op is None or op == "mul" and not elem_of(t).is_float:
        _general_reduce(s, f)
        return
    assert seed is not None
    if op == "add" or op == "xor" and t is BOOL:
        s.add(f.arrays[0], s.replicate(f.width, seed))
    elif op in ("min", "max"):
        _arg_extremum(s, f, seed)
    elif op == "mul":
        _product(s, f, seed)
    elif t is BOOL:
        _logical(s, f, op, seed)
    # Bits of integers have no derivative.


def _logical(s: Scope, f: Fold, op: str, seed: Atom) -> None:
    """and, or: an element shows if no other one decides the result, which is found by counting those that do."""
    b = s.b
    deciding = Const(BOOL, op == "or")

    def decides(c: Builder, x: Atom) -> Atom:
        return c.op("select", c.op("eq", x, deciding), ONE, ZERO)

    count = b.sum_outer(f.width, b.zip_with(decides, f.arrays[0]), "deciding")

    def pull(c: Builder, x: Var) -> Atom:
        return c.op("and", seed, c.op("eq", count, decides(c, x)))

    s.add(f.arrays[0], b.zip_with(pull, f.arrays[0]))


def _arg_extremum(s: Scope, f: Fold, seed: Atom) -> None:
    """min, max: the first element equal to the result takes all."""
    b, n, y = s.b, f.width, f.results[0]
    where = b.let(ir.Iota(n, ZERO, ONE), "is")
    hits = b.zip_with(lambda c, i, x: c.op("select", c.op("eq", x, y), i, n), where, f.arrays[0])
    first = b.lambda_([("i", I64), ("j", I64)], lambda c, i, j: [c.op("min", i, j)])
    (at,) = b.emit(ir.Reduce(n, (hits,), first, (n,), True), "arg")
    s.add_one(f.arrays[0], at, seed)


def _product(s: Scope, f: Fold, seed: Atom) -> None:
    """The product of the others: by division if no element is zero, else by counting the zeros."""
    b, n, xs, y = s.b, f.width, f.arrays[0], f.results[0]
    t = f.neutral[0].type
    assert isinstance(t, Prim)
    # Zeros are looked for only if the product is zero.
    one_zero, two_zeros, zeros, at_rest = zero_counted(b, n, xs, t, y)
    one_zero, two_zeros, at_rest = [b.op("mul", seed, a) for a in (one_zero, two_zeros, at_rest)]

    s.add(xs, b.map_(lambda c, x: [of_the_others(c, x, one_zero, two_zeros, zeros, at_rest)], xs)[0])


def zero_counted(b: Builder, n: Atom, xs: Atom, t: Prim, y: Var) -> tuple[Atom, ...]:
    """What `of_the_others` takes, `y` being the product of `xs`: zeros are looked for only if that is zero."""
    nil = zero(t)

    def search(c: Builder) -> list[Atom]:
        def split(d: Builder, x: Var) -> list[Atom]:
            none = d.op("eq", x, nil)
            return [d.op("select", none, ONE, ZERO), d.op("select", none, one(t), x), d.op("select", none, x, nil)]

        is_zero, others, nils = c.map_(split, xs)
        mul = c.lambda_([("x", t), ("y", t)], lambda d, x, y: [d.op("mul", x, y)])
        (count,) = c.emit(ir.Reduce(n, (is_zero,), c.plus_lambda(I64), (ZERO,), True), "zeros")
        (product,) = c.emit(ir.Reduce(n, (others,), mul, (one(t),), True), "product")
        (z,) = c.emit(ir.Reduce(n, (nils,), c.plus_lambda(t), (nil,), True), "z")
        one_zero, two_zeros, rest = numerators(c, t, count, product, z)
        return [one_zero, two_zeros, z, rest]

    found = b.body(search)
    plain = b.body(lambda c: [nil, nil, nil, y])
    return b.emit(ir.If(b.op("eq", y, nil), found, plain), "product", types=[t] * 4)


def numerators(b: Builder, t: Prim, count: Atom, product: Atom, z: Atom) -> tuple[Atom, Atom, Atom]:
    """What the derivative of a product is made of, `count` of whose factors are zero, `product` being the product of
    the others, `z` the sum of those that are zero:

    the product if exactly one factor is zero, else 0; the same for exactly two; and the derivative's numerator at
    factors that are not zero.  A factor x that is one of two zeros has the derivative p (z - x), and one beside a
    single zero p z / x.  Both are 0, but their derivatives are not.
    """
    nil = zero(t)

    def where(k: int, value: Atom) -> Atom:
        return b.op("select", b.op("eq", count, i64(k)), value, nil)

    # A product that overflows has no derivative to speak of, and would make NaN of the zero.
    small = b.op("lt", b.op("abs", product), Const(t, float("inf")))
    beside = b.op("mul", b.op("select", small, product, nil), z)
    rest = b.op("select", b.op("eq", count, ZERO), product, where(1, beside))
    return where(1, product), where(2, b.op("select", small, product, nil)), rest


def of_the_others(b: Builder, x: Atom, one_zero: Atom, two_zeros: Atom, z: Atom, rest: Atom) -> Atom:
    """The derivative of a product in its factor `x`, from `numerators`."""
    t = x.type
    assert isinstance(t, Prim)
    at_zero = b.body(lambda c: [c.op("add", one_zero, c.op("mul", two_zeros, c.op("sub", z, x)))])
    other = b.body(lambda c: [c.op("div", rest, x)])
    return b.emit(ir.If(b.op("eq", x, zero(t)), at_zero, other), "x_bar", types=[t])[0]


def shifted(b: Builder, scanned: Sequence[Atom], at: Atom, inside: Atom, neutral: Sequence[Atom]) -> tuple[Atom, ...]:
    """scanned[at], or the neutral elements where `inside` is false."""
    then = b.body(lambda c: [c.at(y, at) for y in scanned])
    orelse = b.body(lambda c: list(neutral))
    return b.emit(ir.If(inside, then, orelse), "l", types=[n.type for n in neutral])


def _general_reduce(s: Scope, f: Fold) -> None:
    b, n = s.b, f.width
    k = len(f.neutral)
    before = b.emit(ir.Scan(n, f.arrays, reexecution(f.lam), f.neutral), "before")
    flip = reexecution(f.lam)
    flip = ir.Lambda(flip.params[k:] + flip.params[:k], flip.stms, flip.result)
    after = b.emit(ir.Scan(n, tuple([reverse(b, n, a) for a in f.arrays]), flip, f.neutral), "after")
    m = MapSweep(s, n)
    c = m.inner.b
    lam = reexecution(f.lam)
    for p, a in zip(lam.params[k:], f.arrays, strict=True):
        m.primal(p, a)
    i = m.index()
    left = shifted(c, before, c.op("sub", i, ONE), c.op("lt", ZERO, i), f.neutral)
    for p, v in zip(lam.params[:k], left, strict=True):
        m.inner.local.add(p)
        c.add(ir.Stm((p,), ir.Alias(v)))
    swept = m.inner.forward(lam.stms)
    back = c.op("sub", c.op("sub", n, i), i64(2))
    right = shifted(c, after, back, c.op("le", ZERO, back), f.neutral)
    probe = isolated(c)
    wrt = [True] * k + [False] * k
    prefix = probe.inline(f.lam, [*lam.result, *right], wrt, f.seeds)[:k]
    for r, seed in zip(lam.result, prefix, strict=True):
        if seed is not None:
            m.inner.add(r, seed)
    m.inner.back(swept)
    m.finish()
