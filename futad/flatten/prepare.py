"""Core IR made fit for devices.

On one thread an accumulator updated in place is as good as a sum or better; on a device its updates contend, and what
is added to it is out of reach of fusion.  So where all of an accumulator's updates are known:

    map (\\x -> map (\\v i -> acc[i] += v) x (iota d)) xs       -->   acc += map sum (transpose xs)
    map (\\a b -> acc += matmul (transpose a) b) as bs           -->   acc += matmul (transpose (flat as)) (flat bs)

and a product to which a cheap nest of maps is added gives that back, for its consumers to compute:

    matmul a b plus (map (map f) x)                             -->   map2 (map2 (+)) (map (map f) x) (matmul a b)

Arrays of few rows that are written row by row become literals, and maps over them are unrolled, so that all rows are
made by one nest:

    let g = a with [0] = x with [1] = y in map2 f g h           -->   [f x h[0], f y h[1]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from futad.core import ir
from futad.core.alias import Aliases, aliases, overwritten
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.types import I64, AccType, ArrayType, Atom, Const, Prim, Type, Var, elem_of, row_type, shape_of, zero
from futad.flatten.late import is_light
from futad.flatten.perfect import by_columns
from futad.legality import Legality
from futad.optimise.addto import sum_of
from futad.rewrite.dce import effects
from futad.rewrite.ranges import is_index
from futad.rewrite.strategy import with_lambdas

LEGAL = Legality("prepare", "accumulators become sums and products, arrays of few rows literals, for devices")
WHOLE_ROWS = LEGAL.condition("rows written whole", "the rest of a row is what was there before")
ALL_ROWS = LEGAL.condition("all rows written", "a row that nothing writes is what was there before")
UNCONSUMED = LEGAL.condition("nothing overwritten between", "what a map or row is made of has changed where it is used")
IN_ORDER = LEGAL.condition("places in order", "the sums go to other places")
AS_MANY = LEGAL.condition("as many places", "there are places without a sum, or sums without a place")
FROM_ZERO = LEGAL.condition("sum from zero", "what was in the array is lost")
NO_EFFECTS = LEGAL.condition("nest asserts nothing", "assertions of the nest are lost with it")
STARTS_AT_ZERO = LEGAL.condition("accumulator from zero", "what the accumulator started from is lost")

FEW = 8  # rows of an array that are worth being done one by one, and statements for each


def loosened(lam: Lambda) -> Lambda:
    """The scope and those in it: products give back what is added to them, accumulators start from what is, folds of
    few rows are maps of folds."""
    return by_columns(_loosened(lam, aliases(lam)))


def sums(lam: Lambda) -> Lambda:
    """The scope and those in it, with accumulators whose contributions are sums or products as these."""
    return _Sums().scope(lam)


def _loosened(lam: Lambda, alias: Aliases) -> Lambda:
    """The scope and those in it: products give back what is added to them, accumulators start from what is."""
    stms = [ir.map_scopes(s, partial(_loosened, alias=alias)) for s in lam.stms]
    out = _started(_given_back(stms, lam.result, alias), lam.result)
    out = _rows_added(out, lam.result, alias)
    out = [x for s in _unrolled(_as_literals(out, lam.result, alias), alias) for x in reshaped(s)]
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


@dataclass(slots=True)
class _Nest:
    """A nest of maps with an accumulator's one update inside: the maps, which of their arrays it is at each level, and
    the update."""

    maps: list[ir.Map]
    args: list[int]
    update: Stm


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
                nest = _nest_of(s, acc, e.lam.result[k])
                if nest is not None and not any(acc in ir.stm_free(x) for x in e.lam.stms[at + 1 :]):
                    b = Builder()
                    b.extend(e.lam.stms[:at])
                    total = self.sums(b, nest, acc) or self.product(b, nest, acc)
                    if total is not None:
                        return self.without(stm, e, k, at, nest, b.stms[at:], total)
                break
        return [stm]

    def without(
        self, stm: Stm, e: ir.WithAcc, k: int, at: int, nest: _Nest, made: Sequence[Stm], total: Var
    ) -> list[Stm]:
        """The statement without accumulator k, whose contributions `made` adds up to `total`."""
        s = e.lam.stms[at]
        rest = _remove(s, nest.maps[0], nest.args)
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

    def sums(self, b: Builder, nest: _Nest, acc: Var) -> Var | None:
        """Sums over the outer maps of an array that the nest runs through: [s1]..[i1].. to acc[i1].. ."""
        u = nest.update.exp
        assert isinstance(u, ir.UpdateAcc)
        levels = {p: q for q, m in enumerate(nest.maps) for p, a in zip(m.lam.params, m.arrays, strict=True)
                  if isinstance(a, Var) and is_index(self.defs.get(a))}  # fmt: skip
        places = [levels.get(i, -1) if isinstance(i, Var) else -1 for i in u.index]
        summed = len(nest.maps) - len(places)
        if not u.index or summed < 1 or not isinstance(u.value, Var):
            return None
        if not IN_ORDER(places == list(range(summed, len(nest.maps)))):
            return None
        sizes = tuple([m.width for m in nest.maps])
        if not AS_MANY(shape_of(acc.type) == sizes[summed:]):
            return None
        local = {v: s.exp for m in nest.maps for s in m.lam.stms for v in s.pat}
        v, negate = u.value, False
        op = local.get(v)
        if isinstance(op, ir.Op) and op.op == "neg" and isinstance(op.args[0], Var):
            v, negate = op.args[0], True
        for m in reversed(nest.maps):
            if v not in m.lam.params:
                return None
            a = m.arrays[m.lam.params.index(v)]
            if not isinstance(a, Var):
                return None
            v = a
        if shape_of(v.type) != sizes:
            return None
        flat: Var = v
        if len(sizes) != 2:
            rows, columns = b.size_mul(sizes[:summed]), b.size_mul(sizes[summed:])
            flat = b.let(ir.Reshape(v, (rows, columns)), "flat")
        columns_ = b.let(ir.Rearrange(flat, (1, 0)), "columns")

        def total(inner: Builder, column: Atom) -> Sequence[Atom]:
            t = elem_of(column.type)
            width = shape_of(column.type)[0]
            plus = inner.lambda_([("x", t), ("y", t)], lambda c, x, y: [c.op("add", x, y)])
            if not negate:
                return inner.emit(ir.Reduce(width, (column,), plus, (zero(t),), True), "total")
            minus = inner.lambda_([("x", t)], lambda c, x: [c.op("neg", x)])
            return inner.emit(ir.Fused(width, (column,), minus, (), (ir.Fold(plus, (zero(t),), True),)), "total")

        (out,) = b.map_(total, columns_, hint="totals")
        return out if len(sizes) - summed == 1 else b.let(ir.Reshape(out, sizes[summed:]), "totals")

    def product(self, b: Builder, nest: _Nest, acc: Var) -> Var | None:
        """A sum of products over a map: one product with a longer sum."""
        u = nest.update.exp
        assert isinstance(u, ir.UpdateAcc)
        if len(nest.maps) != 1 or u.index:
            return None
        (m,) = nest.maps
        local = {v: s.exp for s in m.lam.stms for v in s.pat}
        value: Atom = u.value
        while isinstance(value, Var) and isinstance(local.get(value), ir.Reshape):
            value = local[value].array  # type: ignore[attr-defined]
        p = local.get(value) if isinstance(value, Var) else None
        if not isinstance(p, ir.MatMul) or p.plus:
            return None
        left = local.get(p.a) if isinstance(p.a, Var) else None
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

    def flat(self, b: Builder, m: ir.Map, local: dict[Var, ir.Exp], x: Atom, total: Atom) -> Var | None:
        """The matrices that `x` is in all turns, one below the other; None if they do not lie so."""
        assert isinstance(x, Var)
        rows, columns = shape_of(x.type)
        bound = {*m.lam.params, *local}
        while isinstance(local.get(x), ir.Reshape):  # type: ignore[arg-type]
            x = local[x].array  # type: ignore[index, attr-defined]
        if x not in m.lam.params or rows in bound or columns in bound:
            return None
        a = m.arrays[m.lam.params.index(x)]
        return b.let(ir.Reshape(a, (total, columns)), "flat") if isinstance(a, Var) else None


def _nest_of(stm: Stm, acc: Var, result: Atom) -> _Nest | None:
    """The nest of maps that a statement is if it updates an accumulator once, unconditionally."""
    maps: list[ir.Map] = []
    args: list[int] = []
    while True:
        e = stm.exp
        if isinstance(e, ir.UpdateAcc):
            return _Nest(maps, args, stm) if maps and stm.pat[0] is result else None
        if not isinstance(e, ir.Map) or list(e.arrays).count(acc) != 1:
            return None
        arg = e.arrays.index(acc)
        out = [i for i, a in enumerate(e.arrays) if isinstance(a.type, AccType)].index(arg)
        if stm.pat[out] is not result:
            return None
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


# --- arrays of few rows -----------------------------------------------------------------------------------------------


def _unconsumed(reads: Sequence[Atom], stms: list[Stm], first: int, last: int, alias: Aliases) -> bool:
    """Whether what statement `first` reads can be read by statement `last` instead."""
    return UNCONSUMED(not overwritten(reads, stms[first + 1 : last], alias))


def _as_literals(stms: list[Stm], result: Sequence[Atom], alias: Aliases) -> list[Stm]:
    """Arrays of a few rows that are written one after another, as literals."""
    uses: dict[Var, int] = {}
    for s in stms:
        for v in ir.stm_free(s):
            uses[v] = uses.get(v, 0) + 1
    for a in result:
        if isinstance(a, Var):
            uses[a] = uses.get(a, 0) + 1
    made = {s.pat[0]: at for at, s in enumerate(stms) if len(s.pat) == 1}
    out: list[Stm] = []
    for at, s in enumerate(stms):
        rows = _rows_of(stms, at, made, uses, alias)
        if rows is None:
            out.append(s)
        else:
            LEGAL.fired()
            out.append(Stm(s.pat, ir.ArrayLit(rows, row_type(s.pat[0].type)), s.attrs))
    return out


def _rows_of(
    stms: list[Stm], last: int, made: dict[Var, int], uses: dict[Var, int], alias: Aliases
) -> tuple[Atom, ...] | None:
    """The rows of an array that updates have written all of, each with an array; the last of them at `last`."""
    e = stms[last].exp
    if not isinstance(e, ir.Update) or not isinstance(e.array, Var) or not isinstance(e.value.type, ArrayType):
        return None
    rows: dict[int, Atom] = {}
    x: ir.Exp | None = e
    at = last
    while isinstance(x, ir.Update):
        i = x.index[0]
        whole = len(x.index) == 1
        array = x.array
        if not isinstance(array, Var) or not isinstance(i, Const) or not WHOLE_ROWS(whole):
            return None
        if uses.get(array, 0) != 1:
            return None
        if shape_of(array.type)[1:] != shape_of(x.value.type):
            return None
        if int(i.value) not in rows and not _unconsumed([x.value], stms, at, last, alias):
            return None
        rows.setdefault(int(i.value), x.value)
        width = shape_of(array.type)[0]
        at = made.get(array, -1)
        x = stms[at].exp if at >= 0 else None
    if not isinstance(x, (ir.Replicate, ir.Scratch)) or not isinstance(width, Const) or width.value > FEW:
        return None
    if not ALL_ROWS(sorted(rows) == list(range(width.value))):
        return None
    return tuple([rows[k] for k in range(width.value)])


def _unrolled(stms: list[Stm], alias: Aliases) -> list[Stm]:
    """Maps over literals of rows, done for each row."""
    literals = {s.pat[0]: s.exp for s in stms if isinstance(s.exp, ir.ArrayLit) and isinstance(s.exp.type, ArrayType)}
    places = {v: at for at, s in enumerate(stms) for v in s.pat if v in literals}
    out: list[Stm] = []
    for at, s in enumerate(stms):
        e = s.exp
        fits = isinstance(e, ir.Map) and any(a in literals for a in e.arrays) and len(e.lam.stms) <= FEW
        if fits:
            known = [a for a in e.arrays if a in literals]  # type: ignore[attr-defined]
            fits = all(_unconsumed(literals[a].elems, stms, places[a], at, alias) for a in known)
        if not fits or any(isinstance(a.type, AccType) or isinstance(row_type(a.type), Prim) for a in e.arrays):  # type: ignore[attr-defined]
            out.append(s)
            continue
        assert isinstance(e, ir.Map) and isinstance(e.width, Const)
        b = Builder()
        rows: list[ir.Atoms] = []
        for i in range(e.width.value):
            args = [
                literals[a].elems[i] if a in literals else b.at(a, Const(I64, i))
                for a in e.arrays
            ]
            rows.append(b.inline(e.lam, args))
        out += b.stms
        for k, v in enumerate(s.pat):
            out.append(Stm((v,), ir.ArrayLit(tuple([r[k] for r in rows]), row_type(v.type)), s.attrs))
    return out


def reshaped(s: Stm) -> list[Stm]:
    """A map with its rows under another shape: the whole array is reshaped outside, and the nest stays perfect."""
    e = s.exp
    if not isinstance(e, ir.Map):
        return [s]
    bound = {*e.lam.params, *(v for x in e.lam.stms for v in x.pat)}
    rows = {p: a for p, a in zip(e.lam.params, e.arrays, strict=True) if not isinstance(a.type, AccType)}
    b = Builder()
    params, arrays, stms = list(e.lam.params), list(e.arrays), list[Stm]()
    for x in e.lam.stms:
        r = x.exp
        if not isinstance(r, ir.Reshape) or r.array not in rows or set(r.shape) & bound:
            stms.append(x)
            continue
        arrays.append(b.let(ir.Reshape(rows[r.array], (e.width, *r.shape)), "rows"))
        params.append(x.pat[0])
    if not b.stms:
        return [s]
    lam = Lambda(tuple(params), tuple(stms), e.lam.result)
    return [*b.stms, Stm(s.pat, ir.Map(e.width, tuple(arrays), lam), s.attrs)]


def _rows_added(stms: list[Stm], result: Sequence[Atom], alias: Aliases) -> list[Stm]:
    """Rows that a map makes only to be added to an accumulator are added element by element."""
    uses: dict[Var, int] = {}
    for s in stms:
        for v in ir.stm_free(s):
            uses[v] = uses.get(v, 0) + 1
    made = {s.pat[0]: at for at, s in enumerate(stms) if len(s.pat) == 1 and isinstance(s.exp, ir.Map | ir.Replicate)}
    gone: set[int] = set()
    out: list[Stm] = []
    for at, s in enumerate(stms):
        e = s.exp
        before = made.get(e.value, -1) if isinstance(e, ir.UpdateAcc) else -1  # type: ignore[arg-type]
        m = stms[before] if before >= 0 else None
        if m is None or uses.get(m.pat[0], 0) != 1 or m.pat[0] in result or not _of_scalars(m.pat[0].type):
            out.append(s)
            continue
        if not _unconsumed(list(ir.stm_free(m)), stms, before, at, alias):
            out.append(s)
            continue
        x = m.exp
        if isinstance(x, ir.Replicate):
            x = ir.Map(x.shape[0], (), Lambda((), (), (x.value,)))
        assert isinstance(e, ir.UpdateAcc) and isinstance(x, ir.Map)
        lam = x.lam
        if any(isinstance(a.type, AccType) for a in x.arrays):
            out.append(s)
            continue
        LEGAL.fired()
        gone.add(id(m))
        acc, i, new, places = (Var("acc", e.acc.type), Var("i", I64), Var("acc", e.acc.type),
                               Var("is", ArrayType(I64, (x.width,))))  # fmt: skip
        update = Stm((new,), ir.UpdateAcc(acc, (*e.index, i), lam.result[0]))
        body = ir.rename(Lambda((acc, i, *lam.params), (*lam.stms, update), (new,)))
        out.append(Stm((places,), ir.Iota(x.width, Const(I64, 0), Const(I64, 1))))
        out.append(Stm(s.pat, ir.Map(x.width, (e.acc, places, *x.arrays), body), s.attrs))
    return [s for s in out if id(s) not in gone]


def _of_scalars(t: Type) -> bool:
    return isinstance(t, ArrayType) and t.rank == 1


# --- products that give back what is added to them --------------------------------------------------------------------


def _given_back(stms: list[Stm], result: Sequence[Atom], alias: Aliases) -> list[Stm]:
    """Products to which a cheap nest is added that nothing else uses."""
    uses: dict[Var, int] = {}
    for s in stms:
        for v in ir.stm_free(s):
            uses[v] = uses.get(v, 0) + 1
    final = set(result)
    made = {s.pat[0]: at for at, s in enumerate(stms) if len(s.pat) == 1}
    out: list[Stm] = []
    for at, s in enumerate(stms):
        e = s.exp
        before = made.get(e.plus[0], -1) if isinstance(e, ir.MatMul) and e.plus else -1  # type: ignore[arg-type]
        nest = stms[before] if before >= 0 else None
        if nest is None or uses.get(nest.pat[0], 0) != 1 or nest.pat[0] in final or not is_light(nest):
            out.append(s)
            continue
        if isinstance(s.pat[0].type, Prim) or s.pat[0] in final:
            out.append(s)
            continue
        if not _unconsumed(list(ir.stm_free(nest)), stms, before, at, alias):
            out.append(s)
            continue
        LEGAL.fired()
        assert isinstance(e, ir.MatMul) and isinstance(nest.exp, ir.Map)
        b = Builder()
        product = b.let(ir.MatMul(e.a, e.b, ()), "product")
        out += [*b.stms, Stm(s.pat, _plus(nest.exp, product), s.attrs)]
    return out


def _plus(e: ir.Map, term: Atom) -> ir.Map:
    """A nest of maps with an array added to its result."""
    p = Var("x", row_type(term.type))
    stms = list(e.lam.stms)
    if isinstance(p.type, Prim):
        total = Var("sum", p.type)
        stms.append(Stm((total,), ir.Op("add", (e.lam.result[0], p))))
    else:
        inner = stms[-1]
        assert isinstance(inner.exp, ir.Map)
        total = Var("sum", inner.pat[0].type)
        stms[-1] = Stm((total,), _plus(inner.exp, p), inner.attrs)
    return ir.Map(e.width, (*e.arrays, term), ir.rename(Lambda((*e.lam.params, p), tuple(stms), (total,))))


def _started(stms: list[Stm], result: Sequence[Atom]) -> list[Stm]:
    """Accumulators that start from zeros and are added to an array afterwards start from that array."""
    uses: dict[Var, int] = {}
    for s in stms:
        for v in ir.stm_free(s):
            uses[v] = uses.get(v, 0) + 1
    final = set(result)
    made = {v: i for i, s in enumerate(stms) for v in s.pat}
    out, gone = list(stms), set[int]()
    for i, s in enumerate(stms):
        terms = sum_of(s)
        if terms is None:
            continue
        for w, a in (terms, terms[::-1]):
            at = made.get(w, -1) if isinstance(w, Var) else -1
            e = out[at].exp if at >= 0 else None
            if not isinstance(e, ir.WithAcc) or w in final or uses.get(w, 0) != 1:  # type: ignore[arg-type]
                continue
            k = out[at].pat.index(w)
            zeros = stms[made[e.arrays[k]]].exp if k < len(e.arrays) and e.arrays[k] in made else None  # type: ignore[index]
            if not isinstance(zeros, ir.Replicate) or not isinstance(zeros.value, Const):
                continue
            if not STARTS_AT_ZERO(zeros.value.value == 0):
                continue
            if not isinstance(a, Var) or made.get(a, at) >= at or a in final or uses.get(a, 0) != 1:
                continue
            if not isinstance(stms[made[a]].exp, (ir.Mapping, ir.Update, ir.Replicate)):
                continue
            LEGAL.fired()
            arrays = (*e.arrays[:k], a, *e.arrays[k + 1 :])
            pat = (*out[at].pat[:k], s.pat[0], *out[at].pat[k + 1 :])
            out[at] = Stm(pat, ir.WithAcc(arrays, e.op, e.lam), out[at].attrs)
            gone.add(i)
            break
    return [s for i, s in enumerate(out) if i not in gone]


__all__ = ["loosened", "reshaped", "sums"]
