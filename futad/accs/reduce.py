"""The rewriting of accumulator updates, innermost maps first.

    map (\\x -> acc[k] += f x) xs                -->   acc[k] += sum (map f xs)              k invariant
    map (\\x i -> acc[k, i] += f x) xs (iota n)  -->   acc[k] += map f xs                    n is the row's size
    map (\\p q -> acc[k] += matmul (tr p) q) ps qs -->  acc[k] += matmul (tr (flatten ps)) (flatten qs)
    withAcc ys (\\acc -> acc += vs)              -->   map2 (+) ys vs      (vs where ys are zeros)
    withAcc ys (\\acc -> acc[k] += v)            -->   ys with [k] = ys[k] + v

The first form applies to rows too, unless an array of the contributions would hold more than what the map reads.
The second form needs the contributions as an array, so it is used only where the first or third then applies;
otherwise updating in place is better.  A map may update an accumulator once in an iteration, unconditionally; what else
it computes stays in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.accs.injective_updates import own_places, positions
from futad.accs.report import Report
from futad.ad.emit import in_range
from futad.ad.tidy.take_back import substitute
from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Fun, Lambda, Program, Stm
from futad.core.types import ZERO, AccType, Atom, Const, Prim, Type, Var, array_of, shape_of, zero
from futad.legality import Legality
from futad.rewrite.dce import effects
from futad.rewrite.ranges import is_index
from futad.rewrite.strategy import Stats, with_lambdas

LEGAL = Legality("accumulators", "updates of an accumulator at known places become sums, products and maps")
CHAIN_ENDS = LEGAL.condition("the update is the last", "other updates follow, or the update is one of a branch")
INVARIANT = LEGAL.condition("place invariant", "the iterations add to different places")
ROW_INVARIANT = LEGAL.condition("row invariant", "the iterations add to different rows")
IN_ORDER = LEGAL.condition("places in order", "an iteration adds to another place than its own")
AS_MANY = LEGAL.condition(
    "as many iterations as places", "there are places without an iteration, or iterations without a place"
)
REGULAR = LEGAL.condition("factors regular", "the factors' sizes are known only in the iteration")
NO_EFFECTS = LEGAL.condition("map asserts nothing", "assertions of the iterations are lost with the map")
WAS_ZERO = LEGAL.condition("was zero", "what was in the array is not in the sum")

ONCE = "kept: not one unconditional update in each iteration of the map"
VARIES = "kept: the place varies with the map"
OWN = "kept: each iteration of the map adds at places of its own, for which threads need no copies"
ROW = "kept: a row is added, in place: an array of all rows would be larger than what the map reads"
REDUCED = "reduced: the place does not vary with the map"
ORDERED = "removed: the contributions come in the order of the array"
SINGLE = "removed: updated once"


@dataclass(slots=True)
class _Lifted:
    """A map without an accumulator: what computes its contribution, that, and the place it is to be added to.
    `reduced`: the map itself became a reduction (and not only maps inside it)."""

    stms: list[Stm]
    index: ir.Atoms
    value: Atom
    reduced: bool


class _Accs:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.defs: dict[Var, ir.Exp] = {}

    # -- scopes

    def lam(self, lam: Lambda) -> Lambda:
        """The scope rewritten, inner scopes first; the same object if nothing applied."""
        out: list[Stm] = []
        for stm in lam.stms:
            lams = stm.exp.lambdas()
            if lams:
                new = [self.lam(inner) for inner in lams]
                if any(a is not b for a, b in zip(lams, new, strict=True)):
                    stm = Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs)
            if len(stm.pat) == 1:
                self.defs[stm.pat[0]] = stm.exp
            if type(stm.exp) is ir.Map:
                out += self.map(stm, stm.exp)
            elif type(stm.exp) is ir.WithAcc:
                out += self.with_acc(stm, stm.exp)
            else:
                out.append(stm)
        same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
        return lam if same else Lambda(lam.params, tuple(out), lam.result)

    # -- maps

    def map(self, stm: Stm, e: ir.Map) -> list[Stm]:
        """A map with each accumulator updated at an invariant place reduced instead."""
        for out, arg in enumerate(_acc_arguments(e)):
            found = self.lift(stm, e, arg, out)
            if isinstance(found, str):
                counters = positions(e.lam.params, e.arrays, self.defs)
                own = own_places(e.lam, e.lam.params[arg], counters, e.width, self.defs) is not None
                self.report.note("acc_kept", e.arrays[arg], OWN if own else found)
            elif found.reduced:
                LEGAL.fired()
                self.report.note("acc_reduced", e.arrays[arg], REDUCED)
                update = Stm((stm.pat[out],), ir.UpdateAcc(e.arrays[arg], found.index, found.value))
                return [*[s for x in found.stms for s in self.reexecuted(x)], update]
        return [stm]

    def reexecuted(self, stm: Stm) -> list[Stm]:
        """What is left of a map, with its other accumulators."""
        return self.map(stm, stm.exp) if type(stm.exp) is ir.Map else [stm]

    def lift(self, stm: Stm, e: ir.Map, arg: int, out: int) -> _Lifted | str:
        """The map without its accumulator argument `arg`, which is result number `out`; or why not."""
        acc, end = e.lam.params[arg], e.lam.result[out]
        users = [(at, s) for at, s in enumerate(e.lam.stms) if acc in ir.stm_free(s)]
        if len(users) != 1:
            return ONCE
        at, s = users[0]
        inside: list[Stm] = []
        x = s.exp
        if type(x) is ir.UpdateAcc and CHAIN_ENDS(end is s.pat[0]):
            index, value = x.index, x.value
        elif type(x) is ir.Map and acc in x.arrays:
            inner_arg = x.arrays.index(acc)
            inner_out = _acc_arguments(x).index(inner_arg)
            if not CHAIN_ENDS(end is s.pat[inner_out]):
                return ONCE
            found = self.lift(s, x, inner_arg, inner_out)
            if isinstance(found, str):
                return found
            inside, index, value = found.stms, found.index, found.value
        else:
            return ONCE
        body = [*e.lam.stms[:at], *inside, *e.lam.stms[at + 1 :]]
        bound = {v for t in body for v in t.pat} | set(e.lam.params)
        if INVARIANT(not any(i in bound for i in index)):
            if not isinstance(value.type, Prim) and not _is_read(e, value.type):
                return self.product(stm, e, arg, out, body, index, value) or ROW
            stms, values = self.mapped(stm, e, arg, out, body, value)
            b = Builder()
            b.extend(stms)
            total = b.sum_outer(e.width, values, "total")
            return _Lifted(b.stms, index, total, True)
        *first, last = index
        if not ROW_INVARIANT(not any(i in bound for i in first)) or not IN_ORDER(self.is_own(e, last)):
            return VARIES
        if not AS_MANY(_same_size(shape_of(acc.type)[len(first)], e.width)):
            return "kept: the map's width is not the array's size"
        stms, values = self.mapped(stm, e, arg, out, body, value)
        return _Lifted(stms, tuple(first), values, False)

    def product(
        self, stm: Stm, e: ir.Map, arg: int, out: int, body: list[Stm], index: ir.Atoms, value: Atom
    ) -> _Lifted | None:
        """A sum of products over the map as one product, if both factors are rows of arrays, of any shape.

        Both have the dimension summed over first, so that their iterations one below the other are factors again; and
        these are views, as a reshape leaves elements in their order.
        """
        defs = {s.pat[0]: s.exp for s in body if len(s.pat) == 1}
        bound = {v for s in body for v in s.pat} | set(e.lam.params)

        def define(a: Atom) -> ir.Exp | None:
            return defs.get(a) if type(a) is Var else None

        def stacked(b: Builder, a: Atom, rows: Atom) -> Var | None:
            """The matrix [K][M] of every iteration, one below the other: a view of what the map reads."""
            d = define(a)
            source = d.array if type(d) is ir.Reshape else a
            whole = _array_of(e, source)
            return None if whole is None else b.let(ir.Reshape(whole, (rows, shape_of(a.type)[1])), "stacked")

        outer = define(value)
        product = define(outer.array) if type(outer) is ir.Reshape else outer
        if type(product) is not ir.MatMul or product.plus:
            return None
        permuted = define(product.a)
        if type(permuted) is not ir.Rearrange or permuted.perm != (1, 0):
            return None
        if not REGULAR(not any(n in bound for x in (permuted.array, product.b, value) for n in shape_of(x.type))):
            return None
        b = Builder()
        rows = b.op("mul", e.width, shape_of(product.b.type)[0], hint="rows")
        left, right = stacked(b, permuted.array, rows), stacked(b, product.b, rows)
        if left is None or right is None:
            return None
        total = b.let(ir.MatMul(b.let(ir.Rearrange(left, (1, 0)), "tr"), right), "product")
        if total.type != value.type:
            total = b.let(ir.Reshape(total, shape_of(value.type)), "total")
        rest, _ = self.mapped(stm, e, arg, out, body, None)
        return _Lifted([*rest, *b.stms], index, total, True)

    def is_own(self, e: ir.Map, i: Atom) -> bool:
        """Whether `i` is the position of the map's element."""
        source = _array_of(e, i)
        return type(source) is Var and is_index(self.defs.get(source))

    def mapped(
        self, stm: Stm, e: ir.Map, arg: int, out: int, body: Sequence[Stm], value: Atom | None
    ) -> tuple[list[Stm], Atom]:
        """The map with that body, without the accumulator, and the array of `value` (of nothing: not to be used)."""
        keep = [k for k in range(len(e.arrays)) if k != arg]
        pat = [v for k, v in enumerate(stm.pat) if k != out]
        results = [r for k, r in enumerate(e.lam.result) if k != out]
        values: Atom = ZERO
        if value is not None and (read := _array_of(e, value)) is not None:
            values = read
        elif value is not None:
            values = Var("part", array_of(value.type, e.width))
            pat.append(values)
            results.append(value)
        if not pat and NO_EFFECTS(not effects(body)):
            return [], values
        lam = Lambda(tuple([e.lam.params[k] for k in keep]), tuple(body), tuple(results))
        return [Stm(tuple(pat), ir.Map(e.width, tuple([e.arrays[k] for k in keep]), lam), stm.attrs)], values

    # -- accumulators that go altogether

    def with_acc(self, stm: Stm, e: ir.WithAcc) -> list[Stm]:
        """Each link in the chain of updates that comes to one contribution is taken out, and added afterwards."""
        n = len(e.arrays)
        body = list(e.lam.stms)
        result = list(e.lam.result)
        parts: list[list[tuple[ir.Atoms, Atom]]] = [[] for _ in range(n)]
        for k in range(n):
            now: Atom = e.lam.params[k]
            while now is not result[k]:
                at = next((i for i, s in enumerate(body) if now in ir.stm_free(s)), None)
                if at is None:
                    break
                after = self.after(body[at], now)
                if after is None:
                    break
                link = self.link(body[at], now)
                if link is None:
                    now = after
                    continue
                LEGAL.fired()
                self.report.note("acc_removed", e.lam.params[k], SINGLE if link.index else ORDERED)
                rest = [substitute(s, {after: now}) for s in body[at + 1 :]]
                body = [*body[:at], *link.stms, *rest]
                result = [now if r is after else r for r in result]
                parts[k].append((link.index, link.value))
        return self.rebuilt(stm, e, body, result, parts) if any(parts) else [stm]

    def after(self, s: Stm, acc: Atom) -> Var | None:
        """What the accumulator is after a statement that updates it."""
        e = s.exp
        if type(e) is ir.UpdateAcc:
            return s.pat[0]
        if type(e) is ir.Map and acc in e.arrays:
            return s.pat[_acc_arguments(e).index(e.arrays.index(acc))]
        return None

    def link(self, s: Stm, acc: Atom) -> _Lifted | None:
        e = s.exp
        if type(e) is ir.UpdateAcc:
            return _Lifted([], e.index, e.value, False)
        assert type(e) is ir.Map
        arg = e.arrays.index(acc)
        found = self.lift(s, e, arg, _acc_arguments(e).index(arg))
        return None if isinstance(found, str) else found

    def rebuilt(
        self,
        stm: Stm,
        e: ir.WithAcc,
        body: list[Stm],
        result: list[Atom],
        parts: list[list[tuple[ir.Atoms, Atom]]],
    ) -> list[Stm]:
        """`stm` with that body, and the contributions added to its arrays after it."""
        n = len(e.arrays)
        keep = [k for k in range(n) if result[k] is not e.lam.params[k]]
        inside = {v for s in body for v in s.pat}
        b = Builder()
        extra = list(result[n:])
        extra_pat = list(stm.pat[n:])
        arrays: list[Atom] = list(e.arrays)
        if keep:
            names: dict[Atom, Var] = {}
            for a in [a for part in parts for index, value in part for a in (*index, value)]:
                if a in inside and a not in names:
                    names[a] = Var("part", a.type)
                    extra.append(a)
                    extra_pat.append(names[a])
            parts = [[(tuple([names.get(i, i) for i in ix]), names.get(v, v)) for ix, v in part] for part in parts]
            lam = Lambda(tuple([e.lam.params[k] for k in keep]), tuple(body), tuple([result[k] for k in keep] + extra))
            pat = [Var(stm.pat[k].name, stm.pat[k].type) if parts[k] else stm.pat[k] for k in keep]
            b.add(Stm((*pat, *extra_pat), ir.WithAcc(tuple([arrays[k] for k in keep]), e.op, lam), stm.attrs))
            for k, v in zip(keep, pat, strict=True):
                arrays[k] = v
        else:
            b.extend(body)
            b.extend(Stm((v,), ir.Alias(a)) for v, a in zip(extra_pat, extra, strict=True))
        for k, part in enumerate(parts):
            if not part:
                if k not in keep:
                    b.add(Stm((stm.pat[k],), ir.Alias(arrays[k])))
                continue
            now = arrays[k]
            for index, value in part:
                now = self.added(b, now, index, value)
            b.add(Stm((stm.pat[k],), ir.Alias(now)))
        return b.stms

    def added(self, b: Builder, array: Atom, index: ir.Atoms, value: Atom) -> Atom:
        """The array with `value` added at a place, if that is inside it."""
        if not index:
            return b.let(ir.Copy(value), "sum") if WAS_ZERO(self.zeros(array)) else b.plus(array, value)

        def there(c: Builder) -> list[Atom]:
            return [c.let(ir.Update(array, index, c.plus(c.at(array, *index), value)), "sum")]

        ok = in_range(b, index, shape_of(array.type))
        assert ok is not None
        return b.emit(ir.If(ok, b.body(there), Lambda((), (), (array,))), "sum", types=[array.type])[0]

    def zeros(self, a: Atom) -> bool:
        d = self.defs.get(a) if type(a) is Var else None
        while type(d) is ir.Replicate:
            if type(d.value) is Const:
                return d.value is zero(d.value.type)
            d = self.defs.get(d.value) if type(d.value) is Var else None
        return False


def _acc_arguments(e: ir.Map) -> list[int]:
    """The positions of the accumulators among the arrays; the map returns them first, in this order."""
    return [k for k, a in enumerate(e.arrays) if type(a.type) is AccType]


def _array_of(e: ir.Map, element: Atom) -> Atom | None:
    """The array of whose elements this is one."""
    return next((a for a, p in zip(e.arrays, e.lam.params, strict=True) if p is element), None)


def _same_size(a: Atom, b: Atom) -> bool:
    return a is b or type(a) is Const and type(b) is Const and a.value == b.value


def _is_read(e: ir.Map, row: Type) -> bool:
    """Whether an element of an array that the map reads is at least as large as `row`, as far as can be seen."""
    want = shape_of(row)
    for p in e.lam.params:
        have = shape_of(p.type)
        tail = have[len(have) - len(want) :] if len(have) >= len(want) else ()
        if type(p.type) is not AccType and tail and all(map(_same_size, tail, want)):
            return True
    return False


def accs(program: Program, stats: Stats | None = None, report: list[str] | None = None) -> Program:
    """The program with accumulators removed where their places are known; `report` gets a line for each."""
    funs: dict[str, Fun] = {}
    for name, f in program.funs.items():
        notes = Report(stats, report)
        if report is not None:
            notes.trace(f.body)
        body = _Accs(notes).lam(f.body)
        if report is not None:
            notes.explain()
        same = body is f.body
        funs[name] = f if same else Fun(f.name, body, f.num_sizes, f.ret, f.entry, f.attrs, f.span)
    if all(funs[n] is f for n, f in program.funs.items()):
        return program
    return Program(funs, program.name)


__all__ = ["accs"]
