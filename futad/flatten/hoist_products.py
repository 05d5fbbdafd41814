"""What the iterations of a loop compute apart from what the loop carries, for all iterations at once.

    loop (p, q) for i < n do (f p (g as[i]), q + matmul (transpose (g as[i])) bs[i])
        -->   let gs = map g as
              in (loop p for i < n do f p gs[i], q + matmul (transpose (flat gs)) (flat bs))

for a `g` with products in it: one launch, and one large product, for one in every iteration.  The return sweep of a
loop has much of that, as the adjoints of what an iteration makes only of its own input and state need no adjoint of the
next iteration. What is kept so of each iteration must be no larger than what the iteration reads of an array of all
iterations, so that memory grows by no more than a factor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.scope import uses_in
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Var, array_of, shape_of
from futad.flatten.fused_products import row_sums
from futad.legality import Legality
from futad.optimise.addto import sum_of
from futad.rewrite.dce import effects
from futad.rewrite.strategy import with_lambdas

LEGAL = Legality(
    "hoist-products",
    "what iterations compute apart from what a loop carries is computed for all iterations at once",
    worth="LSTM's gradient of 20 steps on a device: 117 launches in place of 272",
)
OF_THE_ITERATION = LEGAL.condition("part of the iteration", "the iteration reads another part")
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


@dataclass(slots=True)
class _Sum:
    """A loop's variable that only gets terms added that do not depend on it: the statement that adds one, and the
    factors of a product (the left one transposed), a vector, or a matrix of which it is the sum of the rows."""

    stm: Stm
    terms: tuple[Var, ...]


@dataclass(slots=True)
class _Iterations:
    """A loop's body taken apart."""

    stm: Stm
    loop: ir.For
    defs: Defs
    made: dict[Var, Stm] = field(default_factory=dict)
    free: set[Stm] = field(default_factory=set)  # the statements that depend on nothing that the loop carries
    slices: dict[Var, Var] = field(default_factory=dict)  # what they read of arrays of all iterations: the arrays
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
        added = {x.stm for x in sums.values()}
        rest = [s for s in stms if s not in self.free and s not in added]
        wanted = [v for s in rest for v in ir.stm_free(s)]
        wanted += [a for k, a in enumerate(body.result) if k not in sums and isinstance(a, Var)]
        wanted += [v for x in sums.values() for v in x.terms]
        kept = self.kept(wanted)
        if kept is None or not kept:
            return None
        whole = self.hoisted(stms, kept)
        if whole is None or not any(isinstance(s.exp, ir.MatMul) for lam in whole.exp.lambdas() for s in lam.stms):
            return None
        LEGAL.fired()
        arrays = dict(zip(kept, whole.pat, strict=True)) | self.slices
        rest = [self.rest(stms, kept, arrays, sums)] if len(sums) < len(body.result) else []
        return [whole, *rest, *self.totals(arrays, sums)]

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
            if not isinstance(e, ir.At) or e.check is not None or len(e.index) != 1 or not isinstance(e.array, Var):
                continue
            (at,) = e.index
            if not isinstance(at, Var) or e.array in local or not AS_MANY(shape_of(e.array.type)[0] == bound):
                continue
            if (self.place is None or at is self.place) and OF_THE_ITERATION(self.covers(at, stms)):
                self.place = at
                self.slices[s.pat[0]] = e.array
        return list(stms)

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
        for k, (p, r) in enumerate(zip(body.params[1:], body.result, strict=True)):
            s = self.made.get(r) if isinstance(r, Var) else None
            if s is None or not ADDED_ONLY(uses[p] == 1 and uses[r] == 1):
                continue
            e = s.exp
            terms: Sequence[Atom] = ()
            if isinstance(e, ir.MatMul) and e.plus == (p,) and isinstance(e.a, Var):
                left = self.made[e.a].exp if e.a in self.made else None
                if isinstance(left, ir.Rearrange) and left.perm == (1, 0):
                    terms = (left.array, e.b)
            elif (pair := sum_of(s)) is not None and p in pair and len(shape_of(p.type)) == 1:
                terms = tuple([self.summed(a) for a in pair if a is not p])
            mine = [a for a in terms if isinstance(a, Var) and self.of_all_iterations(a)]
            if terms and len(mine) == len(terms):
                out[k] = _Sum(s, tuple(mine))
        return out

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
        rows = [Counter(shape_of(v.type)) for v in self.slices]
        for v in out:
            if not isinstance(v.type, ArrayType | Prim) or not any(Counter(shape_of(v.type)) <= r for r in rows):
                return None
        return list(out)

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

    def rest(self, stms: Sequence[Stm], kept: Sequence[Var], arrays: dict[Var, Var], sums: dict[int, _Sum]) -> Stm:
        """The loop with what is left."""
        assert self.place is not None
        body = self.loop.body
        gone = {x.stm for x in sums.values()}
        reads = [Stm((v,), ir.At(arrays[v], (self.place,), None)) for v in kept]
        out: list[Stm] = [] if self.place in self.made else list(reads)
        for s in stms:
            if s in gone or any(v in kept for v in s.pat):
                continue
            if s in self.free and isinstance(s.exp, HEAVY):
                continue  # nothing here needs it
            out.append(s)
            if self.place in s.pat:
                out += reads
        stay = [k for k in range(len(body.result)) if k not in sums]
        lam = Lambda(
            (body.params[0], *[body.params[1 + k] for k in stay]), tuple(out), tuple([body.result[k] for k in stay])
        )
        loop = ir.For(self.loop.bound, tuple([self.loop.inits[k] for k in stay]), lam)
        return Stm(tuple([self.stm.pat[k] for k in stay]), loop, self.stm.attrs)

    def totals(self, arrays: dict[Var, Var], sums: dict[int, _Sum]) -> list[Stm]:
        """The sums over all iterations."""
        b = Builder()
        flat: dict[Var, Var] = {}
        columns: dict[Var, Var] = {}
        sizes: dict[tuple[Atom, ...], Atom] = {}  # of flat arrays: factors of a product have the same one
        for k, x in sums.items():
            init, out = self.loop.inits[k], self.stm.pat[k]
            for v in x.terms:
                if v not in flat:
                    *outer, width = shape_of(arrays[v].type)
                    if tuple(outer) not in sizes:
                        sizes[tuple(outer)] = b.size_mul(outer)
                    flat[v] = b.let(ir.Reshape(arrays[v], (sizes[tuple(outer)], width)), "flat")
                    columns[v] = b.let(ir.Rearrange(flat[v], (1, 0)), "columns")
            left = columns[x.terms[0]]
            if len(x.terms) == 2:
                b.add(Stm((out,), ir.MatMul(left, flat[x.terms[1]], (init,))))
                continue
            total = b.zip_with(lambda c, row: c.sum_outer(shape_of(row.type)[0], row, "total"), left)
            d = self.defs.get(init)
            zeros = isinstance(d, ir.Replicate) and isinstance(d.value, Const) and d.value.value == 0
            b.add(Stm((out,), ir.Alias(total if FROM_ZERO(zeros) else b.plus(init, total))))
        return b.stms


__all__ = ["hoist_products"]
