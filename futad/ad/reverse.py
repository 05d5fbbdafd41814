"""Reverse mode: the driver of the return sweep.

Source: Schenck, Rønning, Henriksen and Oancea, "AD for an Array Language with Nested Parallelism", SC 2022.
There is no tape.  A scope's statements are emitted (the forward sweep) and then walked backwards, each
emitting code that adds to the adjoints of its operands (the return sweep).  Entering a nested scope in the
return sweep re-executes its forward statements, so that every value it reads is in lexical scope; for
perfect nests the first execution is dead code afterwards.  Only sequential loops save values.

Note [Adjoints]
An adjoint starts as nothing (zero), is defined by its first contribution, and grows by addition.  Where it
lives depends on the scope that adds to it:

* `root`: a scalar or an array of the variable's type, later ones replacing earlier ones.
* `branch`: starts from the enclosing scope's adjoint; the `If` returns what either branch changed.
* `loop`: an adjoint of a variable from outside becomes a loop variable (`captured`).
* `map`: a scalar from outside collects a contribution per element (summed after the map); an array from
  outside becomes an accumulator (`captured`), opened by the nearest scope that is not parallel.  A parameter
  of a map over an array whose adjoint is an accumulator is a *view* of it: a contribution to the parameter
  at an index goes to the accumulator at the element's index followed by that index.  A part of an array that was
  taken outside, which each element folds or maps beside other parts of the array, has an accumulator of its own: so
  what is added there is a sum over the map.
* `task`: as in a map; but parts of arrays that were taken outside have accumulators of their own, so that what
  two tasks add to is apart where they have different parts.

The adjoint of an accumulator of the program itself (a vjp of a vjp) is the adjoint of the array it ends as,
which is only read.

Note [Points]
The adjoint of an array that a map yields stays a few points while only elements of it were contributed to:
the result of a minimum, or xs[0].  The return sweep of that map is then its body at these elements instead of
all of them (section 5.1.1 of the paper).  Each point is a copy of the body's return sweep, so an array that is
known to have few elements gets an array of adjoints at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from futad.ad.activity import propagate
from futad.ad.emit import add_to_acc, coerce, within
from futad.ad.history.counts import Counts
from futad.ad.history.split import Leaf
from futad.ad.history.stripmine import stripmine
from futad.ad.inverse.lost_bits import Functions
from futad.ad.kept import SAME_SIZES, mark
from futad.ad.table import rule_of
from futad.ad.tidy.final_updates import drop_final_updates
from futad.ad.tidy.opened import opened
from futad.ad.tidy.take_back import substitute
from futad.ad.tidy.without_accumulators import strip_stm
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.sweeps import marked
from futad.core.type_rules import index_type
from futad.core.types import (
    I64,
    ONE,
    ZERO,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    elem_of,
    shape_of,
    subst_type,
    zero,
)
from futad.errors import Span

Swept = list[tuple[ir.Stm, ir.Stm]]


@dataclass(frozen=True, slots=True)
class How:
    """`sequential`: the code is to run on one thread, or few.  `budget`: what may be kept of loops.  `tangents`,
    `adjoints`: how many forward and reverse derivatives will be taken of what is emitted.  `loops`: how many share the
    budget.  `inside`: whether there are reverse derivatives inside, which keep something too.  `keeps`: calls keep
    records, and no derivative is taken of what is emitted.  `functions` that are added to the program.  `put_back`: by
    array, those that hold its value where it may have been overwritten.
    """

    sequential: bool = False
    budget: Budget | None = None
    tangents: int = 0
    adjoints: int = 0
    loops: int = 1
    inside: bool = False
    keeps: bool = False
    functions: Functions = field(default_factory=Functions)
    put_back: dict[Var, list[Var]] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    """What the scopes of one derivative share.

    `active`: variables that depend on the arguments.  `replicas`: arrays that repeat one element along the
    outer dimension, so that a map over one can use the element itself.  `mapped`: arrays that a map yields,
    whose adjoints may be `Point`s.  `final`: arrays of loop variables that the return sweep reads from the loop's
    result (see `dependence.py`), and that result.  `rooms`: for a loop that stripmining made (by its first result)
    how many elements it saves of each variable of changing size, one number an iteration of the loop around it.
    `not_undone`: why variables of a loop (by its first result) are not run backwards, by name.
    `slices`: arrays that are views of others, with the index.  `stretches`, for few threads: arrays that are a part of
    another one without gaps along its outer dimension, and which.
    `leaves`: of loops whose iterations are blocks of another's (by their first result), these blocks.
    `places`: what makes arrays of i64, which may be where iterations read and write others.
    """

    how: How = field(default_factory=How)
    active: set[Var] = field(default_factory=set)
    replicas: dict[Atom, Atom] = field(default_factory=dict)
    mapped: set[Var] = field(default_factory=set)
    final: dict[Var, Atom] = field(default_factory=dict)
    rooms: dict[Var, tuple[dict[int, Var], Var]] = field(default_factory=dict)
    not_undone: dict[Var, dict[str, str]] = field(default_factory=dict)
    leaves: dict[Var, Leaf] = field(default_factory=dict)
    slices: dict[Var, tuple[Var, ir.Index]] = field(default_factory=dict)
    stretches: dict[Var, tuple[Var, Range]] = field(default_factory=dict)
    places: dict[Var, ir.Stm] = field(default_factory=dict)


def _may_repeat(index: ir.Index) -> bool:
    """Whether the positions of an index may coincide (a stride of 0 or unknown)."""
    return any(isinstance(i, Range) and not (isinstance(i.stride, Const) and i.stride.value) for i in index)


@dataclass(slots=True, frozen=True)
class Point:
    """An adjoint that is zero but for one element; `guarded` if the index may be out of range, where that is an error
    with its place."""

    index: Atom
    value: Atom
    guarded: bool
    check: Span | None = None


MAX_POINTS = 2  # more points than these are kept as an array


class Scope:
    """One scope of the program in the return sweep: its code and the adjoints it knows.

    `kind` is 'root', 'branch', 'loop', 'map' or 'task' (see Note [Adjoints]); `local` the primal variables bound
    here; `adj` the adjoints of local and of outside variables as far as this scope changed them.  `counts`, of a loop
    that can save them: how many iterations its `while` loops take.
    """

    __slots__ = (
        "kind", "parent", "ctx", "b", "adj", "local", "captured", "views", "stripped", "points", "widths", "counts",
        "apart", "_pending",
    )  # fmt: skip

    def __init__(self, kind: str, parent: Scope | None, ctx: Context, b: Builder | None = None) -> None:
        self.kind = kind
        self.parent = parent
        self.ctx = ctx
        self.b = b if b is not None else Builder()
        self.adj: dict[Var, Atom] = {}
        self.local: set[Var] = set()
        self.captured: dict[Var, Var] = {}
        self.views: dict[Var, tuple[Var, ir.Index]] = {}
        self.stripped: set[Var] = set(parent.stripped) if parent else set()
        self.points: dict[Var, list[Point]] = {}
        self.widths: ir.Atoms = parent.widths if parent else ()  # of the maps around
        self.counts: Counts | None = None
        self.apart: set[Var] = set()  # parts of arrays with accumulators of their own, of a map
        self._pending: list[tuple[ir.Stm | None, Var, Atom]] = []

    def child(self, kind: str) -> Scope:
        return Scope(kind, self, self.ctx)

    def isolated(self) -> Scope:
        """A scope inside that knows no adjoints of outside: what it finds are derivatives to be multiplied with one."""
        inner = Scope("root", None, self.ctx)
        inner.stripped, inner.widths = set(self.stripped), self.widths
        return inner

    # -- the two sweeps

    def forward(self, stms: Iterable[ir.Stm]) -> Swept:
        """Emit the statements; returns what `back` walks."""
        swept: Swept = []
        budget = self.ctx.how.budget
        free = budget is None or not budget.limits
        for stm in [marked(part, free) for whole in opened(stms) for part in stripmine(whole)]:
            self.local.update(stm.pat)
            propagate((stm,), self.ctx.active)
            if isinstance(stm.exp, ir.Map):
                self.ctx.mapped.update(stm.pat)
            elif self.ctx.how.keeps and isinstance(stm.exp, ir.At | ir.Alias | ir.Reshape):
                self._slice(stm.pat[0], stm.exp)
            match stm.exp:
                case ir.At(Var() as a, (Range(_, _, Const(value=1)) as part,)) if self.ctx.how.sequential:
                    self.ctx.stretches[stm.pat[0]] = a, part
            if isinstance(stm.exp, ir.Map | ir.Iota):
                self.ctx.places.update((v, stm) for v in stm.pat if elem_of(v.type) is I64)
            emitted = strip_stm(stm, self.stripped)
            if emitted is not None:
                emitted = drop_final_updates(emitted, self.ctx.final)
            if emitted is not None:
                self.b.add(emitted)
            swept.append((stm, emitted or stm))
        return swept

    def _slice(self, v: Var, e: ir.At | ir.Alias | ir.Reshape) -> None:
        (a,), index = e.views(), e.index if isinstance(e, ir.At) else ()
        if not isinstance(v.type, ArrayType) or not isinstance(a, Var) or _may_repeat(index):
            return
        if isinstance(e, ir.Reshape):  # the same sizes by other names: of as many elements, and all but one are
            before, after = shape_of(a.type), v.type.shape
            if len(before) != len(after):
                return
            if not SAME_SIZES(sum(x is not y for x, y in zip(before, after, strict=True)) <= 1):
                return
        self.ctx.slices[v] = a, index

    def back(self, swept: Swept) -> None:
        """The return sweep over statements emitted by `forward`."""
        for stm, emitted in reversed(swept):
            if any(v in self.adj or v in self.points for v in stm.pat):
                first = len(self.b.stms)
                rule_of(stm.exp).vjp(self, stm, emitted)
                self.b.locate(first, stm.pat[0].at)

    def take(self, v: Var) -> Atom | None:
        """The finished adjoint of a variable bound here (None: zero)."""
        self.materialise_points(v)
        return self.adj.pop(v, None)

    def count(self, stm: ir.Stm) -> Var | None:
        """How many iterations a `while` loop takes, if the forward sweep of the loop around it is to say so."""
        counts = self.saved_counts()
        return None if counts is None else counts.of(stm)

    def saved_counts(self) -> Counts | None:
        """What the loop around can save of the numbers of iterations."""
        s: Scope | None = self
        while s is not None and s.kind == "branch":
            s = s.parent
        return None if s is None else s.counts

    def is_active(self, a: Atom) -> TypeGuard[Var]:
        return type(a) is Var and a in self.ctx.active

    # -- adjoints

    def view_of(self, v: Var) -> tuple[Var, ir.Index] | None:
        """The array with an accumulator that `v` is a part of, and which."""
        s: Scope | None = self
        while s is not None:
            if v in s.views:
                return s.views[v]
            if v in s.local:
                break
            if s.kind == "task" or v in s.apart:
                return None
            s = s.parent
        found = self.ctx.slices.get(v)
        return found if found is not None and self.is_active(found[0]) and self.in_acc(found[0]) else None

    def parts_apart(self, lam: ir.Lambda) -> set[Var]:
        """The parts, taken here, of arrays that a map reads otherwise, too, if each element of the map goes through all
        of the part: so what it costs to add it to the array's adjoint is no more than that."""
        free, slices = lam.free(), self.ctx.slices
        through = {a for t in lam.stms if isinstance(t.exp, ir.Map | ir.Reduce) for a in t.exp.arrays}
        return {v for v in free if v in slices and v in through and slices[v][0] in free}

    def in_acc(self, v: Atom) -> bool:
        """Whether contributions to the array `v` from here go to an accumulator."""
        assert isinstance(v, Var)
        if self.view_of(v) is not None:
            return True
        if v in self.adj:
            return isinstance(self.adj[v].type, AccType)
        if v in self.local or self.parent is None:
            return False
        return self.kind in ("map", "task") or self.parent.in_acc(v)

    def grab(self, v: Var) -> Atom | None:
        """The adjoint of `v` to add to here, captured from outside if need be; None for zero."""
        self.materialise_points(v)
        if v in self.adj or v in self.local or self.parent is None:
            return self.adj.get(v)
        if self.kind == "branch":
            return self.parent.grab(v)
        scalar = isinstance(v.type, Prim)
        if self.kind in ("map", "task") and scalar:
            return None
        as_acc = not scalar and self.in_acc(v)
        t = AccType(elem_of(v.type), shape_of(v.type)) if as_acc else v.type
        self.captured[v] = self.adj[v] = Var(f"{v.name}_bar", t)
        return self.adj[v]

    def add(self, a: Atom, c: Atom, index: ir.Index = (), check: Span | None = None) -> None:
        """Contribute: the adjoint of `a` at `index` grows by `c`; `check` as in `At`.

        What was read there is dead code where nothing but its adjoint is wanted, and its check with it.
        """
        if type(a) is not Var or a not in self.ctx.active:
            return
        if isinstance(a.type, AccType):
            self.adj[a] = c
            return
        if isinstance(a.type, ArrayType) and (view := self.view_of(a)) is not None:
            self.add(view[0], c, within(self.b, view[1], index), check)
            return
        if len(index) == 1 and not isinstance(index[0], Range) and self._point(a, Point(index[0], c, False, check)):
            return
        now = self.grab(a)
        if now is not None and isinstance(now.type, AccType):
            self.adj[a] = add_to_acc(self.b, now, index, c, check)
        elif not index:
            c = self.coerce(c, a.type)
            self.adj[a] = c if now is None else self.b.plus(now, c, hint=f"{a.name}_bar")
        else:
            self.adj[a] = self._add_at(a, now, index, c, check)

    def _add_at(self, a: Var, now: Atom | None, index: ir.Index, c: Atom, check: Span | None) -> Atom:
        b, hint = self.b, f"{a.name}_bar"
        whole = now if now is not None else b.zeros(a.type, hint)
        if _may_repeat(index):
            return self.scatter_add([(a, whole)], lambda inner, accs: [add_to_acc(inner, accs[0], index, c, check)])[0]
        c = self.coerce(c, index_type(a.type, index))
        if now is not None:
            c, check = b.plus(b.let(ir.At(whole, index, check), "old"), c), None
        return b.let(ir.Update(whole, index, c, check), hint)

    def add_one(self, a: Atom, at: Atom, c: Atom) -> None:
        """Contribute `c` to the element `at` of the vector `a`, if that is in range."""
        if type(a) is not Var or a not in self.ctx.active:
            return
        if self.in_acc(a):
            self.add(a, c, (at,))
            return
        if self._point(a, Point(at, c, True)):
            return
        now = self.grab(a)
        if now is None:
            n = shape_of(a.type)[0]
            where = self.b.let(ir.Iota(n, ZERO, ONE), "is")
            nothing = zero(elem_of(a.type))
            self.adj[a] = self.b.zip_with(lambda b, i: b.op("select", b.op("eq", i, at), c, nothing), where)
        else:
            self.adj[a] = self.scatter_add([(a, now)], lambda b, accs: [add_to_acc(b, accs[0], (at,), c)])[0]

    def _point(self, a: Var, p: Point) -> bool:
        """Keep a contribution as a point if the adjoint is none or points."""
        if a not in self.local or a not in self.ctx.mapped or a in self.adj:
            return False
        width = shape_of(a.type)[0]
        if isinstance(width, Const) and width.value <= 4 * MAX_POINTS:
            return False
        if len(self.points.setdefault(a, [])) == MAX_POINTS:
            return False
        self.points[a].append(p)
        return True

    def materialise_points(self, v: Var) -> None:
        """Make an array of an adjoint that is points."""
        if v not in self.points:
            return
        points = self.points.pop(v)
        self.ctx.mapped.discard(v)
        for p in points:
            if p.guarded:
                self.add_one(v, p.index, p.value)
            else:
                self.add(v, p.value, (p.index,), p.check)

    def scatter_add(
        self, arrays: Sequence[tuple[Var, Atom]], f: Callable[[Builder, tuple[Var, ...]], Sequence[Atom]]
    ) -> ir.Atoms:
        """Open accumulators on the given current adjoints, run `f(builder, accs)`; the new adjoints."""
        params = [(f"{v.name}_acc", AccType(elem_of(v.type), shape_of(v.type))) for v, _ in arrays]
        lam = self.b.lambda_(params, lambda inner, *accs: f(inner, accs))
        return self.b.emit(ir.WithAcc(tuple([a for _, a in arrays]), "add", lam), *[f"{v.name}_bar" for v, _ in arrays])

    def coerce(self, a: Atom, t: Type) -> Atom:
        out = coerce(self.b, a, t)
        if out is not a and a in self.ctx.replicas:
            self.ctx.replicas[out] = self.ctx.replicas[a]
        return out

    def replicate(self, n: Atom, elem: Atom) -> Var:
        """`elem` repeated n times, remembered as such."""
        out = self.b.let(ir.Replicate((n,), elem), "rep")
        self.ctx.replicas[out] = elem
        return out

    def element(self, array: Atom) -> Atom | None:
        """The element an array repeats, if it is known to."""
        return self.ctx.replicas.get(array)

    def dense(self, v: Var) -> Atom:
        """The adjoint of a variable of this scope as a value, zero if there is none."""
        self.materialise_points(v)
        found = self.adj.get(v)
        return self.b.zeros(v.type, f"{v.name}_bar") if found is None else found

    def outside(self) -> list[Var]:
        """Variables from outside whose adjoints this scope changed, in order of first change."""
        return [v for v in self.adj if v not in self.local]

    def replace(self, emitted: ir.Stm, stms: Sequence[ir.Stm]) -> None:
        """Put other statements where `emitted` stands."""
        at = next(i for i, s in enumerate(self.b.stms) if s is emitted)
        self.b.stms[at : at + 1] = stms

    # -- primal arrays put back

    def restored(self, old: Atom, new: Atom) -> None:
        """From here on `new` holds the value of `old`, which the forward sweep may have overwritten."""
        if isinstance(old, Var):
            self._pending.append((self.b.stms[-1] if self.b.stms else None, old, new))
            if isinstance(new, Var):
                self.ctx.how.put_back.setdefault(old, []).append(new)

    def current(self, v: Var) -> Atom:
        """What holds the value of `v` at the end of the scope."""
        return next((new for _, old, new in reversed(self._pending) if old is v), v)

    def code(self) -> list[ir.Stm]:
        """The scope's statements, reading restored and final arrays instead of overwritten ones."""
        out: list[ir.Stm] = []
        mapping: dict[Var, Atom] = dict(self.ctx.final)
        marks: dict[int, list[tuple[Var, Atom]]] = {}
        for stm, old, new in self._pending:
            marks.setdefault(id(stm), []).append((old, new))
        for stm in self.b.stms:
            out.append(substitute(stm, mapping) if mapping else stm)
            mapping.update(marks.get(id(stm), ()))
        return out

    def settled(self) -> None:
        """The code reads what it should: nothing else is restored."""
        self._pending.clear()

    # -- whole scopes in line

    def inline(
        self, lam: ir.Lambda, args: Sequence[Atom], wrt: Sequence[bool], seeds: Sequence[Atom | None]
    ) -> list[Atom | None]:
        """The vjp of `lam` at `args` emitted here, in parameters `wrt` and in active free variables.

        Returns the adjoints of the parameters (None: zero or not asked for).
        """
        copy = ir.Renamer()
        params: list[Var] = []
        for p, a, w in zip(lam.params, args, wrt, strict=True):
            q = copy.bind(p)
            self.b.add(ir.Stm((q,), ir.Alias(a)))
            params.append(q)
            self.local.add(q)
            if w:
                self.ctx.active.add(q)
        swept = self.forward(copy.stms(lam.stms))
        for r, seed in zip(lam.result, seeds, strict=True):
            if seed is not None:
                self.add(copy.atom(r), self.coerce(seed, copy.atom(r).type))
        self.back(swept)
        return [self.take(q) for q in params]


@dataclass(slots=True)
class SplitSweeps:
    """The sweeps of a function, which become two: `accs` are the accumulators of some arguments' adjoints, by number;
    `seeds` the adjoints of the results (None: zero); `end` is where the first sweep ends."""

    accs: dict[int, Var]
    seeds: Sequence[Atom | None]
    end: Var | None = None


def expand_vjp(b: Builder, e: ir.Vjp, how: How, split: SplitSweeps | None = None) -> tuple[list[Atom], list[Atom]]:
    """Emit the code of a `Vjp`: primal results, adjoints of the arguments (which `split` has accumulators for: these).
    """
    copy = ir.Renamer()
    root = Scope("root", None, Context(how), b)
    params: list[Var] = []
    for p, a in zip(e.lam.params, e.args, strict=True):
        q = Var(p.name, subst_type(p.type, copy.mapping))
        copy.mapping[p] = q
        b.add(ir.Stm((q,), ir.Alias(a) if a.type == q.type else ir.Reshape(a, shape_of(q.type))))
        params.append(q)
    root.local.update(params)
    root.ctx.active.update(params)
    swept = root.forward(copy.stms(e.lam.stms))
    results = [copy.atom(r) for r in e.lam.result]
    if split is not None:
        split.end = mark(root)
        root.adj.update({params[k]: acc for k, acc in split.accs.items()})
    for r, ybar in zip(results, e.adjoints if split is None else split.seeds, strict=True):
        if ybar is not None:
            root.add(r, root.coerce(ybar, r.type))
    root.back(swept)
    b.stms[:] = root.code()
    adjoints = []
    for q, a in zip(params, e.args, strict=True):
        bar = root.dense(q)
        adjoints.append(bar if isinstance(bar.type, AccType) else coerce(b, bar, a.type))
    return results, adjoints
