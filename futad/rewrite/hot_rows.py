"""Rows that are zero but at one place are made where they are read.

    h = map (\\p -> let k = .. let v = .. in map (\\j -> if j == k then v else 0) (iota m)) ps
    map (\\row x -> g row x) h xs
      -->
    (ks, vs) = map (\\p -> let k = .. let v = .. in (k, v)) ps
    map (\\k v x -> g (map (\\j -> if j == k then v else 0) (iota m)) x) ks vs xs

A map inside that reads a row makes its elements.  The adjoint of a minimum in each row has such rows, and so have the
labels of classes.  What sums them is of one place then (`rules/hot.py`, `rules/hot_bins.py`), and what adds them to an
array adds at one place (`rules/accs.py`); two numbers a row are kept, and no matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Program, Renamer, Stm
from futad.core.operator import may_fail
from futad.core.types import I64, ONE, ZERO, AccType, ArrayType, Atom, Prim, Var, array_of
from futad.legality import Legality
from futad.rewrite.ranges import is_index
from futad.rewrite.zeros import Zeros

LEGAL = Legality(
    "hot-rows",
    "rows that are zero but at one place are made where they are read",
    worth="k-means from JAX: the gradient in 1.2 times the time of the one by hand in place of 2.3 (2.1 and 3.6 ms): "
    "`imported.py --only kmeans`, FUTAD_MUTANT=hot-rows",
)
BY_ROWS = LEGAL.condition("read by rows only", "others read the matrix, which is not there")
MOST = 8  # statements of an element
FEW = 3  # scalars that are kept in place of a row


def rows_where_read(program: Program) -> Program:
    """The program with such rows made by the maps that read them; the same object if there are none."""
    return ir.map_bodies(program, _body)


def _body(body: Lambda) -> Lambda:
    while any(_compares(s.exp) for s in body.stms) and (new := _Scopes().scope(body, {})) is not body:
        body = new
    return body


def _compares(e: ir.Exp) -> bool:
    """Whether integers are compared in a map in a map: a quick look before others."""
    inner = [s.exp for lam in e.lambdas() for s in lam.stms]
    if isinstance(e, ir.Map) and any(isinstance(x, ir.Map) and _has_eq(x.lam) for x in inner):
        return True
    return any(map(_compares, inner))


def _has_eq(lam: Lambda) -> bool:
    return any(type(s.exp) is ir.Op and s.exp.op == "eq" and s.exp.args[0].type is I64 for s in lam.stms)


@dataclass(slots=True)
class _Row:
    """A row's element `value` at `j`: the code, and what it takes of the iteration that makes the row."""

    j: Var
    stms: list[Stm]
    value: Atom
    taken: list[Var]

    def at(self, j: Atom, given: Mapping[Var, Atom]) -> tuple[list[Stm], Atom]:
        """A copy of the code."""
        copy = Renamer({self.j: j, **given})
        return copy.stms(self.stms), copy.atom(self.value)


class _Scopes:
    """One function, until a matrix was found whose rows are made where they are read."""

    def __init__(self) -> None:
        self.found = False

    def scope(self, lam: Lambda, outer: Mapping[Var, ir.Exp]) -> Lambda:
        defs = {**outer, **{s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}}
        for n, s in enumerate(lam.stms):
            e = s.exp
            if not isinstance(e, ir.Map):
                continue
            for k, v in enumerate(s.pat):
                row = _hot(e, k, defs) if isinstance(v.type, ArrayType) and v.type.rank == 2 else None
                if row is not None and self.by_rows(v, e.width, lam, n):
                    self.found = True
                    LEGAL.fired()
                    return self.moved(lam, n, k, row)
        stms: list[Stm] = []
        for s in lam.stms:
            stms.append(s if self.found else ir.map_scopes(s, lambda inner: self.scope(inner, defs)))
        return Lambda(lam.params, tuple(stms), lam.result) if self.found else lam

    def by_rows(self, v: Var, width: Atom, lam: Lambda, n: int) -> bool:
        """Whether all that later statements do with an array is to map over its rows, and read these."""
        if not BY_ROWS(v not in lam.result):
            return False
        return all(_reads_rows(s, v, width) for s in lam.stms[n + 1 :] if v in ir.stm_free(s))

    def moved(self, lam: Lambda, n: int, k: int, row: _Row) -> Lambda:
        """The scope with result k of statement n made by those that read it."""
        s = lam.stms[n]
        e = s.exp
        assert isinstance(e, ir.Map)
        kept = [Var(v.name, array_of(v.type, e.width)) for v in row.taken]
        others = [i for i in range(len(s.pat)) if i != k]
        result = (*[e.lam.result[i] for i in others], *row.taken)
        pat = (*[s.pat[i] for i in others], *kept)
        maker = Stm(pat, ir.Map(e.width, e.arrays, Lambda(e.lam.params, e.lam.stms, result)), s.attrs)
        stms = _readers(lam.stms[n + 1 :], s.pat[k], kept, row)
        return Lambda(lam.params, (*lam.stms[:n], maker, *stms), lam.result)


def _reads_rows(s: Stm, v: Var, width: Atom) -> bool:
    e = s.exp
    if isinstance(e, ir.WithAcc) and v not in e.operands():
        return all(_reads_rows(t, v, width) for t in e.lam.stms if v in ir.stm_free(t))
    return BY_ROWS(isinstance(e, ir.Map) and e.width is width and v not in e.lam.free())


def _readers(stms: Iterable[Stm], v: Var, kept: Sequence[Var], row: _Row) -> tuple[Stm, ...]:
    return tuple([_reader(s, v, kept, row) for s in stms])


def _reader(s: Stm, v: Var, kept: Sequence[Var], row: _Row) -> Stm:
    """A statement that makes the rows of `v` from what is kept of them."""
    if v not in ir.stm_free(s):
        return s
    e = s.exp
    if isinstance(e, ir.WithAcc):
        return ir.map_scopes(s, lambda lam: Lambda(lam.params, _readers(lam.stms, v, kept, row), lam.result))
    assert isinstance(e, ir.Map)
    given: dict[Var, Atom] = {t: Var(t.name, t.type) for t in row.taken}
    rows = {p for a, p in zip(e.arrays, e.lam.params, strict=True) if a is v}
    others = [(a, p) for a, p in zip(e.arrays, e.lam.params, strict=True) if a is not v]
    params = (*[p for _, p in others], *[x for x in given.values() if isinstance(x, Var)])
    body: list[Stm] = []
    for p in rows:
        assert isinstance(p.type, ArrayType)
        (m,) = p.type.shape
        iota, j = Var("iota", ArrayType(I64, (m,))), Var("j", I64)
        code, value = row.at(j, given)
        body.append(Stm((iota,), ir.Iota(m, ZERO, ONE)))
        body.append(Stm((p,), ir.Map(m, (iota,), Lambda((j,), tuple(code), (value,)))))
    for t in e.lam.stms:
        body += _elements(t, rows, given, row)
    lam = Lambda(params, tuple(body), e.lam.result)
    return Stm(s.pat, ir.Map(e.width, (*[a for a, _ in others], *kept), lam), s.attrs)


def _elements(s: Stm, rows: set[Var], given: Mapping[Var, Atom], row: _Row) -> list[Stm]:
    """A map that makes the elements of rows that it reads."""
    e = s.exp
    if not isinstance(e, ir.Map) or not any(a in rows for a in e.arrays):
        return [s]
    iota, j = Var("iota", ArrayType(I64, (e.width,))), Var("j", I64)
    before: list[Stm] = []
    others: list[tuple[Atom, Var]] = [(iota, j)]
    made: dict[Var, Atom] = {}
    for a, p in zip(e.arrays, e.lam.params, strict=True):
        if a in rows:
            code, made[p] = row.at(j, given)
            before += code
        else:
            others.append((a, p))
    # Accumulators come first.
    others.sort(key=lambda x: not isinstance(x[0].type, AccType))
    arrays, params = [a for a, _ in others], [p for _, p in others]
    copy = Renamer(made)
    lam = Lambda(tuple(params), (*before, *copy.stms(e.lam.stms)), tuple(map(copy.atom, e.lam.result)))
    return [Stm((iota,), ir.Iota(e.width, ZERO, ONE)), Stm(s.pat, ir.Map(e.width, tuple(arrays), lam), s.attrs)]


def _hot(e: ir.Map, k: int, outer: Mapping[Var, ir.Exp]) -> _Row | None:
    """Result k of a map, rows of a matrix, if each is zero but at one place."""
    lam = e.lam
    own = {s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}
    j = Var("j", I64)
    code = _element(lam.result[k], j, {**outer, **own}, {})
    if code is None or not code[0] or len(code[0]) > MOST:
        return None
    stms, value = code
    bound = {v for s in stms for v in s.pat} | {j}
    zeros = Zeros({j}, lambda a: outer.get(a) if isinstance(a, Var) else None)
    zeros.run(stms)
    support = zeros.of(value)
    if support is None or len(support) != 1 or any(g.var is not j for g in support):
        return None
    free = [v for s in stms for v in ir.stm_free(s) if v not in bound]
    inside = {*lam.params, *[v for s in lam.stms for v in s.pat]}
    taken = list(dict.fromkeys(v for v in free if v in inside))
    if len(taken) > FEW or any(not isinstance(v.type, Prim) for v in free):
        return None
    return _Row(j, stms, value, taken)


def _element(
    a: Atom, j: Var, defs: Mapping[Var, ir.Exp], done: dict[Atom, Atom]
) -> tuple[list[Stm], Atom] | None:
    """Element `j` of a vector of scalars, of maps of scalar operations, the index, and what is repeated."""
    if a in done:
        return [], done[a]
    e = defs.get(a) if isinstance(a, Var) else None
    if is_index(e):
        return [], j
    if isinstance(e, ir.Replicate) and len(e.shape) == 1 and isinstance(e.value.type, Prim):
        return [], e.value
    if not isinstance(e, ir.Map) or len(e.lam.result) != 1:
        return None
    stms: list[Stm] = []
    given: dict[Var, Atom] = {}
    for x, p in zip(e.arrays, e.lam.params, strict=True):
        found = _element(x, j, defs, done) if isinstance(p.type, Prim) else None
        if found is None:
            return None
        stms += found[0]
        given[p] = found[1]
    if not all(type(s.exp) is ir.Op and not may_fail(s.exp) for s in e.lam.stms):
        return None
    copy = Renamer(given)
    stms += copy.stms(e.lam.stms)
    done[a] = copy.atom(e.lam.result[0])
    return stms, done[a]


__all__ = ["rows_where_read"]
