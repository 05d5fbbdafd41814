"""What a return sweep computes of neighbouring elements of a saved array, the forward sweep saves in place of that.

    loop u for i < n do us[i] = u; u' = map (\\j -> let s = u[j - 1] + u[j + 1] in u[j] + k[j] * s) ..
    loop .. for j < n do let i = n-1-j; u = us[i]; k_bar += map (\\j -> let s = u[j - 1] + u[j + 1] in .. * s) ..
      -->
    loop u for i < n do u' = map (\\j -> let s = .. in ss[i, j] = s; u[j] + k[j] * s) ..
    loop .. for j < n do let i = n-1-j; k_bar += map (\\s -> .. * s) ss[i]

No more is saved than before, and the return sweep reads each number once, in order, with no borders.  That is done if
the saved array is then needed for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import ArrayType, Atom, Prim, Var, array_of, row_type
from futad.legality import Legality
from futad.optimise.remat.folds import arrays_like
from futad.optimise.remat.legal import SAME_BITS
from futad.optimise.remat.policy import Policy
from futad.optimise.remat.sweeps import Sweeps
from futad.optimise.subst import Subst
from futad.optimise.values import Values

LEGAL = Legality(
    "saved-neighbours",
    "a return sweep reads what the forward sweep has made of a saved array's elements, in place of these",
    worth="the heat equation's gradient 0.87 to 0.58 ms: `benchmarks/without.py saved-neighbours heat`",
)
SAME_SIZES = LEGAL.condition("as many elements", "the return sweep's maps have others than those that are saved")

FEWEST = 3  # elements of a saved array that a value is made of


@dataclass(frozen=True, slots=True)
class _Scalar:
    """Where a scalar is: in which statement of an iteration, bound to which variable, in maps of which widths, by their
    numbers."""

    at: int
    var: Var
    widths: tuple[int, ...]


def neighbours(pair: Sweeps, policy: Policy) -> bool:
    """Scalars of maps that are made of several elements of what is saved."""
    saved = {v for v in pair.back.saved if isinstance(v, Var)}
    if not policy.more_kinds or not saved:
        return False
    made: dict[int, _Scalar] = {}
    for k, s in enumerate(pair.f.body.stms):
        if type(s.exp) is ir.Map:
            made |= {n: x for n, x in _scalars(pair.forward, k, s) if n not in made}
    of = _Made(saved)
    of.note(pair.r.body.stms)
    wanted: dict[Var, tuple[_Scalar, _Scalar]] = {}
    for k, s in enumerate(pair.r.body.stms):
        for n, x in _scalars(pair.back, k, s):
            there = made.get(n)
            if x.var in of.arrays and there is not None and SAME_SIZES(there.widths == x.widths):
                wanted[x.var] = there, x
    if not any(len(of.reads[v]) >= FEWEST for v in wanted):
        return False
    body, taken = pair.r.body, {*wanted}
    live = _live(body, taken)
    gone = (saved & _live(body, set())) - live
    if not gone:
        return False
    for v in reversed([*wanted]):  # what is made of others that are saved is not saved, too
        if v not in live:
            continue
        less = _live(body, taken - {v})
        if gone.isdisjoint(less) and len(taken & less) <= len(taken & live):
            taken, live = taken - {v}, less
    read = {v: x for v, x in wanted.items() if v in taken & live}
    if len({there.var for there, _ in read.values()}) > len(gone):
        return False
    if not any(len(of.reads[v]) >= FEWEST for v in read) or not all(of.arrays[v] <= gone for v in read):
        return False
    if not SAME_BITS(not any(pair.compared.origins_differ(v) for v in read)):
        return False
    return _save(pair, read, gone)


def _save(pair: Sweeps, read: dict[Var, tuple[_Scalar, _Scalar]], gone: Set[Var]) -> bool:
    """Let the forward sweep save scalars, and the return sweep read them, unless they take more memory than what is
    gone, or their sizes are an iteration's own."""
    types: dict[Var, ArrayType] = {}
    for there, _ in read.values():
        sizes = _widths(pair.f.body.stms[there.at], there.var)
        t = None if sizes is None else array_of(there.var.type, *sizes)
        if not isinstance(t, ArrayType) or not pair.outside(t):
            return False
        types[there.var] = t
    rows = [row_type(v.type) for v in gone]
    if any(arrays_like(t, [*types.values()]) > arrays_like(t, rows) for t in types.values()):
        return False
    final: dict[Var, Var] = {}
    for v, (there, here) in read.items():
        if there.var not in final:
            s, whole = _with_result(pair.stms[0][there.at][0], there.var)
            pair.stms[0][there.at][0] = s
            final[there.var] = pair.save(there.at, whole)
        *before, s = pair.stms[1][here.at]
        array = Var("saved", row_type(final[there.var].type))
        pair.stms[1][here.at] = [*before, pair.row(array, final[there.var]), _reading(s, v, array)]
    return True


def _scalars(values: Values, at: int, s: Stm, widths: tuple[int, ...] = ()) -> Iterator[tuple[int, _Scalar]]:
    """The floats that the maps of a statement compute, by value numbers."""
    e = s.exp
    if type(e) is ir.WithAcc:
        for t in e.lam.stms:
            yield from _scalars(values, at, t, widths)
    elif type(e) is ir.Map:
        inside, within = values.mapped(e), (*widths, values.atom(e.width))
        for t in e.lam.stms:
            if type(t.exp) is ir.Op and isinstance(t.pat[0].type, Prim) and t.pat[0].type.is_float:
                yield inside.atom(t.pat[0]), _Scalar(at, t.pat[0], within)
            elif t.exp.lambdas():
                yield from _scalars(inside, at, t, within)


class _Made:
    """Which of these arrays values of a scope are made of (`arrays`), and which elements of them (`reads`)."""

    def __init__(self, saved: Iterable[Var]) -> None:
        self.arrays: dict[Atom, frozenset[Var]] = {v: frozenset([v]) for v in saved}
        self.reads: dict[Atom, frozenset[Var]] = {}

    def note(self, stms: Iterable[Stm]) -> None:
        for s in stms:
            e = s.exp
            uses: list[Atom] = [*e.operands()]
            if isinstance(e, ir.Mapping | ir.WithAcc):
                for p, a in zip(e.lam.params, e.arrays, strict=True):
                    if a in self.arrays:
                        self.arrays[p] = self.arrays[a]
                        self.reads[p] = frozenset([p]) if isinstance(p.type, Prim) else frozenset()
            for lam in e.lambdas():
                self.note(lam.stms)
                uses += lam.result
            own = frozenset([v for a in uses for v in self.arrays.get(a, ())])
            element = type(e) is ir.At and isinstance(s.pat[0].type, Prim)
            for v in s.pat if own else ():
                self.arrays[v] = own
                self.reads[v] = frozenset([v] if element else [r for a in uses for r in self.reads.get(a, ())])


def _live(lam: Lambda, taken: Set[Var], results: Sequence[Atom] | None = None) -> set[Atom]:
    """The variables of a scope and those inside that these of its results need, if those taken need no others."""
    live: set[Atom] = set(lam.result if results is None else results)
    for s in reversed(lam.stms):
        if live.isdisjoint(s.pat) or s.pat[0] in taken:
            continue
        e = s.exp
        if type(e) is ir.Map:
            inside = _live(e.lam, taken, [r for v, r in zip(s.pat, e.lam.result, strict=True) if v in live])
            live |= inside | {a for a, p in zip(e.arrays, e.lam.params, strict=True) if p in inside} | {e.width}
        else:
            live.update(e.operands())
            for lam_ in e.lambdas():
                live |= _live(lam_, taken)
    return live


def _widths(s: Stm, v: Var) -> tuple[Atom, ...] | None:
    """The widths of the maps around a variable."""
    e = s.exp
    if type(e) is not ir.Map:
        return None
    if any(v in t.pat for t in e.lam.stms):
        return (e.width,)
    inner = next((found for t in e.lam.stms if (found := _widths(t, v)) is not None), None)
    return None if inner is None else (e.width, *inner)


def _with_result(s: Stm, v: Var) -> tuple[Stm, Var]:
    """A map in whose body, or in a map's there, `v` is computed, with an array of it as one more result."""
    e = s.exp
    assert type(e) is ir.Map
    stms = [*e.lam.stms]
    element = v
    if not any(v in t.pat for t in stms):
        (k,) = [k for k, t in enumerate(stms) if _widths(t, v) is not None]
        stms[k], element = _with_result(stms[k], v)
    row = Var(v.name, array_of(element.type, e.width))
    lam = Lambda(e.lam.params, tuple(stms), (*e.lam.result, element))
    return Stm((*s.pat, row), e.over(e.arrays, lam), s.attrs), row


def _reading(s: Stm, v: Var, array: Var) -> Stm:
    """A statement with maps in which `v` is an element of an array."""
    e = s.exp
    if type(e) is ir.WithAcc:
        return ir.map_scopes(s, lambda x: Lambda(x.params, tuple([_reading(t, v, array) for t in x.stms]), x.result))
    if type(e) is not ir.Map or not _binds(e.lam, v):
        return s
    element = Var(v.name, row_type(array.type))
    if any(v in t.pat for t in e.lam.stms):
        inner = Subst({v: element})
        stms = tuple(inner.stms([t for t in e.lam.stms if v not in t.pat]))
        lam = Lambda((*e.lam.params, element), stms, tuple([inner.atom(a) for a in e.lam.result]))
    else:
        lam = Lambda((*e.lam.params, element), tuple([_reading(t, v, element) for t in e.lam.stms]), e.lam.result)
    return Stm(s.pat, e.over((*e.arrays, array), lam), s.attrs)


def _binds(lam: Lambda, v: Var) -> bool:
    return any(v in t.pat or any(_binds(inner, v) for inner in t.exp.lambdas()) for t in lam.stms)


__all__ = ["neighbours"]
