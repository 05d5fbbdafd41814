"""Arrays that are never stored, because a matrix product takes them as it goes.

Note [Deferred arrays]
~~~~~~~~~~~~~~~~~~
In a scope at host level a matrix product (or a map of products: a batch) takes along what lies around it:

- an operand that a cheap nest of maps makes, and nothing else uses, is computed element by element where the product
  loads it;
- a nest of maps over the product, the only one to use it, is done to each element where the product would store it;
  if it sums the rows of what it makes of them, the product sums the columns of each of its tiles, and a second kernel
  adds up the tiles and does the rest;
- the sums of the rows of the left operand (a bias's adjoint beside a weight's) are taken while it is loaded.

`arrange` finds these by the statements' shape.  What is deferred has a view whose base is `Deferred`, with a symbolic
stride for each dimension, so that transposes of it are views as of any array.  Whoever else needs it makes it after all
(`DeviceLowerer.materialise_deferred`): deferral never decides whether a program can be lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from futad.core import ir as core
from futad.core.builder import Builder
from futad.core.nest import Nest, nest_of
from futad.core.operator import may_fail, scalar_op
from futad.core.scalarops import OPS
from futad.core.types import AccType, ArrayType, Atom, Const, Prim, Type, Var, array_of, elem_of, row_type, shape_of
from futad.flatten.device_choices import BY_NAME, permitted
from futad.imp.ir import Expr, Ref
from futad.imp.views import Pending
from futad.legality import Legality
from futad.rewrite.choices import Nest as Asked

LEGAL = Legality(
    "deferred-arrays",
    "a product computes its operands, the nest over it and sums of its rows",
    worth="what products read and feed is in no memory: GMM's gradient on a device 2.3 GB in place of 7.4",
)
SUMMED = LEGAL.condition("sums from zero", "a product adds up, from zero, what another fold combines otherwise")
MADE_BEFORE = LEGAL.condition("operands made before", "the sums or the product need what is made between them")

BATCHES = Legality(
    "one-batch",
    "products over batches of batches are products over one batch",
    worth="64 by 64 products of 64 by 64 matrices (`futad dev tests/legality/device.fut --cost -e batches_own --size "
    "b=64,n=64,k=64`): traffic 0.4 GB in place of 9.8: FUTAD_MUTANT=one-batch",
)
NONE_SHARED = BATCHES.condition(
    "no matrix of the outer batch", "a matrix that all products of the inner batch read is no row of one batch"
)

LIGHT = 12  # cost of computing an operand's element: that is done once for each tile that loads it
ELEMENTS = ("f32", "f64")


@dataclass(slots=True, eq=False)
class Deferred(Pending):
    """The base of the view of a deferred array: the statement that makes it, which of its results it is, the names of
    its strides, and the variables bound to views of it."""

    stm: core.Stm
    result: int
    strides: tuple[Ref, ...]
    vars: list[Var] = field(default_factory=list)

    def dims(self, steps: Sequence[Expr]) -> list[int] | None:
        """Which dimension each of these strides is that of; None unless they are all of them, once each."""
        found = [self.strides.index(s) for s in steps if s in self.strides]
        return found if sorted(found) == list(range(len(self.strides))) and len(found) == len(steps) else None


@dataclass(slots=True, eq=False)
class Product:
    """A product and what it takes along: the statement (a MatMul or a map of them), the sums of the left operand's
    rows with whether they are negated, and the nest over the product."""

    stm: core.Stm
    sums: core.Stm | None = None
    negated: bool = False
    consumer: Consumer | None = None


@dataclass(slots=True, eq=False)
class Consumer:
    """A nest over a product: of as many levels as that has dimensions, or one less and then `rows` is the statement
    that sums what it makes of a row."""

    stm: core.Stm
    nest: Nest
    rows: core.Stm | None = None


@dataclass(slots=True)
class Arrangement:
    """The statements of a scope in a fit order, and which of them are deferred or take others along."""

    stms: list[core.Stm]
    deferred: dict[core.Stm, None] = field(default_factory=dict)
    products: dict[core.Stm, Product] = field(default_factory=dict)


# --- shapes of statements ---------------------------------------------------------------------------------------------


def _safe(stm: core.Stm) -> int | None:
    """The cost of a scalar statement that cannot fail, or of a view; None for anything else."""
    match stm.exp:
        case core.Op() as e:
            return None if may_fail(e) else OPS[e.op].cost
        case core.At(check=None):
            return 1
        case core.Rearrange() | core.Alias():
            return 0
    return None


def price(stms: Sequence[core.Stm]) -> int | None:
    """The cost of scalar statements that cannot fail, and of views; None if there are others."""
    total = 0
    for s in stms:
        c = _safe(s)
        if c is None:
            return None
        total += c
    return total


def _safely(stms: Sequence[core.Stm]) -> bool:
    """Whether statements are cheap scalar ones that cannot fail, or views."""
    return price(stms) is not None


def nest_for(stm: core.Stm, rank: int) -> Nest | None:
    """The nest of maps over elements of arrays of that rank, or rows of them, that a statement is."""
    e = stm.exp
    return None if any(isinstance(a.type, AccType) for a in e.operands()) else nest_of(stm, rank, _safely)


def _rank(t: Type) -> int:
    return t.rank if isinstance(t, ArrayType) else 0


def light_nest(stm: core.Stm) -> Nest | None:
    """The nest of maps that a statement is if it makes each element by few operations that cannot fail."""
    rank = _rank(stm.pat[0].type)
    nest = nest_for(stm, rank)
    if nest is None or nest.depth != rank or any(_rank(v.type) != rank for v in stm.pat):
        return None
    cost = price(nest.body.stms)
    return nest if cost is not None and cost <= LIGHT else None


def consumer_of(stm: core.Stm, product: Var) -> Consumer | None:
    """The statement as a nest over the elements of a product, None if it is not that."""
    e, rank = stm.exp, _rank(product.type)
    if not isinstance(e, core.Map) or product in e.lam.free():
        return None
    nest = nest_for(stm, rank)
    path = nest.path(e.arrays.index(product)) if nest is not None and e.arrays.count(product) == 1 else None
    if nest is None or path is None or len(path) != nest.depth:
        return None
    depth, leaf, row = nest.depth, nest.body, path[-1]
    if depth == rank:
        fits = price(leaf.stms) is not None and all(_rank(v.type) == rank for v in stm.pat)
        return Consumer(stm, nest) if fits else None
    if depth != rank - 1:
        return None
    folds = [s for s in leaf.stms if isinstance(s.exp, (core.Fused, core.Reduce))]
    if len(folds) != 1 or price([s for s in leaf.stms if s is not folds[0]]) is None:
        return None
    f = folds[0].exp
    if list(f.operands()).count(row) != 1 or any(row in core.stm_free(s) for s in leaf.stms if s is not folds[0]):
        return None
    elem = elem_of(product.type)
    assert isinstance(f, core.Reduce | core.Fused)
    good = not f.scans and len(f.reduces) == 1 and scalar_op(f.reduces[0].lam) == "add"
    if isinstance(f, core.Reduce):
        good = good and f.arrays == (row,)
    else:
        good = good and price(f.lam.stms) is not None and not f.accs and row not in f.lam.free()
        good = good and all(isinstance(a.type, Prim) for a in f.lam.result)
    neutral = f.reduces[0].neutral if good else ()
    if not good or len(neutral) != 1 or not isinstance(neutral[0], Const) or neutral[0].value != 0:
        return None
    if neutral[0].type is not elem:
        return None
    made = set(folds[0].pat[1:])
    if any(set(core.stm_free(s)) & made for s in leaf.stms):
        return None  # the maps' results are read again
    shapes = [_rank(v.type) == (rank if a in made else rank - 1) for v, a in zip(stm.pat, leaf.result, strict=True)]
    return Consumer(stm, nest, folds[0]) if all(shapes) else None


def rest_of(c: Consumer, part: Var, tiles: Var) -> tuple[core.Stm, list[int]]:
    """What is left of a nest that sums rows once the sums of tiles are in `part` (as many as `tiles` for each row): a
    nest of sums over them; and which of the nest's results these are."""
    assert c.rows is not None and isinstance(c.rows.exp, core.Screma)
    (total, *made), leaf = c.rows.pat, c.nest.body
    keep = [i for i, a in enumerate(leaf.result) if a not in made]
    (f,) = c.rows.exp.reduces
    row = Var("part", ArrayType(elem_of(part.type), (tiles,)))
    fold = core.Stm((total,), core.Reduce(tiles, (row,), f.lam, f.neutral, True))
    stms = tuple([fold if s is c.rows else s for s in leaf.stms])
    lam = core.Lambda((*leaf.params, row), stms, tuple([leaf.result[i] for i in keep]))
    return c.nest.around(c.stm, lam, [c.stm.pat[i] for i in keep], [part]), keep


# --- products ---------------------------------------------------------------------------------------------------------


def _matmul(stm: core.Stm) -> core.MatMul | None:
    """The product of a statement that is one, or maps one over a batch of matrices."""
    e = stm.exp
    if isinstance(e, core.MatMul):
        return e if elem_of(e.a.type).name in ELEMENTS else None
    if not isinstance(e, core.Map) or not e.lam.stms or e.lam.result != e.lam.stms[-1].pat:
        return None
    last = e.lam.stms[-1].exp
    if not isinstance(last, core.MatMul) or elem_of(last.a.type).name not in ELEMENTS:
        return None
    views = all(isinstance(s.exp, core.Rearrange) for s in e.lam.stms[:-1])
    return last if views and not any(isinstance(a.type, AccType) for a in e.arrays) else None


def is_batch(stm: core.Stm) -> bool:
    """Whether a statement maps a matrix product of views over a batch."""
    e = stm.exp
    if not isinstance(e, core.Map) or not e.lam.stms or any(isinstance(p.type, Prim) for p in e.lam.params):
        return False
    lam, last = e.lam, e.lam.stms[-1]
    bound = {*lam.params, *(v for s in lam.stms for v in s.pat)}
    if not isinstance(last.exp, core.MatMul) or lam.result != last.pat or not set(last.exp.plus) <= set(lam.params):
        return False
    if not all(isinstance(p.type, ArrayType) for p in lam.params):
        return False
    t = last.pat[0].type
    assert isinstance(t, ArrayType)
    if t.elem.name not in ELEMENTS or any(x in bound for x in t.shape if isinstance(x, Var)):
        return False
    return all(
        isinstance(s.exp, core.Rearrange)
        or (isinstance(s.exp, core.At) and s.exp.check is None and not set(s.exp.operands()[1:]) & bound
            and isinstance(s.pat[0].type, ArrayType))
        for s in lam.stms[:-1]
    )  # fmt: skip


def one_batch(stm: core.Stm) -> list[core.Stm] | None:
    """A map of maps of products, over batches of batches, as a map over one; None if it is none."""
    e = stm.exp
    if not isinstance(e, core.Map) or len(e.lam.stms) != 1 or not isinstance(m := e.lam.stms[0].exp, core.Map):
        return None
    (below,) = e.lam.stms
    given: dict[Atom, Atom] = dict(zip(e.lam.params, e.arrays, strict=True))
    if e.accs or m.accs or e.lam.result != below.pat or not all(a in given for a in m.arrays):
        return None
    if not NONE_SHARED({*given}.isdisjoint(m.lam.free())):
        return None
    b = Builder()
    total = b.size_mul([e.width, m.width])
    rows = tuple([b.let(core.Reshape(given[a], (total, *shape_of(a.type)[1:])), "batch") for a in m.arrays])
    out = tuple([Var(v.name, array_of(row_type(v.type), total)) for v in below.pat])
    whole = core.Stm(out, core.Map(total, rows, m.lam), stm.attrs)
    products = [whole] if is_batch(whole) else one_batch(whole)
    if products is None:
        return None
    BATCHES.fired()
    back = [core.Stm((v,), core.Reshape(x, shape_of(v.type))) for v, x in zip(stm.pat, out, strict=True)]
    return [*b.stms, *products, *back]


def _source(v: Atom, made: dict[Var, core.Stm]) -> tuple[Var, tuple[int, ...]] | None:
    """The array that this one is a transposition of, and how its dimensions are permuted."""
    if not isinstance(v, Var):
        return None
    perm = tuple(range(_rank(v.type)))
    while v in made and isinstance(made[v].exp, core.Rearrange):
        e = made[v].exp
        assert isinstance(e, core.Rearrange) and isinstance(e.array, Var)
        perm = tuple([e.perm[p] for p in perm])
        v = e.array
    return v, perm


def _operands(stm: core.Stm, made: dict[Var, core.Stm]) -> list[tuple[Var, tuple[int, ...]] | None]:
    """Where both operands of a product come from in its scope: the array and the order of its dimensions, batch, then
    the matrix's."""
    e = stm.exp
    if isinstance(e, core.MatMul):
        return [_source(e.a, made), _source(e.b, made)]
    assert isinstance(e, core.Map)
    inside = {v: s for s in e.lam.stms for v in s.pat}
    out: list[tuple[Var, tuple[int, ...]] | None] = []
    product = e.lam.stms[-1].exp
    assert isinstance(product, core.MatMul)
    for x in (product.a, product.b):
        found = _source(x, inside)
        if found is None or found[0] not in e.lam.params:
            out.append(None)
            continue
        a = e.arrays[e.lam.params.index(found[0])]
        whole = _source(a, made)
        perm = (0, *[1 + p for p in found[1]])
        out.append(None if whole is None else (whole[0], tuple([whole[1][p] for p in perm])))
    return out


def row_sums(stm: core.Stm, made: dict[Var, core.Stm]) -> tuple[Var, tuple[int, ...], bool] | None:
    """The array whose last dimension (in that order of its dimensions) a statement sums, and whether it negates."""
    nest = nest_of(stm, _rank(stm.pat[0].type) if len(stm.pat) == 1 else 0, _views)
    if nest is None or not nest.body.stms or nest.body.result != nest.body.stms[-1].pat:
        return None
    x = nest.body.stms[-1].exp
    if not isinstance(x, (core.Reduce, core.Fused)) or len(x.arrays) != 1 or not _views(nest.body.stms[:-1]):
        return None
    read = nest.reads().get(x.arrays[0]) if isinstance(x.arrays[0], Var) else None
    if read is None or read.levels != tuple(range(nest.depth)) or len(read.rest) != 1:
        return None
    whole = _source(read.array, made)
    negated = isinstance(x, core.Fused)
    (fold,) = x.reduces if len(x.reduces) == 1 else (None,)
    if whole is None or fold is None or x.scans or negated and not _negates(x.mapper):
        return None
    neutral = fold.neutral[0]
    if not SUMMED(scalar_op(fold.lam) == "add" and isinstance(neutral, Const) and neutral.value == 0):
        return None
    return whole[0], tuple([whole[1][d] for d in (*read.dims, *read.rest)]), negated


def _views(stms: Sequence[core.Stm]) -> bool:
    return all(isinstance(s.exp, core.Rearrange) for s in stms)


def _negates(lam: core.Lambda | None) -> bool:
    """Whether a lambda negates its parameter."""
    if lam is None or len(lam.stms) != 1 or lam.result != lam.stms[0].pat:
        return False
    e = lam.stms[0].exp
    return isinstance(e, core.Op) and e.op == "neg" and e.args == lam.params


# --- the arrangement of a scope ---------------------------------------------------------------------------------------


def arrange(lam: core.Lambda, asked: Callable[[core.Stm], Asked | None] = lambda stm: None) -> Arrangement:
    """What is deferred in a scope, and which products take what along; `asked`: what a schedule asks of a product."""
    out = Arrangement(list(lam.stms))
    products = [s for s in lam.stms if _matmul(s) is not None and _takes(s, asked(s))]
    if not products:
        return out
    made = {v: s for s in lam.stms for v in s.pat}
    users: dict[Var, list[core.Stm]] = {}
    for s in lam.stms:
        for v in core.stm_free(s):
            users.setdefault(v, []).append(s)
    final = {a for a in lam.result if isinstance(a, Var)}
    for p in products:
        product = Product(p)
        operands = _operands(p, made)
        if operands[0] is not None:
            _take_sums(out, product, operands[0], made)
        v = p.pat[0]
        if product.sums is None and v not in final and len(users.get(v, ())) == 1:
            product.consumer = consumer_of(users[v][0], v)
        taken = [x.stm for x in (product.consumer,) if x is not None]
        if taken and (taken[0] in out.products or any(q.consumer and q.consumer.stm is taken[0] for q in _all(out))):
            product.consumer = None
        light = [x for x in operands if x is not None and _is_deferred(x[0], p, product, made, users, final)]
        out.deferred |= {made[x[0]]: None for x in light}
        if product.consumer is not None:
            out.deferred[p] = None
            out.products[product.consumer.stm] = product
        if light or product.sums is not None or product.consumer is not None:
            out.products[p] = product
        nest = asked(p)
        if nest is not None and p in out.products:
            nest.was(LEGAL.name)
        elif nest is not None:
            nest.was_not(LEGAL.name, BY_NAME[LEGAL.name].otherwise)
    if out.products:
        LEGAL.fired()
    consumers = {q.consumer.stm for q in _all(out) if q.consumer is not None}
    for s in [s for s in out.deferred if s in consumers]:
        del out.deferred[s]
    return out


def _takes(stm: core.Stm, nest: Asked | None) -> bool:
    """Whether a schedule leaves it to a product to take others along."""
    tiled = stm.grid is None or stm.grid.template == "product"
    return nest is None or (tiled and permitted(nest, LEGAL.name))


def _all(out: Arrangement) -> Iterator[Product]:
    yield from out.products.values()


def _is_deferred(
    x: Var, p: core.Stm, product: Product, made: dict[Var, core.Stm], users: dict[Var, list[core.Stm]], final: set[Var]
) -> bool:
    """Whether an operand is cheap to compute and used by the product (and what it takes along) alone."""
    if x not in made or light_nest(made[x]) is None:
        return False
    fine = {id(p), *([id(product.sums)] if product.sums is not None else [])}
    loose = [x]
    while loose:
        v = loose.pop()
        if v in final:
            return False
        for s in users.get(v, ()):
            if isinstance(s.exp, core.Rearrange):
                loose += s.pat
            elif id(s) not in fine:
                return False
    return all(v is x or (v not in final and not users.get(v)) for v in made[x].pat)


def _take_sums(
    out: Arrangement, product: Product, left: tuple[Var, tuple[int, ...]], made: dict[Var, core.Stm]
) -> None:
    """Find the sums of the left operand's rows, and bring them and the product together, the sums first."""
    p = product.stm
    for s in out.stms:
        found = row_sums(s, made) if s not in out.products else None
        if found is None or found[:2] != left or any(q.sums is s for q in _all(out)):
            continue
        at_s, at_p = out.stms.index(s), out.stms.index(p)
        first, second = (s, p) if at_s < at_p else (p, s)
        low, high = min(at_s, at_p), max(at_s, at_p)
        # The later of the two goes up to the earlier one, with the views that it needs.
        moving = [second]
        needed = set(core.stm_free(second))
        for x in reversed(out.stms[low + 1 : high]):
            if needed & set(x.pat):
                if not MADE_BEFORE(isinstance(x.exp, (core.Rearrange, core.Reshape))):
                    return
                moving.insert(0, x)
                needed |= set(core.stm_free(x))
        if not MADE_BEFORE(not needed & set(first.pat)):
            return
        rest = [x for x in out.stms[low + 1 : high] if not any(x is m for m in moving)]
        pair = [*moving[:-1], s, p]
        out.stms[low : high + 1] = [*pair, *rest]
        product.sums, product.negated = s, found[2]
        return
