"""Transpositions around maps that take rows apart or put them together, for backends on processors with caches.

    map (\\x -> reshape x) xs                                  -->   reshape xs
    map (\\x -> (x[0], x[1])) (transpose m)                    -->   (m[0], m[1])
    transpose (map2 (\\x y -> [x, y]) xs ys)                   -->   [xs, ys]

An array of records is many arrays, and comes from a matrix, or goes to one, by a transposition; its rows then are
these arrays, of which nothing needs to be copied to begin with.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.alias import Aliases, aliases
from futad.core.ir import Lambda, Program, Stm
from futad.core.scope import uses_in
from futad.core.types import ArrayType, Atom, Const, Prim, Var, shape_of
from futad.legality import Legality

LEGAL = Legality(
    "eliminate-transposes",
    "maps that take rows of a transposed matrix apart, or make rows to be transposed, do not run",
    worth="records are read from rows as they lie: LBM a quarter less time",
)
TRANSPOSED_ONLY = LEGAL.condition("read transposed only", "others read what the map makes, which is not made any more")
SWAPPED = LEGAL.condition("transposed", "the map's rows are no columns of the array")
UNWRITTEN = LEGAL.condition("rows never overwritten", "a view of what changes is no copy of what it was")
IN_RANGE = LEGAL.condition("row in range", "there is no such row")
THE_RESULT = LEGAL.condition("the last is the result", "what is written is not what the map returns")


def eliminate_transposes(program: Program) -> Program:
    """Rewrite such maps in every function."""
    return ir.map_bodies(program, lambda lam: _Scope(lam, aliases(lam)).rewritten())


class _Scope:
    def __init__(self, lam: Lambda, alias: Aliases) -> None:
        self.lam, self.alias = lam, alias
        self.defs: dict[Atom, ir.Exp] = {}
        uses = uses_in(lam.stms, lam.result)
        for s in lam.stms:
            if len(s.pat) == 1:
                self.defs[s.pat[0]] = s.exp
        self.literals: dict[Atom, Stm] = {}
        """What is made in place of a map here, which is only transposed."""
        gone: set[Atom] = set()
        for s in lam.stms:
            if type(s.exp) is ir.Rearrange and s.exp.perm == (1, 0) and TRANSPOSED_ONLY(uses.get(s.exp.array) == 1):
                made = self.defs.get(s.exp.array)
                whole = _together(made) if type(made) is ir.Map else None
                if whole is not None:
                    LEGAL.fired()
                    self.literals[s.exp.array] = Stm(s.pat, whole)
                    gone.add(s.pat[0])
        self.stms = [s for s in lam.stms if not (s.pat and s.pat[0] in gone)]

    def rewritten(self) -> Lambda:
        out: list[Stm] = []
        for s in self.stms:
            s = ir.map_scopes(s, lambda lam: _Scope(lam, self.alias).rewritten())
            if type(s.exp) is ir.Map:
                out += self.map(s, s.exp)
            else:
                out.append(s)
        same = len(out) == len(self.lam.stms) and all(a is b for a, b in zip(out, self.lam.stms, strict=True))
        return self.lam if same else Lambda(self.lam.params, tuple(out), self.lam.result)

    def map(self, s: Stm, e: ir.Map) -> list[Stm]:
        if s.pat and s.pat[0] in self.literals:
            return [self.literals[s.pat[0]]]
        first = e.lam.stms[0].exp if len(e.lam.stms) == 1 else None
        if type(first) is ir.Reshape and e.lam.params == (first.array,) and e.lam.result == e.lam.stms[0].pat:
            if self.view(s.pat[0], e.arrays[0]):
                LEGAL.fired()
                return [Stm(s.pat, ir.Reshape(e.arrays[0], (e.width, *first.shape)), s.attrs)]
        rows = [self.row(e, v, r) for v, r in zip(s.pat, e.lam.result, strict=True)]
        if not any(rows):
            return [s]
        LEGAL.fired()
        out = [Stm((v,), row) for v, row in zip(s.pat, rows, strict=True) if row is not None]
        keep = [k for k, row in enumerate(rows) if row is None]
        if keep:
            lam = Lambda(e.lam.params, e.lam.stms, tuple([e.lam.result[k] for k in keep]))
            out.append(Stm(tuple([s.pat[k] for k in keep]), ir.Map(e.width, e.arrays, lam), s.attrs))
        return out

    def view(self, v: Var, source: Atom) -> bool:
        """Whether `v` can be a view of `source`."""
        return UNWRITTEN(not self.alias.mutable(v) and not self.alias.mutable(source))

    def row(self, e: ir.Map, v: Var, result: Atom) -> ir.At | None:
        """The row of a matrix that a result `v` of a map over its transposition is."""
        made = next((t.exp for t in e.lam.stms if t.pat == (result,)), None)
        if type(made) is not ir.At or made.array not in e.lam.params or len(made.index) != 1:
            return None
        (at,) = made.index
        turned = self.defs.get(e.arrays[e.lam.params.index(made.array)])
        if type(turned) is not ir.Rearrange or type(at) is not Const:
            return None
        if not SWAPPED(turned.perm == (1, 0, *range(2, len(turned.perm)))):
            return None
        rows = shape_of(turned.array.type)[0]
        if type(rows) is not Const or not IN_RANGE(0 <= at.value < rows.value):
            return None
        if not self.view(v, turned.array):
            return None
        return ir.At(turned.array, (at,))


def _together(e: ir.Map) -> ir.ArrayLit | None:
    """The arrays of which a map makes rows of one element each, one below the other."""
    if len(e.lam.result) != 1 or any(not isinstance(p.type, Prim) for p in e.lam.params):
        return None
    elems = _elements(e.lam)
    if elems is None or not elems or not all(a in e.lam.params for a in elems):
        return None
    arrays = tuple([e.arrays[e.lam.params.index(a)] for a in elems])
    t = arrays[0].type
    assert isinstance(t, ArrayType)
    # They have one type, as their elements have and one map reads them.
    return ir.ArrayLit(arrays, t)


def _elements(lam: Lambda) -> list[Atom] | None:
    """The elements of the array that the statements of a map's body, and nothing else, write out or fill in place by
    place."""
    elems: list[Atom | None] = []
    now: Atom | None = None
    for s in lam.stms:
        e = s.exp
        match e:
            case ir.ArrayLit(given) if now is None:
                elems = list(given)
            case ir.Replicate((Const(value=count),), _) if now is None:
                elems = [None] * int(count)
            case ir.Update(_, (Const(value=at),), value) if 0 <= at < len(elems):
                # Of what was made last: a map overwrites no array from outside, and nothing twice.
                elems[at] = value
            case _:
                return None
        (now,) = s.pat
    if not THE_RESULT(now is lam.result[0]) or any(type(a) is not Var for a in elems):
        return None
    return [a for a in elems if a is not None]


__all__ = ["eliminate_transposes"]
