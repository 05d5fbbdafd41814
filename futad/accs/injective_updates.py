"""Maps each of whose iterations updates an accumulator at places of its own.

    map (\\i -> acc[if i + c < n then i + c else i + c - n] += f i) (iota n)

The places of different iterations differ if they are i + c or c - i up to multiples of n, one for all updates: two
iterations are less than n apart.  So several threads may add at once, without atomics or copies of the accumulator.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.ir import Lambda
from futad.core.types import I64, AccType, Atom, Const, Var, shape_of
from futad.legality import Legality
from futad.rewrite.ranges import is_index

LEGAL = Legality(
    "own-places", "iterations add to an accumulator together, each at places of its own; or fill it", fires=False
)
WRAPS_AT_WIDTH = LEGAL.condition("remainder by the width", "two iterations have one remainder")
NO_OVERFLOW = LEGAL.condition("no overflow", "a sum that has wrapped around has another remainder")
BRANCHES_ALIKE = LEGAL.condition("choices alike", "two iterations choose one place")
EACH_ITS_OWN = LEGAL.condition("moves with the iteration", "two iterations have one place")
UPDATES_ALIKE = LEGAL.condition("all updates alike", "an iteration's second update goes to another iteration's place")
FILLS_ONCE = LEGAL.condition("filled by one update", "numbers are written twice instead of added to")
FILLS_ALL = LEGAL.condition("filled as a whole", "numbers are left that no iteration writes")
FILLS_INSIDE = LEGAL.condition("filled in range", "an update out of range is left out, and a number with it")

Sum = dict[Var | None, int]
"""A sum of variables with factors; that of None is a number."""

LARGEST = 1 << 20  # of a factor
SMALL = 1 << 40  # of what is small


@dataclass(slots=True)
class _Iteration:
    """What an iteration of the map is made of.  `counters`: its position, forwards (1) or backwards (-1); `inside`:
    what it binds; `small`: what must be less than SMALL in size."""

    counters: Mapping[Var, int]
    width: Sum
    outside: Mapping[Var, ir.Exp]
    defs: dict[Var, tuple[ir.Exp, int]] = field(default_factory=dict)
    inside: set[Var] = field(default_factory=set)
    small: dict[Var, None] = field(default_factory=dict)
    sums: dict[Atom, Sum | None] = field(default_factory=dict)

    def enter(self, lam: Lambda) -> None:
        self.inside.update(p for p in lam.params if p not in self.counters)
        for s in lam.stms:
            self.inside.update(s.pat)
            self.defs.update((v, (s.exp, k)) for k, v in enumerate(s.pat))
            for inner in s.exp.lambdas():
                self.enter(inner)

    # -- places

    def sum(self, a: Atom) -> Sum | None:
        """The integer up to multiples of the width; None if it is no sum that all iterations have alike."""
        if a not in self.sums:
            self.sums[a] = None  # what loops carry leads back to itself
            self.sums[a] = self.find(a)
        return self.sums[a]

    def find(self, a: Atom) -> Sum | None:
        if a.type is not I64:
            return None
        if type(a) is Const:
            return {None: int(a.value)}
        assert type(a) is Var
        if a not in self.inside:
            return {a: 1} if a in self.width or a in self.counters else self.invariant(a)
        e, k = self.defs.get(a, (None, 0))
        found = self.linear(e)
        return self.chosen(e, k) if found is None else found

    def definition(self, a: Atom) -> ir.Exp | None:
        assert isinstance(a, Var)
        return self.defs[a][0] if a in self.defs else self.outside.get(a)

    def invariant(self, a: Var) -> Sum:
        """What comes from outside, as a sum of what that is made of."""
        found = self.linear(self.outside.get(a))
        return {a: 1} if found is None else found

    def linear(self, e: ir.Exp | None) -> Sum | None:
        match e:
            case ir.Alias(b):
                return self.sum(b)
            case ir.At(array, (i,)) if isinstance(i, Var | Const) and is_index(self.definition(array)):
                return self.sum(i)  # a place that is checked
            case ir.Op("add", (x, y)):
                return _plus(self.sum(x), self.sum(y), 1)
            case ir.Op("sub", (x, y)):
                return _plus(self.sum(x), self.sum(y), -1)
            case ir.Op("neg", (x,)):
                return _plus({}, self.sum(x), -1)
            case ir.Op("mul", (x, y)):
                if type(x) is Const:
                    x, y = y, x
                return _plus({}, self.sum(x), int(y.value)) if type(y) is Const else None
        return None

    def chosen(self, e: ir.Exp | None, k: int) -> Sum | None:
        """The `k`-th result of what says which of two a place is, up to multiples of the width."""
        match e:
            case ir.Op("mod", (x, y)):
                inner = self.sum(x)
                if inner is None or not WRAPS_AT_WIDTH(self.sum(y) == self.width):
                    return None
                if not NO_OVERFLOW(abs(inner.get(None, 0)) < SMALL):
                    return None
                # Its remainder says nothing of a sum that has wrapped around.
                self.small.update((v, None) for v in inner if v is not None and v not in self.counters)
                return inner
            case ir.Op("select", (c, x, y)):
                return self.either(c, x, y)
            case ir.If(c, then, orelse):
                return self.either(c, then.result[k], orelse.result[k])
        return None

    def either(self, cond: Atom, x: Atom, y: Atom) -> Sum | None:
        """What both are up to multiples of the width; or the one that is not for a single position, if the other is
        the same there."""
        left, right = self.sum(x), self.sum(y)
        if left is None or right is None:
            return None
        if BRANCHES_ALIKE(self.alike(left, right)):
            return left
        e, _ = self.defs.get(cond, (None, 0)) if type(cond) is Var else (None, 0)
        if not isinstance(e, ir.Op) or e.op not in ("eq", "ne") or e.args[0].type is not I64:
            return None
        zero = _plus(self.sum(e.args[0]), self.sum(e.args[1]), -1)
        if e.op == "ne":
            left, right = right, left
        for i in self.counters:
            here = _plus(left, right, -1)
            if zero is not None and here is not None and abs(zero.get(i, 0)) == 1:
                # Where the condition holds `zero` is 0, so a multiple of it may be added: such that i goes away.
                there = _plus(here, zero, -here.get(i, 0) * zero[i])
                if there is not None and self.alike(there, {}):
                    return right
        return None

    def alike(self, x: Sum, y: Sum) -> bool:
        """Whether the difference is a multiple of the width."""
        rest = _plus(x, y, -1)
        if rest is None:
            return False
        if list(self.width) == [None]:
            return set(rest) <= {None} and rest.get(None, 0) % max(1, self.width[None]) == 0
        return set(rest) <= set(self.width)

    def own(self, place: Sum) -> bool:
        """Whether no two iterations have the place in common."""
        return EACH_ITS_OWN(abs(sum(k * self.counters.get(v, 0) for v, k in place.items() if v is not None)) == 1)


def _plus(x: Sum | None, y: Sum | None, k: int) -> Sum | None:
    """x + k * y."""
    if x is None or y is None:
        return None
    out = dict(x)
    for v, n in y.items():
        out[v] = out.get(v, 0) + k * n
    if any(abs(n) >= LARGEST for v, n in out.items() if v is not None):
        return None
    return {v: n for v, n in out.items() if n}


def _updates(lam: Lambda, accs: set[Atom], out: list[ir.Atoms]) -> bool:
    """Add the places of all updates of the accumulators; False if something else is done with them."""
    for s in lam.stms:
        e = s.exp
        if accs.isdisjoint(ir.stm_free(s)):
            continue
        inner: Lambda | None = None
        match e:
            case ir.UpdateAcc(_, index):
                out.append(index)
                accs.add(s.pat[0])
                continue
            case ir.Mapping():
                inner = e.lam
                accs.update(p for p, a in zip(inner.params, e.arrays, strict=True) if a in accs)
            case ir.Loop():
                inner = e.body
                accs.update(p for p, a in zip(e.variables, e.inits, strict=True) if a in accs)
            case ir.If(_, inner, orelse):
                if not _updates(orelse, accs, out):
                    return False
            case ir.Alias():
                accs.add(s.pat[0])
                continue
            case _:
                return False
        if not _updates(inner, accs, out):
            return False
        # The accumulators among the results come from the body's in the same order.
        accs.update(v for v, r in zip(s.pat, inner.result, strict=False) if r in accs and type(v.type) is AccType)
    return True


def own_places(
    lam: Lambda, acc: Var, counters: Mapping[Var, int], width: Atom, outside: Mapping[Var, ir.Exp]
) -> list[Var] | None:
    """Whether the iterations of a map with that body and width each update the accumulator, one of its parameters, at
    places of their own: None if not, else the variables from outside that must be less than SMALL in size for this.
    `counters`: parameters that are the iteration's position, up to a small number, forwards (1) or backwards (-1).
    `outside`: what defines variables from outside."""
    size: Sum = {None: int(width.value)} if isinstance(width, Const) else {width: 1}
    iteration = _Iteration(counters, size, outside)
    iteration.enter(lam)
    updates: list[ir.Atoms] = []
    if not _updates(lam, {acc}, updates):
        return None
    for dim in range(min((len(index) for index in updates), default=0)):
        iteration.small.clear()
        iteration.sums.clear()
        places = [iteration.sum(index[dim]) for index in updates]
        first = places[0]
        alike = all(p is not None and iteration.alike(p, first) for p in places) if first is not None else False
        if first is not None and iteration.own(first) and UPDATES_ALIKE(alike):
            return list(iteration.small)
    return None


def positions(params: Sequence[Var], arrays: ir.Atoms, defs: Mapping[Var, ir.Exp]) -> dict[Var, int]:
    """The parameters of a map over these arrays that are the iteration's position, up to a small number: 1 for
    forwards, -1 for backwards."""
    out: dict[Var, int] = {}
    for p, a in zip(params, arrays, strict=True):
        e = defs.get(a) if type(a) is Var else None
        if type(e) is ir.Iota and type(e.start) is Const and type(e.step) is Const and e.start.type is I64:
            if abs(e.start.value) < SMALL and abs(e.step.value) == 1:
                out[p] = int(e.step.value)
    return out


def fills(lam: Lambda, acc: Var, counters: Mapping[Var, int], width: Atom, outside: Mapping[Var, ir.Exp]) -> bool:
    """Whether the iterations of such a map update every number of a vector once: each one, all of them in range."""
    user = next((s for s in lam.stms if acc in ir.stm_free(s)), None)  # the only one
    update = user.exp if user is not None else None
    if user is None or type(update) is not ir.UpdateAcc or len(update.index) != 1:
        return False
    if not FILLS_ONCE(user.pat[0] in lam.result):
        return False
    t, (place,) = acc.type, update.index
    assert type(t) is AccType
    if len(t.shape) != 1 or not FILLS_ALL(t.shape[0] is width):
        return False
    # A read at the same place of an array as long has been checked, or was known to be in range.
    reads = [s.exp for s in lam.stms if type(s.exp) is ir.At]
    read = [pair for e in reads for pair in zip(e.index, shape_of(e.array.type), strict=False)]
    inside = any(i is place and n is width for i, n in read)
    defs = ChainMap({s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}, dict(outside))
    match defs.get(place) if isinstance(place, Var) else None:
        case ir.At(array) if isinstance(array, Var) and is_index(defs.get(array)):
            inside |= shape_of(array.type)[0] is width
        case ir.Op("mod", (_, n)):
            inside |= n is width
    return FILLS_INSIDE(inside) and own_places(lam, acc, counters, width, outside) == []


__all__ = ["SMALL", "fills", "own_places", "positions"]
