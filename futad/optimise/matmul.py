"""Map nests around a product-sum become matrix products.

A matrix product in a program, or in its derivative, is a nest of maps in which a dot product, or an accumulator's
update by a product, has factors that depend on different levels of the nest:

    map (\\x -> map (\\row -> sum (map2 (*) row x)) a) xs          -->   matmul xs (transpose a)
    map (\\x r -> acc[i,j] += r[i] * x[j]) xs rs   (all i, j)      -->   acc += matmul (transpose rs) xs
    map (\\r -> acc[j] += r[i] * a[i,j]) rs        (all i, j)      -->   matmul rs a, row by row

Around them there is other code, and the levels are split (`distribution.py`) to set the product free:

0. `Products.normal`, innermost scopes first: a map that threads several accumulators is split into one map for each.
1. `Products.isolate`: in `map (\\row -> ... dot row z ...)` with z invariant, the products become a statement of their
   own, a *matvec*: `map (\\row -> dot row z) a`.  An accumulator's updates in a nest of maps become a matvec and an
   update by the whole vector, or an *outer product*: a nest `acc[prefix, i, j] += u[i] * v[j]` and nothing else.
2. `Products.batch`: a map whose body contains a matvec with an invariant matrix, or an outer product whose place is
   invariant, is split around it: a map that computes the vectors, the matrix product, and a map for the rest.  A matvec
   whose vector is invariant and whose matrix is not grows by a dimension instead.
3. What did not become part of a matrix product stays as it was: `Products.root` keeps the original statement then.

Section 6.1 of the paper (Schenck et al., SC 2022) does the same for accumulators in terms of reductions.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import (
    ONE,
    ZERO,
    AccType,
    Atom,
    Const,
    Var,
    shape_of,
    zero,
)
from futad.legality import Legality
from futad.optimise.batched_tangents import interchanged
from futad.optimise.distribution import binders, by_accumulator, map_over, split, threads
from futad.optimise.factors import LEGAL as FACTORS
from futad.optimise.factors import in_order, out_of_order, prepared
from futad.optimise.products import MatVec, Outer, as_matvec, as_outer, as_update, dots, matvec
from futad.optimise.subst import Subst
from futad.optimise.sums_of_updates import emptied, sums_of_updates
from futad.optimise.views import invariant_views
from futad.rewrite.strategy import Stats

LEGAL = Legality("matmul", "maps are split around products of vectors, which then are matrix products")
VECTOR_OUTSIDE = LEGAL.condition("vector from outside", "each iteration multiplies by another vector")
PLACE_OUTSIDE = LEGAL.condition("place from outside", "each iteration adds its outer product to another place")
NOTHING_ELSE = LEGAL.condition("nothing else in the map", "other updates and assertions of the iterations are lost")

SUMS = (ir.Reduce, ir.UpdateAcc)  # products are found in what has one of them


def matmul(program: Program, stats: Stats | None = None, computed: bool = False) -> Program:
    """Find matrix products in every function; `computed`: also of factors that are computed for the product."""
    return ir.map_bodies(program, Products(stats, computed).root)


# --- rewriting ---------------------------------------------------------------------------------------------


class Products:
    """The rewriting of one program; `made` counts the matrix products so far."""

    def __init__(self, stats: Stats | None, computed: bool = False) -> None:
        self.stats = stats
        self.computed = computed
        self.reorders = False  # whether updates are split up, and put in the order of their places
        self.made = 0
        self.vectors = 0  # products of matrices and vectors, and outer products, that stay as they are
        self.factored = 0  # statements with factors as arrays of their own
        self.iotas: set[Var] = set()  # arrays 0, 1, ..., n-1
        self.zeros: set[Var] = set()

    def note(self, stms: tuple[Stm, ...] | list[Stm]) -> None:
        """Remember which variables are index arrays and zeros."""
        for s in stms:
            e = s.exp
            if type(e) is ir.Iota and e.start is ZERO and e.step is ONE:
                self.iotas.add(s.pat[0])
            elif type(e) is ir.Replicate and type(e.value) is Const and e.value is zero(e.value.type):
                self.zeros.add(s.pat[0])

    # -- scopes

    def root(self, lam: Lambda) -> Lambda:
        """A scope outside all maps: each statement is rewritten, or kept if that gives no matrix product."""
        out: list[Stm] = []
        changed = False
        self.note(lam.stms)
        for s in lam.stms:
            made, vectors, factored = self.made, self.vectors, self.factored
            if type(s.exp) in (ir.Map, ir.WithAcc):
                if not any(lam.has(*SUMS) for lam in s.exp.lambdas()):
                    out.append(s)
                    continue
                new = self.products(s)
                if self.computed:
                    new = self.of_factors(s, made, vectors) or new
            elif isinstance(s.exp, ir.Control):
                new = [Stm(s.pat, s.exp.rebuild(lambda a: a, self.root), s.attrs)]
            else:
                new = [s]
            if self.made > made or self.factored > factored:
                changed = True
                out += new
                if self.stats is not None:
                    self.stats.count("matmul", self.made - made)
            else:
                out.append(s)
        return Lambda(lam.params, tuple(out), lam.result) if changed else lam

    def products(self, s: Stm) -> list[Stm]:
        """What a statement outside all maps becomes."""
        normal = self.normal(interchanged(s, self.zeros) if type(s.exp) is ir.Map else s)
        self.note(normal)
        return [t for part in normal for t in self.statement(part)]

    def of_factors(self, s: Stm, made: int, vectors: int) -> list[Stm] | None:
        """The same with factors as arrays of their own, if there are more products then; `made` and `vectors`: how many
        there were before the statement."""
        plain = self.made, self.vectors
        self.made, self.vectors, self.reorders = made, vectors, True
        stms = prepared(s, self.iotas)
        if len(stms) > 1 or stms[0] is not s or out_of_order(s, self.iotas):
            self.note(stms)
            new = [t for u in stms for t in (self.products(u) if type(u.exp) in (ir.Map, ir.WithAcc) else [u])]
            self.reorders = False
            if (self.made, self.vectors) > plain:
                FACTORS.fired()
                self.factored += 1
                return new
        self.reorders = False
        self.made, self.vectors = plain
        return None

    def scope(self, lam: Lambda) -> Lambda:
        """A scope inside a map."""
        self.note(lam.stms)
        out: list[Stm] = []
        for s in lam.stms:
            out += self.statement(s)
        return Lambda(lam.params, tuple(out), lam.result)

    def statement(self, s: Stm) -> list[Stm]:
        """The statement with its scopes rewritten, split up where that isolates or batches a product."""
        e = s.exp
        if type(e) is ir.Map:
            if as_matvec(s) is not None:
                return [s]
            if len(s.pat) == 1 and isinstance(s.pat[0].type, AccType):
                done = self.isolate_update(s)
                if done is not None:
                    return done
            inner = Stm(s.pat, ir.Map(e.width, e.arrays, self.scope(e.lam)), s.attrs)
            return [t for piece in self.isolate(inner) for t in self.batch(piece)]
        if type(e) is ir.WithAcc:
            return sums_of_updates(s, e, self.scope(e.lam), self.zeros)
        if isinstance(e, ir.Control):
            return [Stm(s.pat, e.rebuild(lambda a: a, self.scope), s.attrs)]
        return [s]

    # -- one accumulator a nest

    def normal(self, s: Stm) -> list[Stm]:
        """The statement with every map in it threading one accumulator at most, where that can be had."""
        e = s.exp
        if type(e) not in (ir.Map, ir.WithAcc) or as_matvec(s) is not None:
            return [s]
        assert type(e) is ir.Map or type(e) is ir.WithAcc
        self.note(e.lam.stms)
        lam = _propagate([t for inner in e.lam.stms for t in self.normal(inner)], e.lam)
        if type(e) is ir.Map:
            before, e = invariant_views(ir.Map(e.width, e.arrays, lam))
            return [*before, *by_accumulator(Stm(s.pat, e, s.attrs), self.reorders)]
        assert type(e) is ir.WithAcc
        before, rest = emptied(s, e, lam)
        return [*before, rest]

    # -- isolating products

    def isolate(self, s: Stm) -> list[Stm]:
        """The dot products and products of one map as statements of their own."""
        e = s.exp
        if type(e) is not ir.Map:
            return [s]
        lam = e.lam
        own = set(lam.params) | set(binders(lam))
        rows = dict(zip(lam.params, e.arrays, strict=True))
        b = Builder()
        gone: set[int] = set()
        arrays: list[tuple[Atom, Var]] = list(zip(e.arrays, lam.params, strict=True))
        for d in dots(lam.stms, lam.result):
            for row, z in ((d.a, d.b), (d.b, d.a)):
                matrix = rows.get(row)
                if type(matrix) is Var and VECTOR_OUTSIDE(z not in own):
                    y = matvec(b, matrix, z, d.total.name)
                    self.vectors += 1
                    arrays.append((y, d.total))
                    gone.update(d.at)
                    break
        if not gone:
            return [s]
        stms = [t for i, t in enumerate(lam.stms) if i not in gone]
        return [*b.stms, map_over(e.width, arrays, stms, s.pat, lam.result, attrs=s.attrs)]

    def isolate_update(self, s: Stm) -> list[Stm] | None:
        """A nest that updates by a product, as a matvec and an update; an outer product as it is; else None."""
        if as_outer(s, self.iotas) is not None:
            self.vectors += 1
            return [s]
        u = as_update(s)
        if self.reorders and u is not None and (stms := in_order(s, u, self.iotas)) is not None:
            *before, nest = stms
            return [*before, *self.statement(nest)]
        place = u.place(self.iotas) if u is not None else None
        if u is None or place is None:
            return None
        prefix = u.index[: len(u.index) - len(place)]
        every = tuple(range(u.nest.depth))
        x, y = u.factors
        for matrix, vector in ((y, x), (x, y)):
            # The matrix has all levels; the vector those that are summed over, all before or all after the others.
            summed = vector.levels
            if matrix.levels != every or sorted([*place, *summed]) != list(every):
                continue
            first = summed[0] == 0
            if summed != (every[: len(summed)] if first else every[-len(summed) :]):
                continue
            b = Builder()
            rows = len(summed) if first else len(place)
            m = self.matrix(b, matrix.array, rows)
            if first:
                m = b.let(ir.Rearrange(m, (1, 0)), "tr")
            row = matvec(b, m, self.flat(b, vector.array, shape_of(m.type)[1]), "product")
            if len(place) > 1:
                row = b.let(ir.Reshape(row, tuple([u.widths[i] for i in place])), "product")
            b.add(Stm(s.pat, ir.UpdateAcc(u.acc, prefix, row)))
            self.vectors += 1
            return b.stms
        return None

    def flat(self, b: Builder, array: Var, size: Atom) -> Var:
        """The array as one vector of `size` elements."""
        return array if len(shape_of(array.type)) == 1 else b.let(ir.Reshape(array, (size,)), "flat")

    def matrix(self, b: Builder, array: Var, rows: int) -> Var:
        """The array as a matrix; its first `rows` dimensions are the matrix's first."""
        shape = shape_of(array.type)
        if rows == 1 and len(shape) == 2:
            return array
        return b.let(ir.Reshape(array, (b.size_mul(shape[:rows]), b.size_mul(shape[rows:]))), "matrix")

    # -- batching

    def batch(self, s: Stm) -> list[Stm]:
        """The map split around the products in its body that are matrix products over the map."""
        e = s.exp
        if type(e) is not ir.Map or as_matvec(s) is not None or as_outer(s, self.iotas) is not None:
            return [s]
        before, rest = invariant_views(e)
        e = rest
        own = set(e.lam.params) | set(binders(e.lam))
        for at, t in enumerate(e.lam.stms):
            m = as_matvec(t)
            if m is not None:
                if m.matrix not in own and m.vector in own:
                    done = self.batch_matvec(s, e, at, m)
                elif m.matrix in own and m.vector not in own:
                    done = self.grow_matvec(s, e, at, m)
                else:
                    continue
            else:
                o = as_outer(t, self.iotas)
                if (
                    o is None
                    or o.u not in own
                    or o.v not in own
                    or not PLACE_OUTSIDE(not any(p in own for p in o.prefix))
                ):
                    continue
                done = self.batch_outer(s, e, at, o)
            if done is not None:
                return before + done
        return [s]

    def batch_matvec(self, s: Stm, e: ir.Map, at: int, m: MatVec) -> list[Stm] | None:
        """y = A z with z varying: all z first, then the product Z A^T, then the rest."""
        found = split(e, at, [m.vector])
        if found is None:
            return None
        (zs,) = found.wanted
        b = Builder()
        tr = b.let(ir.Rearrange(m.matrix, (1, 0)), "tr")
        y = e.lam.stms[at].pat[0]
        product = b.let(ir.MatMul(zs, tr), "product")
        LEGAL.fired()
        self.made += 1
        found.arrays.append((product, y))
        rest = found.remaining(Stm(s.pat, e, s.attrs))
        return [*found.before, *b.stms, *self.batch(rest)]

    def grow_matvec(self, s: Stm, e: ir.Map, at: int, m: MatVec) -> list[Stm] | None:
        """y = A z with A varying: one matvec over the rows of all A."""
        found = split(e, at, [m.matrix])
        if found is None:
            return None
        (ms,) = found.wanted
        rows, k = shape_of(ms.type)[1:][:2]
        b = Builder()
        flat = b.let(ir.Reshape(ms, (b.size_mul([e.width, rows]), k)), "matrix")
        y = e.lam.stms[at].pat[0]
        product = matvec(b, flat, m.vector, "product")
        shaped = b.let(ir.Reshape(product, (e.width, rows)), "product")
        found.arrays.append((shaped, y))
        rest = found.remaining(Stm(s.pat, e, s.attrs))
        return [*found.before, *b.stms, *self.batch(rest)]

    def batch_outer(self, s: Stm, e: ir.Map, at: int, o: Outer) -> list[Stm] | None:
        """acc += u v^T with u and v varying: all of both first, the product U^T V added at once, then the rest."""
        found = split(e, at, [o.u, o.v])
        if found is None:
            return None
        us, vs = found.wanted
        stm = e.lam.stms[at]
        origin = _acc_origin(e, o.acc)
        if origin is None:
            return None
        k, arg = origin
        b = Builder()
        tr = b.let(ir.Rearrange(self.matrix(b, us, 1), (1, 0)), "tr")
        product = b.let(ir.MatMul(tr, self.matrix(b, vs, 1)), "product")
        shape = shape_of(o.u.type) + shape_of(o.v.type)
        if len(shape) > 2:
            product = b.let(ir.Reshape(product, shape), "product")
        LEGAL.fired()
        self.made += 1
        if len(s.pat) == 1 and NOTHING_ELSE(not any(threads(t) or t.exp.effect for t in found.rest)):
            b.add(Stm(s.pat, ir.UpdateAcc(arg, o.prefix, product)))
            return [*found.before, *b.stms]
        acc = b.let(ir.UpdateAcc(arg, o.prefix, product), "acc")
        found.arrays[k] = (acc, found.arrays[k][1])
        rest = found.remaining(Stm(s.pat, e, s.attrs), {stm.pat[0]: o.acc})
        return [*found.before, *b.stms, *self.batch(rest)]


# --- helpers ------------------------------------------------------------------------------------------------


def _propagate(stms: list[Stm], lam: Lambda) -> Lambda:
    """`lam` with these statements, aliases of equal type replaced by what they stand for."""
    sub = Subst()
    out: list[Stm] = []
    for s in stms:
        s = sub.stm(s) if sub.mapping else s
        if type(s.exp) is ir.Alias and s.pat[0].type == s.exp.atom.type:
            sub.mapping[s.pat[0]] = s.exp.atom
        else:
            out.append(s)
    return Lambda(lam.params, tuple(out), tuple([sub.atom(a) for a in lam.result]))


def _acc_origin(e: ir.Map, acc: Var) -> tuple[int, Atom] | None:
    """The argument (and its position) whose accumulator `acc` is, some updates later."""
    back = {s.pat[0]: s for s in e.lam.stms if len(s.pat) == 1 and isinstance(s.pat[0].type, AccType)}
    now: Atom = acc
    while now in back:
        now = next((a for a in back[now].exp.operands() if isinstance(a.type, AccType)), now)
    for i, (a, p) in enumerate(zip(e.arrays, e.lam.params, strict=True)):
        if p is now:
            return i, a
    return None
