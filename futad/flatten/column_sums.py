"""Accumulators become sums and products, for devices.

On one thread an accumulator updated in place is as good as a sum or better; on a device its updates contend, and what
is added to it is out of reach of fusion.  So where all of an accumulator's updates are known:

    map (\\x -> map (\\v i -> acc[i] += v) x (iota d)) xs       -->   acc += map sum (transpose xs)
    map (\\a b -> acc += matmul (transpose a) b) as bs           -->   acc += matmul (transpose (flat as)) (flat bs)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.nest import Nest
from futad.core.types import AccType, Atom, Const, Var, elem_of, shape_of, zero
from futad.legality import Legality
from futad.rewrite.dce import effects
from futad.rewrite.ranges import is_index
from futad.rewrite.strategy import with_lambdas

LEGAL = Legality(
    "column-sums",
    "accumulators whose contributions are sums or products become these, for devices",
    worth="no contended updates: LSTM's gradient of 20 steps on a device moves 0.8 GB in place of 2.5",
)
IN_ORDER = LEGAL.condition("places in order", "the sums go to other places")
AS_MANY = LEGAL.condition("as many places", "there are places without a sum, or sums without a place")
FROM_ZERO = LEGAL.condition("sum from zero", "what was in the array is lost")
NO_EFFECTS = LEGAL.condition("nest asserts nothing", "assertions of the nest are lost with it")


def sums(lam: Lambda) -> Lambda:
    """The scope and those in it, with accumulators whose contributions are sums or products as these."""
    return _Sums().scope(lam)


@dataclass(slots=True)
class _Thread:
    """A nest of maps with an accumulator's one update inside: the maps, which of their arrays it is at each level, and
    the update.  There may be more than that in the maps."""

    nest: Nest
    maps: list[ir.Map]
    args: list[int]
    stm: Stm
    update: ir.UpdateAcc


class _Sums:
    def __init__(self) -> None:
        self.defs: dict[Var, ir.Exp] = {}

    def scope(self, lam: Lambda) -> Lambda:
        out: list[Stm] = []
        for stm in lam.stms:
            lams = stm.exp.lambdas()
            if lams:
                new = [self.scope(inner) for inner in lams]
                if any(a is not b for a, b in zip(lams, new, strict=True)):
                    stm = Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs)
            if len(stm.pat) == 1:
                self.defs[stm.pat[0]] = stm.exp
            if isinstance(stm.exp, ir.WithAcc):
                out += self.with_acc(stm, stm.exp)
            else:
                out.append(stm)
        same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
        return lam if same else Lambda(lam.params, tuple(out), lam.result)

    # -- accumulators

    def with_acc(self, stm: Stm, e: ir.WithAcc) -> list[Stm]:
        """An accumulator whose contributions are sums or products is opened no more."""
        for k, acc in enumerate(e.lam.params):
            if elem_of(acc.type).is_bool:
                continue
            for at, s in enumerate(e.lam.stms):
                if acc not in ir.stm_free(s):
                    continue
                thread = _thread_of(s, acc, e.lam.result[k])
                if thread is not None and not any(acc in ir.stm_free(x) for x in e.lam.stms[at + 1 :]):
                    b = Builder()
                    b.extend(e.lam.stms[:at])
                    total = self.sums(b, thread, acc) or self.product(b, thread, acc)
                    if total is not None:
                        return self.without(stm, e, k, at, thread, b.stms[at:], total)
                break
        return [stm]

    def without(
        self, stm: Stm, e: ir.WithAcc, k: int, at: int, thread: _Thread, made: Sequence[Stm], total: Var
    ) -> list[Stm]:
        """The statement without accumulator k, whose contributions `made` adds up to `total`."""
        s = e.lam.stms[at]
        rest = _remove(s, thread.maps[0], thread.args)
        bound = {v for x in e.lam.stms for v in x.pat} | set(e.lam.params)
        if any(v in bound for x in made for v in ir.stm_free(x) if v not in {w for y in made for w in y.pat}):
            return [stm]
        b = Builder()
        b.extend(made)
        old = e.arrays[k]
        LEGAL.fired()
        if FROM_ZERO(self.zeros(old)):
            b.add(Stm((stm.pat[k],), ir.Copy(total)))
        else:
            result = b.plus(old, total)
            last = b.stms.pop()
            assert last.pat == (result,)
            b.add(Stm((stm.pat[k],), last.exp))
        keep = [j for j in range(len(e.arrays)) if j != k]
        n = len(e.arrays)
        stms = (*e.lam.stms[:at], *([rest] if rest is not None else []), *e.lam.stms[at + 1 :])
        results = (*[e.lam.result[j] for j in keep], *e.lam.result[n:])
        pat = (*[stm.pat[j] for j in keep], *stm.pat[n:])
        if not keep:
            # What else the scope computes.
            tail = [Stm((v,), ir.Alias(a)) for v, a in zip(pat, results, strict=True)]
            return [*stms, *b.stms, *tail]
        lam = Lambda(tuple([e.lam.params[j] for j in keep]), stms, results)
        smaller = ir.WithAcc(tuple([e.arrays[j] for j in keep]), e.op, lam)
        return [*b.stms, *self.with_acc(Stm(pat, smaller, stm.attrs), smaller)]

    def zeros(self, a: Atom) -> bool:
        d = self.defs.get(a) if isinstance(a, Var) else None
        while isinstance(d, ir.Replicate):
            if isinstance(d.value, Const):
                return d.value is zero(d.value.type)
            d = self.defs.get(d.value) if isinstance(d.value, Var) else None
        return False

    def sums(self, b: Builder, thread: _Thread, acc: Var) -> Var | None:
        """Sums over the outer maps of an array that the nest runs through: [s1]..[i1].. to acc[i1].. ."""
        u = thread.update
        levels = {p: q for q, m in enumerate(thread.maps) for p, a in zip(m.lam.params, m.arrays, strict=True)
                  if isinstance(a, Var) and is_index(self.defs.get(a))}  # fmt: skip
        places = [levels.get(i, -1) if isinstance(i, Var) else -1 for i in u.index]
        summed = len(thread.maps) - len(places)
        if not u.index or summed < 1 or not isinstance(u.value, Var):
            return None
        if not IN_ORDER(places == list(range(summed, len(thread.maps)))):
            return None
        sizes = tuple([m.width for m in thread.maps])
        if not AS_MANY(shape_of(acc.type) == sizes[summed:]):
            return None
        local = {v: s.exp for m in thread.maps for s in m.lam.stms for v in s.pat}
        v, negate = u.value, False
        op = local.get(v)
        if isinstance(op, ir.Op) and op.op == "neg" and isinstance(op.args[0], Var):
            v, negate = op.args[0], True
        read, every = thread.nest.reads().get(v), tuple(range(len(sizes)))
        if read is None or (read.levels, read.dims) != (every, every) or shape_of(read.array.type) != sizes:
            return None
        v = read.array
        flat: Var = v
        if len(sizes) != 2:
            rows, columns = b.size_mul(sizes[:summed]), b.size_mul(sizes[summed:])
            flat = b.let(ir.Reshape(v, (rows, columns)), "flat")
        columns_ = b.let(ir.Rearrange(flat, (1, 0)), "columns")

        def total(inner: Builder, column: Atom) -> Sequence[Atom]:
            t = elem_of(column.type)
            width = shape_of(column.type)[0]
            if not negate:
                return [inner.sum_outer(width, column, "total")]
            minus = inner.lambda_([("x", t)], lambda c, x: [c.op("neg", x)])
            fold = ir.Fold(inner.plus_lambda(t), (zero(t),), True)
            return inner.emit(ir.Fused(width, (column,), minus, (), (fold,)), "total")

        (out,) = b.map_(total, columns_, hint="totals")
        return out if len(sizes) - summed == 1 else b.let(ir.Reshape(out, sizes[summed:]), "totals")

    def product(self, b: Builder, thread: _Thread, acc: Var) -> Var | None:
        """A sum of products over a map: one product with a longer sum."""
        u = thread.update
        if len(thread.maps) != 1 or u.index:
            return None
        (m,) = thread.maps
        local: dict[Atom, ir.Exp] = {v: s.exp for s in m.lam.stms for v in s.pat}
        p = local.get(u.value)
        while isinstance(p, ir.Reshape):
            p = local.get(p.array)
        if not isinstance(p, ir.MatMul) or p.plus:
            return None
        left = local.get(p.a)
        if not isinstance(left, ir.Rearrange) or left.perm != (1, 0):
            return None
        rows = b.size_mul([m.width, shape_of(p.b.type)[0]])
        flat = [self.flat(b, m, local, x, rows) for x in (left.array, p.b)]
        if flat[0] is None or flat[1] is None:
            return None
        whole = b.let(ir.MatMul(b.let(ir.Rearrange(flat[0], (1, 0)), "columns"), flat[1], ()), "product")
        return whole if shape_of(acc.type) == shape_of(whole.type) else b.let(
            ir.Reshape(whole, shape_of(acc.type)), "product"
        )  # fmt: skip

    def flat(self, b: Builder, m: ir.Map, local: dict[Atom, ir.Exp], x: Atom, total: Atom) -> Var | None:
        """The matrices that `x` is in all iterations, one below the other; None if they do not lie so."""
        rows, columns = shape_of(x.type)
        bound = {*m.lam.params, *local}
        while isinstance(r := local.get(x), ir.Reshape):
            x = r.array
        if x not in m.lam.params or rows in bound or columns in bound:
            return None
        a = m.arrays[m.lam.params.index(x)]
        return b.let(ir.Reshape(a, (total, columns)), "flat") if isinstance(a, Var) else None


def _thread_of(stm: Stm, acc: Var, result: Atom) -> _Thread | None:
    """The nest of maps that a statement is if it updates an accumulator once, unconditionally."""
    nest, maps, args = Nest([]), list[ir.Map](), list[int]()
    while True:
        e = stm.exp
        if isinstance(e, ir.UpdateAcc):
            return _Thread(nest, maps, args, stm, e) if maps and stm.pat[0] is result else None
        if not isinstance(e, ir.Map) or list(e.arrays).count(acc) != 1:
            return None
        arg = e.arrays.index(acc)
        out = [i for i, a in enumerate(e.arrays) if isinstance(a.type, AccType)].index(arg)
        if stm.pat[out] is not result:
            return None
        nest.arrays = nest.arrays or e.arrays
        nest.enter(e.lam, stm if maps else None)
        maps.append(e)
        args.append(arg)
        acc, result = e.lam.params[arg], e.lam.result[out]
        users = [s for s in e.lam.stms if acc in ir.stm_free(s)]
        if len(users) != 1:
            return None
        stm = users[0]


def _remove(stm: Stm, e: ir.Map, args: Sequence[int]) -> Stm | None:
    """A nest without the accumulator that is its argument `args[0]`; None if nothing is left."""
    arg = args[0]
    out = [i for i, a in enumerate(e.arrays) if isinstance(a.type, AccType)].index(arg)
    pat = (*stm.pat[:out], *stm.pat[out + 1 :])
    if not pat and NO_EFFECTS(not effects(e.lam.stms)):
        return None
    acc = e.lam.params[arg]
    stms: list[Stm] = []
    for s in e.lam.stms:
        if acc not in ir.stm_free(s):
            stms.append(s)
        elif len(args) > 1:
            assert isinstance(s.exp, ir.Map)
            rest = _remove(s, s.exp, args[1:])
            stms += [rest] if rest is not None else []
    lam = Lambda(
        (*e.lam.params[:arg], *e.lam.params[arg + 1 :]), tuple(stms), (*e.lam.result[:out], *e.lam.result[out + 1 :])
    )
    return Stm(pat, ir.Map(e.width, (*e.arrays[:arg], *e.arrays[arg + 1 :]), lam), stm.attrs)


__all__ = ["sums"]
