"""Values computed in the place of the array that an update gives them to: array short-circuiting.

    let v = map f xs                  memory of v: row j of a's
    ...                         -->   ...
    let b = a with [j] = v            nothing to do

(Munksgaard et al., "Memory Optimizations in an Array Language", SC 2022.)  Before the statement that makes `v` is
lowered, `short_circuit` looks for the update, follows its array back to one whose memory is known by then, and proves
that the *region*, row j here, can be written early:

* from the start of the statement that makes `v` on, nobody reads the region: neither statements in between, nor what is
  read after the update, nor enclosing scopes, nor the statement itself, unless it reads each element before it writes
  it, at the same place (`in_step`);
* the updates between the two are of the same array, happen in its memory as well, and leave the region alone.

Who may read it is known exactly: each root of memory lists the variables that may live in it, and each of these has a
view.  Two views are told apart by `regions.py`.  What is found is kept by update (`Scope.placed`), not by value: one
that is written to two arrays is computed in one of them and copied to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.node import index_operands
from futad.core.types import Atom, Prim, Var, shape_of
from futad.errors import Span
from futad.imp.indexing import indexed
from futad.imp.ir import Expr
from futad.imp.regions import Regions
from futad.imp.views import Acc, Mem, View, dense_view
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer, Scope

LEGAL = Legality("short-circuiting", "a value is computed in the place of an array that a later update gives it")
OURS = LEGAL.condition("memory ours", "the caller's array, or one that others share, would be overwritten")
OUTSIDE = LEGAL.condition(
    "unread outside", "an enclosing scope, or the next iteration, would read the value in place of what was there"
)
LATER = LEGAL.condition("unread later", "a later statement would read the value in place of what was there")
ITSELF = LEGAL.condition(
    "unread by the statement itself", "the statement would read elements of its result in place of what was there"
)
OTHERS = LEGAL.condition(
    "other updates elsewhere", "an update before this one would overwrite the value, or be undone by it"
)

IN_STEP = Legality("in step", "the result of a nest of maps is written over an array that it reads")
ONCE = IN_STEP.condition("read once", "the array would be read elsewhere after a part of it was overwritten")
ONE_PASS = IN_STEP.condition("one pass", "the folds fused with the map read it again, in a kernel of their own")


@dataclass(slots=True, eq=False)
class _Update:
    """An update that is to find its value in place: `chain`, the updates from a known array on, this one last; `v`,
    what has the value's memory, and the value itself, by its reshapes in between."""

    chain: list[tuple[int, core.Stm]]
    array: Var
    reshapes: list[Var]

    @property
    def at(self) -> int:
        return self.chain[-1][0]


def short_circuit(lo: Lowerer, stm: core.Stm, sc: Scope, makers: tuple[type, ...]) -> None:
    """If later statements of the scope update arrays with what this one makes, let it be computed there where that is
    legal; `makers` are the constructs that can put their results anywhere."""
    if not isinstance(stm.exp, makers):
        return
    for v in stm.pat:
        if v in sc.whole or v in sc.destinations:
            continue
        for found in _updates(lo, sc, v):
            if _pays(sc, v, found) and _place(lo, stm, sc, v, found):
                break


def _updates(lo: Lowerer, sc: Scope, v: Var) -> Iterator[_Update]:
    """The updates of this scope whose value is `v` or an array of its elements in the same order."""
    stms = sc.lam.stms
    names = {v: [v]}
    made: dict[Atom, int] = {}
    for k in range(sc.index + 1, len(stms)):
        e = stms[k].exp
        match e:
            case core.Alias(a) | core.Reshape(a) if a in names:
                if sc.uses.get(a) == 1:
                    names[stms[k].pat[0]] = [*names[a], stms[k].pat[0]]
            case core.Update(a):
                made[stms[k].pat[0]] = k
                if e.value in names:
                    chain = [(k, stms[k])]
                    while a in made:
                        chain.insert(0, (made[a], stms[made[a]]))
                        a = chain[0][1].exp.operands()[0]
                    if isinstance(a, Var) and a in lo.env:
                        yield _Update(chain, a, names[e.value])


def _pays(sc: Scope, v: Var, u: _Update) -> bool:
    """Whether the updated array is not updated again while `v` is in use, as it then would have to be copied."""
    whole = u.chain[-1][1].pat[0]
    after = next((k for k in range(u.at + 1, len(sc.lam.stms)) if whole in core.stm_free(sc.lam.stms[k])), None)
    return after is None or max(sc.last[a] for a in u.reshapes) <= after


def _place(lo: Lowerer, stm: core.Stm, sc: Scope, v: Var, u: _Update) -> bool:
    dst = lo.env[u.array]
    if not isinstance(dst, View) or not isinstance(dst.base, Mem):
        return False
    if any(isinstance(a, Var) and a not in lo.env for _, s in u.chain for a in index_operands(_place_of(s.exp)[0])):
        return False
    if not OURS(dst.injective and all(r.writable for r in dst.roots)):
        return False

    passed: list[tuple[Expr, Expr]] = []
    with lo.block() as body:
        targets = [sc.placed.get(s.pat[0]) or (dst, indexed(lo, dst, *_place_of(s.exp))) for _, s in u.chain]
        passed += lo.checked
    if any(there is not dst for there, _ in targets):
        return False
    region = targets[-1][1]
    known = Regions(lo)
    check = _Readers(lo, sc, stm, u, dst, known)
    others = [target for _, target in targets[:-1]]
    if not OTHERS(all(known.disjoint(region, x, dst.strides) for x in others)):
        return False
    where = _of_value(lo, v, u, region)
    if where is None or not check.free(region, v, where):
        return False
    # The updates before this one take place in the same memory.
    for (k, s), (_, target) in zip(u.chain[:-1], targets[:-1], strict=True):
        if s.pat[0] not in sc.placed and not check.free(target, None, None, k):
            return False
    lo.out += body
    lo.checked.update(dict.fromkeys(passed))
    for (_, s), (_, target) in zip(u.chain, targets, strict=True):
        sc.placed[s.pat[0]] = dst, target
    LEGAL.fired()
    sc.destinations[v] = where
    return True


def _of_value(lo: Lowerer, v: Var, u: _Update, region: View) -> View | None:
    """The region as the memory of `v`."""
    if len(u.reshapes) == 1 or shape_of(v.type) == shape_of(u.reshapes[-1].type):
        return region
    known = all(a in lo.env for a in shape_of(v.type) if isinstance(a, Var))
    return dense_view(region.base, lo.shape(v.type), region.offset) if region.dense and known else None


def _place_of(e: core.Exp) -> tuple[core.Index, Span | None]:
    assert isinstance(e, core.Update)
    return e.index, e.check


class _Readers:
    """Who reads the memory of one array from the present statement on."""

    def __init__(
        self, lo: Lowerer, sc: Scope, stm: core.Stm, u: _Update, dst: View, known: Regions
    ) -> None:
        self.lo, self.sc, self.stm, self.u, self.dst, self.known = lo, sc, stm, u, dst, known
        self.chain = {k for k, _ in u.chain}
        self.vars = dict.fromkeys(w for r in dst.roots for w in r.vars)

    def free(self, region: View, v: Var | None, where: View | None, start: int | None = None) -> bool:
        """Whether nobody reads the region from statement `start` on (default: the present one, which makes `v` in
        `where`)."""
        stms, sc = self.sc.lam.stms, self.sc
        first = sc.index if start is None else start
        names = [*self.vars, *[s.pat[0] for k, s in self.u.chain[:-1]]]
        for w in names:
            if not OUTSIDE(self.lo.env.get(w) is None or not self._outside(w) or self._disjoint(self._view(w), region)):
                return False
            last_use = sc.last.get(w, -1)
            for k in range(first, len(stms)):
                if w not in core.stm_free(stms[k]):
                    continue
                last_use = last_use if last_use > k else -1
                holds = self._disjoint_from(w, k, region) or (k == sc.index and self._in_step(w, v, where))
                if not (ITSELF if k == sc.index else LATER)(holds):
                    return False
            # A result of the scope, or read by what is put off until then.
            if not LATER(last_use < first or self._disjoint(self._view(w), region)):
                return False
        return True

    def _outside(self, w: Var) -> bool:
        """Whether other iterations or scopes may read the variable."""
        if self.sc.repeats and w in self.sc.lam.free():
            return True
        return any(
            last is not None and (last > sc.index or (sc.repeats and w in sc.lam.free()))
            for sc in self.lo.scopes
            if sc is not self.sc
            for last in (sc.last.get(w),)
        )

    def _view(self, w: Var) -> View:
        v = self.lo.env.get(w, self.dst)
        region = v.view if isinstance(v, Acc) else v
        assert isinstance(region, View), (w, v)
        return region

    def _disjoint(self, v: View, region: View) -> bool:
        return self.known.disjoint(v, region, self.dst.strides)

    def _disjoint_from(self, w: Var, k: int, region: View) -> bool:
        """Whether statement `k` reads nothing of the region by way of `w`."""
        e = self.sc.lam.stms[k].exp
        if k in self.chain and isinstance(e, core.Update) and e.array is w and e.value is not w:
            return True
        view = self._view(w)
        if isinstance(e, core.At) and e.array is w and all(self._known(a) for a in e.operands()[1:]):
            with self.lo.block():
                view = indexed(self.lo, view, e.index, None)
        return self._disjoint(view, region)

    def _known(self, a: Atom) -> bool:
        return not isinstance(a, Var) or a in self.lo.env

    def _in_step(self, w: Var, v: Var | None, where: View | None) -> bool:
        """Whether the present statement reads `w` element by element, as it writes `v` over it."""
        if v is None or where is None or not self.known.same(self._view(w), where):
            return False
        return in_step(self.lo, core.Lambda((), (self.stm,), (v,)), w, v)


def in_step(lo: Lowerer, lam: core.Lambda, p: Var, result: Atom) -> bool:
    """Whether `result` is made by a nest of maps, perhaps beside accumulators, that reads `p` at the position it writes
    and nowhere else, so that it can be written over `p`.  `p` is an array that the scope uses and does not return, or a
    parameter of it."""
    if isinstance(p.type, Prim):
        return isinstance(result.type, Prim)
    users = [s for s in lam.stms if p in core.stm_free(s)]
    if not ONCE(len(users) == 1 and p not in lam.result) or not users:
        return False
    maker = users[0]
    e = maker.exp
    if type(e) is core.Reshape:
        return in_step(lo, lam, maker.pat[0], result)
    if type(e) is core.WithAcc and result in maker.pat:
        k = maker.pat.index(result)
        return ONCE(p not in e.arrays) and k >= len(e.arrays) and in_step(lo, e.lam, p, e.lam.result[k])
    if not isinstance(e, core.Mapping) or result not in maker.pat or p not in e.arrays:
        return False
    if isinstance(e, core.Fused) and not ONE_PASS(lo.in_one_loop(e)):
        return False
    k = maker.pat.index(result)
    inside = [x for f in e.lambdas() for x in f.free()]
    if not ONCE(e.arrays.count(p) == 1 and p not in inside) or k < e.first_mapped:
        return False
    IN_STEP.fired()
    return in_step(lo, e.lam, e.lam.params[e.arrays.index(p)], e.lam.result[k])


__all__ = ["in_step", "short_circuit"]
