"""Shifts that a result does not depend on have no derivative.

    let m = maximum v
    in m + log (sum (map (\\u -> exp (u - m)) v))

is the same number for every m, which is there against overflow; so is a softmax.  Its derivative by m is a sum of terms
that cancel, but for round-off, and the element at which the maximum was found is looked for only to be given nothing.
Such a variable is marked, and has neither tangent nor adjoint.

What follows from a variable m in its scope has a *weight* k, a rational number: x + k m where x is the same for every
m (`ADDED`), or x exp(k m) (`SCALED`).  Differences of equal weights, quotients of equal weights, and comparisons of
either, have none.  If no weight reaches the scope's results, or a construct that is not known here, the derivative by
m is zero, as an identity of real numbers.  (Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and
softmax functions", 2021, have the identity.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import zip_longest
from math import isfinite, isinf
from typing import NamedTuple

from futad.ad.activity import NO_DERIVATIVE
from futad.core import ir
from futad.core.operator import scalar_op
from futad.core.types import Atom, Const, Prim, Var
from futad.legality import Legality

LEGAL = Legality(
    "shifts",
    "what a result is shifted by and back, as log-sum-exp is by its maximum, has no derivative",
    worth="a mixture with its gradient 3.1 to 0.44 ms: `benchmarks/without.py shifts mixture`; hmm 4.6 to 3.3",
)
SAME_SHIFT = LEGAL.condition("shifted alike", "the result depends on the shift")
KNOWN_USE = LEGAL.condition("a known use", "the shift may reach the result by way of what is not known to keep it")
STAYS = LEGAL.condition("out of the result", "the scope returns what depends on the shift")


class Weight(NamedTuple):
    scaled: bool
    k: Fraction


ONE = Weight(False, Fraction(1))
NONE = Weight(False, Fraction(0))


class _Unknown(Exception):
    """The shift reaches what is not known to be independent of it."""


def without_shifts(lam: ir.Lambda) -> ir.Lambda:
    """The function with statements marked by whose value its results are only shifted and shifted back."""
    out = [ir.map_scopes(s, without_shifts) for s in lam.stms]
    for at, s in enumerate(out):
        if _extremum(s) and NO_DERIVATIVE not in s.attrs and _cancels(s.pat[0], out[at + 1 :], lam.result):
            LEGAL.fired()
            out[at] = ir.Stm(s.pat, s.exp, (*s.attrs, NO_DERIVATIVE), s.grid)
    return ir.with_statements(lam, out)


def unmarked(stms: Iterable[ir.Stm]) -> list[ir.Stm]:
    """The statements without marks."""
    out: list[ir.Stm] = []
    for s in stms:
        s = ir.map_scopes(s, _unmarked)
        attrs = tuple([a for a in s.attrs if a != NO_DERIVATIVE]) if s.attrs else ()
        out.append(s if attrs == s.attrs else ir.Stm(s.pat, s.exp, attrs, s.grid))
    return out


def _unmarked(lam: ir.Lambda) -> ir.Lambda:
    return ir.with_statements(lam, unmarked(lam.stms))


def _extremum(s: ir.Stm) -> bool:
    """Whether the statement is the least or greatest of several floats, whose derivative is dearer than its value."""
    e = s.exp
    if len(s.pat) != 1 or not isinstance(t := s.pat[0].type, Prim) or not t.is_float:
        return False
    op = e.op if isinstance(e, ir.Op) else scalar_op(e.lam) if isinstance(e, ir.Reduce) else None
    return op in ("min", "max")


def _cancels(m: Var, after: list[ir.Stm], result: ir.Atoms) -> bool:
    """Whether nothing in the result, and nothing that the statements do, depends on m in the end."""
    weights: dict[Var, Weight] = {m: ONE}
    try:
        for s in after:
            _follow(s, weights)
    except _Unknown:
        return False
    return STAYS(not any(a in weights for a in result))


def _follow(s: ir.Stm, weights: dict[Var, Weight]) -> None:
    """Note the weights of what the statement binds."""
    for v, w in zip(s.pat, _weights(s, weights), strict=True):
        if w.k:
            weights[v] = w


def _of(a: Atom, weights: dict[Var, Weight]) -> Weight:
    return weights.get(a, NONE) if type(a) is Var else NONE


def _equal(ws: Sequence[Weight], atoms: ir.Atoms = ()) -> Weight:
    """The weight that all of them have.  Zero is zero times whatever factor, and infinity stays what it is."""
    common = next(w for w in (*[w for w in ws if w.k], NONE))
    for a, w in zip_longest(atoms, ws):
        constant = a.value if isinstance(a, Const) and isinstance(a.value, float) else None
        absorbs = constant is not None and (isinf(constant) or common.scaled and constant == 0)
        if not SAME_SHIFT(w == common or absorbs):
            raise _Unknown
    return common


def _weights(s: ir.Stm, weights: dict[Var, Weight]) -> list[Weight]:
    """The weights of what the statement binds."""
    e = s.exp
    match e:
        case ir.Op(op, args):
            return [_op(op, args, weights)]
        case ir.Map(_, arrays, lam):
            return _scope(lam, [_of(a, weights) for a in arrays], weights)
        case ir.Reduce() if len(e.arrays) == 1 and (w := _of(e.arrays[0], weights)).k:
            return [_folded(e, w)]
        case ir.If(cond, then, orelse):
            if not KNOWN_USE(cond not in weights):
                raise _Unknown
            results = zip(then.result, orelse.result, strict=True)
            both = zip(_scope(then, [], weights), _scope(orelse, [], weights), strict=True)
            return [_equal(ws, atoms) for ws, atoms in zip(both, results, strict=True)]
        case ir.Alias(a) | ir.Copy(a) | ir.Reshape(a) | ir.Rearrange(a) | ir.Replicate(_, a):
            return [_of(a, weights)]
        case ir.At(array):
            others = [a for a in e.operands() if a is not array]
            if not KNOWN_USE(not any(a in weights for a in others)):
                raise _Unknown
            return [_of(array, weights)]
        case ir.ArrayLit(elems) if elems:
            return [_equal([_of(a, weights) for a in elems], elems)]
    if not KNOWN_USE(not any(v in weights for v in ir.stm_free(s))):
        raise _Unknown
    return [NONE for _ in s.pat]


def _scope(lam: ir.Lambda, params: list[Weight], weights: dict[Var, Weight]) -> list[Weight]:
    """The weights of a scope's results."""
    inside = weights | {p: w for p, w in zip(lam.params, params, strict=False) if w.k}
    for s in lam.stms:
        _follow(s, inside)
    return [_of(a, inside) for a in lam.result]


def _folded(e: ir.Reduce, w: Weight) -> Weight:
    """The weight of a reduction of elements of one weight: a sum of products, a least or greatest element."""
    op, (neutral,) = scalar_op(e.lam), e.neutral
    value = neutral.value if isinstance(neutral, Const) else None
    kept = op == "add" and w.scaled and value == 0
    kept = kept or op in ("min", "max") and isinstance(value, float) and isinf(value)
    if not SAME_SHIFT(kept):
        raise _Unknown
    return w


def _op(op: str, args: ir.Atoms, weights: dict[Var, Weight]) -> Weight:
    """The weight of an operation."""
    ws = [_of(a, weights) for a in args]
    if not any(w.k for w in ws):
        return NONE
    w, other = ws[0], ws[-1]
    scaled = any(x.scaled for x in ws)
    added = any(x.k and not x.scaled for x in ws)
    match op:
        case "add" | "sub" if not scaled:
            return Weight(False, w.k + other.k if op == "add" else w.k - other.k)
        case "add" | "sub" | "min" | "max" | "lt" | "le" | "eq" | "ne":
            common = _equal(ws, args)
            return common if op in ("add", "sub", "min", "max") else NONE
        case "select":
            if KNOWN_USE(not ws[0].k):
                return _equal(ws[1:], args[1:])
        case "neg":
            return w if scaled else Weight(False, -w.k)
        case "exp":
            if not scaled:
                return Weight(True, w.k)
        case "log":
            if scaled:
                return Weight(False, w.k)
        case "sqrt":
            if scaled:
                return Weight(True, w.k / 2)
        case "mul" | "div" if not added:
            return Weight(True, w.k + other.k if op == "mul" else w.k - other.k)
        case "mul" | "div":
            factors = [a for a in args if isinstance(a, Const)]
            if len(factors) == 1 and (op == "mul" or factors[0] is args[1]) and isfinite(factors[0].value):
                c = Fraction(factors[0].value)
                if op == "mul" or c:
                    return Weight(False, (w.k + other.k) * c if op == "mul" else w.k / c)
    if not KNOWN_USE(False):
        raise _Unknown
    return NONE


__all__ = ["unmarked", "without_shifts"]
