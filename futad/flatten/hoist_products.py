"""What the iterations of a loop compute apart from what the loop carries, for all iterations at once.

    loop (p, q) for i < n do (f p (g as[i]), q + matmul (transpose (g as[i])) bs[i])
        -->   let gs = map g as
              in (loop p for i < n do f p gs[i], q + matmul (transpose (flat gs)) (flat bs))

for a `g` with products in it: one launch, and one large product, for one in every iteration.  The return sweep of a
loop has much of that, as the adjoints of what an iteration makes only of its own input and state need no adjoint of the
next iteration. What is kept so of each iteration must be no larger than what the iteration reads of an array of all
iterations, so that memory grows by no more than a factor.

A product that is only added to a sum is taken out, too, where its factors depend on what the loop carries, as the
adjoint of a recurrent network's weights: the loop saves the factors.

    loop (p, q) for i < n do let x = f p as[i] in (x, q + matmul (transpose x) as[i])
        -->   let (p, xs) = loop (p, xs = scratch) for i < n do let x = f p as[i] in (x, xs with [i] = x)
              in (p, q + matmul (transpose (flat xs)) (flat as))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.node import Range
from futad.core.scope import uses_in
from futad.core.types import (
    I64,
    ONE,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    row_type,
    shape_of,
)
from futad.flatten.fused_products import row_sums
from futad.legality import Legality
from futad.optimise.addto import sum_of
from futad.rewrite.dce import effects
from futad.rewrite.strategy import with_lambdas

LEGAL = Legality(
    "hoist-products",
    "what iterations compute apart from what a loop carries is computed for all iterations at once",
    worth="LSTM's gradient of 20 steps on a device: 97 launches in place of 272",
)
OF_THE_ITERATION = LEGAL.condition("part of the iteration", "the iteration reads another part")
WHOLE = LEGAL.condition("whole parts", "the iteration reads few elements of its part, or in another order")
AS_MANY = LEGAL.condition(
    "as many parts as iterations", "there are parts without an iteration, or iterations without a part"
)
ADDED_ONLY = LEGAL.condition("added to only", "an iteration reads the sum so far")
NO_EFFECTS = LEGAL.condition(
    "free parts assert nothing", "an assertion goes with an iteration that nothing needs any more"
)
FROM_ZERO = LEGAL.condition("sum from zero", "what the sum starts from is lost")

HEAVY = (ir.Screma, ir.MatMul)

Defs = dict[Atom, ir.Exp]


def hoist_products(lam: Lambda, defs: Defs | None = None) -> Lambda:
    """A scope that the host runs, and those in it, with such loops taken apart; the same object if there are none."""
    known: Defs = dict(defs or {})
    out: list[Stm] = []
    for stm in lam.stms:
        if isinstance(stm.exp, ir.Control):
            lams = stm.exp.lambdas()
            new = [hoist_products(inner, known) for inner in lams]
            if any(a is not b for a, b in zip(lams, new, strict=True)):
                stm = Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs)
        known.update((v, stm.exp) for v in stm.pat)
        made = _Iterations(stm, stm.exp, known).split() if isinstance(stm.exp, ir.For) else None
        out += [stm] if made is None else made
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


Term = tuple[Var, bool]
"""What an iteration adds to a sum, or a factor of it, and whether that is transposed."""


@dataclass(slots=True)
class _Sum:
    """A loop's variable that only gets terms added that do not depend on it: the statement that adds one, and the
    factors of a product (each as rows that are summed over), a vector, or a matrix of which it is the sum of the
    rows.  `views`: the statements that give it another shape before and after."""

    stm: Stm
    terms: tuple[Term, ...]
    views: tuple[Stm, ...] = ()


def _one_place(e: ir.At) -> tuple[int, Var] | None:
    """The one dimension that a read fixes, and at which place; it keeps all of the others."""
    shape = shape_of(e.array.type)
    fixed = [(k, x) for k, x in enumerate(e.index) if not isinstance(x, Range)]
    if len(fixed) != 1 or not isinstance(fixed[0][1], Var):
        return None
    kept = [(x, shape[k]) for k, x in enumerate(e.index) if isinstance(x, Range)]
    whole = WHOLE(all((x.start, x.count, x.stride) == (ZERO, n, ONE) for x, n in kept))
    return (fixed[0][0], fixed[0][1]) if whole else None


def _product(sizes: Iterable[Atom]) -> int:
    """Of those that are known."""
    return prod(int(n.value) for n in sizes if isinstance(n, Const))


def _has_products(stm: Stm) -> bool:
    """Whether a map has products in it."""
    return any(isinstance(s.exp, ir.MatMul) for lam in stm.exp.lambdas() for s in lam.stms)


@dataclass(slots=True)
class _Iterations:
    """A loop's body taken apart."""

    stm: Stm
    loop: ir.For
    defs: Defs
    made: dict[Var, Stm] = field(default_factory=dict)
    free: set[Stm] = field(default_factory=set)  # the statements that depend on nothing that the loop carries
    slices: dict[Var, Var] = field(default_factory=dict)  # what they read of arrays of all iterations: the arrays
    rows: list[Type] = field(default_factory=list)  # of the parts of such arrays that an iteration reads or saves
    views: list[Stm] = field(default_factory=list)  # of such arrays, which the loop's are not
    saved: dict[Var, Var] = field(default_factory=dict)  # what the loop saves for sums, and of all iterations
    place: Var | None = None  # the index at which the iteration reads those

    def split(self) -> list[Stm] | None:
        """The statements instead of the loop; None if there is nothing to gain."""
        body = self.loop.body
        if body.params[0].type is not I64:
            return None
        stms = self.find(self._split_products(body))
        if self.place is None or not NO_EFFECTS(not effects(self.free)):
            return None
        self.made = {v: s for s in stms for v in s.pat}
        sums = self.sums(stms, body)
        added = {s for x in sums.values() for s in (x.stm, *x.views)}
        rest = [s for s in stms if s not in self.free and s not in added]
        wanted = [v for s in rest for v in ir.stm_free(s)]
        wanted += [a for k, a in enumerate(body.result) if k not in sums and isinstance(a, Var)]
        wanted += [v for x in sums.values() for v, _ in x.terms]
        kept = self.kept(wanted) or []
        arrays = self.slices | self.saved
        whole = self.hoisted(stms, kept) if kept else None
        if whole is None:
            kept = []  # sums alone are taken out, of what the loop saves
            if not self.saved or any(v not in arrays for x in sums.values() for v, _ in x.terms):
                return None
        elif not self.saved and not _has_products(whole):
            return None
        LEGAL.fired()
        arrays |= {} if whole is None else dict(zip(kept, whole.pat, strict=True))
        rest = self.rest(stms, kept, arrays, sums) if self.saved or len(sums) < len(body.result) else []
        return [*self.views, *([] if whole is None else [whole]), *rest, *self.totals(arrays, sums)]

    def _split_products(self, body: Lambda) -> list[Stm]:
        """The body, with products of what depends on nothing carried apart from what they are added to, if that is
        more than a sum."""
        carried = set(body.params[1:])
        out: list[Stm] = []
        for s in body.stms:
            e = s.exp
            if carried & set(ir.stm_free(s)):
                split = isinstance(e, ir.MatMul) and bool(e.plus) and not carried & {e.a, e.b}
                if isinstance(e, ir.MatMul) and split and (e.plus[0] not in body.params or s.pat[0] not in body.result):
                    b = Builder()
                    product = b.let(ir.MatMul(e.a, e.b, ()), "product")
                    total = b.plus(product, e.plus[0])
                    last = b.stms.pop()
                    assert last.pat == (total,)
                    out += [*b.stms, Stm(s.pat, last.exp, s.attrs)]
                    carried.update(s.pat)
                    continue
                carried.update(s.pat)
            out.append(s)
        return out

    def find(self, stms: Sequence[Stm]) -> list[Stm]:
        """Which statements are free, and what they read of all iterations."""
        body, bound = self.loop.body, self.loop.bound
        carried = set(body.params[1:])
        local = {v for s in stms for v in s.pat} | set(body.params)
        for s in stms:
            if carried & set(ir.stm_free(s)):
                carried.update(s.pat)
                continue
            self.free.add(s)
            e = s.exp
            if not isinstance(e, ir.At) or e.check is not None or not isinstance(e.array, Var) or e.array in local:
                continue
            found = _one_place(e)
            if found is None or not AS_MANY(shape_of(e.array.type)[found[0]] == bound):
                continue
            dim, at = found
            if (self.place is None or at is self.place) and OF_THE_ITERATION(self.covers(at, stms)):
                self.place = at
                self.slices[s.pat[0]] = self.by_iterations(e.array, dim)
        self.rows = [v.type for v in self.slices]
        for e in [s.exp for s in stms if isinstance(s.exp, ir.Update)]:
            if e.index == (self.place,) and e.array in body.params and shape_of(e.array.type)[0] == bound:
                self.rows.append(row_type(e.array.type))
        return list(stms)

    def by_iterations(self, array: Var, dim: int) -> Var:
        """An array with that dimension, the iterations', as the first one."""
        if dim == 0:
            return array
        b = Builder()
        perm = (dim, *[k for k in range(len(shape_of(array.type))) if k != dim])
        view = b.let(ir.Rearrange(array, perm), array.name)
        assert isinstance(view, Var)
        self.views += b.stms
        return view

    def covers(self, at: Var, stms: Sequence[Stm]) -> bool:
        """Whether an index is the iteration's number, or that from the end."""
        iteration = self.loop.body.params[0]
        if at is iteration:
            return True
        e = next((s.exp for s in stms if s.pat == (at,)), None)
        if not isinstance(e, ir.Op) or e.op != "sub" or e.args[1] is not iteration:
            return False
        last, bound = e.args[0], self.loop.bound
        if isinstance(last, Const):
            return isinstance(bound, Const) and last.value == bound.value - 1
        d = self.defs.get(last)
        return isinstance(d, ir.Op) and d.op == "sub" and d.args == (bound, ONE)

    def sums(self, stms: Sequence[Stm], body: Lambda) -> dict[int, _Sum]:
        """The loop's variables, by number, that are sums."""
        uses = uses_in(stms, body.result)
        out: dict[int, _Sum] = {}
        vectors: dict[int, _Sum] = {}
        for k, (p, r) in enumerate(zip(body.params[1:], body.result, strict=True)):
            s, views = self.reshaped(p, r)
            if s is None:
                continue
            e = s.exp
            once = all(uses[v] == 1 for v in {p, *[v for x in (s, *views) for v in x.pat]})
            if not ADDED_ONLY(once and not (isinstance(e, ir.MatMul) and p in (e.a, e.b))):
                continue
            if isinstance(e, ir.MatMul):
                terms = [(v, flip != left) for a, left in ((e.a, True), (e.b, False)) for v, flip in self.factor(a)]
                if len(terms) == 2 and all([self.of_all_iterations(v) or self.saves(v) for v, _ in terms]):
                    out[k] = _Sum(s, tuple(terms), views)
            elif (pair := sum_of(s)) is not None and p in pair and len(shape_of(p.type)) == 1:
                of = [self.summed(a) for a in pair if a is not p]
                vectors[k] = _Sum(s, tuple([(v, False) for v in of if isinstance(v, Var)]))
        used = {v for x in out.values() for v, _ in x.terms}
        self.saved = {v: hist for v, hist in self.saved.items() if v in used}
        there = {k: [self.of_all_iterations(v) or v in self.saved for v, _ in x.terms] for k, x in vectors.items()}
        return out | {k: x for k, x in vectors.items() if there[k] == [True]}

    def reshaped(self, p: Var, r: Atom) -> tuple[Stm | None, tuple[Stm, ...]]:
        """The statement that makes a variable's next value, a product maybe that has it in another shape, and the
        statements that give it that."""
        s = self.made.get(r) if isinstance(r, Var) else None
        if s is None:
            return None, ()
        if isinstance(s.exp, ir.MatMul):
            return (s, ()) if s.exp.plus == (p,) else (None, ())
        if not isinstance(s.exp, ir.Reshape):
            return s, ()
        product = self.made.get(s.exp.array) if isinstance(s.exp.array, Var) else None
        if product is None or not isinstance(product.exp, ir.MatMul) or not product.exp.plus:
            return None, ()
        (plus,) = product.exp.plus
        before = self.made.get(plus) if isinstance(plus, Var) else None
        if before is None or not isinstance(before.exp, ir.Reshape) or before.exp.array is not p:
            return None, ()
        return product, (before, s)

    def factor(self, a: Atom) -> list[Term]:
        """A factor of a product, without a transposition."""
        if not isinstance(a, Var):
            return []
        e = self.made[a].exp if a in self.made else None
        if isinstance(e, ir.Rearrange) and e.perm == (1, 0) and isinstance(e.array, Var):
            return [(e.array, True)]
        return [(a, False)]

    def saves(self, v: Var) -> bool:
        """Whether the loop can save an iteration's value; `saved` then has it."""
        if v in self.saved:
            return True
        own = self.made.get(v) is not None and self.made[v] not in self.free
        if not own and v not in self.loop.body.params[1:]:
            return False
        if not self.no_larger(v):
            return False
        self.saved[v] = Var(v.name, array_of(v.type, self.loop.bound))
        return True

    def no_larger(self, v: Var) -> bool:
        """Whether a value has no more elements than a part that an iteration reads, or saves, of an array of all
        iterations."""
        if not isinstance(v.type, ArrayType | Prim):
            return False
        mine = Counter(shape_of(v.type))
        for t in self.rows:
            row = Counter(shape_of(t))
            more = list((mine - row).elements())
            if all(isinstance(n, Const) for n in more) and _product(more) <= _product((row - mine).elements()):
                return True
        return False

    def of_all_iterations(self, a: Var) -> bool:
        """Whether what an iteration has can be had of all iterations: a part of such an array, or what a map over the
        iterations keeps.
        Else it is computed by the iteration itself, from parts at other places maybe."""
        if a not in self.made or self.made[a] not in self.free:
            return False
        return a in self.slices or isinstance(self.made[a].exp, HEAVY)

    def summed(self, v: Atom) -> Atom:
        """The matrix of which a vector is the sum of the rows; the vector itself if it is none."""
        found = row_sums(self.made[v], self.made) if v in self.made else None
        return found[0] if found is not None and found[1:] == ((1, 0), False) else v

    def kept(self, wanted: Sequence[Var]) -> list[Var] | None:
        """What of the free statements' values the rest needs that an iteration should not compute; None if one is
        larger than what an iteration reads."""
        out: dict[Var, None] = {}
        todo, seen = list(wanted), set[Var]()
        while todo:
            v = todo.pop()
            s = self.made.get(v)
            if v in seen or s is None or s not in self.free or v in self.slices:
                continue
            seen.add(v)
            if isinstance(s.exp, HEAVY):
                out[v] = None
            else:
                todo += ir.stm_free(s)
        return list(out) if all(self.no_larger(v) for v in out) else None

    def hoisted(self, stms: Sequence[Stm], kept: Sequence[Var]) -> Stm | None:
        """A map over all iterations that makes what is kept."""
        assert self.place is not None
        needed: set[Stm] = set()
        inputs: dict[Var, Var] = {}
        todo = list(kept)
        b = Builder()
        while todo:
            v = todo.pop()
            if v in self.slices:
                inputs[v] = self.slices[v]
            elif v is self.place:
                inputs[v] = b.let(ir.Iota(self.loop.bound, ZERO, ONE), "is") if v not in inputs else inputs[v]
            elif v is self.loop.body.params[0]:
                return None  # the map's elements are in the arrays' order
            elif v in self.made and self.made[v] not in needed:
                needed.add(self.made[v])
                todo += ir.stm_free(self.made[v])
        if b.stms:
            return None
        lam = Lambda(tuple(inputs), tuple([s for s in stms if s in needed]), tuple(kept))
        pat = tuple([Var(v.name, array_of(v.type, self.loop.bound)) for v in kept])
        return Stm(pat, ir.Map(self.loop.bound, tuple(inputs.values()), ir.rename(lam)))

    def rest(
        self, stms: Sequence[Stm], kept: Sequence[Var], arrays: dict[Var, Var], sums: dict[int, _Sum]
    ) -> list[Stm]:
        """The loop with what is left, after memory for what it saves."""
        assert self.place is not None
        body = self.loop.body
        gone = {x.stm: x for x in sums.values()}
        views = {s for x in sums.values() for s in x.views}
        out = [self.made[self.place]] if self.place in self.made else []
        out += [Stm((v,), ir.At(arrays[v], (self.place,), None)) for v in kept]
        params = {v: Var(hist.name, hist.type) for v, hist in self.saved.items()}
        full: dict[Var, Var] = {}  # the arrays of what is saved, with this iteration's
        for s in stms:
            for v, _ in gone[s].terms if s in gone else ():
                if v in params and v not in full:
                    full[v] = Var(v.name, params[v].type)
                    out.append(Stm((full[v],), ir.Update(params[v], (self.place,), v, None)))
            if s in gone or s in views or any(v in kept or v is self.place for v in s.pat):
                continue
            if kept and s in self.free and isinstance(s.exp, HEAVY):
                continue  # nothing here needs it
            out.append(s)
        stay = [k for k in range(len(body.result)) if k not in sums]
        b = Builder()
        memory = [b.let(ir.Scratch(elem_of(p.type), shape_of(p.type)), "saved") for p in params.values()]
        lam = Lambda(
            (body.params[0], *[body.params[1 + k] for k in stay], *params.values()),
            tuple(out),
            (*[body.result[k] for k in stay], *[full[v] for v in params]),
        )
        loop = ir.For(self.loop.bound, (*[self.loop.inits[k] for k in stay], *memory), lam)
        pat = (*[self.stm.pat[k] for k in stay], *self.saved.values())
        return [*b.stms, Stm(pat, loop, self.stm.attrs)]

    def totals(self, arrays: dict[Var, Var], sums: dict[int, _Sum]) -> list[Stm]:
        """The sums over all iterations."""
        b = Builder()
        flat: dict[Term, Var] = {}
        columns: dict[Term, Var] = {}
        sizes: dict[tuple[Atom, ...], Atom] = {}  # of flat arrays: factors of a product have the same one
        for k, x in sums.items():
            init, out = self.loop.inits[k], self.stm.pat[k]
            for term in x.terms:
                if term not in flat:
                    v, flipped = term
                    rows = b.let(ir.Rearrange(arrays[v], (0, 2, 1)), v.name) if flipped else arrays[v]
                    *outer, width = shape_of(rows.type)
                    if tuple(outer) not in sizes:
                        sizes[tuple(outer)] = b.size_mul(outer)
                    flat[term] = b.let(ir.Reshape(rows, (sizes[tuple(outer)], width)), "flat")
                    columns[term] = b.let(ir.Rearrange(flat[term], (1, 0)), "columns")
            left = columns[x.terms[0]]
            if len(x.terms) == 2:
                if x.views:
                    init = b.let(ir.Reshape(init, shape_of(x.stm.pat[0].type)), "flat")
                product = ir.MatMul(left, flat[x.terms[1]], (init,))
                b.add(Stm((out,), ir.Reshape(b.let(product, "product"), shape_of(out.type)) if x.views else product))
                continue
            total = b.zip_with(lambda c, row: c.sum_outer(shape_of(row.type)[0], row, "total"), left)
            d = self.defs.get(init)
            zeros = isinstance(d, ir.Replicate) and isinstance(d.value, Const) and d.value.value == 0
            b.add(Stm((out,), ir.Alias(total if FROM_ZERO(zeros) else b.plus(init, total))))
        return b.stms


__all__ = ["hoist_products"]
