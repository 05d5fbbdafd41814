"""Matrix products: tiled kernels, one or a batch of them, with what they take along (Note [Deferred arrays])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import I64, ArrayType, Const, Prim, Var, elem_of, shape_of
from futad.flatten import kernel as kir
from futad.flatten.dispatch import in_block, on_host, over
from futad.flatten.fused_products import Consumer, Deferred, Product, rest_of
from futad.flatten.grids import scope
from futad.flatten.product_tiles import SMALL_TILE, Shape, cover, tiles, versions
from futad.imp import ir
from futad.imp.dispatch import Destination
from futad.imp.elements import bind_elements, element
from futad.imp.ir import ONE, ZERO, Expr, Ref, num
from futad.imp.views import Fill, Mem, Root, Value, View, dense_view
from futad.legality import Legality
from futad.rewrite.choices import Nest

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

LEGAL = Legality(
    "sums-in-parts",
    "products with few tiles are cut along the sum, and the parts added up",
    worth="few tiles fill few processors: a product of 64 by 100,000 by 64 has 4 blocks uncut, a card 132 processors",
)
ADDED = LEGAL.condition("products are added", "the parts of another fold are not its summands")

MOST_BATCHES = 65535  # of a grid's third dimension


@dataclass(slots=True)
class Strided:
    """A matrix in memory, and how far that of one batch is from that of the one before."""

    view: View
    step: Expr = ZERO


@dataclass(slots=True)
class Computed:
    """A matrix whose element `at(batch, i, j)` computes; `inner` says which index runs through neighbours in memory."""

    at: Callable[[Sequence[Expr]], Expr]
    inner: int
    reads: frozenset[Root]


@dataclass(slots=True)
class Taken:
    """What is done with a product: `consume(point, x)` stores what it makes of an element, and returns what `folds`
    (made in the kernel) folds by tiles; `sums(point, sum)` gets the sums of the left operand's rows."""

    consume: Callable[[Sequence[Expr], Expr], Sequence[Expr]] | None = None
    folds: Callable[[], kir.RowFolds] | None = None
    sums: Callable[[Sequence[Expr], Expr], None] | None = None


@dataclass(slots=True)
class Operation:
    """A product at host level: sizes m, n, k, the number of batches, the operands, and the matrix to add to."""

    sizes: tuple[Expr, Expr, Expr]
    batches: Expr
    a: Strided | Computed
    b: Strided | Computed
    elem: Prim
    name: str
    rank: int
    plus: View | None
    step: Callable[[], kir.Function] | None = None
    start: Expr | None = None
    narrow: bool = False  # whether there may be few columns and many rows
    nest: Nest | None = None  # what a schedule asks of it

    def index(self, point: Sequence[Expr]) -> Sequence[Expr]:
        """A place in the result's array, from batch, row and column."""
        return point if self.rank == 3 else point[1:]

    def reads(self) -> frozenset[Root]:
        """The memory of which blocks read what other blocks' results are made of."""
        out: frozenset[Root] = frozenset()
        for x in (self.a, self.b):
            out |= x.reads if isinstance(x, Computed) else x.view.roots
        return out


# --- emitting ---------------------------------------------------------------------------------------------------------


def tiled(lo: DeviceLowerer, op: Operation, dst: Strided | None, accumulate: bool, taken: Taken) -> None:
    """A product into `dst`, or consumed, by the version that its sizes call for."""
    assert taken.folds is None, "folds are of whole rows"
    plain = isinstance(op.a, Strided) and isinstance(op.b, Strided) and dst is not None and taken.sums is None
    if not ADDED(op.step is None):
        versions(lo, op, lambda shape: launch(lo, op, shape, dst, accumulate, taken))
        return
    alone = ONE if dst is not None and not accumulate and not plain else None  # the kernel is that of the parts
    versions(
        lo, op, lambda shape: launch(lo, op, shape, dst, accumulate, taken, alone),
        lambda shape, splits: _in_parts(lo, op, shape, splits, dst, accumulate, taken), plain,
    )  # fmt: skip


def _in_parts(
    lo: DeviceLowerer, op: Operation, shape: Shape, splits: Expr, dst: Strided | None, accumulate: bool, taken: Taken
) -> None:
    """A product whose sums are cut into parts, which other kernels then add up."""
    LEGAL.fired()
    m, n, _ = op.sizes

    def array(*sizes: Expr) -> View:
        count = (ir.mul(op.batches, splits), *sizes)
        return dense_view(lo.alloc(op.elem, count, None, "parts").base, count)

    def total(parts: View, point: Sequence[Expr]) -> Expr:
        name = lo.name("sum")
        lo.emit(ir.Decl(name, op.elem, ir.Num(0.0, op.elem), mutable=True))
        with lo.loop(splits, "part") as (s, _):
            part = parts.load((ir.add(ir.mul(point[0], splits), s), *point[1:]))
            lo.emit(ir.Accumulate(name, "add", part))
        return Ref(name, op.elem)

    made, sums = array(m, n), taken.sums
    rows = array(m) if sums is not None else None
    to = (lambda point, x: lo.store(rows, point, x)) if rows is not None else None
    launch(lo, op, shape, Strided(made.row((ZERO,)), made.strides[0]), False, Taken(sums=to), splits)
    with over(lo, (op.batches, m, n), f"parts of product {op.name}") as point:
        x = total(made, point)
        if dst is None:
            assert taken.consume is not None
            taken.consume(point, x)
        else:
            v = dst.view
            out = View(v.base, v.offset, (dst.step, *v.strides), (op.batches, *v.shape), False)
            lo.store(out, point, ir.Scalar("add", (out.load(point), x), op.elem, op.elem) if accumulate else x)
    if rows is not None:
        assert sums is not None
        with over(lo, (op.batches, m), f"parts of sums beside product {op.name}") as point:
            sums(point, total(rows, point))


def launch(
    lo: DeviceLowerer, op: Operation, shape: Shape, dst: Strided | None, accumulate: bool, taken: Taken,
    splits: Expr | None = None,
) -> None:  # fmt: skip
    """One tiled kernel: into `dst`, or consumed; or into as many parts of it as `splits` says."""

    def plain(x: Expr) -> Expr:
        # Everything in variables, also constants: then one kernel serves all products of the same kind.
        at = lo.name("g")
        lo.out.append(ir.Decl(at, I64, x))
        return Ref(at, I64)

    def matrix(x: Strided | Computed | None) -> kir.Matrix | None:
        if not isinstance(x, Strided):
            return None
        v = x.view
        assert isinstance(v.base, Mem)
        start = lo.name("m")
        lo.out.append(ir.Pointer(start, v.elem, v.base.pointer, v.offset))
        inner = 0 if v.strides[0] == ONE else 1
        return kir.Matrix(start, inner, (plain(x.step), plain(v.strides[0]), plain(v.strides[1])))

    m, n, k = [plain(x) for x in op.sizes]
    given = [matrix(x) for x in (op.a, op.b, dst)]
    batches = plain(op.batches)
    cut = plain(splits) if splits is not None else ONE
    with lo.kernel("block") as body:

        def functor(words: Sequence[str], elem: Prim | None, f: Callable[[list[Expr]], Sequence[Expr]]) -> kir.Functor:
            names = [lo.name(w) for w in words]
            args = [Ref(x, I64) for x in names]
            if elem is not None:
                args[-1] = Ref(names[-1], elem)
            with lo.block() as inside, lo.inside("thread"):
                values = list(f(list(args)))
            return kir.Functor(names, elem, inside, values)

        parts: list[kir.Matrix | kir.Functor] = []
        for x, made in zip((op.a, op.b), given, strict=False):
            if made is not None:
                parts.append(made)
            else:
                assert isinstance(x, Computed)
                at = x.at
                f = functor(("b", "i", "l"), None, lambda point: [at(point)])  # noqa: B023
                f.inner = x.inner
                parts.append(f)
        consume, sums = taken.consume, taken.sums
        if given[2] is not None:
            parts.append(given[2])
        else:
            assert consume is not None
            parts.append(functor(("b", "i", "j", "x"), op.elem, lambda a: consume(a[:3], a[3])))
        folds = taken.folds() if taken.folds is not None else None
        to_sums = functor(("b", "i", "x"), op.elem, lambda a: sums(a[:2], a[2]) or ()) if sums else None
        a, b, c = parts
        tile = kir.Tile(op.elem, shape, (m, n, k), batches, a, b, c, accumulate, folds, to_sums)
        tile.splits = cut
        if op.step is not None:
            tile.step, tile.start = op.step(), op.start
        lo.out.append(tile)
    text = f"product {op.name}, tiles of {shape[0]}x{shape[1]}"
    if splits is not None and splits != ONE:
        text += ", sums in parts"
    many = ir.mul(op.batches, splits or ONE)
    some = ir.Scalar("min", (many, num(MOST_BATCHES)), I64, I64) if many != ONE else ONE
    # Sums of the left operand's rows need a tile even if the right one has no columns.
    lo.launch(body, "tile", tiles(op, shape, ONE if sums else ZERO), text, some)


# --- operands ---------------------------------------------------------------------------------------------------------


def _operand(lo: DeviceLowerer, first: View, second: View | None) -> Strided | Computed | None:
    """The operand whose matrices of the first batches (or the only one) these views are; None if it is neither in
    memory nor deferred."""
    step = ZERO if second is None else ir.sub(second.offset, first.offset)
    if isinstance(first.base, Deferred):
        deferred = first.base
        steps = (*([step] if second is not None and step != ZERO else []), *first.strides)
        dims = deferred.dims(steps)
        if dims is None or first.offset != ZERO or (second is not None and step == ZERO and len(deferred.strides) != 2):
            return None
        order = dims if len(dims) == 3 else [None, *dims]
        where = [order.index(d) for d in range(len(deferred.strides))]
        roots = frozenset[Root]()
        for v in core.stm_free(deferred.stm):
            x = lo.env.get(v)
            roots |= x.roots if isinstance(x, View) else frozenset()

        def at(point: Sequence[Expr]) -> Expr:
            return _element(lo, deferred.stm, deferred.result, [point[w] for w in where])

        return Computed(at, 0 if dims[-2] == len(deferred.strides) - 1 else 1, roots)
    return Strided(first, step) if isinstance(first.base, Mem) else None


def _descend(lo: DeviceLowerer, e: core.Map, at: Sequence[Expr], leaf: Callable[[core.Map, Expr], None]) -> None:
    """In a thread: the statements of a nest of maps at a point, then those of its innermost level by `leaf`."""
    inputs = [lo.value(a) for a in e.arrays]
    bind_elements(lo, e.lam, e.lam.params, inputs, at[0])
    if len(at) == 1:
        leaf(e, at[0])
        return
    statements(lo, e.lam.stms[:-1])
    inner = e.lam.stms[-1]
    assert isinstance(inner.exp, core.Map)
    _descend(lo, inner.exp, at[1:], leaf)
    for v, a in zip(inner.pat, inner.exp.lam.result, strict=True):
        if isinstance(a, Const):
            lo.env[v] = lo.expr(a)
        elif a in lo.env:
            lo.env[v] = lo.env[a]


def statements(lo: DeviceLowerer, stms: Sequence[core.Stm]) -> None:
    for s in stms:
        for v, x in zip(s.pat, lo.lower(s, [None] * len(s.pat)), strict=True):
            lo.bind(v, x)


def _element(lo: DeviceLowerer, stm: core.Stm, result: int, at: Sequence[Expr]) -> Expr:
    """In a thread: an element of what a nest of maps makes."""
    e = stm.exp
    assert isinstance(e, core.Map)
    _descend(lo, e, at, lambda inner, _: statements(lo, inner.lam.stms))
    return lo.expr(e.lam.result[result])


# --- lowering ---------------------------------------------------------------------------------------------------------


def operation(lo: DeviceLowerer, stm: core.Stm) -> Operation | None:
    """The product a statement is, None if its operands are not fit for the tiled kernel."""
    e, name = stm.exp, stm.pat[0].name
    if isinstance(e, core.MatMul):
        a = _operand(lo, lo.deferred_view(e.a), None) or Strided(lo.materialise(lo.view(e.a)))
        b = _operand(lo, lo.deferred_view(e.b), None) or Strided(lo.materialise(lo.view(e.b)))
        m, n = lo.shape(stm.pat[0].type)
        (k,) = lo.shape(e.a.type)[1:]
        plus = lo.view(e.plus[0]) if e.plus else None
        elem = plus.elem if plus else lo.deferred_view(e.a).elem
        return Operation((m, n, k), ONE, a, b, elem, name, 2, plus, nest=lo.asked_of(stm))
    assert isinstance(e, core.Map)
    lam = e.lam
    last = lam.stms[-1].exp
    assert isinstance(last, core.MatMul)
    inputs = [lo.deferred_view(a) for a in e.arrays]
    pairs: list[tuple[View, View]] = []
    for i in (ZERO, ONE):
        for p, v in zip(lam.params, inputs, strict=True):
            x: Value = element(lo, v, i, p.name) if v.rank > 1 else ZERO
            lo.env[p] = x
        for s in lam.stms[:-1]:
            for var, value in zip(s.pat, lo.lower(s, [None] * len(s.pat)), strict=True):
                lo.env[var] = value
        pairs.append((lo.deferred_view(last.a), lo.deferred_view(last.b)))
    made = [_operand(lo, first, second) for first, second in zip(*pairs, strict=True)]
    if made[0] is None or made[1] is None:
        return None
    t = stm.pat[0].type
    assert isinstance(t, ArrayType)
    batches, m, n = lo.shape(t)
    (k,) = lo.shape(last.a.type)[1:]
    plus = None
    if last.plus:
        plus = inputs[lam.params.index(last.plus[0])]
        if not isinstance(plus.base, Mem):
            return None
    return Operation((m, n, k), batches, made[0], made[1], t.elem, name, 3, plus, nest=lo.asked_of(stm))


def product(
    lo: DeviceLowerer, stm: core.Stm, taken: Product | None, destinations: Sequence[Destination]
) -> list[Value] | None:
    """A product into an array of its own, with the sums of the left operand's rows; None if it is no such product."""
    op = operation(lo, stm)
    if op is None:
        return None
    dst: View | None = None
    e = stm.exp
    if op.plus is not None and isinstance(e, core.MatMul) and lo.can_overwrite(op.plus, (e.a, e.b)):
        dst = op.plus
    sums = taken.sums if taken is not None else None
    extra = Taken(sums=_sums_to(lo, taken, op) if taken is not None and sums is not None else None)
    if dst is None:
        dst = lo.host_view(stm.pat[0], destinations[0])
    whole = dst
    if op.plus is not None and op.plus is not dst:
        plus = op.plus

        def consume(point: Sequence[Expr], x: Expr) -> Sequence[Expr]:
            at = op.index(point)
            lo.store(whole, at, ir.Scalar("add", (plus.load(at), x), op.elem, op.elem))
            return ()

        extra.consume = consume
        tiled(lo, op, None, False, extra)
        return [dst]
    return into(lo, op, dst, extra)


def into(lo: DeviceLowerer, op: Operation, dst: View, taken: Taken | None = None) -> list[Value]:
    """A product into memory, added to what is there if that is `op.plus`."""
    matrix = Strided(dst) if op.rank == 2 else Strided(dst.row((ZERO,)), dst.strides[0])
    tiled(lo, op, matrix, op.plus is not None, taken or Taken())
    return [dst]


def _sums_to(lo: DeviceLowerer, taken: Product, op: Operation) -> Callable[[Sequence[Expr], Expr], None]:
    assert taken.sums is not None
    out = lo.view(taken.sums.pat[0])

    def sums(point: Sequence[Expr], x: Expr) -> None:
        lo.store(out, op.index((*point, ZERO))[:-1], ir.Scalar("neg", (x,), op.elem, op.elem) if taken.negated else x)

    return sums


def consumed(lo: DeviceLowerer, taken: Product, destinations: Sequence[Destination]) -> list[Value] | None:
    """A nest over a product, done by the product; None if that is not possible."""
    c, stm = taken.consumer, taken.stm
    assert c is not None
    lo.materialise_all(v for v in core.stm_free(c.stm) if v is not stm.pat[0])
    op = operation(lo, stm)
    if op is None:
        return None
    made = set(c.rows.pat[1:]) if c.rows is not None else set()
    outs: list[View | None] = []
    for v, a, destination in zip(c.stm.pat, c.nest.body.result, destinations, strict=True):
        outs.append(lo.host_view(v, destination) if c.rows is None or a in made else None)
    if any(o is not None and o.roots & op.reads() for o in outs):
        return None
    var = stm.pat[0]
    before = lo.env[var]

    def consume(point: Sequence[Expr], x: Expr) -> Sequence[Expr]:
        at = op.index(point)
        if op.plus is not None:
            x = lo.let(ir.Scalar("add", (op.plus.load(at), x), op.elem, op.elem), "x")
        shape = lo.shape(var.type)
        lo.env[var] = View(Fill(op.elem, x), ZERO, (ZERO,) * len(shape), shape)
        try:
            return _consume(lo, c, at, outs)
        finally:
            lo.env[var] = before

    if c.rows is None:
        tiled(lo, op, None, False, Taken(consume))
        return _all(outs)
    return _with_rows(lo, taken, op, outs, consume, destinations)


def _all(values: Sequence[Value | None]) -> list[Value]:
    """Results, of which there is each."""
    out = [v for v in values if v is not None]
    assert len(out) == len(values)
    return out


def _consume(lo: DeviceLowerer, c: Consumer, at: Sequence[Expr], outs: Sequence[View | None]) -> list[Expr]:
    """In a thread: a nest's statements at an element of the product; returns the term of the row's sum, if any."""
    e = c.stm.exp
    assert isinstance(e, core.Map)
    term: list[Expr] = []

    def leaf(inner: core.Map, _: Expr) -> None:
        if c.rows is None:
            statements(lo, inner.lam.stms)
            return
        statements(lo, inner.lam.stms[: inner.lam.stms.index(c.rows)])
        f = c.rows.exp
        if isinstance(f, core.Reduce):
            x = element(lo, lo.view(f.arrays[0]), at[-1], "x")
            assert isinstance(x, Expr)
            term.append(x)
            return
        assert isinstance(f, core.Fused)
        bind_elements(lo, f.lam, f.lam.params, [lo.value(a) for a in f.arrays], at[-1])
        statements(lo, f.lam.stms)
        term.append(lo.expr(f.lam.result[0]))
        for v, a in zip(c.rows.pat[1:], f.lam.result[1:], strict=True):
            lo.env[v] = lo.expr(a)

    _descend(lo, e, at[: c.nest.depth], leaf)
    for out, a in zip(outs, c.nest.body.result, strict=True):
        if out is not None:
            lo.store(out, at, lo.expr(a))
    return term


def _with_rows(
    lo: DeviceLowerer, taken: Product, op: Operation, outs: list[View | None],
    consume: Callable[[Sequence[Expr], Expr], Sequence[Expr]], destinations: Sequence[Destination],
) -> list[Value]:  # fmt: skip
    """A nest that sums rows: the product sums each tile's, another kernel the tiles and does the rest."""
    c, var = taken.consumer, taken.stm.pat[0]
    assert c is not None
    tiles = Ref(lo.name("tiles"), I64)
    lo.out.append(ir.Decl(tiles.name, I64, cover(op.sizes[1], SMALL_TILE[1]), mutable=True))
    size = Var("tiles", I64)
    lo.env[size] = tiles
    part = Var("part", ArrayType(elem_of(var.type), (*shape_of(var.type)[:-1], size)))
    shape = (op.batches, op.sizes[0]) if op.rank == 3 else (op.sizes[0],)
    memory = lo.alloc(op.elem, (*shape, tiles), None, "part")
    parts = dense_view(memory.base, (*shape, tiles))

    def folds() -> kir.RowFolds:
        left, right, x = [Ref(lo.name(w), op.elem) for w in ("left", "right", "x")]
        plus = kir.Function([left, right], [], [ir.Scalar("add", (left, right), op.elem, op.elem)])
        point = [Ref(lo.name(w), I64) for w in ("b", "i", "tile")]
        with lo.inside("thread"), lo.block() as body:
            lo.store(parts, op.index(point), x)
        return kir.RowFolds(plus, [ir.Num(0.0, op.elem)], True, kir.Function([*point, x], body, []))

    def version(tile: Shape) -> None:
        lo.out.append(ir.Assign(tiles.name, cover(op.sizes[1], tile[1])))
        launch(lo, op, tile, None, False, Taken(consume, folds))

    versions(lo, op, version)
    lo.bind(part, parts)
    rest, kept = rest_of(c, part, size)
    out: list[Value | None] = list(outs)
    if kept:
        lo.forced.add(size)
        (rest,) = scope(core.Lambda((), (rest,), ()), lo.program).stms
        values = lo.lower(rest, [destinations[i] for i in kept])
        for i, x in zip(kept, values, strict=True):
            out[i] = x
    return _all(out)


@on_host(core.MatMul)
def _on_host(lo: DeviceLowerer, stm: core.Stm, e: core.MatMul, destinations: list[Destination]) -> Sequence[Value]:
    t = stm.pat[0].type
    assert isinstance(t, ArrayType)
    if stm.grid is None or stm.grid.template == "product":
        values = product(lo, stm, lo.taking(stm), destinations)
        assert values is not None
        return values
    a, b = [v if isinstance(v.base, Mem) else lo.materialise(v) for v in (lo.view(e.a), lo.view(e.b))]
    plus = lo.view(e.plus[0]) if e.plus else None
    dst = lo.host_view(stm.pat[0], destinations[0])
    with over(lo, dst.shape, f"product {stm.pat[0].name}, an element a thread") as (i, j):
        _element_of_product(lo, a, b, dst, plus, i, j)
    return [dst]


@in_block(core.MatMul)
def _in_block(lo: DeviceLowerer, stm: core.Stm, e: core.MatMul, destinations: list[Destination]) -> Sequence[Value]:
    a, b = lo.view(e.a), lo.view(e.b)
    dst = lo.alloc(a.elem, (a.shape[0], b.shape[1]), destinations[0], stm.pat[0].name)
    plus = lo.view(e.plus[0]) if e.plus else None
    with lo.shared_out(dst.shape) as (i, j):
        _element_of_product(lo, a, b, dst, plus, i, j)
    return [dst]


def _element_of_product(lo: DeviceLowerer, a: View, b: View, c: View, plus: View | None, i: Expr, j: Expr) -> None:
    name = lo.name("sum")
    first = plus.load((i, j)) if plus is not None else ir.Num(0.0, a.elem)
    lo.emit(ir.Decl(name, a.elem, first, mutable=True))
    with lo.loop(a.shape[1], "k") as (k, _):
        term = ir.Scalar("mul", (a.load((i, k)), b.load((k, j))), a.elem, a.elem)
        lo.emit(ir.Accumulate(name, "add", term))
    lo.store(c, (i, j), Ref(name, a.elem))


__all__ = ["Operation", "Strided", "Taken", "consumed", "into", "launch", "product", "statements", "tiled"]
