"""Few long rows that are folded or sorted, by several blocks a row.

A map of reductions

    map (\\xs -> g (reduce op ne (map f xs))) xss

has each row cut into c parts of k elements (the last ones may have fewer, or none), reduces the parts, then theirs:

    let part xs j = reduce op ne (map (\\i -> if j * k + i < m then f xs[j * k + i] else ne) (iota k))
    let parts = map (\\xs -> map (part xs) (iota c)) xss
    in map (\\xs ps -> g (reduce op ne ps)) xss parts

Rows that are columns of a matrix, so that each has its elements far apart and beside those of its neighbours, are not
parted each by itself but all together, for neighbouring threads to go along neighbouring columns:

    let parts = map (\\j -> map (\\xs -> part xs j) xss) (iota c)
    in map (\\xs ps -> g (reduce op ne ps)) xss (transpose parts)

A map of scans is one scan of all rows, which starts anew where a row does (Blelloch, "Prefix sums and their
applications", 1990).  A map of sorts is one sort by row and key.  What comes before the fold or sort in a row is cheap,
and done again for each part or element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.ad.sort_by_bin import segmented
from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.nest import Nest
from futad.core.types import FALSE, I64, ONE, ZERO, Atom, Prim, Var, array_of, shape_of
from futad.flatten.fission import CHEAP
from futad.legality import Legality
from futad.rewrite.dce import effects
from futad.rewrite.strategy import with_lambdas


@dataclass(slots=True)
class Rows:
    """A nest of maps, from the outermost on, whose innermost body folds: its statements before the fold, the fold
    (`exp` is what that statement does), and those after it."""

    stm: Stm
    nest: Nest
    maps: list[ir.Mapping]
    before: tuple[Stm, ...]
    fold: Stm
    exp: ir.Screma
    after: tuple[Stm, ...]

    @property
    def width(self) -> Atom:
        """The length of a row."""
        return self.exp.width

    @property
    def scans(self) -> bool:
        """Whether rows are scanned."""
        return bool(self.exp.scans)


IN_PARTS = Legality("rows-in-parts", "folds of few long rows are cut into parts, scans of them are one scan")
ONE_SCAN = IN_PARTS.condition("one scan for all rows", "each row has an operator, or a neutral element, of its own")
ONE_SORT = Legality(
    "rows-as-one-sort",
    "rows are sorted as one array, with the row as the first part of the key",
    worth="reverse mode of 8 rows of 100,000 elements by 300 bins, multiplied as complex numbers, on a device: 4.8 "
    "thousand steps one after another in place of 1.7 million, traffic 496 MB in place of 852 (futad dev --cost)",
)
ONE_BOUND = ONE_SORT.condition("one bound for all rows", "keys of one row would be among those of others")
ASSERTS_NOT = ONE_SORT.condition("rows assert nothing", "rows without keys are not computed, and assert nothing")


def rows_of(stm: Stm, nest: Nest) -> Rows | None:
    """A nest of maps whose rows can be cut up; None for any other, and if the statement is no map."""
    if not isinstance(stm.exp, ir.Map) or not nest.in_order:
        return None
    folds = [s for s in nest.body.stms if isinstance(s.exp, ir.Soac)]
    fold = folds[0].exp if len(folds) == 1 else None
    if not isinstance(fold, ir.Screma) or not fold.folds:
        return None
    stms = nest.body.stms
    at = stms.index(folds[0])
    found = Rows(stm, nest, [stm.exp, *nest.maps], stms[:at], folds[0], fold, stms[at + 1 :])
    if found.width in nest.bound or not all(isinstance(s.exp, CHEAP) for s in (*nest.before, *found.before)):
        return None
    if not _simple(found, nest.bound):
        return None
    IN_PARTS.fired()
    return found


def _simple(r: Rows, bound: set[Var]) -> bool:
    """Whether there are either reductions of scalars, or one scan of scalars, alike in all rows, that is the result.
    Only what follows may add to accumulators."""
    e = r.exp
    if not all(isinstance(a.type, Prim) for f in e.folds for a in f.neutral):
        return False
    if not r.scans:
        return len(r.fold.pat) == sum(map(len, e.folds))
    if len(e.folds) != 1 or len(r.fold.pat) != len(e.scans[0]) or r.after or r.nest.body.result != r.fold.pat:
        return False
    return ONE_SCAN(not bound & {*e.scans[0].neutral, *e.scans[0].lam.free()})


def _elements(b: Builder, r: Rows, i: Atom) -> Sequence[Atom]:
    """What is folded, of element i."""
    e = r.exp
    here = [b.at(a, i) for a in e.arrays]
    return b.inline(e.mapper, here) if e.mapper is not None else here


# --- reductions --------------------------------------------------------------------------------------------------


def in_parts(r: Rows, count: Var, size: Var, columns: bool = False) -> list[Stm]:
    """Rows reduced in `count` parts of `size` elements; if they are `columns`, neighbours in memory, part by part of
    all of them."""
    folds = r.exp.reduces
    flat = [a for f in folds for a in f.neutral]

    def part(b: Builder, j: Atom) -> Sequence[Atom]:
        start = b.op("mul", j, size)

        def element(c: Builder, k: Var) -> Sequence[Atom]:
            i = c.op("add", start, k)
            there = ir.If(c.op("lt", i, r.width), c.body(lambda d: _elements(d, r, i)), Lambda((), (), tuple(flat)))
            return c.emit(there, "x", types=[a.type for a in flat])

        lam = b.lambda_([("k", I64)], element)
        fold = ir.Fused(size, (b.let(ir.Iota(size, ZERO, ONE), "ks"),), lam, (), folds)
        return b.emit(fold, "part", types=[a.type for a in flat])

    b = Builder()
    js = b.let(ir.Iota(count, ZERO, ONE), "js")
    body = r.nest.body
    sizes = [m.width for m in r.maps]
    made = [Var("parts", array_of(a.type, *sizes, count)) for a in flat]
    if not columns:
        parts = b.map_(part, js, hint="parts")
        out = [r.nest.around(r.stm, Lambda(body.params, (*r.before, *b.stms), parts), made)]
    else:

        def nest(c: Builder, j: Var) -> Sequence[Atom]:
            d = Builder()
            found = tuple(part(d, j))
            of_all = [Var("parts", array_of(a.type, *sizes)) for a in flat]
            c.add(r.nest.around(r.stm, Lambda(body.params, (*r.before, *d.stms), found), of_all))
            return of_all

        whole = b.map_(nest, js, hint="parts")
        there = (*range(1, len(sizes) + 1), 0)
        out = [*b.stms, *[Stm((v,), ir.Rearrange(x, there)) for v, x in zip(made, whole, strict=True)]]

    rows = tuple([Var("parts", array_of(a.type, count)) for a in flat])
    again = ir.Fused(count, rows, _identity(flat), (), folds)
    stms = (*r.before, Stm(r.fold.pat, again), *r.after)
    return [*out, r.nest.around(r.stm, Lambda((*body.params, *rows), stms, body.result), r.stm.pat, made)]


def _identity(like: Sequence[Atom]) -> Lambda:
    params = tuple([Var("x", a.type) for a in like])
    return Lambda(params, (), params)


def _fresh(stm: Stm) -> Stm:
    """The statement with variables of its own inside."""
    return Stm(stm.pat, with_lambdas(stm.exp, [ir.rename(f) for f in stm.exp.lambdas()]), stm.attrs)


# --- scans -------------------------------------------------------------------------------------------------------


def as_one_scan(r: Rows) -> Lambda:
    """Rows scanned as one array; the results along one dimension."""
    (scan,) = r.exp.scans
    sizes = [*[m.width for m in r.maps], r.width]
    b = Builder()
    total = b.size_mul(sizes)

    def element(c: Builder, at: Var) -> Sequence[Atom]:
        index: list[Atom] = []
        rest: Atom = at
        for n in reversed(sizes[1:]):
            above = c.op("quot", rest, n)
            index.append(c.op("sub", rest, c.op("mul", above, n)))
            rest = above
        i, *inner = index
        for m, body, k in zip(r.maps, r.nest.lams, [rest, *reversed(inner)], strict=True):
            for p, a in zip(body.params, m.arrays, strict=True):
                c.add(Stm((p,), ir.At(a, (k,))))
            c.extend(r.before if body is r.nest.body else body.stms[:-1])
        return [c.op("eq", i, ZERO), *_elements(c, r, i)]

    lam = ir.rename(b.lambda_([("at", I64)], element))
    where = b.let(ir.Iota(total, ZERO, ONE), "is")
    fused = ir.Fused(total, (where,), lam, (ir.Fold(segmented(scan.lam), (FALSE, *scan.neutral)),), ())
    _, *flat = b.emit(fused, "scanned", types=[array_of(a.type, total) for a in lam.result])
    return Lambda((), tuple(b.stms), tuple(flat))


# --- sorts -------------------------------------------------------------------------------------------------------


def as_one_sort(stm: Stm) -> list[Stm] | None:
    """Rows sorted as one array, a row's keys after those of all rows before; None for anything but a map of sorts."""
    e = stm.exp
    last = e.lam.stms[-1] if isinstance(e, ir.Map) and e.lam.stms else None
    if last is None or not isinstance(last.exp, ir.ArgSort):
        return None
    assert isinstance(e, ir.Map)
    lam, keys, most = e.lam, last.exp.keys, last.exp.bound
    (n,) = shape_of(keys.type)
    inside = {*lam.params, *(v for s in lam.stms for v in s.pat)}
    if lam.result != last.pat or not all(isinstance(s.exp, CHEAP) for s in lam.stms[:-1]):
        return None
    if not ONE_BOUND(not {most, n} & inside) or not ASSERTS_NOT(not effects(lam.stms[:-1])):
        return None
    ONE_SORT.fired()
    b = Builder()
    total = b.size_mul((e.width, n))

    def key(c: Builder, at: Var) -> Sequence[Atom]:
        row = c.op("quot", at, n)
        for p, a in zip(lam.params, e.arrays, strict=True):
            c.add(Stm((p,), ir.At(a, (row,))))
        c.extend(lam.stms[:-1])
        here = c.at(keys, c.op("sub", at, c.op("mul", row, n)))
        return [c.op("add", c.op("mul", row, most), here)]

    (flat,) = b.map_(key, b.let(ir.Iota(total, ZERO, ONE), "is"), hint="keys")
    order = b.let(ir.ArgSort(flat, b.op("mul", e.width, most)), "order")

    def own(c: Builder, row: Var) -> Sequence[Atom]:
        start = c.op("mul", row, n)
        places = c.let(ir.Iota(n, ZERO, ONE), "js")
        return c.map_(lambda d, j: [d.op("sub", d.at(order, d.op("add", start, j)), start)], places)

    rows = b.lambda_([("row", I64)], own)
    b.add(Stm(stm.pat, ir.Map(e.width, (b.let(ir.Iota(e.width, ZERO, ONE), "rows"),), rows), stm.attrs))
    return [_fresh(s) for s in b.stms]
