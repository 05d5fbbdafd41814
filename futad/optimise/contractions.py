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
matrix products of `matmul.py`, or folds.  Other statements of the nest, as sums over rows of what is made of each
element, stay where they are, and read the sums; assertions that are the same for all iterations are made before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from futad.core import ir
from futad.core.builder import Builder
from futad.core.contraction import contraction
from futad.core.ir import Lambda, Program, Stm
from futad.core.nest import Nest, nest_of
from futad.core.operator import scalar_op
from futad.core.types import (
    BOOL,
    F32,
    F64,
    ONE,
    TRUE,
    ZERO,
    AccType,
    Atom,
    Const,
    Prim,
    Var,
    array_of,
    i64,
    row_type,
    shape_of,
    zero,
)
from futad.legality import Legality
from futad.optimise.affine import Form, Iterations, total
from futad.optimise.digits import Products, as_they_are, products
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
SAME_FOR_ALL = LEGAL.condition("assertions of all iterations", "an assertion is made of what an iteration computes")
ONE_ITERATION = LEGAL.condition("assertions of some iteration", "an assertion fails that no iteration makes")
LEFT_OUT = LEGAL.condition("left out where out of range", "terms that are left out for another reason are in the sum")

MOST_AXES = 12  # the C code has room for 16
MOST_DIMS = 16  # of both factors, where some are out of range: the C code has room for 32, derivatives have more
WIDE = 1 << 30  # steps and numbers of iterations whose products are summed up without wrapping around
FAR = 1 << 62
FEWEST = 1 << 10  # products: fewer, if their number is known, are summed up in the time that a call takes


def contractions(program: Program) -> Program:
    """Such sums of every function as contractions; functions without them stay the same objects."""
    return ir.map_bodies(program, lambda body: _scope(body, _Known(set(), {})))


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of variables from outside: arrays 0, 1, ... and products."""

    counters: set[Var]
    products: Products

    def inside(self, lam: Lambda) -> _Known:
        """The same in a scope."""
        return _Known(self.counters | _counting(lam.stms), self.products | products(lam.stms))


def _scope(lam: Lambda, known: _Known) -> Lambda:
    known = known.inside(lam)
    out: list[Stm] = []
    for s in lam.stms:
        sums = isinstance(s.exp, ir.Map) and ir.Reduce in s.exp.lam.inside()
        made = _made(s, known) if sums else None
        out += [ir.map_scopes(s, lambda inner: _scope(inner, known))] if made is None else made
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def _scalars(stms: Sequence[Stm]) -> bool:
    """Whether statements between two maps may stay there."""
    return all(isinstance(s.exp, ir.Op | ir.Alias | ir.Iota | ir.At) for s in stms)


def _counting(stms: Sequence[Stm]) -> set[Var]:
    """The arrays 0, 1, ... among statements."""
    return {s.pat[0] for s in stms if type(s.exp) is ir.Iota and s.exp.start is ZERO and s.exp.step is ONE}


def _made(s: Stm, known: _Known) -> list[Stm] | None:
    """The statements that a map becomes; None if there are no such sums in it."""
    if NO_EFFECT(not effects((s,))):
        return _contracted(s, known) or _beside(s, known)
    b = Builder()
    without = _asserted(b, s)
    if without is s or not NO_EFFECT(not effects((without,))):
        return None
    made = _contracted(without, known) or _beside(without, known)
    return None if made is None else [*b.stms, *made]


def _asserted(b: Builder, s: Stm) -> Stm:
    """A map without the assertions that are the same for all iterations, which are made before it."""
    at = Iterations(set())
    moved: set[int] = set()

    def within(lam: Lambda, widths: list[Atom]) -> None:
        at.enter(lam)
        for t in lam.stms:
            e = t.exp
            if isinstance(e, ir.Map):
                within(e.lam, [*widths, e.width])
            if isinstance(e, ir.Assert) and not e.of and all(map(at.steady, widths)):
                if SAME_FOR_ALL(all(map(at.steady, (e.cond, *e.values)))):
                    moved.add(id(t))
                    before = [at.before(a) if isinstance(a, Var) and a in at.bound else a
                              for a in (e.cond, *e.values, *widths)]  # fmt: skip
                    b.extend(at.outside)
                    at.outside = []
                    holds, values = before[0], tuple(before[1 : 1 + len(e.values)])
                    for n in before[1 + len(e.values) :]:
                        if not ONE_ITERATION(isinstance(n, Const) and n.value > 0):
                            holds = b.op("or", b.op("le", n, ZERO), holds)
                    b.add(Stm((), ir.Assert(holds, e.message, values, e.place)))

    def stripped(lam: Lambda) -> Lambda:
        stms = [ir.map_scopes(t, stripped) if isinstance(t.exp, ir.Map) else t for t in lam.stms if id(t) not in moved]
        return Lambda(lam.params, tuple(stms), lam.result)

    e = s.exp
    assert isinstance(e, ir.Map)
    within(e.lam, [e.width])
    return ir.map_scopes(s, stripped) if moved else s


def _beside(s: Stm, known: _Known) -> list[Stm] | None:
    """The statements that a map becomes in which such sums, in maps inside of maps, are beside other statements."""
    e = s.exp
    assert isinstance(e, ir.Map)
    nest = Nest([], e.arrays)
    nest.enter(e.lam)
    for path in _paths(nest):
        for t in path.body.stms:
            b = Builder()
            made = _one(b, s, path, t, known) if _is_sum(t) else None
            if made is None:
                continue
            LEGAL.fired()
            body = path.body
            leaf = Lambda(body.params, tuple([u for u in body.stms if u is not t]), body.result)
            parts = [made, *[Var(made.name, row_type(made.type, k)) for k in range(1, path.depth)], t.pat[0]]
            rest = path.threaded(s, leaf, [{a: p} for a, p in pairwise(parts)])
            return [*b.stms, *(_beside(rest, known) or [ir.map_scopes(rest, lambda m: _scope(m, known))])]
    return None


def _paths(nest: Nest) -> Iterator[Nest]:
    """This nest, and those that it becomes with one of the maps in its innermost lambda, and so on, of maps with as
    many iterations for all of the others."""
    yield nest
    for t in nest.body.stms:
        m = t.exp
        if isinstance(m, ir.Map) and SIZES_OUTSIDE(m.width not in nest.bound):
            if ir.Reduce in m.lam.inside() and not any(isinstance(a.type, AccType) for a in m.arrays):
                more = Nest([*nest.lams], nest.arrays, [*nest.inner], set(nest.bound))
                more.enter(m.lam, t)
                yield from _paths(more)


def _one(b: Builder, s: Stm, nest: Nest, t: Stm, known: _Known) -> Var | None:
    """The sums that a scalar of a nest is, for all of its iterations; None if they are no contraction."""
    assert isinstance(s.exp, ir.Map)
    counters = known.counters.union(*[_counting(lam.stms) for lam in nest.lams])
    at = Iterations(counters, known.products)
    for m in (s.exp, *nest.maps):
        assert isinstance(m, ir.Map)
        at.inside(m)
    outs = len(at.sizes)
    terms = _terms(t, at)
    return _contraction(b, at, s, nest, outs, t.pat[0], terms) if terms is not None else None


def _contracted(s: Stm, known: _Known) -> list[Stm] | None:
    """The statements that a nest of maps becomes; None if it has no such sums."""
    nest = nest_of(s, between=_scalars)
    if nest is None or not nest.in_order:
        return None
    e = s.exp
    assert isinstance(e, ir.Map)
    body = nest.body
    b = Builder()
    sums: dict[Var, Var] = {}  # by the scalar that each is: all of them
    for t in body.stms:
        if not _is_sum(t):
            continue
        made = _one(b, s, nest, t, known)
        if made is not None:
            sums[t.pat[0]] = made
    if not sums:
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


@dataclass(frozen=True, slots=True)
class _Terms:
    """Products of these factors; there is one where all of `within` are at least 0."""

    factors: tuple[Atom, Atom]
    within: list[Form]


def _terms(s: Stm, at: Iterations) -> _Terms | None:
    """The products that a scalar is the sum of; adds the axes that are summed over to `at`."""
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
    within: list[Form] = []
    while made is not None and isinstance(made.exp, ir.If) and isinstance(value, Var):
        taken = _taken(made, value, at)
        if taken is None:
            return None
        value, more = taken
        within += more
        made = at.made.get(value) if isinstance(value, Var) else None
    if made is None:
        return None
    if isinstance(made.exp, ir.Op) and made.exp.op == "mul":
        x, y = made.exp.args
        return _Terms((x, y), within)
    inner = _terms(made, at)
    return None if inner is None else _Terms(inner.factors, [*within, *inner.within])


def _taken(s: Stm, value: Var, at: Iterations) -> tuple[Atom, list[Form]] | None:
    """What a scalar is in the branch of an `If` that is not zero, and when it is taken."""
    e = s.exp
    assert isinstance(e, ir.If)
    k = s.pat.index(value)
    for lam, other, when in ((e.then, e.orelse, True), (e.orelse, e.then, False)):
        if isinstance(value.type, Prim) and other.result[k] is zero(value.type):
            at.enter(lam)
            within = _conditions(at, e.cond, when)
            return None if within is None else (lam.result[k], within)
    return None


def _conditions(at: Iterations, a: Atom, value: bool) -> list[Form] | None:
    """Sums of iterations that are at least 0 just where a bool has this value; None if there are no such."""
    made = at.made.get(a) if isinstance(a, Var) else None
    e = made.exp if made is not None else None
    match e:
        case ir.Alias(b):
            return _conditions(at, b, value)
        case ir.Op("not", (b,)):
            return _conditions(at, b, not value)
        case ir.Op("lt" | "le" as op, args):
            x, y = [at.form(b) for b in args]
            if x is None or y is None:
                return None
            least, most = (x, y) if value else (y, x)
            strict = (op == "lt") is value
            return [total(total(most, least, -1), Form(number=int(strict)), -1)]
        case ir.Op("and" | "or" as op, args) if (op == "and") is value:
            parts = [_conditions(at, b, value) for b in args]
        case ir.If(cond, then, orelse) if made is not None and len(made.pat) == 1:
            # Asked one after the other: the second one where the first one does not decide.
            decides, other = (then, orelse) if not value else (orelse, then)
            if decides.result[0] is not Const(BOOL, not value):
                return None
            at.enter(other)
            parts = [_conditions(at, cond, value), _conditions(at, other.result[0], value)]
        case _:
            return None
    return [f for p in parts if p is not None for f in p] if None not in parts else None


def _contraction(b: Builder, at: Iterations, s: Stm, nest: Nest, outs: int, sums: Var, terms: _Terms) -> Var | None:
    """The sums of a nest, which the first `outs` axes are of, for all iterations; None if they are no contraction, or
    if it does not pay."""
    known = [n.value for n in at.sizes if isinstance(n, Const)]
    if len(at.sizes) > MOST_AXES or len(known) == len(at.sizes) and prod(known) < FEWEST:
        return None
    asked = any(size.of for size in at.split)
    parts = [_part(at, f, asked or bool(terms.within)) for f in terms.factors]
    left, right = parts
    if left is None or right is None or not _pays(left, right, outs):
        return None
    if terms.within and not LEFT_OUT(_open(at, parts, terms.within)):
        return None
    b.extend(at.outside)
    at.outside = []

    def product(inner: Builder) -> Var:
        x, y = [replace(p.built(inner), open=bool(terms.within)) for p in (left, right)]
        out = inner.let(contraction(tuple(at.sizes), outs, x, y), sums.name)
        return out if outs == nest.depth else inner.let(ir.Reshape(out, _widths(s, nest)), sums.name)

    checked = [p for p in (left, right) if isinstance(p, _Read) and p.checked]
    if not checked and not asked:
        return product(b)
    if not nest.in_order:
        return None  # then what stands beside would be there twice
    ranges = [c for p in checked for c in _in_range(b, at, p, terms.within)]
    sure = _all(b, [as_they_are(b, at.split), *ranges])
    (out,) = b.emit(
        ir.If(sure, b.body(lambda inner: [product(inner)]), b.body(lambda inner: [_as_it_was(inner, s, nest, sums)])),
        sums.name,
    )
    return out


def _widths(s: Stm, nest: Nest) -> tuple[Atom, ...]:
    assert isinstance(s.exp, ir.Map)
    return (s.exp.width, *[m.width for m in nest.maps])


def _as_it_was(b: Builder, s: Stm, nest: Nest, sums: Var) -> Var:
    """The sums by the nest."""
    out = Var(sums.name, array_of(sums.type, *_widths(s, nest)), sums.at)
    leaf = Lambda(nest.body.params, nest.body.stms, (sums,))
    b.add(replace(nest.around(s, leaf, (out,)), attrs=()))
    return out


def _in_range(b: Builder, at: Iterations, p: _Read, within: list[Form]) -> list[Atom]:
    """Conditions that, where they hold before the nest, imply that its checks do: of the least and the largest place,
    computed of numbers that do not wrap around."""
    out: list[Atom] = []
    for f, n in zip(p.forms, shape_of(p.array.type), strict=True):
        if len(f.axes) == 1 and f == Form(((f.axes[0], 1),)) and at.sizes[f.axes[0]] is n:
            continue
        ends = _ends(at, f, n)
        left = [not any(total(g, end, -1) == Form() for g in within) for end in ends] + [True] * (2 - len(ends))
        if not any(left):
            continue
        low = high = f.start(b)
        out += _less(b, low, FAR)
        for k in f.axes:
            step, last = f.stride(b, k), b.op("sub", at.sizes[k], ONE)
            out += [*_less(b, step, WIDE), *_less(b, last, WIDE)]
            reach = b.op("mul", step, last)
            low = b.op("add", low, b.op("min", reach, ZERO))
            high = b.op("add", high, b.op("max", reach, ZERO))
        out += [b.op("le", ZERO, low)] * left[0] + [b.op("lt", high, n)] * left[1]
    return out


def _less(b: Builder, a: Atom, most: int) -> list[Atom]:
    """Whether an integer is less than this, negative or not."""
    if isinstance(a, Const) and abs(a.value) < most:
        return []
    return [b.op("lt", i64(-most), a), b.op("lt", a, i64(most))]


def _all(b: Builder, conditions: list[Atom]) -> Atom:
    out: Atom = TRUE
    for c in conditions:
        out = c if out is TRUE else out if c is TRUE else b.op("and", out, c)
    return out


def _ends(at: Iterations, f: Form, n: Atom) -> list[Form]:
    """What is at least 0 where a place is in a dimension of `n` elements: from its beginning, to its end."""
    size = at.form(n)
    return [f] if size is None else [f, total(total(size, f, -1), Form(number=1), -1)]


def _open(at: Iterations, parts: Sequence[_Read | Table | None], within: list[Form]) -> bool:
    """Whether terms are left out just where a factor is read out of range.  What is read where the conditions hold is
    in range, or checked before: each condition has to be one end of a dimension."""
    ends: list[Form] = []
    for p in parts:
        if not isinstance(p, _Read):
            return False
        for f, n in zip(p.forms, shape_of(p.array.type), strict=True):
            ends += _ends(at, f, n)
    return len(ends) <= 2 * MOST_DIMS and all(any(total(f, end, -1) == Form() for end in ends) for f in within)


def _pays(left: _Read | Table, right: _Read | Table, outs: int) -> bool:
    """Whether places are sums of iterations that are left and that are summed over, and vector lanes have elements side
    by side: the result's last dimension is in one factor alone, whose last dimension moves with it.  Or both factors
    have dimensions of the result for themselves: then those of one are put side by side for those of the other."""
    both = [left.forms, right.forms]
    summed = any(min(f.axes) < outs <= max(f.axes) for forms in both for f in forms if f.axes)
    if not summed and not any(isinstance(p, Table) and p.apart for p in (left, right)):
        return False
    of = [{k for f in forms for k in f.axes if k < outs} for forms in both]
    beside = any(x and x[-1].step(outs - 1) == 1 and outs - 1 not in y for x, y in zip(both, of[::-1], strict=True))
    return beside or bool(of[0] - of[1] and of[1] - of[0])


@dataclass(frozen=True, slots=True)
class _Read:
    """A factor that is read from an array as it is; with a check or without one."""

    array: Var
    forms: list[Form]
    axes: int
    checked: bool

    def built(self, b: Builder) -> ir.Factor:
        steps = tuple([tuple([f.stride(b, k) for k in range(self.axes)]) for f in self.forms])
        return ir.Factor(self.array, tuple([f.start(b) for f in self.forms]), steps)


def _part(at: Iterations, factor: Atom, checks: bool) -> _Read | Table | None:
    """A factor; `checks`: one that is read with a check, too, as it is."""
    if not isinstance(factor, Var) or factor not in at.bound:
        return None
    place = at.place(factor, checks)
    return table_of(at, factor) if place is None else _Read(*place[:2], len(at.sizes), place[2])


__all__ = ["contractions"]
