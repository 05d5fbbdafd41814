"""Contractions: sums of products at places that are sums of the iterations.

They are linear in either factor.  The adjoint of one is a contraction again where the map from iterations to its places
is invertible: in `y[i] = sum over p of w[p] * x[i + p]`, x[u] is read for i = u - p, so

    x_bar[u] = sum over p of y_bar[u - p] * w[p]

where y_bar is zero outside of the places that it has.  It is put in the middle of zeros, so that no place is out of
range; where the contraction leaves out what is out of range, too (`open`), or steps are not known, and so the number of
zeros is not, there are no zeros, and terms are left out.  Each dimension of a factor is solved for one axis, its
*pivot*, which must move by one in it, run over the whole of a dimension of the seed or of the other factor, and be
nowhere else; that one gets the zeros.  All of x_bar is gone through where the contraction went through its pivots, so
these have to be about as long as x: that is asked when sizes are known.  Where no pivot is, as one moves by more than
one, parts of the contraction may have one (`strided.py`); else seeds are added up at the places.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from futad.ad.emit import add_to_acc
from futad.ad.rules.array import _rule
from futad.ad.rules.strided import LEGAL as STRIDED
from futad.ad.rules.strided import parts, split
from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.builder import Builder
from futad.core.contraction import contraction, fixed
from futad.core.node import Range
from futad.core.types import BOOL, ONE, ZERO, AccType, Atom, Const, Var, elem_of, i64, shape_of, zero
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope

LEGAL = Legality(
    "adjoint-contractions",
    "the adjoint of what is read at sums of iterations gathers",
    worth="a convolution's gradient 23 to 0.3 ms, with its value: `benchmarks/without.py contractions convolution`",
)
BY_ONE = LEGAL.condition("pivot moves by one", "the places between are given the adjoints of others")
ONE_DIMENSION = LEGAL.condition("an axis in one dimension", "what is read along a diagonal gets the adjoints of all")
ELSEWHERE_ALONE = LEGAL.condition("pivot alone elsewhere", "outside of the iterations something else than zero is read")

LONGER = 4  # a dimension may have so many times the places that its pivot has iterations: what gathering costs more
WINDOW = 64  # iterations that are taken for few beside those of a pivot, if their number is known and that one's is not


def _jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Contraction)
    t.b.add(stm)
    parts: list[Atom] = []
    if (da := t.of(e.a)) is not None:
        parts.append(t.b.let(_with(e, da, e.b), "tan"))
    if (db := t.of(e.b)) is not None:
        parts.append(t.b.let(_with(e, e.a, db), "tan"))
    if parts:
        t.set(stm.pat[0], functools.reduce(t.b.plus, parts))


def _with(e: ir.Contraction, a: Atom, b: Atom) -> ir.Contraction:
    return ir.Contraction(e.sizes, e.outs, a, e.a_start, e.a_steps, b, e.b_start, e.b_steps, e.open)


def _pull(s: Scope, e: ir.Contraction, seed: Atom) -> None:
    first, second = e.factors
    for x, y in ((first, second), (second, first)):
        if x.array not in s.ctx.active:
            continue
        assert isinstance(x.array, Var)
        s.add(x.array, _adjoint(s.b, e, seed, x, y, _pivots(e, x, y)))


def _adjoint(b: Builder, e: ir.Contraction, seed: Atom, x: ir.Factor, y: ir.Factor, ways: list[dict[int, int]]) -> Atom:
    """The adjoint of `x` by the first of these pivots that are long enough; else seeds are added up at the places."""
    if not ways:
        return _in_parts(b, e, seed, x, y) or _scattered(b, e, seed, x, y)
    pivots, *others = ways
    long = _long(b, e, x, pivots)
    if isinstance(long, Const):
        return _gathered(b, e, seed, x, y, pivots) if long.value else _adjoint(b, e, seed, x, y, others)
    then = b.body(lambda inner: [_gathered(inner, e, seed, x, y, pivots)])
    orelse = b.body(lambda inner: [_adjoint(inner, e, seed, x, y, others)])
    return b.emit(ir.If(long, then, orelse), "bar", types=[x.array.type])[0]


def _in_parts(b: Builder, e: ir.Contraction, seed: Atom, x: ir.Factor, y: ir.Factor) -> Atom | None:
    """The adjoint of `x` from those of parts of it; None if these would not be solved either."""
    inner = Builder()
    out: Atom = inner.zeros(x.array.type, "bar")
    found = split(e, x)
    for p in parts(inner, e, x, y, *found) if found is not None else ():
        ways = _pivots(p.e, p.x, p.y)
        bar = _adjoint(inner, p.e, seed, p.x, p.y, ways) if ways else _in_parts(inner, p.e, seed, p.x, p.y)
        if bar is None:
            return None
        out = inner.let(ir.Update(out, p.index, bar), "bar")
    if found is None:
        return None
    STRIDED.fired()
    b.extend(inner.stms)
    return out


def _long(b: Builder, e: ir.Contraction, x: ir.Factor, pivots: dict[int, int]) -> Atom:
    """Whether dimensions of `x` are not much longer than their pivots.  All places in them are gone through for each
    iteration of the axes that are left, where the contraction went through the pivots."""
    out: Atom = Const(BOOL, True)
    for d, pivot in pivots.items():
        size, n = e.sizes[pivot], shape_of(x.array.type)[d]
        others = [e.sizes[k] for k in x.axes(d) if k != pivot]
        if n is size or not isinstance(size, Const) and all(isinstance(m, Const) and m.value <= WINDOW for m in others):
            continue
        if isinstance(size, Const) and isinstance(n, Const):
            if n.value > LONGER * size.value:
                return Const(BOOL, False)
            continue
        fits = b.op("le", n, b.op("mul", size, i64(LONGER)))
        out = fits if isinstance(out, Const) else b.op("and", out, fits)
    return out


def _seed(e: ir.Contraction, seed: Atom) -> ir.Factor:
    """The seed as a factor of the adjoint: read at the result's axes."""
    rank = range(len(e.sizes))
    return ir.Factor(seed, (ZERO,) * e.outs, fixed([[int(k == d) for k in rank] for d in range(e.outs)]))


def _pivots(e: ir.Contraction, x: ir.Factor, y: ir.Factor) -> list[dict[int, int]]:
    """For each dimension of `x` that is no axis alone the one that it is solved for, in at most two ways; none if some
    dimension has no such axis."""
    if not ONE_DIMENSION(all(len(x.of(k)) <= 1 for k in range(len(e.sizes)))):
        return []
    whole, alone = x.along(e.sizes), y.along(e.sizes)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for d in range(len(x.start)):
        if d in whole.values():
            continue
        fit: list[int] = []
        for k in x.axes(d):
            seed_only, other_only = k < e.outs and not y.of(k), k >= e.outs and k in alone
            if BY_ONE(x.steps[d][k] in (ONE, i64(-1))) and ELSEWHERE_ALONE(seed_only or other_only):
                fit.append(k)
        # The others are summed over for each place: it has to be the longest, where sizes are known.
        longest = max([_length(e.sizes[k]) for k in x.axes(d)], default=0)
        fit = [k for k in fit if _length(e.sizes[k]) == longest]
        if not fit:
            return []
        first[d], last[d] = fit[0], fit[-1]
    return [first, last] if first != last else [first]


def _length(size: Atom) -> float:
    return float(size.value) if isinstance(size, Const) else float("inf")


def _gathered(
    b: Builder, e: ir.Contraction, seed: Atom, x: ir.Factor, y: ir.Factor, pivots: dict[int, int]
) -> Atom:
    LEGAL.fired()
    shape = shape_of(x.array.type)
    whole = x.along(e.sizes)
    rest = [k for k in range(len(e.sizes)) if k not in whole and k not in pivots.values()]
    sizes = (*shape, *[e.sizes[k] for k in rest])
    # Where each axis' iteration is: a start, and its steps by the new axes.
    start: dict[int, Atom] = dict.fromkeys(range(len(e.sizes)), ZERO)
    steps: dict[int, list[Atom]] = {k: [ZERO] * len(sizes) for k in range(len(e.sizes))}
    for k, d in whole.items():
        steps[k][d] = ONE
    for at, k in enumerate(rest, len(shape)):
        steps[k][at] = ONE
    factors = {False: _seed(e, seed), True: y}
    zeros: dict[bool, dict[int, tuple[Atom, Atom]]] = {False: {}, True: {}}  # before and after, by dimension
    known = all(isinstance(step, Const) for d in pivots for step in x.steps[d])
    opens = not known or x.open
    for d, pivot in pivots.items():
        # start + by * pivot + sum of step * k = d
        by = 1 if x.steps[d][pivot] is ONE else -1
        steps[pivot][d] = i64(by)
        first, last = b.op("mul", i64(-by), x.start[d]), b.op("sub", shape[d], ONE)
        low: Atom = first if by > 0 else b.op("sub", first, last)
        high: Atom = b.op("add", first, last) if by > 0 else first
        for at, k in enumerate(rest, len(shape)):
            step = _times(b, -by, x.steps[d][k])
            steps[pivot][at] = step
            if isinstance(step, Const) and step.value:
                far = b.op("mul", step, b.op("sub", e.sizes[k], ONE))
                low, high = (b.op("add", low, far), high) if step.value < 0 else (low, b.op("add", high, far))
        if opens:
            start[pivot] = first
            continue
        before = b.op("max", ZERO, b.op("sub", ZERO, low))
        after = b.op("max", ZERO, b.op("sub", high, b.op("sub", e.sizes[pivot], ONE)))
        start[pivot] = b.op("add", first, before)
        (at,) = factors[pivot >= e.outs].of(pivot)
        zeros[pivot >= e.outs][at] = (before, after)
    made: list[ir.Factor] = []
    for which, f in factors.items():
        starts: list[Atom] = []
        new: list[ir.Atoms] = []
        for d, place in enumerate(f.start):
            moved: list[Atom] = [ZERO] * len(sizes)
            for k in f.axes(d):
                step = f.steps[d][k]
                moved = [_plus(b, m, _times(b, step, n)) for m, n in zip(moved, steps[k], strict=True)]
                if start[k] is not ZERO:
                    place = b.op("add", place, b.op("mul", step, start[k]))
            starts.append(place)
            new.append(tuple(moved))
        open_ = f.open or opens and any((pivot >= e.outs) is which for pivot in pivots.values())
        made.append(ir.Factor(_padded(b, f.array, zeros[which]), tuple(starts), tuple(new), open_))
    return b.let(contraction(sizes, len(shape), *made), "bar")


def _times(b: Builder, x: Atom | int, y: Atom) -> Atom:
    """The product of steps."""
    x = i64(x) if isinstance(x, int) else x
    if isinstance(x, Const) and isinstance(y, Const):
        return i64(x.value * y.value)
    if x is ZERO or y is ZERO:
        return ZERO
    return y if x is ONE else x if y is ONE else b.op("mul", x, y)


def _plus(b: Builder, x: Atom, y: Atom) -> Atom:
    """The sum of steps."""
    if isinstance(x, Const) and isinstance(y, Const):
        return i64(x.value + y.value)
    return y if x is ZERO else x if y is ZERO else b.op("add", x, y)


def _padded(b: Builder, array: Atom, zeros: dict[int, tuple[Atom, Atom]]) -> Atom:
    """The array with so many zeros before and after it along some dimensions."""
    if not zeros:
        return array
    shape = list(shape_of(array.type))
    index = [Range(ZERO, n, ONE) for n in shape]
    for d, (before, after) in zeros.items():
        index[d] = Range(before, shape[d], ONE)
        shape[d] = b.op("add", before, b.op("add", shape[d], after))
    around = b.let(ir.Replicate(tuple(shape), zero(elem_of(array.type))), "zeros")
    return b.let(ir.Update(around, tuple(index), array), "padded")


def _scattered(b: Builder, e: ir.Contraction, seed: Atom, x: ir.Factor, y: ir.Factor) -> Atom:
    """Seeds times the other factor added at the places of `x`, iteration by iteration."""
    t = x.array.type
    at: list[Var] = []

    def added(inner: Builder, acc: Atom) -> Atom:
        value = inner.op("mul", inner.at(seed, *at[: e.outs]), inner.at(y.array, *_place(inner, y, at)))
        return add_to_acc(inner, acc, _place(inner, x, at), value, None)

    def level(inner: Builder, acc: Atom) -> Atom:
        k = len(at)
        if k == len(e.sizes):
            there = _there(inner, y, at)
            if there is None:
                return added(inner, acc)
            then, orelse = inner.body(lambda c: [added(c, acc)]), inner.body(lambda c: [acc])
            return inner.emit(ir.If(there, then, orelse), "acc", types=[acc.type])[0]
        iterations = inner.let(ir.Iota(e.sizes[k], ZERO, ONE), "is")

        def body(bb: Builder, a: Var, i: Var) -> list[Atom]:
            at.append(i)
            done = level(bb, a)
            at.pop()
            return [done]

        lam = inner.lambda_([("acc", acc.type), ("i", ZERO.type)], body)
        (out,) = inner.emit(ir.Map(e.sizes[k], (acc, iterations), lam), "acc")
        return out

    lam = b.lambda_([("bar_acc", AccType(elem_of(t), shape_of(t)))], lambda inner, acc: [level(inner, acc)])
    return b.emit(ir.WithAcc((b.zeros(t, "bar"),), "add", lam), "bar")[0]


def _there(b: Builder, f: ir.Factor, at: list[Var]) -> Atom | None:
    """Whether a place is in range; None if all are.  (Additions to places out of range are ignored anyway.)"""
    out: Atom | None = None
    for place, n in zip(_place(b, f, at), shape_of(f.array.type), strict=True) if f.open else ():
        within = b.op("and", b.op("le", ZERO, place), b.op("lt", place, n))
        out = within if out is None else b.op("and", out, within)
    return out


def _place(b: Builder, f: ir.Factor, at: list[Var]) -> tuple[Atom, ...]:
    out: list[Atom] = []
    for start, steps in zip(f.start, f.steps, strict=True):
        place = start
        for i, step in zip(at, steps, strict=True):
            if step is not ZERO:
                place = b.op("add", place, i if step is ONE else b.op("mul", i, step))
        out.append(place)
    return tuple(out)


RULES[ir.Contraction] = Rule(_jvp, _rule(_pull))
