"""Sums of products at places that are sums of iterations become contractions: convolutions, correlations, stencils.

    map (\\i -> map (\\j -> f (sum over p q of k[p, q] * at (i + p - 1) (j + q - 1))) js) is

  becomes, where `at` is scalar code (zero outside of an image, its nearest element, its element the other way round),

    let table = map (\\u -> map (\\v -> at (u - 1) (v - 1)))                    -- u = i + p, v = j + q
    let sums = contraction(y[i, j] = sum over p q of k[p, q] * table[i + p, j + q])
    map (map f) sums

so that a border is split off from all the iterations that would meet it, each value of `at` is computed once, and what
is left are sums of products, whose derivatives are such sums, too (`ad/rules/contraction.py`).  Factors that are read
without a check and a choice need no table.

It is done where one factor's places are sums of an iteration that is left and one that is summed over: others are the
matrix products of `matmul.py`, or folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.nest import nest_of
from futad.core.operator import scalar_op
from futad.core.types import F32, F64, ONE, ZERO, Atom, Const, Prim, Var, zero
from futad.legality import Legality
from futad.optimise.affine import Form, Iterations
from futad.optimise.tables import Table, table_of
from futad.rewrite.dce import effects

LEGAL = Legality(
    "contractions",
    "sums of products at places that are sums of iterations are computed before the nest around them, for all of it",
    worth="a 3 x 3 convolution 10.3 to 0.15 ms: `benchmarks/without.py contractions convolution`",
)
FROM_ZERO = LEGAL.condition("sum from zero", "what the sum starts from is not in it")
NO_EFFECT = LEGAL.condition("no effect in the nest", "places are read before the assertion that they are in range")
SIZES_OUTSIDE = LEGAL.condition("sizes known outside", "sums of other iterations have other terms")

MOST_AXES = 12  # the C code has room for 16
FEWEST = 1 << 10  # products: fewer, if their number is known, are summed up in the time that a call takes


def contractions(program: Program) -> Program:
    """Such sums of every function as contractions; functions without them stay the same objects."""
    return ir.map_bodies(program, lambda body: _scope(body, set()))


def _scope(lam: Lambda, counters: set[Var]) -> Lambda:
    counters = counters | {s.pat[0] for s in lam.stms if _counts(s.exp)}
    out: list[Stm] = []
    for s in lam.stms:
        made = _contracted(s, counters) if isinstance(s.exp, ir.Map) else None
        out += [ir.map_scopes(s, lambda inner: _scope(inner, counters))] if made is None else made
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def _scalars(stms: Sequence[Stm]) -> bool:
    """Whether statements between two maps may stay there."""
    return all(isinstance(s.exp, ir.Op | ir.Alias | ir.Iota | ir.At) for s in stms)


def _counts(e: ir.Exp) -> bool:
    return type(e) is ir.Iota and e.start is ZERO and e.step is ONE


def _contracted(s: Stm, counters: set[Var]) -> list[Stm] | None:
    """The statements that a nest of maps becomes; None if it has no such sums."""
    nest = nest_of(s, between=_scalars)
    if nest is None or not nest.in_order:
        return None
    e = s.exp
    assert isinstance(e, ir.Map)
    body = nest.body
    counters = counters | {t.pat[0] for lam in nest.lams for t in lam.stms if _counts(t.exp)}
    b = Builder()
    sums: dict[Var, Var] = {}  # by the scalar that each is: all of them
    for t in body.stms:
        if not _is_sum(t):
            continue
        at = Iterations(counters, [e.width, *[m.width for m in nest.maps]], nest.reads())
        for lam in nest.lams:
            at.enter(lam)
        factors = _factors(t, at)
        made = _contraction(b, at, nest.depth, factors, t.pat[0]) if factors is not None else None
        if made is not None:
            sums[t.pat[0]] = made
    if not sums or not NO_EFFECT(not effects((s,))):
        return None
    LEGAL.fired()
    if body.result == tuple(sums) and len(s.pat) == len(sums):
        return [*b.stms, *[Stm((v,), ir.Alias(x), s.attrs) for v, x in zip(s.pat, sums.values(), strict=True)]]
    stms = tuple([t for t in body.stms if not (t.pat and t.pat[0] in sums)])
    leaf = Lambda((*body.params, *sums), stms, body.result)
    return [*b.stms, nest.around(s, leaf, s.pat, tuple(sums.values()))]


# --- what is summed ----------------------------------------------------------------------------------------


def _is_sum(s: Stm) -> bool:
    """Whether a scalar is the sum of an array of floats."""
    e = s.exp
    if not isinstance(e, ir.Reduce) or len(e.arrays) != 1 or s.pat[0].type not in (F32, F64):
        return False
    return scalar_op(e.lam) == "add"


def _factors(s: Stm, at: Iterations) -> tuple[Atom, Atom] | None:
    """The factors of the products that a scalar is the sum of; adds the axes that are summed over to `at`."""
    e = s.exp
    if not _is_sum(s) or not isinstance(e, ir.Reduce):
        return None
    elem = s.pat[0].type
    if not isinstance(elem, Prim) or not FROM_ZERO(e.neutral == (zero(elem),)):
        return None
    value: Atom = e.arrays[0]
    while not isinstance(value.type, Prim):
        made = at.made.get(value) if isinstance(value, Var) else None
        if made is None:
            return None
        if isinstance(made.exp, ir.Reshape):
            value = made.exp.array
            continue
        m = made.exp
        if not isinstance(m, ir.Map) or not SIZES_OUTSIDE(m.width not in at.bound):
            return None
        at.inside(m)
        value = m.lam.result[made.pat.index(value)]
    made = at.made.get(value) if isinstance(value, Var) else None
    if made is None:
        return None
    if isinstance(made.exp, ir.Op) and made.exp.op == "mul":
        x, y = made.exp.args
        return x, y
    return _factors(made, at)


def _contraction(b: Builder, at: Iterations, outs: int, factors: tuple[Atom, Atom], total: Var) -> Var | None:
    """The sums, for all iterations of the first `outs` axes; None if they are no contraction, or if it does not pay."""
    known = [n.value for n in at.sizes if isinstance(n, Const)]
    if len(at.sizes) > MOST_AXES or len(known) == len(at.sizes) and prod(known) < FEWEST:
        return None
    parts = [_part(at, f) for f in factors]
    left, right = parts
    if left is None or right is None or not _pays(left.forms, right.forms, outs):
        return None
    x, y = left.built(b), right.built(b)
    sizes = tuple(at.sizes)
    return b.let(ir.Contraction(sizes, outs, x.array, x.start, x.steps, y.array, y.start, y.steps), total.name)


def _pays(left: list[Form], right: list[Form], outs: int) -> bool:
    """Whether places are sums of iterations that are left and that are summed over, and vector lanes have elements side
    by side: the result's last dimension is in one factor alone, whose last dimension moves with it."""
    if not any(min(f.axes) < outs <= max(f.axes) for f in (*left, *right) if f.axes):
        return False
    pairs = ((left, right), (right, left))
    return any(x[-1].step(outs - 1) == 1 and not any(f.step(outs - 1) for f in y) for x, y in pairs)


@dataclass(frozen=True, slots=True)
class _Read:
    """A factor that is read from an array as it is."""

    array: Var
    forms: list[Form]
    axes: int

    def built(self, b: Builder) -> ir.Factor:
        steps = tuple([tuple([f.step(k) for k in range(self.axes)]) for f in self.forms])
        return ir.Factor(self.array, tuple([f.start(b) for f in self.forms]), steps)


def _part(at: Iterations, factor: Atom) -> _Read | Table | None:
    if not isinstance(factor, Var) or factor not in at.bound:
        return None
    place = at.place(factor)
    return table_of(at, factor) if place is None else _Read(*place, len(at.sizes))


__all__ = ["contractions"]
