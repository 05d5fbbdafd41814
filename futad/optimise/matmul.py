"""Map nests around a product-sum become matrix products.

A matrix product in a program, or in its derivative, is a nest of maps in which a dot product, or an accumulator's
update by a product, has factors that depend on different levels of the nest:

    map (\\x -> map (\\row -> sum (map2 (*) row x)) a) xs          -->   matmul xs (transpose a)
    map (\\x r -> acc[i,j] += r[i] * x[j]) xs rs   (all i, j)      -->   acc += matmul (transpose rs) xs
    map (\\r -> acc[j] += r[i] * a[i,j]) rs        (all i, j)      -->   matmul rs a, row by row

Around them there is other code, and the levels are split (distributed) to set the product free:

0. `Nests.normal`, innermost scopes first: a map that threads several accumulators is split into one map for each.
1. `Nests.isolate`: in `map (\\row -> ... dot row z ...)` with z invariant, the products become a statement of their
   own, a *matvec*: `map (\\row -> dot row z) a`.  An accumulator's updates in a nest of maps become a matvec and an
   update by the whole vector, or an *outer product*: a nest `acc[prefix, i, j] += u[i] * v[j]` and nothing else.
2. `Nests.batch`: a map whose body contains a matvec with an invariant matrix, or an outer product whose place is
   invariant, is split around it: a map that computes the vectors, the matrix product, and a map for the rest.  A matvec
   whose vector is invariant and whose matrix is not grows by a dimension instead.
3. What did not become part of a matrix product stays as it was: `Nests.root` keeps the original statement then.

Section 6.1 of the paper (Schenck et al., SC 2022) does the same for accumulators in terms of reductions.
"""

from __future__ import annotations

from collections.abc import Callable

from futad.core import ir
from futad.core.alias import Aliases, consumed_roots
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Renamer, Stm
from futad.core.types import (
    ONE,
    ZERO,
    AccType,
    Atom,
    Const,
    Prim,
    Var,
    array_of,
    shape_of,
    zero,
)
from futad.legality import Legality
from futad.optimise.directions import interchanged
from futad.optimise.products import MatVec, Outer, Update, as_matvec, as_outer, dots, matvec
from futad.optimise.subst import Subst
from futad.optimise.views import invariant_views
from futad.rewrite.dce import effects
from futad.rewrite.strategy import Stats

LEGAL = Legality("matmul", "maps are split around products of vectors, which then are products of matrices")
SHARED_REGULAR = LEGAL.condition("shared values regular", "what two maps share has a size of its own in each turn")
VECTOR_OUTSIDE = LEGAL.condition("vector from outside", "each turn multiplies by another vector")
PLACE_OUTSIDE = LEGAL.condition("place from outside", "each turn adds its outer product to another place")
REGULAR = LEGAL.condition("vectors regular", "what is computed for all turns first has a size of its own in each")
UNCONSUMED = LEGAL.condition(
    "rest reads nothing overwritten", "the vectors' map overwrites what the rest reads after it"
)
NOTHING_ELSE = LEGAL.condition("nothing else in the map", "other updates and assertions of the turns are lost")
ALL_WHOLE = LEGAL.condition("only whole updates", "updates of parts of the accumulator are no terms of the sum")
WHOLE = LEGAL.condition("update of the whole", "a part is no term of the sum")
WAS_ZERO = LEGAL.condition("was zero", "what was in the array is not in the sum")


def matmul(program: Program, stats: Stats | None = None) -> Program:
    """Find matrix products in every function."""
    return ir.map_bodies(program, Nests(stats).root)


# --- rewriting ---------------------------------------------------------------------------------------------


class Nests:
    """The rewriting of one program; `made` counts the matrix products so far."""

    def __init__(self, stats: Stats | None) -> None:
        self.stats = stats
        self.made = 0
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
            made = self.made
            if type(s.exp) in (ir.Map, ir.WithAcc):
                normal = self.normal(interchanged(s, self.zeros) if type(s.exp) is ir.Map else s)
                self.note(normal)
                new = [t for part in normal for t in self.statement(part)]
            elif isinstance(s.exp, ir.Control):
                new = [Stm(s.pat, s.exp.rebuild(lambda a: a, self.root), s.attrs)]
            else:
                new = [s]
            if self.made > made:
                changed = True
                out += new
                if self.stats is not None:
                    self.stats.count("matmul", self.made - made)
            else:
                out.append(s)
        return Lambda(lam.params, tuple(out), lam.result) if changed else lam

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
            return self.with_acc(s, e)
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
            return [*before, *self.fission(Stm(s.pat, e, s.attrs))]
        assert type(e) is ir.WithAcc
        before, rest = _emptied(s, e, lam)
        return [*before, rest]

    def fission(self, s: Stm) -> list[Stm]:
        """A map that threads accumulators as one map an accumulator, after one for everything else.

        What an accumulator's map needs of the rest it gets as an array, but for the product that an update adds
        and for integer arithmetic, which it does again.
        """
        e = s.exp
        assert type(e) is ir.Map
        lam = e.lam
        params = [p for p in lam.params if isinstance(p.type, AccType)]
        if not params:
            return [s]
        bound = _bound(lam)
        chains: list[set[int]] = []
        for p, r in zip(params, lam.result, strict=False):
            chain = _chain(lam.stms, p, r)
            if chain is None:
                return [s]
            chains.append(chain)
        updating = set().union(*chains)
        shared: dict[Var, None] = {}
        wanted: list[list[int]] = []
        for chain in chains:
            keep = set(chain)
            for i in chain:
                x = lam.stms[i].exp
                if type(x) is ir.UpdateAcc and type(x.value) is Var and x.value in bound:
                    if not isinstance(x.value.type, Prim):
                        return [s]  # the contributions of all turns at once could be too large
                    keep.add(bound[x.value])
            keep |= _slice(lam.stms, keep, stop=_not_integer)
            for i in sorted(keep):
                shared.update((v, None) for v in ir.stm_free(lam.stms[i]) if v in bound and bound[v] not in keep)
            wanted.append(sorted(keep))
        if not SHARED_REGULAR(all(_escapes(v, bound, lam) for v in shared)):
            return [s]
        plain = [(v, r) for v, r in zip(s.pat, lam.result, strict=True) if not isinstance(v.type, AccType)]
        if len(params) == 1 and not plain and not shared:
            return [s]
        out: list[Stm] = []
        extra = [Var(v.name, array_of(v.type, e.width)) for v in shared]
        rest = [t for i, t in enumerate(lam.stms) if i not in updating]
        if plain or shared or effects(rest):
            out.append(_submap(e, rest, [v for v, _ in plain] + extra, [r for _, r in plain] + list(shared)))
        for k, (p, r) in enumerate(zip(params, lam.result, strict=False)):
            arrays = [*zip(e.arrays, lam.params, strict=True), *zip(extra, shared, strict=True)]
            arrays = [(a, q) for a, q in arrays if not isinstance(q.type, AccType) or q is p]
            out.append(_map_over(e.width, arrays, [lam.stms[i] for i in wanted[k]], [s.pat[k]], [r], rename=True))
        return out

    # -- isolating products

    def isolate(self, s: Stm) -> list[Stm]:
        """The dot products and products of one map as statements of their own."""
        e = s.exp
        if type(e) is not ir.Map:
            return [s]
        lam = e.lam
        own = set(lam.params) | set(_bound(lam))
        rows = dict(zip(lam.params, e.arrays, strict=True))
        b = Builder()
        gone: set[int] = set()
        arrays: list[tuple[Atom, Var]] = list(zip(e.arrays, lam.params, strict=True))
        for d in dots(lam.stms, lam.result):
            for row, z in ((d.a, d.b), (d.b, d.a)):
                matrix = rows.get(row)
                if type(matrix) is Var and VECTOR_OUTSIDE(z not in own):
                    y = matvec(b, matrix, z, d.total.name)
                    arrays.append((y, d.total))
                    gone.update(d.at)
                    break
        if not gone:
            return [s]
        stms = [t for i, t in enumerate(lam.stms) if i not in gone]
        return [*b.stms, _map_over(e.width, arrays, stms, list(s.pat), list(lam.result), attrs=s.attrs)]

    def isolate_update(self, s: Stm) -> list[Stm] | None:
        """A nest that updates by a product, as a matvec and an update; an outer product as it is; else None."""
        if as_outer(s, self.iotas) is not None:
            return [s]
        u = Update(s)
        if not u.ok or u.factors is None:
            return None
        place = u.place(self.iotas)
        if place is None or any(type(f) is not Var or f not in u.source for f in u.factors):
            return None
        prefix = u.index[: len(u.index) - len(place)]
        every = tuple(range(len(u.levels)))
        x, y = u.factors
        assert type(x) is Var and type(y) is Var
        for matrix, vector in ((y, x), (x, y)):
            # The matrix has all levels; the vector those that are summed over, all before or all after the others.
            base, dims = u.source[vector]
            if u.source[matrix][1] != every or sorted([*place, *dims]) != list(every):
                continue
            first = dims[0] == 0
            if dims != (every[: len(dims)] if first else every[-len(dims) :]):
                continue
            b = Builder()
            rows = len(dims) if first else len(place)
            m = self.matrix(b, u.source[matrix][0], rows)
            if first:
                m = b.let(ir.Rearrange(m, (1, 0)), "tr")
            row = matvec(b, m, self.flat(b, base, shape_of(m.type)[1]), "product")
            if len(place) > 1:
                row = b.let(ir.Reshape(row, tuple([u.width(i) for i in place])), "product")
            b.add(Stm(s.pat, ir.UpdateAcc(u.acc, prefix, row)))
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
        own = set(e.lam.params) | set(_bound(e.lam))
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
        split = self.split(e, [at], [m.vector])
        if split is None:
            return None
        out, arrays, (zs,) = split
        b = Builder()
        tr = b.let(ir.Rearrange(m.matrix, (1, 0)), "tr")
        y = e.lam.stms[at].pat[0]
        product = b.let(ir.MatMul(zs, tr), "product")
        LEGAL.fired()
        self.made += 1
        arrays.append((product, y))
        rest = self.remaining(s, e, at, arrays)
        return [*out, *b.stms, *self.batch(rest)]

    def grow_matvec(self, s: Stm, e: ir.Map, at: int, m: MatVec) -> list[Stm] | None:
        """y = A z with A varying: one matvec over the rows of all A."""
        split = self.split(e, [at], [m.matrix])
        if split is None:
            return None
        out, arrays, (ms,) = split
        rows, k = shape_of(ms.type)[1:][:2]
        b = Builder()
        flat = b.let(ir.Reshape(ms, (b.size_mul([e.width, rows]), k)), "matrix")
        y = e.lam.stms[at].pat[0]
        product = matvec(b, flat, m.vector, "product")
        shaped = b.let(ir.Reshape(product, (e.width, rows)), "product")
        arrays.append((shaped, y))
        rest = self.remaining(s, e, at, arrays)
        return [*out, *b.stms, *self.batch(rest)]

    def batch_outer(self, s: Stm, e: ir.Map, at: int, o: Outer) -> list[Stm] | None:
        """acc += u v^T with u and v varying: all of both first, the product U^T V added at once, then the rest."""
        split = self.split(e, [at], [o.u, o.v])
        if split is None:
            return None
        out, arrays, (us, vs) = split
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
        others = [t for i, t in enumerate(e.lam.stms) if i != at and i not in self.gone]
        if len(s.pat) == 1 and NOTHING_ELSE(not any(_threads(t) or t.exp.effect for t in others)):
            b.add(Stm(s.pat, ir.UpdateAcc(arg, o.prefix, product)))
            return [*out, *b.stms]
        acc = b.let(ir.UpdateAcc(arg, o.prefix, product), "acc")
        arrays[k] = (acc, arrays[k][1])
        rest = self.remaining(s, e, at, arrays, {stm.pat[0]: o.acc})
        return [*out, *b.stms, *self.batch(rest)]

    def split(
        self, e: ir.Map, without: list[int], need: list[Var]
    ) -> tuple[list[Stm], list[tuple[Atom, Var]], list[Var]] | None:
        """A map that computes `need`; the arrays (and their parameters) the rest takes; `need` as arrays."""
        lam = e.lam
        bound = _bound(lam)
        rows = dict(zip(lam.params, e.arrays, strict=True))
        # A reshaped row is a row of the reshaped array: it need not be stored for itself.
        views: dict[Var, ir.Reshape] = {}
        for v in need:
            x = lam.stms[bound[v]].exp if v in bound else None
            if type(x) is ir.Reshape and type(x.array) is Var and (x.array in bound or x.array in rows):
                views[v] = x
        original = need
        need = [views[v].array if v in views else v for v in need]  # type: ignore[misc]
        wanted = {bound[v] for v in need if v in bound}
        part = wanted | _slice(lam.stms, wanted, stop=lambda t: False)
        if any(_threads(lam.stms[i]) for i in part):
            return None
        if any(lam.stms[i].exp.effect for i in part):
            return None
        live: list[Var] = []
        rest = [i for i in range(len(lam.stms)) if i not in part and i not in without]
        used = {v for i in rest for v in ir.stm_free(lam.stms[i])} | {a for a in lam.result if type(a) is Var}
        for i in sorted(part):
            live += [v for v in lam.stms[i].pat if v in used or v in need]
        if not REGULAR(all(_escapes(v, bound, lam) for v in [*live, *need])):
            return None
        if not UNCONSUMED(not any(v in _overwritten([lam.stms[i] for i in part]) for v in live)):
            return None
        outs = [Var(v.name, array_of(v.type, e.width)) for v in live]
        out: list[Stm] = []
        if part:
            out.append(_submap(e, [lam.stms[i] for i in sorted(part)], outs, list(live)))
        arrays: list[tuple[Atom, Var]] = list(zip(e.arrays, lam.params, strict=True))
        arrays += list(zip(outs, live, strict=True))
        whole = dict(zip(live, outs, strict=True))
        vectors: list[Var] = []
        for v, wanted_as in zip(need, original, strict=True):
            a = whole[v] if v in whole else rows.get(v)
            if type(a) is not Var:
                return None
            if wanted_as in views:
                b = Builder()
                a = b.let(ir.Reshape(a, (e.width, *views[wanted_as].shape)), "flat")
                out += b.stms
            vectors.append(a)
        self.gone = part
        return out, arrays, vectors

    def remaining(
        self,
        s: Stm,
        e: ir.Map,
        at: int,
        arrays: list[tuple[Atom, Var]],
        swap: dict[Var, Atom] | None = None,
    ) -> Stm:
        """The map without statement `at` and those that `split` moved out."""
        stms = [t for i, t in enumerate(e.lam.stms) if i != at and i not in self.gone]
        result = list(e.lam.result)
        if swap:
            sub = Subst(dict(swap))
            stms = sub.stms(stms)
            result = [sub.atom(a) for a in result]
        return _map_over(e.width, arrays, stms, list(s.pat), result, attrs=s.attrs)

    # -- accumulators that are only added to as a whole

    def with_acc(self, s: Stm, e: ir.WithAcc) -> list[Stm]:
        """The construct; accumulators whose updates are all of the whole array become sums."""
        before, s = _emptied(s, e, self.scope(e.lam))
        assert type(s.exp) is ir.WithAcc
        e = s.exp
        lam = e.lam
        n = len(e.arrays)
        b = Builder()
        b.extend(before)
        keep: list[int] = []
        sums: dict[int, list[Var]] = {}
        stms = list(lam.stms)
        for k in range(n):
            acc: Atom = lam.params[k]
            chain: list[int] = []
            values: list[Var] = []
            for i, t in enumerate(stms):
                if type(t.exp) is not ir.UpdateAcc or t.exp.acc is not acc or type(t.exp.value) is not Var:
                    continue
                if WHOLE(not t.exp.index):
                    chain.append(i)
                    values.append(t.exp.value)
                    acc = t.pat[0]
            if ALL_WHOLE(acc is lam.result[k]):
                stms = [t for i, t in enumerate(stms) if i not in chain]
                sums[k] = values
            else:
                keep.append(k)
        if keep or stms:
            inner = Lambda(tuple([lam.params[k] for k in keep]), tuple(stms), tuple([lam.result[k] for k in keep]))
            inner.result += lam.result[n:]
            pat = (*[s.pat[k] for k in keep], *s.pat[n:])
            b.add(Stm(pat, ir.WithAcc(tuple([e.arrays[k] for k in keep]), e.op, inner), s.attrs))
        for k, values in sums.items():
            total = e.arrays[k]
            for value in values:
                total = value if WAS_ZERO(total in self.zeros) else b.plus(total, value)
            b.add(Stm((s.pat[k],), ir.Alias(total)))
        return b.stms


# --- helpers ------------------------------------------------------------------------------------------------


def _bound(lam: Lambda) -> dict[Var, int]:
    """The statement that binds each variable of the scope."""
    return {v: i for i, s in enumerate(lam.stms) for v in s.pat}


def _emptied(s: Stm, e: ir.WithAcc, lam: Lambda) -> tuple[list[Stm], Stm]:
    """What can go before a WithAcc whose scope is `lam`, and the WithAcc without it.

    Nothing can depend on an accumulator but its updates, so all else goes.
    """
    inside: set[Var] = set(lam.params)
    before: list[Stm] = []
    rest: list[Stm] = []
    for t in lam.stms:
        if any(v in inside for v in ir.stm_free(t)):
            inside.update(t.pat)
            rest.append(t)
        else:
            before.append(t)
    n = len(e.arrays)
    kept: list[tuple[Var, Atom]] = []
    for v, r in zip(s.pat[n:], lam.result[n:], strict=True):
        if r in inside:
            kept.append((v, r))
        else:
            before.append(Stm((v,), ir.Alias(r)))
    inner = Lambda(lam.params, tuple(rest), (*lam.result[:n], *[r for _, r in kept]))
    return before, Stm((*s.pat[:n], *[v for v, _ in kept]), ir.WithAcc(e.arrays, e.op, inner), s.attrs)


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


def _overwritten(stms: list[Stm]) -> set[Var]:
    """The arrays, and views of arrays, that the statements overwrite."""
    views = Aliases()
    for s in stms:
        for v, a in zip(s.pat, s.exp.views(), strict=False):
            views.join(v, a)
    gone = {v for s in stms for v in consumed_roots(s.exp, views)}
    return {v for s in stms for v in s.pat if views.root(v) in gone} | gone


def _threads(s: Stm) -> bool:
    """Whether the statement passes an accumulator on."""
    return any(isinstance(v.type, AccType) for v in s.pat)


def _chain(stms: tuple[Stm, ...], acc: Var, result: Atom) -> set[int] | None:
    """The statements that update one accumulator from the parameter to the result, each updating no other."""
    out: set[int] = set()
    now: Atom = acc
    for i, s in enumerate(stms):
        if now in ir.stm_free(s):
            if len(s.pat) != 1 or not isinstance(s.pat[0].type, AccType):
                return None
            out.add(i)
            now = s.pat[0]
    return out if now is result else None


def _not_integer(s: Stm) -> bool:
    return type(s.exp) is not ir.Op or not isinstance(s.pat[0].type, Prim) or s.pat[0].type.is_float


def _slice(stms: tuple[Stm, ...], roots: set[int], stop: Callable[[Stm], bool]) -> set[int]:
    """The statements that those at `roots` depend on (without them), going no further at `stop` statements."""
    bound = {v: i for i, s in enumerate(stms) for v in s.pat}
    out: set[int] = set()
    work = list(roots)
    while work:
        for v in ir.stm_free(stms[work.pop()]):
            i = bound.get(v)
            if i is None or i in out or i in roots or stop(stms[i]):
                continue
            out.add(i)
            work.append(i)
    return out


def _escapes(v: Var, bound: dict[Var, int], lam: Lambda) -> bool:
    """Whether `v` can be a mapped result: no accumulator, its sizes known outside."""
    if isinstance(v.type, AccType):
        return False
    return not any(x in bound or x in lam.params for x in shape_of(v.type))


def _map_over(
    width: Atom,
    arrays: list[tuple[Atom, Var]],
    stms: list[Stm],
    pat: list[Var],
    result: list[Atom],
    *,
    attrs: tuple[object, ...] = (),
    rename: bool = False,
) -> Stm:
    """A map over the arrays whose parameters are used (all accumulators stay)."""
    free = ir.Lambda((), tuple(stms), tuple(result)).free()
    kept = [(a, p) for a, p in arrays if p in free or isinstance(p.type, AccType)]
    kept.sort(key=lambda x: not isinstance(x[1].type, AccType))
    lam = Lambda(tuple([p for _, p in kept]), tuple(stms), tuple(result))
    if rename:
        lam = Renamer().lam(lam)
    return Stm(tuple(pat), ir.Map(width, tuple([a for a, _ in kept]), lam), attrs)


def _submap(e: ir.Map, stms: list[Stm], pat: list[Var], result: list[Atom]) -> Stm:
    """A map over `e`'s plain arrays, its variables renamed."""
    arrays = [(a, p) for a, p in zip(e.arrays, e.lam.params, strict=True) if not isinstance(p.type, AccType)]
    return _map_over(e.width, arrays, stms, pat, result, rename=True)


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
