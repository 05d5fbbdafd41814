"""What iterations add to neighbouring places becomes, for each place, a sum of what was computed for it.

    withAcc zeros (\\acc -> map (\\i -> let t = f i in acc[i + 1] += t; if i > 0 then acc[i - 1] += t) (iota n))
  becomes
    let ts = map f (iota n)
    in map (\\i -> (if 0 <= i - 1 < n then ts[i - 1] else 0)
                   + (if 0 <= i + 1 < n && i + 1 > 0 then ts[i + 1] else 0)) (iota m)

The adjoint of a stencil is a stencil: so no zeros are written first, each element is written once, and maps that read
the sum are fused with it.  Borders are for the loops (index-set splitting).  Of a vector the elements of `ts` are
computed where they are added, if they are cheap (`made_again.py`).

Note [Around the end]
~~~~~~~~~~~~~~~~~~~~~
If n iterations add to (i + c) mod n along an axis of size n, exactly one adds to a place t: (t - c) mod n, whatever c
is, so the update is a permutation and no guard is needed.  This holds for the remainder that rounds to minus infinity
(`%`, `mod`), whose values lie in 0 .. n - 1 as n > 0 where there is an iteration; not for `%%` (`rem`), which is
negative where i + c is.  c is `far + times * n` with numbers: a sum of other terms might have wrapped around 64 bits,
and a remainder by n says nothing of it then.  `if i == n - 1 then 0 else i + 1` and `if i == 0 then n - 1 else i - 1`
are the same, and so are they with another comparison that tells the first or the last iteration from all others.

Note [Cut off at the end]
~~~~~~~~~~~~~~~~~~~~~~~~~
If n iterations add to min(i + c, n - 1) along an axis of size n, with c > 0, the last place is that of the c last
iterations, too, and with c < 0 the first one, of max(i + c, 0), that of the -c first ones: these are additions by
themselves, each at one place.  Of n + k iterations, as a table with borders has, the last place is that of c + k.  Then
what they add comes after all others (`borders.py`), whose places are in range then, and need no guards.  Where n + k
is chosen only if the array has elements, it is the number wherever an element asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from futad.accs.borders import Axis, Borders
from futad.accs.made_again import Made, Part
from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Fun, Lambda, Program, Stm
from futad.core.scalarops import OPS
from futad.core.types import (
    I64,
    ZERO,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Var,
    array_of,
    elem_of,
    i64,
    zero,
)
from futad.legality import Legality
from futad.optimise.remat.policy import Policy
from futad.rewrite.strategy import with_lambdas
from futad.target import Target

LEGAL = Legality(
    "gathers",
    "what iterations add to neighbouring places is summed place by place",
    worth="the heat equation's gradient 1.20 to 0.87 ms: `benchmarks/without.py gathers heat`",
)
EACH_LOOP = LEGAL.condition("each loop moves one axis", "of several iterations that add to one place one is seen")
ONE_SIZE = LEGAL.condition(
    "modulus, width and axis are one size", "a place around the end is that of another iteration"
)
NOT_WRAPPED = LEGAL.condition("sums do not wrap", "the remainder of a sum beyond 64 bits is that of another place")
CUT_OFF = LEGAL.condition("cut off at the ends", "what is added at an end is added at another place")
OTHER_END = LEGAL.condition("from an end to the other", "two iterations add to one place, of which one is seen")
NOT_EMPTY = LEGAL.condition("as many where there are elements", "elements ask iterations that are not there")
KNOWN_OUTSIDE = LEGAL.condition("branches known outside", "a place asks another iteration for what it does not know")

MOST = 6  # additions
FARTHEST = 64  # places between an iteration's own and one that it adds to
GUARDS = 8  # operations by which an addition is left out
LARGEST = 1 << 31  # of numbers in sums of places


_Sources = list[tuple[Atom, list[Atom]]]  # iterations that add to a place, and what has to hold for each


@dataclass(slots=True)
class _Level:
    """A map around the additions.  `counters`: parameters that are its iterations' numbers."""

    width: Atom
    counters: set[Var]


@dataclass(slots=True, frozen=True)
class _Place:
    """Along an axis: the iteration's number of a map, `far` places on, if `around` from the last to the first one; so
    many iterations that would add before it add at its beginning (`low`), after it at its end (`high`)."""

    level: int
    far: int
    around: bool = False
    low: int = 0
    high: int = 0

    @property
    def cut(self) -> bool:
        return self.low + self.high > 0


@dataclass(slots=True, frozen=True)
class _Sum:
    """`i + far + times * n`: i the iteration's number of a map, or zero; n the size of an axis."""

    level: int | None
    far: int
    times: int = 0


@dataclass(slots=True)
class _Addition:
    """What is added: its place, its value (of the innermost map, later an array of a map further out), and the
    branches that it is made in."""

    index: ir.Atoms
    value: Atom
    guards: tuple[tuple[Atom, bool], ...] = ()


@dataclass(slots=True)
class _Taken:
    """The statements of a scope without the additions to an accumulator, and what that is in the `end`."""

    end: Atom
    stms: list[Stm] = field(default_factory=list)
    additions: list[_Addition] = field(default_factory=list)


@dataclass(slots=True)
class _Gathers:
    policy: Policy
    defs: dict[Var, ir.Exp] = field(default_factory=dict)
    levels: list[_Level] = field(default_factory=list)
    bound: set[Var] = field(default_factory=set)
    """What is known inside of the maps only."""
    made: Made | None = None
    """The innermost map, without the additions."""
    single: dict[Atom, Atom] = field(default_factory=dict)
    """What the innermost map computes an array's elements as."""
    rows: dict[Atom, Atom] = field(default_factory=dict)  # the outermost one
    parts: dict[Atom, tuple[Atom, Part]] = field(default_factory=dict)
    """Of arrays whose elements are computed where they are added what these are made of."""
    shape: tuple[Atom, ...] = ()
    """The sizes of the array."""
    apart: bool = False
    """Whether what is added at the ends is added afterwards."""

    # -- scopes

    def lam(self, lam: Lambda, again: bool = False) -> Lambda:
        """The scope rewritten, inner scopes first; the same object if nothing applied.  `again`: it may run again."""
        out: list[Stm] = []
        for stm in lam.stms:
            lams = stm.exp.lambdas()
            if lams:
                inside = again or not isinstance(stm.exp, ir.If | ir.WithAcc)
                new = [self.lam(inner, inside) for inner in lams]
                if any(a is not b for a, b in zip(lams, new, strict=True)):
                    stm = Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs)
            if len(stm.pat) == 1:
                self.defs[stm.pat[0]] = stm.exp
            done = self.with_acc(stm, stm.exp, again) if type(stm.exp) is ir.WithAcc else None
            out += done or [stm]
        same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
        return lam if same else Lambda(lam.params, tuple(out), lam.result)

    def with_acc(self, stm: Stm, e: ir.WithAcc, again: bool) -> list[Stm] | None:
        """The statements in place of the scope of an accumulator; None if it is another one, or does not pay: a vector
        that is added to once is better added to while what is added is in the cache, unless that is computed again."""
        if len(e.arrays) != 1 or e.op != "add":
            return None
        (array,), (acc,) = e.arrays, e.lam.params
        t = array.type
        if not isinstance(t, ArrayType) or not t.elem.is_float:
            return None
        self.levels, self.made, self.shape = [], None, t.shape
        found = self.taken(e.lam, acc)
        if found is None or not 0 < len(found.additions) <= MOST or not 0 < len(self.levels) == len(t.shape):
            return None
        places = [self.place(a.index, t.shape) for a in found.additions]
        known = [p for p in places if p is not None]
        if len(known) < len(places) or len({tuple(p) for p in known}) < 2 and not any(p.cut for p in known[0]):
            return None
        axes = [(p, n) for q in known for p, n in zip(q, t.shape, strict=True)]
        self.apart = any(p.cut and self.levels[p.level].width is not n for p, n in axes)
        guarded = any(p.around for p, _ in axes) or any(a.guards for a in found.additions)
        if guarded if self.apart else sum(p.low + p.high for p, _ in axes) > MOST:
            return None
        self.bound = _bound(e.lam) - {v for s in found.stms for v in s.pat}
        near = again and len(t.shape) == 1  # in loops vectors of what is added stay in a near cache
        self.parts = {} if near or self.apart else self.made_again(found)
        if len(t.shape) == 1 and not again and not self.parts:
            return None
        b = Builder()
        b.extend(found.stms)
        for v, r in zip(stm.pat[1:], e.lam.result[1:], strict=True):
            b.add(Stm((v,), ir.Alias(r)))
        try:
            total = self.gathered(b, array, found.additions, known)
            for a, place in zip(found.additions, known, strict=True) if self.apart else ():
                total = self.borders(b, place).added(b, total, a.value)
        except _Unknown:
            return None
        b.add(Stm((stm.pat[0],), ir.Alias(total)))
        LEGAL.fired()
        return b.stms

    def made_again(self, found: _Taken) -> dict[Atom, tuple[Atom, Part]]:
        """What is added, by its arrays, if it is to be computed at each place; the maps come last and overwrite
        nothing, so what they read is as it was."""
        arrays = {a.value: self.single.get(a.value) for a in found.additions}
        last = found.stms[-1:]
        if self.made is None or not last or not all(v in last[0].pat for v in arrays):
            return {}
        if any(s.exp.consumes() for s in ir.statements(last)):
            return {}
        parts = self.made.parts({v: self.rows[a] for a, v in arrays.items() if v is not None}, self.policy)
        return {} if parts is None else {a: (v, parts[v]) for a, v in arrays.items() if v is not None}

    # -- additions

    def taken(self, lam: Lambda, acc: Var) -> _Taken | None:
        """The scope without its additions to an accumulator; None if it does something else with it."""
        out = _Taken(acc)
        for s in lam.stms:
            e = s.exp
            if out.end not in ir.stm_free(s):
                out.stms.append(s)
            elif type(e) is ir.Alias:
                out.end = s.pat[0]
            elif type(e) is ir.UpdateAcc and isinstance(e.value.type, Prim):
                out.additions.append(_Addition(e.index, e.value))
                out.end = s.pat[0]
            elif type(e) is ir.If:
                if not self.branch(s, e, out):
                    return None
            elif not isinstance(e, ir.Map | ir.Fused) or not self.mapped(s, e, out):
                return None
        return out

    def branch(self, s: Stm, e: ir.If, out: _Taken) -> bool:
        """Take the additions out of a branch, which gives the values that it computes for them."""
        assert isinstance(out.end, Var)
        then, orelse = self.taken(e.then, out.end), self.taken(e.orelse, out.end)
        if then is None or orelse is None or then.end not in e.then.result:
            return False
        at = e.then.result.index(then.end)
        if e.orelse.result[at] is not orelse.end:
            return False
        keep = [k for k in range(len(s.pat)) if k != at]
        pat = [s.pat[k] for k in keep]
        results = [[lam.result[k] for k in keep] for lam in (e.then, e.orelse)]
        for here, (side, holds) in enumerate(((then, True), (orelse, False))):
            bound = {v for t in side.stms for v in t.pat}
            given: dict[Atom, Var] = {}
            for a in side.additions:
                if a.value in bound:  # the branch gives it; where that is not taken, zero is added
                    if a.value not in given:
                        pat.append(Var("added", a.value.type))
                        results[here].append(a.value)
                        results[1 - here].append(zero(elem_of(a.value.type)))
                    added = given.setdefault(a.value, pat[-1])
                    out.additions.append(_Addition(a.index, added, a.guards))
                else:
                    out.additions.append(_Addition(a.index, a.value, ((e.cond, holds), *a.guards)))
        if pat:
            sides = [Lambda((), tuple(t.stms), tuple(r)) for t, r in zip((then, orelse), results, strict=True)]
            out.stms.append(Stm(tuple(pat), ir.If(e.cond, *sides), s.attrs))
        out.end = s.pat[at]
        return bool(pat) or all(_is_place(t, side) for side in (then, orelse) for t in side.stms)

    def mapped(self, s: Stm, e: ir.Map | ir.Fused, out: _Taken) -> bool:
        """Take the additions out of a map, which gives their values instead, if there are no others around it."""
        if out.end not in e.arrays or out.additions:
            return False
        arg = e.arrays.index(out.end)
        at = [k for k, a in enumerate(e.arrays) if type(a.type) is AccType].index(arg)
        counters = {p for p, a in zip(e.lam.params, e.arrays, strict=True) if self.counts(a)}
        self.levels.append(_Level(e.width, counters))
        found = self.taken(e.lam, e.lam.params[arg])
        if found is None:
            return False
        assert found.end is e.lam.result[at], "an accumulator that a map is given is a result"
        values: dict[Atom, Var] = {}
        for a in found.additions:
            if a.value not in values:
                values[a.value] = Var("added", array_of(a.value.type, e.width))
            a.value = values[a.value]
        keep = [k for k in range(len(e.arrays)) if k != arg]
        result = [r for k, r in enumerate(e.lam.result) if k != at]
        lam = Lambda(tuple([e.lam.params[k] for k in keep]), tuple(found.stms), (*result, *values))
        own = Lambda(lam.params, lam.stms, tuple(result))
        inputs = tuple([None if self.counts(e.arrays[k]) else e.arrays[k] for k in keep])
        if self.made is None:
            self.made = Made(((own, inputs),))
            self.single = {array: v for v, array in values.items()}
        else:
            self.made = self.made.inside(own, inputs)
            self.single = {array: self.single[v] for v, array in values.items() if v in self.single}
        self.rows = {array: v for v, array in values.items()}
        pat = (*[v for k, v in enumerate(s.pat) if k != at], *values.values())
        out.stms.append(Stm(pat, e.over(tuple([e.arrays[k] for k in keep]), lam), s.attrs))
        out.additions += found.additions
        out.end = s.pat[at]
        return True

    def counts(self, a: Atom) -> bool:
        """Whether an array has 0, 1, 2, ..."""
        d = self.defs.get(a) if type(a) is Var else None
        return type(d) is ir.Iota and d.start is ZERO and type(d.step) is Const and d.step.value == 1

    # -- places

    def place(self, index: ir.Atoms, shape: Sequence[Atom]) -> list[_Place] | None:
        """For each axis the map that moves along it, and how far from its iteration's number."""
        out = [self.moved(i, n) for i, n in zip(index, shape, strict=True)]
        found = [p for p in out if p is not None]
        if len(found) < len(out) or any(abs(p.far) > FARTHEST for p in found):
            return None
        return found if EACH_LOOP(sorted(p.level for p in found) == [*range(len(self.levels))]) else None

    def moved(self, a: Atom, n: Atom) -> _Place | None:
        e = self.defs.get(a) if type(a) is Var else None
        if type(e) is ir.At and self.counts(e.array) and isinstance(e.index[0], Var | Const):
            return self.moved(e.index[0], n)  # a place that is checked
        if type(e) is ir.Op and e.op == "mod":
            return self.around(e, n)
        if type(e) is ir.Op and e.op == "select":
            return self.to_the_other_end(e, n)
        if type(e) is ir.Op and e.op in ("min", "max"):
            return self.cut_off(e, n)
        s = self.sum(a, n)
        return _Place(s.level, s.far) if s is not None and s.level is not None and not s.times else None

    def sum(self, a: Atom, n: Atom) -> _Sum | None:
        """The integer as a sum, n the size of the axis; None if it is another one, or might wrap around 64 bits."""
        if a.type is not I64:
            return None
        if type(a) is Const:
            return _Sum(None, int(a.value))
        if a is n:
            return _Sum(None, 0, 1)
        for k, level in enumerate(self.levels):
            if a in level.counters:
                return _Sum(k, 0)
        e = self.defs.get(a)
        if type(e) is not ir.Op or e.op not in ("add", "sub"):
            return None
        x, y = (self.sum(b, n) for b in e.args)
        if x is None or y is None or y.level is not None and (e.op == "sub" or x.level is not None):
            return None
        sign = 1 if e.op == "add" else -1
        far, times = x.far + sign * y.far, x.times + sign * y.times
        if not NOT_WRAPPED(abs(far) < LARGEST and abs(times) <= 2):
            return None
        return _Sum(y.level if x.level is None else x.level, far, times)

    def around(self, e: ir.Op, n: Atom) -> _Place | None:
        """Note [Around the end]"""
        s = self.sum(e.args[0], e.args[1])
        if s is None or s.level is None:
            return None
        if not ONE_SIZE(e.args[1] is n and self.levels[s.level].width is n):
            return None
        far = s.far
        if type(n) is Const and n.value > 0:
            half = n.value // 2
            far = (far + half) % n.value - half
        return _Place(s.level, far, around=True)

    def to_the_other_end(self, e: ir.Op, n: Atom) -> _Place | None:
        """The next or the last place, at the end the first or the last one.  Note [Around the end]"""
        border = self.border(e.args[0], n)
        if border is None:
            return None
        level, last, holds = border
        there, elsewhere = (self.sum(a, n) for a in (e.args[1:] if holds else e.args[:0:-1]))
        far = 1 if last else -1
        if there is None or elsewhere != _Sum(level, far):
            return None
        other = _Sum(None, 0) if last else self.size(n, -1)
        if not OTHER_END(there in (other, replace(self.size(n, far, -far), level=level))):
            return None
        return _Place(level, far, around=True) if ONE_SIZE(self.levels[level].width is n) else None

    def cut_off(self, e: ir.Exp | None, n: Atom) -> _Place | None:
        """Note [Cut off at the end]"""
        ends: set[str] = set()
        while type(e) is ir.Op and e.op in ("min", "max"):
            own, end = e.args if self.fixed(e.args[1], n) else e.args[::-1]
            if not CUT_OFF(self.sum(end, n) == (self.size(n, -1) if e.op == "min" else _Sum(None, 0))):
                return None
            ends.add(e.op)
            s = self.sum(own, n)
            if s is not None:
                if s.level is None or s.times or (more := self.more(self.levels[s.level], n)) is None:
                    return None
                low, high = max(0, -s.far), max(0, more + s.far)
                return _Place(s.level, s.far, low=low if "max" in ends else 0, high=high if "min" in ends else 0)
            e = self.defs.get(own) if type(own) is Var else None
        return None

    def more(self, level: _Level, n: Atom) -> int | None:
        """How many iterations more than the axis' size a map has where the array has elements; None if not known."""
        width = level.width
        e = self.defs.get(width) if type(width) is Var else None
        if type(e) is ir.Op and e.op == "select" and NOT_EMPTY(self.positive(e.args[0])):
            width = e.args[1]
        s, own = self.sum(width, n), self.size(n, 0)
        return s.far - own.far if s is not None and s.level is None and s.times == own.times else None

    def positive(self, cond: Atom) -> bool:
        """Whether a condition says no more than that sizes of the array are positive."""
        e = self.defs.get(cond) if type(cond) is Var else None
        if type(e) is ir.Op and e.op == "and":
            return all(map(self.positive, e.args))
        return type(e) is ir.Op and e.op == "lt" and e.args[0] is ZERO and e.args[1] in self.shape

    def fixed(self, a: Atom, n: Atom) -> bool:
        """Whether it is the same in all iterations."""
        s = self.sum(a, n)
        return s is not None and s.level is None

    def border(self, cond: Atom, n: Atom) -> tuple[int, bool, bool] | None:
        """What tells the first or the last iteration of a map from all others: the map, whether it is the last one,
        and whether the condition holds there."""
        e = self.defs.get(cond) if type(cond) is Var else None
        if type(e) is not ir.Op or e.op not in ("eq", "ne", "lt", "le"):
            return None
        x, y = (self.sum(a, n) for a in e.args)
        if x is None or y is None or (x.level is None) is (y.level is None):
            return None
        own, other = (y, x) if x.level is None else (x, y)
        assert own.level is not None
        at = _Sum(None, other.far - own.far, other.times - own.times)  # what the number is compared with
        if e.op in ("eq", "ne"):
            ends, holds = (_Sum(None, 0), self.size(n, -1)), [e.op == "eq"] * 2
        else:  # it is less, or not less
            ends, holds = (_Sum(None, 1), self.size(n, -1)), [own is x, own is not x]
            at = replace(at, far=at.far + ((e.op == "le") is (own is x)))
        for last, end in enumerate(ends):
            if at == end:
                return own.level, bool(last), holds[last]
        return None

    def size(self, n: Atom, far: int, times: int = 1) -> _Sum:
        """`times * n + far`"""
        return _Sum(None, far + times * int(n.value)) if type(n) is Const else _Sum(None, far, times)

    # -- sums

    def gathered(self, b: Builder, base: Atom, additions: list[_Addition], places: list[list[_Place]]) -> Atom:
        """The array with all that is added, if borders are apart but at the ends."""

        def axis(c: Builder, row: Atom | None, found: list[list[_Sources]]) -> Atom:
            k = len(found)
            if k == len(self.shape):
                return self.element(c, row, additions, places, found)

            def body(inner: Builder, i: Var, *rows: Var) -> list[Atom]:
                own = [self.sources(inner, i, self.shape[k], place[k]) for place in places]
                return [axis(inner, rows[0] if rows else None, [*found, own])]

            arrays = [c.let(ir.Iota(self.shape[k], ZERO, i64(1)), "is"), *([] if row is None else [row])]
            (made,) = c.map_(body, *arrays)
            return made

        return axis(b, None if self.zeros(base) else base, [])

    def zeros(self, a: Atom) -> bool:
        d = self.defs.get(a) if type(a) is Var else None
        while type(d) is ir.Replicate and type(d.value) is Var:
            d = self.defs.get(d.value)
        return type(d) is ir.Replicate and type(d.value) is Const and d.value is zero(d.value.type)

    def element(
        self,
        b: Builder,
        total: Atom | None,
        additions: list[_Addition],
        places: list[list[_Place]],
        found: list[list[_Sources]],
    ) -> Atom:
        """What is at a place in the end: what was there, and what each addition adds, of the iterations that are found
        along each axis for it."""
        for a, place, *axes in zip(additions, places, *found, strict=True):
            for sources in product(*axes):
                numbers = {p.level: q for p, (q, _) in zip(place, sources, strict=True)}
                conds = [c for _, own in sources for c in own]
                steps = {p: numbers[k] for k, level in enumerate(self.levels) for p in level.counters}
                left = [GUARDS]
                for cond, holds in a.guards:
                    taken = self.known(b, cond, steps, left)
                    conds.append(taken if holds else b.op("not", taken))
                x = self.there(b, conds, a.value, tuple([numbers[k] for k in range(len(self.levels))]))
                total = x if total is None else b.op("add", total, x, hint="sum")
        assert total is not None
        return total

    def sources(self, b: Builder, i: Atom, n: Atom, p: _Place) -> _Sources:
        """The iterations of a map that add to the place `i` along an axis, and what has to hold for each."""
        q = b.op("sub", i, i64(p.far)) if p.far else i
        if p.around:
            return [(b.op("mod", q, n) if p.far else q, [])]
        more = self.more(self.levels[p.level], n)
        conds: list[Atom] = [b.op("le", ZERO, q)] if p.far > 0 else []
        if more is None or more + p.far < 0:
            conds.append(b.op("lt", q, self.known(b, self.levels[p.level].width, {}, [GUARDS])))
        out: _Sources = [(q, conds)]
        last = b.op("sub", n, i64(1)) if p.high and not self.apart else ZERO
        for k in range(0 if self.apart else p.high):
            q = b.op("sub", last, i64(k)) if k else last
            out.append((q, [b.op("le", last, i), *([b.op("le", ZERO, q)] if k else [])]))
        for k in range(0 if self.apart else p.low):
            out.append((i64(k), [b.op("le", i, ZERO), *([b.op("lt", i64(k), n)] if k else [])]))
        return out

    def borders(self, b: Builder, place: list[_Place]) -> Borders:
        """What adds at the ends."""
        axes: dict[int, Axis] = {}
        for n, p in zip(self.shape, place, strict=True):
            width = self.known(b, self.levels[p.level].width, {}, [GUARDS])
            axes[p.level] = Axis(width, n, p.far, p.low > 0, p.high > 0)
        return Borders([axes[k] for k in sorted(axes)], [p.level for p in place])

    def there(self, b: Builder, conds: list[Atom], values: Atom, index: ir.Atoms) -> Atom:
        """An element if all conditions hold, else zero."""

        def value(c: Builder) -> Atom:
            part = self.parts.get(values)
            if part is None or self.made is None:
                return c.at(values, *index)
            return self.made.inline(c, *part, index)

        if not conds:
            return value(b)
        ok = conds[0]
        for cond in conds[1:]:
            ok = b.op("and", ok, cond)
        element = b.body(lambda c: [value(c)])
        return b.emit(ir.If(ok, element, Lambda((), (), (zero(elem_of(values.type)),))), "x")[0]

    def known(self, b: Builder, a: Atom, steps: Mapping[Var, Atom], left: list[int]) -> Atom:
        """The scalar in other iterations, by their numbers; raises _Unknown if it is not made of these."""
        if type(a) is Const:
            return a
        assert type(a) is Var
        if a in steps:
            return steps[a]
        if a not in self.bound:
            return a
        e = self.defs.get(a)
        if type(e) is ir.Op and not OPS[e.op].can_fail and left[0] > 0:
            left[0] -= 1
            return b.op(e.op, *[self.known(b, x, steps, left) for x in e.args])
        if not KNOWN_OUTSIDE(False):
            raise _Unknown
        return a


def _is_place(s: Stm, scope: _Taken) -> bool:
    """Whether a statement does no more than say where is added: it fails at no place that is found."""
    return type(s.exp) is ir.Op and any(s.pat[0] in a.index for a in scope.additions)


class _Unknown(Exception):
    """A scalar is not known outside."""


def _bound(lam: Lambda) -> set[Var]:
    """All that is bound in a scope and those inside."""
    out = set(lam.params)
    for s in lam.stms:
        out.update(s.pat)
        for inner in s.exp.lambdas():
            out |= _bound(inner)
    return out


def gathers(program: Program, target: Target) -> Program:
    """The program with accumulators that maps add to at neighbouring places, of one array each, as maps."""
    policy = Policy(target)
    funs: dict[str, Fun] = {}
    for name, f in program.funs.items():
        body = _Gathers(policy).lam(f.body)
        same = body is f.body
        funs[name] = f if same else Fun(f.name, body, f.num_sizes, f.ret, f.entry, f.attrs, f.span)
    return program if all(funs[n] is f for n, f in program.funs.items()) else Program(funs, program.name)


__all__ = ["gathers"]
