"""Nests of maps: maps nested perfectly, and what the innermost one does.

    map (\\row -> let c = g k in map (\\x y -> body) row ys) rows

has the dimensions [n][m].  `body` is the innermost lambda, `before` has the statements between the maps, and `reads`
says for each parameter, and each view of one, which part of an array from outside it is: `row` is rows[i0], `x` is
rows[i0, i1], `y` is ys[i1].  A matrix product, a sum of rows, an outer product are then conditions on the body and on
the levels that index what it reads.  (Iteration space, indexing maps and body as in MLIR's `linalg.generic`; Futhark:
`Analysis/HORep/MapNest.hs`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import maxsize

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import AccType, Atom, Const, Prim, Type, Var, row_type, shape_of


@dataclass(frozen=True, slots=True)
class Read:
    """A part of an array at one point of a nest: dimension `dims[k]` at the iteration of level `levels[k]`, and all of
    the dimensions `rest`, in this order."""

    array: Var
    levels: tuple[int, ...]
    dims: tuple[int, ...]
    rest: tuple[int, ...]

    def element(self, level: int) -> Read:
        """The element of this part at the iteration of a level."""
        return Read(self.array, (*self.levels, level), (*self.dims, self.rest[0]), self.rest[1:])

    def permuted(self, perm: Sequence[int]) -> Read:
        """A transposition of this part."""
        return Read(self.array, self.levels, self.dims, tuple([self.rest[p] for p in perm]))


def whole(array: Var) -> Read:
    """All of an array."""
    return Read(array, (), (), tuple(range(len(shape_of(array.type)))))


Reads = dict[Var, Read]


@dataclass(slots=True)
class Nest:
    """Maps nested perfectly: the lambda of each level, outermost first, the maps inside the first one, and everything
    that is bound in the nest.  `arrays` are those of the outermost map, if that is known."""

    lams: list[Lambda]
    arrays: Sequence[Atom] = ()
    inner: list[Stm] = field(default_factory=list)
    bound: set[Var] = field(default_factory=set)

    @property
    def depth(self) -> int:
        """The number of levels."""
        return len(self.lams)

    @property
    def body(self) -> Lambda:
        """The innermost lambda."""
        return self.lams[-1]

    @property
    def maps(self) -> list[ir.Mapping]:
        """The maps inside the first."""
        return [s.exp for s in self.inner if isinstance(s.exp, ir.Mapping)]

    @property
    def before(self) -> list[Stm]:
        """The statements between the maps."""
        return [s for lam, below in zip(self.lams, self.inner, strict=False) for s in lam.stms if s is not below]

    @property
    def in_order(self) -> bool:
        """Whether each level's results are those of the map inside it, in their order."""
        pairs = zip(self.lams, self.inner, strict=False)
        return all(lam.stms[-1] is below and lam.result == below.pat for lam, below in pairs)

    def enter(self, lam: Lambda, stm: Stm | None = None) -> None:
        """One level more: the lambda of a map (that may fold, too), and its statement."""
        if stm is not None:
            self.inner.append(stm)
        self.lams.append(lam)
        self.bound.update(lam.params)
        self.bound.update(v for s in lam.stms for v in s.pat)

    def reads(self) -> Reads:
        """The part of an array from outside that each parameter, and each view of one, is."""
        out: Reads = {}
        arrays = [self.arrays, *[m.arrays for m in self.maps]]
        for level, lam in enumerate(self.lams):
            out.update(self.elements(arrays[level], lam, level, out))
        return out

    def elements(self, arrays: Sequence[Atom], lam: Lambda, level: int, known: Reads) -> Reads:
        """The same for a lambda over elements of these arrays, at a level, where that of the arrays is `known`."""
        out: Reads = dict(known)

        def read(a: Atom) -> Read | None:
            if not isinstance(a, Var) or isinstance(a.type, AccType):
                return None
            return out.get(a) or (None if a in self.bound else whole(a))

        for a, p in zip(arrays, lam.params, strict=True):
            if (r := read(a)) is not None:
                out[p] = r.element(level)
        for s in lam.stms:
            match s.exp:
                case ir.Rearrange(a, perm) if (r := read(a)) is not None:
                    out[s.pat[0]] = r.permuted(perm)
                case ir.Alias(a) if (r := read(a)) is not None:
                    out[s.pat[0]] = r
        return out

    def around(self, stm: Stm, leaf: Lambda, pat: Sequence[Var], more: Sequence[Var] = ()) -> Stm:
        """The nest, which `stm` is, with another innermost lambda, whose last parameters are elements of `more` arrays:
        the statement that binds `pat`.  Inputs of which `leaf` uses nothing are left out."""
        inside = [tuple(more)]
        for _ in self.inner:
            inside.append(tuple([Var(v.name, row_type(v.type)) for v in inside[-1]]))
        for k, s in reversed(list(enumerate([stm, *self.inner]))):
            assert isinstance(s.exp, ir.Map)
            used = Lambda((), leaf.stms, leaf.result).free()
            given = zip(leaf.params, (*s.exp.arrays, *inside[k]), strict=True)
            inputs = {p: a for p, a in given if p in used}
            lam = Lambda(tuple(inputs), leaf.stms, leaf.result)
            out = tuple([Var(v.name, _element(v.type, k)) for v in pat] if k else pat)
            made = Stm(out, ir.Map(s.exp.width, tuple(inputs.values()), lam if k else ir.rename(lam)), s.attrs)
            if k:
                above = self.lams[k - 1]
                leaf = Lambda((*above.params, *inside[k]), (*above.stms[:-1], made), out)
        return made

    def threaded(self, stm: Stm, leaf: Lambda, given: Sequence[Mapping[Var, Var]]) -> Stm:
        """The maps, of which `stm` is the first, with another innermost lambda, and at each level with parameters more,
        by the arrays that these are elements of; all else stays where it is, but for inputs that nothing uses."""
        made = stm
        for k, s in reversed(list(enumerate([stm, *self.inner]))):
            assert isinstance(s.exp, ir.Map)
            used = Lambda((), leaf.stms, leaf.result).free()
            pairs = zip((*self.lams[k].params, *given[k].values()), (*s.exp.arrays, *given[k]), strict=True)
            inputs = {p: a for p, a in pairs if p in used}
            lam = Lambda(tuple(inputs), leaf.stms, leaf.result)
            made = Stm(s.pat, ir.Map(s.exp.width, tuple(inputs.values()), lam), s.attrs)
            if k:
                above = self.lams[k - 1]
                leaf = Lambda(above.params, tuple([made if t is s else t for t in above.stms]), above.result)
        return made

    def path(self, k: int) -> list[Var] | None:
        """The parameters, outermost first, that run over the outermost map's array k, as deep as maps take it; None if
        anything else in the nest but the last of them's lambda uses one."""
        out = [self.lams[0].params[k]]
        for lam, below, m in zip(self.lams, self.inner, self.maps, strict=False):
            p, times = out[-1], m.arrays.count(out[-1])
            if times > 1 or p in m.lam.free() or any(p in ir.stm_free(s) for s in lam.stms if s is not below):
                return None
            if not times:
                break
            out.append(m.lam.params[m.arrays.index(p)])
        return out


def _element(t: Type, levels: int) -> Type:
    return t if isinstance(t, AccType) else row_type(t, levels)


def nothing(stms: Sequence[Stm]) -> bool:
    """No statements between maps."""
    return not stms


Between = Callable[[Sequence[Stm]], bool]
"""Whether statements may stand between two maps: every point of the inner one would repeat them."""


def nest_of(stm: Stm, most: int = maxsize, between: Between = nothing) -> Nest | None:
    """The nest of maps, at most `most` deep, that a statement is; None if it is no map."""
    e = stm.exp
    return nest_in(e.lam, most, between, arrays=e.arrays) if isinstance(e, ir.Map) else None


def nest_in(
    lam: Lambda, most: int = maxsize, between: Between = nothing, *, arrays: Sequence[Atom] = (), rows: bool = False
) -> Nest:
    """The nest of which this is the outermost lambda.  The results of a level are those of the map inside it, in their
    order; with `rows` in any order, or literals that have them as rows."""
    nest = Nest([], arrays)
    nest.enter(lam)
    while nest.depth < most:
        below = _inner(nest.body, nest.bound, between, rows)
        if below is None:
            break
        nest.enter(below[1].lam, below[0])
    return nest


def _inner(lam: Lambda, bound: set[Var], between: Between, rows: bool) -> tuple[Stm, ir.Map] | None:
    """The map that makes all results of a level, of a width and of shapes known outside the nest."""
    stms, made = list(lam.stms), list(lam.result)
    if rows and any(isinstance(a, Const) for a in made):
        return None
    while rows and stms and isinstance(e := stms[-1].exp, ir.ArrayLit) and not isinstance(e.type, Prim):
        (v,) = stms.pop().pat
        if v not in made:
            return None
        at = made.index(v)
        made[at : at + 1] = e.elems
    if not stms or not isinstance(m := stms[-1].exp, ir.Map):
        return None
    last = stms[-1]
    fits = len(set(made)) == len(made) and set(made) == set(last.pat) if rows else tuple(made) == last.pat
    if not fits or m.width in bound or any(_sizes(v.type) & bound for v in last.pat) or not between(stms[:-1]):
        return None
    return last, m


def _sizes(t: Type) -> set[Atom]:
    return set() if isinstance(t, AccType) else set(shape_of(t))


__all__ = ["Between", "Nest", "Read", "Reads", "nest_in", "nest_of", "nothing", "whole"]
