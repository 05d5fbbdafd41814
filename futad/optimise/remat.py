"""What a return sweep would compute again, the forward sweep saves, where that pays.

The return sweep of a loop executes each iteration's statements again, on the loop variables that the forward sweep has
saved.  Reverse mode notes which two loops these are (`core/sweeps.py`).  Equal values of their bodies are found by
value numbers (`values.py`), and are of three kinds:

    loop x for i < n do hs[i] = x; p = matmul x w; ys = map (.. exp ..) p; (loop x for k < m do f x)
    loop .. for j < n do let i = n-1-j; x = hs[i]
                         p = matmul x w                      a product
                         map (.. exp ..) ..                  costly scalars of a map, or of the iterations
                         loop (x, es) for k < m do es[k] = e x; f x       a loop, and what it saves for its return sweep
      -->
    loop .. for i < n do hs[i] = x; ps[i] = p; ..; (loop (x, es) for k < m do es[i,k] = e x; f x)
    loop .. for j < n do let i = n-1-j; ... ps[i] ... es[i] ...

Note [Pays]
A value saved costs a store, and a load from far memory: what is computed again must cost `DEAR` operations for each.
Memory may grow by a factor of `MOST` of what there is of the same sizes: what iterations save of the loop variables
anyway, and, for scalars, an array of the loop's size inside another loop, whose iterations use it again.  (For an
outermost loop it would be added to the largest arrays there are.)  In a map that few threads do, too, each uses its
memory again.  Loops are for few threads: devices have less memory.
A budget counts what is saved, so loops that have one are not noted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from futad.core import ir
from futad.core.alias import Aliases, aliases, consumed_roots
from futad.core.ir import Lambda, Program, Stm
from futad.core.scalarops import OPS
from futad.core.sweeps import forward_of, return_of, unmarked
from futad.core.types import I64, ZERO, ArrayType, Atom, Const, Type, Var, array_of, elem_of, shape_of
from futad.legality import Legality
from futad.optimise.subst import Subst
from futad.optimise.values import Table, Values

LEGAL = Legality(
    "remat",
    "a return sweep reads what the forward sweep saves for it in place of computing it again",
    worth="D-LSTM on c: the derivative takes 1.9 times the objective's time in place of 2.7; LSTM on a device: 117 "
    "launches in place of 292",
)
BEFORE = LEGAL.condition("nothing between needed", "a statement moves before one that binds what it uses")
SAME_ITERATIONS = LEGAL.condition("as many iterations", "the return sweep wants iterations that there were none")
LAST_FIRST = LEGAL.condition("last iteration first", "the return sweep's index is not that of the iteration it undoes")
AT_ITERATION = LEGAL.condition(
    "saved at the iteration", "the history's row is not the value of the iteration of that number"
)
CARRIED = LEGAL.condition("history carried on", "the array left at the end is not the one the iterations have saved in")
OUTSIDE = LEGAL.condition("sizes known outside", "the memory for all iterations is had before the loop")
FAILS_NOT = LEGAL.condition("fails not", "a check of the forward sweep's loop would be gone")
SAME = LEGAL.condition("same results", "the forward sweep would go on with other values")
SAVING = LEGAL.condition("other variables save", "what the loop of the return sweep computes besides would be lost")
EACH_ROW = LEGAL.condition("each row saved", "rows that the loop does not save are not what they were before it")
SAVES_ALONE = LEGAL.condition("saves alone", "another use of what is saved would read other memory")
KNOWN = LEGAL.condition("known in the forward sweep", "the loop uses what only the return sweep has")
THERE = LEGAL.condition("not overwritten", "the loop would read what was overwritten since")
OWN_OVERWRITTEN = LEGAL.condition("own arrays overwritten", "two statements of the loop would overwrite one array")
READ_ONLY = LEGAL.condition("read only", "what is saved would be overwritten")

MOST = 8  # times as much memory as there is
DEAR = 8  # cost of scalar operations for each value saved
CACHED = 1 << 20  # bytes that are still in a cache when the return sweep reads them


def pays(cost: int, saved: int, room: int) -> bool:
    """Whether to save so many values, each of which takes operations of this cost to compute again, where there are
    `room` already (Note [Pays])."""
    return 0 < saved <= MOST * room and cost >= DEAR


def remat(program: Program, few: bool) -> Program:
    """Let forward sweeps save what return sweeps would compute again; `few`: on one thread, or few."""
    return ir.map_bodies(program, lambda body: unmarked(saved(body, few, Sweeps)))


def saved(lam: Lambda, few: bool, kind: type[Sweeps]) -> Lambda:
    """The body of a function whose sweeps save what those of this kind do."""
    while (new := _scope(lam, {}, aliases(lam), False, False, few, kind)) is not lam:
        lam = new
    return lam


def _scope(
    lam: Lambda, defs: dict[Var, ir.Exp], alias: Aliases, inside: bool, mapped: bool, few: bool, kind: type[Sweeps]
) -> Lambda:
    """The scope with a pair of sweeps rewritten, those in it first.  `defs`: single definitions so far; `inside` a
    loop, or `mapped`: inside a map."""
    defs = defs | {s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}
    stms: list[Stm] = []
    for s in lam.stms:
        more, row = inside or type(s.exp) is ir.For, mapped or isinstance(s.exp, ir.Mapping)
        scope = partial(_scope, defs=defs, alias=alias, inside=more, mapped=row, few=few, kind=kind)
        stms.append(ir.map_scopes(s, scope))
    if not all(a is b for a, b in zip(stms, lam.stms, strict=True)):
        # What is new in them is not in the aliases: the next round looks at this scope.
        return Lambda(lam.params, tuple(stms), lam.result)
    for j, second in enumerate(stms):
        mark = return_of(second)
        for i in [i for i in range(j - 1, -1, -1) if mark is not None and forward_of(stms[i]) == mark]:
            sweeps = kind.of(stms[i], second, defs, alias)
            new = None if sweeps is None else sweeps.rewritten(inside, mapped, few)
            if sweeps is None or new is None:
                continue
            later = {v for s in stms[i:j] for v in s.pat}
            if BEFORE(not later & Lambda((), tuple(new[:-1]), ()).free().keys()):
                sweeps.said()
                return Lambda(lam.params, (*stms[:i], *new[:-1], *stms[i + 1 : j], new[-1], *stms[j + 1 :]), lam.result)
    return lam


def _iterations_back(r: ir.For, defs: dict[Var, ir.Exp]) -> list[Var]:
    """The index of the forward sweep's iteration in the return sweep's body: bound - 1 - its own iteration."""
    counter = r.body.params[0]
    out: list[Var] = []
    for s in r.body.stms:
        e = s.exp
        if type(e) is ir.Op and e.op == "sub" and e.args[1] is counter:
            base, more = _plus(e.args[0], defs)
            bound, rest = _plus(r.bound, defs)
            if base is bound and LAST_FIRST(more == rest - 1):
                out.append(s.pat[0])
    return out


def _plus(a: Atom, defs: dict[Var, ir.Exp]) -> tuple[Var | None, int]:
    """The integer as another one, if it is not known, and a constant."""
    more = 0
    while type(a) is Var and type(e := defs.get(a)) is ir.Op and e.op in ("add", "sub") and type(e.args[1]) is Const:
        more += e.args[1].value if e.op == "add" else -e.args[1].value
        a = e.args[0]
    return (None, more + a.value) if type(a) is Const else (a, more)


def _as_i64(lam: Lambda, counters: Sequence[Var]) -> list[Var]:
    """What is the i64 of these."""
    if counters and counters[0].type is I64:
        return [*counters]
    conversions = [s for s in lam.stms if type(s.exp) is ir.Op and s.exp.op == "to_i64" and s.exp.args[0] in counters]
    return [s.pat[0] for s in conversions]


@dataclass(slots=True, eq=False)
class _Match:
    """A loop of the forward sweep's iterations, by its place, and the return sweep's that runs it again: for each
    variable of the first that of the second (None: the second has no use for it), and the variables of the second that
    save."""

    forward: int
    back: int
    same: list[int | None]
    saving: list[int] = field(default_factory=list)


class Sweeps:
    """The forward and the return sweep of a loop, and what is put into them."""

    numbers = Values

    def __init__(
        self, first: Stm, second: Stm, forward: list[Var], back: list[Var], defs: dict[Var, ir.Exp], alias: Aliases
    ) -> None:
        """`forward` and `back`: the numbers of the iterations in both, as i64s; `defs` what is defined around them."""
        assert type(first.exp) is ir.For and type(second.exp) is ir.For
        self.first, self.second, self.alias = first, second, alias
        self.f, self.r = first.exp, second.exp
        self.own = [{*e.body.params, *[v for s in e.body.stms for v in s.pat]} for e in (self.f, self.r)]
        table = Table()
        self.forward, self.back = self.numbers(table, forward, defs), self.numbers(table, back, defs)
        self.forward.forwards(self.f.body.params[0])
        iteration = _iterations_back(self.r, defs)[0]
        (undone,) = [s for s in self.r.body.stms if iteration in s.pat]
        assert type(undone.exp) is ir.Op
        self.back.backwards(self.r.body.params[0], iteration, undone.exp.args[0])
        self.at, self.index = forward[0], back[0]
        self.rows: list[ArrayType] = []  # of what is saved already, in each iteration
        self.size: Atom | None = None  # of what is saved
        self.before: list[Stm] = []
        self.stms = [[[s] for s in e.body.stms] for e in (self.f, self.r)]
        self.kept: list[tuple[Var, Var, Var, Var]] = []  # start, in an iteration, after it, at the end
        self._note()

    @classmethod
    def of(cls, first: Stm, second: Stm, defs: dict[Var, ir.Exp], alias: Aliases) -> Sweeps | None:
        """The two loops, if each iteration of the second has the number of one of the first."""
        f, r = first.exp, second.exp
        if type(f) is not ir.For or type(r) is not ir.For or not SAME_ITERATIONS(f.bound is r.bound):
            return None
        if not set(first.pat) & ir.stm_free(second).keys():
            return None
        forward, back = _as_i64(f.body, f.body.params[:1]), _as_i64(r.body, _iterations_back(r, defs))
        return cls(first, second, forward, back, defs, alias) if forward and back else None

    def _note(self) -> None:
        """Number what the sweeps compute; find what the forward sweep saves."""
        f = self.f
        for s in f.body.stms:
            self.forward.note(s)
        for v, p, result in zip(self.first.pat, f.body.params[1:], f.body.result, strict=True):
            for s in f.body.stms:
                e = s.exp
                if type(e) is not ir.Update or e.array is not p or len(e.index) != 1:
                    continue
                here = self.forward.atom(e.index[0]) == self.forward.iteration
                if CARRIED(s.pat[0] is result) and AT_ITERATION(here):
                    self.back.saved[v] = self.forward.atom(e.value)
                    self.size = shape_of(v.type)[0]
                    if isinstance(e.value.type, ArrayType):
                        self.rows.append(e.value.type)
        for s in self.r.body.stms:
            self.back.note(s)

    def said(self) -> None:
        """Count a pair of sweeps that was rewritten."""
        LEGAL.fired()

    def rewritten(self, inside: bool, mapped: bool, few: bool) -> list[Stm] | None:
        """The two loops with what goes before them; None if there is nothing to save."""
        found = self.products() or self.scalars(None if inside else CACHED) or few and self.loops()
        found = found or few and (inside or mapped) and self.own_scalars()
        return self.result() if found else None

    # -- what is saved

    def room_for(self, t: Type) -> Var:
        """Rows of this type for each iteration, as the forward sweep's body has them."""
        if self.size is None:
            self.size = Var("iterations", I64)
            self.before.append(Stm((self.size,), ir.Op("max", (self.f.bound, ZERO))))
        whole = array_of(t, self.size)
        start, now, then, final = (Var("saved", whole) for _ in range(4))
        self.before.append(Stm((start,), ir.Scratch(elem_of(whole), shape_of(whole))))
        self.kept.append((start, now, then, final))
        return now

    def save(self, at: int, row: Var) -> Var:
        """Save a row that statement `at` of the forward sweep binds; the rows of all iterations."""
        now = self.room_for(row.type)
        *_, then, final = self.kept[-1]
        self.stms[0][at].append(Stm((then,), ir.Update(now, (self.at,), row)))
        return final

    def row(self, v: Var, final: Var) -> Stm:
        """What binds `v` to the row of the return sweep's iteration."""
        return Stm((v,), ir.At(final, (self.index,), None))

    def read(self, v: Var, final: Var, at: int) -> list[Stm]:
        """The same in place of what statement `at` of the return sweep binds."""
        row, root = Var("saved", v.type), self.alias.root(v)
        others = [s.exp for k, s in enumerate(self.r.body.stms) if k != at]
        consumed = v in self.r.body.result or any(root in consumed_roots(e, self.alias) for e in others)
        return [self.row(row, final), Stm((v,), ir.Alias(row) if READ_ONLY(not consumed) else ir.Copy(row))]

    def outside(self, t: Type) -> bool:
        """Whether the sizes are none that an iteration computes."""
        return OUTSIDE(not any(a in own for own in self.own for a in shape_of(t)))

    def result(self) -> list[Stm]:
        """The statements before the loops, and the loops."""
        f, r = self.f, self.r
        start, now, then, final = zip(*self.kept, strict=True)
        stms = tuple([s for part in self.stms[0] for s in part])
        lam = Lambda((*f.body.params, *now), stms, (*f.body.result, *then))
        first = Stm((*self.first.pat, *final), ir.For(f.bound, (*f.inits, *start), lam), self.first.attrs)
        lam = Lambda(r.body.params, tuple([s for part in self.stms[1] for s in part]), r.body.result)
        return [*self.before, first, Stm(self.second.pat, ir.For(r.bound, r.inits, lam), self.second.attrs)]

    # -- products

    def products(self) -> bool:
        """Products of saved loop variables: of as many rows, so that memory grows by the ratio of columns only."""
        carried = {self.forward.atom(p) for p in self.f.body.params}
        made: dict[int, tuple[int, Var]] = {}
        for k, s in enumerate(self.f.body.stms):
            if type(s.exp) is ir.MatMul:
                made.setdefault(self.forward.atom(s.pat[0]), (k, s.pat[0]))
        final: dict[int, Var] = {}
        for k, s in enumerate(self.r.body.stms):
            e, v = s.exp, s.pat[0] if s.pat else None
            if type(e) is not ir.MatMul or v is None or (number := self.back.atom(v)) not in made:
                continue
            at, product = made[number]
            length = shape_of(e.a.type)[1]
            cost = 2 * length.value if type(length) is Const else DEAR
            if self.back.atom(e.a) in carried and pays(cost, 1, 1) and self.outside(product.type):
                if number not in final:
                    final[number] = self.save(at, product)
                self.stms[1][k] = self.read(v, final[number], k)
        return bool(final)

    # -- scalars

    def scalars(self, most: int | None) -> bool:
        """Costly scalars of maps; at most so many bytes of them."""
        if self.size is None and self.f.bound.type is not I64:
            return False
        made: dict[int, tuple[int, Var]] = {}
        for k, e in _maps(self.f):
            if OUTSIDE(e.width not in self.own[0]):
                made |= {n: (k, v) for n, v in _costly(self.forward, e).items() if n not in made}
        keys = [self.forward.table.keys[n] for n in self.back.saved.values()]
        widths = {k: e.width for k, e in _maps(self.f)}
        room = {k: self.rows_of(width) for k, width in widths.items()}
        kept = [made[key[2]] for key in keys if key[0] == "map" and key[2] in made]  # by earlier rounds
        before, taken = len(kept), sum(self.bytes_of(v.type, widths[k]) or 0 for k, v in kept)
        final: dict[int, Var] = {}
        for k, e in _maps(self.r):
            known: dict[Var, tuple[Var, Var]] = {}  # a scalar -> all iterations' rows of it, its element of one
            for n, v in _costly(self.back, e).items():
                if n not in final and n in made and pays(DEAR, before + len(final) + 1, room[made[n][0]]):
                    size = self.bytes_of(v.type, e.width)
                    if most is not None and (size is None or taken + size > most):
                        continue
                    taken += size or 0
                    final[n] = self.save_scalar(*made[n])
                if n in final:
                    known[v] = final[n], Var(v.name, v.type)
            if known:
                self.read_scalars(k, e, known)
        return bool(final)

    def rows_of(self, width: Atom) -> int:
        """How many rows of that length an iteration saves of the loop variables anyway; one at least."""
        size = width.value if type(width) is Const else 1
        names = Counter([width] if type(width) is Var else [])
        return max(1, sum(t.known_size for t in self.rows if t.unknown_sizes == names) // max(size, 1))

    def bytes_of(self, t: Type, width: Atom) -> int | None:
        """Of so many scalars in all iterations, if that is known."""
        if type(self.f.bound) is not Const or type(width) is not Const:
            return None
        return self.f.bound.value * width.value * elem_of(t).bytes

    def save_scalar(self, at: int, scalar: Var) -> Var:
        """Let a map of the forward sweep have the scalar as a result; the rows of all iterations."""
        s = self.stms[0][at][0]
        e = s.exp
        assert isinstance(e, ir.Mapping)
        row = Var(scalar.name, array_of(scalar.type, e.width))
        lam = Lambda(e.lam.params, e.lam.stms, (*e.lam.result, scalar))
        self.stms[0][at][0] = Stm((*s.pat, row), e.over(e.arrays, lam), s.attrs)
        return self.save(at, row)

    def read_scalars(self, at: int, e: ir.Mapping, known: dict[Var, tuple[Var, Var]]) -> None:
        """Let a map of the return sweep read scalars."""
        rows = [Var("saved", array_of(v.type, e.width)) for v in known]
        reads = [self.row(row, final) for row, (final, _) in zip(rows, known.values(), strict=True)]
        inner = Subst({v: element for v, (_, element) in known.items()})
        stms = tuple(inner.stms([t for t in e.lam.stms if t.pat[0] not in known]))
        params = (*e.lam.params, *[element for _, element in known.values()])
        lam = Lambda(params, stms, tuple([inner.atom(a) for a in e.lam.result]))
        s = self.r.body.stms[at]
        self.stms[1][at] = [*reads, Stm(s.pat, e.over((*e.arrays, *rows), lam), s.attrs)]

    def own_scalars(self) -> bool:
        """Costly scalars of the iterations themselves."""
        if self.size is None:
            return False
        made: dict[int, tuple[int, Var]] = {}
        for k, s in enumerate(self.f.body.stms):
            if is_costly(s.exp):
                made.setdefault(self.forward.atom(s.pat[0]), (k, s.pat[0]))
        final: dict[int, Var] = {}
        for k, s in enumerate(self.r.body.stms):
            n = self.back.atom(s.pat[0]) if is_costly(s.exp) else None
            if n in made and (n in final or pays(DEAR, len(final) + 1, len(self.back.saved))):
                if n not in final:
                    final[n] = self.save(*made[n])
                self.stms[1][k] = [self.row(s.pat[0], final[n])]
        return bool(final)

    # -- loops

    def loops(self) -> bool:
        """A loop that the return sweep runs again, for what it saves on the way."""
        if not self.rows:
            return False
        for k, s in enumerate(self.r.body.stms):
            if type(s.exp) is ir.For and (m := self.match(k)) is not None and self.loop_pays(m) and self.save_loop(m):
                return True
        return False

    def match(self, back: int) -> _Match | None:
        """The forward sweep's loop that a loop of the return sweep runs again."""
        second = self.r.body.stms[back]
        assert type(second.exp) is ir.For
        for k, s in enumerate(self.f.body.stms):
            first = s.exp
            if type(first) is not ir.For or forward_of(s) != forward_of(second) or first.bound is not second.exp.bound:
                continue
            if FAILS_NOT(not _checks(first.body)) and (m := self.same(_Match(k, back, []), first, second.exp)):
                return m
        return None

    def same(self, m: _Match, first: ir.For, second: ir.For) -> _Match | None:
        """Whether a loop computes what another does; the variables that the second has besides must be for saving."""
        one, two = self.forward.inner(), self.back.inner()
        one.of[first.body.params[0]] = two.of[second.body.params[0]] = one.number("counter")
        params, others = first.body.params[1:], second.body.params[1:]
        left = list(range(len(others)))
        for j, a in enumerate(first.inits):
            value = one.atom(a)
            at = next((q for q in left if two.atom(second.inits[q]) == value), None)
            m.same.append(at)
            one.of[params[j]] = one.number("carried", j)
            if at is not None:
                left.remove(at)
                two.of[others[at]] = one.of[params[j]]
        for s in first.body.stms:
            one.note(s)
        for s in second.body.stms:
            two.note(s)
        pairs = [(a, second.body.result[q]) for a, q in zip(first.body.result, m.same, strict=True) if q is not None]
        if not pairs or not SAME(all(one.atom(a) == two.atom(b) for a, b in pairs)):
            return None
        m.saving = left
        return m if SAVING(all(self.saves(second, q) for q in left)) else None

    def saves(self, loop: ir.For, q: int) -> bool:
        """Whether all that a loop does with the variable is to save a row in each iteration."""
        p, counters = loop.body.params[q + 1], _as_i64(loop.body, loop.body.params[:1])
        users = [s for s in loop.body.stms if p in ir.stm_free(s)]
        if len(users) != 1 or p in loop.body.result:
            return False
        (s,) = users
        e = s.exp
        if type(e) is not ir.Update or e.array is not p or [*e.index] not in [[c] for c in counters] or e.check:
            return False
        read = any(s.pat[0] in ir.stm_free(x) for x in loop.body.stms)
        # What the forward sweep saves in starts as scratch.
        scratch = {s.pat[0] for s in self.r.body.stms if type(s.exp) is ir.Scratch}
        if not EACH_ROW(loop.inits[q] in scratch or shape_of(p.type)[0] is loop.bound):
            return False
        return loop.body.result[q] is s.pat[0] and SAVES_ALONE(not read)

    def wanted(self, m: _Match) -> list[int]:
        """The results of the loop that the return sweep's other statements use."""
        used = {v for k, x in enumerate(self.r.body.stms) if k != m.back for v in ir.stm_free(x)}
        used.update(a for a in self.r.body.result if type(a) is Var)
        return [q for q, v in enumerate(self.r.body.stms[m.back].pat) if v in used]

    def loop_pays(self, m: _Match) -> bool:
        s = self.r.body.stms[m.back]
        found, rows = [s.pat[q].type for q in self.wanted(m)], [row.unknown_sizes for row in self.rows]
        types = [t for t in found if isinstance(t, ArrayType) and any(t.unknown_sizes <= row for row in rows)]
        if types != found:
            return False
        assert type(s.exp) is ir.For
        saved = sum(t.known_size for t in types)
        cost = _known(s.exp.bound) * _cost(s.exp.body)
        return pays(cost // max(saved, 1), saved, max(t.known_size for t in self.rows))

    def save_loop(self, m: _Match) -> bool:
        """Let the forward sweep's loop be that of the return sweep, saving straight to where it is kept."""
        old, again = self.f.body.stms[m.forward], self.r.body.stms[m.back]
        first, second = old.exp, again.exp
        assert type(first) is ir.For and type(second) is ir.For
        names = self.names(m)
        known = {v: names[n] for v, n in self.back.of.items() if n in names and v in self.own[1]}
        body = self.without_histories(second.body, names)
        free = {v for v in body.free() if v in self.own[1]}
        if not KNOWN(free <= known.keys()):
            return False
        # An array that is overwritten is still there if the forward sweep's own loop reads it.
        read = first.body.free()
        arrays = {known[v] for v in free if v in known} | {v for v in body.free() if v not in second.body.free()}
        if not THERE(not any(self.alias.mutable(a) and a not in read for a in arrays)):
            return False
        rest = self.besides(m, first)
        if rest is None:
            return False
        wanted = self.wanted(m)
        final: dict[int, Var] = {}
        for q in wanted:
            if q in m.saving:
                self.room_for(again.pat[q].type)
            else:
                self.save(m.forward, old.pat[m.same.index(q)])
            final[q] = self.kept[-1][3]
        filled = {q: next(k for k in self.kept if k[3] is final[q]) for q in wanted if q in m.saving}
        copy = ir.rename(body, dict[Var, Atom](known))
        pairs = zip(first.body.params[1:], m.same, strict=True)
        params = [Var(p.name, p.type) if q is None else copy.params[q + 1] for p, q in pairs]
        own = ir.Renamer(dict(zip(first.body.params, (copy.params[0], *params), strict=True)))
        besides = own.stms(rest)
        ends = zip(first.body.result, m.same, strict=True)
        results = [own.atom(a) if q is None else copy.result[q] for a, q in ends]
        params += [Var("saved", now.type) for _, now, _, _ in filled.values()]
        stms = list(copy.stms)
        for q, p in zip(filled, params[len(m.same) :], strict=True):
            at = next(k for k, s in enumerate(stms) if s.pat and s.pat[0] is copy.result[q])
            e = stms[at].exp
            assert type(e) is ir.Update
            new = Var("saved", p.type)
            stms[at] = Stm((new,), ir.Update(p, (self.at, *e.index), e.value, None))
            results.append(new)
        gone = {copy.params[q + 1] for q in m.saving if q not in filled}
        stms = [s for s in stms if not gone & ir.stm_free(s).keys()] + besides
        inits = (*first.inits, *[now for _, now, _, _ in filled.values()])
        pat = (*old.pat, *[then for _, _, then, _ in filled.values()])
        body = Lambda((copy.params[0], *params), tuple(stms), tuple(results))
        self.stms[0][m.forward][0] = Stm(pat, ir.For(first.bound, inits, body), old.attrs)
        self.stms[1][m.back] = [s for q in wanted for s in self.read(again.pat[q], final[q], m.back)]
        return True

    def besides(self, m: _Match, first: ir.For) -> list[Stm] | None:
        """What the forward sweep's loop does for variables of which the return sweep's has none; None if that
        overwrites others."""
        own = [k for k, q in enumerate(m.same) if q is None]
        needed = {a for k in own if type(a := first.body.result[k]) is Var}
        stms: list[Stm] = []
        for s in reversed(first.body.stms):
            if not needed.isdisjoint(s.pat):
                stms.append(s)
                needed.update(ir.stm_free(s))
        root, params = self.alias.root, first.body.params[1:]
        mine = {root(params[k]) for k in own} | {root(v) for s in stms for v in s.pat}
        mine -= {root(p) for p, q in zip(params, m.same, strict=True) if q is not None}
        overwritten = {r for s in stms for r in consumed_roots(s.exp, self.alias)}
        return stms[::-1] if OWN_OVERWRITTEN(overwritten <= mine) else None

    def names(self, m: _Match) -> dict[int, Var]:
        """The variables of the forward sweep's iteration, by value numbers, as far as they are there before the
        loop."""
        names: dict[int, Var] = {self.forward.atom(p): p for p in self.f.body.params}
        for s in self.f.body.stms[: m.forward]:
            for v in s.pat:
                if v in self.forward.of:
                    names.setdefault(self.forward.of[v], v)
        return names

    def without_histories(self, lam: Lambda, names: dict[int, Var]) -> Lambda:
        """The scope with reads of what the forward sweep saved in this iteration, which it has saved only when its loop
        is done, as reads of the values it saves."""

        def read(s: Stm) -> Stm:
            e = s.exp
            if type(e) is not ir.At or e.array not in self.back.saved:
                return ir.map_scopes(s, scope)
            value = names.get(self.back.saved[e.array])
            if value is None or self.back.atom(e.index[0]) != self.back.iteration:
                return s
            rest = e.index[1:]
            return Stm(s.pat, ir.At(value, rest, e.check) if rest else ir.Alias(value), s.attrs)

        def scope(inner: Lambda) -> Lambda:
            return Lambda(inner.params, tuple([read(s) for s in inner.stms]), inner.result)

        return scope(lam)


def _maps(loop: ir.For) -> list[tuple[int, ir.Mapping]]:
    """The maps without scopes inside among the loop's statements, by place."""
    maps = [(k, s.exp) for k, s in enumerate(loop.body.stms) if isinstance(s.exp, ir.Mapping)]
    return [(k, e) for k, e in maps if not any(t.exp.lambdas() for t in e.lam.stms)]


def _costly(values: Values, e: ir.Mapping) -> dict[int, Var]:
    """The scalars of a map's elements that cost much, by their numbers."""
    inside, out = values.mapped(e), dict[int, Var]()
    for s in e.lam.stms:
        if is_costly(s.exp) and values.table.varies[inside.atom(s.pat[0])]:
            out.setdefault(inside.atom(s.pat[0]), s.pat[0])
    return out


def is_costly(e: ir.Exp) -> bool:
    """Whether it is an operation that a value is rather saved of."""
    return type(e) is ir.Op and not OPS[e.op].can_fail and pays(OPS[e.op].cost, 1, 1)


def _checks(lam: Lambda) -> bool:
    """Whether anything in the scope may fail or is seen from outside."""
    for s in lam.stms:
        e = s.exp
        if e.effect or getattr(e, "check", None) is not None:
            return True
        if any(_checks(inner) for inner in e.lambdas()):
            return True
    return False


def _cost(lam: Lambda) -> int:
    """The scalar operations of a scope and its maps, for an element each where it is not known how many there are."""
    own = sum(OPS[s.exp.op].cost for s in lam.stms if type(s.exp) is ir.Op)
    return own + sum(_known(s.exp.width) * _cost(s.exp.lam) for s in lam.stms if type(s.exp) is ir.Map)


def _known(n: Atom) -> int:
    """A size, or 1 as `_constant` has it for one that is not known."""
    return max(1, n.value) if type(n) is Const else 1


__all__ = ["DEAR", "Sweeps", "is_costly", "pays", "remat", "saved"]
