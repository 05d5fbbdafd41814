"""Core IR made fit for devices.

A product to which a cheap nest of maps is added gives that back, for its consumers to compute:

    matmul a b plus (map (map f) x)                             -->   map2 (map2 (+)) (map (map f) x) (matmul a b)

Arrays of few rows that are written row by row become literals, and maps over them are unrolled, so that all rows are
made by one nest:

    let g = a with [0] = x with [1] = y in map2 f g h           -->   [f x h[0], f y h[1]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from futad.core import ir
from futad.core.alias import Aliases, aliases, overwritten
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.scope import uses_in
from futad.core.types import (
    I64,
    AccType,
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
from futad.flatten.fused_products import light_nest
from futad.flatten.perfect_nests import by_columns
from futad.legality import Legality
from futad.optimise.addto import sum_of

LEGAL = Legality("prepare", "arrays of few rows become literals, sums start from what they are added to, for devices")
WHOLE_ROWS = LEGAL.condition("rows written whole", "the rest of a row is what was there before")
ALL_ROWS = LEGAL.condition("all rows written", "a row that nothing writes is what was there before")
UNCONSUMED = LEGAL.condition("nothing overwritten between", "what a map or row is made of has changed where it is used")
STARTS_AT_ZERO = LEGAL.condition("accumulator from zero", "what the accumulator started from is lost")

FEW = 8  # rows of an array that are worth being done one by one, and statements for each


def loosened(lam: Lambda) -> Lambda:
    """The scope and those in it: products give back what is added to them, accumulators start from what is, folds of
    few rows are maps of folds."""
    return by_columns(_loosened(lam, aliases(lam)))


def _loosened(lam: Lambda, alias: Aliases) -> Lambda:
    """The scope and those in it: products give back what is added to them, accumulators start from what is."""
    stms = [ir.map_scopes(s, partial(_loosened, alias=alias)) for s in lam.stms]
    out = _started(_given_back(stms, lam.result, alias), lam.result)
    out = _rows_added(out, lam.result, alias)
    out = [x for s in _unrolled(_as_literals(out, lam.result, alias), alias) for x in reshaped(s)]
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


# --- arrays of few rows -----------------------------------------------------------------------------------------------


def _unconsumed(reads: Sequence[Atom], stms: list[Stm], first: int, last: int, alias: Aliases) -> bool:
    """Whether what statement `first` reads can be read by statement `last` instead."""
    return UNCONSUMED(not overwritten(reads, stms[first + 1 : last], alias))


def _as_literals(stms: list[Stm], result: Sequence[Atom], alias: Aliases) -> list[Stm]:
    """Arrays of a few rows that are written one after another, as literals."""
    uses = uses_in(stms, result)
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
    stms: list[Stm], last: int, made: dict[Var, int], uses: Mapping[Atom, int], alias: Aliases
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
    literals: dict[Atom, ir.ArrayLit] = {
        s.pat[0]: s.exp for s in stms if isinstance(s.exp, ir.ArrayLit) and isinstance(s.exp.type, ArrayType)
    }
    places: dict[Atom, int] = {v: at for at, s in enumerate(stms) for v in s.pat if v in literals}
    out: list[Stm] = []
    for at, s in enumerate(stms):
        e = s.exp
        known = [a for a in e.arrays if a in literals] if isinstance(e, ir.Map) and len(e.lam.stms) <= FEW else []
        if (
            not isinstance(e, ir.Map) or not known
            or any(isinstance(a.type, AccType) or isinstance(row_type(a.type), Prim) for a in e.arrays)
            or not all(_unconsumed(literals[a].elems, stms, places[a], at, alias) for a in known)
        ):  # fmt: skip
            out.append(s)
            continue
        assert isinstance(e.width, Const)
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
    """A map with its rows, or those that it makes, under another shape: the whole array is reshaped outside, and the
    nest stays perfect."""
    e = s.exp
    if not isinstance(e, ir.Map):
        return [s]
    if (made := _made_in_shape(s, e)) is not None:
        return [*reshaped(made[0]), *made[1:]]
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


def _made_in_shape(s: Stm, e: ir.Map) -> list[Stm] | None:
    """A map that reshapes rows which it makes, as one that does not; None if it is none."""
    bound = {*e.lam.params, *(v for x in e.lam.stms for v in x.pat)}
    made = {x.pat[0]: x.exp for x in e.lam.stms if isinstance(x.exp, ir.Reshape)}
    pat, result, after = list(s.pat), list(e.lam.result), list[Stm]()
    for k, (v, a) in enumerate(zip(s.pat, e.lam.result, strict=True)):
        r = made.get(a) if isinstance(a, Var) else None
        if r is None or not isinstance(r.array, Var) or {*r.shape, *shape_of(r.array.type)} & bound:
            continue
        pat[k], result[k] = Var(v.name, array_of(r.array.type, e.width)), r.array
        after.append(Stm((v,), ir.Reshape(pat[k], (e.width, *r.shape))))
    if not after:
        return None
    used = {v for x in e.lam.stms for v in ir.stm_free(x)} | {*result}
    stms = tuple([x for x in e.lam.stms if not isinstance(x.exp, ir.Reshape) or x.pat[0] in used])
    lam = Lambda(e.lam.params, stms, tuple(result))
    return [Stm(tuple(pat), ir.Map(e.width, e.arrays, lam), s.attrs), *after]


def _rows_added(stms: list[Stm], result: Sequence[Atom], alias: Aliases) -> list[Stm]:
    """Rows that a map makes only to be added to accumulators are added element by element."""
    users: dict[Atom, list[int]] = {}
    for at, s in enumerate(stms):
        for v in ir.stm_free(s):
            users.setdefault(v, []).append(at)
    instead: dict[int, list[Stm]] = {}
    for first, m in enumerate(stms):
        added = _adders(stms, first, users, result)
        if not added or not _unconsumed(list(ir.stm_free(m)), stms, first, max(added), alias):
            continue
        LEGAL.fired()
        instead |= {at: [] for at in (first, *added)}
        places = {a: at for at, a in enumerate(result)}  # accumulators stay in the scope's order
        pairs = zip([stms[at] for at in added], _rows_made(m).lam.result, strict=True)
        ordered = sorted(pairs, key=lambda pair: places.get(pair[0].pat[0], len(places)))
        instead[max(added)] = _adding(_rows_made(m), ordered)
    return [x for at, s in enumerate(stms) for x in instead.get(at, [s])]


def _adders(stms: list[Stm], first: int, users: Mapping[Atom, list[int]], result: Sequence[Atom]) -> list[int]:
    """Where the rows that a statement makes are added, each once, to accumulators that all are there where the last one
    is; nowhere if anything else is done with a row."""
    m = stms[first]
    if not isinstance(m.exp, ir.Map | ir.Replicate) or not all(_of_scalars(v.type) for v in m.pat):
        return []
    if any(isinstance(a.type, AccType) for a in m.exp.operands()):
        return []
    if any(v in result or len(users.get(v, ())) != 1 for v in m.pat):
        return []
    added = [users[v][0] for v in m.pat]
    for at, v in zip(added, m.pat, strict=True):
        e = stms[at].exp
        if not isinstance(e, ir.UpdateAcc) or e.value is not v:
            return []
        if any(user <= max(added, default=0) for user in users.get(stms[at].pat[0], ())):
            return []  # the accumulator is wanted before
    return added


def _rows_made(m: Stm) -> ir.Map:
    """The map that makes rows."""
    x = m.exp
    if isinstance(x, ir.Replicate):
        return ir.Map(x.shape[0], (), Lambda((), (), (x.value,)))
    assert isinstance(x, ir.Map)
    return x


def _adding(x: ir.Map, updates: Sequence[tuple[Stm, Atom]]) -> list[Stm]:
    """A map that adds the elements that `x` makes, each given with how its row is added."""
    i, places = Var("i", I64), Var("is", ArrayType(I64, (x.width,)))
    accs: list[Var] = []
    ends: list[Var] = []
    given: list[Atom] = []
    body = list(x.lam.stms)
    for u, r in updates:
        e = u.exp
        assert isinstance(e, ir.UpdateAcc)
        given.append(e.acc)
        accs.append(Var("acc", e.acc.type))
        ends.append(Var("acc", e.acc.type))
        body.append(Stm((ends[-1],), ir.UpdateAcc(accs[-1], (*e.index, i), r)))
    lam = ir.rename(Lambda((*accs, i, *x.lam.params), tuple(body), tuple(ends)))
    whole = ir.Map(x.width, (*given, places, *x.arrays), lam)
    pat = tuple([u.pat[0] for u, _ in updates])
    return [Stm((places,), ir.Iota(x.width, Const(I64, 0), Const(I64, 1))), Stm(pat, whole)]


def _of_scalars(t: Type) -> bool:
    return isinstance(t, ArrayType) and t.rank == 1


# --- products that give back what is added to them --------------------------------------------------------------------


def _given_back(stms: list[Stm], result: Sequence[Atom], alias: Aliases) -> list[Stm]:
    """Products to which a cheap nest is added that nothing else uses."""
    uses = uses_in(stms)
    final = set(result)
    made: dict[Atom, int] = {s.pat[0]: at for at, s in enumerate(stms) if len(s.pat) == 1}
    out: list[Stm] = []
    for at, s in enumerate(stms):
        e = s.exp
        before = made.get(e.plus[0], -1) if isinstance(e, ir.MatMul) and e.plus else -1
        nest = stms[before] if before >= 0 else None
        maps = light_nest(nest) if nest is not None else None
        if nest is None or maps is None or uses.get(nest.pat[0], 0) != 1 or nest.pat[0] in final:
            out.append(s)
            continue
        if isinstance(s.pat[0].type, Prim) or s.pat[0] in final:
            out.append(s)
            continue
        if not _unconsumed(list(ir.stm_free(nest)), stms, before, at, alias):
            out.append(s)
            continue
        LEGAL.fired()
        assert isinstance(e, ir.MatMul)
        b = Builder()
        product = b.let(ir.MatMul(e.a, e.b, ()), "product")
        body, x = maps.body, Var("x", elem_of(product.type))
        total = Var("sum", x.type)
        add = Stm((total,), ir.Op("add", (body.result[0], x)))
        leaf = Lambda((*body.params, x), (*body.stms, add), (total,))
        out += [*b.stms, maps.around(nest, leaf, s.pat, [product])]
    return out


def _started(stms: list[Stm], result: Sequence[Atom]) -> list[Stm]:
    """Accumulators that start from zeros and are added to an array afterwards start from that array."""
    uses = uses_in(stms)
    final = set(result)
    made: dict[Atom, int] = {v: i for i, s in enumerate(stms) for v in s.pat}
    out, gone = list(stms), set[int]()
    for i, s in enumerate(stms):
        terms = sum_of(s)
        if terms is None:
            continue
        for w, a in (terms, terms[::-1]):
            at = made.get(w, -1) if isinstance(w, Var) else -1
            e = out[at].exp if at >= 0 else None
            if not isinstance(e, ir.WithAcc) or w in final or uses.get(w, 0) != 1:
                continue
            k = out[at].pat.index(w)
            zeros = stms[made[e.arrays[k]]].exp if k < len(e.arrays) and e.arrays[k] in made else None
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


__all__ = ["loosened", "reshaped"]
